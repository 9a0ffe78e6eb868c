"""Checks of the names of robots, links and joints from any file or library."""

from __future__ import annotations

from pinion.base.escaping import control_in

from .errors import RobotError
from .model import Model

LONGEST = 200
"""Maximum length of a name: it becomes part of file names, which have at most 255 bytes."""


def visible(name: str, kind: str) -> str:
    """Return the name unchanged; raise if it cannot be shown on one line.

    Errors
    ------
    RobotError : a control character, a line separator or an invisible formatting character, such
        as those that reverse the direction of writing; or too many characters.
    """
    if character := control_in(name):
        raise RobotError(
            f"The {kind} name {name[:LONGEST]!a} contains the control character {character!a}; "
            "use visible characters."
        )
    if len(name) > LONGEST:
        raise RobotError(
            f"The {kind} name {name[:40]!a}... has {len(name)} characters; use at most {LONGEST}."
        )
    return name


def check_names(model: Model) -> Model:
    """Return the model unchanged; raise if a name in it cannot be shown on one line.

    Errors
    ------
    RobotError : as from `visible`.
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
    for joint, _ in model.fixed_joints:
        visible(joint, "joint")
    return model
