"""Parameters of which a few stay in the fast suite, and the others run in `make test-slow`.

What a test walks is breadth where each case asks the same of another robot, width or pattern: the
cheapest of a kind stays, so that `make test` asks everything once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest

Quick = int | Collection[Any] | Callable[..., bool]
"""How many of the first, which ones, or whether one is (a row hands its cells in)."""

_Param = type(pytest.param())


def some(cases: Iterable[Any], quick: Quick) -> list[Any]:
    """Cases of one argument; those that are not quick are slow."""
    return [_case(place, case, [case], quick) for place, case in enumerate(cases)]


def some_rows(cases: Iterable[Any], quick: Quick) -> list[Any]:
    """Cases of several arguments, one tuple each; those that are not quick are slow."""
    return [_case(place, case, list(case), quick) for place, case in enumerate(cases)]


def _case(place: int, case: Any, cells: list[Any], quick: Quick) -> Any:
    marks, name = [], None
    if isinstance(case, _Param):
        cells, marks, name = list(case.values), list(case.marks), case.id
        case = cells[0] if len(cells) == 1 else tuple(cells)
    if isinstance(quick, int):
        stays = place < quick
    else:
        stays = bool(quick(*cells)) if callable(quick) else case in quick
    if not stays and not any(mark.name == "slow" for mark in marks):
        marks.append(pytest.mark.slow)
    return pytest.param(*cells, marks=marks, id=name)
