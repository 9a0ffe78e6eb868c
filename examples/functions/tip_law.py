r"""A control law in operational space, as one core: state, tip target and load in, torque out.

With J the Jacobian of the tip, x and R its position and rotation, and a subscript d for the target,

    f   = TURN 1/2 sum_i r_i x r_d,i - SPIN w                      moment [N m]
          STIFF clamp(x_d - x) + DAMP clamp(xd_d - xd) - m g       force [N]
    tau = J^T f + h(q, qd) - REST qd

a spring and a damper at the tip, the torques that hold the arm and its load m against gravity and
its own motion, and damping of joint motions that do not move the tip (Khatib, "A unified approach
for motion and force control of robot manipulators: the operational space formulation", 1987;
without the inertia at the tip, which grows without bound near singular postures). The columns r_i
of both rotations give the rotation between them (Siciliano, Sciavicco, Villani, Oriolo, "Robotics",
2009, section 3.7.3). Errors are limited before they are multiplied.

``pinion build iiwa14 examples/functions/tip_law.py:tip_law -o build/tip`` uses the tip of the
robot, the moving link without children; for a robot with several tips choose ``--tip LINK``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion import dynamics
from pinion.api import POSITION, VELOCITY, array, clamp, function, uniform
from pinion.robot import Model, tip_of

STIFF, DAMP = 2000.0, 100.0
"""Stiffness and damping of the tip's position [N/m, N s/m]."""

TURN, SPIN = 100.0, 5.0
"""Stiffness and damping of the tip's rotation [N m, N m s/rad]."""

REST = 0.5
"""Damping of every joint [N m s/rad]."""

AWAY, RATE = 0.02, 0.2
"""Largest errors [m, m/s]: each causes up to 40 N in each direction."""


def rotations(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Sample uniformly random rotations, (count, 3, 3)."""
    w, x, y, z = np.moveaxis(rng.normal(size=(count, 4)), -1, 0)
    norm = np.sqrt(w * w + x * x + y * y + z * z)
    w, x, y, z = w / norm, x / norm, y / norm, z / norm
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), -1, 0)


@function(
    inputs={
        "q": array("nq", unit="rad", sampling=POSITION),
        "qd": array("nv", unit="rad/s", sampling=VELOCITY),
        "x_des": array(3, unit="m", sampling=uniform(-1.0, 1.0)),
        "R_des": array(3, 3, unit="1", sampling=rotations),
        "xd_des": array(3, unit="m/s", sampling=uniform(-1.0, 1.0)),
        "load": array(unit="kg", sampling=uniform(0.0, 5.0)),
    },
    outputs={"tau": array("nv", unit="N m")},
)
def tip_law(
    model: Model,
    q: Any,
    qd: Any,
    x_des: Any,
    R_des: Any,
    xd_des: Any,
    load: Any,
    *,
    region: Any,
) -> list[Any]:
    """Stiffness and damping at the tip, with the arm's own forces and a load compensated."""
    link = tip_of(model)
    rotation, place = dynamics.frame_placement_scalars(model, q, link, region)
    at_tip: Any = {"reference": "local_world_aligned", "region": region}
    J = np.array(dynamics.frame_jacobian_scalars(model, q, link, **at_tip))
    with region("tip", len(model.bodies)):
        moved = J @ qd
        R = np.array(rotation)
        turn = np.sum([np.cross(R[:, k], R_des[:, k]) for k in range(3)], axis=0)
        moment = [0.5 * TURN * turn[k] - SPIN * moved[k] for k in range(3)]
        force = [
            STIFF * clamp(x_des[k] - place[k], -AWAY, AWAY)
            + DAMP * clamp(xd_des[k] - moved[3 + k], -RATE, RATE)
            - load * model.gravity[k]
            for k in range(3)
        ]
        effort = J.T @ np.array([*moment, *force])
    bias = dynamics.bias_scalars(dynamics.minimal_model(model), q, qd, region)
    with region("joints", len(model.bodies)):
        return [effort[k] + bias[k] - REST * qd[k] for k in range(model.nv)]
