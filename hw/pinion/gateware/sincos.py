"""Sine and cosine of any angle; the model is `pinion.fixedpoint.sincos`."""

from __future__ import annotations

import numpy as np
from amaranth.hdl import C, Cat, Module, Signal, Value, signed, unsigned
from amaranth.lib.memory import Memory
from numpy.typing import NDArray

from pinion.fixedpoint.format import Flags, Ints
from pinion.fixedpoint.sincos import PIECE_BITS, SinCos
from pinion.gateware.unit import Unit, delay


class SinCosUnit(Unit):
    """Sine or cosine of an angle of any size, chosen for each operand.

    At most one multiplication or one addition lies between two registers. For q16.16 and q12.20
    every multiplication fits one 27 x 18 block.

    Parameters
    ----------
    parameters : SinCos
        Formats, table and widths.
    multiplier_stages : int
        Registers behind each product, at least 1; the additions after the products have their own.

    Members
    -------
    x : In(signed(source.width))
        Angle [rad].
    cosine : In(1)
        Cosine instead of sine.
    o : Out(signed(target.width))

    Attributes
    ----------
    multiplier_widths : tuple of (int, int)
        Signed operand widths of every multiplication inside.
    multipliers : int
        Their number.

    Latency: operands 1, range reduction `multiplier_stages` and one per level of its adder tree,
    table 2, two steps of ``multiplier_stages + 1``, rounding 1: 11 for 32-bit formats and one
    multiplier stage.
    Throughput: one result per cycle.
    """

    def __init__(self, parameters: SinCos, *, multiplier_stages: int = 1) -> None:
        if multiplier_stages < 1:
            raise ValueError(
                f"multiplier_stages is {multiplier_stages}; a product needs at least 1 register."
            )
        self.parameters = p = parameters
        self.multiplier_stages = multiplier_stages
        # The phase constants in pieces that fit a multiplier: (limb, weight of the piece, piece).
        self._pieces = [
            (limb, low, limb.constant >> low & (1 << PIECE_BITS) - 1)
            for limb in p.limbs
            for low in range(0, p.turn_bits, PIECE_BITS)
            if limb.constant >> low & (1 << PIECE_BITS) - 1
        ]
        self._levels = max(len(self._pieces) - 1, 0).bit_length()
        _, linear, square = p.widths
        self.multiplier_widths = (
            *(
                (piece.bit_length() + 1, limb.width + (not limb.signed))
                for limb, _, piece in self._pieces
            ),
            (square + 1, p.short_bits),
            (linear + 1, p.remainder_bits),
        )
        self.multipliers = len(self.multiplier_widths)
        super().__init__(
            {"x": signed(p.source.width), "cosine": 1},
            {"o": signed(p.target.width)},
            latency=1 + multiplier_stages + self._levels + 2 + 2 * (multiplier_stages + 1) + 1,
        )

    def compute(self, x: Ints, cosine: Flags | bool = False) -> NDArray[np.int64]:
        """The exact model: `SinCos.compute`."""
        return self.parameters.compute(x, cosine)

    def elaborate(self, platform: object) -> Module:
        """Turns, quadrant, table, polynomial and rounding, in the order of the data."""
        m = Module()
        p = self.parameters
        stages = self.multiplier_stages

        # Turns, modulo one turn.
        x = delay(m, self.x, 1, "x_reg")
        terms: list[Value] = []
        for number, (limb, low, piece) in enumerate(self._pieces):
            part = x[limb.low : limb.low + limb.width]
            factor = part.as_signed() if limb.signed else Cat(part, C(0, 1)).as_signed()
            product = factor * C(piece, signed(piece.bit_length() + 1))
            # Whole turns fall off the top.
            kept = Signal(p.turn_bits - low, name=f"turns{number}_kept")
            m.d.comb += kept.eq(product)
            terms.append(Cat(C(0, low), delay(m, kept, stages, f"turns{number}_")))
        for level in range(self._levels):
            merged = []
            for k in range(0, len(terms), 2):
                total = terms[k] + terms[k + 1] if k + 1 < len(terms) else terms[k]
                merged.append(delay(m, total[: p.turn_bits], 1, f"turns_sum{level}_{k // 2}"))
            terms = merged
        phase = Signal(p.phase_bits)
        m.d.comb += phase.eq(terms[0][p.turn_bits - p.phase_bits :])

        # Quadrant: a cosine is a sine one quadrant later; odd quadrants run backwards.
        cosine = delay(m, self.cosine, 1 + stages + self._levels, "cosine")
        backwards = phase[-2] ^ cosine
        minus = phase[-1] ^ (phase[-2] & cosine)
        u = phase[:-2] ^ backwards.replicate(p.phase_bits - 2)
        index = u[p.remainder_bits :]
        # Counted from the middle of the segment: subtracting half is inverting the top bit.
        top = p.remainder_bits - 1
        remainder = delay(m, Cat(u[:top], ~u[top]).as_signed(), 2, "remainder")

        # Table: the memory's own register, then one more as the multiplier's input register.
        n_constant, n_linear, _ = p.widths
        m.submodules.table = table = Memory(
            shape=unsigned(sum(p.widths)),
            depth=len(p.table),
            init=[k0 | k1 << n_constant | k2 << n_constant + n_linear for k0, k1, k2 in p.table],
            # Made of lookup tables its address has hundreds of loads, and three levels behind it.
            # Yosys reads the first name, Vivado both.
            attrs={"ram_style": "block", "rom_style": "block"},
        )
        port = table.read_port()
        m.d.comb += port.addr.eq(index)
        row = delay(m, port.data, 1, "row")
        constant, linear = row[:n_constant], row[n_constant:][:n_linear]
        square = Cat(row[n_constant + n_linear :], C(0, 1)).as_signed()

        # Horner: slope = linear - square * short, value = constant + slope * remainder.
        short = remainder[p.remainder_bits - p.short_bits :].as_signed()
        product = delay(m, square * short, stages, "square_product")
        slope = Signal(signed(n_linear + 1), reset_less=True)
        base = Cat(delay(m, linear, stages, "linear"), C(0, 1)).as_signed()
        m.d.sync += slope.eq(((base << p.square_shift) - product) >> p.square_shift)
        remainder = delay(m, remainder, stages + 1, "remainder_late")

        product = delay(m, slope * remainder, stages, "linear_product")
        base = Cat(delay(m, constant, 2 * stages + 1, "constant"), C(0, 1)).as_signed()
        value = Signal(signed(p.constant_frac + 2), reset_less=True)
        m.d.sync += value.eq(((base << p.sum_shift) + product) >> p.sum_shift)

        # A truncated value stands for the middle of its interval: its complement is its negative.
        minus = delay(m, minus, 2 + 2 * (stages + 1), "minus")
        half = C(1 << (p.rounding_shift - 1), signed(p.rounding_shift + 1))
        o = Signal(signed(p.target.width), reset_less=True)
        mirrored = (value.as_unsigned() ^ minus.replicate(len(value))).as_signed()
        m.d.sync += o.eq((mirrored + half) >> p.rounding_shift)
        m.d.comb += self.o.eq(o)
        return m
