"""Formats chosen by a measure: results, refusals and wrong measures."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pinion.cosim.verify import verify
from pinion.flow.build import Build, BuildError
from pinion.flow.by_task import Goal, Outcome, TaskError, TaskSearch
from pinion.flow.candidate import Candidate
from pinion.flow.task_record import RECORD, TASK, broken_task, record_text, task_figures, task_names
from pinion.formats.multiplier import part_of
from pinion.formats.planfile import read_plan
from pinion.functions import named_function, sample
from pinion.link import Manifest
from pinion.link.digests import write_digests
from pinion.link.manifest import MANIFEST
from pinion.robot import load
from tests.support.builds import build, make_design

ROBOT, FUNCTION = "two_link", "minv"


def widths(candidate: Candidate) -> tuple[int, int]:
    """Return the bits of stored words and of the narrowest product port."""
    stored = max(int(n.params[-2]) for n in candidate.fixed.nodes if n.op == "input")
    ports = [int(n.params[0]) for n in candidate.fixed.nodes if n.op == "quantize"]
    return stored, min(ports)


def error_of(candidate: Candidate) -> float:
    """Return the largest absolute error of a candidate's results on some states."""
    arrays = sample(candidate.model, candidate.row, 200, seed=7, distribution="reference")
    results, _ = candidate.run(arrays)
    exact = candidate.row.evaluate(candidate.model, arrays)
    return max(float(abs(results[name] - exact[name]).max()) for name in results)


def goal_of(
    measure: Callable[[Candidate], float] = error_of,
    held_out: Callable[[Candidate], float] | None = None,
    *,
    loss: float = 0.1,
    **more: Any,
) -> Goal:
    judge = held_out or measure
    return Goal(
        name="small_errors",
        text="loss = 0.1\n",
        loss=loss,
        measure=lambda candidate: Outcome(loss=measure(candidate)),
        held_out=lambda candidate: Outcome(loss=judge(candidate)),
        held_out_loss=2 * loss,
        exact={"rms_mm": 1.0},
        **more,
    )


def made(folder: Path, goal: Goal, **more: Any) -> Manifest:
    return build(ROBOT, FUNCTION, folder, formats="auto", goal=goal, **more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("task") / "core"
    made(path, goal_of())
    return path


def test_the_cheapest_words_that_hold_are_built_and_recorded(folder: Path) -> None:
    manifest = Manifest.read(folder)
    record = json.loads((folder / RECORD).read_text())
    rows, choice = record["tried"], record["tried"][record["chosen"]]
    assert manifest.task["name"] == "small_errors"
    assert (folder / TASK).read_text() == "loss = 0.1\n"
    # Some held and some did not, so there was a search.
    assert {row["held"] for row in rows} == {True, False}
    assert all(row["held"] == (row["loss"] <= 0.1) for row in rows)
    alike = [row for row in rows if row["held"] and row["wide"] == choice["wide"]]
    assert choice["held"] and (choice["blocks"], choice["bits"]) == min(
        (row["blocks"], row["bits"]) for row in alike
    )
    # Everything shorter that was measured failed.
    assert not any(row["held"] for row in rows if row["wide"] < choice["wide"])
    figures = manifest.tracking
    assert figures["found"] <= figures["loss"] == 0.1 < figures["held_out_loss"]
    assert (figures["blocks"], figures["bits"]) == (choice["blocks"], choice["bits"])
    assert figures["bits"] < figures["ordinary_bits"]
    assert figures["blocks"] <= figures["ordinary_blocks"]
    # It promises no small errors, but the measured ones.
    assert manifest.formats.startswith("auto by task small_errors: ")
    home = manifest.measured["reference"]
    assert manifest.max_error == manifest.promises["reference"] > 2.9 * home
    # The core's integers were measured.
    core = Build.read(folder)
    again = Candidate(core.model, named_function(FUNCTION), core.graph, {})
    assert error_of(again) == pytest.approx(figures["found"], rel=1e-5)
    assert widths(again)[0] == choice["wide"]


@pytest.mark.slow  # tests/cli/test_cli_task.py verifies one as well
def test_a_core_of_a_task_verifies_bit_for_bit(folder: Path) -> None:
    figures = verify(folder, samples=200)
    assert figures["ok"] and figures["mismatches"] == 0 and not figures["task_broken"]
    assert figures["task"]["found"] <= figures["task"]["loss"]


def test_two_searches_choose_the_same_byte_for_byte(folder: Path, tmp_path: Path) -> None:
    made(tmp_path / "again", goal_of())
    for name in ("plan.toml", RECORD, MANIFEST, "core.il"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes(), name


def test_a_plan_of_a_task_is_built_again_as_it_stands(folder: Path, tmp_path: Path) -> None:
    plan = read_plan(folder / "plan.toml")
    assert plan.task == "small_errors" and plan.tables.multiplier.wide < 18
    manifest = build(ROBOT, FUNCTION, tmp_path / "same", formats=str(folder / "plan.toml"))
    assert (tmp_path / "same" / "graph.txt").read_text() == (folder / "graph.txt").read_text()
    assert not manifest.task  # nothing was measured


def test_a_measure_that_always_says_good_is_caught_by_what_was_held_out(tmp_path: Path) -> None:
    with pytest.raises(
        TaskError, match=r"a loss of .* on motions that the search did not see, but"
    ):
        made(tmp_path / "core", goal_of(lambda candidate: 0.0, error_of))
    assert not (tmp_path / "core").exists()


@pytest.mark.slow
def test_a_loss_that_is_no_number_is_never_chosen(tmp_path: Path) -> None:
    """Even words have loss NaN, which compares false; odd ones are judged."""

    def broken(candidate: Candidate) -> float:
        return math.nan if widths(candidate)[0] % 2 == 0 else error_of(candidate)

    # No two lengths in a row hold below the longest, whose products are 27 x 27 bits in part.
    assert made(tmp_path / "core", goal_of(broken, error_of)).tracking["wide"] == 27
    with pytest.raises(
        TaskError, match=r"No formats of up to .* loss of the task .* none of those .* finite loss"
    ):
        made(tmp_path / "none", goal_of(lambda candidate: math.nan))


def test_a_lucky_length_is_not_chosen(tmp_path: Path) -> None:
    """Only 11 bits hold: the next longer words do not, so it is luck."""

    def lucky(candidate: Candidate) -> float:
        bits = widths(candidate)[0]
        return 0.0 if bits == 11 or bits >= 16 else 1.0

    manifest = made(tmp_path / "core", goal_of(lucky))
    assert manifest.tracking["wide"] == 16


def test_a_scheduled_core_that_does_not_hold_is_not_kept(tmp_path: Path) -> None:
    """The design itself is measured again; finer ones are tried, then none is left."""
    bits_measured: list[int] = []

    def forgetful(candidate: Candidate) -> float:
        bits = widths(candidate)[0]
        bits_measured.append(bits)
        # The second measurement of the same words is that of the design.
        return 0.0 if bits >= 14 and bits_measured.count(bits) == 1 else 1.0

    with pytest.raises(TaskError, match="scheduled core has a loss of 1 in the task"):
        made(tmp_path / "core", goal_of(forgetful))


def test_the_number_of_measurements_is_bounded(tmp_path: Path) -> None:
    calls: list[int] = []

    def counted(candidate: Candidate) -> float:
        calls.append(1)
        return error_of(candidate)

    with pytest.raises(TaskError, match=r"reached its limit of 'evaluations' \(2\)"):
        made(tmp_path / "core", goal_of(counted, evaluations=2))
    assert len(calls) == 2


def test_words_in_which_a_pivot_becomes_zero_are_refused_and_others_are_tried() -> None:
    """No format holds the reciprocal of zero, so such words cannot be made."""
    model, row = load("chain_4"), named_function(FUNCTION)
    search = TaskSearch(model, row, goal_of(lambda candidate: 0.0))
    make_design(model, row, ii=8, formats="auto", search=search)
    refused = [candidate for candidate in search.tried if candidate.refused]
    assert refused and search.chosen is not None and search.chosen.meets_goal
    for candidate in refused:
        assert not candidate.meets_goal and math.isnan(candidate.outcome.loss)
        assert re.search(r"Words of \d+ bits are too short.*reciprocal", candidate.refused)
        assert candidate.to_dict()["loss"] is None and candidate.to_dict()["refused"]
        assert candidate.words < search.chosen.words


def test_formats_that_go_with_no_task(tmp_path: Path) -> None:
    for options, message in (
        ({"formats": "q16.16"}, "the formats are 'q16.16': give formats 'auto'"),
        ({"formats": "auto14"}, "the formats are 'auto14': give formats 'auto'"),
        (
            {"formats": "auto", "max_error": 1e-3},
            "error limit of 0.001 cannot be requested",
        ),
    ):
        with pytest.raises(BuildError, match=message):
            build(ROBOT, FUNCTION, tmp_path / "core", goal=goal_of(), **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cannot multiply words of 28 bits by 18"):
        part_of(28, 18, adds=True)


Forge = Callable[[dict[str, Any]], None]


def worse(record: dict[str, Any]) -> None:
    record["found"] = 0.5


def worse_elsewhere(record: dict[str, Any]) -> None:
    record["held_out"] = 0.5


def generous(record: dict[str, Any]) -> None:
    failed = next(row for row in record["tried"] if not row["held"])
    failed["held"] = True


def other_words(record: dict[str, Any]) -> None:
    record["tried"][record["chosen"]]["wide"] += 1


def failed_one(record: dict[str, Any]) -> None:
    record["chosen"] = next(k for k, row in enumerate(record["tried"]) if not row["held"])


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (worse, "core's loss is 0.5 in the task, but at most 0.1 is allowed"),
        (worse_elsewhere, "core's loss is 0.5 on motions that the search did not see"),
        (generous, "says that a loss .* is within the limit"),
        (other_words, r"words have \d+ bits, but the task chose"),
        (failed_one, "chosen formats is above the limit|words have"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_a_forged_record_is_found_out(
    folder: Path, tmp_path: Path, forge: Forge, message: str
) -> None:
    """Even if manifest and digests fit: `verify` needs no robot in motion."""
    forged = tmp_path / "core"
    shutil.copytree(folder, forged)
    record = json.loads((forged / RECORD).read_text())
    forge(record)
    (forged / RECORD).write_text(record_text(record))
    before = Manifest.read(forged)
    after = dataclasses.replace(before, task=task_names(record), tracking=task_figures(record))
    after.write(forged)
    write_digests(forged)
    core = Build.read(forged)
    assert re.search(message, broken_task(forged, core.manifest, core.graph))


def test_another_record_than_the_manifests_is_found_out(folder: Path, tmp_path: Path) -> None:
    forged = tmp_path / "core"
    shutil.copytree(folder, forged)
    manifest, graph = Manifest.read(forged), Build.read(forged).graph
    (forged / TASK).write_text("loss = 0.5\n")
    assert "is not the file that the build wrote" in broken_task(forged, manifest, graph)
    (forged / TASK).unlink()
    assert "cannot be read" in broken_task(forged, manifest, graph)


def test_candidates_compute_what_the_float_model_does() -> None:
    """Symmetric blocks are complete and contain constants of the robot."""
    model, row = load(ROBOT), named_function(FUNCTION)
    candidates: list[Candidate] = []

    def kept(candidate: Candidate) -> float:
        candidates.append(candidate)
        return 0.0

    search = TaskSearch(model, row, goal_of(kept))
    make_design(model, row, ii=8, formats="auto", search=search)
    arrays = sample(model, row, 50, seed=1, distribution="reference")
    results, flags = candidates[0].run(arrays)
    exact = row.evaluate(model, arrays)["minv"]
    assert not flags.any() and results["minv"].shape == exact.shape
    assert abs(results["minv"] - exact).max() < 1e-2 * abs(exact).max()
    assert (results["minv"] == results["minv"].swapaxes(1, 2)).all()
