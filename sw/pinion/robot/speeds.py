"""Rated joint speeds: those that a file states, and substitutes for missing ones."""

from __future__ import annotations

import math

from .edit.coupling import uncoupled
from .model import JointKind, Model

DEFAULT_RATED_VELOCITY = 1.0
"""Rated speed [rad/s | m/s] of a joint whose file gives no velocity limit."""

PLACEHOLDER_VELOCITY = 100.0
"""Larger limits are placeholders [rad/s | m/s]: no robot joint is as fast."""


def stated_velocity(limit: float | None) -> float | None:
    """Return a velocity limit [rad/s | m/s]; None if missing, zero, infinite or a placeholder."""
    if limit is None or not 0.0 < limit < PLACEHOLDER_VELOCITY:
        return None
    return limit


def rated_velocity(
    name: str, kind: JointKind, *, limit: float | None, rated: float | None, notes: list[str]
) -> float:
    """Return a joint's rated speed [rad/s | m/s], and add a note if it is a substitute.

    Parameters
    ----------
    name, kind : of the joint.
    limit : the file's velocity limit; None or infinite if it states none.
    rated : the rated speed that the file states, if any.
    """
    stated = stated_velocity(limit)
    speed = rated or stated or DEFAULT_RATED_VELOCITY
    if limit is not None and _placeholder(limit):
        notes.append(_replaced(name, kind, limit, speed))
    elif stated is None and rated is None:
        notes.append(
            f"Joint {name!r} gives no velocity limit: its rated speed is taken as {speed:g} "
            f"{_unit(kind)}."
        )
    return speed


def placeholder_sentences(model: Model) -> list[str]:
    """Return a sentence for each joint whose velocity limit is a placeholder."""
    sentences = []
    for body, place in zip(model.bodies, uncoupled(model).v_slices, strict=True):
        joint = body.joint
        if _placeholder(joint.velocity):
            speed = model.rated_velocity[place.start]
            sentences.append(_replaced(joint.name, joint.kind, joint.velocity, speed))
    return sentences


def _placeholder(limit: float) -> bool:
    return math.isfinite(limit) and limit >= PLACEHOLDER_VELOCITY


def _replaced(name: str, kind: JointKind, limit: float, speed: float) -> str:
    return (
        f"Joint {name!r} has a velocity limit of {limit:g} {_unit(kind)}, which is a placeholder: "
        f"{speed:g} {_unit(kind)} is taken in its place, in every distribution of states."
    )


def _unit(kind: JointKind) -> str:
    return kind.unit.replace("m, rad", "m/s and rad") + "/s"
