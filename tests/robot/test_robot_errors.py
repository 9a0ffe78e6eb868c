"""Every invalid input gives one sentence with the offending value."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from pinion.robot import RobotError, load, load_text, urdf_text
from tests.robot.snippets import A, B, C, joint, link, robot, tensor

Z = '<axis xyz="0 0 1"/>'
LIMIT = '<limit lower="{}" upper="{}" effort="{}" velocity="{}"/>'

BAD: dict[str, tuple[str, tuple[str, ...]]] = {
    "empty": ("", ("cannot be read as XML", "bad.urdf")),
    "not XML": ("solid cube", ("cannot be read as XML", "bad.urdf")),
    "unclosed": ('<robot name="r"><link', ("cannot be read as XML", "bad.urdf")),
    "not a robot": ("<mujoco/>", ("<mujoco>", "<robot>")),
    "xacro": (
        '<robot xmlns:xacro="http://x/xacro"><xacro:include/></robot>',
        ("the xacro element <xacro:include>; expand", "'xacro FILE > OUT.urdf'"),
    ),
    "decimal comma": (
        robot(A, link("b", "0,3"), joint()),
        ("'0,3'", "'b'", "a decimal number with a point, not a comma"),
    ),
    "nested xacro": (
        '<robot name="r" xmlns:xacro="http://x/xacro"><link name="a"><inertial><xacro:box m="1"/>'
        "</inertial></link></robot>",
        ("xacro element", "box", "expand"),
    ),
    "xacro expression": (robot(A, link("b", "${mass}"), joint()), ("xacro", "'${mass}'", "<mass>")),
    "xacro call in a link": (
        robot(A, '<link name="b"><xacro:box_inertia m="1"/></link>', joint()),
        ("the xacro element <xacro:box_inertia>", "expand"),
    ),
    "xacro argument": (
        robot(A, B, joint(extra='<origin xyz="0 0 $(arg h)"/>')),
        ("xacro", "'0 0 $(arg h)'", "<origin>", "'j'"),
    ),
    "xacro name": (robot(A, link("${p}b"), joint()), ("xacro", "'${p}b'", "<link> number 2")),
    "xacro library": (
        robot('<xacro:macro name="arm" params="p"><link name="a"/></xacro:macro>'),
        ("no links, but <xacro:macro>", "expand"),
    ),
    "xacro without its namespace": (
        '<robot name="r"><xacro:include filename="arm.xacro"/></robot>',
        ("xacro", "expand"),
    ),
    "no links": (robot(), ("no links", "bad.urdf")),
    "nameless link": (robot(A, "<link/>"), ("<link> number 2", "name")),
    "nameless joint": (robot(A, B, "<joint/>"), ("<joint> number 1", "name")),
    "no inertia": (
        robot(A, '<link name="b"/>', C, joint(), joint("k", "a", "c")),
        ("'b'", "no inertia"),
    ),
    "no inertia at a tip": (
        robot(A, B, '<link name="c"/>', joint(), joint("k", "b", "c")),
        ("'c'", "no inertia"),
    ),
    "nothing at all": (
        robot(
            A, link("b", "0", tensor(ixx="0", iyy="0", izz="0")), C, joint(), joint("k", "a", "c")
        ),
        ("'b'", "0.0", "no inertia"),
    ),
    "zero mass": (robot(A, link("b", "0"), joint()), ("'b'", "0.0", "zero")),
    "negative mass": (robot(A, link("b", "-2.5"), joint()), ("'b'", "-2.5", "negative")),
    "triangle": (
        robot(A, link("b", "1", tensor(izz="0.3")), joint()),
        ("'b'", "0.3", "triangle inequality"),
    ),
    "turned triangle": (
        robot(A, link("b", "1", tensor(ixy="0.06", izz="0.02")), joint()),
        ("'b'", "0.16", "triangle inequality"),
    ),
    "indefinite": (
        robot(A, link("b", "1", tensor(ixy="0.2")), joint()),
        ("'b'", "-0.1", "not positive definite"),
    ),
    "negative inertia": (
        robot(A, link("b", "1", tensor(ixx="-0.1")), joint()),
        ("'b'", "-0.1", "not positive definite"),
    ),
    "point mass": (
        robot(A, link("b", "1", tensor(ixx="0", iyy="0", izz="0")), joint()),
        ("'j'", "'b'", "no inertia", "about the joint's axis"),
    ),
    "rod": (
        robot(A, link("b", "1", tensor(izz="0")), joint(extra=Z)),
        ("'j'", "'b'", "no inertia", "about the joint's axis"),
    ),
    "massless slide": (
        robot(A, '<link name="b"/>', C, joint(kind="prismatic"), joint("k", "a", "c")),
        ("'j'", "'b'", "no inertia", "along the joint's axis"),
    ),
    "lightest mass": (robot(A, link("b", "5e-324"), joint()), ("'b'", "5e-324", "negligible")),
    "bad fixed link": (
        robot(A, B, link("c", "1", tensor(izz="9")), joint(), joint("k", "b", "c", "fixed")),
        ("'c'", "9", "triangle inequality"),
    ),
    "accepted without mass": (
        robot(
            A,
            link(
                "b",
                "0",
                tensor(ixx="0", iyy="0", izz="0"),
                '<pinion accept_inertia="true"/>',
            ),
            C,
            joint(),
            joint("k", "a", "c"),
        ),
        ("'b'", "no inertia"),
    ),
    "accept what": (
        robot(A, link("b", extra='<pinion accept_inertia="maybe"/>'), joint()),
        ("'b'", "maybe"),
    ),
    "no mass element": (
        robot(A, '<link name="b"><inertial/></link>', joint()),
        ("'b'", "<mass>"),
    ),
    "no inertia element": (
        robot(A, '<link name="b"><inertial><mass value="1"/></inertial></link>', joint()),
        ("'b'", "<inertia>"),
    ),
    "half a tensor": (
        robot(A, link("b", "1", 'ixx="1" ixy="0" ixz="0" iyy="1" iyz="0"'), joint()),
        ("'b'", "izz"),
    ),
    "cycle": (
        robot(A, B, C, joint(), joint("k", "b", "c"), joint("l", "c", "a")),
        ("'a' -> 'b' -> 'c' -> 'a'", "cycle"),
    ),
    "cycle apart": (
        robot(A, B, C, link("d"), joint(), joint("k", "d", "c"), joint("l", "c", "d")),
        ("'c'", "'d'", "cycle"),
    ),
    "own parent": (robot(A, joint("j", "a", "a")), ("'a' -> 'a'", "cycle")),
    "two roots": (robot(A, B, C, joint()), ("'a'", "'c'", "2 roots")),
    "two parents": (
        robot(A, B, C, joint(), joint("k", "a", "c"), joint("l", "c", "b")),
        ("'b'", "two parents", "'j'", "'l'"),
    ),
    "unknown child": (robot(A, B, joint(child="z")), ("'z'", "does not exist", "'j'")),
    "unknown parent": (robot(A, B, joint(parent="z")), ("'z'", "does not exist", "'j'")),
    "no parent element": (
        robot(A, B, '<joint name="j" type="fixed"><child link="b"/></joint>'),
        ("'j'", "parent"),
    ),
    "planar zero axis": (
        robot(A, B, joint(kind="planar", extra='<axis xyz="0 0 0"/>')),
        ("'j'", "axis", "zero"),
    ),
    "unknown type": (robot(A, B, joint(kind="screw")), ("'screw'", "'j'", "unknown")),
    "no type": (robot(A, B, joint(kind="")), ("''", "'j'", "unknown")),
    "zero axis": (robot(A, B, joint(extra='<axis xyz="0 0 0"/>')), ("'j'", "axis", "zero")),
    "short axis": (robot(A, B, joint(extra='<axis xyz="0 1"/>')), ("'j'", "'0 1'", "axis")),
    "empty axis": (robot(A, B, joint(extra="<axis/>")), ("'j'", "axis", "xyz")),
    "worded axis": (robot(A, B, joint(extra='<axis xyz="0 0 up"/>')), ("'j'", "'up'", "axis")),
    "NaN axis": (robot(A, B, joint(extra='<axis xyz="0 0 nan"/>')), ("'j'", "'nan'", "axis")),
    "duplicate link": (robot(A, B, B, joint()), ("link", "'b'", "twice")),
    "duplicate joint": (robot(A, B, C, joint(), joint("j", "b", "c")), ("joint", "'j'", "twice")),
    "NaN mass": (robot(A, link("b", "nan"), joint()), ("'b'", "'nan'", "mass")),
    "infinite mass": (robot(A, link("b", "1e999"), joint()), ("'b'", "'1e999'", "mass")),
    "huge mass": (robot(A, link("b", "1e31"), joint()), ("'b'", "'1e31'", "mass")),
    "worded mass": (robot(A, link("b", "heavy"), joint()), ("'b'", "'heavy'", "mass")),
    "grouped mass": (robot(A, link("b", "1_0"), joint()), ("'b'", "'1_0'", "mass")),
    "NaN inertia": (robot(A, link("b", "1", tensor(ixy="nan")), joint()), ("'b'", "ixy", "'nan'")),
    "infinite com": (
        robot(A, link("b", extra='<origin xyz="0 inf 0"/>'), joint()),
        ("'b'", "'inf'", "origin xyz"),
    ),
    "NaN origin": (
        robot(A, B, joint(extra='<origin rpy="0 0 NaN"/>')),
        ("'j'", "'NaN'", "origin rpy"),
    ),
    "long origin": (
        robot(A, B, joint(extra='<origin xyz="1 2 3 4"/>')),
        ("'j'", "'1 2 3 4'", "origin xyz"),
    ),
    "NaN limit": (
        robot(A, B, joint(extra=LIMIT.format("nan", 1, 1, 1))),
        ("'j'", "'nan'", "limit lower"),
    ),
    "NaN effort": (
        robot(A, B, joint(extra=LIMIT.format(0, 1, "nan", 1))),
        ("'j'", "'nan'", "limit effort"),
    ),
    "effort of nothing": (
        robot(A, B, joint(extra=LIMIT.format(0, 1, "-inf", 1))),
        ("'j'", "-inf", "effort limit"),
    ),
    "no position left": (
        robot(A, B, joint(extra=LIMIT.format("inf", "inf", 1, 1))),
        ("'j'", "inf and inf", "no position", "-inf for lower"),
    ),
    "Arabic digit": (robot(A, link("b", "&#x661;"), joint()), ("'b'", "'\u0661'", "mass")),
    "fullwidth digits": (
        robot(A, B, joint(extra='<origin xyz="0 0 \uff11.5"/>')),
        ("'j'", "'\uff11.5'", "origin xyz"),
    ),
    "negative velocity": (
        robot(A, B, joint(extra=LIMIT.format(0, 1, 1, -3))),
        ("'j'", "-3.0", "velocity"),
    ),
    "negative damping": (
        robot(A, B, joint(extra='<dynamics damping="-1"/>')),
        ("'j'", "-1.0", "damping"),
    ),
    "reversed limits": (
        robot(A, B, joint(extra=LIMIT.format(2, -1.5, 1, 1))),
        ("'j'", "2.0", "-1.5", "reversed"),
    ),
    "far away": (
        robot(A, B, joint(extra='<origin xyz="0 1e29 0"/>')),
        ("'j'", "1e+29 m", "1e+07"),
    ),
    "far centre of mass": (
        robot(A, link("b", extra='<origin xyz="0 0 -2e7"/>'), joint()),
        ("'b'", "-20000000.0 m", "1e+07"),
    ),
    "many turns": (
        robot(A, B, joint(extra='<origin rpy="1e29 0 0"/>')),
        ("'j'", "1e+29 rad", "1e+06"),
    ),
    "unknown leader": (
        robot(A, B, joint(extra='<mimic joint="l"/>')),
        ("'j'", "'l'", "mimics"),
    ),
    "own leader": (robot(A, B, joint(extra='<mimic joint="j"/>')), ("'j'", "mimics itself")),
    "circle of leaders": (
        robot(
            *(A, B, C, link("d")),
            joint("j", "a", "b", extra='<mimic joint="k"/>'),
            joint("k", "b", "c", extra=Z + '<mimic joint="l"/>'),
            joint("l", "c", "d", extra='<mimic joint="k"/>'),
        ),
        ("'k' -> 'l' -> 'k'", "cycle"),
    ),
    "control character": (
        robot(A, link("b&#x9b;2J"), joint(child="b&#x9b;2J")),
        ("link name 'b\\x9b2J'", "control character"),
    ),
    "turned text": (
        robot(A, B, joint("j&#x202e;")),
        ("joint name 'j\\u202e'", "control character"),
    ),
    "robot with two lines": (
        f'<robot name="one&#10;two">{A}{B}{joint()}</robot>',
        ("robot name 'one\\ntwo'", "control character"),
    ),
    "still": (robot(A, B, joint(extra='<pinion rated_velocity="0"/>')), ("'j'", "rated_velocity")),
    "no joint": (robot(A), ("'r'", "no moving joint")),
    "fixed only": (robot(A, B, joint(kind="fixed")), ("'r'", "no moving joint")),
}


def check(error: pytest.ExceptionInfo[RobotError], *needles: str) -> None:
    """Check that the message is one sentence on one line with every needle in it."""
    message = str(error.value)
    assert "\n" not in message
    assert re.match(r"[A-Z'<\"].*\.$", message), message
    assert not re.search(r"\. [A-Z]", message), message
    for needle in needles:
        assert needle in message, f"{needle!r} is not in {message!r}"


@pytest.mark.parametrize("case", BAD)
def test_bad_file_gives_one_sentence(case: str, tmp_path: Path) -> None:
    text, needles = BAD[case]
    path = tmp_path / "bad.urdf"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RobotError) as error:
        load(path)
    check(error, *needles)


def test_the_good_file_is_good() -> None:
    # The cases above are variations of this one: each differs only by its fault.
    assert load_text(robot(A, B, joint())).nq == 1


def test_missing_file_directory_and_binary(tmp_path: Path) -> None:
    with pytest.raises(RobotError) as error:
        load(tmp_path / "arm.urdf")
    check(error, "arm.urdf", "no file")
    with pytest.raises(RobotError) as error:
        load(tmp_path)
    check(error, str(tmp_path), "directory")
    binary = tmp_path / "binary.urdf"
    binary.write_bytes(b"\x7fELF\x00\xff\xfe")
    with pytest.raises(RobotError) as error:
        load(binary)
    check(error, "binary.urdf", "cannot be read as XML")
    with pytest.raises(RobotError) as error:
        load("nul\0.urdf")
    check(error, "nul", "cannot be read")


@pytest.mark.parametrize("tag", ["parent", "child"])
def test_a_joint_with_two_ends_is_refused(tag: str) -> None:
    with pytest.raises(RobotError) as error:
        load_text(robot(A, B, joint(extra=f"<{tag}/>")))
    check(error, f"<{tag}>", "'j'", "keep one")


def test_special_files_are_refused_before_they_are_opened(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.urdf"
    os.mkfifo(pipe)
    with pytest.raises(RobotError) as error:
        load(pipe)
    check(error, "pipe.urdf", "a pipe", "regular file")
    with pytest.raises(RobotError) as error:
        load("/dev/zero")
    check(error, "/dev/zero", "character device")
    large = tmp_path / "large.urdf"
    with large.open("wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(RobotError) as error:
        load(large)
    check(error, "large.urdf", "67108865 bytes")


def test_comments_may_speak_of_xacro() -> None:
    assert load_text(robot(A, B, "<!-- <xacro:arm m='${mass}'/> -->", joint())).nq == 1


def test_file_behind_a_file_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(RobotError) as error:
        load(tmp_path / "file" / "arm.urdf")
    check(error, "arm.urdf", "cannot be read")


@pytest.mark.parametrize("name", ["iiwa15", "", "Atlas"])
def test_unknown_name_lists_the_robots(name: str) -> None:
    with pytest.raises(RobotError) as error:
        load(name)
    check(error, repr(name), "atlas, baxter, hyq, iiwa14", "chain_N", "path")
    with pytest.raises(RobotError) as error:
        urdf_text(name)
    check(error, repr(name), "atlas, baxter, hyq, iiwa14")


@pytest.mark.parametrize("name", ["chain_0", "chain_", "chain_-1", "chain_two", "chain_1.5"])
def test_bad_chain(name: str) -> None:
    with pytest.raises(RobotError) as error:
        load(name)
    check(error, repr(name), "1 or more")


@pytest.mark.parametrize("gravity", [(0.0, 0.0), (0.0, 0.0, float("nan")), "down", 9.81])
def test_bad_gravity(gravity: object) -> None:
    with pytest.raises(RobotError) as error:
        load("pendulum", gravity=gravity)  # type: ignore[arg-type]
    check(error, repr(gravity), "gravity")


@pytest.mark.parametrize("start", ["", "\ufeff", "\n "])
def test_a_text_in_a_paths_place_is_not_repeated(start: str) -> None:
    text = start + robot(A, B, joint())
    with pytest.raises(RobotError) as error:
        load(text)
    check(error, "<robot", "pinion.robot.load_text")
    assert len(str(error.value)) < 200
    with pytest.raises(RobotError) as error:
        load(text.encode())  # type: ignore[arg-type]  # as read from a binary file
    assert len(str(error.value)) < 200
