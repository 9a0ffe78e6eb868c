"""Contacts of a robot with the world: points and faces of its bodies that the ground may hold.

A contact is a frame of a moving body: a link, a fixed joint, or either with an offset, as
:func:`.lookup.find_frame` reads it. ``lf_foot`` or ``lf_foot:3d`` holds the frame's origin,
``lf_foot:6d`` its axes as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .errors import RobotError
from .lookup import find_frame
from .model import Model, Transform

_SIZES = {"3d": 3, "6d": 6}


@dataclass(frozen=True, kw_only=True)
class Contact:
    """A contact of a body with the world.

    Members
    -------
    name : its frame, as for :func:`.lookup.find_frame`.
    body : the body's number.
    placement : the contact's frame in the body.
    size : 3 for a point, whose origin is held, 6 for a face, whose axes are held as well.
    """

    name: str
    body: int
    placement: Transform
    size: int


def with_contacts(model: Model, contacts: Sequence[str]) -> Model:
    """Return the robot with these contacts, in this order, in place of any it has.

    Parameters
    ----------
    contacts : frames of moving bodies, each with ``:3d`` (the default) or ``:6d`` behind it.

    Errors
    ------
    RobotError : a frame that does not exist or is fixed to the base, or one that is named twice.
    """
    argument: Any = contacts
    listed = isinstance(argument, Sequence) and not isinstance(argument, str)
    if not listed or not all(isinstance(text, str) for text in argument):
        raise RobotError(
            f"The contacts are {contacts!r:.60}: give a sequence of texts, such as "
            '("left_foot", "right_foot:6d").'
        )
    changed = replace(model, contacts=tuple(map(_whole, contacts)))
    names = [contact.name for contact in contacts_of(changed)]
    for name in names:
        if names.count(name) > 1:
            raise RobotError(
                f"The robot {model.name!r} is given the contact {name!r} twice: name each once."
            )
    return changed


def contacts_of(model: Model) -> tuple[Contact, ...]:
    """Return a robot's contacts in their order.

    Errors
    ------
    RobotError : a contact's frame does not exist, such as after its branch was cut off, or is
        fixed to the base.
    """
    contacts = []
    for text in model.contacts:
        name, _, kind = text.rpartition(":")
        if wrong := re.fullmatch(r"(.+):(\d+[dD])", name):
            raise RobotError(
                f"The contact {name!r} of the robot {model.name!r} is of the kind "
                f"{wrong[2]!r}: write {wrong[1]}:3d for a point or {wrong[1]}:6d for a face."
            )
        frame = find_frame(model, name)
        if frame.body < 0:
            raise RobotError(
                f"The contact {name!r} of the robot {model.name!r} is fixed to the base, which "
                "never moves: name a link that moves, or load the robot with floating_base=True."
            )
        contacts.append(
            Contact(name=name, body=frame.body, placement=frame.placement, size=_SIZES[kind])
        )
    return tuple(contacts)


def _whole(text: str) -> str:
    """Return a contact's text with its kind."""
    _, colon, kind = text.rpartition(":")
    return text if colon and kind in _SIZES else f"{text}:3d"
