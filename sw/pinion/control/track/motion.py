"""Reference motions: joint positions, rates, efforts and the tip at equal intervals.

Joint positions on a tip's path are the solutions near a posture (:mod:`.inverse_kinematics`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pinion import dynamics
from pinion.base.amounts import amount
from pinion.base.arrays import Floats
from pinion.control.errors import ControlError, check_number, check_whole
from pinion.control.limits import joint_limits
from pinion.control.plant import check_single_joints, check_step, holding_efforts
from pinion.control.solve.problem import Problem, Solution
from pinion.robot import JointKind, Model, tip_of

from .inverse_kinematics import followed, nearest_positions

Path = Callable[[Floats], Floats]
"""Tip positions (m, 3) [m] at times (m,) [s]."""

STENCIL = 1e-3
"""Step of the finite differences for rates and accelerations [s]."""

# Rows: offsets in steps of the stencil, their weights in the rate, and in the acceleration.
# One-sided at both ends, since a path is not defined outside the motion.
_MIDDLE = np.array([[-1, 0, 1, 0], [-1 / 2, 0, 1 / 2, 0], [1, -2, 1, 0]])
_FIRST = np.array([[0, 1, 2, 3], [-11 / 6, 3, -3 / 2, 1 / 3], [2, -5, 4, -1]])
_LAST = _FIRST * [[-1], [-1], [1]]

JUMP = 0.3
"""Largest deviation from the motion that rates predict; beyond it is another solution [rad | m]."""


@dataclass(frozen=True, kw_only=True)
class Motion:
    """A robot's motion at the times 0, dt, 2 dt, ...

    Members
    -------
    frame : link whose origin is the tip.
    dt : time between two rows [s].
    q, qd, qdd : (m, nq) positions, (m, nv) rates and accelerations.
    tau : (m, nu) efforts of the actuators of a rigid robot without friction [N m | N].
    tip : (m, 3) positions of the tip [m] in the frame of the base, or of the world of a floating
        base.
    active : (m, contacts), 1 for a contact on the ground and 0 for one in the air; with None, all
        are on the ground.
    """

    frame: str
    dt: float
    q: Floats
    qd: Floats
    qdd: Floats
    tau: Floats
    tip: Floats
    active: Floats | None = None

    @property
    def rows(self) -> int:
        """Number of rows, one per instant."""
        return len(self.q)

    def states(self) -> Floats:
        """Return positions and rates, (m, nx)."""
        return np.concatenate([self.q, self.qd], axis=1)

    def on_ground(self, contacts: int) -> Floats:
        """Return which of the robot's contacts are on the ground, (m, contacts)."""
        return np.ones((self.rows, contacts)) if self.active is None else self.active


def follow(
    model: Model,
    path: Path,
    *,
    posture: ArrayLike,
    duration: float,
    dt: float,
    frame: str | None = None,
) -> Motion:
    """Return the motion that moves the tip along a path.

    Parameters
    ----------
    model : the robot, whose joints have one position each.
    path : of the tip; called only with times from 0 to that of the last row.
    posture : (nv,), positions to stay near.
    duration : time of the last row, from 0 [s].
    dt : time between two rows [s].
    frame : the tip; by default the link at the robot's end.

    Raises
    ------
    ControlError
        If the tip cannot follow, or joints would leave their limits; the message says where.
    """
    stay_near = np.asarray(posture, dtype=np.float64)
    check_single_joints(model, "a motion along a path", "solve and planned")
    if stay_near.shape != (model.nv,):
        raise ControlError(
            f"The posture has the shape {stay_near.shape}: {model.name} needs ({model.nv},)."
        )
    if not (np.isfinite(duration) and 0.0 < dt <= duration):
        raise ControlError(
            "A motion needs a finite duration and 0 < dt <= duration, not a duration of "
            f"{duration} s in steps of {dt} s."
        )
    tip = tip_of(model) if frame is None else frame
    times = np.asarray(dt * np.arange(round(duration / dt) + 1), dtype=np.float64)
    step = min(STENCIL, times[-1] / 3)
    rules = np.repeat(_MIDDLE[None], len(times), axis=0)
    rules[times < step] = _FIRST
    rules[times > times[-1] - step] = _LAST
    stencil_times = np.clip(times[:, None] + step * rules[:, 0], 0.0, times[-1])
    places = _places(path, stencil_times.ravel())
    q, arrived = nearest_positions(model, places, posture=stay_near, frame=tip)
    if not arrived.all() or len(_jumps(q.reshape(*stencil_times.shape, -1), rules, step, dt)):
        q = followed(model, places, stencil_times.ravel(), posture=stay_near, frame=tip)
    q = q.reshape(*stencil_times.shape, model.nv)
    if len(rows := _jumps(q, rules, step, dt)):
        raise ControlError(
            f"At {times[rows[0]]:.3f} s the joints would have to jump from one posture to another: "
            "choose another posture, a shorter dt, or a path that stays away from the limits of "
            "the robot's reach."
        )
    at = q[np.arange(len(q)), np.argmin(np.abs(rules[:, 0]), axis=1)]
    low, high = joint_limits(model)
    outside = np.argwhere((at < low) | (at > high))
    if len(outside):
        row, joint = (int(k) for k in outside[0])
        leaders = [body for body in model.bodies if not model.follows(body)]
        raise ControlError(
            f"At {times[row]:.3f} s the path takes the joint "
            f"'{leaders[joint].joint.name}' to {at[row, joint]:.4g}, outside its limits "
            f"{low[joint]:.4g} to {high[joint]:.4g}: choose another posture or a smaller path."
        )
    qd, qdd = _rates(q, rules, step)
    tau = np.asarray(dynamics.rnea(model, at, qd, qdd))
    return Motion(frame=tip, dt=dt, q=at, qd=qd, qdd=qdd, tau=tau, tip=_places(path, times))


def planned(
    problem: Problem,
    solution: Solution,
    *,
    which: int = 0,
    dt: float | None = None,
    hold: float = 0.0,
    frame: str | None = None,
) -> Motion:
    """Return the motion of a solution, for a controller to track.

    Between two knots states are interpolated, and efforts are those of the step.

    Parameters
    ----------
    problem, solution : a problem, and what :func:`pinion.control.solve` returned for it.
    which : number of the problem.
    dt : time between two rows [s], of which the problem's step is a multiple; by default its step.
    hold : time at rest at the last positions [s]; a controller needs the length of its horizon.
    frame : the tip; by default the floating base, or the link at the robot's end.

    Raises
    ------
    ControlError
        If there is no such problem, or a time does not fit.
    """
    model, space = problem.model, problem.space
    dt = problem.dt if dt is None else dt
    expected = (problem.count, problem.knots + 1, space.nx)
    if solution.x.shape != expected:
        raise ControlError(
            f"The solution has states of the shape {solution.x.shape}, but those of the problem "
            f"have {expected}: give the problem that was solved."
        )
    check_whole("'which'", which)
    check_number("The time at rest 'hold'", hold)
    if not 0 <= which < len(solution.x):
        raise ControlError(
            f"There is no problem {which}: the solution has {amount(len(solution.x), 'problem')}, "
            "numbered from 0."
        )
    check_step(dt)
    rows = round(problem.dt / dt)
    if rows < 1 or abs(rows * dt - problem.dt) > 1e-9:
        raise ControlError(
            f"The problem's step of {problem.dt} s is not a multiple of dt, {dt} s: choose a "
            "dt that divides the step, such as the controller's period."
        )
    if not (np.isfinite(hold) and hold >= 0.0):
        raise ControlError(f"The time at rest 'hold' is {hold}: it must be finite and at least 0.")
    x, u = solution.x[which], solution.u[which]
    share = (np.arange(rows) / rows)[:, None]
    change = share * space.difference(x[:-1], x[1:])[:, None]
    states = space.integrate(np.repeat(x[:-1, None], rows, axis=1), change).reshape(-1, space.nx)
    resting = 1 + round(hold / dt)
    rest, _ = space.parts(np.repeat(x[-1:], resting, axis=0))
    active, last, schedule = None, None, problem.schedule(which)
    if schedule is not None:
        last = schedule[-1]
        active = np.repeat(schedule, [*[rows] * (problem.knots - 1), rows + resting], axis=0)
    still = np.repeat(holding_efforts(model, rest[:1], last), resting, axis=0)
    q, qd = space.parts(states)
    q, qd = np.concatenate([q, rest]), np.concatenate([qd, np.zeros((resting, space.nv))])
    qdd = np.repeat(np.diff(space.parts(x)[1], axis=0) / problem.dt, rows, axis=0)
    tip = end_of(model) if frame is None else frame
    return Motion(
        frame=tip,
        dt=dt,
        q=q,
        qd=qd,
        qdd=np.concatenate([qdd, np.zeros((resting, space.nv))]),
        tau=np.concatenate([np.repeat(u, rows, axis=0), still]),
        tip=np.asarray(dynamics.frame_placement(model, q, tip)[1]),
        active=active,
    )


def end_of(model: Model) -> str:
    """Return the frame that is a motion's tip by default: the floating base, or the robot's tip."""
    root = model.bodies[0]
    return root.name if root.joint.kind is JointKind.FREE_FLYER else tip_of(model)


def _rates(q: Floats, rules: Floats, step: float) -> tuple[Floats, Floats]:
    """Return rates and accelerations (rows, nv) from positions (rows, 4, nv) around each row."""
    return (
        np.einsum("nk,nkj->nj", rules[:, 1], q) / step,
        np.einsum("nk,nkj->nj", rules[:, 2], q) / step**2,
    )


def _jumps(q: Floats, rules: Floats, step: float, dt: float) -> NDArray[np.intp]:
    """Return the rows at which joints jump: deviate from the motion that their rates predict."""
    jumps = np.ptp(q, axis=1).max(axis=1) > JUMP
    qd, _ = _rates(q, rules, step)
    at = q[np.arange(len(q)), np.argmin(np.abs(rules[:, 0]), axis=1)]
    change, predicted = np.diff(at, axis=0), dt * (qd[1:] + qd[:-1]) / 2
    jumps[1:] |= (np.abs(change - predicted) > JUMP + np.abs(predicted)).any(axis=1)
    return np.flatnonzero(jumps)


def _places(path: Path, times: Floats) -> Floats:
    """Return a path's positions (m, 3) at times (m,), checked for shape and finite values."""
    places = np.asarray(path(times), dtype=np.float64)
    if places.shape != (len(times), 3):
        raise ControlError(
            f"The path has the shape {places.shape} for {amount(len(times), 'time')}: return "
            f"({len(times)}, 3)."
        )
    if not np.isfinite(places).all():
        at = times[np.argwhere(~np.isfinite(places))[0, 0]]
        raise ControlError(f"The path is not finite at {at:.4g} s: return finite positions.")
    return places


def figure_eight(
    centre: ArrayLike,
    *,
    width: float = 0.3,
    height: float = 0.2,
    lap: float = 2.5,
    ramp: float = 0.5,
    axes: tuple[Sequence[float], Sequence[float]] = ((0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
) -> Path:
    """Return a figure-eight in a plane, ``centre + width/2 sin(phi) a + height/2 sin(2 phi) b``.

    Parameters
    ----------
    centre : (3,), its crossing and start [m].
    width, height : from end to end, along the axes a and b [m].
    lap : duration of one figure, after the ramp [s].
    ramp : time from rest to full speed [s].
    axes : a and b, two unit vectors at right angles.

    Raises
    ------
    ControlError
        If a size or time is not positive, or the axes are not at right angles.
    """
    middle = np.asarray(centre, dtype=np.float64)
    a, b = (np.asarray(axis, dtype=np.float64) for axis in axes)
    if middle.shape != (3,) or a.shape != (3,) or b.shape != (3,):
        raise ControlError(
            "The centre and the two axes of a figure must have 3 numbers each, not the shapes "
            f"{middle.shape}, {a.shape} and {b.shape}."
        )
    if np.abs(np.array([a @ a - 1, b @ b - 1, a @ b])).max() > 1e-9:
        raise ControlError(f"The axes {a} and {b} must be unit vectors at right angles.")
    for name, value in (("width", width), ("height", height), ("lap", lap), ("ramp", ramp)):
        if not (np.isfinite(value) and value > 0.0):
            raise ControlError(f"The figure's '{name}' is {value}: it must be finite and above 0.")

    def path(times: Floats) -> Floats:
        share = np.clip(times / ramp, 0.0, None)
        ramp_share = np.minimum(share, 1.0)
        # The speed grows as 3 s^2 - 2 s^3, so that the acceleration at rest is zero.
        elapsed = ramp * (ramp_share**3 - ramp_share**4 / 2 + np.maximum(share - 1.0, 0.0))
        phi = 2 * math.pi / lap * elapsed
        return np.asarray(
            middle
            + width / 2 * np.sin(phi)[:, None] * a
            + height / 2 * np.sin(2 * phi)[:, None] * b
        )

    return path
