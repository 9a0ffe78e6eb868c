r"""A robot that moves in our own dynamics: the same on every machine, with or without MuJoCo.

A choice that a build makes has to be made again elsewhere, and must not hang on whether an optional
simulator is installed, nor on its version. Payload, friction and delay are those of
:class:`.mujoco_robot.Disturbance`; dry friction is smooth within a small rate. A step of length h
is semi-implicit, friction included, so that stiff friction stays stable:

    (1 + h M^-1 D) qd+ = qd + h FD(q, qd, tau)      D = damping + friction / sqrt(qd^2 + w^2)
    q+ = q + h qd+
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from pinion import dynamics
from pinion.api import backend
from pinion.batch import Closing
from pinion.control.errors import ControlError
from pinion.robot import Model, payload, tip_of

from .disturbance import Disturbance

Floats = NDArray[np.float64]

WIDTH = 0.01
"""Rate within which dry friction changes sign [rad/s | m/s]."""


class FloatRobot(Closing):
    """A robot in float64, compiled.

    Parameters
    ----------
    model : of joints with one position each, as the controller believes it to be.
    step : [s].
    disturbance : none by default.
    frame : the tip, where the payload is; by default the link at the robot's end.

    Raises
    ------
    ControlError
        When a step is none, or its joints are of another kind.
    """

    def __init__(
        self,
        model: Model,
        *,
        step: float,
        disturbance: Disturbance | None = None,
        frame: str | None = None,
    ) -> None:
        if not (np.isfinite(step) and 0.0 < step <= 0.1):
            raise ControlError(f"A step of {step} s is none: give it above 0 and to 0.1.")
        if model.nq != model.nv:
            raise ControlError(
                f"{model.name} has {model.nq} positions and {model.nv} velocities: control takes "
                "robots whose joints have one of each, on a fixed base."
            )
        self.model = model
        self.step = step
        self.disturbance = disturbance or Disturbance()
        self.frame = tip_of(model) if frame is None else frame
        load, where = self.disturbance.payload, self.disturbance.offset
        self.loaded = payload(model, self.frame, mass=load, com=where) if load > 0.0 else model
        self._forward = backend(self.loaded, "aba", device="cpu")
        self._minv = backend(self.loaded, "minv", device="cpu")
        self._steps_late = round(self.disturbance.delay / step)
        self._waiting: deque[Floats] = deque()
        self._q = self._qd = np.zeros(model.nv)

    def reset(self, q: Floats, qd: Floats | None = None) -> None:
        """Put the robot somewhere, held against gravity by what was computed before."""
        self._q = np.array(q, dtype=np.float64)
        self._qd = np.zeros_like(self._q) if qd is None else np.array(qd, dtype=np.float64)
        zero = np.zeros_like(self._q)
        efforts = np.asarray(dynamics.rnea(self.loaded, self._q, self._qd, zero))
        self._waiting = deque([efforts] * self._steps_late)

    @property
    def state(self) -> Floats:
        """Positions and rates now, (2 nv,)."""
        return np.concatenate([self._q, self._qd])

    def advance(self, efforts: Floats) -> None:
        """Go one step on; the efforts (nv,) come into force after the delay.

        Raises
        ------
        ControlError
            When the simulation diverges: a position or rate is no finite number any more.
        """
        self._waiting.append(np.array(efforts, dtype=np.float64))
        tau, q, qd, h = self._waiting.popleft(), self._q[None], self._qd, self.step
        qdd = np.asarray(self._forward(q=q, qd=qd[None], tau=tau[None]).qdd, np.float64)[0]
        after = qd + h * qdd
        hidden = self.disturbance
        if hidden.damping or hidden.friction:
            minv = np.asarray(self._minv(q=q).minv, np.float64)[0]
            rate = hidden.damping + hidden.friction / np.sqrt(qd**2 + WIDTH**2)
            after = np.linalg.solve(np.eye(len(qd)) + h * minv * rate, after)
        if not np.isfinite(after).all():
            raise ControlError(
                f"The simulated {self.model.name} diverged: a rate is no finite number any more. "
                "Take smaller gains or efforts, or a shorter step."
            )
        self._qd = after
        self._q = self._q + h * after

    def tip(self, q: Floats) -> Floats:
        """Places (m, 3) [m] of the tip of positions (m, nv)."""
        return np.asarray(dynamics.frame_placement(self.model, q, self.frame)[1], np.float64)

    def close(self) -> None:
        """Close what it is computed with."""
        self._forward.close()
        self._minv.close()
