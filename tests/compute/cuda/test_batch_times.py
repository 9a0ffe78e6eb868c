"""Times of batches: every path has its rows, and the timed calls compute the right numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.bench.batches import times as batch_times
from pinion.bench.batches.times import cpu_times, cuda_times, summary
from pinion.bench.cuda.rates import device_case, host_case
from pinion.compute import cpu
from pinion.compute.cuda.kernel import CudaKernel
from pinion.compute.cuda.threads import thread_source
from pinion.compute.rates import states_of
from pinion.functions import named_function
from pinion.robot import load
from tests.native.conftest import needs_compiler
from tests.support.cuda_device import HostDevice
from tests.support.cuda_host import HostKernels

pytestmark = needs_compiler

MODEL, ROW = load("pendulum"), named_function("rnea")


@pytest.fixture
def kernel(tmp_path: Path, compiled: dict[str, HostKernels]) -> CudaKernel:
    source = thread_source(
        cpu.graph_of(MODEL, ROW),
        inputs=[b.resolved(MODEL) for b in ROW.inputs],
        results=[b.resolved(MODEL) for b in ROW.results],
        dtype="float32",
        layout="aos",
        name="rnea",
        title="",
    )
    device = HostDevice(tmp_path, compiled=compiled)
    return CudaKernel(model=MODEL, function=ROW, source=source, device=device, finite=False)


def assert_whole(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        assert row["ns_per_sample"] > 0 and row["by"].startswith("Pinion") and row["note"]
        assert row["spread"] >= 0.0


def test_rounds_are_told_by_their_median_and_their_middle_half() -> None:
    assert summary([4.0, 2.0, 3.0, 1.0, 500.0]) == {"ns_per_sample": 3.0, "spread": 2.0 / 3.0}
    assert summary([7.0]) == {"ns_per_sample": 7.0, "spread": 0.0}


def test_the_processor_has_a_row_for_each_dtype_and_number_of_threads(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_folder.parent))
    rows, left_out = cpu_times(MODEL, ROW, sizes=(1, 16), rounds=1, seconds=0)
    assert_whole(rows)
    assert left_out == {}
    assert [(r["samples"], r["dtype"], r["processors"]) for r in rows] == [
        *((1, dtype, "one") for dtype in cpu.DTYPES),
        *((16, dtype, who) for dtype in cpu.DTYPES for who in ("one", "all")),
    ]


def test_a_device_is_timed_with_copies_and_without(
    kernel: CudaKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, left_out = cuda_times(kernel, sizes=(1, 40), rounds=1, seconds=0)
    assert_whole(rows)
    assert left_out == {}
    assert [(r["samples"], r["by"]) for r in rows] == [
        (count, f"Pinion CUDA, float32, {how}")
        for count in (1, 40)
        for how in ("with copies", "on the GPU")
    ]
    monkeypatch.setattr(batch_times, "MOST_BYTES", 100)
    rows, left_out = cuda_times(kernel, sizes=(1, 40), rounds=1, seconds=0)
    assert {r["samples"] for r in rows} == {1}
    assert set(left_out) == {
        f"Pinion CUDA, float32, {how}, N = 40" for how in ("with copies", "on the GPU")
    }


def test_what_is_timed_computes_the_right_numbers(kernel: CudaKernel) -> None:
    states = states_of(MODEL, ROW, seed=1)
    expected = ROW.evaluate(MODEL, {name: array[:5] for name, array in states.items()})["tau"]
    results = {}
    results["host"] = host_case(kernel, states, 5).call().tau
    on_device = device_case(kernel, states, 5).call().tau
    size = 5 * expected.shape[1]
    results["device"] = on_device._memory.bytes[: 4 * size].view(np.float32).reshape(expected.shape)
    for values in results.values():
        assert np.max(np.abs(values - expected)) <= 1e-5 * np.max(np.abs(expected))


def test_a_device_that_fails_loses_no_rows_of_before(
    kernel: CudaKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = kernel.device
    assert isinstance(device, HostDevice)

    def lost_at_40() -> None:
        device.lost = any(count == 40 for _, count in device.launches)

    device.waiting = lost_at_40
    rows, left_out = cuda_times(kernel, sizes=(1, 16, 40, 100), rounds=1, seconds=0)
    assert [row["samples"] for row in rows] == [1, 1, 16, 16]
    assert_whole(rows)
    assert set(left_out) == {
        f"Pinion CUDA, float32, {how}, N = {count}"
        for how in ("with copies", "on the GPU")
        for count in (40, 100)
    }
    assert all("is lost" in why for why in left_out.values())
