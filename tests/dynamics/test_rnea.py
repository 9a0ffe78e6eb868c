"""Inverse dynamics against closed forms, the dense textbook algorithm and Pinocchio."""

from __future__ import annotations

import numpy as np
import pytest

from pinion import dynamics
from pinion.robot.model import Model
from tests.dynamics import pinocchio_adaptor
from tests.dynamics.models import planar_arm, random_model, random_states, relative_error
from tests.dynamics.reference import rnea_dense

GRAVITY = 9.81


def seeded(seed: int) -> np.random.Generator:
    print(f"seed {seed}")
    return np.random.default_rng(seed)


def test_one_link_arm_is_the_pendulum_equation() -> None:
    length, mass = 0.7, 1.3
    model = planar_arm((length,), (mass,))
    q, qd, qdd = random_states(seeded(1), model, 20)
    expected = mass * length**2 * qdd + mass * GRAVITY * length * np.cos(q)
    np.testing.assert_allclose(dynamics.rnea(model, q, qd, qdd), expected, rtol=0, atol=1e-12)


def test_two_link_arm_is_its_closed_form() -> None:
    (l1, l2), (m1, m2) = (0.7, 0.4), (1.3, 0.9)
    model = planar_arm((l1, l2), (m1, m2))
    q, qd, qdd = random_states(seeded(2), model, 20)
    (q1, q2), (v1, v2), (a1, a2) = q.T, qd.T, qdd.T
    c2, s2 = np.cos(q2), np.sin(q2)
    m11 = (m1 + m2) * l1**2 + m2 * l2**2 + 2 * m2 * l1 * l2 * c2
    m12, m22 = m2 * l2**2 + m2 * l1 * l2 * c2, m2 * l2**2
    g2 = m2 * GRAVITY * l2 * np.cos(q1 + q2)
    g1 = (m1 + m2) * GRAVITY * l1 * np.cos(q1) + g2
    coupling = m2 * l1 * l2 * s2
    tau1 = m11 * a1 + m12 * a2 - coupling * (2 * v1 * v2 + v2**2) + g1
    tau2 = m12 * a1 + m22 * a2 + coupling * v1**2 + g2
    expected = np.stack([tau1, tau2], axis=-1)
    np.testing.assert_allclose(dynamics.rnea(model, q, qd, qdd), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("with_f_ext", [False, True])
def test_random_model_agrees_with_the_dense_algorithm(seed: int, with_f_ext: bool) -> None:
    rng = seeded(seed)
    model = random_model(rng, int(rng.integers(1, 13)))
    states = random_states(rng, model, 5)
    f_ext = rng.normal(size=(5, model.nv, 6)) * 10.0 if with_f_ext else None
    q, qd, qdd = states
    expected = [
        rnea_dense(model, q[k], qd[k], qdd[k], None if f_ext is None else f_ext[k])
        for k in range(5)
    ]
    tau = dynamics.rnea(model, q, qd, qdd, f_ext=f_ext)
    assert relative_error(tau, np.array(expected)) < 1e-12


@pytest.mark.parametrize("seed", range(50))
def test_random_model_agrees_with_pinocchio(seed: int) -> None:
    rng = seeded(seed)
    model = random_model(rng, int(rng.integers(1, 31)))
    states = random_states(rng, model, 5)
    expected = pinocchio_adaptor.from_model(model).rnea(*states)
    assert relative_error(dynamics.rnea(model, *states), expected) < 1e-10


def test_a_hundred_links_lose_no_accuracy() -> None:
    rng = seeded(100)
    model = planar_arm((0.05,) * 100, (0.1,) * 100)
    states = random_states(rng, model, 3)
    expected = [rnea_dense(model, *s) for s in zip(*states, strict=True)]
    assert relative_error(dynamics.rnea(model, *states), np.array(expected)) < 1e-12


@pytest.fixture
def model_and_rng() -> tuple[Model, np.random.Generator]:
    rng = seeded(7)
    return random_model(rng, 9), rng


def test_batch_is_the_loop_of_single_states(
    model_and_rng: tuple[Model, np.random.Generator],
) -> None:
    model, rng = model_and_rng
    states = random_states(rng, model, 6)
    f_ext = rng.normal(size=(6, 9, 6))
    batch = dynamics.rnea(model, states[0], states[1], states[2], f_ext=f_ext)
    assert batch.shape == (6, 9)
    assert batch.dtype == np.float64
    for k in range(6):
        q, qd, qdd = (x[k] for x in states)
        single = dynamics.rnea(model, q, qd, qdd, f_ext=f_ext[k])
        assert single.shape == (9,)
        # Not bit for bit: NumPy's sine of a batch may differ from that of one number in one ulp.
        np.testing.assert_allclose(batch[k], single, rtol=1e-12, atol=1e-12)


def test_empty_batch_gives_an_empty_result(
    model_and_rng: tuple[Model, np.random.Generator],
) -> None:
    model, _ = model_and_rng
    assert dynamics.rnea(model, *(np.empty((0, 9)) for _ in range(3))).shape == (0, 9)


def test_efforts_are_affine_in_the_accelerations(
    model_and_rng: tuple[Model, np.random.Generator],
) -> None:
    model, rng = model_and_rng
    q, qd, qdd = random_states(rng, model, 4)
    other = rng.normal(size=qdd.shape)
    bias = dynamics.rnea(model, q, qd, np.zeros_like(qdd))
    first, second = dynamics.rnea(model, q, qd, qdd) - bias, dynamics.rnea(model, q, qd, other)
    combined = dynamics.rnea(model, q, qd, 2.5 * qdd - other)
    assert relative_error(combined, bias + 2.5 * first - (second - bias)) < 1e-12


def test_mass_matrix_is_symmetric_and_positive_definite(
    model_and_rng: tuple[Model, np.random.Generator],
) -> None:
    model, rng = model_and_rng
    q = random_states(rng, model, 1)[0]
    zero = np.zeros((9, 9))
    columns = [dynamics.rnea(model, np.repeat(q, 9, axis=0), zero, a) for a in (np.eye(9), zero)]
    mass = columns[0] - columns[1]
    assert relative_error(mass, mass.T) < 1e-12
    assert np.linalg.eigvalsh((mass + mass.T) / 2.0).min() > 0.0
