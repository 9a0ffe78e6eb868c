"""Iterations compiled for the processor: sixteen problems side by side in every instruction.

The steps of :mod:`.kernels` are called knot by knot for all problems at once; gradients come in one
call for all knots. Arrays are in blocks of sixteen problems (:mod:`pinion.compute.layouts`), knots
first, so that a knot's part is contiguous and nothing is converted on the way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pinion.compute import cpu
from pinion.compute.layouts import BLOCK
from pinion.control.errors import ControlError
from pinion.control.plant import gradient_row
from pinion.robot import Model, coupled, load

from .cost import Cost
from .engine import ROUNDINGS
from .ilqr import Options, iterate
from .kernels import (
    final_function,
    references,
    riccati_function,
    roll_function,
)
from .problem import Problem, Solution

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Lanes = NDArray[Any]


@dataclass(frozen=True)
class Kernels:
    """The steps for a robot, a cost and a step's length, compiled.

    Members
    -------
    model, cost, dt, dtype : whose they are.
    gradient, final, riccati, roll : kernels in blocks.
    """

    model: Model
    cost: Cost
    dt: float
    dtype: str
    gradient: cpu.Kernel
    final: cpu.Kernel
    riccati: cpu.Kernel
    roll: cpu.Kernel

    @classmethod
    def compile(
        cls,
        robot: str | Model,
        cost: Cost,
        dt: float,
        *,
        dtype: str = "float64",
        **options: Any,
    ) -> Kernels:
        """Compile them, or find them compiled; options as of :func:`pinion.compute.cpu.compile`.

        Raises
        ------
        ValueError
            Subclasses with a sentence: an unknown robot, dtype or option, no compiler.
        """
        model = coupled(load(robot) if isinstance(robot, str) else robot)

        def made(row: Any) -> cpu.Kernel:
            return cpu.compile(model, row, dtype=dtype, layout="blocks", **options)

        return cls(
            model=model,
            cost=cost,
            dt=dt,
            dtype=dtype,
            gradient=made(gradient_row()),
            final=made(final_function(model, cost)),
            riccati=made(riccati_function(model, cost, dt)),
            roll=made(roll_function(model, cost, dt)),
        )


def solve_compiled(
    problem: Problem,
    kernels: Kernels,
    *,
    guess: ArrayLike | None = None,
    options: Options | None = None,
    width: int = 128,
    report: Callable[[int, Floats], None] | None = None,
) -> Solution:
    """Find motions as :func:`.ilqr.solve` does, all of it compiled, semi-implicit steps.

    Parameters
    ----------
    problem, guess, options, report : as of :func:`.ilqr.solve`; problems begin as others end.
    kernels : for the problem's robot, cost and step.
    width : problems at once: so many that calls cost little, and so few that they fit the caches.

    Raises
    ------
    ControlError
        When kernels or guess are not for the problem.
    """
    if width < BLOCK:
        raise ControlError(f"A width is at least {BLOCK} problems, not {width}.")
    engine = CompiledEngine(problem, kernels, width=min(width, problem.count))
    return iterate(engine, problem, guess=guess, options=options, width=width, report=report)


@dataclass(frozen=True)
class _Calls:
    """Arguments of the kernels: a step of each pass after the other, and both last knots."""

    riccati: list[dict[str, Any]]
    roll: list[dict[str, Any]]
    last: dict[str, Any]
    tried: dict[str, Any]


class CompiledEngine:
    """What :class:`.engine.ArrayEngine` does, in blocks of problems.

    Members
    -------
    cost, saturated, seconds : as there; no compiled gradient saturates.
    """

    def __init__(self, problem: Problem, kernels: Kernels, *, width: int) -> None:
        same = (
            kernels.dt == problem.dt
            and kernels.cost == problem.cost
            and kernels.model == problem.model
        )
        if not same:
            raise ControlError(
                f"The kernels are of {kernels.model.name} in steps of {kernels.dt} s, and the "
                f"problem is of {problem.model.name} in steps of {problem.dt} s, or their costs "
                "differ, or the robots do: compile kernels for the problem."
            )
        self.problem = problem.at(np.zeros(0, dtype=np.intp))
        self.kernels = kernels
        self.cost = np.zeros(0)
        self.saturated = 0
        self.seconds = dict.fromkeys(("gradients", "backward", "rollouts"), 0.0)
        self._dtype = np.dtype(kernels.dtype)
        self._lane = np.zeros(0, dtype=np.intp)
        self._tried_cost = np.zeros(0)
        self._settle(width)

    def _settle(self, count: int) -> None:
        """Make arrays for so many problems."""
        n, knots, blocks = self.problem.model.nv, self.problem.knots, -(-count // BLOCK)
        self._blocks = blocks

        def zeros(*shape: int, along: int = knots) -> Lanes:
            return np.zeros((along, blocks, *shape, BLOCK), self._dtype)

        self._q, self._qd = zeros(n, along=knots + 1), zeros(n, along=knots + 1)
        self._tau = zeros(n)
        self._tried = (zeros(n, along=knots + 1), zeros(n, along=knots + 1), zeros(n))
        self._last_cost = zeros(along=1)[0]
        self._gradient = {
            "qdd": zeros(n),
            "dqdd_dq": zeros(n, n),
            "dqdd_dqd": zeros(n, n),
            "minv": zeros(n, n),
        }
        self._K, self._k = zeros(n, 2 * n), zeros(n)
        self._near: dict[str, Lanes] = {}
        m = 2 * n
        sizes = {"V": (m, m), "v": (m,), "slope": (), "curve": (), "pivot": ()}
        # Two of each: what a knot finds, and what the next one left.
        self._values = {name: zeros(*shape, along=2) for name, shape in sizes.items()}
        self._sums = zeros(along=2)
        self._share, self._weight = zeros(along=1)[0], zeros(along=1)[0]
        self._calls: _Calls | None = None

    def _aim(self, problem: Problem, lanes: NDArray[np.intp]) -> None:
        """Write what costs are relative to into the lanes of problems, by input of the kernels."""
        target = problem.target
        named = {"q_ref": target.q, "qd_ref": target.qd, "tau_ref": target.tau}
        if self.problem.cost.has_tip and target.tip is not None:
            named["tip_ref"] = target.tip
        for name, values in named.items():
            wide = np.broadcast_to(values, (len(lanes), *values.shape[1:]))
            if name not in self._near:
                shape = (values.shape[1], self._blocks, values.shape[2], BLOCK)
                self._near[name] = np.zeros(shape, self._dtype)
                self._calls = None
            self._write(self._near[name], lanes, wide)

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[part] += time.perf_counter() - start

    def add(self, problem: Problem, u: Floats) -> None:
        """Roll efforts (n, knots, nv) of more problems out from where they start."""
        with self._timed("rollouts"):
            n, count = problem.model.nv, problem.count
            free = np.setdiff1d(np.arange(self._blocks * BLOCK), self._lane)[:count]
            self._write(self._q, free, np.repeat(problem.start[:, None, :n], problem.knots + 1, 1))
            self._write(self._qd, free, np.repeat(problem.start[:, None, n:], problem.knots + 1, 1))
            self._write(self._tau, free, u)
            self._aim(problem, free)
            self.problem = self.problem.joined(problem) if len(self._lane) else problem
            self._lane = np.concatenate([self._lane, free])
            self.cost = np.concatenate([self.cost, np.full(count, np.inf)])
            self._tried_cost = self.cost.copy()
            # Without feedback a trial is the guess itself.
            self._write(self._K, free, 0.0)
            self._write(self._k, free, 0.0)
            new = np.isin(self._lane, free)
        self.roll(np.zeros(len(self._lane)), new)
        self.accept(new)

    def expand(self) -> None:
        """Gradients of the dynamics along the trajectories; costs expand in the backward pass."""
        with self._timed("gradients"):

            def flat(array: Lanes) -> Lanes:
                return array.reshape(-1, *array.shape[2:])

            self.kernels.gradient.run(
                q=flat(self._q[:-1]),
                qd=flat(self._qd[:-1]),
                tau=flat(self._tau),
                out={name: flat(array) for name, array in self._gradient.items()},
            )

    def backward(self, damping: Floats) -> tuple[Floats, Floats, Flags]:
        """Feedback with ``damping`` (n,) added to the efforts' weights: slope, curve, good (n,)."""
        with self._timed("backward"):
            self._fill(self._weight, damping, 1.0)
            for _ in self._passed():
                pass
            first = self.problem.knots % 2
            slope, curve, pivot = (
                self._flat(self._values[name][first]) for name in ("slope", "curve", "pivot")
            )
            good = (pivot > 0.0) & np.isfinite(slope)
            return slope, curve, np.asarray(good)

    def rounding(self) -> Floats:
        """What rounding the states of a rollout moves its cost by, (n,), by the last pass."""
        with self._timed("backward"), np.errstate(all="ignore"):
            n = self.problem.model.nv
            moved = np.zeros((self._blocks, BLOCK))
            # A pass keeps no more than two knots' values: it is made again.
            for at, v in self._passed():
                for part, state in ((v[:, :n], self._q[at]), (v[:, n:], self._qd[at])):
                    moved += np.abs(part * state).sum(axis=1)
            share = ROUNDINGS * np.finfo(self._dtype).eps
            return np.asarray(share * (self._flat(moved) + np.abs(self.cost)))

    def _passed(self) -> Iterator[tuple[int, Lanes]]:
        """Go through the backward pass: each knot, the last first, and its value's gradient."""
        calls, knots = self._called(), self.problem.knots
        for name, first in (("slope", 0.0), ("curve", 0.0), ("pivot", 1e30)):
            self._values[name][0] = first
        self.kernels.final.run(**calls.last)
        yield knots, self._values["v"][0]
        for back, call in enumerate(calls.riccati):
            self.kernels.riccati.run(**call)
            yield knots - 1 - back, self._values["v"][1 - back % 2]

    def roll(self, shares: Floats, which: Flags) -> Floats:
        """Costs (n,) with a share (n,) of each feedback; infinite where none was asked for."""
        with self._timed("rollouts"):
            calls = self._called()
            # Problems beside those asked for make their last trial again, with the same share:
            # a few blocks cost less than their copies would.
            self._fill(self._share, shares, 0.0)
            self._tried[0][0], self._tried[1][0] = self._q[0], self._qd[0]
            self._sums[0] = 0.0
            for call in calls.roll:
                self.kernels.roll.run(**call)
            self.kernels.final.run(**calls.tried)
            total = self._flat(self._sums[self.problem.knots % 2]) + self._flat(self._last_cost)
            total[~np.isfinite(total)] = np.inf
            self._tried_cost[which] = total[which]
            return np.asarray(np.where(which, total, np.inf))

    def accept(self, which: Flags) -> None:
        """Take the last trials (n,) of these problems over."""
        lanes = np.zeros(self._blocks * BLOCK, dtype=np.bool_)
        lanes[self._lane[which]] = True
        mask = lanes.reshape(1, -1, 1, BLOCK)
        for accepted, trial in zip((self._q, self._qd, self._tau), self._tried, strict=True):
            np.copyto(accepted, trial, where=mask)
        self.cost = np.where(which, self._tried_cost, self.cost)

    def keep(self, which: Flags, *, more: bool) -> None:
        """Drop all other problems; their lanes go when half of all stay idle."""
        self._lane = self._lane[which]
        self.cost = self.cost[which]
        self._tried_cost = self._tried_cost[which]
        self.problem = self.problem.at(which)
        count = len(self._lane)
        if more or not count or -(-count // BLOCK) * 2 > self._blocks:
            return
        trajectories = [self._read(x, self._lane) for x in (self._q, self._qd, self._tau)]
        self._settle(count)
        self._lane = np.arange(count)
        for array, values in zip((self._q, self._qd, self._tau), trajectories, strict=True):
            self._write(array, self._lane, values)
        self._aim(self.problem, self._lane)

    def trajectories(self, which: Flags) -> tuple[Floats, Floats, Floats]:
        """States, efforts and feedback of some problems."""
        lanes = self._lane[which]
        return (
            np.concatenate([self._read(self._q, lanes), self._read(self._qd, lanes)], axis=-1),
            self._read(self._tau, lanes),
            self._read(self._K, lanes),
        )

    def _called(self) -> _Calls:
        """What the kernels are called with at each knot: the arrays stay where they are."""
        if self._calls is None:
            self._calls = self._made_calls()
        return self._calls

    def _made_calls(self) -> _Calls:
        n, knots = self.problem.model.nv, self.problem.knots
        blocks = self._blocks
        names = references(self.problem.cost)

        def near(at: int, *more: str) -> dict[str, Lanes]:
            return {
                name: self._near[name][at if len(self._near[name]) > 1 else 0]
                for name in (*names, *more)
            }

        riccati = []
        for back in range(knots):
            at, next_knot, current = knots - 1 - back, back % 2, 1 - back % 2
            riccati.append(
                {
                    "q": self._q[at],
                    "qd": self._qd[at],
                    "tau": self._tau[at],
                    **near(at, "tau_ref"),
                    **{name: self._gradient[name][at] for name in GRADIENTS},
                    "damping": self._weight,
                    **{f"{name}_next": pair[next_knot] for name, pair in self._values.items()},
                    "out": {
                        "K": self._K[at],
                        "k": self._k[at],
                        **{name: pair[current] for name, pair in self._values.items()},
                    },
                }
            )
        new_q, new_qd, new_tau = self._tried
        roll = [
            {
                "q_now": new_q[at],
                "qd_now": new_qd[at],
                "q": self._q[at],
                "qd": self._qd[at],
                "tau": self._tau[at],
                **near(at, "tau_ref"),
                "K": self._K[at],
                "k": self._k[at],
                "share": self._share,
                "cost_before": self._sums[at % 2],
                "out": {
                    "q_next": new_q[at + 1],
                    "qd_next": new_qd[at + 1],
                    "tau_new": new_tau[at],
                    "cost": self._sums[1 - at % 2],
                },
            }
            for at in range(knots)
        ]
        # Of a trial's last knot the value alone is asked for.
        idle = {
            "V": np.zeros((blocks, 2 * n, 2 * n, BLOCK), self._dtype),
            "v": np.zeros((blocks, 2 * n, BLOCK), self._dtype),
        }
        return _Calls(
            riccati=riccati,
            roll=roll,
            last={
                "q": self._q[knots],
                "qd": self._qd[knots],
                **near(knots),
                "out": {
                    "V": self._values["V"][0],
                    "v": self._values["v"][0],
                    "value": self._last_cost,
                },
            },
            tried={
                "q": new_q[knots],
                "qd": new_qd[knots],
                **near(knots),
                "out": {**idle, "value": self._last_cost},
            },
        )

    def _flat(self, lanes: Lanes) -> Floats:
        return np.asarray(lanes.reshape(-1)[self._lane], dtype=np.float64)

    def _fill(self, lanes: Lanes, values: Floats, idle: float) -> None:
        """Write numbers (n,) of problems into lanes (blocks, 16)."""
        lanes[:] = idle
        lanes.reshape(-1)[self._lane] = values

    def _read(self, array: Lanes, lanes: NDArray[np.intp]) -> Floats:
        """What stands in some lanes of (knots, blocks, ..., 16), as (n, knots, ...)."""
        # Indices that stand apart put their axis first.
        return np.asarray(array[:, lanes // BLOCK, ..., lanes % BLOCK], dtype=np.float64)

    def _write(self, array: Lanes, lanes: NDArray[np.intp], values: ArrayLike) -> None:
        """Write (n, knots, ...), or one number, into some lanes of (knots, blocks, ..., 16)."""
        array[:, lanes // BLOCK, ..., lanes % BLOCK] = values


GRADIENTS = ("dqdd_dq", "dqdd_dqd", "minv")
"""What a step of the backward pass takes of the dynamics."""
