"""What kernels run on: one GPU through ``cuda-core``, or whatever else takes its place in a test.

All that is asked of a device is in the protocols here, so that what stands above it (chunks,
copies, streams, results) is the same for a GPU and for a processor that plays one.

.. note:: :class:`Gpu` has been run on no GPU yet: its calls follow the documentation of cuda-core
   1.2, and the tests replace it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pinion.functions import InputError
from pinion.installation import install_hint

from ..errors import ComputeError

OLDEST = (7, 5)
"""Compute capability of the oldest architecture that kernels are compiled for, Turing's."""

Argument = ctypes.c_longlong
"""Of every kernel all arguments have eight bytes: numbers, and addresses on the device."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a kernel is started.

    Members
    -------
    blocks, threads : of one dimension, threads of a block.
    shared_bytes : of dynamic shared memory, a block's.
    """

    blocks: int
    threads: int
    shared_bytes: int


class Memory(Protocol):
    """Memory of a device.

    Members
    -------
    address : of its first byte there.
    size : its bytes.
    """

    address: int
    size: int

    def close(self) -> None:
        """Give it back."""


class Stream(Protocol):
    """What a device does in order; calls return before it is done."""

    def upload(self, to: Memory, source: NDArray[Any]) -> None:
        """Copy pinned host memory to the beginning of a memory of the device."""

    def download(self, to: NDArray[Any], source: Memory) -> None:
        """Copy the beginning of a memory of the device to pinned host memory."""

    def copy(self, to: Memory, source: Memory) -> None:
        """Copy a memory of the device to another one of the same size."""

    def launch(self, kernel: Any, launch: Launch, args: Sequence[int]) -> None:
        """Start a kernel.

        Parameters
        ----------
        kernel : what the device's `load` returned.
        launch : blocks, threads and shared memory.
        args : numbers, and addresses on the device.
        """

    def wait(self) -> None:
        """Until all of it is done.

        Raises
        ------
        ComputeError
            When the device failed or is lost.
        """


class Device(Protocol):
    """What kernels run on.

    Members
    -------
    name : for people.
    index : among the devices of the machine.
    architecture : such as ``sm_90``.
    multiprocessors : how many there are.
    clock_ghz : of the multiprocessors, at most.
    """

    name: str
    index: int
    architecture: str
    multiprocessors: int
    clock_ghz: float

    def free_bytes(self) -> int:
        """Of memory."""

    def allocate(self, size: int) -> Memory:
        """Memory of the device.

        Raises
        ------
        MemoryError
            When there is not so much.
        """

    def pinned(self, size: int) -> NDArray[np.uint8]:
        """Memory of the host that the device copies from and to by itself."""

    def stream(self, given: Any = None) -> Stream:
        """A new stream, or one of the caller's (an object with ``__cuda_stream__``)."""

    def load(self, name: str, text: str) -> Any:
        """Compile a text, or find it compiled, and load the kernel of that name."""

    def wait(self) -> None:
        """Until all streams of the device are done, also those of other libraries."""


class Gpu:
    """A GPU of this machine, through ``cuda-core``."""

    def __init__(self, index: int, compile_kernel: Callable[[str, str, str], bytes]) -> None:
        """Open a device.

        Parameters
        ----------
        index : among the devices of the machine, as the driver counts.
        compile_kernel : gives the cubin of a kernel's name and text for an architecture.

        Raises
        ------
        InputError
            When cuda-core, a driver or the device is missing, or the device is too old.
        """
        try:
            from cuda import core
        except ImportError:
            raise InputError(
                f"The device 'cuda' needs the package cuda-core: {install_hint('cuda')}, or take "
                'device="cpu".'
            ) from None
        try:
            devices = core.Device.get_all_devices()
        except Exception as error:
            raise InputError(
                f"The driver of an NVIDIA GPU does not answer ({_line(error)}): install it, or "
                'take device="cpu".'
            ) from None
        if not devices:
            raise InputError('This machine has no NVIDIA GPU: take device="cpu".')
        if not 0 <= index < len(devices):
            raise InputError(
                f"There is no GPU {index}: this machine has {len(devices)}, numbered from 0."
            )
        device = devices[index]
        device.set_current()
        capability = device.compute_capability
        if (capability.major, capability.minor) < OLDEST:
            raise InputError(
                f"The GPU {index} ({device.name}) has compute capability {capability.major}."
                f"{capability.minor}; Pinion's kernels need {OLDEST[0]}.{OLDEST[1]} or more."
            )
        self._core = core
        self._device = device
        self._compile = compile_kernel
        self._own = device.create_stream()
        self._host = core.LegacyPinnedMemoryResource()
        self.name = str(device.name)
        self.index = index
        self.architecture = f"sm_{capability.major}{capability.minor}"
        self.multiprocessors = int(device.properties.multiprocessor_count)
        self.clock_ghz = int(device.properties.clock_rate) * 1e-6  # it is given in kHz

    def free_bytes(self) -> int:
        """Of memory."""
        from cuda.bindings import runtime

        error, free, _ = runtime.cudaMemGetInfo()
        if int(error):
            raise ComputeError(f"{self.name} does not say how much memory is free ({error}).")
        return int(free)

    def allocate(self, size: int) -> Memory:
        """Memory of the device."""
        try:
            return _GpuMemory(self._device.allocate(max(size, 1), stream=self._own), self._own)
        except Exception as error:
            if "OUT_OF_MEMORY" in str(error) or "out of memory" in str(error):
                raise MemoryError(f"{self.name} has no {size:,} bytes left.") from None
            raise ComputeError(f"{self.name} gave no memory: {_line(error)}.") from None

    def pinned(self, size: int) -> NDArray[np.uint8]:
        """Memory of the host that the device copies from and to by itself."""
        buffer = self._host.allocate(max(size, 1))
        found = (ctypes.c_uint8 * size).from_address(int(buffer.handle))
        # The array keeps the memory that it looks at.
        return _Kept.of(np.ctypeslib.as_array(found), buffer)

    def stream(self, given: Any = None) -> Stream:
        """A new stream, or one of the caller's."""
        made = self._device.create_stream(given) if given is not None else self._new_stream()
        return _GpuStream(self, made)

    def load(self, name: str, text: str) -> Any:
        """Compile a text, or find it compiled, and load the kernel of that name."""
        code = self._compile(name, text, self.architecture)
        try:
            return self._core.ObjectCode.from_cubin(code).get_kernel(name)
        except Exception as error:
            raise ComputeError(
                f"{self.name} does not take the kernel '{name}': {_line(error)}."
            ) from None

    def wait(self) -> None:
        """Until all streams of the device are done, also those of other libraries."""
        try:
            self._device.sync()
        except Exception as error:
            raise ComputeError(f"{self.name} failed ({_line(error)}): open it again.") from None

    def _new_stream(self) -> Any:
        return self._device.create_stream()


class _Kept(np.ndarray[Any, np.dtype[np.uint8]]):
    """An array that keeps alive what its memory belongs to."""

    owner: Any

    @classmethod
    def of(cls, array: NDArray[np.uint8], owner: Any) -> _Kept:
        made = array.view(cls)
        made.owner = owner
        return made


class _GpuMemory:
    def __init__(self, buffer: Any, stream: Any) -> None:
        self.buffer = buffer
        self.address = int(buffer.handle)
        self.size = int(buffer.size)
        self._stream = stream

    def close(self) -> None:
        self.buffer.close(self._stream)


class _GpuStream:
    def __init__(self, gpu: Gpu, stream: Any) -> None:
        self._gpu = gpu
        self._stream = stream

    def _part(self, address: int, size: int, owner: Any) -> Any:
        return self._gpu._core.Buffer.from_handle(address, size, owner=owner)

    def upload(self, to: Memory, source: NDArray[Any]) -> None:
        there = self._part(to.address, source.nbytes, to)
        there.copy_from(self._part(source.ctypes.data, source.nbytes, source), stream=self._stream)

    def download(self, to: NDArray[Any], source: Memory) -> None:
        there = self._part(source.address, to.nbytes, source)
        there.copy_to(self._part(to.ctypes.data, to.nbytes, to), stream=self._stream)

    def copy(self, to: Memory, source: Memory) -> None:
        self._part(to.address, to.size, to).copy_from(
            self._part(source.address, source.size, source), stream=self._stream
        )

    def launch(self, kernel: Any, launch: Launch, args: Sequence[int]) -> None:
        core = self._gpu._core
        config = core.LaunchConfig(
            grid=launch.blocks, block=launch.threads, shmem_size=launch.shared_bytes
        )
        core.launch(self._stream, config, kernel, *map(Argument, args))

    def wait(self) -> None:
        try:
            self._stream.sync()
        except Exception as error:
            raise ComputeError(
                f"{self._gpu.name} failed ({_line(error)}): what it computed is lost; open the "
                "backend again."
            ) from None


def _line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return text[0].rstrip(".") if text else type(error).__name__
