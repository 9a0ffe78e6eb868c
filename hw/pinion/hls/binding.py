"""Binding: which unit does each operation, and which register holds each value.

Storage: a result stands in its unit's output register for one cycle. A value that is read later
has a chain of registers of its own, all loaded in the value's slot: stage k holds it in the cycles
``ready + 1 + k ii`` to ``ready + (k + 1) ii``. (Measured against delay lines with taps and LUT RAM
copies: the smallest area and the fastest synthesis; docs/adr has the figures. A stage that nobody
taps becomes part of a shift-register primitive.)
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from pinion.graph import Graph, names

from .schedule import Schedule


@dataclass(frozen=True)
class Read:
    """A port reads a value: in this cycle, from the unit's output (stage -1) or a register."""

    node: int
    cycle: int
    stage: int


@dataclass(frozen=True)
class OutputLane:
    """A word of the result record: read in this cycle by this lane.

    With `negated` the result is the negative of the node: its converter turns the sign.
    """

    name: str
    node: int
    lane: int
    beat: int
    cycle: int
    negated: bool = False


@dataclass(frozen=True)
class Binding:
    """Everything that the datapath needs.

    Members
    -------
    schedule : when.
    unit : number, among the units of its kind, of each operation's unit.
    stages : number of register stages of each stored value, by node.
    outputs : result words by lane and beat.
    lanes_in, beats_in, lanes_out, beats_out : words a beat and beats a record at the edges.
    """

    schedule: Schedule
    unit: tuple[int, ...]
    stages: dict[int, int]
    outputs: tuple[OutputLane, ...]
    inputs: tuple[int, ...]
    lanes_in: int
    beats_in: int
    lanes_out: int
    beats_out: int

    def stage(self, node: int, cycle: int) -> int:
        """Where a value stands in a cycle: -1 for its unit's output, else the register stage."""
        return _stage(self.schedule, self.ready[node], cycle, node in self.inputs)

    @cached_property
    def ready(self) -> dict[int, int]:
        """Cycle in which each value is there, by node; 0 for inputs."""
        ready = {op.node: self.schedule.ready(i) for i, op in enumerate(self.schedule.operations)}
        ready.update(dict.fromkeys(self.inputs, 0))
        return ready

    def reads(self) -> Iterator[Read]:
        """Every read of every port, constants left out."""
        ready, inputs, plan = self.ready, frozenset(self.inputs), self.schedule
        for i, operation in enumerate(plan.operations):
            for operand in operation.operands:
                if operand.constant is None and not operand.unused:
                    node, cycle = operand.node, plan.start[i] + operand.offset
                    yield Read(node, cycle, _stage(plan, ready[node], cycle, node in inputs))
        for out in self.outputs:
            if out.node in ready:
                stage = _stage(plan, ready[out.node], out.cycle, out.node in inputs)
                yield Read(out.node, out.cycle, stage)

    @property
    def registers(self) -> int:
        """Words of storage between units."""
        return sum(self.stages.values())


def _stage(plan: Schedule, ready: int, cycle: int, is_input: bool) -> int:
    if is_input:
        return cycle // plan.ii
    return (cycle - ready - 1) // plan.ii if cycle > ready else -1


def bind(graph: Graph, plan: Schedule) -> Binding:
    """Bind a schedule's operations to units, its values to registers, its words to lanes."""
    inputs = tuple(i for i, node in enumerate(graph.nodes) if node.op == names.INPUT)
    lanes_in, beats_in = lanes(len(inputs), plan.ii)
    lanes_out, beats_out = lanes(len(graph.outputs), plan.ii)
    ready = {op.node: plan.ready(i) for i, op in enumerate(plan.operations)}
    ready.update(dict.fromkeys(inputs, 0))
    negated = graph.negated_results()
    results = [
        (name, graph.nodes[node].args[0] if node in negated else node, node in negated)
        for name, node in graph.outputs
    ]
    # The first beat leaves as early as every word allows.
    first = max(
        (ready.get(node, 0) - w // lanes_out for w, (_, node, _) in enumerate(results)),
        default=0,
    )
    first = max(first, 0)
    outputs = tuple(
        OutputLane(name, node, w % lanes_out, w // lanes_out, first + w // lanes_out, negative)
        for w, (name, node, negative) in enumerate(results)
    )
    unit = _assign(plan)
    partial = Binding(plan, unit, {}, outputs, inputs, lanes_in, beats_in, lanes_out, beats_out)
    stages: dict[int, int] = dict.fromkeys(inputs, 1)
    for read in partial.reads():
        if read.stage >= 0:
            stages[read.node] = max(stages.get(read.node, 0), read.stage + 1)
    return Binding(plan, unit, stages, outputs, inputs, lanes_in, beats_in, lanes_out, beats_out)


def lanes(words: int, ii: int) -> tuple[int, int]:
    """Fewest lanes that carry a record within ``ii`` beats, and the beats they need."""
    lane_count = max(1, -(-words // ii))
    return lane_count, max(1, -(-words // lane_count))


def _assign(plan: Schedule) -> tuple[int, ...]:
    """Give each operation a unit of its kind, preferring one that already reads its operands."""
    unit = [-1] * len(plan.operations)
    kinds = {kind: k for k, kind in enumerate(plan.units)}
    by_slot: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i, operation in enumerate(plan.operations):
        by_slot[kinds[operation.kind], plan.start[i] % plan.ii].append(i)
    # Units of a kind that read a value at a port.
    seen: dict[tuple[int, int, int], set[int]] = defaultdict(set)
    for (kind, _), members in sorted(by_slot.items(), key=lambda item: (-len(item[1]), item[1])):
        taken: set[int] = set()
        lowest = 0  # unit that is open
        for i in members:
            ports = {
                (kind, port, operand.node if operand.constant is None else -1)
                for port, operand in enumerate(plan.operations[i].operands)
                if not operand.unused
            }
            common = Counter(u for port in ports for u in seen[port] if u not in taken)
            while lowest in taken:
                lowest += 1
            best = max(common, key=lambda u: (common[u], -u), default=lowest)
            taken.add(best)
            for port in ports:
                seen[port].add(best)
            unit[i] = best
    return tuple(unit)
