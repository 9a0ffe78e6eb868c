"""Placements, Jacobians, velocities and centres of mass, against Pinocchio and complex steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.dynamics import DynamicsError, kinematics
from pinion.robot import builtin_names, load, load_text, random_tree, urdf_text
from pinion.robot.model import Model
from tests.dynamics import pinocchio_adaptor
from tests.dynamics.models import planar_arm, random_states, relative_error
from tests.dynamics.symbols import Symbol, count
from tests.support.breadth import some

Array = NDArray[np.float64]

TOLERANCE = 1e-10
STEP = 1e-30  # Complex steps are exact to rounding at any size.
PINOCCHIO = {
    "world": pin.ReferenceFrame.WORLD,
    "local": pin.ReferenceFrame.LOCAL,
    "local_world_aligned": pin.ReferenceFrame.LOCAL_WORLD_ALIGNED,
}
ROBOTS = [*builtin_names(), "pendulum", "two_link"]
REFERENCE = {name: name for name in kinematics.REFERENCES}
SEEDS = range(20)


def tree(seed: int) -> tuple[Model, str, np.random.Generator]:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    urdf = random_tree(rng, int(rng.integers(1, 15)), prismatic=True, continuous=seed % 2 == 1)
    return load_text(urdf), urdf, rng


def angular_first(matrix: Array, columns: int) -> Array:
    # Pinocchio returns a Jacobian of one column as a vector.
    matrix = np.reshape(matrix, (6, columns))
    return np.concatenate([matrix[3:], matrix[:3]])


def check_against_pinocchio(model: Model, urdf: str, rng: np.random.Generator) -> None:
    oracle = pinocchio_adaptor.from_urdf(urdf, model.joint_names)
    q, qd, _ = random_states(rng, model, 3)
    order = [joint.idx_v for joint in oracle.joints]
    expected: defaultdict[tuple[str, str], list[Array]] = defaultdict(list)
    for k in range(len(q)):
        position, rate = oracle.position(q[k]), np.zeros(oracle.model.nv)
        rate[order] = qd[k]
        pin.forwardKinematics(oracle.model, oracle.data, position, rate)
        pin.computeJointJacobians(oracle.model, oracle.data, position)
        pin.updateFramePlacements(oracle.model, oracle.data)
        for frame in model.frames:
            number = oracle.model.getFrameId(frame.name, pin.FrameType.BODY)
            placement = oracle.data.oMf[number]
            expected[frame.name, "R"].append(placement.rotation.copy())
            expected[frame.name, "p"].append(placement.translation.copy())
            for name, constant in PINOCCHIO.items():
                J = pin.getFrameJacobian(oracle.model, oracle.data, number, constant)
                v = pin.getFrameVelocity(oracle.model, oracle.data, number, constant).vector
                expected[frame.name, f"J {name}"].append(angular_first(J, model.nv)[:, order])
                expected[frame.name, f"v {name}"].append(angular_first(v, 1)[:, 0])
    for (name, quantity), values in expected.items():
        kind, _, reference = quantity.partition(" ")
        if kind in "Rp":
            actual = dict(zip("Rp", dynamics.frame_placement(model, q, name), strict=True))[kind]
        elif kind == "J":
            actual = dynamics.frame_jacobian(model, q, name, reference=REFERENCE[reference])
        else:
            actual = dynamics.frame_velocity(model, q, qd, name, reference=REFERENCE[reference])
        # Velocities of tens of m/s need a relative bound, the others are of the order of one.
        scale = max(1.0, float(np.max(np.abs(values)))) if kind == "v" else 1.0
        assert np.max(np.abs(actual - np.array(values))) < TOLERANCE * scale, (name, quantity)


@pytest.mark.parametrize("name", ROBOTS)
def test_frames_of_named_robots_agree_with_pinocchio(name: str) -> None:
    print("seed 5")
    check_against_pinocchio(load(name), urdf_text(name), np.random.default_rng(5))


@pytest.mark.parametrize("seed", some(SEEDS, 8))
def test_frames_of_random_trees_agree_with_pinocchio(seed: int) -> None:
    check_against_pinocchio(*tree(seed))


def check_com_against_pinocchio(model: Model, urdf: str, rng: np.random.Generator) -> None:
    oracle = pinocchio_adaptor.from_urdf(urdf, model.joint_names)
    q, _, _ = random_states(rng, model, 5)
    order = [joint.idx_v for joint in oracle.joints]
    com, jacobian = [], []
    for state in q:
        position = oracle.position(state)
        com.append(pin.centerOfMass(oracle.model, oracle.data, position).copy())
        J = pin.jacobianCenterOfMass(oracle.model, oracle.data, position)
        jacobian.append(np.reshape(J, (3, model.nv))[:, order])
    assert np.max(np.abs(dynamics.centre_of_mass(model, q) - np.array(com))) < TOLERANCE
    assert np.max(np.abs(dynamics.com_jacobian(model, q) - np.array(jacobian))) < TOLERANCE


@pytest.mark.parametrize("name", ROBOTS)
def test_centre_of_mass_of_named_robots_agrees_with_pinocchio(name: str) -> None:
    print("seed 6")
    check_com_against_pinocchio(load(name), urdf_text(name), np.random.default_rng(6))


@pytest.mark.parametrize("seed", some(SEEDS, 8))
def test_centre_of_mass_of_random_trees_agrees_with_pinocchio(seed: int) -> None:
    check_com_against_pinocchio(*tree(seed))


def complex_derivative(function: Callable[[list[Any]], Any], q: Array) -> Array:
    """Return the derivative of arrays by each joint, with the joint as the last axis."""
    columns = []
    for k in range(len(q)):
        stepped = [complex(x) for x in q + 1j * STEP * np.eye(len(q))[k]]
        columns.append(np.imag(np.array(function(stepped), dtype=complex)) / STEP)
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("seed", some(SEEDS, 8))
def test_jacobian_is_the_derivative_of_the_placement(seed: int) -> None:
    model, _, rng = tree(seed)
    (q,), _, _ = random_states(rng, model, 1)
    for frame in model.frames:
        R, p = dynamics.frame_placement(model, q, frame.name)
        dR = complex_derivative(
            lambda x, name=frame.name: kinematics.frame_placement_scalars(model, x, name)[0], q
        )
        dp = complex_derivative(
            lambda x, name=frame.name: kinematics.frame_placement_scalars(model, x, name)[1], q
        )
        spin = np.einsum("abk,cb->ack", dR, R)  # [w_k]x = dR_k R^T
        w = np.array([spin[2, 1], spin[0, 2], spin[1, 0]])
        aligned = np.concatenate([w, dp])
        world = np.concatenate([w, dp + np.cross(p, w, axisb=0, axisc=0)])
        local = np.concatenate([R.T @ w, R.T @ dp])
        for name, expected in zip(kinematics.REFERENCES, (world, local, aligned), strict=True):
            J = dynamics.frame_jacobian(model, q, frame.name, reference=name)
            assert np.max(np.abs(J - expected)) < 1e-12, (frame.name, name)


@pytest.mark.parametrize("seed", some(SEEDS, 8))
def test_com_jacobian_is_the_derivative_of_the_centre_of_mass(seed: int) -> None:
    model, _, rng = tree(seed)
    (q,), _, _ = random_states(rng, model, 1)
    expected = complex_derivative(lambda x: dynamics.centre_of_mass_scalars(model, x), q)
    assert np.max(np.abs(dynamics.com_jacobian(model, q) - expected)) < 1e-13


@pytest.mark.parametrize("seed", some(SEEDS, 8))
def test_velocity_is_the_jacobian_times_the_rates(seed: int) -> None:
    model, _, rng = tree(seed)
    q, qd, _ = random_states(rng, model, 4)
    for frame in model.frames:
        for reference in kinematics.REFERENCES:
            J = dynamics.frame_jacobian(model, q, frame.name, reference=reference)
            v = dynamics.frame_velocity(model, q, qd, frame.name, reference=reference)
            assert np.max(np.abs(np.einsum("nij,nj->ni", J, qd) - v)) < 1e-11


@pytest.mark.parametrize("name", ["iiwa14", "hyq"])
def test_weight_at_the_centre_of_mass_is_the_potential_energy(name: str) -> None:
    print("seed 7")
    model = load(name)
    q, _, _ = random_states(np.random.default_rng(7), model, 6)
    mass = sum(body.inertia.mass for body in model.bodies)
    weighed = -mass * dynamics.centre_of_mass(model, q) @ np.array(model.gravity)
    assert relative_error(dynamics.potential_energy(model, q), weighed) < 1e-13


def test_centre_of_mass_of_a_two_link_arm_is_its_closed_form() -> None:
    model = planar_arm((0.7, 0.4), (1.0, 3.0))
    a, b = 0.3, -1.1
    elbow = 0.7 * np.array([np.cos(a), np.sin(a), 0.0])
    tip = elbow + 0.4 * np.array([np.cos(a + b), np.sin(a + b), 0.0])
    assert dynamics.centre_of_mass(model, [a, b]) == pytest.approx((elbow + 3 * tip) / 4)


def test_a_link_of_the_base_does_not_move() -> None:
    model = load("iiwa14")
    q, qd, _ = random_states(np.random.default_rng(8), model, 2)
    R, p = dynamics.frame_placement(model, q, model.base_links[0])
    assert np.array_equal(R, np.stack([np.eye(3)] * 2))
    assert np.array_equal(p, np.zeros((2, 3)))
    for reference in kinematics.REFERENCES:
        J = dynamics.frame_jacobian(model, q, model.base_links[0], reference=reference)
        assert J.shape == (2, 6, 7)
        assert not J.any()
        v = dynamics.frame_velocity(model, q, qd, model.base_links[0], reference=reference)
        assert not v.any()


def test_one_state_and_batches_of_any_length_have_the_same_numbers() -> None:
    model = load("iiwa14")
    q, qd, _ = random_states(np.random.default_rng(9), model, 3)
    name = model.frames[-1].name
    for function, shape in (
        (lambda q, qd: dynamics.frame_placement(model, q, name)[0], (3, 3)),
        (lambda q, qd: dynamics.frame_placement(model, q, name)[1], (3,)),
        (lambda q, qd: dynamics.frame_jacobian(model, q, name), (6, 7)),
        (lambda q, qd: dynamics.frame_velocity(model, q, qd, name), (6,)),
        (lambda q, qd: dynamics.centre_of_mass(model, q), (3,)),
        (lambda q, qd: dynamics.com_jacobian(model, q), (3, 7)),
    ):
        batch = function(q, qd)
        assert batch.shape == (3, *shape)
        assert function(q[:0], qd[:0]).shape == (0, *shape)
        for k in range(3):
            single = function(q[k], qd[k])
            assert single.shape == shape
            assert np.max(np.abs(single - batch[k])) < 1e-15


def test_they_run_on_tracing_symbols() -> None:
    model = load("iiwa14")
    q = [Symbol("in", f"q{i}") for i in range(7)]
    J = kinematics.frame_jacobian_scalars(model, q, "iiwa_link_7", reference="local")
    counts = count([x for row in J for x in row if not isinstance(x, float)])
    assert 0 < counts["mul"] < 500


def test_errors_name_what_is_wrong() -> None:
    model = load("iiwa14")
    q = np.zeros(7)
    with pytest.raises(
        DynamicsError, match=r"no link or fixed joint 'iiwa_link_77' .*'iiwa_link_7'"
    ):
        dynamics.frame_placement(model, q, "iiwa_link_77")
    with pytest.raises(DynamicsError, match=r"no link 'hand'"):
        dynamics.frame_jacobian(planar_arm((1.0,), (1.0,)), [0.0], "hand")
    with pytest.raises(DynamicsError, match=r"reference is 'body': choose 'world' or 'loc"):
        dynamics.frame_jacobian(model, q, "iiwa_link_7", reference="body")  # type: ignore[arg-type]
    with pytest.raises(DynamicsError, match=r"q has shape \(6,\)"):
        dynamics.centre_of_mass(model, q[:6])
    with pytest.raises(DynamicsError, match=r"qd\[3\] is nan"):
        dynamics.frame_velocity(model, q, np.where(np.arange(7) == 3, np.nan, 0.0), "iiwa_link_7")
    with pytest.raises(DynamicsError, match="total mass of 0 kg"):
        dynamics.com_jacobian(planar_arm((1.0,), (0.0,)), [0.0])
