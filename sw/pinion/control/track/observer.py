"""Estimate of an unknown load at the joints, from their measured motion and applied efforts.

A disturbance observer (K. Ohnishi, M. Shibata and T. Murakami, "Motion Control for Advanced
Mechatronics", IEEE/ASME Transactions on Mechatronics 1(1), 1996): the efforts that inverse dynamics
needs for the measured change of the rates, less those that acted, through a first-order low-pass
filter. Payload, friction and errors of the model are all part of it. A controller that plans with
the estimate tracks without an offset at rest (K. R. Muske and T. A. Badgwell, "Disturbance Modeling
for Offset-Free Linear Model Predictive Control", Journal of Process Control 12(5), 2002).
"""

from __future__ import annotations

import numpy as np

from pinion.base.arrays import Floats
from pinion.batch import Closing
from pinion.control.errors import ControlError, check_number
from pinion.control.plant import Float64, Plant, check_single_joints, float64_or_backend
from pinion.functions import row_of


class LoadObserver(Closing):
    """Estimator of the load that a robot's model leaves out, as efforts at its joints.

    Parameters
    ----------
    plant : whose robot it is: joints of one position each, without contacts.
    limit : largest efforts (nu,); no estimate exceeds them, even if other efforts than the stated
        ones act.
    time : time constant of the filter [s].

    Members
    -------
    load : (nu,), the estimate: efforts that act besides those of the actuators, 0 at first
        [N m | N].

    Raises
    ------
    ControlError
        If the time is not finite and positive, or the robot has other joints or contacts.
    """

    def __init__(self, plant: Plant, limit: Floats, time: float) -> None:
        check_number("The observer's time constant", time)
        if not 0.0 < time < np.inf:
            raise ControlError(
                f"The observer's time constant is {time} s: it must be finite and above 0."
            )
        check_single_joints(plant.model, "an observer", "the controller without one")
        self.load = np.zeros(plant.space.nu)
        self._limit, self._time, self._space = limit, time, plant.space
        device = "float" if isinstance(plant.forward, Float64) else "cpu"
        self._inverse = float64_or_backend(plant.model, row_of("rnea"), device)

    def close(self) -> None:
        """Close the backend of inverse dynamics."""
        self._inverse.close()

    def update(self, seconds: float, begin: Floats, end: Floats, efforts: Floats) -> None:
        """Update the estimate from two measured states and the efforts between them.

        Parameters
        ----------
        seconds : since the state ``begin``.
        begin, end : measured states (nx,).
        efforts : (nu,), mean of those that were applied.
        """
        q, qd = self._space.parts((begin + end) / 2)
        _, change = self._space.parts(end - begin)
        arrays = {"q": q, "qd": qd, "qdd": change / seconds}
        result = self._inverse(**{name: array[None] for name, array in arrays.items()})
        needed = np.asarray(result.tau, dtype=np.float64)[0]
        share = -np.expm1(-seconds / self._time)
        load = self.load + share * (needed - efforts - self.load)
        self.load = np.clip(load, -self._limit, self._limit)
