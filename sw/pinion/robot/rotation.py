"""Rotations in plain Python floats, exact wherever the angles are right ones.

Plain Python on purpose: a robot's constants end in a content hash, so they must not depend on how
a linear-algebra library was built for the machine at hand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pinion.robot.model import Mat3, Transform, Vec3

ROTATION_TOLERANCE = 1e-9
"""Entries of a rotation matrix this near to 0 or +-1 are residues of rounding."""

NEAR_MISS = 1e-6
"""Entries this near to 0, but not near enough to be snapped, are reported."""

IDENTITY: Mat3 = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))

IDENTITY_TRANSFORM = Transform(E=IDENTITY, r=(0.0, 0.0, 0.0))

# Columns are the new axes in old coordinates; the third is the motion axis. The other two are the
# coordinate axes that follow it cyclically, so that every matrix is a signed permutation.
_ALIGNMENTS: dict[Vec3, Mat3] = {
    (0.0, 0.0, 1.0): IDENTITY,
    (1.0, 0.0, 0.0): ((0.0, 0.0, 1.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)),
    (0.0, 1.0, 0.0): ((0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (1.0, 0.0, 0.0)),
    (0.0, 0.0, -1.0): ((1.0, 0.0, 0.0), (0.0, -1.0, 0.0), (0.0, 0.0, -1.0)),
    (-1.0, 0.0, 0.0): ((0.0, 0.0, -1.0), (1.0, 0.0, 0.0), (0.0, -1.0, 0.0)),
    (0.0, -1.0, 0.0): ((0.0, -1.0, 0.0), (0.0, 0.0, -1.0), (1.0, 0.0, 0.0)),
}


@dataclass
class Residues:
    """A tally of the numbers that were snapped, for the model's notes."""

    count: int = 0
    largest: float = 0.0
    where: str = ""
    kept: int = 0
    kept_largest: float = 0.0
    kept_where: str = ""

    def snapped(self, change: float, where: str) -> None:
        """Count one number that was moved by ``change``."""
        self.count += 1
        if change >= self.largest:
            self.largest, self.where = change, where

    def near_miss(self, value: float, where: str) -> None:
        """Count one number that looks like a residue and is too large to be taken for one."""
        self.kept += 1
        if value >= self.kept_largest:
            self.kept_largest, self.kept_where = value, where

    def notes(self) -> list[str]:
        """What was snapped and what was kept, at most one sentence each."""
        notes = []
        if self.count:
            plural = "s" if self.count > 1 else ""
            notes.append(
                f"Snapped {self.count} rounding residue{plural} to 0 or +-1; the largest change, "
                f"{self.largest:.3g}, was in {self.where}."
            )
        if self.kept:
            verb = "entries" if self.kept > 1 else "entry"
            notes.append(
                f"Kept {self.kept} rotation {verb} that may be residues but exceed "
                f"{ROTATION_TOLERANCE:g}; the largest, {self.kept_largest:.3g}, is in "
                f"{self.kept_where}: write such angles with more digits."
            )
        return notes


def transpose(a: Mat3) -> Mat3:
    """Transpose, which for a rotation is the inverse."""
    return (
        (a[0][0], a[1][0], a[2][0]),
        (a[0][1], a[1][1], a[2][1]),
        (a[0][2], a[1][2], a[2][2]),
    )


def rotate(a: Mat3, v: Vec3) -> Vec3:
    """``a v``; adding 0.0 turns a negative zero into zero."""
    x, y, z = (row[0] * v[0] + row[1] * v[1] + row[2] * v[2] + 0.0 for row in a)
    return (x, y, z)


def multiply(a: Mat3, b: Mat3) -> Mat3:
    """``a b``."""
    columns = [rotate(a, column) for column in transpose(b)]
    return transpose((columns[0], columns[1], columns[2]))


def add(a: Vec3, b: Vec3) -> Vec3:
    """``a + b``."""
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


def compose(outer: Transform, inner: Transform) -> Transform:
    """Where a frame stands that is given in ``outer``, in the coordinates ``outer`` is given in."""
    r = add(outer.r, rotate(transpose(outer.E), inner.r))
    return Transform(E=multiply(inner.E, outer.E), r=r)


def from_rpy(rpy: Vec3) -> Mat3:
    """URDF's fixed-axis roll, pitch, yaw [rad]: ``Rz(yaw) Ry(pitch) Rx(roll)``, child to parent."""
    (cr, cp, cy), (sr, sp, sy) = (tuple(map(f, rpy)) for f in (math.cos, math.sin))
    return (
        (cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr),
        (sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr),
        (-sp, cp * sr, cp * cr),
    )


def snap(a: Mat3, residues: Residues, where: str) -> Mat3:
    """Remove rounding residues from a rotation matrix and report them.

    Entries within ``ROTATION_TOLERANCE`` of 0 become 0. An entry near +-1 becomes +-1 only when
    the rest of its row and column is zero: a turn by 4e-5 rad has a cosine within 1e-9 of one,
    yet it is a turn.
    """
    rows = [list(row) for row in a]
    for row in rows:
        for k, value in enumerate(row):
            if abs(value) <= ROTATION_TOLERANCE:
                if value != 0.0:
                    residues.snapped(abs(value), where)
                row[k] = 0.0
            elif abs(value) <= NEAR_MISS:
                residues.near_miss(abs(value), where)
    for i, row in enumerate(rows):
        for k, value in enumerate(row):
            others = [row[n] for n in range(3) if n != k] + [rows[n][k] for n in range(3) if n != i]
            if any(others) or abs(value) == 1.0:
                continue
            unit = math.copysign(1.0, value)
            residues.snapped(abs(value - unit), where)
            row[k] = unit
    x, y, z = ((row[0], row[1], row[2]) for row in rows)
    return (x, y, z)


def unit_axis(axis: Vec3, residues: Residues, where: str) -> Vec3:
    """Normalise a non-zero axis and remove residues from it."""
    scale = max(abs(value) for value in axis)  # first, so that a tiny axis does not underflow
    scaled = [value / scale for value in axis]
    norm = math.sqrt(sum(value * value for value in scaled))
    unit = [value / norm for value in scaled]
    for k, value in enumerate(unit):
        if abs(value) <= ROTATION_TOLERANCE:
            if value != 0.0:
                residues.snapped(abs(value), where)
            unit[k] = 0.0
    if sum(value != 0.0 for value in unit) == 1:
        unit = [math.copysign(1.0, value) if value else 0.0 for value in unit]
    return (unit[0], unit[1], unit[2])


def align_z(axis: Vec3) -> Mat3:
    """A rotation whose third column is the unit vector ``axis``.

    A signed permutation for the six coordinate axes; otherwise the smallest turn that takes +z
    (or -z, whichever is nearer, so that the formula never divides by a small number) to the axis.

    Returns
    -------
    (3, 3) rotation from the new child coordinates to the URDF's child coordinates.
    """
    if axis in _ALIGNMENTS:
        return _ALIGNMENTS[axis]
    x, y, z = axis
    if z < 0.0:
        flipped = align_z((x, -y, -z))
        return multiply(_ALIGNMENTS[(0.0, 0.0, -1.0)], flipped)
    k = 1.0 / (1.0 + z)
    return (
        (1.0 - k * x * x, -k * x * y, x),
        (-k * x * y, 1.0 - k * y * y, y),
        (-x, -y, z),
    )
