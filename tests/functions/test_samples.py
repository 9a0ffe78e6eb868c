"""Request arrays: derived quantities follow from the transmitted state, not from a finer one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pinion import dynamics
from pinion.functions import FUNCTIONS, FunctionError, named_function, sample
from pinion.functions.samples import (
    DISTRIBUTIONS,
    QDD_RANGE,
    calmer,
    position_limits,
    velocity_limits,
)
from pinion.robot import load
from tests.dynamics.test_joint_terms import robot as hinge
from tests.gateware.link.mutants import mutant
from tests.support.rows import robot as robot_of

ROBOTS = ("two_link", "iiwa14", "hyq")


@pytest.mark.parametrize("robot", ROBOTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_samples_are_the_functions_inputs(name: str, robot: str) -> None:
    row, model = named_function(name), robot_of(robot)
    arrays = sample(model, row, 9, distribution="reference", seed=3)
    assert list(arrays) == [block.name for block in row.inputs]
    for block in row.inputs:
        assert arrays[block.name].shape == (9, *block.dims(model))
        assert arrays[block.name].dtype == np.float32
    repeated = sample(model, row, 9, distribution="reference", seed=3)
    other = sample(model, row, 9, distribution="reference", seed=4)
    assert all(np.array_equal(arrays[k], repeated[k]) for k in arrays)
    assert not any(np.array_equal(arrays[k], other[k]) for k in arrays)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("robot", ROBOTS)
def test_all_functions_get_the_same_states(robot: str, distribution: str) -> None:
    model = robot_of(robot)
    states: dict[str, np.ndarray] = {}
    for name in FUNCTIONS:
        requests = sample(model, named_function(name), 6, distribution=distribution, seed=5)
        if "fext" in requests:
            requests.pop("tau", None)  # it belongs to the state with its forces
        if "active" in requests:
            # Drawn for contacts, damping after the efforts, which impacts have none of.
            kind = "in contact" if "tau" in requests else "at impact"
            for key in {"tau", "damping"} & requests.keys():
                requests[f"{key} {kind}"] = requests.pop(key)
        for key, array in requests.items():
            assert np.array_equal(states.setdefault(key, array), array), (name, key)
    assert set(states) >= {"q", "qd", "qdd", "tau", "minv", "fext", "dt", "damping", "weights"}


@pytest.mark.parametrize("robot", ROBOTS)
def test_torques_are_those_of_the_state_that_travels(robot: str) -> None:
    model, seed = load(robot), 6
    requests = sample(model, named_function("aba"), 50, distribution="reference", seed=seed)
    state = sample(model, named_function("rnea"), 50, distribution="reference", seed=seed)
    q, qd, qdd = (state[name].astype(np.float64) for name in ("q", "qd", "qdd"))
    tau = dynamics.rnea(model, q, qd, qdd)
    # Only the last rounding: the same bits, which float64 states would not give.
    assert np.array_equal(requests["tau"], tau.astype(np.float32))
    back = dynamics.aba(model, q, qd, requests["tau"].astype(np.float64))
    # Half a last bit of torque, spread by the inverse of the inertia.
    slack = np.abs(dynamics.minv(model, q)) @ np.abs(tau)[..., None] * 2.0**-23
    assert np.all(np.abs(back - qdd) <= slack[..., 0] + 1e-9)


@pytest.mark.parametrize("robot", ROBOTS)
def test_inverse_inertias_are_symmetric_and_those_of_the_state_that_travels(robot: str) -> None:
    model = load(robot)
    row = named_function("fd_derivatives_from_minv")
    requests = sample(model, row, 50, distribution="reference", seed=7)
    minv = requests["minv"]
    assert np.array_equal(minv, np.swapaxes(minv, 1, 2))
    q = requests["q"].astype(np.float64)
    assert np.array_equal(minv, dynamics.minv(model, q).astype(np.float32))
    M = dynamics.crba(model, q)
    # Rounding to float32 moves M^-1 by 2^-24 of itself; M amplifies that.
    slack = 2.0**-22 * np.abs(M) @ np.abs(minv)
    assert np.all(np.abs(M @ minv.astype(np.float64) - np.eye(model.nv)) <= slack + 1e-9)


@pytest.mark.parametrize("robot", ROBOTS)
def test_samples_fill_their_ranges(robot: str) -> None:
    model, seed = load(robot), 8
    low, high = position_limits(model)
    for distribution, scale in (("reference", 1.0), ("stress", 1.0), ("beyond", 2.0)):
        requests = sample(model, named_function("rnea"), 4000, distribution=distribution, seed=seed)
        speed = velocity_limits(model, distribution)
        ranges = {
            "q": (low * scale, high * scale),
            "qd": (-speed, speed),
            "qdd": (np.full(model.nv, -QDD_RANGE * scale), np.full(model.nv, QDD_RANGE * scale)),
        }
        for name, (a, b) in ranges.items():
            values, tiny = requests[name].astype(np.float64), 1e-6 * (b - a)
            assert np.all(values >= a - tiny) and np.all(values <= b + tiny), (distribution, name)
            assert np.all(values.max(axis=0) - values.min(axis=0) > 0.98 * (b - a))
    corner = sample(
        model, named_function("rnea"), 50, distribution="reference", seed=seed, corners=True
    )
    assert np.all(np.abs(corner["qdd"]) == np.float32(QDD_RANGE))
    rated = velocity_limits(model, "reference").astype(np.float32)
    assert np.all(np.abs(corner["qd"]) == rated)


# The distributions of the iiwa14, in degrees and seconds, from its data sheet and the docs, not
# from the code that draws them.
GOLDEN = {
    "q": (170.0, 120.0, 170.0, 120.0, 170.0, 120.0, 175.0),
    "rated": (85.0, 85.0, 100.0, 75.0, 130.0, 135.0, 135.0),
    "limit": (572.957795,) * 7,
    "qdd": (572.957795,) * 7,  # 10 rad/s^2
}
SCALES = {
    "reference": {"q": ("q", 1.0), "qd": ("rated", 1.0), "qdd": ("qdd", 1.0)},
    "stress": {"q": ("q", 1.0), "qd": ("limit", 1.0), "qdd": ("qdd", 1.0)},
    "beyond": {"q": ("q", 2.0), "qd": ("rated", 2.0), "qdd": ("qdd", 2.0)},
    "slow": {"q": ("q", 1.0), "qd": ("rated", 0.1), "qdd": ("qdd", 0.1)},
    "rest": {"q": ("q", 1.0), "qd": ("rated", 0.001), "qdd": ("qdd", 0.001)},
}


def check_golden(draw: Any) -> None:
    """Uniform between the bounds that the constants name: range, middle and spread."""
    model, count = load("iiwa14"), 4000
    for distribution, blocks in SCALES.items():
        requests = draw(model, named_function("rnea"), count, distribution=distribution, seed=8)
        for block, (name, scale) in blocks.items():
            end = np.radians(GOLDEN[name]) * scale
            share = requests[block].astype(np.float64) / end
            assert np.abs(share).max() <= 1 + 1e-6, (distribution, block)
            assert share.max(axis=0).min() > 0.98 and share.min(axis=0).max() < -0.98
            # Six standard deviations of 4000 uniform values.
            assert np.abs(share.mean(axis=0)).max() < 6 / np.sqrt(3 * count)
            assert np.abs(share.std(axis=0) - 1 / np.sqrt(3)).max() < 0.03


def test_the_distributions_are_those_that_are_documented() -> None:
    check_golden(sample)


DISTRIBUTION_MUTANTS = {
    "wider accelerations": ("QDD_RANGE = 10.0", "QDD_RANGE = 12.0"),
    "beyond is thrice": ("scale = 2.0 if", "scale = 3.0 if"),
    "beyond's speeds are the reference's": ('case "beyond":', 'case "nowhere":'),
    "stress is the reference": ('distribution == "stress" and', "False and"),
    "a fifth is slow": ("SLOW_SHARE = 0.1\n", "SLOW_SHARE = 0.2\n"),
    "a hundredth is rest": ("REST_SHARE = 1e-3\n", "REST_SHARE = 1e-2\n"),
    "rest still accelerates": ("unit() * QDD_RANGE * share", "unit() * QDD_RANGE"),
    "half of each range": ("rng.uniform(-1.0, 1.0, shape)\n\n", "rng.uniform(0.0, 1.0, shape)\n\n"),
    "the ends alone": (
        "return rng.choice([-1.0, 1.0], shape) if corners else",
        "return rng.choice([-1.0, 1.0], shape) if True else",
    ),
    "positions are not scaled": ("(count, model.nq)) * scale", "(count, model.nq))"),
}


@pytest.mark.parametrize("name", DISTRIBUTION_MUTANTS)
def test_another_distribution_is_found(name: str) -> None:
    with pytest.raises(AssertionError):
        check_golden(mutant(sample, *DISTRIBUTION_MUTANTS[name]))


def test_an_unknown_distribution_is_a_sentence() -> None:
    with pytest.raises(FunctionError, match=r"no distribution 'normal'; choose one of reference, "):
        sample(load("pendulum"), named_function("rnea"), 1, distribution="normal", seed=0)


def test_slow_and_rest_are_shares_of_the_reference_s_states() -> None:
    """Position by position, also where friction asks for low rates."""
    model, row = (
        hinge("hinge"),
        named_function("rnea", joint_terms=("friction",), friction_width=0.05),
    )
    requests = sample(model, row, 500, distribution="reference", seed=9)
    assert 0.1 < np.mean(np.abs(requests["qd"]) < 0.1) < 0.5
    for distribution, share in (("slow", 0.1), ("rest", 0.001)):
        calm = sample(model, row, 500, distribution=distribution, seed=9)
        assert np.array_equal(calm["q"], requests["q"])
        for block in ("qd", "qdd"):
            np.testing.assert_allclose(calm[block], share * requests[block], rtol=1e-6)
        assert calmer(distribution, "reference") and not calmer("reference", distribution)
    assert calmer("rest", "slow") and not calmer("rest", "rest")


def test_the_reference_is_calmer_than_twice_its_rates() -> None:
    assert calmer("reference", "beyond") and calmer("slow", "beyond")
    assert not calmer("beyond", "reference")
    # Limits of files may be higher than twice the rated speeds, or lower.
    assert not calmer("stress", "beyond") and not calmer("reference", "stress")
