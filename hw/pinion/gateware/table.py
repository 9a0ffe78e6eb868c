"""Function of one variable by piecewise polynomials; the model is `pinion.fixedpoint.table`."""

from __future__ import annotations

import numpy as np
from amaranth.hdl import C, Cat, Module, Mux, Signal, Value, signed
from numpy.typing import NDArray

from pinion.base.arrays import Ints
from pinion.fixedpoint.table import FixedTable

from .unit import BLOCK_RAM, Unit, check_stages, delay, read_memory, register_outputs


class TableUnit(Unit):
    """Value of a table's polynomial; operands outside its range are clamped to it.

    Each pipeline stage holds one multiplication, or an addition (of three operands: one carry
    chain after a lookup table), or a comparison with two constants.

    Parameters
    ----------
    parameters : FixedTable
        Formats, coefficients and widths.
    multiplier_stages : int
        Registers after each product, at least 1; the sum after the products has one more.
    table_stages : int
        Registers of the memory's output, at least 1.

    Members
    -------
    x : In(signed(source.width))
    o : Out(signed(target.width))

    Attributes
    ----------
    multiplier_widths : tuple of (int, int)
        Signed operand widths of every multiplication inside.
    multipliers : int
        The number of multiplications.

    Latency: clamping 1, segment 1, table `table_stages` (and no less than the `multiplier_stages`
    of the square beside it), products `multiplier_stages`, sum 1: 5 with the fewest registers.
    Throughput: one result per cycle.
    """

    def __init__(
        self, parameters: FixedTable, *, multiplier_stages: int = 1, table_stages: int = 1
    ) -> None:
        check_stages(multiplier_stages=multiplier_stages, table_stages=table_stages)
        self.parameters = p = parameters
        self.multiplier_stages = multiplier_stages
        self.multiplier_widths = p.multiplier_widths
        self.multipliers = len(self.multiplier_widths)
        # Tables of both degrees have the same latency, so that the schedule needs one number.
        self._lookup = max(table_stages, multiplier_stages)
        super().__init__(
            {"x": signed(p.source.width)},
            {"o": signed(p.target.width)},
            latency=2 + self._lookup + multiplier_stages + 1,
        )

    def compute(self, x: Ints) -> NDArray[np.int64]:
        """Return the exact model's result (`FixedTable.compute`)."""
        return self.parameters.compute(x)

    def elaborate(self, platform: object) -> Module:
        """Build clamping, segment, table alongside the square, products and sum."""
        m = Module()
        p = self.parameters
        stages, bits = self.multiplier_stages, p.position_bits

        low, high = (C(end, signed(p.source.width)) for end in (p.low, p.high))
        inside = Mux(self.x < low, low, Mux(self.x > high, high, self.x))
        x = delay(m, inside, 1, "x_reg")
        x = Cat(C(0, p.appended), x).as_signed()

        index = Signal(range(max(len(p.table), 2)))
        m.d.comb += index.eq((x >> bits) - p.pieces.first)
        # Counted from the middle of the segment: subtracting half is inverting the top bit.
        low_bits = Cat(x, x[-1].replicate(bits))[:bits]
        position = Cat(low_bits[:-1], ~low_bits[-1]).as_signed()
        address = delay(m, index, 1, "index")
        position = delay(m, position, 1, "position")

        # Short tables become lookup tables anyway.
        attributes = BLOCK_RAM if len(p.table) > 64 else {}
        row = read_memory(m, address, p.table, p.widths, self._lookup, attributes)
        columns: list[Value] = []
        for width in p.widths:
            columns.append(row[:width].as_signed())
            row = row[width:]
        terms = [delay(m, columns[0], stages, "constant")]
        offset = delay(m, position[bits - p.kept_bits :], self._lookup, "kept").as_signed()
        linear = (columns[1] * offset) >> p.linear_shift
        terms.append(delay(m, linear, stages, "linear"))
        if p.pieces.degree == 2:
            short = position[bits - p.short_bits :].as_signed()
            square = (short * short).as_unsigned()[p.square_dropped : 2 * p.short_bits - 1]
            square = delay(m, square, stages, "square")
            square = delay(m, square, self._lookup - stages, "square_late")
            curved = (columns[2] * Cat(square, C(0, 1)).as_signed()) >> p.square_shift
            terms.append(delay(m, curved, stages, "curved"))

        # The constant includes the half that rounds.
        total = sum(terms[1:], start=terms[0])
        register_outputs(m, self, o=total >> p.sum_guard)
        return m
