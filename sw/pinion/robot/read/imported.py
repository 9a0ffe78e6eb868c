"""Conversion of robots read by another library to the canonical ``Model``."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pinion.robot.errors import RobotError
from pinion.robot.faults import Draft, LinkFigures
from pinion.robot.inertia import (
    ZERO,
    Tensor,
    combine,
    place,
    significant,
    snap_inertia,
    snap_vector,
)
from pinion.robot.model import Body, Frame, Inertia, Joint, JointKind, Mat3, Model, Transform, Vec3
from pinion.robot.naming import visible
from pinion.robot.rotation import (
    AS_READ,
    IDENTITY,
    SNAPPED,
    Residues,
    multiply,
    rotate,
    transpose,
    without_residues,
)
from pinion.robot.speeds import rated_velocity

from .canonical import alignment
from .urdf import LARGEST, UrdfInertial


@dataclass(frozen=True, kw_only=True)
class Pose:
    """Pose of a frame: ``rotation`` to outer coordinates, ``offset`` [m] in the outer frame."""

    rotation: Mat3 = IDENTITY
    offset: Vec3 = (0.0, 0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class ImportedInertial:
    """Inertial parameters in the frame of joint ``joint``: mass [kg], com [m] and tensor.

    The tensor is about the centre of mass [kg m^2], in ``axes`` (own to joint coordinates).
    """

    joint: int
    mass: float
    com: Vec3
    tensor: Tensor
    axes: Mat3 = IDENTITY


@dataclass(frozen=True, kw_only=True)
class ImportedJoint:
    """A moving joint in the library's frames; ``axis`` in the joint's frame.

    ``parent`` is the number of the joint before it, -1 for the base; ``pose`` is the joint's frame
    at ``q = 0`` in the parent joint's. Limits are infinite if there are none.
    """

    name: str
    link: str
    parent: int
    kind: JointKind
    axis: Vec3
    pose: Pose
    continuous: bool = False
    lower: float = -math.inf
    upper: float = math.inf
    velocity: float = math.inf
    effort: float = math.inf
    damping: float = 0.0
    friction: float = 0.0
    armature: float = 0.0
    pitch: float = 0.0
    stiffness: float = 0.0
    rest: float = 0.0
    damping_poly: tuple[float, float] = (0.0, 0.0)
    stiffness_poly: tuple[float, float] = (0.0, 0.0)
    armature_in_base: bool = False


@dataclass(frozen=True, kw_only=True)
class ImportedFrame:
    """A link's frame in the frame of joint ``joint`` (-1 for the base)."""

    name: str
    joint: int
    pose: Pose


@dataclass(kw_only=True)
class _State:
    """Notes, residues and alignments collected while the joints are converted."""

    notes: list[str]
    residues: Residues
    aligns: dict[int, Mat3] = field(default_factory=lambda: {-1: IDENTITY})


def assemble(
    *,
    name: str,
    source: str,
    joints: Sequence[ImportedJoint],
    inertials: Sequence[ImportedInertial],
    frames: Sequence[ImportedFrame],
    gravity: Vec3,
    notes: Sequence[str] = (),
    snap: bool = False,
) -> Draft:
    """Build the model: every axis rotated to z, residues snapped, inertias about the origins.

    Its inertias are still unchecked; unphysical ones are kept, as the library has kept them.
    Another library's numbers have no digits, so ``snap`` removes larger residues but leaves rounded
    angles.

    Errors
    ------
    RobotError : no moving joint, a name that cannot be shown or is used twice, or an inertia that
        is not finite.
    """
    visible(name, "robot")
    for joint in joints:
        visible(joint.name, "joint")
    for frame in frames:
        visible(frame.name, "link")
    if not joints:
        raise RobotError(f"The robot {name!r} from {source} has no moving joint; add at least one.")
    for kind, names in (("joint", [j.name for j in joints]), ("link", [f.name for f in frames])):
        twice = [name for name, uses in Counter(names).items() if uses > 1]
        if twice:
            raise RobotError(
                f"The {kind} name {twice[0]!r} is used twice; give every {kind} its own name."
            )
    state = _State(notes=list(notes), residues=Residues(tolerance=SNAPPED if snap else AS_READ))
    inertials = [
        _significant(inertial, joints[inertial.joint].link, state) for inertial in inertials
    ]
    links: dict[int, list[str]] = {number: [] for number in range(-1, len(joints))}
    for frame in frames:
        links[frame.joint].append(frame.name)
    bodies = []
    for number, joint in enumerate(joints):
        model_joint = _joint(joint, number, state)
        inertia = _inertia(inertials, joint.link, number, state)
        body_links = (joint.link, *(link for link in links[number] if link != joint.link))
        bodies.append(
            Body(
                name=joint.link,
                parent=joint.parent,
                joint=model_joint,
                inertia=inertia,
                links=body_links,
            )
        )
    placed = tuple(
        Frame(
            name=frame.name,
            body=frame.joint,
            placement=_placed(frame, state.aligns, state.residues),
        )
        for frame in frames
    )
    rated: list[float] = []
    for joint in joints:
        speed = rated_velocity(
            joint.name,
            joint.kind,
            limit=_limit(joint.velocity),
            rated=None,
            notes=state.notes,
        )
        rated += [speed] * joint.kind.nv
    model = Model(
        name=name,
        source=source,
        bodies=tuple(bodies),
        gravity=gravity,
        base_links=tuple(links[-1]),
        frames=placed,
        notes=(*state.notes, *state.residues.notes()),
        rated_velocity=tuple(rated),
    )
    figures = tuple(
        LinkFigures(
            link=joints[inertial.joint].link,
            mass=inertial.mass,
            tensor=inertial.tensor,
            accepted="as it was given",
        )
        for inertial in inertials
    )
    return Draft(model=model, figures=figures)


def _joint(joint: ImportedJoint, number: int, state: _State) -> Joint:
    where = f"the origin of joint {joint.name!r}"
    align = alignment(joint.name, joint.axis, state.residues, state.notes)
    state.aligns[number] = align
    back = transpose(state.aligns[joint.parent])
    # Residues are removed before anything is multiplied, so that right angles stay exact.
    turn = multiply(back, without_residues(joint.pose.rotation, state.residues, where))
    rotation = without_residues(multiply(turn, align), state.residues, where)
    offset = rotate(back, joint.pose.offset)
    return Joint(
        name=joint.name,
        kind=joint.kind,
        continuous=joint.continuous,
        tree=Transform(
            E=transpose(rotation),
            r=snap_vector(offset, state.residues.tolerance, state.residues, where),
        ),
        lower=-math.inf if joint.continuous else _limit(joint.lower),
        upper=math.inf if joint.continuous else _limit(joint.upper),
        velocity=_limit(joint.velocity),
        effort=_limit(joint.effort),
        damping=joint.damping,
        friction=joint.friction,
        armature=joint.armature,
        pitch=joint.pitch,
        stiffness=joint.stiffness,
        rest=joint.rest,
        damping_poly=joint.damping_poly,
        stiffness_poly=joint.stiffness_poly,
        armature_in_base=joint.armature_in_base,
    )


def _inertia(
    inertials: Sequence[ImportedInertial], link: str, number: int, state: _State
) -> Inertia:
    total = ZERO
    back = transpose(state.aligns[number])
    for part in inertials:
        if part.joint != number:
            continue
        axes = without_residues(
            multiply(back, part.axes), state.residues, f"the inertial of link {link!r}"
        )
        inertial = UrdfInertial(
            mass=part.mass, xyz=(0.0, 0.0, 0.0), rpy=(0.0, 0.0, 0.0), tensor=part.tensor
        )
        total = combine(total, place(inertial, axes, rotate(back, part.com), state.residues))
    return snap_inertia(total, state.residues, f"the inertia of {link!r}")


def _significant(inertial: ImportedInertial, link: str, state: _State) -> ImportedInertial:
    numbers = (inertial.mass, *inertial.com, *inertial.tensor)
    if not all(math.isfinite(value) and abs(value) <= LARGEST for value in numbers):
        raise RobotError(
            f"The inertial parameters of {link!r} (mass {inertial.mass!r}, centre of mass "
            f"{inertial.com!r}, inertia {inertial.tensor!r}) must be finite and at most "
            f"{LARGEST:g} in magnitude."
        )
    where = f"the inertia of link {link!r}"
    mass, tensor = significant(inertial.mass, inertial.tensor, state.residues, where)
    return replace(inertial, mass=mass, tensor=tensor)


def _placed(frame: ImportedFrame, aligns: Mapping[int, Mat3], residues: Residues) -> Transform:
    where = f"the frame {frame.name!r}"
    back = transpose(aligns[frame.joint])
    rotation = multiply(back, without_residues(frame.pose.rotation, residues, where))
    offset = rotate(back, frame.pose.offset)
    return Transform(
        E=transpose(without_residues(rotation, residues, where)),
        r=snap_vector(offset, residues.tolerance, residues, where),
    )


def _limit(value: float) -> float:
    """Convert magnitudes from `LARGEST`, which libraries write for no limit, to infinity."""
    return math.copysign(math.inf, value) if abs(value) >= LARGEST else value
