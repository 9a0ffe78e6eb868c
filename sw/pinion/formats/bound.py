"""Error bounds that hold for every request in a box, not only at sampled states.

:mod:`.budget` bounds errors to first order at states; this module bounds them at all states and
neglects nothing. Let a and b be real values of a graph and a', b' those of the core. Then, exactly,

    a' b' - a b = (a + a')/2 (b' - b) + (b + b')/2 (a' - a),

so that errors pass through a graph linearly, without second-order terms, if its slopes are taken at
the mean of both values. Ranges of the means (:class:`.enclosure.Enclosure`) give ranges of a
result's slope with respect to every node, in reverse order, and the bound is the sum of each node's
own error times the largest magnitude of that slope.

Intervals alone would double at each rotation, because they ignore that sine and cosine share an
angle. Slopes are therefore kept as sums ``p + sum_t (x_t cos(t) + y_t sin(t))`` over the angles t,
which additions pass on unchanged, and each angle's part is at most the root of x^2 + y^2.

Sources: the reverse accumulation of rounding errors, Linnainmaa 1976; slopes in place of
derivatives, Krawczyk and Neumaier 1985; bounds of fixed-point programs by ranges, Darulova and
Kuncak, "Towards a Compiler for Reals", 2017 (Daisy).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pinion.graph import Graph

from .budget import FLOAT32_EPS
from .enclosure import Enclosure, check_bounded
from .intervals import Interval, up
from .slopes import Slopes


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Bounds on the errors and magnitudes of results, from :func:`error_bounds`.

    Members
    -------
    error : bound on each result's error, by word, in the result's unit.
    largest : bound on each result's magnitude, by word.
    """

    error: Mapping[str, float]
    largest: Mapping[str, float]


def error_bounds(graph: Graph, box: Mapping[str, tuple[float, float]]) -> Bounds:
    """Bound |core - real value| of each result over all requests in a box that raise no flag.

    The real value is that of the graph in exact arithmetic, for the inputs as transmitted; the
    core's is the float32 number that it returns.

    Parameters
    ----------
    graph : of the fixed dialect; its integers are what the core computes.
    box : smallest and largest value of each input, by word.

    Raises
    ------
    pinion.graph.GraphError
        If an operation has no rule that holds everywhere, or all requests raise the flag.
    """
    check_bounded(graph)
    ends = {word: Interval.between(low, high) for word, (low, high) in box.items()}
    ranges = Enclosure(graph, ends)
    results = [out.node for out in graph.outputs]
    largest = np.array([ranges.core[result].magnitude for result in results])
    error = up(Slopes(ranges, results).errors + FLOAT32_EPS * largest)
    words = [str(out.word) for out in graph.outputs]
    return Bounds(
        error=dict(zip(words, map(float, error), strict=True)),
        largest=dict(zip(words, map(float, largest), strict=True)),
    )
