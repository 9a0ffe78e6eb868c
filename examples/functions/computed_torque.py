"""Computed-torque control: tau = M(q) (qdd_des + Kv ed + Kp e) + h(q, qd), as one core.

Inverse dynamics of the commanded acceleration is that sum, so one recursion computes it all. The
errors e = q_des - q and ed = qd_des - qd come with the request, since whoever plans the motion has
them.

``pinion build iiwa14 examples/functions/computed_torque.py:computed_torque -o build/torque``
"""

from __future__ import annotations

from typing import Any

from pinion import dynamics
from pinion.api import ACCELERATION, POSITION, VELOCITY, array, function, uniform
from pinion.robot import Model

KP, KV = 100.0, 20.0
"""Gains [1/s^2, 1/s]: critically damped, a time constant of 0.1 s."""


@function(
    inputs={
        "q": array("nq", unit="rad", sampling=POSITION),
        "qd": array("nv", unit="rad/s", sampling=VELOCITY),
        "qdd_des": array("nv", unit="rad/s^2", sampling=ACCELERATION),
        "e": array("nv", unit="rad", sampling=uniform(-0.05, 0.05)),
        "ed": array("nv", unit="rad/s", sampling=uniform(-0.2, 0.2)),
    },
    outputs={"tau": array("nv", unit="N m")},
    joint_space=True,
)
def computed_torque(
    model: Model, q: Any, qd: Any, qdd_des: Any, e: Any, ed: Any, *, region: Any
) -> Any:
    """Computed torque: tracking with the robot's dynamics cancelled."""
    commanded = qdd_des + KV * ed + KP * e
    return dynamics.rnea_scalars(model, q, qd, commanded, region=region)
