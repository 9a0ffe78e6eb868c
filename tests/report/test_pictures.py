"""Pictures of builds and of sweeps, from files in folders."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.cosim.verify import verify
from pinion.link import ManifestError
from pinion.link.accuracy import BlockErrors, ErrorDistribution
from pinion.link.build_files import SCHEDULE
from pinion.report import ReportError, draw_build
from pinion.report.build_data import _nearest
from pinion.report.errors_picture import _title, draw_errors
from pinion.report.explore_picture import draw_front, front
from pinion.report.palette import link_colours
from pinion.report.schedule_picture import draw_schedule
from tests.report.pictures import is_a_picture
from tests.support.breadth import some, some_rows
from tests.support.builds import build


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """rnea for the two-link arm at ii 4, verified."""
    path = tmp_path_factory.mktemp("report") / "two_link"
    build("two_link", "rnea", path, ii=4)
    assert verify(path, samples=200, seed=3)["ok"]
    return path


def test_a_verified_build_has_both_pictures(folder: Path, tmp_path: Path) -> None:
    files = draw_build(folder, tmp_path)
    assert files == {
        "schedule": str(tmp_path / "schedule_rnea.png"),
        "errors": str(tmp_path / "errors_rnea.png"),
    }
    assert all(is_a_picture(Path(path)) for path in files.values())


def test_pictures_need_the_build_folder_and_none_of_the_tools(folder: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from pinion.report import draw_build\n"
        "draw_build(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "tools = 'hls gateware synthesis boards flow cosim card driver functions cli'.split()\n"
        "loaded = {f'pinion.{name}' for name in tools} & set(sys.modules)\n"
        "loaded |= {'amaranth', 'cocotb', 'typer', 'rich'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    completed = subprocess.run(
        [sys.executable, "-c", code, folder, tmp_path], capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stderr


def test_tables_do_without_matplotlib(folder: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from pinion import report\n"
        "row = report.build_figures(Path(sys.argv[1]))\n"
        "assert 'two_link' in report.markdown(report.builds_table([row]))[2]\n"
        "assert 'matplotlib' not in sys.modules\n"
    )
    completed = subprocess.run(
        [sys.executable, "-c", code, folder], capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stderr


def copied(folder: Path, tmp_path: Path) -> Path:
    path = tmp_path / "copy"
    shutil.copytree(folder, path, ignore=shutil.ignore_patterns("sim"))
    return path


def test_a_build_that_was_not_verified_says_so(folder: Path, tmp_path: Path) -> None:
    copy = copied(folder, tmp_path)
    (copy / "errors.json").unlink()
    with pytest.raises(ReportError, match=r"has no measured errors of this build.*pinion verify"):
        draw_build(copy, tmp_path)
    errors = ErrorDistribution.find(folder)
    assert errors is not None
    ErrorDistribution(**{**vars(errors), "build": "0" * 16}).write(copy)
    with pytest.raises(ReportError, match="has no measured errors of this build"):
        draw_build(copy, tmp_path)


@pytest.mark.parametrize(
    ("name", "version"),
    [("schedule.json", 2), ("schedule.json", None), ("errors.json", 3), ("errors.json", None)],
)
def test_a_file_of_another_version_is_refused(
    folder: Path, tmp_path: Path, name: str, version: int | None
) -> None:
    copy = copied(folder, tmp_path)
    data = json.loads((copy / name).read_text())
    (copy / name).write_text(json.dumps({**data, "version": version}))
    with pytest.raises(ManifestError, match=r"version.*(build|verify).*again") as error:
        draw_build(copy, tmp_path)
    assert name in str(error.value)


def test_a_damaged_robot_is_refused(folder: Path, tmp_path: Path) -> None:
    copy = copied(folder, tmp_path)
    for text in ("", "{}", "[]"):
        (copy / "model.json").write_text(text)
        with pytest.raises(ManifestError, match=r"model\.json' is not the file that was built"):
            draw_build(copy, tmp_path)


def test_schedule_is_drawn_for_any_build(folder: Path, tmp_path: Path) -> None:
    schedule = SCHEDULE.read(folder)
    path = tmp_path / "s.png"
    draw_schedule(path, title="rnea for two_link", schedule=schedule, links=2)
    assert is_a_picture(path)
    # Operations without a link, new kinds of units and passes, too many rows and too narrow cells
    # are drawn as well.
    schedule["operations"][0]["region"] = ""
    schedule["operations"][1]["kind"] = "recip"
    schedule["operations"][2]["region"] = "bias[1]"
    schedule["operations"][3]["region"] = "column[2]"
    schedule["operations"][4]["region"] = "column[9]"
    schedule["units"]["recip"] = 150
    schedule["length"] = 400
    draw_schedule(path, title="rnea for two_link", schedule=schedule, links=2)
    assert is_a_picture(path)


def block(name: str, words: list[str], scale: float) -> BlockErrors:
    seed = 11
    print(f"seed {seed}")
    error = np.abs(np.random.default_rng(seed).normal(size=(500, len(words)))) * 1e-4 * scale
    budget = np.geomspace(1e-3, 1e-2, len(words))
    return BlockErrors.of(
        name=name, unit="N m", lsb=2.0**-16, words=words, error=error, budget=budget
    )


@pytest.mark.parametrize(
    ("words", "scale"),
    some_rows(
        [(1, 1.0), (7, 1.0), (30, 1.0), (1, 0.0), (7, 0.0), (1, 1e3), (7, 1e3)],
        lambda words, scale: (words, scale) in ((1, 0.0), (7, 1e3)),
    ),
)
def test_errors_are_drawn_for_any_number_of_words(tmp_path: Path, words: int, scale: float) -> None:
    path = tmp_path / "e.png"
    draw_errors(
        path, title="rnea", blocks=[block("tau", [f"tau[{k}]" for k in range(words)], scale)]
    )
    assert is_a_picture(path)


def test_a_matrix_has_a_violin_a_row(tmp_path: Path) -> None:
    lower = [f"M[{i},{j}]" for i in range(5) for j in range(i + 1)]
    matrix = block("M", lower, 1.0)
    assert {group.name: group.words for group in matrix.groups} == {
        "M[0, :]": (0,),
        "M[1, :]": (1, 2),
        "M[2, :]": (3, 4, 5),
        "M[3, :]": (6, 7, 8, 9),
        "M[4, :]": (10, 11, 12, 13, 14),
    }
    vector = block("qdd", ["qdd[0]", "qdd[2]"], 1.0)
    assert {group.name: group.words for group in vector.groups} == {"qdd[0]": (0,), "qdd[2]": (1,)}
    path = tmp_path / "e.png"
    draw_errors(path, title="both", blocks=[vector, matrix])
    assert is_a_picture(path)


def test_a_colour_a_link_from_dark_to_light() -> None:
    light = [0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b, _ in link_colours(30)]
    assert light == sorted(light) and len(set(light)) == 30


def test_results_that_are_no_numbers_are_said(tmp_path: Path) -> None:
    error = np.array([[1e-4, np.nan], [np.inf, 2e-4], [3e-4, 1e-4]])
    errors = BlockErrors.of(
        name="tau",
        unit="N m",
        lsb=2.0**-16,
        words=["tau[0]", "tau[1]"],
        error=error,
        budget=np.array([1e-3, 1e-3]),
    )
    assert errors.invalid == 2 and errors.largest == (3e-4, 2e-4)
    assert [sum(group.counts) for group in errors.groups] == [2, 2]
    draw_errors(tmp_path / "e.png", title="rnea", blocks=[errors])
    assert is_a_picture(tmp_path / "e.png")


def test_errors_that_were_never_compared_are_no_good_news(tmp_path: Path) -> None:
    """With all requests flagged nothing counts as inside a budget or as free of errors."""
    words = [f"M[{i},{j}]" for i in range(2) for j in range(2)]
    none = BlockErrors.of(
        name="M",
        unit="kg m^2",
        lsb=2.0**-16,
        words=words,
        error=np.empty((0, 4)),
        budget=np.full(4, 1e-3),
    )
    title = _title("crba", [none, none])
    assert title == "crba:\nNO request has a valid result, so no error was checked"
    some = block("tau", ["tau[0]"], 1e-6)
    assert "every error is within its budget" in _title("rnea", [some])
    draw_errors(tmp_path / "e.png", title="crba", blocks=[none])
    assert is_a_picture(tmp_path / "e.png")
    assert _nearest(none) == {
        **{"name": "M", "unit": "kg m^2", "invalid": 0},
        **dict.fromkeys(("largest", "word", "error", "budget", "share")),
    }


def test_a_front_is_what_no_other_point_beats() -> None:
    seed = 3
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    for count in (1, 2, 7, 40):
        plane = [(float(x), float(y)) for x, y in rng.integers(1, 6, (count, 2))]
        line = front(plane)
        expected = {
            p for p in plane if not any(o != p and o[0] <= p[0] and o[1] <= p[1] for o in plane)
        }
        assert set(line) == expected and line == sorted(line)


def made_up(count: int, **changes: Any) -> dict[str, Any]:
    points = [
        {
            "options": {"ii": ii, "formats": name, "objective": kind},
            "ii": ii, "formats": name, "dsp": 800 // ii + len(name), "dsp_source": "synth",
            "latency_cycles": 70 + ii % 5, "results_per_second": 250e6 / ii, "clock_mhz": 250.0,
            "error_max": 1e-3 / len(name), "error_median": 1e-4 / len(name),
            "usable": True, "pareto": ii % 2 == 0, **changes,
        }
        for name in ("q16.16", "q12.20", "auto")[:count]
        for kind in ("throughput", "latency", "area")[:count]
        for ii in (1, 2, 4, 8, 16, 32)[: 2 * count]
    ]  # fmt: skip
    axes = {
        key: list(dict.fromkeys(point["options"][key] for point in points))
        for key in ("ii", "formats", "objective")
    }
    return {"robot": "iiwa14", "function": "rnea", "axes": axes, "points": points}


@pytest.mark.parametrize(
    "result",
    some(
        [
            made_up(3),
            {**made_up(1), "points": made_up(1)["points"][:1]},
            made_up(2, error_max=None, error_median=None),
            made_up(2, error_max=0.0, error_median=0.0),
            made_up(2, usable=False, pareto=False, dsp=0, dsp_source="estimate"),
        ],
        2,
    ),
)
def test_a_front_is_drawn_for_any_points(tmp_path: Path, result: dict[str, Any]) -> None:
    draw_front([tmp_path / "p.png"], result=result)
    assert is_a_picture(tmp_path / "p.png")
