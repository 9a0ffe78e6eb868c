"""Kernels of functions on a GPU, where the machine has one. None of this has been run yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.bench.cuda.rates import sent
from pinion.compute import cpu, cuda
from pinion.compute.cuda import kernel as kernels
from pinion.compute.cuda.device import Device
from pinion.functions import SUBJECTS, named_function, sample
from pinion.robot import load

pytestmark = pytest.mark.slow

NAMES = [row.name for rows in SUBJECTS.values() for row in rows]
CASES = [("iiwa14", name) for name in NAMES] + [
    ("hyq", "fd_derivatives"),
    ("atlas", "rnea"),
    ("atlas", "aba"),
    ("atlas", "fd_derivatives"),
]
LIMITS = {"float32": (1e-6, 3e-5), "float64": (1e-12, 1e-11)}
"""Median and worst error of a block's largest element; atlas in float32 has ten times as much."""


def states(robot: str, name: str, count: int) -> dict[str, Any]:
    found = sample(load(robot), named_function(name), count, distribution="reference", seed=3)
    return {key: np.asarray(values) for key, values in found.items()}


def errors(found: Any, wanted: Any) -> Any:
    """Of each sample, relative to its largest element; infinite for NaN."""
    axes = tuple(range(1, np.ndim(wanted)))
    error = np.max(np.abs(found - wanted), axis=axes) / np.max(np.abs(wanted), axis=axes)
    return np.where(np.isnan(error), np.inf, error)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("robot", "name"), CASES)
def test_threads_and_blocks_equal_the_float_model(
    robot: str, name: str, dtype: str, gpu: Device, few: bool, tmp_path: Path
) -> None:
    count = 40 if few else 10_000
    given = states(robot, name, count)
    kernel = cuda.compile(robot, name, dtype=dtype, device=gpu, cache=tmp_path)
    right = named_function(name).evaluate(load(robot), given)
    median, worst = (x * (10 if robot == "atlas" else 1) for x in LIMITS[dtype])
    for crossover in (0, count + 1):
        kernel.crossover = crossover
        if crossover and kernel.small is None:
            continue
        found = kernel(**given)
        for result, wanted in right.items():
            error = errors(found[result], wanted)
            # What solves with the inertia matrix loses more than articulated bodies do.
            more = 4 if name == "fd_derivatives" or (crossover and name == "aba") else 1
            assert np.median(error) <= more * median, (crossover, result)
            assert np.max(error) <= more * worst, (crossover, result)


@pytest.mark.parametrize("layout", ["aos", "soa"])
def test_threads_have_the_bits_of_the_processor(
    layout: str, gpu: Device, few: bool, tmp_path: Path
) -> None:
    count = 40 if few else 100_000
    given = states("iiwa14", "fd_derivatives", count)
    options: dict[str, Any] = {"dtype": "float32", "cache": tmp_path}
    kernel = cuda.compile("iiwa14", "fd_derivatives", layout=layout, device=gpu, **options)
    kernel.crossover = 0
    wanted = cpu.compile("iiwa14", "fd_derivatives", layout="aos", **options)(**given)
    found = kernel(**given)
    for result in found.names:
        np.testing.assert_array_equal(found[result], wanted[result])


def test_graphs_chunks_and_arrays_of_the_device_agree(
    gpu: Device, few: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 300 if few else 4000
    given = states("iiwa14", "rnea", count)
    options: dict[str, Any] = {"device": gpu, "cache": tmp_path, "dtype": "float64"}
    kernel = cuda.compile("iiwa14", "rnea", **options)
    kernel.crossover = 0
    first = kernel(**given).tau
    for _ in range(3):  # plain, recorded, replayed
        np.testing.assert_array_equal(kernel(**given).tau, first)
    moved = {name: 0.5 * values for name, values in given.items()}
    assert not np.array_equal(kernel(**moved).tau, first)
    there = {a.name: sent(kernel, a, given[a.name]) for a in kernel.inputs}
    result = kernel(**there).tau
    again = kernel(**{**there, "qdd": result}).tau
    np.testing.assert_array_equal(
        kernel(**{**given, "qdd": first}).tau, np.asarray(_fetched(kernel, again))
    )
    monkeypatch.setattr(kernels, "CHUNK_BYTES", 100 * 4 * 7 * 8)
    chunked = cuda.compile("iiwa14", "rnea", **options)
    chunked.crossover = 0
    np.testing.assert_array_equal(chunked(**given).tau, first)


def _fetched(kernel: Any, array: Any) -> Any:
    """An array of the device, of structures, on the host."""
    stream = kernel.device.stream()
    pinned = kernel.device.pinned(array._memory.size)
    stream.download(pinned, array._memory)
    stream.wait()
    return pinned.view(array.dtype)[: np.prod(array.shape)].reshape(array.shape)


def test_calls_from_several_threads(gpu: Device, few: bool, tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    kernel = cuda.compile("iiwa14", "aba", device=gpu, cache=tmp_path, dtype="float64")
    kernel.crossover = 0
    batches = [states("iiwa14", "aba", 3 + k) for k in range(4 if few else 32)]
    wanted = [kernel(**batch).qdd for batch in batches]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda batch: kernel(**batch).qdd, batches))
    for one, right in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, right)
