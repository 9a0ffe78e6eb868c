"""Energy and power: identities that are independent of the recursion."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.robot.model import Model
from tests.dynamics.models import planar_arm, random_model, random_states, relative_error

SEEDS = range(10)
STEP = 1e-30  # Complex steps are exact to rounding at any size.


def case(seed: int) -> tuple[Model, np.random.Generator]:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    return random_model(rng, int(rng.integers(2, 10))), rng


def elements(array: NDArray[Any]) -> list[Any]:
    return [complex(x) for x in array]


@pytest.mark.parametrize("seed", SEEDS)
def test_power_is_the_rate_of_energy(seed: int) -> None:
    model, rng = case(seed)
    (q,), (qd,), (qdd,) = random_states(rng, model, 1)
    later, faster = elements(q + 1j * STEP * qd), elements(qd + 1j * STEP * qdd)
    energy: Any = dynamics.kinetic_energy_scalars(model, later, faster)
    energy = energy + dynamics.potential_energy_scalars(model, later)
    power = qd @ dynamics.rnea(model, q, qd, qdd)
    scale = np.abs(qd) @ np.abs(dynamics.rnea(model, q, qd, qdd))
    assert abs(energy.imag / STEP - power) < 1e-12 * scale


@pytest.mark.parametrize("seed", SEEDS)
def test_gravity_compensation_is_the_gradient_of_potential_energy(seed: int) -> None:
    model, rng = case(seed)
    (q,), _, _ = random_states(rng, model, 1)
    still = np.zeros_like(q)
    gradient = np.zeros(model.nv)
    for k in range(model.nv):
        stepped = elements(q + 1j * STEP * np.eye(model.nv)[k])
        energy: Any = dynamics.potential_energy_scalars(model, stepped)
        gradient[k] = np.imag(energy) / STEP
    assert relative_error(dynamics.rnea(model, q, still, still), gradient) < 1e-12


@pytest.mark.parametrize("seed", SEEDS)
def test_kinetic_energy_is_half_the_momentum_along_the_rates(seed: int) -> None:
    model, rng = case(seed)
    q, qd, _ = random_states(rng, model, 5)
    still = np.zeros_like(q)
    momentum = dynamics.rnea(model, q, still, qd) - dynamics.rnea(model, q, still, still)
    expected = 0.5 * np.sum(qd * momentum, axis=1)
    assert relative_error(dynamics.kinetic_energy(model, q, qd), expected) < 1e-12


def test_energy_of_one_link_is_its_closed_form() -> None:
    length, mass = 0.7, 1.3
    model = planar_arm((length,), (mass,))
    kinetic = dynamics.kinetic_energy(model, [0.3], [2.0])
    potential = dynamics.potential_energy(model, [0.3])
    assert kinetic.shape == potential.shape == ()
    assert kinetic == pytest.approx(0.5 * mass * length**2 * 4.0, rel=1e-14)
    assert potential == pytest.approx(mass * 9.81 * length * np.sin(0.3), rel=1e-14)
