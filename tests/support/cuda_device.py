"""A device of CUDA kernels that is this machine's processor.

Work is done when somebody waits for it, not when it is queued: whoever reads results too early, or
writes over a request that is still to be sent, gets wrong numbers here as on a GPU.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.compute.cuda.device import Launch, Memory, Stream
from pinion.compute.errors import ComputeError

from .cuda_host import HostKernels


class HostMemory:
    """Memory of the device; all NaN at first."""

    def __init__(self, device: HostDevice, size: int) -> None:
        self.bytes = np.full(size + 8, 0xFF, dtype=np.uint8)
        self.address = self.bytes.ctypes.data
        self.size = size
        self._device = device
        device.used += size

    def close(self) -> None:
        self._device.used -= self.size
        self.bytes[...] = 0xFF
        self.size = 0


class HostDevice:
    """A device with as much memory as is said.

    Members
    -------
    used : bytes of its memory.
    launches : name and samples of every launch so far.
    broken : the next `wait` of a stream fails.
    before : work of other libraries' streams, done when the device is waited for.
    """

    def __init__(self, folder: Path, *, memory: int = 1 << 30, index: int = 0) -> None:
        self.name = "this processor"
        self.index = index
        self.architecture = "host"
        self.used = 0
        self.launches: list[tuple[str, int]] = []
        self.multiprocessors = 4
        self.clock_ghz = 1.0
        self.broken = False
        self.before: list[Callable[[], None]] = []
        self._folder = folder
        self._memory = memory

    def free_bytes(self) -> int:
        return self._memory - self.used

    def allocate(self, size: int) -> Memory:
        if size > self.free_bytes():
            raise MemoryError(f"{self.name} has no {size:,} bytes left.")
        return HostMemory(self, size)

    def pinned(self, size: int) -> NDArray[np.uint8]:
        return np.full(size, 0xFF, dtype=np.uint8)

    def stream(self, given: Any = None) -> Stream:
        return HostStream(self) if given is None else given

    def wait(self) -> None:
        before, self.before = self.before, []
        for work in before:
            work()

    def load(self, name: str, text: str) -> tuple[str, HostKernels]:
        return name, HostKernels(text, folder=self._folder)


class HostStream:
    """Work that is done in its order, when it is waited for."""

    def __init__(self, device: HostDevice) -> None:
        self._device = device
        self._queue: list[Callable[[], None]] = []

    def upload(self, to: Memory, source: NDArray[Any]) -> None:
        assert source.nbytes <= to.size
        self._queue.append(lambda: _copy(to.address, source.ctypes.data, source.nbytes))

    def download(self, to: NDArray[Any], source: Memory) -> None:
        assert to.nbytes <= source.size
        self._queue.append(lambda: _copy(to.ctypes.data, source.address, to.nbytes))

    def copy(self, to: Memory, source: Memory) -> None:
        assert to.size == source.size
        self._queue.append(lambda: _copy(to.address, source.address, to.size))

    def launch(self, kernel: tuple[str, HostKernels], launch: Launch, args: Sequence[int]) -> None:
        name, compiled = kernel
        self._device.launches.append((name, args[0]))
        values = [ctypes.c_longlong(value) for value in args]
        self._queue.append(
            lambda: compiled.launch(
                name, launch.blocks, launch.threads, launch.shared_bytes, values, len(name)
            )
        )

    def wait(self) -> None:
        queue, self._queue = self._queue, []
        if self._device.broken:
            raise ComputeError(f"{self._device.name} failed.")
        for work in queue:
            work()


def _copy(to: int, source: int, size: int) -> None:
    ctypes.memmove(to, source, size)
