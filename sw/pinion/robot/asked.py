"""Loading of a robot by name, file or model, with the caller's options."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypedDict, Unpack

from .contacts import with_contacts, with_loops
from .edit import locked, subchain
from .edit.locked import Lock
from .errors import RobotError
from .library import NO_ROBOT, load, with_gravity
from .model import Model, Vec3


class RobotOptions(TypedDict, total=False):
    """Options for loading a robot, as `build`, `backend`, `batch` and others accept them.

    Members
    -------
    lock : joints to lock (`Lock`).
    tip : a link; only the chain from the base to it is kept.
    floating_base : put a free-flyer between the base and the root link.
    accept_inertia : keep inertias that no real body can have.
    snap : replace rounded right angles, such as 1.5708, by exact ones.
    gravity : (3,) acceleration of gravity in place of the robot's, base coordinates [m/s^2].
    contacts : frames that may be in contact with the world (:func:`.contacts.with_contacts`).
    loops : pairs of frames that close loops, each with its kind (:func:`.contacts.with_loops`).
    """

    lock: Lock
    tip: str | None
    floating_base: bool
    accept_inertia: bool
    snap: bool
    gravity: Vec3 | None
    contacts: Sequence[str]
    loops: Sequence[Sequence[str]]


def asked_robot(
    robot: str | os.PathLike[str] | Model | None, **options: Unpack[RobotOptions]
) -> Model:
    """Load a robot with options, or apply them to a model that is already loaded.

    Parameters
    ----------
    robot : as for :func:`pinion.robot.load`, a model, or None for functions that need no robot.
    options : `RobotOptions`; the defaults are those of :func:`pinion.robot.load`.

    Raises
    ------
    RobotError
        As from `load`, and if an option of a model (its base or its inertias) would require
        reading its file again.
    """
    locks = options.get("lock", ())
    tip, gravity = options.get("tip"), options.get("gravity")
    contacts, loops = options.get("contacts", ()), options.get("loops", ())
    if not isinstance(robot, Model):
        return load(
            NO_ROBOT.name if robot is None else robot,
            gravity=gravity,
            lock=locks,
            tip=tip,
            floating_base=options.get("floating_base", False),
            accept_inertia=options.get("accept_inertia", False),
            snap=options.get("snap", False),
            contacts=contacts,
            loops=loops,
        )
    for name in ("floating_base", "accept_inertia"):
        if options.get(name):
            raise RobotError(
                f"The robot '{robot.name}' is a model that is already loaded: pass {name} to "
                "pinion.robot.load, or give the robot's name or file here."
            )
    robot = robot if gravity is None else with_gravity(robot, gravity)
    model = locked.lock(robot, locks, snap=options.get("snap", False)) if locks else robot
    model = model if tip is None else subchain.tip(model, tip)
    model = with_contacts(model, contacts) if contacts else model
    return with_loops(model, loops) if loops else model
