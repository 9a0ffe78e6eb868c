"""Request arrays: derived quantities follow from the state that travels, not from a finer one."""

from __future__ import annotations

import numpy as np
import pytest

from pinion import dynamics
from pinion.functions import FUNCTIONS, FunctionError, function, sample
from pinion.functions.samples import DISTRIBUTIONS, QDD_RANGE, position_limits, velocity_limits
from pinion.robot import load

ROBOTS = ("two_link", "iiwa14", "hyq")


@pytest.mark.parametrize("robot", ROBOTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_samples_are_the_functions_inputs(name: str, robot: str) -> None:
    row, model = function(name), load(robot)
    arrays = sample(model, row, 9, distribution="reference", seed=3)
    assert list(arrays) == [block.name for block in row.inputs]
    for block in row.inputs:
        assert arrays[block.name].shape == (9, *block.dims(model))
        assert arrays[block.name].dtype == np.float32
    again = sample(model, row, 9, distribution="reference", seed=3)
    other = sample(model, row, 9, distribution="reference", seed=4)
    assert all(np.array_equal(arrays[k], again[k]) for k in arrays)
    assert not any(np.array_equal(arrays[k], other[k]) for k in arrays)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("robot", ROBOTS)
def test_all_functions_get_the_same_states(robot: str, distribution: str) -> None:
    model = load(robot)
    states: dict[str, np.ndarray] = {}
    for name in FUNCTIONS:
        drawn = sample(model, function(name), 6, distribution=distribution, seed=5)
        if "fext" in drawn:
            drawn.pop("tau", None)  # that of the state with its forces
        for key, array in drawn.items():
            assert np.array_equal(states.setdefault(key, array), array), (name, key)
    assert set(states) == {"q", "qd", "qdd", "tau", "minv", "fext", "dt", "damping"}


@pytest.mark.parametrize("robot", ROBOTS)
def test_torques_are_those_of_the_state_that_travels(robot: str) -> None:
    model, seed = load(robot), 6
    drawn = sample(model, function("aba"), 50, distribution="reference", seed=seed)
    state = sample(model, function("rnea"), 50, distribution="reference", seed=seed)
    q, qd, qdd = (state[name].astype(np.float64) for name in ("q", "qd", "qdd"))
    tau = dynamics.rnea(model, q, qd, qdd)
    # Nothing but the last rounding: the same bits, where float64 states would give others.
    assert np.array_equal(drawn["tau"], tau.astype(np.float32))
    back = dynamics.aba(model, q, qd, drawn["tau"].astype(np.float64))
    # Half a last bit of torque, spread by the inverse of the inertia.
    slack = np.abs(dynamics.minv(model, q)) @ np.abs(tau)[..., None] * 2.0**-23
    assert np.all(np.abs(back - qdd) <= slack[..., 0] + 1e-9)


@pytest.mark.parametrize("robot", ROBOTS)
def test_inverse_inertias_are_symmetric_and_those_of_the_state_that_travels(robot: str) -> None:
    model = load(robot)
    row = function("fd_derivatives_from_minv")
    drawn = sample(model, row, 50, distribution="reference", seed=7)
    minv = drawn["minv"]
    assert np.array_equal(minv, np.swapaxes(minv, 1, 2))
    q = drawn["q"].astype(np.float64)
    assert np.array_equal(minv, dynamics.minv(model, q).astype(np.float32))
    M = dynamics.crba(model, q)
    # Rounding to float32 moves M^-1 by 2^-24 of itself; M carries that back.
    slack = 2.0**-22 * np.abs(M) @ np.abs(minv)
    assert np.all(np.abs(M @ minv.astype(np.float64) - np.eye(model.nv)) <= slack + 1e-9)


@pytest.mark.parametrize("robot", ROBOTS)
def test_samples_fill_their_ranges(robot: str) -> None:
    model, seed = load(robot), 8
    low, high = position_limits(model)
    for distribution, scale in (("reference", 1.0), ("stress", 1.0), ("beyond", 2.0)):
        drawn = sample(model, function("rnea"), 4000, distribution=distribution, seed=seed)
        speed = velocity_limits(model, distribution)
        ranges = {
            "q": (low * scale, high * scale),
            "qd": (-speed, speed),
            "qdd": (np.full(model.nv, -QDD_RANGE * scale), np.full(model.nv, QDD_RANGE * scale)),
        }
        for name, (a, b) in ranges.items():
            seen, tiny = drawn[name].astype(np.float64), 1e-6 * (b - a)
            assert np.all(seen >= a - tiny) and np.all(seen <= b + tiny), (distribution, name)
            assert np.all(seen.max(axis=0) - seen.min(axis=0) > 0.98 * (b - a))
    corner = sample(model, function("rnea"), 50, distribution="reference", seed=seed, corners=True)
    assert np.all(np.abs(corner["qdd"]) == np.float32(QDD_RANGE))
    rated = velocity_limits(model, "reference").astype(np.float32)
    assert np.all(np.abs(corner["qd"]) == rated)


def test_an_unknown_distribution_is_a_sentence() -> None:
    with pytest.raises(FunctionError, match=r"no distribution 'normal'; choose one of reference, "):
        sample(load("pendulum"), function("rnea"), 1, distribution="normal", seed=0)
