"""Fixtures of the tests of pinion.hls: traced robots, states, random graphs, sizes of terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from benchmarks.contacts import CONTACTS
from hypothesis import assume
from hypothesis import strategies as st
from numpy.typing import NDArray

from pinion.base.arrays import Ints
from pinion.fixedpoint import Format
from pinion.fixedpoint.float32 import float32_to_fixed
from pinion.formats import FormatPlan
from pinion.formats.auto import AutoFormats
from pinion.formats.scales import block_scales
from pinion.formats.signals import TableFormats
from pinion.functions import named_function, sample
from pinion.functions.row import word_columns
from pinion.gateware.library import timing_for
from pinion.graph import Graph, Node, Region
from pinion.graph.check import verify
from pinion.graph.evaluate import formats as node_formats
from pinion.graph.graph import Param
from pinion.graph.passes import fold
from pinion.graph.ranges import measure_ranges
from pinion.hls import Design, DesignSettings, Timing, design
from pinion.hls.design import known_words
from pinion.hls.sums import gather_dots
from pinion.robot import Model, coupled, load
from tests.support.builds import make_design

Arrays = dict[str, NDArray[np.float64]]

ROBOTS = ("pendulum", "two_link", "chain_3", "iiwa14", "hyq", "baxter", "atlas")

Q16 = FormatPlan.parse("q16.16")
TIMING = timing_for(Q16)


@cache
def model(robot: str) -> Model:
    return coupled(load(robot, contacts=CONTACTS.get(robot, ())))


@cache
def traced(robot: str, name: str = "rnea") -> Graph:
    return named_function(name).trace(model(robot))


@cache
def folded(robot: str, name: str = "rnea") -> Graph:
    return fold(traced(robot, name))


def states(robot: str, count: int, *, seed: int, name: str = "rnea") -> Arrays:
    """Requests of the reference distribution, float32 as transmitted, by word, each (count,)."""
    row = named_function(name)
    arrays = sample(model(robot), row, count, distribution="reference", seed=seed)
    return word_columns(row.inputs, model(robot), arrays)


def integers(values: Mapping[str, Any], fmt: Format) -> dict[str, Ints]:
    """Words as the hardware receives them: float32, rounded once to the format."""
    return {
        name: float32_to_fixed(np.asarray(x, np.float32).view(np.uint32), fmt)[0]
        for name, x in values.items()
    }


@cache
def designed(
    robot: str, ii: int, formats: str = "q16.16", effort: int = 1, name: str = "rnea"
) -> Design:
    settings = DesignSettings(
        ii=ii,
        plan=FormatPlan.parse(formats),
        timing=TIMING,
        states=states(robot, 50, seed=1, name=name),
        effort=effort,
    )
    return design(traced(robot, name), settings)


@cache
def promised(robot: str, name: str, *, ii: int = 8, formats: str = "q16.16") -> Design:
    """The design of a build: all restarts of the scheduler, budgets of many states."""
    return make_design(model(robot), named_function(name), ii=ii, formats=formats)


def auto_formats(graph: Graph, values: Mapping[str, Any], **changes: Any) -> AutoFormats:
    """Formats per signal for a folded graph, which cover these states and are judged by them."""
    tables = TableFormats.of(graph, measure_ranges(graph, values))
    scales = block_scales(graph, values)
    defaults = {"states": values, "judged": values, "tables": tables, "scales": scales}
    return AutoFormats(**{**defaults, **changes})


@cache
def gathered(robot: str, name: str, ii: int) -> Graph:
    """The real graph of a robot's function, as a design with per-signal formats lowers it."""
    folded_words = known_words(folded(robot, name), ())[0]
    return gather_dots(folded_words, TIMING, widths=(4, 3, 2), ii=ii)


def real_graph(traced_graph: Graph, ii: int = 2) -> Graph:
    """A traced graph, folded, without constant results, products gathered; rejects empty ones."""
    graph = known_words(fold(traced_graph), ())[0]
    constant = any(graph.nodes[node].op == "const" for _, node in graph.outputs)
    assume(graph.inputs and not constant)
    return gather_dots(graph, TIMING, widths=(4, 3, 2), ii=ii)


@cache
def auto_robot(robot: str, name: str, ii: int = 4, count: int = 800) -> tuple[Graph, AutoFormats]:
    """A robot's real graph, and formats per signal over states of the reference distribution."""
    real = gathered(robot, name, ii)
    return real, auto_formats(real, states(robot, count, seed=3, name=name))


def word_integers(graph: Graph, values: Mapping[str, Any]) -> dict[str, Ints]:
    """Words as a core with per-signal formats receives them: float32, each in its own format."""
    fmts = node_formats(graph)
    ints: dict[str, Ints] = {}
    for i, node in enumerate(graph.nodes):
        if node.op == "input":
            name = str(node.params[0])
            ints |= integers({name: values[name]}, fmts[i])
    return ints


def offsets(operands: int, timing: Timing) -> list[int]:
    """Cycles after the start of a sum of products in which its unit reads each operand.

    Product k enters the sum k cycles after the first one; the addend, the last of an odd number of
    operands, enters with the first product.
    """
    late = [k // 2 for k in range(operands)]
    if operands % 2:
        late[-1] = timing.multiplier_stages - 1
    return late


def finish_time(graph: Graph, timing: Timing) -> int:
    """Cycle of the last result with unlimited units; the sign of a result is free."""
    free = graph.negated_results()
    ready: list[int] = []
    for i, node in enumerate(graph.nodes):
        late, cycles = [0] * len(node.args), timing.latency(node.op, len(node.args))
        if node.op in ("mul", "dot"):
            late = offsets(len(node.args), timing)
            products = len(node.args) // 2
            cycles = timing.port + timing.multiplier_stages + products + timing.rounding
        start = max((ready[a] - k for a, k in zip(node.args, late, strict=True)), default=0)
        ready.append(max(0, start) + (0 if i in free else cycles))
    return max(ready[node] for _, node in graph.outputs)


def magnitudes(graph: Graph, inputs: Mapping[str, Any]) -> list[Any]:
    """Sum of the absolute values of all terms of each node: the reference of a relative error."""
    sizes: list[Any] = []
    for node in graph.nodes:
        x = [sizes[a] for a in node.args]
        match node.op:
            case "input":
                sizes.append(np.abs(inputs[str(node.params[0])]))
            case "const":
                sizes.append(abs(float(node.params[0])))
            case "add" | "sub":
                sizes.append(x[0] + x[1])
            case "neg" | "quantize":
                sizes.append(x[0])
            case "clamp":
                sizes.append(x[0] + max(abs(float(end)) for end in node.params[:2]))
            case "sin" | "cos" | "reciprocal":
                # Valid for a reciprocal if the operand is 1 or more, as in `graphs`.
                sizes.append(1.0 + x[0])
            case "mul" | "dot":
                pairs = zip(x[: len(x) - 1 : 2], x[1::2], strict=True)
                sizes.append(sum(a * b for a, b in pairs) + (x[-1] if len(x) % 2 else 0.0))
    return sizes


def edit(graph: Graph, i: int, **changes: Any) -> Graph:
    """The graph with members of one node replaced; not verified."""
    nodes = list(graph.nodes)
    nodes[i] = replace(nodes[i], **changes)
    return Graph(tuple(nodes), graph.outputs)


def insert(graph: Graph, i: int, make: Any) -> Graph:
    """The graph with a node between node ``i`` and its operand.

    Parameters
    ----------
    make : takes the operand's number, returns the new node.
    """
    nodes: list[Node] = []
    for k, node in enumerate(graph.nodes):
        if k == i:
            nodes.append(make(node.args[0]))
            node = replace(node, args=(i,))
        else:
            node = replace(node, args=tuple(a + (a >= i) for a in node.args))
        nodes.append(node)
    outputs = tuple((name, n + (n >= i)) for name, n in graph.outputs)
    return verify(Graph(tuple(nodes), outputs))


_CONSTANTS = (0.0, -0.0, 1.0, -1.0, 2.0, -0.5, 0.75, 3.125, -1.7)
_ENDS = ((-1.0, 1.0), (-0.25, 0.8125), (0.5, 3.0))
_REGIONS = (None, Region("forward", 0), Region("backward", 12), Region("whole"))
_LINES = ("", "rnea.py:57", "a-b_c.py:1")
_DEGREE = 6  # no value is a higher power of the inputs, so that floats never overflow


@st.composite
def graphs(draw: st.DrawFn, *, trig: bool = True, dots: bool = False) -> Graph:
    """Random graphs of the real dialect: every operation, constants 0 and 1, shared operands.

    Operands of reciprocals are +-c +- sin(x) with c of 2 or more: never near zero.
    """
    count = draw(st.integers(1, 4))
    nodes = [Node("input", (), (f"x[{k}]",)) for k in range(count)]
    degree = [1] * count
    ops = ["const", "add", "sub", "mul", "neg"]
    ops += ["sin", "cos", "reciprocal", "clamp"] * trig + ["dot"] * dots

    def pick(limit: int = _DEGREE) -> int:
        # Recent nodes more often: deep graphs, not wide ones.
        low = draw(st.sampled_from((0, max(0, len(nodes) - 4))))
        choice = draw(st.integers(low, len(nodes) - 1))
        while degree[choice] > limit:
            choice = (choice + 1) % len(nodes)  # inputs have degree 1: this ends
        return choice

    for _ in range(draw(st.integers(1, 30))):
        op = draw(st.sampled_from(ops))
        params: tuple[Param, ...] = ()
        args: tuple[int, ...] = ()
        grade = 0
        if op == "reciprocal":
            nodes.append(Node("sin", (pick(),)))
            nodes.append(Node("const", (), (draw(st.sampled_from((2.0, -2.0, 3.125))),)))
            pair = draw(st.sampled_from(((-2, -1), (-1, -2))))
            sum_of = tuple(len(nodes) + k for k in pair)
            nodes.append(Node(draw(st.sampled_from(("add", "sub"))), sum_of))
            degree += [0, 0, 0]
            args = (len(nodes) - 1,)
        elif op == "const":
            params = (draw(st.sampled_from(_CONSTANTS)),)
        elif op == "clamp":
            args, params = (pick(),), draw(st.sampled_from(_ENDS))
        elif op in ("neg", "sin", "cos"):
            args = (pick(),)
            grade = degree[args[0]] if op == "neg" else 0
        elif op in ("add", "sub"):
            args = (pick(), pick())
            grade = max(degree[a] for a in args)
        else:
            terms = 1 if op == "mul" else draw(st.integers(1, 4))
            for _ in range(terms):
                a = pick(_DEGREE - 1)
                b = pick(_DEGREE - degree[a])
                args += (a, b)
                grade = max(grade, degree[a] + degree[b])
            if op == "dot":
                params = tuple(draw(st.sampled_from((1, -1))) for _ in range(terms - 1))
                if draw(st.booleans()):  # an addend
                    args += (pick(),)
                    grade = max(grade, degree[args[-1]])
                    params = (draw(st.sampled_from((1, -1))), *params, 1)
                else:
                    params = (1, *params)
        region, line = draw(st.sampled_from(_REGIONS)), draw(st.sampled_from(_LINES))
        nodes.append(Node(op, args, params, region, line))
        degree.append(grade)
    results = draw(st.lists(st.integers(0, len(nodes) - 1), min_size=1, max_size=4))
    outputs = tuple((f"y[{k}]", node) for k, node in enumerate(results))
    return verify(Graph(tuple(nodes), outputs))


def random_inputs(graph: Graph, count: int, *, seed: int) -> Arrays:
    """Numbers between -2 and 2 for every input word, (count,)."""
    rng = np.random.default_rng(seed)
    return {name: rng.uniform(-2.0, 2.0, count) for name in graph.inputs}
