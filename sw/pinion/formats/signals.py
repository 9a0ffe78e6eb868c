"""Formats chosen per signal: a binary point for every value, one multiplier block per product.

Values are stored in words of one width whose binary points follow their ranges. A product takes one
operand in full and the other rounded to the narrow port of the multiplier: the one whose rounding
has less effect. If the binary points of an operation's operands differ, the ports that read them
shift; a port reads each value through wires, so a constant shift is free. Three rules limit the
hardware to such shifts:

- The products of one sum have the same LSB.
- A unit drops the same number of bits from every sum.
- An adder's operands, and the addend of a sum of products, are read at the binary point of the
  result.

The dominant error is the rounding at the narrow ports: it is about 2**9 times larger than that of
storing a result, which is therefore truncated. A value beyond its range wraps around and sets its
request's flag.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pinion.base.arrays import Floats
from pinion.fixedpoint import Format, Overflow, Rounding
from pinion.graph import OPS, Graph, Node, Output, names
from pinion.graph.evaluate import formats
from pinion.graph.op import OperandPoint
from pinion.graph.ops import Family
from pinion.graph.passes.rewrite import Rewriter
from pinion.graph.ranges import Ranges
from pinion.graph.rules import addend, pairs

from .lower import fed_back
from .multiplier import DSP48E2, Multiplier

# Factor by which ranges exceed those of the states.
MARGIN = 1.25

# A wide port may lose bits for a sum's common binary point before the narrow port has to: its last
# bit stays this many bits below that of the narrow port, relatively.
_BELOW = 2

# Fraction bits by which a value may be read finer than stored: the bits below are zeros.
_FINER = 12


@dataclass(frozen=True, kw_only=True)
class SignalPlan:
    """Formats of a real graph's values, and those at which an operation's ports read them.

    Members
    -------
    values : format of each node's stored value, by node; constants have none.
    ports : formats at an operation's ports, by node, in the order of its operands.
    """

    values: Mapping[int, Format]
    ports: Mapping[int, tuple[Format, ...]]


def tight(reach: float, width: int) -> int:
    """Return the largest number of fraction bits of a ``width``-bit word that holds ``reach``."""
    if not reach > 0.0:
        return width - 1
    frac = width - 2 - math.floor(math.log2(reach))
    return frac - int(reach * 2.0**frac > (1 << (width - 1)) - 1)


@dataclass(frozen=True, kw_only=True)
class TableFormats:
    """Formats of the operations that look up tables: their units' latencies depend on them.

    Members
    -------
    angle : format of every angle.
    turn : format of every sine and cosine.
    together : fraction bits of a pivot and its reciprocal together, the same for all; 0 if there
        are none.
    multiplier : block of one product.
    """

    angle: Format
    together: int
    turn: Format
    multiplier: Multiplier

    @property
    def stored(self) -> int:
        """Width of every stored word [bits]."""
        return self.multiplier.wide

    @classmethod
    def of(
        cls,
        graph: Graph,
        ranges: Ranges,
        margin: float = MARGIN,
        *,
        multiplier: Multiplier = DSP48E2,
        turn: Format | None = None,
    ) -> TableFormats:
        """Return the finest formats of angles and pivots that can represent a graph's ranges."""
        stored = multiplier.wide
        angles = {node.args[0] for node in graph.nodes if node.op in names.TRIG}
        pivots = {node.args[0] for node in graph.nodes if node.op == names.RECIPROCAL}
        reach = ranges.largest * margin
        return cls(
            angle=Format(stored, min((tight(reach[i], stored) for i in angles), default=0)),
            together=min((sum(_inverse(ranges, i, margin, stored)) for i in pivots), default=0),
            turn=turn or multiplier.turn,
            multiplier=multiplier,
        )


def _inverse(ranges: Ranges, pivot: int, margin: float, stored: int) -> tuple[int, int]:
    """Return the fraction bits of a pivot and of its reciprocal, each as fine as possible."""
    largest = margin / max(float(ranges.smallest[pivot]), 1e-30)
    return tight(ranges.largest[pivot] * margin, stored), tight(largest, stored)


class _Planner:
    """One pass over a graph: each node's formats follow from those of its operands."""

    def __init__(
        self,
        graph: Graph,
        ranges: Ranges,
        tables: TableFormats,
        margin: float,
        precise: frozenset[int],
        states: Mapping[int, Format],
    ) -> None:
        self.graph = graph
        self.ranges = ranges
        self.tables = tables
        self.stored = tables.stored
        self.reach: Floats = ranges.largest * margin
        self.margin = margin
        self.precise = precise
        self.states = states  # known formats of words of state
        self.values: dict[int, Format] = {}
        self.ports: dict[int, tuple[Format, ...]] = {}

    def constant(self, i: int) -> bool:
        return self.graph.nodes[i].op == names.CONST

    def summand(self, i: int) -> int:
        """Return the largest number of fraction bits with which an adder can read a value."""
        if self.constant(i):
            return tight(abs(float(self.graph.nodes[i].params[0])), self.stored)
        return self.values[i].frac

    def port(self, i: int, width: int) -> int:
        """Return the largest number of fraction bits with which a port can read a value."""
        if self.constant(i):
            return tight(abs(float(self.graph.nodes[i].params[0])), width)
        return min(tight(float(self.reach[i]), width), self.values[i].frac + _FINER)

    def run(self) -> None:
        nodes = self.graph.nodes
        angles = {node.args[0] for node in nodes if node.op in names.TRIG}
        for i, node in enumerate(nodes):
            frac_of_range = tight(float(self.reach[i]), self.stored)
            match node.op:
                case names.CONST:
                    continue
                case names.INPUT:
                    fmt = self.states.get(i, Format(self.stored, frac_of_range))
                    self.values[i] = self.tables.angle if i in angles else fmt
                case names.SIN | names.COS:
                    computed = OPS[nodes[node.args[0]].op].family is Family.FUNCTION
                    angle = self.values[node.args[0]]
                    self.ports[i] = (self.tables.angle if computed else angle,)
                    self.values[i] = self.tables.turn
                case names.RECIPROCAL:
                    frac = _inverse(self.ranges, node.args[0], self.margin, self.stored)[0]
                    self.ports[i] = (Format(self.stored, frac),)
                    self.values[i] = Format(self.stored, self.tables.together - frac)
                case names.ADD | names.SUB | names.SUM | names.NEG:
                    # Each operand must fit as well: a small result may be a difference.
                    fine = [self.summand(a) for a in node.args]
                    if i in angles:
                        fine.append(self.tables.angle.frac)
                    fmt = Format(self.stored, min([frac_of_range, *fine]))
                    self.ports[i] = (fmt,) * len(node.args)
                    self.values[i] = fmt
                case _ if OPS[node.op].family is Family.FUNCTION:
                    self._function(i, node)
                case _:
                    self._products(i, node, frac_of_range)

    def _function(self, i: int, node: Node) -> None:
        """Choose a function's formats: operands at the required points, none finer than stored."""
        row = OPS[node.op]
        finest = [self.summand(a) for a in node.args]
        frac = tight(max(float(self.reach[i]), row.least_of(node)), self.stored)
        fracs = {
            point: min(f for f, p in zip(finest, row.points, strict=True) if p is point)
            for point in set(row.points)
        }
        if OperandPoint.RESULT in fracs:
            frac = fracs[OperandPoint.RESULT] = min(frac, fracs[OperandPoint.RESULT])
        self.ports[i] = tuple(
            Format(self.stored, f if p is OperandPoint.STORED else fracs[p])
            for f, p in zip(finest, row.points, strict=True)
        )
        self.values[i] = Format(self.stored, frac)

    def _products(self, i: int, node: Node, frac: int) -> None:
        width = self.stored if i in self.precise else self.tables.multiplier.narrow
        shift = width - 1
        products, other = pairs(node.args), addend(node.args)
        finest = min(self.port(a, self.stored) + self.port(b, width) for a, b in products)
        common = min(finest, frac + shift)
        if other is not None:  # it must fit at the result's binary point
            common = min(common, self.summand(other) + shift)
        ports: list[Format] = []
        for a, b in products:
            # The effect of rounding one operand is proportional to the other.
            round_a = self.ranges.rms[b] * 2.0 ** -self.port(a, width)
            round_b = self.ranges.rms[a] * 2.0 ** -self.port(b, width)
            narrow, wide = (a, b) if round_a < round_b else (b, a)
            n, w = self.port(narrow, width), self.port(wide, self.stored)
            surplus = n + w - common
            spare = max(0, self.stored - width - _BELOW)
            dropped = min(surplus, spare) if width < self.stored else (surplus + 1) // 2
            w -= dropped
            n -= surplus - dropped
            at = {narrow: Format(width, n), wide: Format(self.stored, w)}
            ports += [at[a], at[b]] if a != b else [Format(self.stored, w), Format(width, n)]
        self.values[i] = Format(self.stored, common - shift)
        self.ports[i] = (*ports, *([] if other is None else [self.values[i]]))


def plan_signals(
    graph: Graph,
    ranges: Ranges,
    tables: TableFormats,
    *,
    margin: float = MARGIN,
    precise: Iterable[int] = (),
) -> SignalPlan:
    """Choose the formats of a real graph's signals.

    Parameters
    ----------
    ranges : ranges of the graph's nodes over the states for which the core is meant.
    tables : formats of angles and pivots.
    margin : factor by which ranges exceed those of the states.
    precise : products (``mul`` and ``dot`` nodes) that get two wide ports, two multiplier blocks
        each.
    """
    state_formats: dict[int, Format] = {}
    words = graph.state_nodes()
    for _ in range(_ROUNDS if words else 1):
        planner = _Planner(graph, ranges, tables, margin, frozenset(precise), state_formats)
        planner.run()
        # A state is as fine as its next value, so that nothing lies between the two.
        next_formats = {i: planner.values.get(state.node) for i, state in words.items()}
        better = {
            i: fmt for i, fmt in next_formats.items() if fmt and _holds(fmt, planner.values[i])
        }
        if all(planner.values[i] == fmt for i, fmt in better.items()):
            break
        state_formats |= better
    for i in graph.negated_results():  # computed by converters, so not signals
        del planner.values[i], planner.ports[i]
    return SignalPlan(values=planner.values, ports=planner.ports)


# Number of iterations for the formats of states, which follow from those of their next values.
_ROUNDS = 4


def _holds(fmt: Format, other: Format) -> bool:
    """Return whether a format's range includes another's."""
    return fmt.width - fmt.frac >= other.width - other.frac


def lower_signals(
    graph: Graph, plan: SignalPlan, *, stored: int = DSP48E2.wide
) -> tuple[Graph, dict[int, int]]:
    """Rewrite a real graph in the fixed dialect, each signal in its format.

    The first operand of each product is at the wide port.

    Parameters
    ----------
    stored : bits of a stored word.

    Returns
    -------
    The fixed graph and, by real node, its node with the stored value.
    """
    to = Rewriter(intern=True)
    place: dict[int, int] = {}
    negated = graph.negated_results()

    def quantized(source: int, fmt: Format, rounding: Rounding, like: Node) -> int:
        params = (fmt.width, fmt.frac, rounding.value, Overflow.WRAP.value)
        return to.emit(names.QUANTIZE, (source,), params, like=like)

    def read(arg: int, fmt: Format, like: Node) -> int:
        node = graph.nodes[arg]
        if node.op == names.CONST:
            return to.emit(names.CONST, (), (node.params[0], fmt.width, fmt.frac), like=node)
        if plan.values[arg] == fmt:
            return place[arg]
        if fmt.width == stored:
            return quantized(place[arg], fmt, Rounding.FLOOR, like)
        source = place[arg]
        if fmt.width - fmt.frac < plan.values[arg].width - plan.values[arg].frac:
            # A port that reads too few high bits sets its flag before it rounds.
            half = Format(fmt.width + 1, fmt.frac + 1)
            source = quantized(source, half, Rounding.FLOOR, like)
        return quantized(source, fmt, Rounding.NEAREST, like)

    results = set(graph.roots)
    for i, node in enumerate(graph.nodes):
        if node.op == names.CONST:
            if i in results:
                fmt = Format(stored, tight(abs(float(node.params[0])), stored))
                params = (node.params[0], fmt.width, fmt.frac)
                place[i] = to.emit(names.CONST, (), params, like=node)
            continue
        if i in negated:
            place[i] = to.emit(node.op, (place[node.args[0]],), like=node)  # exact
            continue
        fmt = plan.values[i]
        if node.op == names.INPUT:
            place[i] = to.emit(names.INPUT, (), (*node.params, fmt.width, fmt.frac), like=node)
            continue
        reads = [read(a, f, node) for a, f in zip(node.args, plan.ports[i], strict=True)]
        if OPS[node.op].family is Family.FUNCTION:
            parameters = (*node.params, fmt.width, fmt.frac)
            place[i] = to.emit(node.op, tuple(reads), parameters, like=node)
            continue
        op, signs = node.op, node.params
        if OPS[op].family is Family.PRODUCT:
            for k in range(0, len(reads) - 1, 2):
                if plan.ports[i][k].width < plan.ports[i][k + 1].width:
                    reads[k : k + 2] = reads[k + 1], reads[k]
            # A dot even for one product: its operands keep their order.
            op, signs = names.DOT, signs or (1,)
        exact = to.emit(op, tuple(reads), signs, like=node)
        place[i] = quantized(exact, fmt, Rounding.FLOOR, node)
    lowered = to.finish(
        (Output(word, place[node]) for word, node in graph.outputs),
        (state._replace(node=place[state.node]) for state in graph.states),
    )
    lowered = fed_back(lowered, Rounding.FLOOR, Overflow.WRAP)
    formats(lowered)  # every width can be derived
    return lowered, place
