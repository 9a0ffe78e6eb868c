r"""External forces in the links' own frames, as a caller has them, into the bodies' frames.

A body's frame has its joint's axis for z, which the link's frame of the file need not have
(:mod:`pinion.robot.read.canonical` turns it). A force is given in the frame of the moving link
itself, which is that of the joint in Pinocchio's models; the two differ by a constant rotation E
and an origin r, mostly exchanged axes and none:

    n_body = E^T n + r x E^T f        f_body = E^T f

The minimal model (:mod:`.minimal`), whose frames are slid along their axes by s and whose unit of
length is L, sees the same efforts from the moments ``n_body + (0, 0, -s) x f_body`` and the forces
``L f_body``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pinion.dynamics.general.spatial import force_to_base, times
from pinion.robot.model import Model, Transform
from pinion.robot.rotation import IDENTITY_TRANSFORM

from .checks import Array
from .minimal import slid_model, slides_of, snapped, unit_of_length
from .rnea import Region, no_region
from .scalar import Scalar
from .spatial import Vector, cross, rotate, scale, transpose, vadd


def link_frames(model: Model) -> list[Transform]:
    """Return for each body where its moving link's frame stands in it."""
    named = {(frame.name, frame.body): frame.placement for frame in model.frames}
    return [
        named.get((body.name, number), IDENTITY_TRANSFORM)
        for number, body in enumerate(model.bodies)
    ]


def forces_on_bodies_scalars(
    model: Model,
    forces: Sequence[Sequence[Scalar]],
    region: Region = no_region,
    *,
    minimal: bool = False,
) -> list[list[Scalar]]:
    """Return forces on the links as ``f_ext`` of :func:`.rnea.rnea_scalars` takes them.

    Arguments
    ---------
    forces : (bodies, 6) scalars, ``[moment; force]`` on each moving link about its frame's origin
        in its axes [N m, N].
    region : as for :func:`.rnea.rnea_scalars`; the pass is ``force``.
    minimal : for the bodies of the robot's minimal model, not for its own.
    """
    slides = slides_of(model) if minimal else [0.0] * len(model.bodies)
    unit = unit_of_length(slid_model(model)) if minimal else 1.0
    found: list[list[Scalar]] = []
    places = zip(link_frames(model), slides, forces, strict=True)
    for number, (place, slide, given) in enumerate(places, 1):
        back, (x, y, z) = transpose(place.E), place.r
        lever: Vector = (x, y, snapped(z - slide))
        with region("force", number):
            force = rotate(back, (given[3], given[4], given[5]))
            moment = rotate(back, (given[0], given[1], given[2]))
            found.append([*vadd(moment, cross(lever, force)), *scale(unit, force)])
    return found


def forces_on_bodies(model: Model, forces: Array) -> Array:
    """Return the same on arrays (..., bodies, 6)."""
    found = np.empty_like(forces)
    for number, place in enumerate(link_frames(model)):
        turn = force_to_base(np.array(place.E).T, np.array(place.r))
        found[..., number, :] = times(turn, forces[..., number, :])
    return found
