"""Tracking loss of a core's formats, the criterion by which a task chooses them.

The controller runs twice, with gradients in float64 and with those of a candidate's integers, which
equal its core's bit for bit. Results that the candidate does not compute come from float64. The
loss is the difference between the tip's RMS distance from its path and float64's, relative to the
latter, in either direction: wrong gradients may bring the tip nearer to one path by chance, and not
to the next. Gradients that are flagged or not finite are replaced as usual (:mod:`.mpc`); if the
simulation diverges the loss is infinite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from pinion.api import backend
from pinion.batch import Backend, Result, by_name
from pinion.control.errors import ControlError
from pinion.control.plant import Plant, forward_of, gradient_row, single_joints_model
from pinion.control.track.closed_loop import Tracked, track
from pinion.control.track.disturbance import Disturbance
from pinion.control.track.float_robot import FloatRobot
from pinion.control.track.motion import Motion
from pinion.control.track.mpc import Mpc
from pinion.flow.by_task import Goal, Outcome
from pinion.flow.candidate import Candidate
from pinion.functions import Function
from pinion.robot import Model, tip_of

from .motion import robot_motion
from .task import Task, TaskMotion

GIVEN = ("q", "qd", "tau", "qdd", "minv")
"""Arrays that a controller can send to a core."""

USED = ("dqdd_dq", "dqdd_dqd", "minv")
"""Results of a core that a controller uses; ``qdd`` may be among them."""

MM = 1e3


class WithCore(Backend):
    """Gradients in float64, except for the results that a candidate computes."""

    def __init__(self, candidate: Candidate, floats: Backend) -> None:
        self.candidate = candidate
        self.floats = floats

    def run(self, /, *values: ArrayLike, **arrays: ArrayLike) -> Result:
        """Compute a batch: q, qd, tau (n, nv) in; qdd, dqdd_dq, dqdd_dqd, minv out."""
        arrays = by_name(gradient_row().inputs, values, arrays)
        exact = self.floats(**arrays)
        float_results = {name: np.asarray(exact[name], np.float64) for name in exact.names}
        results, flags = self.candidate.run({**arrays, **float_results})
        return Result(arrays=float_results | results, saturated=flags, cycles=None)

    def close(self) -> None:
        """Do nothing: the float64 backend stays open for other candidates."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A motion of a task, tracked with gradients in float64.

    Members
    -------
    motion, hidden : the motion, and the disturbance that the controller does not know.
    share : of the task's size that the robot reaches.
    exact : tracking with gradients in float64.
    """

    motion: Motion
    hidden: Disturbance
    share: float
    exact: Tracked


class TrackingLoss:
    """Tracking loss of candidates for a robot, a function and a task.

    Parameters
    ----------
    model, row : the robot, and the function whose formats are chosen.
    task : the task.

    Raises
    ------
    ControlError
        If a controller cannot use the function, or the robot cannot perform the task.
    """

    def __init__(self, model: Model, row: Function, task: Task) -> None:
        inputs = [block.name for block in row.inputs]
        outputs = [block.name for block in row.results]
        useful = set(outputs) & set(USED) and set(outputs) <= {"qdd", *USED}
        if row.states or not useful or not set(inputs) <= set(GIVEN):
            raise ControlError(
                f"A task's controller cannot use '{row.name}', which computes {', '.join(outputs)} "
                f"from {', '.join(inputs)}: choose 'fd_derivatives', "
                "'fd_derivatives_from_minv' or 'minv'."
            )
        if row.joint_terms:
            raise ControlError(
                f"A task's controller does not support joint terms, but '{row.name}' has "
                f"{', '.join(row.joint_terms)}: omit joint_terms (--joint-terms), or choose "
                "formats with max_error (--max-error)."
            )
        self.model = single_joints_model(
            model, "a choice of formats by a task", "a choice by errors"
        )
        self.row = row
        self.task = task

    def goal(self) -> Goal:
        """Return the task as the goal of a build's choice of formats."""
        task = self.task
        assert self._others  # raises now if a held-out motion is impossible
        return Goal(
            name=task.name,
            text=task.text,
            loss=task.loss,
            measure=self.measure,
            held_out=self.held_out,
            held_out_loss=task.held_out_loss,
            exact={"rms_mm": _rms(self._searched.exact), "share": self._searched.share},
            evaluations=task.evaluations,
        )

    def measure(self, candidate: Candidate) -> Outcome:
        """Return the loss in the motion on which formats are chosen."""
        return self._loss(candidate, (self._searched,))

    def held_out(self, candidate: Candidate) -> Outcome:
        """Return the largest loss in the held-out motions."""
        return self._loss(candidate, self._others)

    @cached_property
    def _searched(self) -> Run:
        return self._exact_run(self.task.motion)

    @cached_property
    def _others(self) -> tuple[Run, ...]:
        return tuple(self._exact_run(motion) for motion in self.task.held_out)

    @cached_property
    def _floats(self) -> Backend:
        return backend(self.model, gradient_row(), device="cpu", dtype="float64", threads=1)

    def _exact_run(self, task_motion: TaskMotion) -> Run:
        task = self.task
        horizon = task.knots * task.step
        motion, share = robot_motion(task_motion, self.model, period=task.period, horizon=horizon)
        hidden = self._disturbance(motion)
        exact = self._tracked(self._floats, motion, hidden)
        if exact is None or not _rms(exact) > 0.0:
            raise ControlError(
                f"The controller of the task '{task.name}' does not stabilise {self.model.name} "
                "even with gradients in float64: choose a shorter period or other weights."
            )
        return Run(motion=motion, hidden=hidden, share=share, exact=exact)

    def _disturbance(self, motion: Motion) -> Disturbance:
        """Return the task's disturbance in kg, N m and N m s, for this robot and motion."""
        unknown = self.task.unknown
        mass = sum(body.inertia.mass for body in self.model.bodies)
        effort, rate = (float(np.sqrt(np.mean(x**2))) for x in (motion.tau, motion.qd))
        return Disturbance(
            payload=unknown.payload * mass,
            friction=unknown.friction * effort,
            damping=unknown.damping * effort / rate if rate > 0.0 else 0.0,
            delay=unknown.delay,
        )

    def _tracked(self, gradients: Backend, motion: Motion, hidden: Disturbance) -> Tracked | None:
        """Return the record of the tracked motion; None if the simulation diverges."""
        task = self.task
        plant = Plant(self.model, dt=task.step, gradients=gradients, forward=forward_of(self.model))
        cost = task.cost(tip_of(self.model))
        controller = Mpc(plant, cost, motion, knots=task.knots, iterations=task.iterations)
        robot = FloatRobot(self.model, step=task.period / task.inner, disturbance=hidden)
        try:
            with robot, np.errstate(all="ignore"):
                return track(controller, robot)
        except (ControlError, np.linalg.LinAlgError):
            return None

    def _loss(self, candidate: Candidate, runs: tuple[Run, ...]) -> Outcome:
        """Return a candidate's largest loss over some runs, with figures for reports."""
        worst, change, flagged, restarts, apart = 0.0, 0.0, 0, 0, 0.0
        with WithCore(candidate, self._floats) as gradients:
            for run in runs:
                tracked = self._tracked(gradients, run.motion, run.hidden)
                if tracked is None:
                    return Outcome(loss=math.inf)
                excess = _rms(tracked) / _rms(run.exact) - 1.0
                worst = float(np.maximum(worst, abs(excess)))  # NaN stays
                change = excess if abs(excess) >= abs(change) else change
                flagged += tracked.flagged
                restarts += tracked.restarts
                away = np.linalg.norm(tracked.tip - run.exact.tip, axis=1)
                apart = float(np.maximum(apart, MM * away.max()))
        figures = {"change": change, "flagged": float(flagged), "restarts": float(restarts)}
        figures["apart_mm"] = apart
        return Outcome(loss=worst, figures=figures)


def _rms(tracked: Tracked) -> float:
    """Return the RMS distance of the tip from its path [mm]."""
    return float(MM * np.sqrt(np.mean(tracked.errors**2)))
