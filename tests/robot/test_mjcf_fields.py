"""The table of every field of ``mjModel`` in docs/robot-files.md is complete and correct."""

from __future__ import annotations

import copy
import math
import re
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion import dynamics
from pinion.robot import Model
from pinion.robot.read.mjcf import read_compiled
from tests.robot.mujoco_oracle import MujocoRobot

mujoco = pytest.importorskip("mujoco", reason="the mujoco library (extra mjcf) is not installed")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "robot-files.md"
of_the_table = pytest.mark.skipif(
    int(mujoco.__version__.split(".")[0]) < 4, reason="the table names the fields of MuJoCo 4.0"
)

KINDS = ("taken", "noted", "no part")


@cache
def table() -> dict[str, str]:
    """Return the kind of each field or pattern on the page; flags as ``flag NAME``."""
    text = PAGE.read_text(encoding="utf-8").split("## Every field of mjModel")[1]
    kinds_by_name: dict[str, str] = {}
    for fields, kind in re.findall(r"^\| (.*?) \| (\S.*?) \| .* \|$", text, re.MULTILINE):
        for flag, name in re.findall(r"(flag )?`([^`]+)`", fields) if kind in KINDS else ():
            assert flag + name not in kinds_by_name, name
            kinds_by_name[flag + name] = kind
    return kinds_by_name


def kind_of(name: str) -> str | None:
    """Return a field's kind, by its name first, then by patterns, which must agree."""
    rows = table()
    if name in rows:
        return rows[name]
    kinds = {kind for pattern, kind in rows.items() if fnmatchcase(name, pattern)}
    assert len(kinds) <= 1, (name, kinds)
    return kinds.pop() if kinds else None


def members(thing: Any) -> list[str]:
    return [n for n in dir(thing) if not n.startswith("_") and not callable(getattr(thing, n))]


def names(compiled: Any) -> list[str]:
    """Return every field of a compiled model and of its options, and every flag."""
    flags = [
        name[len("mjDSBL_") :].lower()
        for kind in (mujoco.mjtDisableBit, mujoco.mjtEnableBit)
        for name in dir(kind)
        if re.match("mj(DSBL|ENBL)_", name)
    ]
    return [
        *(name for name in members(compiled) if name != "opt"),
        *(f"opt.{name}" for name in members(compiled.opt)),
        *(f"flag {name}" for name in flags),
    ]


@of_the_table
def test_every_field_is_in_the_table() -> None:
    fields = names(mujoco.MjModel.from_xml_string("<mujoco/>"))
    assert len(fields) > 500
    assert [name for name in fields if kind_of(name) is None] == []


@of_the_table
def test_every_row_is_of_a_field() -> None:
    fields = names(mujoco.MjModel.from_xml_string("<mujoco/>"))
    rows = table()
    assert set(rows.values()) == set(KINDS)
    assert [p for p in rows if not any(fnmatchcase(name, p) for name in fields)] == []


def test_a_new_field_is_noticed() -> None:
    assert kind_of("jnt_novelty") is None
    assert kind_of("dof_novelty") is None
    assert kind_of("body_novelty") is None
    assert kind_of("opt.novelty") is None
    assert kind_of("flag novelty") is None


# One of each element that a file may have without a constraint, in poses that MuJoCo does not flag
# as the identity.
RICH = """<mujoco model="rich"><compiler angle="radian"/><option gravity="1 -2 -9"/>
<asset><mesh name="m" vertex="0 0 0 .1 0 0 0 .1 0 0 0 .1"/><material name="w" rgba="1 0 0 1"/>
<texture name="t" type="2d" builtin="flat" width="4" height="4"/>
<hfield name="h" nrow="2" ncol="2" size="1 1 1 1"/></asset>
<default><geom contype="0" conaffinity="0"/></default>
<worldbody><light pos="0 0 3"/><camera name="c" pos="1 0 0"/><site name="s" pos="0 0 1"/>
<geom type="hfield" hfield="h"/>
<body name="u" pos=".1 .2 .3" euler=".1 .2 .3">
 <joint name="a" axis="1 2 3" pos=".1 0 .2" ref=".2" damping="1 2 3" armature=".3" stiffness="4 5 6"
  springref=".4" range="-3 3" actuatorfrcrange="-20 30"/>
 <joint name="b" type="slide" axis="0 1 1" pos=".2 0 0" frictionloss=".7"/>
 <geom type="mesh" mesh="m" material="w" pos=".1 .2 .1" euler=".3 .1 .2"/>
 <site name="v" pos=".1 0 0"/>
 <inertial pos=".1 .2 .3" euler=".2 .4 .1" mass="2" diaginertia=".2 .3 .4"/>
 <body name="w" pos=".1 .3 .2" euler=".4 .1 .2">
  <joint name="d" type="ball" pos="0 .1 .2" damping=".5"/>
  <inertial pos=".1 .1 .3" euler=".2 .4 .1" mass="1" diaginertia=".2 .3 .4"/></body></body>
</worldbody>
<actuator><motor name="am" joint="a" gear="3" armature=".02" damping=".1 .2 .3" ctrlrange="-9 9"/>
<position name="bp" joint="b" kp="3" kv="1" gear="2" armature=".01" forcerange="-7 7"/></actuator>
<sensor><jointpos joint="a"/><accelerometer site="v"/></sensor>
<keyframe><key qpos="0 0 1 0 0 0"/></keyframe>
<custom><numeric name="n" data="1 2"/><text name="x" data="y"/></custom></mujoco>"""

STATE = 7
"""Seed of the compared state."""


def efforts(compiled: Any, model: Model) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(STATE)
    q = dynamics.random_configuration(model, rng)
    q[1] = 0.3
    qd, qdd = rng.uniform(0.5, 1.5, (2, model.nv))  # dry friction slides
    return np.stack(
        [
            MujocoRobot(compiled=compiled, model=model).inverse(q, qd, qdd),
            dynamics.rnea(model, q, qd, qdd, joint_terms=True),
        ]
    )


def changed(values: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    shift = np.linspace(0.05, 0.1, values.shape[-1]) if values.ndim > 1 else 0.07
    moved = values * 1.3 + shift  # all velocities of a joint share one figure in a file
    if name in ("jnt_axis", "body_quat", "body_iquat"):
        moved = moved / np.linalg.norm(moved, axis=-1, keepdims=True)
    return np.asarray(moved)


LIMITS = (
    *("jnt_range", "jnt_actfrcrange"),
    *("actuator_forcerange", "actuator_ctrlrange", "actuator_gainprm"),
)  # read, without an effect on efforts


def test_figures_act_as_the_table_says() -> None:
    print(f"seed {STATE}")
    original = mujoco.MjModel.from_xml_string(RICH)
    model = read_compiled(original, source="rich").finished()
    original_efforts = efforts(original, model)
    np.testing.assert_allclose(original_efforts[0], original_efforts[1], rtol=1e-10, atol=1e-10)
    counts = dict.fromkeys(KINDS, 0)
    for name in names(original):
        owner, _, field = name.rpartition(".")
        compiled = copy.deepcopy(original)
        holder = compiled.opt if owner else compiled
        value = getattr(holder, field, None)
        figures = np.asarray(value)
        if figures.dtype.kind != "f" or not figures.size or name == "stat":
            continue  # indices define the file's structure
        if figures.ndim:
            simple = slice(2) if field.startswith("jnt_stiffness") else slice(None)  # no ball
            value[simple] = changed(figures, field)[simple]
        else:
            setattr(holder, field, float(changed(figures, field)))
        kind = kind_of(name)
        changed_model = read_compiled(compiled, source="rich").finished()
        changed_efforts = efforts(compiled, changed_model)
        counts[str(kind)] += 1
        if kind == "no part":
            # MuJoCo takes moments about sums of masses: rounding may differ.
            np.testing.assert_allclose(
                changed_efforts[0], original_efforts[0], rtol=1e-12, atol=1e-12, err_msg=name
            )
            assert changed_model == model, name
        elif kind == "noted":
            still = np.allclose(
                changed_efforts[0], original_efforts[0], rtol=1e-12, atol=1e-12
            )  # wind in a vacuum
            assert still or set(changed_model.notes) - set(model.notes), name
        else:
            assert changed_model != model, name
            np.testing.assert_allclose(
                changed_efforts[0], changed_efforts[1], rtol=1e-10, atol=1e-10, err_msg=name
            )
            largest_change = np.max(np.abs(changed_efforts[0] - original_efforts[0]))
            assert largest_change > 1e-3 or name in LIMITS, name
    print(counts)  # of fields with figures
    assert counts["taken"] >= 20 and counts["noted"] >= 3 and counts["no part"] >= 60


MOTOR = '<actuator><motor joint="a" {}/></actuator>'
INERTIAL = '<inertial pos="0 0 -0.5" mass="2" diaginertia="0.1 0.1 0.02"/>'


def pendulum(joint: str = "", behind: str = "", option: str = "", body: str = "") -> str:
    return (
        f'<mujoco><option>{option}</option><worldbody><body name="arm" {body}>'
        f'<joint name="a" axis="0 1 0" {joint}/>{INERTIAL}</body></worldbody>{behind}</mujoco>'
    )


def off(*flags: str) -> str:
    return "<flag " + " ".join(f'{flag}="disable"' for flag in flags) + "/>"


ADDED = '<actuator><motor joint="a" gear="10" armature="0.02"/></actuator>'
TERMS = 'damping="1" stiffness="2" frictionloss="3"'


@pytest.mark.parametrize(
    ("text", "tau"),
    [
        (pendulum(), 3.31905323),
        (pendulum(option=off("gravity")), 0.42),
        (pendulum('frictionloss="3"'), 6.31905323),
        (pendulum('frictionloss="3"', option=off("frictionloss")), 3.31905323),
        (pendulum('frictionloss="3"', option=off("constraint")), 3.31905323),
        (pendulum(TERMS), 7.41905323),
        (pendulum(TERMS, option=off("damper")), 6.91905323),
        (pendulum(TERMS, option=off("spring")), 6.81905323),
        (pendulum(TERMS, option=off("spring", "damper", "frictionloss", "gravity")), 0.42),
        (pendulum(behind=ADDED), 4.71905323),
        (pendulum(behind=ADDED, option=off("actuation")), 4.71905323),
        (pendulum(behind=ADDED.replace("armature", "damping")), 4.31905323),
        (pendulum(behind=ADDED.replace('armature="0.02"', 'damping=".02 .03 .04"')), 5.56905323),
        (pendulum(behind=ADDED.replace("armature", "damping"), option=off("damper")), 3.31905323),
        (pendulum(behind=ADDED.replace("</", ADDED[10:-11] + "</")), 6.11905323),
        (pendulum('damping="1 2 3"'), 4.69405323),
        (pendulum('stiffness="1 2 3" springref="20"'), 3.27444792),
    ],
)  # fmt: skip
def test_flags_actuators_and_polynomials(text: str, tau: float) -> None:
    """At 0.3 rad, 0.5 rad/s and 0.7 rad/s^2; the figures are MuJoCo 4.0's."""
    compiled = mujoco.MjModel.from_xml_string(text)
    model = read_compiled(compiled, source="pendulum").finished()
    q, qd, qdd = np.array([0.3]), np.array([0.5]), np.array([0.7])
    robot = MujocoRobot(compiled=compiled, model=model)
    assert robot.inverse(q, qd, qdd) == pytest.approx(tau, abs=5e-9)
    assert dynamics.rnea(model, q, qd, qdd, joint_terms=True) == pytest.approx(tau, abs=5e-9)
    # Damping is odd in the rate, a spring is not odd in the position.
    ours = dynamics.rnea(model, -q, -qd, -qdd, joint_terms=True)
    assert ours == pytest.approx(robot.inverse(-q, -qd, -qdd), abs=1e-10)


SECOND = f'<body pos="1 0 0"><joint axis="0 1 0"/>{INERTIAL}</body>'
TWO = pendulum().replace("</worldbody>", SECOND + "</worldbody>")
TOUCHING = '<geom size=".1"/><geom type="plane" size="1 1 1" pos="0 0 -2"/>'


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (pendulum(option=off("gravity")), "disables gravity by a flag of its <option>"),
        (pendulum(TERMS, option=off("damper")), "disables the damping of joints"),
        (pendulum(TERMS, option=off("spring")), "disables springs of joints"),
        (pendulum(TERMS, option=off("constraint")), "disables the dry friction of joints"),
        (pendulum('range="-10 10"', option=off("limit")), "disables the limits of joints"),
        (pendulum(body='gravcomp="1"'), "has gravity compensation of bodies, left out"),
        (pendulum('actuatorfrcrange="-2 5"'), "-2 to 5; the smaller of the two applies"),
        (pendulum(behind=MOTOR.format('ctrlrange="-1 3" gear="-2"')), "limits from -6 to 2; the"),
        (pendulum(option='<flag invdiscrete="enable"/>'), "discrete-time"),
        (pendulum('stiffness="5" springyield=".1"'), "has springs that yield, left out"),
        (pendulum('type="ball" stiffness="5"'), "has springs at free and ball joints, left out"),
        (pendulum('type="ball" range="0 50"'), "has limits of ball joints, left out"),
        (pendulum('type="ball" stiffness="0 5 0"'), "has springs at free and ball joints"),
        (pendulum('type="free" frictionloss="5"'), "joint 'a' has dry friction of 5, which acts"),
        (pendulum('type="free" damping="1 5 0"'), "joint 'a' has higher-order damping, left"),
        (pendulum(behind='<tendon><fixed><joint joint="a" coef="1"/></fixed></tendon>'), "tendons"),
        (pendulum(behind='<equality><joint joint1="a"/></equality>'), "has equality constraints"),
        (pendulum().replace("<option>", '<option density="10">'), "has a fluid, left out"),
        (TWO.replace(SECOND, SECOND.replace("<joint", TOUCHING[:17] + "<joint") + TOUCHING[17:]),
         "has contacts between geoms, left out"),
        (TWO.replace(SECOND, SECOND + '<body mocap="true"/>'), "mocap bodies"),
    ],
)  # fmt: skip
def test_omissions_have_a_note(text: str, note: str) -> None:
    model = read_compiled(mujoco.MjModel.from_xml_string(text), source="x").finished()
    assert [line for line in model.notes if note in line], model.notes


@pytest.mark.parametrize(
    "text",
    [
        pendulum(TERMS, behind=ADDED),
        pendulum(option=off("spring", "damper", "frictionloss", "limit")),
        pendulum('actuatorfrcrange="-5 5"'),
        pendulum(body='gravcomp="1"', option=off("spring", "damper")),
        pendulum(body='gravcomp="1"').replace("<option>", '<option gravity="0 0 0">'),
        pendulum(behind='<equality><joint joint1="a"/></equality>', option=off("equality")),
        TWO.replace(SECOND, SECOND + TOUCHING[17:])
        .replace(INERTIAL, INERTIAL + TOUCHING[:17], 1)
        .replace("<option>", "<option>" + off("contact")),
        pendulum().replace(INERTIAL, INERTIAL + TOUCHING[:17] * 2),  # of one body
    ],
)  # fmt: skip
def test_what_cannot_act_has_no_note(text: str) -> None:
    model = read_compiled(mujoco.MjModel.from_xml_string(text), source="x").finished()
    assert not [n for n in model.notes if n.startswith("The f") or "effort limits" in n], (
        model.notes
    )


@pytest.mark.parametrize(
    ("joint", "actuators", "effort"),
    [
        ("", MOTOR.format('gear="3"'), math.inf),
        ("", MOTOR.format('ctrlrange="-2 2" gear="3"'), 6.0),
        ("", MOTOR.format('ctrlrange="-2 2" forcerange="-1 1" gear="3"'), 3.0),
        ('actuatorfrcrange="-4 4"', MOTOR.format('ctrlrange="-2 2" gear="3"'), 4.0),
        # A servo's control is a position.
        ("", MOTOR.format('ctrlrange="-2 2"').replace("motor", "position"), math.inf),
        ("", MOTOR.format('forcerange="-2 2"').replace("motor", "position"), 2.0),
        ("", MOTOR.format('ctrlrange="-2 2"') * 2, 4.0),
        ("", MOTOR.format('ctrlrange="-2 2"') + MOTOR.format(""), math.inf),
        # A limit of 0 would leave the joint without a motor.
        ("", MOTOR.format('ctrlrange="0 2" gear="3"'), 6.0),
        ("", MOTOR.format('ctrlrange="-2 -1" gear="3"'), 6.0),
    ],
)
def test_motors_limit_efforts(joint: str, actuators: str, effort: float) -> None:
    text = pendulum(joint, behind=actuators)
    model = read_compiled(mujoco.MjModel.from_xml_string(text), source="x").finished()
    assert model.bodies[0].joint.effort == effort


def test_a_control_that_is_not_clamped_limits_nothing() -> None:
    text = pendulum(behind=MOTOR.format('ctrlrange="-2 2"'), option=off("clampctrl"))
    model = read_compiled(mujoco.MjModel.from_xml_string(text), source="x").finished()
    assert model.bodies[0].joint.effort == math.inf


def test_gravity_compensation_is_noted_where_the_model_has_gravity() -> None:
    text = pendulum(body='gravcomp="1"', option=off("gravity"))
    compiled = mujoco.MjModel.from_xml_string(text)
    for gravity, notes in ((None, 0), ((0.0, 0.0, 0.0), 0), ((0.0, 0.0, -9.81), 1)):
        model = read_compiled(compiled, source="x", gravity=gravity).finished()
        assert sum("gravity compensation" in note for note in model.notes) == notes


BALL = '<geom size=".3"/>'
JOINT = '<joint axis="0 1 0"/>'


@pytest.mark.parametrize(
    "bodies",
    [
        f"<body>{JOINT}{BALL}</body>",
        f"{BALL}<body>{JOINT}{BALL}</body>",  # the world's children touch it
        f"<body>{JOINT}{BALL}</body><body>{JOINT}{BALL}</body>",
        f"<body>{JOINT}{BALL}<body>{JOINT}{BALL}</body></body>",
        f"<body>{JOINT}{BALL}<body>{JOINT}{INERTIAL}<body>{JOINT}{BALL}</body></body></body>",
        f"<body>{JOINT}{BALL}<body>{BALL}</body></body>",
        # On the same body as the other's parent, with a larger number.
        f"<body>{JOINT}{INERTIAL}<body>{JOINT}{BALL}</body><body>{BALL}</body></body>",
        f"<body>{JOINT}<geom size='.3' contype='2' conaffinity='4'/></body>"
        f"<body>{JOINT}<geom size='.3' contype='4' conaffinity='8'/></body>",
        f"<body>{JOINT}<geom size='.3' contype='2' conaffinity='4'/></body>"
        f"<body>{JOINT}<geom size='.3' contype='2' conaffinity='8'/></body>",
    ],
)
@pytest.mark.parametrize("option", ["", off("filterparent"), off("contact"), off("constraint")])
def test_contacts_have_a_note_where_mujoco_finds_them(bodies: str, option: str) -> None:
    """The geoms are spheres about one point: they touch unless something prevents it."""
    text = f"<mujoco><option>{option}</option><worldbody>{bodies}</worldbody></mujoco>"
    compiled = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(compiled)
    mujoco.mj_forward(compiled, data)
    notes = read_compiled(compiled, source="x").finished().notes
    touching = data.ncon > 0
    assert any("contacts" in note for note in notes) == touching


def test_higher_orders_of_a_free_joint_stay_out() -> None:
    text = pendulum('type="free" damping="1 5 2"')
    model = read_compiled(mujoco.MjModel.from_xml_string(text), source="x").finished()
    joint = model.bodies[0].joint
    assert (joint.damping, joint.damping_poly) == (1.0, (0.0, 0.0))
