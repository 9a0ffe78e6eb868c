"""A robot as a caller asks for it: by name, file or model, with joints held and cut to a chain."""

from __future__ import annotations

import os
from typing import TypedDict, Unpack

from pinion.robot.edit.locked import Lock

from .edit import locked, subchain
from .errors import RobotError
from .library import NO_ROBOT, load, with_gravity
from .model import Model, Vec3


class RobotOptions(TypedDict, total=False):
    """What may be asked of a robot, wherever one is named.

    Members
    -------
    lock : joints to hold still (`Lock`).
    tip : a link; only the chain from the base to it is kept.
    floating_base : put a free-flyer between the base and the root link.
    accept_inertia : keep inertias that no real body can have.
    snap : take rounded right angles, such as 1.5708, for the right angles they stand for.
    gravity : (3,) acceleration of gravity in place of the robot's, base coordinates [m/s^2].
    """

    lock: Lock
    tip: str | None
    floating_base: bool
    accept_inertia: bool
    snap: bool
    gravity: Vec3 | None


def asked_robot(
    robot: str | os.PathLike[str] | Model | None, **options: Unpack[RobotOptions]
) -> Model:
    """Load a robot with these options; a model that was loaded is locked and cut as it is.

    Parameters
    ----------
    robot : as of :func:`pinion.robot.load`, a model, or None for functions that need no robot.
    options : as of `RobotOptions`; what is left out is as :func:`pinion.robot.load` has it.

    Raises
    ------
    RobotError
        As from `load`, and where a model's file would have to be read again: for its base, its
        inertias or its angles.
    """
    held = options.get("lock", ())
    tip, gravity = options.get("tip"), options.get("gravity")
    if not isinstance(robot, Model):
        return load(
            NO_ROBOT.name if robot is None else robot,
            gravity=gravity,
            lock=held,
            tip=tip,
            floating_base=options.get("floating_base", False),
            accept_inertia=options.get("accept_inertia", False),
            snap=options.get("snap", False),
        )
    for name in ("floating_base", "accept_inertia"):
        if options.get(name):
            raise RobotError(
                f"The robot '{robot.name}' is given as a model that was loaded: give {name} to "
                "pinion.load, or name the robot or its file here."
            )
    robot = robot if gravity is None else with_gravity(robot, gravity)
    model = locked.lock(robot, held, snap=options.get("snap", False)) if held else robot
    return model if tip is None else subchain.tip(model, tip)
