"""Inertia matrices, forward dynamics and gradients against Pinocchio and against each other."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.robot import builtin_names, load, load_text, random_tree, urdf_text
from pinion.robot.model import Model
from tests.dynamics import pinocchio_adaptor
from tests.dynamics.models import random_model, random_states, relative_error
from tests.dynamics.pinocchio_gradients import answers, depth_first
from tests.support.breadth import some

Array = NDArray[np.float64]
SEEDS = range(50)
TOLERANCE, GRADIENT_TOLERANCE, METHODS_TOLERANCE = 1e-9, 1e-8, 1e-12


def block_error(actual: Array, expected: Array, size: float) -> float:
    """Return a relative error for derivatives that may be pure rounding.

    A robot with only sliding joints has no velocity terms and its weight does not turn; then
    ``size``, the magnitude of the differentiated quantity, is the scale.
    """
    assert actual.shape == expected.shape
    largest = max(float(np.max(np.abs(expected))), 1e-3 * size)
    return float(np.max(np.abs(actual - expected)) / largest)


def check_against_pinocchio(
    model: Model, oracle: pinocchio_adaptor.Oracle, rng: np.random.Generator, *, forces: bool
) -> None:
    q, qd, qdd = random_states(rng, model, 5)
    f_ext = rng.normal(size=(5, model.nv, 6)) * 10.0 if forces else None
    theirs = answers(oracle, q, qd, qdd, f_ext)

    M, minv = dynamics.crba(model, q), dynamics.minv(model, q)
    assert relative_error(M, theirs.M) < TOLERANCE
    assert relative_error(minv, theirs.minv) < TOLERANCE
    assert relative_error(dynamics.minv(model, q, method="aba"), theirs.minv) < TOLERANCE
    assert relative_error(dynamics.aba(model, q, qd, theirs.tau, f_ext), theirs.qdd) < TOLERANCE

    size = float(np.max(np.abs(theirs.tau)))
    by_q, by_qd = dynamics.rnea_derivatives(model, q, qd, qdd, f_ext)
    assert block_error(by_q, theirs.dtau_dq, size) < GRADIENT_TOLERANCE
    assert block_error(by_qd, theirs.dtau_dqd, size) < GRADIENT_TOLERANCE
    column = dynamics.rnea_derivatives(model, q, qd, qdd, f_ext, method="column")
    assert block_error(by_q, column[0], size) < METHODS_TOLERANCE
    assert block_error(by_qd, column[1], size) < METHODS_TOLERANCE

    size = float(np.max(np.abs(minv)) * size)
    forward = dynamics.fd_derivatives(model, q, qd, theirs.tau, f_ext)
    assert relative_error(forward.qdd, theirs.qdd) < TOLERANCE
    assert relative_error(forward.minv, theirs.minv) < TOLERANCE
    assert block_error(forward.dqdd_dq, theirs.dqdd_dq, size) < GRADIENT_TOLERANCE
    assert block_error(forward.dqdd_dqd, theirs.dqdd_dqd, size) < GRADIENT_TOLERANCE
    from_minv = dynamics.fd_derivatives_from_minv(model, q, qd, qdd, theirs.minv, f_ext)
    assert block_error(from_minv[0], theirs.dqdd_dq, size) < GRADIENT_TOLERANCE
    assert block_error(from_minv[1], theirs.dqdd_dqd, size) < GRADIENT_TOLERANCE


@pytest.mark.parametrize("name", [*builtin_names(), "pendulum", "two_link", "chain_20"])
def test_named_robot_agrees_with_pinocchio(name: str) -> None:
    print("seed 12")
    model = load(name)
    oracle = pinocchio_adaptor.from_urdf(urdf_text(name), model.joint_names)
    check_against_pinocchio(model, oracle, np.random.default_rng(12), forces=False)


@pytest.mark.parametrize("seed", some(SEEDS, 16))
def test_random_urdf_tree_agrees_with_pinocchio(seed: int) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    urdf = random_tree(rng, int(rng.integers(1, 13)), prismatic=True, continuous=seed % 2 == 1)
    model = load_text(urdf)
    oracle = pinocchio_adaptor.from_urdf(urdf, model.joint_names)
    check_against_pinocchio(model, oracle, rng, forces=False)


@pytest.mark.parametrize("seed", some(SEEDS, 16))
def test_random_model_under_forces_agrees_with_pinocchio(seed: int) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    model = random_model(rng, int(rng.integers(1, 13)))
    check_against_pinocchio(model, depth_first(model), rng, forces=True)
