"""Bounds of errors that hold for every request of a box, not only at sampled states.

What :mod:`.budget` says to first order at states, this says of all states at once, and with nothing
left out. Let a and b be real values of a graph and a', b' those of the core. Then, exactly,

    a' b' - a b = (a + a')/2 (b' - b) + (b + b')/2 (a' - a),

so that errors pass through a graph linearly, with no term of second order, once its slopes are
taken at the mean of both values. Ranges of the means (:class:`.enclosure.Enclosure`) give ranges of
a result's slope by every node, in reverse order, and the bound is the sum of what each node adds
itself, times the largest magnitude of that slope.

Intervals alone would double at each rotation, for they forget that sine and cosine are of one
angle. Slopes are therefore kept as sums ``p + sum_t (x_t cos(t) + y_t sin(t))`` over the angles t,
which additions pass on as they are, and each angle's part is at most the root of x^2 + y^2.

Sources: the reverse accumulation of rounding errors, Linnainmaa 1976; slopes in place of
derivatives, Krawczyk and Neumaier 1985; bounds of fixed-point programs by ranges, Darulova and
Kuncak, "Towards a Compiler for Reals", 2017 (Daisy).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from pinion.graph import Graph, names

from .budget import FLOAT32_EPS
from .enclosure import Enclosure, check_bounded
from .intervals import Floats, Interval, up
from .terms import Turn


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What :func:`error_bounds` found.

    Members
    -------
    error : bound of each result's error, by word, in the result's unit.
    largest : bound of each result's own magnitude, by word.
    """

    error: Mapping[str, float]
    largest: Mapping[str, float]


@dataclass(slots=True)
class _Slopes:
    """Ranges of the results' slopes by one node, (results,), as far as they are summed up.

    Members
    -------
    plain : what is no multiple of a sine or cosine.
    turned : what multiplies each sine and cosine of an angle's real value.
    around : how far the sum of all these may be off.
    """

    plain: Interval | None = None
    turned: dict[Turn, Interval] = field(default_factory=dict)
    around: Floats | None = None

    def add(self, part: Interval) -> None:
        self.plain = part if self.plain is None else self.plain + part

    def add_turned(self, turn: Turn, part: Interval) -> None:
        found = self.turned.get(turn)
        self.turned[turn] = part if found is None else found + part

    def add_around(self, radius: Floats) -> None:
        self.around = radius if self.around is None else up(self.around + radius)

    def add_all(self, other: _Slopes, sign: int) -> None:
        if other.plain is not None:
            self.add(other.plain.times(sign))
        for turn, part in other.turned.items():
            self.add_turned(turn, part.times(sign))
        if other.around is not None:
            self.add_around(other.around)

    def total(self, ranges: Enclosure) -> Interval:
        """One interval for all."""
        nothing = Interval.between(0.0, 0.0)
        total = nothing if self.plain is None else self.plain
        for angle in dict.fromkeys(turn.angle for turn in self.turned):
            x = self.turned.get(Turn(angle, False), nothing)
            y = self.turned.get(Turn(angle, True), nothing)
            total = total + ranges.rotated(angle, x, y)
        return total if self.around is None else total.widened(self.around)


def error_bounds(graph: Graph, box: Mapping[str, tuple[float, float]]) -> Bounds:
    """Bound of |core - real value| of each result, over all requests of a box without a flag.

    The real value is that of the graph in exact arithmetic, of inputs as they travel; the core's is
    the float32 number that it answers.

    Parameters
    ----------
    graph : of the fixed dialect; its integers are what the core computes.
    box : lowest and highest value of each input, by word.

    Raises
    ------
    pinion.graph.GraphError
        When an operation has no rule that holds everywhere, or an input no range.
    """
    check_bounded(graph)
    ends = {word: Interval.between(low, high) for word, (low, high) in box.items()}
    ranges = Enclosure(graph, ends)
    results = [out.node for out in graph.outputs]
    largest = np.array([ranges.core[result].magnitude for result in results])
    error = up(_errors(ranges, results) + FLOAT32_EPS * largest)
    words = [str(out.word) for out in graph.outputs]
    return Bounds(
        error=dict(zip(words, map(float, error), strict=True)),
        largest=dict(zip(words, map(float, largest), strict=True)),
    )


def _errors(ranges: Enclosure, results: list[int]) -> Floats:
    """Bounds of errors of nodes, (results,), before they are converted to floats."""
    graph = ranges.graph
    slopes: list[_Slopes | None] = [None] * (max(results) + 1)
    for k, result in enumerate(results):
        own = np.zeros(len(results))
        own[k] = 1.0
        _at(slopes, result).add(Interval(own, own))
    total = np.zeros(len(results))
    for i in range(max(results), -1, -1):
        found, slopes[i] = slopes[i], None
        if found is None:
            continue
        bar = found.total(ranges)
        total = up(total + up(bar.magnitude * ranges.introduced[i]))
        node, terms = graph.nodes[i], ranges.terms[i]
        if node.op in names.TRIG:
            _through_angle(ranges, i, bar, _at(slopes, node.args[0]))
        elif terms is None:
            for arg in node.args:
                _at(slopes, arg).add(bar * ranges.slope(node))
        else:
            for sign, a, b in terms:
                if b is None:
                    _at(slopes, a).add_all(found, sign)
                    continue
                for one, factor in ((a, b), (b, a)):
                    _through_product(ranges, factor, bar.times(sign), _at(slopes, one))
    return total


def _through_product(ranges: Enclosure, factor: int, bar: Interval, into: _Slopes) -> None:
    """What the other operand's slope is, of a product with `factor` whose own is `bar`."""
    turn = ranges.turns.get(factor)
    if turn is None:
        into.add(bar * ranges.middle(factor))
    else:  # the mean of core and real value is off from the real one by half of their distance
        into.add_turned(turn, bar)
        into.add_around(up(bar.magnitude * (0.5 * ranges.strayed[factor])))


def _through_angle(ranges: Enclosure, i: int, bar: Interval, into: _Slopes) -> None:
    """The slope by the angle of a sine or cosine.

    Between the angles a and a' it is k times the derivative at their mean, where k is at most 1 and
    at least 1 - (a' - a)^2 / 24. The mean is off from a by half of a' - a, and a derivative by no
    more than its angle.
    """
    turn = ranges.turns[i]
    # d sin = cos, d cos = -sin.
    into.add_turned(Turn(turn.angle, not turn.sine), bar if turn.sine else -bar)
    off = ranges.strayed[turn.angle]
    into.add_around(up(bar.magnitude * up(0.5 * off + up(off * off / 24.0))))


def _at(slopes: list[_Slopes | None], i: int) -> _Slopes:
    """The slopes by a node, begun if need be."""
    if (found := slopes[i]) is None:
        found = slopes[i] = _Slopes()
    return found
