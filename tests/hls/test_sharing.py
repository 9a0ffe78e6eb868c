"""Fewer selector inputs: legal, equal results, repeatable, with consistent costs."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinion.formats import lower
from pinion.graph import Graph, Tracer
from pinion.graph.evaluate import evaluate_integers
from pinion.hls import Binding, bind, check_binding, operations, schedule
from pinion.hls.schedule.check import check_schedule
from pinion.hls.schedule.modulo import Schedule
from pinion.hls.schedule.sharing import _Search, _trades, share_units
from pinion.hls.schedule.sources import estimate_sources
from pinion.hls.sums import gather_dots
from tests.graph.helpers import Q16, TIMING, gathered, graphs, integers, states
from tests.hls.test_floorplan import places, shuffled


def bound(fixed: Graph, ii: int, effort: int = 5) -> Binding:
    return bind(fixed, schedule(operations(fixed, TIMING), ii=ii, timing=TIMING, effort=effort))


def robot(name: str, ii: int) -> tuple[Graph, Binding]:
    fixed = lower(gathered(name, "rnea", ii), Q16)
    return fixed, bound(fixed, ii)


def check(fixed: Graph, binding: Binding, before: Binding) -> None:
    """Check that it is legal and that all other figures are unchanged."""
    check_schedule(fixed, binding.schedule)
    check_binding(fixed, binding)
    plan, was = binding.schedule, before.schedule
    assert plan.units == was.units
    assert (plan.first_operand, plan.length) == (was.first_operand, was.length)
    assert binding.outputs == before.outputs


def test_a_robot_takes_fewer_inputs_and_tables_for_the_same_results() -> None:
    fixed, before = robot("iiwa14", 8)
    graph, after = share_units(fixed, before, effort=1)
    check(graph, after, before)
    old, new = estimate_sources(fixed, before), estimate_sources(graph, after)
    assert new.selectors < 0.95 * old.selectors and new.inputs < old.inputs
    assert new.cost < 0.93 * old.cost
    assert new.inputs - old.inputs == places(after) - places(before)  # lanes stay as they are
    values = integers(states("iiwa14", 20, seed=5), Q16.default)
    (value, flag), (other, same) = (evaluate_integers(g, values) for g in (fixed, graph))
    np.testing.assert_array_equal(flag, same)
    assert value.keys() == other.keys()
    for word, result in value.items():
        np.testing.assert_array_equal(result, other[word])
    assert graph != fixed, "no operands traded places"


def test_the_same_seed_gives_the_same() -> None:
    fixed, binding = robot("chain_3", 4)
    first = share_units(fixed, binding)
    assert first == share_units(fixed, binding)
    assert first != share_units(fixed, binding, seed=1)


def test_without_moves_nothing_changes() -> None:
    fixed, binding = robot("two_link", 4)
    assert share_units(fixed, binding, effort=0) == (fixed, binding)


@pytest.mark.parametrize("ii", [1, 3, 8])
def test_the_books_are_right_after_many_moves(ii: int) -> None:
    fixed, binding = robot("chain_3", ii)
    search = _Search(fixed, binding)
    for seed in range(3):
        search.anneal(2000, seed)
        graph, moved = search.result()
        check(graph, moved, binding)
        fresh = _Search(graph, moved)
        assert fresh.sources == search.sources
        assert fresh.store == search.store
        assert fresh.busy == search.busy
        assert fresh.estimate() == search.estimate()


@settings(max_examples=40)
@given(graph=graphs(), ii=st.sampled_from([1, 2, 3, 7]), seed=st.integers(0, 3))
def test_random_graphs_stay_legal_and_get_no_worse(graph: Graph, ii: int, seed: int) -> None:
    fixed = lower(graph, Q16)
    binding = bound(fixed, ii, effort=3)
    shared, after = share_units(fixed, binding, seed=seed)
    check(shared, after, binding)
    assert estimate_sources(shared, after).cost <= estimate_sources(fixed, binding).cost


def small() -> tuple[Graph, Binding]:
    """Four sums on two adders; three share words, on different sides."""
    tracer = Tracer()
    a, b, d = (tracer.input(name) for name in "abd")
    left, right, spare = d + a, a + b, b + d
    tracer.output("y", left + right)
    tracer.output("z", spare)
    fixed = lower(tracer.finish(), Q16)
    return fixed, bound(fixed, 2)


def best_of_all(fixed: Graph, binding: Binding) -> float:
    """Return the least cost of all legal cycles, units and operand orders."""
    plan = binding.schedule
    kinds = plan.operations
    deadline = {out.node: out.cycle for out in binding.outputs}
    at = {op.node: i for i, op in enumerate(kinds)}
    least = inf
    last = plan.length
    spots = [
        [(s, u) for s in range(last - op.latency + 1) for u in range(plan.units[op.kind])]
        for op in kinds
    ]
    for choice in product(*spots):
        start, unit = zip(*choice, strict=True)
        occupied = {(op.kind, u, s % plan.ii) for op, (s, u) in zip(kinds, choice, strict=True)}
        ready = [s + op.latency for s, op in zip(start, kinds, strict=True)]
        if len(occupied) < len(kinds) or any(
            start[i] < ready[at[operand.node]]
            for i, op in enumerate(kinds)
            for operand in op.operands
            if operand.node in at
        ):
            continue
        if any(ready[i] > deadline.get(op.node, last) for i, op in enumerate(kinds)):
            continue
        for turned in product((False, True), repeat=len(kinds)):
            turn = [
                replace(op, operands=op.operands[::-1]) if flip else op
                for op, flip in zip(kinds, turned, strict=True)
            ]
            moved = Schedule(plan.ii, plan.timing, tuple(turn), start, plan.units, 0, last)
            least = min(
                least, estimate_sources(fixed, replace(binding, schedule=moved, unit=unit)).cost
            )
    return least


def test_a_small_problem_is_solved_as_well_as_can_be() -> None:
    fixed, binding = small()
    binding = shuffled(binding, seed=3)
    search = _Search(fixed, binding)
    search.anneal(4000, 0)
    cost = search.estimate().cost
    assert cost == best_of_all(fixed, binding) < estimate_sources(fixed, binding).cost


def test_only_terms_of_one_sign_and_width_trade_places() -> None:
    tracer = Tracer()
    a, b, c, d = (tracer.input(name) for name in "abcd")
    tracer.output("difference", a - b)
    tracer.output("products", a * b - c * d)
    tracer.output("sums", a * c + b * d)
    fixed = lower(gather_dots(tracer.finish(), TIMING, widths=(2,), ii=2), Q16)
    search = _Search(fixed, bound(fixed, 2))
    costs = {
        (op.kind.label, op.control): trades
        for op, trades in zip(search.plan.operations, search.trades, strict=True)
    }
    assert costs == {
        ("add", (1,)): [],
        ("dot2", (1,)): [[(0, 1)], [(2, 3)]],
        ("dot2", (0,)): [[(0, 1)], [(2, 3)], [(0, 2), (1, 3)]],
    }
    kinds = [replace(op.kind, widths=(32, 18) * op.kind.products) for op in search.plan.operations]
    narrow = [
        _trades(fixed, replace(op, kind=kind), fixed.uses())
        for op, kind in zip(search.plan.operations, kinds, strict=True)
        if op.control == (0,)
    ]
    assert narrow == [[[(0, 2), (1, 3)]]]
