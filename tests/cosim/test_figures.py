"""The figures of `verify` against the stream that they describe."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pinion.base.arrays import Words
from pinion.base.progress import Progress
from pinion.cosim.reference import Reference
from pinion.cosim.stream import StreamResult
from pinion.flow.build import Build, BuildError
from pinion.functions import row_of
from pinion.link.accuracy import ErrorDistribution
from tests.cosim.test_verdict import array, sent
from tests.gateware.link.mutants import mutant
from tests.support.builds import build

module = importlib.import_module("pinion.cosim.verify")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("figures") / "two_link"
    build("two_link", "minv", where, ii=6)
    return where


class Made:
    """Replacement of the simulation: the stream of a correct core, possibly changed."""

    def __init__(self) -> None:
        self.result: StreamResult | None = None
        self.change: Any = lambda result: result

    def __call__(self, core_build: Build, words: Words, *_: Any) -> StreamResult:
        self.result = self.change(sent(Reference(core_build), words))
        return self.result


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Made:
    simulation = Made()
    monkeypatch.setattr(module, "_simulate", simulation)
    return simulation


def test_each_figure_is_of_its_stream(folder: Path, simulated: Made) -> None:
    steps: list[str] = []
    figures = module.verify(folder, samples=300, seed=7, progress=Progress(steps.append))
    manifest, reference = Build.read(folder).manifest, Reference(Build.read(folder))
    assert simulated.result is not None
    assert steps == ["Drawing 300 requests", "Evaluating the integer model", "Comparing"]
    expected = {
        "samples": 300,
        "seed": 7,
        "simulator": "compiled",
        "distribution": manifest.budget_distribution,
        "dsp48e2": False,
        "float_model": "the float graph in the folder",
        "home": manifest.budget_distribution,
        "mismatches": 0,
        "flagged": 0,
        "valid": 300,
        "promise": manifest.promises["reference"],
        "simulated_cycles": simulated.result.cycles,
        "cycles_per_result": manifest.ii,
        "schedule_cycles": manifest.schedule_cycles,
        "first_divergence": None,
        "flags_held": True,
        "budget_held": True,
        "rate_held": True,
        "ok": True,
    }
    assert {name: figures[name] for name in expected} == expected
    assert not {"snapping", "undecided", "drift_max", "state_resets"} & figures.keys()
    names = [name for name, _ in reference.graph.outputs]
    assert figures["budget"] == dict(zip(names, reference.budget.tolist(), strict=True))
    assert set(figures["error_max"]) == set(names)
    for block in figures["rel_err_max"]:
        median, p99, largest = (
            figures[f"rel_err_{key}"][block] for key in ("median", "p99", "max")
        )
        assert 0 < median < p99 <= largest


def test_one_request_is_enough_and_none_is_not(folder: Path, simulated: Made) -> None:
    figures = module.verify(folder, samples=1, seed=7)
    assert figures["mismatches"] == 0 and figures["cycles_per_result"] == 6
    with pytest.raises(BuildError, match="at least 1 sample, not 0"):
        module.verify(folder, samples=0)


def test_what_errors_are_relative_to_is_said(folder: Path, simulated: Made) -> None:
    row = row_of("minv")
    float_model = module.verify(folder, samples=2, function=row)["float_model"]
    assert float_model == "the present code of minv"
    # A user-defined function may have a separate float model.
    function = SimpleNamespace(name="mine", reference=lambda model, arrays: arrays)
    assert module._float_model(function) == "the reference of mine"


def test_a_wrong_request_is_looked_for_by_its_number(
    folder: Path, simulated: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    beats = Build.read(folder).manifest.beats_out
    simulated.change = lambda result: array(
        result, "beats", (12 * beats, 0), result.beats[12 * beats, 0] ^ 1
    )
    calls: list[tuple[int, int]] = []

    def diverging(_: Reference, words: Words, request: int, where: Path, fresh: object) -> str:
        assert where == folder and fresh is None
        calls.append((len(words), request))
        return "there"

    monkeypatch.setattr(module, "diverging", diverging)
    steps: list[str] = []
    figures = module.verify(folder, samples=40, progress=Progress(steps.append))
    assert calls == [(40, 12)] and figures["first_divergence"] == "there"
    assert figures["mismatches"] == 1 and not figures["ok"]
    assert steps[-1] == "Looking for the first operation that differs"


def test_a_part_of_a_stream_begins_at_its_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[list[int], int]] = []

    def first_divergence(_: object, words: Words, request: int, *, folder: Path) -> None:
        assert folder == Path("build") / "sim"
        calls.append((list(words), request))

    monkeypatch.setattr(module, "first_divergence", first_divergence)
    words, fresh = np.arange(10), np.zeros(10, dtype=np.bool_)
    fresh[[3, 6]] = True
    for request in (2, 3, 5, 6, 9):
        module.diverging(None, words, request, Path("build"), fresh)
    module.diverging(None, words, 9, Path("build"), None)
    begins = [(0, 2), (3, 0), (3, 2), (6, 0), (6, 3), (0, 9)]
    assert calls == [(list(range(first, 10)), request) for first, request in begins]


def test_explicit_blocks_that_a_build_has_not_are_refused(folder: Path) -> None:
    with pytest.raises(BuildError, match="has no explicit DSP48E2 blocks"):
        module.verify(folder, samples=2, dsp48e2=True)


def test_states_that_are_all_flagged_fail(
    folder: Path, simulated: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Reference.expected

    def flagged(self: Reference, *words: Any) -> tuple[Words, np.ndarray]:
        results, flags = plain(self, *words)
        return results, np.ones_like(flags)

    monkeypatch.setattr(Reference, "expected", flagged)
    away = module.verify(folder, samples=5, distribution="stress")
    assert away["flags_held"] and away["home"] == "reference"
    home = module.verify(folder, samples=5)
    assert home["flags_held"] is False
    for figures, failed in ((away, ("valid",)), (home, ("valid", "flags"))):
        assert not figures["ok"] and figures["valid"] == figures["mismatches"] == 0
        assert figures["accuracy_held"] is figures["budget_held"] is None
        assert figures["wrong_unflagged"] == 0 and figures["rel_err_max"] == {"minv": None}
        # A single request that is neither flagged nor undecided is enough.
        monkeypatch.setattr(Reference, "expected", lambda self, *w: but_one(flagged(self, *w)))
        again = module.verify(folder, samples=5, distribution=figures["distribution"])
        assert again["valid"] == 1 and again["accuracy_held"] is True
        assert again["ok"] == (figures is away)
        monkeypatch.setattr(Reference, "expected", flagged)
        broken = mutant(module.verify, 'valid=figures["valid"] > 0', "valid=True")
        monkeypatch.setitem(broken.__globals__, "_simulate", simulated)
        overlooked = broken(folder, samples=5, distribution=figures["distribution"])
        assert overlooked["ok"] == (failed == ("valid",))
    distribution = ErrorDistribution.find(folder)
    assert (
        distribution is not None
        and distribution.verdict is not None
        and not distribution.verdict.ok
    )


def but_one(results: tuple[Words, np.ndarray]) -> tuple[Words, np.ndarray]:
    """Only the third result is not flagged."""
    words, flags = results
    return words, flags & (np.arange(len(flags)) != 2)
