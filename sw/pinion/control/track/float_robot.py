r"""A robot simulated with Pinion's dynamics: the same on every machine, without MuJoCo.

A build's choice of formats must be reproducible elsewhere, and must not depend on an optional
simulator or its version. Payload, friction and delay are a :class:`.disturbance.Disturbance`; dry
friction is smooth at small rates. A step of length h is semi-implicit, friction included, so that
stiff friction stays stable:

    (1 + h M^-1 D) qd+ = qd + h FD(q, qd, tau)      D = damping + friction / sqrt(qd^2 + w^2)
    q+ = q + h qd+
"""

from __future__ import annotations

from collections import deque

import numpy as np

from pinion import dynamics
from pinion.api import backend
from pinion.base.arrays import Floats
from pinion.batch import Closing
from pinion.control.errors import ControlError
from pinion.control.plant import check_single_joints
from pinion.robot import Model, payload, tip_of

from .disturbance import Disturbance

WIDTH = 0.01
"""Width, in rate, of the sign change of dry friction [rad/s | m/s]."""


class FloatRobot(Closing):
    """A robot simulated with Pinion's dynamics, compiled in float64.

    Parameters
    ----------
    model : the controller's model, whose joints have one position each.
    step : time step [s].
    disturbance : none by default.
    frame : the tip, which carries the payload; by default the link at the robot's end.

    Raises
    ------
    ControlError
        If the step is invalid, or a joint has several positions.
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
            raise ControlError(f"The robot's step must be above 0 and at most 0.1 s, not {step} s.")
        check_single_joints(model, "FloatRobot", "MujocoRobot")
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
        """Set the state; until the delay has passed, efforts cancel gravity and Coriolis forces."""
        self._q = np.array(q, dtype=np.float64)
        self._qd = np.zeros_like(self._q) if qd is None else np.array(qd, dtype=np.float64)
        zero = np.zeros_like(self._q)
        efforts = np.asarray(dynamics.rnea(self.loaded, self._q, self._qd, zero))
        self._waiting = deque([efforts] * self._steps_late)

    @property
    def state(self) -> Floats:
        """Current positions and rates, (2 nv,)."""
        return np.concatenate([self._q, self._qd])

    def advance(self, efforts: Floats) -> None:
        """Advance by one step; the efforts (nv,) act after the delay.

        Raises
        ------
        ControlError
            If the simulation diverges: a position or rate is not finite.
        """
        self._waiting.append(np.array(efforts, dtype=np.float64))
        tau, q, qd, h = self._waiting.popleft(), self._q[None], self._qd, self.step
        qdd = np.asarray(self._forward(q=q, qd=qd[None], tau=tau[None]).qdd, np.float64)[0]
        qd_next = qd + h * qdd
        hidden = self.disturbance
        if hidden.damping or hidden.friction:
            minv = np.asarray(self._minv(q=q).minv, np.float64)[0]
            rate = hidden.damping + hidden.friction / np.sqrt(qd**2 + WIDTH**2)
            qd_next = np.linalg.solve(np.eye(len(qd)) + h * minv * rate, qd_next)
        if not np.isfinite(qd_next).all():
            raise ControlError(
                f"The simulated {self.model.name} diverged: a rate is not finite. Choose smaller "
                "gains or efforts, or a shorter step."
            )
        self._qd = qd_next
        self._q = self._q + h * qd_next

    def tip(self, q: Floats) -> Floats:
        """Return tip positions (m, 3) [m] at joint positions (m, nv)."""
        return np.asarray(dynamics.frame_placement(self.model, q, self.frame)[1], np.float64)

    def close(self) -> None:
        """Close the backends."""
        self._forward.close()
        self._minv.close()
