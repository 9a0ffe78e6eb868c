"""The reduced graphs: the float model's results, from no more operations than stated."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pinion.functions import (
    SUBJECTS,
    Function,
    independent_states,
    named_function,
    reduced_graph,
    sample,
    savings,
)
from pinion.functions.row import word_columns
from pinion.graph import Graph, GraphError, evaluate_floats, op_counts
from pinion.graph.passes import fold
from pinion.hls.costs import DatapathCosts
from pinion.robot import JointKind, Model, load, load_text, random_tree, with_contacts
from tests.support.breadth import some

SEED = 21  # of the random tree
ROWS = [*SUBJECTS["dynamics"], named_function("fd_derivatives", outputs=("minv",))]


def label(row: Function) -> str:
    return "-".join((row.name, *row.options.values()))


@cache
def robot(name: str) -> Model:
    return load(name) if name != "tree" else load_text(random_tree(np.random.default_rng(SEED), 7))


@cache
def reduced(name: str, row: str) -> Graph:
    return reduced_graph(
        robot(name), next(r for r in ROWS if label(r) == row), costs=DatapathCosts()
    )


def words(row: Function, model: Model, count: int, seed: int) -> dict[str, NDArray[np.float64]]:
    requests = sample(model, row, count, distribution="reference", seed=seed)
    return {word: values.astype(np.float64) for word, values in requests.items()}


def test_a_relation_that_holds_for_contacts_on_the_ground_alone_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """States with masks of 1 once gave wrong gradients, which nothing noticed."""

    def on_ground(*arguments: Any, **options: Any) -> dict[str, NDArray[np.float64]]:
        states = independent_states(*arguments, **options)
        masks = {word: np.ones_like(x) for word, x in states.items() if word.startswith("active")}
        assert masks
        return states | masks

    model, row = with_contacts(robot("two_link"), ("link_2",)), named_function("impulse_dynamics")
    reduced_graph(model, row, costs=DatapathCosts())
    monkeypatch.setattr("pinion.functions.reduced.independent_states", on_ground)
    message = "changed its result '[a-z_]+.*' by .*nothing was built. This is a defect in Pinion"
    with pytest.raises(GraphError, match=message):
        reduced_graph(model, row, costs=DatapathCosts())


@pytest.mark.parametrize("name", some(["two_link", "iiwa14", "tree"], ("two_link",)))
@pytest.mark.parametrize("row", ROWS, ids=label)
def test_the_reduced_graph_is_the_float_model(row: Function, name: str) -> None:
    model, count, seed = robot(name), 40, 17
    print(f"seed {seed}")
    arrays = words(row, model, count, seed)
    columns = word_columns(row.inputs, model, arrays)
    graph = reduced(name, label(row))
    assert graph.inputs == row.trace(model).inputs
    assert [word for word, _ in graph.outputs] == [word for word, _ in row.trace(model).outputs]
    traced, want = evaluate_floats(graph, columns), row.evaluate(model, arrays)
    for block in row.results:
        flat = want[block.name].reshape(count, -1)
        scale = np.abs(flat).max()
        for word, position in block.positions(model).items():
            error = np.max(np.abs(traced[word] - flat[:, position]))
            assert error <= 1e-11 * scale, f"{word} is off by {error / scale}"


def test_no_relation_between_minv_and_q_is_built_upon() -> None:
    """A request's M^-1 is the caller's: the graph uses its entries."""
    model, row, count = robot("iiwa14"), named_function("fd_derivatives_from_minv"), 20
    arrays = words(row, model, count, 3)
    rng = np.random.default_rng(3)
    other = rng.uniform(-1.0, 1.0, arrays["minv"].shape)
    arrays["minv"] = other + np.swapaxes(other, 1, 2)
    columns = word_columns(row.inputs, model, arrays)
    traced = evaluate_floats(reduced("iiwa14", label(row)), columns)
    want = row.evaluate(model, arrays)
    for name, values in want.items():
        for i, j in np.ndindex(7, 7):
            error = np.max(np.abs(traced[f"{name}[{i},{j}]"] - values[:, i, j]))
            assert error <= 1e-11 * np.abs(values).max()


# Variable products, products by a constant, additions, reciprocals, sines and cosines.
MOST = {
    ("iiwa14", "rnea"): (112, 87, 181, 0, 12),
    ("iiwa14", "rnea_derivatives"): (670, 175, 786, 0, 10),
    ("iiwa14", "crba"): (84, 11, 100, 0, 10),
    ("iiwa14", "minv"): (249, 20, 242, 5, 10),
    ("iiwa14", "aba"): (260, 108, 330, 5, 12),
    ("iiwa14", "fd_derivatives"): (1412, 242, 1508, 5, 10),
    ("iiwa14", "fd_derivatives_from_minv"): (1242, 175, 1260, 0, 10),
    ("hyq", "rnea"): (148, 208, 342, 0, 24),
    ("hyq", "crba"): (44, 44, 121, 0, 16),
    ("hyq", "minv"): (96, 52, 166, 8, 16),
    ("hyq", "aba"): (240, 250, 456, 8, 24),
    ("hyq", "fd_derivatives_from_minv"): (738, 386, 1044, 0, 24),
}


@pytest.mark.parametrize(("name", "row"), MOST)
def test_a_core_needs_no_more_operations_than_stated(name: str, row: str) -> None:
    op_numbers = op_counts(reduced(name, row))
    assert all(x <= most for x, most in zip(op_numbers.values(), MOST[name, row], strict=True)), (
        op_numbers
    )


@pytest.mark.parametrize("name", ["two_link", "iiwa14"])
@pytest.mark.parametrize("row", ["rnea", "aba", "rnea_derivatives"])
def test_savings_are_the_counts_of_each_step(row: str, name: str) -> None:
    model, function_row = robot(name), named_function(row)
    steps = savings(model, function_row, costs=DatapathCosts())
    assert [saving.step for saving in steps] == [
        *("traced", "folded", "slid", "regrouped", "rescaled", "numbered", "resubstituted")
    ]
    assert all(saving.doc for saving in steps)
    products = [saving.ops["mul"] + saving.ops["mul_const"] for saving in steps]
    assert products == sorted(products, reverse=True)
    counted = {saving.step: saving.ops for saving in steps}
    assert counted["traced"] == op_counts(function_row.trace(model, minimal=False))
    assert counted["rescaled"] == op_counts(fold(function_row.trace(model)))
    assert counted["resubstituted"] == op_counts(reduced(name, row))
    if name == "iiwa14":
        assert products[-1] < products[1]


def test_a_row_that_speaks_of_links_is_traced_on_the_robot_itself() -> None:
    model = robot("iiwa14")
    of_links = replace(named_function("rnea"), joint_space=False)
    assert of_links.trace(model) == named_function("rnea").trace(model, minimal=False)
    assert of_links.trace(model) != named_function("rnea").trace(model)
    steps = [saving.step for saving in savings(model, of_links, costs=DatapathCosts())]
    assert steps == ["traced", "folded", "numbered", "resubstituted"]


@pytest.mark.parametrize("name", ["iiwa14", "tree"])
def test_independent_states_know_nothing_of_each_other(name: str) -> None:
    model, row = robot(name), named_function("fd_derivatives_from_minv")
    first = independent_states(model, row, 400, seed=1)
    assert list(first) == [w for block in row.inputs for w in block.words(model)]
    repeated, other = (independent_states(model, row, 400, seed=s) for s in (1, 2))
    assert all(np.array_equal(first[w], repeated[w]) for w in first)
    assert not any(np.array_equal(first[w], other[w]) for w in first if first[w].any())
    for i, body in enumerate(model.bodies):
        if body.joint.kind is JointKind.REVOLUTE:
            assert np.ptp(first[f"q[{i}]"]) > 6.0
    # More digits than a float32 has.
    assert not np.array_equal(first["qd[0]"], first["qd[0]"].astype(np.float32))


def test_two_arrays_of_positions_are_two_things() -> None:
    """A reference beside the state: on joints that slide they were once merged."""
    rng = np.random.default_rng(8)
    text = random_tree(rng, 3, prismatic=True, continuous=False)
    model = load_text(text.replace('type="revolute"', 'type="prismatic"'))
    q = named_function("rnea").inputs[0]
    row = Function(
        name="errors",
        doc="how far positions are from others",
        inputs=(q, replace(q, name="q_des")),
        outputs=(replace(q, name="e", sampling=None),),
        scalars=lambda model, q, q_des, *, region: (
            [3.0 * (b - a) + a * b for a, b in zip(q, q_des, strict=True)],
        ),
    )
    requests = sample(model, row, 200, distribution="reference", seed=3)
    assert (requests["q"] != requests["q_des"]).all()
    graph = reduced_graph(model, row, costs=DatapathCosts())
    columns = {
        f"{b.name}[{i}]": requests[b.name][:, i] for b in row.inputs for i in range(model.nq)
    }
    inputs = {word: column.astype(np.float64) for word, column in columns.items()}
    outputs = evaluate_floats(graph, inputs)
    for i in range(model.nq):
        a, b = inputs[f"q[{i}]"], inputs[f"q_des[{i}]"]
        np.testing.assert_allclose(outputs[f"e[{i}]"], 3.0 * (b - a) + a * b, atol=1e-12)
