"""A graph in the operations of the processor: sums of products, and reciprocals.

Products go into each sum that reads them, since a slot costs the same there as a copy of the value
would; so do sums with one reader. Sines and cosines become polynomials of half the angle, which is
first wrapped to a turn. Choices become products with 0 or 1, the result of a comparison.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from pinion.base.arrays import Floats
from pinion.graph import Graph, Node, Region, Word, names

from .errors import ProgramError
from .machine import Finish


@dataclass(frozen=True)
class Summand:
    """A product in a sum, ``sign * a * b * 2**power``.

    Members
    -------
    sign : 1 or -1.
    a, b : numbers of values; in a term that is not a product, b is the constant 1.
    """

    sign: int
    a: int
    b: int
    power: int = 0


@dataclass(frozen=True, kw_only=True)
class Value:
    """A word that a program computes, or receives as an input or a constant.

    Members
    -------
    terms : of a sum.
    finish : what becomes of the sum.
    inverse : the value whose reciprocal it is.
    word : of the request record.
    constant : known in advance, at least 1/2 and below 1; factors of two are in the terms.
    region, line : of the graph's node.
    """

    terms: tuple[Summand, ...] = ()
    finish: Finish = Finish.CLIP
    inverse: int | None = None
    word: Word | None = None
    constant: float | None = None
    region: Region | None = None
    line: str = ""

    @property
    def operands(self) -> tuple[int, ...]:
        """Values from which this one is computed."""
        if self.inverse is not None:
            return (self.inverse,)
        return tuple(k for t in self.terms for k in (t.a, t.b))


@dataclass(frozen=True)
class Sums:
    """A function of a robot as values in order of evaluation.

    Members
    -------
    record : words of the request record, read or not.
    values : operands come before what is computed from them.
    results : words of the result record and their values.
    interleave : number of samples; each has an equal share of all these, in order.
    """

    record: tuple[Word, ...]
    values: tuple[Value, ...]
    results: tuple[tuple[Word, int], ...]
    interleave: int = 1

    @property
    def arrivals(self) -> dict[int, int]:
        """Position in the request record of each input, by value."""
        places = {str(word): place for place, word in enumerate(self.record)}
        return {
            number: places[str(value.word)]
            for number, value in enumerate(self.values)
            if value.word is not None
        }

    def evaluate(self, columns: Mapping[str, Floats]) -> list[Floats]:
        """Return all values in float64 for columns (n,) of the input words."""
        out: list[Floats] = []
        shape = next(iter(columns.values())).shape
        for value in self.values:
            if value.word is not None:
                out.append(np.asarray(columns[str(value.word)], dtype=np.float64))
            elif value.constant is not None:
                out.append(np.broadcast_to(np.float64(value.constant), shape))
            elif value.inverse is not None:
                out.append(1.0 / out[value.inverse])
            else:
                total = sum(t.sign * 2.0**t.power * out[t.a] * out[t.b] for t in value.terms)
                match value.finish:
                    case Finish.WRAP:
                        total = total - np.round(total)
                    case Finish.SIGN:
                        total = np.where(np.asarray(total) < 0.0, 1.0, 0.0)
                out.append(np.asarray(total))
        return out

    def users(self) -> list[list[int]]:
        """Return, for each value, the numbers of the values computed from it."""
        users: list[list[int]] = [[] for _ in self.values]
        for number, value in enumerate(self.values):
            for operand in dict.fromkeys(value.operands):
                users[operand].append(number)
        return users


def sums_of(graph: Graph, record: Sequence[Word]) -> Sums:
    """Return a graph of the real dialect as sums of products.

    Parameters
    ----------
    record : words of a request, in its order.

    Raises
    ------
    ProgramError
        If the graph has an operation that the processor does not compute, or states.
    """
    return _Gatherer(graph).run(tuple(record))


_LINEAR = (names.ADD, names.SUB, names.SUM, names.NEG, names.DOT, names.MUL)


def _pair(term: Summand) -> tuple[int, int]:
    return min(term.a, term.b), max(term.a, term.b)


def _order(term: Summand) -> tuple[int, int, int, int]:
    return (*_pair(term), term.power, term.sign)


class _Scaled(NamedTuple):
    """A value times ``sign * 2**power``."""

    number: int
    sign: int = 1
    power: int = 0


@dataclass
class _Gatherer:
    graph: Graph
    values: list[Value] = field(default_factory=list)
    constants: dict[float, int] = field(default_factory=dict)
    sums: dict[Any, _Scaled] = field(default_factory=dict)
    placed: dict[int, _Scaled] = field(default_factory=dict)
    turns: dict[_Scaled, tuple[_Scaled, _Scaled]] = field(default_factory=dict)
    half: dict[tuple[_Scaled, str], _Scaled] = field(default_factory=dict)

    def run(self, record: tuple[Word, ...]) -> Sums:
        graph = self.graph
        if graph.states:
            raise ProgramError(
                f"The function keeps the state '{graph.states[0].word}' from request to request, "
                "which programs cannot do: build a core for it."
            )
        self.uses = graph.uses()
        for number, node in enumerate(graph.nodes):
            if node.op == names.INPUT:
                self.value(number)
        results = tuple((out.word, self.result(out.node)) for out in graph.outputs)
        return Sums(record, tuple(self.values), results)

    def result(self, i: int) -> int:
        """Return the value for a result; copy constants, inputs, and negated or scaled values."""
        value = self.value(i)
        if self.values[value.number].operands and value[1:] == (1, 0):
            return value.number
        return self._copy(value, self.graph.nodes[i])

    def add(self, value: Value) -> int:
        self.values.append(value)
        return len(self.values) - 1

    def constant(self, number: float) -> _Scaled:
        mantissa, power = math.frexp(abs(number))
        if mantissa not in self.constants:
            self.constants[mantissa] = self.add(Value(constant=mantissa))
        return _Scaled(self.constants[mantissa], -1 if number < 0.0 else 1, power)

    def sum(self, terms: Sequence[Summand], like: Node, finish: Finish = Finish.CLIP) -> _Scaled:
        """Return a sum, or an existing one that equals it up to sign and a power of two."""
        first = min(terms, key=_order)
        sign, power = (first.sign, first.power) if finish == Finish.CLIP else (1, 0)
        key = finish, tuple(sorted((*_pair(t), t.power - power, t.sign * sign) for t in terms))
        if key not in self.sums:
            value = Value(terms=tuple(terms), finish=finish, region=like.region, line=like.line)
            self.sums[key] = _Scaled(self.add(value), sign, power)
        number, known_sign, known_power = self.sums[key]
        return _Scaled(number, sign * known_sign, power - known_power)

    def _copy(self, value: _Scaled, like: Node) -> int:
        """Add a sum that copies a value, with its sign and power of two, and return its number."""
        alone = Value(terms=(self.lone(value),), region=like.region, line=like.line)
        return self.add(alone)

    def term(self, sign: int, a: _Scaled, b: _Scaled, power: int = 0) -> Summand:
        return Summand(sign * a.sign * b.sign, a.number, b.number, power + a.power + b.power)

    def lone(self, value: _Scaled, sign: int = 1) -> Summand:
        """Return a term for a single value, multiplied by 1."""
        return self.term(sign, value, self.constant(1.0))

    def value(self, i: int) -> _Scaled:
        """Return the value of a node, creating it and its operands if they do not exist."""
        # Iterative, because graphs are deeper than Python's stack.
        pending = [i]
        while pending:
            node = pending[-1]
            missing = [] if node in self.placed else self._missing(node)
            if missing:
                pending += missing
                continue
            pending.pop()
            if node not in self.placed:
                self.placed[node] = self._place(node)
        return self.placed[i]

    def _missing(self, i: int) -> list[int]:
        """Return the nodes that a node needs but that do not have values yet."""
        node = self.graph.nodes[i]
        if node.op in _LINEAR:
            return [k for k in self._leaves(i) if k not in self.placed]
        return [k for k in node.args if k not in self.placed]

    def _leaves(self, i: int) -> list[int]:
        """Return the nodes that the terms of a linear node read."""
        leaves: list[int] = []
        for _, a, b in self._products(i):
            leaves += [a] if b is None else [a, b]
        return leaves

    def _products(self, i: int) -> list[tuple[int, int, int | None]]:
        """Return the terms of a linear node: sign, and one or two nodes."""
        out: list[tuple[int, int, int | None]] = []
        pending = [(1, i, True)]
        while pending:
            sign, k, root = pending.pop()
            node = self.graph.nodes[k]
            if node.op == names.MUL:
                a, b = node.args
                out.append((sign, a, b))
            elif node.op in _LINEAR and (root or self.uses[k] == 1 or node.op == names.NEG):
                signs, args = _signed(node)
                if node.op == names.DOT:
                    pairs = len(args) // 2
                    out += [(sign * signs[p], args[2 * p], args[2 * p + 1]) for p in range(pairs)]
                    pending += [
                        (sign * s, k, False)
                        for s, k in zip(signs[pairs:], args[2 * pairs :], strict=True)
                    ]
                else:
                    pending += [(sign * s, k, False) for s, k in zip(signs, args, strict=True)]
            else:
                out.append((sign, k, None))
        return out[::-1]

    def _place(self, i: int) -> _Scaled:
        node = self.graph.nodes[i]
        match node.op:
            case names.INPUT:
                word = Word.of(str(node.params[0]))
                return _Scaled(self.add(Value(word=word, line=node.line)))
            case names.CONST:
                return self.constant(float(node.params[0]))
            case names.RECIPROCAL:
                operand = self._computed(node.args[0])
                inverse = Value(inverse=operand, region=node.region, line=node.line)
                return _Scaled(self.add(inverse))
            case names.SIN | names.COS:
                return self._wave(node)
            case names.LESS:
                a, b = (self.placed[k] for k in node.args)
                return self._less(a, b, node)
            case names.SELECT | names.MINIMUM | names.MAXIMUM | names.ABS | names.CLAMP:
                return self.sum(self._choice(node), node)
            case _ if node.op in _LINEAR:
                return self.sum([self._term(*product) for product in self._products(i)], node)
        raise ProgramError(
            f"The processor cannot compute '{node.op}' ({node.line or 'in the graph'}): build a "
            "core for this function."
        )

    def _computed(self, i: int) -> int:
        """Return the value of a node in a result register, adding a copy if necessary."""
        value = self.placed[i]
        if self.values[value.number].terms and value[1:] == (1, 0):
            return value.number
        return self._copy(value, self.graph.nodes[i])

    def _term(self, sign: int, a: int, b: int | None) -> Summand:
        if b is None:
            return self.lone(self.placed[a], sign)
        return self.term(sign, self.placed[a], self.placed[b])

    def _less(self, a: _Scaled, b: _Scaled, node: Node) -> _Scaled:
        """Return the value of the comparison a < b: 1 if true, else 0."""
        return self.sum([self.lone(a), self.lone(b, -1)], node, Finish.SIGN)

    def _choice(self, node: Node) -> list[Summand]:
        """Return the terms of a choice: the last value, or others where comparisons hold."""
        values = [self.placed[k] for k in node.args]
        first, last = values[0], values[-1]
        match node.op:
            case names.SELECT:
                if self.values[first.number].finish != Finish.SIGN:
                    first = self._less(self.constant(0.5), first, node)
                others = [(first, values[1])]
            case names.MINIMUM:
                others = [(self._less(first, last, node), first)]
            case names.MAXIMUM:
                others = [(self._less(last, first, node), first)]
            case names.ABS:
                negative = self.sum([self.lone(last)], node, Finish.SIGN)
                others = [(negative, last._replace(sign=-last.sign))]
            case _:
                low, high = (self.constant(float(end)) for end in node.params[:2])
                others = [(self._less(last, low, node), low), (self._less(high, last, node), high)]
        terms = [self.lone(last)]
        for holds, other in others:
            terms += [self.term(1, holds, other), self.term(-1, holds, last)]
        return terms

    def _wave(self, node: Node) -> _Scaled:
        """Return a sine or cosine from those of half the angle, as ``2 s c`` or ``1 - 2 s^2``."""
        angle = self.placed[node.args[0]]
        sine = self._half(angle, "sin", node)
        if node.op == names.COS:
            unit = self.lone(self.constant(1.0))
            return self.sum([unit, self.term(-1, sine, sine, 1)], node)
        return self.sum([self.term(1, sine, self._half(angle, "cos", node), 1)], node)

    def _half(self, angle: _Scaled, wave: str, node: Node) -> _Scaled:
        """Return the sine or cosine of half an angle, which is within a quarter of a turn."""
        if (angle, wave) in self.half:
            return self.half[angle, wave]
        if angle not in self.turns:
            in_turns = self.term(1, angle, self.constant(1.0 / (2.0 * math.pi)))
            turn = self.sum([in_turns], node, Finish.WRAP)
            self.turns[angle] = turn, self.sum([self.term(1, turn, turn)], node)
        turn, square = self.turns[angle]
        first, *others = polynomial(wave)
        terms = [self.lone(self.constant(first))]
        for exponent, coefficient in enumerate(others, 1):
            power = self._power(angle, square, exponent, node)
            terms.append(self.term(1, power, self.constant(coefficient)))
        result = self.sum(terms, node)
        if wave == "sin":
            result = self.sum([self.term(1, turn, result)], node)
        self.half[angle, wave] = result
        return result

    def _power(self, angle: _Scaled, square: _Scaled, exponent: int, node: Node) -> _Scaled:
        if exponent == 1:
            return square
        key = (angle, str(exponent))
        if key not in self.half:
            low = self._power(angle, square, exponent // 2, node)
            high = self._power(angle, square, exponent - exponent // 2, node)
            self.half[key] = self.sum([self.term(1, low, high)], node)
        return self.half[key]


def _signed(node: Node) -> tuple[list[int], tuple[int, ...]]:
    """Return the signs of a linear node's terms, and its operands."""
    match node.op:
        case names.SUB:
            return [1, -1], node.args
        case names.NEG:
            return [-1], node.args
        case names.ADD:
            return [1, 1], node.args
    return [int(s) for s in node.params], node.args


DEGREES = {"sin": 4, "cos": 5}
"""Degrees in the square of the turn; the errors are 7e-9 and 2e-10."""


@cache
def polynomial(wave: str) -> tuple[float, ...]:
    """Return coefficients in u = t^2, lowest first, of sin(pi t) / t or cos(pi t), |t| <= 1/2.

    They interpolate at Chebyshev nodes of u, which is nearly the best polynomial.
    """
    count = DEGREES[wave] + 1
    nodes = 0.125 * (1.0 - np.cos(np.pi * (np.arange(count) + 0.5) / count))
    t = np.sqrt(nodes)
    values = np.sin(np.pi * t) / t if wave == "sin" else np.cos(np.pi * t)
    return tuple(np.linalg.solve(np.vander(nodes, increasing=True), values).tolist())
