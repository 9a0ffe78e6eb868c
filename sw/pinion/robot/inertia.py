"""Rigid-body inertia: physical consistency, parallel axes, and the sum of merged bodies."""

from __future__ import annotations

import numpy as np

from .model import Inertia, Mat3, Transform, Vec3
from .read.urdf import UrdfInertial
from .rotation import Residues, add, from_rpy, multiply, rotate, transpose, without_residues

Tensor = tuple[float, float, float, float, float, float]

INERTIA_TOLERANCE = 1e-9
"""Entries and moments of a tensor this small relative to its largest one may be residues."""

PHYSICAL_TOLERANCE = 1e-6
"""Relative slack of the triangle inequality, for published figures that are rounded."""

LIGHTEST = 1e-15
"""Smaller masses count as zero [kg]: a picogram, lighter than any link."""

SMALLEST_RADIUS = 1e-8
"""A tensor with a smaller radius of gyration [m] counts as zero, as for a point mass."""

SMALLEST_MOMENT = 1e-24
"""Tensors whose largest entry is smaller count as zero, whatever the mass [kg m^2]."""

TRIANGLE = " (no moment may exceed the sum of the others)"
"""Explanation of the triangle inequality in a message."""

ZERO: Inertia = Inertia(mass=0.0, h=(0.0, 0.0, 0.0), I=(0.0, 0.0, 0.0, 0.0, 0.0, 0.0))


def matrix(tensor: Tensor) -> Mat3:
    """Return the full symmetric matrix of (xx, xy, xz, yy, yz, zz)."""
    xx, xy, xz, yy, yz, zz = tensor
    return ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz))


def upper(a: Mat3) -> Tensor:
    """Return (xx, xy, xz, yy, yz, zz) of a symmetric matrix."""
    return (a[0][0], a[0][1], a[0][2], a[1][1], a[1][2], a[2][2])


def principal_moments(tensor: Tensor) -> tuple[float, float, float]:
    """Return the eigenvalues of the tensor in ascending order [kg m^2]."""
    a, b, c = np.linalg.eigvalsh(np.array(matrix(tensor)))
    return (float(a), float(b), float(c))


def physical_problem(tensor: Tensor) -> tuple[str, str]:
    """Return the principal moments as text, and their problem ('' if they are physical).

    ``tensor`` is about the centre of mass [kg m^2]; a point mass and a thin rod are physical.
    """
    moments = principal_moments(tensor)
    small, middle, large = moments
    moments_text = ", ".join(f"{value:.6g}" for value in moments)
    if small < -INERTIA_TOLERANCE * max(abs(small), abs(large)):
        return moments_text, "not positive definite"
    if small + middle < large * (1.0 - PHYSICAL_TOLERANCE):
        return moments_text, f"breaking the triangle inequality{TRIANGLE}"
    return moments_text, ""


def significant(
    mass: float, tensor: Tensor, residues: Residues, where: str
) -> tuple[float, Tensor]:
    """Return a link's mass and its tensor about the centre of mass, zero if they are negligible.

    Files written by programs have moments such as 2.4e-35 kg m^2 in place of zeros, some of them
    negative.
    """
    if mass != 0.0 and abs(mass) < LIGHTEST:
        residues.snapped(abs(mass), where)
        mass = 0.0
    size = max(abs(value) for value in tensor)
    if 0.0 < size <= max(SMALLEST_MOMENT, abs(mass) * SMALLEST_RADIUS**2):
        residues.snapped(size, where)
        tensor = (0.0,) * 6
    return mass, tensor


def place(
    inertial: UrdfInertial,
    rotation: Mat3,
    offset: Vec3,
    residues: Residues,
    where: str = "the axes of an inertial",
) -> Inertia:
    """Return a link's inertia about its body's origin, in body coordinates.

    Parameters
    ----------
    rotation : (3, 3) link coordinates to body coordinates.
    offset : (3,) the link's origin, body coordinates [m].
    where : its name in notes on residues.

    Returns
    -------
    The inertia about the body frame's origin: congruence by the rotations, then the
    parallel-axis theorem (Featherstone 2008, equation 2.63).
    """
    inertial_axes = without_residues(from_rpy(inertial.rpy), residues, where)
    turn = multiply(rotation, inertial_axes)
    tensor = multiply(multiply(turn, matrix(inertial.tensor)), transpose(turn))
    com = add(offset, rotate(rotation, inertial.xyz))
    return Inertia(
        mass=inertial.mass,
        h=_scale(inertial.mass, com),
        I=_sum(upper(tensor), _point(inertial.mass, com)),
    )


def combine(a: Inertia, b: Inertia) -> Inertia:
    """Return the sum of two inertias in the same frame."""
    return Inertia(mass=a.mass + b.mass, h=add(a.h, b.h), I=_sum(a.I, b.I))


def moved(inertia: Inertia, transform: Transform) -> Inertia:
    """Return a body's inertia about its parent's origin, in the parent's coordinates.

    With ``h' = E^T h`` the tensor is ``E^T I E + (2 r.h' 1 - r h'^T - h' r^T) + m(r.r 1 - r r^T)``
    (Featherstone 2008, equation 2.66; ``1`` is the identity), which needs no detour over the centre
    of mass.
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
    """Return the centre of mass in the body's frame [m]; the origin if there is no mass."""
    if not inertia.mass:
        return (0.0, 0.0, 0.0)
    x, y, z = (value / inertia.mass for value in inertia.h)
    return (x, y, z)


def about_com(inertia: Inertia) -> Tensor:
    """Return the tensor about the centre of mass in body axes [kg m^2]."""
    return _sum(inertia.I, _point(-inertia.mass, com(inertia)))


def snap_inertia(inertia: Inertia, residues: Residues, where: str) -> Inertia:
    """Remove rounding residues of the tensor, relative to its largest entry, and of the com [m]."""
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
    """Return the tensor of a point mass: ``m (|c|^2 I - c c^T)`` with the identity I."""
    x, y, z = at
    return (
        mass * (y * y + z * z),
        -mass * x * y,
        -mass * x * z,
        mass * (x * x + z * z),
        -mass * y * z,
        mass * (x * x + y * y),
    )
