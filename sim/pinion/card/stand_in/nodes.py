"""Stand-in within this process, behind the driver's interface to device files.

Here the caller's buffers are visible, so that rules of the vendor's driver which a mounted stand-in
can only guess at are checked exactly.
"""

from __future__ import annotations

import errno
import os
import signal

import numpy as np

from pinion.driver.nodes import ERESTARTSYS, FileNodes, Nodes

from .xdma import XdmaModel

CARRIED = 133
"""Error number that every libfuse carries, EHWPOISON, in place of 512, which none does.

The kernel refuses numbers from 512 on, and libfuse 3.17 turns unnamed ones into 34.
"""

HARMFUL = ("SIGINT", "SIGTERM", "SIGALRM", "SIGHUP", "SIGUSR1")
"""Signals that must not be delivered to a thread in a transfer."""


class StandInNodes(Nodes):
    """Device files of a stand-in in this process, without a file system.

    Parameters
    ----------
    model : the card; several instances may share one, as programs share device files.
    prefix : for messages.
    """

    def __init__(self, *, model: XdmaModel, prefix: str = "stand-in") -> None:
        self.model = model
        self.prefix = prefix
        self._user = self._streams = False

    def open_user(self) -> None:
        """Open the registers, which several programs may have open."""
        self._user = True

    def open_streams(self) -> None:
        """Open the streams; the one to the host can be open only once."""
        self.model.open_c2h()
        self._streams = True

    def read_user(self, offset: int) -> bytes:
        """Read a register as 4 bytes."""
        self._need(self._user)
        return self.model.read_register(offset, 4)

    def write_user(self, offset: int, data: bytes) -> int:
        """Write a register; return the number of bytes written."""
        self._need(self._user)
        return self.model.write_register(offset, data)

    def write_stream(self, data: memoryview) -> int:
        """Write data to the card; return the number of bytes."""
        self._need(self._streams)
        self._check(data, "write")
        return self.model.write(data, address=_address(data))

    def read_stream(self, data: memoryview) -> int:
        """Read data from the card; return the number of bytes."""
        self._need(self._streams)
        self._check(data, "read")
        received = self.model.read(data.nbytes, address=_address(data))
        data.cast("B")[: len(received)] = received
        return len(received)

    def close(self) -> None:
        """Close all open nodes."""
        if self._streams:
            self.model.close_c2h()
        self._user = self._streams = False

    def _need(self, opened: bool) -> None:
        if not opened:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    def _check(self, data: memoryview, direction: str) -> None:
        if open_signals := signals_of_this_thread():
            self.model.note(
                "trap_5", f"A {direction} may be interrupted by {', '.join(open_signals)}."
            )
        if data.readonly:
            self.model.note(
                "trap_8", f"A {direction} got read-only memory, which cannot be pinned."
            )
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))


class MountedNodes(FileNodes):
    """Device files of a mounted stand-in, which restore the error number that FUSE cannot carry."""

    def write_stream(self, data: memoryview) -> int:
        """Write data to the card, with the driver's error number restored."""
        try:
            return super().write_stream(data)
        except OSError as error:
            raise _carried(error) from None

    def read_stream(self, data: memoryview) -> int:
        """Read data from the card, with the driver's error number restored."""
        try:
            return super().read_stream(data)
        except OSError as error:
            raise _carried(error) from None


def signals_of_this_thread() -> list[str]:
    """Return the names of the signals in `HARMFUL` that this thread does not block."""
    if not hasattr(signal, "pthread_sigmask"):
        return []
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, set())
    return [name for name in HARMFUL if getattr(signal, name) not in blocked]


def _address(data: memoryview) -> int:
    return int(np.frombuffer(data, dtype=np.uint8).__array_interface__["data"][0])


def _carried(error: OSError) -> OSError:
    if error.errno != CARRIED:
        return error
    return OSError(ERESTARTSYS, os.strerror(ERESTARTSYS))
