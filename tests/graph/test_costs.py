"""Costs of a machine: the unit model prices every operation alike, and passes use it."""

from __future__ import annotations

import pytest

from pinion.graph import OPS, Tracer, names, op_counts
from pinion.graph.costs import UnitCosts
from pinion.graph.passes.samples import arrivals
from pinion.hls.costs import DatapathCosts


@pytest.mark.parametrize("op", sorted(OPS))
def test_the_unit_model_counts_operations(op: str) -> None:
    cost = 0 if op in names.LEAVES else 1
    assert UnitCosts().latency(op) == UnitCosts().price(op) == cost


def test_a_pass_asks_the_machine_that_it_is_given() -> None:
    tracer = Tracer()
    x = tracer.input("x")
    tracer.output("y", x * x + x)
    graph = tracer.finish()
    assert op_counts(graph)["mul"] == op_counts(graph)["add"] == 1
    assert arrivals(graph, UnitCosts()) == [0, 1, 2]
    assert arrivals(graph, DatapathCosts())[-1] > 2
