"""The contract of every unit besides its arithmetic; the bench finds broken units."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from amaranth.hdl import Module, signed

from pinion.fixedpoint.atan2 import Atan2
from pinion.fixedpoint.format import Format, Overflow, Rounding
from pinion.fixedpoint.piecewise import Piecewise
from pinion.fixedpoint.sincos import SinCos
from pinion.fixedpoint.sqrt import Sqrt
from pinion.fixedpoint.table import FixedTable
from pinion.gateware.add import AddUnit
from pinion.gateware.align import AlignUnit
from pinion.gateware.atan2 import Atan2Unit
from pinion.gateware.clamp import ClampUnit
from pinion.gateware.dot import DotUnit
from pinion.gateware.float32 import FixedToFloat, FloatToFixed
from pinion.gateware.sincos import SinCosUnit
from pinion.gateware.sqrt import SqrtUnit
from pinion.gateware.table import TableUnit
from pinion.gateware.unit import Unit, delay

Q16 = Format(32, 16)
SHORT = Format(10, 5)  # for units of as many stages as bits

LINE = Piecewise.fit(lambda x: 2.0 * x, -1.0, 1.0, error=1e-6)

UNITS: dict[str, Callable[[], Unit]] = {
    "dot3": lambda: DotUnit(
        products=3,
        width_a=27,
        width_b=18,
        shift=16,
        target=Q16,
        rounding=Rounding.NEAREST,
        overflow=Overflow.SATURATE,
    ),
    "dot2 and an addend": lambda: DotUnit(
        products=2,
        width_a=27,
        width_b=18,
        shift=17,
        target=Format(27, 0),
        rounding=Rounding.FLOOR,
        overflow=Overflow.WRAP,
        addend=27,
        rounded_ports=True,
        final_stage=False,
    ),
    "add": lambda: AddUnit(width=32, overflow=Overflow.SATURATE, latency=2),
    "align": lambda: AlignUnit(
        source=Q16, target=Format(27, 18), rounding=Rounding.FLOOR, overflow=Overflow.WRAP
    ),
    "clamp": lambda: ClampUnit(width=27, low=-1000, high=70000),
    "sincos": lambda: SinCosUnit(SinCos(source=Q16, target=Q16)),
    "sqrt": lambda: SqrtUnit(Sqrt(source=SHORT, target=SHORT)),
    "angle": lambda: Atan2Unit(Atan2(source=SHORT, target=SHORT)),
    "table": lambda: TableUnit(FixedTable(source=Q16, target=Q16, piecewise=LINE)),
    "float_to_fixed": lambda: FloatToFixed(target=Q16),
    "fixed_to_float": lambda: FixedToFloat(source=Q16),
}


@pytest.fixture(params=list(UNITS))
def make(request) -> Callable[[], Unit]:
    return UNITS[request.param]


def test_rtlil_has_the_ports_of_the_unit_and_a_clock(make):
    unit = make()
    text = unit.to_rtlil("the_name")
    modules = re.findall(r"^module \\(\S+)", text, flags=re.MULTILINE)
    assert modules[0] == "the_name" or "the_name" in modules
    assert all(name == "the_name" or name.startswith("the_name.") for name in modules)
    body = text[text.index("module \\the_name\n") :]
    body = body[: body.index("\nend\n")]  # without the modules inside it
    wires = re.findall(r"^  wire width (\d+) (input|output) \d+ +(?:signed )?\\(\S+)", body, re.M)
    widths = {name: getattr(unit, name).shape().width for name in (*unit.inputs, *unit.outputs)}
    directions = dict.fromkeys(unit.inputs, "input") | dict.fromkeys(unit.outputs, "output")
    expected = {(str(widths[name]), directions[name], name) for name in widths}
    assert set(wires) == expected | {("1", "input", "clk")}


def test_rtlil_is_reproducible_and_can_be_concatenated(make):
    unit = make()
    text = unit.to_rtlil("unit")
    assert text == unit.to_rtlil("unit")
    assert text == make().to_rtlil("unit")
    assert "\\top" not in text
    assert "\\src" not in text
    assert "/" not in re.sub(r'"[^"]*Amaranth[^"]*"', "", text)


def test_nothing_is_reset(make):
    assert "rst" not in make().to_rtlil("unit")


def test_ports_are_plain(make):
    unit = make()
    assert unit.latency >= 1
    for name in (*unit.inputs, *unit.outputs):
        assert "__" not in name
        assert re.fullmatch(r"[a-z]+\d*", name)


class Broken(Unit):
    """Negation with a selectable fault."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        super().__init__({"i": signed(8)}, {"o": signed(9)}, latency=2)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        value = delay(m, -self.i, {"early": 1, "late": 3}.get(self.fault, 2), "value")
        if self.fault != "unwritten":
            m.d.comb += self.o.eq(value)
        return m


@pytest.mark.parametrize("fault", ["unwritten", "early", "late"])
def test_bench_notices(check, fault):
    values = [(37 * n) % 256 - 128 for n in range(40)]
    rows, expected = [{"i": value} for value in values], [{"o": -value} for value in values]
    check(Broken("none"), rows, expected)
    with pytest.raises(AssertionError, match="Vector"):
        check(Broken(fault), rows, expected)
