"""Frames and their reference as options of rows, against Pinocchio; labels, sentences, builds."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.functions import (
    FUNCTIONS,
    Function,
    FunctionError,
    named_function,
    options_from_text,
    sample,
)
from pinion.functions.frames import frame_labels, split_frames
from pinion.functions.portable import in_table, portable
from pinion.functions.row import word_columns
from pinion.graph import evaluate_floats, op_counts
from pinion.graph.passes import fold
from pinion.robot import (
    Model,
    RobotError,
    coupled,
    from_pinocchio,
    load,
    load_text,
    lock,
    model_from_dict,
    model_to_dict,
    q_to_pinocchio,
    ties,
    tip,
    uncoupled,
    urdf_text,
    v_permutation,
)
from pinion.robot.generated import joint_xml, link_xml
from tests.support.pinocchio_frames import motion_of_frame
from tests.support.rows import FRAME_ROWS, legged

Array = NDArray[np.float64]

SEED = 41

REFERENCES = ("local_world_aligned", "local", "world")
CASES = [("forward_kinematics", None), *((row, x) for row in FRAME_ROWS for x in REFERENCES)]

OFFSET = (0.03, -0.2, 0.1)
FRAMES = {
    "iiwa14": ("iiwa_link_7", "iiwa_link_4", "tool=iiwa_link_7@0.03,-0.2,0.1"),
    "floating leg": ("lf_foot_joint", "rh_lowerleg", "tool=lf_foot@0.03,-0.2,0.1"),
    "crane": ("hook", "left finger", "tool=right finger@0.03,-0.2,0.1"),
}


def crane() -> str:
    """Return a robot that slides and turns, with a finger that mimics another, and a fixed hook."""
    names = ("base", "cart", "arm", "left finger", "right finger")
    parts = [
        link_xml(name, mass=1.0, com=(0.1, 0.0, 0.05), tensor=(0.02, 0.0, 0.0, 0.03, 0.0, 0.01))
        for name in names
    ]
    limit = (-1.0, 1.0, 9.0, 1.0)
    for name, kind, parent, child, mimic in (
        ("rail", "prismatic", "base", "cart", None),
        ("slew", "revolute", "cart", "arm", None),
        ("left", "prismatic", "arm", "left finger", None),
        ("right", "revolute", "left finger", "right finger", ("slew", -0.5)),
    ):
        parts.append(
            joint_xml(
                name,
                kind,
                **{"parent": parent, "child": child, "limit": limit, "mimic": mimic},
                **{"xyz": (0.1, 0.2, 0.3), "rpy": (0.4, 0.5, 0.6), "axis": (0.0, 1.0, 0.0)},
            )
        )
    parts += [
        '<link name="plate"/>',
        joint_xml(
            *("hook", "fixed"),
            **{"parent": "arm", "child": "plate", "xyz": (0.3, 0.0, 0.1), "rpy": (0.3, -0.5, 0.7)},
        ),
    ]
    return f'<robot name="crane">{"".join(parts)}</robot>'


@cache
def robots(name: str) -> tuple[Model, Any]:
    """Return a robot, coupled if joints mimic others, and Pinocchio's of independent joints."""
    floating = name.startswith("floating")
    text = {"crane": crane(), "floating leg": legged()}.get(name) or urdf_text(name)
    root = (pin.JointModelFreeFlyer(),) if floating else ()
    return coupled(load_text(text, floating_base=floating)), pin.buildModelFromXML(text, *root)


def frame_number(theirs: Any, name: str) -> int:
    """Return the number of a frame in Pinocchio, which gets it first if it has an offset."""
    name = name.rpartition("=")[2]
    link, at, _ = name.partition("@")
    kind = pin.FrameType.FIXED_JOINT if link in ("hook", "lf_foot_joint") else pin.FrameType.BODY
    number = theirs.getFrameId(link, kind)
    assert number < theirs.nframes, link
    if not at:
        return int(number)
    above = theirs.frames[number]
    place = above.placement * pin.SE3(np.eye(3), np.array(OFFSET))
    frame = pin.Frame(name, above.parentJoint, number, place, pin.FrameType.OP_FRAME)
    return int(theirs.addFrame(frame))


def expected(
    row: str, reference: str | None, model: Model, theirs: Any, x: dict[str, Array], frame: int
) -> list[Array]:
    """Return Pinocchio's results of one state, in the coordinates of the free joints."""
    free = uncoupled(model)
    order = v_permutation(free, theirs)
    to_every = np.zeros((free.nv, model.nv))  # rates of all joints by those of the free ones
    for tie, place in zip(ties(model), free.v_slices, strict=True):
        width = place.stop - place.start
        to_every[place, model.v_slices[tie.leader]] = tie.ratio * np.eye(width)
    q = x["q"] if free.nq == model.nq else to_every @ x["q"]
    rates = np.zeros((2, theirs.nv))
    for k, name in enumerate(("qd", "qdd")):
        rates[k, order] = to_every @ x.get(name, np.zeros(model.nv))
    at = q_to_pinocchio(free, theirs, q)
    results = motion_of_frame(row, theirs, frame, reference or "world", at, *rates)
    if row.startswith("frame_jacobian"):
        results[0] = results[0][:, order] @ to_every
    return results


def drawn(model: Model, row: Function, count: int) -> dict[str, Array]:
    print(f"seed {SEED}")
    arrays = sample(model, row, count, distribution="reference", seed=SEED)
    x = {name: array.astype(np.float64) for name, array in arrays.items()}
    return x | {"q": dynamics.normalise(model, x["q"])}


def agrees(row: Function, robot: str, reference: str | None, count: int = 4) -> None:
    """Check a row's results of several frames against Pinocchio, and its graph against them."""
    model, theirs = robots(robot)
    theirs = theirs.copy()
    x = drawn(model, row, count)
    results = row.evaluate(model, x)
    words = evaluate_floats(row.trace(model), word_columns(row.inputs, model, x))
    frames = [frame_number(theirs, name) for name in FRAMES[robot]]
    each = [
        [
            values
            for frame in frames
            for values in expected(
                *(row.name, reference, model, theirs),
                {name: array[k] for name, array in x.items()},
                frame,
            )
        ]
        for k in range(count)
    ]
    assert len(row.results) == len(each[0]) > 0
    for block, *want in zip(row.results, *each, strict=True):
        have, scale = results[block.name], max(float(np.abs(want).max()), 1e-3)
        assert have.shape == np.shape(want), block.name
        assert np.all(np.abs(have - np.array(want)) <= 1e-9 * scale), block.name
        flat = have.reshape(count, -1)
        for word, position in block.positions(model).items():
            assert np.all(np.abs(words[word] - flat[:, position]) <= 1e-11 * scale), word


def with_frames(name: str, robot: str, reference: str | None) -> Function:
    row = FUNCTIONS[name].with_frames(FRAMES[robot])
    row = row if reference is None else row.with_reference(reference)
    return row.asked(("R", "p")) if row.optional else row


@pytest.mark.parametrize("robot", FRAMES)
@pytest.mark.parametrize(("name", "reference"), CASES)
def test_results_of_several_frames_are_pinocchio_s(
    name: str, reference: str | None, robot: str
) -> None:
    agrees(with_frames(name, robot, reference), robot, reference)


@pytest.mark.parametrize(("right", "wrong"), [("local", "world"), ("local_world_aligned", "local")])
def test_another_reference_is_noticed(right: str, wrong: str) -> None:
    with pytest.raises(AssertionError, match="v_"):
        agrees(with_frames("frame_velocity", "floating leg", wrong), "floating leg", right)


def test_other_frames_are_noticed() -> None:
    row = FUNCTIONS["forward_kinematics"].with_frames(
        ("lf_foot_joint", "rh_lowerleg", "tool=lf_foot@0.03,-0.2,0.11")
    )
    with pytest.raises(AssertionError, match="p_tool"):
        agrees(row, "floating leg", None)


@pytest.mark.parametrize("name", ["operational_space_inertia", "inverse_operational_space_inertia"])
def test_inertias_at_several_frames_are_those_of_each(name: str) -> None:
    model = load("iiwa14")
    row = FUNCTIONS[name].with_frames("iiwa_link_7,tool=iiwa_link_7@0.03,-0.2,0.1")
    x = drawn(model, row, 4)
    x |= {"damping": np.full(4, 0.2)} if "damping" in x else {}
    results = row.evaluate(model, x)
    M = dynamics.crba(model, x["q"])
    for block, frame in zip(row.results, ("iiwa_link_7", "iiwa_link_7@0.03,-0.2,0.1"), strict=True):
        J = dynamics.frame_jacobian(model, x["q"], frame, reference="local_world_aligned")
        want = J @ np.linalg.solve(M, np.swapaxes(J, 1, 2))
        if "damping" in x:
            want = np.linalg.inv(want + 0.2 * np.eye(6))
        assert np.abs(results[block.name] - want).max() <= 1e-9 * np.abs(want).max()


def test_accelerations_are_those_of_the_jacobian_and_its_drift() -> None:
    """Classical ones in base axes, spatial ones in the other references."""
    model = load("iiwa14")
    for reference in REFERENCES:
        kind = "classical_" if reference == "local_world_aligned" else ""
        rows = [
            named_function(name, reference=reference)
            for name in ("frame_jacobian", "frame_drift", f"frame_{kind}acceleration")
        ]
        x = drawn(model, rows[2], 5)
        J, drift, a = (next(iter(row.evaluate(model, x).values())) for row in rows)
        sums = (J @ x["qdd"][..., None])[..., 0] + drift
        assert np.abs(sums - a).max() <= 1e-12 * np.abs(a).max()


def test_without_options_nothing_changes() -> None:
    """Aliases are the row with a reference, and the tip is the frame of a row without frames."""
    model = load("iiwa14")
    for reference in ("local", "world"):
        alias = FUNCTIONS[f"frame_jacobian_{reference}"]
        row = named_function("frame_jacobian", reference=reference)
        assert alias.options == {} and row.options == {"reference": reference}
        assert alias.doc == row.doc and alias.trace(model) == row.trace(model)
    plain = FUNCTIONS["frame_jacobian"]
    assert named_function("frame_jacobian", reference="local_world_aligned") == plain
    assert named_function("frame_jacobian", frames=(), reference=None) == plain
    of_tip = plain.with_frames(("iiwa_link_7",)).trace(model)
    assert of_tip.nodes == plain.trace(model).nodes
    assert next(word for word, _ in of_tip.outputs) == "J_iiwa_link_7[0,0]"


def test_frames_share_their_chain() -> None:
    """Two frames of one chain need few operations more than one."""
    model, row = load("iiwa14"), FUNCTIONS["frame_jacobian"]
    products = [
        op_counts(fold(row.with_frames(frames).trace(model)))["mul"]
        for frames in ("iiwa_link_7", "iiwa_link_7,iiwa_link_5")
    ]
    assert products[0] < products[1] < 1.3 * products[0]


def test_frames_of_a_quadruped_need_no_tip() -> None:
    model = load("hyq")
    row = FUNCTIONS["forward_kinematics"].with_frames(("lf_lowerleg", "rh_lowerleg"))
    arrays = row.evaluate(model, {"q": np.full((1, 12), 0.1)})
    assert list(arrays) == ["R_lf_lowerleg", "p_lf_lowerleg", "R_rh_lowerleg", "p_rh_lowerleg"]
    R, p = dynamics.frame_placement(model, np.full(12, 0.1), "rh_lowerleg")
    assert np.array_equal(arrays["R_rh_lowerleg"][0], R)
    assert np.array_equal(arrays["p_rh_lowerleg"][0], p)


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "frames", "labels"),
    [
        ("elbow, tool", ("elbow", "tool"), ("elbow", "tool")),
        ("link_7@0,0,0.1,elbow", ("link_7@0,0,0.1", "elbow"), ("link_7_0_0_0_1", "elbow")),
        ("tool=link 7@-1e-3,.5,2.,base", ("tool=link 7@-1e-3,.5,2.", "base"), ("tool", "base")),
        ("left finger,a@b,3", ("left finger", "a@b", "3"), ("left_finger", "a_b", "3")),
    ],
)
def test_a_text_is_read_as_frames(text: str, frames: tuple[str, ...], labels: Any) -> None:
    assert split_frames(text) == frames and frame_labels(frames) == labels
    assert split_frames(",".join(frames)) == frames


@pytest.mark.parametrize("name", ["forward_kinematics", "frame_jacobian", "frame_drift"])
def test_options_travel_as_text(name: str) -> None:
    row = with_frames(name, "crane", None if name == "forward_kinematics" else "world")
    assert named_function(name, **options_from_text(row.options)) == row
    assert in_table(row) and portable(row).function() == row
    assert row.options["frames"] == "hook,left finger,tool=right finger@0.03,-0.2,0.1"


def test_results_are_asked_for_all_frames_or_for_one() -> None:
    row = FUNCTIONS["frame_jacobian"].with_frames("a,b")
    assert [block.name for block in row.asked("p").results] == ["J_a", "p_a", "J_b", "p_b"]
    assert [block.name for block in row.asked("p_b").results] == ["J_a", "J_b", "p_b"]
    assert FUNCTIONS["frame_jacobian"].asked("p").with_frames("a,b") == row.asked("p")
    with pytest.raises(FunctionError, match="has no result 'x'; its results are J_a, J_b, R_a"):
        row.asked("x")


def refused(message: str, name: str = "frame_jacobian", **options: Any) -> None:
    with pytest.raises((FunctionError, dynamics.DynamicsError), match=message):
        named_function(name, **options).trace(robots("crane")[0])


def test_wrong_frames_are_a_sentence() -> None:
    refused("'rnea' do not belong to frames: leave out the frames \\(arm\\)", "rnea", frames="arm")
    refused("'rnea' has no reference 'world': leave it out", "rnea", reference="world")
    refused(
        "no reference 'body': choose one of local_world_aligned, local, world", reference="body"
    )
    refused("no reference 'world': choose one of local", "frame_jacobian_local", reference="world")
    refused("no reference 'local'", "forward_kinematics", reference="local")
    refused("no link or fixed joint 'hok' .*the nearest is 'hook'", frames="hok")
    refused("no link or fixed joint 'plat' .*'plate'", frames="plat@0,0,0.1")
    refused("'arm@0,nan,1' .*'arm@0,nan,1'.* LINK@X,Y,Z", frames=("arm@0,nan,1",))
    refused("'arm@0' of the robot 'crane' has the invalid offset '0'.*arm@0,0,0.1", frames="arm@0")
    refused(
        "'left finger' and 'left-finger' both name their results 'left_finger'.*"
        "left_finger_2=left-finger",
        frames=("left finger", "left-finger"),
    )
    refused("both name their results 'arm'", frames="arm,arm")
    refused("change no result", "frame_velocity", frames="arm", parameters=("arm",))
    with pytest.raises(FunctionError, match="already has frames"):
        FUNCTIONS["frame_drift"].with_frames("a").with_frames("b")
    row = FUNCTIONS["frame_jacobian"].with_frames(("left finger", "left_finger_2=left-finger"))
    assert [block.name for block in row.results] == ["J_left_finger", "J_left_finger_2"]


# -- fixed joints ----------------------------------------------------------------------------------


def test_a_fixed_joint_is_the_frame_of_its_link() -> None:
    model, theirs = load_text(crane()), robots("crane")[1]
    q = np.full(model.nq, 0.2)
    for robot in (model, coupled(model), model_from_dict(model_to_dict(model))):
        x = q[: robot.nq]
        for name in ("hook", "plate@0,0,0"):
            R, p = dynamics.frame_placement(robot, x, name)
            expected_R, expected_p = dynamics.frame_placement(robot, x, "plate")
            assert np.array_equal(R, expected_R) and np.array_equal(p, expected_p)
    assert dict(from_pinocchio(theirs).fixed_joints)["hook"] == "plate"
    assert dict(tip(model, "plate").fixed_joints) == {"hook": "plate"}
    assert tip(model, "cart").fixed_joints == ()


def test_a_locked_joint_is_a_fixed_one() -> None:
    model = lock(load("iiwa14"), {"iiwa_joint_4": 0.3})
    pose = dynamics.frame_placement(model, np.zeros(6), "iiwa_joint_4")
    link = dynamics.frame_placement(model, np.zeros(6), "iiwa_link_4")
    assert all(np.array_equal(a, b) for a, b in zip(pose, link, strict=True))
    with pytest.raises(RobotError, match=r"joint name .* control character"):
        load_text(crane().replace('"hook"', '"ho&#x202e;ok"'))
