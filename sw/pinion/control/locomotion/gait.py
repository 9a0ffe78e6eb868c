"""Gaits: motions of a legged robot that follow commanded speeds.

The base moves along the path of the commands. Feet swing in groups, one group after the other, and
land where they are under the base's nominal stance in the middle of the time on the ground, which
is Raibert's neutral point for the commanded speed (M. H. Raibert, "Legged Robots That Balance",
1986). A controller that tracks the motion need not know the rule: its joints are part of the plan,
so feet land beside the motion's footholds where that costs less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pinion import dynamics
from pinion.base.arrays import Floats
from pinion.control.errors import ControlError, check_number
from pinion.control.plant import check_step, holding_efforts
from pinion.control.state import StateSpace
from pinion.control.track.motion import Motion, end_of
from pinion.dynamics.general.manifold import quaternion_product
from pinion.robot import JointKind, Model, contacts_of


@dataclass(frozen=True, kw_only=True)
class Gait:
    """Timing of the feet: groups swing one after the other, evenly within a period.

    Members
    -------
    groups : numbers of the contacts that swing together.
    swing : time of a foot in the air [s].
    duty : share of the period that a foot is on the ground.
    height : of a foot in the middle of its swing [m].
    begin : time of the first swing; until then all feet stand [s].
    """

    groups: tuple[tuple[int, ...], ...]
    swing: float = 0.25
    duty: float = 0.6
    height: float = 0.08
    begin: float = 0.5

    def __post_init__(self) -> None:
        for name in ("swing", "duty", "height", "begin"):
            check_number(f"The gait's '{name}'", getattr(self, name))
        if not 0.0 < self.swing < np.inf or not 0.0 <= self.height < np.inf:
            raise ControlError(
                f"A gait's swing is {self.swing} s and its height {self.height} m: the swing must "
                "be above 0, the height at least 0, and both finite."
            )
        if not 0.0 < self.duty < 1.0:
            raise ControlError(f"A gait's duty is {self.duty}: it must be between 0 and 1.")
        if not 0.0 <= self.begin < np.inf:
            raise ControlError(
                f"A gait's begin is {self.begin} s: it must be finite and at least 0."
            )

    @property
    def period(self) -> float:
        """Time from a foot's lift-off to its next one [s]."""
        return self.swing / (1.0 - self.duty)


def trot(model: Model, posture: ArrayLike, **timing: float) -> Gait:
    """Return a trot: the feet of one diagonal swing together, then those of the other.

    Parameters
    ----------
    posture : (nq,), a stance, which shows the diagonals of the four contacts.
    timing : members of :class:`Gait`.

    Raises
    ------
    ControlError
        If the robot has another number of contacts.
    """
    feet = contact_places(model, np.asarray(posture, dtype=np.float64)[None])[0]
    if len(feet) != 4:
        raise ControlError(
            f"A trot needs four contacts, one for each foot, but {model.name} has {len(feet)}: "
            "name the four feet with pinion.robot.with_contacts."
        )
    opposite = 1 + int(np.argmax(np.linalg.norm(feet[1:] - feet[0], axis=1)))
    others = tuple(foot for foot in (1, 2, 3) if foot != opposite)
    return Gait(groups=((0, opposite), others), **timing)


# Many parameters: the robot, its gait and the motion's times.
def gait_motion(
    model: Model,
    posture: ArrayLike,
    gait: Gait,
    commands: Sequence[Sequence[float]],
    *,
    duration: float,
    dt: float,
    ramp: float = 1.0,
) -> Motion:
    """Return the motion of a gait on level ground that follows commands.

    Parameters
    ----------
    model : a robot on a floating base whose feet are its contacts.
    posture : (nq,), the stance from which it starts, with all feet on the ground.
    gait : timing of the feet.
    commands : rows of a time [s] and, from then on, speeds forward and to the left [m/s] and the
        rate of turning to the left [rad/s], along the axes of the base; none: on the spot.
    duration : time of the last row, from 0 [s]; a controller needs its horizon beyond a run.
    dt : time between two rows [s].
    ramp : time that a change of speeds takes [s].

    Raises
    ------
    ControlError
        If the robot does not float or has no feet, an argument does not fit, or a foot cannot
        reach its place; the message says when.
    """
    start = np.asarray(posture, dtype=np.float64)
    _check_robot(model, start, gait)
    check_step(dt)
    if not (np.isfinite(duration) and duration >= dt):
        raise ControlError(
            f"The duration is {duration} s: it must be finite and at least dt, {dt} s."
        )
    times = np.asarray(dt * np.arange(round(duration / dt) + 1), dtype=np.float64)
    path = _Path.of(commands, ramp, float(times[-1]) + gait.period + dt)
    stance = contact_places(model, start[None])[0]
    level = stance[:, 2].mean()
    q = np.tile(start, (len(times), 1))
    places, active = np.empty((len(times), *stance.shape)), np.ones((len(times), len(stance)))
    for number, group in enumerate(gait.groups):
        lift = gait.begin + gait.period * number / len(gait.groups)
        # Rounded, so that a swing has the same number of rows each time.
        stride = np.floor(np.round((times - lift) / gait.period, 9))
        share = np.clip((times - lift - stride * gait.period) / gait.swing, 0.0, 1.0)
        swinging = (stride >= 0.0) & (share < 1.0 - 1e-9)
        for foot in group:

            def landed(strides: Floats, foot: int = foot, lift: float = lift) -> Floats:
                middle = lift + strides * gait.period + gait.swing / 2 + gait.period / 2
                return path.under(start, stance[foot], np.where(strides < 0.0, 0.0, middle))

            before, after = landed(np.maximum(stride, 0.0) - 1.0), landed(stride)
            along = np.where(swinging, share**3 * (10.0 + share * (6.0 * share - 15.0)), 1.0)
            places[:, foot, :2] = before + along[:, None] * (after - before)
            lifted = gait.height * (4.0 * share * (1.0 - share)) ** 3
            places[:, foot, 2] = level + np.where(swinging, lifted, 0.0)
            active[swinging, foot] = 0.0
    yaw, moved = path.at(times)
    q[:, :2] = start[:2] + moved @ _turn(headings(start)).T
    half = np.stack([0.0 * yaw, 0.0 * yaw, np.sin(yaw / 2), np.cos(yaw / 2)], axis=1)
    q[:, 3:7] = quaternion_product(half, q[:, 3:7])
    _reach(model, q, places, times)
    space = StateSpace(model)
    qd = np.zeros((len(q), space.nv))
    qd[1:] = space.between(q[:-1], q[1:]) / dt
    qdd = np.zeros_like(qd)
    qdd[:-1] = np.diff(qd, axis=0) / dt
    tip = end_of(model)
    return Motion(
        frame=tip,
        dt=dt,
        q=q,
        qd=qd,
        qdd=qdd,
        tau=holding_efforts(model, q, active),
        tip=np.asarray(dynamics.frame_placement(model, q, tip)[1]),
        active=active,
    )


def _check_robot(model: Model, start: Floats, gait: Gait) -> None:
    """Raise `ControlError` unless a robot can walk with a gait from a posture."""
    if model.bodies[0].joint.kind is not JointKind.FREE_FLYER:
        raise ControlError(
            f"{model.name} has a fixed base, so it cannot walk: load it with floating_base=True."
        )
    if start.shape != (model.nq,) or not np.isfinite(start).all():
        raise ControlError(
            f"The posture is {start!r:.60}, of shape {start.shape}: give ({model.nq},) finite "
            "positions."
        )
    contacts = contacts_of(model)
    wrong = [contact.name for contact in contacts if contact.partner or contact.size != 3]
    if wrong:
        raise ControlError(
            f"The contact '{wrong[0]}' is a face or a loop: a foot must be a contact of the kind "
            "3d with the ground."
        )
    numbers = sorted(foot for group in gait.groups for foot in group)
    if numbers != list(range(len(contacts))):
        raise ControlError(
            f"The gait's groups list the contacts {numbers}: list each of the {len(contacts)} "
            f"contacts of {model.name} once, numbered from 0."
        )


@dataclass(frozen=True)
class _Path:
    """Path of the base relative to its start, on a fine grid.

    Members
    -------
    times : (m,) [s].
    yaw : (m,), turn since the start [rad].
    moved : (m, 2), along the axes of the start [m].
    """

    times: Floats
    yaw: Floats
    moved: Floats

    @classmethod
    def of(cls, commands: Sequence[Sequence[float]], ramp: float, end: float) -> _Path:
        """Integrate commands from 0 to ``end`` [s]."""
        try:
            rows = np.asarray(commands if len(commands) else [(0.0,) * 4], dtype=np.float64)
        except (TypeError, ValueError):
            rows = np.zeros(0)
        if rows.ndim != 2 or rows.shape[1] != 4 or not np.isfinite(rows).all():
            raise ControlError(
                f"The commands are {commands!r:.80}: give rows of four finite numbers: a time, "
                "speeds forward and to the left, and a rate of turning."
            )
        if (np.diff(rows[:, 0]) <= 0.0).any():
            raise ControlError(f"The commands' times {rows[:, 0].tolist()} must increase.")
        if not (np.isfinite(ramp) and ramp > 0.0):
            raise ControlError(f"The ramp is {ramp} s: it must be finite and above 0.")
        times = np.arange(0.0, end + FINE, FINE)
        speeds = np.zeros((len(times), 3))
        before = np.zeros(3)
        for begin, *speed in rows:
            share = np.clip((times - begin) / ramp, 0.0, 1.0)
            smooth = share**2 * (3.0 - 2.0 * share)
            speeds += smooth[:, None] * (np.array(speed) - before)
            before = np.array(speed)
        yaw = _integral(speeds[:, 2])
        turn = _turn(yaw)
        velocity = np.einsum("nij,nj->ni", turn, speeds[:, :2])
        return cls(times, yaw, np.stack([_integral(v) for v in velocity.T], axis=1))

    def at(self, times: Floats) -> tuple[Floats, Floats]:
        """Return the turn (m,) [rad] and the displacement (m, 2) [m] at times (m,) [s]."""
        moved = [np.interp(times, self.times, along) for along in self.moved.T]
        return np.interp(times, self.times, self.yaw), np.stack(moved, axis=1)

    def under(self, start: Floats, point: Floats, times: Floats) -> Floats:
        """Return the horizontal path (m, 2) [m] of a point (3,) that moves with the base."""
        yaw, moved = self.at(times)
        offset = point[:2] - start[:2]
        return np.asarray(
            start[:2]
            + moved @ _turn(headings(start)).T
            + np.einsum("nij,j->ni", _turn(yaw), offset)
        )


FINE = 1e-3
"""Step of the grid on which commands are integrated [s]."""


def _integral(values: Floats) -> Floats:
    """Return the integral of values on the fine grid, by trapezoids."""
    return np.concatenate([[0.0], np.cumsum((values[1:] + values[:-1]) / 2) * FINE])


def _turn(yaw: Floats | float) -> Floats:
    """Return the rotation matrices (..., 2, 2) of yaw angles [rad]."""
    c, s = np.cos(yaw), np.sin(yaw)
    return np.stack([np.stack([c, -s], axis=-1), np.stack([s, c], axis=-1)], axis=-2)


def headings(q: Floats) -> Floats:
    """Return the yaw angles (...,) [rad] of floating bases at positions (..., nq)."""
    x, y, z, w = np.moveaxis(q[..., 3:7], -1, 0)
    return np.asarray(np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z)))


def contact_places(model: Model, q: Floats) -> Floats:
    """Return the positions of the contacts, (n, contacts, 3) [m]."""
    feet = [dynamics.frame_placement(model, q, contact.name)[1] for contact in contacts_of(model)]
    return np.stack(feet, axis=1) if feet else np.zeros((len(q), 0, 3))


def _reach(model: Model, q: Floats, places: Floats, times: Floats) -> None:
    """Change the joints of q (n, nq) until the feet are at ``places``, by Newton's method."""
    names = [contact.name for contact in contacts_of(model)]
    for _ in range(NEWTON):
        missing = (places - contact_places(model, q)).reshape(len(q), -1)
        if np.abs(missing).max() < REACHED:
            return
        jacobian = np.concatenate(
            [
                dynamics.frame_jacobian(model, q, name, reference="local_world_aligned")[:, 3:, 6:]
                for name in names
            ],
            axis=1,
        )
        gram = jacobian @ np.swapaxes(jacobian, 1, 2)
        gram[:, range(gram.shape[1]), range(gram.shape[1])] += 1e-12
        step = np.linalg.solve(gram, missing[..., None])
        q[:, 7:] += np.clip((np.swapaxes(jacobian, 1, 2) @ step)[..., 0], -0.3, 0.3)
    far = np.abs(places - contact_places(model, q)).max(axis=2)
    row, foot = np.unravel_index(int(np.argmax(far)), far.shape)
    raise ControlError(
        f"At {times[row]:.3f} s the foot '{names[foot]}' misses its place by "
        f"{far[row, foot]:.3g} m: command slower speeds, or bend the legs more."
    )


NEWTON = 20
"""Largest number of Newton's steps of the inverse kinematics."""

REACHED = 1e-9
"""Largest distance of a foot from its place [m]."""
