"""Contacts of a robot with the world, and between its links: each fixes a point or a face.

A contact is a frame of a moving body: a link, a fixed joint, or either with an offset, as
:func:`.lookup.find_frame` reads it. ``lf_foot`` or ``lf_foot:3d`` holds the frame's origin,
``lf_foot:6d`` its axes as well. In a loop, a frame is held by a frame of another body.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .errors import RobotError
from .lookup import find_frame
from .model import Frame, Model, Transform

_SIZES = {"3d": 3, "6d": 6}


@dataclass(frozen=True, kw_only=True)
class Contact:
    """A contact of a body with the world, or with another body.

    Members
    -------
    name : its frame, as for :func:`.lookup.find_frame`.
    body : the body's number.
    placement : the contact's frame in the body.
    size : 3 for a point, whose origin is held, 6 for a face, whose axes are held as well.
    partner : the frame of another body that holds it, in a loop; None for the world.
    """

    name: str
    body: int
    placement: Transform
    size: int
    partner: Frame | None = None


def with_contacts(model: Model, contacts: Sequence[str]) -> Model:
    """Return the robot with these contacts, in this order, in place of any it has.

    Parameters
    ----------
    contacts : frames of moving bodies, each followed by ``:3d`` (the default) or ``:6d``.

    Errors
    ------
    RobotError : a frame that does not exist or is fixed to the base, or one that is named twice.
    """
    argument: Any = contacts
    listed = isinstance(argument, Sequence) and not isinstance(argument, str)
    if not listed or not all(isinstance(text, str) for text in argument):
        raise RobotError(
            f"The contacts cannot be {contacts!r:.60}: give a sequence of strings, such as "
            '("left_foot", "right_foot:6d").'
        )
    changed = replace(model, contacts=tuple(map(_whole, contacts)))
    names = [contact.name for contact in contacts_of(changed)]
    for name in names:
        if names.count(name) > 1:
            raise RobotError(
                f"The contact {name!r} of the robot {model.name!r} is repeated: name it once."
            )
    return changed


def with_loops(model: Model, loops: Sequence[Sequence[str]]) -> Model:
    """Return the robot with these loops, in this order, in place of any it has.

    Parameters
    ----------
    loops : for each loop two frames of different bodies, one of which may be fixed to the base, and
        ``3d`` if their origins coincide, as in a joint that turns freely, or ``6d`` if their axes
        do so as well; without a kind it is ``3d``.

    Errors
    ------
    RobotError : a frame that does not exist, or two frames of one body.
    """
    argument: Any = loops
    if not isinstance(argument, Sequence) or not all(map(_is_loop, argument)):
        raise RobotError(
            f"The loops cannot be {loops!r:.80}: give two frames and a kind, 3d or 6d, for each "
            'loop, such as (("coupler@0.3,0,0", "rocker@0.2,0,0", "3d"),).'
        )
    complete = tuple(
        (str(first), str(second), kind or "3d")
        for first, second, kind in ((*loop, "")[:3] for loop in loops)
    )
    changed = replace(model, loops=complete)
    contacts_of(changed)
    for loop in complete:
        if complete.count(loop) > 1:
            raise RobotError(
                f"The loop of {loop[0]!r} and {loop[1]!r} of the robot {model.name!r} is "
                "repeated: give it once."
            )
    return changed


def without_open_loops(model: Model) -> Model:
    """Return the robot without loops that do not connect two bodies, with a note on each.

    An edit opens a loop if it cuts off one of the frames, or leaves both on one body.
    """
    left, notes = [], []
    for loop in model.loops:
        try:
            loops_of(replace(model, loops=(loop,)))
        except RobotError:
            notes.append(
                f"The loop of {loop[0]!r} and {loop[1]!r} was left out: its frames do not belong "
                "to two bodies of the robot."
            )
        else:
            left.append(loop)
    return replace(model, loops=tuple(left), notes=(*model.notes, *notes)) if notes else model


def _is_loop(loop: Any) -> bool:
    texts = isinstance(loop, Sequence) and all(isinstance(text, str) for text in loop)
    return (
        texts
        and not isinstance(loop, str)
        and (len(loop) == 2 or (len(loop) == 3 and loop[2] in _SIZES))
    )


def loops_of(model: Model) -> tuple[Contact, ...]:
    """Return a robot's loops in their order, each as a contact of its first frame.

    Errors
    ------
    RobotError : a frame does not exist, such as after its branch was cut off, or both are of one
        body, such as after a joint between them was locked.
    """
    loops = []
    for name, other, kind in model.loops:
        frame, partner = find_frame(model, name), find_frame(model, other)
        if frame.body == partner.body:
            where = "the base" if frame.body < 0 else f"the body {model.bodies[frame.body].name!r}"
            raise RobotError(
                f"The loop of {name!r} and {other!r} of the robot {model.name!r} does not connect "
                f"two bodies: both frames belong to {where}; name frames of two different "
                "bodies."
            )
        loops.append(
            Contact(
                name=name,
                body=frame.body,
                placement=frame.placement,
                size=_SIZES[kind],
                partner=partner,
            )
        )
    return tuple(loops)


def contacts_of(model: Model) -> tuple[Contact, ...]:
    """Return a robot's contacts in their order, and then its loops.

    Errors
    ------
    RobotError : a contact's frame does not exist, such as after its branch was cut off, or is
        fixed to the base; as from :func:`loops_of`.
    """
    contacts = []
    for text in model.contacts:
        name, _, kind = text.rpartition(":")
        if wrong := re.fullmatch(r"(.+):(\d+[dD])", name):
            raise RobotError(
                f"The contact {name!r} of the robot {model.name!r} has the unknown kind "
                f"{wrong[2]!r}: write {wrong[1]}:3d for a point or {wrong[1]}:6d for a face."
            )
        frame = find_frame(model, name)
        if frame.body < 0:
            raise RobotError(
                f"The contact {name!r} of the robot {model.name!r} is fixed to the base, which "
                "never moves: name a link that moves, or load the robot with floating_base=True "
                "(--floating-base)."
            )
        contacts.append(
            Contact(name=name, body=frame.body, placement=frame.placement, size=_SIZES[kind])
        )
    return (*contacts, *loops_of(model))


def _whole(text: str) -> str:
    """Return a contact's string with its kind, ``:3d`` if it states none."""
    _, colon, kind = text.rpartition(":")
    return text if colon and kind in _SIZES else f"{text}:3d"
