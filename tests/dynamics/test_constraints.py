"""Robots in contact: accelerations, forces and their gradients, against a dense solution of the
equations, Pinocchio, differences and invariances."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.dynamics import DynamicsError, constraint_dynamics_derivatives, contact_state
from pinion.dynamics.constraints import constraint_dynamics
from pinion.robot import (
    Mimic,
    Model,
    RobotError,
    contacts_of,
    coupled,
    load,
    load_text,
    model_from_dict,
    model_to_dict,
    random_tree,
    urdf_text,
    with_contacts,
)
from tests.control.legs import tripod
from tests.dynamics.models import relative_error
from tests.support.breadth import some

Array = NDArray[np.float64]

LEGS = ("lf_lowerleg", "lh_lowerleg", "rf_lowerleg", "rh_lowerleg")
FEET = tuple(f"{leg}@0.31,0.02,-0.01" for leg in LEGS)
"""Near the ends of the legs, at no axis."""
ATLAS = ("l_foot@0.1,0.02,-0.05:6d", "r_foot:6d")


def robot(name: str) -> Model:
    if name == "hyq":
        return load("hyq", floating_base=True, contacts=FEET)
    if name == "one face of hyq":
        return load("hyq", floating_base=True, contacts=(f"{FEET[1]}:6d", FEET[0]))
    if name == "atlas":
        return load("atlas", floating_base=True, contacts=ATLAS)
    if name == "arm on a wall":
        return load("iiwa14", contacts=("iiwa_link_7@0.01,0.02,0.1:6d",), gravity=(1.0, 2.0, -9.0))
    if name == "two roots":
        return load("baxter", contacts=("left_wrist", "right_wrist"))
    if name == "tripod":
        return tripod()
    if name == "arm at a point":
        return load("iiwa14", contacts=("iiwa_link_7",))
    floats = name.startswith("floating")
    model = load_text(random_tree(np.random.default_rng(int(name[-1])), 12), floating_base=floats)
    if name.startswith("tied"):
        first, *rest, last = model.bodies
        mimic = Mimic(joint=first.joint.name, multiplier=-0.7, offset=0.2)
        tied = replace(last, joint=replace(last.joint, mimic=mimic))
        model = coupled(replace(model, bodies=(first, *rest, tied)))
    return with_contacts(model, (f"{model.tips[0]}@0.1,-0.2,0.05", model.tips[-1]))


ROBOTS = (
    *("hyq", "one face of hyq", "atlas", "two roots"),
    *("arm on a wall", "arm at a point", "tree 1", "tree 2"),
)


def states(model: Model, count: int, seed: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    steps = rng.uniform(-1.0, 1.0, (count, model.nv))
    start = np.tile(dynamics.neutral_configuration(model), (count, 1))
    q = dynamics.integrate(model, start, steps)
    return q, rng.normal(size=(count, model.nv)), 10.0 * rng.normal(size=(count, model.nv))


def masks(model: Model) -> Array:
    count = len(model.contacts)
    return np.array(list(np.ndindex(*(2,) * count)), dtype=float)


def dense(
    model: Model, q: Array, qd: Array, tau: Array, active: Array, damping: float
) -> tuple[Array, Array]:
    """Solve the equations of motion and of the contacts as one dense system."""
    rows, drift = [], []
    for contact, on in zip(contacts_of(model), active, strict=True):
        if not on:
            continue
        at = slice(6 - contact.size, 6)
        J = dynamics.frame_jacobian(model, q, contact.name, reference="local")
        angular, linear = dynamics.frame_acceleration_scalars(
            model, list(q), list(qd), None, contact.name,
            reference="local", classical=contact.size == 3,
        )  # fmt: skip
        rows.append(J[at])
        drift.append(np.array([*angular, *linear], float)[at])
    J = np.concatenate([np.zeros((0, model.nv)), *rows])
    gamma = np.concatenate([np.zeros(0), *drift])
    M = dynamics.crba(model, q)
    K = np.block([[M, -J.T], [J, damping * np.eye(len(J))]])
    x = np.linalg.solve(K, np.concatenate([tau - dynamics.bias(model, q, qd), -gamma]))
    sizes = [contact.size for contact in contacts_of(model)]
    force = np.zeros(sum(sizes))
    force[np.repeat(active, sizes) > 0.0] = x[model.nv :]
    return x[: model.nv], force


@pytest.mark.parametrize("name", [*ROBOTS, "tied tree 3"])
def test_accelerations_and_forces_solve_the_equations(name: str) -> None:
    model, damping = robot(name), 1e-3
    active = masks(model)
    q, qd, tau = states(model, len(active), 1)
    qdd, force = constraint_dynamics(model, q, qd, tau, active, damping)
    for k, on in enumerate(active):
        want = dense(model, q[k], qd[k], tau[k], on, damping)
        assert relative_error(qdd[k], want[0]) < 1e-10
        assert relative_error(force[k], want[1]) < 1e-10 if on.any() else not force[k].any()


@pytest.mark.parametrize("name", some(ROBOTS, lambda name: name not in ("hyq", "atlas")))
def test_a_contact_in_the_air_is_as_if_it_were_not_there(name: str) -> None:
    model = robot(name)
    for active in masks(model)[:-1]:
        q, qd, tau = (array[0] for array in states(model, 1, 2))
        left = with_contacts(
            model, [text for text, on in zip(model.contacts, active, strict=True) if on]
        )
        gradient = constraint_dynamics_derivatives(model, q, qd, tau, active, 1e-3)
        if not active.any():
            free = dynamics.fd_derivatives(model, q, qd, tau)
            for name_of in ("qdd", "dqdd_dq", "dqdd_dqd"):
                assert relative_error(getattr(gradient, name_of), getattr(free, name_of)) < 1e-11
            assert relative_error(gradient.dqdd_dtau, free.minv) < 1e-11
            continue
        fewer = constraint_dynamics_derivatives(left, q, qd, tau, None, 1e-3)
        sizes = [contact.size for contact in contacts_of(model)]
        on_ground = np.repeat(active, sizes) > 0.0
        for name_of, result, want in zip(gradient._fields, gradient, fewer, strict=True):
            if "force" in name_of:
                assert not result[~on_ground].any()
                result = result[on_ground]
            assert relative_error(result, want) < 1e-11, name_of


FLOATING = ("floating tree 4", "floating tree 8", "tripod")
"""Hips that slide, turn about axes of the base or tilted ones; and legs that cannot move sideways,
although their feet's axes turn."""


@pytest.mark.parametrize("name", [*ROBOTS, "tied tree 3", *FLOATING])
def test_gradients_are_the_limits_of_differences(name: str) -> None:
    model, damping, h = robot(name), 1e-3, 1e-6
    q, qd, tau = (np.repeat(array, model.nv, axis=0) for array in states(model, 1, 3))
    steps = h * np.eye(model.nv)
    moved: dict[str, Callable[[Array], tuple[Array, Array]]] = {
        "dq": lambda e: constraint_dynamics(
            model, dynamics.integrate(model, q, e), qd, tau, None, damping
        ),
        "dqd": lambda e: constraint_dynamics(model, q, qd + e, tau, None, damping),
        "dtau": lambda e: constraint_dynamics(model, q, qd, tau + e, None, damping),
    }
    gradient = constraint_dynamics_derivatives(model, q[0], qd[0], tau[0], None, damping)
    for variable, at in moved.items():
        results = zip(("qdd", "force"), at(steps), at(-steps), strict=True)
        for name_of, after, before in results:
            result = getattr(gradient, f"d{name_of}_{variable}")
            want = (after - before).T / (2.0 * h)
            assert relative_error(result, want) < 1e-6, (name_of, variable)


@pytest.mark.parametrize("term", ["armature", "damping", "stiffness"])
def test_a_hip_has_terms_of_its_joint(term: str) -> None:
    """An armature does not turn with the base, and a spring does not push it."""
    model, h = load("hyq", floating_base=True, contacts=FEET[:2]), 1e-6
    bodies = [
        replace(body, joint=replace(body.joint, **{term: 0.7})) if body.parent == 0 else body
        for body in model.bodies
    ]
    model = replace(model, bodies=tuple(bodies))
    terms: Any = {"joint_terms": () if term == "armature" else (term,)}
    q, qd, tau = (np.repeat(array, model.nv, axis=0) for array in states(model, 1, 13))
    steps = h * np.eye(model.nv)
    gradient = constraint_dynamics_derivatives(model, q[0], qd[0], tau[0], None, 1e-3, **terms)
    moved: dict[str, Callable[[Array], tuple[Array, Array]]] = {
        "dq": lambda e: constraint_dynamics(
            model, dynamics.integrate(model, q, e), qd, tau, None, 1e-3, **terms
        ),
        "dqd": lambda e: constraint_dynamics(model, q, qd + e, tau, None, 1e-3, **terms),
    }
    for variable, at in moved.items():
        for k, name in enumerate(("dqdd", "dforce")):
            want = (at(steps)[k] - at(-steps)[k]).T / (2.0 * h)
            assert relative_error(getattr(gradient, f"{name}_{variable}"), want) < 1e-6


def of_pinocchio(
    model: Any, frames: Sequence[tuple[str, Array, int]], reference: str
) -> tuple[Any, Any, Any]:
    """Return Pinocchio's data and models of contacts, without stabilisation."""
    axes = {"local": pin.LOCAL, "local_world_aligned": pin.LOCAL_WORLD_ALIGNED}[reference]
    peers = []
    for link, origin, size in frames:
        frame = model.frames[model.getFrameId(link)]
        kind = pin.ContactType.CONTACT_3D if size == 3 else pin.ContactType.CONTACT_6D
        placement = frame.placement * pin.SE3(np.eye(3), origin)
        constraint = pin.RigidConstraintModel(kind, model, frame.parentJoint, placement, axes)
        constraint.m_baumgarte_parameters.Kp = constraint.m_baumgarte_parameters.Kd = 0.0
        peers.append(constraint)
    data, datas = model.createData(), [constraint.createData() for constraint in peers]
    pin.initConstraintDynamics(model, data, peers, datas)
    return data, peers, datas


@pytest.mark.parametrize("reference", ["local", "local_world_aligned"])
@pytest.mark.parametrize(
    ("name", "contacts"),
    [
        ("hyq", [(leg, np.array([0.02, 0.01, -0.3]), 3) for leg in LEGS]),
        ("atlas", [("l_foot", np.array([0.1, 0.02, -0.05]), 6), ("r_foot", np.zeros(3), 6)]),
    ],
)
def test_pinocchio_agrees_in_both_frames(
    name: str, contacts: list[tuple[str, Array, int]], reference: str
) -> None:
    peer = pin.buildModelFromXML(urdf_text(name), pin.JointModelFreeFlyer())
    texts = [f"{link}@{','.join(map(str, r))}:{size}d" for link, r, size in contacts]
    model = load(peer, contacts=texts)
    q, qd, tau = states(model, 4, 4)
    for k in range(len(q)):
        on = [number for number in range(len(contacts)) if k >> number & 1 or k == 0]
        data, peers, datas = of_pinocchio(peer, [contacts[i] for i in on], reference)
        settings = pin.ProximalSettings(1e-14, 0.0, 1)
        want = pin.constraintDynamics(peer, data, q[k], qd[k], tau[k], peers, datas, settings)
        active = np.isin(np.arange(len(contacts)), on).astype(float)
        qdd, force = constraint_dynamics(model, q[k], qd[k], tau[k], active, reference=reference)
        assert relative_error(qdd, want) < 1e-10
        size = contacts[0][2]
        # Pinocchio has the force first, then the moment.
        halves = np.array(data.lambda_c).reshape(-1, size // 3, 3)[:, ::-1]
        assert relative_error(force.reshape(-1, size // 3, 3)[on], halves) < 1e-9
        if reference == "local":
            pin.computeConstraintDynamicsDerivatives(peer, data, peers, datas, settings)
            gradient = constraint_dynamics_derivatives(model, q[k], qd[k], tau[k], active)
            for result, peer_array in (
                (gradient.dqdd_dq, data.ddq_dq),
                (gradient.dqdd_dqd, data.ddq_dv),
                (gradient.dqdd_dtau, data.ddq_dtau),
            ):
                assert relative_error(result, np.array(peer_array)) < 1e-9


@pytest.mark.parametrize("name", ["hyq", "arm at a point"])
def test_the_forces_of_points_do_no_work_that_the_ground_does_not_see(name: str) -> None:
    """Power of efforts and forces is the rate of the energy, at any motion."""
    model, h = robot(name), 1e-6
    q, qd, tau = (array[0] for array in states(model, 1, 6))
    qdd, force = constraint_dynamics(model, q, qd, tau, None, 1e-3)
    speeds = np.concatenate(
        [
            dynamics.frame_jacobian(model, q, contact.name, reference="local")[3:] @ qd
            for contact in contacts_of(model)
        ]
    )

    def energy(t: float) -> float:
        at, rate = dynamics.integrate(model, q, t * qd + t * t / 2 * qdd), qd + t * qdd
        kinetic = dynamics.kinetic_energy(model, at, rate)
        return float(kinetic + dynamics.potential_energy(model, at))

    rate = (energy(h) - energy(-h)) / (2.0 * h)
    assert rate == pytest.approx(float(tau @ qd + force @ speeds), rel=1e-6)


def test_two_contacts_at_one_point_need_a_damping() -> None:
    model = load("hyq", floating_base=True, contacts=(FEET[0], f"{LEGS[0]}@0.31,0.02,-0.010"))
    q, qd, tau = (array[0] for array in states(model, 1, 8))
    with pytest.raises(DynamicsError, match=r"hold the same point, .* a damping, such as 1e-6"):
        constraint_dynamics(model, q, qd, tau)
    alone, force = constraint_dynamics(model, q, qd, tau, [0.0, 1.0])
    assert not force[:3].any()
    qdd, force = constraint_dynamics(model, q, qd, tau, None, 1e-6)
    assert relative_error(force[:3], force[3:]) < 1e-6
    assert relative_error(qdd, alone) < 1e-3


def test_bad_contacts_and_masks_are_refused() -> None:
    arm, model = load("iiwa14"), robot("hyq")
    with pytest.raises(RobotError, match="no link or fixed joint 'foot'"):
        with_contacts(arm, ("foot",))
    with pytest.raises(RobotError, match=r"'iiwa_link_0' .* is fixed to the base"):
        with_contacts(arm, ("iiwa_link_0",))
    with pytest.raises(RobotError, match=r"contact 'iiwa_link_7' .* is repeated"):
        load("iiwa14", contacts=("iiwa_link_7", "iiwa_link_7:6d"))
    for wrong in ("iiwa_link_7", (3,), 5):
        with pytest.raises(RobotError, match=r"contacts cannot be .*: give a sequence of strings"):
            with_contacts(arm, wrong)  # type: ignore[arg-type]
    with pytest.raises(RobotError, match="kind '7d': write iiwa_link_7:3d for a point"):
        with_contacts(arm, ("iiwa_link_7:7d",))
    q, qd, tau = (array[0] for array in states(model, 1, 9))
    with pytest.raises(DynamicsError, match=r"has no contacts: load it with contacts=\(LINK"):
        constraint_dynamics(arm, np.zeros(7), np.zeros(7), np.zeros(7))
    with pytest.raises(DynamicsError, match=r"active has the entry 0\.5: pass 1 for an active"):
        constraint_dynamics(model, q, qd, tau, [1.0, 0.5, 0.0, 0.0])
    with pytest.raises(DynamicsError, match=r"active has shape \(3,\); for all .* pass \(4,\)"):
        constraint_dynamics(model, q, qd, tau, [1.0, 1.0, 0.0])
    with pytest.raises(DynamicsError, match=r"damping is -1: pass a finite number of at least 0"):
        constraint_dynamics(model, q, qd, tau, None, -1)
    with pytest.raises(DynamicsError, match="reference is 'world': choose 'local' or"):
        constraint_dynamics(model, q, qd, tau, reference="world")


def test_a_stored_robot_keeps_its_contacts_in_their_order() -> None:
    model = robot("one face of hyq")
    assert model.contacts == (f"{FEET[1]}:6d", f"{FEET[0]}:3d")
    assert model_from_dict(model_to_dict(model)).contacts == model.contacts
    assert "contacts" not in model_to_dict(load("iiwa14"))


def _without_coriolis(wrench: Any, *rest: Any) -> Any:
    row, push = _ROW(wrench, *rest)
    return type(row)(g_w=(0.0, 0.0, 0.0), g_al=row.g_al, g_a=row.g_a), push


def _without_velocities(*arguments: Any) -> Any:
    return _ROW(*arguments)[0], None


# The package's name for the module is that of its function.
_MODULE = sys.modules["pinion.dynamics.constraint_derivatives"]
_ROW = vars(_MODULE)["contact_row"]


@pytest.mark.parametrize("broken", [_without_coriolis, _without_velocities])
def test_a_broken_row_is_noticed(broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_MODULE, "contact_row", broken)
    with pytest.raises(AssertionError):
        test_gradients_are_the_limits_of_differences("atlas")


def test_spatial_and_classical_accelerations_differ_where_feet_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(contact_state, "cross", lambda a, b: (0.0, 0.0, 0.0))
    with pytest.raises(AssertionError):
        test_accelerations_and_forces_solve_the_equations("atlas")
