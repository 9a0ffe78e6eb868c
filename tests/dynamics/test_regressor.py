"""Regressors are linear: times the parameters they give what they are regressors of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.dynamics.joint_terms import FRICTION_WIDTH
from pinion.dynamics.regressor import JointTerm
from pinion.robot import Mimic, Model, coupled, load
from tests.dynamics.general.oracle import random_tree_of_kinds, with_terms

Array = NDArray[np.float64]

JOINT_TERMS: tuple[JointTerm, ...] = ("armature", "damping", "friction")


def robots() -> list[Model]:
    rng = np.random.default_rng(3)
    arm = load("iiwa14")
    bodies = list(arm.bodies)
    tie = Mimic(joint=arm.joint_names[1], multiplier=-0.7, offset=0.2)
    bodies[4] = replace(bodies[4], joint=replace(bodies[4].joint, mimic=tie))
    tied = coupled(replace(arm, bodies=tuple(bodies)))
    trees = [random_tree_of_kinds(rng, 7) for _ in range(4)]
    return [with_terms(m, rng) for m in (arm, tied, load("hyq", floating_base=True), *trees)]


@pytest.mark.parametrize("number", range(7))
def test_the_regressor_times_the_parameters_is_inverse_dynamics(number: int) -> None:
    print("seed 4")
    model, rng = robots()[number], np.random.default_rng(4)
    q = dynamics.random_configuration(model, rng, 3)
    qd, qdd = rng.normal(size=(2, 3, model.nv))
    pi = np.array(dynamics.inertial_parameters(model))
    columns = [list(values.T) for values in (q, qd, qdd)]
    tau = dynamics.rnea_regressor(model, q, qd, qdd) @ pi
    for term in JOINT_TERMS:
        rows = dynamics.joint_regressor_scalars(model, *columns, term)
        figures = [getattr(body.joint, term) for body in model.bodies]
        for k, row in enumerate(rows):
            for element, figure in zip(row, figures, strict=True):
                tau[:, k] += np.asarray(element, dtype=np.float64) * figure
    terms = ("damping", "friction")
    expected = dynamics.rnea(model, q, qd, qdd, joint_terms=terms, friction_width=FRICTION_WIDTH)
    assert np.abs(tau - expected).max() <= 1e-12 * np.abs(expected).max()
    still = np.zeros_like(qd)
    gravity = dynamics.gravity_regressor(model, q)
    assert np.array_equal(gravity, dynamics.rnea_regressor(model, q, still, still))


@pytest.mark.parametrize("number", range(7))
def test_energies_are_their_regressors_times_the_parameters(number: int) -> None:
    print("seed 5")
    model, rng = robots()[number], np.random.default_rng(5)
    model = replace(
        model,
        bodies=tuple(replace(b, joint=replace(b.joint, armature=0.0)) for b in model.bodies),
    )
    q = dynamics.random_configuration(model, rng, 3)
    qd = rng.normal(size=(3, model.nv))
    pi = np.array(dynamics.inertial_parameters(model))
    kinetic = dynamics.kinetic_energy_regressor(model, q, qd) @ pi
    potential = dynamics.potential_energy_regressor(model, q) @ pi
    for value, expected in (
        (kinetic, dynamics.kinetic_energy(model, q, qd)),
        (potential, dynamics.potential_energy(model, q)),
    ):
        assert np.abs(value - expected).max() <= 1e-12 * np.abs(expected).max()


def test_a_wrong_entry_of_the_regressor_shows_in_the_efforts() -> None:
    model, rng = load("iiwa14"), np.random.default_rng(6)
    q, qd, qdd = rng.normal(size=(3, model.nv))
    Y = dynamics.rnea_regressor(model, q, qd, qdd)
    pi = np.array(dynamics.inertial_parameters(model))
    expected = dynamics.rnea(model, q, qd, qdd)
    for column in np.flatnonzero(np.abs(pi * Y).max(axis=0) > 1e-6):
        changed = Y.copy()
        changed[:, column] *= 1.01
        assert np.abs(changed @ pi - expected).max() > 1e-9
