r"""A whole control law for tracking, as one core: state and reference in, torque out.

With q, qd the state and the subscript d for the reference,

    e   = clamp(q_d - q)        ed = clamp(qd_d - qd)
    a   = qdd_d + KV ed + KP e
    tau = RNEA(q, qd, a; robot and its load) + STIFFNESS e + DAMPING ed
          + VISCOUS qd_d + COULOMB step(qd_d)

which is computed torque (Siciliano, Sciavicco, Villani, Oriolo, "Robotics", 2009, section 8.5.2)
with a load at the tip, friction, and springs and dampers at the joints, since at the wrist an
acceleration takes little torque compared with the error of friction. Both errors are limited before
they are multiplied, so that a reference far from the robot causes a bounded acceleration, and the
number formats of a core need not hold a larger one. Friction is computed from the reference's rate,
which has no noise where the step is steep.

``pinion build iiwa14 examples/functions/tracking_law.py:tracking_law -o build/law``; a board takes
``--target ulx3s-spi``.
"""

from __future__ import annotations

from typing import Any

from pinion import dynamics
from pinion.api import ACCELERATION, POSITION, VELOCITY, array, clamp, function, uniform
from pinion.robot import Model, payload, tip_of

KP, KV = 400.0, 40.0
"""Gains [1/s^2, 1/s]: critically damped, a time constant of 0.05 s."""

STIFFNESS = (200.0, 200.0, 200.0, 200.0, 100.0, 100.0, 60.0)
DAMPING = (10.0, 10.0, 10.0, 10.0, 4.0, 4.0, 2.0)
"""Stiffness and damping at the joints, base to tip [N m/rad, N m s/rad]."""

POSITION_ERROR, RATE_ERROR = 0.05, 0.5
"""Largest errors [rad, rad/s]: each causes up to 20 rad/s^2."""

LOAD, CENTRE = 2.0, (0.0, 0.0, 0.08)
"""Load of the last link [kg], and its centre of mass in that link [m]."""

VISCOUS = (1.5, 1.5, 1.0, 1.0, 0.6, 0.4, 0.4)
COULOMB = (4.0, 4.0, 3.0, 3.0, 2.0, 1.2, 1.0)
"""Friction of the joints, base to tip [N m s/rad, N m]: invented for this example."""

WIDTH = 0.05
"""Rate within which dry friction changes sign [rad/s]."""


@function(
    inputs={
        "q": array("nq", unit="rad", sampling=POSITION),
        "qd": array("nv", unit="rad/s", sampling=VELOCITY),
        "q_des": array("nq", unit="rad", sampling=uniform(-3.0, 3.0)),
        "qd_des": array("nv", unit="rad/s", sampling=uniform(-2.0, 2.0)),
        "qdd_des": array("nv", unit="rad/s^2", sampling=ACCELERATION),
    },
    outputs={"tau": array("nv", unit="N m")},
)
def tracking_law(
    model: Model, q: Any, qd: Any, q_des: Any, qd_des: Any, qdd_des: Any, *, region: Any
) -> list[Any]:
    """Computed torque with limited errors, friction and a load at the tip."""
    loaded = payload(model, tip_of(model), mass=LOAD, com=CENTRE)
    joints = range(model.nv)
    e = [clamp(q_des[k] - q[k], -POSITION_ERROR, POSITION_ERROR) for k in joints]
    ed = [clamp(qd_des[k] - qd[k], -RATE_ERROR, RATE_ERROR) for k in joints]
    commanded = [qdd_des[k] + KP * e[k] + KV * ed[k] for k in joints]
    tau = dynamics.rnea_scalars(dynamics.minimal_model(loaded), q, qd, commanded, region=region)
    with region("joints", len(model.bodies)):
        return [tau[k] + at_joint(k, e[k], ed[k], qd_des[k]) for k in joints]


def at_joint(k: int, e: Any, ed: Any, rate: Any) -> Any:
    """Return the effort [N m] of a joint's spring, damper and friction at a rate.

    Dry friction changes sign as x (3 - x^2) / 2 for x from -1 to 1, which meets the constants
    outside smoothly. The last figures apply to all further joints.
    """
    at = min(k, len(COULOMB) - 1)
    x = clamp(rate, -WIDTH, WIDTH) * (1.0 / WIDTH)
    dry = x * (1.5 * COULOMB[at] - 0.5 * COULOMB[at] * (x * x))
    return STIFFNESS[at] * e + DAMPING[at] * ed + VISCOUS[at] * rate + dry
