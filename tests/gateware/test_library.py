"""The library of units: every kind has hardware with the latency that the schedule assumes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from amaranth.sim import Simulator

from pinion.fixedpoint import FormatError
from pinion.formats import FormatPlan
from pinion.gateware.library import (
    Selector,
    control_ports,
    make_unit,
    multiplier_count,
    operand_ports,
    timing_for,
)
from pinion.graph.ops import UNITS
from pinion.hls import Timing, UnitKind
from tests.gateware.cores import bound, rnea
from tests.graph.helpers import offsets
from tests.support.breadth import some

# A table from 0 to 1: bounds, step, degree, error, coefficients.
LINE = (0.0, 1.0, 0.0, 1.0, 0.0, 0.5, 1.0)
PLANS = ("q16.16", "q12.20", "q10.8", "q10.26")


def uniform_kinds(formats: str) -> list[UnitKind]:
    """Return every kind that a uniform plan uses, with dots of one to eight products."""
    fmt = FormatPlan.parse(formats).default
    quantized = ("nearest", "saturate")
    dots = [
        UnitKind("dot", n, (fmt.width,) * (2 * n), fmt.frac, fmt.width, *quantized)
        for n in (1, 2, 3, 4, 5, 8)
    ]
    adding = [replace(kind, widths=(*kind.widths, fmt.width)) for kind in dots]
    return [
        *dots,
        *adding,
        UnitKind("clamp", 0, (fmt.width,), 0, fmt.width, parameters=(-77, 300)),
        UnitKind("abs", 0, (fmt.width,), 0, fmt.width),
        UnitKind("minmax", 0, (fmt.width,) * 2, 0, fmt.width),
        UnitKind("less", 0, (fmt.width,) * 2, 0, fmt.width, parameters=(fmt.frac,)),
        UnitKind("select", 0, (fmt.width,) * 3, 0, fmt.width, parameters=(1 << fmt.frac - 1,)),
        UnitKind(
            "sqrt", 0, (fmt.width,), 0, fmt.width, parameters=(fmt.frac % 2, -(-fmt.frac // 2))
        ),
        UnitKind("arctan2", 0, (fmt.width,) * 2, 0, fmt.width, parameters=(fmt.frac,)),
        UnitKind("look_up", 0, (fmt.width,), 0, fmt.width, parameters=(fmt.frac, fmt.frac, *LINE)),
        UnitKind("hypot2", 0, (fmt.width,) * 2, 0, fmt.width, parameters=(fmt.frac,)),
        UnitKind("add", 0, (fmt.width,) * 2, 0, fmt.width, *quantized),
        UnitKind("align", 0, (fmt.width + 2,), 2, fmt.width, *quantized),
        UnitKind("sincos", 0, (fmt.width,), 0, fmt.width, parameters=(fmt.frac, fmt.frac)),
        UnitKind("reciprocal", 0, (fmt.width,), 0, fmt.width, parameters=(2 * fmt.frac, 0.0)),
    ]


@pytest.mark.parametrize("add", [1, 2])
@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("formats", some(PLANS, lambda formats: formats != "q10.26"))
def test_every_kind_has_the_latency_of_the_timing(formats: str, stages: int, add: int) -> None:
    timing = timing_for(FormatPlan.parse(formats), multiplier_stages=stages, add=add)
    for kind in uniform_kinds(formats):
        unit = make_unit(kind, timing)
        want = {
            "dot": timing.port + stages + kind.products + 1,
            "add": timing.add,
            "align": timing.align,
            **{name: timing.function(name) for name in UNITS},
        }[kind.name]
        assert unit.latency == want, kind.label
        assert unit.outputs == (("o", "ovf") if kind.saturates else ("o",))
        assert sorted(operand_ports(kind) + control_ports(kind)) == sorted(unit.inputs)
        assert len(operand_ports(kind)) == len(kind.widths)
        if kind.name == "dot":
            late = offsets(len(kind.widths), timing)
            assert [unit.offset(port) for port in operand_ports(kind)] == late
            # Signs are read with their products, and `add` with the addend.
            count = kind.products
            added = len(kind.widths) % 2
            signs = [*range(1 - added, count), *[stages - 1] * added]
            assert [unit.offset(port) for port in control_ports(kind)] == signs


def test_the_default_timing_is_that_of_q16_16() -> None:
    assert timing_for(FormatPlan.parse("q16.16")) == Timing()


def test_formats_too_fine_for_a_reciprocal_serve_functions_without_one() -> None:
    plan = FormatPlan.parse("q8.28")
    timing = timing_for(plan)
    *others, reciprocal = uniform_kinds("q8.28")
    for kind in others:
        assert make_unit(kind, timing).latency >= 1
    with pytest.raises(FormatError, match=r"have 56 fraction bits together; a reciprocal"):
        make_unit(reciprocal, timing)


def test_multipliers_are_counted() -> None:
    *dots, clamp, _, _, _, _, sqrt, angle, table, _, add, align, sincos, reciprocal = uniform_kinds(
        "q16.16"
    )
    assert [multiplier_count(kind) for kind in dots] == [1, 2, 3, 4, 5, 8] * 2
    assert multiplier_count(add) == multiplier_count(align) == multiplier_count(clamp) == 0
    assert multiplier_count(sqrt) == multiplier_count(angle) == 0
    assert multiplier_count(table) == 1  # of degree 1
    assert multiplier_count(sincos) > 0
    assert multiplier_count(reciprocal) == 3  # linear, quadratic, square of the remainder


def test_a_robots_operations_name_ports_that_exist() -> None:
    _, binding = bound(rnea("chain_3"), ii=4)
    for operation in binding.schedule.operations:
        assert len(operation.operands) == len(operand_ports(operation.kind))
        assert len(operation.control) == len(control_ports(operation.kind))
        assert set(operation.control) <= {0, 1}


DOT2, ADD, SINCOS, RECIPROCAL = (uniform_kinds("q16.16")[k] for k in (1, -4, -2, -1))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            replace(DOT2, name="divide"),
            r"No component implements operations of the kind 'divide'\.",
        ),
        (
            replace(DOT2, widths=(32, 32, 30, 32)),
            r"products of a dot unit must have the same operand widths, not \(32, 32, 3",
        ),
        (replace(ADD, shift=2), r"widths are \(32, 32\), and the result is shifted by 2\."),
        (replace(ADD, widths=(32, 30)), r"widths are \(32, 30\), and the result is shifted by 0"),
    ],
)
def test_a_kind_without_hardware_is_refused(kind: UnitKind, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_unit(kind, Timing())


def test_a_wrong_latency_is_refused() -> None:
    with pytest.raises(ValueError, match=r"sincos unit has a latency of \d+ cycles, but the sched"):
        make_unit(SINCOS, Timing(sincos=3))
    with pytest.raises(ValueError, match=r"reciprocal unit has a latency of \d+ cycles, but the "):
        make_unit(RECIPROCAL, Timing(reciprocal=3))


def test_a_wrong_offset_is_refused() -> None:
    class Early(Timing):
        def offset(self, op: str, operands: int, k: int, *, wide: bool = False) -> int:
            return 0

    assert make_unit(replace(DOT2, widths=(32,) * 5), Timing()).offset("c") == 1
    for widths, port in (((32,) * 4, "a1"), ((32,) * 5, "a1"), ((32,) * 3, "c")):
        kind = replace(DOT2, products=len(widths) // 2, widths=widths)
        message = rf"reads its port {port} after 1 cycle, but the schedule assumes 0\."
        with pytest.raises(ValueError, match=message):
            make_unit(kind, Early())


@pytest.mark.parametrize("inputs", [2, 3, 5, 8])
def test_a_selector_shows_the_input_of_that_number(inputs: int) -> None:
    unit = Selector(inputs=inputs, width=7)
    assert unit.latency == 0

    async def bench(ctx):  # type: ignore[no-untyped-def]
        for k in range(inputs):
            ctx.set(getattr(unit, f"i{k}"), 17 * k + 3)
        for k in range(inputs):
            ctx.set(unit.sel, k)
            await ctx.delay(1e-9)
            assert ctx.get(unit.o) == 17 * k + 3

    simulator = Simulator(unit)
    simulator.add_testbench(bench)
    simulator.run()


def test_a_selector_of_one_is_refused() -> None:
    with pytest.raises(ValueError, match=r"A selector needs at least 2 inputs, not 1\."):
        Selector(inputs=1, width=8)
