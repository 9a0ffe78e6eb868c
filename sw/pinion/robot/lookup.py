"""Lookup of links and joints by name, and removal of notes on joints that are gone."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from .errors import RobotError
from .model import Frame, Model
from .rotation import IDENTITY_TRANSFORM, NEARLY_RIGHT

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
        return f"perhaps {' or '.join(map(repr, near))} is meant"
    listed = ", ".join(map(repr, candidates[:_SHOWN])) + (
        ", ..." if len(candidates) > _SHOWN else ""
    )
    return f"use one of {listed}" if listed else "there is no other"


def find_link(model: Model, link: str, *, moving: bool = False) -> Frame:
    """Return the frame of a link, or its body's frame if the model lists none.

    Parameters
    ----------
    moving : whether the error suggests moving links only.

    Errors
    ------
    RobotError : no such link; the message names the nearest ones.
    """
    for frame in model.frames:
        if frame.name == link:
            return frame
    for number, body in enumerate(model.bodies):
        if body.name == link:  # models built by hand may list no frames
            return Frame(name=link, body=number, placement=IDENTITY_TRANSFORM)
    names = {frame.name: None for frame in model.frames if frame.body >= 0 or not moving}
    names |= {body.name: None for body in model.bodies}
    raise unknown("moving link" if moving else "link", link, names, model.name)


def notes_without(notes: Iterable[str], joints: Collection[str]) -> tuple[str, ...]:
    """Return the notes without those on one of ``joints`` alone."""
    starts = tuple(f"Joint {name!r} " for name in joints)
    ends = tuple(f" of joint {name!r} into +z." for name in joints)
    return tuple(note for note in notes if not note.startswith(starts) and not note.endswith(ends))


def opportunity(model: Model) -> str | None:
    """Return the note on nearly right angles that were kept, None if there is none."""
    return next((note for note in model.notes if note.startswith(NEARLY_RIGHT)), None)
