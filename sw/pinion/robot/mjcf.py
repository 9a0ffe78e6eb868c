"""Reads a MuJoCo file (MJCF) through the ``mujoco`` library, which compiles its defaults away."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from pinion.installation import install_hint
from pinion.robot.errors import RobotError
from pinion.robot.faults import Draft
from pinion.robot.imported import ImportedFrame, ImportedInertial, ImportedJoint, Pose, assemble
from pinion.robot.model import JointKind, Mat3, Model, Vec3
from pinion.robot.rotation import add, multiply, rotate

# By the values of MuJoCo's mjtJoint.
_KINDS: Mapping[int, JointKind] = MappingProxyType(
    {
        0: JointKind.FREE_FLYER,
        1: JointKind.SPHERICAL,
        2: JointKind.PRISMATIC,
        3: JointKind.REVOLUTE,
    }
)


def from_mjcf(
    path: str | os.PathLike[str], *, gravity: Vec3 | None = None, snap: bool = False
) -> Model:
    """Load the moving bodies of an MJCF file.

    Parameters
    ----------
    path : the file; its worldbody becomes the fixed base.
    gravity : (3,) base coordinates [m/s^2]; the file's own when None.
    snap : take residues up to 1e-9 for zeros; MuJoCo has read the numbers, so nothing is known of
        the digits that the file writes.

    Returns
    -------
    The model; its positions are MuJoCo's qpos, in MuJoCo's order, but for quaternions, which are
    (x, y, z, w) here and (w, x, y, z) there; and the linear velocity of a free joint is in the
    body's axes here and in the world's there. Armature, damping, dry friction and
    springs of joints are read. Contacts, actuators, tendons and equality constraints are not part
    of a model; the notes say what was left out.

    Errors
    ------
    RobotError : no ``mujoco`` library, a file that it refuses, several joints in one body, or a
        joint that moves no inertia.
    """
    return read_mjcf(path, gravity=gravity, snap=snap).finished()


def read_mjcf(
    path: str | os.PathLike[str], *, gravity: Vec3 | None = None, snap: bool = False
) -> Draft:
    """The same, before its inertias are judged."""
    compiled = _compile(os.fspath(path))
    return _from_compiled(compiled, source=os.fspath(path), gravity=gravity, snap=snap)


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
        raise RobotError(f"MuJoCo refuses the file {path!r}: {reason}.") from None


def _from_compiled(
    compiled: Any, *, source: str, gravity: Vec3 | None, snap: bool = False
) -> Draft:
    # All names in one, each behind the one before it, the model's first.
    if not _is_utf8(bytes(compiled.names)):
        raise RobotError(f"The file {source!r} has a name that is not UTF-8; use other characters.")
    names = [str(compiled.body(k).name) or f"body_{k}" for k in range(int(compiled.nbody))]
    carrier: list[int] = [-1]  # the moving joint that carries each body, -1 for the base
    poses: list[Pose] = [Pose()]  # the body's frame in that joint's frame
    joints: list[ImportedJoint] = []
    inertials: list[ImportedInertial] = []
    for body in range(1, len(names)):  # MuJoCo numbers parents first
        parent = int(compiled.body_parentid[body])
        pose, carried = _behind(poses[parent], _own_pose(compiled, body)), carrier[parent]
        if int(compiled.body_jntnum[body]) > 0:
            joint, pose = _joint(compiled, body, names[body], carried, pose)
            carried = len(joints)
            joints.append(joint)
        if carried >= 0 and float(compiled.body_mass[body]) > 0.0:
            inertials.append(_inertial(compiled, body, carried, pose))
        carrier.append(carried)
        poses.append(pose)
    return assemble(
        name=bytes(compiled.names).split(b"\0")[0].decode() or "robot",
        source=source,
        joints=joints,
        inertials=inertials,
        frames=[
            ImportedFrame(name=name, joint=carried, pose=pose)
            for name, carried, pose in zip(names, carrier, poses, strict=True)
        ],
        gravity=gravity if gravity is not None else _vec3(compiled.opt.gravity),
        notes=_left_out(compiled),
        snap=snap,
    )


def _joint(
    compiled: Any, body: int, link: str, parent: int, pose: Pose
) -> tuple[ImportedJoint, Pose]:
    """A body's joint, and the body's frame in the joint's; ``pose`` is the body's at its qpos0."""
    first, count = int(compiled.body_jntadr[body]), int(compiled.body_jntnum[body])
    name = str(compiled.joint(first).name) or f"joint_{first}"
    if count > 1:
        raise RobotError(
            f"The body {link!r} has {count} joints, which is not supported; "
            "give each joint a body of its own."
        )
    kind = _KINDS[int(compiled.jnt_type[first])]
    if kind is JointKind.FREE_FLYER:
        pose = Pose()  # its positions are the body's in the world, wherever the file puts it
    anchor, axis = _vec3(compiled.jnt_pos[first]), _vec3(compiled.jnt_axis[first])
    offset = add(pose.offset, rotate(pose.rotation, anchor))
    rotation = pose.rotation
    # The file places the body at q = ref; the model's joint frame stands where q = 0 puts it.
    ref = float(compiled.qpos0[int(compiled.jnt_qposadr[first])]) if kind.nv == 1 else 0.0
    if ref != 0.0 and kind is JointKind.REVOLUTE:
        rotation = multiply(rotation, _about(axis, -ref))
    elif ref != 0.0:
        offset = add(offset, rotate(rotation, (-ref * axis[0], -ref * axis[1], -ref * axis[2])))
    # A ball joint's limit is one of its whole angle, which no coordinate is.
    limited = bool(compiled.jnt_limited[first]) and kind.nv == 1
    lower, upper = (float(value) for value in compiled.jnt_range[first])
    effort = math.inf
    # A spring of several positions draws to a pose, not to a number: it stays out of the model.
    stiffness = float(compiled.jnt_stiffness[first]) if kind.nq == 1 else 0.0
    at_rest = float(compiled.qpos_spring[int(compiled.jnt_qposadr[first])])
    if bool(compiled.jnt_actfrclimited[first]):
        effort = max(abs(float(value)) for value in compiled.jnt_actfrcrange[first])
    dof = int(compiled.jnt_dofadr[first])
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
        effort=effort,
        damping=float(compiled.dof_damping[dof]),
        friction=float(compiled.dof_frictionloss[dof]),
        armature=float(compiled.dof_armature[dof]),
        stiffness=stiffness,
        rest=at_rest if stiffness else 0.0,
    )
    x, y, z = anchor
    return joint, Pose(offset=(-x, -y, -z))


def _inertial(compiled: Any, body: int, joint: int, pose: Pose) -> ImportedInertial:
    xx, yy, zz = _vec3(compiled.body_inertia[body])
    own = Pose(
        rotation=_from_quaternion(compiled.body_iquat[body]), offset=_vec3(compiled.body_ipos[body])
    )
    placed = _behind(pose, own)
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


def _left_out(compiled: Any) -> list[str]:
    """One sentence for each thing in the file that would change the dynamics and is not kept."""
    found = {
        "equality constraints": int(compiled.neq),
        "tendons": int(compiled.ntendon),
        "springs at free and ball joints": sum(
            bool(value) and _KINDS[int(kind)].nq > 1
            for value, kind in zip(compiled.jnt_stiffness, compiled.jnt_type, strict=True)
        ),
        "gravity compensation of bodies": sum(bool(value) for value in compiled.body_gravcomp),
        "a fluid": int(bool(compiled.opt.density) or bool(compiled.opt.viscosity)),
    }
    return [f"The file has {what}, left out of the model." for what, n in found.items() if n]


def _own_pose(compiled: Any, body: int) -> Pose:
    return Pose(
        rotation=_from_quaternion(compiled.body_quat[body]), offset=_vec3(compiled.body_pos[body])
    )


def _behind(outer: Pose, inner: Pose) -> Pose:
    return Pose(
        rotation=multiply(outer.rotation, inner.rotation),
        offset=add(outer.offset, rotate(outer.rotation, inner.offset)),
    )


def _about(axis: Vec3, angle: float) -> Mat3:
    """The turn by ``angle`` about a unit axis."""
    x, y, z = axis
    half = math.sin(angle / 2.0)
    return _from_quaternion((math.cos(angle / 2.0), half * x, half * y, half * z))


def _from_quaternion(quaternion: Iterable[float]) -> Mat3:
    """Own to outer coordinates; MuJoCo's order is w, x, y, z."""
    parts = [float(value) for value in quaternion]
    norm = math.sqrt(math.fsum(value * value for value in parts))
    w, x, y, z = (value / norm for value in parts)
    return (
        (w * w + x * x - y * y - z * z, 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)),
        (2.0 * (x * y + w * z), w * w - x * x + y * y - z * z, 2.0 * (y * z - w * x)),
        (2.0 * (x * z - w * y), 2.0 * (y * z + w * x), w * w - x * x - y * y + z * z),
    )


def _vec3(values: Iterable[float]) -> Vec3:
    x, y, z = (float(value) for value in values)
    return (x, y, z)
