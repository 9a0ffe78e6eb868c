"""Robots with loops of links: accelerations, forces, impulses and their gradients, against a dense
solution of the equations, a mechanism by hand, Pinocchio, MuJoCo, differences and invariances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pinocchio as pin
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.dynamics import DynamicsError
from pinion.dynamics.loops import LoopMotion
from pinion.dynamics.spatial import ZERO
from pinion.robot import (
    Mimic,
    Model,
    RobotError,
    contacts_of,
    coupled,
    load,
    load_text,
    loops_of,
    model_from_dict,
    model_to_dict,
    random_tree,
    with_contacts,
    with_loops,
)
from pinion.robot import lock as lock_joints
from pinion.robot import tip as cut_to_tip
from pinion.robot.lookup import find_frame
from tests.dynamics.models import relative_error
from tests.support.breadth import some_rows

Array = NDArray[np.float64]

TREES = {
    1: ("link_7@0.1,0.2,-0.1", "link_5@0.05,0,0.1"),  # forks at the third link of another tree
    2: ("link_5@0.1,0.2,-0.1", "link_4@0.05,0,0.1"),
    3: ("link_3", "link_9@0.3,0,0"),
}


def robot(name: str) -> Model:
    if name.startswith("hyq"):  # two legs hold a stick, and a third one its own trunk
        pair = ("lf_lowerleg@0.31,0.02,-0.01", "rf_lowerleg@0.33,0,0", name[-2:])
        model = load(
            "hyq", floating_base=True, loops=(pair, ("base_link_0@0,0,0.1", "lh_lowerleg"))
        )
        return with_contacts(model, ("rh_lowerleg@0.33,0,0",))
    if name.startswith("on the base"):
        model = load("iiwa14")
        return with_loops(model, (("iiwa_link_0@0.1,0,0", "iiwa_link_7@0,0,0.1", name[-2:]),))
    if name.startswith("to the base"):
        model = load("iiwa14")
        return with_loops(model, (("iiwa_link_7@0,0,0.1", "iiwa_link_0@0.1,0,0", name[-2:]),))
    if name.startswith("along"):  # a link with another one that it carries
        model = load("iiwa14")
        return with_loops(model, (("iiwa_link_2@0,0,0.1", "iiwa_link_6", name[-2:]),))
    seed = int(name.split()[-2])
    model = load_text(random_tree(np.random.default_rng(seed), 9))
    if name.startswith("tied"):
        first, *rest, last = model.bodies
        mimic = Mimic(joint=first.joint.name, multiplier=-0.7, offset=0.2)
        model = coupled(
            replace(
                model, bodies=(first, *rest, replace(last, joint=replace(last.joint, mimic=mimic)))
            )
        )
    return with_loops(model, ((*TREES[seed], name[-2:]),))


ROBOTS = [
    f"{name} {kind}"
    for name in ("hyq", "to the base", "on the base", "along", "tree 1", "tree 2", "tree 3")
    for kind in ("3d", "6d")
] + ["tied tree 1 3d", "tied tree 2 6d"]


def states(model: Model, count: int, seed: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    steps = rng.uniform(-1.0, 1.0, (count, model.nv))
    start = np.tile(dynamics.neutral_configuration(model), (count, 1))
    q = dynamics.integrate(model, start, steps)
    return q, rng.normal(size=(count, model.nv)), 10.0 * rng.normal(size=(count, model.nv))


def fork_motion(model: Model, q: Array, qd: Array, names: Sequence[str]) -> tuple[Array, ...]:
    """Return J, the acceleration at rest, R and p of a frame, the fork resting."""
    fork = fork_of(model, *names)
    still = np.array(qd)
    results = []
    for name in names[:1]:
        J = dynamics.frame_jacobian(model, q, name, reference="local_world_aligned")
        for body in path(model, fork):
            J[:, model.v_slices[body]] = 0.0
            still[model.v_slices[body]] = 0.0
        parts = dynamics.frame_acceleration_scalars(
            model, list(q), list(still), None, name, reference="local_world_aligned", classical=True
        )
        results += [J, np.array([*parts[0], *parts[1]], float)]
        results += [*dynamics.frame_placement(model, q, name)]
    return tuple(results)


def path(model: Model, body: int) -> list[int]:
    bodies = []
    while body >= 0:
        bodies.append(body)
        body = model.bodies[body].parent
    return bodies[::-1]


def fork_of(model: Model, first: str, second: str) -> int:
    ends = [path(model, find_frame(model, name).body) for name in (first, second)]
    common = [a for a, b in zip(*ends, strict=False) if a == b]
    return common[-1] if common else -1


def rows_of(model: Model, q: Array, qd: Array) -> tuple[Array, Array]:
    """Return Jacobian and acceleration at rest of all contacts and loops, in the first's axes."""
    rows, drift = [], []
    for contact in contacts_of(model):
        at = slice(6 - contact.size, 6)
        if contact.partner is None:
            J = dynamics.frame_jacobian(model, q, contact.name, reference="local")
            parts = dynamics.frame_acceleration_scalars(
                model, list(q), list(qd), None, contact.name,
                reference="local", classical=contact.size == 3,
            )  # fmt: skip
            rows.append(J[at])
            drift.append(np.array([*parts[0], *parts[1]], float)[at])
            continue
        names = (contact.name, contact.partner.name)
        J_1, a_1, R, _ = fork_motion(model, q, qd, names)
        J_2, a_2, *_ = fork_motion(model, q, qd, names[::-1])
        turn = np.kron(np.eye(2), R.T)
        rows.append((turn @ (J_1 - J_2))[at])
        drift.append((turn @ (a_1 - a_2))[at])
    return np.concatenate(rows), np.concatenate(drift)


def dense(model: Model, q: Array, qd: Array, tau: Array, damping: float) -> tuple[Array, Array]:
    """Solve the equations of motion and of the constraints as one dense system."""
    J, gamma = rows_of(model, q, qd)
    M = dynamics.crba(model, q)
    K = np.block([[M, -J.T], [J, damping * np.eye(len(J))]])
    x = np.linalg.solve(K, np.concatenate([tau - dynamics.bias(model, q, qd), -gamma]))
    return x[: model.nv], x[model.nv :]


@pytest.mark.parametrize("name", [name for name in ROBOTS if not name.startswith("tied")])
def test_accelerations_and_forces_solve_the_equations(name: str) -> None:
    model, damping = robot(name), 1e-3
    q, qd, tau = states(model, 3, 1)
    qdd, force = dynamics.constraint_dynamics(model, q, qd, tau, None, damping)
    for k in range(len(q)):
        want = dense(model, q[k], qd[k], tau[k], damping)
        assert relative_error(qdd[k], want[0]) < 1e-10
        assert relative_error(force[k], want[1]) < 1e-10
    for k in range(len(q)):
        J, gamma = rows_of(model, q[k], qd[k])
        result = dynamics.contact_acceleration(model, q[k], qd[k], qdd[k])
        assert relative_error(result.J_contacts, J) < 1e-12
        assert relative_error(result.acceleration, J @ qdd[k] + gamma) < 1e-10


def test_tied_joints_have_the_dynamics_of_the_reduced_coordinates() -> None:
    """With ``q = G q_r + c``, J of all joints times G."""
    for name in ("tied tree 1 3d", "tied tree 2 6d"):
        tied = robot(name)
        free = replace(tied, coupled=False)
        q, qd, tau = (array[0] for array in states(tied, 1, 1))
        G, c = np.zeros((free.nv, tied.nv)), np.zeros(free.nv)
        G[: tied.nv] = np.eye(tied.nv)
        G[-1, 0], c[-1] = -0.7, 0.2
        J, gamma = rows_of(free, G @ q + c, G @ qd)
        M = G.T @ dynamics.crba(free, G @ q + c) @ G
        h = G.T @ dynamics.bias(free, G @ q + c, G @ qd)
        J = J @ G
        K = np.block([[M, -J.T], [J, 1e-3 * np.eye(len(J))]])
        want = np.linalg.solve(K, np.concatenate([tau - h, -gamma]))
        qdd, force = dynamics.constraint_dynamics(tied, q, qd, tau, None, 1e-3)
        assert relative_error(qdd, want[: tied.nv]) < 1e-10
        assert relative_error(force, want[tied.nv :]) < 1e-10


def difference(
    model: Model, function: Callable[..., Sequence[Array]], arguments: Sequence[Array], which: int
) -> list[Array]:
    """Return central differences of results by an argument, along tangents of positions."""
    h, columns = 1e-6, []
    for k in range(model.nv):
        step = np.zeros(model.nv)
        step[k] = h
        ends = []
        for sign in (1.0, -1.0):
            moved = list(arguments)
            if which == 0:
                moved[0] = dynamics.integrate(model, arguments[0], sign * step)
            else:
                moved[which] = arguments[which] + sign * step
            ends.append(function(model, *moved))
        columns.append([(a - b) / (2.0 * h) for a, b in zip(*ends, strict=True)])
    return [np.stack(parts, axis=1) for parts in zip(*columns, strict=True)]


@pytest.mark.parametrize(
    ("name", "reference"),
    some_rows(
        [(name, reference) for name in ROBOTS for reference in ("local", "local_world_aligned")],
        lambda name, reference: (
            (name, reference)
            in {
                *(("hyq 6d", "local_world_aligned"), ("on the base 3d", "local_world_aligned")),
                *(("along 6d", "local"), ("tree 1 6d", "local")),
                *(("tree 2 3d", "local"), ("tied tree 1 3d", "local_world_aligned")),
            }
        ),
    ),
)
def test_gradients_are_those_of_differences(name: str, reference: str) -> None:
    model, damping, frame = robot(name), 1e-2, {"reference": reference}
    q, qd, tau = (array[0] for array in states(model, 1, 2))

    def forward(*arguments: Any) -> Sequence[Array]:
        return dynamics.constraint_dynamics(*arguments, None, damping, **frame)

    gradient = dynamics.constraint_dynamics_derivatives(model, q, qd, tau, None, damping, **frame)
    for value, want in zip(gradient[:2], forward(model, q, qd, tau), strict=True):
        assert relative_error(value, want) < 1e-10
    for which, by in enumerate(("q", "qd", "tau")):
        dqdd, dforce = difference(model, forward, (q, qd, tau), which)
        assert relative_error(getattr(gradient, f"dqdd_d{by}"), dqdd) < 1e-6, by
        assert relative_error(getattr(gradient, f"dforce_d{by}"), dforce) < 1e-6, by

    def impact(*arguments: Any) -> Sequence[Array]:
        return dynamics.impulse_dynamics(*arguments, None, damping, 0.3, **frame)

    jump = dynamics.impulse_dynamics_derivatives(model, q, qd, None, damping, 0.3, **frame)
    for value, want in zip(jump[:2], impact(model, q, qd), strict=True):
        assert relative_error(value, want) < 1e-10
    for which, by in enumerate(("q", "qd")):
        after, impulse = difference(model, impact, (q, qd), which)
        assert relative_error(getattr(jump, f"dqd_after_d{by}"), after) < 1e-6, by
        assert relative_error(getattr(jump, f"dimpulse_d{by}"), impulse) < 1e-6, by
    if reference == "local_world_aligned":
        return

    def acceleration(*arguments: Any) -> Sequence[Array]:
        return (dynamics.contact_acceleration(*arguments).acceleration,)

    result = dynamics.contact_acceleration(model, q, qd, tau)
    for which, by in enumerate(("q", "qd")):
        (change,) = difference(model, acceleration, (q, qd, tau), which)
        assert relative_error(getattr(result, f"dacceleration_d{by}"), change) < 1e-6, by


@pytest.mark.parametrize("name", ["hyq 6d", "on the base 3d", "along 6d"])
def test_forces_in_base_axes_are_those_of_the_first_frame(name: str) -> None:
    model = robot(name)
    q, qd, tau = (array[0] for array in states(model, 1, 6))
    arguments = (model, q, qd, tau, None, 1e-3)
    qdd, local = dynamics.constraint_dynamics(*arguments)
    same, turned = dynamics.constraint_dynamics(*arguments, reference="local_world_aligned")
    start = 0
    for contact in contacts_of(model):
        R = dynamics.frame_placement(model, q, contact.name)[0]
        for half in range(start, start + contact.size, 3):
            want = R @ local[half : half + 3]
            assert relative_error(turned[half : half + 3], want) < 1e-12
        start += contact.size
    assert relative_error(same, qdd) < 1e-12


def test_an_impact_does_not_open_a_loop() -> None:
    model = robot("hyq 6d")
    q, qd, _ = (array[0] for array in states(model, 1, 3))
    damping = 1e-9
    after, _ = dynamics.impulse_dynamics(model, q, qd, None, damping, 0.4)
    J, _ = rows_of(model, q, qd)
    assert np.abs(J[3:] @ after).max() < 1e-6
    assert np.abs(J[:3] @ (after + 0.4 * qd)).max() < 1e-6


@pytest.mark.parametrize("kind", ["3d", "6d"])
def test_a_loop_does_not_change_the_momentum(kind: str) -> None:
    """Its forces are internal, also where the frames have drifted apart."""
    model = replace(robot(f"hyq {kind}"), contacts=())
    q, qd, _ = (array[0] for array in states(model, 1, 4))
    tau = np.zeros(model.nv)
    tau[6:] = 30.0 * np.random.default_rng(4).normal(size=model.nv - 6)
    loose = dynamics.aba(replace(model, loops=()), q, qd, tau)
    qdd, force = dynamics.constraint_dynamics(model, q, qd, tau, None, 1e-3)
    assert np.abs(force).max() > 10.0
    M = dynamics.crba(model, q)
    assert np.abs(M[:6] @ (qdd - loose)).max() < 1e-10 * np.abs(M[:6] @ loose).max()


@pytest.mark.parametrize("name", ["hyq 3d", "tree 3 6d", "along 3d"])
def test_an_open_loop_is_as_if_it_were_not_there(name: str) -> None:
    model = robot(name)
    q, qd, tau = (array[0] for array in states(model, 1, 5))
    active = np.ones(len(contacts_of(model)))
    active[-1] = 0.0
    qdd, force = dynamics.constraint_dynamics(model, q, qd, tau, active, 1e-3)
    size = contacts_of(model)[-1].size
    assert not force[-size:].any()
    left = replace(model, loops=model.loops[:-1])
    if contacts_of(left):
        want, others = dynamics.constraint_dynamics(left, q, qd, tau, None, 1e-3)
        assert relative_error(force[:-size], others) < 1e-12
    else:
        want = dynamics.aba(left, q, qd, tau)
    assert relative_error(qdd, want) < 1e-11


def _without_turns(self: Any, by_q: Any, motion: Any) -> None:
    """The first frame's axes as if they did not turn in the second body."""


@pytest.mark.parametrize("broken", ["axes of rows", "axes of forces"])
def test_a_broken_gradient_is_noticed(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if broken == "axes of rows":
        monkeypatch.setattr(LoopMotion, "_add_turns", _without_turns)
    else:
        monkeypatch.setattr("pinion.dynamics.loops.axis_motion", lambda axis, x: (ZERO, ZERO))
    with pytest.raises(AssertionError):
        test_gradients_are_those_of_differences("tree 1 6d", "local")


# -- a mechanism by hand ---------------------------------------------------------------------------

LENGTHS = (0.3, 0.8, 0.5)
GROUND = 0.7
ENDS = (f"coupler@{LENGTHS[1]},0,0", f"rocker@{LENGTHS[2]},0,0")
"""Frames of its coupler and its rocker that meet."""


def four_bar(*, welded_tip: bool = False) -> Model:
    """A four-bar linkage in the plane of x and z: crank and coupler, and a rocker."""
    crank, coupler, rocker = LENGTHS
    links = "".join(
        f'<link name="{name}"><inertial><origin xyz="{length / 2} 0 0"/><mass value="{mass}"/>'
        '<inertia ixx="0.01" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial></link>'
        for name, length, mass in (
            ("crank", crank, 1.0),
            ("coupler", coupler, 2.0),
            ("rocker", rocker, 1.5),
        )
    )
    joints = "".join(
        f'<joint name="{child}_joint" type="continuous"><parent link="{parent}"/>'
        f'<child link="{child}"/><origin xyz="{x} 0 0"/><axis xyz="0 1 0"/></joint>'
        for child, parent, x in (
            ("crank", "ground", 0.0),
            ("coupler", "crank", crank),
            ("rocker", "ground", GROUND),
        )
    )
    text = f'<robot name="four_bar"><link name="ground"/>{links}{joints}</robot>'
    return with_loops(load_text(text), ((*ENDS, "6d" if welded_tip else "3d"),))


def closed_angles(crank_angle: float) -> Array:
    """Return angles (crank, coupler, rocker) about y at which the linkage is closed."""
    crank, coupler, rocker = LENGTHS
    tip = crank * np.exp(-1j * crank_angle)  # x + i z; turning about y carries x to -z
    to_ground = GROUND - tip
    reach = abs(to_ground)
    cosine = (coupler**2 + reach**2 - rocker**2) / (2 * coupler * reach)
    coupler_direction = to_ground / reach * np.exp(1j * np.arccos(cosine))
    end = tip + coupler * coupler_direction - GROUND
    coupler_angle = -np.angle(coupler_direction)
    return np.array([crank_angle, coupler_angle - crank_angle, -np.angle(end)])


def test_a_four_bar_moves_as_its_reduced_model() -> None:
    """One coordinate s with q = f(s): f' (M f' s'' + M f'' s'^2 + h - tau) = 0."""
    model = four_bar()
    for s, rate in ((0.4, 1.5), (2.0, -3.0), (4.5, 0.7)):
        d = 1e-4
        q = closed_angles(s)
        around = [np.unwrap([b, a])[1] for a, b in zip(closed_angles(s + d), q, strict=True)]
        before = [np.unwrap([b, a])[1] for a, b in zip(closed_angles(s - d), q, strict=True)]
        first = (np.array(around) - before) / (2 * d)
        second = (np.array(around) - 2 * q + before) / d**2
        qd = first * rate
        tau = np.array([2.0, 0.0, 0.0])
        M, h = dynamics.crba(model, q), dynamics.bias(model, q, qd)
        inertia = first @ M @ first
        s_dd = first @ (tau - h - M @ second * rate**2) / inertia
        # The loop holds x and z; y of the plane is redundant and takes a damping.
        qdd, force = dynamics.constraint_dynamics(model, q, qd, tau, None, 1e-9)
        assert relative_error(qdd, first * s_dd + second * rate**2) < 1e-5
        assert abs(force[1]) < 1e-6 < np.abs(force[[0, 2]]).max()
        # The power of the loop's force is zero.
        J, _ = rows_of(model, q, qd)
        assert abs(force @ J @ qd) < 1e-6 * np.abs(force).max()


def test_redundant_loops_have_finite_results_with_damping() -> None:
    """Five of six rows of a rigid joint are redundant in a plane, or held twice."""
    model = four_bar(welded_tip=True)
    q = closed_angles(0.4)
    qd, tau = np.zeros(3), np.array([2.0, 0.0, 0.0])
    qdd, force = dynamics.constraint_dynamics(model, q, qd, tau, None, 1e-6)
    gradient = dynamics.constraint_dynamics_derivatives(model, q, qd, tau, None, 1e-6)
    for array in (qdd, force, *gradient):
        assert np.isfinite(array).all()
    assert np.abs(qdd).max() < 1e-3, "a weld leaves a four-bar no freedom"
    with pytest.raises(DynamicsError, match="redundant"):
        dynamics.constraint_dynamics(model, q, qd, tau)


# -- Pinocchio and MuJoCo --------------------------------------------------------------------------


def pinocchio_four_bar(model: Model) -> tuple[Any, Any]:
    built = pin.Model()
    built.gravity.linear = np.array(model.gravity)
    joints = []
    for body in model.bodies:
        tree = body.joint.tree
        place = pin.SE3(np.array(tree.E).T, np.array(tree.r))
        parent = 0 if body.parent < 0 else joints[body.parent]
        joint = built.addJoint(parent, pin.JointModelRZ(), place, body.joint.name)
        joints.append(joint)
        m, h = body.inertia.mass, np.array(body.inertia.h)
        xx, xy, xz, yy, yz, zz = body.inertia.I
        about_origin = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        com = h / m
        central = about_origin + m * pin.skew(com) @ pin.skew(com)
        built.appendBodyToJoint(joint, pin.Inertia(m, com, central), pin.SE3.Identity())
    (loop,) = loops_of(model)
    assert loop.partner is not None
    places = [
        pin.SE3(np.array(frame.placement.E).T, np.array(frame.placement.r))
        for frame in (loop, loop.partner)
    ]
    kind = pin.ContactType.CONTACT_3D if loop.size == 3 else pin.ContactType.CONTACT_6D
    constraint = pin.RigidConstraintModel(
        kind, built, joints[loop.body], places[0], joints[loop.partner.body], places[1],
        pin.ReferenceFrame.LOCAL,
    )  # fmt: skip
    return built, constraint


def test_pinocchio_agrees_where_the_loop_is_closed() -> None:
    model = four_bar()
    built, constraint = pinocchio_four_bar(model)
    for s, rate in ((0.4, 1.5), (2.0, -3.0)):
        q, d = closed_angles(s), 1e-6
        after, before = closed_angles(s + d), closed_angles(s - d)
        qd = np.array(
            [np.unwrap(pair)[1] - np.unwrap(pair)[0] for pair in zip(before, after, strict=True)]
        )
        qd *= rate / (2 * d)
        tau = np.array([2.0, 1.0, -1.0])
        damping = 1e-8
        qdd, force = dynamics.constraint_dynamics(model, q, qd, tau, None, damping)
        data, of_loop = built.createData(), constraint.createData()
        pin.initConstraintDynamics(built, data, [constraint], [of_loop])
        settings = pin.ProximalSettings(1e-14, 1e-14, damping, 1)
        want = pin.constraintDynamics(built, data, q, qd, tau, [constraint], [of_loop], settings)
        assert relative_error(qdd, want) < 1e-6
        lambda_c = of_loop.contact_force.linear
        assert relative_error(force[[0, 2]], lambda_c[[0, 2]]) < 1e-6


MJCF = f"""<mujoco><option gravity="0 0 -9.81"><flag contact="disable"/></option><worldbody>
<body name="crank"><joint name="crank_joint" axis="0 1 0"/>
<inertial pos="0.15 0 0" mass="1" fullinertia="0.01 0.02 0.02 0 0 0"/>
<body name="coupler" pos="0.3 0 0"><joint name="coupler_joint" axis="0 1 0"/>
<inertial pos="0.4 0 0" mass="2" fullinertia="0.01 0.02 0.02 0 0 0"/>
<site name="tip" pos="0.8 0 0"/>
</body></body>
<body name="rocker" pos="{GROUND} 0 0"><joint name="rocker_joint" axis="0 1 0"/>
<inertial pos="0.25 0 0" mass="1.5" fullinertia="0.01 0.02 0.02 0 0 0"/>
<site name="end" pos="0.5 0 0"/>
</body></worldbody><equality>EQUALITY</equality></mujoco>"""

CONNECT = '<connect site1="tip" site2="end" solref="0.002 1" solimp="0.9999 0.9999 0.001"/>'


def mjcf(folder: Path, equality: str, name: str = "four_bar.xml") -> Path:
    file = folder / name
    file.write_text(MJCF.replace("EQUALITY", equality))
    return file


def test_mujoco_with_a_stiff_connect_agrees(tmp_path: Path) -> None:
    file = mjcf(tmp_path, CONNECT)
    model, compiled = load(file), mujoco.MjModel.from_xml_path(str(file))
    assert model.loops == (("coupler@0.8,0.0,0.0", "rocker@0.5,0.0,0.0", "3d"),)
    assert any("functions in contact keep this loop (3d) closed" in note for note in model.notes)
    data = mujoco.MjData(compiled)
    q = closed_angles(0.4)
    data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q, 0.0, (2.0, 1.0, -1.0)
    mujoco.mj_forward(compiled, data)
    assert int(data.nefc) == 3
    qdd, force = dynamics.constraint_dynamics(model, q, np.zeros(3), data.qfrc_applied, None, 1e-9)
    assert relative_error(qdd, np.array(data.qacc)) < 1e-3
    base, _ = dynamics.constraint_dynamics(
        four_bar(), q, np.zeros(3), data.qfrc_applied, None, 1e-9
    )
    assert relative_error(qdd, base) < 1e-12
    assert np.abs(force).max() > 1.0


def test_mjcf_welds_and_anchors_are_read_as_mujoco_places_them(tmp_path: Path) -> None:
    weld = mjcf(tmp_path, '<weld body1="coupler" body2="rocker" anchor="0.1 0.2 0.3"/>')
    model, compiled = load(weld), mujoco.MjModel.from_xml_path(str(weld))
    (loop,) = loops_of(model)
    assert loop.size == 6 and loop.partner is not None
    data = mujoco.MjData(compiled)
    mujoco.mj_forward(compiled, data)
    # At qpos0 both frames are at one place: that is how MuJoCo makes the anchor.
    places = [
        dynamics.frame_placement(model, np.zeros(3), name)[1]
        for name in (loop.name, loop.partner.name)
    ]
    assert np.abs(places[0] - places[1]).max() < 1e-12
    assert np.abs(np.array(data.efc_pos)).max() < 1e-12
    text = MJCF.replace("<site", '<body name="hook"/><site', 1)
    (tmp_path / "same.xml").write_text(
        text.replace("EQUALITY", '<connect body1="coupler" body2="hook" anchor="0 0 0"/>')
    )
    same = load(tmp_path / "same.xml")  # the hook is part of the coupler
    assert not same.loops and not any("keep this loop" in note for note in same.notes)
    world = load(mjcf(tmp_path, '<connect body1="rocker" anchor="0.5 0 0"/>', "world.xml"))
    assert loops_of(world)[0].partner is not None
    assert loops_of(world)[0].partner.body == -1  # type: ignore[union-attr]
    for equality in (
        '<connect body1="rocker" anchor="0 0 0" active="false"/>',
        '<joint joint1="crank_joint"/>',
    ):
        left_out = load(mjcf(tmp_path, equality, "left_out.xml"))
        assert not left_out.loops
        assert any("equality" in note for note in left_out.notes), equality


# -- loading and refusals --------------------------------------------------------------------------


def test_loops_survive_files_and_edits_drop_them_with_a_note() -> None:
    model = four_bar()
    assert model_from_dict(model_to_dict(model)) == model
    for less in (lock_joints(model, {"rocker_joint": 0.3}), cut_to_tip(model, "coupler")):
        note = (
            "The loop of 'coupler@0.8,0,0' and 'rocker@0.5,0,0' was left out: its frames do not "
            "belong to two bodies of the robot."
        )
        if less.loops:
            assert note not in less.notes and loops_of(less)[0].partner.body == -1  # type: ignore[union-attr]
        else:
            assert note in less.notes
    assert not cut_to_tip(model, "coupler").loops


@pytest.mark.parametrize(
    ("loops", "message"),
    [
        ((("crank", "nobody"),), "There is no link"),
        (
            (("crank", "crank@0,0,1", "3d"),),
            "does not connect two bodies: both frames belong to the body 'crank'",
        ),
        ((("ground", "ground@1,0,0"),), "both frames belong to the base"),
        ((("crank", "rocker", "4d"),), "The loops cannot be"),
        ((("crank",),), "The loops cannot be"),
        ("crank", "The loops cannot be"),
        ((("crank", "rocker"), ("crank", "rocker", "3d")), "repeated"),
    ],
)
def test_a_wrong_loop_is_refused(loops: Any, message: str) -> None:
    with pytest.raises(RobotError, match=message):
        with_loops(four_bar(), loops)


def test_a_mask_has_an_element_for_each_contact_and_loop() -> None:
    model = robot("hyq 3d")
    q, qd, tau = (array[0] for array in states(model, 1, 1))
    with pytest.raises(DynamicsError, match="loops of 'hyq' pass \\(3,\\)"):
        dynamics.constraint_dynamics(model, q, qd, tau, [1, 1])
