"""Random trees with joints of every kind, against Pinocchio's joints."""

from __future__ import annotations

from functools import partial

import numpy as np
import pinocchio as pin
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.robot.model import Model
from tests.dynamics import models
from tests.dynamics.general import oracle

Array = NDArray[np.float64]

TOLERANCE = 1e-9
GRADIENT_TOLERANCE = 1e-8
STATES = 4


# A body on a ball joint in its centre of mass has entries that are zero.
relative_error = partial(models.relative_error, floor=1e-3)


def states(rng: np.random.Generator, model: Model) -> dict[str, Array]:
    shape = (STATES, model.nv)
    return {
        "q": dynamics.random_configuration(model, rng, STATES),
        "qd": rng.uniform(-3.0, 3.0, shape),
        "qdd": rng.uniform(-10.0, 10.0, shape),
        "f_ext": rng.normal(size=(STATES, len(model.bodies), 6)) * 5.0,
    }


def ours(model: Model, x: dict[str, Array], tau: Array) -> dict[str, Array]:
    """Return our results for a batch, with forward dynamics at the oracle's efforts."""
    q, qd, qdd, f_ext = x["q"], x["qd"], x["qdd"], x["f_ext"]
    by_q, by_qd = dynamics.rnea_derivatives(model, q, qd, qdd, f_ext)
    forward = dynamics.fd_derivatives(model, q, qd, tau, f_ext)
    return {
        "tau": dynamics.rnea(model, q, qd, qdd, f_ext),
        "dtau_dq": by_q,
        "dtau_dqd": by_qd,
        "M": dynamics.crba(model, q),
        "minv": dynamics.minv(model, q),
        "qdd": dynamics.aba(model, q, qd, tau, f_ext),
        "dqdd_dq": forward.dqdd_dq,
        "dqdd_dqd": forward.dqdd_dqd,
        "kinetic": dynamics.kinetic_energy(model, q, qd),
        "potential": dynamics.potential_energy(model, q),
    }


def check(model: Model, theirs: pin.Model, x: dict[str, Array]) -> None:
    each = [
        oracle.answer(theirs, *(x[n][k] for n in ("q", "qd", "qdd", "f_ext")))
        for k in range(STATES)
    ]
    expected = {name: np.array([state[name] for state in each]) for name in each[0]}
    actual = ours(model, x, expected["tau"])
    for name, value in expected.items():
        bound = GRADIENT_TOLERANCE if name.startswith("d") else TOLERANCE
        assert relative_error(actual[name], value) < bound, name
    # Other functions for the same results.
    q, qd, qdd, f_ext = x["q"], x["qd"], x["qdd"], x["f_ext"]
    assert relative_error(dynamics.minv(model, q, method="aba"), expected["minv"]) < TOLERANCE
    by_q, by_qd = dynamics.fd_derivatives_from_minv(
        model, q, qd, qdd, np.tril(actual["minv"]), f_ext
    )
    assert relative_error(by_q, expected["dqdd_dq"]) < GRADIENT_TOLERANCE
    assert relative_error(by_qd, expected["dqdd_dqd"]) < GRADIENT_TOLERANCE


@pytest.mark.parametrize("seed", range(30))
def test_random_tree_of_all_kinds_agrees_with_pinocchio(seed: int) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    model = oracle.random_tree_of_kinds(rng, int(rng.integers(1, 9)))
    theirs = oracle.rebuilt(model)
    assert (model.nq, model.nv) == (theirs.nq, theirs.nv)
    check(model, theirs, states(rng, model))


@pytest.mark.parametrize("seed", range(10))
def test_moving_along_the_tangent_agrees_with_pinocchio(seed: int) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    model = oracle.random_tree_of_kinds(rng, 6)
    theirs = oracle.rebuilt(model)
    q = dynamics.random_configuration(model, rng, 5)
    other = dynamics.random_configuration(model, rng, 5)
    steps = rng.normal(size=(5, model.nv)) * np.array([[1e-9], [1e-4], [0.1], [1.0], [4.0]])
    moved = dynamics.integrate(model, q, steps)
    between = dynamics.difference(model, q, other)
    assert np.array_equal(dynamics.neutral_configuration(model), pin.neutral(theirs))
    for k in range(5):
        expected = pin.integrate(theirs, q[k], steps[k])
        # The same place, whatever the signs of the quaternions.
        assert np.max(np.abs(pin.difference(theirs, expected, moved[k]))) < 1e-10
        assert np.max(np.abs(pin.difference(theirs, q[k], other[k]) - between[k])) < 1e-9
    assert np.max(np.abs(dynamics.difference(model, q, moved)[:3] - steps[:3])) < 1e-12
    back = dynamics.integrate(model, q, between)
    assert np.max(np.abs(dynamics.difference(model, back, other))) < 1e-12
