"""The table of registers behind AXI4-Lite, for RTL, driver, simulated card and documentation.

Every access is aligned and of 32 bits. Reading the low word of a 64-bit counter latches its high
word for the next read, so that the pair is consistent. Offsets that are not listed read as zero and
ignore writes; read-only registers ignore writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

IDENTITY = int.from_bytes(b"PNIN", "little")
"""Value of the first register of every Pinion card."""

RESET, FRESH = 1, 2
"""Bits of CONTROL."""

BUSY, HALTED, OPEN, QUIET, IN_RESET = 1, 2, 4, 8, 16
"""Bits of STATUS."""

SPACE = 256
"""Bytes of the decoded register space; higher address bits are ignored."""


Kind = Literal["constant", "state", "counter", "control"]


@dataclass(frozen=True)
class Register:
    """One 32-bit register.

    Members
    -------
    name : name in upper case.
    offset : offset in bytes.
    access : ``ro`` or ``rw``.
    kind : ``constant`` of the build, ``state`` of the card, ``counter`` since configuration
        (wraps; no reset clears it) or ``control``.
    text : description.
    """

    name: str
    offset: int
    access: Literal["ro", "rw"]
    kind: Kind
    text: str


_ROWS: tuple[tuple[int, str, Kind, str], ...] = (
    (0x00, "IDENTITY", "constant", "The bytes PNIN: this is a Pinion card"),
    (0x04, "VERSION", "constant", "Version of the record protocol"),
    (0x08, "BUILD_LOW", "constant", "Manifest hash, low word"),
    (0x0C, "BUILD_HIGH", "constant", "Manifest hash, high word"),
    (0x10, "FUNCTIONS", "constant", "Number of functions on the card"),
    (0x14, "FUNCTION_0", "constant", "Function 0: CRC-32 of its name"),
    (0x18, "WORDS_IN_0", "constant", "Function 0: words of a request record"),
    (0x1C, "WORDS_OUT_0", "constant", "Function 0: words of a result record"),
    (0x20, "MAX_COUNT", "constant", "Most records in a packet"),
    (0x24, "INTERVAL", "constant", "Core cycles between results (ii)"),
    (0x28, "CORE_KHZ", "constant", "Clock of the core in kHz, as intended by the build"),
    (0x2C, "LINK_KHZ", "constant", "Clock of the link in kHz, as intended by the build"),
    (
        0x30,
        "CONTROL",
        "control",
        "Bit 0: hold the soft reset; 1, only with states: while it is set, and for the "
        "first request after it is cleared, requests find the initial states, as after a reset",
    ),
    (
        0x34,
        "STATUS",
        "state",
        "Bit 0: a batch is being processed; 1: stopped after an error; 2: a response packet is "
        "open; 3: no request beat for 256 cycles; 4: the soft reset is held and in effect",
    ),
    (0x38, "ERROR", "state", "First error cause since the last reset; 0: none"),
    (0x3C, "SCRATCH", "control", "Stores what is written, to test access"),
    (0x40, "ACCEPTED", "counter", "Records that entered the core"),
    (0x44, "ANSWERED", "counter", "Records that left the core"),
    (0x48, "FLAGGED", "counter", "Records that left the core with their flag set"),
    (0x4C, "DROPPED", "counter", "Request beats that were dropped"),
    (0x50, "ERRORS", "counter", "Protocol errors"),
    (0x54, "BATCHES", "counter", "Responses that were sent completely"),
    (0x58, "BUSY_LOW", "counter", "Link cycles with a batch being processed, low word"),
    (0x5C, "BUSY_HIGH", "counter", "The same, high word, latched by reading the low"),
    (0x60, "STALLED_LOW", "counter", "Link cycles in which a result waited, low word"),
    (0x64, "STALLED_HIGH", "counter", "The same, high word, latched by reading the low"),
    (0x68, "STARVED_LOW", "counter", "Link cycles in which a begun packet lacked beats, low word"),
    (0x6C, "STARVED_HIGH", "counter", "The same, high word, latched by reading the low"),
    (0x70, "BATCH_CYCLES", "state", "Link cycles of the last batch, as in its trailer"),
    (0x74, "SEQUENCE", "state", "Sequence number of the last batch answered"),
)

REGISTERS = tuple(
    Register(name, offset, "rw" if kind == "control" else "ro", kind, text)
    for offset, name, kind, text in _ROWS
)


def register(name: str) -> Register:
    """Return a register by name; raise KeyError if there is none."""
    for row in REGISTERS:
        if row.name == name:
            return row
    raise KeyError(
        f"There is no register '{name}'; use one of {', '.join(r.name for r in REGISTERS)}."
    )
