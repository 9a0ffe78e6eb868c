"""Rigid-body inertia: what a real body can have, parallel axes, and the sum of merged bodies."""

from __future__ import annotations

import numpy as np

from pinion.robot.errors import RobotError
from pinion.robot.model import Inertia, Mat3, Transform, Vec3
from pinion.robot.rotation import (
    Residues,
    add,
    from_rpy,
    multiply,
    rotate,
    transpose,
    without_residues,
)
from pinion.robot.urdf import UrdfInertial

Tensor = tuple[float, float, float, float, float, float]

INERTIA_TOLERANCE = 1e-9
"""Entries and moments of a tensor this small beside its largest one may be residues."""

PHYSICAL_TOLERANCE = 1e-6
"""Relative slack of the triangle inequality, for figures that were rounded when published."""

ZERO: Inertia = Inertia(mass=0.0, h=(0.0, 0.0, 0.0), I=(0.0, 0.0, 0.0, 0.0, 0.0, 0.0))


def matrix(tensor: Tensor) -> Mat3:
    """The full symmetric matrix of (xx, xy, xz, yy, yz, zz)."""
    xx, xy, xz, yy, yz, zz = tensor
    return ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz))


def upper(a: Mat3) -> Tensor:
    """(xx, xy, xz, yy, yz, zz) of a symmetric matrix."""
    return (a[0][0], a[0][1], a[0][2], a[1][1], a[1][2], a[2][2])


def principal_moments(tensor: Tensor) -> tuple[float, float, float]:
    """Eigenvalues of the tensor in ascending order [kg m^2]."""
    a, b, c = np.linalg.eigvalsh(np.array(matrix(tensor)))
    return (float(a), float(b), float(c))


def check_link(inertial: UrdfInertial, link: str) -> str | None:
    """Check that a real body can have this inertia.

    Returns
    -------
    None, or a note when the figures are not physical and the file accepts them all the same.

    Errors
    ------
    RobotError : negative mass, inertia without mass, a negative principal moment, or principal
        moments about the centre of mass that break the triangle inequality.
    """
    mass = inertial.mass
    if mass < 0.0:
        raise RobotError(f"The mass {mass!r} of link {link!r} is negative; correct it.")
    if mass == 0.0:
        if any(inertial.tensor):
            raise RobotError(
                f"The mass {mass!r} of link {link!r} is zero but its inertia is not; "
                "give it a positive mass."
            )
        return None
    shown, problem = physical_problem(inertial.tensor)
    if not problem:
        return None
    if inertial.accept:
        return (
            f"The inertia of link {link!r} is not physical (principal moments {shown} kg m^2 "
            f"about its centre of mass, {problem}) and was kept because the file accepts it."
        )
    raise RobotError(
        f"The inertia of link {link!r} is not physical: its principal moments about the centre of "
        f"mass are {shown} kg m^2, {problem}; correct it, or keep published figures with "
        '<pinion accept_inertia="true"/> in its <inertial>.'
    )


def physical_problem(tensor: Tensor) -> tuple[str, str]:
    """The principal moments as text, and what no real body can have of them ('' when nothing).

    ``tensor`` is about the centre of mass [kg m^2]; a point mass and a thin rod are physical.
    """
    moments = principal_moments(tensor)
    small, middle, large = moments
    shown = ", ".join(f"{value:.6g}" for value in moments)
    if small < -INERTIA_TOLERANCE * max(abs(small), abs(large)):
        return shown, "not positive definite"
    if small + middle < large * (1.0 - PHYSICAL_TOLERANCE):
        return (
            shown,
            "breaking the triangle inequality (no moment may exceed the sum of the others)",
        )
    return shown, ""


def check_body(inertia: Inertia, body: str) -> None:
    """Check that a moving body, fixed links merged, has mass and a positive definite inertia.

    Errors
    ------
    RobotError : no mass, or a principal moment about the centre of mass that is not positive.
    """
    if not inertia.mass > 0.0:
        raise RobotError(
            f"The moving link {body!r} has no inertia (mass {inertia.mass!r} after merging the "
            "links fixed to it); give it an <inertial> with a positive mass."
        )
    moments = principal_moments(about_com(inertia))
    if not (moments[0] > 1e-12 * moments[2] and moments[2] > 0.0):
        shown = ", ".join(f"{value:.6g}" for value in moments)
        raise RobotError(
            f"The inertia of the moving link {body!r} is not positive definite: its principal "
            f"moments about the centre of mass are {shown} kg m^2; give it three positive ones."
        )


def place(
    inertial: UrdfInertial,
    rotation: Mat3,
    offset: Vec3,
    residues: Residues,
    where: str = "the axes of an inertial",
) -> Inertia:
    """A link's inertia in its body's frame.

    Parameters
    ----------
    rotation : (3, 3) link coordinates to body coordinates.
    offset : (3,) the link's origin, body coordinates [m].
    where : what it is called where residues are noted.

    Returns
    -------
    The inertia about the body frame's origin: congruence by the rotations, then the
    parallel-axis theorem (Featherstone 2008, equation 2.63).
    """
    own = without_residues(from_rpy(inertial.rpy), residues, where)
    turn = multiply(rotation, own)
    tensor = multiply(multiply(turn, matrix(inertial.tensor)), transpose(turn))
    com = add(offset, rotate(rotation, inertial.xyz))
    return Inertia(
        mass=inertial.mass,
        h=_scale(inertial.mass, com),
        I=_sum(upper(tensor), _point(inertial.mass, com)),
    )


def combine(a: Inertia, b: Inertia) -> Inertia:
    """The inertia of two bodies that are one, both in the same frame."""
    return Inertia(mass=a.mass + b.mass, h=add(a.h, b.h), I=_sum(a.I, b.I))


def moved(inertia: Inertia, transform: Transform) -> Inertia:
    """A body's inertia about its parent's origin, in the parent's coordinates.

    With ``h' = E^T h`` the tensor is ``E^T I E + (2 r.h' 1 - r h'^T - h' r^T) + m(r.r 1 - r r^T)``
    (Featherstone 2008, equation 2.66), which needs no detour over the centre of mass.
    """
    turn, (x, y, z) = transpose(transform.E), transform.r
    tensor = upper(multiply(multiply(turn, matrix(inertia.I)), transform.E))
    h = rotate(turn, inertia.h)
    cross: Tensor = (
        2.0 * (y * h[1] + z * h[2]),
        -x * h[1] - y * h[0],
        -x * h[2] - z * h[0],
        2.0 * (x * h[0] + z * h[2]),
        -y * h[2] - z * h[1],
        2.0 * (x * h[0] + y * h[1]),
    )
    return Inertia(
        mass=inertia.mass,
        h=add(h, _scale(inertia.mass, transform.r)),
        I=_sum(tensor, _sum(cross, _point(inertia.mass, transform.r))),
    )


def com(inertia: Inertia) -> Vec3:
    """Centre of mass in the body's frame [m]; the origin when there is no mass."""
    return _scale(1.0 / inertia.mass, inertia.h) if inertia.mass else (0.0, 0.0, 0.0)


def about_com(inertia: Inertia) -> Tensor:
    """The tensor about the centre of mass, body axes [kg m^2]."""
    return _sum(inertia.I, _point(-inertia.mass, com(inertia)))


def snap_inertia(inertia: Inertia, residues: Residues, where: str) -> Inertia:
    """Remove rounding residues: tensor entries this small beside the largest one are residues,
    and centres of mass this near to an axis [m] are on it.
    """
    h = snap_vector(inertia.h, residues.tolerance * inertia.mass, residues, where)
    limit = residues.tolerance * max(abs(value) for value in inertia.I)
    first = snap_vector(inertia.I[:3], limit, residues, where)
    second = snap_vector(inertia.I[3:], limit, residues, where)
    return Inertia(mass=inertia.mass, h=h, I=(*first, *second))


def snap_vector(v: Vec3, tolerance: float, residues: Residues, where: str) -> Vec3:
    """Set entries within ``tolerance`` of zero to zero and report them."""
    for value in v:
        if value != 0.0 and abs(value) <= tolerance:
            residues.snapped(abs(value), where)
    x, y, z = (0.0 if abs(value) <= tolerance else value for value in v)
    return (x, y, z)


def _scale(k: float, v: Vec3) -> Vec3:
    return (k * v[0], k * v[1], k * v[2])


def _sum(a: Tensor, b: Tensor) -> Tensor:
    xx, xy, xz, yy, yz, zz = (p + q for p, q in zip(a, b, strict=True))
    return (xx, xy, xz, yy, yz, zz)


def _point(mass: float, at: Vec3) -> Tensor:
    """The tensor of a point mass: ``m (|c|^2 1 - c c^T)``."""
    x, y, z = at
    return (
        mass * (y * y + z * z),
        -mass * x * y,
        -mass * x * z,
        mass * (x * x + z * z),
        -mass * y * z,
        mass * (x * x + y * y),
    )
