"""Finds links and joints of a model by name, and keeps the model's notes true when joints go."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from .errors import RobotError
from .model import Frame, Model
from .rotation import IDENTITY_TRANSFORM, NEARLY_RIGHT

_SHOWN = 8
"""Names that a message lists at most."""


def unknown(what: str, name: str, names: Iterable[str], robot: str) -> RobotError:
    """The error for a name that is not there, with the nearest names or the first few."""
    return RobotError(
        f"There is no {what} {name!r} in the robot {robot!r}; {nearest(name, names)}."
    )


def nearest(name: str, names: Iterable[str]) -> str:
    """What to write in place of a name that is not there: the nearest names or the first few."""
    known = list(names)
    near = get_close_matches(name, known, n=3, cutoff=0.6)
    if near:
        return f"perhaps {' or '.join(map(repr, near))} is meant"
    listed = ", ".join(map(repr, known[:_SHOWN])) + (", ..." if len(known) > _SHOWN else "")
    return f"use one of {listed}" if listed else "there is no other"


def find_link(model: Model, link: str, *, moving: bool = False) -> Frame:
    """The frame of a link; of a moving link without one, its body's frame.

    Parameters
    ----------
    moving : where there is no such link, offer none of the fixed base in its place.

    Errors
    ------
    RobotError : no such link; the message names the nearest ones.
    """
    for frame in model.frames:
        if frame.name == link:
            return frame
    for number, body in enumerate(model.bodies):
        if body.name == link:  # models that were put together by hand may list no frames
            return Frame(name=link, body=number, placement=IDENTITY_TRANSFORM)
    names = {frame.name: None for frame in model.frames if frame.body >= 0 or not moving}
    names |= {body.name: None for body in model.bodies}
    raise unknown("moving link" if moving else "link", link, names, model.name)


def notes_without(notes: Iterable[str], joints: Collection[str]) -> tuple[str, ...]:
    """The notes, less those that speak of one of ``joints`` alone."""
    starts = tuple(f"Joint {name!r} " for name in joints)
    ends = tuple(f" of joint {name!r} into +z." for name in joints)
    return tuple(note for note in notes if not note.startswith(starts) and not note.endswith(ends))


def opportunity(model: Model) -> str | None:
    """The note on structure that is nearly right-angled and was kept, None where there is none."""
    return next((note for note in model.notes if note.startswith(NEARLY_RIGHT)), None)
