"""Formats by signal at the command line: options, keys and refusals."""

from __future__ import annotations

import importlib
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from pinion.console.terminal import PIPE_WIDTH
from pinion.formats.auto import HEADROOM
from pinion.formats.planfile import PLAN, read_plan
from pinion.link import Manifest
from pinion.report import cell
from pinion.robot import urdf_text
from tests.cli.conftest import Built, Pinion

# The package has a function of the module's name.
building = importlib.import_module("pinion.flow.build")

OPTIONS = (
    *("--formats", "auto", "--max-error", "1e-3", "--objective", "latency"),
    *("--ranges", "stress", "--json"),
)


@pytest.fixture(scope="module")
def auto(process: Pinion, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """rnea for the two-link arm with every option of formats by signal."""
    folder = tmp_path_factory.mktemp("formats") / "two_link"
    return Built(folder, process("build", "two_link", "rnea", *OPTIONS, "-o", folder))


@pytest.mark.slow
def test_build_takes_all_options_of_formats_by_signal(auto: Built) -> None:
    figures = auto.completed.json
    assert (
        auto.completed.code == 0
        and auto.completed.err == ""
        and auto.completed.out.count("\n") == 1
    )
    assert figures["formats"] == "auto" and figures["objective"] == "latency"
    assert figures["max_error"] == 1e-3 and figures["budget_distribution"] == "stress"
    assert figures["options"] == {} and figures["folder"] == str(auto.folder)
    assert set(figures["budget"]) == {"tau[0]", "tau[1]"}
    assert all(0 < bound < 1e-2 for bound in figures["budget"].values())
    # Products of one multiplier block each; the name states the narrow port.
    products = {unit for unit in figures["units"] if unit.startswith("dot")}
    assert products and all(unit.endswith(("x18", "x27")) for unit in products)
    manifest = Manifest.read(auto.folder)
    assert f"{manifest.hash:016x}" == figures["hash"]
    plan = read_plan(auto.folder / PLAN)
    assert (plan.distribution, plan.max_error) == ("stress", 1e-3)


def test_build_says_what_the_formats_are_for(pinion: Pinion, tmp_path: Path) -> None:
    options = ("--formats", "auto", "--max-error", "2e-3", "--objective", "throughput")
    completed = pinion("build", "pendulum", "rnea", *options, "--ii", 2, "-o", tmp_path / "b")
    assert completed.code == 0 and completed.err == ""
    output = " ".join(completed.out.split())
    promise = "at most 0.002 on reference states; on others, for results without a flag: slow 0.002"
    for words in (promise, "rest ", "throughput"):
        assert words in output, words


def test_build_takes_a_plan(pinion: Pinion, auto: Built, tmp_path: Path) -> None:
    same = ("--objective", "latency", "--json")
    plan = auto.folder / PLAN
    completed = pinion("build", "two_link", "rnea", "--formats", plan, *same, "-o", tmp_path / "b")
    ours, theirs = completed.json, auto.completed.json
    assert ours.pop("formats") == PLAN and ours.pop("hash") != theirs["hash"]
    assert ours.pop("folder") == str(tmp_path / "b")
    differences = {"formats": PLAN, "max_error": None, "ranges": None}
    assert ours.pop("request") == {**theirs["request"], **differences}
    assert ours == {key: value for key, value in theirs.items() if key in ours}
    assert ours["max_error"] == 1e-3 and ours["budget_distribution"] == "stress"


@pytest.mark.parametrize(
    ("options", "needles"),
    [
        (["--formats", "auto", "--max-error", "0"], ["of 0 ", "between 0 and 1"]),
        (["--formats", "auto", "--max-error", "2"], ["of 2 ", "between 0 and 1"]),
        (["--formats", "auto", "--max-error", "nan"], ["nan", "between 0 and 1"]),
        (["--formats", "auto", "--ranges", "moon"], ["'moon'", "stress"]),
        (["--formats", "auto", "--objective", "speed"], ["'speed'", "area, latency, throughput"]),
        (["--formats", "auto", "--max-error", "1e-9"], ["1e-09", "out of reach", "Ask for"]),
        (["--max-error", "2"], ["of 2 ", "between 0 and 1"]),
        (["--ranges", "stress"], ["q16.16", "cannot be 'stress'", "auto"]),
        (["--objective", "speed"], ["'speed'"]),
        (["--formats", "nothing.toml"], ["'nothing.toml' cannot be read"]),
    ],
    ids=" ".join,
)
def test_build_refuses_formats_with_one_sentence(
    pinion: Pinion, tmp_path: Path, options: list[str], needles: list[str]
) -> None:
    pinion("build", "pendulum", "rnea", *options, "-o", tmp_path / "b", "--json").refused(*needles)
    assert not list(tmp_path.iterdir()), "nothing may be written"


def test_a_core_that_misses_its_gate_is_told_at_build_and_fails_at_verify(
    pinion: Pinion, tmp_path: Path
) -> None:
    path = tmp_path / "arm.urdf"
    path.write_text(urdf_text("two_link").replace('velocity="6"', 'velocity="1000"'))
    core = tmp_path / "core"
    arguments = ("build", path, "minv", "--formats", "q12.6", "-o", core)
    built_core = pinion(*arguments)
    assert built_core.code == 0
    limits, gate = built_core.err.splitlines()[:-1], built_core.err.splitlines()[-1]
    assert len(limits) == 2 and all("1000 rad/s, which is a placeholder" in line for line in limits)
    assert gate.startswith("The largest relative error of q12.6 is ") and "--max-error" in gate
    assert "pinion explore" in built_core.out and "--formats q12.6,auto" in " ".join(
        built_core.out.split()
    )
    figures = pinion(*arguments, "--json").json
    assert figures["gate_missed"] == gate
    assert figures["promises"].keys() == {"reference", "slow", "rest", "stress", "beyond"}
    failed = pinion("verify", core, "--promises", "--samples", 500, "--json")
    assert failed.code == 1 and not failed.json["distributions"]["reference"]["held"]
    table = pinion("verify", core, "--promises", "--samples", 500)
    assert table.code == 1 and "failed: some results are wrong but not flagged." in table.out
    # Follow the sentence's advice.
    (error,) = re.findall(r"max_error=([\d.e-]*\d) \(--max-error\)", gate)
    accepted = pinion(*arguments, "--max-error", error)
    # Besides the sentences on the earlier build.
    assert accepted.code == 0 and accepted.err.splitlines()[1:-1] == limits
    assert " on reference states, measured; 0.01 was asked for" in " ".join(built_core.out.split())
    assert "was asked for" not in accepted.out and f"at most {error} on" in accepted.out
    verified = pinion("verify", core, "--promises", "--samples", 500)
    assert verified.code == 0 and "is as accurate as promised" in verified.out
    pinion("verify", core, "--promises", "--distribution", "rest").refused("--distribution", "out")


@pytest.mark.parametrize(
    ("old", "new", "needles"),
    [
        ("max_error = ", "max_errors = ", ["is incomplete", "'max_error'"]),
        ("angle = [27,", "angle = [99,", ["The angle of", "[bits, fraction bits]"]),
        ("value = [27,", "value = (27,", ["cannot be read"]),
        ("", "", ["another core", "formats 'auto'"]),  # complete, but of the two-link arm
    ],
)
def test_build_refuses_a_plan_with_one_sentence(
    pinion: Pinion, auto: Built, tmp_path: Path, old: str, new: str, needles: list[str]
) -> None:
    text = (auto.folder / PLAN).read_text()
    assert old in text
    plan = tmp_path / "mine.toml"
    plan.write_text(text.replace(old, new, 1))
    completed = pinion("build", "pendulum", "rnea", "--formats", plan, "-o", tmp_path / "b")
    completed.refused(*needles)
    for option, value in (("--max-error", "1e-3"), ("--ranges", "stress")):
        if not old:
            options = ("--formats", plan, option, value)
            pinion("build", "two_link", "rnea", *options, "-o", tmp_path / "b").refused(
                "'" + str(plan), "already states its ranges"
            )
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


STEPS = ["traced", "folded", "slid", "regrouped", "rescaled", "numbered", "resubstituted"]


def cost(row: dict[str, Any]) -> int:
    return sum(int(row[key]) for key in ("mul", "mul_const", "add", "reciprocal", "trig"))


def test_info_has_what_each_step_saves(pinion: Pinion) -> None:
    plain = pinion("info", "two_link", "--json").json
    figures = pinion("info", "two_link", "--function", "aba", "--json").json
    rows = figures.pop("savings")
    arrays = figures.pop("function")
    assert [block["name"] for block in arrays["inputs"]] == ["q", "qd", "tau"]
    assert figures == plain and "savings" not in plain
    assert [row["step"] for row in rows] == STEPS
    assert all(row["doc"] for row in rows)
    costs = [cost(row) for row in rows]
    assert costs[-1] == min(costs) < costs[0] / 2
    assert all(math.isfinite(count) and count > 0 for count in costs)
    assert {row["reciprocal"] for row in rows} == {1} and rows[-1]["mul"] < rows[0]["mul"]


def test_info_shows_what_each_step_saves(pinion: Pinion) -> None:
    completed = pinion("info", "two_link", "--function", "rnea")
    assert completed.code == 0 and completed.err == ""
    for words in ("rnea for two_link", "Operations of rnea after each step", *STEPS):
        assert words in completed.out
    # As for `pinion build`.
    assert pinion("info", "two_link", "rnea").out == completed.out
    pinion("info", "two_link", "rnea", "--function", "aba").refused("'rnea'", "'aba'", "leave one")
    # The robot has its own call.
    assert "Inertias" not in completed.out and "Inertias" in pinion("info", "two_link").out
    assert "reciprocals" not in completed.out and "sin/cos" in completed.out


def test_info_has_room_for_every_figure_on_a_narrow_terminal(
    pinion: Pinion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    completed = pinion("info", "two_link", "--function", "aba")
    assert completed.code == 0 and max(map(len, completed.out.splitlines())) <= 80
    rows = json.loads(pinion("info", "two_link", "--function", "aba", "--json").out)["savings"]
    for row in rows:
        assert re.search(
            rf"^ {row['step']} +{row['mul']} +{row['mul_const']} ", completed.out, re.M
        )
        assert f"{row['step']}: {row['doc']}" in completed.out


@pytest.mark.parametrize("width", [20, 60, 80])
def test_no_figure_loses_digits_however_narrow_a_terminal_is(
    width: int, pinion: Pinion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    summary = pinion("info", "iiwa14", "--json").json
    output = pinion("info", "iiwa14").out
    for joint in summary["joints"]:
        match = re.search(rf"^ {joint['name']} +revolute .* (\S+)$", output, re.M)
        assert match is not None and match[1] == cell(joint["effort"])
    assert "Links (kg; centre of mass in m, in frames whose z is the joint's axis)" in output
    for joint in summary["links"]:
        figures = [f"{cell(value if abs(value) > 1e-9 else 0.0)} " for value in joint["inertia"]]
        at = -1
        for figure in figures:
            at = f"{output}\n".replace("\n", " \n").index(figure, at + 1)


def test_tables_in_a_file_have_a_width_and_no_blanks_at_ends(
    pinion: Pinion, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = pinion("info", "iiwa14").out.splitlines()
    monkeypatch.setenv("COLUMNS", "84")
    narrow = pinion("info", "iiwa14").out.splitlines()
    assert max(map(len, narrow)) <= 84 < max(map(len, wide)) <= PIPE_WIDTH
    assert not [line for line in (*wide, *narrow) if line != line.rstrip()]
    pinion("info", "two_link", "--function", "rnae").refused("'rnae'", "rnea")


def test_formats_that_miss_their_error_end_with_a_code_that_scripts_see(
    pinion: Pinion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the states that the build measures; the folder is written nevertheless."""
    shares: list[float] = []
    designing = importlib.import_module("pinion.flow.design")
    original_plan, measured = designing.format_plan, building.measured_errors

    def watched(*arguments: Any, headroom: float, **options: Any) -> Any:
        shares.append(headroom)
        return original_plan(*arguments, headroom=headroom, **options)

    def worse(*arguments: Any, **options: Any) -> dict[str, float | None]:
        return {**measured(*arguments, **options), "reference": 2e-3}

    monkeypatch.setattr(designing, "format_plan", watched)
    monkeypatch.setattr(building, "measured_errors", worse)
    folder = tmp_path / "core"
    completed = pinion("build", "pendulum", "rnea", "--ii", 4, "--formats", "auto", "-o", folder)
    assert completed.code == 1 and (folder / "manifest.json").is_file()
    assert (
        "auto is 0.002 on reference states, above the largest allowed, 0.001: finer"
        in completed.err
    )
    assert shares[0] == HEADROOM and shares == sorted(shares, reverse=True) and len(shares) > 1
    # A uniform format is not chosen for an error, so there is only a note.
    same = pinion("build", "pendulum", "rnea", "--ii", 4, "--max-error", 1e-3, "-o", folder)
    assert same.code == 0 and "above the largest allowed" in same.err
