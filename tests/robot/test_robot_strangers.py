"""Files from other tools: unread elements are not checked, and omissions have a note.

Pinocchio, reading the same text without the elements it rejects, is the oracle.
"""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from pinion import dynamics
from pinion.functions import FUNCTIONS, FunctionError, named_function, position_limits
from pinion.robot import (
    Model,
    RobotError,
    load,
    load_text,
    massless,
    payload,
    q_to_pinocchio,
    tip,
    v_permutation,
    with_contacts,
)
from tests.robot.snippets import A, B, C, joint, link, robot, tensor

ODD = link("b", "2", tensor(ixx="0.1", iyy="0.11", izz="0.12"), '<origin xyz="0.1 0.2 0.3"/>')
TURN = '<origin xyz="0.1 0.2 0.3" rpy="0.1 0.2 0.3"/><axis xyz="0 1 0"/>'
PARTS = (A, ODD, C, joint(extra=TURN), joint("k", "b", "c", extra=TURN))
LIMIT = '<limit lower="{}" upper="{}" effort="{}" velocity="{}"/>'


def check_against_pinocchio(model: Model, text: str, *, floating_base: bool = False) -> None:
    """Compare inverse dynamics at random states with Pinocchio's reading of the text."""
    root = (pin.JointModelFreeFlyer(),) if floating_base else ()
    other = pin.buildModelFromXML(text, *root)
    rng = np.random.default_rng(7)
    q = dynamics.random_configuration(model, rng, 4)
    qd, qdd = rng.uniform(-2.0, 2.0, (2, 4, model.nv))
    order, data = v_permutation(model, other), other.createData()
    rates, accelerations = np.zeros((2, 4, other.nv))
    rates[:, order], accelerations[:, order] = qd, qdd
    states = zip(q_to_pinocchio(model, other, q), rates, accelerations, strict=True)
    expected = np.array([pin.rnea(other, data, *state)[order] for state in states])
    assert np.max(np.abs(expected)) > 0.1  # else nothing was compared
    np.testing.assert_allclose(dynamics.rnea(model, q, qd, qdd), expected, rtol=0, atol=1e-11)


READ_AS_IT_IS = {
    "namespace of its own": robot(*PARTS).replace("<robot ", '<robot xmlns="http://r.org" ', 1),
    "namespace of a link": robot(*PARTS).replace("<link ", '<link xmlns="http://r.org" ', 1),
    "undeclared prefix": robot(*PARTS, '<gazebo><sensor:camera name="c"/></gazebo>'),
    "undeclared prefix of an attribute": robot(*PARTS, '<gazebo xlink:href="c"/>'),
    "xacro in a visual": robot(
        *PARTS, '<link name="d"><visual><xacro:grey/><x a="${b}"/></visual></link>',
        joint("d", "a", "d", "fixed"),
    ),
    "xacro in a text": robot(*PARTS, "<gazebo><name>${prefix}b</name></gazebo>"),
    "xacro's definitions": robot(
        '<xacro:property name="m" value="${1 + 1}"/><xacro:macro name="x"><y/></xacro:macro>',
        *PARTS,
    ),
    "xacro in a continuous joint's limits": robot(
        *PARTS, link("d"),
        joint("d", "c", "d", "continuous", extra=LIMIT.format("${-pi}", "${pi}", 1, 1)),
    ),
    "limits, axis and mimic of a fixed joint": robot(
        *PARTS, link("d"),
        joint(
            "d", "c", "d", "fixed",
            extra='<axis xyz="0 0 0"/><limit lower="1" upper="-1" effort="x" velocity="-5"/>'
            '<mimic joint=""/><dynamics damping="-1"/>',
        ),
    ),
    "reversed limits of a continuous joint": robot(
        *PARTS, link("d"), joint("d", "c", "d", "continuous", extra=LIMIT.format(3, -3, 1, 1))
    ),
    "broken calibrations": robot(
        *PARTS[:3],
        joint(extra=TURN + '<calibration rising="x"/><calibration/><safety_controller/>'),
        PARTS[4],
    ),
    "broken transmission": robot(*PARTS, '<transmission><joint name="${j}"/></transmission>'),
    "white space first": "\n \t<?xml version='1.0'?>\n" + robot(*PARTS),
}  # fmt: skip


UNREAD = re.compile(r'<limit [^>]*(pi}|velocity="-5")[^>]*/>|<calibration[^>]*/>|<safety[^>]*/>')
"""Elements that Pinocchio's reader checks although its model does not use them."""


@pytest.mark.parametrize("kind", READ_AS_IT_IS)
def test_unread_elements_are_not_checked(kind: str, tmp_path: Path) -> None:
    text = READ_AS_IT_IS[kind]
    check_against_pinocchio(load_text(text), UNREAD.sub("", text))
    path = tmp_path / "robot.urdf"
    path.write_text(text, encoding="utf-8")
    assert load(path).bodies == load_text(text).bodies


def test_a_late_declaration_keeps_the_encoding_and_the_lines() -> None:
    text = "\n\n<?xml version='1.0' encoding='latin-1'?>\n" + robot(
        A, link("bü"), joint(child="bü")
    )
    assert load_text(text.encode("latin-1")).bodies[0].name == "bü"
    assert load_text(text).bodies[0].name == "bü"  # a text is already decoded
    with pytest.raises(RobotError, match="line 4"):
        load_text(text.replace("</robot>", "").encode("latin-1"))


@pytest.mark.parametrize("entity", ['SYSTEM "file:///etc/hostname"', 'SYSTEM "http://r.org/x"'])
def test_entities_from_elsewhere_are_refused(entity: str) -> None:
    head = f"<!DOCTYPE robot [<!ENTITY x {entity}>]>"
    with pytest.raises(RobotError, match="undefined entity &x;"):
        load_text(head + robot(A, B, joint(), "<gazebo>&x;</gazebo>"))
    with pytest.raises(RobotError, match="external entity"):
        load_text(head + robot(A, link("b", "&x;"), joint()))
    with pytest.raises(RobotError, match="undefined entity"):
        load_text(robot(A, B, joint(), "<gazebo>&y;</gazebo>"))


@pytest.mark.parametrize("dtd", ['SYSTEM "x.dtd"', '[<!ENTITY % ext SYSTEM "x.dtd"> %ext;]'])
def test_declarations_from_elsewhere_are_refused(dtd: str) -> None:
    """Expat reads the mass 1&zero; as 1, since the external DTD may define the entity."""
    text = robot(A, link("b", "1&zero;"), joint())
    with pytest.raises(RobotError, match="DOCTYPE refers to external declarations"):
        load_text(f"<!DOCTYPE robot {dtd}>{text}")
    with pytest.raises(RobotError, match="undefined entity"):
        load_text(f"<?xml version='1.0' standalone='yes'?><!DOCTYPE robot {dtd}>{text}")
    with pytest.raises(RobotError, match="undefined entity"):
        load_text(text)


def test_entities_that_grow_are_refused_and_depth_is_no_matter() -> None:
    names = "abcdefghij"
    grown = "".join(
        f'<!ENTITY {name} "{f"&{previous};" * 10}">' for previous, name in itertools.pairwise(names)
    )
    head = f'<!DOCTYPE robot [<!ENTITY a "{"x" * 99}">{grown}]>'
    with pytest.raises(RobotError, match="cannot be read as XML"):
        load_text(head + robot(A, B, joint(), "<gazebo>&j;</gazebo>"))
    deep = 100_000
    text = robot(A, B, joint(), "<gazebo>" + "<x>" * deep + "</x>" * deep + "</gazebo>")
    assert load_text(text).nq == 1
    internal = '<!DOCTYPE robot [<!ENTITY m "2.5">]>' + robot(A, link("b", "&m;"), joint())
    assert load_text(internal).bodies[0].inertia.mass == 2.5


FIRST_COUNTS = {
    "inertial": robot(A, ODD.replace("</link>", link("x")[15:]), C, *PARTS[3:]),
    "mass": robot(A, ODD.replace("</inertial>", '<mass value="9"/></inertial>'), C, *PARTS[3:]),
    "origin": robot(*PARTS[:3], joint(extra=TURN + "<origin xyz='9 9 9'/>"), PARTS[4]),
    "axis": robot(*PARTS[:3], joint(extra=TURN + "<axis xyz='1 0 0'/>"), PARTS[4]),
    "limit": robot(*PARTS[:3], joint(extra=TURN + LIMIT.format(-1, 1, 1, 1) * 2), PARTS[4]),
}


@pytest.mark.parametrize("tag", FIRST_COUNTS)
def test_the_first_of_two_counts_with_a_note(tag: str) -> None:
    text = FIRST_COUNTS[tag]
    model = load_text(text)
    (note,) = [note for note in model.notes if "only the first is used" in note]
    assert f"has 2 <{tag}> elements" in note
    check_against_pinocchio(model, text)
    assert model.bodies == load_text(robot(*PARTS)).bodies


def test_limits_without_end_are_none() -> None:
    model = load_text(robot(A, B, joint(extra=LIMIT.format("-inf", "inf", "inf", "inf"))))
    first = model.bodies[0].joint
    assert (first.lower, first.upper) == (-math.inf, math.inf)
    assert (first.effort, first.velocity) == (math.inf, math.inf)
    assert any("'j' gives no position limits" in note for note in model.notes)
    half = load_text(robot(A, B, joint(extra=LIMIT.format("0.5", "1.797e308", 1, 1))))
    assert (half.bodies[0].joint.lower, half.bodies[0].joint.upper) == (0.5, math.inf)
    assert np.all(np.isfinite(position_limits(half)))


def test_minus_one_is_no_limit() -> None:
    for kind in ("continuous", "revolute", "prismatic"):
        model = load_text(robot(A, B, joint(kind=kind, extra=LIMIT.format(-1, 1, "-1", "-1.0"))))
        first = model.bodies[0].joint
        assert (first.effort, first.velocity) == (math.inf, math.inf)
        for key in ("effort", "velocity"):
            note = f"Joint 'j' has the {key} limit -1, which means no limit."
            assert note in model.notes
        if kind != "continuous":
            assert (first.lower, first.upper) == (-1.0, 1.0)  # there it is a position


def test_limits_that_hold_a_joint_have_a_note() -> None:
    notes = load_text(robot(A, B, joint(extra=LIMIT.format(0, 0, 1, 0)))).notes
    assert any("'j' has one position within its limits, 0 rad" in note for note in notes)
    notes = load_text(robot(A, B, joint(kind="continuous", extra=LIMIT.format(0, 0, 1, 1)))).notes
    assert not any("one position" in note for note in notes)


def test_a_fixed_root_joint_leaves_the_name_to_the_floating_base() -> None:
    parts = (A, ODD, C, joint("root_joint", "a", "b", "fixed"), PARTS[4])
    model = load_text(robot(*parts), floating_base=True)
    assert (model.nq, model.nv) == (8, 7)
    check_against_pinocchio(model, robot(*parts).replace("root_joint", "hook"), floating_base=True)
    with pytest.raises(RobotError, match="already has a joint 'root_joint'"):
        load_text(robot(*PARTS).replace('name="j"', 'name="root_joint"'), floating_base=True)


LEFT_OUT = {
    "rotor": (
        '<transmission name="t"><joint name="j"/><actuator name="m"><drake:rotor_inertia '
        'value="1e-5"/><drake:gear_ratio value="100"/></actuator></transmission>',
        ("<transmission> of 'j'", "inertia of a rotor", "rotor_inertia="),
    ),
    "rotor in a text": (
        "<transmission name='t'><actuator><motorInertia>0.01</motorInertia></actuator>"
        "</transmission>",
        ("<transmission> of 't'", "inertia of a rotor"),
    ),
    "spring": (
        '<gazebo reference="j"><springStiffness>10</springStiffness></gazebo>',
        ("<gazebo> of 'j'", "stiffness of a spring", "stiffness=", "rest="),
    ),
    "no reference": (
        "<gazebo><springStiffness>1e1</springStiffness></gazebo>",
        ("A <gazebo> has the stiffness of a spring",),
    ),
    "decay": (
        '<gazebo reference="b"><dampingFactor>0.01</dampingFactor></gazebo>',
        ("<gazebo> of 'b' has a decay of its velocity, left out of the model.",),
    ),
    "loop of Gazebo": (
        '<gazebo><joint name="shut" type="revolute"><parent>a</parent><child>c</child></joint>'
        "</gazebo>",
        ("<gazebo> of 'shut' has a joint that closes a loop, left out of the model.",),
    ),
    "loop": (
        '<loop_joint name="shut" type="revolute"><link1 link="a"/><link2 link="c"/></loop_joint>',
        ("The <loop_joint> 'shut' is a joint that closes a loop, left out of the model.",),
    ),
    "spring of Drake": (
        "<drake:linear_spring_damper/>",
        ("A <drake:linear_spring_damper> is a spring with a damper, left out of the model.",),
    ),
    "no gravity": (
        '<gazebo reference="b"><turnGravityOff>true</turnGravityOff></gazebo>',
        ("<gazebo> of 'b'", "no gravity, left out of the model."),
    ),
}


@pytest.mark.parametrize("kind", LEFT_OUT)
def test_what_would_change_the_dynamics_and_is_left_out_has_a_note(kind: str) -> None:
    extra, needles = LEFT_OUT[kind]
    (note,) = [note for note in load_text(robot(*PARTS, extra)).notes if "left out" in note]
    for needle in needles:
        assert needle in note
    assert load_text(robot(*PARTS, extra)).bodies == load_text(robot(*PARTS)).bodies


def test_what_the_joint_itself_says_has_no_note() -> None:
    rotor = (
        '<transmission name="t"><joint name="{}"/><rotorInertia>1e-5</rotorInertia></transmission>'
    )
    spring = '<gazebo reference="{}"><springStiffness>10</springStiffness></gazebo>'
    extra = "".join(text.format(name) for text in (rotor, spring) for name in "jk")
    expected = {"armature=": ("'k'", "'j', 'k'"), "stiffness=": ("'j', 'k'", "'k'")}
    expected["rotor_inertia="] = expected["armature="]
    for key, (rotors, springs) in expected.items():
        moving = joint(extra=TURN + f'<pinion {key}"2"/>')
        notes = load_text(robot(*PARTS[:3], moving, PARTS[4], extra)).notes
        (of_rotors, of_springs) = [note for note in notes if "left out" in note]
        assert f"<transmission> of {rotors} has" in of_rotors
        assert f"<gazebo> of {springs} has" in of_springs


def test_zeros_are_left_out_without_a_note() -> None:
    extra = (
        '<transmission name="t"><joint name="j"/><actuator><rotor_inertia value="0.00"/></actuator>'
        '</transmission><gazebo reference="j"><springStiffness>0</springStiffness>'
        "<turnGravityOff>false</turnGravityOff></gazebo>"
    )
    assert not [note for note in load_text(robot(*PARTS, extra)).notes if "left out" in note]


@pytest.mark.parametrize(
    ("axis", "x", "y"),
    [("0 1 0", (0, 0, 1), (1, 0, 0)), ("1 0 0", (0, 1, 0), (0, 0, 1)), ("0 0 1", None, None)],
)
def test_planar_joints_say_which_way_they_shift(
    axis: str, x: tuple[int, ...] | None, y: tuple[int, ...] | None
) -> None:
    text = robot(A, ODD, joint(kind="planar", extra=f'<axis xyz="{axis}"/>'))
    model = load_text(text)
    notes = [note for note in model.notes if "planar" in note]
    if x is None or y is None:
        assert notes == []
        check_against_pinocchio(model, text)  # whose planar joints have the normal z
        return
    (note,) = notes
    directions = [" ".join(map(str, way)) for way in (x, y)]
    assert f"along ({directions[0]}) and ({directions[1]}) of its own frame" in note
    for k, direction in enumerate((x, y)):
        q = dynamics.neutral_configuration(model)
        q[k] = 1.0
        _, p = dynamics.frame_placement(model, q, "b")
        np.testing.assert_array_equal(p, direction)


def test_a_planar_joint_without_an_axis_says_what_its_normal_is() -> None:
    model = load_text(robot(A, ODD, joint(kind="planar")))
    assert any(
        "'j' is planar and gives no axis" in note and "(1 0 0)" in note for note in model.notes
    )
    explicit = load_text(robot(A, ODD, joint(kind="planar", extra='<axis xyz="1 0 0"/>')))
    assert model.bodies == explicit.bodies


BARE = (
    *('<link name="a"/>', '<link name="b"/>', '<link name="c"/>'),
    *(joint(extra=TURN), joint("k", "b", "c", extra=TURN)),
)
KINEMATIC = (
    *("forward_kinematics", "frame_jacobian", "frame_jacobian_local", "frame_jacobian_world"),
    *("frame_velocity", "frame_acceleration", "frame_classical_acceleration"),
    *("frame_drift", "frame_jacobian_rate", "contact_acceleration"),
    *("rnea_regressor", "gravity_regressor"),
    *("kinetic_energy_regressor", "potential_energy_regressor"),
)
"""Rows of placements and motions alone, regressors among them: masses are what they multiply."""


@pytest.mark.parametrize("kind", ["no inertial", "zeros", "mass on the fixed base alone", "cut"])
def test_robots_without_mass_serve_kinematics(kind: str) -> None:
    zeros = link("b", "0", tensor(ixx="0", iyy="0", izz="0"))
    extra = (link("d"), joint("l", "a", "d"))
    text = {
        "no inertial": robot(*BARE),
        "zeros": robot(BARE[0], zeros, *BARE[2:]),
        "mass on the fixed base alone": robot(link("a"), *BARE[1:]),
        "cut": robot(*BARE, *extra),
    }[kind]
    if kind == "cut":
        with pytest.raises(RobotError, match="moves no inertia"):
            load_text(text)  # a fault, since other bodies have mass
        massy = load_text(text.replace(BARE[2], C))
        model = tip(massy, "b")
    else:
        model = load_text(text)
    assert massless(model) and any("No moving body has mass" in note for note in model.notes)
    heavy = load_text(robot(A, B, C, *BARE[3:]))
    heavy = tip(heavy, "b") if kind == "cut" else heavy
    q = np.array([[0.3, -0.4], [0.1, 0.2]])[:, : model.nq]
    massless_placement = dynamics.frame_placement(model, q, model.bodies[-1].name)
    heavy_placement = dynamics.frame_placement(heavy, q, heavy.bodies[-1].name)
    for ours, theirs in zip(massless_placement, heavy_placement, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_without_mass_exactly_kinematics_can_be_computed(name: str) -> None:
    model, row = with_contacts(load_text(robot(*BARE)), ["b"]), named_function(name)
    rng = np.random.default_rng(3)
    arrays = {b.name: rng.uniform(0.1, 1.0, (2, *b.dims(model))) for b in row.inputs}
    if "active" in arrays:
        arrays["active"] = np.ones((2, 1))
    if name in KINEMATIC:
        results = row.evaluate(model, arrays)
        assert row.trace(model).outputs and all(np.all(np.isfinite(x)) for x in results.values())
        return
    with pytest.raises(dynamics.DynamicsError, match="mass"):
        row.evaluate(model, arrays)
    with pytest.raises(FunctionError, match="mass"):
        row.trace(model)


def test_without_mass_a_floating_base_and_accepted_figures_are_as_asked() -> None:
    floating = load_text(robot(*BARE), floating_base=True)
    assert massless(floating) and floating.nv == 8
    with pytest.raises(dynamics.DynamicsError, match="mass"):
        dynamics.crba(floating, dynamics.neutral_configuration(floating))
    accepted = load_text(robot(*BARE), accept_inertia=True)
    assert not massless(accepted)
    np.testing.assert_array_equal(dynamics.crba(accepted, np.zeros(2)), np.zeros((2, 2)))
    rotors = robot(*BARE).replace("</joint>", '<pinion armature="0.5"/></joint>')
    np.testing.assert_array_equal(dynamics.crba(load_text(rotors), np.zeros(2)), 0.5 * np.eye(2))
    loaded = payload(load_text(robot(*BARE)), "c", mass=2.0, com=(0.1, 0.0, 0.2))
    assert not massless(loaded)
