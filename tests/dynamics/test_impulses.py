"""Impacts and accelerations of contacts: against the equations, differences and Pinocchio."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.dynamics import DynamicsError, constraint_derivatives, impulses
from pinion.robot import Model, contacts_of, load, urdf_text, with_contacts
from tests.dynamics.models import relative_error
from tests.dynamics.test_constraints import ATLAS, FEET, LEGS, ROBOTS, masks, of_pinocchio, states
from tests.dynamics.test_constraints import robot as robot_of

Array = NDArray[np.float64]


def jacobian(model: Model, q: Array) -> Array:
    """Return the contacts' Jacobian at one state, from that of frames."""
    return np.concatenate(
        [
            dynamics.frame_jacobian(model, q, contact.name, reference="local")[6 - contact.size :]
            for contact in contacts_of(model)
        ]
    )


@pytest.mark.parametrize("name", [*ROBOTS, "tied tree 3"])
def test_rates_and_impulses_solve_the_equations(name: str) -> None:
    model, damping, restitution = robot_of(name), 1e-3, 0.3
    active = masks(model)
    q, qd, _ = states(model, len(active), 1)
    qd_after, impulse = dynamics.impulse_dynamics(model, q, qd, active, damping, restitution)
    sizes = [contact.size for contact in contacts_of(model)]
    for k, on in enumerate(active):
        closed = np.repeat(on, sizes) > 0.0
        J = jacobian(model, q[k])[closed]
        push = J.T @ impulse[k][closed]
        change = dynamics.crba(model, q[k]) @ (qd_after[k] - qd[k])
        size = np.abs(change).max() + 1.0
        np.testing.assert_allclose(change, push, rtol=0.0, atol=1e-12 * size)
        left = J @ (qd_after[k] + restitution * qd[k]) + damping * impulse[k][closed]
        np.testing.assert_allclose(left, 0.0, rtol=0.0, atol=1e-11)
        assert not impulse[k][~closed].any()
        if not on.any():
            np.testing.assert_array_equal(qd_after[k], qd[k])


@pytest.mark.parametrize("restitution", [0.0, 0.3])
@pytest.mark.parametrize("name", [*ROBOTS, "tied tree 3"])
def test_gradients_are_the_limits_of_differences(name: str, restitution: float) -> None:
    model, damping, h = robot_of(name), 1e-3, 1e-6
    q, qd, _ = (np.repeat(array, model.nv, axis=0) for array in states(model, 1, 3))
    steps = h * np.eye(model.nv)

    def impact(q: Array, qd: Array) -> tuple[Array, Array]:
        return dynamics.impulse_dynamics(model, q, qd, None, damping, restitution)

    gradient = dynamics.impulse_dynamics_derivatives(model, q[0], qd[0], None, damping, restitution)
    for name_of, value in zip(("qd_after", "impulse"), impact(q[0], qd[0]), strict=True):
        assert relative_error(getattr(gradient, name_of), value) < 1e-12
    moved: dict[str, Callable[[Array], tuple[Array, Array]]] = {
        "dq": lambda e: impact(dynamics.integrate(model, q, e), qd),
        "dqd": lambda e: impact(q, qd + e),
    }
    for variable, at in moved.items():
        results = zip(("qd_after", "impulse"), at(steps), at(-steps), strict=True)
        for name_of, after, before in results:
            expected = (after - before).T / (2.0 * h)
            result = getattr(gradient, f"d{name_of}_{variable}")
            assert relative_error(result, expected) < 1e-7, (name_of, variable)


@pytest.mark.parametrize("name", ROBOTS)
def test_a_contact_that_is_not_made_is_as_if_it_were_not_there(name: str) -> None:
    model = robot_of(name)
    sizes = [contact.size for contact in contacts_of(model)]
    q, qd, _ = (array[0] for array in states(model, 1, 2))
    for active in masks(model)[1:-1]:
        fewer = with_contacts(
            model, [text for text, on in zip(model.contacts, active, strict=True) if on]
        )
        gradient = dynamics.impulse_dynamics_derivatives(model, q, qd, active, 1e-3, 0.5)
        alone = dynamics.impulse_dynamics_derivatives(fewer, q, qd, None, 1e-3, 0.5)
        closed = np.repeat(active, sizes) > 0.0
        for name_of, result, expected in zip(gradient._fields, gradient, alone, strict=True):
            if "impulse" in name_of:
                assert not result[~closed].any()
                result = result[closed]
            assert relative_error(result, expected) < 1e-11, name_of


def in_pinocchio(
    peer: Any, contacts: list[tuple[str, Array, int]], q: Array, qd: Array, restitution: float
) -> Any:
    """Return Pinocchio's data after an impact and its gradient."""
    data, peers, datas = of_pinocchio(peer, contacts, "local")
    settings = pin.ProximalSettings(1e-14, 0.0, 1)
    pin.impulseDynamics(peer, data, q, qd, peers, datas, restitution, settings)
    pin.computeImpulseDynamicsDerivatives(peer, data, peers, datas, restitution, settings)
    return data


CONTACTS = {
    "hyq": [(leg, np.array([0.31, 0.02, -0.01]), 3) for leg in LEGS],
    "atlas": [("l_foot", np.array([0.1, 0.02, -0.05]), 6), ("r_foot", np.zeros(3), 6)],
}


@pytest.mark.parametrize("name", CONTACTS)
def test_pinocchio_agrees(name: str) -> None:
    peer = pin.buildModelFromXML(urdf_text(name), pin.JointModelFreeFlyer())
    model = load(peer, contacts=FEET if name == "hyq" else ATLAS)
    q, qd, _ = states(model, 3, 4)
    for k, restitution in enumerate((0.0, 0.0, 0.3)):
        data = in_pinocchio(peer, CONTACTS[name], q[k], qd[k], restitution)
        gradient = dynamics.impulse_dynamics_derivatives(
            model, q[k], qd[k], restitution=restitution
        )
        assert relative_error(gradient.qd_after, np.array(data.dq_after)) < 1e-9
        size = CONTACTS[name][0][2]
        halves = np.array(data.impulse_c).reshape(-1, size // 3, 3)[:, ::-1]
        assert relative_error(gradient.impulse.reshape(halves.shape), halves) < 1e-9
        assert relative_error(gradient.dqd_after_dq, np.array(data.ddq_dq)) < 1e-9
        # Pinocchio's is that of the jump.
        jump = gradient.dqd_after_dqd - np.eye(model.nv)
        assert relative_error(jump, np.array(data.ddq_dv)) < 1e-9
        for by_state, peer_array in (
            (gradient.dimpulse_dq, data.dlambda_dq),
            (gradient.dimpulse_dqd, data.dlambda_dv),
        ):
            halves = np.array(peer_array).reshape(-1, size // 3, 3, model.nv)[:, ::-1]
            assert relative_error(by_state.reshape(halves.shape), halves) < 1e-8


def test_an_impact_without_restitution_takes_energy_and_one_with_all_of_it_none() -> None:
    model = robot_of("hyq")
    q, qd, _ = states(model, 20, 5)
    before = dynamics.kinetic_energy(model, q, qd)
    for restitution, share in ((0.0, None), (1.0, 1.0)):
        qd_after, _ = dynamics.impulse_dynamics(model, q, qd, restitution=restitution)
        after = dynamics.kinetic_energy(model, q, qd_after)
        if share is None:
            assert (after < before).all()
        else:
            np.testing.assert_allclose(after, before, rtol=1e-10)


def test_impulses_are_turned_to_the_base() -> None:
    model = robot_of("one face of hyq")
    q, qd, _ = (array[0] for array in states(model, 1, 6))
    _, local = dynamics.impulse_dynamics(model, q, qd)
    _, turned = dynamics.impulse_dynamics(model, q, qd, reference="local_world_aligned")
    expected = []
    for contact, halves in zip(contacts_of(model), (local[:6], local[6:]), strict=True):
        R = dynamics.frame_placement(model, q, contact.name)[0]
        expected += [R @ half for half in halves.reshape(-1, 3)]
    np.testing.assert_allclose(turned, np.concatenate(expected), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", [*ROBOTS, "tied tree 3"])
def test_accelerations_of_contacts_have_their_gradients(name: str) -> None:
    model, h = robot_of(name), 1e-6
    q, qd, qdd = (np.repeat(array, model.nv, axis=0) for array in states(model, 1, 7))
    result = dynamics.contact_acceleration(model, q[0], qd[0], qdd[0])
    expected = []
    for contact in contacts_of(model):
        angular, linear = dynamics.frame_acceleration_scalars(
            model, list(q[0]), list(qd[0]), list(qdd[0]), contact.name,
            reference="local", classical=contact.size == 3,
        )  # fmt: skip
        expected.append(np.array([*angular, *linear], float)[6 - contact.size :])
    assert relative_error(result.acceleration, np.concatenate(expected)) < 1e-12
    assert relative_error(result.J_contacts, jacobian(model, q[0])) < 1e-12

    def moved(q: Array, qd: Array) -> Array:
        return dynamics.contact_acceleration(model, q, qd, qdd).acceleration

    steps = h * np.eye(model.nv)
    for of_state, after, before in (
        (
            result.dacceleration_dq,
            moved(dynamics.integrate(model, q, steps), qd),
            moved(dynamics.integrate(model, q, -steps), qd),
        ),
        (result.dacceleration_dqd, moved(q, qd + steps), moved(q, qd - steps)),
    ):
        assert relative_error(of_state, (after - before).T / (2.0 * h)) < 1e-7


def test_a_robot_in_contact_does_not_accelerate_there() -> None:
    """What forward dynamics holds is zero for its accelerations."""
    model = robot_of("atlas")
    q, qd, tau = (array[0] for array in states(model, 1, 8))
    qdd, _ = dynamics.constraint_dynamics(model, q, qd, tau)
    acceleration = dynamics.contact_acceleration(model, q, qd, qdd).acceleration
    free = dynamics.contact_acceleration(model, q, qd, np.zeros(model.nv)).acceleration
    assert np.abs(acceleration).max() < 1e-9 * np.abs(free).max()


@pytest.mark.parametrize("restitution", [-0.1, 1.5, np.nan])
def test_a_restitution_outside_its_range_is_refused(restitution: float) -> None:
    model = robot_of("arm at a point")
    q, qd, _ = (array[0] for array in states(model, 1, 9))
    with pytest.raises(DynamicsError, match=r"restitution is .*: pass a number from 0 to 1"):
        dynamics.impulse_dynamics(model, q, qd, None, 0.0, restitution)
    with pytest.raises(DynamicsError, match="has no contacts"):
        dynamics.contact_acceleration(load("iiwa14"), q, qd, qd)


def _without_motion(at_state: Any, *_: Any) -> Any:
    return [[0.0] * at_state.tree.nv for _ in at_state.directions]


def _of_half_the_rates(at_state: Any, q: Any, rates: Any, *rest: Any) -> Any:
    half = [0.5 * rate for rate in rates]
    return constraint_derivatives.velocity_derivatives(at_state, q, half, *rest)


@pytest.mark.parametrize("broken", [_without_motion, _of_half_the_rates])
def test_a_broken_gradient_is_noticed(broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(impulses, "velocity_derivatives", broken)
    with pytest.raises(AssertionError):
        test_gradients_are_the_limits_of_differences("hyq", 0.3)
