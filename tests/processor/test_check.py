"""The checker of programs: what it refuses, with its sentence, and what it accepts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from pinion.fixedpoint import Format
from pinion.graph import Word
from pinion.processor.check import ProgramCheckError, check_program
from pinion.processor.machine import Finish, Half, Machine
from pinion.processor.points import Points, Reach, choose_points
from pinion.processor.program import NOTHING, Program, assemble
from pinion.processor.schedule import INPUT, UNIT, schedules
from pinion.processor.sums import Summand, Sums, Value
from tests.processor.small import even, points, program, sums

MACHINE = Machine(lanes=2)


@cache
def reference() -> tuple[Program, Sums, Points]:
    """Return a program of 59 rows, with its sums and points.

    ===  ==================================================================================
    row  contents
    ===  ==================================================================================
    0    lane 0: r2 <- x[0]; from the start it has the constants 0.7 in r0 and 1/2 in r1
    1    lane 0: r3 <- x[1]
    2    lane 0: begins with r2 * r3, high bits; r4 <- x[2]
    3    lane 0: r2 * r3, low bits
    4    lane 0: r4 * r1, rounded, ends
    15   lane 1: r0 <- lane 0; y[1] <- lane 0
    16   lane 1: begins with r0 * r0, high bits
    17   lane 1: r0 * r0, low bits, ends
    28   lane 0: begins with r2 * r1, rounded; r3 <- lane 1
    29   lane 0: r3 * r0, high bits
    30   lane 0: r3 * r0, low bits, ends
    41   reciprocal of lane 0
    58   y[0] <- reciprocal
    ===  ==================================================================================
    """
    subject = sums(
        "%3 = mul %0 %1\n%4 = sum %3 %2 [1, 1]\n%5 = mul %4 %4\n%6 = const [0.7]\n"
        "%7 = dot %5 %6 %0 [1, 1]\n%8 = reciprocal %7\nout y[0] = %8\nout y[1] = %4\n"
    )
    at = points(subject, MACHINE)
    return program(subject, at, MACHINE), subject, at


def changed(base: Program, change: Callable[[np.ndarray, np.ndarray], None]) -> Program:
    lanes, team = base.lanes.copy(), base.team.copy()
    change(lanes, team)
    return replace(base, lanes=lanes, team=team)


def refused(
    candidate: Program, sentence: str, subject: Sums | None = None, at: Points | None = None
) -> None:
    _, of_reference, points_of_reference = reference()
    with pytest.raises(ProgramCheckError, match=f"^{re.escape(sentence)}$"):
        check_program(candidate, subject or of_reference, at or points_of_reference)


def test_the_program_is_the_one_of_the_table() -> None:
    original, subject, at = reference()
    assert original.cycles == 59 and original.slots == 8 and original.words == 5
    rows, lanes = np.nonzero(original.lanes["half"])
    assert list(zip(rows.tolist(), lanes.tolist(), strict=True)) == [
        *((2, 0), (3, 0), (4, 0), (16, 1), (17, 1), (28, 0), (29, 0), (30, 0))
    ]
    rows, lanes = np.nonzero(original.lanes["source"] != NOTHING)
    writes = original.lanes[rows, lanes]
    assert list(zip(rows, lanes, writes["to"], writes["source"], strict=True)) == [
        (0, 0, 2, INPUT),
        (1, 0, 3, INPUT),
        (2, 0, 4, INPUT),
        (15, 1, 0, 0),
        (28, 0, 3, 1),
    ]
    assert [(row, *original.team[row]) for row in (15, 41, 58)] == [
        (15, 1, 0, NOTHING, 0),
        (41, -1, NOTHING, 0, 57),
        (58, 0, UNIT, NOTHING, 0),
    ]
    assert sorted(original.constants[0]) == [0, 1] and not original.constants[1]
    check_program(original, subject, at)


NO_SUM = "ends a sum that is not in the function."
BEGINS = "begins a sum within another, or continues one that has not begun."
WRONG_SLOTS = {
    "shift up": (2, 0, "shift", 58, "Row 2, lane 0, shifts by 58, outside -6 to 57."),
    "shift down": (2, 0, "shift", -7, "Row 2, lane 0, shifts by -7, outside -6 to 57."),
    "another shift": (4, 0, "shift", 6, f"Row 4, lane 0, {NO_SUM}"),
    "largest shift": (4, 0, "shift", 57, f"Row 4, lane 0, {NO_SUM}"),
    "smallest shift": (4, 0, "shift", -6, f"Row 4, lane 0, {NO_SUM}"),
    "not begun": (2, 0, "first", False, f"Row 2, lane 0, {BEGINS}"),
    "begun twice": (3, 0, "first", True, f"Row 3, lane 0, {BEGINS}"),
    "no end": (4, 0, "last", False, "Row 15 reads source 0, which has no result."),
    "an early end": (3, 0, "last", True, f"Row 3, lane 0, {NO_SUM}"),
    "word as it is written": (
        *(2, 0, "a", 4),
        "Row 2, lane 0, reads word 4, which is written in this cycle.",
    ),
    "no word in A": (2, 0, "a", 5, "Row 2, lane 0, reads word 5, which has not been written."),
    "no word in B": (2, 0, "b", 5, "Row 2, lane 0, reads word 5, which has not been written."),
    "another word": (4, 0, "a", 3, f"Row 4, lane 0, {NO_SUM}"),
    "another sign": (4, 0, "negate", True, f"Row 4, lane 0, {NO_SUM}"),
    "another finish": (4, 0, "finish", Finish.WRAP, f"Row 4, lane 0, {NO_SUM}"),
    "rounded high bits": (
        *(2, 0, "half", Half.ROUNDED),
        "Row 4, lane 0, ends a sum with low bits but not the high ones.",
    ),
    "no low bits": (
        *(3, 0, "half", Half.IDLE),
        "Row 4, lane 0, ends a sum with high bits but not the low ones.",
    ),
    "low bits of another sign": (
        *(3, 0, "negate", True),
        "Row 4, lane 0, ends a sum with low bits but not the high ones.",
    ),
    "no such word": (
        *(15, 1, "to", 512),
        "Row 15 writes word 512 of lane 1, which has 512 words.",
    ),
    "a negative word": (15, 1, "to", -1, "Row 15 writes word -1 of lane 1, which has 512 words."),
    "last word": (15, 1, "to", 511, "Row 16, lane 1, reads word 0, which has not been written."),
    "first constant": (1, 0, "to", 0, "Row 1 overwrites a constant of lane 0."),
    "second constant": (28, 0, "to", 1, "Row 28, lane 0, reads word 1, which is written in this "
                        "cycle."),
    "no result yet": (15, 1, "source", 1, "Row 15 reads source 1, which has no result."),
    "no reciprocal yet": (15, 1, "source", UNIT, "Row 15 reads source -1, which has no result."),
    "no more request": (28, 0, "source", INPUT, "Row 28 reads source -3, which has no result."),
    "no such source": (15, 1, "source", 2, "Row 15 reads source 2, which has no result."),
    "another source": (28, 0, "source", 0, f"Row 30, lane 0, {NO_SUM}"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_SLOTS)
def test_a_wrong_field_of_a_lane_is_refused(name: str) -> None:
    original, _, _ = reference()
    row, lane, field, value, sentence = WRONG_SLOTS[name]

    def change(lanes: np.ndarray, team: np.ndarray) -> None:
        assert lanes[row, lane][field] != value
        lanes[row, lane][field] = value

    refused(changed(original, change), sentence)


NO_RECIPROCAL = "Row 41 starts a reciprocal that is not in the function."
WRONG_TEAM = {
    "no result": (15, {"output": -1}, "The result y[1] is missing or has the wrong value."),
    "another result": (15, {"output": 0}, "Row 58 writes result 0 a second time."),
    "twice": (
        *(16, {"output": 1, "output_source": 0}),
        "Row 16 writes result 1 a second time.",
    ),
    "another source": (
        *(58, {"output_source": 1}),
        "The result y[0] is missing or has the wrong value.",
    ),
    "early": (
        *(14, {"output": 1, "output_source": 0}),
        "Row 14 reads source 0, which has no result.",
    ),
    "early reciprocal": (
        *(57, {"output": 0, "output_source": UNIT}),
        "Row 57 reads source -1, which has no result.",
    ),
    "another operand": (41, {"operand": 1}, NO_RECIPROCAL),
    "another point": (41, {"points": 56}, NO_RECIPROCAL),
    "an early operand": (40, {"operand": 0, "points": 57}, "Row 40 starts a reciprocal that is "
                         "not in the function."),
    "no operand": (41, {"operand": NOTHING}, "Row 58 reads source -1, which has no result."),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_TEAM)
def test_a_wrong_field_of_the_team_is_refused(name: str) -> None:
    original, _, _ = reference()
    row, fields, sentence = WRONG_TEAM[name]

    def change(lanes: np.ndarray, team: np.ndarray) -> None:
        for field, value in fields.items():
            assert team[row][field] != value
            team[row][field] = value

    refused(changed(original, change), sentence)


def test_a_constant_that_is_overwritten_or_wrong_is_refused() -> None:
    original, _, _ = reference()

    def change(lanes: np.ndarray, team: np.ndarray) -> None:
        lanes[31, 0]["source"], lanes[31, 0]["to"] = 1, 1

    refused(changed(original, change), "Row 31 overwrites a constant of lane 0.")
    integer = original.constants[0][0]
    constants = ({**original.constants[0], 0: integer + 1}, {})
    refused(replace(original, constants=constants), f"The function has no constant {integer + 1}.")
    swapped = replace(original, constants=({0: original.constants[0][1], 1: integer}, {}))
    refused(swapped, f"Row 4, lane 0, {NO_SUM}")


def test_a_program_that_ends_early_is_refused() -> None:
    original, _, _ = reference()

    def first(count: int) -> Program:
        return replace(original, lanes=original.lanes[:count], team=original.team[:count])

    refused(first(2), "The program ends before the last word of its request.")
    for count in (3, 4):
        refused(first(count), "The program ends before the sum in lane 0 is complete.")
    refused(first(17), "The program ends before the sum in lane 1 is complete.")
    refused(first(58), "The result y[0] is missing or has the wrong value.")


@pytest.mark.parametrize("step", [-1, 1])
def test_a_wrong_binary_point_of_a_word_is_refused(step: int) -> None:
    original, _, _ = reference()

    def moved(words: tuple[tuple[Word, Format], ...], at: int) -> tuple[tuple[Word, Format], ...]:
        word, fmt = words[at]
        return (*words[:at], (word, Format(fmt.width, fmt.frac + step)), *words[at + 1 :])

    def message(subject: str, words: tuple[tuple[Word, Format], ...], at: int) -> str:
        frac = words[at][1].frac
        return f"The {subject}[{at}] has {frac + step} fractional bits instead of {frac}."

    for at in range(3):
        refused(
            replace(original, inputs=moved(original.inputs, at)),
            message("input x", original.inputs, at),
        )
    for at in range(2):
        refused(
            replace(original, outputs=moved(original.outputs, at)),
            message("result y", original.outputs, at),
        )


def test_a_word_that_no_value_reads_has_no_value() -> None:
    subject = sums("%3 = mul %0 %2\nout y[0] = %3")
    values = subject.values[:1] + subject.values[2:3] + (Value(terms=(Summand(1, 0, 1),)),)
    subject = Sums(subject.record, values, ((Word.of("y[0]"), 2),))
    at = points(subject, MACHINE)
    right = program(subject, at, MACHINE)
    check_program(right, subject, at)
    assert [fmt.frac for _, fmt in right.inputs] == [32, -27, 32]

    def change(lanes: np.ndarray, team: np.ndarray) -> None:
        lanes[1, 1]["source"] = INPUT

    wrong = changed(right, change)
    refused(wrong, "Row 1 reads source -3, which has no result.", subject, at)


@pytest.mark.parametrize(
    ("lines", "same"),
    [
        ("%3 = reciprocal %0\n%4 = reciprocal %0\nout y[0] = %3\nout y[1] = %4\n", True),
        ("%3 = reciprocal %0\n%4 = reciprocal %1\nout y[0] = %3\nout y[1] = %4\n", False),
        ("out y[0] = %0\nout y[1] = %0\n", True),
        ("out y[0] = %0\nout y[1] = %1\n", False),
        ("%3 = neg %0\nout y[0] = %0\nout y[1] = %3\n", False),
    ],
)
def test_equal_values_may_take_each_other_s_place(lines: str, same: bool) -> None:
    subject = sums(lines)
    at = points(subject, MACHINE)
    right = program(subject, at, MACHINE)
    check_program(right, subject, at)

    def change(lanes: np.ndarray, team: np.ndarray) -> None:
        rows = team["output"] >= 0
        team["output"][rows] = 1 - team["output"][rows]

    other = changed(right, change)
    if same:
        check_program(other, subject, at)
    else:
        refused(other, "The result y[0] is missing or has the wrong value.", subject, at)


def test_equal_integers_at_two_binary_points_are_one_constant() -> None:
    """1/2 and 1/4 are both 2^33; a product with either may read the same word."""
    values = (
        Value(word=Word.of("x")),
        Value(constant=0.5),
        Value(constant=0.25),
        Value(terms=(Summand(1, 0, 1),)),
        Value(terms=(Summand(1, 3, 2),)),
        Value(terms=(Summand(1, 2, 0), Summand(1, 3, 1))),
    )
    names = [Word.of(f"y[{k}]") for k in range(2)]
    subject = Sums((Word.of("x"),), values, tuple(zip(names, (4, 5), strict=True)))
    reach = Reach(largest=(1.0, 0.5, 0.25, 0.5, 0.125, 0.5), smallest=(1.0,) * 6)
    for lanes in (1, 2):
        machine = Machine(lanes=lanes)
        at = choose_points(subject, reach, machine, effects=even(subject, 0.0), threshold=1.0)
        assert at.fracs[1:3] == (34, 35)
        check_program(program(subject, at, machine), subject, at)


@pytest.mark.parametrize(
    ("power", "count"), [(-36, 4), (-37, 4), (-38, 3), (-53, 3), (-54, 3), (-55, 2), (-56, 2)]
)
def test_slots_below_the_guard_bits_may_be_missing_and_no_others(power: int, count: int) -> None:
    values = (
        Value(word=Word.of("x")),
        Value(terms=(Summand(1, 0, 0), Summand(1, 0, 0, power))),
    )
    subject = Sums((Word.of("x"),), values, ((Word.of("y"), 1),))
    reach = Reach(largest=(1.0, 1.0), smallest=(1.0, 1.0))
    machine = Machine(lanes=1)
    at = choose_points(subject, reach, machine, effects=even(subject, 1.0), threshold=0.0)
    right = program(subject, at, machine)
    check_program(right, subject, at)
    assert right.slots == count
    # Without its last slot, which is the last of the second product where there is one.
    shorter = replace(at, slots=((), at.slots[1][:-1]))
    plan = next(schedules(subject, shorter, machine))
    wrong = assemble(subject, shorter, plan, machine)
    end = plan.starts[1] + count - 2
    kind = NO_SUM if count == 3 else "ends a sum with high bits but not the low ones."
    refused(wrong, f"Row {end}, lane 0, {kind}", subject, at)
