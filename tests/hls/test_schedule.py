"""Modulo schedules: as few units as possible, in order, the same every time."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from pinion.fixedpoint import FormatError
from pinion.formats import FormatPlan, lower
from pinion.functions import FUNCTIONS
from pinion.gateware.library import make_unit, timing_for
from pinion.graph import Graph, Node, op_counts
from pinion.graph.check import verify
from pinion.graph.passes import dead_code, fold
from pinion.hls import (
    Design,
    DesignSettings,
    Operation,
    ScheduleError,
    Timing,
    bind,
    check_binding,
    check_schedule,
    design,
    operations,
    schedule,
)
from pinion.hls.operations import Operand, UnitKind
from pinion.hls.schedule.binding import lanes
from pinion.hls.schedule.modulo import _placed, _Problem, _Room, unit_counts
from pinion.hls.sums import gather_dots
from tests.graph.helpers import (
    Q16,
    TIMING,
    auto_formats,
    auto_robot,
    designed,
    graphs,
    offsets,
    promised,
    random_inputs,
    real_graph,
    states,
    traced,
)
from tests.support.breadth import some_rows

INTERVALS = (1, 2, 3, 4, 5, 8, 16, 32)
SCHEDULED = ("pendulum", "two_link", "chain_3", "iiwa14", "hyq", "baxter")


def _up(count: int, ii: int) -> int:
    return -(-count // ii)


def unit_offsets(operation: Operation, timing: Timing = TIMING) -> list[int]:
    """Return the cycles after an operation's start in which its unit reads each port."""
    ports = len(operation.operands)
    return offsets(ports, timing) if operation.kind.name == "dot" else [0] * ports


def table_row(robot: str, ii: int, core_design: Design) -> str:
    """Return a line of the table that ``pytest -s`` shows."""
    counts = op_counts(core_design.real)
    return (
        f"{robot:9} ii {ii:2}: {counts['mul'] + counts['mul_const']:4} products on "
        f"{core_design.multipliers:3} multipliers, {core_design.adders:3} adders, "
        f"{core_design.units().get('sincos', 0):2} sincos, "
        f"{core_design.binding.schedule.schedule_cycles:3} cycles, "
        f"{core_design.binding.registers} registers"
    )


# Of the large robots, whose designs take seconds each.
_FAST: dict[str, tuple[int, ...]] = {"baxter": (), "hyq": (8,), "iiwa14": (8,)}
# Designs of trees differ in size alone.
_SLOW: dict[str, tuple[int, ...]] = {"baxter": (5,), "hyq": (1, 8)}
CASES = some_rows(
    (case for case in product(SCHEDULED, INTERVALS) if case[1] in _SLOW.get(case[0], INTERVALS)),
    lambda robot, ii: ii in _FAST.get(robot, INTERVALS),
)


@pytest.mark.parametrize(("robot", "ii"), CASES)
def test_units_are_as_few_as_the_interval_allows(robot: str, ii: int) -> None:
    core_design = designed(robot, ii)
    plan = core_design.binding.schedule
    print(table_row(robot, ii, core_design))
    check_schedule(core_design.fixed, plan)
    check_binding(core_design.fixed, core_design.binding)

    # Kind by kind: exactly the bound.
    used = Counter(operation.kind for operation in plan.operations)
    assert plan.units == {kind: _up(count, ii) for kind, count in used.items()}
    # One kind for each number of products, with an addend or without.
    dots = [kind.products for kind in used if kind.name == "dot"]
    assert len(dots) == len(set(dots))

    # Together, however the products are spread over kinds: at most 1.15 times the bound.
    counts = op_counts(core_design.real)
    products = counts["mul"] + counts["mul_const"]
    sums = sum(count for kind, count in used.items() if kind.name == "add")
    assert products == sum(kind.products * count for kind, count in used.items())
    assert core_design.multipliers <= 1.15 * _up(products, ii)
    assert core_design.adders <= 1.15 * _up(sums, ii)
    assert core_design.units().get("sincos", 0) <= 1.15 * _up(counts["trig"], ii)
    assert set(core_design.units()) <= {"dot1", "dot2", "dot3", "dot4", "add", "sincos"}


@pytest.mark.parametrize(("robot", "ii"), CASES)
def test_latency_is_at_least_the_longest_path_and_little_more(robot: str, ii: int) -> None:
    core_design = designed(robot, ii)
    plan = core_design.binding.schedule
    assert _Problem(plan.operations, plan.units, ii).shortest() <= plan.length
    ready: dict[int, int] = {}
    for operation in plan.operations:
        late = unit_offsets(operation)
        after = [
            ready.get(o.node, 0) - k
            for o, k in zip(operation.operands, late, strict=True)
            if o.constant is None and o.node >= 0
        ]
        ready[operation.node] = max(0, *after) + operation.latency
    critical = max(ready.values())
    assert critical <= plan.length <= 2 * critical + ii
    assert plan.schedule_cycles == plan.length - plan.first_operand
    assert plan.first_operand >= TIMING.sincos
    if ii == 1:
        assert plan.length == critical


def test_the_iiwa14_at_8_meets_its_targets() -> None:
    values = states("iiwa14", 20, seed=1)
    core_design = design(
        traced("iiwa14"), DesignSettings(ii=8, plan=Q16, timing=TIMING, states=values)
    )
    print(table_row("iiwa14", 8, core_design))
    assert core_design.binding.schedule.schedule_cycles <= 110
    assert core_design.multipliers <= 60
    assert core_design.binding.lanes_in * 8 >= 21 and core_design.binding.lanes_out * 8 >= 7


@pytest.mark.parametrize("count", [1, 23, 24, 300])
def test_many_operations_are_looked_at_together_as_they_are_one_by_one(count: int) -> None:
    occupants = array("q", np.random.default_rng(count).permutation(400)[:count].tolist())
    room = _Room([0] * 400, [k % 11 for k in range(400)])
    for i in occupants[::2]:
        room.shrink(i)
    first, other = Random(7), Random(7)
    for _ in range(20):
        expected = min(occupants, key=lambda v: (room.price[v], first.random()))
        assert room.victim(occupants, other) == expected
        assert first.getstate() == other.getstate()
        room.shrink(expected)


def _fits(problem: _Problem, length: int) -> bool:
    """Return whether a schedule of at most a length exists, by trying all."""
    order, start = problem.order(), [0] * len(problem.latency)
    free = problem.free()

    def place(at: int) -> bool:
        if at == len(order):
            return True
        i = order[at]
        slots = free[problem.kinds[i]]
        early = max((start[p] + delay for p, delay in problem.preds[i]), default=0)
        for cycle in range(max(early, 0), length - problem.latency[i] + 1):
            if slots[cycle % problem.ii]:
                slots[cycle % problem.ii] -= 1
                start[i] = cycle
                if place(at + 1):
                    return True
                slots[cycle % problem.ii] += 1
        return False

    return place(0)


@pytest.mark.parametrize("seeds", [range(0, 150), range(150, 300)])
def test_no_schedule_is_shorter_than_the_bound_says(seeds: range) -> None:
    for draw in map(Random, seeds):
        _no_schedule_is_shorter(draw)


def _no_schedule_is_shorter(draw: Random) -> None:
    kinds = [UnitKind(name, 0, (18, 18), 9, 18) for name in ("dot", "add")]
    ops: list[Operation] = []
    for node in range(draw.randint(4, 7)):
        read = draw.sample(range(node), min(node, draw.choice((0, 1, 1, 2))))
        operands = tuple(Operand(node=p, offset=draw.randint(0, 1)) for p in read)
        kind, latency = draw.choice(kinds), draw.randint(1, 3)
        ops.append(Operation(node, kind, operands, (), latency, None, ""))
    ii = draw.randint(1, 4)
    units = {
        kind: count + draw.randint(0, 1) for kind, count in unit_counts(tuple(ops), ii).items()
    }
    problem = _Problem(tuple(ops), units, ii)
    least = problem.shortest()
    assert not _fits(problem, least - 1)
    plan = schedule(tuple(ops), ii=ii, timing=TIMING, units=units)
    assert plan.length >= least
    # Lengths below the bound are not tried; trying them changes nothing.
    tries = [_placed(problem, least - 1, Random(attempt)) for attempt in range(3)]
    assert tries == [None, None, None]


DIVIDING = ("minv", "aba", "aba_fext", "fd_derivatives", "euler_step")
DIVIDING += (
    "fd_second_derivatives",
    "fd_parameter_derivatives",
    "rk4_step",
    "step_second_derivatives",
    "operational_space_inertia",
    "inverse_operational_space_inertia",
    "constraint_dynamics",
    "constraint_dynamics_derivatives",
    "impulse_dynamics",
    "impulse_dynamics_derivatives",
)
LARGE = ("rk4_step", "step_second_derivatives", "fd_second_derivatives")
"""Rows whose design takes minutes, of the operations of others."""

LONG = ("euler_step", "fd_derivatives", "centroidal_derivatives", "rnea_second_derivatives")
LONG += ("fd_derivatives_from_minv", "rnea_regressor", "operational_space_inertia")
LONG += ("inverse_operational_space_inertia", "fd_parameter_derivatives")
"""Rows whose design takes many seconds for the iiwa14: a smaller arm has them."""

FORMATS = {"fd_parameter_derivatives": "q18.14"}
"""Formats where q16.16 does not hold a constant: the square of a pivot's reciprocal is 40,000."""

UNITS_OF_OPS = {"sincos": "trig", "reciprocal": "reciprocal"}


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("rnea", "aba", "minv") else pytest.param(name, marks=pytest.mark.slow)
        for name in FUNCTIONS
        if name not in LARGE
    ],
)
def test_every_function_has_as_few_units_as_the_interval_allows(name: str) -> None:
    robot = "chain_3" if name in LONG else "iiwa14"
    core_design = promised(robot, name, formats=FORMATS.get(name, "q16.16"))
    plan, counts = core_design.binding.schedule, core_design.ops
    check_schedule(core_design.fixed, plan)
    check_binding(core_design.fixed, core_design.binding)
    products = counts["mul"] + counts["mul_const"]
    used = Counter(operation.kind.name for operation in plan.operations)
    print(
        f"{name}: {products} products on {core_design.multipliers} multipliers, "
        f"{plan.schedule_cycles}"
    )
    assert core_design.multipliers <= 1.15 * _up(products, 8)
    assert core_design.adders <= 1.15 * _up(used["add"], 8)
    for unit, op in UNITS_OF_OPS.items():
        assert core_design.units().get(unit, 0) == _up(counts[op], 8) == _up(used[unit], 8)
    assert (counts["reciprocal"] > 0) == (name in DIVIDING)


@pytest.mark.parametrize("ii", [1, 3, 8])
@pytest.mark.parametrize("name", ["aba", "minv"])
def test_schedules_with_reciprocals_are_checked(name: str, ii: int) -> None:
    core_design = designed("chain_3", ii, name=name)
    plan = core_design.binding.schedule
    used = Counter(operation.kind for operation in plan.operations)
    assert plan.units == {kind: _up(count, ii) for kind, count in used.items()}
    divisions = [o for o in plan.operations if o.kind.name == "reciprocal"]
    assert divisions and all(o.latency == TIMING.reciprocal for o in divisions)
    starts = dict(zip((o.node for o in plan.operations), plan.start, strict=True))
    for division in divisions:
        # Nothing reads the quotient before it is ready; the checker and this test agree.
        for operation, start in zip(plan.operations, plan.start, strict=True):
            late = unit_offsets(operation)
            for operand, k in zip(operation.operands, late, strict=True):
                if division.node == operand.node:
                    assert start + k >= starts[division.node] + TIMING.reciprocal


@pytest.mark.parametrize("robot", ["two_link", "iiwa14"])
def test_a_design_does_not_depend_on_the_run(robot: str) -> None:
    def again() -> Design:
        settings = DesignSettings(
            ii=4, plan=Q16, timing=TIMING, states=states(robot, 20, seed=1), effort=2
        )
        return design(traced(robot), settings)

    first, second = again(), again()
    assert first.binding == second.binding
    assert first.fixed == second.fixed
    assert first.budget == second.budget


@pytest.mark.parametrize(
    "timing",
    [
        timing_for(Q16, multiplier_stages=1),
        timing_for(Q16, add=2),
        timing_for(Q16, multiplier_stages=1, add=2),
        timing_for(Q16, multiplier_stages=4),
        Timing(sincos=5),
    ],
    ids=str,
)
def test_other_unit_latencies_are_scheduled_as_well(timing: Timing) -> None:
    settings = DesignSettings(
        ii=8, plan=Q16, timing=timing, states=states("iiwa14", 5, seed=1), effort=1
    )
    core_design = design(traced("iiwa14"), settings)
    plan = core_design.binding.schedule
    assert plan.timing == timing
    for operation in plan.operations:
        want = {
            "dot": 1 + timing.multiplier_stages + operation.kind.products,
            "add": timing.add,
            "sincos": timing.sincos,
        }[operation.kind.name]
        assert operation.latency == want
        assert [o.offset for o in operation.operands] == unit_offsets(operation, timing)
    used = Counter(operation.kind for operation in plan.operations)
    assert plan.units == {kind: _up(count, 8) for kind, count in used.items()}


def two_sums() -> Graph:
    """``x0 x1 - x2 x3 + x4``, ``x0 x2 + x1 x3`` and ``x4 - x0 x4``, as dots."""
    nodes = [Node("input", (), (f"x{k}",)) for k in range(5)]
    nodes.append(Node("dot", (0, 1, 2, 3, 4), (1, -1, 1)))
    nodes.append(Node("dot", (0, 2, 1, 3), (1, -1)))
    nodes.append(Node("dot", (0, 4, 4), (-1, 1)))
    nodes.append(Node("mul", (3, 4)))
    return verify(Graph(tuple(nodes), tuple((f"y{k}", 5 + k) for k in range(4))))


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_sums_with_and_without_an_addend_share_a_unit(stages: int) -> None:
    timing = replace(TIMING, multiplier_stages=stages)
    fixed = lower(two_sums(), Q16)
    ops = operations(fixed, timing)
    plan = schedule(ops, ii=2, timing=timing, effort=1)
    check_schedule(fixed, plan)
    assert {(kind.products, len(kind.widths)): n for kind, n in plan.units.items()} == {
        (2, 5): 1,
        (1, 3): 1,
    }
    _, plain, _, product = ops
    # Signs of both products, then whether there is an addend.
    assert [op.control for op in ops] == [(0, 1, 1), (0, 1, 0), (1, 1), (0, 0)]
    for op in ops:
        assert [o.offset for o in op.operands] == unit_offsets(op, timing)
        assert op.operands[-1].unused == (op in (plain, product))
        assert not any(o.unused for o in op.operands[:-1])
        # Control bits are read with their operands.
        assert op.control_offset(len(op.control) - 1) == stages - 1
        products = range(op.kind.products)
        assert [op.control_offset(k) for k in products] == list(products)
    # Without sums with an addend there is no port for one.
    alone = Graph(
        fixed.nodes, tuple(out for out in fixed.outputs if out.word.block in ("y1", "y3"))
    )
    without = operations(dead_code(alone), timing)
    assert [len(op.operands) for op in without] == [4, 2]
    assert [op.control for op in without] == [(1,), ()]
    assert [op.kind.adds for op in without] == [False, False]
    assert without[0].control_offset(0) == 1


def test_slower_units_make_a_longer_schedule() -> None:
    fixed = designed("iiwa14", 8).fixed
    lengths = []
    for stages, add in ((1, 1), (2, 1), (2, 2)):
        timing = timing_for(Q16, multiplier_stages=stages, add=add)
        lengths.append(schedule(operations(fixed, timing), ii=8, timing=timing, effort=2).length)
    assert lengths == sorted(set(lengths))


def test_formats_change_a_schedule_through_the_latencies_of_table_units_alone() -> None:
    finer = timing_for(FormatPlan.parse("q10.26"))
    assert timing_for(Q16) == TIMING != finer
    tables = {"sincos": TIMING.sincos, "reciprocal": TIMING.reciprocal}
    words = {"word": TIMING.word, "point": TIMING.point}  # what other functions' latencies follow
    assert replace(finer, **words, **tables) == TIMING
    for name in ("rnea", "minv"):  # `designed` gives both formats the latencies of q16.16
        other = designed("iiwa14", 8, "q12.20", name=name).binding.schedule
        assert other.start == designed("iiwa14", 8, name=name).binding.schedule.start, name


@settings(max_examples=80)
@given(graph=graphs(), ii=st.sampled_from([1, 2, 3, 7]), gather=st.booleans())
def test_random_graphs_are_scheduled_and_bound_rightly(graph: Graph, ii: int, gather: bool) -> None:
    if gather:
        graph = gather_dots(fold(graph), TIMING, widths=(4, 3, 2), ii=ii)
    fixed = lower(graph, Q16)
    plan = schedule(operations(fixed, TIMING), ii=ii, timing=TIMING, effort=1)
    check_schedule(fixed, plan)
    check_binding(fixed, bind(fixed, plan))


def test_more_units_than_needed_are_allowed() -> None:
    core_design = designed("iiwa14", 8)
    plan = core_design.binding.schedule
    more = {kind: 3 * count for kind, count in plan.units.items()}
    freer = schedule(plan.operations, ii=8, timing=TIMING, units=more, effort=2)
    check_schedule(core_design.fixed, freer)
    check_binding(core_design.fixed, bind(core_design.fixed, freer))
    assert freer.units == more
    assert freer.length <= plan.length


@pytest.mark.parametrize("ii", [0, -3])
def test_an_interval_below_one_is_a_sentence(ii: int) -> None:
    with pytest.raises(ScheduleError, match=rf"at least 1 cycle, not {ii}\."):
        schedule(designed("pendulum", 1).binding.schedule.operations, ii=ii, timing=TIMING)
    settings = DesignSettings(ii=ii, plan=Q16, timing=TIMING, states={"q[0]": np.zeros(1)})
    with pytest.raises(ScheduleError, match=rf"at least 1 cycle, not {ii}\."):
        design(traced("pendulum"), settings)


def test_too_few_units_are_a_sentence() -> None:
    plan = designed("two_link", 2).binding.schedule
    kind = next(kind for kind in plan.units if kind.name == "add")
    units = {**plan.units, kind: plan.units[kind] - 1}
    message = rf"{plan.units[kind] - 1} units? of kind add cannot perform all of its operations "
    message += rf"in 2 cycles: use at least {plan.units[kind]}\."
    with pytest.raises(ScheduleError, match=message):
        schedule(plan.operations, ii=2, timing=TIMING, units=units)
    with pytest.raises(ScheduleError, match="0 units of kind"):
        schedule(plan.operations, ii=2, timing=TIMING, units={})


@pytest.mark.parametrize(
    "bad", [{"multiplier_stages": 0}, {"add": 3}, {"add": 0}, {"align": 2}], ids=str
)
def test_latencies_that_no_unit_has_are_a_sentence(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="Unit latencies are out of range") as error:
        Timing(**bad)
    assert f"got {next(iter(bad.values()))}" in str(error.value)


def test_nothing_to_do_is_a_schedule_of_no_cycles() -> None:
    plan = schedule((), ii=4, timing=TIMING)
    assert plan.length == 0 and plan.units == {}
    assert replace(plan, ii=2).schedule_cycles == 0


@pytest.mark.parametrize(
    ("words", "ii", "want"),
    [(21, 8, (3, 7)), (7, 8, (1, 7)), (21, 1, (21, 1)), (1, 32, (1, 1)), (9, 4, (3, 3))],
)
def test_a_record_passes_within_an_interval(words: int, ii: int, want: tuple[int, int]) -> None:
    assert lanes(words, ii) == want


# -- formats by signal -----------------------------------------------------------------------------


@pytest.mark.parametrize("ii", [1, 4, 8])
@pytest.mark.parametrize(("robot", "name"), [("two_link", "minv"), ("iiwa14", "rnea")])
def test_formats_by_signal_take_no_more_units_than_operations_need(
    robot: str, name: str, ii: int
) -> None:
    """Ports shift, so sums of equally many products can share a unit, whatever their formats."""
    real, auto = auto_robot(robot, name, ii)
    timing = timing_for(auto)
    fixed = auto.lower(real)
    plan = schedule(operations(fixed, timing), ii=ii, timing=timing, effort=1)
    check_schedule(fixed, plan)
    check_binding(fixed, bind(fixed, plan))
    used = Counter(operation.kind.label for operation in plan.operations)
    labels = [kind.label for kind in plan.units]
    assert len(labels) == len(set(labels)), "a second kind of the same unit"
    assert {kind.label: count for kind, count in plan.units.items()} == {
        label: _up(count, ii) for label, count in used.items()
    }
    products = sum(count for label, count in op_counts(real).items() if label.startswith("mul"))
    assert products == sum(op.kind.products for op in plan.operations)


def test_formats_by_signal_save_the_stage_for_rounding() -> None:
    _, auto = auto_robot("iiwa14", "rnea", 8)
    timing = timing_for(auto)
    assert [timing.dot(n) for n in (1, 2, 3, 4)] == [TIMING.dot(n) - 1 for n in (1, 2, 3, 4)]
    slower = timing_for(auto, port=1, multiplier_stages=3)
    assert [slower.dot(n) for n in (1, 2, 4)] == [timing.dot(n) + 2 for n in (1, 2, 4)]


@settings(max_examples=40)
@given(graph=graphs(), ii=st.sampled_from([1, 2, 5]), wide=st.booleans(), seed=st.integers(0, 99))
def test_random_graphs_with_formats_by_signal_are_scheduled_rightly(
    graph: Graph, ii: int, wide: bool, seed: int
) -> None:
    real = real_graph(graph, ii)
    auto = auto_formats(real, random_inputs(real, 32, seed=seed))
    products = frozenset(i for i, node in enumerate(real.nodes) if node.op in ("mul", "dot"))
    try:
        fixed = auto.lower(real, products if wide else frozenset())
    except FormatError:
        reject()  # a reciprocal or a sine of words past all tables
    timing = replace(TIMING, rounding=0)
    plan = schedule(operations(fixed, timing), ii=ii, timing=timing, effort=1)
    check_schedule(fixed, plan)
    check_binding(fixed, bind(fixed, plan))
    for operation in plan.operations:
        if operation.kind.name in ("dot", "add"):
            make_unit(operation.kind, timing)


def test_equal_negations_of_which_one_is_read_are_one() -> None:
    """A graph that nobody folded: the negation of a result, and an equal one that a clamp reads."""
    nodes = (
        Node(op="input", args=(), params=("x[0]",)),
        Node(op="neg", args=(0,)),
        Node(op="clamp", args=(1,), params=(-1.0, 1.0)),
        Node(op="neg", args=(0,)),
    )
    fixed = lower(Graph(nodes, (("y[0]", 1), ("y[1]", 3))), Q16)
    plan = schedule(operations(fixed, TIMING), ii=1, timing=TIMING, effort=1)
    check_schedule(fixed, plan)
    check_binding(fixed, bind(fixed, plan))
