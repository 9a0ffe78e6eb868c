"""Right angles that a file writes with few digits: 1.5708 for pi/2.

A turn by 1.5708 has a cosine of -3.7e-6 where a right angle has none, and every product by it is
one more in the datapath. Cores resolve less than that, so for them an angle becomes the multiple of
pi/2 that it rounds: the one within half a unit of the last digit that the file writes. A truncated
number (1.57079) and one with more digits than its writer knew (1.570800) do not say that they stand
for a right angle and stay.

Angles in ``rpy`` alone are looked at: a component of an axis is a zero in the file or at least one
unit of its last digit, so its digits never justify a zero that is not written.
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
"""A whole turn [rad]; beyond it nobody writes an angle."""

_RIGHT = 0.5 * math.pi
_NAMED = 4


def right_angle(angle: float, rounding: float) -> float:
    """The multiple of pi/2 that ``angle`` rounds, or ``angle`` itself.

    Parameters
    ----------
    angle : [rad].
    rounding : half a unit of the last digit written [rad].
    """
    right = _nearest(angle)
    if not 0.0 < abs(right) <= LARGEST_ANGLE or rounding > COARSEST:
        return angle
    # Less is a residue, which goes with the residues of sines and cosines.
    return right if AS_READ < abs(right - angle) <= rounding else angle


def right_position(position: float) -> float:
    """The same for a position that came without text [rad]: its digits are the fewest that give
    this float.
    """
    return right_angle(position, half_unit(repr(position)))


@dataclass(frozen=True, kw_only=True)
class RoundedAngles:
    """The rounded right angles of a robot.

    Members
    -------
    exact : the robot with right angles in their place.
    angles : each one's place, and the angle as it is written [rad].
    """

    exact: Urdf
    angles: tuple[tuple[str, float], ...]

    @property
    def places(self) -> frozenset[str]:
        """Where they are."""
        return frozenset(where for where, _ in self.angles)

    def notes(self, snapped: bool) -> list[str]:
        """One sentence, or none: whether ``exact`` was taken, and what that changes."""
        if not self.angles:
            return []
        count, plural = len(self.angles), "s" if len(self.angles) > 1 else ""
        written = sorted({abs(angle) for _, angle in self.angles})
        shown = ", ".join(f"{angle:.15g}" for angle in written[:_NAMED])
        shown += ", ..." if len(written) > _NAMED else ""
        change, where = max((abs(_nearest(angle) - angle), where) for where, angle in self.angles)
        if snapped:
            return [
                f"Took {count} rounded angle{plural} ({shown} rad) for right angles, within half a "
                f"unit of the last digit written; the largest change, {change:.3g} rad, was in "
                f"{where}."
            ]
        return [
            f"Kept {count} rounded angle{plural} ({shown} rad) as written, up to {change:.3g} rad "
            f"away from right ones, in {where}; snap=True takes them for right angles."
        ]


def rounded_angles(urdf: Urdf) -> RoundedAngles:
    """Find the right angles that the digits of a file stand for.

    Origins of joints and axes of inertials are looked at; nothing else of a file is an angle of the
    robot's structure.
    """
    found: list[tuple[str, float]] = []

    def exact(rpy: Vec3, rounding: Vec3, where: str) -> Vec3:
        right = tuple(map(right_angle, rpy, rounding))
        found.extend((where, old) for old, new in zip(rpy, right, strict=True) if new != old)
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
    return RoundedAngles(exact=replace(urdf, links=links, joints=joints), angles=tuple(found))


def _nearest(angle: float) -> float:
    return round(angle / _RIGHT) * _RIGHT
