"""``pinion bench cuda`` on a processor that simulates a device: rows and results, no times."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from pinion.bench.cuda import measure as bench_cuda
from pinion.bench.cuda.rates import Limits, OnDevice, measured_limits
from pinion.compute import cuda
from pinion.compute.rates import KernelCall, states_of
from pinion.functions import named_function
from pinion.native.errors import ComputeError
from pinion.robot import load
from tests.native.conftest import needs_compiler
from tests.support.breadth import some
from tests.support.cuda_device import HostDevice
from tests.support.cuda_host import HostKernels

pytestmark = needs_compiler

WAYS = ["threads", "blocks", "host to host"]


def called_once(
    cases: dict[str, KernelCall], *, rounds: int, seconds: float
) -> dict[str, list[float]]:
    """Replace `rounds_of`: compute everything, with a microsecond per call."""
    for case in cases.values():
        case.call()
    return {name: [1e3 / case.count] * rounds for name, case in cases.items()}


@pytest.mark.slow
def test_every_way_is_measured(
    tmp_path: Path,
    cache_folder: Path,
    compiled: dict[str, HostKernels],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(bench_cuda, "measured_limits", lambda device: Limits(10.0, 4.0))
    monkeypatch.setattr(bench_cuda, "rounds_of", called_once)
    device = HostDevice(tmp_path, compiled=compiled)
    arguments = {"largest": 16, "rounds": 3, "device": device, "cache": cache_folder}
    bench_cuda.run(["two_link", "rnea"], json=True, **arguments)
    data = json.loads(capsys.readouterr().out)
    ways = {(r["dtype"], r["layout"], r["samples"], r["way"]) for r in data["rows"]}
    assert ways == {
        (dtype, layout, count, way)
        for dtype in ("float32", "float64")
        for count in (1, 16)
        for layout, ways in (("soa", WAYS[:1]), ("aos", WAYS))
        for way in ways
    }
    for row in data["rows"]:
        assert math.isfinite(row["ns"]) and row["ns"] > 0
        assert (row["over_floor"] is None) == (row["way"] == "host to host")
        runs = 100 if row["way"] in WAYS[:2] else 1
        assert row["ns"] * row["samples"] == pytest.approx(1e3 / runs)
    # 8 numbers of 4 bytes at 10 bytes a nanosecond; arithmetic is far below.
    (floor,) = {r["floor_ns"] for r in data["rows"] if r["dtype"] == "float32"}
    assert floor == pytest.approx(3.2)
    assert data["left_out"] == {} and device.used == device.recorded == 0
    bench_cuda.run(["two_link", "rnea"], json=False, **arguments)
    assert "host to host" in capsys.readouterr().out


@pytest.mark.slow
def test_what_a_device_cannot_hold_is_left_out(
    tmp_path: Path,
    cache_folder: Path,
    compiled: dict[str, HostKernels],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(bench_cuda, "measured_limits", lambda device: Limits(10.0, 4.0))
    device = HostDevice(tmp_path, memory=100, compiled=compiled)
    bench_cuda.run(
        ["two_link", "rnea"],
        **{"largest": 16, "rounds": 1, "json": True, "device": device, "cache": cache_folder},
    )
    data = json.loads(capsys.readouterr().out)
    # Earlier measurements stay.
    assert {(r["layout"], r["samples"]) for r in data["rows"]} == {("soa", 1)}
    assert set(data["left_out"]) == {
        f"two_link rnea, {dtype}, {layout}{size}"
        for dtype in ("float32", "float64")
        for layout, size in (("aos", ", N >= 1"), ("soa", ", N >= 16"))
    }
    for why in data["left_out"].values():
        assert re.search(r"\d+ bytes left|has no memory for 2 chunks", why), why


@pytest.mark.parametrize("layout", some(["aos", "soa"], ("aos",)))
def test_what_is_measured_is_right(
    tmp_path: Path, cache_folder: Path, compiled: dict[str, HostKernels], layout: str
) -> None:
    model, row = load("two_link"), named_function("rnea")
    device = HostDevice(tmp_path, compiled=compiled)
    kernel = cuda.compile(
        model, row, dtype="float64", layout=layout, device=device, cache=cache_folder
    )
    states = states_of(model, row, seed=1)
    batch = OnDevice(kernel, states, 37)
    expected = row.evaluate(model, {k: v[:37].astype(np.float64) for k, v in states.items()})["tau"]
    case = batch.by_threads(3)
    case.call()
    assert case.count == 3 * 37 and [n for _, n in device.launches[-3:]] == [37] * 3
    assert np.max(np.abs(batch.results()["tau"] - expected)) <= 1e-12 * np.max(np.abs(expected))
    batch.close()
    assert device.used == 0


def test_limits_are_those_of_the_device(tmp_path: Path, compiled: dict[str, HostKernels]) -> None:
    device = HostDevice(tmp_path, compiled=compiled)
    limits = measured_limits(device, size=1 << 16)
    assert limits.copy_bytes_ns > 0 and limits.cycles_ns == 4.0
    assert device.used == 0
    with pytest.raises(ComputeError, match="cannot allocate the two arrays of 65,536 bytes"):
        measured_limits(HostDevice(tmp_path, memory=100_000), size=1 << 16)
