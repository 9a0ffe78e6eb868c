"""Every row of the operation table, in every column."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from pinion.fixedpoint import Format, Overflow, Rounding, Wide, to_float
from pinion.fixedpoint.reciprocal import Reciprocal
from pinion.fixedpoint.sincos import SinCos
from pinion.formats import lower
from pinion.gateware.library import control_ports, make_unit, operand_ports
from pinion.graph import OPS, Graph, GraphError, Node
from pinion.graph.check import verify
from pinion.graph.evaluate import formats
from pinion.graph.ops import Family
from pinion.hls import operations
from tests.graph.helpers import Q16, TIMING

QUANTIZE = (16, 8, Rounding.NEAREST.value, Overflow.SATURATE.value)

# A node of each row; operands are numbers, with fixed-dialect parameters if a row has them.
EXAMPLES = {
    "input": Node("input", (), ("x", 16, 8)),
    "const": Node("const", (), (-1.75, 16, 8)),
    "add": Node("add", (0, 1)),
    "sum": Node("sum", (0, 1, 2), (1, -1, 1)),
    "sub": Node("sub", (0, 1)),
    "neg": Node("neg", (0,)),
    "mul": Node("mul", (0, 1)),
    "dot": Node("dot", (0, 1, 2, 3, 4, 5), (1, -1, 1)),
    "sin": Node("sin", (0,), (16, 12)),
    "cos": Node("cos", (0,), (16, 12)),
    "reciprocal": Node("reciprocal", (0,), (16, 12)),
    "clamp": Node("clamp", (0,), (-1.25, 0.75, 16, 8)),
    "hypot2": Node("hypot2", (0, 1), (16, 4)),
    "sqrt": Node("sqrt", (0,), (16, 10)),
    "arctan2": Node("arctan2", (0, 1), (16, 12)),
    "look_up": Node("look_up", (0,), ("-2.0 2.0 1.0 1.0 0.0 0.5 -0.25 1.0 0.75", 16, 12)),
    "abs": Node("abs", (0,), (16, 8)),
    "minimum": Node("minimum", (0, 1), (16, 8)),
    "maximum": Node("maximum", (0, 1), (16, 8)),
    "less": Node("less", (0, 1), (16, 12)),
    "select": Node("select", (0, 1, 2), (16, 8)),
    "quantize": Node("quantize", (0,), QUANTIZE),
}
# A dot with an addend: one operand more, and the first sign is free.
ADDEND = Node("dot", (0, 1, 2, 3, 4), (-1, 1, 1))
CASES = {**EXAMPLES, "dot, addend": ADDEND, "mul, addend": Node("dot", (0, 1, 2), (-1, 1))}
WITH_OPERANDS = sorted(name for name, node in CASES.items() if node.args)


def real(node: Node) -> Node:
    """The node without its format."""
    exact = OPS[node.op].family in (Family.SUM, Family.PRODUCT, Family.ROUNDING)
    return node if exact else replace(node, params=OPS[node.op].real_params(node))


def test_the_examples_cover_the_table() -> None:
    assert set(EXAMPLES) == set(OPS)


@pytest.mark.parametrize("name", CASES)
def test_a_row_has_a_name_a_doc_line_and_a_well_formed_example(name: str) -> None:
    node = CASES[name]
    row = OPS[node.op]
    assert row.name == node.op
    assert row.doc.strip() and "\n" not in row.doc
    assert row.complaint(node) == ""
    assert row.arity is None or row.arity == len(node.args)


@pytest.mark.parametrize("name", WITH_OPERANDS)
def test_the_derivative_is_that_of_the_float_rule(name: str) -> None:
    node = CASES[name]
    row = OPS[node.op]
    rng = np.random.default_rng(7)
    # Not near zero, where a reciprocal has no difference quotient.
    x = [rng.uniform(0.5, 2, 20) * rng.choice([-1.0, 1.0], 20) for _ in node.args]
    partials = row.derivative(node, x)
    assert len(partials) == len(node.args)
    step = 1e-6
    for k, partial in enumerate(partials):
        up = [v + step * (j == k) for j, v in enumerate(x)]
        down = [v - step * (j == k) for j, v in enumerate(x)]
        slope = (row.floats(node, up) - row.floats(node, down)) / (2 * step)
        assert np.all(np.abs(slope - partial) < 1e-8), f"{name}, operand {k}"


@pytest.mark.parametrize("width", [16, 36])
@pytest.mark.parametrize("name", ["add", "sub", "sum", "neg", "mul", "dot"])
def test_exact_rows_give_the_same_number_as_python_integers(name: str, width: int) -> None:
    node, fmt = EXAMPLES[name], Format(width, 8)
    seed = 11
    rng = np.random.default_rng(seed)
    x = [rng.integers(fmt.min_int, fmt.max_int + 1, 50) for _ in node.args]
    for operand in x:  # the extremes, in every combination of signs sooner or later
        operand[:8] = rng.choice([fmt.min_int, fmt.max_int], 8)
    exact, flags = OPS[name].integers(node, x, [fmt] * len(x))
    result = OPS[name].fmt(node, [fmt] * len(x))
    integers = exact.to_objects() if isinstance(exact, Wide) else exact.astype(object)
    want = OPS[name].floats(node, [v.astype(object) for v in x])
    assert flags is None
    assert list(integers) == list(want), f"seed {seed}"
    assert all(result.min_int <= v <= result.max_int for v in want), "the derived width is short"


ADDED = [  # products' two formats, the addend's, whether two limbs are needed
    (Format(16, 8), Format(16, 8), Format(16, 8), False),
    (Format(16, 8), Format(12, 4), Format(20, 12), False),  # one last bit
    (Format(10, 6), Format(9, 3), Format(50, -1), False),  # the addend is the largest
    (Format(27, 20), Format(18, 12), Format(27, 15), False),
    (Format(36, 8), Format(36, 8), Format(36, 8), True),
    (Format(39, 30), Format(39, 30), Format(39, 20), True),  # shifted by more than a limb
    (Format(20, 30), Format(20, 30), Format(10, -20), True),  # two limbs only for the addend
]


@pytest.mark.parametrize("signs", [(1, 1), (-1, 1), (1, -1), (-1, -1)], ids=str)
@pytest.mark.parametrize(("a", "b", "c", "wide"), ADDED, ids=str)
def test_an_addend_counts_with_its_own_binary_point(
    a: Format, b: Format, c: Format, wide: bool, signs: tuple[int, int]
) -> None:
    node, fmts = Node("dot", (0, 1, 2, 3, 4), (*signs, 1)), [a, b, a, b, c]
    seed = 12
    rng = np.random.default_rng(seed)
    x = [rng.integers(fmt.min_int, fmt.max_int + 1, 300) for fmt in fmts]
    for operand, fmt in zip(x, fmts, strict=True):
        operand[:100] = rng.choice([fmt.min_int, fmt.max_int], 100)
    exact, flags = OPS["dot"].integers(node, x, fmts)
    assert flags is None and isinstance(exact, Wide) == wide
    integers = exact.to_objects() if isinstance(exact, Wide) else exact.astype(object)
    n = [v.astype(object) for v in x]
    weight = 2 ** (a.frac + b.frac - c.frac)
    want = signs[0] * n[0] * n[1] + signs[1] * n[2] * n[3] + weight * n[4]
    assert list(integers) == list(want), f"seed {seed}"
    result = OPS["dot"].fmt(node, fmts)
    assert result.frac == a.frac + b.frac
    assert all(result.min_int <= v <= result.max_int for v in want), "the derived width is short"


def test_an_addend_finer_than_the_products_has_no_format() -> None:
    fmts = [Format(16, 8)] * 4 + [Format(20, 17)]
    with pytest.raises(ValueError, match="addend has 17 fraction bits but its products have 16"):
        OPS["dot"].fmt(ADDEND, fmts)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_trigonometric_rows_stay_inside_the_units_bound(name: str) -> None:
    source = Format(16, 8)
    x = np.arange(source.min_int, source.max_int + 1, 7)
    value, _ = OPS[name].integers(EXAMPLES[name], [x], [source])
    target = OPS[name].fmt(EXAMPLES[name], [source])
    bound = SinCos(source=source, target=target).error_bound
    error = to_float(np.asarray(value), target) - OPS[name].floats(
        EXAMPLES[name], [to_float(x, source)]
    )
    assert np.max(np.abs(error)) <= bound


def test_the_reciprocal_stays_inside_the_units_bound_or_is_flagged() -> None:
    node, source = EXAMPLES["reciprocal"], Format(16, 8)
    target = OPS["reciprocal"].fmt(node, [source])
    unit = Reciprocal(source=source, target=target)
    x = np.arange(source.min_int, source.max_int + 1)
    value, flags = OPS["reciprocal"].integers(node, [x], [source])
    assert flags is not None
    floats = to_float(np.asarray(value), target)
    # The reciprocals of 31 / 256 and less exceed 8, the limit of the target.
    assert np.array_equal(flags, (x > -32) & (x <= 32)), x[flags]
    error = floats[~flags] - OPS["reciprocal"].floats(node, [to_float(x[~flags], source)])
    assert np.max(np.abs(error)) <= unit.error_bound < target.lsb
    ends = np.where(x[flags] < 0, target.min_int, target.max_int)
    assert np.array_equal(np.asarray(value)[flags], ends)


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("overflow", Overflow)
@pytest.mark.parametrize("frac", [0, 3, 8, 14])
def test_quantize_rounds_limits_and_flags(
    frac: int, overflow: Overflow, rounding: Rounding
) -> None:
    source, target = Format(16, 8), Format(10, frac)
    node = Node("quantize", (0,), (10, frac, rounding.value, overflow.value))
    x = np.arange(source.min_int, source.max_int + 1, 3)
    value, flags = OPS["quantize"].integers(node, [x], [source])
    assert flags is not None
    scale, half = 2.0 ** (frac - 8), 0.5 if rounding is Rounding.NEAREST else 0.0
    whole = np.floor(x * scale + half)
    inside = (whole >= target.min_int) & (whole <= target.max_int)
    assert np.array_equal(flags, ~inside)
    assert np.array_equal(np.asarray(value)[inside], whole[inside])
    assert np.all((value >= target.min_int) & (value <= target.max_int))
    if overflow is Overflow.SATURATE:
        assert np.array_equal(value, np.clip(whole, target.min_int, target.max_int))
    else:
        assert np.all((value - whole) % 1024 == 0)


def table_graph() -> Graph:
    """A graph of the real dialect that uses every row of it."""
    nodes = [Node("input", (), (f"x{k}",)) for k in range(6)]
    outputs = []
    for name in OPS:
        if name in ("input", "quantize"):
            continue
        nodes.append(real(EXAMPLES[name]))
        outputs.append((name, len(nodes) - 1))
    for name in sorted(CASES.keys() - EXAMPLES.keys()):
        nodes.append(CASES[name])
        outputs.append((name.replace(", ", "_"), len(nodes) - 1))
    return verify(Graph(tuple(nodes), tuple(outputs)))


@pytest.mark.parametrize("width", [16, 36])
def test_a_clamp_is_pythons_own_between_its_rounded_ends(width: int) -> None:
    fmt = Format(width, 8)
    print("seed 13")
    x = np.random.default_rng(13).integers(fmt.min_int, fmt.max_int + 1, 200)
    x[:100] = np.arange(-400, 400, 8)
    for low, high in ((-1.25, 0.75), (-0.0041, 0.0061), (0.5, 1e9), (-1e9, -1e8)):
        node = Node("clamp", (0,), (low, high, width, 8))
        ends = [min(max(math.floor(e * 256 + 0.5), fmt.min_int), fmt.max_int) for e in (low, high)]
        integers, flags = OPS["clamp"].integers(node, [x], [fmt])
        assert flags is None
        assert [int(v) for v in np.asarray(integers)] == [sorted((*ends, int(v)))[1] for v in x]
    with pytest.raises(ValueError, match=r"format of its operand, q8.8, not q7.9"):
        OPS["clamp"].fmt(Node("clamp", (0,), (0.0, 1.0, 16, 9)), [Format(16, 8)])


@pytest.mark.parametrize("ends", [(1.0, -1.0), (float("nan"), 1.0), (-1.0, float("inf")), ("a", 1)])
def test_ends_of_a_clamp_that_are_none_are_said(ends: tuple[float, float]) -> None:
    graph = Graph((Node("input", (), ("x",)), Node("clamp", (0,), ends)), (("y", 1),))
    with pytest.raises(GraphError, match=r"%1"):
        verify(graph)


def test_every_kind_of_unit_exists_in_hardware() -> None:
    fixed = lower(table_graph(), Q16)
    unit_names = {row.unit for row in OPS.values()} - {""}
    kinds = {operation.kind for operation in operations(fixed, TIMING)}
    # A single quantization, of an input.
    lone = Graph((Node("input", (), ("x", 32, 16)), Node("quantize", (0,), QUANTIZE)), (("y", 1),))
    kinds |= {operation.kind for operation in operations(verify(lone), TIMING)}
    assert {kind.name for kind in kinds} == unit_names
    for kind in kinds:
        unit = make_unit(kind, TIMING)
        assert set(operand_ports(kind)) | set(control_ports(kind)) == set(unit.inputs)
        assert unit.latency >= 1


def test_formats_of_the_fixed_dialect_are_derived_by_the_rows() -> None:
    fixed = lower(table_graph(), Q16)
    for node, fmt in zip(fixed.nodes, formats(fixed), strict=True):
        functions = [name for name, row in OPS.items() if row.family is Family.FUNCTION]
        want = {
            **dict.fromkeys(("input", "const", "quantize", *functions), Format(32, 16)),
            **dict.fromkeys(("add", "sub", "neg"), Format(33, 16)),
            "sum": Format(34, 16),
            "mul": Format(64, 32),
            "dot": {3: Format(65, 32)}.get(len(node.args), Format(66, 32)),
        }[node.op]
        assert fmt == want, node.op


def test_a_real_graph_has_no_formats() -> None:
    with pytest.raises(GraphError, match=r"Node %0 \(input\) does not fit the fixed dialect"):
        formats(table_graph())
