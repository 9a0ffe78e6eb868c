"""The registers behind AXI4-Lite: one row each, for RTL, driver, stand-in and docs.

Every access is of 32 bits and aligned. Reading the low word of a 64-bit counter keeps its high word
for the next read, so that the pair belongs together. Offsets that are not listed read as zero and
ignore writes; so do all registers that are read-only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

IDENTITY = int.from_bytes(b"PNIN", "little")
"""What the first register of every Pinion card reads as."""

RESET, FRESH = 1, 2
"""CONTROL: bits 0 and 1."""

BUSY, HALTED, OPEN, QUIET, IN_RESET = 1, 2, 4, 8, 16
"""Bits of STATUS."""

SPACE = 256
"""Bytes of the register space that are decoded; higher address bits are ignored."""


@dataclass(frozen=True)
class Register:
    """One 32-bit register.

    Members
    -------
    name : upper case.
    offset : in bytes.
    access : ``ro``, or ``rw``.
    kind : ``constant`` of the build, ``state`` of the card, ``counter`` since configuration
        (wraps; no reset clears it) or ``control``.
    text : what it holds.
    """

    name: str
    offset: int
    access: Literal["ro", "rw"]
    kind: Literal["constant", "state", "counter", "control"]
    text: str


REGISTERS = (
    Register("IDENTITY", 0x00, "ro", "constant", "The bytes PNIN: this is a Pinion card"),
    Register("VERSION", 0x04, "ro", "constant", "Version of the record protocol"),
    Register("BUILD_LOW", 0x08, "ro", "constant", "Manifest hash, low word"),
    Register("BUILD_HIGH", 0x0C, "ro", "constant", "Manifest hash, high word"),
    Register("FUNCTIONS", 0x10, "ro", "constant", "Number of functions on the card"),
    Register("FUNCTION_0", 0x14, "ro", "constant", "Function 0: CRC-32 of its name"),
    Register("WORDS_IN_0", 0x18, "ro", "constant", "Function 0: words of a request record"),
    Register("WORDS_OUT_0", 0x1C, "ro", "constant", "Function 0: words of a result record"),
    Register("MAX_COUNT", 0x20, "ro", "constant", "Records of a packet at most"),
    Register("INTERVAL", 0x24, "ro", "constant", "Core cycles between results (ii)"),
    Register("CORE_KHZ", 0x28, "ro", "constant", "Clock of the core in kHz, as built for"),
    Register("LINK_KHZ", 0x2C, "ro", "constant", "Clock of the link in kHz, as built for"),
    Register(
        "CONTROL",
        0x30,
        "rw",
        "control",
        "Bit 0: hold the soft reset; 1, only with states: requests find the initial ones, as after "
        "a reset, while it is set and the first time afterwards",
    ),
    Register(
        "STATUS",
        0x34,
        "ro",
        "state",
        "Bit 0: a batch is in work; 1: stopped after an error; 2: a response packet is open; "
        "3: no request beat came for 256 cycles; 4: the soft reset is held and has taken hold",
    ),
    Register("ERROR", 0x38, "ro", "state", "First error cause since the last reset; 0: none"),
    Register("SCRATCH", 0x3C, "rw", "control", "Keeps what is written, for a test of access"),
    Register("ACCEPTED", 0x40, "ro", "counter", "Records that entered the core"),
    Register("ANSWERED", 0x44, "ro", "counter", "Records that left the core"),
    Register("FLAGGED", 0x48, "ro", "counter", "Records that left the core with their flag set"),
    Register("DROPPED", 0x4C, "ro", "counter", "Request beats that were dropped"),
    Register("ERRORS", 0x50, "ro", "counter", "Protocol errors"),
    Register("BATCHES", 0x54, "ro", "counter", "Responses that were sent to their end"),
    Register("BUSY_LOW", 0x58, "ro", "counter", "Link cycles with a batch in work, low word"),
    Register("BUSY_HIGH", 0x5C, "ro", "counter", "The same, high word, kept by reading the low"),
    Register("STALLED_LOW", 0x60, "ro", "counter", "Link cycles a result waited, low word"),
    Register("STALLED_HIGH", 0x64, "ro", "counter", "The same, high word, kept by reading the low"),
    Register("STARVED_LOW", 0x68, "ro", "counter", "Link cycles a begun packet lacked beats, low"),
    Register("STARVED_HIGH", 0x6C, "ro", "counter", "The same, high word, kept by reading the low"),
    Register("BATCH_CYCLES", 0x70, "ro", "state", "Link cycles of the last batch, in its trailer"),
    Register("SEQUENCE", 0x74, "ro", "state", "Sequence number of the last batch answered"),
)


def register(name: str) -> Register:
    """The register of a name.

    Raises
    ------
    KeyError
        When there is none.
    """
    for row in REGISTERS:
        if row.name == name:
            return row
    raise KeyError(f"There is no register '{name}': {', '.join(r.name for r in REGISTERS)}.")
