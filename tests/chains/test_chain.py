"""Chains as arrays, random chains, and the serial algorithms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest

from pinion import dynamics
from pinion.chains import Chain, aba, random_chain, random_state, rnea
from pinion.chains.pinocchio import to_pinocchio
from pinion.chains.random import INERTIAS, JOINTS
from pinion.chains.small import factorise, solve_positive
from pinion.chains.state import exponential
from pinion.dynamics.general.joints import displacement
from pinion.robot import JointKind, load

LONG = np.longdouble


@pytest.mark.parametrize("name", ["iiwa14", "hyq", "atlas"])
def test_robot_as_a_chain_has_its_dynamics(name: str) -> None:
    model = load(name)
    chain = Chain.of(model)
    rng = np.random.default_rng(1)
    q, qd, x = rng.uniform(-1, 1, (3, 5, model.nv))
    np.testing.assert_allclose(rnea(chain, q, qd, x), dynamics.rnea(model, q, qd, x), atol=1e-11)
    np.testing.assert_allclose(aba(chain, q, qd, x), dynamics.aba(model, q, qd, x), atol=1e-10)
    assert chain.n + len(chain.branches) == chain.bodies == len(model.bodies)


def test_floating_robot_as_a_chain() -> None:
    model = load("hyq", floating_base=True)
    chain = Chain.of(model)
    q = dynamics.random_configuration(model, np.random.default_rng(3), 4)
    qd, x = np.random.default_rng(4).uniform(-1, 1, (2, 4, model.nv))
    np.testing.assert_allclose(rnea(chain, q, qd, x), dynamics.rnea(model, q, qd, x), atol=1e-9)
    np.testing.assert_allclose(aba(chain, q, qd, x), dynamics.aba(model, q, qd, x), atol=1e-9)


def test_chain_to_a_named_tip() -> None:
    model = load("hyq")
    tip = model.bodies[5].name
    chain = Chain.of(model, tip)
    assert model.bodies[chain.main[-1]].name == tip
    with pytest.raises(dynamics.DynamicsError, match="no body 'nobody'"):
        Chain.of(model, "nobody")


@pytest.mark.parametrize("joints", [*JOINTS, [6, 0, 2, 3, 1, 5, 4]])
@pytest.mark.parametrize("inertias", INERTIAS)
def test_forward_dynamics_undo_inverse_dynamics(joints: object, inertias: str) -> None:
    chain = random_chain(7, 2, joints=joints, inertias=inertias, branches=2)  # type: ignore[arg-type]
    state = random_state(chain, 3, 4)
    qdd = aba(chain, state.q.astype(LONG), state.qd.astype(LONG), state.tau.astype(LONG))
    assert qdd.dtype == LONG
    np.testing.assert_allclose(qdd.astype(float), state.qdd, atol=1e-7)


def test_forward_dynamics_of_joints_with_quaternions() -> None:
    joints = [JointKind.FREE_FLYER, JointKind.PLANAR, JointKind.SPHERICAL]
    chain = random_chain(3, 1, joints=joints)
    state = random_state(chain, 2, 4)
    np.testing.assert_allclose(aba(chain, state.q, state.qd, state.tau), state.qdd, atol=1e-11)
    with pytest.raises(dynamics.DynamicsError, match="not 1"):
        rnea(chain, 2 * state.q, state.qd, state.qdd)


def test_tip_wrench_acts_on_the_last_link_through_both() -> None:
    chain = random_chain(5, 1, branches=2)
    state = random_state(chain, 1, 3)
    push = np.random.default_rng(1).normal(size=(3, 6))
    tau = rnea(chain, state.q, state.qd, state.qdd, push)
    assert np.abs(tau - state.tau).max() > 0.1
    np.testing.assert_allclose(aba(chain, state.q, state.qd, tau, push), state.qdd, atol=1e-11)


def test_one_state_is_a_batch_of_one() -> None:
    chain = random_chain(4, 1)
    state = random_state(chain, 1, 1)
    single = rnea(chain, state.q[0], state.qd[0], state.qdd[0])
    assert single.shape == (chain.nv,)
    np.testing.assert_array_equal(single, state.tau[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, LONG])
def test_exponential_of_small_and_large_angles(dtype: type) -> None:
    eps = np.finfo(dtype).eps
    for angle in [0.0, 1e-9, 1e-3, 0.4999, 0.5, 3.0]:
        twist = np.array([0.0, 0.0, angle, 0.3, 0.0, 0.1 * angle], dtype)
        R, p = exponential(twist)
        pitch, turned = displacement(JointKind.HELICAL, np.array([angle], dtype), 0.1)
        np.testing.assert_allclose(R, pitch, atol=4 * eps)
        # About an axis away from the origin: sin and 1 - cos over the angle.
        x = 0.3 if angle == 0.0 else 0.3 * np.sin(dtype(angle)) / dtype(angle)
        y = 0.0 if angle == 0.0 else 0.6 * np.sin(dtype(angle) / 2) ** 2 / dtype(angle)
        np.testing.assert_allclose(p, [x, y, turned[2]], atol=4 * eps)
        assert R.dtype == p.dtype == dtype


def test_small_systems_in_80_bits() -> None:
    rng = np.random.default_rng(1)
    A = rng.normal(size=(5, 6, 6))
    A = A @ np.swapaxes(A, -1, -2) + np.eye(6)
    x = rng.normal(size=(5, 6, 2))
    wide = A.astype(LONG)
    np.testing.assert_allclose(solve_positive(wide, wide @ x), x, rtol=0, atol=1e-16)
    with pytest.raises(np.linalg.LinAlgError, match="not positive"):
        factorise(np.diag([1.0, -1.0]))
    with pytest.raises(np.linalg.LinAlgError, match="not positive"):
        factorise(np.full((2, 2), np.nan))


def test_chains_that_are_none_are_refused() -> None:
    chain = random_chain(3, 1)
    bad = {
        "expected": {"E": chain.E[:2]},
        "a NaN or an infinity": {"r": chain.r * np.nan},
        "0 to 6": {"dof": np.array([1, 7, 1])},
        "independent columns": {"S": chain.S * 0},
        "must precede": {"parent": np.array([-1, 2, 1])},
        "not a path": {"main": np.array([0, 2])},
        "no links": {"main": np.array([], np.int64)},
        "not 3: give one kind per body": {"kinds": (None,)},
        "not 3": {"kinds": (JointKind.SPHERICAL, None, None)},
    }
    for message, changes in bad.items():
        with pytest.raises(dynamics.DynamicsError, match=message):
            replace(chain, **changes)


def test_arguments_that_do_not_fit_are_refused() -> None:
    chain = random_chain(3, 1)
    good = np.zeros((2, 3))
    for message, arguments in {
        r"pass \(3,\)": (np.zeros((2, 4)), good, good),
        "same length": (good, np.zeros((1, 3)), good),
        r"qdd\[0, 1\] is nan": (good, good, np.array([[0, np.nan, 0], [0, 0, 0]])),
        "pass float32": (good, good, good.astype(np.complex128)),
    }.items():
        with pytest.raises(dynamics.DynamicsError, match=message):
            rnea(chain, *arguments)
    for message, options in {
        "choose 'mixed' or": {"joints": "round"},
        "give one joint per link": {"joints": [1]},
        "0 to 6": {"joints": [1, 7, 1]},
        "branches must be 0 or more": {"branches": -1},
    }.items():
        with pytest.raises(dynamics.DynamicsError, match=message):
            random_chain(3, 1, **options)  # type: ignore[arg-type]


def test_joint_that_moves_no_inertia_is_named() -> None:
    chain = random_chain(3, 1, joints="revolute")
    light = np.array(chain.I)
    light[2] = 0.0
    chain = replace(chain, I=light)
    with pytest.raises(dynamics.DynamicsError, match=r"Joint 2 .* no inertia"):
        aba(chain, *np.zeros((3, 3)))


def test_chain_in_pinocchio_has_the_same_dynamics() -> None:
    chain = random_chain(12, 1, inertias="arm", branches=2)
    state = random_state(chain, 1)
    model = to_pinocchio(chain, pin)
    data = model.createData()
    q, qd, qdd, tau = state.q[0], state.qd[0], state.qdd[0], state.tau[0]
    np.testing.assert_allclose(pin.rnea(model, data, q, qd, qdd), tau, atol=1e-11)
    np.testing.assert_allclose(pin.aba(model, data, q, qd, tau), qdd, atol=1e-10)
    with pytest.raises(dynamics.DynamicsError, match="neither prismatic nor revolute about"):
        to_pinocchio(random_chain(2, 1, joints="helical"), pin)
