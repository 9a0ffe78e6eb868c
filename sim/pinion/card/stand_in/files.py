"""The device files of a stand-in as a file system in user space."""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from dataclasses import dataclass
from typing import Any

import mfusepy

from .caller import current_call, unblocked
from .nodes import CARRIED
from .xdma import ERESTARTSYS, XdmaModel

H2C, C2H, USER = "h2c_0", "c2h_0", "user"

RELEASE = 20.0
"""Seconds that an opening waits for the release of a file that its program has closed."""


@dataclass(kw_only=True)
class _Opened:
    """An open file, and the system call that is under way on it.

    The kernel cuts long calls into pieces; each comes as a call of its own. After a program has
    closed its file, its release follows at any later time.
    """

    node: str
    left: int = 0
    next: int = 0
    closed: bool = False


class CardFiles(mfusepy.Operations):
    """``xdma0_h2c_0``, ``xdma0_c2h_0`` and ``xdma0_user``.

    Parameters
    ----------
    model : the card.
    name : of the files, up to the underscore.
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
        """A folder with three files."""
        times = {"st_atime": self._now, "st_mtime": self._now, "st_ctime": self._now}
        owner = {"st_uid": os.getuid(), "st_gid": os.getgid()}
        if path == "/":
            return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2} | times | owner
        self._node(path)
        return {"st_mode": stat.S_IFREG | 0o600, "st_nlink": 1, "st_size": 0} | times | owner

    def readdir(self, path: str, fh: int) -> list[str]:
        """Their names."""
        return [".", "..", *(name[1:] for name in self._nodes)]

    def open(self, path: str, flags: int) -> int:
        """Open a file; the stream to the host opens once.

        The kernel tells of the end of a file after `close` has returned. With the vendor's driver
        that has happened by then, so a program that opens again waits for it here.
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
        """A program closes a file, or a copy of it that a child has inherited."""
        with self._lock:
            self._opened[fh].closed = True
        return 0

    def release(self, path: str, fh: int) -> int:
        """No program has the file any more."""
        if self._opened[fh].node == C2H:
            self.model.close_c2h()
        with self._released:
            del self._opened[fh]
            self._released.notify_all()
        return 0

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        """Devices have no length; shells truncate what they write to."""
        return 0

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        """A piece of a read."""
        opened = self._opened[fh]
        if opened.node == USER:
            found = self._call(self.model.read_register, offset, size)
        elif opened.node == C2H:
            address = self._begin(opened, size)
            found = self._call(self.model.read, size, address=address, opened=opened)
            if len(found) < size:
                opened.left = 0
        else:
            raise mfusepy.FuseOSError(errno.EINVAL)
        return bytes(found)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        """A piece of a write."""
        opened = self._opened[fh]
        if opened.node == USER:
            return int(self._call(self.model.write_register, offset, data))
        if opened.node == C2H:
            raise mfusepy.FuseOSError(errno.EINVAL)
        address = self._begin(opened, len(data))
        return int(self._call(self.model.write, data, address=address, opened=opened))

    def _closing(self) -> bool:
        """Whether a stream to the host is closed and not released; holds the lock."""
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
        """The address of a piece's first byte, as far as it can be known; checks the caller."""
        opened.closed = False  # it was a copy that was closed
        if opened.left:
            address, opened.left, opened.next = opened.next, opened.left - size, opened.next + size
            return address
        thread = int(mfusepy.fuse_get_context()[2])
        caller = current_call(thread)
        if open_signals := unblocked(thread):
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
