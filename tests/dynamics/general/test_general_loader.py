"""Floating bases and URDF's joints of several degrees of freedom, from a file to a result."""

from __future__ import annotations

import json

import numpy as np
import pinocchio as pin
import pytest

from pinion import dynamics
from pinion.functions import named_function, sample
from pinion.robot import (
    RobotError,
    builtin_names,
    from_pinocchio,
    load,
    load_text,
    model_from_dict,
    model_to_dict,
    q_to_pinocchio,
    summarise,
    urdf_text,
    v_permutation,
)
from pinion.robot.model import JointKind
from tests.dynamics.general import oracle
from tests.dynamics.models import relative_error

BOX = '<inertia ixx="0.02" ixy="0.001" ixz="0" iyy="0.03" iyz="0" izz="0.04"/>'


def link(name: str) -> str:
    inertial = f'<origin xyz="0.1 0.02 -0.05" rpy="0 0 0"/><mass value="2"/>{BOX}'
    return f'<link name="{name}"><inertial>{inertial}</inertial></link>'


def joint(name: str, kind: str, parent: str, child: str, extra: str = "") -> str:
    return (
        f'<joint name="{name}" type="{kind}"><origin xyz="0.3 0.1 0.2" rpy="0.3 -0.2 0.5"/>'
        f'<parent link="{parent}"/><child link="{child}"/>{extra}</joint>'
    )


MIXED = (
    '<robot name="mixed">'
    + "".join(map(link, "abcd"))
    + joint("slide", "planar", "a", "b", '<axis xyz="0 0 1"/>')
    + joint("free", "floating", "b", "c")
    + joint("turn", "continuous", "c", "d", '<axis xyz="0.6 0 0.8"/>')
    + "</robot>"
)


@pytest.mark.parametrize("name", builtin_names())
def test_built_in_robot_on_a_floating_base_agrees_with_pinocchio(name: str) -> None:
    print("seed 3")
    rng = np.random.default_rng(3)
    model = load(name, floating_base=True)
    theirs = pin.buildModelFromXML(urdf_text(name), pin.JointModelFreeFlyer())
    assert model.nv == theirs.nv
    assert model.bodies[0].joint.kind is JointKind.FREE_FLYER
    order = v_permutation(model, theirs)
    square = np.ix_(order, order)
    for q in dynamics.random_configuration(model, rng, 3):
        qd, qdd = rng.uniform(-2.0, 2.0, (2, model.nv))
        position = q_to_pinocchio(model, theirs, q)
        rate, acceleration = np.zeros((2, model.nv))
        rate[order], acceleration[order] = qd, qdd
        expected = oracle.answer(theirs, position, rate, acceleration)
        tau = expected["tau"][order]
        assert relative_error(dynamics.rnea(model, q, qd, qdd), tau) < 1e-9
        assert relative_error(dynamics.crba(model, q), expected["M"][square]) < 1e-9
        assert relative_error(dynamics.aba(model, q, qd, tau), expected["qdd"][order]) < 1e-9
        by_q, by_qd = dynamics.rnea_derivatives(model, q, qd, qdd)
        assert relative_error(by_q, expected["dtau_dq"][square]) < 1e-8
        assert relative_error(by_qd, expected["dtau_dqd"][square]) < 1e-8
        forward = dynamics.fd_derivatives(model, q, qd, tau)
        assert relative_error(forward.qdd, expected["qdd"][order]) < 1e-9
        assert relative_error(forward.minv, expected["minv"][square]) < 1e-9
        assert relative_error(forward.dqdd_dq, expected["dqdd_dq"][square]) < 1e-8
        assert relative_error(forward.dqdd_dqd, expected["dqdd_dqd"][square]) < 1e-8


@pytest.mark.parametrize("floating_base", [False, True])
def test_planar_and_floating_joints_of_a_urdf_agree_with_pinocchio(floating_base: bool) -> None:
    print("seed 5")
    rng = np.random.default_rng(5)
    model = load_text(MIXED, floating_base=floating_base)
    root = (pin.JointModelFreeFlyer(),) if floating_base else ()
    theirs = pin.buildModelFromXML(MIXED, *root)
    q = dynamics.random_configuration(model, rng)
    qd, qdd = rng.normal(size=(2, model.nv))
    expected = pin.rnea(theirs, theirs.createData(), q_to_pinocchio(model, theirs, q), qd, qdd)
    assert relative_error(dynamics.rnea(model, q, qd, qdd), np.array(expected)) < 1e-12
    imported = from_pinocchio(theirs)
    assert relative_error(dynamics.rnea(imported, q, qd, qdd), np.array(expected)) < 1e-12


def test_a_planar_joint_moves_across_its_axis() -> None:
    text = MIXED.replace('<axis xyz="0 0 1"/>', '<axis xyz="0 1 0"/>').replace(
        "0.3 -0.2 0.5", "0 0 0"
    )
    model = load_text(text)
    tree = model.bodies[0].joint.tree
    assert np.allclose(np.array(tree.E)[2], [0.0, 1.0, 0.0], atol=1e-15)
    q = dynamics.neutral_configuration(model)
    low = dynamics.potential_energy(model, q)
    # One of the plane's two axes is upright, so that weight counts.
    raised = [
        dynamics.potential_energy(model, dynamics.integrate(model, q, np.eye(model.nv)[k]))
        for k in range(2)
    ]
    assert np.isclose(sorted(abs(e - low) for e in raised)[1], 9.81 * 6.0)


def test_models_of_all_kinds_are_stored_and_summarised() -> None:
    model = oracle.random_tree_of_kinds(np.random.default_rng(1), 20)
    assert {body.joint.kind for body in model.bodies} == set(JointKind)
    data = json.loads(json.dumps(model_to_dict(model)))
    assert model_from_dict(data) == model
    for floating in (load("hyq", floating_base=True), load_text(MIXED, floating_base=True)):
        assert model_from_dict(json.loads(json.dumps(model_to_dict(floating)))) == floating
        summary = summarise(floating)
        assert len(summary["joints"]) == len(floating.bodies)
        assert (summary["nq"], summary["nv"]) == (floating.nq, floating.nv)
        assert len(floating.rated_velocity) == floating.nv


def test_places_in_q_and_v() -> None:
    model = load_text(MIXED, floating_base=True)
    assert model.q_slices == (slice(0, 7), slice(7, 11), slice(11, 18), slice(18, 19))
    assert model.v_slices == (slice(0, 6), slice(6, 9), slice(9, 15), slice(15, 16))
    assert not model.single_dof
    assert load("iiwa14").single_dof


def test_a_base_that_cannot_float_gives_one_sentence() -> None:
    with pytest.raises(
        RobotError, match="'root_joint' moves no inertia of its own: the link 'base'"
    ):
        load("pendulum", floating_base=True)
    text = MIXED.replace('"slide"', '"root_joint"')
    with pytest.raises(RobotError, match="already has a joint 'root_joint'"):
        load_text(text, floating_base=True)
    with pytest.raises(RobotError, match="instead of floating_base=True"):
        load(pin.buildModelFromXML(MIXED), floating_base=True)


@pytest.mark.parametrize("name", ["rnea", "fd_derivatives"])
def test_a_function_of_such_a_robot_has_samples_and_values(name: str) -> None:
    model = load("iiwa14", floating_base=True)
    samples = sample(model, named_function(name), 3, distribution="reference", seed=0)
    assert samples["q"].shape == (3, 14) and samples["qd"].shape == (3, 13)
    q = dynamics.neutral_configuration(model)
    zeros = np.zeros(model.nv)
    arrays = {block.name: zeros for block in named_function(name).inputs} | {"q": q}
    assert named_function(name).evaluate(model, arrays)
