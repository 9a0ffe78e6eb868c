"""Magnitude, minimum and maximum, comparison and selection."""

from __future__ import annotations

from amaranth.hdl import C, Cat, Module, Mux, Signal, signed

from pinion.base.amounts import amount

from .unit import Unit, inverted, register_outputs


class AbsUnit(Unit):
    """Absolute value of a word; the most negative word saturates and is flagged.

    Parameters
    ----------
    width : int
        Width of operand and result, which share a binary point.

    Members
    -------
    i : In(signed(width))
    o : Out(signed(width))
    ovf : Out(1)
        The operand was the lowest word.

    Latency: 1.
    Throughput: one result per cycle.
    """

    def __init__(self, *, width: int) -> None:
        self.width = _checked(width)
        super().__init__({"i": signed(width)}, {"o": signed(width), "ovf": 1}, latency=1)

    def elaborate(self, platform: object) -> Module:
        """Complement negative words and add one, except to the most negative word."""
        m = Module()
        sign = self.i[-1]
        lowest = sign & ~self.i[:-1].any()
        ovf = Signal(reset_less=True)
        m.d.sync += ovf.eq(lowest)
        m.d.comb += self.ovf.eq(ovf)
        register_outputs(m, self, o=inverted(self.i, sign) + (sign & ~lowest))
        return m


class MinMaxUnit(Unit):
    """Minimum or maximum of two words.

    Parameters
    ----------
    width : int
        Width of operands and result, which share a binary point.

    Members
    -------
    a, b : In(signed(width))
    largest : In(1)
        Return the larger one.
    o : Out(signed(width))

    Latency: 1.
    Throughput: one result per cycle.
    """

    def __init__(self, *, width: int) -> None:
        self.width = _checked(width)
        shape = signed(width)
        super().__init__({"a": shape, "b": shape, "largest": 1}, {"o": shape}, latency=1)

    def elaborate(self, platform: object) -> Module:
        """Build a comparison and a multiplexer."""
        m = Module()
        register_outputs(m, self, o=Mux((self.a < self.b) ^ self.largest, self.a, self.b))
        return m


class LessUnit(Unit):
    """Comparison: 1 if a word is smaller than another, otherwise 0.

    Parameters
    ----------
    width : int
        Width of both operands, which share a binary point.
    target_width, target_frac : int
        Format of the result, which must represent 1.

    Members
    -------
    a, b : In(signed(width))
    o : Out(signed(target_width))

    Latency: 1.
    Throughput: one result per cycle.
    """

    def __init__(self, *, width: int, target_width: int, target_frac: int) -> None:
        self.width = _checked(width)
        if not 0 <= target_frac < target_width - 1:
            raise ValueError(
                f"A word of {amount(target_width, 'bit')} cannot represent 1 with "
                f"{amount(target_frac, 'fraction bit')}."
            )
        self.target_width = target_width
        self.target_frac = target_frac
        super().__init__(
            {"a": signed(width), "b": signed(width)}, {"o": signed(target_width)}, latency=1
        )

    def elaborate(self, platform: object) -> Module:
        """Build a comparison, whose bit becomes the 1 of the result."""
        m = Module()
        less = Signal(reset_less=True)
        m.d.sync += less.eq(self.a < self.b)
        m.d.comb += self.o.eq(Cat(C(0, self.target_frac), less, C(0, 1)).as_signed())
        return m


class SelectUnit(Unit):
    """Multiplexer: the first of two words if a condition is true, otherwise the second.

    Parameters
    ----------
    condition_width : int
        Width of the condition.
    half : int
        The condition is true above this word.
    width : int
        Width of the two words and the result, which share a binary point.

    Members
    -------
    condition : In(signed(condition_width))
    a, b : In(signed(width))
    o : Out(signed(width))

    Latency: 1.
    Throughput: one result per cycle.
    """

    def __init__(self, *, condition_width: int, half: int, width: int) -> None:
        _checked(condition_width)
        self.half = half
        self.width = _checked(width)
        shape = signed(width)
        super().__init__(
            {"condition": signed(condition_width), "a": shape, "b": shape}, {"o": shape}, latency=1
        )

    def elaborate(self, platform: object) -> Module:
        """Build a comparison with a constant and a multiplexer."""
        m = Module()
        register_outputs(m, self, o=Mux(self.condition > self.half, self.a, self.b))
        return m


def _checked(width: int) -> int:
    if width < 2:
        raise ValueError(f"A word needs at least 2 bits, not {width}.")
    return width
