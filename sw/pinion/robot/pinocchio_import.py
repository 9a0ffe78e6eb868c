"""Reads a Pinocchio model that the caller made; Pinocchio itself is never imported here."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from pinion.robot.errors import RobotError
from pinion.robot.faults import Draft
from pinion.robot.imported import ImportedFrame, ImportedInertial, ImportedJoint, Pose, assemble
from pinion.robot.model import JointKind, Mat3, Model, Vec3

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


def is_pinocchio(thing: object) -> bool:
    """Whether ``thing`` looks like a Pinocchio model."""
    needed = ("njoints", "joints", "names", "parents", "jointPlacements", "inertias", "frames")
    return all(hasattr(thing, name) for name in needed)


def from_pinocchio(pin_model: Any, *, gravity: Vec3 | None = None, snap: bool = False) -> Model:
    """A Pinocchio model as a ``Model``, bodies in Pinocchio's order of joints.

    Parameters
    ----------
    pin_model : a ``pinocchio.Model`` whose joints are revolute (bounded or not), prismatic or
        helical, about or along any axis, or spherical, planar or free-flyers.
    gravity : (3,) base coordinates [m/s^2]; the Pinocchio model's own when None.
    snap : take residues up to 1e-9 for zeros.

    Returns
    -------
    The model, whose links are Pinocchio's BODY frames. ``pinocchio_map`` takes ``q`` from one to
    the other: a continuous joint is one angle here, its cosine and sine there.

    Errors
    ------
    RobotError : not a Pinocchio model, a joint of another kind, or one that moves no inertia.
    """
    return read_pinocchio(pin_model, gravity=gravity, snap=snap).finished()


def read_pinocchio(pin_model: Any, *, gravity: Vec3 | None = None, snap: bool = False) -> Draft:
    """The same, before its inertias are judged."""
    if not is_pinocchio(pin_model):
        raise RobotError(
            f"The object {pin_model!r} is not a Pinocchio model; give a pinocchio.Model."
        )
    frames = _frames(pin_model)
    links: dict[int, str] = {}
    for frame in frames:
        links.setdefault(frame.joint, frame.name)
    joints = [
        _joint(pin_model, number, links.get(number - 1))
        for number in range(1, int(pin_model.njoints))
    ]
    own = gravity if gravity is not None else _vec3(pin_model.gravity.linear)
    name = str(pin_model.name) or "robot"
    return assemble(
        name=name,
        source=f"Pinocchio model {name}",
        joints=joints,
        inertials=[_inertial(pin_model.inertias[k + 1], k) for k in range(len(joints))],
        frames=frames,
        gravity=own,
        snap=snap,
        notes=_unused_rotors(pin_model),
    )


def _unused_rotors(pin_model: Any) -> list[str]:
    """A sentence for each joint with a rotor that Pinocchio's own functions leave out."""
    notes = []
    for number in range(1, int(pin_model.njoints)):
        at = slice(int(pin_model.joints[number].idx_v), None)
        rotor, ratio, armature = (
            _entries(pin_model, (key,), at)[:1]
            for key in ("rotorInertia", "rotorGearRatio", "armature")
        )
        seen = sum(r * g**2 for r, g in zip(rotor, ratio, strict=False))
        if seen and armature == [0.0]:
            notes.append(
                f"Joint {str(pin_model.names[number])!r} has a rotor of {seen:g} kg m^2 behind its "
                "gear and no armature: it is left out, as in Pinocchio; set pin_model.armature."
            )
    return notes


def _joint(pin_model: Any, number: int, link: str | None) -> ImportedJoint:
    name = str(pin_model.names[number])
    joint = pin_model.joints[number]
    short = str(joint.shortname())
    match = _SUPPORTED.fullmatch(short)
    if match is None:
        raise RobotError(
            f"The Pinocchio joint {name!r} is of the kind {short}, which is not supported; "
            "use revolute, unbounded revolute, prismatic, helical, spherical, planar and "
            "free-flyer joints, or lock it with pinocchio.buildReducedModel."
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
        # Newer releases have a lower and an upper limit where older ones have one.
        velocity=min(_entries(pin_model, ("upperVelocityLimit", "velocityLimit"), speed)),
        effort=min(_entries(pin_model, ("upperEffortLimit", "effortLimit"), speed)),
        damping=_one(pin_model, ("damping",), speed, name),
        friction=_one(pin_model, ("upperDryFrictionLimit", "friction"), speed, name),
        armature=_one(pin_model, ("armature",), speed, name),
        pitch=pitch,
    )


def _axis(joint: Any, kind: JointKind, continuous: bool) -> tuple[Vec3, float]:
    """The axis and the pitch of a joint of one velocity, read from its motion subspace."""
    if kind.nv > 1:
        return (0.0, 0.0, 1.0), 0.0
    q = np.zeros(int(joint.idx_q) + int(joint.nq))
    if continuous:
        q[-2] = 1.0  # the cosine of zero
    data = joint.createData()
    joint.calc(data, q)
    subspace = data.S.matrix() if hasattr(data.S, "matrix") else data.S
    column = [float(value) for value in np.asarray(subspace).reshape(6)]
    linear, angular = _vec3(column[:3]), _vec3(column[3:])  # Pinocchio's order
    if kind is JointKind.PRISMATIC:
        return linear, 0.0
    return angular, math.fsum(a * b for a, b in zip(linear, angular, strict=True))


def _frames(pin_model: Any) -> list[ImportedFrame]:
    """The links: frames of the type BODY, in Pinocchio's order, so a joint's own link is first."""
    return [
        ImportedFrame(
            name=str(frame.name),
            # Older releases say parent; newer ones warn of it.
            joint=int(frame.parentJoint if hasattr(frame, "parentJoint") else frame.parent) - 1,
            pose=_pose(frame.placement),
        )
        for frame in pin_model.frames
        if str(frame.type).endswith("BODY")
    ]


def _inertial(inertia: Any, joint: int) -> ImportedInertial:
    a = np.asarray(inertia.inertia, dtype=float)
    return ImportedInertial(
        joint=joint,
        mass=float(inertia.mass),
        com=_vec3(inertia.lever),
        tensor=(
            *(float(a[0, 0]), float(a[0, 1]), float(a[0, 2])),
            *(float(a[1, 1]), float(a[1, 2]), float(a[2, 2])),
        ),
    )


def _pose(placement: Any) -> Pose:
    return Pose(rotation=_mat3(placement.rotation), offset=_vec3(placement.translation))


def _entries(pin_model: Any, names: Iterable[str], at: slice) -> list[float]:
    """Entries ``at`` of the first of these vectors that the model has; 0 where it has none."""
    for name in names:
        vector = getattr(pin_model, name, None)
        if vector is not None:
            return [float(value) for value in vector[at]]
    return [0.0]


def _one(pin_model: Any, names: tuple[str, ...], at: slice, joint: str) -> float:
    """The figure that all velocities of a joint have."""
    found = _entries(pin_model, names, at)
    if any(value != found[0] for value in found):
        raise RobotError(
            f"The Pinocchio joint {joint!r} has several figures of {names[-1]}, {found!r}; "
            "give all its velocities the same one."
        )
    return found[0]


def _vec3(values: Any) -> Vec3:
    x, y, z = (float(value) for value in values)
    return (x, y, z)


def _mat3(values: Any) -> Mat3:
    x, y, z = (_vec3(row) for row in values)
    return (x, y, z)
