"""Every term of `verify`'s verdict alone, by a stream that breaks only one rule.

The streams are made, not simulated: what an RTL of the build would have sent, but for one thing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.base.arrays import Words
from pinion.cosim.reference import Reference
from pinion.cosim.stream import StreamResult, pack_records
from pinion.link import Manifest
from pinion.link.accuracy import ErrorDistribution
from pinion.link.comparison import Comparison
from tests.gateware.link.mutants import mutant
from tests.support.builds import build

SAMPLES = 2000

# The package has a function of the module's name.
module = importlib.import_module("pinion.cosim.verify")

Change = Callable[[StreamResult], StreamResult]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("verdict") / "two_link"
    build("two_link", "minv", where, ii=6)
    # Records have several beats, so that one may end too early.
    assert Manifest.read(where).beats_out > 1
    return where


def sent(reference: Reference, words: Words) -> StreamResult:
    """Return the stream of a correct core with a host that never pauses."""
    m, schedule = reference.build.manifest, reference.build.schedule
    expected, flags = reference.expected(words)
    beats, last = pack_records(expected, lanes=m.lanes_out, beats=m.beats_out)
    launched = np.arange(len(words), dtype=np.int64) * m.ii + 100
    emitted = np.add.outer(launched + schedule["last_beat"], np.arange(m.beats_out)).reshape(-1)
    return StreamResult(
        beats=beats,
        last=last,
        user=np.repeat(flags, m.beats_out) & last,
        accepted=np.repeat(launched, m.beats_in),
        emitted=emitted - (m.beats_out - 1),
        launched=launched,
        surplus=0,
        violations=0,
        cycles=int(emitted[-1]),
    )


def verdict(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Change = lambda result: result,
    *,
    verify: Callable[..., dict[str, Any]] = module.verify,
    distribution: str = "reference",
    model: Callable[[Words, np.ndarray], tuple[Words, np.ndarray]] | None = None,
) -> dict[str, Any]:
    """Return the figures of a build whose stream is changed.

    Parameters
    ----------
    model : changes what the integer model expects, and so the stream too.
    """
    if model is not None:
        plain = Reference.expected

        def expected(self: Reference, *words: Any) -> tuple[Words, np.ndarray]:
            return model(*plain(self, *words))

        monkeypatch.setattr(Reference, "expected", expected)

    def simulate(core_build: Any, words: Words, *_: Any) -> StreamResult:
        return change(sent(Reference(core_build), words))

    space = verify.__globals__
    monkeypatch.setitem(space, "_simulate", simulate)
    monkeypatch.setitem(space, "diverging", lambda *_: "nowhere")
    return verify(folder, samples=SAMPLES, seed=5, distribution=distribution)


def array(result: StreamResult, name: str, at: Any, value: Any) -> StreamResult:
    """Return a result with one element of an array replaced."""
    changed = getattr(result, name).copy()
    changed[at] = value
    return replace(result, **{name: changed})


def later(result: StreamResult, name: str, cycles: int) -> StreamResult:
    return replace(result, **{name: getattr(result, name) + cycles})


def last_bit(result: StreamResult) -> StreamResult:
    """Change a word by the smallest difference, far inside every budget."""
    return array(result, "beats", (0, 0), result.beats[0, 0] ^ 1)


def early_end(result: StreamResult) -> StreamResult:
    return array(result, "last", 0, True)


def no_end(result: StreamResult) -> StreamResult:
    return array(result, "last", -1, False)


def wrong_flag(result: StreamResult) -> StreamResult:
    return array(result, "user", -1, True)


def too_slow(result: StreamResult) -> StreamResult:
    return array(result, "emitted", -1, result.emitted[-1] + 1)


def longer_inside(result: StreamResult) -> StreamResult:
    """Add a cycle from launch to result, and remove one before the launch."""
    return later(result, "launched", -1)


def longer_in_all(result: StreamResult) -> StreamResult:
    return later(result, "accepted", -1000)


def beyond_budget(words: Words, flags: np.ndarray) -> tuple[Words, np.ndarray]:
    """Make RTL and integers agree on wrong results."""
    wrong = words.copy()
    wrong[3, 0] = np.float32(1e6).view(np.uint32)
    return wrong, flags


def off_budget(words: Words, flags: np.ndarray) -> tuple[Words, np.ndarray]:
    """Change a word by ten times its budget, small compared with the block's largest word."""
    wrong = words.copy()
    wrong[3, 0] = (wrong[3, 0].view(np.float32) + np.float32(0.02)).view(np.uint32)
    return wrong, flags


def no_number(words: Words, flags: np.ndarray) -> tuple[Words, np.ndarray]:
    wrong = words.copy()
    wrong[3, 0] = np.float32(np.nan).view(np.uint32)
    return wrong, flags


def many_flags(words: Words, flags: np.ndarray) -> tuple[Words, np.ndarray]:
    """Flag three of 2000, more than one in a thousand."""
    return words, flags | (np.arange(len(flags)) < 3)


def few_flags(words: Words, flags: np.ndarray) -> tuple[Words, np.ndarray]:
    return words, flags | (np.arange(len(flags)) < 2)


# Fault, how to cause it, the figures of `verify` besides `ok`, and the term that catches it.
TERMS: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, str]]] = {
    "a result word": (
        {"change": last_bit},
        {"mismatches": 1, "budget_held": True, "rate_held": True, "flags_held": True},
        ("(results != expected).any(axis=1) | ", ""),
    ),
    "a flag": (
        {"change": wrong_flag},
        {"mismatches": 1, "budget_held": True, "rate_held": True, "flags_held": True},
        ("(result_flags != flags) | ", ""),
    ),
    "an end too early": (
        {"change": early_end},
        {"mismatches": 1, "budget_held": True, "rate_held": True, "flags_held": True},
        (" & ~last[:, :-1].any(axis=1)", ""),
    ),
    "no end": (
        {"change": no_end},
        {"mismatches": 1, "budget_held": True, "rate_held": True, "flags_held": True},
        ("(result_flags != flags) | ~last_ok", "(result_flags != flags)"),
    ),
    "mismatches": (
        {"change": last_bit},
        {"mismatches": 1},
        ('Verdict.of(\n        figures["mismatches"],', "Verdict.of(\n        0,"),
    ),
    "the budget": (
        {"model": off_budget},
        {"mismatches": 0, "budget_held": False, "accuracy_held": True, "wrong_unflagged": 1},
        ("comparison.outside(reference.budget)", "wrong & False"),
    ),
    "the budget in the verdict": (
        {"model": off_budget},
        {"budget_held": False, "flags_held": True, "rate_held": True},
        ('budget=figures["budget_held"] is not False', "budget=True"),
    ),
    "too many flags": (
        {"model": many_flags},
        {"mismatches": 0, "flagged": 3, "budget_held": True, "flags_held": False},
        ('flags=figures["flags_held"]', "flags=True"),
    ),
    "the rate": (
        {"change": too_slow},
        {"mismatches": 0, "rate_held": False},
        ("rate == manifest.ii and ", ""),
    ),
    "the datapath's latency": (
        {"change": longer_inside},
        {"mismatches": 0, "rate_held": False},
        ("inside == promised and ", ""),
    ),
    "the whole latency": (
        {"change": longer_in_all},
        {"mismatches": 0, "rate_held": False},
        (" and total <= manifest.latency_cycles", ""),
    ),
    "rate and latency": (
        {"change": too_slow},
        {"mismatches": 0, "rate_held": False},
        ('rate=figures["rate_held"]', "rate=True"),
    ),
}


def test_a_right_stream_is_ok(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = verdict(folder, monkeypatch)
    assert figures["ok"] and figures["mismatches"] == 0
    assert verdict(folder, monkeypatch, model=few_flags)["ok"], "two of 2000 may be flagged"


@pytest.mark.parametrize("name", TERMS)
def test_every_term_counts(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    how, terms, _ = TERMS[name]
    figures = verdict(folder, monkeypatch, **how)
    assert not figures["ok"]
    assert {key: figures[key] for key in terms} == terms
    distribution = ErrorDistribution.find(folder)
    assert distribution is not None and distribution.verdict is not None, (
        "the folder keeps the verdict as well"
    )
    fields = {"budget_held": "budget", "accuracy_held": "accuracy"}
    fields |= {"flags_held": "flags", "rate_held": "rate"}
    wrong = {name for key, name in fields.items() if figures[key] is False}
    assert set(distribution.verdict.failed) == wrong | (
        {"bits"} if figures["mismatches"] else set()
    )
    assert distribution.verdict.mismatches == figures["mismatches"] and not distribution.verdict.ok


@pytest.mark.parametrize("name", TERMS)
def test_without_the_term_it_is_overlooked(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how, _, change = TERMS[name]
    broken = mutant(module.verify, *change)
    assert verdict(folder, monkeypatch, verify=broken, **how)["ok"]


def test_a_result_that_is_no_number_breaks_budget_and_promise(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = verdict(folder, monkeypatch, model=no_number)
    assert figures["budget_held"] is False and figures["accuracy_held"] is False
    assert figures["wrong_unflagged"] == 1 and not figures["ok"]
    for check, change in (
        ("budget_held", ("~(self.error <= budget).all", "(self.error > budget).any")),
        ("accuracy_held", ("~right", "~right & np.isfinite(self.error).all(axis=1)")),
    ):
        monkeypatch.setattr("pinion.cosim.reference.Comparison", mutant(Comparison, *change))
        assert verdict(folder, monkeypatch, model=no_number)[check] is True


def test_a_wrong_result_away_from_home_counts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a budget: a relative error above the promise."""
    figures = verdict(folder, monkeypatch, model=beyond_budget, distribution="stress")
    assert figures["mismatches"] == 0 and figures["wrong_unflagged"] == 1
    assert figures["budget_held"] is None and figures["accuracy_held"] is False
    assert not figures["ok"]
    broken = mutant(module.verify, 'accuracy=figures["accuracy_held"]', "accuracy=True")
    assert verdict(folder, monkeypatch, verify=broken, distribution="stress")["ok"]
