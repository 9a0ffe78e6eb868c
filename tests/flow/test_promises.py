"""Promised errors of builds: scales, distributions, the gate, and advice."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pinion.base.progress import SILENT, Progress
from pinion.cosim.promises import check_promises
from pinion.cosim.reference import Reference
from pinion.cosim.verify import verify
from pinion.flow.build import TRIES, Build, BuildError, choose_finer_formats
from pinion.flow.promises import GATE, MARGIN, gate_sentence, misses_target, promises
from pinion.formats.auto import HEADROOM, PrecisionError
from pinion.functions import DISTRIBUTIONS, named_function, sample
from pinion.link import Manifest
from pinion.report import promise_table
from pinion.request import BuildRequest
from pinion.robot import load
from tests.gateware.link.mutants import mutant
from tests.support.breadth import some_rows
from tests.support.builds import build, make_design


@pytest.fixture(scope="module")
def auto(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forward dynamics, whose results are small near rest, with formats by signal."""
    where = tmp_path_factory.mktemp("promises") / "auto"
    build("two_link", "aba", where, ii=4, formats="auto")
    return where


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A core for a robot at rest, which flags all other requests."""
    where = tmp_path_factory.mktemp("promises") / "still"
    build("two_link", "fd_derivatives", where, formats="auto", ranges="rest")
    return where


@pytest.fixture(scope="module")
def coarse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A core in a uniform format that is too coarse for it."""
    where = tmp_path_factory.mktemp("promises") / "coarse"
    build("two_link", "minv", where, ii=6, formats="q12.6")
    return where


# -- scales and promises


def test_scales_are_those_of_the_reference_distribution(auto: Path) -> None:
    core = Build.read(auto)
    arrays = sample(core.model, core.function, 4000, distribution="reference", seed=99)
    doubles = {name: x.astype(np.float64) for name, x in arrays.items()}
    qdd = core.function.evaluate(core.model, doubles)["qdd"]
    usual = float(np.sqrt(np.mean(np.abs(qdd).max(axis=1) ** 2)))
    assert core.manifest.scales == {"qdd": pytest.approx(usual, rel=0.05)}


def test_a_core_made_for_rest_has_the_same_scales_and_is_exact_there(
    auto: Path, tmp_path: Path
) -> None:
    """The scale of errors differs from the states that a core is made for."""
    still = build("two_link", "aba", tmp_path / "rest", ii=4, formats="auto", ranges="rest")
    moving = Manifest.read(auto)
    assert still.budget_distribution == "rest" and still.scales == moving.scales
    assert still.promises["rest"] == still.max_error == 1e-3
    assert still.measured["rest"] < 1e-3 < moving.measured["rest"]


def test_every_promise_holds_on_other_states(auto: Path) -> None:
    manifest = Manifest.read(auto)
    assert manifest.promises.keys() == set(DISTRIBUTIONS)
    assert manifest.promises["reference"] == manifest.max_error == 1e-3
    assert 5 * manifest.promises["reference"] < manifest.promises["rest"] < 0.1
    figures = check_promises(auto, samples=4000, seed=5)
    assert figures["ok"], figures
    for name, row in figures["distributions"].items():
        assert row["promise"] == manifest.promises[name] and row["wrong"] == 0
        if name in ("slow", "rest"):  # neither loose
            assert row["flagged"] == 0 and row["largest"] > row["promise"] / 10


def test_promises_are_what_was_asked_for_or_measured() -> None:
    # Every request beyond was flagged.
    measured = {"reference": 5e-3, "slow": 1e-3 / MARGIN, "rest": 0.0123, "beyond": None}
    limits = promises(measured, home="reference", limit=1e-3)
    # If floats are not finite, as under stress, the requested error is promised and breaks.
    assert limits == {"reference": 1e-3, "slow": 1e-3, "rest": 0.037, "stress": 1e-3}
    assert promises(measured, home="beyond", limit=1e-3)["beyond"] == 1e-3


def test_nothing_is_promised_where_nothing_is_valid(still: Path) -> None:
    """A core for robots at rest flags all that move: their errors are unknown."""
    manifest = Manifest.read(still)
    moving = set(DISTRIBUTIONS) - {"rest"}
    assert manifest.promises.keys() == manifest.measured.keys() == {"rest"}
    assert manifest.promise("stress") == manifest.promise("rest") == manifest.max_error
    figures = check_promises(still, samples=200, seed=5)
    assert figures["ok"] and figures["home"] == "rest"
    for name, row in figures["distributions"].items():
        assert row["valid"] == 200 - row["flagged"] == (0 if name in moving else 200)
        assert (row["promise"] is None) == (row["largest"] is None) == (name in moving)
    cells = [row[2] for row in promise_table(figures).rows if row[0] in moving]
    assert cells == ["none valid"] * 4


def test_a_core_none_of_whose_own_states_has_a_valid_result_breaks_its_promise(
    auto: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Reference.expected

    def flagged(self: Reference, *arguments: Any) -> Any:
        words, flags = plain(self, *arguments)
        return words, np.ones_like(flags)

    monkeypatch.setattr(Reference, "expected", flagged)
    figures = check_promises(auto, samples=20, seed=6)
    held_rows = {name: row["held"] for name, row in figures["distributions"].items()}
    assert not figures["ok"] and held_rows == {name: name != "reference" for name in DISTRIBUTIONS}


def coarser(bits: int) -> Callable[..., Any]:
    """The integer model of a core whose results have this many fraction bits."""
    plain = Reference.expected

    def expected(self: Reference, *arguments: Any) -> Any:
        words, flags = plain(self, *arguments)
        values = np.ascontiguousarray(words).view(np.float32).astype(np.float64)
        rounded = np.floor(values * 2.0**bits) * 2.0**-bits
        return rounded.astype(np.float32).view(np.uint32), flags

    return expected


def test_a_format_that_is_too_coarse_near_rest_is_found_there(
    auto: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reference, "expected", coarser(7))
    figures = check_promises(auto, samples=2000, seed=6)
    assert not figures["ok"]
    held_rows = {name: row["held"] for name, row in figures["distributions"].items()}
    assert held_rows["rest"] is False, (
        "half a hundredth is nothing beside what moves, and much at rest"
    )
    # With the requests' size instead of the scale everything would be wrong, or nothing.
    broken = mutant(check_promises, "comparison.wrong(promise)", "comparison.wrong(1.0)")
    assert broken(auto, samples=2000, seed=6)["distributions"]["rest"]["held"]


def test_a_core_that_promises_nothing_is_refused(auto: Path, tmp_path: Path) -> None:
    core = Build.read(auto)
    for name in ("scales", "measured", "promises"):
        assert name in core.manifest.to_dict()
    older = replace(core.manifest, scales={}, measured={}, promises={})
    assert not {"scales", "measured", "promises"} & older.to_dict().keys()
    older.write(tmp_path)
    assert Manifest.read(tmp_path) == older, "a driver opens it still"
    with pytest.raises(BuildError, match=r"not store an error bound for each .*: build it again"):
        Reference(replace(core, manifest=older))
    with pytest.raises(BuildError, match="at least 1 sample, not 0"):
        check_promises(auto, samples=0)


# -- the gate


@pytest.mark.slow  # so does tests/cli/test_cli_formats.py
def test_a_uniform_format_that_misses_the_gate_is_told_and_fails(
    coarse: Path, tmp_path: Path
) -> None:
    manifest = Manifest.read(coarse)
    assert manifest.max_error == GATE == 1e-2 and manifest.measured["reference"] > GATE
    message = gate_sentence(manifest)
    match = re.search(
        r"The largest relative error of q12\.6 is (\S+) on reference states, above the largest "
        r"allowed, 0\.01: give formats auto, .* or accept it with max_error=(\S+) "
        r"\(--max-error\)\. The core is built nevertheless; .*\.$",
        message,
    )
    assert match, message
    assert float(match[1]) == pytest.approx(manifest.measured["reference"], rel=0.05)
    figures = verify(coarse, samples=2000, seed=3)
    assert figures["mismatches"] == 0 and figures["budget_held"], figures
    assert figures["accuracy_held"] is False and not figures["ok"]
    assert figures["wrong_unflagged"] > 0 and figures["wrong_above"] == GATE
    broken = mutant(verify, 'accuracy=figures["accuracy_held"]', "accuracy=True")
    assert broken(coarse, samples=2000, seed=3)["ok"]
    # Following the advice passes.
    accepted = build(
        "two_link", "minv", tmp_path / "core", ii=6, formats="q12.6", max_error=float(match[2])
    )
    assert gate_sentence(accepted) == ""
    assert verify(tmp_path / "core", samples=2000, seed=3)["ok"]
    finer = build("two_link", "minv", tmp_path / "core", ii=6, formats="auto")
    assert gate_sentence(finer) == ""


def test_the_sentence_knows_near_and_hopeless() -> None:
    base: dict[str, Any] = vars(_manifest())
    for measured, formats, words in (
        (0.0074, "q16.16", ""),
        (0.0076, "q16.16", "is 0.0076 on reference states, near the largest allowed"),
        (0.0076, "auto", ""),
        (0.5, "q8.8", "above the largest allowed, 0.01: give formats auto, or a format with more"),
        (0.02, "plan.toml", "above the largest allowed, 0.01: give formats auto, which are chosen"),
        (
            0.02,
            "auto",
            "finer formats were tried, and none is accurate enough; ask for max_error",
        ),
        (0.5, "auto18", "finer formats were tried, and none is accurate enough. The core is built"),
    ):
        manifest = Manifest(**base | {"formats": formats, "measured": {"reference": measured}})
        message = gate_sentence(manifest)
        assert words in message and bool(message) == bool(words), message
        assert ("is built nevertheless" in message) == (
            measured > manifest.max_error and bool(message)
        )
        accepted = bool(message) and MARGIN * measured < 1.0 and formats != "plan.toml"
        assert ("max_error=" in message) == accepted, message
        assert misses_target(manifest) == (measured > 1e-2 and not formats.startswith("q"))
    assert misses_target(Manifest(**base | {"formats": "auto", "measured": {"rest": 1e-4}}))
    nothing = gate_sentence(Manifest(**base | {"formats": "q4.28", "measured": {"rest": 0.1}}))
    assert nothing.startswith("The error of q4.28 on reference") and "more integer bits" in nothing


def _manifest() -> Manifest:
    fields: dict[str, Any] = {
        **dict.fromkeys(("version", "robot", "robot_source", "function", "objective"), "x"),
        **dict.fromkeys(("target", "content", "formats"), "x"),
        **dict.fromkeys(("lanes_in", "beats_in", "lanes_out", "beats_out", "ii"), 1),
        **dict.fromkeys(("schedule_cycles", "latency_cycles", "multipliers"), 1),
        **dict.fromkeys(("table_multipliers", "adders", "registers"), 0),
        **{"options": {}, "units": {}, "ops": {}, "budget": {}, "inputs": (), "outputs": ()},
    }
    return Manifest(**fields, max_error=1e-2, clock_mhz=250.0, budget_distribution="reference")


# -- formats that are chosen again, where errors are larger than on the states of the choice


def again(errors: Sequence[float | None]) -> tuple[Any, Any, list[float]]:
    """Return the design chosen among ones with these errors, and the requested shares."""
    shares: list[float] = []

    def choose(draft: Any) -> None:
        shares.append(draft.headroom)
        if len(shares) >= len(errors):
            raise PrecisionError("No finer formats.")

    def schedule(draft: Any) -> None:
        draft.design = len(shares)  # a number in the place of a design

    def measure(_model: None, _function: None, number: int, **_: Any) -> dict[str, float | None]:
        return {"reference": errors[number], "rest": 9.0}

    draft: Any = SimpleNamespace(
        model=None, computed=None, search=None, request=BuildRequest(formats="auto"),
        progress=SILENT, home="reference", max_error=1e-3, headroom=HEADROOM, design=0,
        measured=measure(None, None, 0), reason="",
    )  # fmt: skip
    module = importlib.import_module("pinion.flow.build")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "choose_formats", choose)
        patch.setattr(module, "schedule", schedule)
        patch.setattr(module, "measured_errors", measure)
        choose_finer_formats(draft)
    return draft.design, draft.measured["reference"], shares


def test_formats_are_chosen_finer_until_the_error_that_was_asked_for_is_measured() -> None:
    assert again([0.9e-3]) == (0, 0.9e-3, [])
    plan, error, (first, second) = again([1.3e-3, 1.1e-3, 0.7e-3, 0.1e-3])
    assert (plan, error) == (2, 0.7e-3)
    assert first == pytest.approx(HEADROOM * 0.9 / 1.3)
    assert second == pytest.approx(first * 0.9 / 1.1)


def test_where_no_formats_are_fine_enough_the_most_exact_are_taken() -> None:
    assert again([1.3e-3])[:2] == (0, 1.3e-3), "finer ones cannot be had"
    plan, error, shares = again([1.3e-3, 1.2e-3, 2e-3, 1.4e-3, 0.1e-3, 0.1e-3])
    assert (plan, error, len(shares)) == (1, 1.2e-3, TRIES)
    assert again([None, 0.1e-3]) == (0, None, []), "nothing was measured"
    assert again([1.3e-3, None, 0.1e-3])[:2] == (0, 1.3e-3)


# -- advice


@pytest.mark.parametrize(
    ("formats", "finest"), some_rows([("auto", 1e-9), ("auto18", 1e-7)], 1), ids=lambda x: str(x)
)
def test_an_error_that_a_refusal_says_to_ask_for_is_had(
    formats: str, finest: float, tmp_path: Path
) -> None:
    folder = tmp_path / "core"
    with pytest.raises(PrecisionError) as caught:
        build("two_link", "aba", folder, ii=4, formats=formats, max_error=finest)
    match = re.search(r"Ask for max_error=(\S+) \(--max-error\)", str(caught.value))
    assert match, caught.value
    manifest = build("two_link", "aba", folder, ii=4, formats=formats, max_error=float(match[1]))
    assert manifest.max_error == float(match[1])


def test_where_no_error_below_1_is_had_other_formats_are_advised(tmp_path: Path) -> None:
    folder = tmp_path / "core"
    with pytest.raises(PrecisionError) as caught:
        build("two_link", "aba", folder, ii=4, formats="auto12")
    match = re.search(r"No error below 1 .*: use the formats '(\w+)'\.", str(caught.value))
    assert match, caught.value
    assert "Ask for" not in str(caught.value)
    build("two_link", "aba", folder, ii=4, formats=match[1])


def test_what_needs_fine_sines_gets_them_at_coarse_goals_too(tmp_path: Path) -> None:
    """An error that short sines and cosines miss, and long ones reach."""
    lines: list[str] = []
    model, row = load("two_link"), named_function("rnea")
    goal = 2.1e-4  # above the goals for which sines are long from the start
    design = make_design(
        model, row, ii=4, formats="auto", max_error=goal, progress=Progress(lines.append)
    )
    assert design.saved is not None and design.saved.max_error == goal
    long = design.saved.tables.turn == design.saved.tables.multiplier.fine_turn
    assert long == ("Scheduling with longer sines and cosines" in lines)
