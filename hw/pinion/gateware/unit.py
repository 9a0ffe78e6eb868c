"""The contract of every arithmetic unit, and the few pieces of hardware that units share.

A unit runs freely: it has no enable and no reset, takes a new operand set every cycle, and shows
the result `latency` cycles later. Its user keeps track of which cycle carries what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import C, Cat, ClockDomain, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from pinion.fixedpoint.format import Overflow, Rounding

_TOP = "attribute \\top 1\n"


class Unit(wiring.Component):
    """An arithmetic unit: free running, one result per cycle.

    Ports are plain signals; their names, directions and shapes are the component's signature.
    A unit that sees operands in the cycle before clock edge 0 shows their result in the cycle
    after clock edge ``latency - 1``.

    Members
    -------
    (each unit documents its own)

    Latency: the attribute `latency`, at least 1.
    Throughput: one result per cycle.
    """

    # A unit is a parameter object as well as hardware: one that is only asked for its latency is
    # no mistake, so Amaranth's warning about unused components would mislead.
    _MustUse__silence = True

    latency: int
    """Clock edges from operands at the ports to the result at the ports."""

    def __init__(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], latency: int) -> None:
        super().__init__(
            {name: In(shape) for name, shape in inputs.items()}
            | {name: Out(shape) for name, shape in outputs.items()}
        )
        self.latency = latency
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the input ports, in declaration order; the clock is not among them."""
        return self._inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the output ports, in declaration order."""
        return self._outputs

    def offset(self, port: str) -> int:
        """Cycles after an operation's first operands in which it reads an input port: here none."""
        return 0

    def to_rtlil(self, name: str) -> str:
        """RTLIL text of this unit: module `name`, and submodules whose names start with it.

        The module's ports are ``clk``, `inputs` and `outputs`; no register is ever reset. The text
        carries no source positions and no "top" mark, so that the same unit always gives the same
        text and texts of several units can be concatenated. Instantiate it with
        ``Instance(name, i_clk=ClockSignal(), i_a=..., o_o=...)``.
        """
        text: str = rtlil.convert(
            self,
            name=name,
            emit_src=False,
            # Nothing here is reset; without a reset in the domain no reset port appears.
            missing_domain=lambda domain: ClockDomain(domain, reset_less=True),
        )
        return text.replace(_TOP, "")


def delay(m: Module, value: Value, cycles: int, name: str) -> Value:
    """`value` as it was `cycles` clock edges ago, in registers ``name1``, ``name2``, ..."""
    for i in range(cycles):
        register = Signal(value.shape(), name=f"{name}{i + 1}", reset_less=True)
        m.d.sync += register.eq(value)
        value = register
    return value


def look_up(rows: Sequence[int], width: int, index: Value) -> Value:
    """The lowest `width` bits of ``rows[index]``: a small table as logic, not as a memory.

    A row past the last is 0.
    """
    columns = (sum((row >> bit & 1) << k for k, row in enumerate(rows)) for bit in range(width))
    return Cat((C(column, len(rows)) >> index)[0] for column in columns)


def add_sub(m: Module, a: Value, b: Value, sub: Value, name: str) -> Value:
    """``a - b`` where `sub` is 1, else ``a + b``, one bit wider, out of one carry chain.

    ``Mux(sub, a - b, a + b)`` would be two chains and a multiplexer wherever the tool does not see
    through it. The extra low bit pair carries the `sub` into the chain.
    """
    width = max(a.shape().width, b.shape().width) + 1
    left = Signal(signed(width + 1), name=f"{name}_a")
    right = Signal(signed(width + 1), name=f"{name}_b")
    wide_a = Signal(signed(width), name=f"{name}_wide_a")
    wide_b = Signal(signed(width), name=f"{name}_wide_b")
    m.d.comb += [
        wide_a.eq(a),
        wide_b.eq(b),
        left.eq(Cat(C(1, 1), wide_a)),
        right.eq(Cat(sub, wide_b.as_unsigned() ^ sub.replicate(width))),
    ]
    return (left + right)[1 : width + 1].as_signed()


def inverted(value: Value, sign: Value) -> Value:
    """All bits of a signed value, inverted where `sign` is 1."""
    return (value.as_unsigned() ^ sign.replicate(len(value))).as_signed()


def shift_round(value: Value, shift: int, rounding: Rounding) -> Value:
    """A signed value divided by ``2**shift`` and rounded; a negative shift multiplies.

    NEAREST is ``floor(x + 1/2)``: the kept bits plus the highest dropped one.
    """
    width = value.shape().width
    if shift <= 0:
        return Cat(C(0, -shift), value).as_signed()
    # A value shifted by its whole width or more leaves copies of the sign.
    floored = value[min(shift, width - 1) :].as_signed()
    if rounding is Rounding.FLOOR:
        return floored
    half = value[min(shift, width) - 1]
    return floored + half


def limit(value: Value, width: int, overflow: Overflow) -> tuple[Value, Value]:
    """A signed value brought to `width` bits, and whether that changed it."""
    if value.shape().width <= width:
        return value, C(0, 1)
    # It fits when every bit from the result's sign upwards is the same.
    top = value[width - 1 :]
    changed = top.any() & ~top.all()
    if overflow is Overflow.WRAP:
        return value[:width].as_signed(), changed
    sign = value[-1]
    end = Cat((~sign).replicate(width - 1), sign)
    return Mux(changed, end, value[:width]).as_signed(), changed
