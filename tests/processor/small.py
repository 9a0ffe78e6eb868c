"""Small functions in the text form of graphs, and their programs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pinion.graph import Word, evaluate_floats, parse_graph
from pinion.processor.machine import Machine
from pinion.processor.points import Points, Reach, choose_points
from pinion.processor.program import Program, assemble
from pinion.processor.schedule import schedules
from pinion.processor.sensitivity import Effects
from pinion.processor.sums import Sums, sums_of

RECORD = tuple(Word.of(f"x[{place}]") for place in range(3))
INPUTS = "".join(f'%{place} = input ["{word}"]\n' for place, word in enumerate(RECORD))


def states(count: int = 50) -> dict[str, np.ndarray]:
    """Return random numbers from -2 to 2, columns (count,) by word of `RECORD`."""
    rng = np.random.default_rng(7)
    return {str(word): rng.uniform(-2.0, 2.0, count) for word in RECORD}


def sums(lines: str) -> Sums:
    """Return the sums of a graph whose nodes 0 to 2 are the words of `RECORD`."""
    return sums_of(parse_graph(INPUTS + lines), RECORD)


def floats(lines: str, columns: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Return the results of the same graph in float64."""
    values = evaluate_floats(parse_graph(INPUTS + lines), dict(columns))
    return [values[word] for word, _ in parse_graph(INPUTS + lines).outputs]


def even(subject: Sums, effect: float) -> Effects:
    """Return the same effect of an error in any factor."""
    return tuple(((effect, effect),) * len(value.terms) for value in subject.values)


def points(subject: Sums, machine: Machine, *, effect: float = 1.0) -> Points:
    """Return binary points for `states`: with an effect of 1 nearly every product has two slots."""
    reach = Reach.of(subject, [states()])
    return choose_points(subject, reach, machine, effects=even(subject, effect), threshold=2.0**-40)


def program(subject: Sums, chosen_points: Points, machine: Machine) -> Program:
    """Return the program of the first schedule."""
    plan = next(schedules(subject, chosen_points, machine))
    return assemble(subject, chosen_points, plan, machine)
