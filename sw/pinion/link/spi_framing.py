"""One request and its result in one SPI transfer, for control loops on boards without PCIe.

The host is the master: mode 0 (data is sampled on SCK's rising edge), chip select low for the whole
transfer, each byte's highest bit first. Both directions are concurrent; a transfer has a fixed
length:

======== ================= ================================= =========================
section  bytes             host to card                      card to host
======== ================= ================================= =========================
request  4 ``words_in``    the record, low byte first        zeros
check    2                 CRC-16 of it, high byte first     zeros
pause    `pause_bytes`     anything                          zeros
status   1                 anything                          bits of `StatusBits`
result   4 ``words_out``   anything                          the record, low byte first
check    2                 anything                          CRC-16 of status and result
======== ================= ================================= =========================

The checksum has the polynomial of CRC-16/XMODEM and starts from the lowest 16 bits of the build's
hash, so that host and card of different builds refuse each other, except for one pair in 65,536. A
record is launched when its checksum has arrived and is correct; the pause lasts as long as the
slowest record takes at the fastest clock, so that its result is ready at any clock. Only the
master's clock therefore determines when results are sent. A transfer that ends early launches
nothing, or its result is dropped.
"""

from __future__ import annotations

import math
from binascii import crc_hqx
from dataclasses import dataclass
from enum import IntFlag
from typing import Self

from .manifest import Manifest

CYCLES = 6
"""Minimum number of the card's clock cycles per bit, because that clock samples the lines."""

CHECK = 2
"""Bytes of a checksum."""

MARGIN = 16
"""Maximum number of cycles of synchronisers and control, besides the words and the core."""


class StatusBits(IntFlag):
    """Bits of the status byte; the others are zero."""

    DONE = 1
    """The result is this request's."""
    FLAGGED = 2
    """The result is useless: a value left its number format, or the request was not finite."""
    DAMAGED = 4
    """The request's checksum is wrong, or it is for another build: nothing was computed."""


class SpiError(ValueError):
    """A transfer returned no valid result; the message gives the reason."""


@dataclass(frozen=True, kw_only=True)
class SpiTransfer:
    """Lengths of a transfer, and the initial value of its checksums.

    Members
    -------
    words_in, words_out : words of a request and of a result.
    pause : bytes between them.
    start : initial value of the checksums.
    """

    words_in: int
    words_out: int
    pause: int
    start: int

    @classmethod
    def of(cls, manifest: Manifest) -> Self:
        """Return the lengths and the initial checksum of a build's transfers."""
        return cls(
            words_in=manifest.words_in,
            words_out=manifest.words_out,
            pause=pause_bytes(manifest),
            start=manifest.hash & 0xFFFF,
        )

    @property
    def size(self) -> int:
        """Number of bytes in a transfer."""
        return self.answered + 4 * self.words_out + CHECK

    @property
    def asked(self) -> int:
        """Number of bytes in a request with its checksum."""
        return 4 * self.words_in + CHECK

    @property
    def answered(self) -> int:
        """Number of bytes up to and including the status."""
        return self.asked + self.pause + 1

    def request(self, record: bytes) -> bytes:
        """Return the bytes that the host sends for a record."""
        if len(record) != 4 * self.words_in:
            raise ValueError(f"A request must have {4 * self.words_in} bytes, not {len(record)}.")
        sent = record + crc_hqx(record, self.start).to_bytes(CHECK, "big")
        return sent.ljust(self.size, b"\0")

    def result(self, received: bytes) -> tuple[bytes, bool]:
        """Return the record in a transfer's received bytes, and whether it is flagged.

        Raises
        ------
        SpiError
            If the transfer is damaged, of another build, or has no result.
        """
        if len(received) != self.size:
            raise ValueError(f"A transfer must have {self.size} bytes, not {len(received)}.")
        answer = received[self.answered - 1 :]
        if crc_hqx(answer, self.start):
            raise SpiError(
                "The checksum of the card's answer is wrong: check that the line is connected and "
                "not too fast, and that the card holds this build."
            )
        status = StatusBits(answer[0])
        if StatusBits.DAMAGED in status:
            raise SpiError(
                "The card refused the request because its checksum was wrong: send it again, with "
                "a slower clock if that happens often."
            )
        if StatusBits.DONE not in status:
            raise SpiError(
                "The card had no result in time: lower the line's clock to at most "
                f"1/{CYCLES} of the card's clock."
            )
        return answer[1:-CHECK], StatusBits.FLAGGED in status

    def seconds(self, *, bit_hz: float) -> float:
        """Return the duration of a transfer [s] at a bit rate [Hz], without chip select."""
        return 8 * self.size / bit_hz


def pause_bytes(manifest: Manifest) -> int:
    """Return the number of pause bytes before the status, enough at the highest bit rate.

    The words of a record enter and leave the core at one per cycle, and a beat waits two more.
    """
    words = manifest.beats_in * (manifest.lanes_in + 2)
    words += manifest.beats_out * (manifest.lanes_out + 2)
    return 1 + math.ceil((words + manifest.latency_cycles + MARGIN) / (8 * CYCLES))


def fastest_hz(clock_hz: float) -> float:
    """Return the highest bit rate [Hz] for a card with this clock [Hz]."""
    return clock_hz / CYCLES
