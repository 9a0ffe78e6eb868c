"""Sine and cosine of any fixed-point angle: the exact model of a table unit.

Angles of a few turns at most are looked up directly (`pinion.fixedpoint.sincos_direct`), others by
turns (`pinion.fixedpoint.sincos_turns`): every word of the source format is a legal input.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pinion.base.amounts import amount

from .format import Format, FormatError, checked_words
from .sincos_direct import DirectTable
from .sincos_turns import TurnTable


@dataclass(frozen=True, kw_only=True)
class SinCos:
    """Sine and cosine of a fixed-point angle, derived from two formats.

    The constructor takes keyword arguments only.

    Parameters
    ----------
    source : Format
        Angle [rad]; any word of the format is legal.
    target : Format
        Result, from -1 to +1 inclusive; needs two bits before the binary point.
    segment_bits : int, optional
        Base-2 logarithm of the number of table segments in a quadrant, by turns. By default the
        method and the number are chosen: direct if its table is small, and the smallest number
        whose interpolation error is below 1/64 LSB of the result.

    Raises
    ------
    FormatError
        If the target cannot represent +1, or a width is outside the range that the model evaluates
        exactly in 64-bit integers.

    Largest errors in LSBs of the result, measured against ``sin`` and ``cos`` of the exactly
    represented angle (`error_bound` is the derived bound):

    ==================  ======  ========  =====  ==============
    source -> target    method  measured  bound  rows x bits
    ==================  ======  ========  =====  ==============
    q16.16 -> q16.16    turns   0.521     0.536  64 x 50
    q12.20 -> q12.20    turns   0.518     0.532  256 x 56
    27, 24 -> q2.20     direct  0.516     0.526  512 x 56
    27, 24 -> q2.25     turns   0.521     0.537  512 x 68
    18, 15 -> q2.16     direct  0.512     0.517  256 x 48
    ==================  ======  ========  =====  ==============
    """

    source: Format
    target: Format
    segment_bits: int | None = None

    def __post_init__(self) -> None:
        if self.target.width - self.target.frac < 2:
            raise FormatError(
                f"The target format {self.target.name} cannot represent +1.0, which sine and "
                f"cosine reach; give it at least two bits before the binary point."
            )
        if not 4 <= self.target.frac <= 28:
            raise FormatError(
                f"The target format {self.target.name} has "
                f"{amount(self.target.frac, 'fraction bit')}; sine and cosine support 4 to 28."
            )
        _ = self.method

    @cached_property
    def method(self) -> DirectTable | TurnTable:
        """Implementation: a direct table if it is small enough, otherwise range reduction."""
        direct = DirectTable(source=self.source, target=self.target)
        if self.segment_bits is None and direct.fits:
            return direct
        return TurnTable(source=self.source, target=self.target, segment_bits=self.segment_bits)

    @property
    def error_bound(self) -> float:
        """Bound on ``|result - sin(x)|`` in real units, x being the represented angle."""
        return self.method.error_bound

    def compute(
        self, x: NDArray[np.int64], cosine: NDArray[np.bool_] | bool = False
    ) -> NDArray[np.int64]:
        """Return the sine or cosine as the hardware computes it, bit for bit.

        Parameters
        ----------
        x : int64 array, any shape
            Angles as integers of `source`.
        cosine : bool or bool array, broadcast against x
            True selects the cosine instead of the sine.

        Returns
        -------
        int64 array of the broadcast shape, integers of `target`.

        Raises
        ------
        FormatError
            If an integer is outside the source format.
        """
        x = checked_words(x, self.source, "angle", advice="wrap or clip angles")
        return self.method.compute(x, np.asarray(cosine, dtype=np.int64))
