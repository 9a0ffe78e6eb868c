"""Generated robots as URDF text: small ones for examples, random ones for tests."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from xml.sax.saxutils import quoteattr

import numpy as np

from .errors import RobotError

GENERATED = ("pendulum", "two_link", "chain_N")
"""Names of the generated robots; N is a number of joints, 1 or more."""

_CHAIN = re.compile(r"chain_(.*)")


def is_generated(name: str) -> bool:
    """Return whether ``name`` looks like the name of a generated robot."""
    return name in GENERATED[:2] or _CHAIN.fullmatch(name) is not None


def generated_text(name: str) -> str:
    """Return the URDF text of a generated robot.

    Errors
    ------
    RobotError : not a generated robot, or an N of ``chain_N`` that is not a number of at least 1.
    """
    if name == "pendulum":
        return pendulum()
    if name == "two_link":
        return two_link()
    match = _CHAIN.fullmatch(name)
    if match is None:
        raise RobotError(f"{name!r} is not a generated robot; use one of {', '.join(GENERATED)}.")
    count = match[1]
    if not (count.isascii() and count.isdecimal() and count[0] != "0"):
        raise RobotError(
            f"{name!r} is not a chain: write chain_N with the number of joints as N, 1 or more, "
            "without leading zeros."
        )
    return chain(int(count))


def pendulum() -> str:
    """Return the URDF of a rod of 1 kg and 0.5 m, hanging from a joint about y, with a ``tip``."""
    rod = _rod(1, parent="base", origin=(0.0, 0.0, 1.0))
    return _robot("pendulum", [_base(), *rod, *_tip("link_1", z=-0.5)])


def two_link() -> str:
    """Return the URDF of a planar arm: two rods of 1 kg and 0.5 m in series, with a ``tip``."""
    first = _rod(1, parent="base", origin=(0.0, 0.0, 1.5))
    second = _rod(2, parent="link_1", origin=(0.0, 0.0, -0.5))
    return _robot("two_link", [_base(), *first, *second, *_tip("link_2", z=-0.5)])


def chain(joints: int) -> str:
    """Return the URDF of a spatial chain of revolute joints whose axes are z, y, x in turn.

    Each link is a tube of 0.25 m and 50 mm radius beside its axis; the masses fall from 4 kg by a
    tenth per link to 0.5 kg; ``tip`` is the end of the last link.
    """
    if joints < 1:
        raise RobotError(f"A chain needs 1 or more joints, not {joints}.")
    length, radius = 0.25, 0.05
    parts = [_base()]
    for k in range(joints):
        mass = round(max(4.0 * 0.9**k, 0.5), 4)
        across = round(mass * (3.0 * radius**2 + length**2) / 12.0, 8)
        along = round(mass * radius**2 / 2.0, 8)
        parts.append(
            link_xml(
                f"link_{k + 1}",
                mass=mass,
                com=(0.01, -0.006, length / 2.0),
                tensor=(across, 0.0, 0.0, across, 0.0, along),
            )
        )
        parts.append(
            joint_xml(
                f"joint_{k + 1}",
                "revolute",
                parent=f"link_{k}" if k else "base",
                child=f"link_{k + 1}",
                xyz=(0.0, 0.0, length if k else 0.1),
                axis=((0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (1.0, 0.0, 0.0))[k % 3],
                limit=(-2.5, 2.5, 100.0, 2.0),
                damping=0.1,
            )
        )
    return _robot(f"chain_{joints}", [*parts, *_tip(f"link_{joints}", z=length)])


def random_tree(
    rng: np.random.Generator, joints: int, prismatic: bool = True, continuous: bool = False
) -> str:
    """Return the URDF text of a random tree of joints, for tests.

    The tree's shape, axes (coordinate axes of both signs and oblique ones), origins and physical
    inertias are sampled from ``rng``, with fixed links in between, at the ends and at the base.

    Parameters
    ----------
    rng : source of every choice; the same state gives the same text.
    joints : number of moving joints, 1 or more.
    prismatic, continuous : whether such joints occur besides revolute ones.
    """
    if joints < 1:
        raise RobotError(f"A tree needs 1 or more joints, not {joints}.")
    links, parts, fixed = ["base"], [_random_link(rng, "base")], 0
    for k in range(1, joints + 1):
        parent = links[int(rng.integers(len(links)))]
        if rng.random() < 0.4:
            fixed += 1
            name = f"mount_{fixed}"
            # Some frames have no mass, as in real files.
            massless = rng.random() < 0.3
            parts.append(link_xml(name) if massless else _random_link(rng, name))
            xyz, rpy = _random_origin(rng)
            parts.append(
                joint_xml(f"fixed_{fixed}", "fixed", parent=parent, child=name, xyz=xyz, rpy=rpy)
            )
            if rng.random() < 0.7:
                parent = name
            links.append(name)
        kind = "revolute"
        if prismatic and rng.random() < 0.3:
            kind = "prismatic"
        elif continuous and rng.random() < 0.3:
            kind = "continuous"
        limit = (-2.0, 2.0, 50.0, 3.0) if kind == "revolute" else (-0.5, 0.5, 50.0, 1.0)
        parts.append(_random_link(rng, f"link_{k}"))
        xyz, rpy = _random_origin(rng)
        parts.append(
            joint_xml(
                f"joint_{k}",
                kind,
                parent=parent,
                child=f"link_{k}",
                xyz=xyz,
                rpy=rpy,
                axis=_random_axis(rng),
                limit=limit,
            )
        )
        links.append(f"link_{k}")
    return _robot("random_tree", parts)


def link_xml(
    name: str,
    *,
    mass: float | None = None,
    com: Sequence[float] = (0.0, 0.0, 0.0),
    rpy: Sequence[float] = (0.0, 0.0, 0.0),
    tensor: Sequence[float] = (0.0,) * 6,
    accept: bool = False,
) -> str:
    """Return a ``<link>``; ``tensor`` has xx, xy, xz, yy, yz, zz about the com [kg m^2]."""
    if mass is None:
        return f"  <link name={quoteattr(name)}/>"
    keys = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    values = " ".join(f'{key}="{_num(value)}"' for key, value in zip(keys, tensor, strict=True))
    lines = [
        f"  <link name={quoteattr(name)}>",
        "    <inertial>",
        f"      {_origin_xml(com, rpy)}",
        f'      <mass value="{_num(mass)}"/>',
        f"      <inertia {values}/>",
        *(['      <pinion accept_inertia="true"/>'] if accept else []),
        "    </inertial>",
        "  </link>",
    ]
    return "\n".join(lines)


# Many parameters: the attributes of a URDF's joint.
def joint_xml(
    name: str,
    kind: str,
    *,
    parent: str,
    child: str,
    xyz: Sequence[float] = (0.0, 0.0, 0.0),
    rpy: Sequence[float] = (0.0, 0.0, 0.0),
    axis: Sequence[float] | None = None,
    limit: tuple[float, float, float, float] | None = None,
    damping: float | None = None,
    friction: float | None = None,
    mimic: tuple[str, float] | None = None,
    rated_velocity: float | None = None,
) -> str:
    """Return a ``<joint>``; ``limit`` is (lower, upper, effort, velocity) in the joint's units."""
    lines = [
        f'  <joint name={quoteattr(name)} type="{kind}">',
        f"    <parent link={quoteattr(parent)}/>",
        f"    <child link={quoteattr(child)}/>",
        f"    {_origin_xml(xyz, rpy)}",
    ]
    if axis is not None:
        lines.append(f'    <axis xyz="{_nums(axis)}"/>')
    if limit is not None:
        lower, upper, effort, velocity = map(_num, limit)
        bounds = "" if kind == "continuous" else f'lower="{lower}" upper="{upper}" '
        lines.append(f'    <limit {bounds}effort="{effort}" velocity="{velocity}"/>')
    if damping is not None or friction is not None:
        loss = f'damping="{_num(damping or 0.0)}" friction="{_num(friction or 0.0)}"'
        lines.append(f"    <dynamics {loss}/>")
    if mimic is not None:
        lines.append(f'    <mimic joint={quoteattr(mimic[0])} multiplier="{_num(mimic[1])}"/>')
    if rated_velocity is not None:
        lines.append(f'    <pinion rated_velocity="{_num(rated_velocity)}"/>')
    return "\n".join([*lines, "  </joint>"])


def _robot(name: str, parts: Iterable[str]) -> str:
    body = "\n".join(parts)
    return f'<?xml version="1.0"?>\n<robot name={quoteattr(name)}>\n{body}\n</robot>\n'


def _base() -> str:
    return link_xml("base")


def _tip(parent: str, *, z: float) -> tuple[str, str]:
    """Return the link and fixed joint of a massless ``tip``, ``z`` [m] along the parent's z."""
    return (
        link_xml("tip"),
        joint_xml("tip_joint", "fixed", parent=parent, child="tip", xyz=(0.0, 0.0, z)),
    )


def _rod(number: int, *, parent: str, origin: Sequence[float]) -> tuple[str, str]:
    """Return the link and joint of a rod of 1 kg, 0.5 m long, hanging from a joint about y."""
    mass, length, radius = 1.0, 0.5, 0.01
    across = round(mass * (3.0 * radius**2 + length**2) / 12.0, 9)
    along = round(mass * radius**2 / 2.0, 9)
    return (
        link_xml(
            f"link_{number}",
            mass=mass,
            com=(0.0, 0.0, -length / 2.0),
            tensor=(across, 0.0, 0.0, across, 0.0, along),
        ),
        joint_xml(
            f"joint_{number}",
            "revolute",
            parent=parent,
            child=f"link_{number}",
            xyz=origin,
            axis=(0.0, 1.0, 0.0),
            limit=(-3.1, 3.1, 20.0, 6.0),
        ),
    )


def _random_link(rng: np.random.Generator, name: str) -> str:
    """Return a ``<link>`` with a physical inertia, computed from a random covariance."""
    mass = float(rng.uniform(0.5, 5.0))
    factor = rng.normal(size=(3, 3)) * 0.08 + 0.05 * np.eye(3)
    spread = mass * (factor @ factor.T + 1e-4 * np.eye(3))
    full = np.trace(spread) * np.eye(3) - spread
    return link_xml(
        name,
        mass=mass,
        com=rng.uniform(-0.2, 0.2, 3).tolist(),
        rpy=rng.uniform(-3.0, 3.0, 3).tolist() if rng.random() < 0.5 else (0.0, 0.0, 0.0),
        tensor=full[np.triu_indices(3)].tolist(),
    )


def _random_origin(rng: np.random.Generator) -> tuple[list[float], list[float]]:
    """Return a position [m] and angles [rad], which are right angles in half of the samples."""
    xyz: list[float] = rng.uniform(-0.4, 0.4, 3).tolist()
    if rng.random() < 0.5:
        return xyz, [float(k) * math.pi / 2.0 for k in rng.integers(-2, 3, 3)]
    return xyz, rng.uniform(-3.0, 3.0, 3).tolist()


def _random_axis(rng: np.random.Generator) -> list[float]:
    if rng.random() < 0.5:
        axis = [0.0, 0.0, 0.0]
        axis[int(rng.integers(3))] = float(rng.choice([-1.0, 1.0]))
        return axis
    oblique = rng.normal(size=3)
    unit: list[float] = (oblique / np.linalg.norm(oblique)).tolist()
    return unit


def _origin_xml(xyz: Sequence[float], rpy: Sequence[float]) -> str:
    return f'<origin xyz="{_nums(xyz)}" rpy="{_nums(rpy)}"/>'


def _nums(values: Iterable[float]) -> str:
    return " ".join(map(_num, values))


def _num(value: float) -> str:
    """Return the shortest text that reads back as the same float, without a trailing ``.0``."""
    text = repr(float(value))
    return text[:-2] if text.endswith(".0") else text
