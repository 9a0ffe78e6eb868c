"""Units for short wires: the same schedule, legal, shorter, with consistent costs."""

from __future__ import annotations

from dataclasses import fields, replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinion.flow.targets import TARGETS, find_target
from pinion.formats import lower
from pinion.functions import named_function
from pinion.graph import Graph, Tracer
from pinion.graph.passes import fold
from pinion.hls import Binding, bind, check_binding, operations, schedule
from pinion.hls.schedule.floorplan import Floorplan, arrange_units
from tests.graph.helpers import Q16, TIMING, designed, graphs, model, offsets
from tests.support.builds import make_design


def places(binding: Binding) -> int:
    """Count the places that operand ports read from, independently."""
    plan = binding.schedule
    made_by = {op.node: i for i, op in enumerate(plan.operations)}
    sources = set()
    for i, operation in enumerate(plan.operations):
        ports = len(operation.operands)
        late = offsets(ports, plan.timing) if operation.kind.name == "dot" else [0] * ports
        for port, operand in enumerate(operation.operands):
            if operand.node < 0 and operation.kind.name == "dot":
                continue  # no addend
            place: tuple[object, ...] = ("constants",)
            if operand.constant is None:
                stage = binding.stage(operand.node, plan.start[i] + late[port])
                place = ("register", operand.node, stage, operand.shift)
                if stage < 0:
                    source = made_by[operand.node]
                    kind, unit = plan.operations[source].kind, binding.unit[source]
                    place = ("output", kind, unit, operand.shift)
            sources.add((operation.kind, binding.unit[i], port, place))
    return len(sources)


def shuffled(binding: Binding, seed: int = 0) -> Binding:
    """Return the binding with operations of one kind and slot shuffled over units."""
    plan, random = binding.schedule, Random(seed)
    groups: dict[tuple[object, int], list[int]] = {}
    for i, operation in enumerate(plan.operations):
        groups.setdefault((operation.kind, plan.start[i] % plan.ii), []).append(i)
    unit = list(binding.unit)
    for (kind, _), group in groups.items():
        for i, number in zip(
            group, random.sample(range(plan.units[kind]), len(group)), strict=True
        ):
            unit[i] = number
    return replace(binding, unit=tuple(unit))


@pytest.mark.parametrize(
    ("robot", "ii", "name"),
    [
        ("iiwa14", 8, "rnea"),
        pytest.param("iiwa14", 16, "minv", marks=pytest.mark.slow),
        pytest.param("hyq", 5, "rnea", marks=pytest.mark.slow),
    ],
)
def test_only_units_change_and_wires_get_shorter(robot: str, ii: int, name: str) -> None:
    core_design = designed(robot, ii, name=name)
    first = bind(core_design.fixed, core_design.binding.schedule)
    best = replace(first, unit=arrange_units(first))
    check_binding(core_design.fixed, best)
    same = [field.name for field in fields(Binding) if field.name != "unit"]
    assert all(getattr(best, member) == getattr(first, member) for member in same)
    assert best.unit != first.unit
    # From any start, not only a good one.
    mixed = shuffled(first)
    check_binding(core_design.fixed, mixed)
    again = replace(mixed, unit=arrange_units(mixed))
    assert max(places(best), places(again)) < min(places(first), places(mixed))


def test_the_same_binding_gives_the_same_units() -> None:
    binding = designed("chain_3", 4).binding
    assert arrange_units(binding) == arrange_units(binding) != arrange_units(binding, seed=1)


@pytest.mark.parametrize("ii", [1, 3, 8])
def test_the_books_are_right_after_many_moves(ii: int) -> None:
    binding = designed("iiwa14", ii).binding
    plan = Floorplan(binding)
    grid = sorted(zip(plan.x, plan.y, strict=True))
    before = sum(plan.length)
    for seed in range(3):
        plan.anneal(3000, seed)
        assert sorted(zip(plan.x, plan.y, strict=True)) == grid, "two units in one place"
        moved = replace(binding, unit=plan.units())
        fresh = Floorplan(moved)
        assert _used(plan) == _used(fresh)
        # An independent count, without the lanes of the results, which come last.
        units = _used(plan)[: -binding.lanes_out]
        assert sum(len(table) for ports in units for table in ports.values()) == places(moved)
        # The same units in the same places: the same wires.
        fresh.x, fresh.y = plan.x, plan.y
        lengths = [fresh._half_perimeter(word) for word in range(len(fresh.words))]
        assert lengths == plan.length
    assert sum(plan.length) < before


def _used(plan: Floorplan) -> list[dict[int, dict[object, int]]]:
    """Count the reads of each port, without unused ports."""
    return [{port: table for port, table in ports.items() if table} for ports in plan.ports]


def test_chains_that_share_nothing_come_apart() -> None:
    """Two chains of sums that were dealt out to units at random; the best is known."""
    tracer = Tracer()
    chains = [[tracer.input(f"{name}{k}") for k in range(9)] for name in "ab"]
    for name, words in zip("ab", chains, strict=True):
        total = words[0]
        for word in words[1:]:
            total = total + word
        tracer.output(f"sum_{name}", total)
    fixed = lower(tracer.finish(), Q16)
    plan = schedule(operations(fixed, TIMING), ii=8, timing=TIMING, effort=1)
    mixed = shuffled(bind(fixed, plan), seed=3)
    best = replace(mixed, unit=arrange_units(mixed))
    check_binding(fixed, best)
    # A chain on one adder: its port a reads the first word and its own output, port b 8 words.
    assert places(best) == 2 * (2 + 8) < places(mixed)


@settings(max_examples=40)
@given(graph=graphs(), ii=st.sampled_from([1, 2, 3, 7]))
def test_random_graphs_stay_legal(graph: Graph, ii: int) -> None:
    fixed = lower(fold(graph), Q16)
    plan = schedule(operations(fixed, TIMING), ii=ii, timing=TIMING, effort=1)
    binding = bind(fixed, plan)
    check_binding(fixed, replace(binding, unit=arrange_units(binding)))


def test_boards_with_little_wire_ask_for_it() -> None:
    assert {name for name in TARGETS if find_target(name).floorplan} == {"ulx3s", "ulx3s-spi"}
    short = make_design(
        model("two_link"), named_function("rnea"), ii=4, formats="auto18", target="ulx3s"
    )
    assert short.binding.unit == arrange_units(bind(short.fixed, short.binding.schedule))
