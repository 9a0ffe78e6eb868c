"""Some parameters stay in the fast suite, the others are slow, and none by mistake."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.breadth import Quick, some, some_rows

ROBOTS = ["pendulum", "two_link", "atlas"]
ROWS = [("pendulum", 1), ("two_link", 2), ("atlas", 3)]


def _slow(params: list[Any]) -> list[Any]:
    """Return the values of slow cases, each marked once."""
    marked = [[mark.name for mark in param.marks].count("slow") for param in params]
    assert set(marked) <= {0, 1}
    return [param.values for param, slow in zip(params, marked, strict=True) if slow]


@pytest.mark.parametrize(
    ("quick", "slow"),
    [
        (0, ["pendulum", "two_link", "atlas"]),
        (2, ["atlas"]),
        (4, []),
        (("two_link",), ["pendulum", "atlas"]),
        (["atlas", "pendulum"], ["two_link"]),
        ({"two_link"}, ["pendulum", "atlas"]),
        ((), ["pendulum", "two_link", "atlas"]),
        (lambda name: name != "atlas", ["atlas"]),
    ],
)
def test_cases_that_are_not_quick_are_slow(quick: Quick, slow: list[str]) -> None:
    params = some(iter(ROBOTS), quick)
    assert [param.values for param in params] == [(name,) for name in ROBOTS]
    assert _slow(params) == [(name,) for name in slow]


@pytest.mark.parametrize(
    ("quick", "slow"),
    [
        (0, ROWS),
        (1, ROWS[1:]),
        ([("two_link", 2)], [ROWS[0], ROWS[2]]),
        (lambda name, number: name == "atlas" or number == 1, [ROWS[1]]),
    ],
)
def test_rows_that_are_not_quick_are_slow(quick: Quick, slow: list[Any]) -> None:
    params = some_rows(iter(ROWS), quick)
    assert [param.values for param in params] == ROWS
    assert _slow(params) == slow


@pytest.mark.parametrize(
    ("quick", "named"),
    [
        (("pendulm",), "'pendulm'"),
        (("pendulum", "altas"), r"\['altas'\]"),
        ("pendulum", "'p'"),  # a comma is missing
        (lambda name: name == "pendulm", "'pendulum'"),
        (-1, "-1"),
    ],
)
def test_a_quick_case_that_is_not_there_is_refused(quick: Quick, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        some(ROBOTS, quick)


@pytest.mark.parametrize(
    ("quick", "named"),
    [
        ([("pendulum", 2)], r"\('pendulum', 2\)"),
        (("pendulum", 1), "'pendulum', 1"),  # a row, not a list of rows
        (lambda name, number: number > 3, r"\('atlas', 3\)"),
    ],
)
def test_a_quick_row_that_is_not_there_is_refused(quick: Quick, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        some_rows(ROWS, quick)
