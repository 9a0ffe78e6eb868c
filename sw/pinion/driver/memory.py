"""Memory that a DMA engine can use: page-aligned, and used again instead of made again."""

from __future__ import annotations

import mmap
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pinion.link import BEAT

from .errors import DmaBufferError
from .process import Owner

Bytes = NDArray[np.uint8]

KEPT = 256 << 20
"""Bytes of free blocks that a pool keeps at most."""


def aligned(length: int) -> Bytes:
    """Fresh zeroed memory that begins on a page, (length,) uint8.

    An engine works in pages: a buffer that begins inside a beat would give a partial beat at every
    page boundary, in the middle of a packet.

    Raises
    ------
    DmaBufferError
        When the length is no positive multiple of a beat.
    """
    if length <= 0 or length % BEAT:
        raise DmaBufferError(
            f"A buffer of {length} bytes was asked for: packets are whole beats of {BEAT} bytes."
        )
    return np.frombuffer(mmap.mmap(-1, length), dtype=np.uint8)


def check_buffer(packet: Bytes) -> None:
    """Refuse memory that a DMA engine would cut into partial beats, or could not write.

    Raises
    ------
    DmaBufferError
        When start or length is no multiple of a beat, or the memory is scattered or read-only.
    """
    start = packet.__array_interface__["data"][0]
    if start % BEAT or not len(packet) or len(packet) % BEAT:
        raise DmaBufferError(
            f"A buffer of {len(packet)} bytes that begins {start % BEAT} bytes behind a beat's "
            f"bound would be sent in partial beats: take memory from the transport's allocate()."
        )
    flags = packet.flags
    if packet.dtype != np.uint8 or not flags.c_contiguous or not flags.writeable:
        raise DmaBufferError(
            f"The DMA engine needs contiguous writable bytes, also for sending, and this buffer "
            f"of {packet.dtype} is {'not contiguous' if flags.writeable else 'read-only'}: take "
            f"memory from the transport's allocate()."
        )


@dataclass(frozen=True, eq=False)
class Block:
    """Pooled memory for a request or a response.

    Members
    -------
    memory : the whole block, a power of two of pages.
    bytes : (length,) uint8, the part that was asked for.
    """

    memory: Bytes
    bytes: Bytes


class Pool:
    """Blocks by size; in a steady state `take` finds one and nothing is allocated.

    Parameters
    ----------
    allocate : makes a block, as :meth:`pinion.driver.Transport.allocate` does.
    kept : bytes of free blocks to keep; more are given back to the system.
    """

    def __init__(self, *, allocate: Callable[[int], Bytes], kept: int = KEPT) -> None:
        self._allocate = allocate
        self._kept = kept
        # A finalizer may give a block back while this thread is inside `take`.
        self._lock = threading.RLock()
        self._owner = Owner()
        self._free: dict[int, list[Bytes]] = {}
        self._bytes = 0

    def take(self, length: int) -> Block:
        """A block for a packet of so many bytes; what it holds is left from its last use."""
        size = max(mmap.PAGESIZE, 1 << (length - 1).bit_length())
        with self._lock:
            free = self._free.get(size)
            memory = free.pop() if free else None
            if memory is not None:
                self._bytes -= size
        if memory is None:
            memory = self._allocate(size)
        return Block(memory, memory[:length])

    def lease(self, length: int) -> Bytes:
        """Memory that comes back by itself when the last view of it is gone.

        Fresh memory costs the kernel's zeroing of every page, which takes longer than the copy of
        results into it.
        """
        block = self.take(length)
        # An owner of its own, that views keep alive: views of `block.memory` would skip this one.
        owner: Bytes = np.frombuffer(block.memory.data, dtype=np.uint8, count=length)
        weakref.finalize(owner, self._give_memory, block.memory).atexit = False
        return owner

    def give(self, block: Block) -> None:
        """Take a block back; nobody may use it any more."""
        self._give_memory(block.memory)

    def _give_memory(self, memory: Bytes) -> None:
        # In a forked child a thread that is not there may hold the lock.
        if not self._owner.here:
            return
        size = len(memory)
        with self._lock:
            if self._bytes + size <= self._kept:
                self._free.setdefault(size, []).append(memory)
                self._bytes += size
