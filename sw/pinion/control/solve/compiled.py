"""Solver iterations compiled for the CPU, in blocks of sixteen problems side by side.

The steps of :mod:`.kernels` run knot by knot for all problems at once; one call computes the
gradients of all knots. Arrays are in blocks of sixteen problems (:mod:`pinion.compute.layouts`),
knots first, so that the data of a knot is contiguous and needs no conversion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pinion.base.arrays import Flags, Floats
from pinion.compute import cpu
from pinion.compute.layouts import BLOCK
from pinion.control.errors import ControlError
from pinion.control.plant import gradient_row, single_joints_model
from pinion.robot import Model

from .engine import ROUNDINGS, timed
from .frames import by_frame
from .ilqr import Options, iterate
from .kernels import final_function, references, riccati_function, roll_function
from .problem import OF_EFFORTS, OF_STATES, Problem, Solution
from .weights import Cost

Lanes = NDArray[Any]


@dataclass(frozen=True)
class Kernels:
    """Compiled solver steps for a robot, a cost and a time step.

    Members
    -------
    model, cost, dt, dtype : what they are compiled for.
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
        """Compile or load the kernels; options as for :func:`pinion.compute.cpu.compile`.

        Raises
        ------
        ValueError
            Subclasses: an unknown robot, dtype or option, or no compiler.
        """
        model = single_joints_model(robot, "a compiled solver", "solve")
        cost.check_compiled("A compiled solver", "use solve")

        def compiled(row: Any) -> cpu.Kernel:
            return cpu.compile(model, row, dtype=dtype, layout="blocks", **options)

        return cls(
            model=model,
            cost=cost,
            dt=dt,
            dtype=dtype,
            gradient=compiled(gradient_row()),
            final=compiled(final_function(model, cost)),
            riccati=compiled(riccati_function(model, cost, dt)),
            roll=compiled(roll_function(model, cost, dt)),
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
    """Solve n problems as :func:`.ilqr.solve` does, in compiled code, with semi-implicit steps.

    Parameters
    ----------
    problem, guess, options, report : as for :func:`.ilqr.solve`; problems start as others end.
    kernels : for the problem's robot, cost and step.
    width : number of problems at once: enough that calls cost little, few enough for the caches.

    Raises
    ------
    ControlError
        If kernels or guess do not match the problem.
    """
    if width < BLOCK:
        raise ControlError(f"The width must be at least {BLOCK} problems, not {width}.")
    engine = CompiledEngine(problem, kernels, width=min(width, problem.count))
    return iterate(engine, problem, guess=guess, options=options, width=width, report=report)


@dataclass(frozen=True)
class _Calls:
    """Arguments of the kernels for each step of both passes, and for the last knots."""

    riccati: list[dict[str, Any]]
    roll: list[dict[str, Any]]
    last: dict[str, Any]
    trial_last: dict[str, Any]


class CompiledEngine:
    """Compiled counterpart of :class:`.engine.ArrayEngine`, in blocks of problems.

    Members
    -------
    cost, saturated, seconds : as in that class; no compiled gradient saturates.
    """

    def __init__(self, problem: Problem, kernels: Kernels, *, width: int) -> None:
        same = (
            kernels.dt == problem.dt
            and kernels.cost == problem.cost
            and kernels.model == problem.model
        )
        if not same:
            raise ControlError(
                f"The kernels ({kernels.model.name}, steps of {kernels.dt} s) do not match the "
                f"problem ({problem.model.name}, steps of {problem.dt} s) in robot, cost or step: "
                "compile kernels for the problem."
            )
        problem.check_limits("solve_compiled", OF_EFFORTS + OF_STATES, "use solve")
        self.problem = problem.at(np.zeros(0, dtype=np.intp))
        self.kernels = kernels
        self.cost = np.zeros(0)
        self.saturated = 0
        self.seconds = dict.fromkeys(("gradients", "backward", "rollouts"), 0.0)
        self._dtype = np.dtype(kernels.dtype)
        self._lane = np.zeros(0, dtype=np.intp)
        self._trial_cost = np.zeros(0)
        self._allocate(width)

    def _allocate(self, count: int) -> None:
        """Allocate arrays for ``count`` problems."""
        n, knots, blocks = self.problem.model.nv, self.problem.knots, -(-count // BLOCK)
        self._blocks = blocks

        def zeros(*shape: int, along: int = knots) -> Lanes:
            return np.zeros((along, blocks, *shape, BLOCK), self._dtype)

        self._q, self._qd = zeros(n, along=knots + 1), zeros(n, along=knots + 1)
        self._tau = zeros(n)
        self._trial = (zeros(n, along=knots + 1), zeros(n, along=knots + 1), zeros(n))
        self._last_cost = zeros(along=1)[0]
        self._gradient = {
            "qdd": zeros(n),
            "dqdd_dq": zeros(n, n),
            "dqdd_dqd": zeros(n, n),
            "minv": zeros(n, n),
        }
        self._gains, self._feedforward = zeros(n, 2 * n), zeros(n)
        self._references: dict[str, Lanes] = {}
        m = 2 * n
        sizes = {"V": (m, m), "v": (m,), "slope": (), "curve": (), "pivot": ()}
        # Two of each: of the current knot and of the next one.
        self._values = {name: zeros(*shape, along=2) for name, shape in sizes.items()}
        self._cost_sums = zeros(along=2)
        self._share, self._regularisation = zeros(along=1)[0], zeros(along=1)[0]
        self._calls: _Calls | None = None

    def _set_references(self, problem: Problem, lanes: NDArray[np.intp]) -> None:
        """Write the problems' targets into their lanes of the kernels' inputs."""
        target = problem.target
        named = {"q_ref": target.q, "qd_ref": target.qd, "tau_ref": target.tau}
        if problem.cost.has_tip:
            named["tip_ref"] = by_frame(target.tip, problem.cost.frame)[problem.cost.frame]
        for name, values in named.items():
            if name not in self._references:
                shape = (values.shape[1], self._blocks, values.shape[2], BLOCK)
                self._references[name] = np.zeros(shape, self._dtype)
                self._calls = None
            spread = np.broadcast_to(values, (len(lanes), *values.shape[1:]))
            self._write(self._references[name], lanes, spread)

    def gap(self) -> Floats:
        """Return zeros (n,): trajectories that are rolled out have no gaps."""
        return np.zeros(len(self._lane))

    def add(self, problem: Problem, u: Floats, x: Floats | None = None) -> None:
        """Add problems, and roll out their efforts (n, knots, nv) from their start states."""
        assert x is None
        with timed(self.seconds, "rollouts"):
            n, count = problem.model.nv, problem.count
            free = np.setdiff1d(np.arange(self._blocks * BLOCK), self._lane)[:count]
            self._write(self._q, free, np.repeat(problem.start[:, None, :n], problem.knots + 1, 1))
            self._write(self._qd, free, np.repeat(problem.start[:, None, n:], problem.knots + 1, 1))
            self._write(self._tau, free, u)
            self._set_references(problem, free)
            self.problem = self.problem.joined(problem) if len(self._lane) else problem
            self._lane = np.concatenate([self._lane, free])
            self.cost = np.concatenate([self.cost, np.full(count, np.inf)])
            self._trial_cost = self.cost.copy()
            # Without feedback a trial is the guess itself.
            self._write(self._gains, free, 0.0)
            self._write(self._feedforward, free, 0.0)
            new = np.isin(self._lane, free)
        self.roll(np.zeros(len(self._lane)), new)
        self.accept(new)

    def expand(self) -> None:
        """Compute gradients along the trajectories; the backward pass expands the costs."""
        with timed(self.seconds, "gradients"):

            def flat(array: Lanes) -> Lanes:
                return array.reshape(-1, *array.shape[2:])

            self.kernels.gradient.run(
                q=flat(self._q[:-1]),
                qd=flat(self._qd[:-1]),
                tau=flat(self._tau),
                out={name: flat(array) for name, array in self._gradient.items()},
            )

    def backward(self, regularisation: Floats) -> tuple[Floats, Floats, Flags]:
        """Solve with ``regularisation`` (n,) added to R; return slope, curvature, convex (n,)."""
        with timed(self.seconds, "backward"):
            self._fill(self._regularisation, regularisation, 1.0)
            for _ in self._backward_steps():
                pass
            first = self.problem.knots % 2
            slope, curvature, pivot = (
                self._flat(self._values[name][first]) for name in ("slope", "curve", "pivot")
            )
            return slope, curvature, np.asarray((pivot > 0.0) & np.isfinite(slope))

    def rounding(self) -> Floats:
        """Return an estimate (n,) of how much rounding errors in a rollout change its cost."""
        with timed(self.seconds, "backward"), np.errstate(all="ignore"):
            n = self.problem.model.nv
            change = np.zeros((self._blocks, BLOCK))
            # Run again, because a pass keeps the values of two knots only.
            for at, Vx in self._backward_steps():
                for part, state in ((Vx[:, :n], self._q[at]), (Vx[:, n:], self._qd[at])):
                    change += np.abs(part * state).sum(axis=1)
            share = ROUNDINGS * np.finfo(self._dtype).eps
            return np.asarray(share * (self._flat(change) + np.abs(self.cost)))

    def _backward_steps(self) -> Iterator[tuple[int, Lanes]]:
        """Run the backward pass; yield each knot with its Vx, from the last knot to the first."""
        calls, knots = self._kernel_calls(), self.problem.knots
        for name, first in (("slope", 0.0), ("curve", 0.0), ("pivot", 1e30)):
            self._values[name][0] = first
        self.kernels.final.run(**calls.last)
        yield knots, self._values["v"][0]
        for back, call in enumerate(calls.riccati):
            self.kernels.riccati.run(**call)
            yield knots - 1 - back, self._values["v"][1 - back % 2]

    def roll(self, shares: Floats, which: Flags) -> Floats:
        """Try step sizes ``shares`` (n,), and return the costs (n,); infinite outside ``which``."""
        with timed(self.seconds, "rollouts"):
            calls = self._kernel_calls()
            # Problems outside ``which`` repeat their last trial with the same share: a few blocks
            # cost less than their copies would.
            self._fill(self._share, shares, 0.0)
            self._trial[0][0], self._trial[1][0] = self._q[0], self._qd[0]
            self._cost_sums[0] = 0.0
            for call in calls.roll:
                self.kernels.roll.run(**call)
            self.kernels.final.run(**calls.trial_last)
            running = self._cost_sums[self.problem.knots % 2]
            total = self._flat(running) + self._flat(self._last_cost)
            total[~np.isfinite(total)] = np.inf
            self._trial_cost[which] = total[which]
            return np.asarray(np.where(which, total, np.inf))

    def accept(self, which: Flags) -> None:
        """Accept the last trials of the problems in the mask ``which`` (n,)."""
        lanes = np.zeros(self._blocks * BLOCK, dtype=np.bool_)
        lanes[self._lane[which]] = True
        mask = lanes.reshape(1, -1, 1, BLOCK)
        for accepted, trial in zip((self._q, self._qd, self._tau), self._trial, strict=True):
            np.copyto(accepted, trial, where=mask)
        self.cost = np.where(which, self._trial_cost, self.cost)

    def keep(self, which: Flags, *, more: bool) -> None:
        """Drop problems outside ``which``; shrink the arrays once half of all blocks are idle."""
        self._lane = self._lane[which]
        self.cost = self.cost[which]
        self._trial_cost = self._trial_cost[which]
        self.problem = self.problem.at(which)
        count = len(self._lane)
        if more or not count or -(-count // BLOCK) * 2 > self._blocks:
            return
        trajectories = [self._read(x, self._lane) for x in (self._q, self._qd, self._tau)]
        self._allocate(count)
        self._lane = np.arange(count)
        for array, values in zip((self._q, self._qd, self._tau), trajectories, strict=True):
            self._write(array, self._lane, values)
        self._set_references(self.problem, self._lane)

    def objective(self) -> Floats:
        """Return the costs (n,)."""
        return self.cost

    def constrain(self, decrease: Floats, tolerance: float) -> tuple[Flags, Flags]:
        """Return that all problems meet their constraints, as there are none, and none changed."""
        del tolerance
        return np.ones(len(decrease), dtype=np.bool_), np.zeros(len(decrease), dtype=np.bool_)

    def multipliers(self, which: Flags) -> dict[str, Floats]:
        """Return an empty dictionary, since no states are constrained."""
        del which
        return {}

    def trajectories(self, which: Flags) -> tuple[Floats, Floats, Floats]:
        """Return states, efforts and gains of the problems in the mask ``which`` (n,)."""
        lanes = self._lane[which]
        return (
            np.concatenate([self._read(self._q, lanes), self._read(self._qd, lanes)], axis=-1),
            self._read(self._tau, lanes),
            self._read(self._gains, lanes),
        )

    def _kernel_calls(self) -> _Calls:
        """Return the kernels' arguments at each knot, rebuilt only for new arrays."""
        if self._calls is not None:
            return self._calls
        n, knots = self.problem.model.nv, self.problem.knots
        blocks = self._blocks
        names = references(self.problem.cost)

        def near(at: int, *more: str) -> dict[str, Lanes]:
            return {
                name: self._references[name][at if len(self._references[name]) > 1 else 0]
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
                    "damping": self._regularisation,
                    **{f"{name}_next": pair[next_knot] for name, pair in self._values.items()},
                    "out": {
                        "K": self._gains[at],
                        "k": self._feedforward[at],
                        **{name: pair[current] for name, pair in self._values.items()},
                    },
                }
            )
        new_q, new_qd, new_tau = self._trial
        roll = [
            {
                "q_now": new_q[at],
                "qd_now": new_qd[at],
                "q": self._q[at],
                "qd": self._qd[at],
                "tau": self._tau[at],
                **near(at, "tau_ref"),
                "K": self._gains[at],
                "k": self._feedforward[at],
                "share": self._share,
                "cost_before": self._cost_sums[at % 2],
                "out": {
                    "q_next": new_q[at + 1],
                    "qd_next": new_qd[at + 1],
                    "tau_new": new_tau[at],
                    "cost": self._cost_sums[1 - at % 2],
                },
            }
            for at in range(knots)
        ]
        # A trial's last knot needs the value alone.
        unused = {
            "V": np.zeros((blocks, 2 * n, 2 * n, BLOCK), self._dtype),
            "v": np.zeros((blocks, 2 * n, BLOCK), self._dtype),
        }
        self._calls = _Calls(
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
            trial_last={
                "q": new_q[knots],
                "qd": new_qd[knots],
                **near(knots),
                "out": {**unused, "value": self._last_cost},
            },
        )
        return self._calls

    def _flat(self, lanes: Lanes) -> Floats:
        return np.asarray(lanes.reshape(-1)[self._lane], dtype=np.float64)

    def _fill(self, lanes: Lanes, values: Floats, idle: float) -> None:
        """Write one number per problem, (n,), into lanes (blocks, 16); ``idle`` into the others."""
        lanes[:] = idle
        lanes.reshape(-1)[self._lane] = values

    def _read(self, array: Lanes, lanes: NDArray[np.intp]) -> Floats:
        """Return some lanes of an array (knots, blocks, ..., 16) as (n, knots, ...)."""
        # NumPy puts the axis of separated index arrays first.
        return np.asarray(array[:, lanes // BLOCK, ..., lanes % BLOCK], dtype=np.float64)

    def _write(self, array: Lanes, lanes: NDArray[np.intp], values: ArrayLike) -> None:
        """Write (n, knots, ...) or a scalar into lanes of an array (knots, blocks, ..., 16)."""
        array[:, lanes // BLOCK, ..., lanes % BLOCK] = values


GRADIENTS = ("dqdd_dq", "dqdd_dqd", "minv")
"""Results of the dynamics that a step of the backward pass takes."""
