"""Small batches, calls from several threads, and missing or lost memory."""

from __future__ import annotations

import contextlib
import inspect
import textwrap
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from pinion.compute.cuda import kernel as kernels
from pinion.compute.cuda.kernel import CudaKernel
from pinion.native.errors import ComputeError
from tests.compute.cuda.conftest import Opened, There, close, fetched, sampled
from tests.native.conftest import needs_compiler
from tests.support.cuda_device import HostDevice, HostStream

pytestmark = needs_compiler


def right(kernel: CudaKernel, inputs: dict[str, np.ndarray], results: Mapping[str, Any]) -> bool:
    """Return whether all results are those of the function."""
    expected = kernel.function.evaluate(kernel.model, inputs)
    return all(close(results[a.name], expected[a.name]) for a in kernel.results)


def states(kernel: CudaKernel, count: int, seed: int = 4) -> dict[str, np.ndarray]:
    return sampled(kernel.model, kernel.function, count, seed)


def run(kernel: CudaKernel, sizes: Sequence[int]) -> list[np.ndarray]:
    """Return the results of batches of the given sizes, each with different states."""
    arrays_of_batches = []
    for k, count in enumerate(sizes):
        inputs = states(kernel, count, k)
        results = kernel(**inputs)
        assert right(kernel, inputs, results)
        arrays_of_batches += [results[a.name] for a in kernel.results]
    return arrays_of_batches


def on_device(kernel: CudaKernel, count: int, **options: Any) -> Mapping[str, Any]:
    """Compute a batch with arrays on the device."""
    return kernel(**placed(kernel, count), **options)


def placed(kernel: CudaKernel, count: int) -> dict[str, There]:
    return {name: There(values) for name, values in states(kernel, count).items()}


def arrays(results: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the values of results on the device."""
    return {name: fetched(array) for name, array in results.items() if name != "saturated"}


# ---- Small batches in pinned memory -------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"several": True}, {"crossover": 6}])
def test_results_have_the_same_bits_without_copies(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    sizes = (130, 5, 130, 9, 5, 1)
    kernel, device = opened(**options)
    results = run(kernel, sizes)
    launched = device.launches
    assert device.calls == len(launched)  # nothing but launches
    monkeypatch.setattr(kernels, "DIRECT_BYTES", 0)
    copying, other = opened(**options)
    for a, b in zip(results, run(copying, sizes), strict=True):
        assert np.array_equal(a, b)
    assert other.launches == launched and other.calls == len(launched) + 2 * len(sizes)


def scenario(kernel: CudaKernel, device: HostDevice) -> None:
    """Check small batches: sizes in turn, inputs that serve all samples, a bound, larger memory."""
    run(kernel, (6, 4, 6, 40, 4))
    inputs = states(kernel, 6)
    shared = {**inputs, "qd": inputs["qd"][2]}
    every = {**inputs, "qd": np.repeat(inputs["qd"][2:3], 6, axis=0)}
    for _ in range(2):
        assert np.array_equal(kernel(**shared).tau, kernel(**every).tau)
        assert right(kernel, every, kernel(**every))
    run(kernel, range(kernels._FRAMES + 8, 0, -1))
    assert all(len(lane._frames) <= kernels._FRAMES for lane in kernel._lanes)
    limit = max(n for n in range(2000) if kernel._chunk_bytes(n) <= kernels.DIRECT_BYTES)
    before = device.calls
    run(kernel, (limit, limit + 1))
    assert device.calls == before + 1 + 3  # two copies for the larger one
    kernel.close()
    assert device.used == 0


def test_small_batches_stay_in_the_memory_of_the_host(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "DIRECT_BYTES", 1 << 17)
    scenario(*opened())


def mutant(function: Callable[..., Any], old: str, new: str) -> Callable[..., Any]:
    text = textwrap.dedent(inspect.getsource(function))
    assert text.count(old) == 1
    namespace: dict[str, Any] = {}
    exec(text.replace(old, new), vars(kernels), namespace)
    return namespace[function.__name__]


@pytest.mark.parametrize(
    ("method", "old", "new"),
    [
        ("start", "self._frames.get((count, ones))", "self._frames.get((6, ones))"),
        ("start", "= self._frames[count, ones] =", "= self._frames[count, (False,) * 3] ="),
        ("start", "values[first : first + count]", "values[:1]"),
        ("start", "self._frames.clear()", "pass"),
        ("frame", "0 if shared else", "0 if False else"),
        ("frame", "+ begin", "+ begins[0]"),
        ("frame", "memory.address) + begin", "pinned.ctypes.data) + begin"),
        ("frame", "<= DIRECT_BYTES", ">= 0"),
        ("_queue", "self.sent[: frame.sizes[0]]", "self.sent[:8]"),
        ("_queue", "self.fetched[: frame.sizes[1]]", "self.fetched[:8]"),
    ],
)
def test_mistakes_about_small_batches_are_noticed(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, method: str, old: str, new: str
) -> None:
    monkeypatch.setattr(kernels, "DIRECT_BYTES", 1 << 17)
    monkeypatch.setattr(kernels._Lane, method, mutant(getattr(kernels._Lane, method), old, new))
    kernel, device = opened()
    with pytest.raises((AssertionError, KeyError, ValueError)):
        scenario(kernel, device)


def test_a_batch_whose_pinned_memory_is_gone_is_noticed(opened: Opened) -> None:
    kernel, _ = opened()
    run(kernel, (6,))
    lane = kernel._lanes[0]
    inputs = states(kernel, 6)
    lane.start(0, 6, inputs, {"tau": np.zeros((6, 3))})
    lane._frames.clear()
    lane.pending = None
    lane.fetched = lane.sent = np.zeros(0, np.uint8)
    with pytest.raises(AssertionError, match="nothing refers to it"):
        lane.stream.wait()


# ---- Threads ------------------------------------------------------------------------------------


def from_threads(kernel: CudaKernel) -> list[str]:
    """Call a kernel from several threads and return the failures."""
    wrong: list[str] = []

    def work(count: int) -> None:
        inputs = states(kernel, count)
        try:
            for _ in range(12):
                if not right(kernel, inputs, kernel(**inputs)):
                    wrong.append(f"{count}: numbers")
        except BaseException as error:
            wrong.append(f"{count}: {error!r}")

    threads = [threading.Thread(target=work, args=(count,)) for count in (3, 20, 150, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def test_several_threads_may_call(opened: Opened) -> None:
    kernel, device = opened()
    device.waiting = lambda: time.sleep(1e-4)  # the others' turn, if they could
    assert from_threads(kernel) == []
    kernel.close()
    assert device.used == 0


def test_without_turns_threads_disturb_each_other(opened: Opened) -> None:
    kernel, device = opened()
    device.waiting = lambda: time.sleep(1e-4)
    kernel._turn = contextlib.nullcontext()  # type: ignore[assignment]  # no turns
    assert from_threads(kernel) != []


def test_threads_with_arrays_of_the_device_share_nothing(opened: Opened) -> None:
    kernel, _ = opened(several=True)
    wrong: list[int] = []

    def work(count: int) -> None:
        for _ in range(5):
            results = on_device(kernel, count)
            if not right(kernel, states(kernel, count), arrays(results)):
                wrong.append(count)

    threads = [threading.Thread(target=work, args=(count,)) for count in (5, 40, 70)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# ---- Memory and devices that fail ---------------------------------------------------------------


def test_pinned_memory_that_is_refused_leaves_nothing_behind(opened: Opened) -> None:
    kernel, device = opened()
    device.pinnable = 10
    with pytest.raises(ComputeError, match=r"or the host cannot pin more memory: free some"):
        kernel(**states(kernel, 300))
    assert device.used == 0
    assert device.pinnable == 10
    # Enough for smaller chunks.
    device.pinnable = 70_000
    results = kernel(**states(kernel, 300))
    assert right(kernel, states(kernel, 300), results) and kernel._lanes[0].samples == 150
    kernel.close()
    assert device.used == 0


def test_a_workspace_for_which_there_is_no_memory_is_a_sentence(opened: Opened) -> None:
    kernel, device = opened(several=True)
    size, results = kernel.workspace_bytes(70), 70 * 18 * 8
    device._memory = results + size - 1
    with pytest.raises(ComputeError, match=f"cannot allocate {size:,} bytes for data between"):
        on_device(kernel, 70)
    device._memory = device.used + results - 1
    with pytest.raises(ComputeError, match=r"bytes for the result 'dtau_dqd' of a batch of 70"):
        on_device(kernel, 70)


def test_a_workspace_does_not_make_a_callers_stream_wait(opened: Opened) -> None:
    kernel, device = opened(several=True)
    stream = device.stream()
    calls = [placed(kernel, count) for count in (70, 40)]
    outputs = [kernel(**inputs, stream=stream) for inputs in calls]
    for results in map(arrays, outputs):
        assert all(np.isnan(values).all() for values in results.values())
    array_bytes = sum(8 * 18 * count for count in (70, 40))
    assert device.used == array_bytes + sum(map(kernel.workspace_bytes, (70, 40)))
    stream.wait()
    for results, count in zip(map(arrays, outputs), (70, 40), strict=True):
        assert right(kernel, states(kernel, count), results)
    assert device.used == array_bytes


def test_a_workspace_that_goes_too_early_is_noticed(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, device = opened(several=True)
    # As if it were not freed in the order of the stream.
    monkeypatch.setattr(HostStream, "allocate", lambda self, size: device.allocate(size))
    stream = device.stream()
    on_device(kernel, 70, stream=stream)
    with pytest.raises(AssertionError, match="after its release"):
        stream.wait()


def test_a_lost_device_says_so_every_time(opened: Opened) -> None:
    kernel, device = opened()
    run(kernel, (6, 6))
    device.lost = True
    for _ in range(3):
        with pytest.raises(ComputeError, match="is lost to this process: start"):
            kernel(**states(kernel, 6))
        with pytest.raises(ComputeError, match="is lost to this process: start"):
            on_device(kernel, 6)
    kernel.close()
