"""Addition and subtraction of two words of one format."""

from __future__ import annotations

from amaranth.hdl import Module, Signal, signed

from pinion.fixedpoint.format import Overflow
from pinion.gateware.unit import Unit, add_sub, delay, limit


class AddUnit(Unit):
    """``a + b`` or ``a - b``, limited to the target's width; both share one binary point.

    A negation is ``0 - b``.

    Parameters
    ----------
    width : int
        Width of both signed operands.
    target_width : int, optional
        Width of the result; `width` when left out.
    overflow : Overflow
        What happens to sums past the end of the result.
    latency : int
        1: operands from the registers of others, addition and limiting in one cycle. 2: a register
        on the operands first, for multiplexers in front.

    Members
    -------
    a, b : In(signed(width))
    sub : In(1)
        Subtract b.
    o : Out(signed(target_width))
    ovf : Out(1)
        The sum was past the end of the result: saturated, or wrapped.

    Latency: `latency`.
    Throughput: one result per cycle.
    """

    def __init__(
        self,
        *,
        width: int,
        target_width: int | None = None,
        overflow: Overflow,
        latency: int = 1,
    ) -> None:
        if width < 2:
            raise ValueError(f"Operands need at least 2 bits; got {width}.")
        if target_width is not None and target_width < 2:
            raise ValueError(f"The result needs at least 2 bits; got {target_width}.")
        if latency not in (1, 2):
            raise ValueError(f"The latency of an addition is 1 or 2, not {latency}.")
        self.width = width
        self.target_width = width if target_width is None else target_width
        self.overflow = overflow
        super().__init__(
            {"a": signed(width), "b": signed(width), "sub": 1},
            {"o": signed(self.target_width), "ovf": 1},
            latency=latency,
        )

    def elaborate(self, platform: object) -> Module:
        """Registers on the operands, if any; the carry chain; the limit; the result."""
        m = Module()
        registers = self.latency - 1
        a = delay(m, self.a, registers, "a_reg")
        b = delay(m, self.b, registers, "b_reg")
        sub = delay(m, self.sub, registers, "sub_reg")
        value, changed = limit(add_sub(m, a, b, sub, "sum"), self.target_width, self.overflow)
        o = Signal(signed(self.target_width), reset_less=True)
        ovf = Signal(reset_less=True)
        m.d.sync += [o.eq(value), ovf.eq(changed)]
        m.d.comb += [self.o.eq(o), self.ovf.eq(ovf)]
        return m
