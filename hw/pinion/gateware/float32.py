"""Conversion between single precision and fixed point; the model is `pinion.fixedpoint.float32`."""

from __future__ import annotations

import numpy as np
from amaranth.hdl import C, Cat, Module, Mux, Signal, Value, signed
from numpy.typing import NDArray

from pinion.base.arrays import Flags, Ints
from pinion.fixedpoint import Format, Overflow
from pinion.fixedpoint import float32 as model

from .unit import Unit, delay, limit

_FRACTION = model.FRACTION_BITS


class FloatToFixed(Unit):
    """Conversion of single precision to fixed point: nearest, ties toward +infinity, saturated.

    Parameters
    ----------
    target : Format
    moves : int
        How many more fraction bits than the target a word may have.

    Members
    -------
    i : In(32)
    move : In(range(moves + 1))
        How many more fraction bits than the target this word has. Only if `moves` is not 0.
    o : Out(signed(target.width))
        An infinity gives the nearest bound of the format, NaN gives 0.
    flag : Out(1)
        The input was NaN, infinite, or outside the target's range.

    Latency: 5 (unpack; shift by multiples of 8; shift by 0 to 7; round; limit).
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
            latency=5,
        )

    def compute(self, bits: NDArray[np.uint32]) -> tuple[Ints, Flags]:
        """Return the exact model's result (`pinion.fixedpoint.float32.float32_to_fixed`)."""
        return model.float32_to_fixed(bits, self.target)

    def elaborate(self, platform: object) -> Module:
        """Build five stages: unpacking, two halves of the shift, rounding and limits.

        No stage has more than one carry chain, or both a decision and its result.
        """
        m = Module()
        width = self.target.width
        # The significand starts `most` places left of its integer weight and moves right. After
        # `reach` places or more only its sign is left.
        most = max(width - _FRACTION, 0)
        reach = most + _FRACTION + 2

        # 1: unpack. Zero and subnormal numbers count as too small anyway, so that the hidden bit is
        # always 1.
        fraction, exponent, negative = self.i[:_FRACTION], self.i[_FRACTION:31], self.i[31]
        special = exponent.all()
        size = _FRACTION + 2
        significand = Signal(signed(size), reset_less=True)
        m.d.sync += significand.eq(
            (Cat(fraction, C(0b01, 2)) ^ negative.replicate(size)) + negative
        )
        places = reach.bit_length()
        point = model.BIAS + _FRACTION - self.target.frac + most
        furthest = max(point, 255 + self.moves - point, 1 << places)
        distance = Signal(signed(furthest.bit_length() + 1), reset_less=True)
        m.d.sync += distance.eq(self._point(m, point) - exponent)
        marks = delay(m, Cat(negative, special, special & fraction.any()), 4, "marks")

        # 2 and 3: shift. One rounding bit is below the integer; in two's complement that bit alone
        # rounds ties of either sign toward +infinity.
        start = Cat(C(0, most + 1), significand).as_signed()
        past = distance[places:-1].any().replicate(places)
        right = Signal(places)
        m.d.comb += right.eq((distance[:places] | past) & ~distance[-1].replicate(places))
        fine_by = delay(m, right[:3], 1, "fine_by")
        coarse = delay(m, (start >> (right[3:] << 3)), 1, "coarse")
        fine = delay(m, coarse >> fine_by, 1, "fine")

        # 4: round.
        rounded = Signal(signed(size + most + 1), reset_less=True)
        m.d.sync += rounded.eq(fine[1:].as_signed() + fine[0])

        # 5: limit. An out-of-range number has the sign of the input.
        value, changed = limit(rounded, width, Overflow.WRAP)
        below, infinite, nan = marks
        outside = Signal()
        m.d.comb += outside.eq(infinite | changed)
        end = Cat((~below).replicate(width - 1), below)
        o = Signal(signed(width), reset_less=True)
        flag = Signal(reset_less=True)
        m.d.sync += [
            o.eq(Mux(outside, end, value) & (~nan).replicate(width)),
            flag.eq(outside),
        ]
        m.d.comb += [self.o.eq(o), self.flag.eq(flag)]
        return m

    def _point(self, m: Module, point: int) -> Value:
        """Return the binary point from a table; a subtraction would add a second carry chain."""
        if not self.moves:
            return C(point)
        moved = Signal(range(min(point - self.moves, 0), max(point, 0) + 1))
        with m.Switch(self.move):
            for move in range(self.moves):
                with m.Case(move):
                    m.d.comb += moved.eq(point - move)
            with m.Default():
                m.d.comb += moved.eq(point - self.moves)
        return moved


class FixedToFloat(Unit):
    """Conversion of fixed point to single precision: nearest, ties to even; zero becomes +0.

    Parameters
    ----------
    source : Format
    moves : int
        How many more fraction bits than the source a word may have.
    negates : bool
        Whether words can be negated.

    Members
    -------
    i : In(signed(source.width))
    move : In(range(moves + 1))
        How many more fraction bits than the source this word has. Only if `moves` is not 0.
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
        """Return the exact model's result (`pinion.fixedpoint.float32.fixed_to_float32`)."""
        return model.fixed_to_float32(ints, self.source)

    def elaborate(self, platform: object) -> Module:
        """Build four stages: magnitude, two halves of the normalisation, rounding."""
        m = Module()
        width = self.source.width

        # 1: magnitude; that of the lowest word needs all bits.
        negative = self.i[-1]
        magnitude = Signal(width, reset_less=True)
        m.d.sync += magnitude.eq((self.i.as_unsigned() ^ negative.replicate(width)) + negative)
        sign = delay(m, negative ^ self.negate if self.negates else negative, 3, "sign")

        # 2 and 3: shift the leading one to the top. The exponent assumes the longest shift of stage
        # 3, which stage 4 corrects.
        octets = [magnitude[max(end - 8, 0) : end].any() for end in range(width, 0, -8)]
        coarse_by = Signal((len(octets) - 1).bit_length())
        m.d.comb += coarse_by.eq(_leading(octets))
        coarse = (magnitude << Cat(C(0, 3), coarse_by))[:width]
        left = delay(m, coarse, 1, "left")
        top = list(reversed(left[-8:]))
        fine_by = Signal((len(top) - 1).bit_length())
        m.d.comb += fine_by.eq(_leading(top))
        normal = delay(m, (left << fine_by)[:width], 1, "normal")
        longest = (1 << len(fine_by)) - 1
        spared = delay(m, ~fine_by, 1, "spared")
        largest = width - 1 - self.source.frac + model.BIAS
        move = delay(m, self.move, 1, "move") if self.moves else C(0, 1)
        least = delay(m, (C(largest - longest, signed(12)) - move)[:8], 1, "least")
        by = delay(m, coarse_by, 1, "coarse_by")
        exponent = delay(m, (least - Cat(C(0, 3), by))[:8], 1, "exponent")

        # 4: round and pack. The hidden bit is dropped first, so a carry out of the fraction
        # correctly increments the exponent.
        significant = _FRACTION + 1
        full = Signal(max(width, significant))
        m.d.comb += full.eq(Cat(C(0, max(significant - width, 0)), normal))
        dropped = len(full) - significant
        fraction = full[dropped:-1]
        up: Value = C(0, 1)
        if dropped > 0:
            up = full[dropped - 1] & (full[: dropped - 1].any() | full[dropped])
        packed = Cat(fraction, exponent) + Cat(up, C(0, _FRACTION - 1), spared)
        o = Signal(32, reset_less=True)
        m.d.sync += o.eq(Mux(normal[-1], Cat(packed[:31], sign), 0))
        m.d.comb += self.o.eq(o)
        return m


def _leading(bits: list[Value]) -> Value:
    """Return the number of zeros before the first set bit, as if the last bit were set.

    A tree, because a search from the front would be a chain.
    """
    if len(bits) == 1:
        return C(0, 0)
    half = 1 << ((len(bits) - 1).bit_length() - 1)
    front, back = bits[:half], bits[half:]
    empty = ~Cat(*front).any()
    return Cat(Mux(empty, _leading(back), _leading(front)), empty)
