"""Slopes of a graph's results with respect to every node, as ranges over a box of requests.

In reverse order, each node's slopes are summed over its users. They are kept as sums of factors of
sines and cosines, which additions and roundings pass on unchanged, and of products with other
nodes. They become intervals only at the end, from what is known of their parts together: a pair
x cos(t) + y sin(t), or a sum of products x u + y v of slopes u and v with values x and y that are
rotated together, is limited by lengths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pinion.graph import names

from .enclosure import Enclosure
from .intervals import FloatOrArray, Interval, up, up_hypot
from .lengths import Lengths, Parts
from .terms import SineOrCosine

Source = tuple[int, int]
"""A sign and a node: the slopes are those of the node, times the sign."""


class _Product(NamedTuple):
    """Slopes with respect to a product's factor: the product's slopes times the other factor."""

    part: Interval
    source: Source
    other: int


@dataclass(slots=True)
class _Sum:
    """The results' slopes with respect to one node, (results,) each, as summed so far.

    Members
    -------
    plain : slopes in no other form.
    turned : factors of each sine and cosine of an angle's real value, and the nodes whose slopes
        they are.
    products : slopes with respect to a sine or cosine, each with its other factor.
    around : error bound of the sum of all these.
    same : a sign and the node that has the same slopes, if there is one.
    """

    plain: Interval | None = None
    turned: dict[SineOrCosine, tuple[Interval, list[Source]]] = field(default_factory=dict)
    products: list[_Product] = field(default_factory=list)
    around: FloatOrArray | None = None
    same: Source | None = None
    begun: bool = False

    def add(self, part: Interval) -> None:
        self.plain = part if self.plain is None else self.plain + part
        self._begin(None)

    def add_turned(self, turn: SineOrCosine, part: Interval, sources: Sequence[Source]) -> None:
        entry = self.turned.get(turn)
        if entry is None:
            self.turned[turn] = part, list(sources)
        else:
            self.turned[turn] = entry[0] + part, [*entry[1], *sources]
        self._begin(None)

    def add_product(self, product: _Product) -> None:
        self.products.append(product)
        self._begin(None)

    def add_around(self, radius: FloatOrArray) -> None:
        self.around = radius if self.around is None else up(self.around + radius)
        self._begin(None)

    def add_all(self, other: _Sum, sign: int, source: Source) -> None:
        """Add the slopes with respect to a node of which this one is a summand, times its sign."""
        begun = self.begun
        if other.plain is not None:
            self.add(other.plain.times(sign))
        for turn, (part, sources) in other.turned.items():
            self.add_turned(turn, part.times(sign), [(sign * t, i) for t, i in sources])
        for part, (times, i), factor in other.products:
            self.add_product(_Product(part.times(sign), (sign * times, i), factor))
        if other.around is not None:
            self.add_around(other.around)
        self.begun = begun
        self._begin((sign * source[0], source[1]))

    def _begin(self, same: Source | None) -> None:
        self.same = None if self.begun else same
        self.begun = True

    def parts(self) -> dict[int, Parts]:
        """Return the sources of the parts that each angle rotates, with equal ones merged."""
        parts: dict[int, Parts] = {}
        for angle in dict.fromkeys(turn.angle for turn in self.turned):
            both = []
            for sine in (False, True):
                sums: dict[int, int] = {}
                for times, i in self.turned.get(SineOrCosine(angle, sine), (None, []))[1]:
                    sums[i] = sums.get(i, 0) + times
                both.append([(times, i) for i, times in sums.items() if times])
            parts[angle] = both[0], both[1]
        return parts


class Slopes:
    """Slopes of results with respect to all nodes before them.

    Parameters
    ----------
    ranges : ranges of the nodes.
    results : nodes.

    Members
    -------
    errors : total of all nodes' introduced errors in each result, (results,).
    largest : magnitude of the slopes of each node, (results,), None for nodes that no result reads.
    """

    def __init__(self, ranges: Enclosure, results: Sequence[int]) -> None:
        self._ranges = ranges
        self._sums: list[_Sum | None] = [None] * (max(results) + 1)
        self.largest: list[FloatOrArray | None] = [None] * len(ranges.graph.nodes)
        self._same: dict[int, Source] = {}
        self._magnitude: dict[int, FloatOrArray] = {}
        self._turned: dict[int, Mapping[int, Parts]] = {}
        self._beside: dict[tuple[int, int], FloatOrArray] = {}
        self._partners = _partners(ranges)
        self._lengths = Lengths(
            magnitude=self._magnitude.__getitem__,
            turned=lambda i: self._turned.get(i, {}),
            beside=lambda i, angle: self._beside[i, angle],
            latest=min,
        )
        for k, result in enumerate(results):
            unit_slope = np.zeros(len(results))
            unit_slope[k] = 1.0
            self._at(result).add(Interval(unit_slope, unit_slope))
        self.errors: FloatOrArray = np.zeros(len(results))
        for i in range(max(results), -1, -1):
            node_sum, self._sums[i] = self._sums[i], None
            if node_sum is not None:
                bar = self._total(i, node_sum)
                self.largest[i] = bar.magnitude
                self.errors = up(self.errors + up(bar.magnitude * ranges.introduced[i]))
                self._pass_on(i, node_sum, bar)

    def _at(self, i: int) -> _Sum:
        """Return the slopes with respect to a node, created if necessary."""
        if (node_sum := self._sums[i]) is None:
            node_sum = self._sums[i] = _Sum()
        return node_sum

    # -- From users to operands -------------------------------------------------------------------

    def _pass_on(self, i: int, node_sum: _Sum, bar: Interval) -> None:
        ranges = self._ranges
        node, terms = ranges.graph.nodes[i], ranges.terms[i]
        if node.op in names.TRIG:
            self._through_angle(i, bar)
        elif terms is None:
            for arg in node.args:
                self._at(arg).add(bar * ranges.slope(node))
        else:
            for sign, a, b in terms:
                if b is None:
                    self._at(a).add_all(node_sum, sign, self._same[i])
                else:
                    for operand, factor in ((a, b), (b, a)):
                        self._through_product(i, sign, bar.times(sign), operand, factor)

    def _through_product(self, i: int, sign: int, bar: Interval, operand: int, factor: int) -> None:
        """Add the slopes with respect to a product's factor, `factor` being the other one."""
        ranges, into = self._ranges, self._at(operand)
        times, node = self._same[i]
        source = sign * times, node
        turn = ranges.turns.get(factor)
        if turn is not None:
            # The mean of core and real value differs from the real one by half their distance.
            into.add_turned(turn, bar, [source])
            into.add_around(up(bar.magnitude * (0.5 * ranges.strayed[factor])))
        elif operand in ranges.turns:
            into.add_product(_Product(bar * ranges.middle(factor), source, factor))
        else:
            into.add(bar * ranges.middle(factor))

    def _through_angle(self, i: int, bar: Interval) -> None:
        """Add the slopes with respect to the angle of a sine or cosine.

        Between the angles a and a' the slope is k times the derivative at their mean, where k is at
        most 1 and at least 1 - (a' - a)^2 / 24. The mean differs from a by half of a' - a, and the
        derivative by no more than its angle does.
        """
        turn = self._ranges.turns[i]
        into = self._at(turn.angle)
        sign = 1 if turn.sine else -1  # d sin = cos, d cos = -sin
        times, node = self._same[i]
        into.add_turned(turn._replace(sine=not turn.sine), bar.times(sign), [(sign * times, node)])
        off = self._ranges.strayed[turn.angle]
        into.add_around(up(bar.magnitude * up(0.5 * off + up(up(off * off) / 24.0))))

    # -- From sums to intervals -------------------------------------------------------------------

    def _total(self, i: int, node_sum: _Sum) -> Interval:
        """Return the sum of all parts as one interval, and store the node's data for `_lengths`."""
        ranges, nothing = self._ranges, Interval.between(0.0, 0.0)
        remaining = nothing if node_sum.plain is None else node_sum.plain
        if node_sum.around is not None:
            remaining = remaining.widened(node_sum.around)
        if node_sum.products:
            remaining = remaining + self._products(ranges.turns[i].angle, node_sum.products)
        parts = node_sum.parts()
        apart = {
            angle: ranges.rotated(
                angle,
                node_sum.turned.get(SineOrCosine(angle, False), (nothing,))[0],
                node_sum.turned.get(SineOrCosine(angle, True), (nothing,))[0],
            )
            for angle in parts
        }
        total = remaining
        for part in apart.values():
            total = total + part
        if node_sum.same is not None:
            self._same[i] = node_sum.same
            return total.meet(Interval.ball(self._magnitude[node_sum.same[1]]))
        self._same[i] = 1, i
        for angle in parts:
            beside = remaining
            for other, part in apart.items():
                if other != angle:
                    beside = beside + part
            self._beside[i, angle] = beside.magnitude
        self._turned[i] = parts
        for angle in parts:
            total = total.meet(Interval.ball(self._lengths.by_angle({i: 1}, angle)))
        self._magnitude[i] = total.magnitude
        return total

    def _products(self, angle: int, products: Sequence[_Product]) -> Interval:
        """Sum products of slopes and values, taking values rotated together as a vector.

        The mean values differ from the real ones by half their distance from the core's.
        """
        ranges, partners = self._ranges, self._partners.get(angle, set())
        total = Interval.between(0.0, 0.0)
        waiting = list(products)
        while waiting:
            product = waiting.pop()
            x = ranges.exact[product.other]
            for k, other in enumerate(waiting):
                y = ranges.exact[other.other]
                if frozenset((x, y)) in partners and product.source[1] != other.source[1]:
                    del waiting[k]
                    slopes = self._lengths.of({product.source[1]: 1, other.source[1]: 1})
                    off = up_hypot(ranges.strayed[product.other], ranges.strayed[other.other])
                    values = up(ranges.lengths.of({x: 1, y: 1}) + 0.5 * off)
                    pair = (product.part + other.part).meet(Interval.ball(up(slopes * values)))
                    total = total + pair
                    break
            else:
                total = total + product.part
        return total


def _partners(ranges: Enclosure) -> dict[int, set[frozenset[int]]]:
    """Return pairs of nodes that are rotated together, by angle."""
    pairs: dict[int, set[frozenset[int]]] = {}
    for i in range(len(ranges.graph.nodes)):
        for angle, (by_cosine, by_sine) in ranges.turned(i).items():
            for _, x in by_cosine:
                for _, y in by_sine:
                    if x != y:
                        pairs.setdefault(angle, set()).add(frozenset((x, y)))
    return pairs
