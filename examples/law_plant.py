"""A robot in MuJoCo that differs from the model of its control law, and motions to follow.

For :mod:`examples.law_on_chip`.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

from pinion import dynamics
from pinion.base.arrays import Floats
from pinion.robot import Model, tip_of
from pinion.robot.library import urdf_text

SUBSTEP = 0.25e-3
"""Longest step of the plant's integration [s]."""

LOAD, CENTRE = 2.3, (0.01, 0.0, 0.09)
"""Load of the plant [kg, m in the last link]; the law assumes 2 kg at 0.08 m."""

VISCOUS = (1.8, 1.8, 1.2, 1.2, 0.7, 0.5, 0.5)
COULOMB = (3.2, 3.2, 2.4, 2.4, 1.6, 1.0, 0.8)
"""Friction of the plant, base to tip [N m s/rad, N m]: off from the law's assumption by a fifth."""

SHARE = 0.6
"""Share of the rated speeds that the motion reaches."""


class Arm:
    """A robot in MuJoCo, with a load and friction.

    Parameters
    ----------
    robot : a built-in robot's name.
    load, centre : mass [kg] that the last link carries, and its position in that link [m].
    viscous, coulomb : (nv,) friction [N m s/rad, N m].
    """

    def __init__(
        self,
        robot: str,
        *,
        load: float,
        centre: tuple[float, float, float],
        viscous: Floats,
        coulomb: Floats,
    ) -> None:
        mujoco = importlib.import_module("mujoco")
        spec = mujoco.MjSpec.from_string(urdf_text(robot))
        if load > 0.0:
            carried = spec.bodies[-1].add_body(name="load", pos=centre)
            carried.mass, carried.inertia, carried.explicitinertial = load, [1e-6] * 3, True
        self._mujoco, self._model = mujoco, spec.compile()
        self._model.dof_damping[:], self._model.dof_frictionloss[:] = viscous, coulomb
        self._model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        self._data = mujoco.MjData(self._model)

    @property
    def state(self) -> tuple[Floats, Floats]:
        """Return joint positions and velocities, (nv,) each."""
        return self._data.qpos.copy(), self._data.qvel.copy()

    def place(self, q: Floats) -> None:
        """Set the positions, with zero velocity."""
        self._data.qpos[:], self._data.qvel[:] = q, 0.0

    def advance(self, tau: Floats, seconds: float) -> None:
        """Simulate a duration [s] with constant torques."""
        if seconds <= 0.0:
            return
        steps = math.ceil(seconds / SUBSTEP)
        self._model.opt.timestep = seconds / steps
        self._data.qfrc_applied[:] = tau
        for _ in range(steps):
            self._mujoco.mj_step(self._model, self._data)


class Motion(Protocol):
    """A motion for a law to follow: its start, (nv,), and the request at time t [s].

    ``off`` returns the errors of joint positions [rad] and of the tip's position [m].
    """

    start: Floats

    def request(self, t: float, q: Floats, qd: Floats) -> dict[str, Floats]:
        """Return the request for the sample at time `t` [s]."""
        ...

    def off(self, t: float, q: Floats) -> tuple[Floats, float]:
        """Return the robot's tracking errors at time `t` [s]."""
        ...


class JointMotion:
    """A motion in which all joints swing from ``start`` with different periods, from zero velocity.

    They stay within the limits and reach `SHARE` of the rated speeds, at most 2 rad/s.
    """

    def __init__(self, model: Model) -> None:
        k = np.arange(model.nv)
        self.model = model
        self.start: Floats = 0.4 * np.where(k % 2, 1.0, -1.0)
        self.omega: Floats = 2 * np.pi * np.asarray(0.5 + 0.1 * (k % 4), dtype=np.float64)
        speed = SHARE * np.minimum(np.array(model.rated_velocity), 2.0)
        self.swing: Floats = 2.0 * speed / self.omega * np.where(k % 2, -1.0, 1.0)

    def positions(self, t: float) -> Floats:
        """Return the target positions of the joints [rad] at time `t` [s]."""
        return self.start + self.swing * (1.0 - np.cos(self.omega * t)) / 2.0

    def request(self, t: float, q: Floats, qd: Floats) -> dict[str, Floats]:
        """Return the request for the sample at time `t` [s]."""
        phase, rate = self.omega * t, self.swing * self.omega / 2.0
        moving = {"qd_des": rate * np.sin(phase), "qdd_des": rate * self.omega * np.cos(phase)}
        return {"q": q, "qd": qd, "q_des": self.positions(t), **moving}

    def off(self, t: float, q: Floats) -> tuple[Floats, float]:
        """Return the tracking errors of the joints [rad] and of the tip [m] at time `t` [s]."""
        target = self.positions(t)
        _, x = dynamics.frame_placement(self.model, np.stack([q, target]), tip_of(self.model))
        return q - target, float(np.linalg.norm(x[0] - x[1]))


class TipMotion:
    """A motion of the tip along an arc of 160 by 80 mm in two seconds, at constant rotation."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.start: Floats = 0.2 + 0.7 * np.cos(2.2 * np.arange(model.nv))
        R, x = self._pose(self.start)
        self._R, self._x = R, x

    def _pose(self, q: Floats) -> tuple[Floats, Floats]:
        R, x = dynamics.frame_placement(self.model, q[None], tip_of(self.model))
        return R[0], x[0]

    def place(self, t: float) -> tuple[Floats, Floats]:
        """Return the target position [m] and velocity [m/s] of the tip at time `t` [s]."""
        w = np.pi
        bow = np.array([0.0, 0.08 * (1.0 - np.cos(w * t)), 0.04 * (1.0 - np.cos(2 * w * t))])
        rate = np.array([0.0, 0.08 * w * np.sin(w * t), 0.08 * w * np.sin(2 * w * t)])
        return self._x + bow, rate

    def request(self, t: float, q: Floats, qd: Floats) -> dict[str, Floats]:
        """Return the request of a sample; the law knows only the load's mass."""
        x, xd = self.place(t)
        tip = {"x_des": x, "R_des": self._R, "xd_des": xd, "load": np.array(LOAD)}
        return {"q": q, "qd": qd, **tip}

    def off(self, t: float, q: Floats) -> tuple[Floats, float]:
        """Return the tip's tracking errors, of rotation [rad] and position [m], at time `t` [s]."""
        R, x = self._pose(q)
        turn = np.sum(np.cross(R.T, self._R.T), axis=0) / 2.0
        return turn, float(np.linalg.norm(x - self.place(t)[0]))


MOTIONS: dict[str, Callable[[Model], Motion]] = {
    "tracking_law": JointMotion,
    "tip_law": TipMotion,
}


def arm_of(robot: str, model: Model) -> Arm:
    """Return the simulated arm, which differs from the law's model."""
    at = [min(k, len(COULOMB) - 1) for k in range(model.nv)]
    viscous, coulomb = np.array(VISCOUS)[at], np.array(COULOMB)[at]
    return Arm(robot, load=LOAD, centre=CENTRE, viscous=viscous, coulomb=coulomb)
