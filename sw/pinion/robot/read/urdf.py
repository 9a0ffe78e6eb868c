"""Reader that turns URDF text into plain records of its content.

Only the kinematic and inertial content is read. Pinion's own elements, which other tools ignore,
are: in a joint ``<pinion rated_velocity="1.48" armature="0.2"/>``, the speed [rad/s | m/s] of the
reference distribution and the rotor's inertia reflected to the joint [kg m^2 | kg], or instead
``rotor_inertia="2e-5" gear_ratio="100"``, the rotor's inertia and its turns per turn of the joint;
``stiffness="40" rest="0.1"``, a spring [N m/rad | N/m] and its position of zero effort [rad | m];
in an ``<inertial>`` ``<pinion accept_inertia="true"/>``, which keeps published figures that no real
body can have.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from xml.etree import ElementTree

from pinion.base.amounts import decimal
from pinion.robot.errors import RobotError
from pinion.robot.model import Mimic, Vec3
from pinion.robot.naming import visible

from .document import name_of, read_bytes, robot_element, text_of
from .left_out import left_out

LARGEST = 1e30
"""Largest figure of a robot; products of larger ones could overflow."""

FARTHEST = 1e7
"""Largest coordinate [m]: a quarter of the Earth's circumference covers every map's origin."""

WIDEST = 1e6
"""Largest angle [rad]: beyond it a float's last digit is no longer a small turn."""

EXACT: Vec3 = (0.0, 0.0, 0.0)
"""Rounding of numbers that are not from a file."""

_SUPPORTED = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar")

_BOUNDED = ("revolute", "prismatic")
"""Types of joints whose position limits are meaningful."""


@dataclass(frozen=True, kw_only=True)
class UrdfInertial:
    """An ``<inertial>``: tensor (xx, xy, xz, yy, yz, zz) about the centre of mass, in its axes.

    ``rpy_rounding`` as in :class:`UrdfJoint`.
    """

    mass: float
    xyz: Vec3
    rpy: Vec3
    tensor: tuple[float, float, float, float, float, float]
    accept: bool = False
    rpy_rounding: Vec3 = EXACT


@dataclass(frozen=True, kw_only=True)
class UrdfLink:
    """A ``<link>``; ``inertial`` is None if the file has none."""

    name: str
    inertial: UrdfInertial | None


@dataclass(frozen=True, kw_only=True)
class UrdfJoint:
    """A ``<joint>``; limits are None if the file has none, or the joint's type ignores them.

    One of a pair of position limits may be infinite.

    ``rpy_rounding`` is half a unit of the last written digit of each angle of ``rpy`` [rad], the
    largest rounding error.
    """

    name: str
    type: str
    parent: str
    child: str
    xyz: Vec3
    rpy: Vec3
    axis: Vec3
    lower: float | None
    upper: float | None
    velocity: float | None
    effort: float | None
    damping: float
    friction: float
    armature: float
    stiffness: float
    rest: float
    mimic: Mimic | None
    rated_velocity: float | None
    rpy_rounding: Vec3 = EXACT


@dataclass(frozen=True, kw_only=True)
class Urdf:
    """A ``<robot>``: links and joints in document order, names checked to be unique.

    ``notes`` has a sentence on each thing that was left out or reinterpreted.
    """

    name: str
    source: str
    links: tuple[UrdfLink, ...]
    joints: tuple[UrdfJoint, ...]
    notes: tuple[str, ...] = ()


def read(path: str | os.PathLike[str]) -> Urdf:
    """Read a URDF file, without checking that its joints form a tree.

    Errors
    ------
    RobotError : the file is missing, not regular, too large or unreadable, or is not a URDF.
    """
    return parse(read_bytes(path), source=os.fspath(path))


def parse(text: str | bytes, *, source: str) -> Urdf:
    """Parse URDF text; ``source`` names it in messages.

    Errors
    ------
    RobotError : not XML, not a robot, malformed, missing or repeated values, duplicate names,
        unexpanded xacro.
    """
    root, notes = robot_element(text, source=source)
    links = tuple(_link(element, k) for k, element in enumerate(root.findall("link")))
    joints = tuple(_joint(element, k, notes) for k, element in enumerate(root.findall("joint")))
    notes += left_out(root)
    if not links:
        raise RobotError(f"The robot in {source!r} has no links; add at least two and a joint.")
    _unique("link", [link.name for link in links])
    _unique("joint", [joint.name for joint in joints])
    name = visible(text_of(root, "name", repr(source)) or Path(source).stem, "robot")
    return Urdf(name=name, source=source, links=links, joints=joints, notes=tuple(notes))


def _unique(kind: str, names: list[str]) -> None:
    used: set[str] = set()
    for name in names:
        if name in used:
            raise RobotError(
                f"The {kind} name {name!r} is used twice; give every {kind} its own name."
            )
        used.add(name)


def _link(element: ElementTree.Element, number: int) -> UrdfLink:
    name = name_of(element, "link", number)
    inertial = element.find("inertial")
    return UrdfLink(name=name, inertial=None if inertial is None else _inertial(inertial, name))


def _inertial(element: ElementTree.Element, link: str) -> UrdfInertial:
    where = f"link {link!r}"
    mass, inertia = element.find("mass"), element.find("inertia")
    if mass is None or inertia is None:
        missing = "<mass>" if mass is None else "<inertia>"
        raise RobotError(f"The <inertial> of {where} has no {missing}; add one.")
    tensor = [_required(inertia, key, where) for key in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")]
    extension = element.find("pinion")
    accept = None if extension is None else text_of(extension, "accept_inertia", where)
    if accept not in (None, "true", "false"):
        raise RobotError(
            f"The accept_inertia {accept!r} of {where} is not valid; write true or false."
        )
    xyz, rpy, rounding = _origin(element, where)
    return UrdfInertial(
        mass=_required(mass, "value", where),
        xyz=xyz,
        rpy=rpy,
        tensor=(tensor[0], tensor[1], tensor[2], tensor[3], tensor[4], tensor[5]),
        accept=accept == "true",
        rpy_rounding=rounding,
    )


def _joint(element: ElementTree.Element, number: int, notes: list[str]) -> UrdfJoint:
    name = name_of(element, "joint", number)
    where = f"joint {name!r}"
    kind = text_of(element, "type", where) or ""
    if kind not in _SUPPORTED:
        raise RobotError(
            f"The type {kind!r} of {where} is unknown; use one of {', '.join(_SUPPORTED)}."
        )
    # Only the pose of a fixed joint counts.
    moving = element if kind != "fixed" else ElementTree.Element("joint")
    dynamics, mimic, extension = (moving.find(tag) for tag in ("dynamics", "mimic", "pinion"))
    limit = moving.find("limit")
    lower, upper = _position_limits(limit if kind in _BOUNDED else None, where)
    rated = _optional(extension, "rated_velocity", where)
    if rated is not None and rated <= 0.0:
        raise RobotError(f"The rated_velocity {rated!r} of {where} must be positive.")
    xyz, rpy, rounding = _origin(element, where)
    return UrdfJoint(
        name=name,
        type=kind,
        parent=_end(element, "parent", where),
        child=_end(element, "child", where),
        xyz=xyz,
        rpy=rpy,
        axis=_axis(moving, kind, where, notes),
        lower=lower,
        upper=upper,
        velocity=_size_limit(limit, "velocity", where, notes),
        effort=_size_limit(limit, "effort", where, notes),
        damping=_not_negative(_optional(dynamics, "damping", where), "damping", where) or 0.0,
        friction=_not_negative(_optional(dynamics, "friction", where), "friction", where) or 0.0,
        armature=_armature(extension, where),
        stiffness=_not_negative(_optional(extension, "stiffness", where), "stiffness", where)
        or 0.0,
        rest=_optional(extension, "rest", where) or 0.0,
        mimic=None if mimic is None else _mimic(mimic, where),
        rated_velocity=rated,
        rpy_rounding=rounding,
    )


def _axis(joint: ElementTree.Element, kind: str, where: str, notes: list[str]) -> Vec3:
    element = joint.find("axis")
    if kind in ("fixed", "floating") or element is None:
        if kind == "planar":
            notes.append(
                f"J{where[1:]} is planar and gives no axis: its plane's normal is the format's "
                "default, (1 0 0)."
            )
        return (1.0, 0.0, 0.0)
    axis = _vector(element, "xyz", where, quantity="axis", default=None)
    if not any(axis):
        raise RobotError(f"The axis of {where} is zero; give it a direction.")
    return axis


def _position_limits(
    limit: ElementTree.Element | None, where: str
) -> tuple[float | None, float | None]:
    """Return the lower and the upper limit, None if neither is finite."""
    lower, upper = (_optional(limit, key, where, infinite=True) for key in ("lower", "upper"))
    if lower is None and upper is None:
        return None, None
    lower, upper = lower or 0.0, upper or 0.0  # the format's default for the one left out
    if lower > upper:
        raise RobotError(
            f"The limits of {where}, 0 if omitted, are reversed: lower {lower!r} is above upper "
            f"{upper!r}; swap them, or write both."
        )
    if lower == math.inf or upper == -math.inf:
        raise RobotError(
            f"The limits of {where}, {lower!r} and {upper!r}, allow no position; write -inf for "
            "lower and inf for upper, or no limits."
        )
    return (lower, upper) if math.isfinite(lower) or math.isfinite(upper) else (None, None)


def _size_limit(
    limit: ElementTree.Element | None, key: str, where: str, notes: list[str]
) -> float | None:
    """Return a limit on a magnitude; None if it is missing, infinite or -1."""
    value = _optional(limit, key, where, infinite=True)
    if value == -1.0:
        notes.append(f"J{where[1:]} has the {key} limit -1, which means no limit.")
        return None
    value = _not_negative(value, f"{key} limit", where)
    return None if value == math.inf else value


def _armature(extension: ElementTree.Element | None, where: str) -> float:
    """Return a rotor's inertia at the joint: as stated, or from its inertia and gear ratio."""
    keys = ("armature", "rotor_inertia", "gear_ratio")
    armature, rotor, ratio = (_optional(extension, key, where) for key in keys)
    armature, rotor = (
        _not_negative(x, key, where) for x, key in zip((armature, rotor), keys, strict=False)
    )
    if rotor is None and ratio is None:
        return armature or 0.0
    if armature is not None or rotor is None:
        raise RobotError(
            f"The <pinion> of {where} has the armature {armature}, the rotor_inertia {rotor} and "
            f"the gear_ratio {ratio}; give either an armature alone, or a rotor_inertia and an "
            "optional gear_ratio (default 1)."
        )
    return rotor * (1.0 if ratio is None else ratio) ** 2


def _mimic(element: ElementTree.Element, where: str) -> Mimic:
    leader = (text_of(element, "joint", where) or "").strip()
    if not leader:
        raise RobotError(f'The <mimic> of {where} names no joint; add joint="...".')
    multiplier, offset = (_optional(element, key, where) for key in ("multiplier", "offset"))
    return Mimic(
        joint=leader,
        multiplier=1.0 if multiplier is None else multiplier,
        offset=offset or 0.0,
    )


def _end(element: ElementTree.Element, tag: str, where: str) -> str:
    end = element.find(tag)
    link = "" if end is None else (text_of(end, "link", where) or "").strip()
    if not link:
        raise RobotError(f'The {where} names no {tag}; add <{tag} link="..."/>.')
    return link


def _origin(element: ElementTree.Element, where: str) -> tuple[Vec3, Vec3, Vec3]:
    """Return an origin's xyz and rpy, and half a unit in the last digit of each rpy angle."""
    origin = element.find("origin")
    zero: Vec3 = (0.0, 0.0, 0.0)
    if origin is None:
        return zero, zero, EXACT
    xyz = _vector(origin, "xyz", where, quantity="origin xyz", default=zero)
    rpy = _vector(origin, "rpy", where, quantity="origin rpy", default=zero)
    for key, vector, largest, unit in (("xyz", xyz, FARTHEST, "m"), ("rpy", rpy, WIDEST, "rad")):
        for value in vector:
            if abs(value) > largest:
                raise RobotError(
                    f"The origin {key} of {where} has the component {value!r} {unit}, larger "
                    f"than {largest:g} {unit} in magnitude; write it in {unit}."
                )
    roll, pitch, yaw = map(half_unit, origin.get("rpy", "0 0 0").split())
    return xyz, rpy, (roll, pitch, yaw)


def half_unit(number: str) -> float:
    """Return half a unit of the last digit of a written decimal number: 0.00005 for 1.5708."""
    try:
        exponent = Decimal(number).as_tuple().exponent
    except InvalidOperation:  # zero with a huge exponent
        return 0.0
    return float(Decimal((0, (5,), int(exponent) - 1)))


def _vector(
    element: ElementTree.Element, key: str, where: str, *, quantity: str, default: Vec3 | None
) -> Vec3:
    text = text_of(element, key, where)
    if text is None:
        if default is not None:
            return default
        raise RobotError(
            f"The {quantity} of {where} has no {key} attribute; add it, with three numbers."
        )
    parts = text.split()
    if len(parts) != 3:
        raise RobotError(f"The {quantity} {text!r} of {where} is malformed; write three numbers.")
    x, y, z = (_number(part, quantity, where) for part in parts)
    return (x, y, z)


def _required(element: ElementTree.Element, key: str, where: str) -> float:
    value = _optional(element, key, where)
    if value is None:
        raise RobotError(f"The <{element.tag}> of {where} has no {key}; add the attribute.")
    return value


def _optional(
    element: ElementTree.Element | None, key: str, where: str, *, infinite: bool = False
) -> float | None:
    text = None if element is None else text_of(element, key, where)
    if element is None or text is None:
        return None
    return _number(text, f"{element.tag} {key}", where, infinite=infinite)


def _number(text: str, quantity: str, where: str, *, infinite: bool = False) -> float:
    """Parse a number; with ``infinite``, one beyond `LARGEST` becomes infinite."""
    value = decimal(text)
    if value is None:
        point = " with a point, not a comma" if "," in text else ""
        raise RobotError(
            f"The {quantity} {text!r} of {where} is not a number; write a decimal number{point}."
        )
    if abs(value) <= LARGEST:
        return value
    if infinite and not math.isnan(value):
        return math.copysign(math.inf, value)
    raise RobotError(
        f"The {quantity} {text!r} of {where} is not finite or is too large; write a "
        f"number of at most {LARGEST:g} in magnitude."
    )


def _not_negative(value: float | None, quantity: str, where: str) -> float | None:
    if value is not None and value < 0.0:
        raise RobotError(f"The {quantity} {value!r} of {where} is negative; write its magnitude.")
    return value
