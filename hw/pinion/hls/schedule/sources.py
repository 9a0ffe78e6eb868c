"""Sources that the ports of a bound schedule read, and the cost of selecting and storing them.

Two reads of a port have one source if they name the same unit's output at the same shift, whichever
value is there; or the same register at the same shift; or any constant. A port needs a selector
with as many inputs as it has sources. Costs are estimates in lookup tables of six inputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pinion.graph import Graph
from pinion.graph.evaluate import formats

from .binding import Binding

# Cost in lookup tables of a flip-flop (there are two per table, and most cores have some to spare),
# and of a bit in a chain that is a shift register.
FLIP_FLOP, SHIFT_REGISTER = 0.1, 1.0
SHORTEST_SHIFT_REGISTER = 3

# Cost of each bit of each input after the first besides its tables, and the weight of both: a
# selector shrinks only at some numbers of inputs, but each input removed is a step towards one.
_EACH, _SMOOTH = 0.27, 0.5

CONSTANT = -1
"""Number of the value that stands for any constant."""

# A read that was moved: its number and its previous port, source and stage.
Moved = tuple[int, int, int, int]


def selector_tables(inputs: int) -> float:
    """Return the LUTs per bit of a selector in UltraScale+ slices, which have MUXF7 and MUXF8."""
    if inputs <= 2:
        return 0.5 * max(0, inputs - 1)
    if inputs <= 8:
        return 1.0 if inputs <= 4 else 2.0
    if inputs <= 16:
        return 3.0 if inputs <= 10 else 4.0
    groups, rest = divmod(inputs, 16)
    return (
        4.0 * groups
        + math.ceil(selector_tables(rest))
        + math.ceil(selector_tables(groups + (rest > 0)))
    )


@dataclass(frozen=True)
class Estimate:
    """Estimated cost of a binding's selectors and registers.

    Members
    -------
    inputs : of all selectors; a port with a single source counts as one.
    selectors : lookup tables of selectors.
    flip_flops : bits of registers that hold values.
    shift_registers : bits of chains without taps, a lookup table each.
    """

    inputs: int
    selectors: float
    flip_flops: int
    shift_registers: int

    @property
    def cost(self) -> float:
        """Total cost [LUTs]."""
        registers = FLIP_FLOP * self.flip_flops + SHIFT_REGISTER * self.shift_registers
        return self.selectors + registers


def estimate_sources(graph: Graph, binding: Binding) -> Estimate:
    """Estimate the selectors and registers of a binding, and their cost."""
    return Sources(graph, binding).estimate()


class Sources:
    """Operations with units and cycles, and the sources of every port with their costs.

    Units and ports are numbered consecutively, kind by kind; result lanes follow as ports, then
    registers of words of state. Values are operations, then words of a request and of state. A read
    is an operand of an operation or a word of the results.
    """

    def __init__(self, graph: Graph, binding: Binding) -> None:
        self.graph, self.binding = graph, binding
        self.plan = plan = binding.schedule
        self.ii = plan.ii
        operations = plan.operations
        self.count = count = len(operations)
        fmts = formats(graph)
        self.at = {op.node: i for i, op in enumerate(operations)}
        words = (*binding.inputs, *plan.arrivals)
        self.at.update({node: count + k for k, node in enumerate(words)})
        self.width = [fmts[op.node].width for op in operations]
        self.width += [fmts[node].width for node in words]
        self.units = [plan.units[op.kind] for op in operations]
        self.port_of: list[int] = []  # first port of a unit
        widths: list[int] = []  # of ports
        first: dict[object, int] = {}
        for kind, units in plan.units.items():
            first[kind] = len(self.port_of)
            for _ in range(units):
                self.port_of.append(len(widths))
                widths += kind.widths
        self.first = [first[op.kind] for op in operations]  # unit of an operation's kind
        self.unit = [f + u for f, u in zip(self.first, binding.unit, strict=True)]
        self.start = list(plan.start)
        self.latency = [op.latency for op in operations]
        self.ready = [plan.ready(i) for i in range(count)]
        self.ready += [plan.arrivals.get(node, 0) for node in words]
        self._list_reads(len(widths))
        lane = max((fmts[out.node].width for out in binding.outputs), default=0)
        self.widths = widths + [lane] * binding.lanes_out
        self.widths += [fmts[state.node].width for state in binding.states]
        self._open()

    def _list_reads(self, lanes: int) -> None:
        """Collect the reads: value, shift, reader, reader's port, and cycle after its start."""
        self.value: list[int] = []
        self.shift: list[int] = []
        self.reader: list[int] = []  # -1 for a lane, or a register of state
        self.port_in: list[int] = []
        self.offset: list[int] = []
        self.reads: list[list[int]] = [[] for _ in range(self.count)]
        self.readers: list[list[int]] = [[] for _ in self.width]
        for i, operation in enumerate(self.plan.operations):
            for port, operand in enumerate(operation.operands):
                if operand.unused:  # an addend, the last
                    continue
                value = CONSTANT if operand.constant is not None else self.at[operand.node]
                self.reads[i].append(self._read(value, operand.shift, i, port, operand.offset))
        for out in self.binding.outputs:
            self._read(self.at.get(out.node, CONSTANT), 0, -1, lanes + out.lane, out.cycle)
        ports = lanes + self.binding.lanes_out
        for k, state in enumerate(self.binding.states):
            following = self.at.get(state.following, CONSTANT)
            self._read(following, 0, -1, ports + k, state.taken(self.ii))

    def _read(self, value: int, shift: int, reader: int, port: int, offset: int) -> int:
        number = len(self.value)
        self.value.append(value)
        self.shift.append(shift + 512 if value >= 0 else 0)
        self.reader.append(reader)
        self.port_in.append(port)
        self.offset.append(offset)
        if value >= 0:
            self.readers[value].append(number)
        return number

    def _open(self) -> None:
        """Build the tables of sources and costs from the units and cycles of all operations."""
        most = self.ii + max(len(self.binding.outputs), 1) + 2
        price = [
            (1 - _SMOOTH) * selector_tables(k) + _SMOOTH * _EACH * max(0, k - 1)
            for k in range(most + 1)
        ]
        rise = [after - before for before, after in pairwise(price)]
        # Cost of one more source of a port, by the number it has.
        by_width = {width: [width * step for step in rise] for width in set(self.widths)}
        self.rise = [by_width[width] for width in self.widths]
        self.sources: list[dict[int, int]] = [{} for _ in self.widths]
        places = [self._place(read) for read in range(len(self.value))]
        self.port = [port for port, _, _ in places]
        self.source = [source for _, source, _ in places]
        self.stage = [stage for _, _, stage in places]
        for port, source, _ in places:
            uses = self.sources[port]
            uses[source] = uses.get(source, 0) + 1
        self._chains: dict[frozenset[int], float] = {}
        self.store = [self._storage(value) for value in range(len(self.width))]

    # -- costs ------------------------------------------------------------------------------------

    def _place(self, read: int) -> tuple[int, int, int]:
        """Return a read's port, the number of its source, and its register stage (-1 if none)."""
        i, value = self.reader[read], self.value[read]
        if i < 0:
            port, cycle = self.port_in[read], self.offset[read]
        else:
            port = self.port_of[self.unit[i]] + self.port_in[read]
            cycle = self.start[i] + self.offset[read]
        if value < 0:
            return port, 0, -1
        if value >= self.count:
            stage = (cycle - self.ready[value]) // self.ii
        else:
            waited = cycle - self.ready[value]
            if waited == 0:
                return port, -1 - (self.unit[value] * 1024 + self.shift[read]), -1
            stage = (waited - 1) // self.ii
        return port, ((value * 4096 + stage) * 1024 + self.shift[read]) + 1, stage

    def _storage(self, value: int) -> float:
        """Return the cost of the registers that hold a value for all stages that are read."""
        stage = self.stage
        taps = frozenset([stage[read] for read in self.readers[value]])
        cost = self._chains.get(taps)
        if cost is None:
            flip_flops, shift_registers = _chain(taps)
            cost = FLIP_FLOP * flip_flops + SHIFT_REGISTER * shift_registers
            self._chains[taps] = cost
        return cost * self.width[value]

    def estimate(self) -> Estimate:
        """Return the estimated cost of the current units and cycles."""
        chains = [
            (width, *_chain(frozenset(self.stage[read] for read in readers)))
            for width, readers in zip(self.width, self.readers, strict=True)
        ]
        return Estimate(
            inputs=sum(map(len, self.sources)),
            selectors=sum(
                width * selector_tables(len(uses))
                for width, uses in zip(self.widths, self.sources, strict=True)
            ),
            flip_flops=sum(width * flip_flops for width, flip_flops, _ in chains),
            shift_registers=sum(width * chain for width, _, chain in chains),
        )

    def follow(self, reads: Iterable[int], log: list[Moved]) -> float:
        """Update moved reads, log their previous sources, and return the increase in cost."""
        grown = 0.0
        for read in reads:
            port, source, stage = self._place(read)
            old_port, old = self.port[read], self.source[read]
            if port == old_port and source == old:
                continue
            log.append((read, old_port, old, self.stage[read]))
            uses = self.sources[old_port]
            times = uses[old]
            if times == 1:
                del uses[old]
                grown -= self.rise[old_port][len(uses)]
            else:
                uses[old] = times - 1
            uses = self.sources[port]
            if source in uses:
                uses[source] += 1
            else:
                grown += self.rise[port][len(uses)]
                uses[source] = 1
            self.port[read], self.source[read], self.stage[read] = port, source, stage
        return grown

    def undo(self, log: Sequence[Moved]) -> None:
        """Restore the previous sources of reads from a log."""
        for read, port, source, stage in reversed(log):
            uses = self.sources[self.port[read]]
            times = uses[self.source[read]]
            if times == 1:
                del uses[self.source[read]]
            else:
                uses[self.source[read]] = times - 1
            uses = self.sources[port]
            uses[source] = uses.get(source, 0) + 1
            self.port[read], self.source[read], self.stage[read] = port, source, stage

    def update(self, values: Iterable[int], log: list[tuple[int, float]]) -> float:
        """Update the costs of values' registers, and return the increase."""
        grown = 0.0
        for value in values:
            cost, old = self._storage(value), self.store[value]
            if cost != old:
                log.append((value, old))
                self.store[value] = cost
                grown += cost - old
        return grown


def _chain(taps: frozenset[int]) -> tuple[int, int]:
    """Return the flip-flops and shift registers per bit of a value read at these stages."""
    flip_flops = shift_registers = 0
    last = -1
    for stage in sorted(taps - {-1}):
        length, last = stage - last, stage
        if length < SHORTEST_SHIFT_REGISTER:
            flip_flops += length
        else:
            shift_registers += 1
    return flip_flops, shift_registers
