"""Position, rate and effort limits of a robot's joints, and the share of each that is used."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pinion.base.arrays import Floats
from pinion.dynamics.steps import joints_of
from pinion.robot import Model, ties

from .state import StateSpace


def joint_limits(model: Model) -> tuple[Floats, Floats]:
    """Return the lower and upper position limits of the joints, (nv,) each [rad | m].

    Mimic joints are left out; :func:`joint_ranges` keeps them inside their limits, too.
    """
    return _of_leaders(model, _stated(model, "lower")), _of_leaders(model, _stated(model, "upper"))


def rated_rates(model: Model) -> Floats:
    """Return the rated rates of the joints, (nv,) [rad/s | m/s]; infinite where there are none.

    A floating base has none.
    """
    rates = _of_leaders(model, model.rated_velocity or _stated(model, "velocity"))
    space = StateSpace(model)
    return np.where(np.isin(np.arange(space.nv), space.actuated), rates, np.inf)


def effort_limits(model: Model) -> Floats:
    """Return the largest efforts of the actuators, (nu,) [N m | N]."""
    limits = _of_leaders(model, _stated(model, "effort"))
    return limits[list(StateSpace(model).actuated)]


def _stated(model: Model, limit: str) -> list[float]:
    """Return one limit of every joint, repeated for each of its velocities."""
    joints = [body.joint for body in model.bodies]
    return [getattr(joint, limit) for joint in joints for _ in range(joint.kind.nv)]


def _of_leaders(model: Model, values: Sequence[float]) -> Floats:
    """Return the values (nv,) of joints other than mimic joints, given those of all joints."""
    leads = [not model.follows(body) for body in model.bodies for _ in range(body.joint.kind.nv)]
    return np.array([value for value, lead in zip(values, leads, strict=True) if lead])


def limited_joints(model: Model) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the indices (k,) of positions that have limits, and of their velocities."""
    _, half = joint_ranges(model)
    columns = [
        (positions.start, velocities.start)
        for _, positions, velocities in joints_of(model)
        if np.isfinite(half[positions]).all()
    ]
    at = np.array(columns, dtype=np.intp).reshape(-1, 2)
    return at[:, 0], at[:, 1]


def joint_ranges(model: Model) -> tuple[Floats, Floats]:
    """Return the middle and half width of joints' ranges, (nq,) each; 0 and inf without limits."""
    low, high = np.full(model.nq, -np.inf), np.full(model.nq, np.inf)
    for body, tie in zip(model.bodies, ties(model), strict=True):
        ends = body.joint.lower, body.joint.upper
        if not ends[0] < ends[1] or tie.ratio == 0.0:
            continue
        # The leader's range that keeps a mimic joint inside; the ratio of a leader is 1.
        lowest, highest = sorted((end - tie.offset) / tie.ratio for end in ends)
        column = model.q_slices[tie.leader]
        low[column], high[column] = (
            np.maximum(low[column], lowest),
            np.minimum(high[column], highest),
        )
    bounded = np.isfinite(low) & np.isfinite(high) & (low < high)
    middle = np.where(bounded, (np.where(bounded, low, 0) + np.where(bounded, high, 0)) / 2, 0.0)
    half = np.where(bounded, np.where(bounded, high, 0) - middle, np.inf)
    return middle, half


def limit_shares(model: Model, q: Floats, qd: Floats, tau: Floats) -> dict[str, Floats]:
    """Return the share of each joint's position, rate and effort limit that is used.

    Parameters
    ----------
    q, qd, tau : (..., nq), (..., nv) and the efforts of the actuators, (..., nu).

    Returns
    -------
    ``position`` and ``rate`` (..., nv), ``effort`` (..., nu). A position's share is its distance
    from the middle of its range, over half the range. Shares are 0 without a limit.
    """
    middle, half = joint_ranges(model)
    at, moves = limited_joints(model)
    positions = np.zeros((*q.shape[:-1], model.nv))
    positions[..., moves] = np.abs((q - middle)[..., at]) / half[at]
    shares = {"position": positions}
    for name, values, limit in (
        ("rate", qd, rated_rates(model)),
        ("effort", tau, effort_limits(model)),
    ):
        limited = np.isfinite(limit) & (limit > 0.0)
        share = np.abs(values) / np.where(limited, limit, 1.0)
        shares[name] = np.where(limited, share, 0.0)
    return shares
