"""Folding, and elimination of common subexpressions and of dead code."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from pinion.graph import names
from pinion.graph.check import verify
from pinion.graph.graph import Graph, Node, Output
from pinion.graph.ops import OPS, Family

from .rewrite import Rewriter, rebuild

Signed = tuple[int, int]  # sign, node


class Folder:
    """Rebuilder that keeps signs beside nodes, so that negations reach the sums that absorb them.

    Passes that replace nodes rebuild through it too: their new nodes fold at once.
    """

    def __init__(self) -> None:
        self.to = Rewriter(intern=True)

    def constant(self, value: float, like: Node) -> Signed:
        """Return a constant, with its sign kept separately."""
        sign = -1 if value < 0 else 1
        return sign, self.to.emit(names.CONST, (), (abs(value),), like=like)

    def value(self, node: int) -> float | None:
        """Return the value of a rebuilt node if it is a constant."""
        new = self.to.nodes[node]
        return float(new.params[0]) if new.op == names.CONST else None

    def visit(self, node: Node, x: list[Signed]) -> Signed:
        """Rebuild a node from its rebuilt operands."""
        match node.op:
            case names.CONST:
                return self.constant(float(node.params[0]), node)
            case names.NEG:
                return -x[0][0], x[0][1]
            case names.ADD:
                return self.sum(x[0], x[1], node)
            case names.SUB:
                return self.sum(x[0], (-x[1][0], x[1][1]), node)
            case names.MUL:
                return self.product(x[0], x[1], node)
            case names.INPUT:
                return 1, self.to.emit(names.INPUT, (), node.params, like=node)
        if OPS[node.op].family is Family.FUNCTION:
            return self.function(node, x)
        raise ValueError(
            f"Only traced operations can be folded, and '{node.op}' comes from a later pass: fold "
            "the graph first."
        )

    def sum(self, a: Signed, b: Signed, like: Node) -> Signed:
        """Return the sum of two rebuilt nodes."""
        va, vb = self.value(a[1]), self.value(b[1])
        if va is not None and vb is not None:
            return self.constant(a[0] * va + b[0] * vb, like)
        if va == 0.0:
            return b
        if vb == 0.0:
            return a
        if a[1] == b[1]:
            if a[0] != b[0]:
                return self.constant(0.0, like)
            return a[0], self.to.emit(names.ADD, (a[1], b[1]), like=like)
        if a[0] == b[0]:
            return a[0], self.to.emit(names.ADD, (a[1], b[1]), like=like)
        # x - y and y - x are one node with a sign.
        first, second = (a, b) if a[1] < b[1] else (b, a)
        return first[0], self.to.emit(names.SUB, (first[1], second[1]), like=like)

    def product(self, a: Signed, b: Signed, like: Node) -> Signed:
        """Return the product of two rebuilt nodes."""
        sign = a[0] * b[0]
        va, vb = self.value(a[1]), self.value(b[1])
        if va is not None and vb is not None:
            return self.constant(sign * va * vb, like)
        if va is not None:
            (a, va), (b, vb) = (b, vb), (a, va)
        if vb is None:
            return sign, self.to.emit(names.MUL, (a[1], b[1]), like=like)
        if vb == 0.0:
            return self.constant(0.0, like)
        if vb == 1.0:
            return sign, a[1]
        inner = self.to.nodes[a[1]]
        if inner.op == names.MUL:
            for factor, other in (inner.args, inner.args[::-1]):
                coefficient = self.value(factor)
                if coefficient is not None:  # c * (d * x) = (c d) * x
                    s, c = self.constant(coefficient * vb, like)
                    return sign * s, self.to.emit(names.MUL, (other, c), like=like)
        return sign, self.to.emit(names.MUL, (a[1], b[1]), like=like)

    def function(self, node: Node, x: Sequence[Signed]) -> Signed:
        """Return a function of rebuilt nodes; signs that its row cannot absorb become negations."""
        row = OPS[node.op]
        values = [self.value(number) for _, number in x]
        constants = [sign * v for (sign, _), v in zip(x, values, strict=True) if v is not None]
        if len(constants) == len(x):
            return self.constant(float(row.floats(node, constants)), node)
        plain = replace(node, args=tuple(number for _, number in x))
        turned = row.without_signs(plain, [sign for sign, _ in x])
        if turned is None:
            turned = 1, replace(plain, args=tuple(self.negated(place, node) for place in x))
        sign, plain = turned
        same = OPS[plain.op].fold(plain, [self.to.nodes[a] for a in plain.args])
        if isinstance(same, float):
            constant = self.constant(same, node)
            return sign * constant[0], constant[1]
        if same is not None:
            return sign, plain.args[same]
        return sign, self.to.emit(plain.op, plain.args, plain.params, like=node)

    def negated(self, place: Signed, like: Node) -> int:
        """Return a rebuilt node, negated if its sign is negative."""
        sign, number = place
        value = self.value(number)
        if sign < 0 and value is not None:
            return self.to.emit(names.CONST, (), (-value,), like=like)
        return self.to.emit(names.NEG, (number,), like=like) if sign < 0 else number

    def finish(self, graph: Graph, new: Sequence[Signed]) -> Graph:
        """Return the new graph without dead code.

        Parameters
        ----------
        graph : the graph that was rebuilt.
        new : sign and number of each of its nodes in the new one.
        """

        def final(old: int) -> int:
            return self.negated(new[old], graph.nodes[old])

        outputs = [Output(name, final(old)) for name, old in graph.outputs]
        states = [state._replace(node=final(state.node)) for state in graph.states]
        return dead_code(self.to.finish(outputs, states))


def fold(graph: Graph) -> Graph:
    """Fold constants, zeros, ones and signs; equal nodes become one.

    Exact in real arithmetic (sums and products of constants are computed in float64). Signs move
    into the sums that use them; a negation remains only where a result itself is a negated node.
    """
    folder = Folder()
    new: list[Signed] = []
    for node in graph.nodes:
        new.append(folder.visit(node, [new[a] for a in node.args]))
    return folder.finish(graph, new)


def common_subexpressions(graph: Graph) -> Graph:
    """Merge equal nodes, in any dialect."""
    to = Rewriter(intern=True)
    return rebuild(graph, lambda node, args: to.emit(node.op, args, node.params, like=node), to)


def dead_code(graph: Graph) -> Graph:
    """Drop nodes that no result needs; inputs stay, because the record contains them."""
    return without_inputs(graph, ())


def without_inputs(graph: Graph, unread: Collection[str]) -> Graph:
    """Drop nodes that no result needs, and the named inputs that are not read.

    Words of state that no result depends on are dropped too.
    """
    words = graph.state_nodes()
    live = [
        node.op == names.INPUT and node.params[0] not in unread and i not in words
        for i, node in enumerate(graph.nodes)
    ]
    for _, result in graph.outputs:
        live[result] = True
    growing = True
    while growing:
        for i in range(len(graph.nodes) - 1, -1, -1):
            if live[i]:
                for arg in graph.nodes[i].args:
                    live[arg] = True
        # The next value of a state that is read has to be computed as well.
        following = {state.node for i, state in words.items() if live[i]}
        growing = not all(live[i] for i in following)
        for i in following:
            live[i] = True
    live_states = {state.word for i, state in words.items() if live[i]}
    numbers: dict[int, int] = {}
    nodes: list[Node] = []
    for i, node in enumerate(graph.nodes):
        if live[i]:
            numbers[i] = len(nodes)
            args = tuple(numbers[a] for a in node.args)
            nodes.append(Node(node.op, args, node.params, node.region, node.line))
    outputs = tuple(Output(word, numbers[result]) for word, result in graph.outputs)
    states = tuple(
        state._replace(node=numbers[state.node])
        for state in graph.states
        if state.word in live_states
    )
    return verify(Graph(tuple(nodes), outputs, states))
