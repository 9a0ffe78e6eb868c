"""Multiplier blocks of FPGAs: the shape that formats by signal are made for."""

from __future__ import annotations

from dataclasses import dataclass

from pinion.fixedpoint import Format

# Bits of a sine or cosine where full words would take more multipliers than they gain: the error is
# a fifth of what the rounding at an 18-bit port adds.
_TURN = 22


@dataclass(frozen=True, kw_only=True)
class Multiplier:
    """A signed multiplier that is one block of the FPGA.

    Members
    -------
    name : of the block, as its vendor calls it.
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
        """Whether both ports have the same width, so that no finer product is to be had."""
        return self.wide == self.narrow

    @property
    def turn(self) -> Format:
        """Format of sines and cosines."""
        width = min(self.wide, _TURN)
        return Format(width, width - 2)

    @property
    def fine_turn(self) -> Format:
        """Format of sines and cosines for results that shall be more exact."""
        return Format(self.wide, self.wide - 2)


DSP48E2 = Multiplier(name="DSP48E2", wide=27, narrow=18, adds=True)
"""UltraScale+ (AMD UG579)."""

MULT18X18D = Multiplier(name="MULT18X18D", wide=18, narrow=18, adds=False)
"""ECP5 (Lattice FPGA-TN-02205)."""

MULTIPLIERS = (DSP48E2, MULT18X18D)


def multiplier_of(wide: int) -> Multiplier:
    """The multiplier whose words have so many bits.

    Raises
    ------
    ValueError
        When there is none.
    """
    for multiplier in MULTIPLIERS:
        if multiplier.wide == wide:
            return multiplier
    known = ", ".join(f"{m.wide} ({m.name})" for m in MULTIPLIERS)
    raise ValueError(f"No multiplier has words of {wide} bits; there are {known}.")
