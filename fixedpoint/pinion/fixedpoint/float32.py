"""Conversion between IEEE-754 single precision and fixed point, in integer arithmetic.

These functions define the float lanes of a core; the gateware matches them bit for bit. Both
directions are exact except for one stated rounding. They do not use the host's floating-point unit,
so the result does not depend on its rounding mode or its treatment of subnormal numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pinion.base.arrays import Flags, Ints

from .format import Format, FormatError, checked_words

FRACTION_BITS = 23
BIAS = 127

# Exponent of the last bit of a significand with its hidden bit.
_POINT = BIAS + FRACTION_BITS

# The significand, doubled for the rounding bit, shifted left by up to width - 23, in an int64.
_WIDEST = 60


def check_float32_target(target: Format) -> None:
    """Raise `FormatError` if `float32_to_fixed` cannot convert to a format.

    Raises
    ------
    FormatError
        If the format has fewer than 2 or more than 60 bits, or |frac| is above 100.
    """
    if not 2 <= target.width <= _WIDEST or abs(target.frac) > 100:
        raise FormatError(
            f"Floats cannot be converted to {target.name}; use a format of 2 to {_WIDEST} bits "
            f"with -100 to 100 fraction bits."
        )


def check_float32_source(source: Format) -> None:
    """Raise `FormatError` unless a format's values are normal numbers in single precision.

    Raises
    ------
    FormatError
        If a non-zero word would be a subnormal number or overflow, or the width is not 2 to 60.
    """
    largest = source.width - 1 - source.frac
    if not 2 <= source.width <= _WIDEST or source.frac > BIAS - 1 or largest > BIAS:
        raise FormatError(
            f"{source.name} cannot be converted to floats: its values, 2**{-source.frac} to "
            f"2**{largest}, must be within 2**-126 to 2**127, and its width 2 to {_WIDEST} bits."
        )


def float32_to_fixed(bits: NDArray[np.uint32], target: Format) -> tuple[Ints, Flags]:
    """Convert IEEE-754 single-precision words to fixed point.

    Rounds once, to nearest with ties toward +infinity, then saturates.

    Parameters
    ----------
    bits : uint32 array, any shape
        The words (``array.view(numpy.uint32)`` of a float32 array).
    target : Format

    Returns
    -------
    int64 array
        Integers of the target format; an infinity gives the nearest limit, NaN gives 0.
    bool array
        True where the input was NaN or infinite, or saturated after rounding.

    Raises
    ------
    FormatError
        If `check_float32_target` refuses the target.
    """
    check_float32_target(target)
    word = np.asarray(bits, dtype=np.uint32).astype(np.int64)
    negative = (word >> 31) != 0
    exponent = (word >> FRACTION_BITS) & 0xFF
    fraction = word & ((1 << FRACTION_BITS) - 1)
    # Zero and the subnormal numbers have no hidden bit, but with at most 100 fraction bits they are
    # far below half a last bit even with it, so they need no special case.
    significand = fraction | (1 << FRACTION_BITS)
    special = exponent == 0xFF

    # value * 2**frac = +-significand * 2**shift. Past the clamps nothing changes: further left
    # every normal number saturates, further right every number rounds to zero.
    shift = exponent - _POINT + target.frac
    shift = np.clip(shift, -(FRACTION_BITS + 2), max(target.width - FRACTION_BITS, 0))
    left = np.maximum(shift, 0)
    right = np.maximum(-shift, 0)

    # One bit more than the integer, so that adding half is adding one before the last shift.
    signed = np.where(negative, -significand, significand)
    doubled = ((signed << (left + 1)) >> right) + 1
    rounded = doubled >> 1

    limit = np.where(negative, target.min_int, target.max_int)
    result = np.clip(np.where(special, limit, rounded), target.min_int, target.max_int)
    result = np.where(special & (fraction != 0), 0, result)
    flag: Flags = special | (result != rounded)
    return result.astype(np.int64), flag


def fixed_to_float32(ints: Ints, source: Format) -> NDArray[np.uint32]:
    """Convert fixed point to IEEE-754 single-precision words.

    Rounds to nearest, ties to even, as a cast does; a word of at most 25 bits converts exactly.
    Zero becomes +0; subnormal numbers, infinities and NaN cannot occur.

    Parameters
    ----------
    ints : int64 array, any shape
        Integers of the source format.
    source : Format

    Returns
    -------
    uint32 array of the same shape (``.view(numpy.float32)`` gives the numbers).

    Raises
    ------
    FormatError
        If an integer is outside the source format, or `check_float32_source` refuses the format.
    """
    check_float32_source(source)
    value = checked_words(ints, source, "value", advice="bring values into range")
    magnitude = np.abs(value)
    # Position of the leading one by bisection, because log2 in floats may round up.
    top = np.zeros_like(magnitude)
    upper = magnitude
    for step in (32, 16, 8, 4, 2, 1):
        high = (upper >> step) != 0
        upper = np.where(high, upper >> step, upper)
        top = np.where(high, top + step, top)

    right = np.maximum(top - FRACTION_BITS, 0)
    left = np.maximum(FRACTION_BITS - top, 0)
    significand = (magnitude >> right) << left
    dropped = magnitude - ((magnitude >> right) << right)
    twice = dropped << 1
    unit = np.int64(1) << right
    up = (twice > unit) | ((twice == unit) & ((significand & 1) == 1) & (right > 0))
    # The hidden bit adds one to the exponent field, and so does a carry out of the fraction.
    exponent = top - source.frac + BIAS - 1
    packed = (exponent << FRACTION_BITS) + significand + up
    packed = np.where(value < 0, packed | (1 << 31), packed)
    return np.where(value == 0, 0, packed).astype(np.uint32)
