"""Counts of levels, combines and steps."""

from __future__ import annotations

from pinion.chains.counting import Count


def test_levels_solves_and_steps_add_up() -> None:
    count = Count()
    count.level(5)
    count.level(0)
    count.level(2)
    count.solve()
    count.steps("articulated inertias", 7)
    count.steps("articulated inertias", 7)
    count.steps("nothing", 0)
    assert count == Count(levels=2, combines=7, solves=1, sequential={"articulated inertias": 14})
    assert Count().sequential == {}
