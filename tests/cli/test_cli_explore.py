"""`pinion explore`: files, JSON, table, refusals, resuming after Ctrl-C; `pinion bench core`."""

from __future__ import annotations

import csv
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pinion.bench.core import cases as bench_core
from pinion.bench.core import measure as bench_cores
from pinion.bench.core.comparison import compared
from pinion.bench.published import published_designs
from pinion.cli import explore
from pinion.console.errors import UsageError
from pinion.console.terminal import fits
from pinion.functions import FUNCTIONS
from pinion.report import cell
from pinion.report.sweep import SWEEP, sweep_blocks, sweep_table
from pinion.robot import load
from tests.cli.conftest import Done, Pinion
from tests.cli.test_cli_demo import on_a_terminal
from tests.report.pictures import is_a_picture
from tests.support.breadth import some_rows

MAIN = "from pinion.cli import main; main()"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("explore") / "deep" / "sweep"


@pytest.fixture(scope="module")
def sweep(process: Pinion, folder: Path) -> Done:
    """rnea of the two-link arm at two intervals and in three formats, one of them impossible."""
    options = ("--ii", "2,4", "--formats", "q16.16,q6.20,q40.40", "--samples", 300, "-j", 1)
    return process("explore", "two_link", "rnea", *options, "-o", folder, "--json")


def test_explore_puts_one_object_on_standard_output(sweep: Done, folder: Path) -> None:
    assert sweep.code == 0 and sweep.err == ""
    assert sweep.out.count("\n") == 1
    figures = sweep.json
    assert (figures["robot"], figures["function"], figures["samples"]) == ("two_link", "rnea", 300)
    assert figures["axes"] == {"ii": [2, 4], "formats": ["q16.16", "q6.20", "q40.40"]}
    assert figures["assumed"] == ["clock_mhz"]
    assert [Path(name) for name in figures["files"]] == [
        folder / name for name in ("explore.csv", "explore.json", "pareto.png", "pareto.svg")
    ]
    assert json.loads((folder / "explore.json").read_text())["version"] == 1
    stored = SWEEP.read(folder)
    assert figures["kept"] == []
    assert stored == {key: value for key, value in figures.items() if key not in ("files", "kept")}
    wide, narrow, impossible = figures["points"][:3]
    assert wide["pareto"] and wide["failure"] is None and wide["flagged"] == 0
    assert narrow["flagged"] > 0 and not narrow["usable"] and not narrow["pareto"]
    assert "q40.40" in impossible["failure"] and impossible["dsp"] is None
    assert wide["results_per_second"] == 125e6 and wide["clock_mhz"] == 250
    assert wide["dsp_source"] == "estimate"
    assert Path(wide["folder"], "manifest.json").is_file()


def test_the_csv_has_a_line_a_point(sweep: Done, folder: Path) -> None:
    with (folder / "explore.csv").open(newline="") as text:
        lines = list(csv.DictReader(text))
    points = sweep.json["points"]
    assert len(lines) == len(points) == 6
    for line, point in zip(lines, points, strict=True):
        assert (line["ii"], line["formats"]) == (str(point["ii"]), point["formats"])
        assert line["failure"] == (point["failure"] or "")
        assert line["pareto"] == str(point["pareto"])
        if point["dsp"] is None:
            assert line["dsp"] == line["error_max"] == ""
        else:
            assert float(line["dsp"]) == point["dsp"]
            assert float(line["error_max"]) == point["error_max"]
            assert float(line["clock_mhz_assumed"]) == 250


def test_the_pictures_show_something(sweep: Done, folder: Path) -> None:
    assert sweep.code == 0
    assert is_a_picture(folder / "pareto.png")
    assert "<svg" in (folder / "pareto.svg").read_text()


def test_a_narrow_terminal_gets_every_figure_in_short_lines(
    pinion: Pinion, monkeypatch: pytest.MonkeyPatch, sweep: Done, folder: Path
) -> None:
    result = json.loads((folder / "explore.json").read_text())
    table = sweep_table(result)
    assert table is not None
    monkeypatch.setenv("COLUMNS", "60")
    assert not fits(table)
    blocks = sweep_blocks(table)
    assert blocks.splitlines()[0] == f"{table.title}:"
    for row in table.rows:
        for value in row[1:]:
            assert value is None or str(cell(value)) in blocks
    assert len(blocks.splitlines()) == 1 + 2 * len(table.rows)
    monkeypatch.setenv("COLUMNS", "300")
    assert fits(table)


def test_the_table_reads_what_is_there(sweep: Done, pinion: Pinion, folder: Path) -> None:
    places = [Path(point["folder"]).parent for point in sweep.json["points"] if point["usable"]]
    before = {place: (place / "point.json").stat().st_mtime_ns for place in places}
    options = ("--ii", "2,4", "--formats", "q16.16,q40.40", "--samples", 300, "-j", 1)
    completed = pinion("explore", "two_link", "rnea", *options, "-o", folder)
    assert completed.code == 0
    assert completed.err.count("\n") == 1, "one failure, one line"
    assert "ii 2 formats q40.40, ii 4 formats q40.40: 'q40.40'" in completed.err
    rows = [line.split() for line in completed.out.splitlines() if " q16.16 " in line]
    assert [(cells[0], cells[2]) for cells in rows] == [("*", "2"), ("*", "4")]
    assert all(cells[4].startswith("~") for cells in rows), "an estimate says that it is one"
    assert "an assumed clock of 250 MHz" in " ".join(completed.out.split())
    assert "estimated (~)" in completed.out
    assert {place: (place / "point.json").stat().st_mtime_ns for place in places} == before


@pytest.mark.slow
def test_any_option_of_a_build_can_be_swept(process: Pinion, tmp_path: Path) -> None:
    completed = process(
        *("explore", "pendulum", "rnea_derivatives", "--ii", "auto", "--samples", 50),
        *("--sweep", "derivatives=composite,column", "--clock", 100, "-j", 2, "--verify"),
        *("-o", tmp_path / "x", "--json"),
    )
    figures = completed.json
    assert completed.code == 0 and completed.err == ""
    assert figures["axes"]["ii"] == ["auto"]
    assert [point["options"]["derivatives"] for point in figures["points"]] == [
        "composite",
        "column",
    ]
    for point in figures["points"]:
        assert point["options"]["ii"] is None and point["ii"] >= 1
        assert point["clock_mhz"] == 100 and point["results_per_second"] == 1e8 / point["ii"]
        assert point["mismatches"] == 0 and point["verified"] is True
    header = (tmp_path / "x" / "explore.csv").read_text().partition("\n")[0].split(",")
    assert header[:5] == ["robot", "function", "ii", "formats", "derivatives"]


@pytest.mark.parametrize(
    ("arguments", "needles"),
    some_rows(
        [
            (["iiwa15", "rnea"], ["'iiwa15'"]),
            (["pendulum", "fly"], ["'fly'"]),
            (["pendulum", "rnea", "--ii", "two"], ["'two'", "auto"]),
            (["pendulum", "rnea", "--ii", "2.5"], ["'2.5'", "auto"]),
            (["pendulum", "rnea", "--ii", ","], ["','", "--ii"]),
            (["pendulum", "rnea", "--ii", "0"], ["0", "interval"]),
            (["pendulum", "rnea", "--formats", "q40.40"], ["q40.40", "No point"]),
            (["pendulum", "rnea", "--sweep", "speed=1"], ["'speed'", "formats"]),
            (["pendulum", "rnea", "--sweep", "speed"], ["'speed'", "OPTION=A,B"]),
            (["pendulum", "rnea", "--sweep", "ii=1"], ["'ii'", "already has values"]),
            (["pendulum", "rnea", "--samples", "0"], ["--samples"]),
            (["pendulum", "rnea", "--jobs", "0"], ["--jobs"]),
            (["pendulum", "rnea", "--outputs", "minv"], ["'minv'"]),
        ],
        lambda arguments, needles: "q40.40" not in arguments,
    ),
)
def test_explore_refuses_with_one_sentence(
    pinion: Pinion, tmp_path: Path, arguments: list[str], needles: list[str]
) -> None:
    pinion("explore", *arguments, "-o", tmp_path / "x", "--json").refused(*needles)


def test_values_are_numbers_where_they_look_like_numbers() -> None:
    axes = explore.axes_of("1,auto, 8", "q16.16,auto", "latency", ["clock-mhz=200,2.5e2"])
    assert axes == {
        "ii": [1, None, 8],
        "formats": ["q16.16", "auto"],
        "objective": ["latency"],
        "clock_mhz": [200, 250.0],
    }
    with pytest.raises(UsageError, match=r"'objective' already has values, .* with --objective"):
        explore.axes_of("1", "q16.16", "latency", ["objective=area"])
    with pytest.raises(UsageError, match="must be at least 1 cycle, or 'auto', not 0 cycles"):
        explore.axes_of("8,0", "q16.16", None, None)


def test_a_failed_check_has_exit_code_1(
    pinion: Pinion, folder: Path, sweep: Done, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = [{**sweep.json["points"][0], "verified": False, "mismatches": 3, "usable": False}]
    monkeypatch.setattr("pinion.cosim.explore.explore", lambda *_, **__: rows)
    completed = pinion("explore", "two_link", "rnea", "-o", tmp_path)
    assert completed.code == 1
    assert f"`pinion verify {rows[0]['folder']}`" in completed.err


def test_points_of_different_sources_are_told(
    pinion: Pinion, sweep: Done, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = sweep.json["points"][0]
    rows = [first, {**first, "version": "0.0.9+old"}]
    monkeypatch.setattr("pinion.cosim.explore.explore", lambda *_, **__: rows)
    completed = pinion("explore", "two_link", "rnea", "-o", tmp_path, "--json")
    assert completed.code == 0 and "sources changed during the sweep" in completed.err
    assert completed.json["points"] == rows


@pytest.mark.slow
def test_an_interrupted_sweep_says_how_to_go_on(tmp_path: Path) -> None:
    place = tmp_path / "my sweep"
    options = ["--ii", ",".join(map(str, range(1, 33))), "--samples", "50", "--jobs", "1", "--json"]
    command = ["explore", "pendulum", "rnea", *options, "--output", str(place)]
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as child:
        assert child.stdout is not None and child.stderr is not None
        while not list(place.glob("points/*/point.json")):
            assert child.poll() is None, child.stderr.read()
            time.sleep(0.02)
        os.killpg(child.pid, signal.SIGINT)
        printed, progress = child.stdout.read(), child.stderr.read()
    assert child.returncode == 130
    assert printed == "" and "Traceback" not in progress
    assert "of 32 points finished" in progress and str(place) in progress
    again = shlex.split(progress.strip().rpartition("To continue: ")[2])
    assert again[:4] == ["pinion", "explore", "pendulum", "rnea"]
    assert sorted(again[1:]) == sorted(command)
    assert again[again.index("--output") + 1] == str(place)


@pytest.mark.slow  # tests/cli/test_cli_demo.py tests that of the demo
def test_progress_is_for_terminals(tmp_path: Path, process: Pinion) -> None:
    arguments = ("explore", "pendulum", "gravity", "--ii", "1", "--samples", 50, "-o", tmp_path)
    code, printed = on_a_terminal(*arguments)
    assert code == 0 and "Exploring" in printed
    completed = process(*arguments)
    assert completed.code == 0 and completed.err == "" and "Exploring" not in completed.out


@pytest.mark.slow
def test_no_sweep_takes_figures_of_another_away(pinion: Pinion, tmp_path: Path) -> None:
    def kept(*options: object) -> list[str]:
        completed = pinion(
            "explore", "pendulum", "gravity", *options, "-j", 1, "-o", tmp_path, "--json"
        )
        assert completed.code == 0 and completed.err == ""
        return [str(Path(name).relative_to(tmp_path)) for name in completed.json["kept"]]

    def intervals(name: str) -> list[str]:
        with (tmp_path / name).open(newline="") as text:
            return [line["ii"] for line in csv.DictReader(text)]

    few = ("--samples", 20)
    assert kept("--ii", "1", *few) == []
    assert kept("--ii", "1,2", "--formats", "q16.16,q40.40", *few) == []  # which has all points
    assert kept("--ii", "1,2", "--formats", "q16.16,q40.40", *few) == []
    before = (tmp_path / "explore.json").read_bytes()
    first = ["explore-1.csv", "explore-1.json", "pareto-1.png", "pareto-1.svg"]
    assert kept("--ii", "4", *few) == first
    assert (tmp_path / "explore-1.json").read_bytes() == before
    assert intervals("explore-1.csv") == ["1", "1", "2", "2"] and intervals("explore.csv") == ["4"]
    assert kept("--ii", "4", "--verify", *few) == []
    second = [name.replace("1", "2") for name in first]
    assert kept("--ii", "4", *few) == second  # without what was verified
    assert kept("--ii", "4", "--samples", 30) == [name.replace("1", "3") for name in first]
    command = ("explore", "pendulum", "gravity", "--ii", "4", *few, "-j", 1, "-o", tmp_path)
    sentence = " ".join(pinion(*command).out.split())
    assert "The earlier sweep (ii 4; formats q16.16; 30 samples) has figures that these" in sentence
    (tmp_path / "explore.json").write_text("{}")
    sentence = " ".join(pinion(*command).out.split())
    assert "The earlier sweep has figures that these files lack, so it is kept as " in sentence
    assert (tmp_path / "explore-5.json").read_text() == "{}"
    (tmp_path / "explore.json").unlink()  # only the table of a sweep is left
    sentence = " ".join(pinion(*command).out.split())
    assert "The earlier sweep has figures that these files lack, so it is kept as " in sentence


@pytest.mark.slow
def test_the_place_is_named_by_robot_and_function(
    pinion: Pinion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ("--ii", 1, "--samples", 20, "-j", 1, "--json")
    figures = pinion("explore", "pendulum", "gravity", *options).json
    assert figures["files"][0] == "build/explore/pendulum_gravity/explore.csv"
    assert load(figures["robot"]).nv == 1


# -- `pinion bench core`, which measures its cores as points


KINDS = {"published", "figure", "derived"}


def test_every_published_figure_has_a_kind_and_a_source() -> None:
    data = published_designs()
    assert len(data["design"]) == 4
    for design in data["design"]:
        assert design["function"] in FUNCTIONS
        (joints,) = {c.point().model.nv for c in bench_core.CASES if c.robot == design["robot"]}
        assert joints == design["joints"]
        for name, figure in design["figures"].items():
            assert figure["value"] > 0 and figure["kind"] in KINDS, name
            assert figure["source"] in data["sources"]
            assert figure["kind"] == "published" or figure["where"], "how it was derived"
    first = {key: figure["value"] for key, figure in data["design"][0]["figures"].items()}
    assert first["dsp"] == round(0.775 * 6840)
    assert first["latency_cycles"] == round(3.42 / 5.6 * first["clock_mhz"])
    assert first["end_to_end_per_second"] == pytest.approx(128 / 81.8e-6, rel=5e-3)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The bench with one small core and one published design."""
    design = {
        "name": "Somebody",
        "robot": "two_link",
        "joints": 2,
        "function": "rnea",
        "figures": {
            "clock_mhz": {"value": 50.0, "kind": "published", "source": "s"},
            "latency_cycles": {"value": 30, "kind": "derived", "source": "s", "where": "Fig. 1"},
            "cycles_per_result": {"value": 25, "kind": "published", "source": "s"},
            "dsp": {"value": 1000, "kind": "figure", "source": "s", "where": "Fig. 2"},
        },
    }
    data = {"sources": {"s": "Somebody, 'Something'"}, "design": [design]}
    case = bench_core.CoreCase(robot="two_link", function="rnea", formats="q16.16", ii=4)
    monkeypatch.setattr(bench_core, "CASES", (case,))
    monkeypatch.setattr(bench_core, "SAMPLES", 100)
    monkeypatch.setattr(bench_cores, "published_designs", lambda: data)
    monkeypatch.setattr(bench_cores, "ROBOT", "two_link")
    monkeypatch.setattr(bench_cores, "INTERVALS", (4,))
    monkeypatch.setattr(bench_cores, "ROBOTS", ("pendulum",))
    return data


@pytest.mark.slow
def test_bench_core_keeps_measured_published_and_assumed_apart(
    small: dict[str, Any], pinion: Pinion, tmp_path: Path
) -> None:
    before = pinion("bench", "core", "-o", tmp_path, "--json").json
    assert before["published"] == small and before["assumed"] == {"clock_mhz": 250.0}
    (row,), (pair,) = before["measured"], before["compared"]
    assert (row["robot"], row["ii"], row["dsp"], row["verified"]) == ("two_link", 4, None, None)
    assert pair["dsp_ratio"] is pair["latency_us"] is pair["results_per_second"] is None
    assert pair["latency_us_published"] == 0.6 and pair["results_per_second_published"] == 2e6
    assert not list(tmp_path.iterdir()), "without --measure nothing is built"

    completed = pinion("bench", "core", "-o", tmp_path, "--measure", "-j", 1, "--json")
    assert completed.code == 0 and completed.err == ""
    (row,), (pair,) = completed.json["measured"], completed.json["compared"]
    assert row["verified"] is True and row["mismatches"] == 0 and row["samples"] == 100
    assert row["dsp_source"] == "synth" and row["dsp"] > 0 and row["lut"] > 0
    assert pair["dsp_ratio"] == 1000 / row["dsp"]
    assert pair["latency_us"] == row["latency_cycles"] / 250
    assert pair["results_per_second"] == 250e6 / 4

    table_run = pinion("bench", "core", "-o", tmp_path)
    assert table_run.code == 0 and table_run.err == ""
    published, _, rest = table_run.out.partition("Pinion, measured here")
    measured, _, assumed = rest.partition("Side by side")
    assert "1,000 f" in published and "30 d" in published and "assumed" not in measured
    assert row["mhz_estimated"] > 0 and f"{row['mhz_estimated']:.0f}" in measured
    assert "critical path, estimated" in measured and "from " in measured
    assert f" {row['dsp']} " in measured and "0.60" in assumed and "no vendor tool" in assumed
    assert "not measured" not in table_run.out


def test_what_is_not_verified_is_not_compared() -> None:
    design = published_designs()["design"][0]
    row: dict[str, Any] = {
        **{"robot": "iiwa14", "function": design["function"], "formats": "auto", "ii": 8},
        "objective": "area",
        **{"dsp": 200, "dsp_source": "synth", "latency_cycles": 80, "verified": True},
    }
    (good,) = compared([design], [row], clock_mhz=250)
    assert good["dsp_ratio"] == 5301 / 200 and good["latency_us"] == 80 / 250
    (bad,) = compared([design], [{**row, "verified": False}], clock_mhz=250)
    assert bad["dsp_ratio"] is bad["latency_us"] is bad["results_per_second"] is None
    (estimated,) = compared([design], [{**row, "dsp_source": "estimate"}], clock_mhz=250)
    assert estimated["dsp_ratio"] is None and estimated["latency_us"] == 80 / 250
    assert compared([design], [{**row, "robot": "hyq"}], clock_mhz=250) == []


def test_only_the_core_bench_takes_measure(pinion: Pinion) -> None:
    pinion("bench", "functions", "--measure").refused("--measure", "core")
