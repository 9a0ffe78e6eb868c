r"""Conversion of external forces from the links' frames to the bodies' frames.

A body's frame has its joint's axis along z, unlike the link's frame in the file
(:mod:`pinion.robot.read.canonical` turns it). A force is given in the frame of the moving link,
which is the joint's frame in Pinocchio's models; the two differ by a constant rotation E, usually a
permutation of axes, and an origin r, usually zero:

    n_body = E^T n + r x E^T f        f_body = E^T f

The minimal model (:mod:`.minimal`), whose frames are slid along their axes by s and whose unit of
length is L, sees the same efforts from the moments ``n_body + (0, 0, -s) x f_body`` and the forces
``L f_body``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pinion.robot import Model, Transform
from pinion.robot.rotation import IDENTITY_TRANSFORM, transpose

from .checks import Array, constant_inertias
from .general.spatial import force_to_base, times
from .minimal import slid_model, slides_of, snapped, unit_of_length
from .rnea import Region, no_region
from .scalar import Scalar
from .spatial import Vector, cross, rotate, scale, vadd


def link_frames(model: Model) -> list[Transform]:
    """Return the pose of each body's link frame relative to the body's frame."""
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
    """Convert forces on the links to ``f_ext`` of :func:`.rnea.rnea_scalars`.

    Arguments
    ---------
    forces : (bodies, 6) scalars, ``[moment; force]`` on each moving link about its frame's origin
        in its axes [N m, N].
    region : as for :func:`.rnea.rnea_scalars`; the pass is ``force``.
    minimal : for the bodies of :func:`.minimal.minimal_model` instead of the robot's own.
    """
    minimal = minimal and constant_inertias(model)
    slides = slides_of(model) if minimal else [0.0] * len(model.bodies)
    unit = unit_of_length(slid_model(model)) if minimal else 1.0
    wrenches: list[list[Scalar]] = []
    places = zip(link_frames(model), slides, forces, strict=True)
    for number, (place, slide, wrench) in enumerate(places, 1):
        back, (x, y, z) = transpose(place.E), place.r
        lever: Vector = (x, y, snapped(z - slide))
        with region("force", number):
            n_x, n_y, n_z, f_x, f_y, f_z = wrench
            force, moment = rotate(back, (f_x, f_y, f_z)), rotate(back, (n_x, n_y, n_z))
            wrenches.append([*vadd(moment, cross(lever, force)), *scale(unit, force)])
    return wrenches


def forces_on_bodies(model: Model, forces: Array) -> Array:
    """Convert forces on the links to forces on the bodies, arrays (..., bodies, 6)."""
    wrenches = np.empty_like(forces)
    for number, place in enumerate(link_frames(model)):
        turn = force_to_base(np.array(place.E).T, np.array(place.r))
        wrenches[..., number, :] = times(turn, forces[..., number, :])
    return wrenches
