"""Joints that mimic others, coupled to them: a robot in the coordinates of its free joints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pinion.robot.errors import RobotError
from pinion.robot.model import Body, Model


@dataclass(frozen=True, kw_only=True)
class Tie:
    """Which free joint moves a joint: ``q = ratio * q[leader] + offset``.

    Members
    -------
    leader : number of the body whose joint is free; the body's own where its joint is.
    ratio : [rad/rad | m/rad | ...], 1 for a free joint.
    offset : [rad | m], 0 for a free joint.
    """

    leader: int
    ratio: float = 1.0
    offset: float = 0.0


def ties(model: Model) -> tuple[Tie, ...]:
    """The tie of each body's joint; a joint may follow one that follows another.

    Errors
    ------
    RobotError : a joint mimics one that is not there, that follows it in turn, or that has several
        positions.
    """
    numbers = {body.joint.name: k for k, body in enumerate(model.bodies)}
    return tuple(_tie(model.name, model.bodies, numbers, k) for k in range(len(model.bodies)))


def coupled(model: Model) -> Model:
    """The robot with every joint that mimics another tied to it, as all functions compute it.

    ``nq`` and ``nv`` count the free joints; bodies, frames and their order stay. A robot without
    such joints, or one that is coupled already, is returned as it is.

    Errors
    ------
    RobotError : as :func:`ties`.
    """
    if model.coupled or all(body.joint.mimic is None for body in model.bodies):
        return model
    ties(model)  # names what is wrong
    return replace(model, coupled=True)


def uncoupled(model: Model) -> Model:
    """The robot with every joint, those that mimic others too, as one of its own."""
    return replace(model, coupled=False) if model.coupled else model


def _tie(robot: str, bodies: Sequence[Body], numbers: dict[str, int], follower: int) -> Tie:
    ratio, offset = 1.0, 0.0
    seen: list[str] = []
    k = follower
    while (mimic := bodies[k].joint.mimic) is not None or seen:
        joint = bodies[k].joint
        if joint.kind.nq != 1:
            raise RobotError(
                f"The joint {joint.name!r} of {robot!r} is {joint.kind.value} and part of a "
                "mimic: only joints of one position can follow or lead."
            )
        if mimic is None:
            break
        if joint.name in seen:
            shown = " -> ".join(map(repr, [*seen, joint.name]))
            raise RobotError(f"The mimics {shown} of {robot!r} form a circle; open it.")
        seen.append(joint.name)
        offset += ratio * mimic.offset
        ratio *= mimic.multiplier
        if mimic.joint not in numbers:
            raise RobotError(
                f"The joint {joint.name!r} of {robot!r} mimics {mimic.joint!r}, which "
                "does not move: there is no such joint."
            )
        k = numbers[mimic.joint]
    return Tie(leader=k, ratio=ratio, offset=offset)
