"""Batches as CUDA graphs, calls from several threads, and missing or lost memory."""

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
from tests.support.breadth import some
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


# ---- Graphs -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    some([{}, {"several": True}, {"crossover": 6}], lambda options: "several" not in options),
)
def test_with_graphs_results_have_the_same_bits(opened: Opened, options: dict[str, Any]) -> None:
    sizes = (130, 130, 5, 130, 5, 5, 130, 9, 9, 5)
    with_graphs, device = opened(**options)
    without, plain = opened(graphs=False, **options)
    for a, b in zip(run(with_graphs, sizes), run(without, sizes), strict=True):
        assert np.array_equal(a, b)
    assert device.recorded == 3 and plain.recorded == 0
    assert device.launches == plain.launches
    with_graphs.close()
    assert device.recorded == device.used == 0


def test_a_size_that_came_twice_is_one_call_of_the_driver(opened: Opened) -> None:
    kernel, device = opened(several=True)
    calls = []
    for _ in range(4):
        before = device.calls
        run(kernel, [7])
        calls.append((device.calls - before, device.recorded))
    several = 2 + len(kernel.source.kernels)
    assert several > 3 and calls == [(several, 0), (1, 1), (1, 1), (1, 1)]


def scenario(kernel: CudaKernel, device: HostDevice) -> None:
    """Check graphs: sizes, arrays that serve all samples, closed lanes, a bound."""
    run(kernel, (6, 6, 4, 4, 6, 4, 6))
    inputs = states(kernel, 6)
    shared = {**inputs, "qd": inputs["qd"][2]}
    every = {**inputs, "qd": np.repeat(inputs["qd"][2:3], 6, axis=0)}
    for _ in range(3):
        assert np.array_equal(kernel(**shared).tau, kernel(**every).tau)
        assert right(kernel, every, kernel(**every))
    # Larger chunks use other memory, and the graphs of the old one are gone.
    run(kernel, (40,))
    assert device.recorded == 0
    run(kernel, (6, 6, 6))
    assert device.recorded == 1
    # Only the latest graphs are kept, up to the limit.
    for count in range(10, 30):
        before = device.calls
        run(kernel, (count, count, 6))
        assert device.calls == before + 3 + 1 + 1
    assert device.recorded == kernels._GRAPHS
    kernel.close()
    assert device.recorded == device.used == 0
    run(kernel, (6, 6))
    kernel.close()
    assert device.recorded == device.used == 0


def test_graphs_belong_to_a_size_and_to_memory(opened: Opened) -> None:
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
        ("_replay", "key = count, ones", "key = 0, ones"),
        ("_replay", "key = count, ones", "key = count, ()"),
        ("_replay", "graph.launch()", "pass"),
        ("_replay", "> _GRAPHS", "> _GRAPHS + 1"),
        ("_replay", "> _GRAPHS", "> _GRAPHS - 1"),
        ("_replay", "old.close()", "pass"),
        ("_replay", "self.graphs.pop(key) or", "self.graphs[key] or"),
        ("_replay", "next(iter(self.graphs))", "list(self.graphs)[-1]"),
        ("close", "[*recorded, *self.held]", "self.held"),
        ("close", "[*recorded, *self.held]", "recorded"),
    ],
)
def test_mistakes_about_graphs_are_noticed(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, method: str, old: str, new: str
) -> None:
    monkeypatch.setattr(kernels._Lane, method, mutant(getattr(kernels._Lane, method), old, new))
    kernel, device = opened()
    with pytest.raises(AssertionError):
        scenario(kernel, device)


def test_a_graph_of_memory_that_was_given_back_is_noticed(opened: Opened) -> None:
    kernel, _ = opened()
    run(kernel, (6, 6))
    lane, other = kernel._lanes
    graph = lane.graphs[6, (False,) * 3]
    assert graph is not None and other.graphs == {}
    lane.requests.close()
    graph.launch()
    with pytest.raises(AssertionError, match="given back"):
        lane.stream.wait()
    lane.fetched = lane.sent = np.zeros(0, np.uint8)
    lane.requests.closed = False  # type: ignore[attr-defined]  # it is the player's
    graph.launch()
    with pytest.raises(AssertionError, match="nobody keeps"):
        lane.stream.wait()


def test_large_batches_are_no_graphs(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, device = opened()
    monkeypatch.setattr(kernels, "GRAPH_SAMPLES", 6)
    run(kernel, (7, 7, 7))
    assert device.recorded == 0
    run(kernel, (6, 6))
    assert device.recorded == 1
    monkeypatch.setattr(kernels, "GRAPH_SAMPLES", 4096)
    monkeypatch.setattr(kernels, "CHUNK_BYTES", 1)
    run(kernel, (300, 300, 300))
    assert device.recorded == 0


def test_a_graph_that_fails_is_gone(opened: Opened) -> None:
    kernel, device = opened()
    run(kernel, (6, 6))
    device.broken = True
    with pytest.raises(ComputeError, match="failed"):
        kernel(**states(kernel, 6))
    assert device.recorded == device.used == 0
    device.broken = False
    run(kernel, (6, 6, 6))
    assert device.recorded == 1


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
    assert device.recorded == device.used == 0


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
    with pytest.raises(ComputeError, match=r"or the host has none to pin: free some"):
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
    with pytest.raises(ComputeError, match=f"lacks {size:,} bytes for data between"):
        on_device(kernel, 70)
    device._memory = device.used + results - 1
    with pytest.raises(ComputeError, match=r"bytes for the result 'dtau_dqd' of 70 samples"):
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
    with pytest.raises(AssertionError, match="given back"):
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
