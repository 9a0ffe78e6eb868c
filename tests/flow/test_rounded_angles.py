"""Rounded angles cost multipliers, which cores built from such a file save."""

from __future__ import annotations

import pytest

from pinion.functions import named_function, reduced_graph
from pinion.hls.costs import DatapathCosts
from pinion.robot import Model, load, load_text, urdf_text
from tests.robot.snippets import rewritten, with_decimals
from tests.support.builds import make_design


def iiwa14(decimals: int, *, snap: bool) -> Model:
    """The built-in robot with its angles rounded."""
    text = rewritten(urdf_text("iiwa14"), with_decimals(decimals))
    return load_text(text, source="built-in iiwa14", snap=snap)


def multipliers(model: Model) -> int:
    """Of `rnea` at one result every 8 cycles."""
    return make_design(model, named_function("rnea"), ii=8, formats="q16.16").multipliers


@pytest.mark.parametrize("decimals", [4, 5])
def test_a_file_with_few_digits_gives_the_same_datapath(decimals: int) -> None:
    row, costs = named_function("rnea"), DatapathCosts()
    built_in = reduced_graph(load("iiwa14"), row, costs=costs)
    # All further steps, including units, depend only on this graph.
    assert reduced_graph(iiwa14(decimals, snap=True), row, costs=costs) == built_in


@pytest.mark.slow
def test_four_digits_cost_no_multiplier() -> None:
    expected = multipliers(load("iiwa14"))
    assert expected == 25
    assert multipliers(iiwa14(4, snap=True)) == expected
    assert multipliers(iiwa14(4, snap=False)) > 1.9 * expected
