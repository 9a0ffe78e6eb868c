"""Evaluation of a graph: floats, exact integers, sensitivities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.base.arrays import Flags, Ints
from pinion.fixedpoint import Format, Wide
from pinion.fixedpoint.float32 import fixed_to_float32, float32_to_fixed

from . import names
from .graph import Graph, GraphError, Node
from .ops import OPS, Family
from .rules import NARROW, Exact

WIDEST = 94
"""Bits of an exact sum or product that two limbs hold (:class:`pinion.fixedpoint.Wide`)."""

WIDEST_FACTOR = 39
"""Bits of a factor of a product that needs two limbs."""

_EXACT = (Family.SUM, Family.NEGATION, Family.PRODUCT)


def _input(inputs: Mapping[str, Any], name: str) -> Any:
    try:
        return inputs[name]
    except KeyError:
        raise GraphError(
            f"The input '{name}' is missing; the inputs given are "
            f"{', '.join(sorted(inputs)) or 'none'}."
        ) from None


def node_floats(graph: Graph, inputs: Mapping[str, Any]) -> list[Any]:
    """Return the value of every node in float64 (``quantize`` is the identity).

    Parameters
    ----------
    inputs : a float or an array (n,) for each input word.
    """
    values: list[Any] = []
    for node in graph.nodes:
        values.append(_float(node, inputs, values))
    return values


def _float(
    node: Node, inputs: Mapping[str, Any], values: list[Any], dtype: type[np.floating] = np.float64
) -> Any:
    if node.op == names.INPUT:
        return np.asarray(_input(inputs, str(node.params[0])), dtype=dtype)
    return OPS[node.op].floats(node, [values[a] for a in node.args])


def evaluate_floats(
    graph: Graph, inputs: Mapping[str, Any], dtype: type[np.floating] = np.float64
) -> dict[str, Any]:
    """Return result words by name, evaluated in ``dtype``; intermediate values are freed early."""
    last = list(range(len(graph.nodes)))
    for i, node in enumerate(graph.nodes):
        for arg in node.args:
            last[arg] = i
    for result in graph.roots:
        last[result] = len(graph.nodes)
    values: list[Any] = []
    for i, node in enumerate(graph.nodes):
        values.append(_float(node, inputs, values, dtype))
        for arg in node.args:
            if last[arg] == i:
                values[arg] = None
    return {word: values[node] for word, node in graph.outputs}


def formats(graph: Graph) -> list[Format]:
    """Return the format of every node of the fixed dialect, derived by the table's rules."""
    result: list[Format] = []
    for i, node in enumerate(graph.nodes):
        try:
            result.append(OPS[node.op].fmt(node, [result[a] for a in node.args]))
        except ValueError as error:
            raise GraphError(
                f"Node %{i} ({node.op}) does not fit the fixed dialect: {error}"
            ) from None
    return result


@dataclass(frozen=True)
class FixedValues:
    """Exact integers of every node, and flags of the values that saturated.

    Members
    -------
    nodes : integers (n,) of each node, in two limbs if wider than 62 bits.
    saturated : flags (n,) of each node, None if its operation cannot saturate.
    """

    nodes: tuple[Exact, ...]
    saturated: tuple[Flags | None, ...]

    def any_saturated(self, count: int) -> Flags:
        """Return flags (n,) of the requests in which any node saturated."""
        flags = np.zeros(count, dtype=np.bool_)
        for flag in self.saturated:
            if flag is not None:
                flags |= flag
        return flags


class Integers:
    """Golden model of a graph, with its formats derived once for any number of batches.

    Parameters
    ----------
    graph : of the fixed dialect.

    Members
    -------
    graph, formats : the graph, and the format of every node.

    Raises
    ------
    GraphError
        If the graph is not of the fixed dialect, or a value has more bits than exact arithmetic on
        arrays supports.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.formats = formats(graph)
        _check_widths(graph, self.formats)
        nodes = zip(graph.nodes, self.formats, strict=True)
        self._inputs = {str(n.params[0]): fmt for n, fmt in nodes if n.op == names.INPUT}

    def __call__(self, inputs: Mapping[str, Ints]) -> FixedValues:
        """Return the exact integers of every node, from integers (n,) in each input's format.

        Raises
        ------
        GraphError
            If an input has no value.
        """
        fmts = self.formats
        values: list[Exact] = []
        flags: list[Flags | None] = []
        for node in self.graph.nodes:
            if node.op == names.INPUT:
                operands: list[Exact] = [np.asarray(_input(inputs, str(node.params[0])), np.int64)]
            else:
                operands = [values[a] for a in node.args]
            value, flag = OPS[node.op].integers(node, operands, [fmts[a] for a in node.args])
            values.append(value)
            flags.append(flag)
        return FixedValues(tuple(values), tuple(flags))

    def received(
        self, columns: Mapping[str, NDArray[Any]], count: int
    ) -> tuple[dict[str, Ints], Flags]:
        """Convert float32 columns to integers (count,) of each input word, except states.

        The second result marks the requests (count,) with a number that its format cannot hold.

        Parameters
        ----------
        columns : (count,) by input word, as float32.
        """
        inputs, flags = dict[str, Ints](), np.zeros(count, dtype=np.bool_)
        for word in self.graph.inputs:
            bits = np.ascontiguousarray(columns[word], dtype=np.float32).view(np.uint32)
            inputs[word], bad = float32_to_fixed(bits, self._inputs[word])
            flags |= bad
        return inputs, flags

    def sent(self, values: FixedValues, count: int) -> NDArray[np.float32]:
        """Return results (count, words) as float32, as they are transmitted."""
        words = np.empty((count, len(self.graph.outputs)), dtype=np.uint32)
        for at, (_, node) in enumerate(self.graph.outputs):
            whole = np.broadcast_to(np.asarray(values.nodes[node]), (count,))
            words[:, at] = fixed_to_float32(whole, self.formats[node])
        return words.view(np.float32)


def node_integers(graph: Graph, inputs: Mapping[str, Ints]) -> FixedValues:
    """Return the exact integers of every node of a fixed-dialect graph: the golden model.

    Parameters
    ----------
    inputs : integers (n,) in each input's format.

    Raises
    ------
    GraphError
        If the graph is not of the fixed dialect, an input has no value, or a value has more bits
        than exact arithmetic on arrays supports.
    """
    return Integers(graph)(inputs)


def _check_widths(graph: Graph, fmts: list[Format]) -> None:
    for i, node in enumerate(graph.nodes):
        family, width = OPS[node.op].family, fmts[i].width
        widest = WIDEST if family in _EXACT else NARROW
        # An addend of products is not a factor.
        factor = max((fmts[a].width for a in node.args[: len(node.args) // 2 * 2]), default=0)
        if width > widest:
            remedy = "quantize its operands to" if family in _EXACT else "give it"
            raise GraphError(
                f"Node %{i} ({node.op}) has {width} bits; results of this operation are exact up "
                f"to {widest} bits: {remedy} fewer."
            )
        if family is Family.PRODUCT and width > NARROW and factor > WIDEST_FACTOR:
            raise GraphError(
                f"Node %{i} ({node.op}) has a factor of {factor} bits; for results of more than "
                f"{NARROW} bits the limit is {WIDEST_FACTOR}: quantize the factor to fewer."
            )


def evaluate_integers(graph: Graph, inputs: Mapping[str, Ints]) -> tuple[dict[str, Ints], Flags]:
    """Return result words as integers by name, and the saturation flag of each request."""
    run = node_integers(graph, inputs)
    count = max((np.size(v) for v in inputs.values()), default=1)
    results: dict[str, Ints] = {}
    for name, node in graph.outputs:
        value = run.nodes[node]
        if isinstance(value, Wide):
            raise GraphError(f"The output '{name}' is wider than 62 bits: quantize it.")
        results[name] = np.broadcast_to(value, (count,))
    return results, run.any_saturated(count)


def adjoints(
    graph: Graph,
    values: list[Any],
    output: int,
    secants: Mapping[int, Sequence[Any]] = MappingProxyType({}),
) -> list[Any]:
    """Return d(output)/d(node) for every node before an output, by reverse-mode differentiation.

    Parameters
    ----------
    values : node values from :func:`node_floats`.
    output : the node to differentiate.
    secants : replacements for some nodes' derivatives with respect to their operands.

    Returns
    -------
    An array (n,) for each node, 0.0 if the output does not depend on it.
    """
    return _adjoints(graph, values, {output: 1.0}, secants)


def decisions(graph: Graph, values: list[Any]) -> dict[int, Any]:
    """Return, for each discontinuous node, the quantity (n,) whose sign decides its branch.

    Parameters
    ----------
    values : node values from :func:`node_floats`.
    """
    quantities = {}
    for i, node in enumerate(graph.nodes):
        if (rule := OPS[node.op].decides) is not None:
            quantities[i] = rule(node, [values[a] for a in node.args])[0]
    return quantities


def decision_adjoints(
    graph: Graph,
    values: list[Any],
    node: int,
    secants: Mapping[int, Sequence[Any]] = MappingProxyType({}),
) -> list[Any]:
    """Return adjoints, as `adjoints` does, of the quantity that decides a node's branch."""
    decided = graph.nodes[node]
    rule = OPS[decided.op].decides
    assert rule is not None
    _, partials = rule(decided, [values[a] for a in decided.args])
    seeds: dict[int, float] = {}
    for arg, partial in zip(decided.args, partials, strict=True):
        seeds[arg] = seeds.get(arg, 0.0) + partial
    return _adjoints(graph, values, seeds, secants)


def _adjoints(
    graph: Graph,
    values: list[Any],
    seeds: Mapping[int, float],
    secants: Mapping[int, Sequence[Any]],
) -> list[Any]:
    bars: list[Any] = [0.0] * len(graph.nodes)
    for start, seed in seeds.items():
        bars[start] = seed
    for i in range(max(seeds), -1, -1):
        node = graph.nodes[i]
        if not node.args or (isinstance(bars[i], float) and bars[i] == 0.0):
            continue
        partials = secants.get(i)
        if partials is None:
            partials = OPS[node.op].derivative(node, [values[a] for a in node.args])
        for arg, partial in zip(node.args, partials, strict=True):
            bars[arg] = bars[arg] + bars[i] * partial
    return bars
