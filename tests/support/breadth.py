"""Choice of the parameters that stay in the fast suite; others run in `make test-slow`.

What a test walks is breadth where each case asks the same of another robot, width or pattern: the
cheapest of a kind stays, so that `make test` asks everything once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import pytest

Quick = int | Collection[Any] | Callable[..., bool]
"""The number of first cases, the cases, or a predicate (called with the cells of a row).

A case that is not there raises a ValueError, as does a question that no case passes: a slip would
make all of them slow in silence. Where all shall be, the number 0 says so.
"""

_Param = type(pytest.param())


def some(cases: Iterable[Any], quick: Quick) -> list[Any]:
    """Return cases of one argument as pytest parameters, marked slow unless they are quick."""
    params = [case if isinstance(case, _Param) else pytest.param(case) for case in cases]
    return _marked(params, [param.values[0] for param in params], quick)


def some_rows(cases: Iterable[Any], quick: Quick) -> list[Any]:
    """Return cases of several arguments (tuples) as parameters, marked slow unless quick."""
    params = [case if isinstance(case, _Param) else pytest.param(*case) for case in cases]
    return _marked(params, [tuple(param.values) for param in params], quick)


def _marked(params: Sequence[Any], cases: Sequence[Any], quick: Quick) -> list[Any]:
    marked = []
    for param, stays in zip(params, _staying(params, cases, quick), strict=True):
        marks = list(param.marks)
        if not stays and not any(mark.name == "slow" for mark in marks):
            marks.append(pytest.mark.slow)
        marked.append(pytest.param(*param.values, marks=marks, id=param.id))
    return marked


def _staying(params: Sequence[Any], cases: Sequence[Any], quick: Quick) -> list[bool]:
    if isinstance(quick, int):
        if quick < 0:
            raise ValueError(f"The number of quick cases must be at least 0, not {quick}.")
        return [place < quick for place in range(len(cases))]
    if callable(quick):
        stays = [bool(quick(*param.values)) for param in params]
        if cases and not any(stays):
            raise ValueError(f"No case of {cases} is quick: correct the condition, or give 0.")
        return stays
    if unknown := [case for case in quick if case not in cases]:
        raise ValueError(f"The quick cases {unknown} are not among {cases}: name some that are.")
    return [case in quick for case in cases]
