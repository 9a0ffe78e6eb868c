"""The contract of every arithmetic unit, and the hardware that units share.

A unit runs freely: it has no enable and no reset, accepts a new set of operands every cycle, and
outputs the result `latency` cycles later. Its user keeps track of which cycle carries what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import C, Cat, ClockDomain, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from pinion.fixedpoint import Overflow, Rounding

from .component import Component

_TOP = "attribute \\top 1\n"

# Yosys reads the first name, Vivado both.
BLOCK_RAM = MappingProxyType({"ram_style": "block", "rom_style": "block"})
"""Attributes of a memory in block RAM."""


class Unit(Component):
    """Free-running arithmetic unit with one result per cycle.

    Ports are plain signals; their names, directions and shapes are the component's signature.
    For operands present in the cycle before clock edge 0, the result is output in the cycle after
    clock edge ``latency - 1``.

    Members
    -------
    (each unit documents its own)

    Latency: the attribute `latency`, at least 1.
    Throughput: one result per cycle.
    """

    latency: int
    """Clock edges from the operands at the ports to the result at the ports."""

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
        """Names of the input ports except the clock, in declaration order."""
        return self._inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the output ports, in declaration order."""
        return self._outputs

    def offset(self, port: str) -> int:
        """Return the cycle of an operation in which the unit reads an input port: here always 0."""
        return 0

    def to_rtlil(self, name: str) -> str:
        """Return the RTLIL of module `name`, and of submodules whose names start with it.

        The module's ports are ``clk``, `inputs` and `outputs`; no register is ever reset. The text
        has no source positions and no "top" attribute, so that equal units give equal text, and
        the text of several units can be concatenated. Instantiate it with
        ``Instance(name, i_clk=ClockSignal(), i_a=..., o_o=...)``.
        """
        text: str = rtlil.convert(
            self,
            name=name,
            emit_src=False,
            # A domain without a reset adds no reset port.
            missing_domain=lambda domain: ClockDomain(domain, reset_less=True),
        )
        return text.replace(_TOP, "")


def delay(m: Module, value: Value, cycles: int, name: str) -> Value:
    """Delay `value` by `cycles` clock edges, in registers ``name1``, ``name2``, ..."""
    for i in range(cycles):
        register = Signal(value.shape(), name=f"{name}{i + 1}", reset_less=True)
        m.d.sync += register.eq(value)
        value = register
    return value


def register_outputs(m: Module, unit: Unit, **values: Value) -> None:
    """Drive outputs of a unit, by name, from registers that load the given values."""
    registers = {
        name: Signal(getattr(unit, name).shape(), name=name, reset_less=True) for name in values
    }
    m.d.sync += [registers[name].eq(value) for name, value in values.items()]
    m.d.comb += [getattr(unit, name).eq(register) for name, register in registers.items()]


def read_memory(
    m: Module,
    index: Value,
    rows: Sequence[Sequence[int]],
    widths: Sequence[int],
    cycles: int,
    attributes: Mapping[str, str],
) -> Value:
    """Build a ROM; return row `index` after `cycles`, with the first column in the lowest bits.

    Parameters
    ----------
    cycles : at least 1, the memory's own register.
    attributes : of the memory.
    """
    packed = []
    for row in rows:
        value = 0
        for width, column in zip(reversed(widths), reversed(row), strict=True):
            value = value << width | column & ((1 << width) - 1)
        packed.append(value)
    m.submodules.table = table = Memory(
        shape=unsigned(sum(widths)), depth=len(rows), init=packed, attrs=dict(attributes)
    )
    port = table.read_port()
    m.d.comb += port.addr.eq(index)
    return delay(m, port.data, cycles - 1, "row")


def check_stages(**stages: int) -> None:
    """Raise ValueError if a number of pipeline stages, given by name, is below 1."""
    for name, count in stages.items():
        if count < 1:
            raise ValueError(f"{name} must be at least 1, not {count}.")


def look_up(rows: Sequence[int], width: int, index: Value) -> Value:
    """Return the lowest `width` bits of ``rows[index]``, a small table as logic, not as a memory.

    Rows past the last are 0.
    """
    columns = (sum((row >> bit & 1) << k for k, row in enumerate(rows)) for bit in range(width))
    return Cat((C(column, len(rows)) >> index)[0] for column in columns)


def add_sub(m: Module, a: Value, b: Value, sub: Value, name: str) -> Value:
    """Return ``a - b`` if `sub` is 1, otherwise ``a + b``, one bit wider, by one carry chain.

    ``Mux(sub, a - b, a + b)`` would be two chains and a multiplexer unless the tool merges them.
    The extra low bit pair carries `sub` into the chain.
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
    """Invert all bits of a signed value if `sign` is 1."""
    return (value.as_unsigned() ^ sign.replicate(len(value))).as_signed()


def shift_round(value: Value, shift: int, rounding: Rounding) -> Value:
    """Divide a signed value by ``2**shift`` and round; a negative shift multiplies.

    NEAREST is ``floor(x + 1/2)``: the remaining bits plus the highest dropped bit.
    """
    width = value.shape().width
    if shift <= 0:
        return Cat(C(0, -shift), value).as_signed()
    # Shifting by the whole width or more leaves copies of the sign.
    floored = value[min(shift, width - 1) :].as_signed()
    if rounding is Rounding.FLOOR:
        return floored
    half = value[min(shift, width) - 1]
    return floored + half


def limit(value: Value, width: int, overflow: Overflow) -> tuple[Value, Value]:
    """Saturate or wrap a signed value to `width` bits; return it, and whether it changed."""
    if value.shape().width <= width:
        return value, C(0, 1)
    # It fits if all bits from the result's sign upwards are equal.
    top = value[width - 1 :]
    changed = top.any() & ~top.all()
    if overflow is Overflow.WRAP:
        return value[:width].as_signed(), changed
    sign = value[-1]
    end = Cat((~sign).replicate(width - 1), sign)
    return Mux(changed, end, value[:width]).as_signed(), changed
