"""Identities: differences, energy, the other formulation, joint terms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.dynamics.general import arrays as general
from pinion.robot import load
from pinion.robot.model import JointKind, Model
from tests.dynamics.general import oracle
from tests.dynamics.models import random_model, random_states, relative_error

Array = NDArray[np.float64]
PLAIN = {"joint_terms": False, "friction_width": 0.0}


@pytest.mark.parametrize("seed", range(12))
def test_both_paths_agree_on_revolute_and_prismatic_joints(seed: int) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    model = random_model(rng, int(rng.integers(1, 12)))
    q, qd, qdd = random_states(rng, model, 5)
    f_ext = rng.normal(size=(5, len(model.bodies), 6))
    tau = dynamics.rnea(model, q, qd, qdd, f_ext)
    composite = {"method": "composite", **PLAIN}
    pairs = [
        (general.rnea(model, q, qd, qdd, f_ext, **PLAIN), tau),
        (general.crba(model, q), dynamics.crba(model, q)),
        (general.aba(model, q, qd, tau, f_ext, **PLAIN), dynamics.aba(model, q, qd, tau, f_ext)),
        (general.kinetic_energy(model, q, qd), dynamics.kinetic_energy(model, q, qd)),
        (general.potential_energy(model, q), dynamics.potential_energy(model, q)),
    ]
    inverse = dynamics.minv(model, q)
    for method in ("ltdl", "aba"):
        pairs.append((general.minv(model, q, method=method), inverse))
    pairs += zip(
        general.rnea_derivatives(model, q, qd, qdd, f_ext, **composite),
        dynamics.rnea_derivatives(model, q, qd, qdd, f_ext),
        strict=True,
    )
    pairs += zip(
        general.fd_derivatives(model, q, qd, tau, f_ext, **composite),
        dynamics.fd_derivatives(model, q, qd, tau, f_ext),
        strict=True,
    )
    pairs += zip(
        general.fd_derivatives_from_minv(model, q, qd, qdd, inverse, f_ext, **composite),
        dynamics.fd_derivatives_from_minv(model, q, qd, qdd, inverse, f_ext),
        strict=True,
    )
    for k, (actual, expected) in enumerate(pairs):
        floor = 1e-3 * np.ones_like(expected)  # a zero gradient is pure rounding
        assert np.max(np.abs(actual - expected)) < 1e-11 * max(
            np.max(np.abs(expected)), floor.max()
        ), k


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("terms", [False, True])
def test_gradients_are_differences_along_integrate(seed: int, terms: bool) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    model = oracle.with_terms(oracle.random_tree_of_kinds(rng, 5), rng)
    q = dynamics.random_configuration(model, rng)
    qd, x = rng.normal(size=(2, model.nv))
    f_ext = rng.normal(size=(len(model.bodies), 6))
    options = {"joint_terms": terms, "friction_width": 0.3 if terms else 0.0}
    h = 1e-5
    steps = h * np.concatenate([np.eye(model.nv), -np.eye(model.nv)])
    many = len(steps)
    rows = {"f_ext": np.broadcast_to(f_ext, (many, *f_ext.shape)), **options}
    same_q, same_qd, same_x = (np.broadcast_to(a, (many, len(a))) for a in (q, qd, x))
    moved = dynamics.integrate(model, same_q, steps)
    forward = dynamics.fd_derivatives(model, q, qd, x, f_ext, **options)
    gradients = {
        dynamics.rnea: dynamics.rnea_derivatives(model, q, qd, x, f_ext, **options),
        dynamics.aba: (forward.dqdd_dq, forward.dqdd_dqd),
    }
    for value, (by_q, by_qd) in gradients.items():
        for gradient, ends in (
            (by_q, value(model, moved, same_qd, same_x, **rows)),
            (by_qd, value(model, same_q, same_qd + steps, same_x, **rows)),
        ):
            expected = (ends[: model.nv] - ends[model.nv :]).T / (2.0 * h)
            assert np.max(np.abs(gradient - expected)) < 1e-6 * max(1.0, np.max(np.abs(expected)))
    by_tau = dynamics.aba(model, same_q, same_qd, same_x + steps, **rows)
    expected = (by_tau[: model.nv] - by_tau[model.nv :]).T / (2.0 * h)
    assert relative_error(forward.minv, expected) < 1e-7


def energy(model: Model, q: Array, qd: Array) -> float:
    return float(dynamics.kinetic_energy(model, q, qd) + dynamics.potential_energy(model, q))


@pytest.mark.parametrize("source", ["hyq", "random"])
def test_a_robot_in_free_flight_keeps_its_energy(source: str) -> None:
    print("seed 4")
    rng = np.random.default_rng(4)
    model = (
        load("hyq", floating_base=True) if source == "hyq" else oracle.random_tree_of_kinds(rng, 5)
    )
    dt, steps = 1e-3, 100
    q = dynamics.random_configuration(model, rng)
    qd, tau = rng.normal(size=(2, model.nv)) * 0.5
    start, work, scale = energy(model, q, qd), 0.0, float(dynamics.kinetic_energy(model, q, qd))
    # Power at the ends of each step, by Simpson's rule over it.
    for _ in range(steps):
        qd_start = qd
        k1 = dynamics.aba(model, q, qd, tau)
        half = qd + 0.5 * dt * k1
        middle = dynamics.integrate(model, q, 0.5 * dt * 0.5 * (qd + half))
        k2 = dynamics.aba(model, middle, half, tau)
        half = qd + 0.5 * dt * k2
        q = dynamics.integrate(model, q, dt * half)
        qd = qd + dt * k2
        work += dt * float(tau @ (qd_start + 4.0 * half + qd)) / 6.0
    gained = energy(model, q, qd) - start
    scale += abs(work) + abs(float(dynamics.kinetic_energy(model, q, qd)))
    assert abs(gained - work) < 1e-4 * scale
    assert abs(work) > 1e-3 * scale  # otherwise the comparison is void


@pytest.mark.parametrize("seed", range(6))
def test_inverse_and_forward_dynamics_undo_each_other_with_joint_terms(seed: int) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    plain = random_model(rng, 6) if seed % 2 else oracle.random_tree_of_kinds(rng, 6)
    model = oracle.with_terms(plain, rng)
    q = dynamics.random_configuration(model, rng, 3)
    qd, qdd = rng.normal(size=(2, 3, model.nv))
    joints = [body.joint for body in model.bodies for _ in range(body.joint.kind.nv)]
    armature, damping, friction = (
        np.array([getattr(joint, name) for joint in joints])
        for name in ("armature", "damping", "friction")
    )
    x = np.clip(qd / 0.2, -1.0, 1.0)
    smooth = x * (15.0 - 10.0 * x**2 + 3.0 * x**4) / 8.0
    bare = [replace(b, joint=replace(b.joint, armature=0.0)) for b in model.bodies]
    without = replace(model, bodies=tuple(bare))
    for width, sign in ((0.0, np.sign(qd)), (0.2, smooth)):
        tau = dynamics.rnea(model, q, qd, qdd, joint_terms=True, friction_width=width)
        extra = armature * qdd + damping * qd + friction * sign
        assert relative_error(tau, dynamics.rnea(without, q, qd, qdd) + extra) < 1e-12
        back = dynamics.aba(model, q, qd, tau, joint_terms=True, friction_width=width)
        assert relative_error(back, qdd) < 1e-9
        forward = dynamics.fd_derivatives(model, q, qd, tau, joint_terms=True, friction_width=width)
        assert relative_error(forward.qdd, qdd) < 1e-9
    M = dynamics.crba(model, q)
    assert relative_error(M, dynamics.crba(without, q) + np.diag(armature)) < 1e-14
    for method in ("ltdl", "aba"):
        inverse = dynamics.minv(model, q, method=method)
        assert np.max(np.abs(M @ inverse - np.eye(model.nv))) < 1e-10


def test_distance_from_the_base_costs_no_digits() -> None:
    print("seed 8")
    rng = np.random.default_rng(8)
    model = load("hyq", floating_base=True)
    q = dynamics.random_configuration(model, rng)
    far = q.copy()
    far[:3] += 1e6
    qd, qdd = rng.normal(size=(2, model.nv))
    near_by = dynamics.rnea_derivatives(model, q, qd, qdd)
    far_off = dynamics.rnea_derivatives(model, far, qd, qdd)
    for a, b in zip(near_by, far_off, strict=True):
        assert relative_error(a, b) < 1e-8  # a far position itself has a resolution of 1e-10 m


def test_a_helix_without_pitch_is_a_revolute_joint() -> None:
    print("seed 9")
    rng = np.random.default_rng(9)
    model = random_model(rng, 6)
    turning = tuple(
        replace(
            body,
            joint=replace(body.joint, kind=JointKind.HELICAL)
            if body.joint.kind is JointKind.REVOLUTE
            else body.joint,
        )
        for body in model.bodies
    )
    states = random_states(rng, model, 4)
    other = replace(model, bodies=turning)
    assert not other.single_dof
    assert relative_error(dynamics.rnea(other, *states), dynamics.rnea(model, *states)) < 1e-12
