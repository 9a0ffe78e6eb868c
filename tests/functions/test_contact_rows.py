"""Rows for robots in contact: what they refuse, their masks and how they are drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion import dynamics
from pinion.api import backend
from pinion.batch import InputError
from pinion.functions import (
    DISTRIBUTIONS,
    FUNCTIONS,
    FunctionError,
    independent_states,
    named_function,
    reduced_graph,
    sample,
)
from pinion.functions.blocks import Quantity
from pinion.functions.built import BuiltFunction
from pinion.functions.row import word_columns
from pinion.graph import GraphError, evaluate_floats
from pinion.graph.costs import UnitCosts
from pinion.robot import Model, load
from tests.support.rows import robot

ROWS = [name for name, row in FUNCTIONS.items() if row.of_contacts]


def drawn(model: Model, distribution: str, count: int = 600) -> dict[str, np.ndarray]:
    row = named_function("constraint_dynamics")
    arrays = sample(model, row, count, distribution=distribution, seed=4)
    return {name: values.astype(np.float64) for name, values in arrays.items()}


@pytest.mark.parametrize("name", ROWS)
def test_a_robot_without_contacts_is_a_sentence(name: str) -> None:
    model, row = load("iiwa14"), named_function(name)
    message = f"'{name}' needs contacts, but 'iiwa14' has none: name them as contacts="
    for attempt in (row.check, row.trace):
        with pytest.raises(FunctionError, match=message):
            attempt(model)
    if any(block.sampling is Quantity.CONTACT_MASK for block in row.inputs):
        with pytest.raises(FunctionError, match=message):
            sample(model, row, 3, distribution="reference", seed=0)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place for compiled code that the tests of this module share."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("layout", ["aos", "soa"])
def test_a_mask_is_zero_or_one(layout: str, cache: Path) -> None:
    model = robot("two_link")
    arrays = drawn(model, "reference", 4)
    if layout == "soa":
        arrays = {name: np.moveaxis(x, 0, -1).copy() for name, x in arrays.items()}
    options: dict[str, Any] = {"device": "cpu", "layout": layout, "cache": cache}
    with backend(model, "constraint_dynamics", **options) as compiled:
        right = compiled(**arrays)
        same = compiled(**{**arrays, "active": arrays["active"] > 0.5})
        np.testing.assert_array_equal(same.force, right.force)
        for wrong in (0.5, 2.0, -1.0, np.nan):
            arrays["active"].flat[2] = wrong
            with pytest.raises(InputError, match=r"'active' at index \[.*2.*\] is "):
                compiled(**arrays)


def test_every_device_refuses_another_mask() -> None:
    model = robot("two_link")
    arrays = drawn(model, "reference", 4)
    arrays["active"][3] = 0.25
    with (
        backend(model, "constraint_dynamics", device="float") as opened,
        pytest.raises(InputError, match=r"'active' at index \[3, 0\] is 0.25: give 1 for a"),
    ):
        opened(**arrays)


def test_at_rest_the_contacts_carry_the_robot() -> None:
    """Efforts are those of a robot that stands, where three feet or more are on the ground."""
    model = robot("floating hyq")
    arrays = drawn(model, "rest")
    qdd, force = dynamics.constraint_dynamics(
        model,
        dynamics.normalise(model, arrays["q"]),
        *(arrays[k] for k in ("qd", "tau", "active")),
        0.0,
    )
    falling, turning = (np.linalg.norm(qdd[:, half], axis=1) for half in (slice(3), slice(3, 6)))
    standing = arrays["active"].sum(axis=1) == 4
    assert standing.sum() > 15
    assert np.median(falling[standing]) < 0.05 and np.median(turning[standing]) < 1.0
    nothing = arrays["active"].sum(axis=1) == 0
    assert nothing.sum() > 15 and not force[nothing].any()
    assert np.median(falling[nothing]) > 9.0 and np.median(turning[nothing]) > 2.0


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_requests_are_masks_and_leave_the_base_alone(distribution: str) -> None:
    arrays = drawn(robot("floating hyq"), distribution)
    assert not arrays["tau"][:, :6].any() and arrays["tau"][:, 6:].all()
    masks = {tuple(mask) for mask in arrays["active"]}
    assert masks == {tuple(map(float, f"{k:04b}")) for k in range(16)}
    assert arrays["damping"].min() >= 0.0


@pytest.mark.parametrize("name", ROWS)
def test_a_build_keeps_the_contacts(name: str) -> None:
    model = robot("two_link")
    row = named_function(name)
    built = BuiltFunction.from_json(BuiltFunction.of(row, model).to_json())
    arrays = sample(model, built, 20, distribution="reference", seed=1)
    right = row.evaluate(model, arrays)
    for result, values in built.evaluate(model, arrays).items():
        np.testing.assert_allclose(values, right[result], rtol=1e-9, atol=1e-9)


def test_forces_are_turned_to_the_base() -> None:
    model = robot("leg")
    row = named_function("constraint_dynamics", reference="local_world_aligned")
    arrays = sample(model, row, 30, distribution="reference", seed=2)
    arrays["active"][:] = 1.0
    local = named_function("constraint_dynamics").evaluate(model, arrays)
    turned = row.evaluate(model, arrays)
    R = dynamics.frame_placement(model, arrays["q"].astype(np.float64), "lf_foot")[0]
    for half in (slice(0, 3), slice(3, 6)):
        expected = np.einsum("nij,nj->ni", R, local["force"][:, half])
        np.testing.assert_allclose(turned["force"][:, half], expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(turned["qdd"], local["qdd"])


def test_searches_for_equal_values_see_no_contact_in_the_air_or_on_the_ground() -> None:
    """What a mask removes would otherwise be equal to everything else that it removes."""
    states = independent_states(
        robot("floating hyq"), named_function("constraint_dynamics"), 24, seed=1
    )
    masks = np.array([states[f"active[{k}]"] for k in range(4)])
    assert masks.min() > 0.0 and masks.max() < 1.0 and np.unique(masks).size == masks.size


@pytest.mark.parametrize("name", ["constraint_dynamics", "constraint_dynamics_derivatives"])
def test_a_reduced_graph_takes_efforts_of_a_floating_base(name: str) -> None:
    """They are drawn as zeros, which once became constants of compiled code and cores."""
    model, row = robot("floating leg"), named_function(name)
    arrays = drawn(model, "reference", 20)
    arrays["tau"][:, :6] = np.random.default_rng(5).normal(scale=30.0, size=(20, 6))
    graph = reduced_graph(model, row, costs=UnitCosts())
    traced = evaluate_floats(graph, word_columns(row.inputs, model, arrays))
    want = row.evaluate(model, arrays)["qdd"]
    assert np.abs(want[:, :6]).max() > 1.0
    for k, column in enumerate(want.T):
        np.testing.assert_allclose(traced[f"qdd[{k}]"], column, rtol=1e-8, atol=1e-8)


def test_a_relation_of_the_drawing_alone_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def zeros_at_the_base(*arguments: Any, **options: Any) -> dict[str, Any]:
        states = independent_states(*arguments, **options)
        return {
            word: column * (word not in {f"tau[{k}]" for k in range(6)})
            for word, column in states.items()
        }

    monkeypatch.setattr("pinion.functions.reduced.independent_states", zeros_at_the_base)
    with pytest.raises(GraphError, match="changed its result"):
        reduced_graph(
            robot("floating leg"), named_function("constraint_dynamics"), costs=UnitCosts()
        )
