"""Sine and cosine of any angle; the model is `pinion.fixedpoint.sincos`."""

from __future__ import annotations

import numpy as np
from amaranth.hdl import C, Cat, Module, Mux, Signal, Value, signed
from numpy.typing import NDArray

from pinion.base.arrays import Flags, Ints
from pinion.fixedpoint.sincos import SinCos
from pinion.fixedpoint.sincos_direct import DirectTable
from pinion.fixedpoint.sincos_turns import PIECE_BITS, Limb, TurnTable

from .unit import BLOCK_RAM, Unit, check_stages, delay, inverted, read_memory, register_outputs


class SinCosUnit(Unit):
    """Sine or cosine of any angle, selected for each operand.

    Each pipeline stage holds one multiplication, or an addition (of three operands: one carry
    chain after a lookup table). For q16.16, q12.20 and the words that per-signal formats use for
    results of 18 and 22 bits, every multiplication fits one 27 x 18 block.

    Parameters
    ----------
    parameters : SinCos
        Formats, table and widths.
    multiplier_stages : int
        Registers after each product, at least 1; the additions after the products have more.
    port_stages : int
        Registers on the operands of a table over the angle itself, because multiplexers precede its
        memory. Range reduction by turns always has one.

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
        The number of multiplications.

    Latency: `port_stages`; table 2 (and no less than the `multiplier_stages` of the square beside
    it, and 1), products `multiplier_stages`, sum and rounding 1: 4 for per-signal formats with
    angles of up to 4 rad. By turns, these replace `port_stages`: operands 1, range reduction
    `multiplier_stages` and one per level of a tree of three-operand additions: 7 for 32-bit
    formats.
    Throughput: one result per cycle.
    """

    def __init__(
        self, parameters: SinCos, *, multiplier_stages: int = 1, port_stages: int = 0
    ) -> None:
        check_stages(multiplier_stages=multiplier_stages)
        self.parameters = p = parameters
        self.multiplier_stages = multiplier_stages
        self.port_stages = port_stages
        self._lookup = max(2, 1 + multiplier_stages)
        table = p.method
        short = table.short_bits + table.middle
        self.multiplier_widths: tuple[tuple[int, int], ...] = (
            (short, short),
            (table.linear_width + 1, table.remainder_bits),
            (2 * short - table.square_dropped, table.square_width + 1),
        )
        if isinstance(table, TurnTable):
            self._pieces = _pieces(table)
            self._levels = _levels(len(self._pieces))
            reduced = 1 + multiplier_stages + self._levels
            self.multiplier_widths += tuple(
                (piece.bit_length() + 1, limb.width + (not limb.signed))
                for limb, _, piece in self._pieces
            )
        else:
            reduced = port_stages
        self.multipliers = len(self.multiplier_widths)
        super().__init__(
            {"x": signed(p.source.width), "cosine": 1},
            {"o": signed(p.target.width)},
            latency=reduced + self._lookup + multiplier_stages + 1,
        )

    def compute(self, x: Ints, cosine: Flags | bool = False) -> NDArray[np.int64]:
        """Return the exact model's result (`SinCos.compute`)."""
        return self.parameters.compute(x, cosine)

    def elaborate(self, platform: object) -> Module:
        """Build range reduction, if any, table, polynomial and rounding, in dataflow order."""
        m = Module()
        table = self.parameters.method
        if isinstance(table, TurnTable):
            self._by_turns(m, table)
        else:
            self._direct(m, table)
        return m

    # -- a table over the angle ------------------------------------------------------------------

    def _direct(self, m: Module, table: DirectTable) -> None:
        x = delay(m, self.x, self.port_stages, "x_reg")
        cosine = delay(m, self.cosine, self.port_stages, "cosine_reg")
        mirrored, bits = x[-1], table.remainder_bits
        index = x[bits:-1] ^ mirrored.replicate(len(x) - bits - 1)
        width = table.table_frac + 1
        row = read_memory(m, index, table.table, [width, width], self._lookup - 1, BLOCK_RAM)
        cosine = delay(m, cosine, self._lookup - 1, "cosine")
        mirrored = delay(m, mirrored, self._lookup - 1, "mirrored")

        sine = row[:width] ^ mirrored.replicate(width)
        constant = Signal(signed(width), reset_less=True)
        linear = Signal(signed(table.linear_frac + 1), reset_less=True)
        derivative = Mux(cosine, ~sine, row[width:])
        m.d.sync += [
            constant.eq(Mux(cosine, row[width:], sine)),
            linear.eq(derivative[table.table_frac - table.linear_frac :]),
        ]
        square = constant[table.table_frac - table.square_frac :]
        remainder = Cat(x[: bits - 1], ~x[bits - 1]).as_signed()
        constant = Cat(C(1, 1), constant).as_signed()
        none = C(0, 1)
        self._polynomial(m, table, remainder, constant, linear, square.as_signed(), none)

    # -- a table of a quadrant -------------------------------------------------------------------

    def _by_turns(self, m: Module, table: TurnTable) -> None:
        stages = self.multiplier_stages

        # Turns, modulo one turn.
        x = delay(m, self.x, 1, "x_reg")
        terms: list[Value] = []
        for number, (limb, low, piece) in enumerate(self._pieces):
            part = x[limb.low : limb.low + limb.width]
            factor = part.as_signed() if limb.signed else Cat(part, C(0, 1)).as_signed()
            product = factor * C(piece, signed(piece.bit_length() + 1))
            # Whole turns overflow.
            fraction = Signal(table.turn_bits - low, name=f"turns{number}_kept")
            m.d.comb += fraction.eq(product)
            terms.append(Cat(C(0, low), delay(m, fraction, stages, f"turns{number}_")))
        for level in range(self._levels):
            merged = []
            for k in range(0, len(terms), 3):
                total = sum(terms[k + 1 : k + 3], start=terms[k])
                merged.append(delay(m, total[: table.turn_bits], 1, f"turns_sum{level}_{k // 3}"))
            terms = merged
        phase = Signal(table.phase_bits)
        m.d.comb += phase.eq(terms[0][table.turn_bits - table.phase_bits :])

        # Quadrant: a cosine is a sine one quadrant later; odd quadrants run backwards.
        cosine = delay(m, self.cosine, 1 + stages + self._levels, "cosine")
        backwards = phase[-2] ^ cosine
        minus = phase[-1] ^ (phase[-2] & cosine)
        u = phase[:-2] ^ backwards.replicate(table.phase_bits - 2)
        index = u[table.remainder_bits :]
        # Counted from the middle of the segment: subtracting half is inverting the top bit.
        top = table.remainder_bits - 1
        remainder = Cat(u[:top], ~u[top]).as_signed()

        row = read_memory(m, index, table.table, table.widths, self._lookup, BLOCK_RAM)
        first, second, _ = table.widths
        constant = Cat(row[:first], C(0, 1)).as_signed()
        linear = Cat(row[first : first + second], C(0, 1)).as_signed()
        square = Cat(row[first + second :], C(0, 1)).as_signed()
        minus = delay(m, minus, self._lookup, "minus")
        self._polynomial(m, table, remainder, constant, linear, square, minus)

    # -- both ------------------------------------------------------------------------------------

    def _polynomial(
        self,
        m: Module,
        table: DirectTable | TurnTable,
        remainder: Value,
        constant: Value,
        linear: Value,
        square: Value,
        minus: Value,
    ) -> None:
        """Build ``constant + linear r - square r**2`` or its negative, rounded.

        The remainder comes with the index, the coefficients and `minus` with the row.
        """
        stages = self.multiplier_stages
        early = delay(m, remainder, 1, "remainder_reg")
        short = early[table.remainder_bits - table.short_bits :]
        if table.middle:
            short = Cat(C(1, 1), short)
        product = (short.as_signed() * short.as_signed()).as_unsigned()
        product = product[table.square_dropped : 2 * len(short) - 1]  # a square's sign is known
        squared = delay(m, product, stages, "squared")
        squared = delay(m, squared, self._lookup - 1 - stages, "squared_late")
        remainder = delay(m, early, self._lookup - 1, "remainder")

        # A truncated coefficient represents the middle of its interval.
        linear = Cat(C(1, 1), linear).as_signed()
        square = Cat(C(1, 1), square).as_signed()
        up = delay(m, (linear * remainder) >> table.linear_shift, stages, "linear_product")
        down = square * Cat(squared, C(0, 1)).as_signed()
        down = delay(m, down >> table.square_shift, stages, "square_product")

        # Sum, sign and rounding in one carry chain. A truncated value represents the middle of its
        # interval, so its complement is its negative; to negate the sum, complement its terms.
        constant = Cat(C(0, table.sum_frac - table.entry_frac), constant).as_signed()
        base = inverted(constant, minus) + (1 + (1 << table.sum_guard - 1))
        base = delay(m, base, stages, "base")
        minus = delay(m, minus, stages, "minus_late")
        total = base + inverted(up, minus) + inverted(down, ~minus)
        register_outputs(m, self, o=total >> table.sum_guard)


def _pieces(table: TurnTable) -> list[tuple[Limb, int, int]]:
    """Split the phase constants into pieces that fit a multiplier: limb, weight, piece."""
    return [
        (limb, low, limb.constant >> low & (1 << PIECE_BITS) - 1)
        for limb in table.limbs
        for low in range(0, table.turn_bits, PIECE_BITS)
        if limb.constant >> low & (1 << PIECE_BITS) - 1
    ]


def _levels(terms: int) -> int:
    """Return the depth of a tree that adds this many terms, three at a time."""
    levels = 0
    while terms > 1:
        terms = -(-terms // 3)
        levels += 1
    return levels
