"""The rules of the form, checked."""

from __future__ import annotations

from . import names
from .graph import Graph, GraphError
from .ops import OPS


def verify(graph: Graph) -> Graph:
    """Check every rule of the form and return the graph.

    Raises
    ------
    GraphError
        On an unknown operation, a wrong number of operands or parameters, an operand that does
        not come earlier, a repeated input or output name, or an output that does not exist.
    """
    known: set[str] = set()
    for i, node in enumerate(graph.nodes):
        if node.op not in OPS:
            raise GraphError(
                f"Node %{i} has the unknown operation '{node.op}'; the table has {', '.join(OPS)}."
            )
        complaint = OPS[node.op].complaint(node)
        if complaint:
            raise GraphError(f"Node %{i} ({node.op}, {node.line or 'no line'}): {complaint}")
        for arg in node.args:
            if not 0 <= arg < i:
                raise GraphError(f"Node %{i} ({node.op}) uses %{arg}, which is not before it.")
        if node.op == names.INPUT:
            if node.params[0] in known:
                raise GraphError(f"Node %{i} repeats the input '{node.params[0]}'.")
            known.add(str(node.params[0]))
    seen: set[str] = set()
    for name, node_id in graph.outputs:
        if not 0 <= node_id < len(graph.nodes):
            raise GraphError(f"Output '{name}' is %{node_id}, which does not exist.")
        if name in seen:
            raise GraphError(f"The output '{name}' stands twice.")
        seen.add(name)
    return graph
