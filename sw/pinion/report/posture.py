"""How a robot stands in its drawing: bent, since at zero the joints of many an arm are in line."""

from __future__ import annotations

import math

from pinion.robot import Model
from pinion.robot.model import Joint, JointKind

BENDS = (0.5, 0.7, 0.6, -0.9, 0.6, 0.8, 0.5)
"""Angles [rad] of the joints on the way from the base to a tip, again and again."""

BRANCHED = 0.4
"""The share of the angles that a robot with several limbs bends by: they lie apart at zero, and
bent further they would lie across each other."""

SHIFT = 0.15
"""How far a joint without limits slides [m]."""

_WITHIN = 0.1  # of a range, kept off its ends


def posture(robot: Model) -> list[float]:
    """Positions [rad | m] of the joints in a drawing, inside of their limits.

    Joints of several coordinates are at their neutral position, and so are helical ones.
    """
    branched = len(set(robot.parents)) < len(robot.parents)
    share = BRANCHED if branched else 1.0
    depth: list[int] = []
    angles = []
    for body in robot.bodies:
        turns = body.joint.kind is JointKind.REVOLUTE
        before = depth[body.parent] if body.parent >= 0 else 0
        depth.append(before + turns)
        angles.append(_position(body.joint, share * BENDS[before % len(BENDS)]))
    return angles


def shown(joint: Joint, position: float) -> str:
    """A position in words."""
    if joint.kind is JointKind.REVOLUTE:
        return f"{math.degrees(position):.0f} degrees"
    return f"{position:.2f} m" if joint.kind is JointKind.PRISMATIC else "neutral"


def _position(joint: Joint, bend: float) -> float:
    bounded = math.isfinite(joint.lower) and math.isfinite(joint.upper)
    room = joint.upper - joint.lower if bounded else 0.0
    low, high = joint.lower + _WITHIN * room, joint.upper - _WITHIN * room
    if joint.kind is JointKind.PRISMATIC:
        target = joint.lower + 0.6 * room if bounded else SHIFT
    elif joint.kind is JointKind.REVOLUTE:
        # Knees and elbows bend one way only.
        target = -bend if low <= -bend <= high and not low <= bend <= high else bend
    else:
        return 0.0
    return min(max(target, low), high)
