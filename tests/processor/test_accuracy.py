"""Errors of programs over fresh states, and that they are those of the program."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

import pinion.processor.compile as compiling
from pinion.functions import DISTRIBUTIONS, named_function
from pinion.processor import CompiledProgram, Machine, compile_program
from pinion.processor.accuracy import ProgramErrors, accuracies
from pinion.robot import load


@cache
def compiled(precision: str) -> CompiledProgram:
    row = named_function("aba")
    return compile_program(load("iiwa14"), row, Machine(), precision=precision)


def measured(precision: str, states: int = 300) -> dict[str, ProgramErrors]:
    row = named_function("aba")
    entries = accuracies(load("iiwa14"), row, compiled(precision), states=states, seed=1)
    return {entry.distribution: entry for entry in entries}


def test_fine_programs_are_closer_than_single_precision() -> None:
    entries = measured("fine")
    assert list(entries) == list(DISTRIBUTIONS)
    for entry in entries.values():
        assert entry.states == 300 and entry.flagged == entry.wrong == 0
        assert 0.0 < entry.largest < entry.single < 0.01
    assert entries["reference"].largest < 2e-5 and entries["rest"].largest < 1e-3


def test_what_is_above_the_limit_is_counted() -> None:
    """A fast program is made for reference states, and near rest its errors are larger."""
    entries = measured("fast")
    assert entries["reference"].wrong == 0 and entries["reference"].largest <= 1e-3
    assert entries["rest"].wrong > 250 and entries["rest"].largest > 1e-3


def test_what_is_flagged_has_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled("fast")

    def flagged(*arguments: object) -> tuple[np.ndarray, np.ndarray]:
        words, flags = exact(*arguments)
        return words, np.ones_like(flags)

    exact = compiling.exact_results
    monkeypatch.setattr(compiling, "exact_results", flagged)
    for entry in measured("fast", 20).values():
        assert math.isnan(entry.largest) and entry.flagged == 20 and entry.wrong == 0


def test_words_that_are_not_numbers_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled("fine")

    def broken(*arguments: object) -> tuple[np.ndarray, np.ndarray]:
        words, flags = exact(*arguments)
        return np.full_like(words, 0x7FC00000), flags

    exact = compiling.exact_results
    monkeypatch.setattr(compiling, "exact_results", broken)
    assert all(entry.wrong == 20 for entry in measured("fine", 20).values())


def test_no_state_is_no_measurement() -> None:
    with pytest.raises(ValueError, match="states must be at least 1, not 0"):
        measured("fine", 0)
