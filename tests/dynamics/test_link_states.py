"""Velocities, accelerations and forces of links against Pinocchio."""

from __future__ import annotations

import numpy as np
import pytest

from pinion import dynamics
from pinion.dynamics import DynamicsError
from pinion.robot import load
from pinion.robot.model import Model
from tests.dynamics import pinocchio_adaptor
from tests.dynamics.models import random_model, random_states, relative_error


def by_pinocchio(model: Model, states: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    """Return v, a and f, each (n, bodies, 6), in our order: Pinocchio has the linear part first."""
    oracle = pinocchio_adaptor.from_model(model)
    vectors_of: list[list[list[np.ndarray]]] = [[], [], []]
    for state in zip(*states, strict=True):
        oracle.rnea_one(*state)
        data = oracle.data
        quantities = (data.v, data.a_gf, data.f)
        for rows, vectors in zip(vectors_of, quantities, strict=True):
            parts = [vectors[i] for i in range(1, model.nv + 1)]
            rows.append([np.r_[part.angular, part.linear] for part in parts])
    return [np.array(rows) for rows in vectors_of]


@pytest.mark.parametrize("name", ["iiwa14", "hyq", "atlas", *range(20)])
def test_they_are_those_of_pinocchio(name: str | int) -> None:
    rng = np.random.default_rng(name if isinstance(name, int) else 3)
    model = load(name) if isinstance(name, str) else random_model(rng, int(rng.integers(1, 13)))
    states = random_states(rng, model, 5)
    ours = dynamics.link_states(model, *states)
    for actual, expected in zip(ours, by_pinocchio(model, states), strict=True):
        assert actual.shape == (5, len(model.bodies), 6)
        assert relative_error(actual, expected) < 1e-12


def test_a_single_state_and_a_floating_base() -> None:
    model = load("hyq", floating_base=True)
    q, qd, qdd = dynamics.neutral_configuration(model), np.ones(model.nv), np.ones(model.nv)
    v, a, f = dynamics.link_states(model, q, qd, qdd)
    assert v.shape == a.shape == f.shape == (len(model.bodies), 6)
    # The base's joint has the linear axes first: its body moves by its rates, and the force through
    # the joint consists of its efforts.
    assert np.allclose(v[0], np.ones(6))
    tau = dynamics.rnea(model, q, qd, qdd)
    assert np.allclose(np.r_[f[0][3:], f[0][:3]], tau[:6], rtol=1e-12)
    with pytest.raises(DynamicsError, match="qdd"):
        dynamics.link_states(model, q, qd, qdd[:-1])
