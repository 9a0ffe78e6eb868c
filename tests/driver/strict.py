"""Device files in memory that behave like the vendor's driver at its strictest."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from pinion.card.packets import PacketCard
from pinion.driver.nodes import C2H, Nodes
from pinion.link import BEAT, layout_of, register
from pinion.link.registers import HALTED, IN_RESET, RESET
from tests.driver.cards import WAIT, compute, manifest

PAGE = 4096
CONTROL, STATUS = register("CONTROL").offset, register("STATUS").offset

PAUSE = 0.01
"""Seconds between two checks of a stalled transfer."""


def failure(number: int, path: str | None = None) -> OSError:
    """Return the exception of a system call for an error number."""
    return OSError(number, os.strerror(number), path)


class StrictNodes(Nodes):
    """The files of one card, in memory.

    Parameters
    ----------
    card : the card behind them.
    depth : beats of a request that the card takes while no read is posted.
    wait : seconds of the kernel's timeout, once a transfer cannot continue by itself.
    sound : the same while it can, so that a slow thread of the driver is not a fault.

    Members
    -------
    on_write, on_read : called first with the number of the call and its buffer; they raise
        `OSError`, or return how many bytes are transferred (the remainder is lost), or None.
    on_user : called with the offset before each access to a register.
    on_reset : called when a soft reset has begun and the card has nothing to send.
    spoil : changes the result of a read, by the number of the call.
    wedged : a signal could have interrupted a transfer; nothing works after that.
    """

    def __init__(
        self,
        *,
        card: PacketCard | None = None,
        depth: int = 32,
        wait: float = 0.1,
        sound: float = WAIT,
    ) -> None:
        self.prefix = "/dev/xdma0"
        self.card = card or PacketCard(layout=layout_of(manifest()), compute=compute)
        self.depth = depth
        self.wait = wait
        self.sound = sound
        self.on_write: Callable[[int, memoryview], int | None] = lambda call, data: None
        self.on_read: Callable[[int, memoryview], int | None] = lambda call, data: None
        self.spoil: Callable[[int, np.ndarray], None] = lambda call, packet: None
        self.on_open: Callable[[str], None] = lambda node: None
        self.on_user: Callable[[int], None] = lambda offset: None
        self.on_reset: Callable[[], None] = lambda: None
        self.writes = 0
        self.reads = 0
        self.opened: list[str] = []
        self.wedged = False
        self._moved = threading.Condition()
        self._posted = False
        # Reads begun and requests fed since the last reset.
        self._begun = self._fed = 0
        self._out: deque[np.ndarray] = deque()

    def open_user(self) -> None:
        self.on_open("user")
        self.opened.append("user")

    def open_streams(self) -> None:
        self.on_open("streams")
        if "streams" in self.opened:
            raise failure(errno.EBUSY, f"{self.prefix}_{C2H}")
        self.opened.append("streams")

    def read_user(self, offset: int) -> bytes:
        assert "user" in self.opened and offset % 4 == 0
        self.on_user(offset)
        return self.card.read_register(offset).to_bytes(4, "little")

    def write_user(self, offset: int, data: bytes) -> int:
        assert "user" in self.opened and offset % 4 == 0 and len(data) == 4
        self.on_user(offset)
        value = int.from_bytes(data, "little")
        self.card.write_register(offset, value)
        if offset == CONTROL and value & RESET:
            with self._moved:
                self._out.clear()
            self.on_reset()
        elif offset == CONTROL:
            self._begun = self._fed = 0
        return 4

    def write_stream(self, data: memoryview) -> int:
        self._check(data)
        self.writes += 1
        moved = self.on_write(self.writes, data)
        if moved is not None:
            self._feed(data[:moved])
            return moved
        with self._moved:
            # Trap 6: once its buffers are full, the card takes nothing while nobody reads.
            room = self.depth * BEAT
            if len(data) > room and not self._until(lambda: self._posted):
                self._feed(data[:room])
                raise failure(errno.ETIMEDOUT)
        self._feed(data)
        return len(data)

    def read_stream(self, data: memoryview) -> int:
        self._check(data)
        self.reads += 1
        moved = self.on_read(self.reads, data)
        with self._moved:
            self._posted = True
            self._begun += 1
            self._moved.notify_all()
            try:
                if not self._until(lambda: bool(self._out)):
                    raise failure(errno.ETIMEDOUT)
            finally:
                self._posted = False
            packet = self._out.popleft().copy()
        self.spoil(self.reads, packet)
        target = np.frombuffer(data, dtype=np.uint8)
        if moved is not None:
            target[:moved] = packet[:moved]
            return moved
        size = min(len(target), len(packet))
        target[:size] = packet[:size]
        if size < len(packet):
            self._out.appendleft(packet[size:])
        elif size < len(target) and len(target) > PAGE:
            # Trap 3: the packet ends one descriptor, the others wait for more.
            threading.Event().wait(self.wait)
            raise failure(errno.ETIMEDOUT)
        return size

    def close(self) -> None:
        self.opened.append("close")

    def stale(self, packet: np.ndarray) -> None:
        """Insert a packet before the card's next answer."""
        with self._moved:
            self._out.append(packet)
            self._moved.notify_all()

    def hopeless(self) -> bool:
        """Return whether a stalled transfer cannot continue, whatever the driver does."""
        stopped = self.card.read_register(STATUS) & (HALTED | IN_RESET)
        return bool(stopped) or (self._posted and self._fed >= self._begun)

    def _until(self, finished: Callable[[], bool]) -> bool:
        """Wait for a condition until the kernel's timeout; the caller holds the lock."""
        still = 0.0
        while not finished():
            if still >= self.sound or (still >= self.wait and self.hopeless()):
                return False
            began = time.perf_counter()
            self._moved.wait(PAUSE)
            # In the remainder of a long pause the machine was busy.
            still += min(time.perf_counter() - began, 2 * PAUSE)
        return True

    def _check(self, data: memoryview) -> None:
        assert "streams" in self.opened and "close" not in self.opened
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        if not {signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD} <= blocked:
            self.wedged = True  # trap 5
        if self.wedged:
            raise failure(errno.EIO)
        if data.readonly:
            raise failure(errno.EFAULT)  # trap 8

    def _feed(self, data: memoryview) -> None:
        beats = -(-len(data) // BEAT)
        whole = np.ones(beats, dtype=np.bool_)
        # Trap 2: a descriptor ends with each page, and a beat with each descriptor.
        start = np.frombuffer(data, dtype=np.uint8).__array_interface__["data"][0] if beats else 0
        if start % BEAT:
            whole[(PAGE - start % PAGE) // BEAT :: PAGE // BEAT] = False
        responses = self.card.feed(data, whole=whole)
        with self._moved:
            self._fed += 1
            self._out.extend(responses)
            self._moved.notify_all()


def raising(error: Any) -> Any:
    """Return a hook that always raises."""

    def hook(*_: Any) -> None:
        raise error

    return hook
