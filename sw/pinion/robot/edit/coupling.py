"""Coupling of mimic joints: a robot in the coordinates of its independent joints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pinion.robot.errors import RobotError
from pinion.robot.model import Body, Model


@dataclass(frozen=True, kw_only=True)
class Tie:
    """Coupling of a joint to an independent one: ``q = ratio * q[leader] + offset``.

    Members
    -------
    leader : number of the body with the independent joint, the body itself if it has it.
    ratio : [rad/rad | m/rad | ...], 1 for an independent joint.
    offset : [rad | m], 0 for an independent joint.
    """

    leader: int
    ratio: float = 1.0
    offset: float = 0.0


def ties(model: Model) -> tuple[Tie, ...]:
    """Return the tie of each body's joint to an independent one, through any chain of mimics.

    Errors
    ------
    RobotError : a joint mimics an unknown one, one that follows it in turn, or one with several
        positions.
    """
    numbers = {body.joint.name: k for k, body in enumerate(model.bodies)}
    return tuple(_tie(model.name, model.bodies, numbers, k) for k in range(len(model.bodies)))


def coupled(model: Model) -> Model:
    """Return the robot with every mimic joint tied to its leader, the form that all functions use.

    ``nq`` and ``nv`` count the independent joints; bodies, frames and their order are unchanged. A
    robot without mimic joints, or one that is already coupled, is returned unchanged.

    Errors
    ------
    RobotError : as from :func:`ties`.
    """
    if model.coupled or all(body.joint.mimic is None for body in model.bodies):
        return model
    ties(model)  # raises the errors
    return replace(model, coupled=True)


def uncoupled(model: Model) -> Model:
    """Return the robot with every joint independent, mimic joints included."""
    return replace(model, coupled=False) if model.coupled else model


def _tie(robot: str, bodies: Sequence[Body], numbers: dict[str, int], follower: int) -> Tie:
    ratio, offset = 1.0, 0.0
    followers: list[str] = []
    k = follower
    while (mimic := bodies[k].joint.mimic) is not None or followers:
        joint = bodies[k].joint
        if joint.kind.nq != 1:
            raise RobotError(
                f"The joint {joint.name!r} of {robot!r} is {joint.kind.value} and part of a "
                "mimic coupling: only joints with one position can follow or lead."
            )
        if mimic is None:
            break
        if joint.name in followers:
            loop = followers[followers.index(joint.name) :]
            circle = " -> ".join(map(repr, [*loop, joint.name]))
            raise RobotError(
                f"The mimic joints {circle} of {robot!r} form a cycle; make one of them "
                "independent."
            )
        followers.append(joint.name)
        offset += ratio * mimic.offset
        ratio *= mimic.multiplier
        if mimic.joint not in numbers:
            raise RobotError(
                f"The joint {joint.name!r} of {robot!r} mimics {mimic.joint!r}, which "
                "is not a moving joint; name one that moves."
            )
        k = numbers[mimic.joint]
    return Tie(leader=k, ratio=ratio, offset=offset)
