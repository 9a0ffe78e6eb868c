"""Error budgets: how far integers may stray from floats, derived from the graph and its formats.

Each place that loses information adds at most a known error: half a last bit for a rounding, the
distance of a constant from its integer, the sine unit's own bound. To first order a result strays
by the sum of these errors, each times the result's sensitivity to that place. Sensitivities come
from reverse-mode differentiation at given states, but for functions with a singularity: their rows
know how far they stray for operands that are off by so much. The budget is the largest such sum
over the states, times a margin for second-order terms and for states between the samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.graph import Graph, node_floats
from pinion.graph.evaluate import Floats, adjoints, formats
from pinion.graph.ops import OPS
from pinion.graph.progress import Advance, unheard

# Largest relative error of the conversion of a result to float32.
FLOAT32_EPS = 2.0**-24

MARGIN = 1.25


def introduced_errors(graph: Graph) -> NDArray[np.float64]:
    """Largest absolute error that each node of a fixed graph adds itself, (nodes,)."""
    fmts = formats(graph)
    errors = np.zeros(len(graph.nodes))
    for i, node in enumerate(graph.nodes):
        errors[i] = OPS[node.op].error(node, [fmts[a] for a in node.args], fmts[i])
    return errors


def state_budgets(
    graph: Graph, inputs: Mapping[str, Floats], advance: Advance = unheard
) -> dict[str, Floats]:
    """First-order bound of each result's error at each state, by output name, (n,).

    Parameters
    ----------
    inputs : states (n,) by input word.
    advance : called with the share of the results that is done.
    """
    errors = introduced_errors(graph)
    values = node_floats(graph, inputs)
    count = max((np.size(v) for v in inputs.values()), default=1)
    secants: dict[int, Sequence[Any]] = {}

    def bound(node: int) -> Floats:
        total = np.zeros(count)
        for error, bar in zip(errors, adjoints(graph, values, node, secants), strict=True):
            if error:
                total = total + np.abs(bar) * error
        return total

    for i, node in enumerate(graph.nodes):
        if (rule := OPS[node.op].secant) is not None:
            # What strays so far may do so along a curve, which its tangent says little about.
            operands = [np.broadcast_to(values[a], (count,)) for a in node.args]
            secants[i] = rule(node, operands, [bound(a) for a in node.args])
    bounds: dict[str, Floats] = {}
    for name, result in graph.outputs:
        total = bound(result)
        bounds[name] = total + FLOAT32_EPS * np.abs(values[result])
        advance(len(bounds) / len(graph.outputs))
    return bounds


def error_budget(
    graph: Graph, inputs: Mapping[str, Floats], advance: Advance = unheard
) -> dict[str, float]:
    """Error budget of each result word over a set of states, in the result's unit."""
    bounds = state_budgets(graph, inputs, advance)
    return {name: float(np.max(bound)) * MARGIN for name, bound in bounds.items()}
