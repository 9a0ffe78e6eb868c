"""One step of a Kalman filter for four states, without a robot: update, then prediction.

A point moves in a plane with a slowly changing velocity; its position is measured every 0.1 s. The
state is (x, y, vx, vy) in metres and metres per second. Numbers of that size suit fixed point; in
millimetres, or with variances of a millionth, the same filter would need other formats (``auto``).

``pinion build none examples/functions/kalman.py:kalman -o build/kalman``
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.api import array, function, uniform

STEP = 0.1
"""Time between two measurements [s]."""

F = np.eye(4) + STEP * np.eye(4, k=2)
"""Transition of the state in a step."""

Q = np.diag([1e-3, 1e-3, 1e-2, 1e-2])
"""Covariance of the disturbance in a step [m^2, m^2/s^2]."""

R = 0.04 * np.eye(2)
"""Covariance of a measurement [m^2]."""


def covariances(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Sample symmetric positive definite covariances with standard deviations up to 0.5 m."""
    turn, _ = np.linalg.qr(rng.normal(size=(count, 4, 4)))
    spread = rng.uniform(0.02, 0.25, (count, 1, 4))
    return np.asarray((turn * spread) @ np.swapaxes(turn, 1, 2))


@function(
    inputs={
        "x": array(4, unit="m | m/s", sampling=uniform(-2.0, 2.0)),
        "P": array(4, 4, unit="m^2 | m^2/s^2", sampling=covariances, symmetric=True),
        "measured": array(2, unit="m", sampling=uniform(-2.0, 2.0)),
    },
    outputs={
        "x_next": array(4, unit="m | m/s"),
        "P_next": array(4, 4, unit="m^2 | m^2/s^2", symmetric=True),
    },
)
def kalman(x: Any, P: Any, measured: Any) -> dict[str, Any]:
    """Kalman filter for four states: include a measurement, then predict one step ahead."""
    S = P[:2, :2] + R
    a, b, d = S[0, 0], S[0, 1], S[1, 1]
    inverse = np.array([[d, -b], [-b, a]]) / (a * d - b * b)
    gain = P[:, :2] @ inverse
    x = x + gain @ (measured - x[:2])
    P = P - gain @ P[:2, :]
    return {"x_next": F @ x, "P_next": F @ P @ F.T + Q}
