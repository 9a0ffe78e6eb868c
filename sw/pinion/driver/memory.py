"""Page-aligned, reusable memory for DMA engines."""

from __future__ import annotations

import mmap
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pinion.base.amounts import amount
from pinion.base.arrays import Bytes
from pinion.link import BEAT

from .errors import DmaBufferError
from .process import Owner

CAPACITY = 256 << 20
"""Maximum size of a pool's free blocks in bytes."""


def aligned(length: int) -> Bytes:
    """Return zeroed memory that begins on a page boundary, (length,) uint8.

    An engine works in pages: a buffer that begins inside a beat would cause a partial beat at every
    page boundary, in the middle of a packet.

    Raises
    ------
    DmaBufferError
        If the length is not a positive multiple of a beat.
    """
    if length <= 0 or length % BEAT:
        raise DmaBufferError(
            f"The length of a buffer must be a positive multiple of {BEAT} bytes, not {length}."
        )
    return np.frombuffer(mmap.mmap(-1, length), dtype=np.uint8)


def check_buffer(packet: Bytes) -> None:
    """Raise an error unless a buffer is beat-aligned, contiguous and writable, as DMA requires.

    Raises
    ------
    DmaBufferError
        If start or length is not a multiple of a beat, or the memory is scattered or read-only.
    """
    start = packet.__array_interface__["data"][0]
    if start % BEAT or not len(packet) or len(packet) % BEAT:
        raise DmaBufferError(
            f"Start and length of a buffer must be multiples of {BEAT} bytes, and the length above "
            f"0, but this buffer has {amount(len(packet), 'byte')} and starts "
            f"{amount(start % BEAT, 'byte')} past a multiple: use the transport's allocate()."
        )
    flags = packet.flags
    if packet.dtype != np.uint8 or not flags.c_contiguous or not flags.writeable:
        state = "contiguous" if flags.c_contiguous else "not contiguous"
        access = "writable" if flags.writeable else "read-only"
        raise DmaBufferError(
            f"The DMA engine needs contiguous writable uint8, even for sending, but this "
            f"{packet.dtype} buffer is {state} and {access}: use the transport's allocate()."
        )


@dataclass(frozen=True, eq=False)
class MemoryBlock:
    """Pooled memory for a request or a response.

    Members
    -------
    memory : the whole block, a power of two of pages.
    bytes : (length,) uint8, the requested part.
    """

    memory: Bytes
    bytes: Bytes


class Pool:
    """A pool of free memory blocks by size; in a steady state `take` allocates nothing.

    Parameters
    ----------
    allocate : allocates a block, as :meth:`pinion.driver.Transport.allocate` does.
    capacity : maximum size of the free blocks in bytes; more are returned to the system.
    """

    def __init__(self, *, allocate: Callable[[int], Bytes], capacity: int = CAPACITY) -> None:
        self._allocate = allocate
        self._capacity = capacity
        # A finalizer may return a block while this thread is inside `take`.
        self._lock = threading.RLock()
        self._owner = Owner()
        self._free: dict[int, list[Bytes]] = {}
        self._bytes = 0

    def take(self, length: int) -> MemoryBlock:
        """Return an uninitialised block for a packet of ``length`` bytes."""
        size = max(mmap.PAGESIZE, 1 << (length - 1).bit_length())
        with self._lock:
            free = self._free.get(size)
            memory = free.pop() if free else None
            if memory is not None:
                self._bytes -= size
        if memory is None:
            memory = self._allocate(size)
        return MemoryBlock(memory, memory[:length])

    def lease(self, length: int) -> Bytes:
        """Return memory that goes back to the pool when its last view is gone.

        The kernel zeroes every page of new memory, which takes longer than copying results into it.
        """
        block = self.take(length)
        # A separate owner that views keep alive: views of `block.memory` would bypass it.
        owner: Bytes = np.frombuffer(block.memory.data, dtype=np.uint8, count=length)
        weakref.finalize(owner, self._give_memory, block.memory).atexit = False
        return owner

    def give(self, block: MemoryBlock) -> None:
        """Return an unused block to the pool."""
        self._give_memory(block.memory)

    def _give_memory(self, memory: Bytes) -> None:
        # In a forked child a thread that no longer exists may hold the lock.
        if not self._owner.here:
            return
        size = len(memory)
        with self._lock:
            if self._bytes + size <= self._capacity:
                self._free.setdefault(size, []).append(memory)
                self._bytes += size
