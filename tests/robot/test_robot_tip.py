"""Sub-chains and payloads against Pinocchio."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest

from pinion.robot import (
    RobotError,
    load,
    load_text,
    model_from_dict,
    model_to_dict,
    payload,
    random_tree,
    summarise,
    tip,
    tip_of,
    tips_of,
    urdf_text,
)
from tests.robot.kinematics import frames
from tests.robot.oracle import rnea_error
from tests.robot.snippets import A, B, C, joint, link, robot, tensor
from tests.robot.test_robot_errors import check

Z = '<axis xyz="0 0 1"/>'


def pruned(text: str, chain_joints: tuple[str, ...]) -> pin.Model:
    """Return Pinocchio's model with all other joints locked and their inertias zero."""
    other = pin.buildModelFromXML(text)
    out = [k for k in range(1, other.njoints) if other.names[k] not in chain_joints]
    for k in out:
        other.inertias[k] = pin.Inertia.Zero()
    return pin.buildReducedModel(other, out, pin.neutral(other))


@pytest.mark.parametrize("seed", range(20))
def test_random_chains_agree_with_pinocchio(seed: int) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    text = random_tree(rng, 10, continuous=seed % 2 == 0)
    model = load_text(text)
    moving = [frame for frame in model.frames if frame.body >= 0]
    last_link = moving[int(rng.integers(len(moving)))]
    chain = tip(model, last_link.name)
    assert chain.parents == tuple(range(-1, chain.nq - 1))
    assert last_link.name in chain.bodies[-1].links
    assert len(chain.rated_velocity) == chain.nv
    assert rnea_error(chain, pruned(text, chain.joint_names), rng) < 1e-12
    q = dict(zip(model.joint_names, rng.uniform(-1.0, 1.0, model.nq), strict=True))
    frames_before = frames(model, np.array(list(q.values())))
    frames_after = frames(chain, np.array([q[name] for name in chain.joint_names]))
    assert last_link.name in frames_after
    for name, placement in frames_after.items():
        np.testing.assert_array_equal(placement, frames_before[name])
    removed_mass = math.fsum(
        b.inertia.mass for b in model.bodies if b.joint.name not in chain.joint_names
    )
    if chain.nq < model.nq:
        assert f"with a mass of {removed_mass:.6g} kg" in chain.notes[-1]
    else:
        assert chain is model


def test_one_leg_of_hyq_and_one_arm_of_baxter() -> None:
    leg = load("hyq", tip="lf_lowerleg")
    assert leg.nq == 3
    assert "dropped 9 bodies" in leg.notes[-1]
    head = load("baxter", tip="head")
    assert head.nq == 1
    # Notes on removed joints are removed as well.
    assert not any("mimics" in note or "l_gripper_l_finger_joint" in note for note in head.notes)


def test_a_tie_to_a_joint_that_is_cut_ends() -> None:
    text = robot(A, B, C, joint(extra=Z), joint("k", "a", "c", extra=Z + '<mimic joint="j"/>'))
    chain = load_text(text)
    assert chain.bodies[1].joint.mimic is not None
    chain = tip(chain, "c")
    assert chain.bodies[0].joint.mimic is None
    assert "Joint 'k' no longer mimics 'j', which was cut off." in chain.notes


def test_locking_comes_before_cutting() -> None:
    # Locked fingers are part of the wrist; cut off, they would not load the arm.
    arm = load("baxter", tip="left_hand")
    gripping = load("baxter", lock={"l_gripper_l_finger_joint": None}, tip="left_hand")
    assert gripping.joint_names == arm.joint_names
    assert gripping.nq == 7
    fingers = [b for b in load("baxter").bodies if "finger" in b.name and b.name.startswith("l_")]
    fingers_mass = sum(body.inertia.mass for body in fingers)
    assert fingers_mass > 0.0
    gained = gripping.bodies[-1].inertia.mass - arm.bodies[-1].inertia.mass
    assert gained == pytest.approx(fingers_mass, rel=1e-12)


def test_bad_tips_give_one_sentence() -> None:
    for name, needles in (
        ("iiwa_link_77", ("'iiwa_link_77'", "'iiwa_link_7'", "nearest")),
        ("tool", ("'tool'", "use one of 'iiwa_link_1', ")),  # but no fixed link
        ("base", ("'base'", "fixed base")),
    ):
        with pytest.raises(RobotError) as error:
            load("iiwa14", tip=name)
        check(error, *needles)


@pytest.mark.parametrize("seed", range(10))
def test_payloads_agree_with_pinocchio(seed: int) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    text = random_tree(rng, 6)
    model = load_text(text)
    moving = [frame for frame in model.frames if frame.body >= 0]
    at = moving[int(rng.integers(len(moving)))].name
    mass, com = float(rng.uniform(0.1, 4.0)), rng.uniform(-0.2, 0.2, 3)
    spread = rng.normal(size=(3, 3)) * 0.1
    full = np.trace(spread @ spread.T) * np.eye(3) - spread @ spread.T
    inertia = None if seed % 2 else full[np.triu_indices(3)].tolist()
    loaded = payload(model, at, mass=mass, com=com.tolist(), inertia=inertia)
    other = pin.buildModelFromXML(text)
    frame = other.frames[other.getFrameId(at)]
    pin_inertia = pin.Inertia(mass, com, np.zeros((3, 3)) if inertia is None else full)
    other.appendBodyToJoint(frame.parentJoint, pin_inertia, frame.placement)
    assert rnea_error(loaded, other, rng) < 1e-12
    assert rnea_error(model, other, rng) > 1e-6
    assert f"payload of {mass:.6g} kg to the link {at!r}." in loaded.notes[-1]


def test_bad_payloads_give_one_sentence() -> None:
    model = load("iiwa14")
    for at, change, needles in (
        ("iiwa_link_8", {}, ("'iiwa_link_8'", "'iiwa_link_7'")),
        ("base", {}, ("'base'", "fixed base")),
        ("iiwa_link_7", {"mass": 0.0}, ("0.0", "not positive")),
        ("iiwa_link_7", {"mass": math.inf}, ("inf", "mass", "finite")),
        ("iiwa_link_7", {"com": (0.0, 1.0)}, ("(0.0, 1.0)", "3 finite numbers")),
        ("iiwa_link_7", {"com": "far"}, ("'far'", "com")),
        ("iiwa_link_7", {"inertia": (1, 0, 0, 1, 0, 9)}, ("9", "triangle inequality")),
        ("iiwa_link_7", {"inertia": (1, 2, 0, 1, 0, 1)}, ("-1", "not positive definite")),
    ):
        with pytest.raises(RobotError) as error:
            payload(model, at, **({"mass": 1.0} | change))  # type: ignore[arg-type]
        check(error, *needles)


def test_armature_is_read_stored_and_shown() -> None:
    joint_elements = '<pinion armature="0.25" rated_velocity="2"/><mimic joint="k"/>'
    text = robot(
        A, link("b", "1", tensor()), C, joint(extra=Z + joint_elements), joint("k", "b", "c")
    )
    model = load_text(text)
    assert [body.joint.armature for body in model.bodies] == [0.25, 0.0]
    assert summarise(model)["joints"][0]["armature"] == 0.25
    assert summarise(model)["joints"][0]["armature_in_base"] is False
    data = json.loads(json.dumps(model_to_dict(model)))
    assert model_from_dict(data) == model
    # Older stored models without these fields can still be read.
    for body in data["bodies"]:
        del body["joint"]["armature"], body["joint"]["mimic"]
    old = model_from_dict(data)
    assert all(b.joint.armature == 0.0 and b.joint.mimic is None for b in old.bodies)
    for extra, needle in (('<pinion armature="-1"/>', "-1.0"), ('<pinion armature="x"/>', "'x'")):
        with pytest.raises(RobotError) as error:
            load_text(robot(A, B, joint(extra=extra)))
        check(error, "armature", "'j'", needle)
    geared = Z + '<pinion rotor_inertia="2e-5" gear_ratio="-100" stiffness="40" rest="-0.1"/>'
    pin = load_text(robot(A, B, joint(extra=geared))).bodies[0].joint
    assert (pin.armature, pin.stiffness, pin.rest) == (pytest.approx(0.2), 40.0, -0.1)
    stored = json.loads(json.dumps(model_to_dict(load_text(robot(A, B, joint(extra=geared))))))
    assert model_from_dict(stored).bodies[0].joint == pin
    for extra in ('<pinion gear_ratio="3"/>', '<pinion armature="1" rotor_inertia="1"/>'):
        with pytest.raises(RobotError) as error:
            load_text(robot(A, B, joint(extra=extra)))
        check(error, "'j'", "armature alone, or a rotor_inertia and an optional gear_ratio")
    with pytest.raises(RobotError) as error:
        load_text(robot(A, B, joint(extra='<pinion stiffness="-4"/>')))
    check(error, "stiffness", "'j'", "-4.0")
    with pytest.raises(RobotError) as error:
        load_text(robot(A, B, joint(extra="<mimic/>")))
    check(error, "mimic", "'j'", "names no joint")


def test_the_tip_is_the_only_link_that_nothing_hangs_on() -> None:
    fixed = '<joint name="{0}" type="fixed"><parent link="{1}"/><child link="{0}"/></joint>'
    arm = urdf_text("iiwa14").removesuffix("</robot>\n")
    links = '<link name="flange"/><link name="tool"/><link name="camera"/>'
    flange, tool, camera = (
        fixed.format(name, parent)
        for name, parent in (("flange", "iiwa_link_7"), ("tool", "flange"), ("camera", "flange"))
    )
    assert tip_of(load("iiwa14")) == "iiwa_link_7"
    assert tips_of(load("iiwa14")) == ("iiwa_link_7",) and tips_of(load("none")) == ()
    # Links fixed behind the last joint count; the links they are fixed to do not.
    chain = load_text(arm + links.replace('<link name="camera"/>', "") + flange + tool + "</robot>")
    assert tip_of(chain) == "tool"
    both = load_text(arm + links + flange + tool + camera + "</robot>")
    with pytest.raises(RobotError) as error:
        tip_of(both)
    check(error, "'tool', 'camera'", "--tip")
    assert tips_of(both) == ("tool", "camera")
    # Cutting down to one of them changes nothing but the tip.
    cut = tip(both, "camera")
    assert tip_of(cut) == "camera" and cut.bodies == both.bodies
    assert model_from_dict(model_to_dict(cut)) == cut
    # Without stated tips, the bodies without children count.
    silent = replace(load("iiwa14"), tips=())
    assert tip_of(silent) == "iiwa_link_7"
    with pytest.raises(RobotError, match="several tips, 'iiwa_link_7', 'flange'"):
        tip_of(replace(chain, tips=()))
