"""Operations of a graph as expressions in the values of other operations."""

from __future__ import annotations

from collections.abc import Collection

from pinion.graph import OPS, Graph, Node
from pinion.graph.names import ADD, CONST, DOT, INPUT, MUL, NEG, QUANTIZE, SUB, SUM

LONGEST = 160
"""Length of the longest expression in characters; longer ones are cut."""

_DEEPEST = 8


def named_expression(graph: Graph, number: int, stored: Collection[int]) -> tuple[str, str]:
    """Return the name and the expression of an operation.

    Parameters
    ----------
    number : of the operation's node.
    stored : nodes that are operations' results: such an operand is shown by its number, as ``%12``,
        an input by its name and a constant by its value. Nodes between, such as a rounding that is
        only wiring, are expanded.

    Returns
    -------
    ``("dot", "%12 * q[0] + %14")``: the operation before the rounding of its result.
    """
    node = graph.nodes[number]
    while node.op == QUANTIZE and node.args[0] not in stored:
        node = graph.nodes[node.args[0]]
    expression = _said(graph, node, stored, _DEEPEST)
    return node.op, expression if len(expression) <= LONGEST else expression[: LONGEST - 3] + "..."


def _said(graph: Graph, node: Node, stored: Collection[int], depth: int) -> str:
    if node.op in (INPUT, CONST):
        value = node.params[0]
        return f"{value:.6g}" if isinstance(value, float) else str(value)
    if node.op == QUANTIZE:
        return _operand(graph, node.args[0], stored, depth)
    if node.op in (MUL, DOT):
        return _products(graph, node, stored, depth)
    values = [_operand(graph, arg, stored, depth) for arg in node.args]
    if node.op == NEG:
        return f"-{_closed(values[0])}"
    if node.op in (ADD, SUB, SUM):
        signs = {ADD: (1, 1), SUB: (1, -1)}.get(node.op, node.params)
        return _sum(list(zip(signs, values, strict=True)))
    parameters = [str(p) for p in OPS[node.op].real_params(node)]
    return f"{node.op}({', '.join([*values, *parameters])})"


def _products(graph: Graph, node: Node, stored: Collection[int], depth: int) -> str:
    """Return a product, or a sum of products whose last term may be a plain value."""
    factors = [_closed(_operand(graph, arg, stored, depth)) for arg in node.args]
    terms = [f"{a} * {b}" for a, b in zip(factors[::2], factors[1::2], strict=False)]
    terms += factors[-1:] if len(factors) % 2 else []
    return _sum(list(zip(node.params or (1,), terms, strict=True)))


def _sum(terms: list[tuple[object, str]]) -> str:
    expression = "".join(f" {'-' if sign == -1 else '+'} {term}" for sign, term in terms)
    return expression[3:] if expression.startswith(" + ") else f"-{expression[3:]}"


def _operand(graph: Graph, number: int, stored: Collection[int], depth: int) -> str:
    if number in stored or not depth:
        return f"%{number}"
    return _said(graph, graph.nodes[number], stored, depth - 1)


def _closed(expression: str) -> str:
    """Return a factor, in parentheses if it is a sum or has a sign."""
    return (
        f"({expression})"
        if " + " in expression or " - " in expression or expression.startswith("-")
        else expression
    )
