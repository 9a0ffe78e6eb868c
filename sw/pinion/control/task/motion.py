"""Motions of a task for one robot, from random postures and targets, scaled to its limits."""

from __future__ import annotations

import numpy as np

from pinion import dynamics
from pinion.base.arrays import Floats
from pinion.control.errors import ControlError
from pinion.control.limits import effort_limits, joint_limits, rated_rates
from pinion.control.plant import gravity_efforts
from pinion.control.track.inverse_kinematics import nearest_positions
from pinion.control.track.motion import Motion, figure_eight, follow
from pinion.robot import Model, tip_of

from .task import FIGURE_EIGHT, TaskMotion

POSTURES = 32
"""Number of random postures for a figure; the one in which the tip is most mobile is used."""

INSIDE = 0.5
"""Share of each joint's range, about its middle, from which postures are sampled."""

SMALLER, SMALLEST = 0.8, 0.05
"""Factor by which a figure that does not fit shrinks, and the smallest share of its size."""

RAMP = 0.3
"""Share of a figure's time from rest to full speed."""

# Range of a joint without limits, on either side [rad | m].
_FREE = np.pi


def robot_motion(
    task_motion: TaskMotion, model: Model, *, period: float, horizon: float
) -> tuple[Motion, float]:
    """Return a task's motion for a robot, and the share of the requested size that it reaches.

    Parameters
    ----------
    task_motion : motion of a task.
    period : time between two rows [s].
    horizon : time for which the motion continues after its end [s].

    Raises
    ------
    ControlError
        If the robot cannot perform it.
    """
    if task_motion.kind == FIGURE_EIGHT:
        return _figure(task_motion, model, period, horizon)
    return _reach(task_motion, model, period, horizon)


def _ends(model: Model) -> tuple[Floats, Floats]:
    """Return the lower and upper joint limits, (nv,) each; -pi and pi if infinite or 4 pi apart."""
    low, high = joint_limits(model)
    unbounded = ~(np.isfinite(low) & np.isfinite(high) & (high - low < 4 * _FREE))
    return np.where(unbounded, -_FREE, low), np.where(unbounded, _FREE, high)


def _postures(model: Model, seed: int) -> Floats:
    low, high = _ends(model)
    samples = np.random.default_rng(seed).uniform(-INSIDE, INSIDE, (POSTURES, model.nv))
    return np.asarray((low + high) / 2 + samples * (high - low) / 2)


def _figure(
    task_motion: TaskMotion, model: Model, period: float, horizon: float
) -> tuple[Motion, float]:
    tip = tip_of(model)
    postures = _postures(model, task_motion.seed)
    J = np.asarray(dynamics.frame_jacobian(model, postures, tip, reference="local_world_aligned"))[
        :, 3:
    ]
    left, sizes, _ = np.linalg.svd(J)
    if sizes.shape[1] < 2 or not (sizes[:, 1] > 1e-6).any():
        raise ControlError(
            f"The tip of {model.name} moves in at most one direction at a time, so it cannot draw "
            "a figure-eight: choose a task whose motion has the kind 'reach'."
        )
    # A posture that the motors can hold, if there is one.
    efforts = effort_limits(model)
    holds = (np.abs(gravity_efforts(model, postures)) <= efforts).all(axis=1)
    mobility = sizes[:, 0] * sizes[:, 1]
    best = int(np.argmax(np.where(holds, mobility, 0.0) if holds.any() else mobility))
    places = np.asarray(dynamics.frame_placement(model, postures, tip)[1])
    reach = float(np.linalg.norm(places - places.mean(axis=0), axis=1).max())
    axes = [axis if axis[np.argmax(np.abs(axis))] > 0 else -axis for axis in left[best].T[:2]]
    limit, length = task_motion.speed * rated_rates(model), task_motion.duration + horizon
    ramp = RAMP * task_motion.duration
    share, reason = 1.0, ""
    while share >= SMALLEST:
        path = figure_eight(
            places[best],
            width=share * task_motion.size * reach,
            height=share * task_motion.size * reach * 2 / 3,
            # The ramp costs the figure half of the ramp's time.
            lap=(task_motion.duration - ramp / 2) / task_motion.laps,
            ramp=ramp,
            axes=(axes[0], axes[1]),
        )
        # A figure is closed, so its positions must depend on the tip's place alone.
        places_on_path = path(np.linspace(0.0, length, round(length / period) + 1))
        if not nearest_positions(model, places_on_path, posture=postures[best], frame=tip)[1].all():
            reason = "the joints do not reach all of it near the posture"
            share *= SMALLER
            continue
        try:
            motion = follow(
                model, path, posture=postures[best], duration=length, dt=period, frame=tip
            )
        except ControlError as error:
            # Without its advice, which does not apply to a task.
            reason = str(error).rpartition(": ")[0]
        else:
            if not (np.abs(motion.qd) <= limit).all():
                reason = "the joints would exceed the task's share of their rated rates"
            elif not (np.abs(motion.tau) <= efforts).all():
                reason = "the joints would exceed the limits of their efforts"
            else:
                return motion, share
        share *= SMALLER
    raise ControlError(
        f"The tip of {model.name} cannot draw the figure of seed {task_motion.seed}, even at 1/"
        f"{round(SMALLER / share)} of its size: {reason}; choose another seed or a longer duration."
    )


def _reach(
    task_motion: TaskMotion, model: Model, period: float, horizon: float
) -> tuple[Motion, float]:
    tip, (low, high) = tip_of(model), _ends(model)
    begin = _postures(model, task_motion.seed)[0]
    samples = np.random.default_rng([task_motion.seed, 1]).uniform(
        -1, 1, (task_motion.targets, model.nv)
    )
    inside = (low + high) / 2, 0.95 * (high - low) / 2
    targets = np.clip(
        begin + task_motion.size * samples * (high - low) / 2,
        inside[0] - inside[1],
        inside[0] + inside[1],
    )
    leg = task_motion.duration / task_motion.targets
    stops = np.concatenate([begin[None], targets])
    # The peak rate of a rest-to-rest step of degree 5 is 15/8 of its mean rate.
    fastest = float(
        (np.abs(np.diff(stops, axis=0)).max(axis=0) * 15 / 8 / leg / rated_rates(model)).max()
    )
    share = min(1.0, task_motion.speed / fastest) if fastest > 0.0 else 1.0
    stops = begin + share * (stops - begin)
    times = np.asarray(period * np.arange(round((task_motion.duration + horizon) / period) + 1))
    number = np.minimum((times / leg).astype(np.intp), task_motion.targets - 1)
    s = np.minimum(times / leg - number, 1.0)[:, None]
    start, step = stops[number], stops[number + 1] - stops[number]
    q = start + step * (10 * s**3 - 15 * s**4 + 6 * s**5)
    qd = step / leg * (30 * s**2 - 60 * s**3 + 30 * s**4)
    qdd = step / leg**2 * (60 * s - 180 * s**2 + 120 * s**3)
    tau = np.asarray(dynamics.rnea(model, q, qd, qdd))
    place = np.asarray(dynamics.frame_placement(model, q, tip)[1])
    return Motion(frame=tip, dt=period, q=q, qd=qd, qdd=qdd, tau=tau, tip=place), share
