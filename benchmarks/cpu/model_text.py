"""Robots as text for `pinocchio_model.hpp`: one joint per line, without rounding residues."""

from __future__ import annotations

import hashlib

from pinion.robot import Body, JointKind, Model
from pinion.robot.inertia import INERTIA_TOLERANCE, about_com, com


def model_text(model: Model) -> str:
    """Return the text of a model: number of joints and gravity, then a line per joint.

    A line has the joint's name and kind, its parent (0 for the base, k for the joint of line k),
    the rotation (9, row by row, child to parent) and origin (3) of its frame [m], then mass [kg],
    centre of mass (3) [m] and inertia about it (xx, xy, xz, yy, yz, zz) [kg m^2]. Numbers read back
    as the same floats. The model's rotations have no residues; those of moving an inertia to the
    centre of mass are set to 0 by the model's tolerance, or the traced graph would multiply by
    numbers such as 6e-17.

    Errors
    ------
    ValueError : for a joint that is not revolute or prismatic, for rotor inertia, or for subtrees
        whose joints are not consecutive, for which Pinocchio's algorithms are wrong.
    """
    for number, body in enumerate(model.bodies):
        joint = body.joint
        if joint.kind not in (JointKind.REVOLUTE, JointKind.PRISMATIC) or joint.armature:
            raise ValueError(
                f"The joint {joint.name!r} of {model.name!r} is {joint.kind.value} with a rotor "
                f"inertia of {joint.armature!r}: the opponents support only revolute and "
                "prismatic joints without rotor inertia."
            )
        last = number - 1
        while last not in (body.parent, -1):
            last = model.parents[last]
        if last != body.parent:
            raise ValueError(
                f"The joint {joint.name!r} of {model.name!r} is not next to its parent's "
                "subtree: number the joints depth first."
            )
    gravity = " ".join(map(repr, model.gravity))
    return "\n".join([f"{len(model.bodies)} {gravity}", *map(_line, model.bodies)]) + "\n"


def model_digest(text: str) -> str:
    """Return the SHA-256 of a model's text, with numbers rounded to 12 digits.

    It is the same for a robot whatever the order in which its inertias were summed.
    """
    words = (word for line in text.splitlines() for word in (*line.split(" "), "\n"))
    return hashlib.sha256(" ".join(map(_to_twelve, words)).encode()).hexdigest()


def _to_twelve(word: str) -> str:
    try:
        return f"{float(word):.12g}"
    except ValueError:
        return word


def _line(body: Body) -> str:
    tree, inertia = body.joint.tree, body.inertia
    moments = about_com(inertia)
    limit = INERTIA_TOLERANCE * max(map(abs, moments))
    numbers = (
        *(tree.E[column][row] for row in range(3) for column in range(3)),
        *tree.r,
        inertia.mass,
        *com(inertia),
        *(0.0 if abs(value) <= limit else value for value in moments),
    )
    # Adding 0.0 turns a negative zero into zero.
    text = " ".join(repr(value + 0.0) for value in numbers)
    return f"{body.joint.name} {body.joint.kind.value} {body.parent + 1} {text}"
