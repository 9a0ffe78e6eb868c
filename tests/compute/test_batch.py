from __future__ import annotations

import ctypes
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.compute.runtime_library import (
    AOS,
    BLOCKS,
    LAYOUTS,
    ONE,
    SOA,
    KernelStruct,
    Library,
    Placed,
    View,
    build,
    compiler,
    extent,
    instruction_sets,
)
from tests.support.breadth import some

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler")

SEED = 11
SIZES = (1, 2, 3, 7, 12, 16, 17, 30, 49)
COUNTS = (0, 1, 2, 7, 8, 15, 16, 17, 31, 33, 100, 4097)
DTYPES = [pytest.param(np.dtype(d), id=d) for d in ("float32", "float64")]
# Seconds; ends a hang.
LIMIT = 600

DONE, BAD_KERNEL, BAD_VIEW = range(3)


@pytest.fixture(scope="module", params=some(instruction_sets(), 1))
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Library:
    return build(request.param, tmp_path_factory.mktemp("toys"))


@pytest.fixture
def rng() -> np.random.Generator:
    print(f"seed {SEED}")
    return np.random.default_rng(SEED)


def samples(n: int, size: int, dtype: np.dtype) -> np.ndarray:
    """Return (n, size) elements that identify their sample and place."""
    return (np.arange(n)[:, None] * 64 + np.arange(size) + 1).astype(dtype)


def sums(inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Return the results of the kernel "sums" for arrays (n, size)."""
    return [2 * a - (np.arange(a.shape[1]) + 1).astype(a.dtype) * inputs[0] for a in inputs]


def tight(layout: int, size: int, n: int) -> int:
    """Return the stride of an array without gaps."""
    return size if layout == AOS else n


def placed(
    layout: int, size: int, n: int, dtype: np.dtype, *, stride: int | None = None, offset: int = 0
) -> Placed:
    """Return an array amid a pattern, `offset` elements after a multiple of 64 bytes."""
    stride = tight(layout, size, n) if stride is None else stride
    room = extent(layout, size, stride, n) * dtype.itemsize
    memory = np.full(room + 512, 0xA5, np.uint8)
    start = 128 - memory.ctypes.data % 64 + offset * dtype.itemsize
    return Placed(memory, start, layout, size, stride, n, dtype)


def check_sums(
    library: Library,
    dtype: np.dtype,
    n: int,
    inputs: list[Placed],
    outputs: list[Placed],
    threads: int,
) -> None:
    """Run the kernel "sums" and compare everything, including the memory around outputs."""
    values = [samples(n, a.size, dtype) for a in inputs]
    for a, value in zip(inputs, values, strict=True):
        if a.layout == ONE:
            value[:] = value[:1]
        a.write(value)
    before = [a.memory.copy() for a in outputs]
    assert library.run(library.kernel("sums", dtype), n, inputs, outputs, threads) == DONE
    for a, expected, old in zip(outputs, sums(values), before, strict=True):
        np.testing.assert_array_equal(a.read(), expected)
        assert a.untouched(old), (n, a.layout, a.size, a.stride, threads)


def in_child(work: Callable[[], object]) -> None:
    """Run in a fork of this process; a signal, an exception or a hang there is a failure."""
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(LIMIT)
            work()
            os._exit(0)
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_layout_gives_every_sample(library: Library, dtype: np.dtype, layout: int) -> None:
    for n in COUNTS:
        for threads in (1, 2, 4):
            inputs = [placed(layout, size, n, dtype) for size in SIZES]
            outputs = [placed(layout, size, n, dtype) for size in SIZES]
            check_sums(library, dtype, n, inputs, outputs, threads)


@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts_gaps_and_alignments_mix(
    library: Library, dtype: np.dtype, rng: np.random.Generator
) -> None:
    for n in COUNTS[1:]:
        for _ in range(6 if n < 1000 else 2):

            def array(size: int, layouts: tuple[int, ...], n: int = n) -> Placed:
                layout = int(rng.choice(layouts))
                stride = tight(layout, size, n) + int(rng.integers(0, 3)) * int(rng.integers(0, 9))
                offset = int(rng.integers(0, 16))
                return placed(layout, size, n, dtype, stride=stride, offset=offset)

            inputs = [array(size, (AOS, SOA, BLOCKS, ONE)) for size in SIZES]
            outputs = [array(size, (AOS, SOA, BLOCKS)) for size in SIZES]
            check_sums(library, dtype, n, inputs, outputs, int(rng.integers(0, 4)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_large_batches_leave_no_gap(library: Library, dtype: np.dtype) -> None:
    # Large enough that outputs bypass the caches, on lines and off them, with a ragged end.
    n = (17 << 20) // (2 * sum(SIZES) * dtype.itemsize) // 16 * 16 + 3
    for layout, stride, offset in (
        (AOS, None, 0),
        (AOS, None, 1),
        (SOA, n + 13, 0),
        (SOA, n, 0),
        (BLOCKS, None, 0),
    ):
        inputs = [placed(layout, s, n, dtype, stride=stride) for s in SIZES]
        outputs = [placed(layout, s, n, dtype, stride=stride, offset=offset) for s in SIZES]
        check_sums(library, dtype, n, inputs, outputs, 2)


def test_strides_of_inputs_are_free(library: Library) -> None:
    dtype, n, size = np.dtype("float32"), 37, 301
    kernel = library.kernel("copies", dtype)
    source = samples(n, size, dtype)
    turned = np.ascontiguousarray(source.T)
    windows = np.arange(n)[:, None] + np.arange(size)
    for data, layout, stride, expected in (
        (source[-1:], AOS, -size, source[::-1]),
        (source, AOS, 0, np.repeat(source[:1], n, axis=0)),
        (source, AOS, 1, source.ravel()[windows]),
        (turned[-1:], SOA, -n, source[:, ::-1]),
        (turned, SOA, 0, np.repeat(source[:, :1], size, axis=1)),
    ):
        result = np.zeros((n, size), dtype)
        x = View(data.ctypes.data, layout, stride)
        y = View(result.ctypes.data, AOS, size)
        assert library.c.pinion_run(kernel, n, ctypes.byref(x), ctypes.byref(y), 1) == DONE
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_samples_travel_bit_for_bit(
    library: Library, dtype: np.dtype, rng: np.random.Generator
) -> None:
    # Arrays too wide for the stack; all bits, including those of NaNs.
    kernel = library.kernel("copies", dtype)
    for n in (1, 5, 16, 23, 4097):
        for layout_in, layout_out in ((AOS, SOA), (SOA, AOS), (AOS, AOS), (BLOCKS, AOS)):
            x, y = placed(layout_in, 301, n, dtype), placed(layout_out, 301, n, dtype)
            bits = rng.integers(0, 256, (n, 301 * dtype.itemsize), np.uint8)
            x.write(bits.view(dtype))
            assert library.run(kernel, n, [x], [y], threads=2) == DONE
            assert np.array_equal(np.ascontiguousarray(y.read()).view(np.uint8), bits)


@pytest.mark.parametrize("dtype", DTYPES)
def test_only_needed_vectors_are_computed(library: Library, dtype: np.dtype) -> None:
    kernel = library.kernel("sums", dtype)
    lanes = kernel.contents.lanes
    for n in (1, 2, 7, 8, 9, 16, 17, 100):
        inputs = [placed(AOS, size, n, dtype) for size in SIZES]
        outputs = [placed(SOA, size, n, dtype) for size in SIZES]
        library.c.expect_crowd(0)
        assert library.run(kernel, n, inputs, outputs) == DONE
        full, rest = divmod(n, 16)
        assert library.c.count_calls() == full * (16 // lanes) + -(-rest // lanes)


@pytest.mark.parametrize("dtype", DTYPES)
def test_lanes_behind_the_last_sample_repeat_it(library: Library, dtype: np.dtype) -> None:
    kernel = library.kernel("sums", dtype)
    lanes = kernel.contents.lanes
    for n in (1, 2, 5, 15, 17, 23, 30):
        for layout in (AOS, SOA):
            inputs = [placed(layout, size, n, dtype) for size in SIZES]
            outputs = [placed(AOS, size, n, dtype) for size in SIZES]
            for a in inputs:
                a.write(samples(n, a.size, dtype))
            assert library.run(kernel, n, inputs, outputs) == DONE
            lanes_of_call = library.c.lanes_of_last_call()[:lanes]
            first = (n - 1) // lanes * lanes
            assert lanes_of_call == [64.0 * min(first + i, n - 1) + 1 for i in range(lanes)]


def fenced(layout: int, size: int, n: int, dtype: np.dtype, *, at_end: bool) -> Placed:
    """Return an array next to a page without access, after it or before it."""
    page = mmap.PAGESIZE
    stride = tight(layout, size, n)
    room = extent(layout, size, stride, n) * dtype.itemsize
    inner = -(-room // page) * page
    area = mmap.mmap(-1, inner + 2 * page)
    memory = np.frombuffer(area, np.uint8)
    address = memory.ctypes.data
    libc = ctypes.CDLL(None, use_errno=True)
    for fence in (address, address + page + inner):
        assert libc.mprotect(ctypes.c_void_p(fence), ctypes.c_size_t(page), 0) == 0
    start = page + inner - room if at_end else page
    return Placed(memory, start, layout, size, stride, n, dtype)


@pytest.mark.parametrize("at_end", [True, False], ids=["behind", "before"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_nothing_beside_arrays_is_touched(library: Library, dtype: np.dtype, at_end: bool) -> None:
    def touch() -> None:
        kernel = library.kernel("sums", dtype)
        for n in (1, 2, 5, 15, 16, 17, 33):
            for layout in LAYOUTS.values():
                values = [samples(n, size, dtype) for size in SIZES]
                inputs = [fenced(layout, s, n, dtype, at_end=at_end) for s in SIZES]
                outputs = [fenced(layout, s, n, dtype, at_end=at_end) for s in SIZES]
                for a, value in zip(inputs, values, strict=True):
                    a.write(value)
                assert library.run(kernel, n, inputs, outputs) == DONE
                for a, expected in zip(outputs, sums(values), strict=True):
                    assert np.array_equal(a.read(), expected)

    in_child(touch)


@pytest.fixture
def meeting(library: Library) -> Iterator[Callable[[int, int], int]]:
    """Return a function that computes a batch in which threads must meet, and counts them."""

    def meet(threads: int, crowd: int) -> int:
        dtype, n = np.dtype("float32"), 1003
        inputs = [placed(AOS, size, n, dtype) for size in SIZES]
        outputs = [placed(AOS, size, n, dtype) for size in SIZES]
        library.c.expect_crowd(crowd)
        check_sums(library, dtype, n, inputs, outputs, threads)
        return int(library.c.count_threads())

    yield meet
    library.c.expect_crowd(0)


def test_so_many_threads_compute(meeting: Callable[[int, int], int]) -> None:
    for threads in (2, 4, 3, 1):
        assert meeting(threads, threads) == threads


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs the affinity of threads")
def test_no_thread_computes_elsewhere_than_the_process_may(
    meeting: Callable[[int, int], int],
) -> None:
    def pinned() -> None:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        assert meeting(0, 1) == 1
        # Requested threads share the processor.
        assert meeting(2, 2) == 2
        masks = [os.sched_getaffinity(int(task)) for task in os.listdir("/proc/self/task")]
        assert masks == [os.sched_getaffinity(0)] * 2

    assert meeting(2, 2) == 2
    in_child(pinned)


def test_the_child_of_a_fork_has_a_pool_of_its_own(meeting: Callable[[int, int], int]) -> None:
    def use() -> None:
        assert meeting(2, 2) == 2
        in_child(lambda: meeting(3, 3))

    use()
    in_child(use)
    use()


def test_a_fork_amid_a_batch_leaves_the_child_a_pool(
    library: Library, meeting: Callable[[int, int], int]
) -> None:
    # Two threads wait for a third one, which does not come, during the fork.
    library.c.expect_crowd(0)
    other = threading.Thread(target=meeting, args=(2, 3))
    other.start()
    try:
        deadline = time.monotonic() + LIMIT
        while library.c.count_threads() < 2 and time.monotonic() < deadline:
            time.sleep(0.001)
        assert library.c.count_threads() == 2
        in_child(lambda: meeting(2, 2))
    finally:
        library.c.expect_crowd(0)
        other.join()


@pytest.mark.parametrize("threads", [1, 2])
def test_callers_do_not_disturb_each_other(library: Library, threads: int) -> None:
    dtype = np.dtype("float64")
    failures: list[BaseException] = []

    def call(n: int) -> None:
        try:
            for _ in range(10):
                inputs = [placed(AOS, size, n, dtype) for size in SIZES]
                outputs = [placed(SOA, size, n, dtype) for size in SIZES]
                check_sums(library, dtype, n, inputs, outputs, threads)
        except BaseException as error:
            failures.append(error)

    callers = [threading.Thread(target=call, args=(n,)) for n in (3, 1600, 1601, 999)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not failures


def test_a_process_with_a_pool_ends(library: Library) -> None:
    program = f"""
import numpy as np
from pathlib import Path
from tests.compute.runtime_library import AOS, Library, Placed
library = Library(path=Path({str(library.path)!r}))
library.c.expect_crowd(2)
memory = np.zeros((2, 301 * 1000), "f4")
x, y = (Placed(m.view("u1"), 0, AOS, 301, 301, 1000, np.dtype("f4")) for m in memory)
assert library.run(library.kernel("copies", x.dtype), 1000, [x], [y], 2) == 0
print(library.c.count_threads())
"""
    completed = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        cwd=Path(__file__).parents[2],
        check=True,
    )
    assert completed.stdout.split() == ["2"]


def test_wrong_calls_are_refused(library: Library) -> None:
    dtype, n = np.dtype("float32"), 20
    kernel = library.kernel("copies", dtype)
    good = placed(AOS, 301, n, dtype)

    def answer(
        n: int = n,
        *,
        kernel: ctypes._Pointer[KernelStruct] = kernel,
        x: View = good.view,
        y: View = good.view,
    ) -> int:
        return int(library.c.pinion_run(kernel, n, ctypes.byref(x), ctypes.byref(y), 1))

    def like(layout: int, stride: int) -> View:
        return View(good.view.data, layout, stride)

    assert answer(0, x=View(None, AOS, 301), y=View(None, AOS, 301)) == DONE
    for change in ({"abi": 2}, {"bytes": 2}, {"lanes": 0}, {"lanes": 3}, {"lanes": 32}):
        other = KernelStruct.from_buffer_copy(kernel.contents)
        for name, value in change.items():
            setattr(other, name, value)
        assert answer(kernel=ctypes.pointer(other)) == BAD_KERNEL
        assert answer(0, kernel=ctypes.pointer(other)) == BAD_KERNEL
    assert answer(kernel=ctypes.POINTER(KernelStruct)()) == BAD_KERNEL
    for view in (like(4, 301), like(-1, 301), View(None, AOS, 301)):
        assert answer(x=view) == BAD_VIEW
        assert answer(y=view) == BAD_VIEW
    assert answer(y=like(ONE, 0)) == BAD_VIEW
    assert answer(y=like(AOS, 300)) == BAD_VIEW
    assert answer(y=like(AOS, -300)) == BAD_VIEW
    assert answer(y=like(SOA, n - 1)) == BAD_VIEW


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_first_that_is_not_finite_is_found(
    library: Library, dtype: np.dtype, rng: np.random.Generator
) -> None:
    find, width = library.c.pinion_first_nonfinite, dtype.itemsize
    largest = np.finfo(dtype).max
    tiny = np.finfo(dtype).smallest_subnormal
    for n in (0, 1, 3, 16, 63, 64, 65, 1024, 5000):
        x = rng.normal(size=n + 1).astype(dtype)[1:]
        x[::3] = rng.choice(np.array([largest, -largest, tiny, -tiny, 0.0], dtype), x[::3].size)
        assert find(x.ctypes.data, width, n) == -1
        for first in {0, n // 2, n - 1, *rng.integers(0, max(n, 1), 5).tolist()} if n else ():
            for value in (np.inf, -np.inf, np.nan, -np.nan):
                y = x.copy()
                y[first] = value
                y[rng.integers(first, n, 3)] = np.nan
                y[first] = value
                assert find(y.ctypes.data, width, n) == first
                assert find(y.ctypes.data, width, first) == -1
    assert find(None, width, 0) == -1
    assert find(None, 2, 0) == -2


def test_a_search_reads_nothing_behind_the_array(library: Library) -> None:
    def search() -> None:
        dtype = np.dtype("float32")
        for n in (1, 15, 63, 64, 1023, 1025):
            for at_end in (True, False):
                x = fenced(AOS, 1, n, dtype, at_end=at_end)
                assert library.c.pinion_first_nonfinite(x.view.data, 4, n) == -1

    in_child(search)
