"""The plane under a robot's feet, fitted to its last footholds."""

from __future__ import annotations

import numpy as np

from pinion.api import backend
from pinion.base.arrays import Floats
from pinion.control.track.mujoco_robot import levelling
from pinion.dynamics.general.manifold import quaternion_product
from pinion.functions import row_of
from pinion.robot import Model, contacts_of


class GroundPlane:
    """The plane ``z = a + b x + c y`` through the last places of the feet on the ground.

    Motions are planned on level ground. A state above another plane is turned and shifted so that
    the plane is level: heights count from it, and orientations from its normal. Gravity then leans,
    which the controller does not know.

    Parameters
    ----------
    model : a robot on a floating base whose feet are its contacts.
    level : height of the ground in the motion, at the contacts' origins [m].

    Members
    -------
    plane : (3,), a, b and c.
    """

    def __init__(self, model: Model, *, level: float) -> None:
        self.model = model
        self.level = level
        self.plane = np.array([level, 0.0, 0.0])
        names = tuple(contact.name for contact in contacts_of(model))
        row = row_of("forward_kinematics", frames=names)
        self._poses = backend(model, row, device="cpu")
        self._origins = [block.name for block in row.results if block.name.startswith("p_")]
        self._feet = np.zeros((0, 3))

    def update(self, x: Floats, active: Floats) -> None:
        """Update the plane from a measured state (nx,) and the mask (contacts,) of feet on it."""
        poses = self._poses(q=x[None, : self.model.nq])
        places = np.array([getattr(poses, name)[0] for name in self._origins])
        first = not len(self._feet)
        self._feet = places if first else np.where(active[:, None] > 0.0, places, self._feet)
        rows = np.column_stack([np.ones(len(places)), self._feet[:, :2]])
        fitted, *_ = np.linalg.lstsq(rows, self._feet[:, 2], rcond=1e-6)
        share = 1.0 if first else SMOOTHING
        self.plane = self.plane + share * (fitted - self.plane)

    def levelled(self, x: Floats) -> Floats:
        """Return a measured state (nx,) as it would be above level ground."""
        return levelled(x, self.plane, self.level)


SMOOTHING = 0.1
"""Share of a new fit in an update of the plane."""


def levelled(x: Floats, plane: Floats, level: float) -> Floats:
    """Return a state (nx,) above a plane (3,) as it would be above ground at a level [m]."""
    a, b, c = plane
    state = x.copy()
    state[2] += level - (a + b * x[0] + c * x[1])
    state[3:7] = quaternion_product(levelling((b, c)), x[3:7])
    return state
