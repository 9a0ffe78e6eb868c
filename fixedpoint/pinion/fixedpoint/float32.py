"""IEEE-754 single precision to fixed point and back, on integers alone.

These functions are the definition of what the float lanes of a core do; the gateware matches them
bit for bit. Both directions are exact except for one stated rounding. Nothing here goes through
the host's floating-point unit, so the result does not depend on its rounding mode or on how it
treats subnormal numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pinion.fixedpoint.format import Flags, Format, FormatError, Ints

FRACTION_BITS = 23
EXPONENT_BITS = 8
BIAS = 127

# Shifts the value to be an integer once the hidden bit is written out.
_POINT = BIAS + FRACTION_BITS

# The significand, doubled for the rounding bit, shifted left by up to width - 23, in an int64.
_WIDEST = 60


def check_float32_target(target: Format) -> None:
    """Refuse formats that `float32_to_fixed` does not convert to.

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
    """Refuse formats whose values single precision holds only as subnormals, or not at all.

    Raises
    ------
    FormatError
        If a non-zero word would be a subnormal number or overflow, or the width is not 2 to 60.
    """
    largest = source.width - 1 - source.frac
    if not 2 <= source.width <= _WIDEST or source.frac > BIAS - 1 or largest > BIAS:
        raise FormatError(
            f"{source.name} cannot be converted to floats: words from 2**{-source.frac} to "
            f"2**{largest} must lie in 2**-126 to 2**127, and the width in 2 to {_WIDEST} bits."
        )


def float32_to_fixed(bits: NDArray[np.uint32], target: Format) -> tuple[Ints, Flags]:
    """Convert words of IEEE-754 single precision to fixed point.

    Rounds once, to nearest with ties toward +infinity, then saturates.

    Parameters
    ----------
    bits : uint32 array, any shape
        The words (``array.view(numpy.uint32)`` of a float32 array).
    target : Format

    Returns
    -------
    int64 array
        Integers of the target format; an infinity gives the nearest end, NaN gives 0.
    bool array
        True where the input was NaN or infinite, or saturated after rounding.

    Raises
    ------
    FormatError
        If the target is outside of what `check_float32_target` accepts.
    """
    check_float32_target(target)
    word = np.asarray(bits, dtype=np.uint32).astype(np.int64)
    negative = (word >> 31) != 0
    exponent = (word >> FRACTION_BITS) & 0xFF
    fraction = word & ((1 << FRACTION_BITS) - 1)
    # Zero and the subnormal numbers have no hidden bit, but at most 100 fraction bits keep them far
    # below half a last bit with it as well: they need no case of their own.
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
    whole = doubled >> 1

    limit = np.where(negative, target.min_int, target.max_int)
    result = np.clip(np.where(special, limit, whole), target.min_int, target.max_int)
    result = np.where(special & (fraction != 0), 0, result)
    flag: Flags = special | (result != whole)
    return result.astype(np.int64), flag


def fixed_to_float32(ints: Ints, source: Format) -> NDArray[np.uint32]:
    """Convert fixed point to words of IEEE-754 single precision.

    Rounds to nearest, ties to even, as a cast does; a word of at most 25 bits converts exactly.
    Zero becomes +0; subnormal numbers, infinities and NaN cannot occur.

    Parameters
    ----------
    ints : int64 array, any shape
        Integers of the source format.
    source : Format

    Returns
    -------
    uint32 array of the same shape (``.view(numpy.float32)`` reads it as numbers).

    Raises
    ------
    FormatError
        If an integer is outside of the source format, or the format is outside of what
        `check_float32_source` accepts.
    """
    check_float32_source(source)
    value = np.asarray(ints, dtype=np.int64)
    bad = (value < source.min_int) | (value > source.max_int)
    if bad.any():
        raise FormatError(
            f"{int(value[bad].flat[0])} is not an integer of the format {source.name}; bring "
            f"values into range before converting them to floats."
        )
    magnitude = np.abs(value)
    # Position of the leading one: halve the search range, because log2 in floats may round up.
    top = np.zeros_like(magnitude)
    rest = magnitude
    for step in (32, 16, 8, 4, 2, 1):
        high = (rest >> step) != 0
        rest = np.where(high, rest >> step, rest)
        top = np.where(high, top + step, top)

    right = np.maximum(top - FRACTION_BITS, 0)
    left = np.maximum(FRACTION_BITS - top, 0)
    kept = (magnitude >> right) << left
    dropped = magnitude - ((magnitude >> right) << right)
    twice = dropped << 1
    one = np.int64(1) << right
    up = (twice > one) | ((twice == one) & ((kept & 1) == 1) & (right > 0))
    # The hidden bit adds one to the exponent field, and so does a carry out of the fraction.
    exponent = top - source.frac + BIAS - 1
    packed = (exponent << FRACTION_BITS) + kept + up
    packed = np.where(value < 0, packed | (1 << 31), packed)
    return np.where(value == 0, 0, packed).astype(np.uint32)
