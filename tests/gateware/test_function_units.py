"""Units for magnitude, minimum, comparison, selection and hypot2 against the integer rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from pinion.fixedpoint import Format
from pinion.gateware.choices import LessUnit, SelectUnit
from pinion.gateware.hypot2 import Hypot2Unit
from pinion.gateware.library import COMPONENTS, control_ports, make_unit, operand_ports
from pinion.gateware.unit import Unit
from pinion.graph import OPS, Graph, Node
from pinion.graph.check import verify
from pinion.hls import Timing
from pinion.hls.operations import UnitKind, operations
from tests.gateware.cores import Bench, bound_fixed
from tests.graph.helpers import TIMING

CHECKED = ("abs", "minimum", "maximum", "less", "select", "hypot2")

Check = Callable[[Unit, list[dict[str, int]], list[dict[str, int]]], None]


def node_of(op: str, source: Format, target: Format) -> Graph:
    """Return a graph of one operation, with the result in another format if possible."""
    arity = OPS[op].arity or 0
    result = target if op in ("less", "hypot2") else source
    shape = (source.width, source.frac)
    nodes = [Node("input", (), (f"x[{k}]", *shape)) for k in range(arity)]
    nodes.append(Node(op, tuple(range(arity)), (result.width, result.frac)))
    return verify(Graph(tuple(nodes), (("y", arity),)))


def corners(source: Format) -> list[int]:
    low, high = source.min_int, source.max_int
    half = 1 << max(source.frac - 1, 0)
    near = [0, half, 1 << max(source.frac, 0)]
    values = {low, low + 1, high - 1, high} | {n + k for n in near for k in (-1, 0, 1)}
    return sorted(v for v in values if low <= v <= high)


def vectors(op: str, source: Format, target: Format) -> tuple[UnitKind, Any, Any]:
    """Return the kind of unit, operands with all combinations of corners, and results."""
    graph = node_of(op, source, target)
    (operation,) = operations(graph, TIMING)
    arity = len(graph.nodes) - 1
    rng = np.random.default_rng(5)
    x = np.array(list(product(corners(source), repeat=arity)))
    x = np.concatenate([x, rng.integers(source.min_int, source.max_int + 1, (200, arity))])
    node = graph.nodes[-1]
    value, flags = OPS[op].integers(node, list(x.T), [source] * arity)
    rows = [
        dict(zip(operand_ports(operation.kind), map(int, row), strict=True))
        | dict(zip(control_ports(operation.kind), operation.control, strict=True))
        for row in x
    ]
    want = [{"o": int(v)} for v in np.asarray(value)]
    if flags is not None:
        want = [w | {"ovf": int(f)} for w, f in zip(want, flags, strict=True)]
    return operation.kind, rows, want


@pytest.mark.parametrize(
    ("source", "target"),
    [(Format(8, 3), Format(9, 4)), (Format(27, 24), Format(27, 20)), (Format(32, 16),) * 2],
    ids=lambda fmt: fmt.name,
)
@pytest.mark.parametrize("op", CHECKED)
def test_a_unit_is_its_integer_rule_at_the_corners(
    check: Check, op: str, source: Format, target: Format
) -> None:
    kind, rows, want = vectors(op, source, target)
    unit = make_unit(kind, TIMING)
    assert unit.latency == TIMING.function(kind.name)
    check(unit, rows, want)


@pytest.mark.parametrize(
    ("op", "wrong"),
    [
        ("minimum", lambda rows: [row | {"largest": 1} for row in rows]),
        ("less", lambda rows: [row | {"a": row["b"], "b": row["a"]} for row in rows]),
        ("select", lambda rows: [row | {"a": row["b"], "b": row["a"]} for row in rows]),
        ("abs", lambda rows: [row | {"i": ~row["i"]} for row in rows]),
    ],
)
def test_a_unit_with_other_operands_is_found(check: Check, op: str, wrong: Any) -> None:
    kind, rows, want = vectors(op, Format(8, 3), Format(8, 3))
    with pytest.raises(AssertionError, match="Vector"):
        check(make_unit(kind, TIMING), wrong(rows), want)


@pytest.mark.parametrize(
    ("op", "unit"),
    [
        ("select", SelectUnit(condition_width=8, half=3, width=8)),
        ("select", SelectUnit(condition_width=8, half=5, width=8)),
        ("hypot2", Hypot2Unit(width=8, shift=2, target_width=8)),
    ],
)
def test_a_unit_of_other_parameters_is_found(check: Check, op: str, unit: Unit) -> None:
    _, rows, want = vectors(op, Format(8, 3), Format(8, 3))
    with pytest.raises(AssertionError, match="Vector"):
        check(unit, rows, want)


def core_graph(source: Format) -> Graph:
    """Return a graph with every operation on three operands of one format."""
    shape = (source.width, source.frac)
    nodes = [Node("input", (), (name, *shape)) for name in "abc"]
    results = [
        Node("abs", (0,), shape),
        Node("minimum", (0, 1), shape),
        Node("maximum", (1, 2), shape),
        Node("less", (0, 1), shape),
        Node("select", (2, 0, 1), shape),
        Node("hypot2", (0, 2), (source.width, 2 * source.frac - source.width + 2)),
    ]
    outputs = tuple((f"y[{k}]", len(nodes) + k) for k in range(len(results)))
    return verify(Graph((*nodes, *results), outputs))


def operands(source: Format, count: int, seed: int) -> np.ndarray:
    """Return float32 words (count, 3): all combinations of corners, then random ones."""
    print("seed", seed)
    rng = np.random.default_rng(seed)
    x = rng.integers(source.min_int, source.max_int + 1, (count, 3))
    x[::16, 1] = x[::16, 0]  # ties
    x[1::16, 1] = x[1::16, 0] + 1
    x[2::16, 2] = rng.integers(-2, (1 << source.frac) + 2, len(x[2::16]))
    ends = np.array(list(product(corners(source), repeat=3)))
    x[: len(ends)] = ends
    x = np.clip(x, source.min_int, source.max_int)
    words: np.ndarray = (x * source.lsb).astype(np.float32).view(np.uint32)
    return words


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Core with all operations and a request in every cycle; float32 represents every word."""
    graph, binding = bound_fixed(core_graph(Format(24, 10)), ii=1, timing=TIMING)
    return Bench.build(graph, binding, tmp_path_factory.mktemp("functions"))


@pytest.mark.slow
def test_a_million_operands_agree_bit_for_bit(bench: Bench) -> None:
    words = operands(Format(24, 10), 1_000_000, seed=7)
    bench.agree(words)
    _, flags = bench.expected(words)
    assert 0.001 < flags.mean() < 0.9  # sums of squares and magnitudes out of range


@pytest.mark.parametrize(
    ("i", "changes"),
    [
        (3, {"op": "minimum", "args": (0, 0)}),
        (4, {"op": "maximum"}),
        (5, {"args": (0, 2)}),
        (6, {"args": (1, 0)}),
        (7, {"args": (2, 1, 0)}),
        (8, {"args": (0, 1)}),
        (8, {"params": (24, -3)}),
    ],
)
def test_a_core_with_another_rule_is_found(bench: Bench, i: int, changes: dict[str, Any]) -> None:
    nodes = list(bench.graph.nodes)
    nodes[i] = replace(nodes[i], **changes)
    mutant = replace(bench, graph=Graph(tuple(nodes), bench.graph.outputs))
    with pytest.raises(AssertionError):
        mutant.agree(operands(Format(24, 10), 4000, seed=8))


def test_impossible_widths_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot represent 1"):
        LessUnit(width=8, target_width=8, target_frac=7)
    for make in (lambda: Hypot2Unit(width=1, shift=0, target_width=8),
                 lambda: SelectUnit(condition_width=1, half=0, width=8)):  # fmt: skip
        with pytest.raises(ValueError, match="2 bits"):
            make()


def test_an_unexpected_flag_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind = UnitKind("clamp", 0, (8,), 0, 8, parameters=(-3, 4))
    monkeypatch.setattr(
        "pinion.gateware.library.COMPONENTS", {**COMPONENTS, "clamp": COMPONENTS["abs"]}
    )
    with pytest.raises(ValueError, match="clamp unit has an overflow flag, but the datapath"):
        make_unit(kind, Timing())
