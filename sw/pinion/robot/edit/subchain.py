"""Reduction of a robot to the chain of joints from its base to one link."""

from __future__ import annotations

import math
from dataclasses import replace

from pinion.robot.contacts import without_open_loops
from pinion.robot.errors import RobotError
from pinion.robot.faults import check_joints
from pinion.robot.lookup import find_link, notes_without
from pinion.robot.model import Model

from .coupling import uncoupled

_SHOWN = 12
"""Largest number of links in a message."""


def tip(model: Model, link: str) -> Model:
    """Return the robot reduced to the chain of bodies from the base to ``link``.

    The last body is the one that carries the link, with all the links fixed to it; the link becomes
    the tip (:func:`tip_of`). The inertia of other branches, and of bodies behind the link, no
    longer loads the joints; a note states its mass.

    Errors
    ------
    RobotError : an unknown link (the message names the nearest ones), one of the fixed base, or a
        joint that moves no inertia without the removed bodies.
    """
    return check_joints(cut_down(model, link), before=model)


def tips_of(model: Model) -> tuple[str, ...]:
    """Return the candidates for the tip: moving links without children.

    There is one if the robot was cut down to a link or does not branch, several in other trees, and
    none without a robot.
    """
    numbers = {body.name: k for k, body in enumerate(model.bodies)}
    numbers |= {frame.name: frame.body for frame in model.frames}
    # Leaves of locked or fixed branches do not move.
    leaves = [name for name in model.tips if numbers.get(name, -1) >= 0]
    if not leaves:
        ends = set(range(len(model.bodies))) - set(model.parents)
        last = (model.bodies[k] for k in sorted(ends))
        leaves = [link for body in last for link in body.links or (body.name,)]
    return tuple(leaves)


def tip_of(model: Model) -> str:
    """Return the link at the end of the robot: the one it was cut down to, or its only leaf.

    Errors
    ------
    RobotError : there are several candidates, which the message lists, or none.
    """
    leaves = tips_of(model)
    if not leaves:
        raise RobotError(f"The robot {model.name!r} has no tip: name a robot with joints.")
    if len(leaves) != 1:
        listed = ", ".join(map(repr, leaves[:_SHOWN])) + (", ..." if len(leaves) > _SHOWN else "")
        raise RobotError(
            f"The robot {model.name!r} has several tips, {listed}: choose a link, such as "
            f"tip={leaves[0]!r} (--tip), which keeps the chain from the base to it, or, for a "
            f"function that takes frames of the whole robot, frames={leaves[0]!r} (--frames)."
        )
    return leaves[0]


def cut_down(model: Model, link: str) -> Model:
    """Cut a robot down as :func:`tip` does, without checking the remaining joints."""
    last = find_link(model, link, moving=True).body
    if last < 0:
        raise RobotError(
            f"The link {link!r} is part of the fixed base, so no moving joint leads to it; "
            "name a link that moves."
        )
    chain: list[int] = []
    while last >= 0:
        chain.append(last)
        last = model.bodies[last].parent
    chain.reverse()
    numbers = {old: new for new, old in enumerate(chain)}
    cut = [body for k, body in enumerate(model.bodies) if k not in numbers]
    if not cut:
        return model if model.tips == (link,) else replace(model, tips=(link,))
    kept_joints = {model.bodies[k].joint.name for k in chain}
    notes = list(notes_without(model.notes, {body.joint.name for body in cut}))
    bodies = []
    for new, old in enumerate(chain):
        body = model.bodies[old]
        mimic = body.joint.mimic
        if mimic is not None and mimic.joint not in kept_joints:
            notes.append(
                f"Joint {body.joint.name!r} no longer mimics {mimic.joint!r}, which was cut off."
            )
            body = replace(body, joint=replace(body.joint, mimic=None))
        bodies.append(replace(body, parent=new - 1))
    places = uncoupled(model).v_slices
    frames = tuple(
        replace(frame, body=numbers.get(frame.body, -1))
        for frame in model.frames
        if frame.body < 0 or frame.body in numbers
    )
    links = {frame.name for frame in frames}
    mass = math.fsum(body.inertia.mass for body in cut)
    plural = "ies" if len(cut) > 1 else "y"
    notes.append(
        f"Cut the robot down to the chain from the base to {link!r}: dropped {len(cut)} "
        f"bod{plural} with a mass of {mass:.6g} kg ({', '.join(repr(body.name) for body in cut)})."
    )
    chain_model = replace(
        model,
        bodies=tuple(bodies),
        frames=frames,
        notes=tuple(notes),
        rated_velocity=tuple(rate for k in chain for rate in model.rated_velocity[places[k]]),
        tips=(link,),
        fixed_joints=tuple(pair for pair in model.fixed_joints if pair[1] in links),
    )
    return without_open_loops(chain_model)
