"""The posture in which a robot is drawn: bent, since many arms are straight at zero."""

from __future__ import annotations

import math

from pinion.robot import Joint, JointKind, Model

BENDS = (0.5, 0.7, 0.6, -0.9, 0.6, 0.8, 0.5)
"""Angles [rad] of the joints from the base to a tip, repeated."""

BRANCHED = 0.4
"""Share of these angles for a robot with several limbs: these lie apart at zero, and would cross
each other if bent further."""

SHIFT = 0.15
"""Displacement of a prismatic joint without limits [m]."""

_WITHIN = 0.1  # share of a range that is kept free at its ends


def posture(robot: Model) -> list[float]:
    """Return the joint positions [rad | m] for drawing a robot, within its limits.

    Joints with several coordinates and helical joints are at their neutral position.
    """
    branched = len(set(robot.parents)) < len(robot.parents)
    share = BRANCHED if branched else 1.0
    depth: list[int] = []
    angles = []
    for body in robot.bodies:
        turns = body.joint.kind is JointKind.REVOLUTE
        parent_depth = depth[body.parent] if body.parent >= 0 else 0
        depth.append(parent_depth + turns)
        angles.append(_position(body.joint, share * BENDS[parent_depth % len(BENDS)]))
    return angles


def position_text(joint: Joint, position: float) -> str:
    """Return a joint's position as text, in degrees or metres."""
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
        # Knees and elbows bend only one way.
        target = -bend if low <= -bend <= high and not low <= bend <= high else bend
    else:
        return 0.0
    return min(max(target, low), high)
