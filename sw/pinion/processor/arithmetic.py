"""Integer arithmetic of a lane and of the reciprocal unit."""

from __future__ import annotations

from functools import cache

import numpy as np

from pinion.base.arrays import Flags, Ints
from pinion.fixedpoint import Format
from pinion.fixedpoint.reciprocal import Reciprocal

from .machine import GUARD, MANTISSA, NARROW, Finish, Half, Machine

HALF_UNIT = np.int64(1 << GUARD - 1)
"""Initial value of a sum, so that dropping the guard bits rounds it."""


def product(a: Ints, b: Ints, half: int, shift: int, *, negate: bool, machine: Machine) -> Ints:
    """Return the shifted product that a slot adds to the accumulator."""
    exact: Ints = a * narrow(b, half, machine)
    term: Ints = exact >> shift if shift >= 0 else exact << -shift
    return np.asarray(-term if negate else term)


def finished(total: Ints, finish: int, machine: Machine) -> tuple[Ints, Flags]:
    """Return a sum converted to a word as `finish` specifies, and whether it was clipped."""
    value = total >> GUARD
    if finish != Finish.CLIP:
        spare = 64 - machine.word
        wrapped = value << spare >> spare
        sign = np.where(value < 0, np.int64(machine.one), np.int64(0))
        word = wrapped if finish == Finish.WRAP else sign
        return word, np.zeros(value.shape, dtype=np.bool_)
    clipped = np.clip(value, -machine.largest - 1, machine.largest)
    return clipped, clipped != value


def narrow(b: Ints, half: int, machine: Machine) -> Ints:
    """Return the bits of B that a slot multiplies, as integers of ``NARROW`` bits."""
    match half:
        case Half.LOW:
            return np.asarray(b & (1 << machine.low) - 1)
        case Half.HIGH:
            return b >> machine.low
    rounded = (b + (1 << machine.low - 1)) >> machine.low
    clipped: Ints = np.minimum(rounded, (1 << NARROW - 1) - 1)
    return clipped


@cache
def mantissa_reciprocal() -> Reciprocal:
    """Return the reciprocal table for numbers from 1 to 2."""
    return Reciprocal(source=Format(MANTISSA + 2, MANTISSA), target=Format(MANTISSA + 2, MANTISSA))


def reciprocal(x: Ints, points: int, machine: Machine) -> tuple[Ints, Flags]:
    """Return ``2**points / x``, computed from the leading bits of x, and whether it overflows.

    Parameters
    ----------
    points : fraction bits of the operand and the result together.
    """
    magnitude = np.abs(x)
    zero = magnitude == 0
    length = np.frexp(np.where(zero, 1, magnitude).astype(np.float64))[1].astype(np.int64)
    up = MANTISSA + 1 - length
    mantissa = np.where(up >= 0, magnitude << np.maximum(up, 0), magnitude >> np.maximum(-up, 0))
    inverse, _ = mantissa_reciprocal().compute(np.where(zero, 1 << MANTISSA, mantissa))
    # 2**points / x = inverse * 2**(points - MANTISSA - (length - 1)), rounded.
    drop = MANTISSA + length - 1 - points
    down = np.clip(drop, 0, 62)
    rounded = (inverse + (np.int64(1) << down >> 1)) >> down
    # An inverse is at least 2^25: 34 bits further up it exceeds any word.
    value = np.where(drop >= 0, rounded, inverse << np.clip(-drop, 0, 34))
    lost = zero | (value > machine.largest)
    value = np.where(lost, machine.largest, value)
    return np.where(x < 0, -value, value), lost
