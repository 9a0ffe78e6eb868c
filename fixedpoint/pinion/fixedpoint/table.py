"""A table unit: the exact model of polynomials on segments, selected by a fixed-point operand.

`pinion.fixedpoint.piecewise` measures the polynomials' error against their function; the error here
is the unit's, against the polynomials.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pinion.base.arrays import Ints

from .format import Format, FormatError, check_widths, checked_words
from .piecewise import Piecewise

# Rows up to which segments are halved for smaller multipliers: one block memory's depth.
_SPLIT = 512

# Guard bits below the last bit of the result for truncated values, then fraction bits below it of
# rounded coefficients and of the sum.
_GUARD_BITS = 5
_LINEAR_FRAC = 4
_SQUARE_FRAC = 3
_SUM_GUARD_BITS = 6


@dataclass(frozen=True, kw_only=True)
class FixedTable:
    """A table's fixed-point unit, derived from two formats.

    The constructor takes keyword arguments only.

    Parameters
    ----------
    source : Format
        Operand; any word of the format is legal.
    target : Format
        Result.
    piecewise : Piecewise
        The polynomials.

    Raises
    ------
    FormatError
        If a value of the table does not fit the target, no operand is between the bounds, or a
        width is outside the range that the model evaluates exactly in 64-bit integers.

    Largest errors against the polynomials in LSBs of the result, measured over a million
    operands between the bounds; `error_bound` is the derived bound:

    ======================  =================  ========  =====  ===========
    function                source -> target   measured  bound  rows x bits
    ======================  =================  ========  =====  ===========
    tanh on [-4, 4], 1e-5   q16.16 -> q16.16   0.540     0.594  129 x 51
    tanh on [-4, 4], 1e-6   q4.23 -> q2.25     0.562     0.594  257 x 75
    tanh on [-4, 4], 1e-5   q4.14 -> q2.16     0.535     0.594  129 x 51
    exp on [0, 1], 1e-8     q2.25 -> q3.24     0.562     0.613  129 x 72
    ======================  =================  ========  =====  ===========
    """

    source: Format
    target: Format
    piecewise: Piecewise

    def __post_init__(self) -> None:
        check_widths("a table", 40, source=self.source, target=self.target)
        if self.low > self.high:
            raise FormatError(
                f"No number of the format {self.source.name} lies between the bounds of the table, "
                f"{self.piecewise.low!r} and {self.piecewise.high!r}: use a format that has one, "
                "or other bounds."
            )
        smallest, largest = self.piecewise.reach
        if (
            not self.target.min + self.target.lsb
            <= smallest
            <= largest
            <= (self.target.max - self.target.lsb)
        ):
            raise FormatError(
                f"A table's values, {smallest:.6g} to {largest:.6g}, do not fit their format "
                f"{self.target.name} with a margin of one LSB: give it more integer bits."
            )
        if not 2 <= self.position_bits <= 40 or sum(self.widths) > 120:
            raise FormatError(
                f"A table with segments 2**{self.piecewise.step} wide does not support operands of "
                f"the format {self.source.name} with results of the format {self.target.name}: "
                "use formats with fewer fraction bits."
            )

    # -- Ranges and widths ----------------------------------------------------------------------

    @cached_property
    def pieces(self) -> Piecewise:
        """The polynomials on segments so short that each product fits a 27 x 18-bit multiplier.

        Segments are not split into a table of `_SPLIT` or more rows.
        """
        pieces = self.piecewise
        while 2 * pieces.count < _SPLIT:
            widths = _Widths.of(self.source, self.target, pieces)
            if widths.one_block or widths.position <= 4:
                break
            pieces = pieces.halved()
        return pieces

    @property
    def low(self) -> int:
        """The smallest operand that is not clamped, as an integer of `source`."""
        return max(math.ceil(self.pieces.low * 2.0**self.source.frac), self.source.min_int)

    @property
    def high(self) -> int:
        """The largest operand that is not clamped, as an integer of `source`."""
        return min(math.floor(self.pieces.high * 2.0**self.source.frac), self.source.max_int)

    @cached_property
    def _widths(self) -> _Widths:
        return _Widths.of(self.source, self.target, self.pieces)

    @property
    def position_bits(self) -> int:
        """Number of bits of the position in a segment: at least 2, with zeros appended."""
        return self._widths.position

    @property
    def appended(self) -> int:
        """Number of zeros appended to operands for their positions."""
        return self.position_bits - (self.source.frac + self.pieces.step)

    @property
    def kept_bits(self) -> int:
        """Number of leading bits of the position that are multiplied."""
        return self._widths.multiplied

    @property
    def short_bits(self) -> int:
        """Number of leading bits of the position that are squared."""
        return self._widths.short

    @property
    def multiplier_widths(self) -> tuple[tuple[int, int], ...]:
        """Signed operand widths of every product: the square first, if there is one."""
        linear = (self.widths[1], self.kept_bits)
        if self.pieces.degree == 1:
            return (linear,)
        short = self.short_bits
        return (short, short), linear, (self.widths[2], self._widths.squared)

    @property
    def sum_guard(self) -> int:
        """Number of fraction bits of the polynomial's sum below the result's LSB."""
        return _SUM_GUARD_BITS

    @property
    def linear_frac(self) -> int:
        """Number of fraction bits of linear coefficients below the result's LSB."""
        return _LINEAR_FRAC

    @property
    def square_frac(self) -> int:
        """Number of fraction bits of quadratic coefficients below the result's LSB."""
        return _SQUARE_FRAC

    @property
    def linear_shift(self) -> int:
        """Number of bits dropped from the product of linear coefficient and position."""
        return self.linear_frac + self.kept_bits - _SUM_GUARD_BITS

    @property
    def square_dropped(self) -> int:
        """Number of bits dropped from the square."""
        return 2 * self.short_bits - self._widths.squared

    @property
    def square_shift(self) -> int:
        """Number of bits dropped from the product of quadratic coefficient and square."""
        return self.square_frac + self._widths.squared - _SUM_GUARD_BITS

    @cached_property
    def table(self) -> tuple[tuple[int, ...], ...]:
        """Rows of coefficients, the constant first and with the half for rounding added."""
        rows = []
        for row in self.pieces.rows.tolist():
            scaled = [
                c * 2.0 ** (k * self.pieces.step + self.target.frac) for k, c in enumerate(row)
            ]
            constant = _constant(scaled[0])
            others = zip(scaled[1:], (self.linear_frac, self.square_frac), strict=False)
            rows.append((constant, *(round(c * 2**frac) for c, frac in others)))
        if (
            self.high << self.appended
            == self.pieces.first + self.pieces.count << self.position_bits
        ):
            # The end of the last segment is a word: the first position of another segment.
            end = float(self.pieces.floats(self.pieces.high)) * 2.0**self.target.frac
            rows.append((_constant(end), *(0,) * self.pieces.degree))
        return tuple(rows)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Signed widths of the columns of `table`."""
        return tuple(
            max(max(value, ~value).bit_length() for value in column) + 1
            for column in zip(*self.table, strict=True)
        )

    @cached_property
    def error_bound(self) -> float:
        """Bound on ``|result - piecewise(x)|`` in real units, x being the represented operand."""
        drop = 2.0**-_SUM_GUARD_BITS
        error = 0.5 + drop / 2  # rounding, constant
        error += 2.0 ** -(self.linear_frac + 2) + drop
        if self.kept_bits < self.position_bits:
            error += _largest(self.pieces, 1, self.target) * 2.0**-self.kept_bits
        if self.pieces.degree == 2:
            error += 2.0 ** -(self.square_frac + 3) + drop
            if self.square_dropped:
                error += _largest(self.pieces, 2, self.target) * 2.0**-self._widths.squared
            if self.short_bits < self.position_bits:
                # The truncated part changes the square by less than once the position's bounds.
                error += _largest(self.pieces, 2, self.target) * 2.0**-self.short_bits
        # A bound between two words is replaced by the word inside.
        lost = 0.0
        if self.low > self.source.min_int:
            lost = self._apart(self.piecewise.low, self.low)
        if self.high < self.source.max_int:
            lost = max(lost, self._apart(self.piecewise.high, self.high))
        return self.target.lsb * error + lost

    def _apart(self, end: float, word: int) -> float:
        """Return the distance between the polynomials' values at a bound and at a word."""
        return abs(float(np.diff(self.piecewise.floats([end, word * self.source.lsb]))[0]))

    # -- The model ------------------------------------------------------------------------------

    def compute(self, x: Ints) -> NDArray[np.int64]:
        """Return the value as the hardware computes it, bit for bit.

        Parameters
        ----------
        x : int64 array, any shape
            Operands as integers of `source`, clamped to the bounds.

        Returns
        -------
        int64 array, the shape of x, integers of `target`.

        Raises
        ------
        FormatError
            If an integer is outside the source format.
        """
        x = checked_words(x, self.source)
        x = np.clip(x, self.low, self.high) << self.appended
        bits = self.position_bits
        index = (x >> bits) - self.pieces.first
        position = (x & ((1 << bits) - 1)) - (1 << (bits - 1))
        columns = np.array(self.table, dtype=np.int64).T
        value = columns[0][index]
        leading = position >> (bits - self.kept_bits)
        value = value + (columns[1][index] * leading >> self.linear_shift)
        if self.pieces.degree == 2:
            short = position >> (bits - self.short_bits)
            squared = short**2 >> self.square_dropped
            value = value + (columns[2][index] * squared >> self.square_shift)
        result: NDArray[np.int64] = value >> _SUM_GUARD_BITS
        return result


@dataclass(frozen=True)
class _Widths:
    """Numbers of bits of a position in its segment: all, those multiplied, and those squared.

    Also the fraction bits kept of the square, and whether each product fits one multiplier block.
    """

    position: int
    multiplied: int
    short: int
    squared: int
    one_block: bool

    @classmethod
    def of(cls, source: Format, target: Format, pieces: Piecewise) -> _Widths:
        position = max(source.frac + pieces.step, 2)
        largest = [_largest(pieces, power, target) for power in range(pieces.degree + 1)]
        # Truncation errors are relative to the largest coefficient.
        bits = [max(2, min(_GUARD_BITS + _length(c), position)) for c in largest]
        products = [(bits[1], _length(largest[1]) + _LINEAR_FRAC + 1)]
        short = squared = 2
        if pieces.degree == 2:
            short = bits[2]
            squared = max(4, min(2 * short, _GUARD_BITS + _length(largest[2])))
            products += [(short, short)]
            products += [(squared, _length(largest[2]) + _SQUARE_FRAC + 1)]
        one_block = all(min(pair) <= 18 and max(pair) <= 27 for pair in products)
        return cls(position, bits[1], short, squared, one_block)


def _largest(pieces: Piecewise, power: int, target: Format) -> float:
    """Return the largest coefficient of a power of the position, from -1/2 to 1/2, in LSBs."""
    return float(np.abs(pieces.rows[:, power]).max()) * 2.0 ** (power * pieces.step + target.frac)


def _constant(value: float) -> int:
    """Return a constant coefficient in LSBs, with the half for rounding added."""
    return round(value * 2.0**_SUM_GUARD_BITS) + (1 << (_SUM_GUARD_BITS - 1))


def _length(x: float) -> int:
    return math.ceil(math.log2(max(x, 2.0**-20)))
