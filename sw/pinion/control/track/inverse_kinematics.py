"""Joints that bring a robot's tip to places.

Next to a posture: the solution of least norm, by Gauss and Newton, which follows from the place
alone, so that a closed path closes. Where that goes astray the tip is led by damped steps
(Levenberg and Marquardt; S. R. Buss, "Introduction to Inverse Kinematics", 2009) from several
postures, and a place is out of reach when none of them arrives.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pinion import dynamics
from pinion.control.errors import ControlError
from pinion.robot import Model

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

STEPS, CLOSE = 60, 1e-10
"""Undamped steps at most, and how near the tip has to come [m]."""

FAR = 1e3
"""Positions above it are of steps that go nowhere [rad | m]."""

STARTS, DAMPED_STEPS = 24, 300
"""Postures that damped steps begin in, and how many of them at most."""

BRANCHES = 6
"""Solutions for the first place of a path that it is followed from, the nearest ones."""


def nearest(model: Model, places: Floats, *, posture: Floats, frame: str) -> tuple[Floats, Flags]:
    """Positions (m, nv) next to a posture (nv,) whose tip is at places (m, 3) [m], where it is."""
    q = np.repeat(posture[None], len(places), axis=0)
    arrived, lost = (np.zeros(len(places), dtype=np.bool_) for _ in range(2))
    for _ in range(STEPS):
        off = places - _place(model, q, frame)
        arrived = np.abs(off).max(axis=1) < CLOSE
        if (arrived | lost).all():
            break
        J = _jacobian(model, q, frame)
        # Of all joints that close the gap to first order, those next to the posture.
        gap = off + np.einsum("nij,nj->ni", J, q - posture)
        gram = J @ np.swapaxes(J, 1, 2) + 1e-12 * np.eye(3)
        least = np.linalg.solve(gram, gap[..., None])[..., 0]
        new = posture + np.einsum("nji,nj->ni", J, least)
        lost |= ~(np.abs(new).max(axis=1) < FAR)
        q = np.where(lost[:, None], q, new)
    return q, arrived


def inverse_kinematics(model: Model, places: Floats, *, posture: Floats, frame: str) -> Floats:
    """Positions (m, nv) near a posture (nv,) whose tip is at places (m, 3) [m], each on its own.

    Raises
    ------
    ControlError
        When the tip does not come there; the message names the least distance of all starts.
    """
    q, arrived = nearest(model, places, posture=posture, frame=frame)
    for at in np.flatnonzero(~arrived):
        q[at] = _searched(model, places[at], posture, frame, "")[0]
    return q


def followed(model: Model, places: Floats, times: Floats, *, posture: Floats, frame: str) -> Floats:
    """Positions (m, nv) of a motion through places (m, 3), each next to those of the time before.

    The first is one of the nearest to the posture from which the whole path can be followed, inside
    the joints' limits if one is. A closed path need not close.

    Raises
    ------
    ControlError
        As :func:`inverse_kinematics`, or when joints would have to jump.
    """
    order = np.argsort(times, kind="stable")
    first, why, outside = order[0], "", None
    for start in _searched(model, places[first], posture, frame, _when(times[first])):
        q = np.empty((len(places), len(posture)))
        last = start
        for at in order:
            now, distance = _damped(model, places[at][None], last[None], frame)
            if distance[0] >= CLOSE:
                # Out of reach from anywhere, or only from here?
                _searched(model, places[at], posture, frame, _when(times[at]))
                why = why or (
                    f"The tip '{frame}' of {model.name} reaches {_spelled(places[at])} m"
                    f"{_when(times[at])} in postures alone to which the joints would jump: choose "
                    "another path or posture."
                )
                break
            q[at] = last = now[0]
        else:
            if _inside(model, q).all():
                return q
            outside = q if outside is None else outside
    if outside is None:
        raise ControlError(why)
    return outside


def _searched(model: Model, place: Floats, posture: Floats, frame: str, when: str) -> list[Floats]:
    """Positions (nv,) at a place that starts lead to: in the limits first, then by nearness."""
    starts = np.concatenate([posture[None], _drawn(model, posture)])
    places = np.repeat(place[None], len(starts), axis=0)
    q, distance = _damped(model, places, starts, frame)
    close = q[distance < CLOSE]
    if not len(close):
        raise ControlError(
            f"The tip '{frame}' of {model.name} does not reach {_spelled(place)} m{when}: from "
            f"{len(starts)} postures it comes no nearer than {distance.min():.3g} m; move the path "
            "nearer."
        )
    order = np.lexsort((np.linalg.norm(close - posture, axis=1), ~_inside(model, close)))
    return [close[k] for k in order[:BRANCHES]]


def _damped(model: Model, places: Floats, q: Floats, frame: str) -> tuple[Floats, Floats]:
    """Positions (m, nv) that bring the tip as near as damped steps from q can, and how near [m].

    A step is taken only if it brings the tip nearer, so that what it ends in is the least distance
    on its way.
    """
    q, weight = q.copy(), np.full(len(q), 1e-2)
    off = places - _place(model, q, frame)
    distance = np.linalg.norm(off, axis=1)
    going = np.flatnonzero(distance >= CLOSE)
    for _ in range(DAMPED_STEPS):
        if not len(going):
            break
        J = _jacobian(model, q[going], frame)
        gram = J @ np.swapaxes(J, 1, 2) + weight[going, None, None] * np.eye(3)
        step = np.einsum("nji,nj->ni", J, np.linalg.solve(gram, off[going][..., None])[..., 0])
        # Half a radian at most: further on the Jacobian is another one.
        step /= np.maximum(1.0, np.abs(step).max(axis=1) / 0.5)[:, None]
        new = q[going] + step
        new_off = places[going] - _place(model, new, frame)
        new_distance = np.linalg.norm(new_off, axis=1)
        gain = distance[going] - new_distance
        nearer = gain > 0.0
        at = going[nearer]
        q[at], off[at], distance[at] = new[nearer], new_off[nearer], new_distance[nearer]
        weight[going] = np.where(nearer, np.maximum(weight[going] / 8, 1e-14), weight[going] * 8)
        # What has arrived, and what goes no nearer.
        small = nearer & (gain < 1e-7 * new_distance)
        going = going[(distance[going] >= CLOSE) & ~small & (weight[going] < 1e6)]
    return q, distance


def _drawn(model: Model, posture: Floats) -> Floats:
    """Postures in the joints' ranges, within half a turn of a posture that is inside."""
    low, high = _limits(model)
    low, high = np.maximum(low, posture - np.pi), np.minimum(high, posture + np.pi)
    empty = low > high
    low, high = np.where(empty, posture - np.pi, low), np.where(empty, posture + np.pi, high)
    return np.random.default_rng(0).uniform(low, high, (STARTS - 1, len(posture)))


def _inside(model: Model, q: Floats) -> Flags:
    low, high = _limits(model)
    return np.asarray(((q >= low) & (q <= high)).all(axis=-1))


def _limits(model: Model) -> tuple[Floats, Floats]:
    joints = [body.joint for body in model.bodies]
    return np.array([j.lower for j in joints]), np.array([j.upper for j in joints])


def _place(model: Model, q: Floats, frame: str) -> Floats:
    return np.asarray(dynamics.frame_placement(model, q, frame)[1])


def _jacobian(model: Model, q: Floats, frame: str) -> Floats:
    J = dynamics.frame_jacobian(model, q, frame, reference="local_world_aligned")
    return np.asarray(J)[:, 3:]


def _spelled(place: Floats) -> str:
    return f"({', '.join(f'{x:.4g}' for x in place)})"


def _when(time: float) -> str:
    return f" at {time:.3f} s"
