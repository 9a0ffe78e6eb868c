"""A period of the iiwa14's controller: its parts, their lower bounds, and Crocoddyl's iteration.

    python -m benchmarks.control_period [--knots 16 64] [--rounds 15] [--json FILE]

The controller is that of `pinion demo mpc`. For each horizon and dtype, in turns and pinned to one
core: runs of the exported library's `real_time` without waiting (*from C*), updates of `Mpc` from
Python with the parts of their times, and, if Crocoddyl is installed, `solve(xs, us, 1)` of its
`SolverFDDP` with its own models of the same costs, from the motion and the same measured state. Of
each a round has a median and a 99th percentile; the table has their medians over the rounds and, in
parentheses, the least median, which other work on the machine affects least.

A floor is the time of the vector instructions that a part issues for its arithmetic, each as long
as one of the machine's independent fused multiply-adds (`pinion.compute.rates`). Loads, stores and
dependences are not in it, so a rollout that is a chain of single samples is far from its floor.

Crocoddyl: `pip install crocoddyl==3.2.1 pin==4.0.0 libpinocchio==4.0.0`, OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pinion.compute import cpu
from pinion.compute.layouts import BLOCK
from pinion.compute.rates import Probe, floor_ns
from pinion.control import Weights
from pinion.control.solve.cost import CostModel, KnotTarget
from pinion.control.track.export import export_controller
from pinion.control.track.motion import Motion
from pinion.control.track.mpc import Mpc
from pinion.control.track.period import PARTS, Horizon
from pinion.control.track.scenario import Scenario
from pinion.native import Cache, InstructionSet, default_folder, find_compiler
from pinion.native.isa import best
from pinion.robot.library import urdf_text

KNOTS = (16, 64)
DTYPES = ("float64", "float32")
UPDATES, PERIODS, ITERATIONS = 1000, 2000, 20
"""Calls in a round: from Python, from C, and of Crocoddyl."""

FLOORS: Mapping[str, tuple[str, ...]] = {
    "gradients": ("gradients",),
    "backward": ("backward",),
    "rest": ("rollout", "costs"),
}
"""Names of the floors in each of a period's `PARTS`."""

OFF = 0.01
"""Deviation of the measured rates from the motion [rad/s]."""


def backward_instructions(horizon: Horizon, lanes: int) -> int:
    """Count the vector instructions for the arithmetic of a backward pass of ``period.hpp``.

    Without friction cones and turning joints; the factorisation is of scalars, which are left out.
    """
    n, m = horizon.space.nv, horizon.space.nu
    half, efforts = n // lanes + 1, -(-m // lanes)  # vectors of [q | 1], and of efforts
    products = {
        "T = S + P F": 2 * n * n * half,
        "G = M' P": m * n * half,
        "Quu = G M": m * n * efforts,
        "Qux = M' T": 2 * m * n * half,
        "F' T + S' F": 2 * 3 * n * n * half,
        "K = Quu^-1 Qux": 2 * m * m * half,
        "Qux' K": 3 * n * m * half,
    }
    sums = {"S, P": 6 * n * half, "A0' V A0 + lxx": 5 * n * half}
    return horizon.knots * (sum(products.values()) + sum(sums.values()))


def floors_us(horizon: Horizon, isa: InstructionSet, fma_ns: float) -> dict[str, float]:
    """Return lower bounds [us] on the times of a period's parts, from their instructions."""
    dtype, knots, model = horizon.dtype, horizon.knots, horizon.model
    lanes = isa.vector_bytes // np.dtype(dtype).itemsize
    ns = {}
    for name, (row, vector) in horizon.functions(isa).all().items():
        graph = cpu.graph_of(model, row)
        kernel = cpu.kernel_of(model, row, graph, dtype=dtype, machine=isa, vector=vector)
        counts = {"arithmetic": kernel.arithmetic, "angles": kernel.angles}
        samples = 1 if name == "final" else knots
        if vector:  # in whole blocks
            samples = -(-samples // BLOCK) * BLOCK
        ns[name] = samples * floor_ns(counts, dtype, lanes if vector else 1, fma_ns)
    feedback = knots * 2 * horizon.space.nu * (model.nv // lanes + 1) * fma_ns
    parts = {
        "gradients": ns["gradient"],
        "backward": backward_instructions(horizon, lanes) * fma_ns,
        "rollout": ns["forward"] + feedback,
        "costs": ns["running"] + ns["final"],
    }
    return {part: 1e-3 * value for part, value in parts.items()}


class Crocoddyl:
    """An iteration of Crocoddyl's FDDP with its own models of a controller's first horizon."""

    def __init__(self, scene: Scenario, motion: Motion) -> None:
        import crocoddyl as c
        import pinocchio

        self.version = f"Crocoddyl {c.__version__}, Pinocchio {pinocchio.__version__}"
        model = pinocchio.buildModelFromXML(urdf_text(scene.robot))
        state = c.StateMultibody(model)
        actuation = c.ActuationModelFull(state)
        cost, states = scene.cost(), motion.states()
        tip = model.getFrameId(cost.frame)
        ours = CostModel(scene.model(), cost)
        free = np.full(model.nv, np.inf)
        bounds = c.ActivationBounds(
            np.concatenate([ours.low, -free]), np.concatenate([ours.high, free])
        )

        def knot(row: int, weights: Weights, step: float) -> Any:
            # Crocoddyl's Euler model multiplies running costs by the time step.
            costs, scale = c.CostModelSum(state), step or 1.0
            parts = (weights.by_joint("q", model.nv), weights.by_joint("qd", model.nv))
            terms: dict[str, Any] = {
                "x": (
                    c.ActivationModelWeightedQuad(np.concatenate(parts)),
                    c.ResidualModelState(state, states[row]),
                    1.0,
                ),
                "tip": (
                    c.ActivationModelQuad(3),
                    c.ResidualModelFrameTranslation(state, tip, motion.tip[row]),
                    weights.tip,
                ),
                "limits": (
                    c.ActivationModelQuadraticBarrier(bounds),
                    c.ResidualModelState(state),
                    weights.limits,
                ),
            }
            if step:
                terms["u"] = (
                    c.ActivationModelWeightedQuad(np.array(weights.by_joint("tau", model.nv))),
                    c.ResidualModelControl(state, motion.tau[row]),
                    1.0,
                )
            for name, (activation, residual, weight) in terms.items():
                costs.addCost(
                    name, c.CostModelResidual(state, activation, residual), weight / scale
                )
            dynamics = c.DifferentialActionModelFreeFwdDynamics(state, actuation, costs)
            return c.IntegratedActionModelEuler(dynamics, step)

        stride = round(scene.step / scene.period)
        rows = stride * np.arange(scene.knots + 1)
        running = [knot(row, scene.weights, scene.step) for row in rows[:-1]]
        start = measured(scene, motion, 0)
        shooting = c.ShootingProblem(start, running, knot(rows[-1], scene.last, 0.0))
        shooting.nthreads = 1
        self.shooting = shooting
        self.states, self.efforts = list(states[rows]), list(motion.tau[rows[:-1]])
        self.solver = c.SolverFDDP(shooting)
        # Both costs, of a motion near the limits.
        x, u = states[rows] + 0.7, motion.tau[rows[:-1]] + 1.0
        target = KnotTarget(
            q=motion.q[rows], qd=motion.qd[rows], tau=motion.tau[rows[:-1]], tip=motion.tip[rows]
        )
        shooting.calc(list(x), list(u))
        values = [data.cost for data in [*shooting.runningDatas, shooting.terminalData]]
        np.testing.assert_allclose(values, ours.values(x[None], u[None], target)[0], rtol=1e-9)

    def __call__(self) -> None:
        """Compute one iteration from the first horizon's plan."""
        self.solver.solve(self.states, self.efforts, 1, False)


def measured(scene: Scenario, motion: Motion, period: int) -> np.ndarray:
    """Return a measured state (nx,) for the start of a period, off the motion by `OFF`."""
    state = np.array(motion.states()[period])
    state[len(scene.posture) :] += OFF
    return state


def from_c(program: Path) -> dict[str, float]:
    """Run the compiled controller; return the median and 99th percentile of an update [us]."""
    words = [str(program), str(program.with_name("motion.bin")), str(PERIODS), "free"]
    printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    median, tail = re.findall(r"Update \[us\]: median (\S+), 99 % (\S+),", printed)[0]
    return {"c": float(median), "c_tail": float(tail)}


def from_python(controller: Mpc, states: list[np.ndarray]) -> dict[str, float]:
    """Measure an update from Python [us]: median, 99th percentile, and its parts' medians."""
    times = np.empty(UPDATES)
    logged = controller.log.seconds
    for seconds in logged.values():
        seconds.clear()
    for call in range(UPDATES):
        period = call % len(states)
        began = time.perf_counter_ns()
        controller.update(period, states[period])
        times[call] = time.perf_counter_ns() - began
    median, tail = 1e-3 * np.percentile(times, [50, 99])
    parts = {part: 1e6 * float(np.median(seconds)) for part, seconds in logged.items()}
    return {"python": median, "python_tail": tail, **parts}


def of_crocoddyl(iteration: Callable[[], None]) -> dict[str, float]:
    """Measure the median time of Crocoddyl's iteration [us]."""
    times = np.empty(ITERATIONS)
    for call in range(ITERATIONS):
        began = time.perf_counter_ns()
        iteration()
        times[call] = time.perf_counter_ns() - began
    return {"crocoddyl": 1e-3 * float(np.median(times))}


def compiled(horizon: Horizon, motion: Motion, folder: Path) -> Path:
    """Export a controller as C, compile it, and return the path of the program."""
    export_controller(horizon, motion, folder, name="arm")
    text = (folder / "real_time.c").read_text()
    command = next(line for line in text.splitlines() if line.strip().startswith("cc "))
    subprocess.run(shlex.split(command), cwd=folder, check=True)
    return folder / "real_time"


def measure(all_knots: list[int], rounds: int) -> dict[str, Any]:
    """Measure every horizon and dtype in rounds; return times and their lower bounds."""
    isa, compiler = best(), find_compiler()
    probe = Probe.compiled(isa, compiler, Cache(default_folder(os.environ)))
    record: dict[str, Any] = {"isa": isa.name, "compiler": compiler.version, "rounds": rounds}
    rivals = importlib.util.find_spec("crocoddyl") is not None
    runs: dict[str, list[Callable[[], dict[str, float]]]] = {}
    horizons: dict[str, Horizon] = {}
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        for knots in all_knots:
            scene = replace(Scenario(), knots=knots)
            motion = scene.motion()
            for dtype in DTYPES:
                plant = scene.plant("cpu", dtype=dtype, threads=1)
                controller = scene.controller(plant, motion)
                stack.callback(controller.close)
                key = f"{knots} knots, {dtype}"
                horizons[key] = controller.horizon
                program = compiled(controller.horizon, motion, Path(scratch) / key)
                states = [measured(scene, motion, k) for k in range(controller.periods)]
                runs[key] = [partial(from_c, program), partial(from_python, controller, states)]
            if rivals:
                iteration = Crocoddyl(scene, motion)
                record["opponent"] = iteration.version
                runs[f"{knots} knots, Crocoddyl"] = [partial(of_crocoddyl, iteration)]
        times: dict[str, list[dict[str, float]]] = {key: [] for key in runs}
        fma: dict[str, list[float]] = {dtype: [] for dtype in DTYPES}
        for _ in range(rounds):
            for dtype, values in fma.items():
                values.append(probe.fma_ns(dtype))
            for key, functions in runs.items():
                times[key].append({k: v for run in functions for k, v in run().items()})
    record["fma_ns"] = {dtype: min(values) for dtype, values in fma.items()}
    record["us"] = {
        key: {name: [row[name] for row in rows] for name in rows[0]} for key, rows in times.items()
    }
    record["floors_us"] = {
        key: floors_us(horizon, isa, record["fma_ns"][horizon.dtype])
        for key, horizon in horizons.items()
    }
    return record


def show(record: Mapping[str, Any]) -> None:
    """Print a record as a table."""
    print(f"{record['isa']}, {record['compiler']}, {record.get('opponent', 'no Crocoddyl')}")
    print("fused multiply-add [ns]:", record["fma_ns"])
    print("[us], medians of the rounds' medians (the least of them):")
    us = {
        key: {name: (np.median(values), min(values)) for name, values in times.items()}
        for key, times in record["us"].items()
    }
    for key, floors in record["floors_us"].items():
        times = us[key]
        print(key)
        rival = us.get(f"{key.split(',')[0]}, Crocoddyl", {}).get("crocoddyl")
        for name in ("c", "python"):
            middle, least = times[name]
            tail, _ = times[f"{name}_tail"]
            text = f"  from {name:9s} {middle:7.1f} ({least:.1f}), 99 % {tail:.1f}"
            if rival is not None:
                ratios = rival[0] / middle, rival[1] / least
                text += f"; Crocoddyl {rival[0]:.0f} ({rival[1]:.0f}),"
                text += f" {ratios[0]:.1f} ({ratios[1]:.1f}) times as long"
            print(text)
        for part in PARTS:
            middle, least = times[part]
            floor = sum(floors[name] for name in FLOORS[part])
            text = f"  {part:14s} {middle:7.2f} ({least:.2f}), floor {floor:.2f}"
            print(f"{text}, {middle / floor:.2f} ({least / floor:.2f}) times it")
        for name in FLOORS["rest"]:
            print(f"    floor of {name}: {floors[name]:.2f}")


def main() -> None:
    """Measure, print the table, and write the record if a file is given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--knots", type=int, nargs="+", default=list(KNOTS))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    record = measure(arguments.knots, arguments.rounds)
    show(record)
    if arguments.json:
        arguments.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
