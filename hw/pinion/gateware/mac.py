"""One multiplier block: a product, added to the sum of those before it in its column."""

from __future__ import annotations

from amaranth.hdl import C, Cat, Module, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .unit import delay

# Ports and accumulator of a DSP48E2 (AMD UG579).
WIDTH_A, WIDTH_B, WIDTH_P = 27, 18, 48


class Mac(wiring.Component):
    """``z +- a*b`` modulo 2**48, with the registers of a DSP48E2 and nothing that it has not.

    Written so that Vivado puts it into one block; :mod:`pinion.gateware.dsp48e2` has the same as an
    explicit block.

    Parameters
    ----------
    addend : width of c, for the first of a column; 0 without c.
    shift : bits by which c stands higher than the products.
    above, below : there is a block before this one in the column, and one behind it.
    stages : registers from the operands' to the sum's: 1, or 2 with the one behind the product.

    Members
    -------
    a : In(signed(27)), b : In(signed(18))
    sub : In(1)
        Subtract the product, presented with it; only where there is something to subtract from.
    c : In(signed(addend)), add : In(1)
        What is added and whether it is, ``stages - 1`` cycles later; else 0 is.
    z : In(signed(48))
        Sum of the block before, `stages` cycles later than a and b: its `cascade`.
    p, or cascade : Out(signed(48))
        The sum, for logic or, with `below`, by the column's own wires for the next block alone.

    Latency: ``stages + 1`` from a and b, 2 from c, 1 from z.
    Throughput: one result per cycle.
    """

    # A block that is only asked for its ports is no mistake.
    _MustUse__silence = True

    def __init__(self, *, addend: int, shift: int, above: bool, below: bool, stages: int) -> None:
        if addend and above:
            raise ValueError("Only the first block of a column has an addend of its own.")
        if stages not in (1, 2):
            raise ValueError(f"A block has 1 or 2 registers behind its operands', not {stages}.")
        if addend + shift > WIDTH_P:
            raise ValueError(
                f"An addend of {addend} bits, {shift} above the products', does not fit the "
                f"{WIDTH_P} bits of a block's sum."
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
        """Name of the port of the sum."""
        return "cascade" if self.below else "p"

    def elaborate(self, platform: object) -> Module:
        """Operands, product, sum."""
        m = Module()
        # A name, so that one multiplier stands in the text and not one for each sign.
        multiplied = Signal(signed(WIDTH_A + WIDTH_B))
        m.d.comb += multiplied.eq(self._held(m, "a") * self._held(m, "b"))
        product = delay(m, multiplied, self.stages - 1, "product")
        z: Value | None = self.z if self.above else None
        if self.addend:
            addend = Signal(signed(self.addend), name="c_reg", reset_less=True)
            with m.If(self.add):
                m.d.sync += addend.eq(self.c)
            with m.Else():  # the block's register has a reset for it
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
