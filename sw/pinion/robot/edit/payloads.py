"""Rigid loads on links: a tool, a gripper without a file, a workpiece."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pinion.base.amounts import amount
from pinion.robot.errors import RobotError
from pinion.robot.inertia import combine, physical_problem, place, snap_inertia
from pinion.robot.lookup import find_link
from pinion.robot.model import Model
from pinion.robot.read.urdf import LARGEST, UrdfInertial
from pinion.robot.rotation import Residues, transpose


def payload(
    model: Model,
    link: str,
    *,
    mass: float,
    com: Sequence[float] = (0.0, 0.0, 0.0),
    inertia: Sequence[float] | None = None,
) -> Model:
    """Return the robot with a rigid load fixed to a link.

    Parameters
    ----------
    link : a URDF link; the load joins the moving body that carries it.
    mass : mass of the load [kg].
    com : (3,) its centre of mass, link coordinates [m].
    inertia : (6,) xx, xy, xz, yy, yz, zz about that centre, link axes [kg m^2]; None for a point
        mass.

    Errors
    ------
    RobotError : an unknown link, one of the fixed base, or an unphysical load.
    """
    frame = find_link(model, link)
    if frame.body < 0:
        raise RobotError(
            f"The link {link!r} is part of the fixed base, where a load has no effect; "
            "name a link that moves."
        )
    (own_mass,) = _numbers("mass", [mass], 1, link)
    if own_mass <= 0.0:
        raise RobotError(
            f"The mass {mass!r} of the payload at {link!r} is not positive; give a mass above 0 kg."
        )
    x, y, z = _numbers("com", com, 3, link)
    moments_of_inertia = (0.0,) * 6 if inertia is None else inertia
    xx, xy, xz, yy, yz, zz = _numbers("inertia", moments_of_inertia, 6, link)
    tensor = (xx, xy, xz, yy, yz, zz)
    moments, problem = physical_problem(tensor)
    if problem:
        raise RobotError(
            f"The inertia of the payload at {link!r} is not physical: its principal moments about "
            f"the centre of mass are {moments} kg m^2, {problem}; give the inertia of a real body."
        )
    residues = Residues()
    load = UrdfInertial(mass=own_mass, xyz=(x, y, z), rpy=(0.0, 0.0, 0.0), tensor=tensor)
    placed = place(load, transpose(frame.placement.E), frame.placement.r, residues)
    old = model.bodies[frame.body]
    where = f"the inertia of {old.name!r}"
    body = replace(old, inertia=snap_inertia(combine(old.inertia, placed), residues, where))
    note = f"Added a payload of {own_mass:.6g} kg to the link {link!r}."
    return replace(
        model,
        bodies=(*model.bodies[: frame.body], body, *model.bodies[frame.body + 1 :]),
        notes=(*model.notes, note, *residues.notes()),
    )


def _numbers(quantity: str, values: Sequence[float], count: int, link: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        numbers = ()
    if len(numbers) != count or not all(
        math.isfinite(value) and abs(value) <= LARGEST for value in numbers
    ):
        value = values if count > 1 else values[0]
        raise RobotError(
            f"The {quantity} {value!r} of the payload at {link!r} is malformed; "
            f"give {amount(count, 'finite number')}, at most {LARGEST:g} in magnitude."
        )
    return numbers
