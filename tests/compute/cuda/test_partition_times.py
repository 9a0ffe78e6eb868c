"""``pinion bench cuda --partitions`` on a processor that simulates a device."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.batch import InputError
from pinion.bench.cuda.rates import OnDevice
from pinion.bench.partitions import measure as bench_partitions
from pinion.bench.partitions import times as times
from pinion.console.errors import UsageError
from pinion.functions import FUNCTIONS
from pinion.functions.partitions import PARTITIONS
from pinion.robot import load
from tests.native.conftest import needs_compiler
from tests.support.breadth import some
from tests.support.cuda_device import HostDevice
from tests.support.cuda_host import HostKernels

pytestmark = needs_compiler

MODEL = load("two_link")  # its minimal model has masses elsewhere, and so other forces


class Device(HostDevice):
    """A device that compiles each text once."""

    def load(self, name: str, text: str) -> tuple[str, HostKernels]:
        if not hasattr(self, "_known"):
            self._known: dict[str, tuple[str, HostKernels]] = {}
        if text not in self._known:
            self._known[text] = super().load(name, text)
        return self._known[text]


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Device:
    return Device(tmp_path_factory.mktemp("device"))


@pytest.fixture(autouse=True)
def _two_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(times, "LAUNCHES", 2)


def no_gpu(*arguments: Any) -> Any:
    raise InputError("There is no GPU here.")


@pytest.mark.slow
def test_every_part_is_measured_and_what_travels_is_counted(
    device: Device, cache_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options: dict[str, Any] = {"largest": 32, "rounds": 1, "seconds": 0.0, "cache": cache_folder}
    bench_partitions.run(["two_link"], json=True, device=device, **options)
    data = json.loads(capsys.readouterr().out)
    assert data["left_out"] == {} and data["device"] == device.name and device.used == 0
    rows = data["partitions"]
    assert [(r["partition"], r["samples"]) for r in rows] == [
        (name, count) for name in PARTITIONS for count in (16, 32)
    ]
    # 2 joints and 2 links: q, qd, v, a, f; q, qd, qdd; the same and M^-1; two matrices back.
    words = {"split": 4 + 36, "fused": 6, "completely fused": 10}
    for row in rows:
        assert row["bytes_to_device"] == 4 * words[row["partition"]]
        assert row["bytes_to_host"] == 4 * 8
        assert all(math.isfinite(row[key]) for key in times.PARTS)
        assert row["kernel_us"] > 0 and row["total_us"] > 0
        assert (row["host_before_us"] > 0) == (row["partition"] == "split")
        assert (row["host_after_us"] > 0) == (row["partition"] != "completely fused")
        assert row["kernel"] in ("a block", "a thread")
    bench_partitions.run(["two_link"], json=False, device=device, **options)
    output = capsys.readouterr().out
    assert "completely fused" in output and "host: v, a, f" in output and "this processor" in output


def test_without_a_gpu_the_host_is_measured_and_the_reason_said(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(times.cuda, "open_gpu", no_gpu)
    bench_partitions.run(
        ["two_link"], largest=16, rounds=1, seconds=0.0, json=True, cache=cache_folder
    )
    data = json.loads(capsys.readouterr().out)
    assert data["left_out"] == {"Partitions, the device's part": "There is no GPU here."}
    assert data["device"] is None
    for row in data["partitions"]:
        assert row["kernel_us"] is row["copies_us"] is row["total_us"] is row["kernel"] is None
        assert (row["host_before_us"] > 0) == (row["partition"] == "split")
        assert row["bytes_to_device"] > 0


@pytest.mark.parametrize("name", some(PARTITIONS, ("fused",)))
def test_what_is_measured_is_the_gradient(name: str, device: Device, cache_folder: Path) -> None:
    run = times._Run.compiled(
        PARTITIONS[name], MODEL, dtype="float32", device=device, cache=cache_folder
    )
    count = 9
    inputs, links, gradients, results = run._arrays(count)
    row = FUNCTIONS["fd_derivatives_from_minv"]
    expected = row.evaluate(MODEL, inputs)

    def error() -> float:
        return max(
            float(np.max(np.abs(results[key] - x)) / np.max(np.abs(expected["dqdd_dq"])))
            for key, x in expected.items()
        )

    for arrays in (results, gradients, links):
        for array in arrays.values():
            array[...] = np.nan
    run._whole(inputs, links, gradients, results)()
    assert error() <= 1e-4
    # A missing part, or numbers of another state, would show.
    if run.before is not None:
        run = replace(run, before=None)
        for array in links.values():
            array *= 1.5
        run._whole(inputs, links, gradients, results)()
        assert not error() <= 1e-2
    if gradients:
        for array in gradients.values():
            array[...] = 1.0
        run.after(out=results, minv=inputs["minv"], **gradients)
        assert not error() <= 1e-2


def test_what_a_device_cannot_hold_is_left_out(
    tmp_path: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(times, "PARTITIONS", {"fused": PARTITIONS["fused"]})
    monkeypatch.setattr(times.cuda, "small_batches", lambda *arguments: None)
    device = HostDevice(tmp_path, memory=100)
    rows, left_out, _ = times.partition_times(
        MODEL, sizes=(64,), rounds=1, seconds=0, device=device, cache=cache_folder
    )
    assert len(rows) == 1
    (why,) = left_out.values()
    assert "has fewer than" in why and "bytes" in why
    assert all(row[key] is None for row in rows for key in times.PARTS)


def test_launches_are_those_that_a_call_would_take(device: Device, cache_folder: Path) -> None:
    run = times._Run.compiled(
        PARTITIONS["fused"], MODEL, dtype="float32", device=device, cache=cache_folder
    )
    kernel = run.kernel
    assert kernel is not None and kernel.small is not None
    inputs, links, *_ = run._arrays(5)
    for crossover, who in ((6, "a block"), (5, "a thread")):
        kernel.crossover = kernel.direct_crossover = crossover
        assert run.who(5) == who
        on_device = OnDevice(kernel, {**inputs, **links}, 5)
        device.launches.clear()
        times._launches(kernel, on_device, 5).call()
        names = {name for name, _ in device.launches}
        small = {kernel.small.name}
        assert (names == small) == (who == "a block") and len(device.launches) == 1 + times.LAUNCHES
        on_device.close()


def test_mistakes_are_one_sentence() -> None:
    options: dict[str, Any] = {"rounds": 1, "seconds": 0.0, "json": True}
    with pytest.raises(UsageError, match="without 'rnea'"):
        bench_partitions.run(["two_link", "rnea"], largest=16, **options)
    with pytest.raises(UsageError, match="--largest 3 is too small"):
        bench_partitions.run([], largest=3, **options)
