"""Magnitudes, the smaller and the larger of two words, comparisons, choices."""

from __future__ import annotations

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value, signed

from .unit import Unit, inverted


class AbsUnit(Unit):
    """The magnitude of a word; that of the lowest one is the highest word, and flagged.

    Parameters
    ----------
    width : int
        Width of operand and result, which have one binary point.

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
        """The complement of negative words, and one added to it, but for the lowest one."""
        m = Module()
        sign = self.i[-1]
        lowest = sign & ~self.i[:-1].any()
        ovf = Signal(reset_less=True)
        m.d.sync += ovf.eq(lowest)
        m.d.comb += self.ovf.eq(ovf)
        _registered(m, self, inverted(self.i, sign) + (sign & ~lowest))
        return m


class MinMaxUnit(Unit):
    """The smaller of two words, or the larger.

    Parameters
    ----------
    width : int
        Width of operands and result, which have one binary point.

    Members
    -------
    a, b : In(signed(width))
    largest : In(1)
        The larger one is wanted.
    o : Out(signed(width))

    Latency: 1.
    Throughput: one result per cycle.
    """

    def __init__(self, *, width: int) -> None:
        self.width = _checked(width)
        shape = signed(width)
        super().__init__({"a": shape, "b": shape, "largest": 1}, {"o": shape}, latency=1)

    def elaborate(self, platform: object) -> Module:
        """A comparison and a choice."""
        m = Module()
        _registered(m, self, Mux((self.a < self.b) ^ self.largest, self.a, self.b))
        return m


class LessUnit(Unit):
    """One where a word is smaller than another, else zero.

    Parameters
    ----------
    width : int
        Width of both operands, which have one binary point.
    target_width, target_frac : int
        Format of the result, in which one is a word.

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
                f"A word of {target_width} bits with {target_frac} fraction bits holds no one."
            )
        self.target_width = target_width
        self.target_frac = target_frac
        super().__init__(
            {"a": signed(width), "b": signed(width)}, {"o": signed(target_width)}, latency=1
        )

    def elaborate(self, platform: object) -> Module:
        """A comparison; its bit stands where the one of the result is."""
        m = Module()
        less = Signal(reset_less=True)
        m.d.sync += less.eq(self.a < self.b)
        m.d.comb += self.o.eq(Cat(C(0, self.target_frac), less, C(0, 1)).as_signed())
        return m


class SelectUnit(Unit):
    """One of two words: the first where a condition is true.

    Parameters
    ----------
    condition_width : int
        Width of the condition.
    half : int
        The condition is true above this word.
    width : int
        Width of both others and the result, which have one binary point.

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
        """A comparison with a constant and a choice."""
        m = Module()
        _registered(m, self, Mux(self.condition > self.half, self.a, self.b))
        return m


def _checked(width: int) -> int:
    if width < 2:
        raise ValueError(f"A word has at least 2 bits; got {width}.")
    return width


def _registered(m: Module, unit: Unit, value: Value) -> None:
    o = Signal(unit.o.shape(), reset_less=True)
    m.d.sync += o.eq(value)
    m.d.comb += unit.o.eq(o)
