"""Kinetic energy of a robot and its gradient with respect to q and qd, as one core.

T = qd^T M(q) qd / 2. At zero velocity and without gravity, inverse dynamics gives M(q) x for an
acceleration x, and its gradient with respect to q is that of M(q) x; so dT/dqd = M qd, and dT/dq is
half of qd^T times the gradient of M x with respect to q at x = qd.

``pinion build iiwa14 examples/functions/energy_gradient.py:energy_gradient -o build/energy``
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pinion import dynamics
from pinion.api import POSITION, VELOCITY, array, function
from pinion.robot import Model


@function(
    inputs={
        "q": array("nq", unit="rad | m", sampling=POSITION),
        "qd": array("nv", unit="rad/s | m/s", sampling=VELOCITY),
    },
    outputs={
        "energy": array(unit="J"),
        "by_q": array("nv", unit="J/rad | J/m"),
        "by_qd": array("nv", unit="J s/rad | J s/m"),
    },
    joint_space=True,
)
def energy_gradient(model: Model, q: Any, qd: Any) -> tuple[Any, Any, Any]:
    """Kinetic energy and its gradient with respect to q and qd."""
    weightless = replace(model, gravity=(0.0, 0.0, 0.0))
    resting = [0.0] * model.nv
    momentum = np.array(dynamics.rnea_scalars(weightless, q, resting, qd))
    by_q, _ = dynamics.rnea_derivatives_scalars(weightless, q, resting, qd)
    return 0.5 * (qd @ momentum), 0.5 * (qd @ np.array(by_q)), momentum
