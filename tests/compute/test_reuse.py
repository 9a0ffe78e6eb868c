"""Memory of results: it is reused when nothing refers to it any more, and never before."""

from __future__ import annotations

import copy
import ctypes
import gc
import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.batch import InputError, Result
from pinion.chains import kernels, random_chain
from pinion.compute import cpu
from pinion.compute.cpu import Kernel
from pinion.compute.native import KernelStruct
from tests.native.conftest import Fork, needs_compiler
from tests.support.breadth import some

pytestmark = needs_compiler

MOST = 128 << 20
COUNT = 3000  # of the two-link robot's float64: 96 kB and 48 kB


@pytest.fixture(scope="module")
def kernel(cache_folder: Path) -> Kernel:
    kernel = cpu.compile("two_link", "fd_derivatives", cache=cache_folder)
    if kernel._native.runtime.module is None:
        pytest.skip("Python's headers are missing: results are in new memory")
    return kernel


@pytest.fixture(autouse=True)
def _nothing_kept(kernel: Kernel) -> None:
    gc.collect()
    kernel._native.runtime.module.give_up()
    assert kept_bytes(kernel) == 0


def kept_bytes(kernel: Kernel) -> int:
    return int(kernel._native.runtime.module.kept())


def request(count: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.uniform(-1, 1, (count, 2)) for name in ("q", "qd", "tau")}


def span(array: np.ndarray) -> tuple[int, int]:
    low, high = np.lib.array_utils.byte_bounds(array)
    return low, high


def apart(a: np.ndarray, b: np.ndarray) -> bool:
    (low, high), (first, last) = span(a), span(b)
    return high <= first or last <= low


def test_memory_comes_back_when_a_result_goes(kernel: Kernel) -> None:
    first = kernel(**request(COUNT, 1))
    address = {name: span(first[name]) for name in first.names}
    assert kept_bytes(kernel) == 0 and all(
        first[name].ctypes.data % 64 == 0 for name in first.names
    )
    size = sum(first[name].nbytes for name in first.names)
    del first
    assert size <= kept_bytes(kernel) <= size * 1.13 + 8192
    again = kernel(**request(COUNT, 2))
    assert kept_bytes(kernel) == 0
    assert {span(again[name]) for name in again.names} == set(address.values())
    # Slightly different numbers of samples use the same memory.
    del again
    near = kernel(**request(COUNT - 10, 3))
    assert {span(near[name])[0] for name in near.names} == {low for low, _ in address.values()}


HOLDS: dict[str, Callable[[Result], Any]] = {
    "the array": lambda r: r.dqdd_dq,
    "a slice": lambda r: r.dqdd_dq[7:9],
    "a slice of a slice": lambda r: r.dqdd_dq[5:][::-3][1:4],
    "one element's column": lambda r: r.dqdd_dq[:, 1, 0],
    "a transposed view": lambda r: r.dqdd_dq.T,
    "a flat view": lambda r: r.dqdd_dq.reshape(-1),
    "a view of bytes": lambda r: r.dqdd_dq.view(np.uint8),
    "one row": lambda r: r.dqdd_dq[2999],
    "a memoryview": lambda r: memoryview(r.dqdd_dq),
    "a part of a memoryview": lambda r: memoryview(r.dqdd_dq)[100:200],
    "a buffer for NumPy": lambda r: np.frombuffer(r.dqdd_dq),
    "DLPack": lambda r: np.from_dlpack(r.dqdd_dq),
    "a capsule of DLPack": lambda r: r.dqdd_dq.__dlpack__(),
    "a buffer of pickle": lambda r: pickle.PickleBuffer(r.dqdd_dq),
    "memory for ctypes": lambda r: (ctypes.c_double * 12).from_buffer(r.dqdd_dq),
    "a pointer of NumPy": lambda r: r.dqdd_dq.ctypes,
    "an iterator": lambda r: iter(r.dqdd_dq),
    "a flat iterator": lambda r: r.dqdd_dq.flat,
    "a broadcast": lambda r: np.broadcast_to(r.dqdd_dq, (2, COUNT, 2, 2)),
    "a subclass": lambda r: r.dqdd_dq.view(np.recarray),
    "a list": lambda r: [r.dqdd_dq],
    "the result": lambda r: r,
    "a shallow copy": copy.copy,
    "its values": lambda r: list(r.values()),
}


@pytest.mark.parametrize(
    "how", some(HOLDS, ("the array", "a transposed view", "a memoryview", "DLPack", "the result"))
)
def test_no_memory_is_used_again_that_somebody_looks_at(kernel: Kernel, how: str) -> None:
    first = kernel(**request(COUNT, 1))
    values = first.dqdd_dq.copy()
    low = first.dqdd_dq.ctypes.data
    holder = HOLDS[how](first)
    del first
    gc.collect()
    for seed in range(2, 12):
        other = kernel(**request(COUNT, seed))
        for name in other.names:
            begin, end = span(other[name])
            assert end <= low or low + values.nbytes <= begin, "this memory is in use"
    # By address, since not every holder gives access to its numbers.
    memory = np.ctypeslib.as_array((ctypes.c_double * values.size).from_address(low))
    assert np.array_equal(memory, values.reshape(-1))
    del holder, other
    gc.collect()
    late = [kernel(**request(COUNT, seed)) for seed in range(4)]
    assert low in [r[name].ctypes.data for r in late for name in r.names], "it is lost"


def test_copies_and_pickles_are_their_own(kernel: Kernel) -> None:
    first = kernel(**request(COUNT, 1))
    values = {name: values.copy() for name, values in first.items()}
    buffers: list[pickle.PickleBuffer] = []
    outside = pickle.dumps(first, protocol=5, buffer_callback=buffers.append)
    copies = [pickle.loads(pickle.dumps(first)), copy.deepcopy(first)]
    late = pickle.loads(outside, buffers=buffers)  # refers to the same memory
    del first, buffers
    for seed in range(2, 6):
        kernel(**request(COUNT, seed))
    for other in (*copies, late):
        assert all(np.array_equal(other[name], values[name]) for name in values)


def test_threads_never_see_each_others_results(kernel: Kernel) -> None:
    counts = (500, 520, 1500, 3000)
    requests = [request(count, k) for k, count in enumerate(counts)]
    expected = [{n: v.copy() for n, v in kernel(**request).items()} for request in requests]
    wrong: list[str] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        alive: list[tuple[int, Result]] = []
        for _ in range(150):
            k = int(rng.integers(len(counts)))
            alive.append((k, kernel(**requests[k])))
            if len(alive) > 6:
                at = int(rng.integers(len(alive)))
                j, result = alive.pop(at)
                wrong.extend(
                    n for n in result.names if not np.array_equal(result[n], expected[j][n])
                )
        wrong.extend(
            n for j, r in alive for n in r.names if not np.array_equal(r[n], expected[j][n])
        )

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(300)
    assert not wrong and not any(worker.is_alive() for worker in workers)
    assert 0 < kept_bytes(kernel) <= MOST


def test_a_result_may_go_in_another_thread(kernel: Kernel) -> None:
    results = [kernel(**request(COUNT, 1))]
    worker = threading.Thread(target=results.clear)
    worker.start()
    worker.join(30)
    assert kept_bytes(kernel) > 0


def test_a_child_has_its_own_after_a_fork(kernel: Kernel, fork: Fork) -> None:
    first = kernel(**request(COUNT, 1))
    expected = first.dqdd_dq.copy()
    other = kernel(**request(COUNT, 2)).dqdd_dq.copy()
    assert kept_bytes(kernel) > 0

    def child() -> None:
        good = np.array_equal(kernel(**request(COUNT, 2)).dqdd_dq, other)
        good &= np.array_equal(first.dqdd_dq, expected)
        os._exit(0 if good else 3)

    process = fork(child)
    process.join(30)
    assert process.exitcode == 0
    assert np.array_equal(first.dqdd_dq, expected)


def test_calls_that_are_refused_keep_nothing(kernel: Kernel) -> None:
    good = request(COUNT, 1)
    result = kernel(**good)
    wrong_dtype = {n: v for n, v in result.items() if n != "saturated"}
    wrong_dtype["dqdd_dqd"] = np.zeros((COUNT, 2, 2), np.float32)
    for call in (
        {**good, "tau": np.zeros((COUNT, 3))},
        {**good, "out": wrong_dtype},
        {**good, "out": {**result, "dqdd_dqd": result.dqdd_dq}},
    ):
        with pytest.raises(InputError):
            kernel(**call)
    assert kept_bytes(kernel) == 0
    del wrong_dtype, call, result
    assert kept_bytes(kernel) > 0


def test_what_fails_half_way_gives_its_memory_back(cache_folder: Path) -> None:
    chain = kernels.compile(random_chain(20, seed=1), "rnea", cache=cache_folder)
    module = chain._native.runtime.module
    if module is None:
        pytest.skip("Python's headers are missing")
    inputs = {name: np.full((500, 20), 0.1) for name in ("q", "qd", "qdd")}
    alive = chain(**inputs)
    expected = alive.copy()
    module.give_up()
    struct = KernelStruct.from_address(chain.address)
    struct.abi = 99
    with pytest.raises(RuntimeError, match="pinion_run answered 1"):
        chain(**inputs)
    struct.abi = 1
    assert module.kept() >= alive.nbytes, "the memory of results is lost"
    again = chain(**inputs)
    assert (
        np.array_equal(again, expected) and np.array_equal(alive, expected) and apart(again, alive)
    )


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc on this system")
def test_memory_is_bounded_over_calls_of_changing_sizes(kernel: Kernel) -> None:
    rng = np.random.default_rng(20_261_125)
    largest = request(400_000, 1)
    before, most = resident(), 0
    for k in range(10_000):
        large = k % 1000 < 12
        count = int(rng.integers(100_000, 400_000)) if large else int(rng.integers(1, 1500))
        result = kernel(**{name: values[:count] for name, values in largest.items()})
        if large or not k % 50:
            most = max(most, kept_bytes(kernel))
            # The last result, the kept memory, and the C library's own.
            assert resident() - before < MOST + (64 << 20) + sum(v.nbytes for v in result.values())
    assert MOST // 2 < most <= MOST, "the bound was not tried"


def test_it_is_off_by_an_option(kernel: Kernel, cache_folder: Path) -> None:
    new = cpu.compile("two_link", "fd_derivatives", reuse=False, cache=cache_folder)
    inputs = request(COUNT, 1)
    assert np.array_equal(new(**inputs).dqdd_dq, kernel(**inputs).dqdd_dq)
    kernel._native.runtime.module.give_up()
    result = new(**inputs)
    assert all(result[name].ctypes.data % 64 == 0 for name in result.names)
    del result
    assert new._native.runtime.module.kept() == 0
    lists = new(**{name: values.tolist() for name, values in inputs.items()})
    del lists
    assert new._native.runtime.module.kept() == 0


def test_converted_requests_use_it_too(kernel: Kernel) -> None:
    inputs = request(COUNT, 1)
    expected = kernel(**inputs).dqdd_dq.copy()
    kernel._native.runtime.module.give_up()
    lists = {name: values.tolist() for name, values in inputs.items()}
    address = kernel(**lists).dqdd_dq.ctypes.data
    assert kept_bytes(kernel) > expected.nbytes
    result = kernel(**lists)
    assert np.array_equal(result.dqdd_dq, expected)
    assert address in (result.dqdd_dq.ctypes.data, result.dqdd_dqd.ctypes.data)
