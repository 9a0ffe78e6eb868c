"""Slopes of a graph's results by every node, as ranges over a box of requests.

In reverse order each node's slopes are summed up over its users. They are kept as sums: of what
multiplies sines and cosines, which additions and roundings pass on as they are, and of products
with other nodes. Only then they become intervals, by what is known of their parts together: a pair
x cos(t) + y sin(t), or one of products x u + y v of slopes u and v with values x and y that are
turned together, is no more than lengths allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pinion.graph import names

from .enclosure import Enclosure
from .intervals import Floats, Interval, up, up_hypot
from .lengths import Lengths, Parts
from .terms import Turn

Source = tuple[int, int]
"""A sign, and a node whose slopes times that others are."""


class _Product(NamedTuple):
    """Slopes by a factor of a product: those by the product, times the other factor."""

    part: Interval
    source: Source
    other: int


@dataclass(slots=True)
class _Sum:
    """The results' slopes by one node, (results,) each, as far as they are summed up.

    Members
    -------
    plain : what has no other form.
    turned : what multiplies each sine and cosine of an angle's real value, and of which nodes' it
        is the slope.
    products : by a sine or cosine, each with its other factor.
    around : how far the sum of all these may be off.
    same : the node whose slopes these are, with a sign, where there is one.
    """

    plain: Interval | None = None
    turned: dict[Turn, tuple[Interval, list[Source]]] = field(default_factory=dict)
    products: list[_Product] = field(default_factory=list)
    around: Floats | None = None
    same: Source | None = None
    begun: bool = False

    def add(self, part: Interval) -> None:
        self.plain = part if self.plain is None else self.plain + part
        self._begin(None)

    def add_turned(self, turn: Turn, part: Interval, sources: Sequence[Source]) -> None:
        found = self.turned.get(turn)
        if found is None:
            self.turned[turn] = part, list(sources)
        else:
            self.turned[turn] = found[0] + part, [*found[1], *sources]
        self._begin(None)

    def add_product(self, product: _Product) -> None:
        self.products.append(product)
        self._begin(None)

    def add_around(self, radius: Floats) -> None:
        self.around = radius if self.around is None else up(self.around + radius)
        self._begin(None)

    def add_all(self, other: _Sum, sign: int, source: Source) -> None:
        """Add the slopes by a user that passes them on, times a sign."""
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
        """The sources of what each angle turns, like ones together."""
        found: dict[int, Parts] = {}
        for angle in dict.fromkeys(turn.angle for turn in self.turned):
            both = []
            for sine in (False, True):
                sums: dict[int, int] = {}
                for times, i in self.turned.get(Turn(angle, sine), (None, []))[1]:
                    sums[i] = sums.get(i, 0) + times
                both.append([(times, i) for i, times in sums.items() if times])
            found[angle] = both[0], both[1]
        return found


class Slopes:
    """Slopes of results by all nodes before them.

    Parameters
    ----------
    ranges : of the nodes.
    results : nodes.

    Members
    -------
    errors : what all nodes' introduced errors come to in each result, (results,).
    largest : magnitude of the slopes by each node, (results,), None of nodes that no result reads.
    """

    def __init__(self, ranges: Enclosure, results: Sequence[int]) -> None:
        self._ranges = ranges
        self._sums: list[_Sum | None] = [None] * (max(results) + 1)
        self.largest: list[Floats | None] = [None] * len(ranges.graph.nodes)
        self._same: dict[int, Source] = {}
        self._magnitude: dict[int, Floats] = {}
        self._turned: dict[int, Mapping[int, Parts]] = {}
        self._beside: dict[tuple[int, int], Floats] = {}
        self._partners = _partners(ranges)
        self._lengths = Lengths(
            magnitude=self._magnitude.__getitem__,
            turned=lambda i: self._turned.get(i, {}),
            beside=lambda i, angle: self._beside[i, angle],
            latest=min,
        )
        for k, result in enumerate(results):
            own = np.zeros(len(results))
            own[k] = 1.0
            self._at(result).add(Interval(own, own))
        self.errors: Floats = np.zeros(len(results))
        for i in range(max(results), -1, -1):
            found, self._sums[i] = self._sums[i], None
            if found is not None:
                bar = self._total(i, found)
                self.largest[i] = bar.magnitude
                self.errors = up(self.errors + up(bar.magnitude * ranges.introduced[i]))
                self._pass_on(i, found, bar)

    def _at(self, i: int) -> _Sum:
        """The slopes by a node, begun if need be."""
        if (found := self._sums[i]) is None:
            found = self._sums[i] = _Sum()
        return found

    # -- From users to operands -------------------------------------------------------------------

    def _pass_on(self, i: int, found: _Sum, bar: Interval) -> None:
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
                    self._at(a).add_all(found, sign, self._same[i])
                else:
                    for one, factor in ((a, b), (b, a)):
                        self._through_product(i, sign, bar.times(sign), one, factor)

    def _through_product(self, i: int, sign: int, bar: Interval, one: int, factor: int) -> None:
        """The slopes by a factor of a product, `factor` being the other one."""
        ranges, into = self._ranges, self._at(one)
        times, node = self._same[i]
        source = sign * times, node
        turn = ranges.turns.get(factor)
        if turn is not None:
            # The mean of core and real value is off from the real one by half of their distance.
            into.add_turned(turn, bar, [source])
            into.add_around(up(bar.magnitude * (0.5 * ranges.strayed[factor])))
        elif one in ranges.turns:
            into.add_product(_Product(bar * ranges.middle(factor), source, factor))
        else:
            into.add(bar * ranges.middle(factor))

    def _through_angle(self, i: int, bar: Interval) -> None:
        """The slopes by the angle of a sine or cosine.

        Between the angles a and a' the slope is k times the derivative at their mean, where k is at
        most 1 and at least 1 - (a' - a)^2 / 24. The mean is off from a by half of a' - a, and a
        derivative by no more than its angle.
        """
        turn = self._ranges.turns[i]
        into = self._at(turn.angle)
        sign = 1 if turn.sine else -1  # d sin = cos, d cos = -sin
        times, node = self._same[i]
        into.add_turned(turn._replace(sine=not turn.sine), bar.times(sign), [(sign * times, node)])
        off = self._ranges.strayed[turn.angle]
        into.add_around(up(bar.magnitude * up(0.5 * off + up(up(off * off) / 24.0))))

    # -- From sums to intervals -------------------------------------------------------------------

    def _total(self, i: int, found: _Sum) -> Interval:
        """One interval for all, and what lengths need to know of the node."""
        ranges, nothing = self._ranges, Interval.between(0.0, 0.0)
        rest = nothing if found.plain is None else found.plain
        if found.around is not None:
            rest = rest.widened(found.around)
        if found.products:
            rest = rest + self._products(ranges.turns[i].angle, found.products)
        parts = found.parts()
        apart = {
            angle: ranges.rotated(
                angle,
                found.turned.get(Turn(angle, False), (nothing,))[0],
                found.turned.get(Turn(angle, True), (nothing,))[0],
            )
            for angle in parts
        }
        total = rest
        for part in apart.values():
            total = total + part
        if found.same is not None:
            self._same[i] = found.same
            return total.meet(Interval.ball(self._magnitude[found.same[1]]))
        self._same[i] = 1, i
        for angle in parts:
            beside = rest
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
        """A sum of products of slopes and values, those of values that are turned together as one.

        The mean values are off from the real ones by half of their distance from the core's.
        """
        ranges, partners = self._ranges, self._partners.get(angle, set())
        total = Interval.between(0.0, 0.0)
        left = list(products)
        while left:
            one = left.pop()
            x = ranges.exact[one.other]
            for k, other in enumerate(left):
                y = ranges.exact[other.other]
                if frozenset((x, y)) in partners and one.source[1] != other.source[1]:
                    del left[k]
                    slopes = self._lengths.of({one.source[1]: 1, other.source[1]: 1})
                    off = up_hypot(ranges.strayed[one.other], ranges.strayed[other.other])
                    values = up(ranges.lengths.of({x: 1, y: 1}) + 0.5 * off)
                    pair = (one.part + other.part).meet(Interval.ball(up(slopes * values)))
                    total = total + pair
                    break
            else:
                total = total + one.part
        return total


def _partners(ranges: Enclosure) -> dict[int, set[frozenset[int]]]:
    """Pairs of nodes that are turned together, by angle."""
    found: dict[int, set[frozenset[int]]] = {}
    for i in range(len(ranges.graph.nodes)):
        for angle, (by_cosine, by_sine) in ranges.turned(i).items():
            for _, x in by_cosine:
                for _, y in by_sine:
                    if x != y:
                        found.setdefault(angle, set()).add(frozenset((x, y)))
    return found
