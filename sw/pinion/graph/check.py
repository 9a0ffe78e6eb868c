"""The rules of the form, checked."""

from __future__ import annotations

from . import names
from .graph import Graph, GraphError
from .ops import OPS
from .rules import number_complaint


def verify(graph: Graph) -> Graph:
    """Check every rule of the form and return the graph.

    Raises
    ------
    GraphError
        On an unknown operation, operands or parameters that are not the operation's, an operand
        that does not come earlier, a source line that is not one line of text, a name that is no
        word, a repeated input or output, an output that does not exist, or a state that no input
        node reads.
    """
    known: set[str] = set()
    for i, node in enumerate(graph.nodes):
        if node.op not in OPS:
            raise GraphError(
                f"Node %{i} has the unknown operation '{node.op:.80}'; the table has "
                f"{', '.join(OPS)}."
            )
        complaint = OPS[node.op].complaint(node)
        if complaint:
            raise GraphError(f"Node %{i} ({node.op}, {node.line or 'no line'}): {complaint}")
        for arg in node.args:
            if not 0 <= arg < i:
                raise GraphError(f"Node %{i} ({node.op}) uses %{arg}, which is not before it.")
        if node.line != node.line.strip() or not node.line.isprintable():
            raise GraphError(
                f"Node %{i} ({node.op}) has the source line {node.line[:80]!r}: write one line of "
                "text without spaces at its ends."
            )
        if node.op == names.INPUT:
            if node.params[0] in known:
                raise GraphError(f"Node %{i} repeats the input '{node.params[0]}'.")
            known.add(str(node.params[0]))
    seen: set[str] = set()
    for name, node_id in graph.outputs:
        if name.complaint:
            raise GraphError(f"An output's name is wrong: {name.complaint}")
        if not 0 <= node_id < len(graph.nodes):
            raise GraphError(f"Output '{name}' is %{node_id}, which does not exist.")
        if name in seen:
            raise GraphError(f"The output '{name}' stands twice.")
        seen.add(name)
    kept: set[str] = set()
    for state in graph.states:
        if state.word not in known:
            raise GraphError(f"The state '{state.word}' is read nowhere: give it an input node.")
        if not 0 <= state.node < len(graph.nodes):
            raise GraphError(f"The state '{state.word}' is %{state.node}, which does not exist.")
        if complaint := number_complaint(state.initial):
            raise GraphError(f"The state '{state.word}' begins with no number. {complaint}")
        if state.word in kept:
            raise GraphError(f"The state '{state.word}' stands twice.")
        kept.add(state.word)
    return graph
