"""Robots and functions of an experiment, as given on the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pinion.console.terminal import counted
from pinion.functions import SUBJECTS, named_function
from pinion.robot import Model, load

ROBOTS = ("iiwa14", "hyq", "atlas")

Rows = list[dict[str, Any]]


def robots_and_functions(
    target: Sequence[str], default: Sequence[str] = ()
) -> tuple[dict[str, Model], tuple[str, ...]]:
    """Return the models by robot name, and the names of the functions.

    Parameters
    ----------
    target : nothing, a robot, or a robot and functions.
    default : functions if none is given; by default all those of the subject dynamics.

    Raises
    ------
    pinion.functions.FunctionError : if a function is unknown.
    """
    names = tuple(dict.fromkeys(target[1:])) or tuple(default)
    names = names or tuple(row.name for row in SUBJECTS["dynamics"])
    for name in names:
        named_function(name)  # raises for an unknown name before the work
    return {robot: load(robot) for robot in tuple(target[:1]) or ROBOTS}, names


def measured_each(
    models: Mapping[str, Model],
    names: Sequence[str],
    measure: Callable[[str, str, Model], tuple[Rows, dict[str, str]]],
) -> tuple[Rows, dict[str, str]]:
    """Measure every function of every robot; return rows, and reasons for what was left out."""
    rows: Rows = []
    left_out: dict[str, str] = {}
    with counted("Measuring", total=len(models) * len(names)) as advance:
        for robot, model in models.items():
            for name in names:
                measured_rows, missing = measure(robot, name, model)
                rows += measured_rows
                left_out |= missing
                advance(1)
    return rows, left_out
