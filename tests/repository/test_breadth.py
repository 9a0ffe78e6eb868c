"""Parameters of which a few stay in the fast suite: the others are slow, and none by a slip."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.breadth import Quick, some, some_rows

ROBOTS = ["pendulum", "two_link", "atlas"]
ROWS = [("pendulum", 1), ("two_link", 2), ("atlas", 3)]


def _slow(params: list[Any]) -> list[Any]:
    """The values of what is slow, which is marked so once."""
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
    made = some(iter(ROBOTS), quick)
    assert [param.values for param in made] == [(name,) for name in ROBOTS]
    assert _slow(made) == [(name,) for name in slow]


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
    made = some_rows(iter(ROWS), quick)
    assert [param.values for param in made] == ROWS
    assert _slow(made) == slow


def test_a_tuple_may_be_one_argument_and_a_row_may_have_one_cell() -> None:
    assert _slow(some(ROWS, [ROWS[0]])) == [(ROWS[1],), (ROWS[2],)]
    cells = [("a",), pytest.param("b", id="second"), ("c",)]
    assert _slow(some_rows(cells, [("b",)])) == [("a",), ("c",)]


def test_ids_and_marks_stay() -> None:
    skipped = pytest.mark.skip(reason="none")
    cases = [
        pytest.param("a", marks=skipped, id="first"),
        pytest.param("b", marks=[skipped, pytest.mark.slow], id="second"),
        pytest.param("c", marks=pytest.mark.slow),
        "d",
    ]
    rows = [
        pytest.param(*case.values, 0, marks=case.marks, id=case.id) if case != "d" else ("d", 0)
        for case in cases
    ]
    for made in (some(cases, ("a", "c")), some_rows(rows, [("a", 0), ("c", 0)])):
        assert [param.id for param in made] == ["first", "second", None, None]
        # A case that its test calls slow stays slow, also where it is named as a quick one.
        names = [[mark.name for mark in param.marks] for param in made]
        assert names == [["skip"], ["skip", "slow"], ["slow"], ["slow"]]


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
