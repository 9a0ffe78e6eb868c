"""Numeric value numbering: merging of nodes whose values are equal in random states.

Equal values need not be equal expressions: composite quantities that two passes of an algorithm
compute in different ways, entries that are symmetric for a reason no rewriting rule knows, terms
that cancel for one robot's geometry. Evaluating them on random states shows the equality, up to
sign (a sign is free: the sum or dot that reads the value applies it). This is a proof with a small
probability of error, as in the testing of polynomial identities (Schwartz 1980): an identity of
functions holds in every state, a coincidence not to twelve digits in each of dozens. A second batch
of states, which the search does not see, has to confirm every replacement.
"""

from __future__ import annotations

import numpy as np

from pinion.graph import names
from pinion.graph.costs import Costs
from pinion.graph.graph import Graph

from .samples import TOLERANCE, Samples, States, arrivals
from .simplify import Folder, Signed


def number_values(graph: Graph, search: States, check: States, *, costs: Costs) -> Graph:
    """Merge nodes of equal value, and replace nodes that do not vary by constants.

    Of several equal nodes, the one that is ready first stays.

    Parameters
    ----------
    graph : of the real dialect, before dots are gathered.
    search : states (n,) by input word to look for equal nodes. Draw words independently of each
        other, even if a caller would not (the entries of M^-1 and q): passes must not rely on a
        relation between inputs that a caller keeps only to rounding.
    check : other states (m,), in which equal nodes must be equal too.
    """
    samples = Samples.of(graph, search, check)
    ready = arrivals(graph, costs)
    order = sorted(range(len(graph.nodes)), key=lambda i: (ready[i], i))
    same = _classes(graph, samples, order)
    vanishing, steady = samples.vanishing(), samples.steady()
    folder = Folder()
    new: list[Signed] = [(1, -1)] * len(graph.nodes)
    for i in order:
        node = graph.nodes[i]
        if node.op == names.INPUT:
            new[i] = folder.visit(node, [])
        elif vanishing[i]:
            new[i] = folder.constant(0.0, node)
        elif node.op != names.CONST and steady[i]:
            new[i] = folder.constant(float(np.median(samples.search[i])), node)
        elif same[i] != (1, i):
            sign, equal = same[i]
            new[i] = sign * new[equal][0], new[equal][1]
        else:
            new[i] = folder.visit(node, [new[a] for a in node.args])
    return folder.finish(graph, new)


def _classes(graph: Graph, samples: Samples, order: list[int]) -> list[Signed]:
    """Return for each node the sign and number of the equal node that comes first in ``order``."""
    first = np.abs(samples.search[:, 0])
    by_size = np.argsort(first, kind="stable")
    sizes, slack = first[by_size], TOLERANCE * samples.largest[0]
    lows = np.searchsorted(sizes, first - slack).tolist()
    highs = np.searchsorted(sizes, first + slack, side="right").tolist()
    same: list[Signed] = [(1, i) for i in range(len(graph.nodes))]
    place = {i: k for k, i in enumerate(order)}
    for i in order:
        if same[i] != (1, i):
            continue
        for j in by_size[lows[i] : highs[i]].tolist():
            if place[j] <= place[i] or same[j] != (1, j) or graph.nodes[j].op == names.INPUT:
                continue
            sign = 1 if samples.search[i, 0] * samples.search[j, 0] >= 0 else -1
            if samples.agree(j, sign * samples.search[i], sign * samples.check[i]):
                same[j] = (sign, i)
    return same
