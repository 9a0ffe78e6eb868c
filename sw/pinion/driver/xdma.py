"""A card accessed through the device files of the Xilinx DMA driver."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

from pinion.base.arrays import Bytes
from pinion.link import Layout, Manifest, layout_of

from .card import check_card
from .errors import DriverError, LinkError, TornStreamError
from .memory import aligned, check_buffer
from .nodes import C2H, H2C, USER, FileNodes, Nodes, translate
from .transport import TIMEOUT, Transport

FOLDER = Path("/dev")

PAGE = 4096
"""Maximum size in bytes of a transfer with one descriptor, where a short packet leaves no hole."""


class XdmaTransport(Transport):
    """A transport with one blocking system call per packet.

    A call that transfers only a part has torn the stream: the remainder is not sent, because the
    card may have seen a fault in between, and the caller resets the card instead.

    Parameters
    ----------
    nodes : the device files, not yet open; the transport closes them.
    layout : layout of the build that the card must hold.
    timeout : seconds that a packet may take; a little more than the kernel module's own limits (its
        parameters ``h2c_timeout`` and ``c2h_timeout``) gives better messages.

    Raises
    ------
    WrongCardError, WrongBuildError, MissingCardError, BusyError, AccessError
        If the card cannot be opened; nothing stays open.
    """

    def __init__(
        self, *, nodes: Nodes, layout: Layout, timeout: float | None = TIMEOUT + 1.0
    ) -> None:
        self.timeout = timeout
        self.where = nodes.prefix
        self._nodes = nodes
        self._spill = aligned(PAGE)
        self._lock = threading.Lock()
        self._closed = False
        try:
            self._open(layout)
        except BaseException:
            with contextlib.suppress(OSError):
                nodes.close()
            raise

    def read_register(self, offset: int) -> int:
        """Read a register with one aligned 4-byte read."""
        try:
            data = self._nodes.read_user(offset)
        except OSError as error:
            raise translate(error, node=self._path(USER), action="read") from error
        if len(data) != 4:
            raise LinkError(
                f"'{self._path(USER)}' returned {len(data)} of 4 bytes for the register at "
                f"{offset:#x}: the file is not a register space. Give the address of a card, as in "
                "'xdma:0'."
            )
        return int.from_bytes(data, "little")

    def write_register(self, offset: int, value: int) -> None:
        """Write a register with one aligned 4-byte write."""
        try:
            written = self._nodes.write_user(offset, value.to_bytes(4, "little"))
        except OSError as error:
            raise translate(error, node=self._path(USER), action="write") from error
        if written != 4:
            raise LinkError(
                f"'{self._path(USER)}' accepted {written} of 4 bytes for the register at "
                f"{offset:#x}: the file is not a register space. Give the address of a card, as in "
                "'xdma:0'."
            )

    def send(self, packet: Bytes) -> None:
        """Send a packet with one `write`."""
        check_buffer(packet)
        try:
            written = self._nodes.write_stream(packet.data)
        except OSError as error:
            raise translate(error, node=self._path(H2C), action="write") from error
        if written != len(packet):
            raise TornStreamError(
                f"'{self._path(H2C)}' accepted {written} of {len(packet)} bytes: the request is "
                f"incomplete."
            )

    def receive(self, packet: Bytes) -> None:
        """Receive a packet with one `read` of exactly its length."""
        check_buffer(packet)
        received = self._read(packet)
        if received != len(packet):
            raise TornStreamError(
                f"'{self._path(C2H)}' returned {received} of {len(packet)} bytes: the response was "
                f"cut off or lost a part."
            )

    def drain(self) -> None:
        """Discard the result of one `read` of at most a page."""
        if not self._read(self._spill):
            raise TornStreamError(f"'{self._path(C2H)}' has nothing to discard.")

    def close(self) -> None:
        """Close the files; a second call does nothing."""
        with self._lock:
            first, self._closed = not self._closed, True
        if first:
            # The card may be gone; the files are closed in any case.
            with contextlib.suppress(OSError):
                self._nodes.close()

    def abandon(self) -> None:
        """Close a forked child's copies of the files."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._nodes.close()

    def __repr__(self) -> str:
        return f"<XdmaTransport {self.where}, {'closed' if self._closed else 'open'}>"

    def _open(self, layout: Layout) -> None:
        try:
            self._nodes.open_user()
        except OSError as error:
            raise translate(error, node=self._path(USER), action="open") from error
        check_card(self.read_register, layout, where=self.where)
        try:
            self._nodes.open_streams()
        except OSError as error:
            path = error.filename if isinstance(error.filename, str) else self._path(C2H)
            raise translate(error, node=path, action="open") from error

    def _read(self, packet: Bytes) -> int:
        try:
            return self._nodes.read_stream(packet.data)
        except OSError as error:
            raise translate(error, node=self._path(C2H), action="read") from error

    def _path(self, node: str) -> str:
        return f"{self._nodes.prefix}_{node}"


def prefix_of(address: str) -> Path:
    """Return the prefix of a card's files: /dev/xdma0 for ``0``; a path is used unchanged.

    Raises
    ------
    DriverError
        If the address is neither.
    """
    if address.isdecimal():
        return FOLDER / f"xdma{address}"
    path = Path(address)
    if not path.is_absolute() or address.endswith("/"):
        raise DriverError(
            f"'{address}' is not the address of a card: give its number, as in 'xdma:0', or the "
            f"path of its files up to the underscore, as in 'xdma:/dev/xdma0'."
        )
    return path


def open_transport(folder: Path, manifest: Manifest, address: str) -> Transport:
    """Open a card: the entry point ``xdma`` of ``pinion.transports``.

    Parameters
    ----------
    folder : the build folder, not needed here.
    manifest : manifest of the build that the card must hold.
    address : ``0`` for /dev/xdma0, or a path such as ``/dev/xdma0``.

    Raises
    ------
    DriverError
        If there is no such card, it is in use, or it does not hold the build.
    """
    del folder
    nodes = FileNodes(prefix=prefix_of(address))
    return XdmaTransport(nodes=nodes, layout=layout_of(manifest))
