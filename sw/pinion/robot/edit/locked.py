"""Locking of joints: the child body of a locked joint becomes part of the parent body."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pinion.base.amounts import decimal
from pinion.robot.contacts import without_open_loops
from pinion.robot.errors import RobotError
from pinion.robot.faults import check_joints
from pinion.robot.inertia import combine, moved, snap_inertia, snap_vector
from pinion.robot.lookup import notes_without, unknown
from pinion.robot.model import Body, Frame, Inertia, Joint, JointKind, Model, Transform
from pinion.robot.read.snapping import right_position
from pinion.robot.rotation import (
    AS_READ,
    IDENTITY,
    IDENTITY_TRANSFORM,
    SNAPPED,
    Residues,
    compose,
    without_residues,
)

from .coupling import uncoupled

Lock = Mapping[str, float | None] | Sequence[str]
"""Joints to lock: positions by name [rad | m], or strings ``NAME`` and ``NAME=VALUE``."""


def parse_lock(text: str) -> tuple[str, float | None]:
    """Parse ``NAME`` or ``NAME=VALUE``: a joint and its position [rad | m], None if omitted.

    Errors
    ------
    RobotError : no name, or a value that is not a finite number.
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not name:
        raise RobotError(f"The lock {text!r} names no joint; write NAME or NAME=VALUE.")
    if not equals:
        return name, None
    position = decimal(value)
    if position is None or not math.isfinite(position):
        point = " and a decimal point, not a comma" if "," in value else ""
        raise RobotError(
            f"The position {value!r} in the lock {text!r} is not a finite number; "
            f"write NAME=VALUE with a value in radians or metres{point}."
        )
    return name, position


def held_positions(lock: Lock) -> dict[str, float | None]:
    """Return the positions of joints to lock by name, None for a joint's default position.

    Raises
    ------
    RobotError : a string without a joint or number, a joint listed twice, or a wrong type.
    """
    if isinstance(lock, Mapping):
        return dict(lock)
    if not _are_texts(lock):
        raise RobotError(
            f"The joints to lock cannot be {lock!r:.60}: give positions by name, such as "
            '{"elbow": 0.3} or {"elbow": None} for the default position, or strings, such '
            'as ["elbow=0.3"].'
        )
    positions: dict[str, float | None] = {}
    for text in [lock] if isinstance(lock, str) else lock:
        name, position = parse_lock(text)
        if name in positions:
            raise RobotError(
                f"The joint '{name}' is locked twice, the second time by '{text}'; lock it once."
            )
        positions[name] = position
    return positions


def _are_texts(lock: object) -> bool:
    return isinstance(lock, Sequence) and all(isinstance(text, str) for text in lock)


def lock(model: Model, positions: Lock, *, snap: bool = False) -> Model:
    """Return the robot with some of its joints locked.

    Parameters
    ----------
    positions : the position [rad | m] of each joint to lock, by name or in strings (`Lock`); None
        means 0, or the limit nearest to 0 if 0 is outside the joint's limits. Joints that mimic a
        locked joint are locked with it, at the position that the tie gives, unless they are listed
        here as well.
    snap : lock a rounded right angle, such as 1.5708, at the right angle, and remove residues as
        ``pinion.robot.load`` does with ``snap``.

    Returns
    -------
    A model whose other joints and bodies keep their order, names and frames. Bodies behind locked
    joints are merged into the body (or the base) before them, as links behind fixed joints are;
    every link's frame is kept, and the notes list what was locked at which position.

    Errors
    ------
    RobotError : an unknown joint, a position that is not finite or is outside the joint's limits,
        no joint left to move, or one that moves no inertia while the others are locked.
    """
    return check_joints(held_still(model, positions, snap=snap), before=model)


def held_still(model: Model, positions: Lock, *, snap: bool = False) -> Model:
    """Lock joints as :func:`lock` does, without checking the remaining joints."""
    requested = held_positions(positions)
    if not requested:
        return model
    locked, notes = _resolve(model, requested, snap)
    if len(locked) == len(model.bodies):
        raise RobotError(f"Every joint of the robot {model.name!r} is locked; leave one unlocked.")
    residues = Residues(tolerance=SNAPPED if snap else AS_READ)
    homes, bodies = _merge(model, locked, residues)
    base_links = list(model.base_links)
    links = [list(body.links) for body in bodies]
    inertias: dict[int, Inertia] = {}
    for old, (number, place) in zip(model.bodies, homes, strict=True):
        if old.joint.name not in locked:
            continue
        (base_links if number < 0 else links[number]).extend(old.links)
        into = "the base" if number < 0 else repr(bodies[number].name)
        notes[old.joint.name] += f": {old.name!r} became part of {into}."
        if number >= 0:
            carrier_inertia = inertias.get(number, bodies[number].inertia)
            inertias[number] = combine(carrier_inertia, moved(old.inertia, place))
    for number, inertia in inertias.items():
        where = f"the inertia of {bodies[number].name!r}"
        bodies[number] = replace(bodies[number], inertia=snap_inertia(inertia, residues, where))
    left = replace(
        model,
        bodies=tuple(
            replace(body, links=_in_order(model, links[k])) for k, body in enumerate(bodies)
        ),
        base_links=_in_order(model, base_links),
        frames=tuple(_moved_frame(frame, homes, residues) for frame in model.frames),
        notes=(*notes_without(model.notes, locked), *notes.values(), *residues.notes()),
        rated_velocity=tuple(
            rate
            for body, rates in zip(model.bodies, uncoupled(model).v_slices, strict=True)
            if body.joint.name not in locked
            for rate in model.rated_velocity[rates]
        ),
        fixed_joints=(
            *model.fixed_joints,
            *((b.joint.name, b.name) for b in model.bodies if b.joint.name in locked),
        ),
    )
    return without_open_loops(left)


def _resolve(
    model: Model, positions: Mapping[str, float | None], snap: bool
) -> tuple[dict[str, float], dict[str, str]]:
    """Return every joint to lock, followers included: its position, and the start of a note."""
    joints = {body.joint.name: body.joint for body in model.bodies}
    locked: dict[str, float] = {}
    notes: dict[str, str] = {}
    for name, requested in positions.items():
        if name not in joints:
            raise unknown("moving joint", name, joints, model.name)
        joint = joints[name]
        if joint.kind.nq != 1:
            raise RobotError(
                f"The {joint.kind.value} joint {name!r} has {joint.kind.nq} position coordinates "
                "and cannot be locked; lock only joints with one."
            )
        locked[name], why = (
            _default(joint) if requested is None else (_inside(joint, requested), "")
        )
        if snap and requested is not None and joint.kind is JointKind.REVOLUTE:
            locked[name] = right_position(locked[name])
        notes[name] = f"Locked joint {name!r} at {locked[name]:.6g} {joint.kind.unit}{why}"
    waiting = list(locked)
    while waiting:
        leader = waiting.pop()
        for name, joint in joints.items():
            if joint.mimic is None or joint.mimic.joint != leader or name in locked:
                continue
            locked[name] = joint.mimic.multiplier * locked[leader] + joint.mimic.offset
            notes[name] = (
                f"Locked joint {name!r} at {locked[name]:.6g} {joint.kind.unit} "
                f"(it mimics {leader!r})"
            )
            waiting.append(name)
    return locked, notes


def _default(joint: Joint) -> tuple[float, str]:
    nearest = min(max(0.0, joint.lower), joint.upper)
    return nearest, "" if nearest == 0.0 else " (the limit nearest to 0)"


def _inside(joint: Joint, requested: float) -> float:
    """Return a requested position as a float; raise if it is outside the joint's limits."""
    try:
        position = float(requested)
    except (TypeError, ValueError):
        raise RobotError(
            f"The position {requested!r} of joint {joint.name!r} is not a number; "
            f"give a number in {joint.kind.unit}, or None."
        ) from None
    if not math.isfinite(position):
        raise RobotError(
            f"The position {requested!r} of joint {joint.name!r} is not finite; "
            f"give a finite number in {joint.kind.unit}."
        )
    if not joint.lower <= position <= joint.upper:
        raise RobotError(
            f"The position {position!r} {joint.kind.unit} of joint {joint.name!r} is outside its "
            f"limits, {joint.lower!r} to {joint.upper!r} {joint.kind.unit}; "
            "give a position within them."
        )
    return position


def _merge(
    model: Model, locked: Mapping[str, float], residues: Residues
) -> tuple[list[tuple[int, Transform]], list[Body]]:
    """Return each body's merged body and pose in it, and merged bodies without added inertias."""
    homes: list[tuple[int, Transform]] = []
    bodies: list[Body] = []
    for body in model.bodies:
        joint = body.joint
        parent, place = (-1, IDENTITY_TRANSFORM) if body.parent < 0 else homes[body.parent]
        tree = _composed(place, joint.tree, residues, f"the origin of joint {joint.name!r}")
        if joint.name in locked:
            where = f"the locked joint {joint.name!r}"
            motion = _motion(joint, locked[joint.name], residues, where)
            homes.append((parent, _composed(tree, motion, residues, where)))
        else:
            homes.append((len(bodies), IDENTITY_TRANSFORM))
            bodies.append(replace(body, parent=parent, joint=replace(joint, tree=tree)))
    return homes, bodies


def _motion(joint: Joint, q: float, residues: Residues, where: str) -> Transform:
    """Return the pose of the child frame at ``q`` [rad | m] relative to that at ``q = 0``."""
    if joint.kind is JointKind.PRISMATIC:
        return Transform(E=IDENTITY, r=(0.0, 0.0, q))
    c, s = math.cos(q), math.sin(q)
    turn = ((c, s, 0.0), (-s, c, 0.0), (0.0, 0.0, 1.0))
    return Transform(E=without_residues(turn, residues, where), r=(0.0, 0.0, joint.pitch * q))


def _in_order(model: Model, links: list[str]) -> tuple[str, ...]:
    """Return merged links in the order of the frames, as a file's reader lists them."""
    order = {frame.name: k for k, frame in enumerate(model.frames)}
    return tuple(sorted(links, key=lambda name: order.get(name, -1)))


def _moved_frame(frame: Frame, homes: list[tuple[int, Transform]], residues: Residues) -> Frame:
    if frame.body < 0:
        return frame
    number, place = homes[frame.body]
    where = f"the frame {frame.name!r}"
    return replace(frame, body=number, placement=_composed(place, frame.placement, residues, where))


def _composed(outer: Transform, inner: Transform, residues: Residues, where: str) -> Transform:
    """Compose poses and remove residues; composed with an identity, a pose is unchanged."""
    if outer == IDENTITY_TRANSFORM:
        return inner
    if inner == IDENTITY_TRANSFORM:
        return outer
    composed = compose(outer, inner)
    return Transform(
        E=without_residues(composed.E, residues, where),
        r=snap_vector(composed.r, residues.tolerance, residues, where),
    )
