"""Armature, damping, dry friction and springs: against Pinocchio, MuJoCo and closed forms."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.dynamics.joint_terms import FRICTION_WIDTH, joint_terms_of
from pinion.robot import load, load_text
from pinion.robot.library import urdf_text
from pinion.robot.model import Body, JointKind, Model
from tests.dynamics.general import oracle
from tests.dynamics.models import relative_error

Array = NDArray[np.float64]

HINGE = """<robot name="hinge"><link name="base"/><link name="arm"><inertial>
<origin xyz="0.1 0 0"/><mass value="1"/>
<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/></inertial></link>
<joint name="pin" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/>
<limit lower="-3" upper="3" effort="10" velocity="5"/>
<dynamics damping="0.3" friction="0.2"/><pinion armature="0.5" stiffness="4" rest="0.25"/></joint>
</robot>"""

ROBOTS = ("hinge", "iiwa14", "hyq", "floating hyq")


def with_terms(model: Model, seed: int, base: bool = True, *, higher: bool = False) -> Model:
    """Return the model with random figures at every joint, and at a floating base if ``base``.

    ``higher`` adds terms that only MJCF files have: higher-order damping and springs, and an
    armature of the base that acts on accelerations in base axes.
    """
    rng = np.random.default_rng(seed)

    def changed(body: Body) -> Body:
        kind, figures = body.joint.kind, rng.uniform(0.05, 0.5, 4)
        if kind.nv > 1 and not base:
            return body
        joint = replace(
            body.joint,
            armature=figures[0],
            damping=figures[1],
            friction=figures[2],
            stiffness=10.0 * figures[3] if kind.nq == 1 else 0.0,
            rest=figures[0],
            **(
                {
                    "damping_poly": (figures[2], -figures[0]),
                    "stiffness_poly": (figures[3], figures[1]) if kind.nq == 1 else (0.0, 0.0),
                    "armature_in_base": kind is JointKind.FREE_FLYER,
                }
                if higher
                else {}
            ),
        )
        return replace(body, joint=joint)

    return replace(model, bodies=tuple(map(changed, model.bodies)))


def robot(name: str) -> Model:
    if name == "hinge":
        return load_text(HINGE)
    floating = "floating" in name
    plain = load(name.split()[-1], floating_base=floating)
    return with_terms(plain, 3, higher=name.startswith("higher"))


def states(model: Model, count: int) -> tuple[Array, Array, Array]:
    """Return positions, rates, some of them within the width of friction, and accelerations."""
    print("seed 5")
    rng = np.random.default_rng(5)
    q = dynamics.random_configuration(model, rng, count)
    qd, qdd = rng.normal(size=(2, count, model.nv))
    slow = rng.uniform(size=qd.shape) < 0.4
    return q, np.where(slow, rng.uniform(-1.5, 1.5, qd.shape) * FRICTION_WIDTH, qd), qdd


def answers(model: Model, q: Array, qd: Array, qdd: Array) -> dict[str, Array]:
    """Return our results for the keys of :func:`oracle.answer`."""
    tau = dynamics.rnea(model, q, qd, qdd)
    by_q, by_qd = dynamics.rnea_derivatives(model, q, qd, qdd)
    forward = dynamics.fd_derivatives(model, q, qd, tau)
    return {
        "tau": tau,
        "dtau_dq": by_q,
        "dtau_dqd": by_qd,
        "M": dynamics.crba(model, q),
        "minv": dynamics.minv(model, q),
        "qdd": dynamics.aba(model, q, qd, tau),
        "dqdd_dq": forward.dqdd_dq,
        "dqdd_dqd": forward.dqdd_dqd,
        "kinetic": dynamics.kinetic_energy(model, q, qd),
    }


@pytest.mark.parametrize("name", ROBOTS)
def test_armature_is_pinocchios_in_every_function(name: str) -> None:
    model = robot(name)
    theirs = oracle.rebuilt(model)
    for state in zip(*states(model, 3), strict=True):
        expected, actual = oracle.answer(theirs, *state), answers(model, *state)
        actual["again"], expected["again"] = (
            dynamics.minv(model, state[0], method="aba"),
            expected["minv"],
        )
        for key, value in actual.items():
            assert relative_error(np.asarray(value), expected[key]) < 1e-10, key
    bare = replace(model, bodies=tuple(
        replace(b, joint=replace(b.joint, armature=0.0)) for b in model.bodies
    ))  # fmt: skip
    assert relative_error(dynamics.minv(bare, state[0]), expected["minv"]) > 1e-2


def test_a_hinge_of_paper_and_pencil() -> None:
    model = load_text(HINGE)
    inertia = 0.02 + 0.5
    assert dynamics.minv(model, [0.3]) == pytest.approx(1.0 / inertia, rel=1e-14)
    tau = inertia * 0.7 + 0.3 * 2.0 + 0.2 + 4.0 * (0.3 - 0.25)
    effort = dynamics.rnea(model, [0.3], [2.0], [0.7], joint_terms=True)
    assert effort == pytest.approx(tau, rel=1e-14)
    assert dynamics.rnea(model, [0.3], [2.0], [0.7]) == pytest.approx(inertia * 0.7, rel=1e-14)
    some = dynamics.rnea(model, [0.3], [2.0], [0.7], joint_terms=("stiffness", "damping"))
    assert some == pytest.approx(tau - 0.2, rel=1e-14)


@pytest.mark.parametrize("name", ["hinge", "iiwa14", "hyq"])
def test_armature_damping_and_springs_are_mujocos(name: str) -> None:
    mujoco = pytest.importorskip("mujoco", reason="the mujoco library (extra mjcf) is missing")
    model = robot(name)
    text = HINGE if name == "hinge" else urdf_text(name)
    options = '<mujoco><compiler fusestatic="true" balanceinertia="false"/></mujoco></robot>'
    compiled = mujoco.MjModel.from_xml_string(text.replace("</robot>", options))
    data = mujoco.MjData(compiled)
    compiled.jnt_limited[:] = 0
    compiled.dof_frictionloss[:] = 0  # a constraint in MuJoCo, not part of inverse dynamics
    places = [mujoco.mj_name2id(compiled, mujoco.mjtObj.mjOBJ_JOINT, n) for n in model.joint_names]
    assert sorted(places) == list(range(model.nv))
    for place, body in zip(places, model.bodies, strict=True):
        compiled.dof_armature[place] = body.joint.armature
        compiled.dof_damping[place] = body.joint.damping
        compiled.jnt_stiffness[place] = body.joint.stiffness
        compiled.qpos_spring[place] = body.joint.rest
    terms = ("damping", "stiffness")
    for q, qd, qdd in zip(*states(model, 5), strict=True):
        data.qpos[places], data.qvel[places], data.qacc[places] = q, qd, qdd
        mujoco.mj_inverse(compiled, data)
        tau = np.array(data.qfrc_inverse)[places]
        assert relative_error(dynamics.rnea(model, q, qd, qdd, joint_terms=terms), tau) < 1e-10
        data.qfrc_applied[places] = tau
        mujoco.mj_forward(compiled, data)
        accelerations = np.array(data.qacc)[places]
        assert (
            relative_error(dynamics.aba(model, q, qd, tau, joint_terms=terms), accelerations)
            < 1e-10
        )


@pytest.mark.parametrize("name", ["hinge", "iiwa14", "floating hyq"])
def test_friction_is_coulombs_outside_the_width_and_the_integral_of_its_slope(name: str) -> None:
    model = robot(name)
    q, qd, qdd = states(model, 8)
    friction = [b.joint.friction for b in model.bodies for _ in range(b.joint.kind.nv)]
    bare = dynamics.rnea(model, q, qd, qdd)
    friction_efforts = dynamics.rnea(model, q, qd, qdd, joint_terms="friction") - bare
    outside = np.abs(qd) > FRICTION_WIDTH
    assert outside.any() and not outside.all()
    np.testing.assert_allclose(
        friction_efforts[outside], (friction * np.sign(qd))[outside], atol=1e-12
    )
    jump = dynamics.rnea(model, q, qd, qdd, joint_terms="friction", friction_width=0.0) - bare
    np.testing.assert_allclose(jump, friction * np.sign(qd), atol=1e-12)
    terms = joint_terms_of(model, "friction", 0.2)
    rates = np.linspace(-0.3, 0.3, 2001)
    for k in range(model.nv):
        columns = [rates] * model.nv
        effort, slope = terms.effort(k, (), columns), terms.slope(k, columns)
        assert np.max(np.abs(np.gradient(effort, rates) - slope)) < 1e-3 * np.max(np.abs(slope))
        assert np.all(np.diff(np.asarray(effort)) >= -1e-15)


@pytest.mark.parametrize("name", ["iiwa14", "floating hyq", "higher iiwa14", "higher floating hyq"])
def test_gradients_with_all_terms_are_those_of_differences(name: str) -> None:
    model = robot(name)
    q, qd, qdd = (x[0] for x in states(model, 1))
    assert 0 < np.sum(np.abs(qd) < FRICTION_WIDTH) < model.nv
    tau = dynamics.rnea(model, q, qd, qdd, joint_terms=True)
    back = dynamics.aba(model, q, qd, tau, joint_terms=True)
    assert relative_error(back, qdd) < 1e-10
    h, steps = 1e-6, np.eye(model.nv)
    forward = dynamics.fd_derivatives(model, q, qd, tau, joint_terms=True)
    inverse = (*dynamics.rnea_derivatives(model, q, qd, qdd, joint_terms=True),)
    partial = dynamics.fd_derivatives_from_minv(model, q, qd, qdd, forward.minv, joint_terms=True)
    assert relative_error(partial[0], forward.dqdd_dq) < 1e-9
    assert relative_error(partial[1], forward.dqdd_dqd) < 1e-9
    many = np.broadcast_to
    for function, third, (by_q, by_qd) in (
        (dynamics.rnea, qdd, inverse),
        (dynamics.aba, tau, (forward.dqdd_dq, forward.dqdd_dqd)),
    ):
        same = many(q, (model.nv, model.nq)), many(qd, (model.nv, model.nv))
        x = many(third, (model.nv, model.nv))
        ends = [
            function(model, dynamics.integrate(model, same[0], s * h * steps), same[1], x,
                     joint_terms=True)
            for s in (1.0, -1.0)
        ]  # fmt: skip
        assert relative_error(by_q, ((ends[0] - ends[1]) / (2 * h)).T) < 1e-6
        ends = [
            function(model, same[0], same[1] + s * h * steps, x, joint_terms=True)
            for s in (1.0, -1.0)
        ]
        assert relative_error(by_qd, ((ends[0] - ends[1]) / (2 * h)).T) < 1e-6


@pytest.mark.parametrize(("base", "higher"), [(False, False), (True, False), (True, True)])
def test_the_shortcut_of_a_floating_base_knows_its_terms(base: bool, higher: bool) -> None:
    model = with_terms(load("hyq", floating_base=True), 4, base, higher=higher)
    q, qd, qdd = (x[0] for x in states(model, 1))
    tau = dynamics.rnea(model, q, qd, qdd, joint_terms=True)
    by_scalars = dynamics.fd_derivatives_scalars(
        model, list(q), list(qd), list(tau), joint_terms=True
    )
    by_arrays = dynamics.fd_derivatives(model, q, qd, tau, joint_terms=True)
    assert relative_error(np.array(by_scalars.dqdd_dq), by_arrays.dqdd_dq) < 1e-9
    assert relative_error(np.array(by_scalars.dqdd_dqd), by_arrays.dqdd_dqd) < 1e-9


@pytest.mark.parametrize(("name", "method"), [("iiwa14", "rk4"), ("floating hyq", "semi_implicit")])
def test_steps_of_a_simulation_have_the_terms(name: str, method: str) -> None:
    model = robot(name)
    q, qd, qdd = (x[0] for x in states(model, 1))
    tau = dynamics.rnea(model, q, qd, qdd, joint_terms=True)
    dt, options = 1e-4, {"method": method, "joint_terms": True}
    _, qd_next = dynamics.discrete_dynamics(model, q, qd, tau, dt, **options)  # type: ignore[arg-type]
    assert np.max(np.abs((qd_next - qd) / dt - qdd)) < (1e-8 if method == "semi_implicit" else 1.0)
    A, _ = dynamics.discrete_derivatives(model, q, qd, tau, dt, **options)  # type: ignore[arg-type]
    h, nv = 1e-6, model.nv
    rows = np.broadcast_to(q, (nv, model.nq)), np.broadcast_to(tau, (nv, nv))
    ends = [
        dynamics.discrete_dynamics(model, rows[0], qd + s * h * np.eye(nv), rows[1], dt, **options)  # type: ignore[arg-type]
        for s in (1.0, -1.0)
    ]
    np.testing.assert_allclose(A[nv:, nv:], ((ends[0][1] - ends[1][1]) / (2 * h)).T, atol=1e-6)


def test_the_minimal_model_has_the_same_terms() -> None:
    model = robot("iiwa14")
    q, qd, qdd = states(model, 4)
    lean = dynamics.minimal_model(model)
    expected = dynamics.rnea(model, q, qd, qdd, joint_terms=True)
    assert relative_error(dynamics.rnea(lean, q, qd, qdd, joint_terms=True), expected) < 1e-10
    assert relative_error(dynamics.crba(lean, q), dynamics.crba(model, q)) < 1e-10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"joint_terms": "drag"}, "'drag' is not a joint term: choose joint_terms from damping, "),
        ({"joint_terms": ["armature"]}, "'armature' is always included"),
        ({"joint_terms": True, "friction_width": -1.0}, "friction_width is -1.0"),
        ({"joint_terms": True, "friction_width": float("inf")}, "friction_width is inf"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(dynamics.DynamicsError, match=re.escape(message)):
        dynamics.rnea(load_text(HINGE), [0.0], [0.0], [0.0], **options)  # type: ignore[arg-type]


def test_a_spring_at_a_joint_of_several_positions_is_refused() -> None:
    model = load("hyq", floating_base=True)
    first = replace(model.bodies[0], joint=replace(model.bodies[0].joint, stiffness=3.0))
    model = replace(model, bodies=(first, *model.bodies[1:]))
    q, qd, qdd = (x[0] for x in states(model, 1))
    dynamics.rnea(model, q, qd, qdd, joint_terms="damping")
    with pytest.raises(
        dynamics.DynamicsError, match=r"free_flyer and has a spring, .*stiffness to 0,"
    ):
        dynamics.rnea(model, q, qd, qdd, joint_terms="stiffness")


def test_second_derivatives_know_the_higher_orders() -> None:
    model = robot("higher iiwa14")
    q, qd, qdd = (x[0] for x in states(model, 1))
    weights = np.linspace(0.5, 1.5, model.nv)
    terms = ("damping", "stiffness")
    second = dynamics.rnea_second_derivatives_scalars(
        model, list(q), list(qd), list(qdd), list(weights), joint_terms=terms
    )
    h, steps = 1e-5, np.eye(model.nv)

    def gradient(q: Array, qd: Array) -> tuple[Array, Array]:
        by_q, by_qd = dynamics.rnea_derivatives(model, q, qd, qdd, joint_terms=terms)
        return weights @ by_q, weights @ by_qd

    for moved, pair in ((0, ("q_q", "q_qd")), (1, ("q_qd", "qd_qd"))):
        ends = [
            [gradient(q + s * h * e * (1 - moved), qd + s * h * e * moved) for e in steps]
            for s in (1.0, -1.0)
        ]
        for which, name in enumerate(pair):
            expected = np.array(
                [(a[which] - b[which]) / (2 * h) for a, b in zip(*ends, strict=True)]
            )
            block = np.asarray(getattr(second, name))
            # q_qd has positions in its rows.
            expected = expected.T if (name, moved) == ("q_qd", 1) else expected
            assert relative_error(block, expected) < 1e-7, name


def test_a_free_body_that_turns_while_it_flies_straight_needs_no_force() -> None:
    """At 1 m/s along x in the base and 1 rad/s about z, its armature sees no acceleration."""
    model = with_terms(load("hyq", floating_base=True), 4, higher=True)
    model = replace(model, bodies=model.bodies[:1], gravity=(0.0, 0.0, 0.0), rated_velocity=())
    inertia = replace(model.bodies[0].inertia, h=(0.0, 0.0, 0.0), I=(0.1, 0.0, 0.0, 0.2, 0.0, 0.25))
    model = replace(model, bodies=(replace(model.bodies[0], inertia=inertia),), frames=())
    q, qd = [0.0] * 6 + [1.0], [1.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    # In the rotating body, the same velocity turns the other way.
    still = [0.0, -1.0, 0.0, 0.0, 0.0, 0.0]
    np.testing.assert_allclose(dynamics.rnea(model, q, qd, still), np.zeros(6), atol=1e-15)
    np.testing.assert_allclose(dynamics.aba(model, q, qd, np.zeros(6)), still, atol=1e-15)
    body = model.bodies[0]
    plain = replace(body, joint=replace(body.joint, armature_in_base=False))
    theirs = dynamics.rnea(replace(model, bodies=(plain,)), q, qd, still)
    assert theirs[1] == pytest.approx(-body.joint.armature)


def test_chains_refuse_an_armature_in_base_axes() -> None:
    from pinion.chains import Chain

    with pytest.raises(dynamics.DynamicsError, match="armature in the axes of the base"):
        Chain.of(robot("higher floating hyq"))
