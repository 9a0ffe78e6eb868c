"""Addition and subtraction of words that share a format."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Value, signed

from pinion.fixedpoint import Overflow

from .unit import Unit, add_sub, delay, limit


class AddUnit(Unit):
    """``a +- b`` or ``a +- b +- c``, saturated or wrapped to the target's width.

    All words share one binary point. A negation is ``0 - b``.

    Parameters
    ----------
    width : int
        Width of the signed operands.
    operands : int
        2, or 3 for two additions in series.
    target_width : int, optional
        Width of the result; `width` by default.
    overflow : Overflow
        How sums outside the result's range are handled.
    latency : int
        1: the operands come from registers; addition and limiting take one cycle. 2: the operands
        are registered first, because multiplexers precede them.

    Members
    -------
    a, b, c : In(signed(width))
        `c` only with three operands.
    sub, sub_c : In(1)
        Subtract b; subtract c.
    o : Out(signed(target_width))
    ovf : Out(1)
        The sum was outside the result's range and was saturated or wrapped.

    Latency: `latency`.
    Throughput: one result per cycle.
    """

    def __init__(
        self,
        *,
        width: int,
        operands: int = 2,
        target_width: int | None = None,
        overflow: Overflow,
        latency: int = 1,
    ) -> None:
        if width < 2:
            raise ValueError(f"Operands need at least 2 bits, not {width}.")
        if operands not in (2, 3):
            raise ValueError(f"An adder takes 2 or 3 operands, not {operands}.")
        if target_width is not None and target_width < 2:
            raise ValueError(f"The result needs at least 2 bits, not {target_width}.")
        if latency not in (1, 2):
            raise ValueError(f"The latency of an addition must be 1 or 2, not {latency}.")
        self.width = width
        self.operands = operands
        self.target_width = width if target_width is None else target_width
        self.overflow = overflow
        super().__init__(
            dict.fromkeys("abc"[:operands], signed(width))
            | dict.fromkeys(("sub", "sub_c")[: operands - 1], 1),
            {"o": signed(self.target_width), "ovf": 1},
            latency=latency,
        )

    def elaborate(self, platform: object) -> Module:
        """Build optional operand registers, the carry chain, overflow handling, output register.

        Overflow of a wrapping sum is detected after its register, so that no logic follows the
        carry chain.
        """
        m = Module()
        registers = self.latency - 1
        a = delay(m, self.a, registers, "a_reg")
        b = delay(m, self.b, registers, "b_reg")
        sub = delay(m, self.sub, registers, "sub_reg")
        total = add_sub(m, a, b, sub, "sum")
        if self.operands == 3:
            c = delay(m, self.c, registers, "c_reg")
            sub_c = delay(m, self.sub_c, registers, "sub_c_reg")
            total = add_sub(m, total, c, sub_c, "sum_c")
        if (
            self.overflow is Overflow.WRAP
            and self.operands == 2
            and self.target_width == self.width
        ):
            # Overflow: both operands have the same sign, and the result has the other.
            value = delay(m, total[: self.width].as_signed(), 1, "o_reg")
            signs = delay(m, Cat(a[-1], b[-1] ^ sub), 1, "signs")
            changed: Value = (signs[0] == signs[1]) & (signs[0] != value[-1])
        elif self.overflow is Overflow.WRAP:
            value, changed = limit(delay(m, total, 1, "total"), self.target_width, self.overflow)
        else:
            value, changed = limit(total, self.target_width, self.overflow)
            value, changed = delay(m, value, 1, "o_reg"), delay(m, changed, 1, "ovf_reg")
        m.d.comb += [self.o.eq(value), self.ovf.eq(changed)]
        return m
