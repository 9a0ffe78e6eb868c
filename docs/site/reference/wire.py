"""The page with the tables of packets and registers, from `pinion.link`."""

from __future__ import annotations

from pinion.link.describe import TABLES

HEADINGS = {
    "header": "Header of a packet",
    "trailer": "Trailer of a packet",
    "status": "Status bits of a trailer",
    "magic": "Magic words",
    "registers": "Registers",
    "cause": "Causes in the register ERROR",
}

HEAD = """\
# Packets and registers

The tables of [the link](../link.md) without its text, from `pinion.link`, which gateware, driver
and both simulated cards read. Words are little-endian, 32 bits.
"""


def page() -> str:
    """Return each table below its heading."""
    assert set(HEADINGS) == set(TABLES), "a table of the link has no heading here"
    return HEAD + "".join(f"\n## {HEADINGS[name]}\n\n{TABLES[name]()}" for name in HEADINGS)
