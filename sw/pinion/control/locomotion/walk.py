"""Walks of a simulated robot: a gait tracked by model predictive control, with pushes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pinion.base.arrays import Floats
from pinion.control.errors import ControlError, check_number
from pinion.control.track.closed_loop import steps_in
from pinion.control.track.mpc import Mpc
from pinion.control.track.mujoco_robot import MujocoRobot

from .gait import headings
from .terrain import GroundPlane


@dataclass(frozen=True, kw_only=True)
class Push:
    """A force on the base for some time, unknown to the controller.

    Members
    -------
    begin, duration : [s].
    force : (3,), in world axes [N].
    """

    begin: float
    force: Sequence[float]
    duration: float = 0.1

    def __post_init__(self) -> None:
        for name in ("begin", "duration"):
            check_number(f"The push's '{name}'", getattr(self, name))
        if np.shape(self.force) != (3,) or not np.isfinite(self.force).all():
            raise ControlError(f"A push has the force {self.force!r:.60}: give 3 finite numbers.")

    def acts(self, time: float) -> bool:
        """Return whether the force acts at time ``time`` [s]."""
        return self.begin - 1e-9 <= time < self.begin + self.duration - 1e-9


@dataclass(frozen=True, kw_only=True)
class Walk:
    """Record of a walk, by period.

    Members
    -------
    period : [s].
    x, reference : (m, nx), measured states, and those of the motion on level ground.
    tau : (m, nu), first efforts of each period.
    active, planned : (m, contacts), contacts that touch the ground, and those that should.
    seconds : times of the controller by part, (m,) each.
    restarts : as in :class:`pinion.control.track.mpc.Log`.
    fallen : when the robot fell [s], and why; None if it did not.
    """

    period: float
    x: Floats
    reference: Floats
    tau: Floats
    active: Floats
    planned: Floats
    seconds: Mapping[str, Floats]
    restarts: int
    fallen: tuple[float, str] | None

    def speed_error(self, *, window: float = 2.0, begin: float = 0.0) -> float:
        """Return the largest error of the mean horizontal velocity over windows of time [m/s].

        Parameters
        ----------
        window : [s].
        begin : of the first window [s].
        """
        rows, first = round(window / self.period), round(begin / self.period)
        off = (self.x - self.reference)[first:, :2]
        if len(off) <= rows:
            raise ControlError(
                f"The walk lasted {len(self.x) * self.period:.4g} s, too short for a window of "
                f"{window} s that begins at {begin} s: give a shorter window or an earlier begin."
            )
        return float(np.linalg.norm(off[rows:] - off[:-rows], axis=1).max() / window)

    def mean_speeds(self, begin: float, end: float) -> tuple[float, float, float] | None:
        """Return mean speeds forward and to the left [m/s], and the rate of turning [rad/s].

        They are along the base's heading; None if the walk ended before ``end`` [s], or there are
        fewer than two states between the times.
        """
        first, last = round(begin / self.period), round(end / self.period)
        if last > len(self.x) or last - first < 2:
            return None
        forward, left, turning = base_speeds(self.x[first:last], self.period).mean(axis=1)
        return float(forward), float(left), float(turning)

    def figures(self) -> dict[str, Any]:
        """Return a summary for JSON: times in microseconds, None if no period was completed."""
        total = sum(self.seconds.values(), np.zeros(len(self.x)))
        some = len(total) > 0
        fallen = None if self.fallen is None else {"at": self.fallen[0], "why": self.fallen[1]}
        return {
            "periods": len(self.x),
            "fallen": fallen,
            "us_median": 1e6 * float(np.median(total)) if some else None,
            "us_p99": 1e6 * float(np.quantile(total, 0.99)) if some else None,
            "largest_effort": float(np.abs(self.tau).max()) if some else None,
            "feet_as_planned": float(np.mean(self.active == self.planned)) if some else None,
            "restarts": self.restarts,
        }


def base_speeds(x: Floats, period: float) -> Floats:
    """Return speeds forward and to the left [m/s], and rates of turning [rad/s], (3, m - 1).

    They are means between states (m, nx), a period [s] apart, along the base's heading.
    """
    yaw = np.unwrap(headings(x))
    middle, moved = (yaw[1:] + yaw[:-1]) / 2, np.diff(x[:, :2], axis=0)
    c, s = np.cos(middle), np.sin(middle)
    forward, left = c * moved[:, 0] + s * moved[:, 1], c * moved[:, 1] - s * moved[:, 0]
    return np.stack([forward, left, np.diff(yaw)]) / period


def walk(
    controller: Mpc,
    robot: MujocoRobot,
    *,
    duration: float,
    pushes: Sequence[Push] = (),
    plane: GroundPlane | None = None,
) -> Walk:
    """Track a controller's motion with a legged robot until it falls or the time is up.

    Parameters
    ----------
    controller : a fresh controller of a gait (:func:`.gait.gait_motion`).
    robot : its state is that from which the walk begins. The period is a multiple of its step, and
        the feedback is evaluated at every step.
    duration : [s].
    pushes : forces on the base.
    plane : estimate of the ground; None for ground that is known to be level.

    Raises
    ------
    ControlError
        If the duration is longer than the motion, or the robot's step does not divide the period.
    """
    period, motion = controller.period, controller.motion
    inner, count = steps_in(period, robot), round(duration / period)
    if not 0 < count <= controller.periods:
        raise ControlError(
            f"A walk of {duration} s does not fit the motion: give at least one period, {period} "
            f"s, and at most {controller.periods * period:.4g} s, the start of the motion's last "
            "horizon."
        )
    space, planned = controller.plant.space, motion.on_ground(controller.plant.contacts)
    lowest = LOWEST * motion.q[:, 2].min()
    states, touching, efforts = [], [], []
    fallen = None
    for number in range(count):
        time, x = number * period, robot.state
        states.append(x)
        touching.append(robot.active)
        if plane is not None:
            plane.update(x, planned[number])
        level = _level(plane, x)
        if level[2] < lowest or 1.0 - 2.0 * float(level[3:5] @ level[3:5]) < UPRIGHT:
            fallen = time, "the base is low, or leans"
            break
        robot.push(sum((np.array(p.force) for p in pushes if p.acts(time)), np.zeros(3)))
        try:
            law = controller.update(number, level)
            for step in range(inner):
                u = law.efforts(step * robot.step, _level(plane, robot.state))
                if not step:
                    efforts.append(u)
                robot.advance(space.efforts(u))
        except ControlError as error:
            fallen = time, str(error)
            break
    rows = len(efforts)
    return Walk(
        period=period,
        x=np.array(states[:rows]).reshape(rows, space.nx),
        reference=motion.states()[:rows],
        tau=np.array(efforts).reshape(rows, space.nu),
        active=np.array(touching[:rows]).reshape(rows, planned.shape[1]),
        planned=planned[:rows],
        seconds={part: np.array(times[:rows]) for part, times in controller.log.seconds.items()},
        restarts=controller.log.restarts,
        fallen=fallen,
    )


LOWEST, UPRIGHT = 0.6, 0.7
"""Share of the motion's height, and cosine of the base's lean, below which a robot has fallen."""


def _level(plane: GroundPlane | None, x: Floats) -> Floats:
    return x if plane is None else plane.levelled(x)
