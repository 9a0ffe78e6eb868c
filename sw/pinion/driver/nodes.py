"""The device files of the Xilinx DMA driver, with every system call on them.

Allowed calls are `read` and `write` of one buffer, and 4-byte reads and writes of registers at
their offset. Calls with lists of buffers crash the kernel on these files, and the streams support
neither polling nor mapping.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
from abc import ABC, abstractmethod
from pathlib import Path

from .errors import (
    AccessError,
    BusyError,
    CardTimeoutError,
    DmaBufferError,
    DriverError,
    LinkError,
    MissingCardError,
    TransportError,
)

H2C, C2H, USER = "h2c_0", "c2h_0", "user"

ERESTARTSYS = 512
"""Error number of a timeout in older drivers, internal to the kernel and without a name outside."""


class Nodes(ABC):
    """The device files of one card; methods raise `OSError`, as system calls do.

    Members
    -------
    prefix : path of the files up to the underscore, for messages: ``/dev/xdma0``.
    """

    prefix: str

    @abstractmethod
    def open_user(self) -> None:
        """Open the register file for reading and writing."""

    @abstractmethod
    def open_streams(self) -> None:
        """Open both streams; the one to the host can be open only once (`EBUSY`)."""

    @abstractmethod
    def read_user(self, offset: int) -> bytes:
        """Read the 4 bytes of a register."""

    @abstractmethod
    def write_user(self, offset: int, data: bytes) -> int:
        """Write the 4 bytes of a register; return how many were written."""

    @abstractmethod
    def write_stream(self, data: memoryview) -> int:
        """Write to the card in one system call; return the number of bytes written."""

    @abstractmethod
    def read_stream(self, data: memoryview) -> int:
        """Read from the card in one system call; return the number of bytes read."""

    @abstractmethod
    def close(self) -> None:
        """Close any open files."""


class FileNodes(Nodes):
    """Device files in ``/dev`` or in another folder.

    Parameters
    ----------
    prefix : path up to the underscore: ``/dev/xdma0`` for ``/dev/xdma0_user`` and so on.
    """

    def __init__(self, *, prefix: str | Path) -> None:
        self.prefix = str(prefix)
        self._user = -1
        self._h2c = -1
        self._c2h: io.FileIO | None = None

    def open_user(self, *, write: bool = True) -> None:
        """Open the register file, read-only if ``write`` is False."""
        access = os.O_RDWR if write else os.O_RDONLY
        self._user = os.open(f"{self.prefix}_{USER}", access | os.O_CLOEXEC)

    def open_streams(self) -> None:
        """Open the streams, the one to the host first: it shows whether the card is free."""
        c2h = os.open(f"{self.prefix}_{C2H}", os.O_RDONLY | os.O_CLOEXEC)
        self._c2h = io.FileIO(c2h, "rb", closefd=True)
        self._h2c = os.open(f"{self.prefix}_{H2C}", os.O_WRONLY | os.O_CLOEXEC)

    def read_user(self, offset: int) -> bytes:
        """Read 4 aligned bytes at the register's offset."""
        return os.pread(self._user, 4, offset)

    def write_user(self, offset: int, data: bytes) -> int:
        """Write 4 aligned bytes at the register's offset; return how many were written."""
        return os.pwrite(self._user, data, offset)

    def write_stream(self, data: memoryview) -> int:
        """Write to the card in one `write`; return the number of bytes written."""
        return os.write(self._h2c, data)

    def read_stream(self, data: memoryview) -> int:
        """Read from the card in one unbuffered `read` into ``data``; return the number of bytes."""
        if self._c2h is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return int(self._c2h.readinto(data) or 0)

    def close(self) -> None:
        """Close all three files and ignore errors: a card that is gone may cause EIO."""
        user, h2c, c2h = self._user, self._h2c, self._c2h
        self._user, self._h2c, self._c2h = -1, -1, None
        if c2h is not None:
            with contextlib.suppress(OSError):  # the descriptor is freed in any case
                c2h.close()
        for number in (h2c, user):
            if number >= 0:
                with contextlib.suppress(OSError):
                    os.close(number)


def translate(error: OSError, *, node: str, action: str) -> DriverError | TransportError:
    """Translate a system error into an error of the driver, with advice.

    Parameters
    ----------
    error : the exception of a method of `Nodes`.
    node : path of the file.
    action : ``open``, ``read`` or ``write``.
    """
    number = error.errno
    if number in (errno.ETIMEDOUT, ERESTARTSYS):
        symptom = "sent nothing" if action == "read" else "accepted no more data"
        return CardTimeoutError(
            f"'{node}' {symptom} within the kernel driver's timeout (errno {number}): the card "
            f"stopped, or a packet was lost."
        )
    if number == errno.EBUSY:
        return BusyError(
            f"'{node}' is in use: a card serves one program at a time. Close the device in the "
            f"other program (`fuser -v {node}` names it), or open another card."
        )
    if action == "open" and number in (errno.EACCES, errno.EPERM):
        return AccessError(
            f"'{node}' may not be opened by this user ({os.strerror(number)}): give the user's "
            f"group access with a udev rule for the xdma device files."
        )
    if action == "open" and number in (errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.ENOTDIR):
        return MissingCardError(
            f"There is no card at '{node}' ({os.strerror(number)}): load the kernel module xdma, "
            f"and list the available cards with `pinion devices`."
        )
    if number == errno.EFAULT:
        return DmaBufferError(
            f"The kernel cannot access the buffer to {action} '{node}' (EFAULT): use writable "
            f"memory from the transport's allocate(), even for sending."
        )
    if number in (errno.ENODEV, errno.ENXIO, errno.ENOENT, errno.EBADF):
        return LinkError(
            f"The card behind '{node}' is gone (errno {number}, {error.strerror}): it left the "
            f"bus, or its kernel module was unloaded. Open the device again once it is back."
        )
    return LinkError(
        f"Cannot {action} '{node}' (errno {number}, {error.strerror}): see the kernel log."
    )
