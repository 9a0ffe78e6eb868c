r"""Costs of contact forces outside their friction cones.

A cone is a pyramid inside it, with four facets about the normal z of the world (as Crocoddyl's
``FrictionCone`` with ``nf=4`` and ``inner_appr=True``):

    |f_x| <= mu f_z / sqrt(2)        |f_y| <= mu f_z / sqrt(2)        f_z >= least

The cost is quadratic in how far a force is beyond each facet, zero inside. These distances are
linear in the force, so Hessians leave out only the second derivatives of forces. Contacts in the
air have no force and no cost; of a face the force counts, not the moment; loops may pull.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pinion.base.arrays import Floats
from pinion.robot import Model, contacts_of

FACETS = 5
"""Facets of a cone, the least normal force among them."""


@dataclass(frozen=True)
class Cones:
    """Friction cones of a robot's contacts, as the facets of pyramids.

    Members
    -------
    facets : (k, nc), by which a force (nc,) is multiplied.
    least : (k,), what is added: the force is inside where all sums are at most 0 [N].
    contact : (k, nc), whether a force belongs to the contact of a facet.
    forces : of each contact the place of its force among the nc numbers; it has `FACETS` facets.
    """

    facets: Floats
    least: Floats
    contact: NDArray[np.bool_]
    forces: tuple[slice, ...]

    @classmethod
    def of(cls, model: Model, friction: float, least: float) -> Cones:
        """Return the cones of a robot's contacts for a friction coefficient and least force [N]."""
        contacts, loops = contacts_of(model), len(model.loops)
        size = sum(contact.size for contact in contacts)
        slope = friction / np.sqrt(2.0)
        pyramid = np.array(
            [[1, 0, -slope], [-1, 0, -slope], [0, 1, -slope], [0, -1, -slope], [0, 0, -1]]
        )
        forces: list[slice] = []
        facets, ends, owners, at = [], [], [], 0
        for contact in contacts[: len(contacts) - loops]:
            columns = slice(at, at + contact.size)
            rows = np.zeros((len(pyramid), size))
            forces.append(slice(columns.stop - 3, columns.stop))
            rows[:, forces[-1]] = pyramid
            owner = np.zeros(rows.shape, dtype=np.bool_)
            owner[:, columns] = True
            facets.append(rows)
            owners.append(owner)
            ends.append([0.0] * 4 + [least])
            at = columns.stop
        return cls(
            np.concatenate(facets), np.concatenate(ends), np.concatenate(owners), tuple(forces)
        )

    def beyond(self, force: Floats) -> Floats:
        """Return how far forces (..., nc) are beyond each facet, (..., k) [N], 0 inside."""
        on_ground = (self.contact & (force != 0.0)[..., None, :]).any(axis=-1)
        return np.where(on_ground, np.maximum(force @ self.facets.T + self.least, 0.0), 0.0)
