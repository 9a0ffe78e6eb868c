"""Model of the vendor's driver and its DMA engine, as far as a program can observe them.

It follows the Xilinx driver (``XDMA/linux-kernel``): a write becomes transfers of at most 2048
descriptors, each with TLAST at its end; a descriptor is a page, with a partial beat if the buffer
is not aligned; a packet from the card closes its descriptor; nothing is taken from the card unless
a read is posted; a stalled transfer ends with an error after a timeout.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable

import numpy as np

from pinion.base.arrays import Flags, Words
from pinion.link import BEAT, Layout, register
from pinion.link.registers import HALTED, IN_RESET, RESET

from .axi_card import CONTROL, STATUS, AxiCard, Keep
from .faults import Fault, FaultPlan, FaultRecord, Injector
from .request_trace import OTHER, RequestTrace
from .response_trace import ResponseTrace
from .transfer import EMPTY, NO_FLAGS, NO_KEEP, STALE, Reading, transfer_beats, transfers

ERESTARTSYS = 512
"""Error number of a timeout in older drivers."""

PAUSE = 0.002
"""Seconds between two polls of a stalled card."""

LONGEST_PAUSE = 5 * PAUSE
"""Most seconds that one pause counts: in the rest of a longer one, the machine was busy."""

STOPPING = ("etimedout", "errno512", "lost_tail", "card_reset")
"""Faults after which a transfer may stall although the card has not halted."""

BUILD = {
    register("BUILD_LOW").offset: OTHER & 0xFFFFFFFF,
    register("BUILD_HIGH").offset: OTHER >> 32,
}

NO_FAULTS = FaultPlan()


class XdmaModel:
    """Model of a card's device files, as the vendor's driver serves them.

    Any thread may write, read and access registers. The waiting thread runs the card. All methods
    raise `OSError` as the system calls do.

    Parameters
    ----------
    card : the card's AXI side.
    layout : layout of its packets.
    plan : faults to inject.
    timeout : seconds that a transfer may stall.
    timeout_errno : error number of such a timeout.
    sound_timeout : the same while the card is sound, which it is until a fault of `STOPPING`, a
        halt or a reset; by default ``timeout``. With a short ``timeout`` and a long
        ``sound_timeout``, stopped transfers end soon, but a busy host causes no timeout.
    """

    def __init__(
        self,
        *,
        card: AxiCard,
        layout: Layout,
        plan: FaultPlan = NO_FAULTS,
        timeout: float = 10.0,
        timeout_errno: int = errno.ETIMEDOUT,
        sound_timeout: float | None = None,
    ) -> None:
        self.layout = layout
        self.timeout = timeout
        self.sound_timeout = timeout if sound_timeout is None else sound_timeout
        self.timeout_errno = timeout_errno
        self._card = card
        self._changed = threading.Condition()
        self._writing, self._reading_lock = threading.Lock(), threading.Lock()
        self._records: list[FaultRecord] = []
        self._responses = ResponseTrace(layout=layout)
        self._requests = RequestTrace(injector=Injector(plan=plan), emit=self._planned)
        self._ring = 0
        self._pending: tuple[Words, Keep, Flags] = EMPTY, NO_KEEP, NO_FLAGS
        self._posted: Reading | None = None
        self._fifo: tuple[Words, Flags] = EMPTY, NO_FLAGS
        self._errno = 0
        self._hold = 0.0
        self._other_until = 0.0
        self._refuse_open = False
        self._opened = False
        self._disturbed = False
        self._stopped = False

    # ---- system calls of a program ----

    def open_c2h(self) -> None:
        """Open the stream to the host; `EBUSY` if it is already open."""
        with self._changed:
            if self._refuse_open or self._opened:
                self._refuse_open = False
                raise _error(errno.EBUSY)
            self._opened = True

    def close_c2h(self) -> None:
        """Close the stream to the host."""
        with self._changed:
            self._opened = False

    def write(self, data: bytes | memoryview, *, address: int = 0) -> int:
        """Send data; return its length once the card has accepted all of it.

        Parameters
        ----------
        data : bytes of any length.
        address : address of the buffer if known, a multiple of 64 otherwise.
        """
        view = memoryview(data).cast("B")
        self._check_aligned("written", len(view), address)
        with self._writing:
            parts, self._ring = transfers(len(view), address, self._ring)
            for part in parts:
                piece = view[part.start : part.stop]
                beats, keep = transfer_beats(piece, address + part.start)
                last = np.zeros(len(beats), dtype=np.bool_)
                last[-1] = True
                self._transfer(beats.copy(), keep, last)
        return len(view)

    def read(self, length: int, *, address: int = 0) -> bytes:
        """Receive data; return it once every descriptor is closed.

        The result ends after the last received byte; holes before it hold stale bytes.
        """
        self._check_aligned("read", length, address)
        with self._reading_lock, self._changed:
            reading = Reading(length=length, address=address)
            self._posted, self._errno, self._hold = reading, 0, 0.0
            self._changed.notify_all()
            try:
                complete = self._pump(lambda: reading.full or bool(self._errno))
            finally:
                self._posted = None
            failed, hold = self._errno, self._hold
        if hold:
            time.sleep(hold)
        if failed:
            raise _error(failed)
        if not complete:
            raise _error(self.timeout_errno)
        return bytes(reading.buffer[: reading.end])

    def read_register(self, offset: int, length: int = 4) -> bytes:
        """Read one register word, and return at most `length` of its bytes."""
        self._check_word("read", offset, length)
        with self._changed:
            value = self._card.read(offset)
            if offset in BUILD and time.monotonic() < self._other_until:
                value ^= BUILD[offset]
        return value.to_bytes(4, "little")[:length]

    def write_register(self, offset: int, data: bytes) -> int:
        """Write one register word, with missing bytes filled with `STALE`; return 4."""
        self._check_word("written", offset, len(data))
        word = (bytes(data) + bytes([STALE]) * 4)[:4]
        with self._changed:
            value = int.from_bytes(word, "little")
            self._card.write(offset, value)
            if offset == CONTROL and value & RESET:
                self._responses.forget()
            elif offset == CONTROL:
                self._disturbed = False
            self._changed.notify_all()
        return 4

    # ---- calls of a test ----

    def log(self) -> list[FaultRecord]:
        """Return all events so far."""
        with self._changed:
            return list(self._records)

    def set_plan(self, plan: FaultPlan) -> None:
        """Switch to another plan and count packets from 0 again."""
        with self._changed:
            self._requests = RequestTrace(injector=Injector(plan=plan), emit=self._planned)
            self._responses = ResponseTrace(layout=self.layout)
            self._refuse_open = False
            self._disturbed = False

    def note(self, kind: str, detail: str) -> None:
        """Record an event that another part of the stand-in observed."""
        with self._changed:
            self._record(kind, -1, self._requests.sequence, detail)

    def stop(self) -> None:
        """End every transfer with `ENODEV`, as when the module is unloaded."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    # ---- the DMA engine ----

    def _transfer(self, beats: Words, keep: Keep, last: Flags) -> None:
        with self._changed:
            other = time.monotonic() < self._other_until
            segments = self._requests.cut(beats, keep, last, other=other)
        try:
            for segment in segments:
                for fault in segment.before:
                    self._inject_request(fault)
                if not segment.lost:
                    self._push(segment.beats, segment.keep, segment.last)
        except OSError:
            with self._changed:
                self._requests.lost()
            raise

    def _push(self, beats: Words, keep: Keep, last: Flags) -> None:
        with self._changed:
            self._pending = beats, keep, last
            try:
                if not self._pump(lambda: not len(self._pending[0])):
                    raise _error(self.timeout_errno)
            finally:
                # The engine drops what it has not sent.
                self._pending = beats[:0], keep[:0], last[:0]

    def _pump(self, finished: Callable[[], bool]) -> bool:
        """Run the card until a condition holds; return whether it did before a timeout.

        The caller holds the lock, which is released only while the card stalls.
        """
        still = 0.0
        while not finished():
            if self._stopped:
                raise _error(errno.ENODEV)
            if self._advance():
                still = 0.0
                self._changed.notify_all()
                continue
            if self._given_up(still):
                return False
            began = time.monotonic()
            self._changed.wait(PAUSE)
            still += min(time.monotonic() - began, LONGEST_PAUSE)
        return True

    def _given_up(self, still: float) -> bool:
        """Return whether a transfer that has stalled for ``still`` seconds must time out."""
        if still < self.timeout:
            return False
        if still >= self.sound_timeout:
            return True
        status = self._card.read(STATUS)
        return self._disturbed or bool(status & (HALTED | IN_RESET))

    def _advance(self) -> bool:
        """Run one step of the card; return whether any beat moved."""
        beats, keep, last = self._pending
        reading = self._posted
        if reading is not None and len(self._fifo[0]):
            self._fill(*self._fifo)
        room = 0
        if reading is not None and not reading.full and not self._errno:
            room = self._responses.room(reading.room)
        if not room and not len(beats):
            return False
        step = self._card.advance(beats, keep, last, room)
        self._pending = beats[step.accepted :], keep[step.accepted :], last[step.accepted :]
        if step.violations:
            self._record("violation", -1, 0, "The card changed or withdrew a beat on offer.")
        if len(step.beats):
            self._responses.pass_on(
                step.beats.copy(), step.last, take=self._fill, inject=self._inject_response
            )
        return bool(step.accepted or len(step.beats))

    def _fill(self, beats: Words, last: Flags) -> None:
        reading = self._posted
        assert reading is not None, "the card sends beats only while a read is posted"
        stored = reading.take(beats, last)
        self._fifo = beats[stored:], last[stored:]

    # ---- faults ----

    def _planned(self, fault: Fault, packet: int, sequence: int) -> None:
        """Record or schedule a fault when its packet is sent; the caller holds the lock."""
        if fault.kind == "ebusy":
            self._refuse_open = True
        if fault.kind == "other_build":
            self._other_until = time.monotonic() + fault.seconds
        later = fault.kind == "short_read" or (
            fault.side == "response"
            and fault.kind in ("delay", "etimedout", "errno512", "corrupt_beat", "lost_tail")
        )
        if later:
            self._responses.expect(fault, packet, sequence)
        else:
            self._record(fault.kind, packet, sequence, f"request, {_shown(fault)}")

    def _inject_request(self, fault: Fault) -> None:
        if fault.kind == "delay":
            time.sleep(fault.seconds)
        elif fault.kind == "etimedout":
            raise _error(errno.ETIMEDOUT)
        elif fault.kind == "errno512":
            raise _error(ERESTARTSYS)
        elif fault.kind == "card_reset":
            with self._changed:
                self._card.reset()
                self._responses.lost()

    def _inject_response(self, fault: Fault, packet: int, sequence: int) -> None:
        """Apply a fault of the response being read; the caller holds the lock."""
        self._record(fault.kind, packet, sequence, f"response, {_shown(fault)}")
        reading = self._posted
        assert reading is not None
        if fault.kind == "delay":
            self._hold += fault.seconds
        elif fault.kind == "short_read":
            reading.full = True
        elif fault.kind == "etimedout":
            self._errno = errno.ETIMEDOUT
        elif fault.kind == "errno512":
            self._errno = ERESTARTSYS

    def _record(self, kind: str, packet: int, sequence: int, detail: str) -> None:
        self._disturbed |= kind in STOPPING
        self._records.append(
            FaultRecord(
                kind=kind, packet=packet, sequence=sequence, time=time.monotonic(), detail=detail
            )
        )

    # ---- rules for callers ----

    def _check_aligned(self, action: str, length: int, address: int) -> None:
        if self._stopped:
            raise _error(errno.ENODEV)
        if address % BEAT or length % BEAT:
            self.note(
                "trap_2",
                f"{length} bytes were {action}, beginning {address % BEAT} bytes past a beat "
                f"boundary, which causes partial beats.",
            )

    def _check_word(self, action: str, offset: int, length: int) -> None:
        if offset % 4 or length != 4:
            self.note(
                "trap_9",
                f"{length} bytes at {offset:#x} of the registers were {action}: an access always "
                f"transfers one aligned word.",
            )
        if offset % 4:
            raise _error(errno.EPROTO)


def _shown(fault: Fault) -> str:
    names = ("beat", "beats", "size", "bit", "seconds")
    return ", ".join(f"{name} {getattr(fault, name)}" for name in names)


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
