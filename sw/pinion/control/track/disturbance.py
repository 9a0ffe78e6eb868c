"""Disturbances that a controller's model leaves out: payload, friction and delay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pinion.control.errors import ControlError


@dataclass(frozen=True, kw_only=True)
class Disturbance:
    """Payload, friction and delay that the controller does not know.

    Members
    -------
    payload : point mass in the tip's frame [kg].
    offset : its position in that frame [m].
    damping : viscous friction of every joint [N m s/rad | N s/m].
    friction : dry friction of every joint [N m | N].
    armature : added to every joint [kg m^2 | kg].
    delay : from computing an effort to applying it [s].
    """

    payload: float = 0.0
    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    damping: float = 0.0
    friction: float = 0.0
    armature: float = 0.0
    delay: float = 0.0

    def __post_init__(self) -> None:
        for name in ("payload", "damping", "friction", "armature", "delay"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0.0):
                raise ControlError(
                    f"The disturbance '{name}' is {value}: it must be finite and at least 0."
                )
        if not np.isfinite(self.offset).all():
            raise ControlError(f"The payload's offset is {self.offset}: it must be finite.")
