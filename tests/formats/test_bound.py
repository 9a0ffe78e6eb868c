"""Bounds of errors hold for every request of a box without a flag, and are not too loose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pinion.fixedpoint import Format
from pinion.fixedpoint.float32 import fixed_to_float32, float32_to_fixed
from pinion.formats import bound, enclosure, terms
from pinion.formats import slopes as slopes_module
from pinion.formats.bound import error_bounds
from pinion.formats.enclosure import Enclosure
from pinion.formats.intervals import Interval
from pinion.formats.lengths import Lengths
from pinion.formats.slopes import Slopes
from pinion.functions import named_function, request_box, sample
from pinion.functions.row import word_columns
from pinion.graph import (
    Feedback,
    Graph,
    GraphError,
    Word,
    evaluate_floats,
    node_floats,
    node_integers,
    parse_graph,
)
from pinion.graph.evaluate import adjoints, formats
from tests.gateware.link.mutants import mutant
from tests.graph.helpers import model, promised
from tests.support.breadth import some_rows

SEED = 20
Floats = NDArray[np.float64]
Box = Mapping[str, tuple[float, float]]


def drawn(box: Box, count: int, rng: np.random.Generator) -> dict[str, Floats]:
    """Requests as transmitted: uniform in a box, one in three at its corners."""
    requests = {}
    for word, (low, high) in box.items():
        inside = np.clip(rng.uniform(low, high, count), low, high)
        ends = rng.choice([low, high], count)
        column = np.where(np.arange(count) % 3 == 0, ends, inside)
        requests[word] = column.astype(np.float32).astype(np.float64)
    return requests


def errors(graph: Graph, requests: Mapping[str, Floats]) -> tuple[dict[str, Floats], Any]:
    """|core - floats| of each result as float32 from the core, and flags, (n,)."""
    columns, flags = core_words(graph, requests)
    values = node_integers(graph, columns)
    count = len(flags)
    flags = flags | values.any_saturated(count)
    want, fmts = evaluate_floats(graph, requests), formats(graph)
    errors_by_word = {}
    for word, node in graph.outputs:
        integers = np.broadcast_to(np.asarray(values.nodes[node]), (count,))
        answers = fixed_to_float32(integers, fmts[node]).view(np.float32).astype(np.float64)
        errors_by_word[str(word)] = np.abs(answers - want[word])
    return errors_by_word, flags


def core_words(graph: Graph, requests: Mapping[str, Floats]) -> tuple[dict[str, Any], Any]:
    fmts, columns, flags = formats(graph), {}, np.zeros(1, dtype=np.bool_)
    for i, node in enumerate(graph.nodes):
        if node.op == "input":
            word = str(node.params[0])
            bits = requests[word].astype(np.float32).view(np.uint32)
            columns[word], bad = float32_to_fixed(bits, fmts[i])
            flags = flags | bad
    return columns, flags


def worst(graph: Graph, requests: Mapping[str, Floats]) -> dict[str, float]:
    errors_by_word, flags = errors(graph, requests)
    assert not flags.all()
    return {word: float(error[~flags].max()) for word, error in errors_by_word.items()}


@cache
def fixed(robot: str, name: str, numbers: str) -> tuple[Graph, dict[str, tuple[float, float]]]:
    graph = promised(robot, name, formats=numbers).fixed
    return graph, request_box(model(robot), named_function(name), "reference")


def searched(graph: Graph, box: Box, word: str, rng: np.random.Generator) -> float:
    """Return the largest error of a result found by climbing from many states."""
    names = list(box)
    low, high = (np.array([box[name][end] for name in names]) for end in (0, 1))

    def of(x: Floats) -> Floats:
        errors_by_word, flags = errors(
            graph, {n: np.ascontiguousarray(x[:, k]) for k, n in enumerate(names)}
        )
        return np.where(flags, 0.0, errors_by_word[word])

    best = np.stack(list(drawn(box, 2000, rng).values()), axis=1)
    best = best[np.argsort(-of(best))[:20]]
    for step in range(40):
        candidates = np.repeat(best, 25, axis=0)
        moved = rng.random(candidates.shape) < 2.0 / len(names)
        size = (high - low) * rng.choice([0.3, 0.03, 0.003, 3e-5])
        moves = np.where(
            step % 4 == 0,
            rng.choice(np.stack([low, high])),
            rng.normal(size=candidates.shape) * size + candidates,
        )
        candidates = np.clip(np.where(moved, moves, candidates), low, high)
        candidates = np.concatenate([best, candidates]).astype(np.float32).astype(np.float64)
        best = candidates[np.argsort(-of(candidates))[:20]]
    return float(of(best).max())


CASES = [
    ("two_link", "rnea", "q16.16", 4.0),
    ("two_link", "rnea_derivatives", "auto", 4.0),
    ("chain_3", "rnea", "auto", 8.0),
    ("chain_3", "rnea_derivatives", "q16.16", 12.0),
]


@pytest.mark.parametrize(("robot", "name", "numbers", "loose"), some_rows(CASES, 2))
def test_no_state_that_is_found_exceeds_the_bound(
    robot: str, name: str, numbers: str, loose: float
) -> None:
    graph, box = fixed(robot, name, numbers)
    limits = error_bounds(graph, box).error
    rng = np.random.default_rng(SEED)
    largest = worst(graph, drawn(box, 100_000, rng))
    word = max(limits, key=lambda w: largest[w] / limits[w] if limits[w] else 0.0)
    largest[word] = max(largest[word], searched(graph, box, word, rng))
    for each, limit in limits.items():
        assert largest[each] <= limit + 1e-15, (each, SEED)
    ratios = [limits[w] / largest[w] for w in limits if largest[w] > 1e-9]
    assert np.median(ratios) < loose, ratios


@pytest.mark.parametrize(
    ("robot", "name", "numbers", "median", "largest"),
    [
        ("iiwa14", "rnea", "auto", 30, 60),
        pytest.param("hyq", "rnea", "q16.16", 8, 15, marks=pytest.mark.slow),
        pytest.param("iiwa14", "rnea_derivatives", "q16.16", 30, 400, marks=pytest.mark.slow),
    ],
)
def test_bounds_of_whole_robots_hold_and_are_as_loose_as_the_page_says(
    robot: str, name: str, numbers: str, median: float, largest: float
) -> None:
    graph, box = fixed(robot, name, numbers)
    limits = error_bounds(graph, box).error
    arrays = sample(model(robot), named_function(name), 4000, distribution="reference", seed=SEED)
    requests = word_columns(named_function(name).inputs, model(robot), arrays)
    largest_errors = worst(graph, requests)
    assert all(largest_errors[word] <= limits[word] + 1e-12 for word in limits)
    ratios = [limits[w] / largest_errors[w] for w in limits if largest_errors[w] > 1e-9]
    assert np.median(ratios) < median and max(ratios) < largest


@pytest.mark.parametrize("numbers", ["q16.16", "auto"])
def test_every_value_of_the_iiwa14_is_inside_its_ranges(numbers: str) -> None:
    graph, box = fixed("iiwa14", "rnea", numbers)
    assert not outside(Enclosure, graph, box)


def outside(enclose: Any, graph: Graph, box: Box) -> list[str]:
    """Return nodes whose real value, core value or distance leaves its range, in 3000 states."""
    ranges = enclose(graph, {word: Interval.between(*ends) for word, ends in box.items()})
    requests = drawn(box, 3000, np.random.default_rng(SEED))
    columns, flags = core_words(graph, requests)
    run = node_integers(graph, columns)
    good = ~(flags | run.any_saturated(3000))
    outliers = []
    for i, (real, fmt) in enumerate(zip(node_floats(graph, requests), formats(graph), strict=True)):
        if graph.nodes[i].op in ("add", "sub", "sum", "mul", "dot"):
            continue  # the core's value is wider than a float: its rounding follows
        real = np.broadcast_to(real, (3000,))[good]
        core = np.broadcast_to(np.asarray(run.nodes[i]), (3000,))[good] * fmt.lsb
        near = 1e-13 * (1.0 + np.abs(real).max())
        for value, value_range in ((real, ranges.real[i]), (core, ranges.core[i])):
            if value.min() < value_range.low - near or value.max() > value_range.high + near:
                outliers.append(f"%{i}")
        if np.abs(core - real).max() > ranges.strayed[i] + near:
            outliers.append(f"%{i} strays")
    return outliers


# -- Graphs whose worst case is known --------------------------------------------------------------

PRODUCT = parse_graph(
    """%0 = input ["x", 8, 1]
%1 = input ["y", 8, 1]
%2 = mul %0 %1
%3 = quantize %2 [12, 2, "nearest", "saturate"]
out z = %3
"""
)
PRODUCT_BOX = {"x": (0.0, 0.75), "y": (0.0, 0.75)}
# Both factors are rounded from 0.75 up to 1.
PRODUCT_WORST = 1.0 - 0.75**2


def test_the_bound_of_a_product_is_its_worst_case_with_the_second_order_in_it() -> None:
    assert worst(PRODUCT, {"x": np.array([0.75]), "y": np.array([0.75])})["z"] == PRODUCT_WORST
    limit = error_bounds(PRODUCT, PRODUCT_BOX).error["z"]
    assert PRODUCT_WORST <= limit <= PRODUCT_WORST * 1.0001


@pytest.mark.parametrize("left_out", [0, 1])
def test_the_bound_of_a_product_needs_both_roundings(
    left_out: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(graph: Graph) -> Floats:
        added = introduced(graph)
        added[left_out] = 0.0
        return added

    introduced = enclosure.introduced_errors
    monkeypatch.setattr(enclosure, "introduced_errors", short)
    assert error_bounds(PRODUCT, PRODUCT_BOX).error["z"] < PRODUCT_WORST


def test_slopes_at_real_values_leave_the_second_order_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Enclosure, "middle", lambda self, i: self.real[i])
    assert error_bounds(PRODUCT, PRODUCT_BOX).error["z"] < PRODUCT_WORST


def two_turns(second: str) -> Graph:
    """z cos(a) + z sin(b), or with one angle; everything but the rounding of z is exact or fine."""
    return parse_graph(
        f"""%0 = input ["a", 28, 24]
%1 = input ["b", 28, 24]
%2 = input ["z", 8, 2]
%3 = cos %0 [28, 24]
%4 = sin %{second} [28, 24]
%5 = dot %3 %2 %4 %2 [1, 1]
%6 = quantize %5 [32, 24, "nearest", "saturate"]
out r = %6
"""
    )


TURNS_BOX = {"a": (-3.0, 3.0), "b": (-3.0, 3.0), "z": (-1.0, 1.0)}
ROUNDED = 0.125  # of z, at most


@pytest.mark.parametrize(("second", "most"), [("1", 2.0), ("0", 2.0**0.5)])
def test_sine_and_cosine_count_together_where_they_are_of_one_angle(
    second: str, most: float
) -> None:
    graph = two_turns(second)
    limit = error_bounds(graph, TURNS_BOX).error["r"]
    a = np.pi / 4 if second == "0" else 0.0
    turned = {"a": np.array([a]), "b": np.array([np.pi / 2]), "z": np.array([0.875])}
    largest = worst(graph, turned)["r"]
    assert most * ROUNDED - 1e-6 < largest <= limit < most * ROUNDED * 1.0001


def test_two_angles_taken_for_one_break_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    def one(graph: Graph) -> dict[int, terms.SineOrCosine]:
        return {i: turn._replace(angle=0) for i, turn in terms.turns(graph).items()}

    monkeypatch.setattr(enclosure, "turns", one)
    assert error_bounds(two_turns("1"), TURNS_BOX).error["r"] < 2.0 * ROUNDED * 0.9


BENDS = parse_graph(
    """%0 = input ["x", 16, 4]
%1 = input ["y", 16, 4]
%2 = abs %0 [16, 4]
%3 = minimum %2 %1 [16, 4]
%4 = maximum %3 %0 [16, 4]
%5 = clamp %4 [-1.53, 0.71, 16, 4]
%6 = sub %5 %1
out r = %6
"""
)


def test_operations_that_bend_pass_errors_on_once() -> None:
    box = {"x": (-2.0, 2.0), "y": (-2.0, 2.0)}
    limit = error_bounds(BENDS, box).error["r"]
    largest = worst(BENDS, drawn(box, 100_000, np.random.default_rng(SEED)))["r"]
    # x or y is off by 1/32, and so is y again; the end 0.71 is off by 1/50.
    assert largest <= limit < 2.5 * largest


# -- Rules of ranges and slopes, and their mutants ------------------------------------------------


def steeper(slopes_of: Any, graph: Graph, box: Box, word: str) -> list[str]:
    """Return nodes whose slope for a result leaves its range at some of 1000 states."""
    result = dict(graph.outputs)[word]
    ranges = Enclosure(graph, {name: Interval.between(*ends) for name, ends in box.items()})
    slopes = slopes_of(ranges, [result])
    values = node_floats(graph, drawn(box, 1000, np.random.default_rng(SEED)))
    outliers = []
    for i, bar in enumerate(adjoints(graph, values, result)):
        largest = np.max(slopes.largest[i]) if slopes.largest[i] is not None else 0.0
        if np.max(np.abs(bar)) > largest * (1 + 1e-9) + 1e-12:
            outliers.append(f"%{i}")
    return outliers


ROTATION = parse_graph(
    """%0 = input ["a", 28, 24]
%1 = input ["x", 28, 24]
%2 = input ["y", 28, 24]
%3 = input ["p", 28, 24]
%4 = input ["q", 28, 24]
%5 = cos %0 [28, 24]
%6 = sin %0 [28, 24]
%7 = dot %5 %1 %6 %2 [1, 1]
%8 = quantize %7 [28, 24, "nearest", "saturate"]
%9 = dot %5 %2 %6 %1 [1, -1]
%10 = quantize %9 [28, 24, "nearest", "saturate"]
%11 = dot %3 %8 %4 %10 %5 %3 [1, 1, 1]
%12 = quantize %11 [32, 24, "nearest", "saturate"]
out r = %12
"""
)
"""(p, q) times (x, y) turned by a, and p cos(a)."""

UNIT = dict.fromkeys("xypq", (-1.0, 1.0))
CASES_OF_SLOPES = {
    "a rotation": (ROTATION, {"a": (-3.0, 3.0), **UNIT}, "r"),
    "about no angle": (ROTATION, {"a": (-0.01, 0.01), **UNIT}, "r"),
    "one angle": (two_turns("0"), TURNS_BOX, "r"),
    "a small angle": (two_turns("1"), {**TURNS_BOX, "b": (0.0, 0.1)}, "r"),
}


@pytest.mark.parametrize("word", ["tau[0]", "tau[4]"])
@pytest.mark.parametrize("numbers", ["q16.16", "auto"])
def test_every_slope_of_the_iiwa14_is_inside_its_range(numbers: str, word: str) -> None:
    graph, box = fixed("iiwa14", "rnea", numbers)
    assert not steeper(Slopes, graph, box, word)


@pytest.mark.parametrize("case", CASES_OF_SLOPES)
def test_every_slope_of_a_rotation_is_inside_its_range(case: str) -> None:
    assert not steeper(Slopes, *CASES_OF_SLOPES[case])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if any(across.values()):", "if False:"),
        ("up(length + up(np.sqrt(beside)))", "length"),
    ],
)
def test_a_wrong_rule_of_lengths_is_noticed(
    old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, box = fixed("iiwa14", "rnea", "q16.16")
    broken = mutant(Lengths, old, new)
    monkeypatch.setattr(enclosure, "Lengths", broken)
    assert outside(Enclosure, graph, box)
    monkeypatch.undo()
    monkeypatch.setattr(slopes_module, "Lengths", broken)
    cases = [(graph, box, "tau[0]"), *CASES_OF_SLOPES.values()]
    assert any(steeper(Slopes, *case) for case in cases)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("up(up(length * length) * 0.5)", "up(up(length * length) * 0.4)"),
        ("total = up(total + up(self.middle(other).magnitude * self.strayed[factor]))", "pass"),
    ],
)
def test_a_wrong_rule_of_ranges_is_noticed(old: str, new: str) -> None:
    graph, box = fixed("iiwa14", "rnea", "q16.16")
    assert outside(mutant(Enclosure, old, new), graph, box)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Interval.ball(up(slopes * values))", "Interval.ball(up(0.4 * slopes * values))"),
        ("self.same = None if self.begun else same", "self.same = same"),
        ("total = total + product.part", "total = total"),
        ("if other != angle:", "if False:"),
        ("turn._replace(sine=not turn.sine), bar.times(sign)", "turn, bar.times(sign)"),
    ],
)
def test_a_wrong_rule_of_slopes_is_noticed(old: str, new: str) -> None:
    graph, box = fixed("iiwa14", "rnea", "q16.16")
    cases = [(graph, box, "tau[0]"), *CASES_OF_SLOPES.values()]
    assert any(steeper(mutant(Slopes, old, new), *case) for case in cases)


# -- What is refused, and what a box implies ----------------------------------------------------


def test_a_function_without_a_bound_is_refused_with_its_operation() -> None:
    graph = promised("two_link", "minv").fixed
    with pytest.raises(
        GraphError, match=r"'reciprocal' .*rnea_derivatives.*without bound=True \(--bound\)\.$"
    ):
        error_bounds(graph, request_box(model("two_link"), named_function("minv"), "reference"))


def test_a_function_with_states_has_no_bound() -> None:
    with_state = replace(PRODUCT, states=(Feedback(Word.of("x"), 3),))
    with pytest.raises(GraphError, match=r"states, such as 'x', in which errors accumulate"):
        error_bounds(with_state, PRODUCT_BOX)


def test_a_box_that_no_format_holds_is_refused() -> None:
    with pytest.raises(GraphError, match=r"Every request in the box raises the flag: %0"):
        error_bounds(PRODUCT, {"x": (1000.0, 1001.0), "y": (0.0, 1.0)})


def test_a_bound_holds_for_a_part_of_the_box_too() -> None:
    """Bounds grow with the box."""
    graph, box = fixed("chain_3", "rnea", "q16.16")
    part = {word: (0.5 * low, 0.5 * high) for word, (low, high) in box.items()}
    limits_of_box, half = error_bounds(graph, box).error, error_bounds(graph, part).error
    assert all(half[word] <= limits_of_box[word] for word in limits_of_box)


def test_formats_tell_what_an_unflagged_request_can_hold() -> None:
    """Of a wide box only the requests that the input's format can hold count."""
    fmt = Format(8, 1)
    wide = error_bounds(PRODUCT, {"x": (-1e6, 1e6), "y": (0.0, 0.75)}).error["z"]
    assert wide <= (fmt.max + 1.0) * 0.25 + 0.25 * 1.0
    assert bound.error_bounds(PRODUCT, PRODUCT_BOX).error["z"] < wide
