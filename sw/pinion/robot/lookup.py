"""Lookup of links, frames and joints by name, and removal of notes on joints that are gone."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import replace
from difflib import get_close_matches

from .errors import RobotError
from .model import Frame, Model, Transform, vec3
from .rotation import IDENTITY_TRANSFORM, NEARLY_RIGHT, add, rotate, transpose

_SHOWN = 8
"""Largest number of names in a message."""


def unknown(kind: str, name: str, names: Iterable[str], robot: str) -> RobotError:
    """Return the error for an unknown name, with the nearest names or the first few."""
    return RobotError(
        f"There is no {kind} {name!r} in the robot {robot!r}; {nearest(name, names)}."
    )


def nearest(name: str, names: Iterable[str]) -> str:
    """Return advice for an unknown name: the nearest names or the first few."""
    candidates = list(names)
    near = get_close_matches(str(name), candidates, n=3, cutoff=0.6)
    if near:
        return f"the nearest {'are' if near[1:] else 'is'} {', '.join(map(repr, near))}"
    listed = ", ".join(map(repr, candidates[:_SHOWN])) + (
        ", ..." if len(candidates) > _SHOWN else ""
    )
    return f"use one of {listed}" if listed else "there are none to choose from"


def find_link(model: Model, link: str, *, moving: bool = False) -> Frame:
    """Return the frame of a link, or its body's frame if the model lists none.

    Parameters
    ----------
    moving : whether the error suggests moving links only.

    Errors
    ------
    RobotError : no such link; the message names the nearest ones.
    """
    frame = _frame_of_link(model, link)
    if frame is None:
        kind = "moving link" if moving else "link"
        raise unknown(kind, link, _links(model, moving=moving), model.name)
    return frame


def find_frame(model: Model, name: str) -> Frame:
    """Return a frame by its name: a link, a fixed joint, or one of them with an offset.

    Parameters
    ----------
    name : a link, such as ``link_7``; otherwise a fixed joint, whose frame is that of the link
        behind it; otherwise either of them, followed by the frame's origin in its axes [m], as in
        ``link_7@0,0,0.1``.

    Errors
    ------
    RobotError : no such link or joint, with the nearest names, or an offset that is not three
        finite numbers.
    """
    joints = dict(model.fixed_joints)
    for link in (name, joints.get(name)):
        if link is not None and (frame := _frame_of_link(model, link)) is not None:
            return replace(frame, name=name)
    outer, at, text = name.rpartition("@")
    if not at:
        kind = "link or fixed joint" if joints else "link"
        raise unknown(kind, name, [*_links(model), *joints], model.name)
    frame = find_frame(model, outer)
    try:
        offset = vec3(text.split(","))
    except ValueError:
        offset = (math.nan,) * 3
    if not all(map(math.isfinite, offset)):
        raise RobotError(
            f"The frame {name!r} of the robot {model.name!r} has the invalid offset {text!r}: give "
            f"three finite numbers in metres, such as {outer}@0,0,0.1."
        )
    place = frame.placement
    origin = add(place.r, rotate(transpose(place.E), offset))
    return Frame(name=name, body=frame.body, placement=Transform(E=place.E, r=origin))


def _frame_of_link(model: Model, link: str) -> Frame | None:
    for frame in model.frames:
        if frame.name == link:
            return frame
    for number, body in enumerate(model.bodies):
        if body.name == link:  # models built by hand may list no frames
            return Frame(name=link, body=number, placement=IDENTITY_TRANSFORM)
    return None


def _links(model: Model, *, moving: bool = False) -> list[str]:
    names = {frame.name: None for frame in model.frames if frame.body >= 0 or not moving}
    return list(names | {body.name: None for body in model.bodies})


def notes_without(notes: Iterable[str], joints: Collection[str]) -> tuple[str, ...]:
    """Return the notes, except those about a single joint that is one of ``joints``."""
    starts = tuple(f"Joint {name!r} " for name in joints)
    ends = tuple(f" of joint {name!r} into +z." for name in joints)
    return tuple(note for note in notes if not note.startswith(starts) and not note.endswith(ends))


def opportunity(model: Model) -> str | None:
    """Return the note on nearly right angles that were not snapped, None if there is none."""
    return next((note for note in model.notes if note.startswith(NEARLY_RIGHT)), None)
