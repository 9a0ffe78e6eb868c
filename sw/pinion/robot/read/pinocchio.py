"""Conversion of a caller's Pinocchio model; Pinocchio itself is never imported here."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from pinion.robot.errors import RobotError
from pinion.robot.faults import Draft
from pinion.robot.model import JointKind, Mat3, Model, Vec3, vec3

from .imported import ImportedFrame, ImportedInertial, ImportedJoint, Pose, assemble
from .urdf import LARGEST

_SUPPORTED = re.compile(
    r"JointModel(?:(?P<what>R|P|H|RUB|Revolute|Prismatic|Helical|RevoluteUnbounded)"
    r"(?P<axis>X|Y|Z|Unaligned)|(?P<whole>FreeFlyer|Spherical|Planar))"
)

_KINDS: Mapping[str, JointKind] = MappingProxyType(
    {
        **dict.fromkeys(("R", "RUB", "Revolute", "RevoluteUnbounded"), JointKind.REVOLUTE),
        **dict.fromkeys(("P", "Prismatic"), JointKind.PRISMATIC),
        **dict.fromkeys(("H", "Helical"), JointKind.HELICAL),
        "FreeFlyer": JointKind.FREE_FLYER,
        "Spherical": JointKind.SPHERICAL,
        "Planar": JointKind.PLANAR,
    }
)


def is_pinocchio(candidate: object) -> bool:
    """Return whether ``candidate`` looks like a Pinocchio model."""
    needed = ("njoints", "joints", "names", "parents", "jointPlacements", "inertias", "frames")
    return all(hasattr(candidate, name) for name in needed)


def from_pinocchio(pin_model: Any, *, gravity: Vec3 | None = None, snap: bool = False) -> Model:
    """Convert a Pinocchio model, with the bodies in Pinocchio's order of joints.

    Parameters
    ----------
    pin_model : a ``pinocchio.Model`` whose joints are revolute (bounded or not), prismatic or
        helical, about or along any axis, or spherical, planar or free-flyers.
    gravity : (3,) base coordinates [m/s^2]; the Pinocchio model's if None.
    snap : replace residues up to 1e-9 by zeros.

    Returns
    -------
    The model, whose links are Pinocchio's BODY frames. ``pinocchio_map`` converts ``q`` between the
    two: a continuous joint is one angle here, its cosine and sine there.

    Errors
    ------
    RobotError : not a Pinocchio model, an unsupported joint, one that moves no inertia, or a
        gravity with an angular part.
    """
    return read_pinocchio(pin_model, gravity=gravity, snap=snap).finished()


def read_pinocchio(pin_model: Any, *, gravity: Vec3 | None = None, snap: bool = False) -> Draft:
    """Convert a Pinocchio model, without checking the inertias."""
    if not is_pinocchio(pin_model):
        raise RobotError(
            f"The object {pin_model!r:.60} is not a Pinocchio model; give a pinocchio.Model."
        )
    frames = _frames(pin_model)
    links: dict[int, str] = {}
    for frame in frames:
        links.setdefault(frame.joint, frame.name)
    joints = [
        _joint(pin_model, number, links.get(number - 1))
        for number in range(1, int(pin_model.njoints))
    ]
    model_gravity = gravity if gravity is not None else _gravity(pin_model)
    name = str(pin_model.name) or "robot"
    draft = assemble(
        name=name,
        source=f"Pinocchio model {name}",
        joints=joints,
        inertials=[_inertial(pin_model.inertias[k + 1], k) for k in range(len(joints))],
        frames=frames,
        gravity=model_gravity,
        snap=snap,
        notes=[*_one_sided(pin_model), *_unused_rotors(pin_model)],
    )
    model = replace(draft.model, fixed_joints=tuple(_fixed_joints(pin_model)))
    return replace(draft, model=model)


def _gravity(pin_model: Any) -> Vec3:
    turning = vec3(pin_model.gravity.angular)
    if any(turning):
        raise RobotError(
            f"The Pinocchio model's gravity has the angular part {turning!r}, an acceleration of "
            "the base that is not supported; set pin_model.gravity.angular to zeros, or pass "
            "the option gravity."
        )
    return vec3(pin_model.gravity.linear)


_TWO_SIDED = (
    ("effort limits", "Effort", min, "smaller"),
    ("velocity limits", "Velocity", min, "smaller"),
    ("dry friction", "DryFriction", max, "larger"),
)
"""Figures that newer releases have for each direction, and which one is used for both here."""


def _one_sided(pin_model: Any) -> list[str]:
    """Return a sentence for each joint with asymmetric limits or friction."""
    notes = []
    for number in range(1, int(pin_model.njoints)):
        joint = pin_model.joints[number]
        at = slice(int(joint.idx_v), int(joint.idx_v) + int(joint.nv))
        for quantity, name, _, which in _TWO_SIDED:
            upper = _entries(pin_model, (f"upper{name}Limit",), at)
            lower = _entries(pin_model, (f"lower{name}Limit",), at)
            ends = [
                (low, high)
                for low, high in zip(lower, upper, strict=False)
                if abs(low) != abs(high)
            ]
            # If one of them is unlimited, the other one holds.
            ends = [pair for pair in ends if all(abs(value) < LARGEST for value in pair)]
            if ends:
                low, high = ends[0]
                notes.append(
                    f"Joint {str(pin_model.names[number])!r} has {quantity} from {low:g} to "
                    f"{high:g}; the {which} of the two applies in both directions in the model."
                )
    return notes


def _unused_rotors(pin_model: Any) -> list[str]:
    """Return a sentence for each joint with a rotor that Pinocchio's functions ignore."""
    notes = []
    for number in range(1, int(pin_model.njoints)):
        at = slice(int(pin_model.joints[number].idx_v), None)
        rotor, ratio, armature = (
            _entries(pin_model, (key,), at)[:1]
            for key in ("rotorInertia", "rotorGearRatio", "armature")
        )
        reflected = sum(r * g**2 for r, g in zip(rotor, ratio, strict=False))
        if reflected and armature == [0.0]:
            notes.append(
                f"Joint {str(pin_model.names[number])!r} has a rotor of {reflected:g} kg m^2 "
                "behind its gear and no armature: the rotor is left out, as in Pinocchio; set "
                "pin_model.armature."
            )
    return notes


def _joint(pin_model: Any, number: int, link: str | None) -> ImportedJoint:
    name = str(pin_model.names[number])
    joint = pin_model.joints[number]
    short = str(joint.shortname())
    match = _SUPPORTED.fullmatch(short)
    if match is None:
        raise RobotError(
            f"The Pinocchio joint {name!r} has the type {short}, which is not supported; "
            "use a revolute, unbounded revolute, prismatic, helical, spherical, planar or "
            "free-flyer joint, or lock it with pinocchio.buildReducedModel."
        )
    kind = _KINDS[match["what"] or match["whole"]]
    continuous = match["what"] in ("RUB", "RevoluteUnbounded")
    unlimited = continuous or kind.nv > 1
    axis, pitch = _axis(joint, kind, continuous)
    at = int(joint.idx_q)
    speed = slice(int(joint.idx_v), int(joint.idx_v) + kind.nv)
    return ImportedJoint(
        name=name,
        link=name if link is None else link,
        parent=int(pin_model.parents[number]) - 1,
        kind=kind,
        axis=axis,
        pose=_pose(pin_model.jointPlacements[number]),
        continuous=continuous,
        lower=-math.inf if unlimited else float(pin_model.lowerPositionLimit[at]),
        upper=math.inf if unlimited else float(pin_model.upperPositionLimit[at]),
        velocity=min(_both_ways(pin_model, "Velocity", "velocityLimit", speed)),
        effort=min(_both_ways(pin_model, "Effort", "effortLimit", speed)),
        damping=_one(_entries(pin_model, ("damping",), speed), "damping", name),
        friction=_one(_both_ways(pin_model, "DryFriction", "friction", speed), "friction", name),
        armature=_one(_entries(pin_model, ("armature",), speed), "armature", name),
        pitch=pitch,
    )


def _axis(joint: Any, kind: JointKind, continuous: bool) -> tuple[Vec3, float]:
    """Return the axis and pitch of a joint with one degree of freedom from its motion subspace."""
    if kind.nv > 1:
        return (0.0, 0.0, 1.0), 0.0
    q = np.zeros(int(joint.idx_q) + int(joint.nq))
    if continuous:
        q[-2] = 1.0  # the cosine of zero
    data = joint.createData()
    joint.calc(data, q)
    subspace = data.S.matrix() if hasattr(data.S, "matrix") else data.S
    column = [float(value) for value in np.asarray(subspace).reshape(6)]
    linear, angular = vec3(column[:3]), vec3(column[3:])  # Pinocchio's order
    if kind is JointKind.PRISMATIC:
        return linear, 0.0
    return angular, math.fsum(a * b for a, b in zip(linear, angular, strict=True))


def _frames(pin_model: Any) -> list[ImportedFrame]:
    """Return the frames of type BODY, in Pinocchio's order: a joint's own link comes first."""
    return [
        ImportedFrame(
            name=str(frame.name),
            # Older releases have parent only; newer ones warn about it.
            joint=int(frame.parentJoint if hasattr(frame, "parentJoint") else frame.parent) - 1,
            pose=_pose(frame.placement),
        )
        for frame in pin_model.frames
        if str(frame.type).endswith("BODY")
    ]


def _fixed_joints(pin_model: Any) -> list[tuple[str, str]]:
    """Return the frames of type FIXED_JOINT, each with the BODY frame that it places."""
    if not all(hasattr(frame, "parentFrame") for frame in pin_model.frames):
        return []  # older releases
    pairs = ((pin_model.frames[frame.parentFrame], frame) for frame in pin_model.frames)
    return [
        (str(above.name), str(frame.name))
        for above, frame in pairs
        if str(frame.type).endswith("BODY") and str(above.type).endswith("FIXED_JOINT")
    ]


def _inertial(inertia: Any, joint: int) -> ImportedInertial:
    a = np.asarray(inertia.inertia, dtype=float)
    return ImportedInertial(
        joint=joint,
        mass=float(inertia.mass),
        com=vec3(inertia.lever),
        tensor=(
            *(float(a[0, 0]), float(a[0, 1]), float(a[0, 2])),
            *(float(a[1, 1]), float(a[1, 2]), float(a[2, 2])),
        ),
    )


def _pose(placement: Any) -> Pose:
    return Pose(rotation=_mat3(placement.rotation), offset=vec3(placement.translation))


def _entries(pin_model: Any, names: Iterable[str], at: slice) -> list[float]:
    """Return the entries ``at`` of the first of these vectors that the model has, or [0.0]."""
    for name in names:
        vector = getattr(pin_model, name, None)
        if vector is not None:
            return [float(value) for value in vector[at]]
    return [0.0]


def _both_ways(pin_model: Any, name: str, older: str, at: slice) -> list[float]:
    """Return limits or friction; if directions differ, the smaller limit or the larger friction."""
    (choose,) = (choose for _, key, choose, _ in _TWO_SIDED if key == name)
    upper = _entries(pin_model, (f"upper{name}Limit", older), at)
    if not hasattr(pin_model, f"lower{name}Limit"):
        return upper
    lower = _entries(pin_model, (f"lower{name}Limit",), at)
    # By magnitude: Pinocchio 4.1 stores URDF's velocity limit as the lower one as well.
    return [choose(abs(high), abs(low)) for low, high in zip(lower, upper, strict=True)]


def _one(figures: list[float], quantity: str, joint: str) -> float:
    """Return the value that all degrees of freedom of a joint share; raise if they differ."""
    if any(value != figures[0] for value in figures):
        raise RobotError(
            f"The Pinocchio joint {joint!r} has different values of {quantity}, {figures!r}; "
            "give all its degrees of freedom the same value."
        )
    return figures[0]


def _mat3(values: Any) -> Mat3:
    x, y, z = (vec3(row) for row in values)
    return (x, y, z)
