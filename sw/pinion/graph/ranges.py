"""Ranges of values: the magnitudes that every node of a graph reaches over a set of states.

Plain interval arithmetic is useless here: pivots' intervals contain zero and the intervals of
results are too wide by 8 to 60 bits, because it ignores that all values of a state belong together.
So ranges are measured, at random states and at the corners of the limits, and used with a margin;
a value that leaves its range in operation sets its request's flag.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from pinion.base.arrays import Floats
from pinion.fixedpoint import Rounding

from . import names
from .evaluate import node_floats
from .graph import Graph
from .ops import OPS, Family, constant_format, constant_integer, quantizer

# States at a time: all nodes of a large graph over all states would not fit in memory.
CHUNK = 2000


@dataclass(frozen=True)
class Ranges:
    """Magnitudes of the nodes of a graph over a set of states.

    Members
    -------
    largest, smallest : largest and smallest magnitude, (nodes,).
    rms : root mean square, (nodes,).
    """

    largest: Floats
    smallest: Floats
    rms: Floats


def _count(states: Mapping[str, Floats]) -> int:
    return max(np.size(column) for column in states.values())


def chunks(states: Mapping[str, Floats]) -> Iterator[dict[str, Floats]]:
    """Yield the states in chunks of at most `CHUNK`."""
    for start in range(0, _count(states), CHUNK):
        yield {name: column[start : start + CHUNK] for name, column in states.items()}


def measure_ranges(graph: Graph, states: Mapping[str, Floats]) -> Ranges:
    """Measure the magnitudes that every node reaches in the given states.

    Parameters
    ----------
    states : a column (n,) for each input word.
    """
    total = _count(states)
    count = len(graph.nodes)
    largest, smallest = np.zeros(count), np.full(count, np.inf)
    squares = np.zeros(count)
    for part in chunks(states):
        size = _count(part)
        for i, value in enumerate(node_floats(graph, part)):
            magnitude = np.abs(value)
            largest[i] = np.maximum(largest[i], np.max(magnitude))  # keeps NaN
            smallest[i] = np.minimum(smallest[i], np.min(magnitude))
            squares[i] += float(np.mean(magnitude**2)) * size
    return Ranges(largest, smallest, np.sqrt(squares / total))


def rounded_floats(graph: Graph, states: Mapping[str, Floats]) -> list[Floats]:
    """Return the values of a fixed-dialect graph's nodes, rounded but not saturated.

    Where a result is mostly rounding error (a sum that cancels), its range follows from these.
    """
    values: list[Floats] = []
    for node in graph.nodes:
        operands = [values[a] for a in node.args]
        if node.op == names.INPUT:
            exact = np.asarray(states[str(node.params[0])], dtype=np.float64)
            values.append(_rounded(exact, constant_format(node).frac, Rounding.NEAREST))
        elif node.op == names.CONST:
            values.append(np.asarray(constant_integer(node) * constant_format(node).lsb))
        elif node.op == names.QUANTIZE:
            target, rounding, _ = quantizer(node)
            values.append(_rounded(operands[0], target.frac, rounding))
        elif OPS[node.op].family is Family.FUNCTION:
            exact = np.asarray(OPS[node.op].floats(node, operands))
            frac = OPS[node.op].own_format(node).frac
            values.append(_rounded(exact, frac, Rounding.NEAREST))
        else:
            values.append(np.asarray(OPS[node.op].floats(node, operands)))
    return values


def _rounded(x: Floats, frac: int, rounding: Rounding) -> Floats:
    half = 0.5 if rounding is Rounding.NEAREST else 0.0
    return np.floor(x * 2.0**frac + half) * 2.0**-frac
