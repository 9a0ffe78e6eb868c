"""The compiler's search for one-slot products, and that it checks its own programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pinion.api as pinion
import pinion.processor.compile as compiling
from pinion.base.progress import Progress
from pinion.functions import DISTRIBUTIONS
from pinion.processor import CompiledProgram, Machine, ProgramError, compile_program
from pinion.processor.check import ProgramCheckError
from pinion.processor.errors import WordsError
from pinion.processor.points import Points
from pinion.robot import NO_ROBOT


@pinion.function(
    inputs={"x": pinion.array(2, sampling=pinion.uniform(0.5, 1.0))},
    outputs={"y": pinion.array(2)},
)
def products(x: Any) -> list[Any]:
    """Compute a product of three numbers and a sum of two products."""
    a, b = x
    return [a * b * b, a * a - 0.7 * b]


def compiled(precision: str = "fast", **changes: Any) -> CompiledProgram:
    return compile_program(NO_ROBOT, products, Machine(lanes=1), precision=precision, **changes)


def search(
    monkeypatch: pytest.MonkeyPatch,
    error: Callable[[float], float],
    keeps: Callable[[float], bool] = lambda threshold: True,
) -> tuple[list[float], list[float], tuple[Any, float]]:
    """Run the search with points that are the logarithm of their threshold.

    Returns
    -------
    The logarithms, the shares of the progress, and the result.
    """
    logarithms: list[float] = []
    shares: list[float] = []

    def choose_points(*_: object, threshold: float, **__: object) -> float:
        logarithms.append(float(np.log2(threshold)))
        return logarithms[-1]

    monkeypatch.setattr(compiling, "choose_points", choose_points)
    nothing: Any = None
    result = compiling._fewest_slots(
        *(nothing, nothing, nothing, nothing),
        error,  # type: ignore[arg-type]
        keeps,  # type: ignore[arg-type]
        Progress(lambda line: None, shares.append),
    )
    return logarithms, shares, result


@pytest.mark.parametrize("limit", [-26.0, -20.0, -12.3])
def test_the_search_comes_close_to_the_largest_threshold(
    limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def error(threshold: float) -> float:
        return 5e-4 if threshold <= limit else 5.001e-4

    logarithms, shares, (points, reached) = search(monkeypatch, error)
    assert len(logarithms) == 9 and logarithms[:2] == [-26.0, -19.0]
    assert limit - 14.0 / 2**8 <= points <= limit and reached == 5e-4
    assert shares == [(step + 1) / 9 for step in range(9)]


def test_thresholds_are_lowered_until_all_states_keep_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def error(threshold: float) -> float:
        return 1e-5 * -threshold

    asked_thresholds: list[float] = []

    def keeps(threshold: float) -> bool:
        asked_thresholds.append(threshold)
        return len(asked_thresholds) == 4

    logarithms, _, (points, reached) = search(monkeypatch, error, keeps)
    best = asked_thresholds[0]
    assert (
        asked_thresholds
        == [best, best - 0.5, best - 1.0, best - 1.5]
        == [
            best,
            *logarithms[-3:],
        ]
    )
    assert points == best - 1.5 and reached == error(best - 1.5)


def test_a_search_without_a_solution_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProgramError) as caught:
        search(monkeypatch, lambda threshold: 5.1e-4)
    assert str(caught.value) == (
        "With two slots for nearly every product, the largest relative error is still 0.00051, "
        "above 0.0005: use the precision 'fine'."
    )
    lowest: list[float] = []

    def keeps(threshold: float) -> bool:
        lowest.append(threshold)
        return False

    with pytest.raises(ProgramError) as caught:
        search(monkeypatch, lambda threshold: 1e-4 if threshold <= -25.0 else 1.0, keeps)
    assert str(caught.value) == (
        "With two slots for nearly every product, some of the 10,000 states still have a relative "
        "error above 0.0008: use the precision 'fine'."
    )
    assert lowest[-2] > -26.0 >= lowest[-1] > -26.5
    lowest.clear()
    with pytest.raises(ProgramError, match="some of the 10,000 states"):
        search(monkeypatch, lambda threshold: 1e-4 if threshold == -26.0 else 1.0, keeps)
    assert lowest == [-26.0]


@pytest.mark.parametrize("error", [8.001e-4, float("nan"), float("inf")])
def test_a_state_that_failed_is_looked_at_first_with_the_next_points(
    error: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 30 states to be checked one fails, one is at the limit, and one has a flag."""
    original = compiling.program_errors
    seen_states: list[np.ndarray] = []

    def program_errors(*arguments: Any) -> tuple[np.ndarray, np.ndarray]:
        errors, flags = original(*arguments)
        columns = arguments[4]
        if len(errors) == compiling.STATES:
            return errors, flags
        seen_states.append(columns["x[0]"])
        if len(seen_states) == 1:
            errors[7], errors[8], errors[9], flags[9] = error, 8e-4, 1.0, True
        return errors, flags

    monkeypatch.setattr(compiling, "CHECKED", 30)
    monkeypatch.setattr(compiling, "program_errors", program_errors)
    program = compiled()
    assert [len(states) for states in seen_states] == [30, 1, 30]
    assert seen_states[1].tolist() == [seen_states[0][7]]
    assert np.array_equal(seen_states[0], seen_states[2])
    assert 0.0 < program.error <= 5e-4


def test_states_that_are_all_flagged_keep_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    original = compiling.program_errors

    def program_errors(*arguments: Any) -> tuple[np.ndarray, np.ndarray]:
        errors, flags = original(*arguments)
        return errors, flags | (len(flags) != compiling.STATES)

    monkeypatch.setattr(compiling, "CHECKED", 30)
    monkeypatch.setattr(compiling, "program_errors", program_errors)
    with pytest.raises(ProgramError, match="some of the 30 states still have a relative error"):
        compiled()


def test_the_checked_states_are_not_those_of_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    original = compiling.state_columns
    drawn_seeds: list[tuple[str, int, int]] = []

    def state_columns(*arguments: Any) -> dict[str, np.ndarray]:
        drawn_seeds.append(arguments[2:])
        return original(*arguments)

    monkeypatch.setattr(compiling, "state_columns", state_columns)
    compiled()
    seeds: dict[int, list[tuple[str, int]]] = {}
    for name, count, seed in drawn_seeds:
        seeds.setdefault(count, []).append((name, seed))
    assert list(seeds) == [8000, 1000, 10_000]
    for count in (8000, 1000):
        assert [name for name, _ in seeds[count]] == list(DISTRIBUTIONS)
        assert len({seed for _, seed in seeds[count]}) == len(DISTRIBUTIONS)
    ((name, seed),) = seeds[10_000]
    assert name == "reference" and seed not in {s for k in (8000, 1000) for _, s in seeds[k]}


def test_a_state_with_a_flag_is_no_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    original = compiling.program_errors

    def program_errors(*arguments: Any) -> tuple[np.ndarray, np.ndarray]:
        errors, flags = original(*arguments)
        flags[3] = True
        return errors, flags

    monkeypatch.setattr(compiling, "program_errors", program_errors)
    with pytest.raises(ProgramError, match="the largest relative error is still inf"):
        compiled()
    assert compiled("fine").error == float("inf")


@pytest.mark.parametrize("precision", ["fine", "fast"])
def test_a_compiler_checks_its_own_program(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = compiling.assemble

    def assemble(*arguments: Any) -> Any:
        program = original(*arguments)
        row, lane = np.argwhere(program.lanes["half"])[0]
        program.lanes[row, lane]["negate"] ^= True
        return program

    monkeypatch.setattr(compiling, "assemble", assemble)
    with pytest.raises(ProgramCheckError, match=r"ends a sum (that is not|with low bits)"):
        compiled(precision)


def test_the_first_schedule_that_has_the_words_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    original = compiling.assemble
    plans: list[Any] = []

    def assemble(sums: Any, points: Points, plan: Any, machine: Machine) -> Any:
        plans.append(plan)
        if len(plans) <= refusals:
            raise WordsError(f"It is attempt {len(plans)}.")
        return original(sums, points, plan, machine)

    monkeypatch.setattr(compiling, "assemble", assemble)
    refusals = 2
    program = compiled("fine")
    assert len(plans) == 3 and program.program.cycles == plans[-1].cycles
    plans.clear()
    refusals = 12
    with pytest.raises(WordsError, match=r"^It is attempt 1\.$"):
        compiled("fine")
    assert len(plans) == 12


def test_precisions_and_their_steps() -> None:
    lines: list[str] = []
    fine = compiled("fine", progress=Progress(lines.append))
    assert [line.split(":")[0] for line in lines if "choos" in line] == ["choosing binary points"]
    assert lines[0] == "reducing the function"
    assert compile_program(NO_ROBOT, products, Machine()).precision == "fine"
    fast = compiled("fast", progress=Progress(lines.append))
    assert "choosing products of two slots" in lines and lines[-1] == "scheduling"
    assert (fine.precision, fast.precision) == ("fine", "fast")
    assert fast.program.slots < fine.program.slots and fine.error < fast.error <= 5e-4
    assert fine.error < 1e-7
    with pytest.raises(
        ProgramError,
        match=r"^There is no precision 'coarse': choose 'fine' or 'fast'\.$",
    ):
        compiled("coarse")


def test_errors_are_relative_to_the_largest_word_of_a_block() -> None:
    program = compiled("fine")
    columns = {"x[0]": np.array([0.5, 1.0]), "x[1]": np.array([1.0, 0.5])}
    exact = np.array([[0.5, -0.45], [0.25, 0.65]])
    scales = {"y": 1e-3}
    wrong = exact.copy()
    wrong[0, 1] += 0.05
    wrong[1, 0] -= 0.13
    errors = compiling.largest_errors(program.graph, wrong, columns, scales)
    assert errors == pytest.approx([0.1, 0.2])
    assert compiling.largest_errors(program.graph, exact, columns, scales) == pytest.approx(
        [0.0, 0.0], abs=1e-12
    )
    actual, flags = compiling.program_errors(
        program.graph,
        program.sums,
        program.points,
        program.program.machine,
        columns,
        scales,
    )
    assert (actual < 1e-7).all() and not flags.any()
