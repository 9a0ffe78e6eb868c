"""`pinion robots` and `pinion info`: their output, and faults of files."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from pinion import dynamics
from pinion.api import open_build
from pinion.campaign import read_results
from pinion.console.terminal import LEAST_WIDTH
from pinion.functions import named_function, sample
from pinion.robot import builtin_names, coupled, load
from tests.cli.conftest import Pinion
from tests.dynamics.test_joint_terms import HINGE
from tests.robot.snippets import A, B, joint, link, robot, tensor
from tests.robot.test_robot_errors import BAD
from tests.support.breadth import some

GRIPPER = Path(__file__).parents[2] / "examples" / "gripper.urdf"


def test_robots_lists_all_with_their_joints_and_source(pinion: Pinion) -> None:
    rows = {row["name"]: row for row in pinion("robots", "--json").json["robots"]}
    assert set(rows) == {*builtin_names(), "pendulum", "two_link", "chain_N"}
    for name in builtin_names():
        assert rows[name]["dof"] == coupled(load(name)).nv
        assert rows[name]["kind"] == "built-in"
        assert rows[name]["source"].startswith("https://")
        assert len(rows[name]["what"]) > 3
    assert rows["chain_N"]["dof"] is None


def test_robots_prints_a_table(pinion: Pinion) -> None:
    completed = pinion("robots")
    assert completed.code == 0 and completed.err == ""
    for name in (*builtin_names(), "pendulum", "two_link", "chain_N"):
        assert name in completed.out


@pytest.mark.parametrize("width", [50, 80, 160])
def test_no_address_is_broken(width: int, pinion: Pinion, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {row["source"] for row in pinion("robots", "--json").json["robots"]}
    monkeypatch.setenv("COLUMNS", str(width))
    printed = pinion("robots").out
    assert all(source in printed for source in sources if "://" in source)
    lines = [line for line in printed.splitlines() if "://" not in line]
    assert max(map(len, lines)) <= max(width, LEAST_WIDTH)


@pytest.mark.parametrize("name", ["iiwa14", "hyq", "atlas", "baxter", "pendulum", "chain_3"])
def test_info_has_joints_links_and_notes(pinion: Pinion, name: str) -> None:
    summary = pinion("info", name, "--json").json
    model = load(name)
    assert len(summary["joints"]) == len(summary["links"]) == model.nq
    assert summary["nq"] == sum(j["nq"] for j in summary["joints"]) == coupled(model).nq
    assert [j["name"] for j in summary["joints"]] == list(model.joint_names)
    assert summary["notes"] == list(model.notes)
    for each in summary["links"]:
        assert set(each) == {"name", "mass", "com", "inertia", "merged"}
    text = pinion("info", name)
    assert text.code == 0 and text.err == ""
    for joint_name in model.joint_names:
        assert joint_name in text.out
    for note in model.notes:
        # The table may break a note's line, not its words.
        assert note.split(":")[0] in " ".join(text.out.split())


def test_info_names_the_tip(pinion: Pinion) -> None:
    """The tip of tip functions, or the tips to choose from."""
    legs = [f"{side}_lowerleg" for side in ("lf", "rf", "lh", "rh")]
    for arguments, tip, tips, words in (
        (["two_link"], "tip", ["tip"], "tip, fixed to link_2"),
        (["iiwa14"], "iiwa_link_7", ["iiwa_link_7"], "iiwa_link_7"),
        (["hyq"], None, legs, "choose one with --tip: lf_lowerleg, "),
        (["hyq", "--tip", "lf_upperleg"], "lf_upperleg", ["lf_upperleg"], "lf_upperleg"),
    ):
        summary = pinion("info", *arguments, "--json").json
        assert (summary["tip"], sorted(summary["tips"])) == (tip, sorted(tips))
        (line,) = re.findall(r"^ *tip  +(.*?) *$", pinion("info", *arguments).out, re.MULTILINE)
        assert line.startswith(words)
    assert pinion("info", "none", "--json").json["tips"] == []


def test_info_of_locked_joints_and_chains(pinion: Pinion) -> None:
    chain = pinion("info", "baxter", "--tip", "left_wrist", "--json").json
    assert chain["nv"] == 7 and all(j["name"].startswith("left_") for j in chain["joints"])
    arguments = ("--lock", "left_s0=0.3", "--lock", "left_e1", "--tip", "left_wrist")
    locked = pinion("info", "baxter", *arguments, "--json").json
    assert locked["nv"] == 5
    assert {j["name"] for j in chain["joints"]} - {j["name"] for j in locked["joints"]} == {
        *("left_s0", "left_e1")
    }
    assert any("'left_s0'" in note and "0.3 rad" in note for note in locked["notes"])


def test_info_refuses_wrong_locks_and_tips(pinion: Pinion) -> None:
    pinion("info", "baxter", "--lock", "left_s9").refused("'left_s9'")
    pinion("info", "baxter", "--lock", "left_s0=far").refused("'far'")
    pinion("info", "baxter", "--lock", "left_s0=99").refused("99")
    pinion("info", "baxter", "--lock", "left_s0=0", "--lock", "left_s0").refused(
        "'left_s0'", "twice"
    )
    pinion("info", "baxter", "--tip", "moon").refused("'moon'")


def test_info_of_a_floating_base(pinion: Pinion) -> None:
    summary = pinion("info", "hyq", "--floating-base", "--json").json
    assert (summary["nq"], summary["nv"], len(summary["joints"])) == (19, 18, 13)
    assert [(j["nq"], j["nv"]) for j in summary["joints"]] == [(7, 6)] + [(1, 1)] * 12
    assert (summary["joints"][0]["kind"], summary["base_links"]) == ("free_flyer", [])
    text = " ".join(pinion("info", "hyq", "--floating-base").out.split())
    for needle in ("joints 13 ", "positions 19 (nq)", "velocities 18 (nv)", "none: it floats"):
        assert needle in text
    assert "root_joint free_flyer 7 6 " in text
    assert "lf_haa_joint revolute 1 1 " in text
    fixed = " ".join(pinion("info", "hyq").out.split())
    for needle in ("joints 12 ", "positions 12 (nq)", "velocities 12 (nv)", "base_link_0"):
        assert needle in fixed
    leg = ("info", "hyq", "--floating-base", "--tip", "lf_lowerleg", "--lock", "lf_hfe_joint=0.1")
    assert pinion(*leg, "--json").json["nv"] == 6 + 2
    pinion("info", "pendulum", "--floating-base").refused("'root_joint'", "'base'", "no inertia")


def test_accepted_inertias_are_warnings(pinion: Pinion, tmp_path: Path) -> None:
    path = tmp_path / "odd.urdf"
    path.write_text(robot(A, link("b", "1", tensor(izz="0.3")), joint()))
    pinion("info", path).refused("'b'", "triangle inequality", "--accept-inertia")
    completed = pinion("info", path, "--accept-inertia", "--json")
    assert completed.code == 0 and completed.json["nv"] == 1
    assert completed.err.count("\n") == 1
    assert "'b' is not physical" in completed.err and "kept as accept_inertia asks" in completed.err
    folder = tmp_path / "header"
    pinion("export", path, "rnea", "--cuda", "-o", folder).refused("'b'", "triangle inequality")
    completed = pinion("export", path, "rnea", "--cuda", "-o", folder, "--accept-inertia")
    assert completed.code == 0 and "'b' is not physical" in completed.err
    pinion("export", folder, "-o", tmp_path / "x", "--accept-inertia").refused("--cpu or --cuda")


@pytest.mark.slow
def test_a_core_of_a_floating_body_is_built_with_formats_by_signal(
    pinion: Pinion, tmp_path: Path
) -> None:
    path, folder = tmp_path / "free.urdf", tmp_path / "made"
    path.write_text(robot(A, B, joint(kind="floating")))
    assert pinion("info", path, "--json").json["nv"] == 6
    options = ("--ii", "auto", "--formats", "auto", "-o", folder, "--json")
    figures = pinion("build", path, "rnea", *options).json
    assert {a["name"]: a["shape"] for a in figures["inputs"]} == {"q": [7], "qd": [6], "qdd": [6]}
    sent = sample(load(path), named_function("rnea"), 20, distribution="reference", seed=1)
    np.savez(tmp_path / "in.npz", **sent)
    arguments = ("--input", tmp_path / "in.npz", "--output", tmp_path / "out.sqlite")
    assert pinion("run", folder, *arguments).code == 0
    wide = (sent[name].astype(float) for name in ("q", "qd", "qdd"))
    want = dynamics.rnea(load(path), *wide)
    with np.load(tmp_path / "out.sqlite") as results:
        assert np.abs(results["tau"] - want).max() < 2e-3 * np.abs(want).max()


def test_a_floating_base_is_an_option_of_every_verb_that_computes(
    pinion: Pinion, tmp_path: Path
) -> None:
    out = ("--floating-base", "-o", tmp_path / "out")
    for verb in (("build",), ("explore",), ("export", "--cpu"), ("export", "--cuda")):
        pinion(*verb, "pendulum", "rnea", *out).refused("'root_joint' moves no inertia")
    pinion("export", tmp_path, *out).refused("already has its robot", "--floating-base")


def test_joint_terms_need_a_function(pinion: Pinion) -> None:
    pinion("info", "iiwa14", "--joint-terms", "damping").refused("--joint-terms", "--function")


def test_info_shows_what_a_coupled_joint_has(pinion: Pinion) -> None:
    summary = pinion("info", GRIPPER, "--json").json
    assert (summary["nq"], summary["nv"], len(summary["joints"])) == (3, 3, 6)
    assert [j["nv"] for j in summary["joints"]] == [1, 1, 1, 0, 0, 0]
    assert [j["rated_velocity"] for j in summary["joints"]] == [2, 3, 0.2, 4, 0.2, 4]
    assert any("'left_tip' mimics 'grip': functions are" in note for note in summary["notes"])
    short = pinion("info", GRIPPER, "--lock", "grip=0.01", "--json").json
    assert (short["nv"], len(short["joints"])) == (2, 2)


def test_info_reads_a_file(pinion: Pinion, tmp_path: Path) -> None:
    path = tmp_path / "arm.urdf"
    path.write_text(robot(A, B, joint()))
    assert pinion("info", path, "--json").json["nq"] == 1


def test_info_shows_what_joints_add(pinion: Pinion, tmp_path: Path) -> None:
    path = tmp_path / "hinge.urdf"
    path.write_text(HINGE)
    output = pinion("info", path).out
    assert "armature" in output and "0.25" in output and "--joint-terms" in output
    pin = pinion("info", path, "--json").json["joints"][0]
    assert (pin["armature"], pin["damping"], pin["friction"]) == (0.5, 0.3, 0.2)
    assert (pin["stiffness"], pin["rest"]) == (4.0, 0.25)
    assert "armature" not in pinion("info", "hyq").out
    bare, full = (
        pinion("info", path, "--function", "rnea", *more, "--json").json["savings"][-1]["mul_const"]
        for more in ((), ("--joint-terms", "all"))
    )
    assert full > bare


@pytest.mark.parametrize("case", BAD)
def test_bad_file_is_refused_with_one_sentence(pinion: Pinion, tmp_path: Path, case: str) -> None:
    text, needles = BAD[case]
    path = tmp_path / "bad.urdf"
    path.write_text(text, encoding="utf-8")
    pinion("info", path).refused(*needles)


@pytest.mark.parametrize("case", some(["cycle", "two roots", "NaN mass"], ("cycle",)))
def test_bad_file_is_refused_by_every_verb_that_reads_one(
    pinion: Pinion, tmp_path: Path, case: str
) -> None:
    text, needles = BAD[case]
    path = tmp_path / "bad.urdf"
    path.write_text(text, encoding="utf-8")
    pinion("info", path, "--json").refused(*needles)
    pinion("build", path, "rnea", "-o", tmp_path / "b", "--json").refused(*needles)
    assert [p.name for p in tmp_path.iterdir()] == ["bad.urdf"]


def test_missing_file_folder_and_name(pinion: Pinion, tmp_path: Path) -> None:
    pinion("info", tmp_path / "arm.urdf").refused("arm.urdf")
    pinion("info", tmp_path).refused(str(tmp_path))
    pinion("info", "iiwa15").refused("'iiwa15'", "iiwa14", "chain_N")
    pinion("info", "chain_0").refused("'chain_0'")
    pinion("info", tmp_path / "two\nlines.urdf").refused("lines.urdf")
    os.mkfifo(tmp_path / "pipe.urdf")
    pinion("info", tmp_path / "pipe.urdf").refused("pipe.urdf", "not a regular file")


def test_json_in_a_pipe_is_one_line(process: Pinion) -> None:
    completed = process("info", "pendulum", "--json")
    assert completed.err == ""
    assert completed.out.count("\n") == 1
    assert json.loads(completed.out)["nq"] == 1


def test_a_robot_of_many_joints_is_shown_in_part(pinion: Pinion) -> None:
    completed = pinion("info", "chain_230")
    assert "The first 200 joints and links are listed; --json gives all, 30 more." in " ".join(
        completed.out.split()
    )
    assert (
        "joint_200 " in completed.out
        and "joint_201 " not in completed.out.partition("Canonicali")[0]
    )
    whole = pinion("info", "chain_230", "--json").json
    assert len(whole["joints"]) == len(whole["links"]) == 230
    assert whole["joints"][229]["rated_velocity"] > 0.0
    # Places in q and qd are looked up once: robots have thousands of joints.
    model = load("chain_230")
    assert model.v_slices is model.v_slices and model.q_slices is model.q_slices
    assert model.v_slices[229] == slice(229, 230)


@pytest.mark.slow
def test_gravity_is_an_option_of_every_verb_that_opens_a_robot(
    pinion: Pinion, tmp_path: Path
) -> None:
    moon = ("--gravity", "0, 0,-1.62")
    output = pinion("info", "two_link", *moon).out
    assert "(0, 0, -1.62) m/s^2" in output
    assert "Gravity is (0, 0, -1.62) m/s^2, as requested." in output
    assert pinion("info", "two_link", "--gravity", "-1,0,2e-3", "--json").json["gravity"] == [
        *(-1.0, 0.0, 2e-3)
    ]
    figures = pinion("build", "pendulum", "rnea", "-o", tmp_path / "moon", *moon, "--json").json
    plain = pinion("build", "pendulum", "rnea", "-o", tmp_path / "earth", "--json").json
    assert figures["hash"] != plain["hash"]
    core = open_build(tmp_path / "moon")
    assert core.model.gravity == (0.0, 0.0, -1.62)
    assert any("as requested" in note for note in core.model.notes)
    assert pinion("verify", tmp_path / "moon", "--samples", "50", "--json").json["ok"]
    states = {name: np.array([[x]]) for name, x in (("q", 0.5), ("qd", 0.0), ("qdd", 0.0))}
    np.savez(tmp_path / "in.npz", **states)
    out = tmp_path / "out.sqlite"
    names = ("pendulum", "rnea", "--input", tmp_path / "in.npz", "-o", out)
    assert pinion("batch", *names, "--device", "float", "--workers", 1, *moon).code == 0
    # A rod of 1 kg hangs with its centre of mass 0.25 m from the joint.
    ((_, results),) = read_results(out)
    assert results["tau"][0, 0] == pytest.approx(1.62 * 0.25 * np.sin(0.5), rel=1e-12)
    header = ("export", "pendulum", "rnea", "--cuda", "-o", tmp_path / "header")
    assert pinion(*header, *moon).code == 0
    moved = pinion("export", tmp_path / "moon", "-o", tmp_path / "x", *moon)
    moved.refused("already has its robot")


@pytest.mark.parametrize("text", ["1,2", "0,0,down", "0,0,inf", "0;0;1", "\u0661,0,0", "1_0,0,0"])
def test_a_gravity_that_is_none_is_refused(pinion: Pinion, text: str) -> None:
    pinion("info", "two_link", "--gravity", text).refused(text, "comma-separated", "0,0,-1.62")
