"""The quadratic polynomial that both tables of sine and cosine evaluate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from pinion.base.arrays import Ints

from .format import Format

# Bits of the sum below the result's last bit: two products are truncated with opposite signs.
_SUM_GUARD_BITS = 9


@dataclass(frozen=True, kw_only=True)
class SinCosTable(ABC):
    """A table of segments with ``constant + linear r - square r**2`` over a remainder r."""

    source: Format
    target: Format

    @property
    @abstractmethod
    def remainder_bits(self) -> int:
        """Width of the position inside a segment."""

    @property
    @abstractmethod
    def short_bits(self) -> int:
        """Number of leading bits of the remainder that are squared."""

    @property
    @abstractmethod
    def entry_frac(self) -> int:
        """Number of fraction bits of the constant coefficient in the sum."""

    @property
    @abstractmethod
    def linear_shift(self) -> int:
        """Number of bits dropped from the product of linear coefficient and remainder."""

    @property
    @abstractmethod
    def square_shift(self) -> int:
        """Bits dropped from the product of quadratic coefficient and squared remainder."""

    @property
    def middle(self) -> int:
        """1 if some bits are not squared, so that an extra LSB represents their middle, else 0."""
        return int(self.short_bits < self.remainder_bits)

    @property
    def square_dropped(self) -> int:
        """Number of bits dropped from a square, so that it and a sign fit a port of 27 bits."""
        return max(2 * (self.short_bits + self.middle) - 27, 0)

    @property
    def sum_guard(self) -> int:
        """Number of fraction bits of the sum below the result's LSB."""
        return _SUM_GUARD_BITS

    @property
    def sum_frac(self) -> int:
        """Number of fraction bits of the sum before rounding."""
        return self.target.frac + _SUM_GUARD_BITS

    def _sum(self, constant: Ints, linear: Ints, square: Ints, r: Ints) -> Ints:
        """Evaluate the polynomial of truncated coefficients at signed remainders."""
        short = r >> (self.remainder_bits - self.short_bits)
        if self.middle:
            short = short << 1 | 1
        squared = short**2 >> self.square_dropped
        y = constant << (self.sum_frac - self.entry_frac)
        y = y + (((linear << 1 | 1) * r) >> self.linear_shift)
        return y - (((square << 1 | 1) * squared) >> self.square_shift)

    def _rounded(self, total: Ints) -> Ints:
        return (total + (1 << (_SUM_GUARD_BITS - 1))) >> _SUM_GUARD_BITS
