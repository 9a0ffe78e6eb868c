"""Sums of products with exact accumulation and a single rounding."""

from __future__ import annotations

from amaranth.hdl import C, Cat, Module, Signal, Value, signed

from pinion.fixedpoint import Format, Overflow, Rounding
from pinion.graph.rules import sum_format

from .mac import WIDTH_A, WIDTH_B, WIDTH_P, Mac
from .unit import Unit, add_sub, check_stages, delay, limit, shift_round


class DotUnit(Unit):
    """``a0*b0 +- a1*b1 +- ... + c``, exact, then shifted, rounded, and saturated or wrapped.

    Each product is added to the sum of the previous ones, as in a column of DSP blocks: the
    operands of product k are presented k cycles after those of the first, so none need to wait.

    Parameters
    ----------
    products : int
        Number of products, 1 to 8.
    width_a, width_b : int
        Widths of the signed operands.
    shift : int
        Bits dropped from the exact sum, at least 0: fraction bits of a product minus those of the
        result.
    target : Format
        Format of the result.
    rounding, overflow : Rounding, Overflow
        How dropped bits, and sums outside the target's range, are handled.
    addend : int
        Width of c, which has the result's binary point; 0 without c.
    rounded_ports : bool
        The b ports have one more bit, the highest of the dropped ones, and are first rounded to
        nearest. A rounding out of range wraps around and sets ``ovf``.
    port_stages : int
        Registers on the operands before rounding, because multiplexers precede them.
    final_stage : bool
        A register after rounding and limiting. Without it the result is read from the register of
        the last sum, which requires FLOOR and WRAP, as these need no logic.
    multiplier_stages : int
        Registers from the operands' to the sum's, at least 1. One suffices for a product that fits
        a single multiplier block, which adds in the same cycle; 32 x 32 needs two, which tools move
        into the multiplier.

    Members
    -------
    a0, a1, ... : In(signed(width_a))
        a[k], b[k] and neg[k] are read in cycle k.
    b0, b1, ... : In(signed(width_b)), one bit wider with `rounded_ports`
    neg1, neg2, ... : In(1)
        Subtract that product. neg0 exists only with `addend`; without it the first product is
        always added.
    c : In(signed(addend)), add : In(1)
        The addend and whether to add it, in cycle ``multiplier_stages - 1``; only with `addend`.
    o : Out(signed(target.width))
    ovf : Out(1)
        The sum was outside the target's range and was saturated or wrapped.

    Latency: `port_stages`, `multiplier_stages`, one per product, and 1 with `final_stage`, from the
    operands of the first product.
    Throughput: one result per cycle.
    """

    # Many parameters: a hardware component's generics.
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
        addend: int = 0,
        rounded_ports: bool = False,
        port_stages: int = 0,
        final_stage: bool = True,
        multiplier_stages: int = 2,
    ) -> None:
        if not 1 <= products <= 8:
            raise ValueError(
                f"A dot unit takes 1 to 8 products, not {products}"
                f"{': split longer sums' if products > 8 else ''}."
            )
        if width_a < 2 or width_b < 2:
            raise ValueError(f"Operands need at least 2 bits; these have {width_a} and {width_b}.")
        if shift < 0:
            raise ValueError(
                f"The shift is {shift}, but a sum of products can only drop bits: the target must "
                "have at most as many fraction bits as one product."
            )
        check_stages(multiplier_stages=multiplier_stages)
        if not final_stage and (rounding, overflow) != (Rounding.FLOOR, Overflow.WRAP):
            raise ValueError(
                f"Rounding '{rounding.value}' and overflow '{overflow.value}' need a final stage; "
                "only 'floor' with 'wrap' works without one."
            )
        self.products = products
        self.width_a = width_a
        self.width_b = width_b
        self.shift = shift
        self.target = target
        self.rounding = rounding
        self.overflow = overflow
        self.addend = addend
        self.rounded_ports = rounded_ports
        self.port_stages = port_stages
        self.final_stage = final_stage
        self.multiplier_stages = multiplier_stages
        inputs = {f"a{i}": signed(width_a) for i in range(products)}
        inputs |= {f"b{i}": signed(width_b + rounded_ports) for i in range(products)}
        inputs |= {f"neg{i}": 1 for i in range(0 if addend else 1, products)}
        inputs |= {"c": signed(addend), "add": 1} if addend else {}
        super().__init__(
            inputs,
            {"o": signed(target.width), "ovf": 1},
            latency=port_stages + multiplier_stages + products + final_stage,
        )

    def offset(self, port: str) -> int:
        """Return the cycle in which the unit reads a port: k for the ports of product k.

        The addend and its switch are read in cycle ``multiplier_stages - 1``.
        """
        return self.multiplier_stages - 1 if port in ("c", "add") else int(port.lstrip("abneg"))

    @property
    def sum_width(self) -> int:
        """Width of the exact sum."""
        product = Format(self.width_a + self.width_b, 0)
        terms = [product] * self.products
        if self.addend:
            terms.append(Format(self.addend + self.shift, 0))
        return sum_format(terms).width

    @property
    def in_blocks(self) -> bool:
        """Whether each product and its addition fit one UltraScale+ block (:class:`Mac`)."""
        return (
            (self.width_a, self.width_b) == (WIDTH_A, WIDTH_B)
            and self.multiplier_stages <= 2
            and self.sum_width <= WIDTH_P
        )

    def blocks(self) -> dict[str, Mac]:
        """Return the column's blocks by submodule name; {} unless `in_blocks`."""
        if not self.in_blocks:
            return {}
        return {
            f"mac{i}": Mac(
                addend=0 if i else self.addend,
                shift=self.shift,
                above=i > 0,
                below=i < self.products - 1,
                stages=self.multiplier_stages,
            )
            for i in range(self.products)
        }

    def elaborate(self, platform: object) -> Module:
        """Build the products, each added to the previous sum, then one rounding."""
        m = Module()
        past: list[Value] = []  # whether the rounding of a port wrapped, at the last sum
        total = self._column(m, past) if self.in_blocks else self._sum(m, past)
        rounded = shift_round(total, self.shift, self.rounding)
        value, changed = limit(rounded, self.target.width, self.overflow)
        for wrapped in past:
            changed = changed | wrapped
        stages = int(self.final_stage)
        m.d.comb += self.o.eq(delay(m, value, stages, "o_reg"))
        m.d.comb += self.ovf.eq(delay(m, changed, stages, "ovf_reg"))
        return m

    def _column(self, m: Module, past: list[Value]) -> Value:
        """Build the sum from blocks in series that multiply and add."""
        sums: Value | None = None
        for i, (name, block) in enumerate(self.blocks().items()):
            m.submodules[name] = block
            ports = {"a": getattr(self, f"a{i}")}
            if i or self.addend:
                ports["sub"] = getattr(self, f"neg{i}")
            if not i and self.addend:
                ports |= {"c": self.c, "add": self.add}
            for port, value in ports.items():
                late = delay(m, value, self.port_stages, f"{port}{i}_port")
                m.d.comb += getattr(block, port).eq(late)
            m.d.comb += block.b.eq(self._narrow(m, i, past))
            if sums is not None:
                m.d.comb += block.z.eq(sums)
            sums = getattr(block, block.sum_port)
        assert sums is not None
        return sums[: self.sum_width].as_signed()

    def _sum(self, m: Module, past: list[Value]) -> Value:
        """Build the sum from generic arithmetic, which synthesis tools map to blocks."""
        total = self._addend(m)
        for i in range(self.products):
            a = delay(m, getattr(self, f"a{i}"), self.port_stages + 1, f"a{i}_reg")
            b = delay(m, self._narrow(m, i, past), 1, f"b{i}_reg")
            product = delay(m, a * b, self.multiplier_stages - 1, f"product{i}_")
            after = Signal(signed(self.sum_width), name=f"sum{i}", reset_less=True)
            if total is None:
                m.d.sync += after.eq(product)
            else:
                sign_delay = self.port_stages + self.multiplier_stages
                neg = delay(m, getattr(self, f"neg{i}"), sign_delay, f"neg{i}_")
                m.d.sync += after.eq(add_sub(m, total, product, neg, f"sum{i}"))
            total = after
        assert total is not None
        return total

    def _addend(self, m: Module) -> Value | None:
        """Return the addend or zero in the cycle of the first product; None without an addend."""
        if not self.addend:
            return None
        c = delay(m, self.c, self.port_stages, "c_port")
        add = delay(m, self.add, self.port_stages, "add_port")
        addend = Signal(signed(self.addend), name="c_reg", reset_less=True)
        with m.If(add):
            m.d.sync += addend.eq(c)
        with m.Else():  # by the reset of a block's register
            m.d.sync += addend.eq(0)
        return Cat(C(0, self.shift), addend).as_signed()

    def _narrow(self, m: Module, i: int, past: list[Value]) -> Value:
        """Return the operand at port b, rounded if the ports round."""
        port: Value = delay(m, getattr(self, f"b{i}"), self.port_stages, f"b{i}_port")
        if not self.rounded_ports:
            return port
        rounded = Signal(signed(self.width_b), name=f"b{i}_rounded")
        m.d.comb += rounded.eq(port[1:].as_signed() + port[0])
        # After the operand's registers: rounding changed its sign.
        sign_before = delay(m, port[-1], 1, f"b{i}_sign")
        sign_after = delay(m, rounded[-1], 1, f"b{i}_rounded_sign")
        late = self.multiplier_stages + self.products - 1 - i
        past.append(delay(m, ~sign_before & sign_after, late, f"past{i}_"))
        return rounded
