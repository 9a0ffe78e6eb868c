"""Estimate of a netlist's slowest paths in nanoseconds, without placement or routing.

Static timing analysis of a mapped netlist: every register, memory and clocked block starts and ends
paths; cells and nets between them take the delays of a table (:mod:`pinion.synthesis.delays`), nets
by their number of loads. Distances between cells are unknown without placement: the table's nets
are typical for their numbers of loads, and short and long ones bracket them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from pinion.base.arrays import Flags, Floats, Ints

from .arrivals import latest_arrivals
from .delays import SCALES, CellDelays, DelayTable, Inside, matches
from .netlist import Netlist, Rows
from .roles import PathEnd, path_end

NOTE = (
    "An estimate: delays of cells and of nets by their number of loads, from a table; nothing was "
    "placed or routed, and no vendor tool timed the design."
)

CLASSES = 10
"""Number of reported classes of paths, the slowest first."""


@dataclass(frozen=True, kw_only=True)
class PathStep:
    """Cell on a path, with its own delay and the delays of the wires in front of it.

    Members
    -------
    cell : its number.
    kind : its type.
    net_ns, wire_ns, cell_ns : delay of the net in front of it if its length is unknown, of wires of
        known length in front of it, and of the cell.
    loads : of the net; 0 without one.
    """

    cell: int
    kind: str
    net_ns: float
    wire_ns: float
    cell_ns: float
    loads: int


@dataclass(frozen=True, kw_only=True)
class Path:
    """Path between two clocked cells or ports.

    Members
    -------
    steps : the cell that starts it, those in between, the cell that ends it (its setup time).
    start, end : places of the first and the last cell in the design.
    endpoints : number of paths of its class that are slower than those of the next class that is
        not reported; each has another end.
    """

    steps: tuple[PathStep, ...]
    start: PathEnd
    end: PathEnd
    endpoints: int = 1

    @property
    def logic_ns(self) -> float:
        """Delay of the cells on the path [ns]."""
        return sum(step.cell_ns for step in self.steps)

    def ns(self, scale: float) -> float:
        """Return the delay of the path [ns], with a factor on nets of unknown length."""
        return self.logic_ns + sum(scale * step.net_ns + step.wire_ns for step in self.steps)

    @property
    def between(self) -> tuple[PathStep, ...]:
        """Logic of the path: steps without start and end, each cell once."""
        steps: dict[int, PathStep] = {}
        for step in self.steps[1:-1]:
            steps.setdefault(step.cell, step)
        return tuple(steps.values())


class TimingGraph:
    """Timing graph of a design: arcs, and the starts and ends of paths.

    Parameters
    ----------
    netlist : the design.
    table : delays of its family.
    ports : whether paths start and end at ports of the top module, as at registers.
    """

    def __init__(self, netlist: Netlist, table: DelayTable, *, ports: bool = True) -> None:
        self.netlist = netlist
        self.pins = netlist.pins
        self.table = table
        self.loads = np.bincount(netlist.loads.node, minlength=netlist.nodes)
        self._driver = np.full(netlist.nodes, -1, np.int64)
        self._driver[netlist.outputs.node] = netlist.outputs.pin
        self._inside()
        if ports:
            self._ports()
        self.net, self.wire = self._wires(self.arcs.node, self.arcs.pin)
        ends = self.captures
        self.last_net, self.last_wire = self._wires(ends.node, ends.pin, self._edge)
        self.last_net[ends.cell < 0] = table.net(self.loads[ends.node[ends.cell < 0]])
        self.last_net[self._bare] = 0.0
        self.last_wire[self._bare] = 0.0

    # -- registers inside blocks -----------------------------------------------------------------

    def _inside(self) -> None:
        """Set arcs, launches and captures; move registers into blocks where the table says so."""
        netlist = self.netlist
        self.arcs = Rows(node=netlist.source, cell=netlist.cell, pin=netlist.pin, ns=netlist.ns)
        self.target = netlist.target
        self.launches, self.captures = netlist.launches, netlist.captures
        # Captures at the edge of a block, and those inside, without a net in front.
        self._edge = np.zeros(len(self.captures.node), np.bool_)
        self._bare = self._edge.copy()
        for entry in {id(e): e for _, _, e in netlist.pins}.values():
            if entry.inside is not None:
                self._absorb(entry, entry.inside)
        self.absorbed = int(self._edge.sum() + self._bare.sum())

    def _absorb(self, entry: CellDelays, rule: Inside) -> None:
        """Move registers beside the DSP blocks of a table entry into those blocks."""
        netlist, captures, launches = self.netlist, self.captures, self.launches
        loads, outputs = netlist.loads, netlist.outputs
        matches = np.array([e is entry for _, _, e in netlist.pins] + [False])
        operand = matches & self._takes("", rule.inputs)
        product = matches & self._takes("", rule.outputs)
        data = self._takes(rule.registers, "D")
        state = self._takes(rule.registers, "Q")
        # Registers that take only a product, for all its bits or none.
        ends = np.zeros(netlist.nodes, np.bool_)
        ends[loads.node[data[loads.pin]]] = True
        ends &= self.loads == 1
        used = product[outputs.pin] & (self.loads[outputs.node] > 0)
        behind = _all_or_none(outputs, used, ends[outputs.node], netlist.nodes)
        last = behind[captures.node] & data[captures.pin]
        # Registers that feed only operands, except those behind a product.
        enters = operand[loads.pin]
        inner = np.bincount(loads.node[enters], minlength=netlist.nodes)
        absorbed = np.zeros(netlist.nodes, np.bool_)
        free = state[outputs.pin] & ~np.isin(outputs.cell, captures.cell[last])
        absorbed[outputs.node[free]] = True
        absorbed &= (inner == self.loads) & (inner > 0)
        front = _all_or_none(loads, enters, absorbed[loads.node], netlist.nodes)
        starts = front[launches.node] & state[launches.pin]
        first = np.isin(captures.cell, launches.cell[starts]) & data[captures.pin]
        # Paths end at the block's edge and start inside; those of the product start at its end.
        self._edge |= first
        self._bare |= last
        captures = _with_ns(captures, first, rule.input_setup)
        self.captures = _with_ns(captures, last, rule.output_setup)
        gone = front[self.arcs.node] & operand[self.arcs.pin]
        points = np.unique(np.stack([self.target[gone], self.arcs.cell[gone]]), axis=1)
        self.arcs, self.target = _take(self.arcs, ~gone), self.target[~gone]
        late = np.isin(launches.cell, captures.cell[last]) & state[launches.pin]
        launches = _take(_with_ns(launches, late, rule.output_launch), ~starts)
        self.launches = _more(launches, points[0], points[1], rule.input_launch)

    def _ports(self) -> None:
        """Let paths start and end at the design's ports, as if at registers outside it."""
        register, netlist = self.table.register, self.netlist
        self.launches = _more(self.launches, netlist.inputs, -1, register.launch[0][1])
        self.captures = _more(self.captures, netlist.results, -1, register.setup[0][1])
        more = np.zeros(len(netlist.results), np.bool_)
        self._edge = np.concatenate([self._edge, more])
        self._bare = np.concatenate([self._bare, more])

    # -- delays ----------------------------------------------------------------------------------

    def _wires(self, node: Ints, pin: Ints, plain: Flags | None = None) -> tuple[Floats, Floats]:
        """Return the delays [ns] of nets and of dedicated wires in front of pins; 0 at points.

        Parameters
        ----------
        plain : whether a net leads to a block, whatever pin the netlist has there.
        """
        net = self.table.net(self.loads[node])
        wire = np.zeros(len(node))
        near = np.zeros(len(node), np.bool_)
        free = pin >= 0 if plain is None else ~plain & (pin >= 0)
        for way in self.table.near:
            drives = np.array([kind.startswith(way.drivers) for kind, _, _ in self.pins] + [False])
            takes = self._takes(way.cells, way.ports)
            applies = drives[self._driver[node]] & takes[pin] & free & ~near
            if way.loads:
                applies &= self.loads[node] <= way.loads
            wire[applies] = way.ns
            near |= applies
        for more in self.table.far:
            wire[self._takes(more.cells, more.ports)[pin] & free & ~near] += more.ns
        net[near | (pin < 0)] = 0.0
        return net, wire

    def _takes(self, cells: str, ports: str) -> Flags:
        """Return a mask of the pin kinds that match these ports of these cells; False for -1."""
        return np.array(
            [kind.startswith(cells) and matches(port, 0, ports) for kind, port, _ in self.pins]
            + [False]
        )


class PathTiming:
    """Slowest paths of a design, for a given factor on estimated net delays.

    Parameters
    ----------
    graph : of the design.
    scale : factor on nets of unknown length.

    Raises
    ------
    pinion.synthesis.arrivals.CombinationalLoopError
        If cells form a loop.
    """

    def __init__(self, graph: TimingGraph, *, scale: float) -> None:
        self.graph = graph
        self.scale = scale
        start = np.full(graph.netlist.nodes, -np.inf)
        np.maximum.at(start, graph.launches.node, graph.launches.ns)
        self.arrival, self._by = latest_arrivals(
            graph.netlist,
            source=graph.arcs.node,
            target=graph.target,
            cell=graph.arcs.cell,
            delay=scale * graph.net + graph.wire + graph.arcs.ns,
            start=start,
        )

    # -- ends of paths ---------------------------------------------------------------------------

    @cached_property
    def _ends(self) -> tuple[Ints, Floats]:
        """Row numbers of the captures that paths reach, and the delays [ns], slowest first."""
        graph, captures = self.graph, self.graph.captures
        last = self.scale * graph.last_net + graph.last_wire + captures.ns
        delay = self.arrival[captures.node] + last
        order = np.argsort(-delay, kind="stable")
        order = order[np.isfinite(delay[order])]
        return order, delay[order]

    @property
    def worst_ns(self) -> float:
        """Delay of the slowest path [ns]; 0 without paths."""
        _, delay = self._ends
        return float(delay[0]) if len(delay) else 0.0

    @cached_property
    def _origin(self) -> Ints:
        """Start of the latest path to each node: the node itself, or an earlier one."""
        node = np.arange(self.graph.netlist.nodes)
        come = self._by >= 0
        node[come] = self.graph.arcs.node[self._by[come]]
        while True:
            further = node[node]
            if np.array_equal(further, node):
                return node
            node = further

    def paths(self, *, regions: Mapping[str, tuple[str, ...]], classes: int) -> list[Path]:
        """Return the slowest path of each of the slowest classes (pairs of start and end roles).

        Parameters
        ----------
        regions : of the function, by label of a unit (:func:`pinion.synthesis.roles.regions_of`).
        classes : number of classes.
        """
        order, _ = self._ends
        netlist, launches, captures = self.graph.netlist, self.graph.launches, self.graph.captures
        starter = np.full(netlist.nodes, -1, np.int64)
        latest = np.argsort(launches.ns, kind="stable")
        starter[launches.node[latest]] = latest
        groups: dict[tuple[str, str], list[int]] = {}

        @cache
        def place(cell: int, pin: int) -> PathEnd:
            port = netlist.pins[pin][1] if pin >= 0 else ""
            return path_end(netlist, cell, port=port, regions=regions)

        def ends(row: int) -> tuple[PathEnd, PathEnd]:
            first = int(starter[self._origin[captures.node[row]]])
            return (
                place(int(launches.cell[first]), -1),
                place(int(captures.cell[row]), int(captures.pin[row])),
            )

        for row in order.tolist():
            start, end = ends(row)
            groups.setdefault((start.role, end.role), []).append(row)
            if len(groups) > classes:
                break
        largest = list(groups.values())[:classes]
        return [self._path(rows[0], *ends(rows[0]), endpoints=len(rows)) for rows in largest]

    def _path(self, row: int, start: PathEnd, end: PathEnd, *, endpoints: int) -> Path:
        """Trace a path from its end back to its start."""
        graph, arcs, captures = self.graph, self.graph.arcs, self.graph.captures
        netlist, launches = graph.netlist, graph.launches

        def step(cell: int, net: float, wire: float, ns: float, loads: int) -> PathStep:
            kind = netlist.place(cell)[2] if cell >= 0 else "port"
            return PathStep(
                cell=cell, kind=kind, net_ns=net, wire_ns=wire, cell_ns=float(ns), loads=int(loads)
            )

        node = int(captures.node[row])
        net, wire = float(graph.last_net[row]), float(graph.last_wire[row])
        steps = [step(int(captures.cell[row]), net, wire, captures.ns[row], graph.loads[node])]
        while (arc := int(self._by[node])) >= 0:
            node = int(arcs.node[arc])
            loads = graph.loads[node] if arcs.pin[arc] >= 0 else 0
            net, wire = float(graph.net[arc]), float(graph.wire[arc])
            steps.append(step(int(arcs.cell[arc]), net, wire, arcs.ns[arc], loads))
        rows = np.flatnonzero(launches.node == node)
        first = int(rows[np.argmax(launches.ns[rows])])
        steps.append(step(int(launches.cell[first]), 0.0, 0.0, launches.ns[first], 0))
        return Path(steps=tuple(reversed(steps)), start=start, end=end, endpoints=endpoints)


def estimate_timing(
    netlist: Netlist,
    table: DelayTable,
    *,
    regions: Mapping[str, tuple[str, ...]],
    ports: bool = True,
) -> dict[str, Any]:
    """Estimate the clock and the slowest paths of a mapped netlist.

    Parameters
    ----------
    netlist : of the design, read with the same table.
    table : delays of its family.
    regions : of the function, by label of a unit (:func:`pinion.synthesis.roles.regions_of`); empty
        if unknown.
    ports : whether paths start and end at ports of the top module, as at registers.

    Returns
    -------
    ``table`` (its title), ``sources``, ``note``; ``ns`` and ``mhz`` of the slowest path by case of
    the nets (`SCALES`); ``registers_in_blocks``: flip-flops that count as part of DSP blocks;
    ``paths``: with typical nets the slowest of each class of paths, the slowest class first, so
    that the first is the critical path, as
    ``ns, logic_ns, nets_ns, levels, cells`` (levels by type), ``loads`` (the most of its nets),
    ``endpoints`` (of the class), ``from`` and ``to`` (see :class:`pinion.synthesis.roles.PathEnd`),
    and ``short_ns``, the same path with short nets.

    Raises
    ------
    pinion.synthesis.arrivals.CombinationalLoopError
        If cells form a loop.
    """
    graph = TimingGraph(netlist, table, ports=ports)
    cases = {case: PathTiming(graph, scale=table.scale[case]) for case in SCALES}
    worst = {case: timing.worst_ns for case, timing in cases.items()}
    paths = cases["typical"].paths(regions=regions, classes=CLASSES)
    return {
        "table": table.title,
        "sources": dict(table.sources),
        "note": NOTE,
        "ns": {case: round(ns, 3) for case, ns in worst.items()},
        "mhz": {case: round(1e3 / ns, 1) if ns else 0.0 for case, ns in worst.items()},
        "registers_in_blocks": graph.absorbed,
        "paths": [_as_data(path, table) for path in paths],
    }


def _as_data(path: Path, table: DelayTable) -> dict[str, Any]:
    typical = path.ns(table.scale["typical"])
    cells: dict[str, int] = {}
    for step in path.between:
        cells[step.kind] = cells.get(step.kind, 0) + 1
    return {
        "ns": round(typical, 3),
        "short_ns": round(path.ns(table.scale["short"]), 3),
        "logic_ns": round(path.logic_ns, 3),
        "nets_ns": round(typical - path.logic_ns, 3),
        "levels": len(path.between),
        "cells": cells,
        "loads": max(step.loads for step in path.steps),
        "endpoints": path.endpoints,
        "from": path.start.as_data(),
        "to": path.end.as_data(),
    }


# -- small tools ---------------------------------------------------------------------------------


def _all_or_none(rows: Rows, checked: Flags, good: Flags, nodes: int) -> Flags:
    """Return a mask of the nodes that occur only in ports (cell, pin) whose rows are all good."""
    nodes_kept = np.zeros(nodes, np.bool_)
    if not checked.any():
        return nodes_kept
    node, good = rows.node[checked], good[checked]
    keys = np.stack([rows.cell[checked], rows.pin[checked]])
    _, port = np.unique(keys, axis=1, return_inverse=True)
    port = port.reshape(-1)
    ports = int(port.max()) + 1
    while True:  # a node that drops out at one port drops out at the others
        whole = np.ones(ports, np.bool_)
        whole[port[~good]] = False
        bad = np.zeros(nodes, np.bool_)
        bad[node[~whole[port]]] = True
        if not (bad[node] & good).any():
            break
        good = good & ~bad[node]
    nodes_kept[node[good]] = True
    return nodes_kept


def _take(rows: Rows, mask: Flags) -> Rows:
    return Rows(node=rows.node[mask], cell=rows.cell[mask], pin=rows.pin[mask], ns=rows.ns[mask])


def _with_ns(rows: Rows, mask: Flags, ns: float) -> Rows:
    return Rows(node=rows.node, cell=rows.cell, pin=rows.pin, ns=np.where(mask, ns, rows.ns))


def _more(rows: Rows, node: Ints, cell: Ints | int, ns: float) -> Rows:
    count = len(node)
    return Rows(
        node=np.concatenate([rows.node, node]),
        cell=np.concatenate([rows.cell, np.broadcast_to(np.asarray(cell), count)]),
        pin=np.concatenate([rows.pin, np.full(count, -1)]),
        ns=np.concatenate([rows.ns, np.full(count, ns)]),
    )
