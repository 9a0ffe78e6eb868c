"""Emulated CUDA device: kernels run on this machine's CPU.

Work is done when somebody waits for it, not when it is queued: whoever reads results too early, or
writes over a request that is still to be sent, gets wrong numbers here as on a GPU. Queued work
knows only addresses; using memory after its release, also the host's pinned memory, is an error.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.compute.cuda.device import CudaStream, Launch, Memory, Recorded
from pinion.native.errors import ComputeError

from .cuda_host import HostKernels

NOBODY_KEEPS = "Pinned memory is used although nothing refers to it any more."


class HostMemory:
    """Memory of the emulated device, filled with NaN at first and when it is released.

    Members
    -------
    closed : it was released. Its address is not used again, so that its users are noticed.
    """

    def __init__(self, device: HostDevice, size: int, stream: HostStream | None) -> None:
        self.bytes = np.full(size + 8, 0xFF, dtype=np.uint8)
        self.address = self.bytes.ctypes.data
        self.size = size
        self.closed = False
        self._device = device
        self._stream = stream
        device.used += size
        device.memories.append(self)

    def close(self) -> None:
        if self._stream is None:
            self._give_back()
        else:
            self._stream.queue(self._give_back)

    def check(self) -> None:
        """Raise an error if the memory has been released."""
        assert not self.closed, "Device memory is used after its release."

    def holds(self, address: int) -> bool:
        """Return whether an address is inside this memory."""
        return self.address <= address < self.address + len(self.bytes)

    def _give_back(self) -> None:
        self.check()
        self._device.used -= self.size
        self.bytes[...] = 0xFF
        self.closed = True


class HostDevice:
    """Emulated device with a given amount of memory.

    Members
    -------
    used : bytes of its memory.
    memories : all memory that it gave so far.
    launches : name and samples of every launch so far.
    calls : requests to the driver to queue work: one for a copy, a launch or a graph.
    recorded : graphs that were made and not closed.
    broken : the next `wait` of a stream fails.
    lost : every call fails.
    pinnable : bytes of the host's memory that it can still pin.
    before : work of other libraries' streams, done when the device is waited for.
    compiled : kernels by their texts, which several devices may share.
    waiting : called at the beginning of every `wait` of a stream.
    others_first : a stream that is waited for does its next work when the others can do no more,
        rather than as soon as it can.
    """

    def __init__(
        self,
        folder: Path,
        *,
        memory: int = 1 << 30,
        index: int = 0,
        compiled: dict[str, HostKernels] | None = None,
    ) -> None:
        self.name = "this processor"
        self.index = index
        self.architecture = "host"
        self.used = 0
        self.memories: list[HostMemory] = []
        self.launches: list[tuple[str, int]] = []
        self.calls = 0
        self.recorded = 0
        self.multiprocessors = 4
        self.clock_ghz = 1.0
        self.broken = False
        self.lost = False
        self.pinnable = 1 << 40
        self.before: list[Callable[[], None]] = []
        self.waiting: Callable[[], None] = lambda: None
        self.others_first = False
        self.streams: weakref.WeakSet[HostStream] = weakref.WeakSet()
        self._pins: list[tuple[int, int, weakref.ref[NDArray[np.uint8]]]] = []
        self._folder = folder
        self._compiled = {} if compiled is None else compiled
        self._memory = memory

    def allocate(self, size: int) -> Memory:
        return self.give(size, None)

    def give(self, size: int, stream: HostStream | None) -> HostMemory:
        """Allocate memory for a stream, or for all streams if that is None."""
        self.check()
        if size > self._memory - self.used:
            raise MemoryError(f"{self.name} has fewer than {size:,} bytes left.")
        return HostMemory(self, size, stream)

    def pinned(self, size: int) -> NDArray[np.uint8]:
        self.check()
        if size > self.pinnable:
            raise MemoryError(f"{self.name} cannot pin {size:,} bytes.")
        memory = np.full(size, 0xFF, dtype=np.uint8)
        self.pinnable -= size
        weakref.finalize(memory, self._unpinned, size)
        self._pins.append((memory.ctypes.data, memory.ctypes.data + size, weakref.ref(memory)))
        return memory

    def pins(self, addresses: Sequence[int]) -> list[weakref.ref[NDArray[np.uint8]]]:
        """Return the pinned arrays that contain any of the addresses."""
        self._pins = [pin for pin in self._pins if pin[2]() is not None]
        return [
            array
            for begin, end, array in self._pins
            if any(begin <= address < end for address in addresses)
        ]

    def _unpinned(self, size: int) -> None:
        self.pinnable += size

    def stream(self, existing: Any = None) -> CudaStream:
        self.check()
        if existing is not None:
            other: CudaStream = existing
            return other
        stream = HostStream(self)
        self.streams.add(stream)
        return stream

    def wait(self) -> None:
        self.check()
        before, self.before = self.before, []
        for work in before:
            work()

    def load(self, name: str, text: str) -> tuple[str, HostKernels]:
        self.check()
        if text not in self._compiled:
            self._compiled[text] = HostKernels(text, folder=self._folder)
        return name, self._compiled[text]

    def check(self) -> None:
        """Raise an error if the device is lost."""
        if self.lost:
            raise ComputeError(f"{self.name} is lost to this process: start the process again.")


class HostStream:
    """Stream whose work is done in order when it, or a stream that depends on it, is awaited."""

    def __init__(self, device: HostDevice) -> None:
        self._device = device
        self._queue: list[Callable[[], None]] = []
        self._done = 0
        self._needs: dict[int, tuple[HostStream, int]] = {}  # how much of others, by own place

    def queue(self, *work: Callable[[], None]) -> None:
        """Queue work, as one call of the driver."""
        self._device.check()
        self._device.calls += 1
        self._queue.extend(work)

    def allocate(self, size: int) -> Memory:
        return self._device.give(size, self)

    def upload(self, to: Memory, source: NDArray[Any]) -> None:
        assert source.nbytes <= to.size
        self._copy(to.address, source.ctypes.data, source.nbytes, to, _kept_by(source))

    def download(self, to: NDArray[Any], source: Memory) -> None:
        assert to.nbytes <= source.size
        self._copy(to.ctypes.data, source.address, to.nbytes, source, _kept_by(to))

    def copy(self, to: Memory, source: Memory) -> None:
        assert to.size == source.size
        self._copy(to.address, source.address, to.size, to, _check_of(source))

    def launch(self, kernel: tuple[str, HostKernels], launch: Launch, args: Sequence[int]) -> None:
        name, compiled = kernel
        values = [ctypes.c_longlong(value) for value in args]
        device = self._device
        pins = device.pins(args)

        def work() -> None:
            assert all(pin() is not None for pin in pins), NOBODY_KEEPS
            for memory in device.memories:
                if any(map(memory.holds, args)):
                    memory.check()
            compiled.launch(
                *(name, launch.blocks, launch.threads, launch.shared_bytes, values, len(name)),
                cooperative=launch.cooperative,
            )

        self._launched((name, args[0]))
        self.queue(work)

    def record(self, work: Callable[[CudaStream], None]) -> Recorded:
        self._device.check()
        recorder = _Recorder(self._device)
        work(recorder)
        return HostRecorded(self, recorder)

    def wait(self) -> None:
        self._device.waiting()
        self._device.check()
        try:
            if self._device.broken:
                raise ComputeError(f"{self._device.name} failed.")
            while self._queue:
                self._step()
        finally:
            self._done += len(self._queue)
            self._queue.clear()

    def after(self, other: CudaStream) -> None:
        assert isinstance(other, HostStream)
        self._needs[self._done + len(self._queue)] = (other, other._done + len(other._queue))
        self.queue(lambda: None)

    def _can(self) -> bool:
        """Return whether the next work is not waiting for another stream."""
        other, place = self._needs.get(self._done, (self, 0))
        return bool(self._queue) and other._done >= place

    def _step(self) -> None:
        if self._device.others_first:
            for stream in self._device.streams:
                while stream is not self and stream._can():
                    stream._work()
        other, place = self._needs.pop(self._done, (self, 0))
        while other._done < place:
            other._step()
        self._work()

    def _work(self) -> None:
        work = self._queue.pop(0)
        self._done += 1
        work()

    def _launched(self, *launches: tuple[str, int]) -> None:
        self._device.launches.extend(launches)

    def _copy(
        self, to: int, source: int, size: int, memory: Memory, other: Callable[[], object]
    ) -> None:
        check_memory = _check_of(memory)

        def work() -> None:
            check_memory()
            reference = other()
            ctypes.memmove(to, source, size)
            del reference

        self.queue(work)


class _Recorder(HostStream):
    """Stream that records queued work for a graph instead of doing it."""

    def __init__(self, device: HostDevice) -> None:
        super().__init__(device)
        self.launches: list[tuple[str, int]] = []

    @property
    def work(self) -> list[Callable[[], None]]:
        return self._queue

    def queue(self, *work: Callable[[], None]) -> None:
        self._queue.extend(work)

    def allocate(self, size: int) -> Memory:
        raise AssertionError("A stream cannot allocate memory while it is recorded.")

    def wait(self) -> None:
        raise AssertionError("A stream cannot be awaited while it is recorded.")

    def _launched(self, *launches: tuple[str, int]) -> None:
        self.launches.extend(launches)


class HostRecorded:
    """Recorded graph: each launch repeats the same copies and kernels at the same addresses."""

    def __init__(self, stream: HostStream, recorder: _Recorder) -> None:
        self._stream = stream
        self._device = recorder._device
        self._recorder = recorder
        self._closed = False
        self._device.recorded += 1

    def launch(self) -> None:
        assert not self._closed, "A graph is used that was given up."
        self._stream.queue(*self._recorder.work)
        self._device.launches.extend(self._recorder.launches)

    def close(self) -> None:
        self._device.check()
        assert not self._closed, "A graph is given up twice."
        self._closed = True
        self._device.recorded -= 1


def _check_of(memory: Memory) -> Callable[[], None]:
    assert isinstance(memory, HostMemory)
    return memory.check


def _kept_by(array: NDArray[Any]) -> Callable[[], object]:
    """Return a function that returns an array's memory, and fails if it no longer exists."""
    whole = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    weak = weakref.ref(whole)

    def kept() -> object:
        memory = weak()
        assert memory is not None, NOBODY_KEEPS
        return memory

    return kept
