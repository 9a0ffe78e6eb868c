"""A card behind the Xilinx DMA: packets through its device files."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

from pinion.link import Layout, Manifest

from .card import check_card, layout_of
from .errors import DriverError, LinkError, TornStreamError
from .memory import aligned, check_buffer
from .nodes import C2H, H2C, USER, FileNodes, Nodes, translate
from .transport import TIMEOUT, Bytes, Transport

FOLDER = Path("/dev")

PAGE = 4096
"""Bytes of a transfer that is one descriptor at most, so that a short packet leaves no hole."""


class XdmaTransport(Transport):
    """Packets by one blocking system call each.

    A call that moves less than it was given has torn the stream: the rest is not sent after it,
    because the card may have seen a fault in between, and the caller resets the card instead.

    Parameters
    ----------
    nodes : the device files, not opened yet; the transport closes them.
    layout : what the card must hold.
    timeout : seconds that a device gives a packet, a little more than the kernel module's own
        limit (its parameters ``h2c_timeout`` and ``c2h_timeout``) gives the better messages.

    Raises
    ------
    WrongCardError, WrongBuildError, MissingCardError, BusyError, AccessError
        When the card cannot be had; nothing stays open then.
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
        """One aligned 4-byte read."""
        try:
            data = self._nodes.read_user(offset)
        except OSError as error:
            raise translate(error, node=self._path(USER), action="read") from error
        if len(data) != 4:
            raise LinkError(
                f"'{self._path(USER)}' gave {len(data)} bytes instead of 4 for the register at "
                f"{offset:#x}: the file is no register space."
            )
        return int.from_bytes(data, "little")

    def write_register(self, offset: int, value: int) -> None:
        """One aligned 4-byte write."""
        try:
            taken = self._nodes.write_user(offset, value.to_bytes(4, "little"))
        except OSError as error:
            raise translate(error, node=self._path(USER), action="write") from error
        if taken != 4:
            raise LinkError(
                f"'{self._path(USER)}' took {taken} bytes instead of 4 for the register at "
                f"{offset:#x}: the file is no register space."
            )

    def send(self, packet: Bytes) -> None:
        """One `write` of the whole packet."""
        check_buffer(packet)
        try:
            taken = self._nodes.write_stream(packet.data)
        except OSError as error:
            raise translate(error, node=self._path(H2C), action="write") from error
        if taken != len(packet):
            raise TornStreamError(
                f"'{self._path(H2C)}' took {taken} of {len(packet)} bytes: the card has half a "
                f"request, and its stream is torn."
            )

    def receive(self, packet: Bytes) -> None:
        """One `read` of exactly the packet."""
        check_buffer(packet)
        got = self._read(packet)
        if got != len(packet):
            raise TornStreamError(
                f"'{self._path(C2H)}' gave {got} of {len(packet)} bytes: the response was cut off "
                f"or lost a part."
            )

    def drain(self) -> None:
        """One `read` of at most a page, thrown away."""
        if not self._read(self._spill):
            raise TornStreamError(f"'{self._path(C2H)}' gave nothing to throw away.")

    def close(self) -> None:
        """Close the files; a second call does nothing."""
        with self._lock:
            first, self._closed = not self._closed, True
        if first:
            # Nothing can be done about a card that is gone, and nothing of it stays open.
            with contextlib.suppress(OSError):
                self._nodes.close()

    def abandon(self) -> None:
        """Close the files of a forked child."""
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
    """Where a card's files are: ``0`` is /dev/xdma0, and a path is what it says.

    Raises
    ------
    DriverError
        When it is neither.
    """
    if address.isdecimal():
        return FOLDER / f"xdma{address}"
    path = Path(address)
    if not path.is_absolute() or address.endswith("/"):
        raise DriverError(
            f"'{address}' is no address of a card: give its number, as in 'xdma:0', or the path "
            f"of its files up to the underscore, as in 'xdma:/dev/xdma0'."
        )
    return path


def open_transport(folder: Path, manifest: Manifest, address: str) -> Transport:
    """Open a card: the entry point ``xdma`` of ``pinion.transports``.

    Parameters
    ----------
    folder : of the build, not needed here.
    manifest : of the build that the card must hold.
    address : ``0`` for /dev/xdma0, or a path such as ``/dev/xdma0``.

    Raises
    ------
    DriverError
        When there is no such card, it is taken, or it holds something else.
    """
    del folder
    nodes = FileNodes(prefix=prefix_of(address))
    return XdmaTransport(nodes=nodes, layout=layout_of(manifest))
