"""Schedules of small sums, by hand, and what does not fit a machine."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import pinion.processor.schedule as scheduling
from pinion.graph import Word, parse_graph
from pinion.processor import Machine, ProgramError
from pinion.processor.check import check_program
from pinion.processor.errors import WordsError
from pinion.processor.points import Points, Reach, choose_points
from pinion.processor.program import NOTHING, assemble
from pinion.processor.schedule import INPUT, UNIT, ProgramSchedule, schedules
from pinion.processor.sums import Summand, Sums, Value, sums_of
from tests.processor.small import even, points, program, sums
from tests.processor.test_sums import EVERYTHING


def planned(
    lines: str, *, lanes: int = 1, effect: float = 0.0
) -> tuple[Sums, Points, ProgramSchedule]:
    """Return sums, their points, and the first schedule; products have one slot."""
    subject, machine = sums(lines), Machine(lanes=lanes)
    at = points(subject, machine, effect=effect)
    return subject, at, next(schedules(subject, at, machine))


@pytest.mark.parametrize(
    ("lines", "start", "cycles"),
    [
        # A word that arrives in cycle k is read in k + 1, and a result written in 11 more.
        ("%3 = mul %0 %1\nout y[0] = %3", 2, 14),
        ("%3 = mul %0 %0\nout y[0] = %3", 1, 13),
        ("%3 = mul %2 %1\nout y[0] = %3", 3, 15),
        # Constants are there from the start.
        ("%3 = const [0.75]\nout y[0] = %3", 0, 12),
        # Slots are in the order in which their words arrive.
        ("%3 = dot %2 %2 %0 %0 [1, 1]\nout y[0] = %3", 2, 15),
        ("%3 = dot %0 %0 %0 %0 %2 %2 [1, 1, 1]\nout y[0] = %3", 1, 15),
    ],
)
def test_a_sum_starts_as_soon_as_its_operands_allow(lines: str, start: int, cycles: int) -> None:
    subject, _, plan = planned(lines)
    number = subject.results[0][1]
    assert (plan.starts[number], plan.lanes[number], plan.cycles) == (start, 0, cycles)
    assert [(w.cycle, w.source, w.output) for w in plan.writes if w.to is None] == [
        (cycles - 1, 0, 0)
    ]


def test_a_program_lasts_until_the_last_word_of_its_request() -> None:
    subject = sums("%3 = const [0.75]\nout y[0] = %3")
    longer = replace(subject, record=subject.record * 5)
    plan = next(schedules(longer, points(longer, Machine(lanes=1)), Machine(lanes=1)))
    assert plan.cycles == 15
    assert not [write for write in plan.writes if write.source == INPUT]


def test_sums_are_shared_among_lanes() -> None:
    lines = (
        "%3 = mul %0 %0\n%4 = mul %0 %1\n%5 = mul %4 %4\n"
        "out y[0] = %3\nout y[1] = %4\nout y[2] = %5\n"
    )
    subject, _, plan = planned(lines)
    square, product, last = (number for _, number in subject.results)
    assert [plan.starts[n] for n in (square, product, last)] == [1, 2, 14] and plan.cycles == 26
    _, _, plan = planned(lines, lanes=2)
    assert [plan.starts[n] for n in (square, product, last)] == [1, 2, 14]
    assert plan.lanes[square] != plan.lanes[product]
    assert {plan.lanes[square], plan.lanes[product]} == {0, 1}


def test_results_of_a_cycle_are_written_one_after_the_other() -> None:
    """Each of two lanes has a result in cycle 12, and the record takes a word in a cycle."""
    subject, _, plan = planned(
        "%3 = const [0.75]\n%4 = const [0.625]\nout y[0] = %3\nout y[1] = %4", lanes=2
    )
    writes = sorted((write.cycle, write.output) for write in plan.writes)
    assert [cycle for cycle, _ in writes] == [11, 12] and plan.cycles == 13
    assert sorted(plan.starts[number] for _, number in subject.results) == [0, 0]


def test_a_result_stays_until_it_is_written() -> None:
    """The record takes three words, one in a cycle, of a lane that has one in every cycle."""
    lines = "".join(f"%{k} = const [{k}.5]\n" for k in range(3, 9))
    lines += "".join(f"out y[{k - 3}] = %{k}\n" for k in range(3, 9))
    subject, at, plan = planned(lines, lanes=3)
    assert plan.cycles == 17  # six results, the first in cycle 11
    machine = Machine(lanes=3)
    check_program(assemble(subject, at, plan, machine), subject, at)


def test_reciprocals_follow_each_other_after_four_cycles() -> None:
    lines = "".join(f"%{k + 3} = reciprocal %{k}\nout y[{k}] = %{k + 3}\n" for k in range(3))
    subject, at, plan = planned(lines, lanes=3)
    cycles = sorted(plan.inverses.values())
    assert cycles == [12, 16, 20] and plan.cycles == 20 + 17 + 1
    assert {plan.lanes[number] for number in plan.inverses} == {UNIT}
    check_program(assemble(subject, at, plan, Machine(lanes=3)), subject, at)


def checked(lines: str, lanes: int) -> ProgramSchedule:
    """Return the first schedule, after a check of its program."""
    subject, at, plan = planned(lines, lanes=lanes)
    check_program(assemble(subject, at, plan, Machine(lanes=lanes)), subject, at)
    return plan


def test_an_operand_of_the_unit_stays_until_it_is_taken() -> None:
    """One lane copies all three words before the second is taken."""
    lines = "".join(f"%{k + 3} = reciprocal %{k}\nout y[{k}] = %{k + 3}\n" for k in range(3))
    assert sorted(checked(lines, 1).inverses.values()) == [12, 16, 20]


def test_a_reciprocal_stays_until_it_is_written_ten_times() -> None:
    lines = "%3 = reciprocal %0\n%4 = reciprocal %1\n"
    lines += "".join(f"out y[{k}] = %3\n" for k in range(10)) + "out y[10] = %4\n"
    plan = checked(lines, 2)
    # The first is written in cycles 29 to 38.
    assert sorted(plan.inverses.values()) == [12, 39 - 17]


def test_results_stay_until_the_lane_that_reads_them_has_them() -> None:
    """Six products are factors of one sum, whose lane takes one in a cycle."""
    lines = "".join(f"%{k} = const [{k}.5]\n" for k in range(3, 10))
    lines += "".join(f"%{k + 6} = mul %3 %{k}\n" for k in range(4, 10))
    lines += "%16 = dot %10 %11 %12 %13 %14 %15 [1, 1, 1]\nout y[0] = %16\n"
    plan = checked(lines, 3)
    inside = sorted(write.cycle for write in plan.writes if write.to is not None)
    assert inside == [11, 12, 13, 14, 15, 16] and plan.cycles == 29


def test_words_of_the_request_and_results_take_turns() -> None:
    """In cycle 12 a word arrives, and the square of the first one is there."""
    graph = parse_graph(
        '%0 = input ["x[0]"]\n%1 = input ["x[12]"]\n%2 = mul %0 %0\n%3 = mul %2 %1\nout y[0] = %3\n'
    )
    subject = sums_of(graph, [Word.of(f"x[{k}]") for k in range(13)])
    machine = Machine(lanes=1)
    at = choose_points(
        subject,
        Reach(largest=(1.0,) * 4, smallest=(1.0,) * 4),
        machine,
        effects=even(subject, 0.0),
        threshold=1.0,
    )
    plan = next(schedules(subject, at, machine))
    assert sorted(w.cycle for w in plan.writes if w.to is not None) == [0, 12, 13]
    assert plan.cycles == 26
    check_program(assemble(subject, at, plan, machine), subject, at)


def test_constants_are_read_before_words_arrive() -> None:
    plan = checked("%3 = const [0.75]\n%4 = mul %0 %0\n%5 = add %4 %3\nout y[0] = %5", 1)
    assert max(plan.starts) == 0 and plan.cycles == 13


def test_what_is_too_small_for_a_slot_is_not_awaited() -> None:
    """The square of x is a factor of a term below the guard bits, and of another sum."""
    values = (
        Value(word=Word.of("x")),
        Value(terms=(Summand(1, 0, 0),)),
        Value(terms=(Summand(1, 0, 0, 1), Summand(1, 1, 1, -70))),
        Value(terms=(Summand(1, 1, 0),)),
    )
    names = [Word.of(f"y[{k}]") for k in range(2)]
    subject = Sums((Word.of("x"),), values, tuple(zip(names, (2, 3), strict=True)))
    reach = Reach(largest=(1.0,) * 4, smallest=(1.0,) * 4)
    machine = Machine(lanes=1)
    at = choose_points(subject, reach, machine, effects=even(subject, 0.0), threshold=1.0)
    plan = next(schedules(subject, at, machine))
    assert sorted(plan.starts[1:3]) == [1, 2] and plan.starts[3] == plan.starts[1] + 12
    check_program(assemble(subject, at, plan, machine), subject, at)


def test_ranks_are_ways_to_a_result_or_the_function_s_order() -> None:
    """One schedule of four is in the function's order; the first of each has no moves."""
    subject = sums("%3 = mul %0 %1\n%4 = reciprocal %3\n%5 = dot %2 %2 %2 %4 [1, 1]\nout y[0] = %5")
    machine = Machine(lanes=2)
    at = points(subject, machine, effect=0.0)
    # A sum takes 11 cycles and one a slot, a reciprocal 17.
    product, inverse, last = (n for n, value in enumerate(subject.values) if value.operands)
    ways = dict.fromkeys((0, 1, product), -12.0 - 17.0 - 13.0)
    ways |= {inverse: -17.0 - 13.0, last: -13.0, 2: -13.0}
    ranks = [scheduling._Lister(subject, at, machine, turn=turn).rank for turn in range(12)]
    assert ranks[0] == [ways[n] for n in range(6)] and ranks[1] == [float(n) for n in range(6)]
    moves = np.array(
        [np.subtract(rank, ranks[turn % 4 == 1]) for turn, rank in enumerate(ranks[2:], 2)]
    )
    assert np.abs(moves).max() <= 12.0 and moves.min() < -6.0 and moves.max() > 6.0
    assert len({tuple(rank) for rank in ranks}) == 12


@pytest.mark.parametrize("lanes", [1, 2, 3, 8])
def test_every_schedule_computes_the_sums(lanes: int) -> None:
    subject, machine = sums(EVERYTHING), Machine(lanes=lanes)
    at = points(subject, machine)
    plans = list(schedules(subject, at, machine))
    assert len(plans) == 12
    for plan in plans:
        check_program(assemble(subject, at, plan, machine), subject, at)
    slots = sum(map(len, at.slots))
    assert all(plan.cycles > slots / lanes for plan in plans)
    cycles = [plan.cycles for plan in plans]
    # Of one lane they hardly differ, and the first is taken as it is.
    if lanes > 1:
        assert cycles == sorted(cycles)


@pytest.mark.parametrize(
    ("lanes", "share", "count"),
    [(2, 0, 2), (2, 2, 2), (2, 5, 5), (2, 11, 11), (2, 40, 12), (1, 5, 1)],
)
def test_long_functions_have_fewer_schedules_at_first(
    lanes: int, share: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject, machine = sums("%3 = mul %0 %1\nout y[0] = %3"), Machine(lanes=lanes)
    at = points(subject, machine)
    (slots,) = (len(of_value) for of_value in at.slots if of_value)
    turns: list[int] = []
    original = scheduling._tried

    def counted(*arguments: object, turn: int = -1) -> ProgramSchedule:
        turns.append(len(turns))
        return original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(scheduling, "_tried", counted)
    monkeypatch.setattr(scheduling, "MOST_SLOTS", share * slots + slots - 1)
    rest = schedules(subject, at, machine)
    next(rest)
    assert len(turns) == count
    assert len(list(rest)) == 11 and len(turns) == 12


def test_a_word_of_memory_is_free_after_its_last_read() -> None:
    subject, at, plan = planned(
        "%3 = mul %0 %0\n%4 = mul %1 %1\n%5 = mul %2 %2\n"
        "out y[0] = %3\nout y[1] = %4\nout y[2] = %5\n"
    )
    result = assemble(subject, at, plan, Machine(lanes=1))
    check_program(result, subject, at)
    # x[0] is read in row 1, in which x[1] is written; x[2] can have its word in row 2.
    assert result.lanes["source"][:4, 0].tolist() == [INPUT] * 3 + [NOTHING]
    assert result.lanes["to"][:3, 0].tolist() == [0, 1, 0] and result.words == 2


def test_words_count_constants_and_what_is_written() -> None:
    subject, at, plan = planned("%3 = const [0.75]\n%4 = mul %0 %3\nout y[0] = %4")
    result = assemble(subject, at, plan, Machine(lanes=1))
    assert result.words == 2 and list(result.constants[0]) == [0]
    assert result.lanes["to"][0, 0] == 1
    subject, at, plan = planned("%3 = const [0.75]\nout y[0] = %3")
    assert assemble(subject, at, plan, Machine(lanes=1)).words == 2
    subject, at, plan = planned("%3 = mul %0 %0\nout y[0] = %3", lanes=3)
    assert assemble(subject, at, plan, Machine(lanes=3)).words == 1


MORE, CORE = "use more lanes, or build a core", "build a core"


@pytest.mark.parametrize(
    ("lanes", "rows", "advice"),
    [
        *((1, 8192, MORE), (3, 8192, MORE), (4, 8192, CORE), (4, 4097, CORE), (4, 4096, MORE)),
        *((5, 4096, MORE), (7, 4096, MORE), (8, 4096, CORE)),
    ],
)
def test_a_program_of_too_many_rows(lanes: int, rows: int, advice: str) -> None:
    """Machines of more than four lanes have 4096 rows."""
    subject, at, plan = planned("%3 = mul %0 %1\nout y[0] = %3", lanes=lanes)
    machine = Machine(lanes=lanes, rows=rows)
    assert assemble(subject, at, replace(plan, cycles=rows), machine).cycles == rows
    with pytest.raises(
        ProgramError,
        match=rf"^The program has {rows + 2} rows, 2 more than the processor's {rows}: {advice}\.$",
    ):
        assemble(subject, at, replace(plan, cycles=rows + 2), machine)
    with pytest.raises(ProgramError, match="1 more than"):
        assemble(subject, at, replace(plan, cycles=rows + 1), machine)


@pytest.mark.parametrize(("lanes", "advice"), [(1, MORE), (4, MORE), (7, MORE), (8, CORE)])
def test_a_program_of_too_many_words(lanes: int, advice: str) -> None:
    subject, at, plan = planned("%3 = mul %0 %1\nout y[0] = %3", lanes=lanes)
    assert assemble(subject, at, plan, Machine(lanes=lanes, words=2)).words == 2
    with pytest.raises(
        WordsError,
        match=r"^Lane 0 of the processor has 1 words, but the program needs more: "
        rf"{advice}\.$",
    ):
        assemble(subject, at, plan, Machine(lanes=lanes, words=1))


@pytest.mark.parametrize(("frac", "right"), [(-28, False), (-27, True), (100, True), (101, False)])
@pytest.mark.parametrize(("number", "word"), [(1, "x[1]"), (3, "y[0]")])
def test_words_are_converted_within_limits(number: int, word: str, frac: int, right: bool) -> None:
    subject, at, plan = planned("%3 = mul %0 %1\nout y[0] = %3")
    fracs = tuple(frac if k == number else f for k, f in enumerate(at.fracs))
    moved = replace(at, fracs=fracs)
    if right:
        result = assemble(subject, moved, plan, Machine(lanes=1))
        formats = {str(name): fmt.frac for name, fmt in (*result.inputs, *result.outputs)}
        assert formats[word] == frac and formats["x[2]"] == 32
        return
    sentence = (
        f"The word {word} would have {frac} fraction bits, but the processor converts only words "
        "with -27 to 100: build a core."
    )
    with pytest.raises(ProgramError, match=f"^{re.escape(sentence)}$"):
        assemble(subject, moved, plan, Machine(lanes=1))


def test_a_program_has_at_most_4096_results() -> None:
    subject, at, plan = planned("%3 = mul %0 %1\nout y[0] = %3")
    most = replace(subject, results=subject.results * 4096)
    assert len(assemble(most, at, plan, Machine(lanes=1)).outputs) == 4096
    with pytest.raises(
        ProgramError,
        match=r"^The function has 4097 result words, but a program has at most 4096: build a "
        r"core\.$",
    ):
        assemble(replace(subject, results=subject.results * 4097), at, plan, Machine(lanes=1))


def test_a_reciprocal_has_its_operand_and_both_points() -> None:
    subject = sums("%3 = mul %0 %0\n%4 = reciprocal %3\nout y[0] = %4")
    machine = Machine(lanes=1)
    at = points(subject, machine)
    team = program(subject, at, machine).team
    (row,) = np.flatnonzero(team["operand"] != NOTHING)
    number = subject.results[0][1]
    operand = subject.values[number].inverse
    assert operand is not None
    assert team[row]["operand"] == 0
    assert team[row]["points"] == at.fracs[number] + at.fracs[operand]
    assert not np.delete(team["points"], row).any()
