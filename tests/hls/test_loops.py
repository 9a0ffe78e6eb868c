"""Loops through states: the shortest interval, a schedule that keeps it, and the checker."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinion.formats import FormatPlan, lower
from pinion.functions import Function
from pinion.graph import Feedback, Graph
from pinion.graph.passes import fold
from pinion.hls import CheckError, Design, bind, check_binding, check_schedule, operations, schedule
from pinion.hls.schedule.modulo import StateLoopError, loops_of, shortest_interval, unit_counts
from pinion.hls.schedule.sharing import share_units
from pinion.hls.sums import gather_dots, loop_interval
from pinion.robot import load
from tests.graph.helpers import TIMING, graphs
from tests.support.builds import make_design
from tests.support.filters import BIQUAD, DELAY, INTEGRATOR


def made(row: Function, ii: int | None, formats: str = "q16.16") -> Design:
    return make_design(load("pendulum"), row, ii=ii, formats=formats)


@pytest.fixture(scope="module")
def biquad() -> Design:
    return made(BIQUAD, 6)


def test_an_interval_below_a_loop_is_refused_and_the_one_named_works() -> None:
    with pytest.raises(StateLoopError) as refused:
        made(INTEGRATOR, 3)
    sentence = str(refused.value)
    assert sentence.startswith("An interval of 3 cycles is out of reach: the loop through 'turn' ")
    ask = f"Ask for ii={refused.value.ii} (--ii) or more, or for ii=None (--ii auto)."
    assert sentence.endswith(f"cycles. {ask}")
    at_bound = made(INTEGRATOR, refused.value.ii)
    assert at_bound.binding.schedule.ii == refused.value.ii
    with pytest.raises(StateLoopError):
        made(INTEGRATOR, refused.value.ii - 1)


def test_auto_takes_the_loop() -> None:
    by_hand = made(INTEGRATOR, 64)
    loops = loops_of(by_hand.fixed)
    plan = made(INTEGRATOR, None).binding.schedule
    assert plan.ii <= shortest_interval(by_hand.binding.schedule.operations, loops)
    assert plan.ii > 7  # a sine and more


def test_sums_let_a_loop_in_last() -> None:
    """A product and its sum: y2, x, x1 and x2 wait for y1, not it for them."""
    core_design = made(BIQUAD, None)
    interval, words = loop_interval(core_design.real, core_design.binding.schedule.timing)
    assert interval == core_design.binding.schedule.ii == 5 and "y1" in words


def test_a_delay_line_needs_no_interval() -> None:
    delayed = made(DELAY, 1)
    assert delayed.binding.schedule.ii == 1 and not delayed.binding.schedule.operations
    assert [state.arrival for state in delayed.binding.states] == [1, 1]


def test_a_word_of_state_may_arrive_late() -> None:
    """Only the path from the state back to it counts, not operations before the loop."""
    core_design = made(INTEGRATOR, None)
    plan = core_design.binding.schedule
    assert max(plan.arrivals.values()) > plan.ii // 2 or plan.length > plan.ii
    assert min(plan.arrivals.values()) >= 1


def test_units_are_added_where_a_loop_has_no_room() -> None:
    fixed = made(BIQUAD, 64).fixed
    timing = made(BIQUAD, 64).binding.schedule.timing
    ops, loops = operations(fixed, timing), loops_of(fixed)
    ii = shortest_interval(ops, loops)
    plan = schedule(ops, ii=ii, timing=timing, loops=loops)
    check_schedule(fixed, plan)
    assert all(plan.units[kind] >= n for kind, n in unit_counts(ops, ii).items())
    with pytest.raises(StateLoopError, match=f"takes {ii} cycles"):
        schedule(ops, ii=ii - 1, timing=timing, loops=loops)


def test_what_the_flow_makes_passes(biquad: Design) -> None:
    check_schedule(biquad.fixed, biquad.binding.schedule)
    check_binding(biquad.fixed, biquad.binding)
    assert biquad.binding.inputs == (0,) and len(biquad.binding.states) == 4


def test_a_next_state_that_is_a_cycle_late_is_found(biquad: Design) -> None:
    plan = biquad.binding.schedule
    late = 0
    for state in biquad.binding.states:
        ready = biquad.binding.ready[state.following]
        early = {**plan.arrivals, state.node: ready - plan.ii}
        if early[state.node] < 1:
            continue
        late += 1
        with pytest.raises(CheckError, match=rf"next value of '{state.name}' .* too late"):
            check_schedule(biquad.fixed, replace(plan, arrivals=early))
    assert late
    with pytest.raises(CheckError, match="too late"):
        check_schedule(
            biquad.fixed, replace(plan, ii=plan.ii - 2, units=unit_counts(plan.operations, 1))
        )


def test_a_state_that_is_read_too_early_is_found(biquad: Design) -> None:
    plan = biquad.binding.schedule
    for node in plan.arrivals:
        with pytest.raises(CheckError, match=r"before its operand|too late|arrives in cycle"):
            check_schedule(
                biquad.fixed, replace(plan, arrivals={**plan.arrivals, node: plan.length + 1})
            )
        with pytest.raises(CheckError, match="arrives in cycle 0, but cannot before cycle 1"):
            check_schedule(biquad.fixed, replace(plan, arrivals={**plan.arrivals, node: 0}))


def test_a_register_of_state_that_is_wrong_is_found(biquad: Design) -> None:
    binding = biquad.binding
    state, *others = binding.states
    for wrong in (
        replace(state, initial=state.initial + 1),
        replace(state, following=state.node),
        replace(state, arrival=state.arrival + 1),
    ):
        with pytest.raises(CheckError, match=rf"The state '{state.name}' is bound as"):
            check_binding(biquad.fixed, replace(binding, states=(wrong, *others)))
    with pytest.raises(CheckError, match="has 4 states, but the binding has 3"):
        check_binding(biquad.fixed, replace(binding, states=tuple(others)))
    stages = {**binding.stages, state.node: 0}
    with pytest.raises(CheckError, match="has 0 register stages: it needs at least 1"):
        check_binding(biquad.fixed, replace(binding, stages=stages))
    inputs = (*binding.inputs, state.node)
    with pytest.raises(CheckError, match="is also listed as a word of the request"):
        check_binding(biquad.fixed, replace(binding, inputs=inputs))


@settings(max_examples=60)
@given(graph=graphs(), data=st.data())
def test_random_loops_are_scheduled_at_their_shortest_interval(
    graph: Graph, data: st.DataObject
) -> None:
    """Words become states fed by any value; the checkers examine the result."""
    states_kept = data.draw(st.lists(st.sampled_from(graph.inputs), unique=True, min_size=1))
    node = st.integers(0, len(graph.nodes) - 1)
    states = tuple(Feedback(word, data.draw(node), 0.25) for word in states_kept)
    folded = fold(Graph(graph.nodes, graph.outputs, states))
    assert {s.word for s in folded.states} <= set(states_kept)
    fixed = lower(gather_dots(folded, TIMING, widths=(3, 2), ii=2), FormatPlan.parse("q16.16"))
    assert {s.word for s in fixed.states} == {s.word for s in folded.states}
    ops, loops = operations(fixed, TIMING), loops_of(fixed)
    ii = shortest_interval(ops, loops)
    plan = schedule(ops, ii=ii, timing=TIMING, effort=1, loops=loops)
    check_schedule(fixed, plan)
    binding = bind(fixed, plan)
    check_binding(fixed, binding)
    shared, better = share_units(fixed, binding, effort=1)
    check_schedule(shared, better.schedule)
    check_binding(shared, better)
    if ii > 1:
        with pytest.raises(StateLoopError):
            schedule(ops, ii=ii - 1, timing=TIMING, loops=loops)
