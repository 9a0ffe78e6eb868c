"""The intermediate representation: an immutable sequence of scalar operations.

A node is ``(op, args, params, region, line)``; its position names its value. Arguments come before
their users, so the sequence is an evaluation order. Two dialects share the form:

real
    The result of tracing: exact real arithmetic, constants as floats.
fixed
    The result of choosing formats (:mod:`pinion.formats.lower`): inputs, constants and ``quantize``
    nodes carry a format; products and sums are exact integers whose widths are derived, and
    ``quantize`` is the only operation that loses information.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from .names import INPUT, NEG
from .words import Word

Param = float | int | str

_NAME = r"[^\s\[\]]+"
_REGION = re.compile(rf"(?P<name>{_NAME})(?:\[(?P<body>[0-9]{{1,9}})\])?")


class GraphError(ValueError):
    """Violation of a rule of the representation; the message names the rule and the place."""


@dataclass(frozen=True, slots=True)
class Region:
    """The part of an algorithm that emitted a node, such as ``forward[3]``.

    Members
    -------
    name : pass over the robot's bodies, such as ``forward``, without spaces or brackets.
    body : body that the pass was at, counted from 1; None if the node belongs to no body.

    Raises
    ------
    GraphError
        If the name or the body could not be read back from the text ``forward[3]``.
    """

    name: str
    body: int | None = None

    def __post_init__(self) -> None:
        named = re.fullmatch(_NAME, self.name) is not None and self.name.isprintable()
        counted = self.body is None or (type(self.body) is int and 0 <= self.body < 10**9)
        if not (named and counted):
            raise GraphError(
                f"{self.name[:80]!r} with the body {str(self.body)[:80]} is not a region: give the "
                "name of a pass, without spaces or brackets, and the number of a body, or None."
            )

    def __str__(self) -> str:
        return self.name if self.body is None else f"{self.name}[{self.body}]"

    @classmethod
    def of(cls, text: str) -> Region:
        """Parse the text of a region, such as ``forward[3]``.

        Raises
        ------
        GraphError
            If there is no such region.
        """
        match = _REGION.fullmatch(text)
        if match is None:
            raise GraphError(
                f"{text[:80]!r} is not a region: write a pass and a body, as in 'forward[3]'."
            )
        return cls(match["name"], None if match["body"] is None else int(match["body"]))


class Output(NamedTuple):
    """A result word and the node that computes it."""

    word: Word
    node: int


class Feedback(NamedTuple):
    """A word of state, which each request passes to the next one.

    Members
    -------
    word : word of an ``input`` node that is not part of the request record.
    node : computes the value for the next request.
    initial : value for the first request.
    """

    word: Word
    node: int
    initial: float = 0.0


@dataclass(frozen=True, slots=True)
class Node:
    """One operation of a graph, with its operands and its origin in the source.

    Members
    -------
    op : a row of the operation table (:mod:`pinion.graph.ops`).
    args : positions of the operands.
    params : the row's parameters (a constant's value, a dot's signs, a format).
    region : pass and body that emitted it.
    line : source line that emitted it, such as ``rnea.py:57``.
    """

    op: str
    args: tuple[int, ...] = ()
    params: tuple[Param, ...] = ()
    region: Region | None = None
    line: str = ""


@dataclass(frozen=True, slots=True)
class Graph:
    """A function as a sequence of scalar operations, with its results and words of state.

    Members
    -------
    nodes : operations in evaluation order.
    outputs : word and node of each result, in the order of the result record; plain pairs of a
        name and a node are accepted too.
    states : words passed from request to request; empty for a stateless function.
    """

    nodes: tuple[Node, ...]
    outputs: tuple[Output, ...]
    states: tuple[Feedback, ...] = ()

    def __post_init__(self) -> None:
        if not all(type(out) is Output and type(out.word) is Word for out in self.outputs):
            outputs = tuple(Output(Word.of(name), node) for name, node in self.outputs)
            object.__setattr__(self, "outputs", outputs)

    @property
    def inputs(self) -> tuple[Word, ...]:
        """The input words in the order of the request record, which excludes words of state."""
        states = {state.word for state in self.states}
        words = (Word.of(str(n.params[0])) for n in self.nodes if n.op == INPUT)
        return tuple(word for word in words if word not in states)

    @property
    def roots(self) -> tuple[int, ...]:
        """The nodes that must be computed: those of the results, then those of the next states."""
        return (*(out.node for out in self.outputs), *(state.node for state in self.states))

    def state_nodes(self) -> dict[int, Feedback]:
        """Return the words of state by their ``input`` nodes."""
        by_word = {state.word: state for state in self.states}
        return {
            i: by_word[Word.of(str(n.params[0]))]
            for i, n in enumerate(self.nodes)
            if n.op == INPUT and n.params[0] in by_word
        }

    def count(self, *ops: str) -> int:
        """Return how many nodes have one of these operations."""
        return sum(node.op in ops for node in self.nodes)

    def uses(self) -> list[int]:
        """Return the number of uses of each node, results and next states included."""
        uses = [0] * len(self.nodes)
        for node in self.nodes:
            for arg in node.args:
                uses[arg] += 1
        for node_id in self.roots:
            uses[node_id] += 1
        return uses

    def users(self) -> list[list[int]]:
        """Return the nodes that use each node as an operand, in order of evaluation."""
        users: list[list[int]] = [[] for _ in self.nodes]
        for i, node in enumerate(self.nodes):
            for arg in dict.fromkeys(node.args):
                users[arg].append(i)
        return users

    def negated_results(self) -> frozenset[int]:
        """Return the negations that only results use: output converters compute them, not units.

        Equal nodes count as one, since a rewriter that interns makes them one.
        """
        users, stored = self.users(), {state.node for state in self.states}
        negations = {i: node.args for i, node in enumerate(self.nodes) if node.op == NEG}
        read = {args for i, args in negations.items() if users[i] or i in stored}
        results = {node_id for _, node_id in self.outputs}
        return frozenset(i for i, args in negations.items() if i in results and args not in read)

    def operands(self, i: int) -> Iterator[Node]:
        """Return the operand nodes of node ``i``."""
        return (self.nodes[arg] for arg in self.nodes[i].args)
