"""A motion to follow: joints, rates, efforts and the tip at even instants of time.

Joints of a tip's path are those next to a posture that bring the tip there (the solution of least
norm, by Gauss and Newton), so that they follow from the place alone and a closed path closes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pinion import dynamics
from pinion.robot import Model, tip_of

from .errors import ControlError

Floats = NDArray[np.float64]

Path = Callable[[Floats], Floats]
"""Places (m, 3) [m] of the tip at times (m,) [s]."""

STENCIL = 1e-3
"""Seconds between the places that rates and accelerations are differences of."""

STEPS, CLOSE = 60, 1e-10
"""Steps of the inverse kinematics at most, and how near the tip has to come [m]."""

FAR = 1e3
"""Positions above it are of steps that go nowhere [rad | m]."""


@dataclass(frozen=True, kw_only=True)
class Motion:
    """A robot's motion at the times 0, dt, 2 dt, ...

    Members
    -------
    frame : link whose origin is the tip.
    dt : between two rows [s].
    q, qd, qdd : (m, nv) positions, rates and accelerations.
    tau : (m, nv) efforts that a rigid robot without friction needs for it [N m | N].
    tip : (m, 3) places of the tip [m] in the frame of the base.
    """

    frame: str
    dt: float
    q: Floats
    qd: Floats
    qdd: Floats
    tau: Floats
    tip: Floats

    @property
    def rows(self) -> int:
        """How many instants there are."""
        return len(self.q)

    def states(self) -> Floats:
        """Positions and rates, (m, 2 nv)."""
        return np.concatenate([self.q, self.qd], axis=1)


def follow(
    model: Model,
    path: Path,
    *,
    posture: ArrayLike,
    duration: float,
    dt: float,
    frame: str | None = None,
) -> Motion:
    """The motion that takes the tip along a path.

    Parameters
    ----------
    model : the robot, of joints with one position each.
    path : of the tip.
    posture : (nv,), which joints to stay near.
    duration : from 0 to here, both inside [s].
    dt : between two rows [s].
    frame : the tip; by default the link at the robot's end.

    Raises
    ------
    ControlError
        When the tip cannot follow, or joints would leave their limits; the message says where.
    """
    near = np.asarray(posture, dtype=np.float64)
    if near.shape != (model.nv,) or model.nq != model.nv:
        raise ControlError(
            f"A posture of {model.name} has {model.nv} positions, not the shape {near.shape}."
        )
    if not (np.isfinite(duration) and 0.0 < dt <= duration):
        raise ControlError(f"A motion of {duration} s in steps of {dt} s is none.")
    tip = tip_of(model) if frame is None else frame
    times = np.asarray(dt * np.arange(round(duration / dt) + 1), dtype=np.float64)
    # Places before, at and after every instant in one batch.
    around = np.concatenate([times - STENCIL, times, times + STENCIL])
    q = inverse_kinematics(model, path(around), posture=near, frame=tip, times=around)
    before, at, after = np.split(q, 3)
    low, high = (
        np.array([getattr(body.joint, end) for body in model.bodies]) for end in ("lower", "upper")
    )
    outside = np.argwhere((at < low) | (at > high))
    if len(outside):
        row, joint = (int(k) for k in outside[0])
        raise ControlError(
            f"At {times[row]:.3f} s the path takes the joint "
            f"'{model.bodies[joint].joint.name}' to {at[row, joint]:.4g}, outside its limits "
            f"{low[joint]:.4g} to {high[joint]:.4g}: choose another posture or a smaller path."
        )
    qd = (after - before) / (2 * STENCIL)
    qdd = (after - 2 * at + before) / STENCIL**2
    tau = np.asarray(dynamics.rnea(model, at, qd, qdd))
    return Motion(frame=tip, dt=dt, q=at, qd=qd, qdd=qdd, tau=tau, tip=path(times))


def inverse_kinematics(
    model: Model, places: Floats, *, posture: Floats, frame: str, times: Floats | None = None
) -> Floats:
    """Positions (m, nv) next to a posture whose tip is at places (m, 3).

    Raises
    ------
    ControlError
        When the tip does not come there.
    """
    q = np.repeat(posture[None], len(places), axis=0)
    for _ in range(STEPS):
        off = places - np.asarray(dynamics.frame_placement(model, q, frame)[1])
        if np.abs(off).max() < CLOSE:
            return q
        J = np.asarray(dynamics.frame_jacobian(model, q, frame, reference="local_world_aligned"))
        J = J[:, 3:]
        # Of all joints that close the gap to first order, those next to the posture.
        wanted = off + np.einsum("nij,nj->ni", J, q - posture)
        gram = J @ np.swapaxes(J, 1, 2) + 1e-12 * np.eye(3)
        least = np.linalg.solve(gram, wanted[..., None])[..., 0]
        q = np.asarray(posture + np.einsum("nji,nj->ni", J, least), dtype=np.float64)
        if not np.isfinite(q).all() or np.abs(q).max() > FAR:
            break
    worst = int(np.argmax(np.abs(off).max(axis=1)))
    when = "" if times is None else f" at {times[worst]:.3f} s"
    spelled = ", ".join(f"{x:.4g}" for x in places[worst])
    raise ControlError(
        f"The tip '{frame}' of {model.name} does not reach ({spelled}) m{when}: it stays "
        f"{np.abs(off[worst]).max():.2g} m away; move the path nearer or change the posture."
    )


def figure_eight(
    centre: ArrayLike,
    *,
    width: float = 0.3,
    height: float = 0.2,
    lap: float = 2.5,
    ramp: float = 0.5,
    axes: tuple[Sequence[float], Sequence[float]] = ((0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
) -> Path:
    """A figure-eight in a plane, ``centre + width/2 sin(phi) a + height/2 sin(2 phi) b``.

    Parameters
    ----------
    centre : (3,) where it crosses itself, and where it begins [m].
    width, height : from end to end, along the axes a and b [m].
    lap : of one figure, after the ramp [s].
    ramp : in which it goes from rest to full speed [s].
    axes : a and b, two unit vectors at right angles.

    Raises
    ------
    ControlError
        When a figure is none, or the axes are not at right angles.
    """
    middle = np.asarray(centre, dtype=np.float64)
    a, b = (np.asarray(axis, dtype=np.float64) for axis in axes)
    if middle.shape != (3,) or a.shape != (3,) or b.shape != (3,):
        raise ControlError("The centre and both axes of a figure have 3 numbers each.")
    if np.abs(np.array([a @ a - 1, b @ b - 1, a @ b])).max() > 1e-9:
        raise ControlError(f"The axes {a} and {b} are not two unit vectors at right angles.")
    for name, value in (("width", width), ("height", height), ("lap", lap), ("ramp", ramp)):
        if not (np.isfinite(value) and value > 0.0):
            raise ControlError(f"The figure's '{name}' is {value}: it must be above 0.")

    def path(times: Floats) -> Floats:
        share = np.clip(times / ramp, 0.0, None)
        early = np.minimum(share, 1.0)
        # The integral of 3 s^2 - 2 s^3, along which the speed grows: rest has no acceleration.
        gone = ramp * (early**3 - early**4 / 2 + np.maximum(share - 1.0, 0.0))
        phi = 2 * math.pi / lap * gone
        return np.asarray(
            middle
            + width / 2 * np.sin(phi)[:, None] * a
            + height / 2 * np.sin(2 * phi)[:, None] * b
        )

    return path
