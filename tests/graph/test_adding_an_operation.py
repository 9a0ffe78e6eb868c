"""The five places of an operation, shown with ``hypot2``, from tracing to RTL and C++."""

from __future__ import annotations

import re
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.base.pages import rewritten
from pinion.compute import cpu, cuda
from pinion.cosim import verify
from pinion.dynamics import scalar
from pinion.fixedpoint import Format
from pinion.formats import FormatPlan, lower
from pinion.functions import Block, Function, Quantity, Uniform, sample
from pinion.gateware.library import COMPONENTS, make_unit
from pinion.graph import OPS, Graph, Node, Tracer, describe, evaluate_floats
from pinion.graph.check import verify as verify_graph
from pinion.graph.counts import op_counts
from pinion.graph.evaluate import adjoints, node_floats, node_integers
from pinion.graph.interchange import dumps, loads
from pinion.graph.ops import UNITS, Family
from pinion.graph.passes import fold
from pinion.graph.text import format_graph, parse_graph
from pinion.hls import operations
from pinion.hls.costs import DatapathCosts
from pinion.robot import Model, load
from tests.graph.helpers import TIMING, auto_formats
from tests.support.breadth import some
from tests.support.builds import build
from tests.support.cuda_threads import on_host, run_threads

ROOT = Path(__file__).resolve().parents[2]
NAME = "hypot2"
FOLDERS = ("sw", "hw", "sim", "fixedpoint")

PLACES = {
    "sw/pinion/graph/elementary.py",
    "sw/pinion/dynamics/scalar.py",
    "sw/pinion/api/__init__.py",
    "hw/pinion/gateware/hypot2.py",
    "hw/pinion/gateware/library.py",
}


def mentioning(word: str) -> set[str]:
    """Sources that contain a word, in any case."""
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    sources = [path for path in files if path.suffix in (".py", ".hpp", ".cpp", ".cuh", ".h")]
    assert len(sources) > 300
    return {
        path.relative_to(ROOT).as_posix()
        for path in sources
        if word.lower() in path.read_text().lower()
    }


def test_an_operation_stands_in_five_places() -> None:
    assert mentioning(NAME) == PLACES
    assert len(PLACES) == 5


def test_contributing_lists_these_places() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    steps = text.split("## How to add an operation")[1].split("## How to add a function")[0]
    numbered = re.findall(r"^(\d+)\. (.*?)(?=^\d+\. |^$)", steps, flags=re.MULTILINE | re.DOTALL)
    assert [number for number, _ in numbered] == list("12345")
    for place, (_, step) in zip(
        ("graph/elementary.py", "dynamics/scalar.py", "pinion/api/__init__.py",
         "hw/pinion/gateware`", "gateware/library.py"),
        numbered,
        strict=True,
    ):  # fmt: skip
        assert place in step, place


def test_every_function_is_complete() -> None:
    """Each row has a unit that schedule and gateware know, and no unit lacks a row."""
    rows = [row for row in OPS.values() if row.family is Family.FUNCTION]
    assert {row.unit for row in rows} == set(UNITS) == set(COMPONENTS)
    for row in rows:
        assert hasattr(scalar, {"abs": "absolute"}.get(row.name, row.name)), row.name
        assert row.name == "clamp" or row.counted, row.name  # no column counts clamps
        assert len(row.points) == row.arity, row.name
        assert len(row.control) == len(COMPONENTS[row.unit].controls), row.name
        assert len(COMPONENTS[row.unit].operands) == row.arity, row.name


def traced() -> Graph:
    tracer = Tracer()
    x, y = tracer.input("x"), tracer.input("y")
    tracer.output("square", scalar.hypot2(x, y))  # type: ignore[arg-type]
    tracer.output("half", scalar.hypot2(-x, 0.5))  # type: ignore[arg-type]
    return tracer.finish()


def test_tracing_folding_counting_and_both_forms_of_a_file() -> None:
    graph = traced()
    folded = fold(graph)
    assert folded.count(NAME) == 2 and folded.count("neg") == 0, "it is even"
    assert op_counts(folded) == {
        "mul": 0, "mul_const": 0, "add": 0, "reciprocal": 0, "trig": 0, NAME: 2
    }  # fmt: skip
    assert loads(dumps(graph)) == graph and parse_graph(format_graph(graph)) == graph
    x, y = np.array([1.5, -2.0]), np.array([0.25, 3.0])
    for graph_form in (graph, folded):
        outputs = evaluate_floats(graph_form, {"x": x, "y": y})
        assert np.array_equal(outputs["square"], x**2 + y**2)
        assert np.array_equal(outputs["half"], x**2 + 0.25)
    tracer = Tracer()
    tracer.output("thirteen", tracer.constant(2.0).hypot2(3.0))
    assert fold(tracer.finish()).nodes[0].params == (13.0,)
    assert DatapathCosts().price(NAME) == OPS[NAME].unit_price
    assert DatapathCosts().latency(NAME) == 3


def test_floats_arrays_and_arrays_of_symbols() -> None:
    assert scalar.hypot2(3.0, 4.0) == 25.0
    x = np.linspace(-2, 2, 9)
    assert np.array_equal(scalar.hypot2(x, 0.5), x * x + 0.25)  # type: ignore[arg-type]
    tracer = Tracer()
    symbols = np.array([tracer.input("x"), tracer.input("y")], dtype=object)
    sums: Any = scalar.hypot2(symbols, 2.0)  # type: ignore[arg-type]
    assert sums.shape == (2,)
    for k, element in enumerate(sums):
        tracer.output(f"z[{k}]", element)
    outputs = evaluate_floats(tracer.finish(), {"x": 1.0, "y": -3.0})
    assert [float(v) for v in outputs.values()] == [5.0, 13.0]


def test_the_derivative_is_that_of_the_floats() -> None:
    graph = traced()
    rng = np.random.default_rng(3)
    x, y = rng.uniform(-2, 2, (2, 40))
    bars = adjoints(graph, node_floats(graph, {"x": x, "y": y}), graph.outputs[0].node)
    step = 1e-6
    for k, delta in ((0, (step, 0.0)), (1, (0.0, step))):
        up = evaluate_floats(graph, {"x": x + delta[0], "y": y + delta[1]})["square"]
        down = evaluate_floats(graph, {"x": x - delta[0], "y": y - delta[1]})["square"]
        assert np.allclose((up - down) / (2 * step), bars[k], atol=1e-8)


@pytest.mark.parametrize("width", [12, 36])
def test_integers_are_pythons_own_rounded_once(width: int) -> None:
    source, target = Format(width, 8), Format(width, 4)
    node = Node(NAME, (0, 1), (target.width, target.frac))
    rng = np.random.default_rng(4)
    ends = [source.min_int, source.min_int + 1, -1, 0, 1, source.max_int]
    a = np.concatenate([np.repeat(ends, 6), rng.integers(-3000, 3000, 300)])
    b = np.concatenate([np.tile(ends, 6), rng.integers(-3000, 3000, 300)])
    a, b = np.clip(a, source.min_int, source.max_int), np.clip(b, source.min_int, source.max_int)
    integers, flags = OPS[NAME].integers(node, [a, b], [source, source])
    assert flags is not None
    for x, y, value, flag in zip(a, b, np.asarray(integers), flags, strict=True):
        exact = Fraction(int(x) ** 2 + int(y) ** 2, 1 << 12)
        whole = (2 * exact + 1) // 2
        assert value == min(whole, target.max_int) and flag == (whole > target.max_int)


def test_lowering_gives_a_unit_and_its_operands_one_binary_point() -> None:
    graph = fold(traced())
    uniform = lower(graph, FormatPlan.parse("q16.16"))
    rng = np.random.default_rng(5)
    states = {"x": rng.uniform(-3, 3, 400), "y": rng.uniform(-0.1, 0.1, 400)}
    plan = auto_formats(graph, states)
    for fixed in (uniform, plan.lower(graph)):
        kinds = {op.kind for op in operations(fixed, TIMING)}
        assert {kind.name for kind in kinds} == {NAME}
        for kind in kinds:
            assert make_unit(kind, TIMING).latency == TIMING.function(NAME)
        values = node_integers(fixed, {"x": np.array([1]), "y": np.array([2])})
        assert len(values.nodes) == len(fixed.nodes)
    by_signal = {op.kind.parameters for op in operations(plan.lower(graph), TIMING)}
    assert len(by_signal) >= 1 and by_signal != {(16,)}


def test_the_page_has_its_row() -> None:
    page = (ROOT / "docs" / "graph.md").read_text()
    assert rewritten(page, describe.TABLES) == page
    assert f"| `{NAME}` | 2 |" in page


def speed(model: Model, q: Any, x: Any, y: Any, *, region: Any) -> Any:
    return [scalar.hypot2(x, y), 0.5 * scalar.hypot2(x - y, -1.0)]


SPEED = Function(
    name="speed",
    doc="two sums of squares",
    inputs=(
        Block(name="q", shape=("nq",), unit="rad", sampling=Quantity.POSITION),
        Block(name="x", shape=(), unit="m", sampling=Uniform(-3.0, 3.0)),
        Block(name="y", shape=(), unit="m", sampling=Uniform(-0.5, 0.5)),
    ),
    outputs=(
        Block(name="square", shape=(), unit="m^2"),
        Block(name="half", shape=(), unit="m^2"),
    ),
    scalars=speed,
)


@pytest.mark.parametrize("formats", some(["q16.16", "auto"], ("q16.16",)))
def test_a_core_agrees_with_integers_and_keeps_its_budget(formats: str, tmp_path: Path) -> None:
    manifest = build("two_link", SPEED, tmp_path / "core", ii=2, formats=formats)
    count = 1 if formats == "q16.16" else 2  # two formats of results are two kinds of units
    assert manifest.units[NAME] == count and manifest.table_multipliers == 2 * count
    figures = verify(tmp_path / "core", samples=4000, seed=1)
    assert figures["ok"] and figures["mismatches"] == figures["flagged"] == 0, figures
    assert all(
        budget <= 50 * figures["error_max"][word] for word, budget in figures["budget"].items()
    )


@pytest.mark.skipif(
    not any(shutil.which(name) for name in ("c++", "g++", "clang++")),
    reason="no C++ compiler on this machine",
)
def test_compiled_code_computes_the_same(tmp_path: Path) -> None:
    model = load("two_link")
    arrays = {
        name: column.astype(np.float64)
        for name, column in sample(model, SPEED, 33, distribution="reference", seed=2).items()
    }
    want = SPEED.evaluate(model, arrays)
    compiled = cpu.compile(model, SPEED, dtype="float64", cache=tmp_path)(**arrays)
    source = cuda.source(model, SPEED, dtype="float64")
    threads = run_threads(
        source,
        on_host(source, tmp_path),
        inputs=[block.resolved(model) for block in SPEED.inputs],
        results=[block.resolved(model) for block in SPEED.results],
        arrays=arrays,
        count=33,
        seed=1,
    )
    for name, value in want.items():
        assert np.allclose(compiled[name], value, rtol=1e-15, atol=0)
        assert np.allclose(threads[name], value, rtol=1e-15, atol=0)


def test_a_graph_of_another_number_of_operands_is_refused() -> None:
    x = Node("input", (), ("x",))
    with pytest.raises(ValueError, match="hypot2 takes 2 operands, not 1"):
        verify_graph(Graph((x, Node(NAME, (0,))), (("y", 1),)))
