"""A card connected by a serial line: packets in the frames of `pinion.link.uart_framing`."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from pinion.base.arrays import Bytes
from pinion.base.progress import Progress
from pinion.link import BEAT, Layout, Manifest, layout_of, register
from pinion.link.registers import RESET
from pinion.link.uart_framing import (
    BAUD,
    END,
    SLOTS,
    WIRE_BEAT,
    WIRE_COMMAND,
    FrameKind,
    beats,
    command,
    unwrap,
)

from .card import check_card
from .errors import CardTimeoutError, DriverError, LinkError, TornStreamError, TransportError
from .transport import TIMEOUT, Transport
from .tty import TtyPort

CONTROL = register("CONTROL").offset

TRIES = 4
"""Transmissions of a register access after which it counts as unanswered."""

ANSWER = 0.5
"""Seconds that an answer may take beyond its time on the line."""

PAUSE = 0.002
"""Seconds that `drain` waits while the card sends unwanted data."""

_WORD = 0xFFFFFFFF


class Port(Protocol):
    """A bidirectional byte stream; methods raise `OSError` if the port is gone."""

    def read(self) -> bytes:
        """Return received bytes, or no bytes after a short timeout; only one thread calls this."""
        ...

    def write(self, data: bytes) -> None:
        """Send all bytes; one thread at a time calls this, perhaps while another reads."""
        ...

    def close(self) -> None:
        """Close the line, which soon ends a `read` in another thread."""
        ...


class SerialTransport(Transport):
    """A transport that sends packets beat by beat, never more than the card has room for.

    A thread reads continuously, because the card does not wait.

    Parameters
    ----------
    port : the open port; the transport closes it.
    layout : layout of the build that the card must hold.
    where : name of the port for messages.
    baud : bits per second, which determine how long an answer may take.
    slots : beats that the card has room for.
    patience : seconds without progress after which a transfer has failed.

    Raises
    ------
    WrongCardError, WrongBuildError, TransportError
        If no card, or another one, answers; the port is closed.
    """

    timeout = None

    def __init__(
        self,
        *,
        port: Port,
        layout: Layout,
        where: str,
        baud: float = BAUD,
        slots: int = SLOTS,
        patience: float = TIMEOUT,
    ) -> None:
        self.where = where
        self.slots = slots
        self._port = port
        self._patience = patience
        # An answer waits for a beat being sent, a command for everything sent before it.
        self._answer = ANSWER + 10 * (slots * WIRE_BEAT + 2 * WIRE_COMMAND) / baud
        self._line = threading.Lock()
        self._asking = threading.Lock()
        self._changed = threading.Condition()
        self._tag = 0
        self._answers: dict[int, int] = {}
        self._packets: deque[bytes | None] = deque()
        self._sent = self._taken = 0
        self._resets = self._progress = 0
        self._failure: TransportError | None = None
        self._closing = False
        self._reader = threading.Thread(target=self._read, name="pinion-serial", daemon=True)
        self._reader.start()
        try:
            self._write(END)  # ends an incomplete frame
            self._synchronise()
            check_card(self.read_register, layout, where=where)
        except BaseException:
            self.close()
            raise

    def read_register(self, offset: int) -> int:
        """Read a register with one frame in each direction, repeated if one is lost."""
        return self._ask(FrameKind.READ, offset=offset)

    def write_register(self, offset: int, value: int) -> None:
        """Write a register, repeated if a frame is lost; a write to CONTROL also ends transfers."""
        self._ask(FrameKind.WRITE, offset=offset, value=value)
        if offset != CONTROL:
            return
        if not value & RESET:
            # Everything sent so far was dropped, and everything from the card has arrived.
            self._synchronise()
        with self._changed:
            self._resets += 1
            self._packets.clear()
            self._changed.notify_all()

    def send(self, packet: Bytes) -> None:
        """Send a packet, as many beats at a time as the card has room for."""
        data = packet.tobytes()
        with self._changed:
            resets = self._resets
        at = 0
        while at < len(data):
            count = min(self._room(resets), (len(data) - at) // BEAT)
            frames = beats(data[at : at + count * BEAT])
            with self._line:
                with self._changed:
                    self._check_ended(resets)
                    self._sent = (self._sent + count) & _WORD
                self._put(frames)
            at += count * BEAT

    def receive(self, packet: Bytes) -> None:
        """Wait for the next complete packet and copy it into ``packet``."""
        with self._changed:
            resets = self._resets
            self._wait(lambda: bool(self._packets), resets, "sent nothing")
            response = self._packets.popleft()
        if response is None:
            raise TornStreamError(f"A response from {self.where} arrived damaged: check the cable.")
        if len(response) != len(packet):
            raise TornStreamError(
                f"The card at {self.where} sent a response of {len(response)} bytes instead of "
                f"{len(packet)}: it was cut off, or parts were lost."
            )
        packet.data.cast("B")[:] = response

    def drain(self) -> None:
        """Pause while the reading thread receives what the card still sends."""
        time.sleep(PAUSE)

    def close(self) -> None:
        """Close the port; a second call does nothing."""
        with self._changed:
            if self._closing:
                return
            self._closing = True
            self._changed.notify_all()
        # The line may be gone; the thread ends in any case.
        with contextlib.suppress(OSError):
            self._port.close()
        if threading.current_thread() is not self._reader:
            self._reader.join(self._patience)

    def abandon(self) -> None:
        """Close a forked child's copy of the port."""
        self._closing = True
        with contextlib.suppress(OSError):
            self._port.close()

    def __repr__(self) -> str:
        return f"<SerialTransport {self.where}, {'closed' if self._closing else 'open'}>"

    def _room(self, resets: int) -> int:
        """Wait until the card has room, and return the number of beats that may be sent."""
        with self._changed:
            self._wait(lambda: self._under_way < self.slots, resets, "accepted no more data")
            return self.slots - self._under_way

    @property
    def _under_way(self) -> int:
        return (self._sent - self._taken) & _WORD

    def _wait(self, finished: Callable[[], bool], resets: int, symptom: str) -> None:
        """Wait until a condition holds; the caller holds the lock."""
        progress, since = self._progress, time.monotonic()
        while True:
            self._check_ended(resets)
            if finished():
                return
            now = time.monotonic()
            if progress != self._progress:
                progress, since = self._progress, now
            left = since + self._patience - now
            if left <= 0:
                raise CardTimeoutError(
                    f"The card at {self.where} {symptom} for {self._patience:g} s: it stopped, or "
                    f"data was lost."
                )
            self._changed.wait(left)

    def _check_ended(self, resets: int) -> None:
        """Raise an error if the transfer was ended; the caller holds the lock."""
        if self._failure is not None:
            raise LinkError(str(self._failure)) from self._failure
        if self._closing:
            raise LinkError(f"The port {self.where} was closed during a transfer.")
        if resets != self._resets:
            raise CardTimeoutError(f"The card at {self.where} was reset during a transfer.")

    def _ask(self, kind: FrameKind, *, offset: int = 0, value: int = 0) -> int:
        """Send a command, at most `TRIES` times, and return the value in its answer."""
        with self._asking:
            for _ in range(TRIES):
                self._tag = self._tag % 255 + 1
                tag = self._tag
                self._write(command(kind, tag=tag, offset=offset, value=value))
                end = time.monotonic() + self._answer
                with self._changed:
                    while tag not in self._answers:
                        if self._failure is not None:
                            raise LinkError(str(self._failure)) from self._failure
                        left = end - time.monotonic()
                        if left <= 0 or self._closing:
                            break
                        self._changed.wait(left)
                    answer = self._answers.get(tag)
                    self._answers.clear()
                if answer is not None:
                    return answer
            raise CardTimeoutError(
                f"Nothing at {self.where} answered in {TRIES} attempts: load the board's "
                "bitstream, and give the board's port and the baud rate of its build."
            )

    def _synchronise(self) -> None:
        """Set the beat counters to the card's count, while no beat is in flight."""
        count = self._ask(FrameKind.SYNC)
        with self._changed:
            self._sent = self._taken = count

    def _write(self, data: bytes) -> None:
        with self._line:
            self._put(data)

    def _put(self, data: bytes) -> None:
        """Write bytes; the caller holds the line's lock."""
        try:
            self._port.write(data)
        except (OSError, ValueError) as error:
            raise LinkError(
                f"The port {self.where} cannot be written to ({error}): check that it is connected."
            ) from error

    def _read(self) -> None:
        """Receive frames until the transport is closed; runs in a separate thread."""
        text = b""
        packet: list[bytes] = []
        torn = False
        resets = 0
        while not self._closing:
            try:
                text += self._port.read()
            except (OSError, ValueError, TypeError) as error:
                with self._changed:
                    self._failure = LinkError(
                        f"The port {self.where} is gone ({error}): plug the board in again."
                    )
                    self._changed.notify_all()
                return
            *frames, text = text.split(END)
            if not frames:
                continue
            with self._changed:
                if resets != self._resets:
                    packet, torn, resets = [], False, self._resets
                for frame in frames:
                    body = unwrap(frame)
                    if body is None:
                        torn = torn or len(frame) > WIRE_COMMAND
                    elif body[0] in (FrameKind.BEAT, FrameKind.LAST) and len(body) == 1 + BEAT:
                        packet.append(body[1:])
                        self._progress += 1
                        if body[0] == FrameKind.LAST:
                            self._packets.append(None if torn else b"".join(packet))
                            packet, torn = [], False
                    elif body[0] in (FrameKind.VALUE, FrameKind.ROOM):
                        self._take_answer(body)
                self._changed.notify_all()

    def _take_answer(self, body: bytes) -> None:
        """Handle the answer to a command, or an unsolicited ROOM; the caller holds the lock."""
        tag, value = body[1], int.from_bytes(body[3:7], "little")
        if tag:
            self._answers[tag] = value
        elif value != self._taken:
            self._taken = value
            self._progress += 1


def split_address(address: str) -> tuple[str, int]:
    """Return the path and the baud rate of ``/dev/ttyUSB0`` or ``/dev/ttyUSB0@115200``.

    Raises
    ------
    DriverError
        If the address is invalid.
    """
    path, at, rate = address.rpartition("@")
    if not at:
        path, rate = address, str(BAUD)
    if not path or not rate.isdecimal() or int(rate) == 0:
        raise DriverError(
            f"'{address}' is not the address of a serial card: give its port, as in "
            f"'serial:/dev/ttyUSB0', followed by @ and the baud rate if it is not {BAUD}, as in "
            f"'serial:/dev/ttyUSB0@115200'."
        )
    return path, int(rate)


def open_transport(folder: Path, manifest: Manifest, address: str) -> Transport:
    """Open a card: the entry point ``serial`` of ``pinion.transports``.

    Parameters
    ----------
    folder : the build folder, not needed here.
    manifest : manifest of the build that the card must hold.
    address : address of the port (`split_address`).

    Raises
    ------
    DriverError, TransportError
        If there is no such port, or no card with this build behind it.
    """
    del folder
    return open_port(address, layout_of(manifest))


def open_processor(machine: Any, layout: Layout, address: str, *, progress: Progress) -> Transport:
    """Open a processor: the entry point ``serial`` of ``pinion.processors``.

    Parameters
    ----------
    machine, progress : not needed here.
    layout : what its registers state.
    address : address of the port (`split_address`).
    """
    del machine, progress
    return open_port(address, layout)


def open_port(address: str, layout: Layout) -> Transport:
    """Open a card on a serial port, with the layout that its registers must match."""
    path, baud = split_address(address)
    port = TtyPort(path=path, baud=baud)
    return SerialTransport(port=port, layout=layout, where=path, baud=baud)
