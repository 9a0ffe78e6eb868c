"""Conversion of a URDF to a ``Model``: all axes along z, fixed joints merged, no residues."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from pinion.robot.errors import RobotError
from pinion.robot.faults import Draft, LinkFigures
from pinion.robot.inertia import ZERO, combine, place, significant, snap_inertia, snap_vector
from pinion.robot.model import Body, Frame, Inertia, Joint, JointKind, Mat3, Model, Transform, Vec3
from pinion.robot.rotation import (
    AS_READ,
    IDENTITY,
    IDENTITY_TRANSFORM,
    SNAPPED,
    Residues,
    add,
    align_z,
    from_rpy,
    multiply,
    rotate,
    transpose,
    unit_axis,
    without_residues,
)
from pinion.robot.speeds import rated_velocity

from .snapping import rounded_angles
from .tree import children_of, root_of
from .urdf import Urdf, UrdfJoint

ROOT_JOINT = "root_joint"
"""Name of a floating base's free-flyer, as in Pinocchio."""

KINDS: Mapping[str, JointKind] = MappingProxyType(
    {
        "revolute": JointKind.REVOLUTE,
        "continuous": JointKind.REVOLUTE,
        "prismatic": JointKind.PRISMATIC,
        "planar": JointKind.PLANAR,
        "floating": JointKind.FREE_FLYER,
    }
)
"""Kind of each of URDF's moving joints."""


@dataclass(frozen=True)
class _Placed:
    """A link in its body's frame: ``rotation`` link to body coordinates, ``offset`` in the body."""

    body: int
    rotation: Mat3
    offset: Vec3


@dataclass(frozen=True)
class _Moving:
    """A moving joint, its parent body and its child's frame in the parent body."""

    urdf: UrdfJoint
    parent: int
    tree: Transform


def canonicalise(
    urdf: Urdf, *, gravity: Vec3, floating_base: bool = False, snap: bool = False
) -> Draft:
    """Build the model of a parsed URDF, with its inertias still unchecked.

    Every motion axis, and a planar joint's normal, becomes the z axis of its body's frame, whose
    origin is the URDF child link's; links behind fixed joints join the body (or the base) they are
    fixed to; bodies are numbered depth first in the document order of the joints. With
    ``floating_base`` the root link is a body behind a free-flyer, and keeps its inertia. With
    ``snap`` rounded right angles become exact (:mod:`.snapping`), and larger residues are removed.

    Errors
    ------
    RobotError : not a tree, unknown links, or no moving joint.
    """
    rounded = rounded_angles(urdf)
    notes = [*urdf.notes, *rounded.notes(snap)]
    residues = Residues(tolerance=SNAPPED if snap else AS_READ, explained=rounded.places)
    if snap:
        urdf = rounded.exact
    placed, moving = _place_links(urdf, residues, notes, floating_base)
    if not moving:
        raise RobotError(
            f"The robot {urdf.name!r} has no moving joint; at least one must be revolute, "
            "continuous, prismatic, planar or floating, unless its base floats."
        )
    inertias, figures = _merge(urdf, placed, len(moving), residues)
    members = _members(placed, len(moving))
    fixed = {joint.name for joint in urdf.joints if joint.type == "fixed"}
    bodies = []
    for number, joint in enumerate(moving):
        name = joint.urdf.child
        inertia = snap_inertia(inertias[number], residues, f"the inertia of {name!r}")
        bodies.append(
            Body(
                name=name,
                parent=joint.parent,
                joint=_joint(joint, fixed, notes),
                inertia=inertia,
                links=members[number],
            )
        )
    rated: list[float] = []
    for joint, body in zip(moving, bodies, strict=True):
        urdf_joint, kind = joint.urdf, body.joint.kind
        speed = rated_velocity(
            urdf_joint.name,
            kind,
            limit=urdf_joint.velocity,
            rated=urdf_joint.rated_velocity,
            notes=notes,
        )
        rated += [speed] * kind.nv
    notes += _merge_note(members, moving) + residues.notes()
    model = Model(
        name=urdf.name,
        source=urdf.source,
        bodies=tuple(bodies),
        gravity=gravity,
        base_links=members[-1],
        frames=tuple(
            Frame(
                name=name,
                body=link.body,
                placement=Transform(E=transpose(link.rotation), r=link.offset),
            )
            for name, link in placed.items()
        ),
        notes=tuple(notes),
        rated_velocity=tuple(rated),
        tips=_tips(urdf, placed),
        fixed_joints=tuple((j.name, j.child) for j in urdf.joints if j.type == "fixed"),
    )
    return Draft(model=model, figures=figures)


def _place_links(
    urdf: Urdf, residues: Residues, notes: list[str], floating_base: bool
) -> tuple[dict[str, _Placed], list[_Moving]]:
    """Return every link's pose in its body, and the moving joints in depth-first order."""
    children = children_of(urdf)
    root = root_of(urdf)
    moving: list[_Moving] = []
    if floating_base:
        moving.append(_Moving(_root_joint(urdf, root), -1, IDENTITY_TRANSFORM))
        notes.append(f"Put the free-flyer {ROOT_JOINT!r} between the base and {root!r}.")
    placed = {root: _Placed(len(moving) - 1, IDENTITY, (0.0, 0.0, 0.0))}
    waiting = list(reversed(children[root]))
    while waiting:
        joint = waiting.pop()
        parent = placed[joint.parent]
        where = f"the origin of joint {joint.name!r}"
        # Residues are removed before anything is multiplied, so that right angles stay exact.
        turn = without_residues(from_rpy(joint.rpy), residues, where)
        rotation = without_residues(multiply(parent.rotation, turn), residues, where)
        offset = add(parent.offset, rotate(parent.rotation, joint.xyz))
        offset = snap_vector(offset, residues.tolerance, residues, where)
        if joint.type == "fixed":
            placed[joint.child] = _Placed(parent.body, rotation, offset)
        else:
            free = KINDS[joint.type] is JointKind.FREE_FLYER
            align = IDENTITY if free else _alignment(joint, residues, notes)
            rotation = without_residues(multiply(rotation, align), residues, where)
            placed[joint.child] = _Placed(len(moving), transpose(align), (0.0, 0.0, 0.0))
            tree = Transform(E=transpose(rotation), r=offset)
            moving.append(_Moving(joint, parent.body, tree))
        waiting += reversed(children[joint.child])
    return placed, moving


def _root_joint(urdf: Urdf, root: str) -> UrdfJoint:
    """Return a floating joint above the root link, as if the file declared one."""
    if any(joint.name == ROOT_JOINT and joint.type != "fixed" for joint in urdf.joints):
        raise RobotError(
            f"The robot {urdf.name!r} already has a joint {ROOT_JOINT!r}, the name of a floating "
            "base's joint; rename it, or omit floating_base (--floating-base) if this joint "
            "already makes the base float."
        )
    zero: Vec3 = (0.0, 0.0, 0.0)
    return UrdfJoint(
        name=ROOT_JOINT,
        type="floating",
        parent="",
        child=root,
        xyz=zero,
        rpy=zero,
        axis=(0.0, 0.0, 1.0),
        lower=None,
        upper=None,
        velocity=None,
        effort=None,
        damping=0.0,
        friction=0.0,
        armature=0.0,
        stiffness=0.0,
        rest=0.0,
        mimic=None,
        rated_velocity=None,
    )


def alignment(name: str, axis: Vec3, residues: Residues, notes: list[str]) -> Mat3:
    """Return the rotation that aligns z with a joint's axis, and add a note unless it is z."""
    unit = unit_axis(axis, residues, f"the axis of joint {name!r}")
    if unit != (0.0, 0.0, 1.0):
        components = " ".join(f"{value:.6g}" for value in unit)
        kind = "" if sum(value != 0.0 for value in unit) == 1 else "oblique "
        notes.append(f"Rotated the {kind}axis ({components}) of joint {name!r} into +z.")
    return align_z(unit)


def _alignment(joint: UrdfJoint, residues: Residues, notes: list[str]) -> Mat3:
    align = alignment(joint.name, joint.axis, residues, notes)
    if joint.type == "planar" and align != IDENTITY:
        x, y = (" ".join(f"{row[k] + 0.0:.6g}" for row in align) for k in (0, 1))
        notes.append(
            f"Joint {joint.name!r} is planar: it translates along ({x}) and ({y}) of its own frame "
            "and rotates about its axis."
        )
    return align


def _merge(
    urdf: Urdf, placed: dict[str, _Placed], count: int, residues: Residues
) -> tuple[list[Inertia], tuple[LinkFigures, ...]]:
    """Return the summed inertia of each body's links, and the links' inertias as in the file."""
    inertias = [ZERO] * count
    figures: list[LinkFigures] = []
    for link in urdf.links:
        place_in = placed[link.name]
        if link.inertial is None or place_in.body < 0:
            continue
        stated, where = link.inertial, f"the inertial of link {link.name!r}"
        mass, tensor = significant(stated.mass, stated.tensor, residues, where)
        inertial = replace(stated, mass=mass, tensor=tensor)
        figures.append(
            LinkFigures(
                link=link.name,
                mass=stated.mass,
                tensor=tensor,
                accepted="because the file accepts it" if stated.accept else "",
            )
        )
        if inertial.mass != 0.0 or any(inertial.tensor):
            inertia = place(inertial, place_in.rotation, place_in.offset, residues, where)
            inertias[place_in.body] = combine(inertias[place_in.body], inertia)
    return inertias, tuple(figures)


def _members(placed: dict[str, _Placed], count: int) -> dict[int, tuple[str, ...]]:
    """Return each body's links in depth-first order, its moving link (or the root) first."""
    members: dict[int, list[str]] = {body: [] for body in range(-1, count)}
    for name, link in placed.items():
        members[link.body].append(name)
    return {body: tuple(names) for body, names in members.items()}


def _tips(urdf: Urdf, placed: dict[str, _Placed]) -> tuple[str, ...]:
    """Return the moving links that are no joint's parent, in depth-first order."""
    parents = {joint.parent for joint in urdf.joints}
    return tuple(name for name, link in placed.items() if name not in parents and link.body >= 0)


def _joint(moving: _Moving, fixed: Collection[str], notes: list[str]) -> Joint:
    joint, mimic = moving.urdf, moving.urdf.mimic
    kind, continuous = KINDS[joint.type], joint.type == "continuous"
    lower, upper = joint.lower, joint.upper
    # One pair of limits is meaningless for several coordinates.
    if continuous or not kind.simple or lower is None or upper is None:
        if kind.simple and not continuous:
            notes.append(f"Joint {joint.name!r} gives no position limits: it is unlimited.")
        lower, upper = -math.inf, math.inf
    elif lower == upper and mimic is None:
        notes.append(
            f"Joint {joint.name!r} has one position within its limits, {lower:g} "
            f"{kind.unit}: every distribution of states holds it there; correct them if it moves."
        )
    if mimic is not None and mimic.joint in fixed:
        notes.append(
            f"Joint {joint.name!r} mimics {mimic.joint!r}, which is fixed; it is kept as an "
            "independent joint."
        )
        mimic = None
    elif mimic is not None:
        notes.append(
            f"Joint {joint.name!r} mimics {mimic.joint!r}: functions are computed with the two "
            "coupled, in the coordinates of the joints that follow no other."
        )
    return Joint(
        name=joint.name,
        kind=kind,
        continuous=continuous,
        tree=moving.tree,
        lower=lower,
        upper=upper,
        velocity=math.inf if joint.velocity is None else joint.velocity,
        effort=math.inf if joint.effort is None else joint.effort,
        damping=joint.damping,
        friction=joint.friction,
        armature=joint.armature,
        stiffness=joint.stiffness,
        rest=joint.rest,
        mimic=mimic,
    )


def _merge_note(members: dict[int, tuple[str, ...]], moving: list[_Moving]) -> list[str]:
    groups = [("the base", members[-1][1:])]
    groups += [(repr(joint.urdf.child), members[k][1:]) for k, joint in enumerate(moving)]
    merged = [(into, links) for into, links in groups if links]
    if not merged:
        return []
    count = sum(len(links) for _, links in merged)
    listed = "; ".join(f"{', '.join(map(repr, links))} into {into}" for into, links in merged)
    plural = "s" if count > 1 else ""
    return [f"Merged {count} fixed joint{plural}: {listed}."]
