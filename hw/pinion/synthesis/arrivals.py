"""Arrival times: the latest path to every node of a netlist, for given delays."""

from __future__ import annotations

import numpy as np

from pinion.base.arrays import Floats, Ints

from .netlist import Netlist


class CombinationalLoopError(RuntimeError):
    """Error for a combinational loop in a netlist; the message names a cell on it."""


def latest_arrivals(
    netlist: Netlist, *, source: Ints, target: Ints, cell: Ints, delay: Floats, start: Floats
) -> tuple[Floats, Ints]:
    """Return the latest arrival time at every node, and the arc that determines it.

    Parameters
    ----------
    netlist : the design.
    source, target, cell, delay : of each arc: its end nodes, cell and delay.
    start : start time by node; minus infinity without a start.

    Returns
    -------
    arrival : time of the last value by node; minus infinity if none arrives.
    by : arc of that value by node; -1 at a start.

    Raises
    ------
    CombinationalLoopError
        If arcs form a loop.
    """
    order = np.argsort(source, kind="stable")
    first = np.searchsorted(source[order], np.arange(netlist.nodes + 1))
    waiting = np.bincount(target, minlength=netlist.nodes)
    arrival = start.copy()
    ready = np.flatnonzero(waiting == 0)
    finished = len(ready)
    while len(ready):
        arcs = order[_ranges(first[ready], first[ready + 1])]
        ends = target[arcs]
        np.maximum.at(arrival, ends, arrival[source[arcs]] + delay[arcs])
        np.subtract.at(waiting, ends, 1)
        ends = np.unique(ends)
        ready = ends[waiting[ends] == 0]
        finished += len(ready)
    if finished < netlist.nodes:
        stuck = int(np.flatnonzero(waiting)[0])
        path, label, _ = netlist.place(int(cell[np.flatnonzero(target == stuck)[0]]))
        raise CombinationalLoopError(
            f"The netlist has a combinational loop through or upstream of {path}{label}: "
            "the gateware lacks a register there."
        )
    decides = (arrival[source] + delay == arrival[target]) & (arrival[target] > start[target])
    by = np.full(netlist.nodes, -1, np.int64)
    by[target[decides]] = np.flatnonzero(decides)
    return arrival, by


def _ranges(first: Ints, last: Ints) -> Ints:
    """Concatenate the ranges from each first to its last, exclusive."""
    counts = last - first
    ends = np.cumsum(counts)
    numbers: Ints = np.arange(int(counts.sum())) + np.repeat(first - ends + counts, counts)
    return numbers
