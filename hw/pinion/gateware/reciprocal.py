"""Reciprocal of any word, saturated and flagged; the model is `pinion.fixedpoint.reciprocal`."""

from __future__ import annotations

import numpy as np
from amaranth.hdl import C, Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib.memory import Memory
from numpy.typing import NDArray

from pinion.fixedpoint.format import Flags, Ints
from pinion.fixedpoint.reciprocal import Reciprocal
from pinion.gateware.unit import Unit, delay

# A table of up to this many index bits is built of lookup tables, which hold 64 rows each, and
# needs no second register behind it. Yosys chooses so by itself; an attribute would have to say it
# in words that no two tools share.
_LOGIC_INDEX_BITS = 7


class ReciprocalUnit(Unit):
    """``1 / x``, to nearest within the model's error bound.

    At most one multiplication, one addition or one shift by a variable distance lies between two
    registers. (The sum of the polynomial has three operands: one carry chain in 6-input lookup
    tables. The last binary digit of the shift back shares the lookup tables of the rounding adder.)
    For q16.16 and q12.20 every multiplication fits one 27 x 18 block.

    Parameters
    ----------
    parameters : Reciprocal
        Formats, smallest operand, table and widths.
    multiplier_stages : int
        Registers behind each product, at least 1; the sum after the products has its own.

    Members
    -------
    x : In(signed(source.width))
    o : Out(signed(target.width))
        The largest value for zero, the nearer end of the format for results past it.
    ovf : Out(1)
        The result is saturated, or ``|x|`` is below the smallest operand.

    Attributes
    ----------
    multiplier_widths : tuple of (int, int)
        Signed operand widths of every multiplication inside.
    multipliers : int
        Their number.

    Latency: operands 1, magnitude 1, normalisation one per 3 bits of the distance, table 1 (up to
    128 segments) or 2 and at least the `multiplier_stages` of the square beside it, products
    `multiplier_stages`, sum 1, shift back one per 4 bits but one, rounding 1. With one multiplier
    stage: 9 for q16.16, 10 for q12.20.
    Throughput: one result per cycle.
    """

    def __init__(self, parameters: Reciprocal, *, multiplier_stages: int = 1) -> None:
        if multiplier_stages < 1:
            raise ValueError(
                f"multiplier_stages is {multiplier_stages}; a product needs at least 1 register."
            )
        self.parameters = p = parameters
        self.multiplier_stages = multiplier_stages
        _, linear, square = p.widths
        self.multiplier_widths = (
            (p.short_bits + 1, p.short_bits + 1),
            (linear + 1, p.remainder_bits + 1),
            (2 * p.short_bits + 1, square + 1),
        )
        self.multipliers = len(self.multiplier_widths)
        # Distances of 0 to W - low_bits, in the binary digits that each stage examines.
        self._most = p.source.width - p.low_bits
        bits = self._most.bit_length()
        self._up = _parts(bits, 3)
        self._down = _parts(max(bits - 1, 0), 4)
        self._small = p.segment_bits <= _LOGIC_INDEX_BITS
        self._lookup = max(1 if self._small else 2, multiplier_stages)
        super().__init__(
            {"x": signed(p.source.width)},
            {"o": signed(p.target.width), "ovf": 1},
            latency=(
                2 + len(self._up) + self._lookup + multiplier_stages + 1 + len(self._down) + 1
            ),
        )

    def compute(self, x: Ints) -> tuple[NDArray[np.int64], Flags]:
        """The exact model: `Reciprocal.compute`."""
        return self.parameters.compute(x)

    def elaborate(self, platform: object) -> Module:
        """Magnitude, normalisation, table, polynomial, shift back, in the order of the data."""
        m = Module()
        p = self.parameters
        stages = self.multiplier_stages

        # Magnitude; the smallest word's needs the sign bit as well.
        x = delay(m, self.x, 1, "x_reg")
        minus = delay(m, x[-1], 1, "minus_reg")
        magnitude = Signal(p.source.width, reset_less=True)
        m.d.sync += magnitude.eq((x.as_unsigned() ^ x[-1].replicate(len(x))) + x[-1])

        # Known here already: whether the result saturates, and whether it is flagged at least.
        beyond = ~magnitude[p.low_bits - 1 :].any()
        if p.smallest > 1 << (p.low_bits - 1):
            flag: Value = magnitude < C(p.smallest, p.source.width)
        else:
            flag = beyond
        state = Cat(beyond, flag, minus)

        # Normalisation, from the longest distance down.
        normal: Value = magnitude
        distance: Value = C(0, 0)
        weight = self._most.bit_length()
        for number, bits in enumerate(self._up):
            weight -= bits
            name = f"up{number}"
            digit = _leading_zeros(m, normal, bits, 1 << weight, name)
            shifted = _shift(m, normal, digit, 1 << weight, name, left=True)
            normal = delay(m, shifted, 1, f"{name}_reg")
            distance = delay(m, Cat(digit, distance), 1, f"{name}_distance")
        # The way back is from the shortest length that fits; it wraps only where it saturates.
        back = Signal(self._most.bit_length(), reset_less=True)
        m.d.sync += back.eq(self._most - distance)

        kept = normal[p.source.width - p.kept_bits :]
        index = kept[p.remainder_bits :][: p.segment_bits]
        remainder = kept[: p.remainder_bits]
        short = remainder[p.remainder_bits - p.short_bits :]

        # Table: the memory's own register and, where it is a block, one more behind it.
        n_constant, n_linear, _ = p.widths
        mask = (1 << n_constant) - 1  # the highest bit is always set: it is put back below
        m.submodules.table = table = Memory(
            shape=unsigned(sum(p.widths)),
            depth=len(p.table),
            init=[
                k0 & mask | k1 << n_constant | k2 << n_constant + n_linear for k0, k1, k2 in p.table
            ],
        )
        port = table.read_port()
        m.d.comb += port.addr.eq(index)
        row = delay(m, port.data, self._lookup - 1, "row")
        constant, linear = Cat(row[:n_constant], C(1, 1)), row[n_constant:][:n_linear]
        square = row[n_constant + n_linear :]

        # Polynomial: the square is there as soon as the row, and both products run side by side.
        squared = delay(m, short * short, stages, "squared")
        squared = delay(m, squared, self._lookup - stages, "squared_late")
        remainder = delay(m, remainder, self._lookup, "remainder")
        down = delay(m, (linear * remainder) >> p.linear_shift, stages, "linear_product")
        up = delay(m, (square * squared) >> p.square_shift, stages, "square_product")
        constant = delay(m, constant, stages, "constant")
        fine = p.value_frac - p.product_frac
        total = (
            Cat(C(0, p.value_frac - p.constant_frac), constant)
            + Cat(C(0, fine), up)
            - Cat(C(0, fine), down)
        )
        value = Signal(p.result_bits + 1, reset_less=True)  # never negative, never 1
        m.d.sync += value.eq(total >> p.value_shift)

        # Back, but for the last binary digit.
        back = delay(m, back, self._lookup + stages, "back")  # the first register is its own
        weight = len(back)
        for number, bits in enumerate(self._down):
            weight -= bits
            name = f"down{number}"
            shifted = _shift(m, value, back[weight:], 1 << weight, name, left=False)
            value = delay(m, shifted, 1, f"{name}_reg")
            back = delay(m, back[:weight], 1, f"{name}_back")
        last = Mux(back[0], value >> 1, value) if len(back) else value

        # Rounding and sign in one carry chain: -(k + h) is ~k + ~h for a half bit h.
        beyond, flag, minus = delay(m, state, self.latency - 3, "state")
        width = p.target.width
        whole = Signal(width)
        rounded = Signal(width)
        past = Signal()
        m.d.comb += [
            whole.eq(last[1:]),
            rounded.eq((whole ^ minus.replicate(width)) + (last[0] ^ minus)),
            # A positive result that rounds up past the end is the end's successor: all bits flip.
            past.eq(~minus & rounded[-1]),
        ]
        o = Signal(signed(width), reset_less=True)
        ovf = Signal(reset_less=True)
        end = Cat((~minus).replicate(width - 1), minus)
        m.d.sync += [
            o.eq(Mux(beyond, end, rounded ^ past.replicate(width))),
            ovf.eq(flag | past),
        ]
        m.d.comb += [self.o.eq(o), self.ovf.eq(ovf)]
        return m


def _parts(bits: int, most: int) -> tuple[int, ...]:
    """`bits` in the fewest parts of at most `most`, as equal as can be, the larger ones first."""
    count = -(-bits // most)
    return tuple((bits + count - 1 - i) // count for i in range(count))


def _leading_zeros(m: Module, value: Value, bits: int, weight: int, name: str) -> Signal:
    """Leading groups of `weight` bits that are all zero, at most ``2**bits - 1`` of them."""
    digit = Signal(bits, name=f"{name}_digit")
    width = len(value)
    m.d.comb += digit.eq((1 << bits) - 1)
    for i in reversed(range((1 << bits) - 1)):
        with m.If(value[max(width - (i + 1) * weight, 0) : max(width - i * weight, 0)].any()):
            m.d.comb += digit.eq(i)
    return digit


def _shift(m: Module, value: Value, digit: Value, weight: int, name: str, *, left: bool) -> Signal:
    """`value` shifted by ``digit * weight``, in as many bits as it has."""
    shifted = Signal(len(value), name=f"{name}_shifted")
    with m.Switch(digit):
        for i in range(1 << len(digit)):
            with m.Case(i):
                distance = i * weight
                moved = Cat(C(0, distance), value) if left else value >> distance
                m.d.comb += shifted.eq(moved)
    return shifted
