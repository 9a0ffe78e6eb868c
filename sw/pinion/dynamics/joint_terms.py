"""What joints add to rigid-body dynamics, over any scalar: armature and viscous damping.

    tau = RNEA(q, qd, qdd) + armature qdd + damping qd

with the figures of :class:`pinion.robot.Joint`. :mod:`.general.terms` has Coulomb friction as well,
on arrays: its sign, or the tangent that stands for it, is no operation of a graph.
"""

from __future__ import annotations

from dataclasses import dataclass

from pinion.dynamics.checks import DynamicsError
from pinion.robot.model import Model


@dataclass(frozen=True, kw_only=True)
class JointTerms:
    """Figures for each velocity, (nv,) each: constants of the robot."""

    armature: tuple[float, ...]
    damping: tuple[float, ...]


def joint_terms_of(model: Model, wanted: bool) -> JointTerms:
    """Return the terms of a model's joints, or constant zeros where they are not wanted.

    Raises
    ------
    DynamicsError : they are wanted and a joint has dry friction.
    """
    joints = [body.joint for body in model.bodies for _ in range(body.joint.kind.nv)]
    if not wanted:
        nothing = (0.0,) * len(joints)
        return JointTerms(armature=nothing, damping=nothing)
    for joint in joints:
        if joint.friction != 0.0:
            raise DynamicsError(
                f"The joint {joint.name!r} of {model.name!r} has a dry friction of "
                f"{joint.friction:g}, whose sign depends on the rate and cannot be traced: set it "
                "to 0, or use the functions on arrays."
            )
    return JointTerms(
        armature=tuple(float(joint.armature) for joint in joints),
        damping=tuple(float(joint.damping) for joint in joints),
    )
