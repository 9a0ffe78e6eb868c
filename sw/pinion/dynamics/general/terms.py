"""What joints add to rigid-body dynamics: armature, viscous damping, Coulomb friction.

    tau = RNEA(q, qd, qdd) + armature qdd + damping qd + friction sign(qd)

with the figures of :class:`pinion.robot.Joint`, those of a joint with several velocities for each
of them. Of a width w above zero the sign is ``tanh(qd / w)``, which simulations and gradients can
use; with w = 0 the gradient of the sign is taken as 0, also where it jumps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pinion.dynamics.checks import DynamicsError
from pinion.dynamics.general.spatial import Array
from pinion.robot.model import Model


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Figures for each velocity, (nv,), and the width of friction's step [rad/s | m/s]."""

    armature: Array
    damping: Array
    friction: Array
    width: float

    def efforts(self, qd: Array) -> Array:
        """Return damping and friction at rates qd (n, nv)."""
        sign = np.tanh(qd / self.width) if self.width > 0.0 else np.sign(qd)
        return np.asarray(self.damping * qd + self.friction * sign)

    def slopes(self, qd: Array) -> Array:
        """Return the derivative of :meth:`efforts` by qd, (n, nv): each depends on its own."""
        slopes = np.broadcast_to(self.damping, qd.shape)
        if self.width > 0.0:
            step = 1.0 - np.tanh(qd / self.width) ** 2
            slopes = slopes + self.friction * step / self.width
        return np.array(slopes)


def terms_of(model: Model, wanted: bool, width: float) -> Terms:
    """Return the terms of a model's joints, or zeros where they are not wanted."""
    if not 0.0 <= width < float("inf"):
        raise DynamicsError(
            f"friction_width is {width!r}, pass 0 or a finite rate above it [rad/s | m/s]."
        )
    joints = [body.joint for body in model.bodies for _ in range(body.joint.kind.nv)]
    share = 1.0 if wanted else 0.0
    return Terms(
        armature=share * np.array([joint.armature for joint in joints]),
        damping=share * np.array([joint.damping for joint in joints]),
        friction=share * np.array([joint.friction for joint in joints]),
        width=float(width),
    )
