"""Error budgets: how far integers may deviate from floats, derived from the graph and its formats.

Each loss of information adds at most a known error: half an LSB for a rounding, the distance of a
constant from its integer, the sine unit's bound. To first order, a result deviates by the sum of
these errors, each times the result's sensitivity to it. Sensitivities come from
reverse-mode differentiation at given states, except for functions with a singularity: their rows
bound their deviation for given errors of the operands. The budget is the largest such sum over the
states, times a margin for second-order terms and for states between the samples. It holds for
requests whose comparisons are all decided by more than the errors of the compared values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.base.arrays import Floats
from pinion.base.progress import SILENT, Progress
from pinion.graph import OPS, Graph, node_floats
from pinion.graph.evaluate import adjoints, decision_adjoints, decisions, formats

# Largest relative error of converting a result to float32.
FLOAT32_EPS = 2.0**-24

MARGIN = 1.25


def introduced_errors(graph: Graph) -> NDArray[np.float64]:
    """Return the largest absolute error that each node of a fixed graph introduces, (nodes,)."""
    fmts = formats(graph)
    errors = np.zeros(len(graph.nodes))
    words = graph.state_nodes()
    for i, node in enumerate(graph.nodes):
        # A state is what the core holds: a budget is for one request.
        if i not in words:
            errors[i] = OPS[node.op].error(node, [fmts[a] for a in node.args], fmts[i])
    return errors


class _Strayed:
    """Deviations of a fixed graph's values from floats at each of a set of states."""

    def __init__(self, graph: Graph, inputs: Mapping[str, Floats]) -> None:
        self.graph = graph
        self.errors = introduced_errors(graph)
        self.values = node_floats(graph, inputs)
        self.count = max((np.size(v) for v in inputs.values()), default=1)
        self.secants: dict[int, Sequence[Any]] = {}
        for i, node in enumerate(graph.nodes):
            if (rule := OPS[node.op].secant) is not None:
                # Near a singularity the tangent says little about the deviation.
                operands = [np.broadcast_to(self.values[a], (self.count,)) for a in node.args]
                errors = [self.bound(self.sensitivities(a)) for a in node.args]
                self.secants[i] = rule(node, operands, errors)

    def sensitivities(self, node: int) -> list[Any]:
        """Return the sensitivities of a node to every node before it."""
        return adjoints(self.graph, self.values, node, self.secants)

    def bound(self, bars: Sequence[Any]) -> Floats:
        """Return the largest deviation of a value with these sensitivities, (n,)."""
        total = np.zeros(self.count)
        for error, bar in zip(self.errors, bars, strict=True):
            if error:
                total = total + np.abs(bar) * error
        return total


def state_budgets(
    graph: Graph, inputs: Mapping[str, Floats], progress: Progress = SILENT
) -> dict[str, Floats]:
    """Return first-order bounds on each result's error at each state, by output name, (n,).

    Parameters
    ----------
    inputs : states (n,) by input word.
    progress : receives the share of the results completed.
    """
    strayed = _Strayed(graph, inputs)
    bounds: dict[str, Floats] = {}
    for name, result in graph.outputs:
        bounds[name] = strayed.bound(strayed.sensitivities(result))
        bounds[name] += FLOAT32_EPS * np.abs(strayed.values[result])
        progress.advance(len(bounds) / len(graph.outputs))
    return bounds


def decision_budget(graph: Graph, inputs: Mapping[str, Floats]) -> dict[int, float]:
    """Return the largest deviation of each deciding quantity from its float value, by node.

    A comparison of values that are closer than that may be decided either way; the error of the
    result then has no bound.
    """
    strayed = _Strayed(graph, inputs)
    bounds: dict[int, float] = {}
    for i in decisions(graph, strayed.values):
        bars = decision_adjoints(graph, strayed.values, i, strayed.secants)
        bounds[i] = float(np.max(strayed.bound(bars))) * MARGIN
    return {i: bound for i, bound in bounds.items() if bound}  # a condition itself is exact


def undecided(
    graph: Graph, inputs: Mapping[str, Floats], bounds: Mapping[int, float], count: int
) -> NDArray[np.bool_]:
    """Return a mask (count,) of the requests in which a comparison may be decided either way.

    Parameters
    ----------
    inputs : requests (count,) by input word, as floats.
    bounds : from :func:`decision_budget`.
    """
    open_requests = np.zeros(count, dtype=np.bool_)
    if bounds:
        by_node = decisions(graph, node_floats(graph, inputs))
        for i, bound in bounds.items():
            open_requests |= ~(np.abs(by_node[i]) > bound)  # NaN is undecided
    return open_requests


def error_budget(
    graph: Graph, inputs: Mapping[str, Floats], progress: Progress = SILENT
) -> dict[str, float]:
    """Return the error budget of each result word over a set of states, in the result's unit."""
    bounds = state_budgets(graph, inputs, progress)
    return {name: float(np.max(bound)) * MARGIN for name, bound in bounds.items()}
