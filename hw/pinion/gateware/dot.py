"""Sums of products: exact accumulation, one rounding."""

from __future__ import annotations

from amaranth.hdl import Module, Signal, Value, signed

from pinion.fixedpoint.format import Format, Overflow, Rounding
from pinion.gateware.unit import Unit, add_sub, delay, limit, shift_round


class DotUnit(Unit):
    """``a0*b0 +- a1*b1 +- ...``, exact, then shifted, rounded and limited once.

    Parameters
    ----------
    products : int
        Number of products, 1 to 8.
    width_a, width_b : int
        Widths of the signed operands.
    shift : int
        Bits dropped from the exact sum, at least 0: fraction bits of one product less those of
        the result.
    target : Format
        Format of the result.
    rounding, overflow : Rounding, Overflow
        What happens to the dropped bits, and to sums past the end of the target.
    rounded_ports : bool
        The b ports bring one bit more, the highest of those that were dropped, and are rounded to
        nearest before anything else. A rounding past the end wraps around and sets ``ovf``.
    port_stages : int
        Registers on the operands before they are rounded, for multiplexers in front.
    final_stage : bool
        A register behind rounding and limiting. Without it the result is read from the register of
        the last sum, which takes a target of FLOOR and WRAP: nothing but wires.
    multiplier_stages : int
        Registers behind each product, at least 1, for the tools to move into the multiplier. One
        is enough for a product that fits a single multiplier block; 32 x 32 wants two.

    Members
    -------
    a0, a1, ... : In(signed(width_a))
    b0, b1, ... : In(signed(width_b)), one bit wider with `rounded_ports`
    neg1, neg2, ... : In(1)
        Subtract that product. The first product is always added.
    o : Out(signed(target.width))
    ovf : Out(1)
        The sum was past the end of the target: saturated, or wrapped.

    Latency: `port_stages`, operands 1, product `multiplier_stages`, one per level of the binary
    adder tree, and 1 with `final_stage`.
    Throughput: one result per cycle.
    """

    def __init__(
        self,
        *,
        products: int,
        width_a: int,
        width_b: int,
        shift: int,
        target: Format,
        rounding: Rounding,
        overflow: Overflow,
        rounded_ports: bool = False,
        port_stages: int = 0,
        final_stage: bool = True,
        multiplier_stages: int = 2,
    ) -> None:
        if not 1 <= products <= 8:
            raise ValueError(f"A dot unit has 1 to 8 products, not {products}; split longer sums.")
        if width_a < 2 or width_b < 2:
            raise ValueError(f"Operands need at least 2 bits; got {width_a} and {width_b}.")
        if shift < 0:
            raise ValueError(
                f"The shift is {shift}, but a sum of products can only drop bits; give the target "
                f"at most the fraction bits of one product."
            )
        if multiplier_stages < 1:
            raise ValueError(
                f"multiplier_stages is {multiplier_stages}; a product needs at least 1 register."
            )
        if not final_stage and (rounding, overflow) != (Rounding.FLOOR, Overflow.WRAP):
            raise ValueError(
                f"Rounding '{rounding.value}' and overflow '{overflow.value}' take logic, and that "
                "takes a final stage; only 'floor' with 'wrap' does without."
            )
        self.products = products
        self.width_a = width_a
        self.width_b = width_b
        self.shift = shift
        self.target = target
        self.rounding = rounding
        self.overflow = overflow
        self.rounded_ports = rounded_ports
        self.port_stages = port_stages
        self.final_stage = final_stage
        self.multiplier_stages = multiplier_stages
        self.levels = (products - 1).bit_length()
        inputs = {f"a{i}": signed(width_a) for i in range(products)}
        inputs |= {f"b{i}": signed(width_b + rounded_ports) for i in range(products)}
        inputs |= {f"neg{i}": 1 for i in range(1, products)}
        super().__init__(
            inputs,
            {"o": signed(target.width), "ovf": 1},
            latency=port_stages + 1 + multiplier_stages + self.levels + final_stage,
        )

    def elaborate(self, platform: object) -> Module:
        """Products, then a tree in which each addition is one carry chain, then one rounding."""
        m = Module()
        # Terms of the tree and whether each enters it with a minus sign.
        terms: list[tuple[Value, Value | None]] = []
        before = self.port_stages + 1 + self.multiplier_stages
        past: list[Value] = []  # ports that were rounded past their end
        for i in range(self.products):
            a = delay(m, getattr(self, f"a{i}"), self.port_stages + 1, f"a{i}_reg")
            b = delay(m, self._narrow(m, i, past), 1, f"b{i}_reg")
            product = delay(m, a * b, self.multiplier_stages, f"product{i}_")
            neg = None
            if i > 0:
                neg = delay(m, getattr(self, f"neg{i}"), before, f"neg{i}_")
            terms.append((product, neg))

        # A pair keeps the sign of its left term for the next level, where the two signs decide
        # together whether to add or to subtract; no operand is ever negated on its own.
        for level in range(self.levels):
            merged: list[tuple[Value, Value | None]] = []
            for k in range(0, len(terms), 2):
                left, sign = terms[k]
                name = f"sum{level}_{k // 2}"
                kept = None if sign is None else delay(m, sign, 1, f"{name}_neg")
                if k + 1 == len(terms):
                    merged.append((delay(m, left, 1, name), kept))
                    continue
                right, other = terms[k + 1]
                assert other is not None  # only the very first term has no sign
                differ = other if sign is None else sign ^ other
                merged.append((delay(m, add_sub(m, left, right, differ, name), 1, name), kept))
            terms = merged

        rounded = shift_round(terms[0][0], self.shift, self.rounding)
        value, changed = limit(rounded, self.target.width, self.overflow)
        if past:
            wrapped = past[0]
            for other in past[1:]:
                wrapped = wrapped | other
            after = 1 + self.multiplier_stages + self.levels
            changed = changed | delay(m, wrapped, after, "past")
        stages = int(self.final_stage)
        m.d.comb += self.o.eq(delay(m, value, stages, "o_reg"))
        m.d.comb += self.ovf.eq(delay(m, changed, stages, "ovf_reg"))
        return m

    def _narrow(self, m: Module, i: int, past: list[Value]) -> Value:
        """The operand at port b, rounded if it is that kind of port."""
        port: Value = delay(m, getattr(self, f"b{i}"), self.port_stages, f"b{i}_port")
        if not self.rounded_ports:
            return port
        kept = Signal(signed(self.width_b), name=f"b{i}_rounded")
        m.d.comb += kept.eq(port[1:].as_signed() + port[0])
        past.append(~port[-1] & kept[-1])
        return kept
