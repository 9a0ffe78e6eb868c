"""Kernels of functions on a GPU, if the machine has one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.contacts import CONTACTS

from pinion.bench.cuda.rates import sent
from pinion.compute import cpu, cuda
from pinion.compute.cuda import kernel as kernels
from pinion.compute.cuda.device import CudaDevice
from pinion.functions import SUBJECTS, named_function, sample
from pinion.robot import Model, load

pytestmark = pytest.mark.slow

NAMES = [row.name for rows in SUBJECTS.values() for row in rows]
CASES = [("iiwa14", name) for name in NAMES] + [
    ("hyq", "fd_derivatives"),
    ("atlas", "rnea"),
    ("atlas", "aba"),
    ("atlas", "fd_derivatives"),
    ("hyq", "constraint_dynamics"),
    ("hyq", "constraint_dynamics_derivatives"),
    ("hyq", "impulse_dynamics_derivatives"),
]
LIMITS = {"float32": (1e-6, 3e-5), "float64": (1e-12, 1e-11)}
"""Median and largest error relative to a block's largest element; ten times for atlas."""
HARDER = {
    "aba_fext": 4,
    "fd_second_derivatives": 2,
    "constraint_dynamics": 10,
    "constraint_dynamics_derivatives": 10,
    "impulse_dynamics": 10,
    "impulse_dynamics_derivatives": 10,
}
"""Rows whose numbers cancel more: external forces of every link at once, twice a quotient, and
contacts of legs in any posture."""


def model_of(robot: str, name: str) -> Model:
    if not named_function(name).of_contacts:
        return load(robot)
    return load(robot, floating_base=robot == "hyq", contacts=CONTACTS[robot])


def states(robot: str, name: str, count: int) -> dict[str, Any]:
    model = model_of(robot, name)
    arrays = sample(model, named_function(name), count, distribution="reference", seed=3)
    return {key: np.asarray(values) for key, values in arrays.items()}


def errors(values: Any, expected: Any) -> Any:
    """Return each sample's error relative to its largest element; infinite for NaN."""
    axes = tuple(range(1, np.ndim(expected)))
    size = np.max(np.abs(expected), axis=axes)
    # Forces of contacts in the air are exactly zero.
    error = np.max(np.abs(values - expected), axis=axes) / np.where(size == 0.0, 1e-300, size)
    return np.where(np.isnan(error), np.inf, error)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("robot", "name"), CASES)
def test_threads_have_the_bits_of_the_processor_and_blocks_its_errors(
    robot: str, name: str, dtype: str, gpu: CudaDevice, few: bool, tmp_path: Path
) -> None:
    count = 40 if few else 10_000
    inputs, model = states(robot, name, count), model_of(robot, name)
    kernel = cuda.compile(model, name, dtype=dtype, device=gpu, cache=tmp_path)
    right = named_function(name).evaluate(model, inputs)
    processor = cpu.compile(model, name, dtype=dtype, layout="aos")(**inputs)
    hard = HARDER.get(name, 1) * (10 if robot == "atlas" else 1)
    median, worst = (x * hard for x in LIMITS[dtype])
    for crossover in (0, count + 1):
        kernel.crossover = kernel.direct_crossover = crossover
        if crossover and kernel.small is None:
            continue
        results = kernel(**inputs)
        for result, expected in right.items():
            if not crossover:
                np.testing.assert_array_equal(results[result], processor[result])
            error = errors(results[result], expected)
            # Solving with the inertia matrix loses more than articulated bodies.
            more = 4 if name == "fd_derivatives" or (crossover and name == "aba") else 1
            assert np.median(error) <= more * median, (crossover, result)
            assert np.max(error) <= more * worst, (crossover, result)


@pytest.mark.parametrize("layout", ["aos", "soa"])
def test_threads_have_the_bits_of_the_processor(
    layout: str, gpu: CudaDevice, few: bool, tmp_path: Path
) -> None:
    count = 40 if few else 100_000
    inputs = states("iiwa14", "fd_derivatives", count)
    options: dict[str, Any] = {"dtype": "float32", "cache": tmp_path}
    kernel = cuda.compile("iiwa14", "fd_derivatives", layout=layout, device=gpu, **options)
    kernel.crossover = kernel.direct_crossover = 0
    expected = cpu.compile("iiwa14", "fd_derivatives", layout="aos", **options)(**inputs)
    results = kernel(**inputs)
    for result in results.names:
        np.testing.assert_array_equal(results[result], expected[result])


def test_graphs_chunks_and_arrays_of_the_device_agree(
    gpu: CudaDevice, few: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 300 if few else 4000
    inputs = states("iiwa14", "rnea", count)
    options: dict[str, Any] = {"device": gpu, "cache": tmp_path, "dtype": "float64"}
    kernel = cuda.compile("iiwa14", "rnea", **options)
    kernel.crossover = kernel.direct_crossover = 0
    first = kernel(**inputs).tau
    for _ in range(3):  # plain, recorded, replayed
        np.testing.assert_array_equal(kernel(**inputs).tau, first)
    moved = {name: 0.5 * values for name, values in inputs.items()}
    assert not np.array_equal(kernel(**moved).tau, first)
    device_arrays = {a.name: sent(kernel, a, inputs[a.name]) for a in kernel.inputs}
    result = kernel(**device_arrays).tau
    again = kernel(**{**device_arrays, "qdd": result}).tau
    np.testing.assert_array_equal(
        kernel(**{**inputs, "qdd": first}).tau, np.asarray(_fetched(kernel, again))
    )
    monkeypatch.setattr(kernels, "CHUNK_BYTES", 100 * 4 * 7 * 8)
    chunked = cuda.compile("iiwa14", "rnea", **options)
    chunked.crossover = chunked.direct_crossover = 0
    np.testing.assert_array_equal(chunked(**inputs).tau, first)


def _fetched(kernel: Any, array: Any) -> Any:
    """Copy an array of structures from the device to the host."""
    stream = kernel.device.stream()
    pinned = kernel.device.pinned(array._memory.size)
    stream.download(pinned, array._memory)
    stream.wait()
    return pinned.view(array.dtype)[: np.prod(array.shape)].reshape(array.shape)


def test_calls_from_several_threads(gpu: CudaDevice, few: bool, tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    kernel = cuda.compile("iiwa14", "aba", device=gpu, cache=tmp_path, dtype="float64")
    kernel.crossover = kernel.direct_crossover = 0
    batches = [states("iiwa14", "aba", 3 + k) for k in range(4 if few else 32)]
    expected = [kernel(**batch).qdd for batch in batches]
    with ThreadPoolExecutor(8) as pool:
        result = list(pool.map(lambda batch: kernel(**batch).qdd, batches))
    for single, right in zip(result, expected, strict=True):
        np.testing.assert_array_equal(single, right)
