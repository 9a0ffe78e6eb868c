"""Guaranteed ranges of a fixed graph's values over all requests in a box.

Each node has three: the range of its real value, of the core's value, and of their distance. Only
requests without a flag count: there every value is inside its format, because rounding to a format
flags values beyond it, as does converting inputs, and exact sums and products are wide enough. So a
format bounds the core's value, and with it the real one, whatever the box.

Plain intervals ignore dependences. Three rules account for some of them, for real values:

- x cos(t) + y sin(t) is at most the root of x^2 + y^2, and a vector of such sums is no longer than
  the vectors that are rotated: a vector's length passes through any number of rotations unchanged;
- sums are expanded down to products, and like terms merged: x y + (z - x y) is z;
- x y is at most half of x^2 + y^2, and for coordinates of a vector that is half its squared length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pinion.graph import Graph, GraphError, Node, names
from pinion.graph.evaluate import formats

from .budget import introduced_errors
from .intervals import Float, FloatOrArray, Interval, up, up_hypot
from .lengths import Lengths, Parts
from .terms import SineOrCosine, Term, exact_nodes, looked_through, terms_of, turns

# Introduced errors are computed in floats, with a relative error far below this.
_COMPUTED = 2.0**-20

BENDS = (names.ABS, names.MINIMUM, names.MAXIMUM, names.CLAMP)
"""Operations whose slopes are between -1 and 1."""


def check_bounded(graph: Graph) -> None:
    """Raise `GraphError` unless every operation of a graph has a bound that holds everywhere.

    Raises
    ------
    GraphError
        With the name of the operation or state.
    """
    if graph.states:
        raise GraphError(
            "No error bound holds for every request of a function with states, such as "
            f"'{graph.states[0].word}', in which errors accumulate: verify it without "
            "bound=True (--bound)."
        )
    supported = (names.INPUT, names.CONST, *names.TRIG, *BENDS)
    for i, node in enumerate(graph.nodes):
        if node.op not in supported and terms_of(node) is None:
            raise GraphError(
                f"No error bound is known for the operation '{node.op}' (%{i}, "
                f"{node.line or 'no line'}): there are bounds for functions of sums, products, "
                "sines, cosines, absolute values, minima, maxima and clamps, such as rnea, "
                "rnea_derivatives and crba; verify this function without bound=True (--bound)."
            )


class Enclosure:
    """Guaranteed ranges of every node's real and core values over a box of requests.

    Parameters
    ----------
    graph : of the fixed dialect, which :func:`check_bounded` accepts.
    box : bounds of each input, by word.

    Members
    -------
    real, core : range of each node's real value, and of the core's.
    strayed : largest distance between the two values.
    introduced : the part of the distance that a node introduces, (nodes,).
    terms : each node as a sum, None if it is not one.
    turns : sines and cosines by node.
    lengths : lengths of vectors of real values, of the nodes in `exact`.
    exact : for each node the node whose real value it has.

    Raises
    ------
    GraphError
        If every request of the box raises the flag.
    """

    def __init__(self, graph: Graph, box: Mapping[str, Interval]) -> None:
        self.graph = graph
        self.turns: Mapping[int, SineOrCosine] = turns(graph)
        self.terms = [terms_of(node) for node in graph.nodes]
        self.introduced = introduced_errors(graph) * (1.0 + _COMPUTED)
        self.real: list[Interval] = []
        self.core: list[Interval] = []
        self.strayed: list[Float] = []
        self._box = box
        self.exact = exact_nodes(graph)
        self._expanded = looked_through(self.terms, self.exact)
        self._turned: dict[int, Mapping[int, Parts]] = {}
        self.lengths = Lengths(
            magnitude=lambda i: self.real[i].magnitude,
            turned=self.turned,
            beside=self._beside,
            latest=max,
        )
        for i, fmt in enumerate(formats(graph)):
            real, strayed = self._real(i), self._distance(i)
            core = real.widened(strayed).meet(Interval.between(fmt.min, fmt.max))
            real = real.meet(core.widened(strayed))
            if core.empty or real.empty:
                node = graph.nodes[i]
                raise GraphError(
                    f"Every request in the box raises the flag: %{i} ({node.op}, "
                    f"{node.line or 'no line'}) does not fit {fmt.name}, whose range ends at "
                    f"{fmt.max:g}. Build with a format that has more integer bits."
                )
            self.real.append(real)
            self.core.append(core)
            self.strayed.append(strayed)
            self.real[self.exact[i]] = real  # both have the same value

    def middle(self, i: int) -> Interval:
        """Return the range of the mean of a node's real and core values, the slope of a product."""
        return self.real[i].middle(self.core[i])

    def slope(self, node: Node) -> Interval:
        """Return the range of the slopes of a piecewise linear function, such as a clamp."""
        if node.op != names.ABS:
            return Interval.between(0.0, 1.0)
        (a,) = node.args
        low = min(self.real[a].low, self.core[a].low)
        high = max(self.real[a].high, self.core[a].high)
        return Interval.between(1.0 if low >= 0 else -1.0, -1.0 if high <= 0 else 1.0)

    def rotated(self, angle: int, x: Interval, y: Interval) -> Interval:
        """Return the range of x cos(t) + y sin(t) over x, y and a node's real value t."""
        t = self.real[angle]
        apart = t.cosine() * x + t.sine() * y
        return apart.meet(Interval.ball(up_hypot(x.magnitude, y.magnitude)))

    # -- Real values ------------------------------------------------------------------------------

    def _real(self, i: int) -> Interval:
        node = self.graph.nodes[i]
        args = [self.real[a] for a in node.args]
        match node.op:
            case names.QUANTIZE:
                return args[0]
            case names.INPUT:
                return self._box[str(node.params[0])]
            case names.CONST:
                return Interval.between(float(node.params[0]), float(node.params[0]))
            case names.COS:
                return args[0].cosine()
            case names.SIN:
                return args[0].sine()
            case names.ABS:
                return Interval(np.maximum(np.maximum(args[0].low, -args[0].high), 0.0),
                                args[0].magnitude)  # fmt: skip
            case names.MINIMUM:
                return Interval(min(a.low for a in args), min(a.high for a in args))
            case names.MAXIMUM:
                return Interval(max(a.low for a in args), max(a.high for a in args))
            case names.CLAMP:
                low, high = (np.float64(float(end)) for end in node.params[:2])
                (a,) = args
                ends = (
                    np.minimum(np.maximum(a.low, low), high),
                    np.minimum(np.maximum(a.high, low), high),
                )
                return Interval(*ends)
        terms, expanded = self.terms[i], self._expanded[i]
        assert terms is not None and expanded is not None  # `check_bounded` guarantees it
        value = self._sum(terms).meet(self._by_angle(expanded))
        for angle in self.turned(i):
            value = value.meet(Interval.ball(self.lengths.by_angle({i: 1}, angle)))
        return value

    def _sum(self, terms: Sequence[Term]) -> Interval:
        total = Interval.between(0.0, 0.0)
        for times, a, b in terms:
            value = self.real[a] if b is None else self._product(a, b)
            total = total + value.times(times)
        return total

    def _product(self, a: int, b: int) -> Interval:
        a, b = self.exact[a], self.exact[b]
        if a == b:
            return self.real[a].square()
        if a in self.turns or b in self.turns:
            return self.real[a] * self.real[b]
        length = self.lengths.of({a: 1, b: 1})
        return (self.real[a] * self.real[b]).meet(Interval.ball(up(up(length * length) * 0.5)))

    def _by_angle(self, terms: Sequence[Term]) -> Interval:
        """Bound a sum of exact nodes, with its squares together and its rotations by angle."""
        plain_terms: list[Term] = []
        squares: tuple[dict[int, int], dict[int, int]] = ({}, {})
        factors: dict[int, tuple[list[Term], list[Term]]] = {}
        for term in terms:
            if (turn_and_factor := self._turn_in(term)) is not None:
                turn, other = turn_and_factor
                factors.setdefault(turn.angle, ([], []))[turn.sine].append(
                    Term(term.times, other, None)
                )
            elif term.first == term.second:
                squares[term.times < 0][term.first] = abs(term.times)
            else:
                plain_terms.append(term)
        total = self._sum(plain_terms)
        for sign, vector in zip((1, -1), squares, strict=True):
            square_sum = self._sum([Term(times, a, a) for a, times in vector.items()])
            length = self.lengths.of(vector) if vector else np.float64(0.0)
            total = total + square_sum.meet(Interval(np.float64(0.0), up(length * length))).times(
                sign
            )
        for angle, (by_cosine, by_sine) in factors.items():
            total = total + self.rotated(angle, self._sum(by_cosine), self._sum(by_sine))
        return total

    def _turn_in(self, term: Term) -> tuple[SineOrCosine, int] | None:
        """Return a product's sine or cosine factor and the other factor; None if it has none."""
        if term.second is not None:
            for factor, other in ((term.first, term.second), (term.second, term.first)):
                if factor in self.turns:
                    return self.turns[factor], other
        return None

    def turned(self, i: int) -> Mapping[int, Parts]:
        """Return the factors of the cosine and the sine of each angle in a node's sum."""
        if (cached := self._turned.get(i)) is not None:
            return cached
        parts: dict[int, tuple[list[tuple[int, int]], list[tuple[int, int]]]] = {}
        for term in self._expanded[i] or ():
            if (turned := self._turn_in(term)) is not None:
                turn, other = turned
                parts.setdefault(turn.angle, ([], []))[turn.sine].append((term.times, other))
        self._turned[i] = parts
        return parts

    def _beside(self, i: int, angle: int) -> FloatOrArray:
        """Return the magnitude of a node without the parts that an angle rotates."""
        other_terms = []
        for term in self._expanded[i] or ():
            turn_and_factor = self._turn_in(term)
            if turn_and_factor is None or turn_and_factor[0].angle != angle:
                other_terms.append(term)
        return self._by_angle(other_terms).magnitude

    # -- Distances --------------------------------------------------------------------------------

    def _distance(self, i: int) -> Float:
        """Bound the distance between a node's core and real values by its operands' distances."""
        node = self.graph.nodes[i]
        total = np.float64(self.introduced[i])
        if (terms := self.terms[i]) is None:
            for arg in node.args:  # the slopes of all of these are at most 1
                total = up(total + self.strayed[arg])
            return total
        for _, a, b in terms:
            if b is None:
                total = up(total + self.strayed[a])
                continue
            for factor, other in ((a, b), (b, a)):
                total = up(total + up(self.middle(other).magnitude * self.strayed[factor]))
        return total
