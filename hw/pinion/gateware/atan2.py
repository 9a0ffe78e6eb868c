"""Four-quadrant angle of a planar vector; the model is `pinion.fixedpoint.atan2`."""

from __future__ import annotations

import numpy as np
from amaranth.hdl import C, Cat, Module, Mux, Signal, Value, signed
from numpy.typing import NDArray

from pinion.base.arrays import Flags, Ints
from pinion.fixedpoint.atan2 import Atan2

from .normalise import DIGITS, leading_signs, parts, shift
from .unit import Unit, add_sub, delay, look_up, register_outputs


class Atan2Unit(Unit):
    """``atan2(y, x)`` [rad] within the model's error bound, by CORDIC in vectoring mode.

    Each pipeline stage holds one addition or subtraction, or one variable shift. There is no
    multiplier. The later turns are digits of a division: they need no sum of angles and leave x
    unchanged.

    Parameters
    ----------
    parameters : Atan2
        Formats, angles and widths.
    latency : int, optional
        A latency longer than the minimum; the extra registers are at the operands.

    Members
    -------
    y, x : In(signed(source.width))
        Components with a common binary point.
    o : Out(signed(target.width))
        0 for (0, 0).
    ovf : Out(1)
        Both components are 0.

    Latency: the requested one, or magnitudes 1, normalisation one per 4 bits of the distance,
    turns one each except the last, sum 1: 23 for q16.16, 27 for q12.20, 31 for words of 27 bits
    with results of 24 fraction bits, 22 for words of 18 bits with results of 15.
    Throughput: one result per cycle.
    """

    def __init__(self, parameters: Atan2, *, latency: int | None = None) -> None:
        self.parameters = p = parameters
        self.multipliers = 0
        # Distances of 0 to width - 1: how many binary digits of it each stage examines.
        self._up = parts((p.source.width - 1).bit_length(), DIGITS)
        super().__init__(
            {"y": signed(p.source.width), "x": signed(p.source.width)},
            {"o": signed(p.target.width), "ovf": 1},
            latency=max(1 + len(self._up) + p.turns, latency or 0),
        )

    def compute(self, y: Ints, x: Ints) -> tuple[NDArray[np.int64], Flags]:
        """Return the exact model's result (`Atan2.compute`)."""
        return self.parameters.compute(y, x)

    def elaborate(self, platform: object) -> Module:
        """Build magnitudes, normalisation, CORDIC rotations and sum."""
        m = Module()
        p = self.parameters
        width, bits = p.source.width, p.vector_bits

        waiting = self.latency - (1 + len(self._up) + p.turns)
        x = delay(m, self.x, waiting, "x_waiting")
        y = delay(m, self.y, waiting, "y_waiting")
        signs = delay(m, Cat(x[-1], y[-1]), 1, "signs")
        x = delay(m, _magnitude(m, x, "x"), 1, "x_magnitude")
        y = delay(m, _magnitude(m, y, "y"), 1, "y_magnitude")

        # Both shift as far as the longer one needs; zero shifts as far as possible.
        weight = (width - 1).bit_length()
        zero: Value = (x | y) == 0
        for number, count in enumerate(self._up):
            weight -= count
            name = f"up{number}"
            cases = min(1 << count, (width - 1 >> weight) + 1)
            digit = leading_signs(m, x | y, C(0, 1), cases, 1 << weight, name)
            x, y = (
                delay(m, shift(m, v, digit, cases, 1 << weight, name + axis, left=True), 1, name)
                for v, axis in ((x, "x"), (y, "y"))
            )
            signs = delay(m, signs, 1, f"{name}_signs")
            zero = delay(m, zero, 1, f"{name}_zero")
        spare = bits - width
        x, y = (Cat(C(0, spare), v) if spare >= 0 else v[-spare:] for v in (x, y))
        x, y = x[:bits], Cat(y[:bits], C(0, 1)).as_signed()

        # The sum starts at the quadrant's angle and counts backwards in two quadrants.
        starts = [p.start(i & 1, i >> 1) for i in range(4)]
        sum_width = p.target.width + p.sum_guard
        mask = (1 << sum_width) - 1
        total = look_up([start & mask for start in starts], sum_width, signs).as_signed()
        mirrored: Value = signs[0] ^ signs[1]
        digits: Value = C(0, 0)
        for i in range(p.turns):
            down = ~y[-1]
            add = down ^ mirrored
            if i >= p.linear:
                digits = Cat(add, digits)
            if i == p.turns - 1:
                break
            name = f"turn{i}"
            # The remaining angle is less than twice the angle of this turn.
            left = Signal(signed(min(bits + 2, bits + 5 - i)), name=f"{name}_left")
            across = Cat(x >> i, C(0, 1)).as_signed()
            m.d.comb += left.eq(add_sub(m, y, across, down, f"{name}_y"))
            if i < p.linear:
                angle = C(p.angles[i], signed(p.angles[i].bit_length() + 1))
                turned = add_sub(m, total, angle, ~add, f"{name}_sum")[:sum_width]
                total = turned.as_signed()
                longer = Signal(bits + 2, name=f"{name}_longer")
                m.d.comb += longer.eq(
                    add_sub(m, Cat(x, C(0, 1)).as_signed(), y >> i, ~down, f"{name}_x")
                )
                x = longer
            x = delay(m, x, 1, f"{name}_x_reg")
            y = delay(m, left, 1, f"{name}_y_reg")
            total = delay(m, total, 1, f"{name}_total")
            mirrored = delay(m, mirrored, 1, f"{name}_mirrored")
            zero = delay(m, zero, 1, f"{name}_zero")
            if len(digits):
                digits = delay(m, digits, 1, f"{name}_digits")

        last = total + Cat(C(0, p.digit_shift), digits, C(0, 1)).as_signed()
        register_outputs(m, self, o=Mux(zero, 0, last[p.sum_guard :]), ovf=zero)
        return m


def _magnitude(m: Module, value: Value, name: str) -> Value:
    """Return the magnitude of a signed word as an unsigned word of the same width."""
    sign = value[-1]
    magnitude = Signal(len(value), name=f"{name}_abs")
    m.d.comb += magnitude.eq((value.as_unsigned() ^ sign.replicate(len(value))) + sign)
    return magnitude
