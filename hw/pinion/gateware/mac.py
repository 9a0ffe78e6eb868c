"""One multiplier block: a product, added to the sum of the blocks before it in the column."""

from __future__ import annotations

from amaranth.hdl import C, Cat, Module, Signal, Value, signed
from amaranth.lib.wiring import In, Out

from .component import Component
from .unit import delay

# Ports and accumulator of a DSP48E2 (AMD UG579).
WIDTH_A, WIDTH_B, WIDTH_P = 27, 18, 48


class Mac(Component):
    """``z +- a*b`` modulo 2**48, with only the registers and functions of a DSP48E2.

    Vivado maps it to one block; :mod:`pinion.gateware.dsp48e2` has the same as an explicit
    block.

    Parameters
    ----------
    addend : width of c, for the first block of a column; 0 without c.
    shift : bits by which c is shifted left relative to the products.
    above, below : the column has a block before this one, and after it.
    stages : registers from the operands' to the sum's: 1, or 2 with one after the product.

    Members
    -------
    a : In(signed(27)), b : In(signed(18))
    sub : In(1)
        Subtract the product, presented with it; only with an addend or a block before.
    c : In(signed(addend)), add : In(1)
        The addend and whether to add it instead of 0, ``stages - 1`` cycles later.
    z : In(signed(48))
        Sum of the block before (its `cascade`), `stages` cycles later than a and b.
    p, or cascade : Out(signed(48))
        The sum, for logic or, with `below`, by the column's wires for the next block alone.

    Latency: ``stages + 1`` from a and b, 2 from c, 1 from z.
    Throughput: one result per cycle.
    """

    def __init__(self, *, addend: int, shift: int, above: bool, below: bool, stages: int) -> None:
        if addend and above:
            raise ValueError(
                "Only the first block of a column can have an addend; this one has an addend of "
                f"{addend} bits, but follows another block."
            )
        if stages not in (1, 2):
            raise ValueError(
                f"A block has 1 or 2 registers after those of its operands, not {stages}."
            )
        if addend + shift > WIDTH_P:
            raise ValueError(
                f"An addend of {addend} bits shifted left by {shift} does not fit the sum of "
                f"{WIDTH_P} bits in a block."
            )
        self.addend = addend
        self.shift = shift
        self.above = above
        self.below = below
        self.stages = stages
        ports = {"a": In(signed(WIDTH_A)), "b": In(signed(WIDTH_B))}
        ports |= {"sub": In(1)} if addend or above else {}
        ports |= {"c": In(signed(addend)), "add": In(1)} if addend else {}
        ports |= {"z": In(signed(WIDTH_P))} if above else {}
        super().__init__(ports | {self.sum_port: Out(signed(WIDTH_P))})

    @property
    def sum_port(self) -> str:
        """Name of the sum's port."""
        return "cascade" if self.below else "p"

    def elaborate(self, platform: object) -> Module:
        """Build the operand registers, the product and the sum."""
        m = Module()
        # A signal, so that the text contains one multiplier instead of one for each sign.
        multiplied = Signal(signed(WIDTH_A + WIDTH_B))
        m.d.comb += multiplied.eq(self._held(m, "a") * self._held(m, "b"))
        product = delay(m, multiplied, self.stages - 1, "product")
        z: Value | None = self.z if self.above else None
        if self.addend:
            addend = Signal(signed(self.addend), name="c_reg", reset_less=True)
            with m.If(self.add):
                m.d.sync += addend.eq(self.c)
            with m.Else():  # by the reset of the block's register
                m.d.sync += addend.eq(0)
            z = Cat(C(0, self.shift), addend).as_signed()
        p: Signal = getattr(self, self.sum_port)
        if z is None:
            m.d.sync += p.eq(product)
            return m
        with m.If(delay(m, self.sub, self.stages, "sub_reg")):
            m.d.sync += p.eq(z - product)
        with m.Else():
            m.d.sync += p.eq(z + product)
        return m

    def _held(self, m: Module, port: str) -> Value:
        return delay(m, getattr(self, port), 1, f"{port}_reg")
