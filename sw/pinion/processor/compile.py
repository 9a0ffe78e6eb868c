"""Compilation of a function of a robot to a program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pinion.base.arrays import Flags, Floats
from pinion.base.progress import SILENT, Progress
from pinion.formats.scales import block_scales, result_blocks
from pinion.functions import DISTRIBUTIONS, Function, reduced_graph, sample
from pinion.functions.row import word_columns
from pinion.graph import Graph, Word, evaluate_floats
from pinion.graph.costs import UnitCosts
from pinion.graph.ranges import chunks
from pinion.link.comparison import Comparison
from pinion.robot import Model, coupled

from .check import check_program
from .errors import ProgramError, WordsError
from .exact import exact_results
from .interleave import check_interleave, interleaved
from .machine import Machine
from .points import Points, Reach, choose_points
from .program import Program, assemble
from .schedule import schedules
from .sensitivity import Effects, effects
from .sums import Sums, sums_of

STATES = 1000
"""Number of states of each distribution on which errors are measured."""

REACHED = 8000
"""Number of states of each distribution for which binary points are chosen."""

HOME = "reference"
"""Distribution of the states on which errors are limited."""

MAX_ERROR = 1e-3
"""Largest relative error of a result block of reference states, with the precision ``fast``."""

HEADROOM = 0.5
"""Share of that error that the search may use: more states have larger errors."""

CHECKED = 10_000
"""Number of reference states, other than those of the search, that must keep :data:`SHARE`."""

SHARE = 0.8
"""Share of :data:`MAX_ERROR` that the checked states may use."""

FINE = 2.0**-21
"""Relative error that one product may cause, with the precision ``fine``."""

STEP = 0.5
"""Base-2 logarithm by which the threshold is lowered while the checked states use more."""

THRESHOLDS = (-26.0, -12.0)
"""Base-2 logarithms of the smallest and largest relative error that one product may cause."""

SEARCH_STEPS = 9

SEED = 20_261_126


@dataclass(frozen=True, kw_only=True)
class CompiledProgram:
    """A program, with the graph, sums and binary points that it was compiled from.

    Members
    -------
    precision : ``fine`` or ``fast``.
    graph : the function after all passes.
    sums, points : its values and their binary points, of one sample.
    program : for the machine; it may interleave samples.
    error : largest relative error at the compiler's reference states.
    """

    precision: str
    graph: Graph
    sums: Sums
    points: Points
    program: Program
    error: float


def compile_program(
    model: Model,
    function: Function,
    machine: Machine,
    *,
    precision: str = "fine",
    interleave: int = 1,
    progress: Progress = SILENT,
) -> CompiledProgram:
    """Compile a function of a robot for a processor.

    Parameters
    ----------
    precision : ``fine``, or ``fast``, which takes one slot for as many products as possible with
        errors of at most :data:`MAX_ERROR` at reference states.
    interleave : number of samples that the program computes at the same time, 1 to
        :data:`.machine.MOST_INTERLEAVED` (:func:`.interleave.interleaved`).

    Raises
    ------
    ProgramError
        If the function has an operation that the processor does not compute, the machine is too
        small, or no binary points are fine enough.
    """
    if precision not in ("fine", "fast"):
        raise ProgramError(f"There is no precision '{precision}': choose 'fine' or 'fast'.")
    check_interleave(interleave)
    progress.step("reducing the function")
    graph = reduced_graph(model, function, costs=UnitCosts(), progress=progress)
    record = [
        Word.of(word) for block in function.inputs for word in block.positions(coupled(model))
    ]
    sums = sums_of(graph, record)
    progress.step("choosing binary points")
    reach = Reach.of(sums, _states(model, function, REACHED).values())
    by_distribution = _states(model, function, STATES)
    reference = by_distribution[HOME]
    scales = block_scales(graph, reference)

    def error(points: Points) -> float:
        errors, flags = program_errors(graph, sums, points, machine, reference, scales)
        return float(errors.max()) if not flags.any() else float("inf")

    blocks = result_blocks(graph)
    if precision == "fine":
        by_term = effects(sums, by_distribution.values(), blocks, scales)
        points = choose_points(sums, reach, machine, effects=by_term, threshold=FINE)
        reached = error(points)
    else:
        progress.step("choosing products of two slots")
        by_term = effects(sums, [reference], blocks, scales)
        others = state_columns(model, function, HOME, CHECKED, SEED - 1)

        hard: list[dict[str, Floats]] = []  # states that some points did not keep

        def keeps(points: Points) -> bool:
            for part in (*hard, *chunks(others)):
                errors, flags = program_errors(graph, sums, points, machine, part, scales)
                failing = ~flags & ~(errors <= SHARE * MAX_ERROR)  # NaN fails as well
                if failing.any():
                    hard.append({word: column[failing] for word, column in part.items()})
                if failing.any() or flags.all():
                    return False
            return True

        points, reached = _fewest_slots(sums, reach, machine, by_term, error, keeps, progress)
    progress.step("scheduling")
    program = _assembled(*interleaved(sums, points, interleave), machine)
    check_program(program, sums, points)
    return CompiledProgram(
        precision=precision,
        graph=graph,
        sums=sums,
        points=points,
        program=program,
        error=reached,
    )


def _assembled(sums: Sums, points: Points, machine: Machine) -> Program:
    """Return the program of the first schedule whose values the machine can hold."""
    reason: WordsError | None = None
    for plan in schedules(sums, points, machine):
        try:
            return assemble(sums, points, plan, machine)
        except WordsError as error:
            reason = reason or error
    assert reason is not None
    raise reason


def _fewest_slots(
    sums: Sums,
    reach: Reach,
    machine: Machine,
    by_term: Effects,
    error: Callable[[Points], float],
    keeps: Callable[[Points], bool],
    progress: Progress,
) -> tuple[Points, float]:
    """Return the binary points with the fewest slots that meet :data:`MAX_ERROR`, and their error.

    A product gets one slot if rounding a factor changes the results by less than a threshold, which
    is found by bisection, and lowered until more states keep the limit.
    """

    def choose(threshold: float) -> Points:
        return choose_points(sums, reach, machine, effects=by_term, threshold=2.0**threshold)

    best: tuple[Points, float] | None = None
    low, high = THRESHOLDS
    for step in range(SEARCH_STEPS):
        middle = (low + high) / 2 if step else low
        points = choose(middle)
        reached = error(points)
        progress.advance((step + 1) / SEARCH_STEPS)
        if reached <= HEADROOM * MAX_ERROR:
            best, low = (points, reached), middle
        elif best is None:
            raise ProgramError(
                f"With two slots for nearly every product, the largest relative error is still "
                f"{reached:.2g}, above {HEADROOM * MAX_ERROR:g}: use the precision 'fine'."
            )
        else:
            high = middle
    assert best is not None
    points, reached = best
    while not keeps(points):
        if low <= THRESHOLDS[0]:
            raise ProgramError(
                f"With two slots for nearly every product, some of the {CHECKED:,} states still "
                f"have a relative error above {SHARE * MAX_ERROR:g}: use the precision 'fine'."
            )
        low -= STEP
        points = choose(low)
        reached = error(points)
    return points, reached


def program_errors(
    graph: Graph,
    sums: Sums,
    points: Points,
    machine: Machine,
    columns: dict[str, Floats],
    scales: dict[str, float],
) -> tuple[Floats, Flags]:
    """Return each state's largest relative error of a result block, and its flag, both (n,).

    Parameters
    ----------
    columns : states, (n,) by input word.
    scales : of the result blocks (:func:`pinion.formats.scales.block_scales`).
    """
    words, flags = exact_results(sums, points, machine, columns)
    values = words.view(np.float32).astype(np.float64)
    return largest_errors(graph, values, columns, scales), flags


def largest_errors(
    graph: Graph, values: Floats, columns: dict[str, Floats], scales: dict[str, float]
) -> Floats:
    """Return each state's largest relative error over the result blocks, (n,)."""
    expected = evaluate_floats(graph, columns)
    references = np.stack(
        [np.broadcast_to(expected[word], len(values)) for word, _ in graph.outputs], axis=1
    )
    comparison = Comparison.of(values, references, blocks=result_blocks(graph), scales=scales)
    return np.asarray(np.max(list(comparison.relative.values()), axis=0))


def _states(model: Model, function: Function, count: int) -> dict[str, dict[str, Floats]]:
    """Sample states of every distribution as requests transmit them, columns (n,) by word."""
    return {
        name: state_columns(model, function, name, count, SEED + number)
        for number, name in enumerate(DISTRIBUTIONS)
    }


def state_columns(
    model: Model, function: Function, distribution: str, states: int, seed: int
) -> dict[str, Floats]:
    """Sample states as requests transmit them, columns (n,) by word."""
    arrays = sample(model, function, states, distribution=distribution, seed=seed)
    columns = word_columns(function.inputs, coupled(model), arrays)
    return {str(word): column for word, column in columns.items()}
