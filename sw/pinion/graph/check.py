"""Checks of the intermediate representation's rules."""

from __future__ import annotations

from . import names
from .graph import Graph, GraphError
from .ops import OPS
from .rules import number_complaint


def verify(graph: Graph) -> Graph:
    """Check every rule of the representation and return the graph.

    Raises
    ------
    GraphError
        On an unknown operation, operands or parameters that do not fit the operation, an operand
        that does not come earlier, a source line that is not one line of text, an invalid word, a
        repeated input or output, an output that does not exist, or a state that no input node
        reads.
    """
    inputs: set[str] = set()
    for i, node in enumerate(graph.nodes):
        if node.op not in OPS:
            raise GraphError(
                f"Node %{i} has the unknown operation '{node.op:.80}'; the operations are "
                f"{', '.join(OPS)}."
            )
        complaint = OPS[node.op].complaint(node)
        if complaint:
            raise GraphError(f"Node %{i} ({node.op}, {node.line or 'no line'}): {complaint}")
        for arg in node.args:
            if not 0 <= arg < i:
                raise GraphError(
                    f"Node %{i} ({node.op}) uses %{arg}, which does not precede it: put operands "
                    "before their users."
                )
        if node.line != node.line.strip() or not node.line.isprintable():
            raise GraphError(
                f"Node %{i} ({node.op}) has the source line {node.line[:80]!r}: write one line of "
                "printable text without leading or trailing spaces."
            )
        if node.op == names.INPUT:
            if node.params[0] in inputs:
                raise GraphError(
                    f"Node %{i} repeats the input '{node.params[0]}': use its first node."
                )
            inputs.add(str(node.params[0]))
    outputs: set[str] = set()
    for name, node_id in graph.outputs:
        if name.complaint:
            raise GraphError(f"An output has an invalid name: {name.complaint}")
        if not 0 <= node_id < len(graph.nodes):
            raise GraphError(
                f"The output '{name}' is node %{node_id}, which does not exist: {_nodes(graph)}."
            )
        if name in outputs:
            raise GraphError(f"The output '{name}' is listed twice: keep one.")
        outputs.add(name)
    states: set[str] = set()
    for state in graph.states:
        if state.word not in inputs:
            raise GraphError(f"No input node reads the state '{state.word}': add one.")
        if not 0 <= state.node < len(graph.nodes):
            raise GraphError(
                f"The state '{state.word}' is node %{state.node}, which does not exist: "
                f"{_nodes(graph)}."
            )
        if complaint := number_complaint(state.initial):
            raise GraphError(f"The state '{state.word}' has an invalid initial value. {complaint}")
        if state.word in states:
            raise GraphError(f"The state '{state.word}' is listed twice: keep one.")
        states.add(state.word)
    return graph


def _nodes(graph: Graph) -> str:
    """Return a clause for messages that states a graph's range of node numbers."""
    last = len(graph.nodes) - 1
    return f"the graph's nodes are %0 to %{last}" if last >= 0 else "the graph has no nodes"
