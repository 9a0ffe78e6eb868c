"""Campaigns on workers in this process: their figures and refusals."""

from __future__ import annotations

import json
import logging
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

import pinion.campaign.measure as measuring
import pinion.campaign.worker as running
from pinion.campaign import CampaignError, ClusterError, campaign, read_results
from pinion.campaign.cluster import cluster, own_device, refuse_others, wanted, worker_resources
from pinion.campaign.parcel import BuildParcel, reference_of, unpack
from pinion.campaign.plan import make_plan, plan_identity
from pinion.card.programs import ProgramReference
from pinion.cosim.compiled import CompiledCore
from pinion.cosim.reference import Reference
from pinion.cosim.stream import pack_records
from pinion.flow.build import Build
from pinion.functions import named_function
from pinion.link import ManifestError
from pinion.link.relative import relative_errors
from pinion.processor import Machine, compile_program
from pinion.processor.accuracy import accuracies
from pinion.processor.folder import ProgramFolder, write_program
from pinion.robot import load


def _figures(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name != "run"}


def _plan(folder: Path, **options: Any) -> Any:
    defaults = {
        "device": "integers",
        "states": 1000,
        "distribution": "reference",
        "seed": 0,
        "chunk": 300,
        "keep": False,
        "max_error": None,
        "words": None,
    }
    return make_plan(reference_of(folder).build, **(defaults | options))


def test_it_finds_what_all_states_at_once_give(
    small: Path, threads: Client, tmp_path: Path
) -> None:
    result = campaign(
        small, tmp_path / "c", states=1000, chunk=300, device="integers", client=threads
    )
    build, plan = Build.read(small), _plan(small)
    words = np.concatenate([plan.words(build, number) for number in range(4)])
    assert len(words) == 1000
    assert len(np.unique(words, axis=0)) == 1000  # no chunk is another one's
    reference = Reference(build)
    bits, flags = reference.expected(words)
    floats = reference.float_model(words)
    error = np.abs(bits.view(np.float32).astype(np.float64) - floats)
    relative = relative_errors({"tau": error}, {"tau": floats}, build.manifest.scales)["tau"]
    errors = result["relative"]["tau"]
    assert not flags.any()
    assert (errors["max"], errors["at"]) == (relative.max(), relative.argmax())
    for name, share in (("median", 0.5), ("p99", 0.99)):
        low, high = errors[name]
        assert low <= np.quantile(relative, share, method="inverted_cdf") < high
    for k, (_, worst) in enumerate(result["error_max"].items()):
        assert (worst["value"], worst["at"]) == (error[:, k].max(), error[:, k].argmax())
    assert errors["request"]["q"] == reference.arrays(words)["q"][errors["at"]].tolist()
    assert result["ok"]
    assert (result["finished"], result["valid"], result["mismatches"]) == (1000, 1000, None)


@pytest.mark.parametrize("device", ["rtl", "sim"])
def test_hardware_is_compared_bit_for_bit(
    device: str, small: Path, threads: Client, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"states": 400, "chunk": 150, "client": threads}
    result = campaign(small, tmp_path / "c", device=device, **options)
    exact = campaign(small, tmp_path / "exact", device="integers", **options)
    assert result["ok"]
    assert result["mismatches"] == 0
    assert result["relative"] == exact["relative"]
    assert result["error_max"] == exact["error_max"]


@pytest.mark.parametrize("field", ["beats", "user", "last"])
def test_one_wrong_bit_is_found_and_named(
    field: str, small: Path, threads: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = CompiledCore.run

    def defective(core: CompiledCore, beats: Any, *rest: Any, **options: Any) -> Any:
        result = real(core, beats, *rest, **options)
        if np.array_equal(beats, spoiled):
            array = getattr(result, field)
            array[2 * (len(array) // 100) + 1] ^= 1  # the second beat of request 2 of the chunk
        return result

    build, plan = Build.read(small), _plan(small, device="rtl", states=300, chunk=100)
    m = build.manifest
    assert m.beats_out == 2
    spoiled, _ = pack_records(plan.words(build, 1), lanes=m.lanes_in, beats=m.beats_in)
    monkeypatch.setattr(CompiledCore, "run", defective)
    result = campaign(small, tmp_path / "c", states=300, chunk=100, client=threads)
    assert not result["ok"]
    assert (result["mismatches"], result["first_mismatch"]) == (1, 102)


@pytest.mark.parametrize("device", ["cpu", "float"])
def test_floats_are_judged_by_the_error_that_is_allowed(
    device: str, small: Path, threads: Client, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"states": 300, "chunk": 100, "client": threads, "device": device}
    result = campaign(small, tmp_path / "c", max_error=1e-9, **options)
    assert result["ok"]
    assert (result["mismatches"], result["outside"]) == (None, None)
    assert result["relative"]["tau"]["max"] < 1e-9
    strict = campaign(small, tmp_path / "strict", max_error=0.0, distribution="stress", **options)
    assert (strict["wrong"] > 0) == (device == "cpu")  # NumPy is what errors are relative to
    assert strict["ok"] == (device == "float")


def test_results_and_requests_of_the_users_own(
    small: Path, threads: Client, tmp_path: Path
) -> None:
    rng = np.random.default_rng(1)
    arrays = {name: rng.uniform(-1, 1, (250, 2)).astype(np.float32) for name in ("q", "qd", "qdd")}
    arrays["qdd"] = arrays["qdd"][0]  # one for all
    file = tmp_path / "c"
    result = campaign(
        small, file, arrays=arrays, chunk=100, keep=True, device="float", client=threads
    )
    assert (result["states"], result["distribution"], result["ok"]) == (250, "given", True)
    parts = list(read_results(file))
    assert [start for start, _ in parts] == [0, 100, 200]
    tau = np.concatenate([part["tau"] for _, part in parts])
    build = Build.read(small)
    whole = {**arrays, "qdd": np.broadcast_to(arrays["qdd"], (250, 2))}
    expected = build.function.evaluate(
        build.model, {name: array.astype(np.float64) for name, array in whole.items()}
    )["tau"]
    assert np.allclose(tau, expected, rtol=1e-12, atol=1e-12)
    arrays["q"][7, 0] += 1.0
    with pytest.raises(CampaignError, match="requests"):
        campaign(small, file, arrays=arrays, chunk=100, keep=True, device="float", client=threads)


def test_chunks_that_are_lost_are_made_again_as_they_were(
    small: Path, threads: Client, tmp_path: Path
) -> None:
    file = tmp_path / "c"
    options: dict[str, Any] = {"states": 600, "chunk": 100, "device": "rtl", "client": threads}
    whole = campaign(small, file, **options)
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("DELETE FROM chunks WHERE number IN (0, 3, 5)")
    progress: list[int] = []
    again = campaign(small, file, on_chunk=lambda now: progress.append(now.finished), **options)
    assert _figures(again) == _figures(whole)
    assert again["run"]["resumed_chunks"] == 3
    assert progress == [400, 500, 600]
    assert campaign(small, file, **options)["run"]["resumed_chunks"] == 6
    # Another record changes the digest.
    with closing(sqlite3.connect(file)) as database, database:
        (text,) = database.execute("SELECT figures FROM chunks WHERE number = 3").fetchone()
        data = json.loads(text)
        data["absolute"]["tau[0]"][0] *= 1000
        database.execute("UPDATE chunks SET figures = ? WHERE number = 3", (json.dumps(data),))
    assert campaign(small, file, **options)["digest"] != whole["digest"]


def test_a_chunk_that_fails_is_named_and_tried_again(
    small: Path, threads: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = measuring.measure

    def failing(plan: Any, number: int, *rest: Any) -> Any:
        if number == 1:
            raise ZeroDivisionError("by a tired core")
        return real(plan, number, *rest)

    options: dict[str, Any] = {"states": 300, "chunk": 100, "device": "integers"}
    monkeypatch.setattr(measuring, "measure", failing)
    result = campaign(small, tmp_path / "c", client=threads, **options)
    assert not result["ok"]
    assert result["finished"] == 200
    assert result["failures"] == {"1": "Chunk 1: ZeroDivisionError: by a tired core"}
    monkeypatch.setattr(measuring, "measure", real)
    assert campaign(small, tmp_path / "c", client=threads, **options)["ok"]


def test_what_always_fails_ends_the_campaign(
    small: Path, threads: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*rest: Any) -> Any:
        raise ZeroDivisionError("always")

    monkeypatch.setattr(measuring, "measure", failing)
    with pytest.raises(CampaignError, match=r"after 10 failed chunks.*always"):
        campaign(small, tmp_path / "c", states=5000, chunk=100, device="integers", client=threads)


@pytest.mark.parametrize(
    ("options", "needle"),
    [
        ({"device": "abacus"}, "There is no device 'abacus'"),
        ({"device": "rtl:1"}, "There is no device 'rtl:1'"),
        ({"device": "rtl,integers"}, "Every worker has 'rtl'"),
        ({"device": "cuda:0"}, "every worker declares its device"),
        ({"device": "cuda,xdma"}, "must be different and of the same kind"),
        ({"device": "cuda"}, "No worker (1 in all) has the device 'cuda'"),
        ({"states": 0}, "states (--states) must be at least 1, not 0"),
        ({"states": None}, "a number of states"),
        ({"chunk": 0}, "chunk (--chunk) must be at least 1, not 0"),
        ({"states": 10**12}, "set chunk (--chunk) to 1000000 or more"),
        ({"distribution": "wild"}, "There is no distribution 'wild'"),
        ({"distribution": "given"}, "There is no distribution 'given'"),
        ({"max_error": float("nan")}, "max_error (--max-error) must be finite"),
    ],
)
def test_what_does_not_go_together_is_refused(
    options: dict[str, Any], needle: str, small: Path, threads: Client, tmp_path: Path
) -> None:
    with pytest.raises((ValueError, RuntimeError)) as refused:
        campaign(
            small,
            tmp_path / "c",
            client=threads,
            **({"states": 100, "device": "integers"} | options),
        )
    assert needle in str(refused.value)


def test_a_worker_of_another_version_is_refused(
    small: Path, threads: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = plan_identity()
    for theirs, needle in (
        ({**ours, "sources": "0.0.9"}, "has Pinion 0.0.9"),
        ({**ours, "numpy": "1.0"}, "has NumPy 1.0"),
        (ModuleNotFoundError("No module named 'pinion'"), "cannot import Pinion"),
    ):
        with pytest.raises(ClusterError, match="The worker tcp://x") as refused:
            refuse_others("tcp://x", theirs, ours)
        assert needle in str(refused.value)
    # Also a worker that joins after the check.
    monkeypatch.setattr(running, "_identity", lambda worker: {**ours, "sources": "0.0.9"})
    with pytest.raises(ClusterError, match=r"has Pinion 0\.0\.9"):
        campaign(small, tmp_path / "c", states=100, device="integers", client=threads)


def test_dask_logs_nothing_while_a_cluster_is_in_use(threads: Client) -> None:
    """Dask logs connections that close as workers end; all else is reported as an error."""

    def loud() -> list[str]:
        names = [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]
        return [name for name in names if logging.getLogger(name).isEnabledFor(logging.ERROR)]

    initial = loud()
    assert "distributed.client" in initial
    with cluster(threads.scheduler.address):
        assert loud() == []
    assert loud() == initial


def test_an_address_without_a_port_is_refused_at_once() -> None:
    for address in ("foo", "tcp://foo"):
        with (
            pytest.raises(ClusterError, match=r"at '.*foo' \(missing port number in address 'foo'"),
            cluster(address),
        ):
            raise AssertionError("nothing answers there")


def test_more_workers_than_a_machine_takes_are_refused() -> None:
    with pytest.raises(ClusterError, match="100,000 workers"), cluster(None, workers=100_000):
        raise AssertionError("so many were started")


def test_a_device_is_named_by_resources() -> None:
    assert worker_resources("cuda:1") == {"cuda": 1.0, "cuda:1": 1.0}
    assert wanted("cuda") == {"cuda": 1.0}
    assert wanted("rtl") == {}
    assert own_device("cuda", {"cuda": 1.0, "cuda:1": 1.0}) == "cuda:1"
    assert own_device("cuda", {"cuda": 1.0}) == "cuda"
    assert own_device("rtl", {"cuda:1": 1.0}) == "rtl"
    assert own_device("sim", {"sim": 1.0, "sim:top": 1.0}) == "sim:top", "a local worker's"
    with pytest.raises(ClusterError, match="one worker for each"):
        own_device("xdma", {"xdma:0": 1.0, "xdma:1": 1.0})


def test_a_build_arrives_as_it_was_sent(small: Path, tmp_path: Path) -> None:
    parcel = BuildParcel.of(small)
    folder = parcel.unpack(tmp_path)
    assert Build.read(folder).manifest.hash == Build.read(small).manifest.hash
    stamp = (folder / "core.il").stat().st_mtime_ns
    assert parcel.unpack(tmp_path) == folder
    assert (folder / "core.il").stat().st_mtime_ns == stamp  # it was there
    (folder / "core.il").write_text("nothing")
    parcel.unpack(tmp_path)
    assert (folder / "core.il").read_bytes() == (small / "core.il").read_bytes()
    bad = BuildParcel(parcel.digest, {**parcel.files, "graph.txt": parcel.files["core.il"]})
    with pytest.raises(ManifestError, match=r"graph\.txt"):
        bad.unpack(tmp_path / "bad")
    for name in ("../out", "/out"):
        with pytest.raises(CampaignError, match="outside the folder"):
            unpack({name: parcel.files["core.il"]}, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_damaged_build_is_not_sent(small: Path, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(small, folder)
    (folder / "core.v").write_text("")
    with pytest.raises(ManifestError, match=r"core\.v"):
        BuildParcel.of(folder)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    robot, row = load("two_link"), named_function("rnea")
    compiled = compile_program(robot, row, Machine(lanes=2), precision="fast")
    errors = list(accuracies(robot, row, compiled, states=500, seed=1))
    place = tmp_path_factory.mktemp("campaign") / "program"
    return write_program(robot, row, compiled, place, errors)[0].folder


def test_a_program_is_measured_as_a_build_is(
    program: Path, threads: Client, tmp_path: Path
) -> None:
    result = campaign(program, tmp_path / "c", states=1000, chunk=300, client=threads)
    reference = ProgramReference(ProgramFolder.read(program))
    plan = _plan(program, device="processor")
    words = np.concatenate([plan.words(reference.build, number) for number in range(4)])
    bits, flags = reference.expected(words)
    floats = reference.float_model(words)
    error = np.abs(bits.view(np.float32).astype(np.float64) - floats)
    scales = reference.build.manifest.scales
    relative = relative_errors({"tau": error}, {"tau": floats}, scales)["tau"]
    errors = result["relative"]["tau"]
    assert not flags.any() and result["ok"]
    assert (errors["max"], errors["at"]) == (relative.max(), relative.argmax())
    assert (result["device"], result["mismatches"], result["outside"]) == ("processor", None, None)
    assert result["wrong_above"] == reference.build.manifest.promise("reference") == 1e-3
    tight = campaign(
        program, tmp_path / "d", states=300, max_error=0.9 * errors["max"], client=threads
    )
    assert tight["wrong"] >= (errors["at"] < 300) and (tight["ok"] is not (errors["at"] < 300))


def test_programs_and_cores_have_devices_of_their_own(
    program: Path, small: Path, tmp_path: Path
) -> None:
    with pytest.raises(
        CampaignError, match="A program does not run on 'rtl'; choose one of processor"
    ):
        campaign(program, tmp_path / "c", states=10, device="rtl")
    with pytest.raises(
        CampaignError, match="A core does not run on 'processor': give the device 'rtl'"
    ):
        campaign(small, tmp_path / "c", states=10, device="processor")
    with pytest.raises(CampaignError, match="There is no device 'processor:fog'"):
        campaign(program, tmp_path / "c", states=10, device="processor:fog")
