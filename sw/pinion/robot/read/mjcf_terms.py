"""Joint terms of a compiled MJCF file, and notes on what a model cannot represent.

MuJoCo's inverse dynamics (``mj_inverse``) uses more of a file than the bodies: flags of
``<option>`` disable parts, actuators add armature and damping to their joints by the square of
their gear, damping and stiffness have higher-order coefficients. ``docs/robot-files.md`` has every
field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.base.arrays import Floats
from pinion.robot.model import Vec3

_FREE, _BALL = 0, 1
"""Values of MuJoCo's mjtJoint; slide and hinge, which have one position, are larger."""

_JOINT_TRANSMISSIONS = (0, 1)
"""Values of MuJoCo's mjtTrn for actuators of joints: ``joint`` and ``jointinparent``."""

LOOPS: Mapping[int, str] = MappingProxyType({0: "3d", 1: "6d"})
"""Kinds of loops by the values of MuJoCo's mjtEq for ``connect`` and ``weld``."""

_SITE = 6
"""Value of MuJoCo's mjtObj for sites."""

_ORDERS = 2
"""Coefficients of damping and stiffness beyond the linear one."""


@dataclass(frozen=True, kw_only=True)
class FileTerms:
    """Joint terms as MuJoCo's inverse dynamics uses them, zero if a flag disables them.

    Members
    -------
    gravity : (3,) [m/s^2].
    armature, damping, friction : (nv,) of each velocity, including actuators' contributions.
    damping_poly : (nv, 2) coefficients of v |v| and of v^3.
    stiffness : (njnt,) of joints of one position, 0 for others.
    stiffness_poly : (njnt, 2) coefficients of x^2 and of x^3.
    limited : (njnt,) whether a joint of one position has limits.
    effort_ranges : (njnt, 2) least and largest efforts; infinite without limits.
    notes : one sentence for each thing that is not in the model, or that a flag disabled.
    """

    gravity: Vec3
    armature: Floats
    damping: Floats
    friction: Floats
    damping_poly: Floats
    stiffness: Floats
    stiffness_poly: Floats
    limited: NDArray[np.bool_]
    effort_ranges: Floats
    notes: tuple[str, ...]


def file_terms(compiled: Any, joint_names: list[str], gravity: Vec3 | None) -> FileTerms:
    """Read the joint terms of an ``mjModel``.

    ``joint_names`` are used in the notes; ``gravity`` replaces the file's.
    """
    kind = np.array(compiled.jnt_type)
    joint = np.array(compiled.dof_jntid)
    free = kind[joint] == _FREE
    several = kind <= _BALL
    figures = {
        "armature": np.array(compiled.dof_armature),
        "damping": np.array(compiled.dof_damping),
        "friction": np.array(compiled.dof_frictionloss),
        "damping_poly": _polynomial(compiled, "dof_dampingpoly", len(joint)),
        "stiffness": np.array(compiled.jnt_stiffness),
        "stiffness_poly": _polynomial(compiled, "jnt_stiffnesspoly", len(kind)),
    }
    for at, output in _driven(compiled):
        squared = float(compiled.actuator_gear[output, 0]) ** 2
        ours = joint == compiled.actuator_trnid[at, 0]
        for name in ("armature", "damping"):
            value = getattr(compiled, f"actuator_{name}", None)
            figures[name][ours] += 0.0 if value is None else squared * float(value[at])
        poly = _polynomial(compiled, "actuator_dampingpoly", at + 1)[at]
        figures["damping_poly"][ours] += squared * poly
    limited = np.array(compiled.jnt_limited, dtype=bool) & ~several
    notes = []
    for flag, names in (
        ("damper", ("damping", "damping_poly")),
        ("spring", ("stiffness", "stiffness_poly")),
        ("frictionloss", ("friction",)),
    ):
        if _off(compiled, flag):
            notes += _switched_off(flag, any(figures[name].any() for name in names))
            for name in names:
                figures[name][:] = 0.0
    if _off(compiled, "limit"):
        notes += _switched_off("limit", bool(limited.any()))
        limited[:] = False
    if gravity is None:
        x, y, z = (float(value) for value in compiled.opt.gravity)
        gravity = (x, y, z)
        if _off(compiled, "gravity"):
            notes += _switched_off("gravity", any(gravity))
            gravity = (0.0, 0.0, 0.0)
    notes += _of_free_joints(figures, free, [joint_names[k] for k in joint])
    figures["damping_poly"][free] = 0.0
    springs = several & (figures["stiffness"].astype(bool) | figures["stiffness_poly"].any(axis=1))
    figures["stiffness"][several] = figures["stiffness_poly"][several] = 0.0
    notes += _left_out(compiled, gravity, springs=int(springs.sum()))
    return FileTerms(
        gravity=gravity,
        limited=limited,
        effort_ranges=_effort_ranges(compiled),
        notes=tuple(notes),
        **figures,
    )


def _effort_ranges(compiled: Any) -> Floats:
    """Return the lowest and highest effort of each joint, (njnt, 2); infinite without limits.

    The ranges of the joints and the sums of their actuators' apply. An actuator has that of its
    force and, if the force is its control times a constant, of its control.
    """
    limited = np.array(compiled.jnt_actfrclimited, dtype=bool)
    clamped = not _off(compiled, "clampctrl")
    ranges = np.where(limited[:, None], np.array(compiled.jnt_actfrcrange), [-np.inf, np.inf])
    sums: dict[int, Floats] = {}
    controls = getattr(compiled, "actuator_ctrladr", range(len(compiled.actuator_trntype)))
    for at, output in _driven(compiled):
        force, control = np.array([-np.inf, np.inf]), controls[at]
        if compiled.actuator_forcelimited[output]:
            force = np.array(compiled.actuator_forcerange[output])
        kinds = (compiled.actuator_gaintype, compiled.actuator_biastype, compiled.actuator_dyntype)
        motor = not any(kind[at] for kind in kinds)
        if clamped and motor and compiled.actuator_ctrllimited[control]:
            ends = compiled.actuator_gainprm[at, 0] * compiled.actuator_ctrlrange[control]
            force = np.clip(np.sort(ends), *force)
        gear = float(compiled.actuator_gear[output, 0])
        if gear:
            joint = int(compiled.actuator_trnid[at, 0])
            sums[joint] = sums.get(joint, np.zeros(2)) + np.sort(gear * force)
    for joint, force in sums.items():
        ranges[joint] = np.clip(force, *ranges[joint])
    return ranges


def _driven(compiled: Any) -> list[tuple[int, int]]:
    """Return the numbers of the actuators that drive joints, each with its output's number."""
    addresses = getattr(compiled, "actuator_outadr", range(len(compiled.actuator_trntype)))
    return [
        (at, int(addresses[at]))
        for at, transmission in enumerate(compiled.actuator_trntype)
        if int(transmission) in _JOINT_TRANSMISSIONS
    ]


def _polynomial(compiled: Any, name: str, count: int) -> Floats:
    """Return higher-order coefficients (count, 2); zeros in MuJoCo releases without them."""
    coefficients = getattr(compiled, name, None)
    return np.zeros((count, _ORDERS)) if coefficients is None else np.array(coefficients)


def _off(compiled: Any, flag: str) -> bool:
    """Return whether the file's ``<option>`` disables the feature of a flag."""
    bits = import_module("mujoco").mjtDisableBit
    names = {flag} | {
        "frictionloss": {"constraint"},
        "limit": {"constraint"},
        "equality": {"constraint"},
        "contact": {"constraint"},
        "damper": {"passive"},  # both at once, up to MuJoCo 3.3
        "spring": {"passive"},
    }.get(flag, set())
    disabled = int(compiled.opt.disableflags)
    return any(disabled & int(getattr(bits, f"mjDSBL_{name.upper()}", 0)) for name in names)


def _switched_off(flag: str, matters: bool) -> list[str]:
    if not matters:
        return []
    subject = {
        "damper": "the damping of joints",
        "spring": "springs of joints",
        "frictionloss": "the dry friction of joints",
        "limit": "the limits of joints",
        "gravity": "gravity",
    }[flag]
    return [f"The file disables {subject} by a flag of its <option>: the model has none."]


def _of_free_joints(
    figures: dict[str, Floats], free: NDArray[np.bool_], names: list[str]
) -> list[str]:
    """Return notes on terms that act along world axes in MuJoCo but along body axes in a model."""
    notes = []
    for dof in np.flatnonzero(free)[::6]:
        name = names[dof]
        if friction := figures["friction"][dof]:
            notes.append(
                f"The free joint {name!r} has dry friction of {friction:g}, which acts along the "
                "axes of the world in MuJoCo, and along those of the body in the model."
            )
        if figures["damping_poly"][dof].any():
            notes.append(
                f"The free joint {name!r} has higher-order damping, left out of the model."
            )
    return notes


def _left_out(compiled: Any, gravity: Vec3, springs: int) -> list[str]:
    """Return a sentence on each feature of the file that affects dynamics and is left out.

    ``gravity`` is the model's.
    """
    active = not (_off(compiled, "damper") and _off(compiled, "spring"))  # other passive forces
    option = compiled.opt
    bits = import_module("mujoco").mjtEnableBit
    omissions = {
        "equality constraints other than connect and weld": not _off(compiled, "equality")
        and any(int(kind) not in LOOPS for kind in compiled.eq_type),
        "equality constraints that are inactive at the start": not _off(compiled, "equality")
        and not all(_active(compiled)),
        "contacts between geoms": not _off(compiled, "contact") and _may_touch(compiled),
        "tendons": compiled.ntendon,
        "flexible bodies": getattr(compiled, "nflex", 0),
        "plugins": getattr(compiled, "nplugin", 0),
        "springs at free and ball joints": springs,
        "springs that yield": np.any(getattr(compiled, "jnt_springyield", 0)),
        "limits of ball joints": not _off(compiled, "limit")
        and np.any(np.array(compiled.jnt_limited)[np.array(compiled.jnt_type) == _BALL]),
        "gravity compensation of bodies": active
        and any(gravity)
        and np.any(compiled.body_gravcomp),
        "a fluid": active and (option.density or option.viscosity),
        "discrete-time accelerations in inverse dynamics (invdiscrete)": int(option.enableflags)
        & int(getattr(bits, "mjENBL_INVDISCRETE", 0)),
    }
    notes = [
        f"The file has {omission}, left out of the model."
        for omission, present in omissions.items()
        if present
    ]
    if int(compiled.nmocap):
        notes.append("The file has mocap bodies, which stand still in the model.")
    return notes


def file_loops(compiled: Any, names: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return the frames and kind of each ``connect`` and ``weld`` that is active at the start.

    ``names`` : of the bodies, with which the frames begin.
    """
    if _off(compiled, "equality"):
        return []
    active, loops = _active(compiled), []
    for number in range(int(compiled.neq)):
        kind = LOOPS.get(int(compiled.eq_type[number]))
        if kind is None or not active[number]:
            continue
        ends = [int(compiled.eq_obj1id[number]), int(compiled.eq_obj2id[number])]
        data = np.array(compiled.eq_data[number])
        points = [data[3:6], data[:3]] if kind == "6d" else [data[:3], data[3:6]]
        if int(compiled.eq_objtype[number]) == _SITE:
            points = [np.array(compiled.site_pos[site]) for site in ends]
            ends = [int(compiled.site_bodyid[site]) for site in ends]
        first, second = (
            f"{names[body]}@{','.join(repr(float(x)) for x in point)}"
            for body, point in zip(ends, points, strict=True)
        )
        loops.append((first, second, kind))
    return loops


def _active(compiled: Any) -> NDArray[np.bool_]:
    """Return whether each equality constraint is active at the start."""
    return np.array(compiled.eq_active0, dtype=np.bool_)


def _may_touch(compiled: Any) -> bool:
    """Return whether MuJoCo checks any two geoms for contact, or the file lists pairs."""
    if int(compiled.npair):
        return True
    weld = np.array(compiled.body_weldid)
    body = weld[np.array(compiled.geom_bodyid)]
    above = weld[np.array(compiled.body_parentid)[body]]
    types, affinities = (
        np.array(getattr(compiled, f"geom_{n}")) for n in ("contype", "conaffinity")
    )
    filtered = not _off(compiled, "filterparent")
    for k in range(len(body)):
        meets = (types[k] & affinities[:k]) | (types[:k] & affinities[k])
        others = body[:k]
        apart = others != body[k]
        if filtered:  # a body does not touch its parent, unless that is the world
            apart &= ~((above[k] == others) & (others != 0))
            apart &= ~((above[:k] == body[k]) & (body[k] != 0))
        if np.any(meets.astype(bool) & apart):
            return True
    return False
