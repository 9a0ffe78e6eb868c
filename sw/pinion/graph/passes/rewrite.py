"""Node-by-node rebuilding of a graph, which the passes share."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pinion.graph.check import verify
from pinion.graph.graph import Feedback, Graph, Node, Output, Param
from pinion.graph.ops import OPS


class Rewriter:
    """A graph under construction by a pass.

    Parameters
    ----------
    intern : whether equal nodes share a number (commutative operands in either order are equal).
    """

    def __init__(self, *, intern: bool) -> None:
        self.intern = intern
        self.nodes: list[Node] = []
        self._numbers: dict[tuple[str, tuple[int, ...], tuple[Param, ...]], int] = {}

    def emit(
        self, op: str, args: tuple[int, ...], params: tuple[Param, ...] = (), *, like: Node
    ) -> int:
        """Append a node with the region and line of ``like``, or reuse an equal one."""
        if self.intern and OPS[op].commutative:
            args = tuple(sorted(args))
        key = (op, args, params)
        if self.intern and key in self._numbers:
            return self._numbers[key]
        self.nodes.append(Node(op, args, params, like.region, like.line))
        self._numbers[key] = len(self.nodes) - 1
        return len(self.nodes) - 1

    def finish(self, outputs: Iterable[Output], states: Iterable[Feedback] = ()) -> Graph:
        """Return the new graph, verified."""
        return verify(Graph(tuple(self.nodes), tuple(outputs), tuple(states)))


def rebuild(graph: Graph, visit: Callable[[Node, tuple[int, ...]], int], to: Rewriter) -> Graph:
    """Rebuild a graph: ``visit`` gets a node and its operands' new numbers, and returns its own."""
    numbers: list[int] = []
    for node in graph.nodes:
        numbers.append(visit(node, tuple(numbers[a] for a in node.args)))
    return to.finish(
        (Output(word, numbers[node]) for word, node in graph.outputs),
        (state._replace(node=numbers[state.node]) for state in graph.states),
    )
