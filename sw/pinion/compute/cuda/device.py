"""Devices that run kernels: a GPU through ``cuda-core``, or a stand-in in a test.

The protocols here are the whole interface of a device, so that everything above it (chunks, copies,
streams, results) is the same for a GPU and for a CPU that simulates one.

The tests replace :class:`Gpu`, or give it a driver that is a few Python classes; those of
``tests/gpu`` run it on a GPU.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pinion.base.installation import install_hint
from pinion.batch import InputError
from pinion.native import ComputeError

OLDEST = (7, 5)
"""Compute capability of the oldest architecture that kernels are compiled for, Turing's."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Configuration of a kernel launch.

    Members
    -------
    blocks, threads : number of blocks, and threads per block, in one dimension.
    shared_bytes : dynamic shared memory per block.
    cooperative : whether all blocks run at once, so that they may wait for each other.
    """

    blocks: int
    threads: int
    shared_bytes: int
    cooperative: bool = False


class Memory(Protocol):
    """An allocation of device memory.

    Members
    -------
    address : address of its first byte on the device.
    size : its size in bytes.
    """

    address: int
    size: int

    def close(self) -> None:
        """Free the memory; memory of a stream is freed after the work already queued there."""


class Recorded(Protocol):
    """Recorded work of a stream, which can be queued again as a whole.

    Copies and kernels keep the addresses and numbers of the recording; the memory is read when they
    run. The caller keeps all of it, including pinned host memory, until this is closed.
    """

    def launch(self) -> None:
        """Queue the work, with one call to the driver."""

    def close(self) -> None:
        """Free the recording; work that is already queued still completes."""


class CudaStream(Protocol):
    """A queue of operations that a device runs asynchronously, in order.

    Every call raises a ComputeError if the device or its driver refuses.
    """

    def allocate(self, size: int) -> Memory:
        """Allocate memory in stream order.

        Raises
        ------
        MemoryError
            If the device has too little.
        """

    def upload(self, to: Memory, source: NDArray[Any]) -> None:
        """Copy pinned host memory to the beginning of a device allocation."""

    def download(self, to: NDArray[Any], source: Memory) -> None:
        """Copy the beginning of a device allocation to pinned host memory."""

    def copy(self, to: Memory, source: Memory) -> None:
        """Copy a device allocation to another of the same size."""

    def launch(self, kernel: Any, launch: Launch, args: Sequence[int]) -> None:
        """Queue a kernel launch.

        Parameters
        ----------
        kernel : returned by the device's `load`.
        launch : blocks, threads and shared memory.
        args : numbers, and addresses on the device: integers of eight bytes.
        """

    def record(self, work: Callable[[CudaStream], None]) -> Recorded:
        """Record work for repeated launches, without running it now.

        Parameters
        ----------
        work : queues copies and launches on the stream passed to it, and neither waits nor
            allocates.
        """

    def after(self, other: CudaStream) -> None:
        """Make work queued from now on wait for the work already queued in another stream."""

    def wait(self) -> None:
        """Wait until all work queued in this stream is done.

        Raises
        ------
        ComputeError
            If the device failed or is lost.
        """


class CudaDevice(Protocol):
    """A device that runs kernels; several threads may call it at once.

    Every call raises a ComputeError if the device or its driver refuses; after an error from which
    the driver does not recover, every call reports that error.

    Members
    -------
    name : name for messages.
    index : number among the devices of the machine.
    architecture : such as ``sm_90``.
    multiprocessors : number of multiprocessors.
    clock_ghz : largest clock frequency of the multiprocessors.
    """

    name: str
    index: int
    architecture: str
    multiprocessors: int
    clock_ghz: float

    def allocate(self, size: int) -> Memory:
        """Allocate device memory that all of the device's streams can use.

        Raises
        ------
        MemoryError
            If the device has too little.
        """

    def pinned(self, size: int) -> NDArray[np.uint8]:
        """Allocate pinned host memory, which the device can access directly.

        Raises
        ------
        MemoryError
            If the host has no more of it.
        """

    def stream(self, stream: Any = None) -> CudaStream:
        """Create a stream, or wrap the caller's (an object with ``__cuda_stream__``)."""

    def load(self, name: str, text: str) -> Any:
        """Compile source text, unless it is in the cache, and load the kernel of that name."""

    def wait(self) -> None:
        """Wait until all streams of the device are done, including those of other libraries."""


_CONFIGS = 256  # configurations of launches that are kept

_NO_RETURN = (
    "CUDA_ERROR_ASSERT",
    "CUDA_ERROR_CONTAINED",
    "CUDA_ERROR_CONTEXT_IS_DESTROYED",
    "CUDA_ERROR_ECC_UNCORRECTABLE",
    "CUDA_ERROR_HARDWARE_STACK_ERROR",
    "CUDA_ERROR_ILLEGAL_ADDRESS",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE",
    "CUDA_ERROR_INVALID_PC",
    "CUDA_ERROR_LAUNCH_FAILED",
    "CUDA_ERROR_LAUNCH_TIMEOUT",
    "CUDA_ERROR_MISALIGNED_ADDRESS",
    "CUDA_ERROR_NVLINK_UNCORRECTABLE",
    "CUDA_ERROR_TENSOR_MEMORY_LEAK",
)
"""Errors that every later call of the process repeats (CUDA driver API, ``CUresult``)."""


class Gpu:
    """A GPU of this machine, through ``cuda-core``.

    Every call makes the device the calling thread's current one and restores the previous one
    afterwards; opening it leaves it current.
    """

    def __init__(self, index: int, compile_kernel: Callable[[str, str, str], bytes]) -> None:
        """Open a GPU by its index.

        Parameters
        ----------
        index : number among the devices of the machine, as the driver counts.
        compile_kernel : returns the cubin for a kernel's name, its text and an architecture.

        Raises
        ------
        InputError
            If cuda-core, a driver or the device is missing, or the device is too old.
        ComputeError
            If the device does not open.
        """
        try:
            from cuda import core
            from cuda.bindings import driver
        except ImportError:
            raise InputError(
                f"The device 'cuda' needs the package cuda-core: {install_hint('cuda')}, or use "
                'device="cpu" (--device cpu).'
            ) from None
        try:
            devices = core.Device.get_all_devices()
        except Exception as error:
            raise InputError(
                f"The NVIDIA driver does not respond ({_line(error)}): install or repair it, or "
                'use device="cpu" (--device cpu).'
            ) from None
        if not devices:
            raise InputError('This machine has no NVIDIA GPU: use device="cpu" (--device cpu).')
        if not 0 <= index < len(devices):
            raise InputError(
                f"There is no GPU {index}: this machine has {len(devices)}, numbered from 0."
            )
        self._core = core
        self._driver = driver
        self._compile = compile_kernel
        self._lost = ""
        self._configs: dict[Launch, Any] = {}
        self.name = f"GPU {index}"
        self.index = index
        self._device = device = devices[index]
        try:
            device.set_current()
            self._context = device.context.handle
            capability = device.compute_capability
            self.name = str(device.name)
            self.multiprocessors = int(device.properties.multiprocessor_count)
            self.clock_ghz = int(device.properties.clock_rate) * 1e-6  # from kHz
        except Exception as error:
            raise self._refusal("open", error) from None
        if (capability.major, capability.minor) < OLDEST:
            raise InputError(
                f"GPU {index} ({device.name}) has compute capability {capability.major}."
                f"{capability.minor}, but Pinion's kernels need {OLDEST[0]}.{OLDEST[1]} or higher: "
                'use another GPU, or device="cpu" (--device cpu).'
            )
        self.architecture = f"sm_{capability.major}{capability.minor}"
        with self._asked("create a stream"):
            self._own = _GpuStream(self, device.create_stream())
            self._host = core.LegacyPinnedMemoryResource()

    def allocate(self, size: int) -> Memory:
        """Allocate device memory that all of the device's streams can use."""
        memory = self._own.allocate(size)
        self._own.wait()  # until then only this stream may use it
        return memory

    def pinned(self, size: int) -> NDArray[np.uint8]:
        """Allocate pinned host memory, which the device can access directly."""
        with self._asked(f"pin {size:,} bytes of the host's memory", memory=True):
            buffer = self._host.allocate(max(size, 1))
            block = (ctypes.c_uint8 * size).from_address(int(buffer.handle))
        # The array keeps its memory alive.
        return _Kept.of(np.ctypeslib.as_array(block), buffer)

    def stream(self, stream: Any = None) -> CudaStream:
        """Create a stream, or wrap the caller's."""
        with self._asked("create a stream"):
            return _GpuStream(self, self._device.create_stream(stream))

    def load(self, name: str, text: str) -> Any:
        """Compile source text, unless it is in the cache, and load the kernel of that name."""
        code = self._compile(name, text, self.architecture)
        with self._asked(f"load the kernel '{name}'"):
            return self._core.ObjectCode.from_cubin(code).get_kernel(name)

    def wait(self) -> None:
        """Wait until all streams of the device are done, including those of other libraries."""
        with self._asked("finish its work"):
            self._device.sync()

    def _config(self, launch: Launch) -> Any:
        """Return a launch's configuration, cached because creating it takes as long as a launch."""
        config = self._configs.get(launch)
        if config is None:
            if len(self._configs) >= _CONFIGS:
                self._configs.clear()
            config = self._configs[launch] = self._core.LaunchConfig(
                grid=launch.blocks,
                block=launch.threads,
                shmem_size=launch.shared_bytes,
                is_cooperative=launch.cooperative,
            )
        return config

    def _asked(self, action: str, *, memory: bool = False) -> _Asked:
        """Return a context manager that turns errors of driver calls into Pinion's exceptions.

        Parameters
        ----------
        action : what the calls do, for the message.
        memory : whether a lack of memory raises MemoryError.
        """
        return _Asked(self, action, memory)

    def _refusal(self, action: str, error: BaseException, *, memory: bool = False) -> Exception:
        """Return the exception to raise for an error of cuda-core or the driver."""
        if memory and ("OUT_OF_MEMORY" in str(error) or "out of memory" in str(error)):
            return MemoryError(f"{self.name} cannot {action}: out of memory.")
        if any(name in str(error) for name in _NO_RETURN):
            self._lost = (
                f"{self.name} can no longer be used in this process ({_line(error)}): restart the "
                "process."
            )
            return ComputeError(self._lost)
        return ComputeError(
            f"{self.name} failed to {action} ({_line(error)}): try again, or use "
            'device="cpu" (--device cpu).'
        )


class _Asked:
    """Context manager for driver calls: makes the device current and translates errors.

    A class, since a generator would take longer than some of the calls.
    """

    __slots__ = ("_action", "_gpu", "_memory")

    def __init__(self, gpu: Gpu, action: str, memory: bool) -> None:
        self._gpu = gpu
        self._action = action
        self._memory = memory

    def __enter__(self) -> None:
        gpu = self._gpu
        if gpu._lost:
            raise ComputeError(gpu._lost)
        # Another thread has no current device, and another library may have made its own current.
        try:
            (code,) = gpu._driver.cuCtxPushCurrent(gpu._context)
            if int(code):
                raise RuntimeError(getattr(code, "name", code))
        except Exception as error:
            raise gpu._refusal(self._action, error) from None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._gpu._driver.cuCtxPopCurrent()  # its code adds nothing to those of the calls
        if isinstance(error, Exception):
            raise self._gpu._refusal(self._action, error, memory=self._memory) from None


class _Kept(np.ndarray[Any, np.dtype[np.uint8]]):
    """An array that keeps the owner of its memory alive."""

    owner: Any

    @classmethod
    def of(cls, array: NDArray[np.uint8], owner: Any) -> _Kept:
        view = array.view(cls)
        view.owner = owner
        return view


class _GpuMemory:
    def __init__(self, gpu: Gpu, buffer: Any, stream: Any) -> None:
        self.buffer = buffer
        self.address = int(buffer.handle)
        self.size = int(buffer.size)
        self._gpu = gpu
        self._stream = stream

    def close(self) -> None:
        with self._gpu._asked("free memory"):
            self.buffer.close(self._stream)


class _GpuRecorded:
    def __init__(self, gpu: Gpu, graph: Any, stream: Any) -> None:
        self._gpu = gpu
        self._graph = graph
        self._stream = stream

    def launch(self) -> None:
        with self._gpu._asked("launch a graph"):
            self._graph.launch(self._stream)

    def close(self) -> None:
        with self._gpu._asked("free a graph"):
            self._graph.close()


class _GpuStream:
    """A stream of cuda-core, or its graph builder, which records what is queued."""

    def __init__(self, gpu: Gpu, stream: Any) -> None:
        self._gpu = gpu
        self._stream = stream

    def _part(self, address: int, size: int, owner: Any) -> Any:
        return self._gpu._core.Buffer.from_handle(address, size, owner=owner)

    def _copy(self, to: tuple[int, Any], source: tuple[int, Any], size: int) -> None:
        with self._gpu._asked(f"copy {size:,} bytes"):
            target, origin = (self._part(address, size, owner) for address, owner in (to, source))
            target.copy_from(origin, stream=self._stream)

    def allocate(self, size: int) -> Memory:
        gpu = self._gpu
        with gpu._asked(f"allocate {size:,} bytes", memory=True):
            buffer = gpu._device.allocate(max(size, 1), stream=self._stream)
            return _GpuMemory(gpu, buffer, self._stream)

    def upload(self, to: Memory, source: NDArray[Any]) -> None:
        self._copy((to.address, to), (source.ctypes.data, source), source.nbytes)

    def download(self, to: NDArray[Any], source: Memory) -> None:
        self._copy((to.ctypes.data, to), (source.address, source), to.nbytes)

    def copy(self, to: Memory, source: Memory) -> None:
        self._copy((to.address, to), (source.address, source), to.size)

    def launch(self, kernel: Any, launch: Launch, args: Sequence[int]) -> None:
        gpu = self._gpu
        with gpu._asked("launch a kernel"):
            # Integers are passed as eight bytes, as kernels declare them. In a type of ctypes the
            # same 19 take 11 us instead of one.
            gpu._core.launch(self._stream, gpu._config(launch), kernel, *map(int, args))

    def record(self, work: Callable[[CudaStream], None]) -> Recorded:
        gpu = self._gpu
        with gpu._asked("record a graph"):
            builder = self._stream.create_graph_builder()
        try:
            with gpu._asked("record a graph"):
                # The stricter modes would forbid other threads, and Python's garbage collector in
                # this one, to free memory meanwhile.
                builder.begin_building("relaxed")
            work(_GpuStream(gpu, builder))
            with gpu._asked("record a graph"):
                graph = builder.end_building().complete()
        finally:
            with contextlib.suppress(ComputeError), gpu._asked("end a recording"):
                builder.close()
        return _GpuRecorded(gpu, graph, self._stream)

    def after(self, other: CudaStream) -> None:
        assert isinstance(other, _GpuStream)
        with self._gpu._asked("wait for another stream"):
            self._stream.wait(other._stream)  # by an event

    def wait(self) -> None:
        with self._gpu._asked("finish its work"):
            self._stream.sync()


def _line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return text[0].rstrip(".") if text else type(error).__name__
