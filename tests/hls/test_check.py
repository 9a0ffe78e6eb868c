"""The checkers bite: every kind of damage to a schedule or a binding is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pinion.hls import (
    Binding,
    CheckError,
    Design,
    Graph,
    Schedule,
    check_binding,
    check_schedule,
)
from tests.hls.helpers import designed

II = 3


@pytest.fixture(scope="module")
def made() -> Design:
    return designed("chain_3", II)


def moved(plan: Schedule, i: int, cycles: int) -> Schedule:
    start = list(plan.start)
    start[i] += cycles
    return replace(plan, start=tuple(start))


def test_what_the_flow_makes_passes(made: Design) -> None:
    check_schedule(made.fixed, made.binding.schedule)
    check_binding(made.fixed, made.binding)


def test_an_operation_before_its_operands_is_found(made: Design) -> None:
    plan = made.binding.schedule
    ready = {op.node: plan.ready(i) for i, op in enumerate(plan.operations)}
    tried = 0
    for i, operation in enumerate(plan.operations):
        needs = max(ready.get(o.node, 0) for o in operation.operands if o.constant is None)
        early = moved(plan, i, needs - plan.start[i] - 1)
        with pytest.raises(CheckError, match=rf"%{operation.node} starts in cycle .*, before its"):
            check_schedule(made.fixed, early)
        tried += 1
    assert tried == len(plan.operations)


def test_an_operation_in_a_full_slot_is_found(made: Design) -> None:
    plan = made.binding.schedule
    crowded = {
        kind: next(i for i, op in enumerate(plan.operations) if op.kind == kind)
        for kind in plan.units
    }
    for kind in crowded:
        fewer = replace(plan, units={**plan.units, kind: plan.units[kind] - 1})
        with pytest.raises(CheckError, match=rf"operations of kind {kind.label}, which has"):
            check_schedule(made.fixed, fewer)


def test_an_operation_twice_or_never_is_found(made: Design) -> None:
    plan = made.binding.schedule
    twice = replace(
        plan,
        operations=(*plan.operations, plan.operations[-1]),
        start=(*plan.start, plan.start[-1]),
    )
    with pytest.raises(CheckError, match="is scheduled twice"):
        check_schedule(made.fixed, twice)
    result = made.fixed.outputs[-1][1]
    last = next(i for i, op in enumerate(plan.operations) if op.node == result)
    keep = [i for i in range(len(plan.operations)) if i != last]
    never = replace(
        plan,
        operations=tuple(plan.operations[i] for i in keep),
        start=tuple(plan.start[i] for i in keep),
    )
    with pytest.raises(CheckError, match=r"is never computed|before its operand"):
        check_schedule(made.fixed, never)


def test_a_wrong_end_is_found(made: Design) -> None:
    plan = made.binding.schedule
    with pytest.raises(CheckError, match=rf"ends in cycle {plan.length}, not {plan.length + 1}\."):
        check_schedule(made.fixed, replace(plan, length=plan.length + 1))


def test_two_operations_on_one_unit_in_one_slot_are_found(made: Design) -> None:
    binding = made.binding
    plan = binding.schedule
    tried = 0
    for i, operation in enumerate(plan.operations):
        for j in range(i):
            same_slot = (plan.start[i] - plan.start[j]) % II == 0
            if plan.operations[j].kind == operation.kind and same_slot:
                unit = list(binding.unit)
                unit[i] = unit[j]
                with pytest.raises(CheckError, match=r"share unit .*\[\d+\] in slot"):
                    check_binding(made.fixed, replace(binding, unit=tuple(unit)))
                tried += 1
    assert tried > 10


def test_a_unit_that_does_not_exist_is_found(made: Design) -> None:
    for number in (-1, 1000):
        unit = (number, *made.binding.unit[1:])
        with pytest.raises(CheckError, match="is bound to a unit that does not exist"):
            check_binding(made.fixed, replace(made.binding, unit=unit))


def test_a_missing_register_stage_is_found(made: Design) -> None:
    binding = made.binding
    for node, stages in binding.stages.items():
        short = replace(binding, stages={**binding.stages, node: stages - 1})
        if any(read.node == node and read.stage == stages - 1 for read in binding.reads()):
            with pytest.raises(CheckError, match=rf"%{node} "):
                check_binding(made.fixed, short)
    stored = [n for n in binding.stages if made.fixed.nodes[n].op != "input"]
    assert stored
    without = {n: s for n, s in binding.stages.items() if n != stored[0]}
    with pytest.raises(CheckError, match=rf"%{stored[0]} has no register stage \d"):
        check_binding(made.fixed, replace(binding, stages=without))


class _Shifted(Binding):
    """A binding whose reads of one node look one stage further."""

    node = -1

    def reads(self) -> Any:
        for read in super().reads():
            yield replace(read, stage=read.stage + 1) if read.node == self.node else read


def test_a_read_of_the_wrong_stage_is_found(made: Design) -> None:
    fields = {name: getattr(made.binding, name) for name in made.binding.__dataclass_fields__}
    nodes = sorted({read.node for read in made.binding.reads()})
    for node in nodes:
        wrong = _Shifted(**{**fields, "stages": {n: 99 for n in nodes}})
        object.__setattr__(wrong, "node", node)
        with pytest.raises(CheckError, match=rf"%{node} is read from"):
            check_binding(made.fixed, wrong)


def test_another_graphs_outputs_are_found(made: Design) -> None:
    exact = next(i for i, n in enumerate(made.fixed.nodes) if n.op in ("mul", "dot"))
    graph = Graph(made.fixed.nodes, (*made.fixed.outputs, ("extra", exact)))
    with pytest.raises(CheckError, match=rf"The output 'extra' \(%{exact}\) is never computed"):
        check_schedule(graph, made.binding.schedule)


def damaged(plan: Schedule, i: int, **changes: Any) -> Schedule:
    operations = list(plan.operations)
    operations[i] = replace(operations[i], **changes)
    return replace(plan, operations=tuple(operations))


def test_a_wrong_operand_is_found(made: Design) -> None:
    plan = made.binding.schedule
    for i, operation in enumerate(plan.operations):
        first, *rest = operation.operands
        other = replace(first, node=first.node - 1) if first.node else replace(first, node=1)
        with pytest.raises(CheckError, match=rf"%{operation.node} reads \(.*\) in the schedule"):
            check_schedule(made.fixed, damaged(plan, i, operands=(other, *rest)))


def test_a_wrong_constant_is_found(made: Design) -> None:
    plan = made.binding.schedule
    tried = 0
    for i, operation in enumerate(plan.operations):
        for k, operand in enumerate(operation.operands):
            value = 7 if operand.constant is None else operand.constant + 1
            operands = list(operation.operands)
            operands[k] = replace(operand, constant=value)
            with pytest.raises(CheckError, match=rf"%{operation.node} takes {value} for the"):
                check_schedule(made.fixed, damaged(plan, i, operands=tuple(operands)))
            tried += operand.constant is not None
    assert tried > 10


def test_a_wrong_latency_is_found(made: Design) -> None:
    plan = made.binding.schedule
    for i, operation in enumerate(plan.operations):
        with pytest.raises(CheckError, match=rf"%{operation.node} is scheduled with a latency"):
            check_schedule(made.fixed, damaged(plan, i, latency=operation.latency - 1))


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
    made: Design, changes: dict[str, Any], message: str
) -> None:
    outputs = list(made.binding.outputs)
    outputs[1] = replace(outputs[1], **changes)
    with pytest.raises(CheckError, match=message):
        check_binding(made.fixed, replace(made.binding, outputs=tuple(outputs)))
