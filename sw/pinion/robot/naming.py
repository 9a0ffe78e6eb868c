"""What may be a name: of a robot, of its links and joints, from any file or library."""

from __future__ import annotations

from pinion.base.escaping import control_in

from .errors import RobotError
from .model import Model

LONGEST = 200
"""Characters of a name. It becomes a part of names of files, which have 255 bytes."""


def visible(name: str, what: str) -> str:
    """The name as it is, if it can be shown on one line as it is.

    Errors
    ------
    RobotError : a control character, a line separator or an invisible formatting character, such
        as those that turn the direction of writing; or more characters than a name has.
    """
    if character := control_in(name):
        raise RobotError(
            f"The {what} name {name[:LONGEST]!a} holds the control character {character!a}; "
            "use characters that can be seen."
        )
    if len(name) > LONGEST:
        raise RobotError(
            f"The {what} name {name[:40]!a}... has {len(name)} characters; use at most {LONGEST}."
        )
    return name


def check_names(model: Model) -> Model:
    """The model, if every name in it can be shown.

    Errors
    ------
    RobotError : as of `visible`.
    """
    visible(model.name, "robot")
    for body in model.bodies:
        visible(body.joint.name, "joint")
        for link in (body.name, *body.links):
            visible(link, "link")
    for link in model.base_links:
        visible(link, "link")
    for frame in model.frames:
        visible(frame.name, "frame")
    return model
