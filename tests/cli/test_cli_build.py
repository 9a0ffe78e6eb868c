"""`pinion build`, `verify`, `synth`, `bench`: JSON keys, exit codes, silence in a pipe."""

from __future__ import annotations

import json
import re
import shutil
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from pinion.bench.core import measure as bench_core
from pinion.bench.functions import measure as bench_functions
from pinion.cli import options
from pinion.dynamics.joint_terms import FRICTION_WIDTH
from pinion.flow.measure import measure
from pinion.functions import FUNCTIONS, named_function
from pinion.functions.samples import DISTRIBUTIONS
from pinion.link import Manifest
from pinion.robot import load
from tests.cli.conftest import Built, Done, Pinion
from tests.dynamics.test_joint_terms import HINGE
from tests.support.builds import make_design

BUILD_KEYS = {
    *("robot", "function", "formats", "ii", "schedule_cycles", "latency_cycles"),
    *("multipliers", "adders", "ops", "words_in", "words_out"),
}
VERIFY_KEYS = {
    *("samples", "seed", "simulator", "distribution", "mismatches", "flagged"),
    *(
        "wrong_unflagged",
        "accuracy_held",
        "wrong_above",
        "floor",
        "rel_err_median",
        "rel_err_p99",
        "rel_err_max",
    ),
    *("schedule_cycles", "cycles_per_result"),
}
SYNTH_KEYS = {"dsp", "lut", "ff", "bram", "levels", "tool"}


def test_build_says_what_it_built_and_nothing_else(built: Built) -> None:
    assert built.completed.err == ""
    assert built.completed.out.count("\n") == 1
    figures = built.completed.json
    assert figures.keys() >= BUILD_KEYS
    assert set(figures["ops"]) == {"mul", "mul_const", "add", "reciprocal", "trig"}
    assert (figures["robot"], figures["function"], figures["ii"]) == ("two_link", "rnea", 4)
    assert (figures["words_in"], figures["words_out"]) == (6, 2)
    products = figures["ops"]["mul"] + figures["ops"]["mul_const"]
    assert figures["multipliers"] >= products / 4
    assert 0 < figures["schedule_cycles"] < figures["latency_cycles"]
    assert json.loads((built.folder / "manifest.json").read_text())["hash"] == figures["hash"]


def test_build_prints_a_table(pinion: Pinion, tmp_path: Path) -> None:
    completed = pinion("build", "pendulum", "rnea", "--ii", 2, "-o", tmp_path / "b")
    assert completed.code == 0 and completed.err == ""
    for words in ("rnea for pendulum", "multipliers", "one result every 2 cycles", "pinion verify"):
        assert words in completed.out
    assert "250 MHz, assumed" in completed.out


def test_a_clock_that_a_board_cannot_make_is_told(pinion: Pinion, tmp_path: Path) -> None:
    target = "--target", "ulx3s", "--ii", 4, "-o"
    options = (*target, tmp_path / "b", "--clock", 51.3)
    completed = pinion("build", "pendulum", "kinetic_energy", *options)
    assert completed.code == 0 and "51.25 MHz, assumed" in completed.out
    assert (
        "cannot make a clock of 51.3 MHz" in completed.err and "nearest, 51.25 MHz" in completed.err
    )


@pytest.mark.slow
def test_a_clock_that_a_board_makes_needs_no_words(pinion: Pinion, tmp_path: Path) -> None:
    options = "--target", "ulx3s", "--ii", 4, "-o", tmp_path / "b", "--clock", 75
    assert pinion("build", "pendulum", "gravity", *options).err == ""


@pytest.mark.parametrize(
    ("arguments", "needles"),
    [
        (["iiwa15", "rnea"], ["'iiwa15'"]),
        (["pendulum", "rnae"], ["'rnae'", "rnea"]),
        (["pendulum", "rnea", "--ii", "0"], ["interval of 0 cycles", "--ii"]),
        (["pendulum", "rnea", "--derivatives", "rows"], ["'rows'", "column"]),
        (["pendulum", "rnea", "--outputs", "minv"], ["'minv'", "tau"]),
        (["pendulum", "rnea", "--lock", "elbow"], ["'elbow'"]),
        (["pendulum", "rnea", "--lock", "=3"], ["'=3'"]),
        (["pendulum", "rnea", "--tip", "moon"], ["'moon'"]),
        (["pendulum", "rnea", "--formats", "q16"], ["'q16'"]),
        (["pendulum", "rnea", "--formats", "q40.40"], ["q40.40"]),
        (["pendulum", "rnea", "--target", "moon"], ["'moon'"]),
        (["pendulum", "rnea", "--clock", "-5"], ["-5"]),
    ],
)
def test_build_refuses_with_one_sentence(
    pinion: Pinion, tmp_path: Path, arguments: list[str], needles: list[str]
) -> None:
    pinion("build", *arguments, "-o", tmp_path / "b", "--json").refused(*needles)
    assert not list(tmp_path.iterdir()), "nothing may be written"


@pytest.mark.slow
@pytest.mark.parametrize("json", [True, False])
def test_build_explains_the_interval_that_it_chooses(
    process: Pinion, tmp_path: Path, json: bool
) -> None:
    options = ["--json"] if json else []
    options += ["--max-error", "0.1"]  # both of its words are rarely near zero
    completed = process("build", "two_link", "aba", "--ii", "auto", "-o", tmp_path / "b", *options)
    assert completed.code == 0, completed.err
    ii = Manifest.read(tmp_path / "b").ii
    reason = completed.json["ii_reason"] if json else completed.err
    assert (
        reason.startswith(f"Interval {ii}: ")
        and "cycles" in reason
        and reason.rstrip().endswith(".")
    )
    if json:
        assert completed.json["ii"] == ii and completed.err == ""
    else:
        assert completed.err.count("\n") == 1 and "aba for two_link" in completed.out


def test_build_without_a_choice_explains_nothing(built: Built) -> None:
    assert "ii_reason" not in built.completed.json


def test_build_takes_variants(pinion: Pinion, tmp_path: Path) -> None:
    options = ("--derivatives", "column", "--outputs", "minv,qdd", "--outputs", "minv")
    completed = pinion(
        "build", "pendulum", "fd_derivatives", *options, "-o", tmp_path / "b", "--json"
    )
    assert completed.json["options"] == {"derivatives": "column", "outputs": "minv"}
    assert [a["name"] for a in completed.json["outputs"]] == ["qdd", "dqdd_dq", "dqdd_dqd", "minv"]


def test_build_takes_parameters(pinion: Pinion, tmp_path: Path) -> None:
    text = "link_1:on-axis,joint_1:armature"
    core = ("build", "pendulum", "rnea", "--ii", 16, "--parameters")
    loads = ("--parameter-range", "1kg@0.2m")
    completed = pinion(*core, text, *loads, "-o", tmp_path / "b", "--json")
    assert completed.json["options"] == {"parameters": text, "parameter_range": "1.0kg@0.2m"}
    refused = pinion(*core, "link_1:on-axs", "-o", tmp_path / "c")
    refused.refused("'link_1:on-axs'", "the nearest is 'link_1'")


def test_build_takes_joint_terms(pinion: Pinion, tmp_path: Path) -> None:
    assert options.FRICTION_WIDTH == FRICTION_WIDTH  # written twice: help pages load no mechanics
    path = tmp_path / "hinge.urdf"
    path.write_text(HINGE)
    extra = ("--joint-terms", "damping,friction", "--friction-width", 0.125, "--ii", 4)
    completed = pinion("build", path, "rnea", *extra, "-o", tmp_path / "b", "--json")
    expected = {"joint_terms": "damping,friction", "friction_width": "0.125"}
    assert completed.json["options"] == expected and completed.json["units"]["clamp"] == 1
    assert completed.json["savings"][0]["mul"] > 0
    for wrong, needle in (("lift", "'lift' is no"), ("armature", "is always included")):
        refused = pinion("build", path, "rnea", "--joint-terms", wrong, "-o", tmp_path / "c")
        refused.refused(needle, "damping, friction, stiffness")
    pinion("build", "hyq", "rnea", "--joint-terms", "all", "-o", tmp_path / "c").refused(
        "No joint of the robot 'hyq' has damping or friction or stiffness"
    )


def test_help_names_all_states_that_formats_can_be_made_for(pinion: Pinion) -> None:
    assert set(DISTRIBUTIONS) <= set(re.findall(r"[a-z]+", pinion("build", "--help").out))


def test_build_for_a_part_of_a_robot(pinion: Pinion, tmp_path: Path) -> None:
    options = ("--tip", "left_upper_elbow", "--lock", "left_s1=0.2", "--ii", 16)
    completed = pinion("build", "baxter", "rnea", *options, "-o", tmp_path / "b", "--json")
    nv = load("baxter", lock={"left_s1": 0.2}, tip="left_upper_elbow").nv
    assert nv == 2
    assert (completed.json["words_in"], completed.json["words_out"]) == (3 * nv, nv)


def test_build_leaves_a_foreign_folder_alone(pinion: Pinion, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    pinion("build", "pendulum", "rnea", "-o", tmp_path).refused(str(tmp_path))
    pinion("build", "pendulum", "rnea", "-o", tmp_path / "thesis.tex").refused("thesis.tex")
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_verify_agrees(process: Pinion, built: Built) -> None:
    completed = process("verify", built.folder, "--samples", 50, "--seed", 7, "--json")
    assert completed.code == 0 and completed.err == ""
    figures = completed.json
    assert figures.keys() >= VERIFY_KEYS
    assert (figures["samples"], figures["seed"]) == (50, 7)
    assert figures["mismatches"] == figures["wrong_unflagged"] == 0
    assert figures["cycles_per_result"] == 4
    assert figures["schedule_cycles"] == built.completed.json["schedule_cycles"]
    for key in ("rel_err_median", "rel_err_p99", "rel_err_max"):
        assert set(figures[key]) == {"tau"}
        assert 0 < figures[key]["tau"] < 1
    assert figures["ok"] is True


def test_verify_prints_a_verdict(pinion: Pinion, built: Built) -> None:
    completed = pinion("verify", built.folder, "--samples", 20)
    assert completed.code == 0 and completed.err == ""
    assert "requests with a wrong bit" in completed.out and "Every bit agrees" in completed.out


def test_verify_says_when_fewer_requests_take_the_place_of_more(
    pinion: Pinion, built: Built
) -> None:
    outputs = {n: pinion("verify", built.folder, "--samples", n).out for n in (200, 20, 30)}
    assert "this check of 20 requests instead of the last one of 200" in " ".join(
        outputs[20].split()
    )
    assert "now show" not in outputs[30]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_verify_that_fails_has_exit_code_1(
    pinion: Pinion, built: Built, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    module = import_module("pinion.cosim.bound")
    real = module.verify

    def broken(*args: Any, **named: Any) -> dict[str, Any]:
        return real(*args, **named) | {"mismatches": 3, "ok": False}

    monkeypatch.setattr(module, "verify", broken)
    completed = pinion("verify", built.folder, "--samples", 20, *options)
    assert completed.code == 1
    if options:
        assert completed.json["mismatches"] == 3
    else:
        assert "The check failed: the RTL and the integers differ." in completed.out


def test_verify_refuses(pinion: Pinion, built: Built, tmp_path: Path) -> None:
    pinion("verify", tmp_path / "none").refused("none", "pinion build")
    pinion("verify", tmp_path).refused(str(tmp_path), "manifest.json")
    pinion("verify", built.folder, "--simulator", "dice").refused("'dice'", "compiled")
    pinion("verify", built.folder, "--distribution", "odd").refused("'odd'", "reference")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("manifest.json", lambda text: text.replace('"ii": 4', '"ii": 5')),
        ("manifest.json", lambda text: text[:100]),
        ("manifest.json", lambda text: "[]"),
        ("graph.txt", lambda text: text[: len(text) // 2] + "?"),
        ("schedule.json", lambda text: ""),
        ("model.json", lambda text: "{}"),
    ],
)
def test_a_damaged_build_is_refused(
    pinion: Pinion, built: Built, tmp_path: Path, name: str, change: Any
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(built.folder, folder, ignore=shutil.ignore_patterns("sim"))
    (folder / name).write_text(change((folder / name).read_text()))
    pinion("verify", folder, "--samples", 5).refused("copy")


def test_synth_counts(pinion: Pinion, tmp_path: Path) -> None:
    options = ("--ii", 4, "-o", tmp_path / "b", "--json")
    core = pinion("build", "pendulum", "kinetic_energy", *options).json
    completed = pinion("synth", tmp_path / "b", "--json")
    assert completed.code == 0, completed.err
    assert completed.err == ""
    figures = completed.json
    assert figures.keys() >= SYNTH_KEYS
    # A 32 by 32 product takes four DSP blocks; the sine unit has more.
    assert figures["dsp"] >= 4 * core["multipliers"]
    assert figures["ff"] > 32 * core["registers"] / 2
    assert figures["lut"] > 100
    assert figures["levels"] == figures["timing"]["paths"][0]["levels"] > 0
    assert "osys" in figures["tool"]


def test_synth_refuses(pinion: Pinion, tmp_path: Path) -> None:
    pinion("synth", tmp_path).refused(str(tmp_path))


def check_core(completed: Done, robot: str) -> dict[str, Any]:
    """Rows of `pinion bench core` for a robot at all intervals and for others."""
    assert completed.code == 0 and completed.err == ""
    figures: dict[str, Any] = completed.json
    assert [row["ii"] for row in figures["intervals"]] == [1, 2, 4, 8, 16, 32]
    assert {row["robot"] for row in figures["intervals"]} == {robot}
    for row in figures["intervals"] + figures["robots"]:
        assert row.keys() >= {"ops", "units", "schedule_cycles", "registers", "multipliers"}
        assert row["multipliers_least"] <= row["multipliers"] <= 1.15 * row["multipliers_least"] + 1
    return figures


def test_bench_core_covers_intervals_and_robots(
    pinion: Pinion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_core, "ROBOT", "two_link")
    monkeypatch.setattr(bench_core, "ROBOTS", ("pendulum", "chain_4"))
    figures = check_core(pinion("bench", "core", "--json"), "two_link")
    assert [row["robot"] for row in figures["robots"]] == ["pendulum", "chain_4"]


@pytest.mark.slow
def test_bench_core_of_the_iiwa14(process: Pinion) -> None:
    figures = check_core(process("bench", "core", "--json"), "iiwa14")
    assert {row["robot"] for row in figures["robots"]} >= {"iiwa14", "hyq", "baxter", "atlas"}
    latency = {row["ii"]: row["schedule_cycles"] for row in figures["intervals"]}
    assert latency[8] <= 110


@pytest.mark.slow
def test_bench_functions_has_hardware_and_errors(
    pinion: Pinion, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The iiwa14's table takes most of a minute.
    monkeypatch.setattr(bench_functions, "ROBOT", "two_link")
    monkeypatch.setattr(bench_functions, "TOOL", "tip")
    monkeypatch.setattr(bench_functions, "function_row", cache(bench_functions.function_row))
    figures = pinion("bench", "functions", "--json").json
    rows = {(row["function"], row["derivatives"]): row for row in figures["functions"]}
    gradients = [name for name, row in FUNCTIONS.items() if row.variants]
    plain = [(name, None) for name in FUNCTIONS if name not in gradients]
    assert set(rows) == {*plain, *((n, d) for n in gradients for d in ("composite", "column"))}
    for row in rows.values():
        assert row["multipliers_least"] <= row["multipliers"] <= 1.15 * row["multipliers_least"] + 1
        assert row["schedule_cycles"] > 0 and row["registers"] > 0
        # An arm of two joints cannot hold a point: its forces are as large as the damping is small.
        assert row["flagged"] == 0 or FUNCTIONS[row["function"]].of_contacts
        assert row["budget_held"] is True and row["budget_over_largest"]["min"] >= 1
        for block, largest in row["rel_err_max"].items():
            assert 0 < row["rel_err_median"][block] <= largest < 1
    assert rows["aba", None]["table_units"] > rows["rnea", None]["table_units"]
    completed = pinion("bench", "functions")
    assert completed.code == 0 and completed.err == ""
    for words in (*FUNCTIONS, "rnea_derivatives, column", "recip", "dqdd_dqd", "flagged"):
        assert words in completed.out


def test_errors_without_a_build_are_those_of_a_build(pinion: Pinion, built: Built) -> None:
    """The integer model of a design and the RTL of its build have equal errors."""
    figures = pinion("verify", built.folder, "--samples", 300, "--seed", 4, "--json").json
    model, row = load("two_link"), named_function("rnea")
    design = make_design(model, row, ii=4, formats="q16.16")
    measured = measure(model, row, design, states=300, seed=4)
    for key in ("rel_err_median", "rel_err_p99", "rel_err_max", "flagged", "budget_held"):
        assert measured[key] == figures[key], key
    ratios = [figures["budget"][word] / figures["error_max"][word] for word in design.budget]
    assert measured["budget_over_largest"]["min"] == pytest.approx(min(ratios), rel=1e-5)
    assert measured["budget_over_largest"]["max"] == pytest.approx(max(ratios), rel=1e-5)


def test_a_build_that_is_replaced_is_said(pinion: Pinion, tmp_path: Path) -> None:
    first = pinion("build", "pendulum", "gravity", "-o", tmp_path / "b")
    assert first.code == 0 and first.err == ""
    again = pinion("build", "pendulum", "gravity", "-o", tmp_path / "b")
    before, after = again.err.splitlines()
    assert again.code == 0
    assert before.endswith(
        "b' contains an earlier build, which is replaced once the new one is complete."
    )
    assert after == "The folder already held the same build; it is unchanged."
