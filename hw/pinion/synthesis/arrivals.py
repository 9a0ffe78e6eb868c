"""When values arrive: the latest way to every node of a netlist, with any delays."""

from __future__ import annotations

import numpy as np

from .netlist import Floats, Ints, Netlist


class LoopError(RuntimeError):
    """The netlist has a combinational loop; the message names a cell on it."""


def latest_arrivals(
    netlist: Netlist, *, source: Ints, target: Ints, cell: Ints, delay: Floats, start: Floats
) -> tuple[Floats, Ints]:
    """Go through a design once, from its starts on.

    Parameters
    ----------
    netlist : the design.
    source, target, cell, delay : of each arc: nodes at its ends, the cell, what it takes.
    start : by node, when something starts there; minus infinity where nothing does.

    Returns
    -------
    arrival : by node, when the last value is there; minus infinity where none comes.
    by : by node, the arc that it comes by; -1 where it starts.

    Raises
    ------
    LoopError
        When arcs form a loop.
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
        raise LoopError(
            f"The netlist has a combinational loop through or before {path}{label}: "
            f"a register is missing in the gateware."
        )
    decides = (arrival[source] + delay == arrival[target]) & (arrival[target] > start[target])
    by = np.full(netlist.nodes, -1, np.int64)
    by[target[decides]] = np.flatnonzero(decides)
    return arrival, by


def _ranges(first: Ints, last: Ints) -> Ints:
    """All numbers from each first up to, without, its last, one range behind the other."""
    counts = last - first
    ends = np.cumsum(counts)
    numbers: Ints = np.arange(int(counts.sum())) + np.repeat(first - ends + counts, counts)
    return numbers
