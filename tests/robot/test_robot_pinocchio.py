"""Every body, joint and frame against Pinocchio's reading of the same URDF."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from pinion.robot import Model, builtin_names, load, load_text, random_tree, urdf_text
from tests.robot.kinematics import frames, pinocchio_frames, pinocchio_q

NAMED = (*builtin_names(), "pendulum", "two_link", "chain_1", "chain_7")
# HyQ and Baxter publish pi / 2 with twelve digits; snapping moves them by 5e-12.
TOLERANCE = 1e-10


def full(tensor: tuple[float, ...]) -> np.ndarray:
    """Return the symmetric matrix of six entries."""
    xx, xy, xz, yy, yz, zz = tensor
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def compare(model: Model, other: pin.Model, rng: np.random.Generator) -> None:
    """Compare joints, limits, inertias, and all link frames at zero and at a random state."""
    assert sorted(model.joint_names) == sorted(other.names[1:])
    assert len(model.bodies) == other.njoints - 1
    place = {frame.name: np.array(frame.placement.E) for frame in model.frames}
    for body in model.bodies:
        number = other.getJointId(body.joint.name)
        parent = other.parents[number]
        assert (parent == 0) == (body.parent < 0)
        if parent:
            assert other.names[parent] == model.bodies[body.parent].joint.name
        expected = other.inertias[number]
        turn, mass = place[body.name], body.inertia.mass
        com = np.array(body.inertia.h) / mass
        shift = mass * (com @ com * np.eye(3) - np.outer(com, com))
        about_com = turn @ (full(body.inertia.I) - shift) @ turn.T
        scale = max(np.abs(expected.inertia).max(), mass * float(com @ com))
        np.testing.assert_allclose(mass, expected.mass, rtol=1e-14)
        np.testing.assert_allclose(turn @ com, expected.lever, rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(about_com, expected.inertia, rtol=0, atol=TOLERANCE * scale)
        if not body.joint.continuous:
            at = other.joints[number].idx_q
            limits = other.lowerPositionLimit[at], other.upperPositionLimit[at]
            assert (body.joint.lower, body.joint.upper) == limits
            speed = other.joints[number].idx_v
            assert body.joint.velocity == other.velocityLimit[speed]
            assert body.joint.effort == other.upperEffortLimit[speed]
    total = sum(inertia.mass for inertia in list(other.inertias)[1:])
    np.testing.assert_allclose(sum(b.inertia.mass for b in model.bodies), total, rtol=1e-14)
    for q in (np.zeros(model.nq), rng.uniform(-2.0, 2.0, model.nq)):
        ours = frames(model, q)
        theirs = pinocchio_frames(other, pinocchio_q(model, other, q))
        assert ours.keys() <= theirs.keys()
        for name, placement in ours.items():
            np.testing.assert_allclose(
                placement, theirs[name], rtol=0, atol=TOLERANCE, err_msg=name
            )
        check_com(model, other, q, ours)


def check_com(model: Model, other: pin.Model, q: np.ndarray, at: dict[str, np.ndarray]) -> None:
    """Compare the whole robot's centre of mass."""
    place = {frame.name: np.array(frame.placement.E) for frame in model.frames}
    moment, mass = np.zeros(3), 0.0
    for body in model.bodies:  # the moving link's frame shares its origin with the body's
        world = at[body.name]
        moment += world[:3, :3] @ place[body.name] @ body.inertia.h
        moment += body.inertia.mass * world[:3, 3]
        mass += body.inertia.mass
    expected = pin.centerOfMass(other, other.createData(), pinocchio_q(model, other, q))
    np.testing.assert_allclose(moment / mass, expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", NAMED)
def test_named_robots_agree_with_pinocchio(name: str) -> None:
    compare(load(name), pin.buildModelFromXML(urdf_text(name)), np.random.default_rng(1))


@pytest.mark.parametrize("seed", range(20))
def test_random_trees_agree_with_pinocchio(seed: int) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    joints = int(rng.integers(1, 14))
    text = random_tree(rng, joints, prismatic=seed % 4 != 0, continuous=seed % 2 == 0)
    model = load_text(text)
    assert model.nq == joints
    compare(model, pin.buildModelFromXML(text), rng)


def test_the_comparison_bites() -> None:
    text = random_tree(np.random.default_rng(3), 6)
    other = pin.buildModelFromXML(text)
    inertia = other.inertias[2]
    other.inertias[2] = pin.Inertia(inertia.mass, inertia.lever + 1e-6, inertia.inertia)
    with pytest.raises(AssertionError):
        compare(load_text(text), other, np.random.default_rng(3))
