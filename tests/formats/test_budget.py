"""The error budget holds, is not slack, and fails for a wrong design."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from pinion.fixedpoint import Rounding
from pinion.formats import FormatPlan, state_budgets
from pinion.formats.budget import MARGIN, introduced_errors
from pinion.graph import Graph, Node, evaluate_floats, evaluate_integers, node_floats
from pinion.graph.check import verify
from pinion.graph.evaluate import adjoints
from tests.graph.helpers import designed, edit, insert, integers, promised, states, traced
from tests.support.breadth import some

SEED = 21


def errors(
    graph: Graph, robot: str, count: int, formats: str = "q16.16", name: str = "rnea"
) -> dict[str, np.ndarray]:
    """|integers - float model| of each result word, (count,), as float32 from the core."""
    fmt = FormatPlan.parse(formats).default
    values = states(robot, count, seed=SEED, name=name)
    results, flags = evaluate_integers(graph, integers(values, fmt))
    assert not flags.any(), "the reference distribution does not saturate"
    want = evaluate_floats(traced(robot, name), values)
    return {
        k: np.abs((results[k] * fmt.lsb).astype(np.float32).astype(np.float64) - want[k])
        for k in results
    }


@pytest.mark.parametrize("formats", ["q16.16", "q12.20"])
@pytest.mark.parametrize(
    "robot",
    some(
        [
            *("pendulum", "two_link", "chain_3", "iiwa14", "hyq"),
            pytest.param("baxter", marks=pytest.mark.slow),
        ],
        lambda robot: robot != "hyq",
    ),
)
def test_every_state_stays_inside_its_own_budget(robot: str, formats: str) -> None:
    graph = designed(robot, 8, formats).fixed
    budgets = state_budgets(graph, states(robot, 300, seed=SEED))
    for name, error in errors(graph, robot, 300, formats).items():
        assert np.all(error <= MARGIN * budgets[name]), f"{name}, seed {SEED}"
        assert np.all(budgets[name] > 0) or robot == "pendulum"


def test_the_budget_of_the_iiwa14_is_at_most_50_times_the_largest_error() -> None:
    design = designed("iiwa14", 8)
    measured = errors(design.fixed, "iiwa14", 10_000)
    assert set(design.budget) == set(measured)
    for name, error in measured.items():
        worst = float(np.max(error))
        assert worst <= design.budget[name] <= 50 * worst, f"{name}: {design.budget[name] / worst}"


@pytest.mark.parametrize("name", some(["aba", "minv", "crba"], ("crba",)))
def test_budgets_of_other_functions_hold_and_are_not_slack(name: str) -> None:
    design, count = promised("iiwa14", name), 2000
    measured = errors(design.fixed, "iiwa14", count, name=name)
    assert set(design.budget) == set(measured)
    assert len(measured) + len(design.constants) == len(traced("iiwa14", name).outputs)
    for word, error in measured.items():
        worst = float(np.max(error))
        assert worst <= design.budget[word] <= 50 * worst, f"{word}: {design.budget[word] / worst}"


@pytest.mark.parametrize("name", ["aba", "minv"])
@pytest.mark.parametrize(
    "robot", some(["two_link", "chain_3", "iiwa14", "hyq"], ("two_link", "chain_3"))
)
def test_every_state_stays_inside_its_own_budget_through_reciprocals(robot: str, name: str) -> None:
    graph = designed(robot, 8, name=name).fixed
    assert any(node.op == "reciprocal" for node in graph.nodes)
    budgets = state_budgets(graph, states(robot, 300, seed=SEED, name=name))
    for word, error in errors(graph, robot, 300, name=name).items():
        assert np.all(error <= MARGIN * budgets[word]), f"{word}, seed {SEED}"


@pytest.mark.parametrize("name", ["rnea", "aba"])
def test_sensitivities_are_derivatives(name: str) -> None:
    graph = designed("two_link", 8, name=name).real
    inputs = states("two_link", 5, seed=SEED, name=name)
    values = node_floats(graph, inputs)
    for output, node in graph.outputs:
        bars = adjoints(graph, values, node)
        for i, item in enumerate(graph.nodes):
            if item.op != "input":
                continue
            word, step = str(item.params[0]), 1e-6
            up = evaluate_floats(graph, {**inputs, word: inputs[word] + step})[output]
            down = evaluate_floats(graph, {**inputs, word: inputs[word] - step})[output]
            slope = (up - down) / (2 * step)
            assert np.all(np.abs(slope - bars[i]) <= 1e-6 * (1 + np.abs(slope))), (output, word)


@pytest.mark.parametrize("name", ["rnea", "aba"])
def test_every_loss_is_in_the_list(name: str) -> None:
    graph = designed("iiwa14", 8, name=name).fixed
    listed = introduced_errors(graph)
    lsb = 2.0**-16
    for node, error in zip(graph.nodes, listed, strict=True):
        if node.op == "input":
            assert error == lsb / 2
        elif node.op == "const":
            assert error <= lsb / 2
        elif node.op in ("sin", "cos", "reciprocal"):
            assert lsb / 2 <= error <= lsb
        elif node.op == "quantize" and graph.nodes[node.args[0]].op in ("mul", "dot"):
            assert error == lsb / 2
        else:  # exact sums, and quantizations that drop no bits
            assert error == 0.0


# -- mutants -------------------------------------------------------------------------------------


@cache
def good() -> Graph:
    return designed("iiwa14", 8).fixed


def differs(mutant: Graph, count: int = 200) -> bool:
    words = integers(states("iiwa14", count, seed=SEED), FormatPlan.parse("q16.16").default)
    a, _ = evaluate_integers(good(), words)
    b, _ = evaluate_integers(verify(mutant), words)
    return any(np.any(a[k] != b[k]) for k in a)


def breaks_budget(mutant: Graph, count: int = 200) -> bool:
    budgets = state_budgets(good(), states("iiwa14", count, seed=SEED))
    return any(
        np.any(error > MARGIN * budgets[name])
        for name, error in errors(mutant, "iiwa14", count).items()
    )


def rounded_products() -> list[int]:
    """Quantizations after products."""
    return [
        i
        for i, node in enumerate(good().nodes)
        if node.op == "quantize" and good().nodes[node.args[0]].op in ("mul", "dot")
    ]


def test_the_design_itself_is_no_mutant() -> None:
    assert not differs(edit(good(), 0, line="elsewhere.py:1"))
    assert not breaks_budget(good())


def truncated_early(i: int) -> Graph:
    """The product before quantization ``i`` loses its last kept bit."""
    early = (31, 15, Rounding.FLOOR.value, "saturate")
    return insert(good(), i, lambda product: Node("quantize", (product,), early))


def unrounded(i: int) -> Graph:
    """Quantization ``i`` drops its bits without rounding."""
    width, frac, _, overflow = good().nodes[i].params
    return edit(good(), i, params=(width, frac, Rounding.FLOOR.value, overflow))


STATES = 240


@pytest.mark.parametrize("mutate", some([truncated_early, unrounded], (unrounded,)))
def test_a_lost_bit_changes_results_wherever_it_is_lost(mutate: Callable[[int], Graph]) -> None:
    places = rounded_products()
    assert len(places) > 100
    silent = [i for i in places if not differs(mutate(i), STATES)]
    print(
        f"{len(places) - len(silent)} of {len(places)} mutants change a result of {STATES} states"
    )
    # A last bit that is multiplied by an inertia of a thousandth rarely shows in a result.
    assert len(silent) <= 0.08 * len(places), [good().nodes[i] for i in silent]


@cache
def sensitivity() -> np.ndarray:
    """Largest effect of each constant on a result, relative to the result's budget, (nodes,)."""
    graph, inputs = good(), states("iiwa14", 50, seed=SEED)
    values = node_floats(graph, inputs)
    effect = np.zeros(len(graph.nodes))
    for name, node in graph.outputs:
        for i, bar in enumerate(adjoints(graph, values, node)):
            if graph.nodes[i].op == "const":
                share = float(np.max(np.abs(bar))) / designed("iiwa14", 8).budget[name]
                effect[i] = max(effect[i], share)
    return effect


def off_by(i: int, error: float) -> Graph:
    value, *shape = good().nodes[i].params
    return edit(good(), i, params=(float(value) + error, *shape))


def test_a_constant_off_by_a_256th_changes_results_and_breaks_the_budget() -> None:
    mutant = off_by(int(np.argmax(sensitivity())), 2.0**-8)
    assert differs(mutant)
    assert breaks_budget(mutant)


def test_nine_of_ten_constants_off_by_a_256th_break_the_budget() -> None:
    constants = [i for i, node in enumerate(good().nodes) if node.op == "const"]
    caught = [i for i in constants if breaks_budget(off_by(i, 2.0**-8), 60)]
    print(f"{len(caught)} of {len(constants)} constants off by 2^-8 break the budget")
    assert len(caught) >= 0.9 * len(constants)
