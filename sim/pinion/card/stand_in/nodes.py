"""The stand-in in this process, behind the driver's own interface of device files.

Here the buffers of the caller are visible, so that the rules of the vendor's driver which a mounted
stand-in can only guess at are checked to the letter.
"""

from __future__ import annotations

import errno
import os
import signal

import numpy as np

from pinion.driver.nodes import ERESTARTSYS, FileNodes, Nodes

from .xdma import XdmaModel

CARRIED = 133
"""An error number that every libfuse carries, EHWPOISON; it stands for 512, which none does.

The kernel refuses numbers from 512 on, and libfuse 3.17 all that have no name: it makes 34 of them.
"""

HARMFUL = ("SIGINT", "SIGTERM", "SIGALRM", "SIGHUP", "SIGUSR1")
"""Signals that must not be delivered to a thread in a transfer, where the system has them."""


class StandInNodes(Nodes):
    """Device files without a file system.

    Parameters
    ----------
    model : the card; several sets of nodes may share one, as programs share device files.
    prefix : for messages.
    """

    def __init__(self, *, model: XdmaModel, prefix: str = "stand-in") -> None:
        self.model = model
        self.prefix = prefix
        self._user = self._streams = False

    def open_user(self) -> None:
        """Registers may be opened by everybody."""
        self._user = True

    def open_streams(self) -> None:
        """The stream to the host opens once."""
        self.model.open_c2h()
        self._streams = True

    def read_user(self, offset: int) -> bytes:
        """One word."""
        self._need(self._user)
        return self.model.read_register(offset, 4)

    def write_user(self, offset: int, data: bytes) -> int:
        """One word."""
        self._need(self._user)
        return self.model.write_register(offset, data)

    def write_stream(self, data: memoryview) -> int:
        """A transfer to the card; the engine pins the pages for writing whatever it does."""
        self._need(self._streams)
        self._check(data, "write")
        return self.model.write(data, address=_address(data))

    def read_stream(self, data: memoryview) -> int:
        """A transfer from the card."""
        self._need(self._streams)
        self._check(data, "read")
        found = self.model.read(data.nbytes, address=_address(data))
        data.cast("B")[: len(found)] = found
        return len(found)

    def close(self) -> None:
        """Close what is open."""
        if self._streams:
            self.model.close_c2h()
        self._user = self._streams = False

    def _need(self, opened: bool) -> None:
        if not opened:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    def _check(self, data: memoryview, what: str) -> None:
        if open_signals := unblocked():
            self.model.note("trap_5", f"A {what} may be interrupted by {', '.join(open_signals)}.")
        if data.readonly:
            self.model.note("trap_8", f"A {what} got read-only memory, which cannot be pinned.")
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))


class MountedNodes(FileNodes):
    """Device files of a mounted stand-in, with the one error number that FUSE cannot carry."""

    def write_stream(self, data: memoryview) -> int:
        """One `write`."""
        try:
            return super().write_stream(data)
        except OSError as error:
            raise _carried(error) from None

    def read_stream(self, data: memoryview) -> int:
        """One `read`."""
        try:
            return super().read_stream(data)
        except OSError as error:
            raise _carried(error) from None


def unblocked() -> list[str]:
    """Signals that this thread may be interrupted by."""
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
