"""A PID controller with anti-windup, without a robot; its state persists between samples.

The output is limited, like an actuator's torque. At the limit the integral must not grow further,
or the controller would overshoot for as long as it grew: the excess over the limit is subtracted
from the integral (back-calculation; Astrom and Hagglund, PID Controllers, 1995, section
3.5). The derivative is that of the measurement, through a first-order filter, so that neither a
step of the target nor noise causes a kick.

``pinion build none examples/functions/pid.py:pid --ii auto -o build/pid``
"""

from __future__ import annotations

from typing import Any

from pinion.api import array, clamp, function, state, uniform

STEP = 0.001
"""Time between two samples [s]."""

KP, KI, KD = 20.0, 80.0, 0.5
"""Gains [N m/rad], [N m/(rad s)], [N m s/rad]."""

LIMIT = 8.0
"""Largest torque [N m]."""

CUTOFF = 200.0
"""Cutoff of the derivative's filter [1/s]."""

BACK = 4.0
"""Rate at which the integral gives back the excess over the limit [1/s]."""

A = 1.0 / (1.0 + CUTOFF * STEP)
"""Fraction of the last derivative that the filter keeps, by backward differences."""


@function(
    inputs={
        "target": array(unit="rad", sampling=uniform(-0.5, 0.5)),
        "measured": array(unit="rad", sampling=uniform(-0.5, 0.5)),
    },
    outputs={"torque": array(unit="N m")},
    states={
        "integral": state(unit="N m"),
        "slope": state(unit="N m"),
        "last": state(unit="rad"),
    },
)
def pid(target: Any, measured: Any, integral: Any, slope: Any, last: Any) -> dict[str, Any]:
    """PID controller with anti-windup and a filtered derivative of the measurement."""
    error = target - measured
    slope = A * slope + (KD * CUTOFF * A) * (measured - last)
    demand = KP * error + integral - slope
    torque = clamp(demand, -LIMIT, LIMIT)
    grown = integral + (KI * STEP) * error + (BACK * STEP) * (torque - demand)
    return {"torque": torque, "integral": grown, "slope": slope, "last": measured}
