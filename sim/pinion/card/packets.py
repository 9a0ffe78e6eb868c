"""Packet-level model of a card in Python, with a given function to compute results.

It follows `pinion.link.protocol` beat by beat, causes, halts and registers included, but without
time: a response is complete as soon as its request is. The compiled and the simulated RTL are
tested against the same tables, so tests of the driver may use either.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pinion.base.arrays import Bytes, Flags, Words
from pinion.link import (
    BEAT,
    CRC_FIELD,
    HEADER,
    MAX_COUNT,
    PROTOCOL_VERSION,
    REGISTERS,
    TRAILER,
    Cause,
    Layout,
    Magic,
    Status,
    crc32,
)
from pinion.link.registers import FRESH, HALTED, IDENTITY, IN_RESET, QUIET, RESET, SPACE

WORD = 0xFFFFFFFF


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Results and flags of a batch, in request order.

    Members
    -------
    words : (n, words_out) uint32, bit patterns of float32.
    flagged : (n,) bool.
    cycles, stalled, starved : link cycles, as in the trailer.
    """

    words: Words
    flagged: Flags
    cycles: int = 0
    stalled: int = 0
    starved: int = 0


Compute = Callable[[Words], Answers]


class PacketCard:
    """Model of the link's top: answers a stream of request beats, and has its registers.

    Only one thread at a time may call `feed`; others may access registers meanwhile.

    Parameters
    ----------
    layout : function, build and words of a record.
    build : the card's build hash, if it differs from the layout's.
    compute : returns the results of (n, words_in) words, with the parameters of their packet as
        further columns if there are any.
    interval, core_khz, link_khz : values of the registers that describe the build.
    restart : resets the states before the next request; None for a function without states.
    """

    def __init__(
        self,
        *,
        layout: Layout,
        compute: Compute,
        build: int | None = None,
        interval: int = 1,
        core_khz: int = 250_000,
        link_khz: int = 250_000,
        restart: Callable[[], None] | None = None,
    ) -> None:
        self.layout = layout if build is None else replace(layout, build=build)
        layout = self.layout
        self._compute = compute
        self._restart = restart
        self._lock = threading.Lock()
        self._constants = {
            "IDENTITY": IDENTITY,
            "VERSION": PROTOCOL_VERSION,
            "BUILD_LOW": layout.build & WORD,
            "BUILD_HIGH": layout.build >> 32,
            "FUNCTIONS": 1,
            "FUNCTION_0": layout.function,
            "WORDS_IN_0": layout.words_in,
            "WORDS_OUT_0": layout.words_out,
            "MAX_COUNT": MAX_COUNT,
            "INTERVAL": interval,
            "CORE_KHZ": core_khz,
            "LINK_KHZ": link_khz,
        }
        self._rows = {row.offset: row for row in REGISTERS}
        self.configure()

    def configure(self) -> None:
        """Return to the state after configuration, with all counters and registers reset."""
        with self._lock:
            self._values = {row.name: 0 for row in REGISTERS} | self._constants
            self._kept: dict[str, int] = {}
            self._clear()
            self._epoch = 0

    def feed(self, data: Any, *, whole: Flags | None = None) -> list[Bytes]:
        """Process request beats, and return the responses that they complete.

        Parameters
        ----------
        data : bytes, or anything with a buffer; an incomplete last beat is a partial one.
        whole : (beats,) bool, False for beats of less than 64 bytes; by default all are whole.

        Returns
        -------
        The responses that these beats complete, each an array (response_bytes(count),) uint8.
        """
        beats = np.frombuffer(data, dtype=np.uint8)
        short = len(beats) % BEAT
        if short:
            beats = np.concatenate([beats, np.zeros(BEAT - short, dtype=np.uint8)])
        beats = beats.reshape(-1, BEAT)
        fit = np.ones(len(beats), dtype=np.bool_) if whole is None else whole.copy()
        if short:
            fit[-1] = False
        responses = []
        at = 0
        while at < len(beats):
            with self._lock:
                count, request, epoch = self._take(beats[at:], fit[at:])
            at += count
            if request is not None:
                response = self._respond(request, epoch)
                if response is not None:
                    responses.append(response)
        return responses

    def answer(self, request: Any) -> Bytes | None:
        """Return the response to a request packet, or None if the card halted or needs more."""
        responses = self.feed(request)
        return responses[-1] if responses else None

    def read_register(self, offset: int) -> int:
        """Read a register; an undefined one reads as zero."""
        row = self._rows.get(offset % SPACE)
        if row is None:
            return 0
        with self._lock:
            if row.name == "STATUS":
                return QUIET | HALTED * self._halted | IN_RESET * self._held
            if row.name.endswith("_HIGH") and row.kind == "counter":
                return self._kept.get(row.name, 0)
            value = self._values[row.name]
            if row.name.endswith("_LOW") and row.kind == "counter":
                self._kept[row.name.replace("_LOW", "_HIGH")] = value >> 32
            return value & WORD

    def write_register(self, offset: int, value: int) -> None:
        """Write a register; writes to read-only or undefined ones have no effect."""
        row = self._rows.get(offset % SPACE)
        if row is None or row.access == "ro":
            return
        with self._lock:
            # Undefined bits of CONTROL are not stored.
            control_mask = RESET | (FRESH if self._restart else 0)
            self._values[row.name] = value & (control_mask if row.name == "CONTROL" else WORD)
            if row.name == "CONTROL" and self._restart and self._values[row.name]:
                self._restart()
            if row.name == "CONTROL" and self._held:
                self._clear()

    @property
    def in_reset(self) -> bool:
        """Whether the soft reset is held."""
        with self._lock:
            return self._held

    @property
    def _held(self) -> bool:
        return bool(self._values["CONTROL"] & RESET)

    def _clear(self) -> None:
        """Clear what a soft reset clears: the packet in progress, the halt and register ERROR."""
        self._halted = False
        self._header: Any = None
        self._payload = np.zeros(0, dtype=np.uint8)
        self._filled = 0
        self._values["ERROR"] = Cause.NONE
        self._epoch = getattr(self, "_epoch", 0) + 1

    def _take(self, beats: Bytes, fit: Flags) -> tuple[int, Any, int]:
        """Consume beats; return how many, and the request that they complete with its epoch.

        The caller holds the lock.
        """
        if self._held or self._halted:
            self._count("DROPPED", len(beats))
            return len(beats), None, 0
        if self._header is None:
            cause = self._check(beats[0], whole=bool(fit[0]))
            if cause:
                self._stop(cause)
                return 1, None, 0
            self._header = np.frombuffer(beats[0].tobytes(), dtype=HEADER)[0]
            length = self.layout.request_bytes(int(self._header["count"])) - BEAT
            self._payload, self._filled = np.empty(length, dtype=np.uint8), 0
            return 1, None, 0
        room = (len(self._payload) - self._filled) // BEAT
        count = min(room, len(beats))
        if not fit[:count].all():
            self._stop(Cause.PARTIAL_BEAT)
            return int(fit[:count].argmin()) + 1, None, 0
        end = self._filled + count * BEAT
        self._payload[self._filled : end] = beats[:count].reshape(-1)
        self._filled = end
        if end < len(self._payload):
            return count, None, 0
        request = self._header, self._payload
        self._header = None
        return count, request, self._epoch

    def _check(self, beat: Bytes, *, whole: bool) -> Cause:
        """Return the first fault of a header, or `Cause.NONE`."""
        header = beat.view(HEADER)[0]
        faults = {
            Cause.PARTIAL_BEAT: not whole,
            Cause.MAGIC: header["magic"] != Magic.REQUEST,
            Cause.VERSION: header["version"] != PROTOCOL_VERSION,
            Cause.HEADER_CRC: crc32(beat[:CRC_FIELD].tobytes() + bytes(4)) != header["crc"],
            Cause.FUNCTION: header["function"] != self.layout.function,
            Cause.BUILD: header["build"] != self.layout.build,
            Cause.COUNT: not 1 <= header["count"] <= MAX_COUNT,
            Cause.WORDS: header["words"] != self.layout.words_in,
        }
        return next((cause for cause, faulty in faults.items() if faulty), Cause.NONE)

    def _stop(self, cause: Cause) -> None:
        self._latch(cause)
        self._halted = True
        self._header = None

    def _latch(self, cause: Cause) -> None:
        self._count("ERRORS", 1)
        if not self._values["ERROR"]:
            self._values["ERROR"] = cause

    def _count(self, name: str, more: int) -> None:
        bits = 64 if name.endswith("_LOW") else 32
        self._values[name] = (self._values[name] + more) % (1 << bits)

    def _respond(self, request: tuple[Any, Bytes], epoch: int) -> Bytes | None:
        header, payload = request
        count, sequence = int(header["count"]), int(header["sequence"])
        answers = self._compute(self.layout.core_words(payload, count))
        status = Status.OK
        if crc32(payload) != header["payload_crc"]:
            status |= Status.PAYLOAD_CRC
        response = respond(self.layout, answers, sequence=sequence, status=status)
        flagged = int(np.count_nonzero(answers.flagged))
        with self._lock:
            if epoch != self._epoch:  # reset during the computation
                return None
            if status & Status.PAYLOAD_CRC:
                self._latch(Cause.PAYLOAD_CRC)
            for name, more in (
                ("ACCEPTED", count),
                ("ANSWERED", count),
                ("FLAGGED", flagged),
                ("BATCHES", 1),
                ("BUSY_LOW", answers.cycles),
                ("STALLED_LOW", answers.stalled),
                ("STARVED_LOW", answers.starved),
            ):
                self._count(name, more)
            self._values["BATCH_CYCLES"] = answers.cycles & WORD
            self._values["SEQUENCE"] = sequence
        return response


def respond(
    layout: Layout, answers: Answers, *, sequence: int, status: Status = Status.OK
) -> Bytes:
    """Return a response packet, (response_bytes(count),) uint8.

    Parameters
    ----------
    answers : its results.
    sequence : sequence number of the request.
    status : `Status.FLAGGED` is added if any flag is set.
    """
    count = len(answers.words)
    packet = np.zeros(layout.response_bytes(count), dtype=np.uint8)
    flagged = int(np.count_nonzero(answers.flagged))
    header = packet[:BEAT].view(HEADER)[0]
    header["magic"] = Magic.RESPONSE
    header["version"] = PROTOCOL_VERSION
    header["function"] = layout.function
    header["count"] = count
    header["sequence"] = sequence
    header["words"] = layout.words_out
    header["build"] = layout.build
    layout.response_words(packet, count)[:] = answers.words
    bits = np.packbits(answers.flagged, bitorder="little")
    start = layout.response_bytes(count) - BEAT - BEAT * -(-count // (8 * BEAT))
    packet[start : start + len(bits)] = bits
    trailer = packet[-BEAT:].view(TRAILER)[0]
    trailer["magic"] = Magic.TRAILER
    trailer["status"] = status | (Status.FLAGGED if flagged else Status.OK)
    trailer["count"] = count
    trailer["sequence"] = sequence
    trailer["flagged"] = flagged
    trailer["cycles"] = answers.cycles & WORD
    trailer["stalled"] = answers.stalled & WORD
    trailer["starved"] = answers.starved & WORD
    trailer["crc"] = crc32(packet)
    return packet
