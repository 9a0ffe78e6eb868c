"""Binding: the unit of each operation, and the registers of each value.

A result is in its unit's output register for one cycle. A value that is read later has a chain of
registers, all loaded in the value's slot: stage k holds it in the cycles ``ready + 1 + k ii`` to
``ready + (k + 1) ii``. (This had the smallest area and the fastest synthesis, compared with delay
lines with taps and copies in LUT RAM; docs/adr has the figures. A stage without a tap becomes part
of a shift-register primitive.)
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from pinion.graph import Graph, names
from pinion.graph.evaluate import formats
from pinion.graph.stream import initial_integer

from .modulo import Schedule


@dataclass(frozen=True)
class Read:
    """Read of a value by a port: the cycle, and the register stage (-1 for the unit's output)."""

    node: int
    cycle: int
    stage: int


@dataclass(frozen=True)
class OutputLane:
    """Word of the result record, with the cycle in which it is read and its lane and beat.

    With `negated` the result is the negative of the node: its converter changes the sign.
    """

    name: str
    node: int
    lane: int
    beat: int
    cycle: int
    negated: bool = False


@dataclass(frozen=True)
class StateRegister:
    """First register of a word of state, and its next value.

    The register takes a value at the end of cycle ``arrival - 1``: the initial one for the first
    request after a reset, otherwise the next value from the previous request, if there was one.

    Members
    -------
    name : of the word.
    node : the word.
    following : node of the next value.
    arrival : first cycle in which the word is available.
    initial : integer of the initial value.
    """

    name: str
    node: int
    following: int
    arrival: int
    initial: int

    def taken(self, ii: int) -> int:
        """Return the cycle after the previous request's start in which the value is stored."""
        return self.arrival - 1 + ii


@dataclass(frozen=True)
class Binding:
    """Schedule with the unit of each operation, the registers of each value and the record layout.

    Members
    -------
    schedule : the cycles.
    unit : number of each operation's unit among those of its kind.
    stages : number of register stages of each stored value, by node.
    outputs : result words by lane and beat.
    inputs : words of a request.
    lanes_in, beats_in, lanes_out, beats_out : words per beat and beats per record at the edges.
    states : words of state.
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
    states: tuple[StateRegister, ...] = ()

    def stage(self, node: int, cycle: int) -> int:
        """Return the register stage that holds a value in a cycle; -1 for its unit's output."""
        return _stage(self.schedule, self.ready[node], cycle, node in self._words)

    @cached_property
    def _words(self) -> frozenset[int]:
        """Nodes that are stored but not computed by a unit: words of requests and of state."""
        return frozenset((*self.inputs, *self.schedule.arrivals))

    @cached_property
    def ready(self) -> dict[int, int]:
        """Cycle in which each value is available, by node; 0 for words of a request."""
        ready = {op.node: self.schedule.ready(i) for i, op in enumerate(self.schedule.operations)}
        ready.update(dict.fromkeys(self.inputs, 0))
        ready.update(self.schedule.arrivals)
        return ready

    def reads(self) -> Iterator[Read]:
        """Yield every read of a value by a port or a result lane, or for a next state."""
        ready, inputs, plan = self.ready, self._words, self.schedule
        for i, operation in enumerate(plan.operations):
            for operand in operation.operands:
                if operand.constant is None and not operand.unused:
                    node, cycle = operand.node, plan.start[i] + operand.offset
                    yield Read(node, cycle, _stage(plan, ready[node], cycle, node in inputs))
        for out in self.outputs:
            if out.node in ready:
                stage = _stage(plan, ready[out.node], out.cycle, out.node in inputs)
                yield Read(out.node, out.cycle, stage)
        for state in self.states:
            if (node := state.following) in ready:
                cycle = state.taken(plan.ii)
                yield Read(node, cycle, _stage(plan, ready[node], cycle, node in inputs))

    @property
    def registers(self) -> int:
        """Number of words stored in registers between units."""
        return sum(self.stages.values())


def _stage(plan: Schedule, ready: int, cycle: int, is_input: bool) -> int:
    if is_input:
        return (cycle - ready) // plan.ii
    return (cycle - ready - 1) // plan.ii if cycle > ready else -1


def bind(graph: Graph, plan: Schedule) -> Binding:
    """Bind a schedule's operations to units, values to registers and words to lanes."""
    words = graph.state_nodes()
    inputs = tuple(
        i for i, node in enumerate(graph.nodes) if node.op == names.INPUT and i not in words
    )
    fmts = formats(graph)
    states = tuple(
        StateRegister(
            str(state.word), i, state.node, plan.arrivals[i], initial_integer(state, fmts[i])
        )
        for i, state in words.items()
    )
    lanes_in, beats_in = lanes(len(inputs), plan.ii)
    lanes_out, beats_out = lanes(len(graph.outputs), plan.ii)
    ready = {op.node: plan.ready(i) for i, op in enumerate(plan.operations)}
    ready.update(dict.fromkeys(inputs, 0))
    ready.update(plan.arrivals)
    negated = graph.negated_results()
    results = [
        (name, graph.nodes[node].args[0] if node in negated else node, node in negated)
        for name, node in graph.outputs
    ]
    # The first beat leaves as early as all words allow.
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
    edges = (lanes_in, beats_in, lanes_out, beats_out)
    partial = Binding(plan, unit, {}, outputs, inputs, *edges, states)
    stages: dict[int, int] = dict.fromkeys((*inputs, *plan.arrivals), 1)
    for read in partial.reads():
        if read.stage >= 0:
            stages[read.node] = max(stages.get(read.node, 0), read.stage + 1)
    return Binding(plan, unit, stages, outputs, inputs, *edges, states)


def lanes(words: int, ii: int) -> tuple[int, int]:
    """Return the fewest lanes for a record in at most ``ii`` beats, and the number of beats."""
    lane_count = max(1, -(-words // ii))
    return lane_count, max(1, -(-words // lane_count))


def _assign(plan: Schedule) -> tuple[int, ...]:
    """Choose a unit for each operation, preferably one that already reads its operands."""
    unit = [-1] * len(plan.operations)
    kinds = {kind: k for k, kind in enumerate(plan.units)}
    by_slot: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i, operation in enumerate(plan.operations):
        by_slot[kinds[operation.kind], plan.start[i] % plan.ii].append(i)
    # Units of a kind that read a value at a port.
    readers: dict[tuple[int, int, int], set[int]] = defaultdict(set)
    for (kind, _), members in sorted(by_slot.items(), key=lambda item: (-len(item[1]), item[1])):
        occupied: set[int] = set()
        lowest = 0  # first unit that may be free
        for i in members:
            ports = {
                (kind, port, operand.node if operand.constant is None else -1)
                for port, operand in enumerate(plan.operations[i].operands)
                if not operand.unused
            }
            common = Counter(u for port in ports for u in readers[port] if u not in occupied)
            while lowest in occupied:
                lowest += 1
            best = max(common, key=lambda u: (common[u], -u), default=lowest)
            occupied.add(best)
            for port in ports:
                readers[port].add(best)
            unit[i] = best
    return tuple(unit)
