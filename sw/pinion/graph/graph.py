"""The intermediate form: an immutable sequence of scalar operations.

A node is ``(op, args, params, region, line)``; its value is named by its position. Arguments come
before their users, so the sequence is its own evaluation order. Two dialects share the form:

real
    What tracing gives: exact real arithmetic, constants as floats.
fixed
    What :func:`pinion.hls.lower.lower` gives: inputs, constants and ``quantize`` nodes carry a
    format; products and sums are exact integers whose widths are derived, and ``quantize`` is the
    only operation that loses information.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

Param = float | int | str


class GraphError(ValueError):
    """A graph breaks its own rules; the message names the node."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operation.

    Members
    -------
    op : a row of the operation table (:mod:`pinion.graph.ops`).
    args : positions of the operands.
    params : the row's parameters (a constant's value, a dot's signs, a format).
    region : link and pass that made it, such as ``forward[3]``.
    line : the source line that made it, such as ``rnea.py:57``.
    """

    op: str
    args: tuple[int, ...] = ()
    params: tuple[Param, ...] = ()
    region: str = ""
    line: str = ""


@dataclass(frozen=True, slots=True)
class Graph:
    """A traced function.

    Members
    -------
    nodes : operations in evaluation order.
    outputs : name and node of each result word, in the order of the result record.
    """

    nodes: tuple[Node, ...]
    outputs: tuple[tuple[str, int], ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the input words, in the order of the request record."""
        return tuple(str(n.params[0]) for n in self.nodes if n.op == "input")

    def count(self, *ops: str) -> int:
        """How many nodes have one of these operations."""
        return sum(node.op in ops for node in self.nodes)

    def uses(self) -> list[int]:
        """Number of uses of each node, results included."""
        uses = [0] * len(self.nodes)
        for node in self.nodes:
            for arg in node.args:
                uses[arg] += 1
        for _, node_id in self.outputs:
            uses[node_id] += 1
        return uses

    def users(self) -> list[list[int]]:
        """Users of each node, in order."""
        users: list[list[int]] = [[] for _ in self.nodes]
        for i, node in enumerate(self.nodes):
            for arg in dict.fromkeys(node.args):
                users[arg].append(i)
        return users

    def negated_results(self) -> frozenset[int]:
        """Negations that nothing but results reads: the converters do them, no unit."""
        users = self.users()
        results = {node_id for _, node_id in self.outputs}
        return frozenset(i for i in results if self.nodes[i].op == "neg" and not users[i])

    def operands(self, i: int) -> Iterator[Node]:
        """The operand nodes of node ``i``."""
        return (self.nodes[arg] for arg in self.nodes[i].args)
