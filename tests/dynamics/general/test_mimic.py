"""Mimic joints tied to their leaders, against Pinocchio's mimic joints and identities."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.dynamics import DynamicsError
from pinion.robot import load, load_text, random_tree
from pinion.robot.model import Mimic, Model
from tests.dynamics.general.oracle import with_terms
from tests.dynamics.models import relative_error

Array = NDArray[np.float64]


def tied(rng: np.random.Generator) -> tuple[str, Model]:
    """Return a random tree of six joints: the third follows the first, the last the fourth."""
    text = random_tree(rng, 6, prismatic=False, continuous=False)
    names = load_text(text).joint_names
    for follower, leader, tie in ((2, 0, "-0.7 0.2"), (5, 3, "1.5 0.0")):
        ratio, offset = tie.split()
        head, tail = text.split(f'<joint name="{names[follower]}"')
        joint_head, joint_tail = tail.split("</joint>", 1)
        mimic = f'<mimic joint="{names[leader]}" multiplier="{ratio}" offset="{offset}"/>'
        text = f'{head}<joint name="{names[follower]}"{joint_head}{mimic}</joint>{joint_tail}'
    return text, load_text(text)


# Pinocchio refuses trees in which a leader comes after its follower, as for seeds 1 and 6.
@pytest.mark.parametrize("seed", [0, 2, 3, 4, 5, 7])
def test_tied_joints_agree_with_pinocchio(seed: int) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    text, model = tied(rng)
    theirs = pin.buildModelFromXML(text, True)
    ours = dynamics.reduce_mimic(model)
    assert len(ours.joints) == 4
    joints = [theirs.joints[theirs.getJointId(name)] for name in ours.joints]
    order = np.array([joint.idx_v for joint in joints])
    q, qd, qdd = rng.uniform(-1.0, 1.0, (3, 4))
    state = np.zeros((3, 4))
    state[:, order] = q, qd, qdd
    data = theirs.createData()
    expected = np.array(pin.rnea(theirs, data, *state))[order]
    assert relative_error(ours.rnea(q, qd, qdd), expected) < 1e-11
    M = np.array(pin.crba(theirs, data, state[0]))
    M = (np.triu(M) + np.triu(M, 1).T)[np.ix_(order, order)]
    assert relative_error(ours.crba(q), M) < 1e-11


def test_a_chain_of_ties_keeps_its_identities() -> None:
    print("seed 12")
    rng = np.random.default_rng(12)
    _, model = tied(rng)
    bodies = list(model.bodies)
    names = model.joint_names
    # The last joint now follows the third, which follows the first.
    last = replace(bodies[5].joint, mimic=Mimic(joint=names[2], multiplier=2.0, offset=-0.1))
    bodies[5] = replace(bodies[5], joint=last)
    model = with_terms(replace(model, bodies=tuple(bodies)), rng)
    ours = dynamics.reduce_mimic(model)
    q, qd, qdd = rng.normal(size=(3, 2, 4))
    full = ours.positions(q)
    assert np.allclose(full[:, 2], -0.7 * q[:, 0] + 0.2)
    assert np.allclose(full[:, 5], 2.0 * full[:, 2] - 0.1)
    M = ours.crba(q)
    kinetic = 0.5 * np.einsum("ni,nij,nj->n", qd, M, qd)
    assert relative_error(kinetic, dynamics.kinetic_energy(model, full, ours.rates(qd))) < 1e-12
    for options in ({}, {"joint_terms": True, "friction_width": 0.5}):
        tau = ours.rnea(q, qd, qdd, **options)
        assert relative_error(ours.aba(q, qd, tau, **options), qdd) < 1e-10
        by_q, by_qd = ours.rnea_derivatives(q, qd, qdd, **options)
        forward = ours.fd_derivatives(q, qd, tau, **options)
        h = 1e-6
        for j, step in enumerate(h * np.eye(4)):
            for gradient, to in ((by_q, (step, 0.0)), (by_qd, (0.0, step))):
                ends = [ours.rnea(q + s * to[0], qd + s * to[1], qdd, **options) for s in (1, -1)]
                expected = (ends[0] - ends[1]) / (2.0 * h)
                assert np.max(np.abs(gradient[:, :, j] - expected)) < 1e-6 * max(
                    1.0, np.max(np.abs(expected))
                )
            for gradient, to in ((forward.dqdd_dq, (step, 0.0)), (forward.dqdd_dqd, (0.0, step))):
                ends = [ours.aba(q + s * to[0], qd + s * to[1], tau, **options) for s in (1, -1)]
                expected = (ends[0] - ends[1]) / (2.0 * h)
                assert np.max(np.abs(gradient[:, :, j] - expected)) < 1e-5 * max(
                    1.0, np.max(np.abs(expected))
                )


def test_a_floating_base_keeps_its_energy_with_tied_legs() -> None:
    print("seed 5")
    rng = np.random.default_rng(5)
    model = load("hyq", floating_base=True)
    bodies = list(model.bodies)
    leg = replace(bodies[6].joint, mimic=Mimic(joint=bodies[3].joint.name, multiplier=-1.0))
    bodies[6] = replace(bodies[6], joint=leg)
    model = replace(model, bodies=tuple(bodies))
    ours = dynamics.reduce_mimic(model)
    assert (ours.G.shape, ours.Gq.shape) == ((18, 17), (19, 18))
    q = np.delete(dynamics.random_configuration(model, rng), model.q_slices[6])
    qd, qdd = rng.normal(size=(2, 17))
    kinetic = dynamics.kinetic_energy(model, ours.positions(q), ours.rates(qd))
    assert np.isclose(0.5 * qd @ ours.crba(q) @ qd, kinetic, rtol=1e-12)
    assert relative_error(ours.aba(q, qd, ours.rnea(q, qd, qdd)), qdd) < 1e-9


def test_a_robot_without_ties_is_itself() -> None:
    print("seed 3")
    rng = np.random.default_rng(3)
    model = load_text(random_tree(rng, 5))
    ours = dynamics.reduce_mimic(model)
    assert ours.joints == model.joint_names
    assert np.array_equal(ours.G, np.eye(5))
    q, qd, qdd = rng.normal(size=(3, 5))
    assert relative_error(ours.rnea(q, qd, qdd), dynamics.rnea(model, q, qd, qdd)) < 1e-14


@pytest.mark.parametrize(
    ("ties", "message"),
    [
        ({0: "joint_9"}, "mimics 'joint_9', which is not a moving joint"),
        ({0: 1, 1: 2, 2: 0}, "form a cycle"),
    ],
)
def test_ties_that_lead_nowhere_are_named(ties: dict[int, int | str], message: str) -> None:
    model = load_text(random_tree(np.random.default_rng(0), 4))
    bodies = list(model.bodies)
    for k, leader in ties.items():
        name = leader if isinstance(leader, str) else model.joint_names[leader]
        joint = replace(bodies[k].joint, mimic=Mimic(joint=name))
        bodies[k] = replace(bodies[k], joint=joint)
    with pytest.raises(DynamicsError, match=message):
        dynamics.reduce_mimic(replace(model, bodies=tuple(bodies)))


def test_wrong_shapes_are_named() -> None:
    _, model = tied(np.random.default_rng(0))
    ours = dynamics.reduce_mimic(model)
    with pytest.raises(DynamicsError, match=r"q has shape \(6,\): pass \(4,\)"):
        ours.crba(np.zeros(6))
