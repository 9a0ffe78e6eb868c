"""Models from Pinocchio's models, and conversion between the two orders."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from pinion.dynamics import rnea
from pinion.robot import (
    Model,
    RobotError,
    builtin_names,
    from_pinocchio,
    load,
    load_text,
    q_from_pinocchio,
    q_to_pinocchio,
    random_tree,
    urdf_text,
    v_permutation,
)
from tests.robot.kinematics import frames, pinocchio_frames, pinocchio_q
from tests.robot.oracle import rnea_error
from tests.robot.test_robot_errors import check

NAMED = (*builtin_names(), "pendulum", "two_link", "chain_7")


def same(ours: Model, theirs: Model, tolerance: float) -> None:
    """Check that both have the same bodies, up to their order, in every number."""
    by_name = {body.joint.name: (k, body) for k, body in enumerate(theirs.bodies)}
    assert by_name.keys() == set(ours.joint_names)
    for number, a in enumerate(ours.bodies):
        other, b = by_name[a.joint.name]
        assert (a.name, set(a.links)) == (b.name, set(b.links))
        above = [m.bodies[c.parent].name if c.parent >= 0 else "" for m, c in
                 ((ours, a), (theirs, b))]  # fmt: skip
        assert above[0] == above[1]
        for key in ("kind", "continuous", "lower", "upper", "velocity", "effort", "damping",
                    "friction", "armature"):  # fmt: skip
            assert getattr(a.joint, key) == getattr(b.joint, key), (a.joint.name, key)
        assert ours.rated_velocity[number] == theirs.rated_velocity[other]
        near = dict(rtol=0, atol=tolerance, err_msg=a.name)
        np.testing.assert_allclose(a.joint.tree.E, b.joint.tree.E, **near)
        np.testing.assert_allclose(a.joint.tree.r, b.joint.tree.r, **near)
        scale = max(1.0, float(np.max(np.abs(b.inertia.I))))
        np.testing.assert_allclose(a.inertia.mass, b.inertia.mass, rtol=1e-14)
        np.testing.assert_allclose(a.inertia.h, b.inertia.h, **(near | {"atol": tolerance * scale}))
        np.testing.assert_allclose(a.inertia.I, b.inertia.I, **(near | {"atol": tolerance * scale}))
    assert set(ours.base_links) == set(theirs.base_links)
    placed = {frame.name: frame for frame in theirs.frames}
    assert placed.keys() == {frame.name for frame in ours.frames}
    for frame in ours.frames:
        expected = placed[frame.name].placement
        np.testing.assert_allclose(frame.placement.E, expected.E, rtol=0, atol=tolerance)
        np.testing.assert_allclose(frame.placement.r, expected.r, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", NAMED)
def test_named_robots_are_the_urdfs(name: str) -> None:
    other = pin.buildModelFromXML(urdf_text(name))
    model = from_pinocchio(other)
    read = load(name)
    rated = {b.joint.name: r for b, r in zip(read.bodies, read.rated_velocity, strict=True)}
    model_rated = tuple(rated[name] for name in model.joint_names)
    same(Model(**(vars(model) | {"rated_velocity": model_rated})), read, 1e-12)
    assert model.name == name
    assert model.gravity == read.gravity
    assert rnea_error(model, other, np.random.default_rng(1)) < 1e-12


@pytest.mark.parametrize("seed", range(30))
def test_random_trees_are_the_urdfs(seed: int) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    text = random_tree(rng, int(rng.integers(1, 14)), continuous=seed % 2 == 0)
    other = pin.buildModelFromXML(text)
    model = load(other)
    same(model, load_text(text), 1e-12)
    assert model.joint_names == tuple(other.names)[1:]
    assert rnea_error(model, other, rng) < 1e-12
    q = rng.uniform(-2.0, 2.0, model.nq)
    theirs = pinocchio_frames(other, q_to_pinocchio(model, other, q))
    for name, placement in frames(model, q).items():
        np.testing.assert_allclose(placement, theirs[name], rtol=0, atol=1e-12, err_msg=name)


def test_a_model_made_joint_by_joint() -> None:
    other = pin.Model()
    other.gravity.linear = np.array([0.0, -3.7, 0.0])
    first = other.addJoint(0, pin.JointModelRevoluteUnaligned(0.6, 0.0, 0.8), pin.SE3.Random(), "a")
    second = other.addJoint(first, pin.JointModelRUBY(), pin.SE3.Random(), "b")
    for number in (first, second):
        other.appendBodyToJoint(number, pin.Inertia.Random(), pin.SE3.Random())
    other.armature = np.array([0.25, 0.0])
    model = load(other, gravity=None)
    assert [body.name for body in model.bodies] == ["a", "b"]  # no frames: the joints' names
    assert model.gravity == (0.0, -3.7, 0.0)
    assert [body.joint.armature for body in model.bodies] == [0.25, 0.0]
    assert [body.joint.continuous for body in model.bodies] == [False, True]
    assert model.rated_velocity == (1.0, 1.0)
    other.armature = np.zeros(2)
    plain = load(other, gravity=(0.0, -3.7, 0.0))
    assert rnea_error(plain, other, np.random.default_rng(0)) < 1e-12
    other.rotorInertia, other.rotorGearRatio = np.array([0.0, 2e-4]), np.array([1.0, 50.0])
    (note,) = (n for n in load(other, gravity=None).notes if "rotor" in n)
    assert "'b' has a rotor of 0.5 kg m^2" in note and "as in Pinocchio" in note
    assert (
        rnea_error(load(other, gravity=(0.0, -3.7, 0.0)), other, np.random.default_rng(0)) < 1e-12
    )
    assert load(other, gravity=(0.0, 0.0, 1.0)).gravity == (0.0, 0.0, 1.0)
    assert load(other, lock={"b": 0.5}).joint_names == ("a",)


@pytest.mark.parametrize(
    "joint",
    [pin.JointModelSphericalZYX(), pin.JointModelTranslation()],
)
def test_other_joints_give_one_sentence(joint: object) -> None:
    other = pin.Model()
    other.appendBodyToJoint(
        other.addJoint(0, joint, pin.SE3.Identity(), "odd"), pin.Inertia.Random(), pin.SE3()
    )
    with pytest.raises(RobotError) as error:
        load(other)
    check(error, "'odd'", joint.shortname(), "not supported")  # type: ignore[attr-defined]


def test_bad_models_give_one_sentence() -> None:
    with pytest.raises(RobotError) as error:
        from_pinocchio(3.5)
    check(error, "3.5", "Pinocchio")
    with pytest.raises(RobotError) as error:
        load(3.5)  # type: ignore[arg-type]
    check(error, "3.5", "pinocchio.Model")
    with pytest.raises(RobotError) as error:
        load(pin.Model())
    check(error, "no moving joint")
    other = pin.buildModelFromXML(urdf_text("two_link"))
    other.inertias[2] = pin.Inertia.Zero()
    with pytest.raises(RobotError) as error:
        load(other)
    check(error, "'link_2'", "no inertia")


def test_gravity_that_turns_is_refused() -> None:
    other = pin.buildModelFromXML(urdf_text("two_link"))
    other.gravity.angular = np.array([0.0, 0.5, 0.0])
    with pytest.raises(RobotError) as error:
        load(other)
    check(error, "(0.0, 0.5, 0.0)", "angular", "zeros")
    assert load(other, gravity=(0.0, 0.0, -1.0)).gravity == (0.0, 0.0, -1.0)
    other.gravity.angular = np.zeros(3)
    assert load(other, gravity=None).gravity == (0.0, 0.0, -9.81)


def test_figures_that_differ_by_direction_have_a_note() -> None:
    other = pin.buildModelFromXML(urdf_text("two_link"))
    assert not any(" ways" in note for note in load(other).notes)
    if not hasattr(other, "lowerDryFrictionLimit"):
        pytest.skip("this release of Pinocchio has one figure for both directions")
    other.upperDryFrictionLimit = np.array([0.3, 0.2])
    other.lowerDryFrictionLimit = np.array([-0.7, -0.2])
    other.upperEffortLimit, other.lowerEffortLimit = np.array([[9.0, 9.0], [-9.0, -4.0]])
    other.upperVelocityLimit = np.array([3.0, 3.0])
    other.lowerVelocityLimit = np.array([-np.finfo(float).max, -3.0])  # none
    model = load(other)
    first, second = (body.joint for body in model.bodies)
    assert (first.friction, first.effort, first.velocity) == (0.7, 9.0, 3.0)
    assert (second.friction, second.effort, second.velocity) == (0.2, 4.0, 3.0)
    assert [note for note in model.notes if " directions" in note] == [
        f"Joint {first.name!r} has dry friction from -0.7 to 0.3; the larger of the two applies "
        "in both directions in the model.",
        f"Joint {second.name!r} has effort limits from -4 to 9; the smaller of the two applies "
        "in both directions in the model.",
    ]


def test_maps_go_there_and_back() -> None:
    rng = np.random.default_rng(7)
    text = random_tree(rng, 12, continuous=True)
    model, other = load_text(text), pin.buildModelFromXML(text)
    assert other.nq > model.nq
    order = v_permutation(model, other)
    assert sorted(order) == list(range(model.nv))
    assert list(order) != list(range(model.nv))
    q = rng.uniform(-3.0, 3.0, (4, model.nq))
    theirs = q_to_pinocchio(model, other, q)
    assert theirs.shape == (4, other.nq)
    for mine, row in zip(q, theirs, strict=True):
        np.testing.assert_array_equal(row, pinocchio_q(model, other, mine))
        np.testing.assert_array_equal(q_to_pinocchio(model, other, mine), row)
    np.testing.assert_allclose(q_from_pinocchio(model, other, theirs), q, rtol=0, atol=1e-14)
    np.testing.assert_allclose(q_from_pinocchio(model, other, theirs[1]), q[1], rtol=0, atol=1e-14)
    qd, qdd = rng.normal(size=(2, model.nv))
    rate, acceleration = np.zeros(other.nv), np.zeros(other.nv)
    rate[order], acceleration[order] = qd, qdd
    tau = pin.rnea(other, other.createData(), theirs[0], rate, acceleration)
    np.testing.assert_allclose(tau[order], rnea(model, q[0], qd, qdd), rtol=0, atol=1e-11)


def test_maps_refuse_other_robots_and_shapes() -> None:
    other = pin.buildModelFromXML(urdf_text("two_link"))
    for model, needle in ((load("pendulum"), "'joint_2'"), (load("iiwa14"), "'iiwa_joint_1'")):
        with pytest.raises(RobotError) as error:
            v_permutation(model, other)
        check(error, needle, "same moving joints")
    floating = pin.Model()
    for number, name in enumerate(load("two_link").joint_names):
        floating.addJoint(number, pin.JointModelSpherical(), pin.SE3.Identity(), name)
    with pytest.raises(RobotError) as error:
        v_permutation(load("two_link"), floating)
    check(error, "'joint_1'", "revolute", "nq 4", "nv 3")
    with pytest.raises(RobotError) as error:
        q_to_pinocchio(load("two_link"), other, np.zeros(3))
    check(error, "(3,)", "(2,)")
    with pytest.raises(RobotError) as error:
        q_from_pinocchio(load("two_link"), other, np.zeros((2, 2, 2)))
    check(error, "(2, 2, 2)", "(n, 2)")
