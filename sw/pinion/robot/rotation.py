"""Rotations in plain Python floats, exact for right angles.

Plain Python, since a robot's constants end in a content hash: they must not depend on how a
linear-algebra library was built for the machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from .model import Mat3, Transform, Vec3

AS_READ = 1e-14
"""Residue that float64 leaves of a zero. Removing such residues changes no result by 1e-10: forward
dynamics of the worst-conditioned robots amplifies a change of an angle about a thousand times."""

SNAPPED = 1e-9
"""Residue that angles with ten and more digits leave of a zero, for models that may differ from
their file by less than number formats resolve."""

NEARLY = 1e-4
"""Smaller tilts [rad] that are too large for residues are named in the notes."""

NEARLY_RIGHT = "Nearly right-angled"
"""Beginning of the note on tilts that were kept."""

_NAMED = 3
"""Largest number of places in a note."""

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
    """Tolerance of rounding residues, and a tally of those removed, for the model's notes.

    Members
    -------
    tolerance : distance of a rotation's entry from 0 or +-1, of a coordinate from 0 [m], and of a
        tensor's entry from 0 relative to the largest one, that counts as a residue.
    count, largest, where : number of snapped numbers, the largest change and its place.
    tilts : the largest tilt [rad] that was kept at each nearly right-angled place.
    explained : places whose tilts another note explains.
    """

    tolerance: float = AS_READ
    count: int = 0
    largest: float = 0.0
    where: str = ""
    tilts: dict[str, float] = field(default_factory=dict)
    explained: frozenset[str] = frozenset()

    def snapped(self, change: float, where: str) -> None:
        """Count one number that was changed by ``change``."""
        self.count += 1
        if change >= self.largest:
            self.largest, self.where = change, where

    def kept(self, tilt: float, where: str) -> None:
        """Record a small tilt [rad] that was not removed, unless another note explains it."""
        if where not in self.explained:
            self.tilts[where] = max(tilt, self.tilts.get(where, 0.0))

    def notes(self) -> list[str]:
        """Return at most two sentences, on the removed residues and on the tilts that remain."""
        notes = []
        if self.count:
            plural = "s" if self.count > 1 else ""
            notes.append(
                f"Snapped {self.count} rounding residue{plural} to 0 or +-1; the largest change, "
                f"{self.largest:.3g}, was in {self.where}."
            )
        if self.tilts:
            worst = sorted(self.tilts, key=lambda place: -self.tilts[place])
            named = [f"{place} ({self.tilts[place]:.3g} rad)" for place in worst[:_NAMED]]
            more = len(worst) - len(named)
            named += [f"{more} more"] if more else []
            notes.append(
                f"{NEARLY_RIGHT} and kept as read: {_listed(named)}; exact right angles there "
                "would be zeros, which cost no operation."
            )
        return notes


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def transpose(a: Mat3) -> Mat3:
    """Return the transpose, which for a rotation is the inverse."""
    return (
        (a[0][0], a[1][0], a[2][0]),
        (a[0][1], a[1][1], a[2][1]),
        (a[0][2], a[1][2], a[2][2]),
    )


def rotate(a: Mat3, v: Vec3) -> Vec3:
    """Return ``a v`` without negative zeros."""
    x, y, z = (row[0] * v[0] + row[1] * v[1] + row[2] * v[2] + 0.0 for row in a)
    return (x, y, z)


def multiply(a: Mat3, b: Mat3) -> Mat3:
    """Return ``a b``."""
    columns = [rotate(a, column) for column in transpose(b)]
    return transpose((columns[0], columns[1], columns[2]))


def add(a: Vec3, b: Vec3) -> Vec3:
    """Return ``a + b``."""
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


def compose(outer: Transform, inner: Transform) -> Transform:
    """Return the pose of the frame ``inner``, given in ``outer``, in the parent of ``outer``."""
    r = add(outer.r, rotate(transpose(outer.E), inner.r))
    return Transform(E=multiply(inner.E, outer.E), r=r)


def from_rpy(rpy: Vec3) -> Mat3:
    """Return ``Rz(yaw) Ry(pitch) Rx(roll)``, child to parent, of URDF's fixed-axis angles [rad]."""
    (cr, cp, cy), (sr, sp, sy) = (tuple(map(f, rpy)) for f in (math.cos, math.sin))
    return (
        (cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr),
        (sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr),
        (-sp, cp * sr, cp * cr),
    )


def without_residues(a: Mat3, residues: Residues, where: str) -> Mat3:
    """Snap a rotation's entries near 0 and +-1 to these values, and report the residues.

    Entries within ``residues.tolerance`` of 0 become 0. An entry near +-1 becomes +-1 only when
    the rest of its row and column is zero: a rotation by 4e-5 rad has a cosine within 1e-9 of
    one, yet it is a rotation.
    """
    rows = [_with_zeros(row, residues, where) for row in a]
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


def _with_zeros(values: Sequence[float], residues: Residues, where: str) -> list[float]:
    """Return the values with residues replaced by zeros, and report them and small tilts."""
    result = list(values)
    for k, value in enumerate(values):
        if abs(value) <= residues.tolerance:
            if value != 0.0:
                residues.snapped(abs(value), where)
            result[k] = 0.0
        elif abs(value) < NEARLY:
            residues.kept(abs(value), where)
    return result


def unit_axis(axis: Vec3, residues: Residues, where: str) -> Vec3:
    """Normalise a non-zero axis and remove residues from it."""
    scale = max(abs(value) for value in axis)  # first, so that a tiny axis does not underflow
    scaled = [value / scale for value in axis]
    norm = math.sqrt(sum(value * value for value in scaled))
    unit = _with_zeros([value / norm for value in scaled], residues, where)
    if sum(value != 0.0 for value in unit) == 1:
        unit = [math.copysign(1.0, value) if value else 0.0 for value in unit]
    return (unit[0], unit[1], unit[2])


def align_z(axis: Vec3) -> Mat3:
    """Return a rotation whose third column is the unit vector ``axis``.

    It is a signed permutation for the six coordinate axes, otherwise the smallest rotation that
    takes +z (or -z, whichever is nearer, so that no small number divides) to the axis.

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
