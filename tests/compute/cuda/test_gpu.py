"""Calls of a stand-in for the driver, and the sentences for their errors.

Nothing here shows that a GPU would execute them.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pinion.batch import InputError
from pinion.compute.cuda.device import CudaStream, Gpu, Launch
from pinion.native.errors import ComputeError

pytest.importorskip("cuda.core")
from tests.support.cuda_driver import StandIn

LOST = "CUDA_ERROR_ILLEGAL_ADDRESS: While executing a kernel.\nAnd more."
SHORT = "CUDA_ERROR_OUT_OF_MEMORY: not enough"


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    driver = StandIn()
    package: Any = ModuleType("cuda")
    package.core, package.bindings = driver.core, ModuleType("cuda.bindings")
    package.bindings.driver = driver.driver
    monkeypatch.setitem(sys.modules, "cuda", package)
    monkeypatch.setitem(sys.modules, "cuda.bindings", package.bindings)
    return driver


def opened() -> Gpu:
    return Gpu(0, lambda name, text, architecture: b"code")


def work(stream: CudaStream, gpu: Gpu) -> None:
    """Run a chunk: upload, kernel, download."""
    memory, pinned = gpu.allocate(64), gpu.pinned(64)
    stream.upload(memory, pinned)
    stream.launch(gpu.load("name", "text"), Launch(1, 32, 0), [1, memory.address])
    stream.download(pinned, memory)


CALLS: dict[str, Callable[[Gpu, CudaStream], Any]] = {
    "Device.allocate": lambda gpu, stream: gpu.allocate(64),
    "Device.create_stream": lambda gpu, stream: gpu.stream(),
    "Device.sync": lambda gpu, stream: gpu.wait(),
    "ObjectCode.from_cubin": lambda gpu, stream: gpu.load("name", "text"),
    "ObjectCode.get_kernel": lambda gpu, stream: gpu.load("name", "text"),
    "LegacyPinnedMemoryResource.allocate": lambda gpu, stream: gpu.pinned(64),
    "Buffer.from_handle": lambda gpu, stream: work(stream, gpu),
    "Buffer.copy_from": lambda gpu, stream: work(stream, gpu),
    "LaunchConfig": lambda gpu, stream: work(stream, gpu),
    "launch": lambda gpu, stream: work(stream, gpu),
    "Buffer.close": lambda gpu, stream: stream.allocate(64).close(),
    "Stream.sync": lambda gpu, stream: stream.wait(),
    "Stream.wait": lambda gpu, stream: stream.after(gpu.stream()),
    "Stream.create_graph_builder": lambda gpu, stream: stream.record(lambda to: None),
    "GraphBuilder.begin_building": lambda gpu, stream: stream.record(lambda to: None),
    "GraphBuilder.end_building": lambda gpu, stream: stream.record(lambda to: None),
    "GraphBuilder.complete": lambda gpu, stream: stream.record(lambda to: None),
    "Graph.launch": lambda gpu, stream: stream.record(lambda to: None).launch(),
    "Graph.close": lambda gpu, stream: stream.record(lambda to: None).close(),
    "cuCtxPushCurrent": lambda gpu, stream: stream.wait(),
}
"""Calls of cuda-core, each with code that makes it."""


def test_a_record_is_of_the_builder_and_is_launched_on_the_stream(stand_in: StandIn) -> None:
    gpu = opened()
    stream = gpu.stream()
    memory, pinned, kernel = gpu.allocate(64), gpu.pinned(64), gpu.load("name", "text")
    assert (gpu.name, gpu.architecture, gpu.multiprocessors) == ("a stand-in", "sm_90", 4)
    assert pinned.shape == (64,) and pinned.dtype == np.uint8

    def chunk(to: CudaStream) -> None:
        to.upload(memory, pinned)
        to.launch(kernel, Launch(1, 32, 0), [1, memory.address])
        to.download(pinned, memory)

    stand_in.called.clear()
    recorded = stream.record(chunk)
    recorded.launch()
    recorded.close()
    copy = ["Buffer.from_handle"] * 2 + ["Buffer.copy_from"]
    assert [name for name in stand_in.called if name != "cuCtxPushCurrent"] == [
        *("Stream.create_graph_builder", "GraphBuilder.begin_building"),
        *(*copy, "LaunchConfig", "launch", *copy),
        *("GraphBuilder.end_building", "GraphBuilder.complete", "GraphBuilder.close"),
        *("Graph.launch", "Graph.close"),
    ]
    assert stand_in.depth == 0


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_fails_is_a_sentence(stand_in: StandIn, name: str) -> None:
    gpu = opened()
    stream = gpu.stream()
    stand_in.failing[name] = "CUDA_ERROR_UNKNOWN: no\nreason"
    with pytest.raises(ComputeError, match=r"^a stand-in failed to .*UNKNOWN: no\): ") as caught:
        CALLS[name](gpu, stream)
    assert len(str(caught.value).splitlines()) == 1 and stand_in.depth == 0
    stand_in.failing.clear()
    CALLS[name](gpu, stream)
    memory = name in ("Device.allocate", "LegacyPinnedMemoryResource.allocate")
    stand_in.failing[name] = SHORT
    gpu._configs.clear()  # configurations are made once
    with pytest.raises(MemoryError if memory else ComputeError):
        CALLS[name](gpu, stream)


@pytest.mark.parametrize("name", CALLS)
def test_after_an_error_that_stays_every_call_says_so(stand_in: StandIn, name: str) -> None:
    gpu = opened()
    stream = gpu.stream()
    stand_in.failing[name] = LOST
    with pytest.raises(ComputeError, match="can no longer be used in this process"):
        CALLS[name](gpu, stream)
    stand_in.failing.clear()
    for call in CALLS.values():
        with pytest.raises(ComputeError) as caught:
            call(gpu, stream)
        assert str(caught.value) == (
            "a stand-in can no longer be used in this process (CUDA_ERROR_ILLEGAL_ADDRESS: While "
            "executing a kernel): restart the process."
        )
    assert stand_in.depth == 0


@pytest.mark.parametrize("name", ["Device.set_current", "Device.create_stream"])
def test_a_device_that_does_not_open_is_a_sentence(stand_in: StandIn, name: str) -> None:
    stand_in.failing[name] = "CUDA_ERROR_NO_DEVICE: none"
    with pytest.raises(
        InputError, match=r"failed to (open|create a stream) \(CUDA_ERROR_NO_DEVICE"
    ):
        opened()


def test_a_record_that_breaks_off_is_ended(stand_in: StandIn) -> None:
    def interrupted(to: CudaStream) -> None:
        raise KeyboardInterrupt

    stream = opened().stream()
    with pytest.raises(KeyboardInterrupt):
        stream.record(interrupted)
    assert stand_in.called[-1] == "GraphBuilder.close" and stand_in.depth == 0


def test_another_thread_has_the_device_current_too(stand_in: StandIn) -> None:
    gpu = opened()
    wrong: list[BaseException] = []

    def there() -> None:
        try:
            work(gpu.stream(), gpu)
            assert stand_in.depth == 0
        except BaseException as error:
            wrong.append(error)

    thread = threading.Thread(target=there)
    thread.start()
    thread.join()
    assert wrong == []


def test_cuda_core_passes_integers_as_eight_bytes() -> None:
    """Numbers, addresses and negative strides arrive as `long long`, without a type around them."""
    handler = pytest.importorskip("cuda.core._kernel_arg_handler", reason="cuda-core is missing")
    values = (5, 1 << 40, 0x7F0012345678, -3)
    arguments = handler.ParamHolder(values)
    places = (ctypes.c_void_p * len(values)).from_address(arguments.ptr)
    assert tuple(ctypes.c_longlong.from_address(place).value for place in places) == values
