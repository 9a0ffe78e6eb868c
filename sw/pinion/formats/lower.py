"""Lowering from real to fixed-point arithmetic: the choice of every value's binary point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pinion.fixedpoint import Format, FormatError, Overflow, Rounding
from pinion.graph import OPS, Graph, Node, names
from pinion.graph.evaluate import formats
from pinion.graph.op import OperandPoint
from pinion.graph.ops import Family
from pinion.graph.passes.rewrite import Rewriter, rebuild
from pinion.graph.passes.simplify import dead_code
from pinion.graph.rules import addend
from pinion.graph.stream import initial_integer


@dataclass(frozen=True, kw_only=True)
class FormatPlan:
    """Formats of a graph's values: a default, and overrides by node.

    Members
    -------
    name : name on the command line.
    default : the format of every value without an override.
    overrides : formats by node number of the graph that is lowered; all values of one exact sum
        need the same number of fraction bits per product.
    rounding, overflow : of every quantization.
    smallest_pivot : smaller operands of reciprocals raise the result's flag; 0 for none.
    """

    name: str
    default: Format
    overrides: Mapping[int, Format] = field(default_factory=dict)
    rounding: Rounding = Rounding.NEAREST
    overflow: Overflow = Overflow.SATURATE
    smallest_pivot: float = 0.0

    @classmethod
    def parse(cls, name: str) -> FormatPlan:
        """Return the uniform plan of a name such as ``q16.16``."""
        fmt = Format.parse(name)
        if fmt.width > 36:
            raise FormatError(
                f"'{name}' has {fmt.width} bits, but operands of products can have at most 36."
            )
        if fmt.width - fmt.frac < 4:
            raise FormatError(
                f"The range of '{name}' ends at {fmt.max:g}, but sines, angles up to pi and their "
                "sums need at least 4 integer bits."
            )
        return cls(name=name, default=fmt)

    def format(self, node: int) -> Format:
        """Return the format of a node of the graph that is being lowered."""
        return self.overrides.get(node, self.default)


def lower(graph: Graph, plan: FormatPlan) -> Graph:
    """Rewrite a real graph in the fixed dialect.

    Each input, constant and function gets its format; a function that reads operands at its
    result's binary point gets the operands' format, like a clamp. Each product, dot and sum becomes
    the exact operation followed by a ``quantize`` to its format. Operands of a sum with different
    binary points are first aligned to the finest, which is exact; a dot's addend is brought to the
    binary point of the result.
    """
    to = Rewriter(intern=True)
    count = 0
    negated = graph.negated_results()

    def shape(fmt: Format) -> tuple[int, int]:
        return fmt.width, fmt.frac

    def rounded(exact: int, fmt: Format, like: Node) -> int:
        params = (*shape(fmt), plan.rounding.value, plan.overflow.value)
        return to.emit(names.QUANTIZE, (exact,), params, like=like)

    def aligned(args: tuple[int, ...], like: Node) -> tuple[int, ...]:
        fmts = [_own_format(to.nodes[a]) for a in args]
        finest = max(f.frac for f in fmts)
        return tuple(
            a if f.frac == finest else rounded(a, Format(f.width + finest - f.frac, finest), like)
            for a, f in zip(args, fmts, strict=True)
        )

    def at_points(node: Node, args: tuple[int, ...], fmt: Format) -> tuple[tuple[int, ...], Format]:
        """Return a function's operands, aligned to the binary points it requires, and its format.

        The format is that of the operands if they are read at its point and share a format.
        """
        points = OPS[node.op].points
        for point in (OperandPoint.RESULT, OperandPoint.SHARED):
            operand_formats = {
                _own_format(to.nodes[a]) for a, p in zip(args, points, strict=True) if p is point
            }
            common = operand_formats.pop() if len(operand_formats) == 1 else fmt
            args = tuple(
                a
                if p is not point or _own_format(to.nodes[a]) == common
                else rounded(a, common, node)
                for a, p in zip(args, points, strict=True)
            )
            if point is OperandPoint.RESULT and point in points:
                fmt = common
        return args, fmt

    def visit(node: Node, args: tuple[int, ...]) -> int:
        nonlocal count
        fmt = plan.format(count)
        count += 1
        if count - 1 in negated:
            return to.emit(node.op, args, node.params, like=node)  # exact
        if node.op == names.RECIPROCAL:
            smallest = (plan.smallest_pivot,) if plan.smallest_pivot else ()
            return to.emit(node.op, args, (*shape(fmt), *smallest), like=node)
        if OPS[node.op].family is Family.FUNCTION:
            args, fmt = at_points(node, args, fmt)
            return to.emit(node.op, args, (*node.params, *shape(fmt)), like=node)
        if node.op in names.LEAVES:
            return to.emit(node.op, args, (*node.params, *shape(fmt)), like=node)
        if OPS[node.op].family is Family.SUM:
            args = aligned(args, node)
        if OPS[node.op].family is Family.PRODUCT and (other := addend(args)) is not None:
            # Its binary point is the result's, to which the unit's port is wired.
            addend_format = _own_format(to.nodes[other])
            at_point = Format(addend_format.width + max(0, fmt.frac - addend_format.frac), fmt.frac)
            if addend_format.frac != fmt.frac:
                args = (*args[:-1], rounded(other, at_point, node))
        if not OPS[node.op].unit:
            raise ValueError(f"Lowering does not support the operation '{node.op}'.")
        return rounded(to.emit(node.op, args, node.params, like=node), fmt, node)

    lowered = fed_back(dead_code(rebuild(graph, visit, to)), plan.rounding, plan.overflow)
    formats(lowered)  # every width can be derived
    return lowered


def fed_back(graph: Graph, rounding: Rounding, overflow: Overflow) -> Graph:
    """Return a fixed graph with each next state converted to the format of its input word."""
    if not graph.states:
        return graph
    fmts = formats(graph)
    words = {state.word: i for i, state in graph.state_nodes().items()}
    nodes, states = list(graph.nodes), []
    for state in graph.states:
        want = fmts[words[state.word]]
        if fmts[state.node] != want:
            like = graph.nodes[state.node]
            params = (want.width, want.frac, rounding.value, overflow.value)
            if like.op == names.CONST:
                node = replace(like, params=(like.params[0], want.width, want.frac))
            else:
                node = replace(like, op=names.QUANTIZE, args=(state.node,), params=params)
            nodes.append(node)
            state = state._replace(node=len(nodes) - 1)
        initial_integer(state, want)  # it fits
        states.append(state)
    return Graph(tuple(nodes), graph.outputs, tuple(states))


def _own_format(node: Node) -> Format:
    """Return the format that a fixed-dialect node states in its parameters."""
    return OPS[node.op].own_format(node)
