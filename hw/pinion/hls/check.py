"""The schedule's and the binding's checker: written apart from what it checks.

It recomputes every rule from the graph and the numbers in the schedule and shares no code with the
scheduler.
"""

from __future__ import annotations

from .binding import Binding
from .graph import Graph
from .schedule import Schedule


class CheckError(AssertionError):
    """A schedule or a binding breaks a rule; the message names the operations."""


def check_schedule(graph: Graph, plan: Schedule) -> None:
    """Every operation once, after its operands, with no unit kind used beyond its count."""
    ready: dict[int, int] = {}
    for i, node in enumerate(graph.nodes):
        if node.op in ("input", "const"):
            ready[i] = 0
    used: dict[tuple[object, int], int] = {}
    for operation, start in zip(plan.operations, plan.start, strict=True):
        for operand in operation.operands:
            if operand.constant is None and start < ready.get(operand.node, 1 << 60):
                raise CheckError(
                    f"%{operation.node} starts in cycle {start}, before its operand "
                    f"%{operand.node} is there."
                )
        if operation.node in ready:
            raise CheckError(f"%{operation.node} is scheduled twice.")
        ready[operation.node] = start + operation.latency
        slot = (operation.kind, start % plan.ii)
        used[slot] = used.get(slot, 0) + 1
        if used[slot] > plan.units[operation.kind]:
            raise CheckError(
                f"Slot {start % plan.ii} holds {used[slot]} operations of kind "
                f"{operation.kind.label}, which has {plan.units[operation.kind]} units."
            )
    for name, result in graph.outputs:
        if result not in ready:
            raise CheckError(f"The output '{name}' (%{result}) is never computed.")
    if ready and max(ready.values()) != plan.length:
        raise CheckError(f"The schedule ends in cycle {max(ready.values())}, not {plan.length}.")


def check_binding(graph: Graph, binding: Binding) -> None:
    """One operation a unit and slot, and every read finds the value it means.

    The registers are simulated symbolically: unit outputs and register chains hold (node, request)
    and every port of every operation must find its operand's node of its own request, with a new
    request every ``ii`` cycles.
    """
    plan = binding.schedule
    taken: dict[tuple[object, int, int], int] = {}
    for i, unit in enumerate(binding.unit):
        key = (plan.operations[i].kind, unit, plan.start[i] % plan.ii)
        if key in taken:
            raise CheckError(
                f"%{plan.operations[i].node} and %{taken[key]} share unit "
                f"{plan.operations[i].kind.label}[{unit}] in slot {key[2]}."
            )
        if not 0 <= unit < plan.units[plan.operations[i].kind]:
            raise CheckError(f"%{plan.operations[i].node} is bound to a unit that does not exist.")
        taken[key] = plan.operations[i].node
    born = {op.node: plan.ready(i) for i, op in enumerate(plan.operations)}
    inputs = {i for i, node in enumerate(graph.nodes) if node.op == "input"}
    for read in binding.reads():
        if read.node in inputs:
            # Loaded into stage 0 in the cycle before 0, moved on every ii cycles.
            holds = read.cycle // plan.ii
            if read.stage != holds or read.stage >= binding.stages.get(read.node, 0):
                raise CheckError(
                    f"%{read.node} is read from stage {read.stage} in cycle {read.cycle}, when "
                    f"stage {holds} holds it."
                )
        elif read.stage < 0:
            if read.cycle != born[read.node]:
                raise CheckError(
                    f"%{read.node} is read from its unit's output in cycle {read.cycle}, but "
                    f"stands there in cycle {born[read.node]} only."
                )
        else:
            first = born[read.node] + 1 + read.stage * plan.ii
            if not first <= read.cycle < first + plan.ii:
                raise CheckError(
                    f"%{read.node} is read from stage {read.stage} in cycle {read.cycle}; it "
                    f"stands there from {first} to {first + plan.ii - 1}."
                )
            if read.stage >= binding.stages.get(read.node, 0):
                raise CheckError(f"%{read.node} has no register stage {read.stage}.")
