"""Errors of a program, and of single precision, on states that its compiler did not use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pinion.base.arrays import Floats
from pinion.formats.scales import block_scales
from pinion.functions import DISTRIBUTIONS, Function
from pinion.graph import Graph, evaluate_floats
from pinion.graph.ranges import chunks
from pinion.robot import Model

from .compile import (
    HOME,
    MAX_ERROR,
    SEED,
    STATES,
    CompiledProgram,
    largest_errors,
    program_errors,
    state_columns,
)


@dataclass(frozen=True, kw_only=True)
class ProgramErrors:
    """Relative errors on states of one distribution, as for a core (:mod:`pinion.link.relative`).

    Members
    -------
    distribution, states : which states, and how many.
    largest : largest error of states without a flag; NaN if all are flagged.
    single : largest error of the same function in NumPy's float32.
    flagged : states in which a value overflowed its format.
    wrong : states without a flag whose error exceeds :data:`.compile.MAX_ERROR`.
    """

    distribution: str
    states: int
    largest: float
    single: float
    flagged: int
    wrong: int


def accuracies(
    model: Model, function: Function, compiled: CompiledProgram, *, states: int, seed: int
) -> Iterator[ProgramErrors]:
    """Measure a program's errors on new states of every distribution.

    Raises
    ------
    ValueError
        If `states` is less than 1.
    """
    if states < 1:
        raise ValueError(f"The number of states must be at least 1, not {states}.")
    by_distribution = {
        name: state_columns(model, function, name, states, seed + number)
        for number, name in enumerate(DISTRIBUTIONS)
    }
    graph = compiled.graph
    scales = block_scales(graph, by_distribution[HOME])
    for name, columns in by_distribution.items():
        errors, singles, flags = [], [], []
        for part in chunks(columns):
            program, flagged = program_errors(
                graph, compiled.sums, compiled.points, compiled.program.machine, part, scales
            )
            errors.append(program)
            singles.append(largest_errors(graph, _single(graph, part), part, scales))
            flags.append(flagged)
        error, flagged = np.concatenate(errors), np.concatenate(flags)
        yield ProgramErrors(
            distribution=name,
            states=states,
            largest=float(np.max(error[~flagged])) if not flagged.all() else float("nan"),
            single=float(np.max(np.concatenate(singles))),
            flagged=int(flagged.sum()),
            # NaN is wrong as well.
            wrong=int(np.count_nonzero(~(error[~flagged] <= MAX_ERROR))),
        )


def program_scales(model: Model, function: Function, graph: Graph) -> dict[str, float]:
    """Return the scale of each result block on the states that the compiler uses."""
    return block_scales(graph, state_columns(model, function, HOME, STATES, SEED))


def _single(graph: Graph, columns: dict[str, Floats]) -> Floats:
    """Return a function's results (n, words), computed in single precision."""
    count = len(next(iter(columns.values())))
    with np.errstate(all="ignore"):
        values = evaluate_floats(graph, columns, np.float32)
    words = [np.broadcast_to(values[word], count) for word, _ in graph.outputs]
    return np.stack(words, axis=1).astype(np.float64)
