"""Exact sums of products that do not fit into 64 bits.

The golden model multiplies 32-bit integers and adds several products before it rounds once. Python
integers would be exact as well, but a hundred times slower than arrays of two int64 limbs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pinion.base.arrays import Ints

from .format import Rounding, round_shift

_LIMB = 32
_MASK = (1 << _LIMB) - 1
# A product splits its second factor here, so that both partial products stay within 63 bits.
_SPLIT = 16


@dataclass(frozen=True)
class Wide:
    """An array of exact integers ``hi * 2**32 + lo`` with ``0 <= lo < 2**32``.

    Exact for magnitudes below 2**94: sums of many products of operands of up to 39 bits each.
    """

    hi: Ints
    lo: Ints

    @classmethod
    def of(cls, x: Ints) -> Wide:
        """Return an int64 array as a wide array."""
        x = np.asarray(x, dtype=np.int64)
        return cls(x >> _LIMB, x & _MASK)

    @classmethod
    def product(cls, a: Ints, b: Ints) -> Wide:
        """Return the exact product of two arrays of integers of at most 39 bits."""
        a = np.asarray(a, dtype=np.int64)
        b = np.asarray(b, dtype=np.int64)
        high = a * (b >> _SPLIT)  # weighs 2**16
        low = a * (b & ((1 << _SPLIT) - 1))
        return cls(high >> _SPLIT, (high & ((1 << _SPLIT) - 1)) << _SPLIT)._plus(low)

    def _plus(self, low: Ints) -> Wide:
        total = self.lo + (low & _MASK)
        return Wide(self.hi + (low >> _LIMB) + (total >> _LIMB), total & _MASK)

    def __add__(self, other: Wide) -> Wide:
        total = self.lo + other.lo
        return Wide(self.hi + other.hi + (total >> _LIMB), total & _MASK)

    def __neg__(self) -> Wide:
        return Wide(-self.hi - (self.lo > 0), -self.lo & _MASK)

    def __lshift__(self, shift: int) -> Wide:
        """Shift left exactly by 0 to 31 bits."""
        if not 0 <= shift < _LIMB:
            raise ValueError(f"A wide integer can be shifted left by 0 to 31 bits, not {shift}.")
        low = self.lo << shift
        return Wide((self.hi << shift) + (low >> _LIMB), low & _MASK)

    def round_shift(self, shift: int, rounding: Rounding) -> Ints:
        """Divide by ``2**shift`` (shift >= 0), round, and clip to +-2**62, beyond every format."""
        bound = 1 << 62
        x: Wide = self
        if rounding is Rounding.NEAREST and shift > 0:
            # Floors compose, so the half is added first and the limbs are dropped afterwards.
            x = x + Wide.half(shift)
        if shift >= _LIMB:
            return round_shift(x.hi, shift - _LIMB, Rounding.FLOOR)
        room = 62 - (_LIMB - shift)
        hi = np.clip(x.hi, -(1 << room), (1 << room) - 1)
        y = (hi << (_LIMB - shift)) + (x.lo >> shift)
        y = np.where(x.hi > hi, bound, y)
        return np.where(x.hi < hi, -bound, y)

    @classmethod
    def half(cls, shift: int) -> Wide:
        """Return ``2**(shift-1)`` as a wide scalar."""
        value = 1 << (shift - 1)
        return cls(np.asarray(value >> _LIMB, np.int64), np.asarray(value & _MASK, np.int64))

    def to_objects(self) -> np.ndarray[tuple[int, ...], np.dtype[np.object_]]:
        """Return the integers as an array of Python integers, for tests and printing."""
        wide: np.ndarray[tuple[int, ...], np.dtype[np.object_]] = self.hi.astype(object)
        wide = wide * (1 << _LIMB) + self.lo.astype(object)
        return wide
