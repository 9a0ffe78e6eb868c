"""``pinion bench cpu --parameters``: the cost of inertial parameters as inputs.

A function with an arm's last link as parameters is compared with the function of the same robot
with constants, on the same states, with results written to existing arrays: one set of
parameters for the batch, and a set for each sample. All take turns, round after round, on one core,
and ratios are medians of the rounds, so that other jobs slow both alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pinion.bench.machine import machine
from pinion.bench.targets import measured_each, robots_and_functions
from pinion.compute import cpu
from pinion.compute.rates import KernelCall, kernel_case, rounds_of, states_of
from pinion.console.terminal import out, put_json, say, table
from pinion.dynamics import parameter_values
from pinion.functions import named_function
from pinion.robot import Model, payload

from .measure import SEED, one_core

ROBOT = "iiwa14"
FUNCTIONS = ("rnea", "aba", "fd_derivatives")
SAMPLES = 1024

LOADS: Mapping[str, Mapping[str, Any]] = {
    "none": {},
    "on the axis": {"mass": 2.0, "com": (0.0, 0.0, 0.1)},
    "dense": {
        "mass": 2.0,
        "com": (0.03, -0.02, 0.1),
        "inertia": (0.012, 0.001, -0.002, 0.01, 0.0015, 0.008),
    },
}
"""Loads of the last link: only the last load gives it an inertia without zeros."""


def run(target: Sequence[str], *, largest: int, seconds: float, rounds: int, json: bool) -> None:
    """Measure the cost of inertial parameters as inputs, and print the table.

    Parameters
    ----------
    target : nothing, a robot, or a robot and functions.
    largest : size of the batch.
    seconds : time for one batch in one round.
    rounds : number of rounds, in each of which all take a turn.

    Raises
    ------
    pinion.functions.FunctionError : if a function is unknown, or takes no parameters.
    """
    models, names = robots_and_functions(target or (ROBOT,), FUNCTIONS)
    with one_core():
        rows, _ = measured_each(
            models,
            names,
            lambda robot, name, model: (
                measured(robot, name, model, samples=largest, seconds=seconds, rounds=rounds),
                {},
            ),
        )
    data = {
        "bench": "cpu parameters",
        "machine": machine(()),
        "samples": largest,
        "rounds": rounds,
        "seconds": seconds,
        "rows": rows,
    }
    if json:
        put_json(data)
    else:
        _show(data)


def measured(
    robot: str, name: str, model: Model, *, samples: int, seconds: float, rounds: int
) -> list[dict[str, Any]]:
    """Measure one function: a row per load and choice of parameters, relative to constants.

    Returns
    -------
    Rows with ``constant_ns`` (median) and the ratios to it: ``one`` set for the batch, and a set
    for ``each`` sample.
    """
    link = model.bodies[-1].name
    row = named_function(name)
    cases: dict[str, KernelCall] = {}
    for load, options in LOADS.items():
        loaded = payload(model, link, **options) if options else model
        states = states_of(loaded, row, seed=SEED)
        cases[load] = kernel_case(cpu.compile(loaded, row, threads=1), states, samples)
    inputs = ((link,), (f"{link}:on-axis",), (link, "gravity"))
    for names in inputs:
        # The constants of the link, and so the load, are no part of this kernel.
        kernel = cpu.compile(model, row.with_parameters(names), threads=1)
        values = {**states, "parameters": np.array([parameter_values(loaded, names)])}
        cases[f"one {names}"] = kernel_case(kernel, values, samples, once=("parameters",))
        cases[f"each {names}"] = kernel_case(kernel, values, samples)
    times = {
        case: np.array(ns) for case, ns in rounds_of(cases, rounds=rounds, seconds=seconds).items()
    }
    return [
        {
            "robot": robot,
            "function": name,
            "load": load,
            "parameters": list(names),
            "constant_ns": float(np.median(times[load])),
            **{
                how: float(np.median(times[f"{how} {names}"] / times[load]))
                for how in ("one", "each")
            },
        }
        for load in LOADS
        for names in inputs
        # A dense load is beside the axis: with the figures on it alone it is another robot.
        if not (load == "dense" and names == inputs[1])
    ]


def _show(data: dict[str, Any]) -> None:
    about = data["machine"]
    out().print(
        table(
            "robot",
            *("function", "load", "parameters", "constants, ns", "one set", "a set per sample"),
            rows=[
                (
                    *(r[key] for key in ("robot", "function", "load")),
                    ", ".join(r["parameters"]),
                    f"{r['constant_ns']:.1f}",
                    *(f"{r[how]:.2f}" for how in ("one", "each")),
                )
                for r in data["rows"]
            ],
            title="Time with parameters as inputs over that with constants",
            left=4,
        )
    )
    say(
        f"{about['processor']}, one core, {about['isa']}, {about['compiler']}; float64, "
        f"{data['samples']:,} samples per batch, results in existing arrays. Medians of "
        f"{data['rounds']} rounds."
    )
