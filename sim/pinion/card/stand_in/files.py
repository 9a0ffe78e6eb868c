"""Device files of a stand-in as a file system in user space (FUSE)."""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from dataclasses import dataclass
from typing import Any

import mfusepy

from .caller import current_call, signals_of_thread
from .nodes import CARRIED
from .xdma import ERESTARTSYS, XdmaModel

H2C, C2H, USER = "h2c_0", "c2h_0", "user"

RELEASE = 20.0
"""Seconds that `open` waits for the release of a closed file."""


@dataclass(kw_only=True)
class _Opened:
    """Open file, and the system call in progress on it.

    The kernel cuts long calls into pieces, each of which arrives as a separate call. The release
    of a file follows at any time after a program has closed it.
    """

    node: str
    left: int = 0
    next: int = 0
    closed: bool = False


class CardFiles(mfusepy.Operations):
    """File system with the files ``xdma0_h2c_0``, ``xdma0_c2h_0`` and ``xdma0_user``.

    Parameters
    ----------
    model : the card.
    name : the files' names up to the underscore.
    """

    use_ns = True

    def __init__(self, *, model: XdmaModel, name: str = "xdma0") -> None:
        self.model = model
        self._nodes = {f"/{name}_{node}": node for node in (H2C, C2H, USER)}
        self._lock = threading.Lock()
        self._released = threading.Condition(self._lock)
        self._opened: dict[int, _Opened] = {}
        self._count = 0
        self._now = time.time_ns()

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        """Return the attributes of the folder or of a file."""
        times = {"st_atime": self._now, "st_mtime": self._now, "st_ctime": self._now}
        owner = {"st_uid": os.getuid(), "st_gid": os.getgid()}
        if path == "/":
            return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2} | times | owner
        self._node(path)
        return {"st_mode": stat.S_IFREG | 0o600, "st_nlink": 1, "st_size": 0} | times | owner

    def readdir(self, path: str, fh: int) -> list[str]:
        """List the names of the device files in the folder."""
        return [".", "..", *(name[1:] for name in self._nodes)]

    def open(self, path: str, flags: int) -> int:
        """Open a file; the stream to the host can be open only once.

        The kernel reports the release of a file after `close` has returned, unlike the vendor's
        driver, so a program that opens again waits for it here.
        """
        node = self._node(path)
        if node == C2H:
            with self._released:
                self._released.wait_for(lambda: not self._closing(), RELEASE)
            self._call(self.model.open_c2h)
        with self._lock:
            self._count += 1
            self._opened[self._count] = _Opened(node=node)
            return self._count

    def flush(self, path: str, fh: int) -> int:
        """Record that a program closes a file, or its copy in a child process."""
        with self._lock:
            self._opened[fh].closed = True
        return 0

    def release(self, path: str, fh: int) -> int:
        """Release a file that no program has open any longer."""
        if self._opened[fh].node == C2H:
            self.model.close_c2h()
        with self._released:
            del self._opened[fh]
            self._released.notify_all()
        return 0

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        """Do nothing: devices have no length, but shells truncate the files that they write to."""
        return 0

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        """Serve one of the pieces into which the kernel splits a read."""
        opened = self._opened[fh]
        if opened.node == USER:
            data = self._call(self.model.read_register, offset, size)
        elif opened.node == C2H:
            address = self._begin(opened, size)
            data = self._call(self.model.read, size, address=address, opened=opened)
            if len(data) < size:
                opened.left = 0
        else:
            raise mfusepy.FuseOSError(errno.EINVAL)
        return bytes(data)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        """Serve one of the pieces into which the kernel splits a write."""
        opened = self._opened[fh]
        if opened.node == USER:
            return int(self._call(self.model.write_register, offset, data))
        if opened.node == C2H:
            raise mfusepy.FuseOSError(errno.EINVAL)
        address = self._begin(opened, len(data))
        return int(self._call(self.model.write, data, address=address, opened=opened))

    def _closing(self) -> bool:
        """Return whether a closed stream to the host is still unreleased; the lock must be held."""
        return any(opened.closed for opened in self._opened.values() if opened.node == C2H)

    def _node(self, path: str) -> str:
        try:
            return self._nodes[path]
        except KeyError:
            raise mfusepy.FuseOSError(errno.ENOENT) from None

    def _call(self, method: Any, *values: Any, opened: _Opened | None = None, **named: Any) -> Any:
        try:
            return method(*values, **named)
        except OSError as error:
            if opened is not None:
                opened.left = 0
            number = CARRIED if error.errno == ERESTARTSYS else error.errno
            raise mfusepy.FuseOSError(number) from None

    def _begin(self, opened: _Opened, size: int) -> int:
        """Check the caller, and return the address of the piece's first byte, 0 if unknown."""
        opened.closed = False  # only a copy was closed
        if opened.left:
            address, opened.left, opened.next = opened.next, opened.left - size, opened.next + size
            return address
        thread = int(mfusepy.fuse_get_context()[2])
        caller = current_call(thread)
        if open_signals := signals_of_thread(thread):
            self.model.note(
                "trap_5",
                f"A thread in a transfer may be interrupted by {', '.join(open_signals)}.",
            )
        if caller is None:
            return 0
        if caller.vectored:
            self.model.note("trap_4", f"{caller.call} crashes the kernel on these files.")
            raise mfusepy.FuseOSError(errno.EIO)
        opened.left = max(caller.length - size, 0)
        opened.next = caller.address + size
        return caller.address
