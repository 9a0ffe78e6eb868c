"""One request and its result in one SPI transfer, for control loops on boards without PCIe.

The host is the master: mode 0 (data is taken on SCK's rising edge), chip select low for the whole
transfer, each byte's highest bit first. Both directions run at once; a transfer has a fixed length:

======== ================= ================================= =========================
section  bytes             host to card                      card to host
======== ================= ================================= =========================
request  4 ``words_in``    the record, low byte first        zeros
check    2                 CRC-16 of it, high byte first     zeros
pause    `pause_bytes`     anything                          zeros
status   1                 anything                          bits of `Answer`
result   4 ``words_out``   anything                          the record, low byte first
check    2                 anything                          CRC-16 of status and result
======== ================= ================================= =========================

The checksum has the polynomial of CRC-16/XMODEM and starts from the lowest 16 bits of the build's
hash, so that host and card of different builds refuse each other but for one pair in 65,536. A
record is launched when its checksum has come and fits; the pause is as long as the slowest record
takes at the fastest clock, so that its result is there whatever the clock. When results leave is
therefore set by the master's clock alone. A transfer that ends early launches nothing, or has its
result dropped.
"""

from __future__ import annotations

import math
from binascii import crc_hqx
from dataclasses import dataclass
from enum import IntFlag
from typing import Self

from .manifest import Manifest

CYCLES = 6
"""Cycles of the card's clock that a bit takes at least: it samples the lines with that clock."""

CHECK = 2
"""Bytes of a checksum."""

MARGIN = 16
"""Cycles that synchronisers and control take, at most, beside the words and the core."""


class Answer(IntFlag):
    """Bits of the status byte; the others are zero."""

    DONE = 1
    """The result is that of this request."""
    FLAGGED = 2
    """A value left its number format, or the request held no finite number: it is useless."""
    DAMAGED = 4
    """The request's checksum does not fit, or it is of another build: nothing was computed."""


class SpiError(ValueError):
    """A transfer did not bring the result of its request; the sentence says why."""


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """Lengths of a transfer, and its checksums' start.

    Members
    -------
    words_in, words_out : of a request and of a result.
    pause : bytes between them.
    start : of the checksums.
    """

    words_in: int
    words_out: int
    pause: int
    start: int

    @classmethod
    def of(cls, manifest: Manifest) -> Self:
        """The transfers of a build."""
        return cls(
            words_in=manifest.words_in,
            words_out=manifest.words_out,
            pause=pause_bytes(manifest),
            start=manifest.hash & 0xFFFF,
        )

    @property
    def size(self) -> int:
        """Bytes of a transfer."""
        return self.answered + 4 * self.words_out + CHECK

    @property
    def asked(self) -> int:
        """Bytes of a request with its checksum."""
        return 4 * self.words_in + CHECK

    @property
    def answered(self) -> int:
        """Bytes up to the status, which is among them."""
        return self.asked + self.pause + 1

    def request(self, record: bytes) -> bytes:
        """What the host sends in a transfer, from the bytes of a record."""
        if len(record) != 4 * self.words_in:
            raise ValueError(
                f"A request has {4 * self.words_in} bytes, and {len(record)} are given."
            )
        sent = record + crc_hqx(record, self.start).to_bytes(CHECK, "big")
        return sent.ljust(self.size, b"\0")

    def result(self, received: bytes) -> tuple[bytes, bool]:
        """The record in what the host received in a transfer, and whether it is flagged.

        Raises
        ------
        SpiError
            When it is damaged, of another build, or says that there is no result.
        """
        if len(received) != self.size:
            raise ValueError(f"A transfer has {self.size} bytes, and {len(received)} came.")
        answer = received[self.answered - 1 :]
        if crc_hqx(answer, self.start):
            raise SpiError(
                "The checksum of the card's answer does not fit: the line is disturbed or too "
                "fast, no card answers, or it holds another build."
            )
        status = Answer(answer[0])
        if Answer.DAMAGED in status:
            raise SpiError(
                "The card refused the request, whose checksum did not fit when it came: send it "
                "again, with a slower clock if that happens often."
            )
        if Answer.DONE not in status:
            raise SpiError(
                "The card had no result in time: a clock of the line faster than a "
                f"{CYCLES}th of the card's clock is too fast for it."
            )
        return answer[1:-CHECK], Answer.FLAGGED in status

    def seconds(self, *, bit_hz: float) -> float:
        """Time of a transfer at a rate, chip select not counted."""
        return 8 * self.size / bit_hz


def pause_bytes(manifest: Manifest) -> int:
    """Bytes between request and status: as many as the slowest result needs at the fastest clock.

    The words of a record go into the core and out of it one in a cycle, and a beat waits two more.
    """
    words = manifest.beats_in * (manifest.lanes_in + 2)
    words += manifest.beats_out * (manifest.lanes_out + 2)
    return 1 + math.ceil((words + manifest.latency_cycles + MARGIN) / (8 * CYCLES))


def fastest_hz(clock_hz: float) -> float:
    """The fastest line that a card takes whose clock has this rate."""
    return clock_hz / CYCLES
