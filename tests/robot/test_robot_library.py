"""Built-in and generated robots, storage and summary."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

import pinion.robot
from pinion.dynamics import frame_placement
from pinion.robot import (
    NO_ROBOT,
    JointKind,
    RobotError,
    asked_robot,
    builtin_names,
    load,
    load_text,
    model_from_dict,
    model_to_dict,
    random_tree,
    summarise,
    tip_of,
    urdf_text,
)
from pinion.robot.generated import chain

NAMED = (*builtin_names(), "pendulum", "two_link", "chain_1", "chain_5")
JOINTS = {"iiwa14": 7, "hyq": 12, "atlas": 30, "baxter": 19, "pendulum": 1, "two_link": 2}


def test_built_in_robots() -> None:
    assert builtin_names() == ("atlas", "baxter", "hyq", "iiwa14")
    for name, joints in JOINTS.items():
        model = load(name)
        assert (model.name, model.nq, model.nv) == (name, joints, joints)
        assert len(model.rated_velocity) == joints
        assert all(math.isfinite(v) and v > 0.0 for v in model.rated_velocity)
        assert model.gravity == (0.0, 0.0, -9.81)
    for name in builtin_names():
        assert "published in" in urdf_text(name)
        assert "https://github.com/" in urdf_text(name)


def test_reference_speeds_of_the_iiwa() -> None:
    degrees = np.degrees(load("iiwa14").rated_velocity)
    np.testing.assert_allclose(degrees, (85, 85, 100, 75, 130, 135, 135), rtol=1e-14)


@pytest.mark.parametrize("name", NAMED)
def test_model_is_canonical(name: str) -> None:
    model = load(name)
    assert len(set(model.joint_names)) == model.nq
    assert all(body.parent < number for number, body in enumerate(model.bodies))
    for body in model.bodies:
        turn = np.array(body.joint.tree.E)
        np.testing.assert_allclose(turn @ turn.T, np.eye(3), rtol=0, atol=1e-11)
        near = np.abs(turn)[np.abs(turn) > 0.0]
        assert near.min() > 1e-9
        assert body.name == body.links[0]
    links = [name for body in model.bodies for name in body.links] + list(model.base_links)
    assert sorted(links) == sorted(frame.name for frame in model.frames)


def test_gravity_is_the_callers() -> None:
    assert load("pendulum", gravity=(0, 9, 0)).gravity == (0.0, 9.0, 0.0)


@pytest.mark.parametrize(
    ("name", "reach"),
    [("pendulum", -0.5), ("two_link", -0.5), ("chain_1", 0.25), ("chain_5", 0.25)],
)
def test_generated_robots_have_a_tip_at_the_end_of_their_last_link(name: str, reach: float) -> None:
    """A frame and nothing else: what moves is that of the robot without it."""
    text = urdf_text(name)
    plain = re.sub(r' *<link name="tip"/>.*?</joint>\n', "", text, flags=re.DOTALL)
    assert text.count("tip") == 3 and "tip" not in plain
    model, without = load(name), load_text(plain)
    assert tip_of(model) == "tip" == model.frames[-1].name
    (frame,) = (frame for frame in model.frames if frame.name == "tip")
    z = np.asarray(frame.placement.E).T @ (0.0, 0.0, 1.0)  # of the link, in its body
    assert frame.body == model.nq - 1 and np.allclose(frame.placement.r, reach * z, atol=1e-15)
    assert [(b.joint, b.inertia) for b in model.bodies] == [
        (b.joint, b.inertia) for b in without.bodies
    ]
    # The rod hangs straight down, the chain stands upright.
    straight = frame_placement(model, np.zeros(model.nq), "tip")[1]
    count = model.nq
    base = {"pendulum": 1.0, "two_link": 1.5}.get(name, 0.1)
    assert np.allclose(straight, (0.0, 0.0, base + reach * count), atol=1e-15)


def test_chains_are_spatial_and_of_any_length() -> None:
    assert load("chain_50").nq == 50
    turned = [note for note in load("chain_6").notes if "axis" in note]
    axes = {note.split("(")[1].split(")")[0] for note in turned}
    assert axes == {"0 1 0", "1 0 0"}
    assert load_text(chain(3), source="generated chain_3") == load("chain_3")
    with pytest.raises(RobotError, match=r"joints, not 0\."):
        chain(0)
    with pytest.raises(RobotError, match=r"joints, not -2\."):
        random_tree(np.random.default_rng(0), -2)


def test_a_file_is_the_same_robot(tmp_path: Path) -> None:
    path = tmp_path / "arm.urdf"
    path.write_text(urdf_text("iiwa14"), encoding="utf-8")
    model = load(path)
    assert model.source == str(path)
    assert model.bodies == load("iiwa14").bodies == load(str(path)).bodies


def test_random_trees_are_repeatable_and_varied() -> None:
    kinds, oblique, merged = set(), 0, 0
    for seed in range(10):
        print(f"seed {seed}")
        text = random_tree(np.random.default_rng(seed), 8)
        assert text == random_tree(np.random.default_rng(seed), 8)
        model = load_text(text)
        assert model.nq == 8
        kinds |= {body.joint.kind for body in model.bodies}
        oblique += sum("oblique" in note for note in model.notes)
        merged += sum("Merged" in note for note in model.notes)
    assert kinds == {JointKind.REVOLUTE, JointKind.PRISMATIC}
    assert oblique > 10
    assert merged > 5
    only = load_text(random_tree(np.random.default_rng(1), 12, prismatic=False))
    assert {body.joint.kind for body in only.bodies} == {JointKind.REVOLUTE}


@pytest.mark.parametrize("name", NAMED)
def test_storage_keeps_every_bit(name: str) -> None:
    model = load(name)
    text = json.dumps(model_to_dict(model), allow_nan=False)
    assert model_from_dict(json.loads(text)) == model
    assert json.dumps(model_to_dict(load(name))) == text  # loading is deterministic


def test_storage_keeps_infinite_limits_and_random_models() -> None:
    for seed in range(10):
        print(f"seed {seed}")
        text = random_tree(np.random.default_rng(seed), 10, continuous=True)
        model = load_text(text)
        assert model_from_dict(json.loads(json.dumps(model_to_dict(model)))) == model
    assert any(body.joint.upper == math.inf for body in model.bodies)


def test_damaged_storage_is_refused() -> None:
    data = model_to_dict(load("pendulum"))
    with pytest.raises(RobotError, match=r"'other'.*build it again\.$"):
        model_from_dict(data | {"format": "other"})
    del data["bodies"][0]["joint"]["lower"]
    with pytest.raises(RobotError, match=r"damaged.*lower.*build it again\.$"):
        model_from_dict(data)
    with pytest.raises(RobotError, match="damaged"):
        model_from_dict(model_to_dict(load("pendulum")) | {"gravity": [0, 0]})


@pytest.mark.parametrize("name", NAMED)
def test_summary_is_strict_json_and_complete(name: str) -> None:
    model = load(name)
    summary = summarise(model)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert len(summary["links"]) == len(summary["joints"]) == model.nv
    assert summary["total_mass"] == pytest.approx(sum(link["mass"] for link in summary["links"]))
    assert summary["notes"] == list(model.notes)


def test_summary_of_the_iiwa_and_of_a_tree() -> None:
    iiwa = summarise(load("iiwa14"))
    assert iiwa["max_depth"] == 7
    assert iiwa["base_links"] == ["base", "iiwa_link_0"]
    assert iiwa["links"][0]["com"] == pytest.approx([0.0, -0.03, 0.12])
    assert iiwa["links"][0]["inertia"] == pytest.approx([0.121, 0.0, 0.0, 0.116, -0.021, 0.0175])
    assert iiwa["joints"][0]["parent"] == "base"
    assert iiwa["joints"][1]["parent"] == "iiwa_link_1"
    hyq = summarise(load("hyq"))
    assert hyq["max_depth"] == 3
    text = random_tree(np.random.default_rng(5), 10, continuous=True)
    joints = summarise(load_text(text))["joints"]
    assert all((joint["lower"] is None) == joint["continuous"] for joint in joints)


def test_public_names() -> None:
    assert all(hasattr(pinion.robot, name) for name in pinion.robot.__all__)
    for name in pinion.robot.__all__:
        if callable(getattr(pinion.robot, name)):
            assert getattr(pinion.robot, name).__doc__


def test_a_model_that_was_loaded_goes_into_another_gravity() -> None:
    from_name = asked_robot("two_link", gravity=(1.0, 2.0, 3.0))
    from_model = asked_robot(load("two_link"), gravity=(1.0, 2.0, 3.0))
    assert from_name == from_model and from_name.gravity == (1.0, 2.0, 3.0)
    assert from_name.notes[0] == "Gravity is (1, 2, 3) m/s^2, as requested."
    for robot in ("none", None):
        with pytest.raises(RobotError, match="gravity, contacts and loops, or"):
            asked_robot(robot, gravity=(0.0, 0.0, 0.0))
    with pytest.raises(RobotError, match="gravity out"):
        asked_robot(NO_ROBOT, gravity=(0.0, 0.0, 0.0))
    with pytest.raises(RobotError, match="malformed"):
        asked_robot(load("two_link"), gravity=(1.0, 2.0))  # type: ignore[typeddict-item]
