"""Multiplier blocks of FPGAs, for which per-signal formats are chosen."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pinion.fixedpoint import Format

# Bits of a sine or cosine if full words would cost more multipliers than they gain: the error is a
# fifth of that of rounding at an 18-bit port.
_TURN = 22


@dataclass(frozen=True, kw_only=True)
class Multiplier:
    """A signed multiplier in one DSP block of an FPGA.

    Members
    -------
    name : its vendor's name for the block.
    wide, narrow : bits of its two ports. Values are stored in words as long as the wide one.
    adds : whether the block adds to its product in the same cycle.
    """

    name: str
    wide: int
    narrow: int
    adds: bool

    def __post_init__(self) -> None:
        if not 2 <= self.narrow <= self.wide <= 36:
            raise ValueError(
                f"The multiplier {self.name} has ports of {self.wide} and {self.narrow} bits: give "
                "2 to 36 bits, the wider port first."
            )

    @property
    def square(self) -> bool:
        """Whether both ports have the same width, so that no finer product is possible."""
        return self.wide == self.narrow

    @property
    def turn(self) -> Format:
        """Format of sines and cosines."""
        width = min(self.wide, _TURN)
        return Format(width, width - 2)

    @property
    def fine_turn(self) -> Format:
        """Format of sines and cosines for more accurate results."""
        return Format(self.wide, self.wide - 2)


DSP48E2 = Multiplier(name="DSP48E2", wide=27, narrow=18, adds=True)
"""UltraScale+ (AMD UG579)."""

MULT18X18D = Multiplier(name="MULT18X18D", wide=18, narrow=18, adds=False)
"""ECP5 (Lattice FPGA-TN-02205)."""

SHORTEST = 12
"""Width of the shortest words for per-signal formats [bits]."""


def multiplier_of(wide: int) -> Multiplier:
    """Return the multiplier for words of `wide` bits.

    It is the DSP48E2 for its 27 bits, otherwise the MULT18X18D with ports as wide as the words.

    Raises
    ------
    ValueError
        If there is none.
    """
    if wide == DSP48E2.wide:
        return DSP48E2
    if SHORTEST <= wide <= MULT18X18D.wide:
        return replace(MULT18X18D, wide=wide, narrow=wide)
    raise ValueError(
        f"No multiplier has words of {wide} bits: give {SHORTEST} to {MULT18X18D.wide} "
        f"({MULT18X18D.name}) or {DSP48E2.wide} ({DSP48E2.name})."
    )


FEWEST = 8
"""Width of the shortest words for formats that a task judges by its own measure [bits]: results in
words below 12 bits have no certain digit by themselves."""


def part_of(wide: int, narrow: int, *, adds: bool) -> Multiplier:
    """Return a multiplier block that is used with shorter operands than it supports.

    Parameters
    ----------
    wide, narrow : bits of the ports: `FEWEST` to 27, and half as many to 18.
    adds : whether the block adds, as the DSP48E2 does; the words of a MULT18X18D have at most 18
        bits.

    Raises
    ------
    ValueError
        If no block has such ports.
    """
    block = DSP48E2 if adds else MULT18X18D
    most = min(block.narrow, wide)
    if not (FEWEST <= wide <= block.wide and -(-wide // 2) <= narrow <= most):
        raise ValueError(
            f"A {block.name} cannot multiply words of {wide} bits by {narrow} bits: use {FEWEST} "
            f"to {block.wide} bits for words, and for the narrow port at least half as many and at "
            f"most {block.narrow}, but no more than the words have."
        )
    return replace(block, wide=wide, narrow=narrow)
