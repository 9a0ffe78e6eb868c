"""Reader of MuJoCo files (MJCF), through the ``mujoco`` library, which resolves defaults."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from itertools import count
from types import MappingProxyType
from typing import Any

from pinion.base.arrays import Floats
from pinion.base.installation import install_hint
from pinion.robot.contacts import without_open_loops
from pinion.robot.errors import RobotError
from pinion.robot.faults import Draft
from pinion.robot.model import JointKind, Mat3, Model, Vec3, vec3
from pinion.robot.rotation import add, multiply, rotate

from .imported import ImportedFrame, ImportedInertial, ImportedJoint, Pose, assemble
from .mjcf_terms import FileTerms, file_loops, file_terms

# By the values of MuJoCo's mjtJoint.
_KINDS: Mapping[int, JointKind] = MappingProxyType(
    {
        0: JointKind.FREE_FLYER,
        1: JointKind.SPHERICAL,
        2: JointKind.PRISMATIC,
        3: JointKind.REVOLUTE,
    }
)

_LONGEST = 190
"""Maximum length of a massless link's name, which leaves room for a number."""


def from_mjcf(
    path: str | os.PathLike[str], *, gravity: Vec3 | None = None, snap: bool = False
) -> Model:
    """Load the moving bodies of an MJCF file.

    Parameters
    ----------
    path : the file; its worldbody becomes the fixed base.
    gravity : (3,) base coordinates [m/s^2]; the file's if None.
    snap : replace residues up to 1e-9 by zeros; rounded angles stay, since MuJoCo does not report
        the digits in the file.

    Returns
    -------
    The model; its positions are MuJoCo's qpos, in MuJoCo's order, except that quaternions are
    (x, y, z, w) here and (w, x, y, z) there, and the linear velocity of a free joint is in the
    body's axes here and in the world's there. A body with several joints becomes a chain of links
    with one joint each, all but the last without mass and named after the body and the joint
    (``cup_x``). Armature, damping, dry friction and springs of joints are read, including what
    actuators add and flags of ``<option>`` disable. Equality constraints ``connect`` and ``weld``
    are loops (:mod:`pinion.robot.contacts`). Contacts between geoms, tendons and other constraints
    are not part of a model; the notes list what was left out, ``docs/robot-files.md`` has every
    field.

    Errors
    ------
    RobotError : no ``mujoco`` library, a file that it refuses, or a joint that moves no inertia.
    """
    return read_mjcf(path, gravity=gravity, snap=snap).finished()


def read_mjcf(
    path: str | os.PathLike[str], *, gravity: Vec3 | None = None, snap: bool = False
) -> Draft:
    """Read an MJCF file, without checking the inertias."""
    compiled = _compile(os.fspath(path))
    return read_compiled(compiled, source=os.fspath(path), gravity=gravity, snap=snap)


def _compile(path: str) -> Any:
    try:
        mujoco = import_module("mujoco")
    except ImportError:
        raise RobotError(
            f"Reading the MJCF file {path!r} needs the mujoco library: {install_hint('mjcf')}."
        ) from None
    if not os.path.isfile(path):
        raise RobotError(f"There is no file {path!r}; give the path of an MJCF file.")
    try:
        return mujoco.MjModel.from_xml_path(path)
    except ValueError as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise RobotError(f"MuJoCo cannot load the file {path!r}: {reason}.") from None


def read_compiled(
    compiled: Any, *, source: str, gravity: Vec3 | None = None, snap: bool = False
) -> Draft:
    """Read an ``mjModel``, without checking the inertias; ``source`` is its file."""
    # The names are concatenated, the model's first.
    if not _is_utf8(bytes(compiled.names)):
        raise RobotError(f"A name in the file {source!r} is not UTF-8; save the file as UTF-8.")
    names = _names(compiled.body, int(compiled.nbody), "body")
    joint_names = _names(compiled.joint, int(compiled.njnt), "joint")
    terms = file_terms(compiled, joint_names, gravity)
    links = _massless_links(compiled, names, joint_names)
    carrier: list[int] = [-1]  # the moving joint that carries each body, -1 for the base
    poses: list[Pose] = [Pose()]  # the body's frame in that joint's frame
    joints: list[ImportedJoint] = []
    inertials: list[ImportedInertial] = []
    frames = [ImportedFrame(name=names[0], joint=-1, pose=Pose())]
    for body in range(1, len(names)):  # MuJoCo numbers parents first
        parent = int(compiled.body_parentid[body])
        in_parent = _pose(compiled.body_quat[body], compiled.body_pos[body])
        pose, carried = _behind(poses[parent], in_parent), carrier[parent]
        first = int(compiled.body_jntadr[body])
        for number in range(first, first + int(compiled.body_jntnum[body])):
            # Each joint moves the body's frame as the joints before it have left it.
            link = links.get(number, names[body])
            joint, pose = _joint(compiled, terms, number, joint_names[number], link, carried, pose)
            carried = len(joints)
            joints.append(joint)
            if number in links:
                frames.append(ImportedFrame(name=link, joint=carried, pose=pose))
        if carried >= 0 and float(compiled.body_mass[body]) > 0.0:
            inertials.append(_inertial(compiled, body, carried, pose))
        carrier.append(carried)
        poses.append(pose)
        frames.append(ImportedFrame(name=names[body], joint=carried, pose=pose))
    draft = assemble(
        name=bytes(compiled.names).split(b"\0")[0].decode() or "robot",
        source=source,
        joints=joints,
        inertials=inertials,
        frames=frames,
        gravity=terms.gravity,
        notes=[*_chains(links), *_one_sided(terms.effort_ranges, joint_names), *terms.notes],
        snap=snap,
    )
    loops = tuple(file_loops(compiled, names))
    model = without_open_loops(replace(draft.model, loops=loops))
    notes = [
        f"The file ties {first!r} to {second!r}: functions in contact keep this loop "
        f"({kind}) closed, and the others leave it out."
        for first, second, kind in model.loops
    ]
    return replace(draft, model=replace(model, notes=(*model.notes, *notes)))


def _names(accessor: Callable[[int], Any], size: int, prefix: str) -> list[str]:
    """Return the names of one kind of element, with generated names for unnamed elements."""
    file_names = [str(accessor(k).name) for k in range(size)]
    used = set(file_names)
    return [name or _unused(f"{prefix}_{k}", used) for k, name in enumerate(file_names)]


def _unused(name: str, used: set[str]) -> str:
    """Return the name, with a number appended if it is already used, and mark it as used."""
    candidates = (name if n == 1 else f"{name}_{n}" for n in count(1))
    unused = next(candidate for candidate in candidates if candidate not in used)
    used.add(unused)
    return unused


def _massless_links(compiled: Any, names: list[str], joint_names: list[str]) -> dict[int, str]:
    """Return the name of a massless link for each joint but a body's last, by joint number."""
    used, links = set(names), {}
    for body, name in enumerate(names):
        first = int(compiled.body_jntadr[body])
        for number in range(first, first + int(compiled.body_jntnum[body]) - 1):
            links[number] = _unused(f"{name}_{joint_names[number]}"[:_LONGEST], used)
    return links


def _chains(links: Mapping[int, str]) -> list[str]:
    if not links:
        return []
    listed = ", ".join(map(repr, links.values()))
    several = len(links) > 1
    return [
        "Bodies with several joints are chains of links, one joint each, and all but the last have "
        f"no mass of their own in the file: {listed} "
        f"{'are such links' if several else 'is such a link'}."
    ]


def _one_sided(ranges: Floats, joint_names: list[str]) -> list[str]:
    """Return a sentence for each joint with asymmetric effort limits, of (njnt, 2)."""
    notes = []
    for name, (low, high) in zip(joint_names, ranges.tolist(), strict=True):
        if low != -high:
            which = "smaller" if low < 0.0 < high else "larger"
            notes.append(
                f"Joint {name!r} has effort limits from {low:g} to {high:g}; the "
                f"{which} of the two applies in both directions in the model."
            )
    return notes


def _effort(low: float, high: float) -> float:
    """Return a limit of efforts in both directions: the smaller one, unless it excludes a side."""
    return min(-low, high) if low < 0.0 < high else max(abs(low), abs(high))


def _joint(
    compiled: Any, terms: FileTerms, number: int, name: str, link: str, parent: int, pose: Pose
) -> tuple[ImportedJoint, Pose]:
    """Return a joint, and its body's frame in the joint's; ``pose`` is the body's at qpos0."""
    kind = _KINDS[int(compiled.jnt_type[number])]
    if kind is JointKind.FREE_FLYER:
        pose = Pose()  # its positions are the body's in the world, wherever the file puts it
    anchor, axis = vec3(compiled.jnt_pos[number]), vec3(compiled.jnt_axis[number])
    offset = add(pose.offset, rotate(pose.rotation, anchor))
    rotation = pose.rotation
    # The file places the body at q = ref, the model at q = 0.
    at = int(compiled.jnt_qposadr[number])
    ref = float(compiled.qpos0[at]) if kind.nv == 1 else 0.0
    if ref != 0.0 and kind is JointKind.REVOLUTE:
        rotation = multiply(rotation, _about(axis, -ref))
    elif ref != 0.0:
        offset = add(offset, rotate(rotation, (-ref * axis[0], -ref * axis[1], -ref * axis[2])))
    limited = bool(terms.limited[number])
    lower, upper = (float(value) for value in compiled.jnt_range[number])
    dof = int(compiled.jnt_dofadr[number])
    stiffness, stiffness_poly = float(terms.stiffness[number]), _pair(terms.stiffness_poly[number])
    joint = ImportedJoint(
        name=name,
        link=link,
        parent=parent,
        kind=kind,
        axis=axis if kind.nv == 1 else (0.0, 0.0, 1.0),
        pose=Pose(rotation=rotation, offset=offset),
        continuous=kind is JointKind.REVOLUTE and not limited,
        lower=lower if limited else -math.inf,
        upper=upper if limited else math.inf,
        effort=_effort(*terms.effort_ranges[number].tolist()),
        damping=float(terms.damping[dof]),
        damping_poly=_pair(terms.damping_poly[dof]),
        friction=float(terms.friction[dof]),
        armature=float(terms.armature[dof]),
        armature_in_base=kind is JointKind.FREE_FLYER and bool(terms.armature[dof]),
        stiffness=stiffness,
        stiffness_poly=stiffness_poly,
        rest=float(compiled.qpos_spring[at]) if stiffness or any(stiffness_poly) else 0.0,
    )
    x, y, z = anchor
    return joint, Pose(offset=(-x, -y, -z))


def _inertial(compiled: Any, body: int, joint: int, pose: Pose) -> ImportedInertial:
    xx, yy, zz = vec3(compiled.body_inertia[body])
    placed = _behind(pose, _pose(compiled.body_iquat[body], compiled.body_ipos[body]))
    return ImportedInertial(
        joint=joint,
        mass=float(compiled.body_mass[body]),
        com=placed.offset,
        tensor=(xx, 0.0, 0.0, yy, 0.0, zz),
        axes=placed.rotation,
    )


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _pose(quaternion: Iterable[float], position: Iterable[float]) -> Pose:
    return Pose(rotation=_from_quaternion(quaternion), offset=vec3(position))


def _behind(outer: Pose, inner: Pose) -> Pose:
    return Pose(
        rotation=multiply(outer.rotation, inner.rotation),
        offset=add(outer.offset, rotate(outer.rotation, inner.offset)),
    )


def _about(axis: Vec3, angle: float) -> Mat3:
    """Return the rotation by ``angle`` about a unit axis."""
    x, y, z = axis
    half = math.sin(angle / 2.0)
    return _from_quaternion((math.cos(angle / 2.0), half * x, half * y, half * z))


def _from_quaternion(quaternion: Iterable[float]) -> Mat3:
    """Return the rotation, inner to outer coordinates; MuJoCo's order is w, x, y, z."""
    parts = [float(value) for value in quaternion]
    norm = math.sqrt(math.fsum(value * value for value in parts))
    w, x, y, z = (value / norm for value in parts)
    return (
        (w * w + x * x - y * y - z * z, 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)),
        (2.0 * (x * y + w * z), w * w - x * x + y * y - z * z, 2.0 * (y * z - w * x)),
        (2.0 * (x * z - w * y), 2.0 * (y * z + w * x), w * w - x * x - y * y + z * z),
    )


def _pair(values: Iterable[float]) -> tuple[float, float]:
    x, y = (float(value) for value in values)
    return (x, y)
