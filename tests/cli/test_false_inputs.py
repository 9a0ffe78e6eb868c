"""Every verb that compares, with damaged, empty or false inputs: none may pass.

Three kinds. Files of a build that are damaged: each verb refuses them, exit code 2. Builds that are
whole and false, their digests made anew: hardware, integers or floats of another robot, which every
verb that compares with them finds, exit code 1. And answers that are changed on their way out of
the simulation, or references that are: what was sent, what was expected, or nothing at all.
"""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from distributed import Client

from pinion.base.progress import SILENT
from pinion.bench.core import measure as bench_core
from pinion.bench.functions import measure as bench_functions
from pinion.campaign import CampaignError, campaign
from pinion.card import check as demo_check
from pinion.cli import demo
from pinion.cosim import netlist
from pinion.cosim.compiled import CompiledCore
from pinion.cosim.explore import measure_point, task_of
from pinion.cosim.reference import Reference, request_words
from pinion.cosim.stream import StreamResult
from pinion.flow.build import Build
from pinion.flow.description import content_digest
from pinion.functions import BuiltFunction
from pinion.graph import parse_graph
from pinion.link import Manifest
from pinion.link.build_files import SCHEDULE
from pinion.link.digests import write_digests
from pinion.robot import load
from tests.cli.conftest import Done, Pinion
from tests.cosim.test_verdict import sent
from tests.support.breadth import some, some_rows
from tests.support.builds import build

verification = importlib.import_module("pinion.cosim.verify")

SAMPLES = 40

Arguments = Callable[[Path, Path], tuple[object, ...]]
"""Arguments of a verb, from a build folder and an empty one."""

COMPARING: dict[str, Arguments] = {
    "verify": lambda f, o: ("verify", f, "--samples", SAMPLES),
    "verify, explicit blocks": lambda f, o: ("verify", f, "--samples", SAMPLES, "--dsp48e2"),
    "verify, bound": lambda f, o: ("verify", f, "--samples", SAMPLES, "--bound"),
    "verify, other states": lambda f, o: (
        *("verify", f, "--samples", SAMPLES),
        *("--distribution", "slow"),
    ),
    "verify, netlist": lambda f, o: ("verify", f, "--netlist", "--samples", SAMPLES),
    "verify, promises": lambda f, o: ("verify", f, "--promises", "--samples", SAMPLES),
}

OTHERS: dict[str, Arguments] = {
    "verify, Icarus": lambda f, o: ("verify", f, "--simulator", "icarus"),
    "campaign": lambda f, o: ("campaign", f, "-o", o / "c", "--states", SAMPLES),
    "campaign, integers": lambda f, o: (
        *("campaign", f, "-o", o / "c", "--states", SAMPLES),
        *("--device", "integers"),
    ),
    "run": lambda f, o: ("run", f, "--input", requests(o), "--output", o / "out.npz"),
    "export": lambda f, o: ("export", f, "-o", o / "exported"),
}
"""Verbs that have to refuse damaged files; changed answers do not reach them."""


def requests(folder: Path) -> Path:
    """A file of a request for a robot of one joint."""
    path = folder / "in.npz"
    np.savez(path, q=np.zeros((1, 1)), qd=np.zeros((1, 1)), qdd=np.zeros((1, 1)))
    return path


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A core with explicit blocks."""
    folder = tmp_path_factory.mktemp("false") / "core"
    build("pendulum", "rnea", folder, ii=2, formats="auto")
    return folder


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same core for the same robot at half the gravity."""
    folder = tmp_path_factory.mktemp("false") / "other"
    model = load("pendulum")
    lighter = replace(model, gravity=tuple(0.5 * g for g in model.gravity))
    build(lighter, "rnea", folder, ii=2, formats="auto")
    return folder


# -- damaged files


def empty(data: bytes) -> bytes:
    return b""


def half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def changed(data: bytes) -> bytes:
    """Flip one bit, in the middle."""
    at = len(data) // 2
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


FILES = (
    *("manifest.json", "digests.json", "model.json", "function.json", "graph.txt"),
    *("schedule.json", "core.il", "core.v"),
)


@pytest.mark.parametrize(
    "name", some([*COMPARING, *OTHERS], ("verify", "campaign", "run", "export"))
)
def test_a_file_that_is_damaged_is_refused(
    name: str, core: Path, tmp_path: Path, pinion: Pinion
) -> None:
    verb = (COMPARING | OTHERS)[name]
    folder = tmp_path / "core"
    shutil.copytree(core, folder)
    for file in FILES:
        whole = (folder / file).read_bytes()
        for damage in (empty, half, changed):
            (folder / file).write_bytes(damage(whole))
            completed = pinion(*verb(folder, tmp_path))
            assert completed.code == 2 and not completed.out, (file, damage.__name__, completed)
            assert "Traceback" not in completed.err
        (folder / file).write_bytes(whole)


# -- answers that are changed, and references


Answer = Callable[[StreamResult], StreamResult]


class Core:
    """Stand-in for a compiled simulation: the answers of a right core, perhaps changed."""

    def __init__(self, reference: Reference, change: Answer) -> None:
        self.reference, self.change = reference, change
        self.right = reference.expected

    def run(self, beats: Any, last: Any, *, expected_beats: int, **options: Any) -> StreamResult:
        manifest = self.reference.build.manifest
        words = np.ascontiguousarray(beats.reshape(-1, manifest.beats_in * manifest.lanes_in))
        return self.change(sent(self.reference, words[:, : manifest.words_in]))

    def reset(self) -> None:
        pass

    def reset_state(self) -> None:
        pass


@pytest.fixture
def simulated(core: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Make all simulations of the core send changed answers."""

    def change(answer: Answer = lambda result: result) -> None:
        reference = Reference(Build.read(core))
        # A separate reference: that of others may be changed.
        right = Reference.expected
        reference.expected = lambda *words: right(reference, *words)  # type: ignore[method-assign]  # in the simulation's place
        simulated = Core(reference, answer)
        mapped = tmp_path / "mapped.v"
        mapped.write_text("LUT4 #(\n")
        monkeypatch.setattr(CompiledCore, "build", lambda **options: simulated)
        monkeypatch.setattr(verification, "explicit_rtlil", lambda folder, sim: folder / "core.il")
        monkeypatch.setattr(verification, "diverging", lambda *_: "there")
        monkeypatch.setattr(netlist, "_mapped", lambda *_: mapped)
        monkeypatch.setattr(netlist, "netlist_core", lambda *_, **options: simulated)

    return change


def a_bit(result: StreamResult) -> StreamResult:
    beats = result.beats.copy()
    beats[7, 0] ^= 1
    return replace(result, beats=beats)


def zeros(result: StreamResult) -> StreamResult:
    return replace(result, beats=np.zeros_like(result.beats))


def no_numbers(result: StreamResult) -> StreamResult:
    return replace(result, beats=np.full_like(result.beats, 0x7FC00000))


def flags_up(result: StreamResult) -> StreamResult:
    return replace(result, user=result.last.copy())


def nothing(result: StreamResult) -> StreamResult:
    none = {name: getattr(result, name)[:0] for name in ("beats", "last", "user", "emitted")}
    return replace(result, **none)


def one_result(result: StreamResult) -> StreamResult:
    """Broadcast: arrays of one row are compared with any number of rows."""
    few = {name: getattr(result, name)[:1] for name in ("beats", "last", "user", "emitted")}
    return replace(result, **few)


ANSWERS: tuple[Answer, ...] = (a_bit, zeros, no_numbers, flags_up, nothing, one_result)
BITS = [name for name in COMPARING if name != "verify, promises"]


@pytest.mark.parametrize("name", BITS)
def test_answers_that_are_wrong_or_missing_fail(
    name: str, core: Path, tmp_path: Path, pinion: Pinion, simulated: Callable[..., None]
) -> None:
    folder = tmp_path / "core"
    shutil.copytree(core, folder)
    simulated()
    assert pinion(*COMPARING[name](folder, tmp_path)).code == 0, "what is right passes"
    for answer in ANSWERS:
        simulated(answer)
        completed = pinion(*COMPARING[name](folder, tmp_path))
        failed(completed, said_by=answer)


def failed(completed: Done, *, said_by: object) -> None:
    """Check for exit code 1, or 2 with a sentence if there was nothing to check."""
    assert completed.code in (1, 2), (said_by, completed)
    assert "Traceback" not in completed.err
    if completed.code == 2:
        assert completed.err.count("\n") == 1 and not completed.out


Expected = Callable[[Any, Any], tuple[Any, Any]]


def other_words(words: Any, flags: Any) -> tuple[Any, Any]:
    return words ^ np.uint32(1), flags


def other_flags(words: Any, flags: Any) -> tuple[Any, Any]:
    return words, ~flags


def expect(monkeypatch: pytest.MonkeyPatch, change: Expected) -> None:
    """The integer model of all references gives something else."""
    plain = Reference.expected

    def expected(self: Reference, *words: Any) -> tuple[Any, Any]:
        return change(*plain(self, *words))

    monkeypatch.setattr(Reference, "expected", expected)


@pytest.mark.parametrize("change", [other_words, other_flags])
@pytest.mark.parametrize("name", BITS)
def test_integers_that_are_false_fail(
    name: str, change: Expected, core: Path, tmp_path: Path, pinion: Pinion,
    simulated: Callable[..., None], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    folder = tmp_path / "core"
    shutil.copytree(core, folder)
    simulated()
    expect(monkeypatch, change)
    completed = pinion(*COMPARING[name](folder, tmp_path))
    assert completed.code == 1, completed


def flagged(words: Any, flags: Any) -> tuple[Any, Any]:
    return words, np.ones_like(flags)


ACCURACY = [name for name in COMPARING if name != "verify, netlist"]


@pytest.mark.parametrize("name", ACCURACY)
def test_where_every_request_is_flagged_nothing_was_checked(
    name: str, core: Path, tmp_path: Path, pinion: Pinion, simulated: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Both in hardware and in the integers."""
    folder = tmp_path / "core"
    shutil.copytree(core, folder)
    expect(monkeypatch, flagged)
    simulated()
    completed = pinion(*COMPARING[name](folder, tmp_path))
    assert completed.code == 1, completed
    if name != "verify, promises":
        assert "but no accuracy was checked: every request raised the flag" in completed.out
        completed = pinion(*COMPARING[name](folder, tmp_path), "--json")
        assert (
            completed.code == 1 and completed.json["ok"] is False and completed.json["valid"] == 0
        )
        assert completed.json["mismatches"] == 0


Floats = Callable[[Any], Any]


def twice(floats: Any) -> Any:
    return 2.0 * floats + 1.0


def undefined(floats: Any) -> Any:
    return np.full_like(floats, np.nan)


@pytest.mark.parametrize("change", [twice, undefined])
@pytest.mark.parametrize("name", ACCURACY)
def test_floats_that_are_false_fail(
    name: str, change: Floats, core: Path, tmp_path: Path, pinion: Pinion,
    simulated: Callable[..., None], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    folder = tmp_path / "core"
    shutil.copytree(core, folder)
    simulated()
    plain = Reference.float_model
    monkeypatch.setattr(Reference, "float_model", lambda self, *w: change(plain(self, *w)))
    completed = pinion(*COMPARING[name](folder, tmp_path))
    assert completed.code == 1, completed


# -- builds that are whole, and false


def with_content(folder: Path) -> None:
    """Seal a folder again, whatever is in it."""
    manifest = Manifest.read(folder)
    computed = BuiltFunction.from_json(json.loads((folder / "function.json").read_text()))
    graph = parse_graph((folder / "graph.txt").read_text())
    content = content_digest(computed, graph, SCHEDULE.read(folder))
    replace(manifest, content=content).write(folder)
    write_digests(folder)


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (("function.json",), ACCURACY),
        (("graph.txt",), list(COMPARING)),
    ],
)
def test_a_build_with_another_robots_model_fails(
    files: tuple[str, ...], names: list[str], core: Path, other: Path, tmp_path: Path,
    pinion: Pinion, simulated: Callable[..., None],
) -> None:  # fmt: skip
    """The folder is intact, but its function or reference is another robot's."""
    folder = tmp_path / "core"
    shutil.copytree(core, folder)
    for file in files:
        shutil.copyfile(other / file, folder / file)
    with_content(folder)
    simulated()
    for name in names:
        completed = pinion(*COMPARING[name](folder, tmp_path))
        assert completed.code == 1, (name, completed)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["verify", "verify, explicit blocks", "verify, Icarus", "campaign"]
)
def test_hardware_of_another_robot_fails(
    name: str, core: Path, other: Path, tmp_path: Path, pinion: Pinion
) -> None:
    """Compiled, mapped and run unchanged."""
    folder = tmp_path / "core"
    shutil.copytree(core, folder)
    for file in ("core.il", "core.v"):
        shutil.copyfile(other / file, folder / file)
    write_digests(folder)
    completed = pinion(*(COMPARING | OTHERS)[name](folder, tmp_path))
    assert completed.code == 1, completed


@pytest.mark.slow
def test_a_netlist_of_another_robot_fails(tmp_path: Path, pinion: Pinion) -> None:
    """Mapped to cells, which takes the longer the larger a core is."""
    model = load("pendulum")
    lighter = replace(model, gravity=tuple(0.5 * g for g in model.gravity))
    for name, robot in (("core", model), ("other", lighter)):
        build(robot, "gravity", tmp_path / name, ii=2, formats="auto")
    for file in ("core.il", "core.v"):
        shutil.copyfile(tmp_path / "other" / file, tmp_path / "core" / file)
    for name, code in (("other", 0), ("core", 1)):
        write_digests(tmp_path / name)
        completed = pinion(*COMPARING["verify, netlist"](tmp_path / name, tmp_path))
        assert completed.code == code, completed


# -- campaigns


@pytest.fixture(scope="module")
def threads() -> Iterator[Client]:
    with Client(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"
    ) as client:
        yield client


@pytest.mark.parametrize("device", ["rtl", "integers"])
def test_a_campaign_passes_on_nothing_false(
    device: str, core: Path, tmp_path: Path, threads: Client, simulated: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def ok(name: str) -> bool:
        """Return whether a new campaign passes; one that ends with a sentence does not."""
        try:
            result = campaign(core, tmp_path / name, states=SAMPLES, device=device, client=threads)
        except CampaignError:
            return False
        assert result["valid"] <= result["finished"] == SAMPLES
        return bool(result["ok"])

    simulated()
    assert ok("right")
    if device == "rtl":
        for answer in ANSWERS:
            simulated(answer)
            assert not ok(answer.__name__), answer
        simulated()
    for change in (twice, undefined):
        with monkeypatch.context() as patch:
            plain = Reference.float_model
            patch.setattr(
                Reference, "float_model", lambda self, *w, c=change, p=plain: c(p(self, *w))
            )
            assert not ok(change.__name__), change
    expect(monkeypatch, flagged)
    simulated()
    assert not ok("flagged")


# -- sweeps, the demonstration and tables


@contextmanager
def here(scheduler: str | None) -> Iterator[Any]:
    """Points of a sweep in this process."""

    def runner(points: Any, folder: Path, measure: Any) -> Iterator[Any]:
        for point in points:
            yield point, measure_point(*task_of(point, folder, measure))

    yield runner


@pytest.mark.parametrize(
    ("change", "options", "sentence"),
    some_rows(
        [
            (lambda words, flags: (words, flags), (), ""),
            (flagged, (), "none of 40 states has a valid result"),
            (other_words, ("--verify",), "the check failed"),
        ],
        lambda change, options, sentence: change is other_words,
    ),
)
def test_a_sweep_passes_on_nothing_false(
    change: Expected, options: tuple[str, ...], sentence: str, core: Path, tmp_path: Path,
    pinion: Pinion, simulated: Callable[..., None], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    simulated()
    expect(monkeypatch, change)
    monkeypatch.setattr("pinion.cli.explore._runner", here)
    completed = pinion(
        *("explore", "pendulum", "rnea", "--ii", 2, "--formats", "auto", "--samples", SAMPLES),
        *("-o", tmp_path / "sweep", *options),
    )
    assert completed.code == (1 if sentence else 0), completed
    assert sentence in completed.err.lower()


class Device:
    """Stand-in for a card: the integers, perhaps changed."""

    def __init__(self, folder: Path, change: Expected) -> None:
        self.reference, self.change = Reference(Build.read(folder)), change
        self.right = Reference.expected

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, **arrays: Any) -> Any:
        manifest = self.reference.build.manifest
        words = request_words(manifest, arrays)
        results, flags = self.change(*self.right(self.reference, words))
        (array,) = manifest.outputs
        values = results.view(np.float32).reshape(-1, *array.shape)
        return SimpleNamespace(**{array.name: values}, saturated=flags, cycles=1)


def no_number(words: Any, flags: Any) -> tuple[Any, Any]:
    return np.full_like(words, 0x7FC00000), flags


def as_they_are(words: Any, flags: Any) -> tuple[Any, Any]:
    return words, flags


@pytest.mark.parametrize(
    ("device", "integers", "wrong"),
    [
        (as_they_are, as_they_are, {}),
        (other_words, as_they_are, {"mismatches": SAMPLES}),
        (other_flags, as_they_are, {"mismatches": SAMPLES, "valid": 0, "budget_held": None}),
        (as_they_are, other_words, {"mismatches": SAMPLES}),
        (flagged, flagged, {"mismatches": 0, "valid": 0, "accuracy_held": None}),
        (no_number, no_number, {"mismatches": 0, "budget_held": False, "accuracy_held": False}),
    ],
)
def test_the_demonstration_passes_on_nothing_false(
    device: Expected, integers: Expected, wrong: dict[str, Any], core: Path, tmp_path: Path,
    pinion: Pinion, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    folder = tmp_path / "core"
    shutil.copytree(core, folder)
    card = Device(folder, device)
    monkeypatch.setattr("pinion.card.check.driver.open", lambda *_, **options: card)
    monkeypatch.setattr(demo_check, "verify", lambda *_, **options: {"cycles_per_result": 2})
    expect(monkeypatch, integers)

    def one(name: str, *_: object) -> dict[str, Any]:
        figures = demo_check.check(folder, requests=SAMPLES, seed=3, progress=SILENT)
        return {**figures, "build_seconds": 1.0, "cpu": None, "pictures": {}}

    monkeypatch.setattr(demo, "one", one)
    completed = pinion("demo", "--functions", "rnea", "--json")
    assert completed.code == (1 if wrong else 0), completed
    (figures,) = completed.json["functions"].values()
    assert {name: figures[name] for name in wrong} == wrong
    assert completed.json["ok"] == figures["ok"] == (not wrong)
    printed = pinion("demo", "--functions", "rnea")
    assert printed.code == completed.code
    assert ("Every bit agrees with the integers; every error is within" in printed.out) == (
        not wrong
    )


@pytest.mark.parametrize("accuracy_held", [True, False, None])
def test_a_table_of_functions_fails_with_a_budget(
    accuracy_held: bool | None, pinion: Pinion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        bench_functions,
        "function_row",
        lambda name, derivatives: {
            **{"function": name, "derivatives": derivatives, "budget_held": True},
            **({"budget_held": accuracy_held} if name == "rnea" else {}),
        },
    )
    completed = pinion("bench", "functions", "--json")
    assert completed.code == (0 if accuracy_held else 1)
    assert ("budgets do not hold for rnea." in completed.err) == (accuracy_held is False)
    assert ("no request has a valid result for rnea." in completed.err) == (accuracy_held is None)


@pytest.mark.parametrize(
    "wrong", [{}, {"verified": False}, {"failure": "The process was stopped."}]
)
def test_a_table_of_cores_fails_with_a_core(
    wrong: dict[str, Any], pinion: Pinion, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"verified": True, "failure": None, **wrong}
    against = {"published": [], "measured": [row], "compared": [], "assumed": {}}
    monkeypatch.setattr(bench_core, "_against", lambda *_: against)
    monkeypatch.setattr(bench_core, "row", lambda robot, ii: {"robot": robot, "ii": ii})
    assert pinion("bench", "core", "--json").code == (1 if wrong else 0)
