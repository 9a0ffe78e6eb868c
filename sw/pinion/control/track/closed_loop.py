"""A controller and a robot in a loop: what was tracked, how well, and where the time went."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pinion.control.errors import ControlError
from pinion.robot import Model

from .mpc import PARTS, Mpc

Floats = NDArray[np.float64]

MM, MICRO = 1e3, 1e6


class Moving(Protocol):
    """A robot that moves: in MuJoCo (:mod:`.mujoco_robot`), or in our own dynamics
    (:mod:`.float_robot`).
    """

    model: Model
    step: float
    frame: str

    @property
    def state(self) -> Floats:
        """Positions and rates now, (2 nv,)."""

    def reset(self, q: Floats) -> None:
        """Put it somewhere, at rest."""

    def advance(self, efforts: Floats) -> None:
        """Go one step on with these efforts (nv,)."""

    def tip(self, q: Floats) -> Floats:
        """Places (m, 3) [m] of the tip of positions (m, nv)."""


@dataclass(frozen=True, kw_only=True)
class Tracked:
    """A motion that was tracked, by period.

    Members
    -------
    period : [s].
    x : (m, 2 nv) states at the begin of each period; ``tau`` (m, nv) efforts at its end.
    tip, reference : (m, 3) places of the tip, and of the reference's [m].
    seconds : by part, (m,) each.
    flagged, gradients, restarts : as of :class:`.mpc.Log`.
    shares : largest share that was used of the limits of ``position``, ``rate`` (the rated one)
        and ``effort``, over all joints and instants; joints without a limit are left out.
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
        """Distance of the tip from where it should be, (m,) [m]."""
        return np.asarray(np.linalg.norm(self.tip - self.reference, axis=1))

    def figures(self) -> dict[str, Any]:
        """JSON-able: errors in mm, times in microseconds, rates in Hz."""
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
    """Let a controller follow its motion with a robot, from the motion's begin to its end.

    Parameters
    ----------
    controller : that has computed nothing yet.
    robot : is put at the motion's first positions, at rest; of its steps a period is a multiple.
        Its feedback is evaluated at each of them.
    report : called with the periods done and the periods in all.

    Raises
    ------
    ControlError
        When robot and controller do not go together, or the motion was begun before.
    """
    period, motion = controller.period, controller.motion
    inner = round(period / robot.step)
    if inner < 1 or abs(inner * robot.step - period) > 1e-9:
        raise ControlError(
            f"The period of {period} s is no multiple of the robot's step of {robot.step} s."
        )
    if robot.model.nv != controller.plant.model.nv or robot.frame != motion.frame:
        raise ControlError(
            f"The controller moves '{motion.frame}' of {controller.plant.model.name}, and the "
            f"robot is {robot.model.name} with '{robot.frame}'."
        )
    if controller.log.gradients:
        raise ControlError("The controller has been used: make another for a new run.")
    count, nv = controller.periods, robot.model.nv
    x, tau = np.empty((count, 2 * nv)), np.empty((count, nv))
    robot.reset(motion.q[0])
    used = np.zeros((3, nv))
    for number in range(count):
        x[number] = robot.state
        law = controller.update(number, x[number])
        for step in range(inner):
            now = robot.state
            efforts = law.efforts(step * robot.step, now)
            robot.advance(efforts)
            magnitudes = np.abs(np.stack([now[:nv], now[nv:], efforts]))
            used = np.maximum(used, magnitudes)
        tau[number] = efforts
        if report is not None:
            report(number + 1, count)
    log = controller.log
    return Tracked(
        period=period,
        x=x,
        tau=tau,
        tip=robot.tip(x[:, :nv]),
        reference=motion.tip[:count],
        seconds={part: np.array(values) for part, values in log.seconds.items()},
        flagged=log.flagged,
        gradients=log.gradients,
        restarts=log.restarts,
        shares=_shares(robot, x, used),
    )


def _shares(robot: Moving, x: Floats, used: Floats) -> dict[str, float]:
    """Largest shares of limits."""
    model, nv = robot.model, robot.model.nv
    joints = [body.joint for body in model.bodies]
    low, high = (np.array([getattr(j, end) for j in joints]) for end in ("lower", "upper"))
    half = (high - low) / 2
    rated = np.array(model.rated_velocity or [j.velocity for j in joints])
    effort = np.array([j.effort for j in joints])
    with np.errstate(invalid="ignore", divide="ignore"):
        position = np.abs(x[:, :nv] - (high + low) / 2).max(axis=0) / half
        shares = {"position": position, "rate": used[1] / rated, "effort": used[2] / effort}
    return {
        name: float(np.nanmax(np.where(np.isfinite(share), share, 0.0)))
        for name, share in shares.items()
    }
