"""A plant's steps obey the mechanics, and A and B are their derivatives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from pinion.control import METHODS, ControlError, Cost, Kernels, Plant, Stage, Weights
from pinion.control.plant import gravity_efforts
from pinion.dynamics import StepMethod, discrete_derivatives, discrete_dynamics
from pinion.robot import load

DT = 0.01


@pytest.fixture(scope="module", params=METHODS)
def plant(request: pytest.FixtureRequest) -> Iterator[Plant]:
    with Plant.open("iiwa14", dt=DT, device="float", method=request.param) as opened:
        yield opened


def states(plant: Plant, *shape: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    n = plant.model.nv
    return rng.uniform(-1.0, 1.0, (*shape, 2 * n)), rng.uniform(-20.0, 20.0, (*shape, n))


def test_steps_and_derivatives_are_those_of_the_mechanics(plant: Plant) -> None:
    x, u = states(plant, 2, 3)
    n = plant.model.nv
    flat = x.reshape(-1, 2 * n)
    arguments = (plant.model, flat[:, :n], flat[:, n:], u.reshape(-1, n), DT)
    q, qd = discrete_dynamics(*arguments, method=plant.method)
    A, B = discrete_derivatives(*arguments, method=plant.method)
    linear = plant.linearise(x, u)
    np.testing.assert_allclose(
        plant.step(x, u).reshape(-1, 2 * n), np.concatenate([q, qd], axis=1), atol=1e-11
    )
    np.testing.assert_allclose(linear.A.reshape(-1, 2 * n, 2 * n), A, atol=1e-10)
    np.testing.assert_allclose(linear.B.reshape(-1, 2 * n, n), B, atol=1e-12)
    assert not linear.saturated.any()


def test_derivatives_are_differences(plant: Plant) -> None:
    x, u = states(plant, 1, 1)
    linear = plant.linearise(x, u)
    small = 1e-6
    for i in range(x.shape[-1]):
        move = np.zeros_like(x)
        move[..., i] = small
        column = (plant.step(x + move, u) - plant.step(x - move, u)) / (2 * small)
        np.testing.assert_allclose(linear.A[..., i], column, atol=1e-6)
    for i in range(u.shape[-1]):
        move = np.zeros_like(u)
        move[..., i] = small
        column = (plant.step(x, u + move) - plant.step(x, u - move)) / (2 * small)
        np.testing.assert_allclose(linear.B[..., i], column, atol=1e-7)


@pytest.mark.parametrize("method", METHODS)
def test_compiled_and_float_are_one_plant(method: StepMethod) -> None:
    with (
        Plant.open("two_link", dt=DT, device="float", method=method) as floats,
        Plant.open("two_link", dt=DT, device="cpu", method=method) as compiled,
    ):
        x, u = states(floats, 2, 4)
        np.testing.assert_allclose(floats.step(x, u), compiled.step(x, u), atol=1e-12)
        np.testing.assert_allclose(
            floats.linearise(x, u).A, compiled.linearise(x, u).A, rtol=1e-9, atol=1e-11
        )


def test_efforts_that_hold_still(plant: Plant) -> None:
    x, _ = states(plant, 4)
    x[:, plant.model.nv :] = 0.0
    efforts = gravity_efforts(plant.model, x[:, : plant.model.nv])
    np.testing.assert_allclose(plant.step(x, efforts), x, atol=1e-10)


@pytest.mark.parametrize(
    ("robot", "options", "sentence"),
    [
        ("iiwa14", {"dt": 0.0}, "at most 1 s, not 0.0"),
        ("iiwa14", {"dt": float("nan")}, "not nan"),
        ("iiwa14", {"dt": DT, "method": "leapfrog"}, "no integration method 'leapfrog'"),
        ("nobody", {"dt": DT}, "nobody"),
    ],
)
def test_what_is_no_plant(robot: str, options: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Plant.open(robot, device="float", **options)  # type: ignore[arg-type]


def test_robots_that_compiled_solvers_do_not_support() -> None:
    """Their steps of a solver are for positions that add."""
    floating, holding = load("iiwa14", floating_base=True), load("iiwa14", contacts=["iiwa_link_7"])
    looped = load("iiwa14", loops=[("iiwa_link_3", "iiwa_link_7")])
    weights = Weights(q=1.0, tau=1.0)
    cost = Cost(running=weights, final=replace(weights, tau=0.0))
    for robot, sentence in (
        (floating, "has nq = 14 and nv = 13, but a .* supports only fixed-base robots"),
        (holding, "has the contact 'iiwa_link_7', but a .* supports only robots without contacts"),
        (looped, "has the loop of 'iiwa_link_3' and 'iiwa_link_7', but a .* supports only robots"),
    ):
        with pytest.raises(ControlError, match=sentence):
            Stage.open(robot, cost=cost, dt=DT, device="float")
        with pytest.raises(ControlError, match=sentence):
            Kernels.compile(robot, cost, DT)
