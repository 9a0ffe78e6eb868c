"""IEEE-754 single precision to fixed point and back; the model is `pinion.fixedpoint.float32`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from amaranth.hdl import C, Cat, Module, Mux, Signal, Value, signed
from numpy.typing import NDArray

from pinion.fixedpoint import float32 as model
from pinion.fixedpoint.format import Flags, Format, Ints, Overflow
from pinion.gateware.unit import Unit, delay, limit

_FRACTION = model.FRACTION_BITS


class FloatToFixed(Unit):
    """A word of single precision to fixed point: to nearest, ties toward +infinity, saturating.

    Parameters
    ----------
    target : Format
    moves : int
        How many more fraction bits a word may have than the target.

    Members
    -------
    i : In(32)
    move : In(range(moves + 1))
        This word's format is the target with so many more fraction bits. Only where `moves` is
        not 0.
    o : Out(signed(target.width))
        An infinity gives the nearest end of the format, NaN gives 0.
    flag : Out(1)
        The input was NaN, infinite, or past the end of the target.

    Latency: 4 (unpack; shift by multiples of 8; shift by 0 to 7; round and limit).
    Throughput: one result per cycle.
    """

    def __init__(self, *, target: Format, moves: int = 0) -> None:
        model.check_float32_target(target)
        model.check_float32_target(Format(target.width, target.frac + moves))
        self.target = target
        self.moves = moves
        super().__init__(
            {"i": 32} | ({"move": range(moves + 1)} if moves else {}),
            {"o": signed(target.width), "flag": 1},
            latency=4,
        )

    def compute(self, bits: NDArray[np.uint32]) -> tuple[Ints, Flags]:
        """The exact model: `pinion.fixedpoint.float32.float32_to_fixed`."""
        return model.float32_to_fixed(bits, self.target)

    def elaborate(self, platform: object) -> Module:
        """Four stages: unpack, two halves of the shift, rounding."""
        m = Module()
        width = self.target.width
        # The significand starts `most` places left of its integer weight and moves right, by up to
        # `reach`, after which nothing is left of it but its sign.
        most = max(width - _FRACTION, 0)
        reach = most + _FRACTION + 2

        # 1: unpack. Zero and subnormal numbers go the way of all that is too small, so that the
        # hidden bit is always 1.
        fraction, exponent, negative = self.i[:_FRACTION], self.i[_FRACTION:31], self.i[31]
        special = exponent.all()
        size = _FRACTION + 2
        significand = Signal(signed(size), reset_less=True)
        m.d.sync += significand.eq(
            (Cat(fraction, C(0b01, 2)) ^ negative.replicate(size)) + negative
        )
        distance = Signal(signed(12))
        point = model.BIAS + _FRACTION - self.target.frac + most
        move = self.move if self.moves else C(0, 1)
        m.d.comb += distance.eq(point - exponent - move)
        right = Signal(range(reach + 1), reset_less=True)
        m.d.sync += right.eq(
            Mux(distance < 0, 0, Mux(distance > reach, reach, distance[: len(right)]))
        )
        marks = delay(m, Cat(negative, special, special & fraction.any()), 3, "marks")

        # 2 and 3: shift. Below the integer there is one rounding bit; because the number is in
        # two's complement, that bit alone rounds either sign toward +infinity on a tie.
        start = Cat(C(0, most + 1), significand).as_signed()
        fine_by = delay(m, right[:3], 1, "fine_by")
        coarse = delay(m, (start >> (right[3:] << 3)), 1, "coarse")
        fine = delay(m, coarse >> fine_by, 1, "fine")

        # 4: round and limit.
        rounded = Signal(signed(size + most + 1))
        m.d.comb += rounded.eq(fine[1:].as_signed() + fine[0])
        value, changed = limit(rounded, width, Overflow.SATURATE)
        infinite, nan = marks[1], marks[2]
        end = Cat((~marks[0]).replicate(width - 1), marks[0]).as_signed()
        o = Signal(signed(width), reset_less=True)
        flag = Signal(reset_less=True)
        m.d.sync += [
            o.eq(Mux(nan, 0, Mux(infinite, end, value))),
            flag.eq(infinite | changed),
        ]
        m.d.comb += [self.o.eq(o), self.flag.eq(flag)]
        return m


class FixedToFloat(Unit):
    """Fixed point to a word of single precision: to nearest, ties to even; zero is +0.

    Parameters
    ----------
    source : Format
    moves : int
        How many more fraction bits a word may have than the source.
    negates : bool
        Whether words can be negated.

    Members
    -------
    i : In(signed(source.width))
    move : In(range(moves + 1))
        This word's format is the source with so many more fraction bits. Only where `moves` is
        not 0.
    negate : In(1)
        Convert the negative of the word. Only with `negates`.
    o : Out(32)

    Latency: 4 (magnitude; normalise by multiples of 8; normalise by 0 to 7; round and pack).
    Throughput: one result per cycle.
    """

    def __init__(self, *, source: Format, moves: int = 0, negates: bool = False) -> None:
        model.check_float32_source(source)
        model.check_float32_source(Format(source.width, source.frac + moves))
        self.source = source
        self.moves = moves
        self.negates = negates
        super().__init__(
            {"i": signed(source.width)}
            | ({"move": range(moves + 1)} if moves else {})
            | ({"negate": 1} if negates else {}),
            {"o": 32},
            latency=4,
        )

    def compute(self, ints: Ints) -> NDArray[np.uint32]:
        """The exact model: `pinion.fixedpoint.float32.fixed_to_float32`."""
        return model.fixed_to_float32(ints, self.source)

    def elaborate(self, platform: object) -> Module:
        """Four stages: magnitude, two halves of the normalisation, rounding."""
        m = Module()
        width = self.source.width

        # 1: magnitude; the smallest word needs all bits.
        negative = self.i[-1]
        magnitude = Signal(width, reset_less=True)
        m.d.sync += magnitude.eq((self.i.as_unsigned() ^ negative.replicate(width)) + negative)
        sign = delay(m, negative ^ self.negate if self.negates else negative, 3, "sign")

        # 2 and 3: the leading one moves to the top, in steps of halving size.
        steps = [1 << k for k in reversed(range((width - 1).bit_length()))]
        coarse = _normalise(m, magnitude, [step for step in steps if step >= 8], "coarse")
        left = delay(m, coarse.value, 1, "left")
        coarse_by = delay(m, coarse.by, 1, "coarse_by")
        fine = _normalise(m, left, [step for step in steps if step < 8], "fine")
        normal = delay(m, fine.value, 1, "normal")
        by = delay(m, Cat(fine.by, coarse_by), 1, "by")

        # 4: round and pack. The hidden bit is dropped before; a carry out of the fraction runs
        # into the exponent, where it belongs.
        kept = _FRACTION + 1
        full = Signal(max(width, kept))
        m.d.comb += full.eq(Cat(C(0, max(kept - width, 0)), normal))
        dropped = len(full) - kept
        fraction = full[dropped:-1]
        up: Value = C(0, 1)
        if dropped > 0:
            up = full[dropped - 1] & (full[: dropped - 1].any() | full[dropped])
        largest = width - 1 - self.source.frac + model.BIAS
        exponent = Signal(8)
        move = delay(m, self.move, 3, "move") if self.moves else C(0, 1)
        m.d.comb += exponent.eq(largest - by - move)
        packed = Cat(fraction, exponent) + up
        o = Signal(32, reset_less=True)
        m.d.sync += o.eq(Mux(normal[-1], Cat(packed[:31], sign), 0))
        m.d.comb += self.o.eq(o)
        return m


class _Normalised(NamedTuple):
    value: Value
    by: Value
    """How far to the left, in units of the last step."""


def _normalise(m: Module, value: Value, steps: list[int], name: str) -> _Normalised:
    """Shift left by each step in turn whose leading bits are all zero."""
    width = len(value)
    moved = []
    for step in steps:
        empty = Signal(name=f"{name}_empty{step}")
        shifted = Signal(width, name=f"{name}_by{step}")
        m.d.comb += [
            empty.eq(~value[width - step :].any()),
            shifted.eq(Mux(empty, Cat(C(0, step), value[: width - step]), value)),
        ]
        moved.append(empty)
        value = shifted
    return _Normalised(value, Cat(*reversed(moved)))
