"""Right angles that a file writes with few digits: 1.5708 for pi/2.

A turn by 1.5708 has a cosine of -3.7e-6 instead of 0, and every product with it adds an operation
to the datapath. Cores resolve less than that, so for them an angle becomes the multiple of pi/2
that it rounds: the one within half a unit of the last digit in the file. Truncated numbers
(1.57079) and those with excess digits (1.570800) are not recognisable as right angles and stay.

Only angles in ``rpy`` are checked: a component of an axis is either zero in the file or at least
one unit of its last digit, so its digits never justify a zero that is not written.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pinion.robot.model import Vec3
from pinion.robot.rotation import AS_READ

from .urdf import Urdf, UrdfJoint, UrdfLink, half_unit

COARSEST = 0.005
"""Half a unit of the second decimal [rad]; 1.6 or 3 may be any angle."""

LARGEST_ANGLE = 2.0 * math.pi
"""A full turn [rad]; larger angles are not snapped."""

_RIGHT = 0.5 * math.pi
_NAMED = 4


def right_angle(angle: float, rounding: float) -> float:
    """Return the multiple of pi/2 that ``angle`` is rounded from, or ``angle`` itself.

    Parameters
    ----------
    angle : [rad].
    rounding : half a unit of the last digit written [rad].
    """
    right = _nearest(angle)
    if not 0.0 < abs(right) <= LARGEST_ANGLE or rounding > COARSEST:
        return angle
    # Smaller differences go with the residues of sines and cosines.
    return right if AS_READ < abs(right - angle) <= rounding else angle


def right_position(position: float) -> float:
    """Apply `right_angle` to a float [rad] with the rounding of its shortest decimal form."""
    return right_angle(position, half_unit(repr(position)))


@dataclass(frozen=True, kw_only=True)
class RoundedAngles:
    """The angles of a robot that are right angles rounded to few digits.

    Members
    -------
    exact : the robot with exact right angles.
    angles : the place of each, and the angle as written [rad].
    """

    exact: Urdf
    angles: tuple[tuple[str, float], ...]

    @property
    def places(self) -> frozenset[str]:
        """The places of the rounded angles, as notes and messages name them."""
        return frozenset(where for where, _ in self.angles)

    def notes(self, snapped: bool) -> list[str]:
        """Return a sentence on the rounded angles and whether they were snapped, [] for none."""
        if not self.angles:
            return []
        count, plural = len(self.angles), "s" if len(self.angles) > 1 else ""
        right = "right angles" if plural else "a right angle"
        written = sorted({abs(angle) for _, angle in self.angles})
        listed = ", ".join(f"{angle:.15g}" for angle in written[:_NAMED])
        listed += ", ..." if len(written) > _NAMED else ""
        change, where = max((abs(_nearest(angle) - angle), where) for where, angle in self.angles)
        if snapped:
            return [
                f"Treated {count} rounded angle{plural} ({listed} rad) as {right}, within half a "
                f"unit of the last digit written; the largest change, {change:.3g} rad, was in "
                f"{where}."
            ]
        return [
            f"Kept {count} rounded angle{plural} ({listed} rad) as written, up to {change:.3g} rad "
            f"away from a right angle, in {where}; snap=True treats {'them' if plural else 'it'} "
            f"as {right}."
        ]


def rounded_angles(urdf: Urdf) -> RoundedAngles:
    """Find the rounded right angles in a file: origins of joints and axes of inertials."""
    rounded: list[tuple[str, float]] = []

    def exact(rpy: Vec3, rounding: Vec3, where: str) -> Vec3:
        right = tuple(map(right_angle, rpy, rounding))
        rounded.extend((where, old) for old, new in zip(rpy, right, strict=True) if new != old)
        roll, pitch, yaw = right
        return (roll, pitch, yaw)

    def joint(old: UrdfJoint) -> UrdfJoint:
        where = f"the origin of joint {old.name!r}"
        return replace(old, rpy=exact(old.rpy, old.rpy_rounding, where))

    def link(old: UrdfLink) -> UrdfLink:
        if old.inertial is None:
            return old
        where = f"the inertial of link {old.name!r}"
        rpy = exact(old.inertial.rpy, old.inertial.rpy_rounding, where)
        return replace(old, inertial=replace(old.inertial, rpy=rpy))

    links, joints = tuple(map(link, urdf.links)), tuple(map(joint, urdf.joints))
    return RoundedAngles(exact=replace(urdf, links=links, joints=joints), angles=tuple(rounded))


def _nearest(angle: float) -> float:
    return round(angle / _RIGHT) * _RIGHT
