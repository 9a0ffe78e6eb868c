"""Rounded right angles: exact on request if their digits justify it, otherwise as read."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pinocchio as pin
import pytest

from pinion import dynamics
from pinion.robot import (
    Model,
    from_pinocchio,
    load,
    load_text,
    lock,
    opportunity,
    q_to_pinocchio,
    urdf_text,
    v_permutation,
)
from pinion.robot.read.snapping import right_angle
from pinion.robot.read.urdf import half_unit
from tests.robot.snippets import A, B, C, joint, link, rewritten, robot, tensor, with_decimals

RIGHT = math.pi / 2
Z = '<axis xyz="0 0 1"/>'


def placed(rpy: str) -> str:
    """Return a robot with one joint at these angles."""
    return robot(A, B, joint(extra=f'{Z}<origin xyz="0 0.3 0" rpy="{rpy}"/>'))


@pytest.mark.parametrize(
    ("written", "count"),
    [
        *(("1.57", 1), ("1.571", 1), ("1.5708", 1), ("-1.570796", -1), ("1.57079632679", 1)),
        *(("3.14", 2), ("3.1416", 2), ("+3.14159", 2), ("-3.14159265359", -2), ("4.712", 3)),
        *(("6.2832", 4), ("15.708e-1", 1), ("0.015708e2", 1)),
        # One decimal, truncated, excess digits, beyond a turn, other angles.
        *(("1.6", None), ("3", None), ("2", None), ("1.5707", None), ("1.57079", None)),
        *(("3.1415", None), ("1.570800", None), ("1.5707963705062866", None), ("7.854", None)),
        *(("0.7854", None), ("1.56", None), ("1.58", None), ("3.15", None), ("0.00", None)),
        *(("0.0001", None), ("1e-99999999999999999999", None), ("0e99999999999999999999", None)),
        # Exact angles are unchanged.
        *(("1.5707963267948966", None), ("3.14159265358979", None)),
    ],
)
def test_digits_decide(written: str, count: int | None) -> None:
    angle = float(written)
    expected = angle if count is None else count * RIGHT
    assert right_angle(angle, half_unit(written)) == expected
    model, read = (load_text(placed(f"0 {written} 0"), snap=snap) for snap in (True, False))
    assert model.bodies[0].joint.tree.r == (0.0, 0.3, 0.0)
    if count is not None:
        turned = np.array([[0, 0, -1], [0, 1, 0], [1, 0, 0]], dtype=float)
        rotation = np.array(model.bodies[0].joint.tree.E)
        np.testing.assert_array_equal(rotation, np.linalg.matrix_power(turned, count % 4))
        assert read.bodies != model.bodies
        assert written.lstrip("+-") in read.notes[0] or "e" in written
        assert "snap=True" in read.notes[0] and "Treated 1 rounded angle (" in model.notes[0]


@pytest.mark.parametrize("decimals", [2, 4, 5, 6, 11])
def test_iiwa14_with_few_digits_is_the_built_in_one(decimals: int) -> None:
    text = rewritten(urdf_text("iiwa14"), with_decimals(decimals))
    built_in = load("iiwa14")
    snapped, read = load_text(text, snap=True), load_text(text)
    assert (snapped.bodies, snapped.frames) == (built_in.bodies, built_in.frames)
    assert "Treated 10 rounded angles" in snapped.notes[0]
    assert read.bodies != built_in.bodies
    assert opportunity(snapped) is None and opportunity(read) is None
    # Without snapping, every angle has the cosine of the written number.
    turn = np.array(read.bodies[1].joint.tree.E)
    assert np.min(np.abs(turn[turn != 0.0])) < 4e-3 if decimals < 11 else True


def more_decimals(angle: float) -> str:
    """Write four decimals as six: 1.570800."""
    return f"{round(angle, 4):.6f}"


def truncated(angle: float) -> str:
    """Write four decimals without rounding: 1.5707."""
    return repr(math.trunc(angle * 1e4) / 1e4)


@pytest.mark.parametrize("write", [more_decimals, truncated])
def test_what_digits_do_not_justify_is_named_and_kept(write: Callable[[float], str]) -> None:
    text = rewritten(urdf_text("iiwa14"), write)
    snapped, read = load_text(text, snap=True), load_text(text)
    note = opportunity(snapped)
    assert note is not None and note.endswith("which cost no operation.")
    assert note == opportunity(read)
    rotation, rotation_as_read = (
        np.array(model.bodies[2].joint.tree.E) for model in (snapped, read)
    )
    np.testing.assert_allclose(rotation, rotation_as_read, rtol=0, atol=1e-9)
    assert np.any((np.abs(rotation) > 1e-6) & (np.abs(rotation) < 1e-4))


def test_tilts_of_axes_and_inertials_are_named() -> None:
    tilted = '<origin rpy="0.00005 0 0"/>'
    text = robot(
        A,
        link("b", "1", tensor(iyy="0.11", izz="0.12"), tilted),
        C,
        joint(extra='<axis xyz="0 0.00003 1"/>'),
        joint("k", "b", "c", extra=Z),
    )
    note = opportunity(load_text(text, snap=True))
    assert note is not None
    assert "the axis of joint 'j' (3e-05 rad)" in note
    assert "the inertial of link 'b' (5e-05 rad)" in note
    plain = text.replace("0.00005", "0").replace("0.00003", "0")
    assert opportunity(load_text(plain)) is None


def test_axes_of_an_inertial_are_snapped() -> None:
    turned = '<origin rpy="0 0 1.571"/>'
    text = robot(A, link("b", "1", tensor(ixx="0.1", iyy="0.2", izz="0.25"), turned), joint())
    exact = load_text(text.replace("1.571", repr(RIGHT)))
    assert load_text(text, snap=True).bodies == exact.bodies
    assert load_text(text).bodies[0].inertia.I[2] == pytest.approx(0.1 * (1.571 - RIGHT), rel=1e-3)


def forward_error(model: Model, other: pin.Model) -> float:
    """Return the largest difference of qdd at random states, relative to the largest qdd."""
    rng = np.random.default_rng(5)
    q = dynamics.random_configuration(model, rng, 10)
    qd, tau = rng.uniform(-2.0, 2.0, (2, 10, model.nv))
    order, data = v_permutation(model, other), other.createData()
    ours, theirs = dynamics.aba(model, q, qd, tau), np.zeros((10, model.nv))
    for k, position in enumerate(q_to_pinocchio(model, other, q)):
        rate, effort = np.zeros(other.nv), np.zeros(other.nv)
        rate[order], effort[order] = qd[k], tau[k]
        theirs[k] = pin.aba(other, data, position, rate, effort)[order]
    return float(np.max(np.abs(ours - theirs)) / np.max(np.abs(theirs)))


@pytest.mark.parametrize("name", ["hyq", "baxter"])
def test_a_model_as_read_agrees_with_pinocchio(name: str) -> None:
    # Twelve digits, as published; the free-flyer's trunk shows every residue.
    text = rewritten(urdf_text(name), with_decimals(11))
    other = pin.buildModelFromXML(text, pin.JointModelFreeFlyer())
    assert forward_error(load_text(text, floating_base=True), other) < 1e-10
    snapped = load_text(text, floating_base=True, snap=True)
    assert snapped.bodies == load(name, floating_base=True).bodies
    assert forward_error(snapped, other) > 1e-12  # so the comparison is sensitive


def test_built_in_robots_need_no_snapping() -> None:
    for name in ("iiwa14", "hyq", "atlas", "baxter"):
        read, snapped = load(name), load(name, snap=True)
        assert (read.bodies, read.frames, read.notes) == (
            snapped.bodies,
            snapped.frames,
            snapped.notes,
        )


def test_locked_positions_count_as_written() -> None:
    model = load("iiwa14")
    exact = lock(model, {"iiwa_joint_2": RIGHT})
    assert lock(model, {"iiwa_joint_2": 1.57}, snap=True).bodies == exact.bodies
    assert load("iiwa14", lock={"iiwa_joint_2": 1.5708}, snap=True).bodies == exact.bodies
    unsnapped = lock(model, {"iiwa_joint_2": 1.5708})
    assert unsnapped.bodies != exact.bodies and "3.67e-06 rad" in str(opportunity(unsnapped))


def test_models_without_text_lose_residues_alone() -> None:
    text = rewritten(urdf_text("iiwa14"), with_decimals(4))
    rounded = from_pinocchio(pin.buildModelFromXML(text), snap=True)
    note = opportunity(rounded)
    assert note is not None and "7.35e-06 rad" in note and "and 3 more" in note
    twelve = rewritten(urdf_text("iiwa14"), with_decimals(11))
    other = pin.buildModelFromXML(twelve)
    full = from_pinocchio(pin.buildModelFromXML(urdf_text("iiwa14")))
    assert from_pinocchio(other, snap=True).bodies[1].joint == full.bodies[1].joint
    assert from_pinocchio(other).bodies[1].joint != full.bodies[1].joint
