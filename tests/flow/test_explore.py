"""Exploration: keys of points, estimated DSP blocks, the best, resuming, failures, stopping."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.cosim import explore as running
from pinion.cosim.explore import POINTS, RECORD, explore, kept
from pinion.flow.build import RTLIL, BuildError
from pinion.flow.explore import ExploreError, Measurements, SweepPoint, best, grid
from pinion.functions import FunctionError
from pinion.request import BuildRequest
from pinion.robot import load
from pinion.synthesis.estimate import (
    EstimateError,
    dsp_of_product,
    estimate_dsp,
    in_words,
    multipliers_of,
)
from tests.support.breadth import some

MEASURE = Measurements(samples=200, seed=5)


def points(**axes: Any) -> list[SweepPoint]:
    return grid(load("pendulum"), "rnea", axes)


def record(row: dict[str, Any], folder: Path) -> Path:
    return folder / POINTS / row["point"] / RECORD


# -- what a point is


def test_a_grid_has_every_combination_once() -> None:
    grid_points = points(ii=[1, 2, 1], formats=["q16.16", "q12.20"])
    assert [point.request for point in grid_points] == [
        BuildRequest(ii=ii, formats=formats) for ii in (1, 2) for formats in ("q16.16", "q12.20")
    ]
    assert len({point.key for point in grid_points}) == 4


@pytest.mark.parametrize(
    ("axes", "fixed", "needles"),
    [
        ({"speed": [1]}, {}, ["'speed'", "formats"]),
        ({"folder": ["x"]}, {}, ["'folder'"]),
        ({"ii": [1]}, {"ii": 2}, ["'ii'", "once"]),
        ({"ii": []}, {}, ["'ii'", "no values"]),
    ],
)
def test_a_grid_refuses(axes: Any, fixed: Any, needles: list[str]) -> None:
    with pytest.raises(ExploreError) as refused:
        grid(load("pendulum"), "rnea", axes, fixed=fixed)
    assert all(needle in str(refused.value) for needle in needles)


def test_a_grid_refuses_unknown_functions() -> None:
    with pytest.raises(FunctionError, match="'fly'"):
        grid(load("pendulum"), "fly", {"ii": [1]})


def test_a_key_depends_on_everything_that_matters() -> None:
    model = load("pendulum")
    point = SweepPoint(model=model, function="rnea", request=BuildRequest(ii=1, formats="q16.16"))
    same = SweepPoint(
        model=load("pendulum"), function="rnea", request=BuildRequest.of(formats="q16.16", ii=1)
    )
    assert point.key == same.key
    others = [
        replace(point, function="crba"),
        replace(point, request=BuildRequest(ii=2, formats="q16.16")),
        replace(point, model=load("two_link")),
        replace(point, model=replace(model, gravity=(0.0, 0.0, -1.62))),
    ]
    assert len({point.key, *(other.key for other in others)}) == 5


# -- DSP blocks


@pytest.mark.parametrize(
    ("a", "b", "blocks"),
    [(27, 18, 1), (18, 27, 1), (18, 18, 1), (27, 27, 2), (32, 18, 2), (32, 32, 4), (36, 36, 6)],
)
def test_dsp_blocks_of_a_product(a: int, b: int, blocks: int) -> None:
    assert dsp_of_product(a, b) == blocks


def test_dsp_blocks_are_counted_through_the_hierarchy() -> None:
    product = "  cell $mul $1\n    parameter \\A_WIDTH {}\n    parameter \\B_WIDTH {}\n  end\n"
    text = (
        "module \\top\n  cell \\a \\a0\n  end\n  cell \\a \\a1\n  end\n"
        "  cell \\b \\b0\n  end\nend\n"
        f"module \\a\n{product.format(27, 18)}{product.format(27, 27)}  cell \\b \\b0\n  end\nend\n"
        f"module \\b\n{product.format(32, 32)}end\n"
        f"module \\unused\n{product.format(32, 32)}end\n"
    )
    assert estimate_dsp(text, top="top") == 2 * (1 + 2 + 4) + 4
    with pytest.raises(EstimateError, match="'moon'"):
        estimate_dsp(text, top="moon")


def test_multipliers_say_why_they_are_so_many_blocks() -> None:
    product = "  cell $mul $1\n    parameter \\A_WIDTH {}\n    parameter \\B_WIDTH {}\n  end\n"
    text = (
        "module \\top\n"
        + "".join(f"  cell \\pinion_dot1x27 \\x{k}\n  end\n" for k in range(2))
        + "  cell \\pinion_dot2x18 \\y\n  end\n  cell \\pinion_sincos \\z\n  end\nend\n"
        + f"module \\pinion_dot1x27\n{product.format(27, 27)}end\n"
        + "module \\pinion_dot2x18\n  cell \\pinion_dot2x18.mac0 \\m\n  end\n"
        + "  cell \\pinion_dot2x18.mac0 \\n\n  end\nend\n"
        + f"module \\pinion_dot2x18.mac0\n{product.format(18, 27)}end\n"
        + f"module \\pinion_sincos\n{product.format(13, 13)}{product.format(28, 16)}end\n"
    )
    rows = multipliers_of(text, top="top")
    assert [(row.use, row.bits, row.number, row.blocks) for row in rows] == [
        *(("products", (27, 18), 2, 1), ("products", (27, 27), 2, 2)),
        *(("tables", (13, 13), 1, 1), ("tables", (28, 16), 1, 2)),
    ]
    start = "6 multipliers, 4 of products and 2 in sine and reciprocal units, take "
    end = (
        "2 of 27 x 18 bits and 1 in sine and reciprocal units one each, 2 of 27 x 27 bits and 1 in "
        "sine and reciprocal units two each (a DSP48E2 multiplies 27 x 18 bits)."
    )
    assert in_words(rows) == in_words(rows, 9) == f"{start}9 DSP blocks: {end}"
    assert in_words(rows, 8) == f"{start}8 DSP blocks as Yosys counts, 9 by their widths: {end}"
    assert in_words(rows[:1]) == (
        "2 multipliers take 2 DSP blocks, one each (a DSP48E2 multiplies 27 x 18 bits)."
    )
    alone = replace(rows[0], number=1)
    assert in_words([alone]).startswith("1 multiplier takes 1 DSP block, one each")
    assert in_words([]) == ""


# -- the best


def row(dsp: float, latency: float, rate: float, error: float) -> dict[str, float]:
    return {
        "dsp": dsp,
        "latency_cycles": latency,
        "results_per_second": rate,
        "error_max": error,
    }


def test_the_best_are_those_that_nothing_beats() -> None:
    rows: list[dict[str, Any]] = [
        row(10, 10, 10, 1e-3),
        row(11, 10, 10, 1e-3),  # beaten by the first
        row(11, 10, 10, 1e-4),
        row(9, 12, 10, 1e-3),
        row(9, 12, 11, 1e-3),  # beats the one before
        row(10, 10, 10, 1.004e-3),  # as good as the first, to the digits that count
        {},
        row(1, 1, 1e9, math.nan),
        {**row(1, 1, 1e9, 1e-9), "dsp": None},
    ]
    assert best(rows) == [True, False, True, False, True, True, False, False, False]


def test_best_against_all_pairs() -> None:
    seed = 3
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    for count in (1, 2, 7, 40):
        figures = rng.integers(1, 6, (count, 4)).astype(float)
        front = best([row(*map(float, f)) for f in figures])
        signed = figures * [1, 1, -1, 1]
        for i in range(count):
            beaten = any(
                (signed[j] <= signed[i]).all() and (signed[j] < signed[i]).any()
                for j in range(count)
            )
            assert front[i] is not beaten


# -- running


@pytest.mark.slow  # tests/cli/test_cli_explore.py sweeps as well
def test_points_are_measured_and_kept(tmp_path: Path) -> None:
    sweep = points(ii=[1, 2], formats=["q16.16", "q40.40"])
    reported: list[dict[str, Any]] = []
    first = explore(sweep, tmp_path, measure=MEASURE, jobs=2, on_row=reported.append)
    assert sorted(r["point"] for r in reported) == sorted(point.key for point in sweep)
    good, bad = first[::2], first[1::2]
    for row, ii in zip(good, (1, 2), strict=True):
        assert (row["ii"], row["formats"], row["failure"]) == (ii, "q16.16", None)
        assert row["results_per_second"] == 250e6 / ii
        assert row["dsp_source"] == "estimate" and row["mismatches"] is None
        text = Path(row["folder"], RTLIL).read_text()
        assert row["dsp"] == estimate_dsp(text) >= 4 * row["multipliers"] > 0
        assert 0 < row["error_median"] < row["error_max"] < 1
        assert (row["error_block"], row["flagged"], row["samples"]) == ("tau", 0, 200)
        assert row["usable"] and row["pareto"] and not row["resumed"]
        assert row["version"].startswith("0.") and "+" in row["version"]
    for row in bad:
        assert "q40.40" in row["failure"] and row["dsp"] is None
        assert not row["usable"] and not row["pareto"]
    stamps = {r["point"]: record(r, tmp_path).stat().st_mtime_ns for r in good}

    # Again: complete points are read, failed ones are tried again.
    second = explore(sweep, tmp_path, measure=MEASURE, jobs=2)
    assert [r["resumed"] for r in second] == [True, False, True, False]
    for r in good:
        assert record(r, tmp_path).stat().st_mtime_ns == stamps[r["point"]]
    assert [{**r, "resumed": None} for r in second] == [{**r, "resumed": None} for r in first]
    assert [r and r["dsp"] for r in kept(sweep, tmp_path, measure=MEASURE)] == [
        r["dsp"] for r in first
    ]

    # With RTL and other states: the build stays, the new stages are added.
    hash_before = json.loads(record(good[1], tmp_path).read_text())["hash"]
    other = Measurements(samples=100, seed=6, verify=True)
    built = Path(good[1]["folder"], RTLIL).stat().st_mtime_ns
    (third,) = explore(sweep[2:3], tmp_path, measure=other)
    assert (third["mismatches"], third["verified"], third["samples"]) == (0, True, 100)
    assert third["error_max"] != good[1]["error_max"] and not third["resumed"]
    assert Path(third["folder"], RTLIL).stat().st_mtime_ns == built
    assert json.loads(record(third, tmp_path).read_text())["hash"] == hash_before
    assert kept(sweep[2:3], tmp_path, measure=MEASURE) == [None], (
        "its errors are of other states now"
    )


@pytest.mark.slow
def test_errors_and_requests_are_of_the_distribution_that_is_asked_for(tmp_path: Path) -> None:
    """A core with formats by signal flags at twice its limits, but not at rated speeds."""
    sweep = points(ii=[2], formats=["auto"])
    (usual,) = explore(sweep, tmp_path, measure=Measurements(samples=100, seed=5))
    (beyond,) = explore(
        sweep, tmp_path, measure=Measurements(samples=100, seed=5, distribution="beyond")
    )
    assert (usual["distribution"], beyond["distribution"]) == ("reference", "beyond")
    assert usual["flagged"] == 0 and beyond["flagged"] > 25 and not beyond["resumed"]
    assert kept(sweep, tmp_path, measure=Measurements(samples=100, seed=5)) == [None]


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A folder with one point, and its row."""
    folder = tmp_path_factory.mktemp("swept")
    (row,) = explore(points(ii=[4]), folder, measure=MEASURE)
    return folder, row


@pytest.mark.parametrize("damage", some(["version", "content", "json", "build"], ("json",)))
def test_what_is_stale_or_damaged_is_built_again(
    swept: tuple[Path, dict[str, Any]], damage: str
) -> None:
    (place, first), sweep = swept, points(ii=[4])
    path, folder = record(first, place), Path(first["folder"])
    whole = path.read_text()
    if damage == "json":
        path.write_text(whole[: len(whole) // 2])
    elif damage == "build":
        change(path, errors=None)
        (folder / "manifest.json").unlink()
    else:
        change(path, **{damage: "0.0.9"})
    before = (folder / RTLIL).stat().st_mtime_ns
    assert kept(sweep, place, measure=MEASURE) == [None]
    (row,) = explore(sweep, place, measure=MEASURE)
    assert not row["resumed"] and row["failure"] is None
    assert (folder / RTLIL).stat().st_mtime_ns > before
    assert {**row, "seconds": 0} == {**first, "seconds": 0}


def test_a_point_that_dies_takes_nobody_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = running.task_of

    def task(point: SweepPoint, *rest: Any) -> Any:
        if point.request.ii == 2:
            return {}, os._exit, {}, *rest
        return real(point, *rest)

    monkeypatch.setattr(running, "task_of", task)
    monkeypatch.setattr(running, "measure_point", _die_on_command)
    first, second = explore(points(ii=[2, 1]), tmp_path, measure=MEASURE, jobs=2)
    assert "stopped" in first["failure"] and first["dsp"] is None
    assert second["failure"] is None and second["dsp"] > 0


def _die_on_command(model: Any, function: Any, *rest: Any) -> str | None:
    """Run in the point's process, where `running` is unchanged."""
    if callable(function):
        function(9)
    return running.measure_point(model, function, *rest)


def test_too_few_integer_bits_are_no_working_core(tmp_path: Path) -> None:
    # 6 integer bits hold torques up to 32 N m; the two-link arm's are larger.
    rows = explore(
        grid(load("two_link"), "rnea", {"formats": ["q6.20", "q16.16"]}), tmp_path, measure=MEASURE
    )
    assert rows[0]["flagged"] > 0 and not rows[0]["usable"] and not rows[0]["pareto"]
    assert rows[1]["flagged"] == 0 and rows[1]["pareto"]


def test_refusals(tmp_path: Path) -> None:
    sweep = points(ii=[1])
    for arguments, needle in (
        (([], MEASURE, 1), "no point"),
        ((sweep, MEASURE, 0), "jobs .* must be at least 1, not 0"),
        ((sweep, Measurements(samples=0), 1), "sample"),
    ):
        with pytest.raises(ExploreError, match=needle):
            explore(arguments[0], tmp_path, measure=arguments[1], jobs=arguments[2])
    assert issubclass(BuildError, ValueError)


SCRIPT = """
import sys
from pathlib import Path
from pinion.flow.explore import Measurements, grid
from pinion.cosim.explore import explore
from pinion.request import BuildRequest
from pinion.robot import load

if __name__ == "__main__":
    wanted = grid(load("two_link"), "rnea", {"ii": list(range(1, 40))})
    try:
        explore(wanted, Path(sys.argv[1]), measure=Measurements(samples=50), jobs=2,
                on_row=lambda row: print(row["point"], flush=True))
    except KeyboardInterrupt:
        sys.exit(130)
"""


@pytest.mark.slow  # tests/cli/test_cli_explore.py interrupts one as well
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_stopping_leaves_whole_points_and_no_processes(tmp_path: Path, number: int) -> None:
    script = tmp_path / "sweep.py"
    script.write_text(SCRIPT)
    with subprocess.Popen(
        [sys.executable, script, tmp_path / "out"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as sweep:
        assert sweep.stdout is not None and sweep.stderr is not None
        finished = {sweep.stdout.readline().strip() for _ in range(2)}
        if number == signal.SIGINT:
            os.killpg(sweep.pid, number)  # like a terminal: the whole foreground group gets it
        else:
            os.kill(sweep.pid, number)
        finished |= {line.strip() for line in sweep.stdout}
        errors = sweep.stderr.read()
        code = sweep.wait()
    if number == signal.SIGINT:
        assert code == 130
        assert errors == "", "processes say nothing when they are stopped"
    deadline = time.monotonic() + 300
    while _alive(sweep.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _alive(sweep.pid)
    assert 2 <= len(finished) < 39
    for key in finished:
        assert "errors" in json.loads((tmp_path / "out" / POINTS / key / RECORD).read_text())
    points_swept = [p for p in grid(load("two_link"), "rnea", {"ii": list(range(1, 40))})]
    stored = kept(points_swept, tmp_path / "out", measure=Measurements(samples=50))
    assert finished <= {r["point"] for r in stored if r}
    resumed = [p for p, r in zip(points_swept, stored, strict=True) if r][:1]
    unfinished = [p for p, r in zip(points_swept, stored, strict=True) if not r][:1]
    rows = explore(resumed + unfinished, tmp_path / "out", measure=Measurements(samples=50))
    assert [r["resumed"] for r in rows] == [True, False]
    assert all(r["failure"] is None for r in rows)


STARTING = """
import os, signal, threading, time
from pinion.cosim.explore import _without_interrupts

other = threading.Thread(target=time.sleep, args=(600,), daemon=True)
other.start()
heard, hear = os.pipe()
os.set_blocking(hear, False)
signal.set_wakeup_fd(hear)
try:
    with _without_interrupts():
        signal.pthread_kill(other.ident, signal.SIGINT)
        os.read(heard, 1)  # the other thread has the signal
        print("started")
except KeyboardInterrupt:
    print("stopped")
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


def test_an_interrupt_by_another_thread_waits_until_a_process_is_started() -> None:
    run = subprocess.run(
        [sys.executable, "-c", STARTING], capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["started", "stopped", "True"], run.stderr


DESTROYING = """
import time
from pinion.cosim.explore import _prepare

class Slow:
    def __del__(self):
        print("destroying", flush=True)
        time.sleep(600)

_prepare()
Slow()
time.sleep(600)
"""


def test_a_process_that_is_stopped_in_a_destructor_ends_without_a_word() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", DESTROYING],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None and child.stderr is not None
        assert child.stdout.readline() == "destroying\n"
        child.terminate()
        assert child.stderr.read() == ""
    assert child.returncode == 1


def _alive(session: int) -> list[str]:
    """Return the processes of a session that still run."""
    measured = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            measured.append(place.parent.name)
    return measured


@pytest.mark.parametrize("name", ["goal", "progress", "snap", "robot", "row"])
def test_only_options_of_row_and_core_are_swept(name: str) -> None:
    with pytest.raises(ExploreError, match=f"A build has no option '{name}'"):
        grid(load("pendulum"), "rnea", {name: [1]})
