"""Functions with state, request after request: floats and exact integers.

Each request leaves its state to the next one, so a batch is one stream. Few nodes lie on a path
from a word of state to its next value: only these are computed one request after the other, on
scalars. Everything else is computed for all requests at once: before the loop if it does not depend
on the state, afterwards if it does, because then each request's state is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pinion.base.arrays import Flags, Floats, Ints
from pinion.fixedpoint import Format, FormatError, Overflow, Rounding, Wide, from_float
from pinion.fixedpoint.sincos import SinCos

from . import names
from .elementary import reciprocal_unit
from .evaluate import FixedValues, formats, node_floats, node_integers
from .graph import Feedback, Graph, GraphError, Node
from .ops import OPS, Family, constant_format, quantizer
from .rules import NARROW, Exact, addend, pairs, product_signs, term_signs

Scalar = Callable[[Sequence[Any]], Any]


@dataclass(frozen=True)
class Stream:
    """Values of a stream's words of state, at each request and after the last one.

    Members
    -------
    states : value (n,) of each word of state for each request, by word.
    left : values after the last request, by word.
    """

    states: dict[str, Any]
    left: dict[str, Any]


def initial_integer(state: Feedback, fmt: Format) -> int:
    """Return the integer of a state's initial value, rounded to nearest.

    Raises
    ------
    FormatError
        If the format does not hold it.
    """
    value, changed = from_float(
        state.initial, fmt, rounding=Rounding.NEAREST, overflow=Overflow.SATURATE
    )
    if changed.any():
        raise FormatError(
            f"The initial value {state.initial!r} of '{state.word}' is outside the range of "
            f"{fmt.name}, {fmt.min:g} to {fmt.max:g}: choose a format with more integer bits."
        )
    return int(value)


def stream_floats(
    graph: Graph,
    inputs: Mapping[str, Floats],
    *,
    fresh: Flags | None = None,
    start: Mapping[str, float] | None = None,
) -> Stream:
    """Return the states of a stream in float64.

    Parameters
    ----------
    inputs : a column (n,) for each word of a request.
    fresh : requests (n,) before which the state is set to its initial values.
    start : state of the first request, by word; None for the initial values.
    """
    first = {str(s.word): float(s.initial) for s in graph.states}

    def rule(node: Node) -> Scalar:
        floats = OPS[node.op].floats
        return lambda operands: floats(node, operands)

    return _run(graph, inputs, fresh, first, start, node_floats, rule, float, np.float64)


def stream_integers(
    graph: Graph,
    inputs: Mapping[str, Ints],
    *,
    fresh: Flags | None = None,
    start: Mapping[str, int] | None = None,
) -> tuple[FixedValues, Stream]:
    """Return the exact integers of every node for a stream of requests: the golden model.

    The loop on scalars only proposes the states: every node then follows by the table's rules, and
    the next state of each request must be the one that the following request used.

    Parameters
    ----------
    inputs : integers (n,) in each input's format.
    fresh, start : as in :func:`stream_floats`.

    Raises
    ------
    GraphError
        If the two disagree: a defect in Pinion.
    """
    fmts = formats(graph)
    first = {str(s.word): initial_integer(s, fmts[i]) for i, s in graph.state_nodes().items()}

    def values(before: Graph, columns: Mapping[str, Ints]) -> Sequence[Any]:
        return node_integers(before, columns).nodes

    def rule(node: Node, at: int) -> Scalar:
        return _integer_rule(node, [fmts[a] for a in node.args])

    stream = _run(graph, inputs, fresh, first, start, values, rule, int, np.int64, numbered=True)
    run = node_integers(graph, {**inputs, **stream.states})
    count = _count(inputs)
    restarts = np.zeros(count, dtype=np.bool_) if fresh is None else fresh
    for state in graph.states:
        left = np.broadcast_to(np.asarray(run.nodes[state.node]), (count,))
        states = stream.states[state.word]
        if (left[:-1] != states[1:])[~restarts[1:]].any():
            raise GraphError(
                f"The states of '{state.word}' do not follow from each other by the table's rules: "
                "this is a defect in Pinion; report it."
            )
    return run, stream


def sticky(flags: Flags, fresh: Flags | None = None) -> Flags:
    """Return flags (n,) that, once set, stay set until a request with a fresh state."""
    if fresh is None:
        return np.logical_or.accumulate(flags) if len(flags) else flags
    stream = np.cumsum(fresh)
    last = np.maximum.accumulate(np.where(flags, stream, -1)) if len(flags) else stream
    set_flags: Flags = last == stream
    return set_flags


def looped(graph: Graph) -> tuple[list[int], list[int]]:
    """Return the nodes on a path between states, and the other nodes that they read."""
    depends = [False] * len(graph.nodes)
    words = graph.state_nodes()
    for i, node in enumerate(graph.nodes):
        depends[i] = i in words or any(depends[a] for a in node.args)
    needed = [False] * len(graph.nodes)
    for state in graph.states:
        needed[state.node] = True
    for i in range(len(graph.nodes) - 1, -1, -1):
        if needed[i] and depends[i]:
            for a in graph.nodes[i].args:
                needed[a] = True
    inside = [i for i in range(len(graph.nodes)) if needed[i] and depends[i] and i not in words]
    beside = [i for i in range(len(graph.nodes)) if needed[i] and not depends[i]]
    return inside, beside


def _count(inputs: Mapping[str, Any]) -> int:
    return max((np.size(column) for column in inputs.values()), default=1)


# Many parameters: the loop that floats and integers share.
def _run(
    graph: Graph,
    inputs: Mapping[str, Any],
    fresh: Flags | None,
    first: Mapping[str, Any],
    start: Mapping[str, Any] | None,
    values: Callable[[Graph, Mapping[str, Any]], Sequence[Any]],
    rule: Callable[..., Scalar],
    scalar: type,
    dtype: type,
    *,
    numbered: bool = False,
) -> Stream:
    """Run a stream request by request, on floats or integers.

    Parameters
    ----------
    first : initial values by word.
    values : evaluates all nodes of a graph at once.
    rule : returns a function from the scalar operands of a node to its value.
    """
    count = _count(inputs)
    inside, beside = looped(graph)
    place = {i: k for k, i in enumerate(beside)}
    values_beside = _beside(graph, inputs, beside, values, count)
    columns = [values_beside[i] for i in beside]
    words = graph.state_nodes()
    place |= {i: len(place) + k for k, i in enumerate(words)}
    place |= {i: len(place) + k for k, i in enumerate(inside)}
    steps = [
        (place[i], rule(node, i) if numbered else rule(node), tuple(place[a] for a in node.args))
        for i in inside
        for node in [graph.nodes[i]]
    ]
    state_cells = [place[i] for i in words]
    order = [str(state.word) for state in words.values()]
    following = [place[state.node] for state in words.values()]
    histories: list[list[Any]] = [[] for _ in state_cells]
    beginning = [scalar(first[word]) for word in order]
    state = [scalar((start or first)[word]) for word in order]
    restarts = [False] * count if fresh is None else fresh.tolist()
    cells: list[Any] = [None] * len(place)
    for t in range(count):
        if restarts[t]:
            state = beginning
        for k, column in enumerate(columns):
            cells[k] = column[t]
        for k, (at, value) in enumerate(zip(state_cells, state, strict=True)):
            cells[at] = value
            histories[k].append(value)
        for at, compute, args in steps:
            cells[at] = compute([cells[a] for a in args])
        state = [scalar(cells[at]) for at in following]
    return Stream(
        {word: np.array(column, dtype) for word, column in zip(order, histories, strict=True)},
        dict(zip(order, state, strict=True)),
    )


def _beside(
    graph: Graph,
    inputs: Mapping[str, Any],
    beside: Iterable[int],
    values: Callable[[Graph, Mapping[str, Any]], Sequence[Any]],
    count: int,
) -> dict[int, list[Any]]:
    """Return the values that the loop reads from nodes outside it, as lists of scalars."""
    read = list(beside)
    live = [False] * len(graph.nodes)
    for i in read:
        live[i] = True
    for i in range(len(graph.nodes) - 1, -1, -1):
        if live[i]:
            for a in graph.nodes[i].args:
                live[a] = True
    numbers = {i: k for k, i in enumerate(k for k in range(len(graph.nodes)) if live[k])}
    part = Graph(
        tuple(
            Node(node.op, tuple(numbers[a] for a in node.args), node.params)
            for i, node in enumerate(graph.nodes)
            if live[i]
        ),
        (),
    )
    evaluated = values(part, inputs) if read else []
    return {i: np.broadcast_to(np.asarray(evaluated[numbers[i]]), (count,)).tolist() for i in read}


def _integer_rule(node: Node, fmts: Sequence[Format]) -> Scalar:
    """Return a function from Python integers to a node's exact value.

    The frequent operations of loops have fast functions; the others use their row of the table.
    """
    row = OPS[node.op]
    if row.family is Family.SUM:
        signs = term_signs(node)
        return lambda x: sum(sign * term for sign, term in zip(signs, x, strict=True))
    if row.family is Family.NEGATION:
        return lambda x: -x[0]
    if node.op in (names.MUL, names.DOT):
        return _products(node, fmts)
    if node.op == names.QUANTIZE:
        return _quantize(node, fmts[0])

    # Units with a table are created once, not for every request.
    if node.op in names.TRIG:
        turn, cosine = SinCos(source=fmts[0], target=constant_format(node)), node.op == names.COS
        return lambda x: int(turn.compute(_alone(x[0]), cosine)[0])
    if node.op == names.RECIPROCAL:
        inverse = reciprocal_unit(node, fmts[0])
        return lambda x: int(inverse.compute(_alone(x[0]))[0][0])

    def integer(x: Sequence[Any]) -> int:
        value, _ = row.integers(node, [_alone(y) for y in x], fmts)
        return int(np.ravel(_narrow(value, node))[0])

    return integer


def _narrow(value: Exact, node: Node) -> Ints:
    """Return a node's value, which has one limb after rounding; raise if it has two."""
    if isinstance(value, Wide):
        raise GraphError(
            f"The value of {node.op} ({node.line or 'no line'}), on a loop through states, has "
            f"more than {NARROW} bits: quantize it."
        )
    return value


def _alone(value: int) -> Ints:
    return np.array([value], np.int64)


def _products(node: Node, fmts: Sequence[Format]) -> Scalar:
    signs = product_signs(node)
    shift = 0
    if (other := addend(fmts)) is not None:
        a, b = pairs(fmts)[0]
        shift = a.frac + b.frac - other.frac

    def value(x: Sequence[Any]) -> int:
        total = sum(sign * a * b for sign, (a, b) in zip(signs, pairs(x), strict=True))
        return int(total if addend(x) is None else total + (addend(x) << shift))

    return value


def _quantize(node: Node, source: Format) -> Scalar:
    target, rounding, overflow = quantizer(node)
    shift = source.frac - target.frac
    half = 1 << (shift - 1) if shift > 0 and rounding is Rounding.NEAREST else 0
    low, high, span = target.min_int, target.max_int, (1 << target.width) - 1
    saturates = overflow is Overflow.SATURATE

    def value(x: Sequence[Any]) -> int:
        y = x[0] << -shift if shift < 0 else (x[0] + half) >> shift
        if saturates:
            return int(min(max(y, low), high))
        return int(((y - low) & span) + low)

    return value
