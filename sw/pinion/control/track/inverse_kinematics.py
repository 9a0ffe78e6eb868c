"""Inverse kinematics of a robot's tip.

First a Gauss-Newton iteration for the solution nearest to a posture, which depends only on the
target, so that a closed path closes. If it diverges, damped steps (Levenberg-Marquardt; S. R. Buss,
"Introduction to Inverse Kinematics", 2009) start from several postures; a target is out of reach if
none of them arrives.
"""

from __future__ import annotations

import numpy as np

from pinion import dynamics
from pinion.base.arrays import Flags, Floats
from pinion.control.errors import ControlError
from pinion.control.limits import joint_limits
from pinion.robot import Model

STEPS, CLOSE = 60, 1e-10
"""Largest number of undamped steps, and the tolerance of the tip's position [m]."""

FAR = 1e3
"""Positions above this belong to a diverged iteration [rad | m]."""

STARTS, DAMPED_STEPS = 24, 300
"""Number of start postures of damped steps, and the largest number of steps."""

BRANCHES = 6
"""Number of solutions for a path's first point that are tried, nearest first."""


def nearest_positions(
    model: Model, places: Floats, *, posture: Floats, frame: str
) -> tuple[Floats, Flags]:
    """Return positions (n, nv) with the tip at points (n, 3) [m], nearest to a posture (nv,).

    The second result (n,) says which points the tip reaches.
    """
    q = np.repeat(posture[None], len(places), axis=0)
    arrived, lost = (np.zeros(len(places), dtype=np.bool_) for _ in range(2))
    for _ in range(STEPS):
        off = places - _place(model, q, frame)
        arrived = np.abs(off).max(axis=1) < CLOSE
        if (arrived | lost).all():
            break
        J = _jacobian(model, q, frame)
        # The solution of the linearised problem that is nearest to the posture.
        gap = off + np.einsum("nij,nj->ni", J, q - posture)
        gram = J @ np.swapaxes(J, 1, 2) + 1e-12 * np.eye(3)
        multipliers = np.linalg.solve(gram, gap[..., None])[..., 0]
        new = posture + np.einsum("nji,nj->ni", J, multipliers)
        lost |= ~(np.abs(new).max(axis=1) < FAR)
        q = np.where(lost[:, None], q, new)
    return q, arrived


def inverse_kinematics(model: Model, places: Floats, *, posture: Floats, frame: str) -> Floats:
    """Return joint positions (n, nv) near a posture (nv,) for independent tip points (n, 3) [m].

    Raises
    ------
    ControlError
        If a point is out of reach; the message gives the smallest distance over all starts.
    """
    q, arrived = nearest_positions(model, places, posture=posture, frame=frame)
    for at in np.flatnonzero(~arrived):
        q[at] = _searched(model, places[at], posture, frame, "")[0]
    return q


def followed(model: Model, places: Floats, times: Floats, *, posture: Floats, frame: str) -> Floats:
    """Return joint positions (n, nv) for points (n, 3) [m] on a path, each near the previous one.

    The first one is near the posture and allows the whole path to be followed, inside the joints'
    limits if possible. A closed path need not close.

    Raises
    ------
    ControlError
        As :func:`inverse_kinematics`, or if joints would have to jump.
    """
    order = np.argsort(times, kind="stable")
    first, reason, outside = order[0], "", None
    for start in _searched(model, places[first], posture, frame, _when(times[first])):
        q = np.empty((len(places), len(posture)))
        last = start
        for at in order:
            solution, distance = _damped(model, places[at][None], last[None], frame)
            if distance[0] >= CLOSE:
                # Raises if the place is out of reach from every start.
                _searched(model, places[at], posture, frame, _when(times[at]))
                reason = reason or (
                    f"The tip '{frame}' of {model.name} reaches {_spelled(places[at])} m"
                    f"{_when(times[at])} only in postures to which the joints would have to jump: "
                    "choose another path or posture."
                )
                break
            q[at] = last = solution[0]
        else:
            if _inside(model, q).all():
                return q
            outside = q if outside is None else outside
    if outside is None:
        raise ControlError(reason)
    return outside


def _searched(model: Model, place: Floats, posture: Floats, frame: str, when: str) -> list[Floats]:
    """Return solutions (nv,) for a point: those inside the limits first, each group by distance."""
    starts = np.concatenate([posture[None], _random_postures(model, posture)])
    places = np.repeat(place[None], len(starts), axis=0)
    q, distance = _damped(model, places, starts, frame)
    close = q[distance < CLOSE]
    if not len(close):
        raise ControlError(
            f"The tip '{frame}' of {model.name} does not reach {_spelled(place)} m{when}: from "
            f"{len(starts)} postures it comes no nearer than {distance.min():.3g} m; move this "
            "point within reach."
        )
    order = np.lexsort((np.linalg.norm(close - posture, axis=1), ~_inside(model, close)))
    return [close[k] for k in order[:BRANCHES]]


def _damped(model: Model, places: Floats, q: Floats, frame: str) -> tuple[Floats, Floats]:
    """Return joint positions (n, nv) after damped steps from q, and the tip's errors (n,) [m].

    A step is accepted only if it brings the tip nearer, so the last distance is the smallest.
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
        # At most half a radian, as far as the Jacobian is valid.
        step /= np.maximum(1.0, np.abs(step).max(axis=1) / 0.5)[:, None]
        new = q[going] + step
        new_off = places[going] - _place(model, new, frame)
        new_distance = np.linalg.norm(new_off, axis=1)
        gain = distance[going] - new_distance
        nearer = gain > 0.0
        at = going[nearer]
        q[at], off[at], distance[at] = new[nearer], new_off[nearer], new_distance[nearer]
        weight[going] = np.where(nearer, np.maximum(weight[going] / 8, 1e-14), weight[going] * 8)
        # Drop problems that have arrived or make no progress.
        small = nearer & (gain < 1e-7 * new_distance)
        going = going[(distance[going] >= CLOSE) & ~small & (weight[going] < 1e6)]
    return q, distance


def _random_postures(model: Model, posture: Floats) -> Floats:
    """Sample postures inside the joints' ranges, within half a turn of a posture."""
    low, high = joint_limits(model)
    low, high = np.maximum(low, posture - np.pi), np.minimum(high, posture + np.pi)
    empty = low > high
    low, high = np.where(empty, posture - np.pi, low), np.where(empty, posture + np.pi, high)
    return np.random.default_rng(0).uniform(low, high, (STARTS - 1, len(posture)))


def _inside(model: Model, q: Floats) -> Flags:
    low, high = joint_limits(model)
    return np.asarray(((q >= low) & (q <= high)).all(axis=-1))


def _place(model: Model, q: Floats, frame: str) -> Floats:
    return np.asarray(dynamics.frame_placement(model, q, frame)[1])


def _jacobian(model: Model, q: Floats, frame: str) -> Floats:
    J = dynamics.frame_jacobian(model, q, frame, reference="local_world_aligned")
    return np.asarray(J)[:, 3:]


def _spelled(place: Floats) -> str:
    return f"({', '.join(f'{x:.4g}' for x in place)})"


def _when(time: float) -> str:
    return f" at {time:.3f} s"
