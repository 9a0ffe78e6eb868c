"""Ranges that hold: what values of a fixed graph can be over a box of requests, all of them.

Each node has three: of its real value, of what the core has for it, and of how far the two are
apart. Only requests that raise no flag count: there every value is inside its format, since
rounding to a format flags what it limits, inputs do as they are converted, and exact sums and
products have the widths that they need. So a format bounds the core's value, and the real one with
it, whatever the box.

Plain intervals forget what belongs together. Three rules remember some of it, of real values:

- x cos(t) + y sin(t) is at most the root of x^2 + y^2, and vectors of such sums are no longer than
  what they turn: the length of a vector passes through any number of rotations as it is;
- sums are looked through down to products, and like terms are one: x y + (z - x y) is z;
- x y is at most half of x^2 + y^2, and that of a vector's coordinates is its length squared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pinion.graph import Graph, GraphError, Node, names
from pinion.graph.evaluate import formats

from .budget import introduced_errors
from .intervals import Float, Floats, Interval, up, up_hypot
from .lengths import Lengths, Parts
from .terms import Term, Turn, exact_nodes, looked_through, terms_of, turns

# Introduced errors are computed in floats, and are off by far less than this, relative.
_COMPUTED = 2.0**-20

BENDS = (names.ABS, names.MINIMUM, names.MAXIMUM, names.CLAMP)
"""Operations whose slopes are between -1 and 1."""


def check_bounded(graph: Graph) -> None:
    """Refuse a graph with an operation for which no rule holds everywhere.

    Raises
    ------
    GraphError
        With the operation's name, or that of a state.
    """
    if graph.states:
        raise GraphError(
            "No bound of errors holds for every request of a function with states, such as "
            f"'{graph.states[0].word}', over which errors add up: verify it without a bound."
        )
    known = (names.INPUT, names.CONST, *names.TRIG, *BENDS)
    for i, node in enumerate(graph.nodes):
        if node.op not in known and terms_of(node) is None:
            raise GraphError(
                f"No bound of errors is known for the operation '{node.op}' (%{i}, "
                f"{node.line or 'no line'}): there are bounds for functions of sums, products, "
                "sines, cosines, magnitudes and limits, such as rnea, rnea_derivatives and crba; "
                "verify this one without a bound."
            )


class Enclosure:
    """Ranges of every node over a box of requests.

    Parameters
    ----------
    graph : of the fixed dialect, which :func:`check_bounded` accepts.
    box : ends of each input, by word.

    Members
    -------
    real, core : ranges of each node.
    strayed : how far both are apart at most.
    introduced : the part of that which a node adds itself, (nodes,).
    terms : each node as a sum, None where it is none.
    turns : sines and cosines by node.
    lengths : of vectors of real values, of the nodes in `exact`.
    exact : for each node the one whose real value it has.

    Raises
    ------
    GraphError
        When every request of the box raises the flag.
    """

    def __init__(self, graph: Graph, box: Mapping[str, Interval]) -> None:
        self.graph = graph
        self.turns: Mapping[int, Turn] = turns(graph)
        self.terms = [terms_of(node) for node in graph.nodes]
        self.introduced = introduced_errors(graph) * (1.0 + _COMPUTED)
        self.real: list[Interval] = []
        self.core: list[Interval] = []
        self.strayed: list[Float] = []
        self._box = box
        self.exact = exact_nodes(graph)
        self._whole = looked_through(graph, self.terms, self.exact)
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
                    f"Every request of the box raises the flag: %{i} ({node.op}, "
                    f"{node.line or 'no line'}) does not fit {fmt.name}, which ends at "
                    f"{fmt.max:g}. Build with a format of more integer bits."
                )
            self.real.append(real)
            self.core.append(core)
            self.strayed.append(strayed)
            self.real[self.exact[i]] = real  # they are one value

    def middle(self, i: int) -> Interval:
        """Means of a node's real value and the core's: slopes of products between the two."""
        return self.real[i].middle(self.core[i])

    def slope(self, node: Node) -> Interval:
        """By which factor an operation that bends passes on an operand's error."""
        if node.op != names.ABS:
            return Interval.between(0.0, 1.0)
        (a,) = node.args
        low = min(self.real[a].low, self.core[a].low)
        high = max(self.real[a].high, self.core[a].high)
        return Interval.between(1.0 if low >= 0 else -1.0, -1.0 if high <= 0 else 1.0)

    def rotated(self, angle: int, x: Interval, y: Interval) -> Interval:
        """x cos(t) + y sin(t), t being a node's real value, of any x and y inside."""
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
        own, whole = self.terms[i], self._whole[i]
        assert own is not None and whole is not None  # `check_bounded` has seen to it
        found = self._sum(own).meet(self._by_angle(whole))
        for angle in self.turned(i):
            found = found.meet(Interval.ball(self.lengths.by_angle({i: 1}, angle)))
        return found

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
        """A sum of exact nodes, by the rules for sums of squares and for each angle."""
        rest: list[Term] = []
        squares: tuple[dict[int, int], dict[int, int]] = ({}, {})
        factors: dict[int, tuple[list[Term], list[Term]]] = {}
        for term in terms:
            if (found := self._turn_in(term)) is not None:
                turn, other = found
                factors.setdefault(turn.angle, ([], []))[turn.sine].append(
                    Term(term.times, other, None)
                )
            elif term.first == term.second:
                squares[term.times < 0][term.first] = abs(term.times)
            else:
                rest.append(term)
        total = self._sum(rest)
        for sign, vector in zip((1, -1), squares, strict=True):
            own = self._sum([Term(times, a, a) for a, times in vector.items()])
            length = self.lengths.of(vector) if vector else np.float64(0.0)
            total = total + own.meet(Interval(np.float64(0.0), up(length * length))).times(sign)
        for angle, (by_cosine, by_sine) in factors.items():
            total = total + self.rotated(angle, self._sum(by_cosine), self._sum(by_sine))
        return total

    def _turn_in(self, term: Term) -> tuple[Turn, int] | None:
        """The sine or cosine that a product has as a factor, and the other factor."""
        if term.second is not None:
            for factor, other in ((term.first, term.second), (term.second, term.first)):
                if factor in self.turns:
                    return self.turns[factor], other
        return None

    def turned(self, i: int) -> Mapping[int, Parts]:
        """What multiplies the cosine and the sine of each angle in a node, as a sum."""
        if (known := self._turned.get(i)) is not None:
            return known
        found: dict[int, tuple[list[tuple[int, int]], list[tuple[int, int]]]] = {}
        for term in self._whole[i] or ():
            if (turned := self._turn_in(term)) is not None:
                turn, other = turned
                found.setdefault(turn.angle, ([], []))[turn.sine].append((term.times, other))
        self._turned[i] = found
        return found

    def _beside(self, i: int, angle: int) -> Floats:
        """The magnitude of a node without the parts that an angle turns."""
        rest = []
        for term in self._whole[i] or ():
            found = self._turn_in(term)
            if found is None or found[0].angle != angle:
                rest.append(term)
        return self._by_angle(rest).magnitude

    # -- Distances --------------------------------------------------------------------------------

    def _distance(self, i: int) -> Float:
        """How far a node's core value is from its real one, from its operands' distances."""
        node = self.graph.nodes[i]
        total = np.float64(self.introduced[i])
        if (terms := self.terms[i]) is None:
            for arg in node.args:  # slopes of all of these are 1 at most
                total = up(total + self.strayed[arg])
            return total
        for _, a, b in terms:
            if b is None:
                total = up(total + self.strayed[a])
                continue
            for one, other in ((a, b), (b, a)):
                total = up(total + up(self.middle(other).magnitude * self.strayed[one]))
        return total
