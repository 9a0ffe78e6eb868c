"""Points of a design space, their folders, and the selection of the best ones.

Running the points needs :mod:`pinion.cosim`, one layer above.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any

from pinion.base import source_digest
from pinion.base.sources import up_to
from pinion.functions import FUNCTIONS, BuiltFunction, named_function
from pinion.request import BuildRequest, core_names, row_names
from pinion.robot import Model, model_to_dict

from .description import function_text

# Errors that agree to this many digits count as equal: the rest depends on the sampled states.
ERROR_DIGITS = 2

# Goals; the sign makes a smaller value better.
GOALS = (("dsp", 1), ("latency_cycles", 1), ("results_per_second", -1), ("error_max", 1))


class ExploreError(ValueError):
    """Error for a sweep that cannot be run."""


@dataclass(frozen=True, kw_only=True)
class SweepPoint:
    """Point of a sweep: robot, function and options of a build.

    Members
    -------
    model : the robot.
    function : name, as for :func:`pinion.functions.named_function`.
    request : options of the row and of the core.
    """

    model: Model
    function: str
    request: BuildRequest = field(default_factory=BuildRequest)

    @cached_property
    def content(self) -> dict[str, Any]:
        """JSON-able content of the point; equal points have equal contents."""
        robot = json.dumps(model_to_dict(self.model), sort_keys=True)
        plain = self.request.plain()
        options = {name: plain[name] for name in core_names()} | plain["row"]
        content = {
            "robot": self.model.name,
            "robot_content": sha256(robot.encode()).hexdigest(),
            "function": self.function,
            "options": options,
        }
        if self.function not in FUNCTIONS:
            # The version covers the function table, but not the user's code.
            computed = function_text(BuiltFunction.of(named_function(self.function), self.model))
            content["function_content"] = sha256(computed.encode()).hexdigest()
        return content

    @property
    def key(self) -> str:
        """Name of the point's folder: a digest of its content."""
        return sha256(json.dumps(self.content, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """Choice of the measurements to take at every point of a sweep.

    Members
    -------
    samples, seed, distribution : states for the errors and requests of `verify`, as for
        :func:`pinion.functions.sample`.
    synth : whether Yosys counts the resources; otherwise DSP blocks are estimated.
    verify : whether requests also go through the RTL; the errors are always those of the integers,
        which the RTL equals bit for bit.
    """

    samples: int = 2000
    seed: int = 0
    distribution: str = "reference"
    synth: bool = False
    verify: bool = False

    def stages(self) -> dict[str, dict[str, Any]]:
        """Return the stages to run, in order, each with the settings that affect its results."""
        states = {
            **{"samples": self.samples, "seed": self.seed},
            "distribution": self.distribution,
        }
        settings: dict[str, dict[str, Any]] = {"build": {}, "errors": states}
        if self.synth:
            settings["synth"] = {}
        if self.verify:
            settings["verify"] = states
        return settings


def grid(
    model: Model,
    function_name: str,
    axes: Mapping[str, Sequence[Any]],
    *,
    fixed: Mapping[str, Any] | None = None,
) -> list[SweepPoint]:
    """Return a point for each combination of option values; the last axis varies fastest.

    Parameters
    ----------
    axes : values to try by option of a build, except options of the robot.
    fixed : options that all points share.

    Raises
    ------
    ExploreError
        If a build has no such option, or it is given twice or without values.
    ValueError
        A subclass with a message, if there is no such function.
    """
    fixed = dict(fixed or {})
    option_names = (*core_names(), *row_names())
    for name in (*axes, *fixed):
        if name not in option_names:
            raise ExploreError(
                f"A build has no option '{name}'; the options are {', '.join(option_names)}."
            )
    for name, values in axes.items():
        if name in fixed:
            raise ExploreError(f"The option '{name}' is both swept and fixed: give it once.")
        if not values:
            raise ExploreError(f"The option '{name}' has no values to try.")
    base = BuildRequest().replaced(**fixed)
    base.row.row(function_name)
    distinct = [list(dict.fromkeys(values)) for values in axes.values()]
    return [
        SweepPoint(
            model=model,
            function=function_name,
            request=base.replaced(**dict(zip(axes, values, strict=True))),
        )
        for values in itertools.product(*distinct)
    ]


def code_version() -> str:
    """Return Pinion's version with a digest of the sources that affect a point's results."""
    return source_digest(up_to("cosim"))


def best(rows: Sequence[Mapping[str, Any]]) -> list[bool]:
    """Return, for each row, whether it is Pareto-optimal.

    The goals are few DSP blocks, low latency, many results per second and a small largest error (to
    two digits). Rows that lack a figure are never among the best.
    """
    values = [_goals(row) for row in rows]
    present = [value for value in values if value is not None]
    return [value is not None and not _beaten(value, present) for value in values]


def _goals(row: Mapping[str, Any]) -> tuple[float, ...] | None:
    figures = [row.get(name) for name, _ in GOALS]
    if any(figure is None or figure != figure for figure in figures):
        return None
    signed = [sign * float(row[name]) for name, sign in GOALS]
    signed[-1] = float(f"{signed[-1]:.{ERROR_DIGITS - 1}e}")
    return tuple(signed)


def _beaten(costs: tuple[float, ...], others: Iterable[tuple[float, ...]]) -> bool:
    return any(
        other != costs and all(a <= b for a, b in zip(other, costs, strict=True))
        for other in others
    )
