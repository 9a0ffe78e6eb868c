"""Errors of a program over states that its compiler has not seen, beside single precision."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pinion.base.arrays import Flags, Floats
from pinion.formats.scales import block_scales, result_blocks
from pinion.functions import DISTRIBUTIONS, Function, sample
from pinion.functions.row import word_columns
from pinion.graph import evaluate_floats
from pinion.link.comparison import Comparison
from pinion.robot import Model, coupled

from .compile import MAX_ERROR, Compiled
from .exact import exact_results

PART = 2000
"""States that are computed at a time."""


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """Errors over states of one distribution, each relative to a result block's largest word.

    Members
    -------
    distribution, states : which states, and how many.
    largest : largest error of states without a flag; NaN if there is none.
    single : largest error of the same function in NumPy's float32.
    flagged : states in which a value left its binary point.
    wrong : states without a flag whose error exceeds :data:`.compile.MAX_ERROR`.
    """

    distribution: str
    states: int
    largest: float
    single: float
    flagged: int
    wrong: int


def accuracies(
    model: Model, function: Function, compiled: Compiled, *, states: int, seed: int
) -> Iterator[Accuracy]:
    """Measure a program on fresh states of every distribution.

    Raises
    ------
    ValueError
        If there are no states.
    """
    if states < 1:
        raise ValueError(f"An error is measured over at least 1 state, not {states}.")
    for number, name in enumerate(DISTRIBUTIONS):
        arrays = sample(model, function, states, distribution=name, seed=seed + number)
        columns = {
            str(word): column
            for word, column in word_columns(function.inputs, coupled(model), arrays).items()
        }
        scales = block_scales(compiled.graph, columns)
        errors, singles, flags = [], [], []
        for first in range(0, states, PART):
            part = {word: column[first : first + PART] for word, column in columns.items()}
            program, single, flagged = _errors(compiled, part, scales)
            errors.append(program)
            singles.append(single)
            flags.append(flagged)
        error, flagged = np.concatenate(errors), np.concatenate(flags)
        yield Accuracy(
            distribution=name,
            states=states,
            largest=float(np.max(error[~flagged])) if not flagged.all() else float("nan"),
            single=float(np.max(np.concatenate(singles))),
            flagged=int(flagged.sum()),
            # NaN is wrong as well.
            wrong=int(np.count_nonzero(~(error[~flagged] <= MAX_ERROR))),
        )


def _errors(
    compiled: Compiled, columns: dict[str, Floats], scales: dict[str, float]
) -> tuple[Floats, Floats, Flags]:
    """Return relative errors of the program and of single precision, and flags, (n,) each."""
    graph, sums = compiled.graph, compiled.sums
    words, flags = exact_results(sums, compiled.points, compiled.program.machine, columns)
    with np.errstate(all="ignore"):
        expected, single = (evaluate_floats(graph, columns, t) for t in (np.float64, np.float32))
    references, singles = (
        np.stack(
            [np.broadcast_to(of[word], flags.shape) for word, _ in sums.results], axis=1
        ).astype(np.float64)
        for of in (expected, single)
    )

    def error(values: Floats) -> Floats:
        comparison = Comparison.of(
            values, references, blocks=result_blocks(graph), scales=scales, flagged=flags
        )
        return np.asarray(np.max(list(comparison.relative.values()), axis=0))

    return error(words.view(np.float32).astype(np.float64)), error(singles), flags
