"""The checkers detect every kind of damage to a schedule or a binding."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest

from pinion.base.amounts import amount
from pinion.gateware.library import timing_for
from pinion.graph import Graph, Node
from pinion.graph.check import verify
from pinion.graph.evaluate import formats
from pinion.hls import (
    Binding,
    CheckError,
    Design,
    Operand,
    Operation,
    Schedule,
    bind,
    check_binding,
    check_schedule,
    operations,
    schedule,
)
from pinion.hls.schedule.check import check_operation
from tests.gateware.link.mutants import mutant
from tests.graph.helpers import Q16, auto_robot, designed, offsets

II = 3


@pytest.fixture(scope="module")
def core_design() -> Design:
    return designed("chain_3", II)


def moved(plan: Schedule, i: int, cycles: int) -> Schedule:
    start = list(plan.start)
    start[i] += cycles
    return replace(plan, start=tuple(start))


def unit_offsets(operation: Operation, plan: Schedule) -> list[int]:
    ports = len(operation.operands)
    return offsets(ports, plan.timing) if operation.kind.name == "dot" else [0] * ports


def test_what_the_flow_makes_passes(core_design: Design) -> None:
    check_schedule(core_design.fixed, core_design.binding.schedule)
    check_binding(core_design.fixed, core_design.binding)


def test_an_operation_before_its_operands_is_found(core_design: Design) -> None:
    plan = core_design.binding.schedule
    ready = {op.node: plan.ready(i) for i, op in enumerate(plan.operations)}
    cases = 0
    for i, operation in enumerate(plan.operations):
        late = unit_offsets(operation, plan)
        needs = max(
            ready.get(o.node, 0) - k
            for o, k in zip(operation.operands, late, strict=True)
            if o.constant is None and not o.unused
        )
        early = moved(plan, i, needs - plan.start[i] - 1)
        with pytest.raises(CheckError, match=rf"%{operation.node} starts in cycle .*, before its"):
            check_schedule(core_design.fixed, early)
        cases += 1
    assert cases == len(plan.operations)


def test_an_operation_in_a_full_slot_is_found(core_design: Design) -> None:
    plan = core_design.binding.schedule
    crowded = {
        kind: next(i for i, op in enumerate(plan.operations) if op.kind == kind)
        for kind in plan.units
    }
    for kind in crowded:
        fewer = replace(plan, units={**plan.units, kind: plan.units[kind] - 1})
        with pytest.raises(CheckError, match=rf"operations? of kind {kind.label}, which has"):
            check_schedule(core_design.fixed, fewer)


def test_an_operation_twice_or_never_is_found(core_design: Design) -> None:
    plan = core_design.binding.schedule
    twice = replace(
        plan,
        operations=(*plan.operations, plan.operations[-1]),
        start=(*plan.start, plan.start[-1]),
    )
    with pytest.raises(CheckError, match="is scheduled twice"):
        check_schedule(core_design.fixed, twice)
    result = core_design.fixed.outputs[-1][1]
    last = next(i for i, op in enumerate(plan.operations) if op.node == result)
    keep = [i for i in range(len(plan.operations)) if i != last]
    never = replace(
        plan,
        operations=tuple(plan.operations[i] for i in keep),
        start=tuple(plan.start[i] for i in keep),
    )
    with pytest.raises(CheckError, match=r"is never computed|before its operand"):
        check_schedule(core_design.fixed, never)


def test_a_wrong_end_is_found(core_design: Design) -> None:
    plan = core_design.binding.schedule
    with pytest.raises(CheckError, match=rf"ends in cycle {plan.length}, not {plan.length + 1}\."):
        check_schedule(core_design.fixed, replace(plan, length=plan.length + 1))


def test_two_operations_on_one_unit_in_one_slot_are_found(core_design: Design) -> None:
    binding = core_design.binding
    plan = binding.schedule
    cases = 0
    for i, operation in enumerate(plan.operations):
        for j in range(i):
            same_slot = (plan.start[i] - plan.start[j]) % II == 0
            if plan.operations[j].kind == operation.kind and same_slot:
                unit = list(binding.unit)
                unit[i] = unit[j]
                with pytest.raises(CheckError, match=r"share unit .*\[\d+\] in slot"):
                    check_binding(core_design.fixed, replace(binding, unit=tuple(unit)))
                cases += 1
    assert cases > 10


def test_a_unit_that_does_not_exist_is_found(core_design: Design) -> None:
    for number in (-1, 1000):
        unit = (number, *core_design.binding.unit[1:])
        with pytest.raises(CheckError, match="is bound to a unit that does not exist"):
            check_binding(core_design.fixed, replace(core_design.binding, unit=unit))


def test_a_missing_register_stage_is_found(core_design: Design) -> None:
    binding = core_design.binding
    for node, stages in binding.stages.items():
        short = replace(binding, stages={**binding.stages, node: stages - 1})
        if any(read.node == node and read.stage == stages - 1 for read in binding.reads()):
            with pytest.raises(CheckError, match=rf"%{node} "):
                check_binding(core_design.fixed, short)
    stored = [n for n in binding.stages if core_design.fixed.nodes[n].op != "input"]
    assert stored
    without = {n: s for n, s in binding.stages.items() if n != stored[0]}
    with pytest.raises(CheckError, match=rf"%{stored[0]} has no register stage \d"):
        check_binding(core_design.fixed, replace(binding, stages=without))


class _Shifted(Binding):
    """A binding whose reads of one node are one stage further."""

    node = -1

    def reads(self) -> Any:
        for read in super().reads():
            yield replace(read, stage=read.stage + 1) if read.node == self.node else read


def test_a_read_of_the_wrong_stage_is_found(core_design: Design) -> None:
    fields = {
        name: getattr(core_design.binding, name)
        for name in core_design.binding.__dataclass_fields__
    }
    nodes = sorted({read.node for read in core_design.binding.reads()})
    for node in nodes:
        wrong = _Shifted(**{**fields, "stages": {n: 99 for n in nodes}})
        object.__setattr__(wrong, "node", node)
        with pytest.raises(CheckError, match=rf"%{node} is read from"):
            check_binding(core_design.fixed, wrong)


class _Late(Binding):
    """A binding with one read in another cycle, from the same place."""

    number, cycle = -1, 0

    def reads(self) -> Any:
        for number, read in enumerate(super().reads()):
            yield replace(read, cycle=self.cycle) if number == self.number else read


def late(binding: Binding, number: int, cycle: int) -> Binding:
    fields = {name: getattr(binding, name) for name in binding.__dataclass_fields__}
    wrong = _Late(**fields)
    object.__setattr__(wrong, "number", number)
    object.__setattr__(wrong, "cycle", cycle)
    return wrong


def lives(core_design: Design) -> dict[str, tuple[int, int, int, int]]:
    """Return a read of each kind of place: number, node, and the cycles that hold the node."""
    inputs, ii = set(core_design.binding.inputs), core_design.binding.schedule.ii
    born = core_design.binding.ready
    spans: dict[str, tuple[int, int, int, int]] = {}
    for number, read in enumerate(core_design.binding.reads()):
        if read.node in inputs:
            kind, first, last = "input", ii * read.stage, ii * read.stage + ii - 1
        elif read.stage < 0:
            kind, first, last = "unit", born[read.node], born[read.node]
        else:
            first = born[read.node] + 1 + ii * read.stage
            kind, last = f"register {min(read.stage, 1)}", first + ii - 1
        spans.setdefault(kind, (number, read.node, first, last))
    return spans


@pytest.mark.parametrize("kind", ["input", "unit", "register 0", "register 1"])
def test_a_read_outside_of_a_values_life_is_found(core_design: Design, kind: str) -> None:
    """The first and last cycle in which a place holds a value, and one beyond each."""
    number, node, first, last = lives(core_design)[kind]
    for cycle in (first, last):
        check_binding(core_design.fixed, late(core_design.binding, number, cycle))
    for cycle in (first - 1, last + 1):
        with pytest.raises(CheckError, match=rf"%{node} is read from"):
            check_binding(core_design.fixed, late(core_design.binding, number, cycle))


LIVES = {
    "a register lives a cycle longer": (
        "read.cycle < first + plan.ii:",
        "read.cycle <= first + plan.ii:",
    ),
    "a register lives for ever": (" < first + plan.ii:", ":"),
    "a register begins a cycle early": ("+ 1 + read.stage * plan.ii", "+ read.stage * plan.ii"),
    "a result stays at its unit": ("if read.cycle != born[", "if read.cycle < born["),
}


@pytest.mark.parametrize("name", LIVES)
def test_a_checker_that_takes_other_lives_is_found(name: str, core_design: Design) -> None:
    broken = mutant(check_binding, *LIVES[name])
    wrong = []
    for number, _, first, last in lives(core_design).values():
        for cycle in (first - 1, first, last, last + 1):
            try:
                broken(core_design.fixed, late(core_design.binding, number, cycle))
                passed = True
            except AssertionError:
                passed = False
            wrong.append(passed != (first <= cycle <= last))
    assert any(wrong)


def test_another_graphs_outputs_are_found(core_design: Design) -> None:
    exact = next(i for i, n in enumerate(core_design.fixed.nodes) if n.op in ("mul", "dot"))
    graph = Graph(core_design.fixed.nodes, (*core_design.fixed.outputs, ("extra", exact)))
    with pytest.raises(CheckError, match=rf"The output 'extra' \(%{exact}\) is never computed"):
        check_schedule(graph, core_design.binding.schedule)


def damaged(plan: Schedule, i: int, **changes: Any) -> Schedule:
    operations = list(plan.operations)
    operations[i] = replace(operations[i], **changes)
    return replace(plan, operations=tuple(operations))


def test_a_wrong_operand_is_found(core_design: Design) -> None:
    plan = core_design.binding.schedule
    for i, operation in enumerate(plan.operations):
        first, *rest = operation.operands
        other = replace(first, node=first.node - 1) if first.node else replace(first, node=1)
        with pytest.raises(CheckError, match=rf"%{operation.node} reads \(.*\) in the schedule"):
            check_schedule(core_design.fixed, damaged(plan, i, operands=(other, *rest)))


def test_a_wrong_constant_is_found(core_design: Design) -> None:
    plan = core_design.binding.schedule
    cases = 0
    for i, operation in enumerate(plan.operations):
        for k, operand in enumerate(operation.operands):
            value = 7 if operand.constant is None else operand.constant + 1
            operands = list(operation.operands)
            operands[k] = replace(operand, constant=value)
            with pytest.raises(CheckError, match=rf"%{operation.node} .* constant {value};"):
                check_schedule(core_design.fixed, damaged(plan, i, operands=tuple(operands)))
            cases += operand.constant is not None
    assert cases > 10


@pytest.mark.parametrize("cycles", [-1, 1])
def test_a_port_that_is_read_in_another_cycle_is_found(core_design: Design, cycles: int) -> None:
    plan = core_design.binding.schedule
    cases = 0
    for i, operation in enumerate(plan.operations):
        for k, late in enumerate(unit_offsets(operation, plan)):
            wrong = other_port(plan, i, k, offset=late + cycles)
            message = (
                rf"Operand {k} of %{operation.node} is read {amount(late + cycles, 'cycle')} "
                rf"after the operation starts; the unit expects it after {late}\."
            )
            with pytest.raises(CheckError, match=message):
                check_schedule(core_design.fixed, wrong)
            cases += late > 0
    assert cases > 100


def test_a_wrong_control_bit_is_found(core_design: Design) -> None:
    """The sign of each product, with an addend also of the first, and the addend's bit."""
    plan = core_design.binding.schedule
    cases = 0
    for i, operation in enumerate(plan.operations):
        for k, bit in enumerate(operation.control):
            control = list(operation.control)
            control[k] = 1 - bit
            with pytest.raises(CheckError, match=rf"%{operation.node} .* has the control bits"):
                check_schedule(core_design.fixed, damaged(plan, i, control=tuple(control)))
            cases += operation.kind.adds
    assert cases > 50


def with_port_for_addends(core_design: Design) -> tuple[list[int], list[int]]:
    """Return operations with and without addend whose units have a port for it."""
    adding = [i for i, op in enumerate(core_design.binding.schedule.operations) if op.kind.adds]
    used, unused = [], []
    for i in adding:
        exact = core_design.fixed.nodes[core_design.binding.schedule.operations[i].node].args[0]
        (used if len(core_design.fixed.nodes[exact].args) % 2 else unused).append(i)
    assert len(used) > 5 and len(unused) > 5
    return used, unused


def test_an_addend_that_is_dropped_or_invented_is_found(core_design: Design) -> None:
    plan = core_design.binding.schedule
    used, unused = with_port_for_addends(core_design)
    for i in used:
        operation = plan.operations[i]
        assert not operation.operands[-1].unused
        message = rf"%{operation.node} reads "
        nothing = other_port(plan, i, -1, node=-1, constant=None, shift=0)
        silent = damaged(nothing, i, control=(*operation.control[:-1], 0))
        for wrong in (nothing, silent, other_port(plan, i, -1, node=-1, constant=0)):
            with pytest.raises(CheckError, match=message):
                check_schedule(core_design.fixed, wrong)
    for i in unused:
        operation = plan.operations[i]
        assert operation.operands[-1] == Operand(-1, None, offset=unit_offsets(operation, plan)[-1])
        message = rf"%{operation.node} reads "
        something = other_port(plan, i, -1, node=operation.operands[0].node)
        with pytest.raises(CheckError, match=message):
            check_schedule(core_design.fixed, something)
        with pytest.raises(CheckError, match=message):
            check_schedule(
                core_design.fixed, damaged(something, i, control=(*operation.control[:-1], 1))
            )


def test_an_operand_that_is_not_read_is_found(core_design: Design) -> None:
    """Only an addend may be missing, and only if the node has none."""
    plan = core_design.binding.schedule
    for i, operation in enumerate(plan.operations):
        for k in range(len(operation.operands) - operation.kind.adds):
            missing = other_port(plan, i, k, node=-1, constant=None)
            with pytest.raises(CheckError, match=rf"%{operation.node} "):
                check_schedule(core_design.fixed, missing)


def test_an_addend_before_it_is_there_is_found(core_design: Design) -> None:
    """An addend that is read too early, though it is ready for later products."""
    plan = core_design.binding.schedule
    ready = {op.node: plan.ready(i) for i, op in enumerate(plan.operations)}
    used, _ = with_port_for_addends(core_design)
    cases = 0
    for i in used:
        operation = plan.operations[i]
        late = unit_offsets(operation, plan)
        for j, other in enumerate(plan.operations):
            # Another value of the same format, a cycle too late as the addend.
            node = plan.operations[j].node
            if ready[node] == plan.start[i] + late[-1] + 1 and other.kind.name in ("dot", "add"):
                exact = core_design.fixed.nodes[operation.node].args[0]
                args = (*core_design.fixed.nodes[exact].args[:-1], node)
                nodes = list(core_design.fixed.nodes)
                nodes[exact] = replace(nodes[exact], args=args)
                graph = Graph(tuple(nodes), core_design.fixed.outputs)
                wrong = other_port(plan, i, -1, node=node)
                if node < exact:
                    with pytest.raises(CheckError, match=r"starts in cycle .*, before its operand"):
                        check_schedule(graph, wrong)
                    cases += 1
                break
    assert cases > 3


def test_an_addend_at_another_binary_point_is_found(shifting: tuple[Graph, Schedule]) -> None:
    """The unit adds it at the binary point of the result, whatever the graph has."""
    fixed, plan = shifting
    cases = 0
    for i, operation in enumerate(plan.operations):
        exact = fixed.nodes[operation.node]
        exact = fixed.nodes[exact.args[0]] if exact.op == "quantize" else exact
        if exact.op != "dot" or len(exact.args) % 2 == 0:
            continue
        port, source = fixed.nodes[exact.args[-1]], operation.operands[-1]
        if port.op != "quantize" or source.node == exact.args[-1] or source.constant is not None:
            continue
        nodes = list(fixed.nodes)
        width, frac, *rest = port.params
        nodes[exact.args[-1]] = replace(port, params=(width, int(frac) - 1, *rest))
        wrong = other_port(plan, i, -1, shift=source.shift + 1)
        with pytest.raises(CheckError, match=rf"%{operation.node} adds"):
            check_operation(
                Graph(tuple(nodes), fixed.outputs),
                formats(Graph(tuple(nodes), fixed.outputs)),
                wrong.operations[i],
                plan.timing,
            )
        cases += 1
    assert cases


def test_a_wrong_latency_is_found(core_design: Design) -> None:
    plan = core_design.binding.schedule
    for i, operation in enumerate(plan.operations):
        with pytest.raises(CheckError, match=rf"%{operation.node} is scheduled with a latency"):
            check_schedule(core_design.fixed, damaged(plan, i, latency=operation.latency - 1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lane": 1}, "Word 1 of the result"),
        ({"beat": 0}, "Word 1 of the result"),
        ({"name": "x"}, "Word 1 of the result"),
        ({"node": 0}, "Word 1 of the result"),
        ({"cycle": 10_000}, r"leaves in cycle 10000, not \d+"),
    ],
)
def test_a_misplaced_result_word_is_found(
    core_design: Design, changes: dict[str, Any], message: str
) -> None:
    outputs = list(core_design.binding.outputs)
    outputs[1] = replace(outputs[1], **changes)
    with pytest.raises(CheckError, match=message):
        check_binding(core_design.fixed, replace(core_design.binding, outputs=tuple(outputs)))


# -- ports of per-signal formats -------------------------------------------------------------------


@pytest.fixture(scope="module")
def shifting() -> tuple[Graph, Schedule]:
    """Formats by signal, with narrow and with wide products: ports that shift, some narrower."""
    real, auto = auto_robot("two_link", "rnea_derivatives", II)
    products = [i for i, node in enumerate(real.nodes) if node.op in ("mul", "dot")]
    fixed = auto.lower(real, frozenset(products[::5]))
    timing = timing_for(auto)
    return fixed, schedule(operations(fixed, timing), ii=II, timing=timing, effort=1)


def other_port(plan: Schedule, i: int, k: int, **changes: Any) -> Schedule:
    operands = list(plan.operations[i].operands)
    operands[k] = replace(operands[k], **changes)
    return damaged(plan, i, operands=tuple(operands))


def test_ports_that_shift_pass(shifting: tuple[Graph, Schedule]) -> None:
    check_schedule(*shifting)
    check_binding(shifting[0], bind(*shifting))


@pytest.mark.parametrize("off", [-1, 1])
def test_a_wrong_shift_is_found(shifting: tuple[Graph, Schedule], off: int) -> None:
    fixed, plan = shifting
    cases, shifted = 0, 0
    for i, operation in enumerate(plan.operations):
        for k, operand in enumerate(operation.operands):
            if operand.constant is None and not operand.unused:
                wrong = other_port(plan, i, k, shift=operand.shift + off)
                message = rf"%{operation.node} reads %{operand.node} shifted by "
                with pytest.raises(CheckError, match=message + str(operand.shift + off)):
                    check_schedule(fixed, wrong)
                cases += 1
                shifted += operand.shift != 0
    assert cases > 50 and shifted > 20


def test_a_port_that_is_not_checked_is_found(shifting: tuple[Graph, Schedule]) -> None:
    fixed, plan = shifting
    cases = 0
    for i, operation in enumerate(plan.operations):
        for k, operand in enumerate(operation.operands):
            if operand.narrows:
                silent = other_port(plan, i, k, narrows=False)
                message = (
                    rf"%{operation.node} reads %{operand.node} shifted by .* without an overflow "
                    "check"
                )
                with pytest.raises(CheckError, match=message):
                    check_schedule(fixed, silent)
                cases += 1
    assert cases > 0


def test_ports_of_another_width_are_found(shifting: tuple[Graph, Schedule]) -> None:
    fixed, plan = shifting
    cases = 0
    for i, operation in enumerate(plan.operations):
        read = [operand.node >= 0 for operand in operation.operands]
        negation = operation.kind.name == "add" and not all(read)
        if operation.kind.name not in ("dot", "add") or negation:
            continue
        for k, width in enumerate(operation.kind.widths[: sum(read)]):
            for other in ({18: 27, 27: 18}[width], width + 1):
                widths = list(operation.kind.widths)
                widths[k] = other
                kind = replace(operation.kind, widths=tuple(widths))
                units = {**plan.units, kind: len(plan.operations)}
                wrong = replace(damaged(plan, i, kind=kind), units=units)
                message = rf"%{operation.node} reads words of \(.*\) bits, but its unit's ports"
                with pytest.raises(CheckError, match=message):
                    check_schedule(fixed, wrong)
                cases += 1
    assert cases > 50


def test_another_reader_of_the_same_value_is_not_enough(
    shifting: tuple[Graph, Schedule],
) -> None:
    """The node of a port's format instead of its value: no unit computes it."""
    fixed, plan = shifting
    cases = 0
    for i, operation in enumerate(plan.operations):
        exact = fixed.nodes[operation.node]
        args = fixed.nodes[exact.args[0]].args if exact.op == "quantize" else exact.args
        for k, operand in enumerate(operation.operands):
            if operand.constant is None and len(args) > k and args[k] != operand.node:
                with pytest.raises(CheckError, match=rf"%{operation.node} "):
                    check_schedule(fixed, other_port(plan, i, k, node=args[k]))
                cases += 1
    assert cases > 20


@pytest.mark.parametrize(
    "changes",
    [{"shift": 18}, {"width": 26}, {"rounding": "nearest"}, {"overflow": "saturate"}],
    ids=str,
)
@pytest.mark.parametrize("unit", ["dot", "add"])
def test_a_unit_that_rounds_otherwise_is_found(
    shifting: tuple[Graph, Schedule], unit: str, changes: dict[str, Any]
) -> None:
    fixed, plan = shifting
    i = next(i for i, op in enumerate(plan.operations) if op.kind.name == unit)
    kind = replace(plan.operations[i].kind, **changes)
    wrong = replace(damaged(plan, i, kind=kind), units={**plan.units, kind: 1})
    with pytest.raises(CheckError, match=rf"%{plan.operations[i].node} "):
        check_schedule(fixed, wrong)


@pytest.mark.parametrize(
    "changes", [{"parameters": (-101, 200)}, {"parameters": (-100, 201)}, {"width": 15}], ids=str
)
def test_a_clamp_to_other_ends_is_found(changes: dict[str, Any]) -> None:
    x = Node("input", (), ("x", 16, 8))
    fixed = verify(Graph((x, Node("clamp", (0,), (-0.39, 0.78, 16, 8))), (("y", 1),)))
    plan = schedule(operations(fixed, timing_for(Q16)), ii=2, timing=timing_for(Q16))
    kind = plan.operations[0].kind
    assert kind.parameters == (-100, 200) and kind.label == "clamp"
    check_schedule(fixed, plan)
    check_binding(fixed, bind(fixed, plan))
    wrong = replace(kind, **changes)
    with pytest.raises(CheckError, match=r"%1 \(clamp\)"):
        check_schedule(fixed, replace(damaged(plan, 0, kind=wrong), units={wrong: 1}))


def test_the_formats_of_a_graph_are_derived_once(
    shifting: tuple[Graph, Schedule], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def counted(graph: Graph) -> Any:
        calls.append(graph)
        return formats(graph)

    monkeypatch.setattr(sys.modules[check_schedule.__module__], "formats", counted)
    check_schedule(*shifting)
    assert 1 <= len(calls) <= 2
