"""Locked joints against Pinocchio's reduced models, and against joints fixed in the file."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest

from pinion.robot import (
    JointKind,
    Mimic,
    Model,
    RobotError,
    asked_robot,
    load,
    load_text,
    lock,
    parse_lock,
    random_tree,
    summarise,
    urdf_text,
)
from tests.robot.kinematics import frames
from tests.robot.oracle import rnea_error
from tests.robot.snippets import A, B, C, joint, link, robot
from tests.robot.test_robot_errors import check

Z = '<axis xyz="0 0 1"/>'


def reduced(model: Model, text: str, positions: dict[str, float]) -> pin.Model:
    """Return Pinocchio's model with the same joints locked."""
    other = pin.buildModelFromXML(text)
    q = pin.neutral(other)
    for name, value in positions.items():
        pin_joint = other.joints[other.getJointId(name)]
        turned = [math.cos(value), math.sin(value)]
        q[pin_joint.idx_q : pin_joint.idx_q + pin_joint.nq] = turned if pin_joint.nq == 2 else value
    return pin.buildReducedModel(other, [other.getJointId(name) for name in positions], q)


@pytest.mark.parametrize("seed", range(20))
def test_random_trees_agree_with_reduced_models(seed: int) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    text = random_tree(rng, int(rng.integers(2, 13)), continuous=seed % 2 == 0)
    model = load_text(text)
    names = rng.permutation(model.joint_names)[: int(rng.integers(1, model.nq))]
    # Right angles and zero take other paths than general angles.
    special = (0.0, 0.25, -0.25, 0.5)
    positions = {
        str(name): float(rng.choice(special) if rng.random() < 0.5 else rng.uniform(-0.5, 0.5))
        for name in names
    }
    locked = lock(model, positions)
    assert locked.nq == model.nq - len(positions)
    assert len(locked.rated_velocity) == locked.nv
    assert set(locked.joint_names) == set(model.joint_names) - set(positions)
    assert rnea_error(locked, reduced(model, text, positions), rng) < 1e-12
    # Every frame is kept, in the same place.
    q = rng.uniform(-2.0, 2.0, locked.nq)
    full = dict(zip(locked.joint_names, q, strict=True)) | positions
    frames_before = frames(model, np.array([full[name] for name in model.joint_names]))
    frames_after = frames(locked, q)
    assert list(frames_after) == list(frames_before)
    for name, placement in frames_after.items():
        np.testing.assert_allclose(placement, frames_before[name], rtol=0, atol=1e-13, err_msg=name)
    links = [name for body in locked.bodies for name in body.links] + list(locked.base_links)
    assert sorted(links) == sorted(frame.name for frame in model.frames)


@pytest.mark.parametrize("seed", range(10))
def test_locking_at_zero_is_fixing_in_the_file(seed: int) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    text = random_tree(rng, 8)
    names = [f"joint_{k}" for k in rng.permutation(8)[:3] + 1]
    fixed = text
    for name in names:
        fixed = re.sub(f'name="{name}" type="[a-z]+"', f'name="{name}" type="fixed"', fixed)
    ours, theirs = lock(load_text(text), dict.fromkeys(names)), load_text(fixed)
    assert ours.parents == theirs.parents
    assert ours.base_links == theirs.base_links
    assert ours.rated_velocity == theirs.rated_velocity
    for a, b in zip(ours.bodies, theirs.bodies, strict=True):
        assert (a.name, a.links, a.joint.name) == (b.name, b.links, b.joint.name)
        np.testing.assert_allclose(a.joint.tree.E, b.joint.tree.E, rtol=0, atol=1e-14)
        np.testing.assert_allclose(a.joint.tree.r, b.joint.tree.r, rtol=0, atol=1e-14)
        np.testing.assert_allclose(a.inertia.mass, b.inertia.mass, rtol=1e-14)
        np.testing.assert_allclose(a.inertia.h, b.inertia.h, rtol=0, atol=1e-13)
        np.testing.assert_allclose(a.inertia.I, b.inertia.I, rtol=0, atol=1e-13)


def test_right_angles_stay_exact() -> None:
    model = load("iiwa14", lock={"iiwa_joint_2": math.pi / 2.0, "iiwa_joint_4": None})
    assert model.nq == 5
    entries = {abs(value) for body in model.bodies for row in body.joint.tree.E for value in row}
    assert entries == {0.0, 1.0}
    assert any("'iiwa_joint_2' at 1.5708 rad: 'iiwa_link_2' became part of 'iiwa_link_1'" in note
               for note in model.notes)  # fmt: skip


def test_named_robots_agree_with_reduced_models() -> None:
    positions = {"iiwa_joint_1": 0.3, "iiwa_joint_3": -1.1, "iiwa_joint_7": 0.7}
    other = reduced(load("iiwa14"), urdf_text("iiwa14"), positions)
    assert rnea_error(load("iiwa14", lock=positions), other, np.random.default_rng(0)) < 1e-11


def test_baxters_fingers_follow_each_other() -> None:
    model = load("baxter")
    ties = {b.joint.name: b.joint.mimic for b in model.bodies if b.joint.mimic is not None}
    assert len(ties) == 2
    (first, tie), *_ = ties.items()
    assert tie is not None
    locked = lock(model, {tie.joint: None})
    assert locked.nq == model.nq - 2
    leader = next(b.joint for b in model.bodies if b.joint.name == tie.joint)
    position = min(max(0.0, leader.lower), leader.upper)
    expected = f"Locked joint {first!r} at {tie.multiplier * position + tie.offset:.6g} m"
    assert any(note.startswith(expected) and "mimics" in note for note in locked.notes)
    assert not any(note.startswith(f"Joint {first!r} mimics") for note in locked.notes)
    # The follower may be locked alone, at its own position.
    alone = lock(model, {first: 0.0})
    assert alone.nq == model.nq - 1
    assert tie.joint in alone.joint_names


def test_mimic_is_read_kept_and_shown() -> None:
    extra = '<mimic joint="j" multiplier="-2" offset="0.5"/>'
    model = load_text(
        robot(A, B, C, link("d"), joint(extra=Z), joint("k", "b", "c", extra=Z + extra),
              joint("l", "c", "d", extra=Z + '<mimic joint="k"/>'))
    )  # fmt: skip
    assert [b.joint.mimic for b in model.bodies] == [
        None, Mimic(joint="j", multiplier=-2.0, offset=0.5), Mimic(joint="k"),
    ]  # fmt: skip
    assert summarise(model)["joints"][1]["mimic"] == {
        "joint": "j", "multiplier": -2.0, "offset": 0.5,
    }  # fmt: skip
    with pytest.raises(RobotError, match=r"Every joint of the robot 'r' is locked"):
        lock(model, {"j": 0.1})
    # A tie to a locked joint locks its follower, and the follower's follower.
    chain = load_text(
        robot(A, B, C, link("d"), joint(extra=Z), joint("k", "b", "c", extra=Z + extra),
              joint("l", "c", "d", extra=Z))
    )  # fmt: skip
    locked = lock(chain, {"j": 0.1})
    assert locked.joint_names == ("l",)
    assert any("'k' at 0.3 rad (it mimics 'j')" in note for note in locked.notes)
    assert lock(chain, {"j": 0.1, "k": 0.2}).notes[-1].startswith("Locked joint 'k' at 0.2 rad:")


def test_the_default_is_the_limit_nearest_to_zero() -> None:
    limit = '<limit lower="0.25" upper="1" effort="1" velocity="1"/>'
    model = load_text(robot(A, B, C, joint(extra=Z + limit), joint("k", "b", "c", extra=Z)))
    locked = lock(model, {"j": None})
    (note,) = locked.notes
    assert note.startswith("Locked joint 'j' at 0.25 rad (the limit nearest to 0): 'b' became part")
    assert locked.bodies[0].joint.tree.E[0][0] == math.cos(0.25)
    assert locked.base_links == ("a", "b")
    assert lock(model, {}) is model


def test_bad_locks_give_one_sentence() -> None:
    for positions, needles in (
        ({"iiwa_joint_9": None}, ("'iiwa_joint_9'", "'iiwa_joint_7'", "nearest")),
        ({"zzz": 0.0}, ("'zzz'", "'iiwa_joint_1'", "use one of")),
        ({"iiwa_joint_1": 90.0}, ("90.0", "'iiwa_joint_1'", "-2.96", "outside")),
        ({"iiwa_joint_1": math.nan}, ("nan", "'iiwa_joint_1'", "finite")),
        ({"iiwa_joint_1": "x"}, ("'x'", "'iiwa_joint_1'", "not a number")),
        ({"iiwa_joint_1": [1.0]}, ("[1.0]", "'iiwa_joint_1'", "not a number")),
        (["iiwa_joint_1=90"], ("90.0", "'iiwa_joint_1'", "outside")),
        (["iiwa_joint_1", "iiwa_joint_1=1"], ("'iiwa_joint_1'", "locked twice")),
        (7, ("cannot be 7", '{"elbow": 0.3}', '["elbow=0.3"]')),
        ([7], ("cannot be [7]", '["elbow=0.3"]')),
        (dict.fromkeys(load("iiwa14").joint_names), ("Every joint", "'iiwa14'")),
    ):
        with pytest.raises(RobotError) as error:
            load("iiwa14", lock=positions)
        check(error, *needles)


@pytest.mark.parametrize("texts", [["iiwa_joint_1=0.3", "iiwa_joint_2"], "iiwa_joint_1=0.3"])
def test_locks_are_names_with_positions_or_texts_everywhere(texts: list[str] | str) -> None:
    positions = {"iiwa_joint_1": 0.3} | ({} if isinstance(texts, str) else {"iiwa_joint_2": None})
    locked = load("iiwa14", lock=positions)
    assert len(locked.bodies) == 7 - len(positions)
    assert load("iiwa14", lock=texts) == asked_robot("iiwa14", lock=texts) == locked
    arm = load("iiwa14")
    assert lock(arm, texts) == asked_robot(arm, lock=texts) == lock(arm, positions)


def test_locks_are_read_from_text() -> None:
    assert parse_lock("a") == ("a", None)
    assert parse_lock(" a = -1.5e-1 ") == ("a", -0.15)
    for text, needle in (("=1", "names no joint"), ("", "names no joint"), ("a=", "''"),
                         ("a=up", "'up'"), ("a=nan", "'nan'"), ("a=1_0", "'1_0'"),
                         ("a=0,3", "metres and a decimal point, not a comma")):  # fmt: skip
        with pytest.raises(RobotError) as error:
            parse_lock(text)
        check(error, repr(text), needle)


def test_a_helical_joint_stays_where_it_turned_and_others_are_refused() -> None:
    model = load_text(robot(A, B, C, joint(extra=Z), joint("k", "b", "c", extra=Z)))
    first, second = model.bodies
    helical = replace(first.joint, kind=JointKind.HELICAL, pitch=0.5)
    screw = replace(model, bodies=(replace(first, joint=helical), second))
    locked = lock(screw, {"j": 0.4})
    assert locked.bodies[0].joint.tree.r == (0.0, 0.0, 0.2)
    assert locked.bodies[0].joint.tree.E[0] == (math.cos(0.4), math.sin(0.4), 0.0)
    ball = replace(first.joint, kind=JointKind.SPHERICAL)
    with pytest.raises(RobotError) as error:
        lock(replace(model, bodies=(replace(first, joint=ball), second)), {"j": None})
    check(error, "'j'", "spherical", "4 position coordinates")
