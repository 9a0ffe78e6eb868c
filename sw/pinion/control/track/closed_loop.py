"""Closed-loop tracking of a motion by a controller and a simulated robot, with errors and times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pinion.base.arrays import Floats
from pinion.control.errors import ControlError
from pinion.control.limits import limit_shares
from pinion.robot import Model

from .mpc import Mpc
from .period import PARTS

MM, MICRO = 1e3, 1e6


class Moving(Protocol):
    """A simulated robot: in MuJoCo (:mod:`.mujoco_robot`) or in Pinion (:mod:`.float_robot`)."""

    model: Model
    step: float
    frame: str

    @property
    def state(self) -> Floats:
        """Current positions and rates, (nx,)."""

    def reset(self, q: Floats) -> None:
        """Set the positions, with zero velocity."""

    def advance(self, efforts: Floats) -> None:
        """Advance by one step with efforts (nv,)."""

    def tip(self, q: Floats) -> Floats:
        """Return tip positions (m, 3) [m] at joint positions (m, nq)."""


@dataclass(frozen=True, kw_only=True)
class Tracked:
    """Record of a tracked motion, by period.

    Members
    -------
    period : [s].
    x, tau : (m, nx) states at the start of each period, and (m, nu) efforts at its end.
    tip, reference : (m, 3) positions of the tip and of its reference [m].
    seconds : by part, (m,) each.
    flagged, gradients, restarts : as in :class:`.mpc.Log`.
    shares : largest used share of the limits of ``position``, ``rate`` (the rated one) and
        ``effort``, over all joints and instants; joints without a limit are left out.
    """

    period: float
    x: Floats
    tau: Floats
    tip: Floats
    reference: Floats
    seconds: Mapping[str, Floats]
    flagged: int
    gradients: int
    restarts: int
    shares: Mapping[str, float]

    @property
    def errors(self) -> Floats:
        """Distances of the tip from its reference, (m,) [m]."""
        return np.asarray(np.linalg.norm(self.tip - self.reference, axis=1))

    def figures(self) -> dict[str, Any]:
        """Return a summary for JSON: errors in mm, times in microseconds, rates in Hz."""
        off = MM * self.errors
        total = sum(self.seconds[part] for part in PARTS)
        return {
            "periods": len(off),
            "rms_mm": float(np.sqrt(np.mean(off**2))),
            "max_mm": float(off.max()),
            "us": {part: MICRO * float(np.median(self.seconds[part])) for part in PARTS},
            "us_median": MICRO * float(np.median(total)),
            "us_p99": MICRO * float(np.quantile(total, 0.99)),
            "hz": 1.0 / float(np.median(total)),
            "flagged": self.flagged,
            "gradients": self.gradients,
            "restarts": self.restarts,
            "limit_shares": dict(self.shares),
        }


def track(
    controller: Mpc,
    robot: Moving,
    *,
    report: Callable[[int, int], None] | None = None,
) -> Tracked:
    """Track a controller's motion with a robot, from start to end.

    Parameters
    ----------
    controller : a fresh controller.
    robot : starts at rest at the motion's first positions. The period is a multiple of its step,
        and the feedback is evaluated at every step.
    report : called with the number of finished periods and that of all periods.

    Raises
    ------
    ControlError
        If the robot does not match the controller, or the controller has been used.
    """
    period, motion = controller.period, controller.motion
    inner = steps_in(period, robot)
    if robot.model.nv != controller.plant.model.nv or robot.frame != motion.frame:
        raise ControlError(
            f"The controller is for {controller.plant.model.name} (nv {controller.plant.model.nv}) "
            f"with the tip '{motion.frame}', but the simulated robot is {robot.model.name} "
            f"(nv {robot.model.nv}) with the tip '{robot.frame}': give both the same robot and tip."
        )
    if controller.log.gradients:
        raise ControlError("The controller has been used: create a new one for each run.")
    count, space = controller.periods, controller.plant.space
    x, tau = np.empty((count, inner, space.nx)), np.empty((count, inner, space.nu))
    robot.reset(motion.q[0])
    for number in range(count):
        law = controller.update(number, robot.state)
        for step in range(inner):
            x[number, step] = robot.state
            tau[number, step] = law.efforts(step * robot.step, x[number, step])
            robot.advance(space.efforts(tau[number, step]))
        if report is not None:
            report(number + 1, count)
    log, begins = controller.log, x[:, 0]
    shares = limit_shares(robot.model, *space.parts(x), tau)
    return Tracked(
        period=period,
        x=begins,
        tau=tau[:, -1],
        tip=robot.tip(space.parts(begins)[0]),
        reference=motion.tip[:count],
        seconds={part: np.array(values) for part, values in log.seconds.items()},
        flagged=log.flagged,
        gradients=log.gradients,
        restarts=log.restarts,
        shares={name: float(share.max()) for name, share in shares.items()},
    )


def steps_in(period: float, robot: Moving) -> int:
    """Return the number of a robot's steps in a period, or raise `ControlError`."""
    inner = round(period / robot.step)
    if inner < 1 or abs(inner * robot.step - period) > 1e-9:
        raise ControlError(
            f"The period of {period} s is not a multiple of the robot's step, {robot.step} s: "
            "choose a step that divides the period."
        )
    return inner
