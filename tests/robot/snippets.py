"""Pieces of URDF text: two boxes and a joint, each with room for a change."""

from __future__ import annotations

import re
from collections.abc import Callable

BOX = 'ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"'


def link(name: str, mass: str = "1", inertia: str = BOX, extra: str = "") -> str:
    """Return a link with an inertial."""
    return (
        f'<link name="{name}"><inertial><mass value="{mass}"/><inertia {inertia}/>{extra}'
        "</inertial></link>"
    )


def joint(
    name: str = "j", parent: str = "a", child: str = "b", kind: str = "revolute", extra: str = ""
) -> str:
    """Return a joint with limits."""
    limit = '<limit lower="-1" upper="1" effort="1" velocity="1"/>' if "<limit" not in extra else ""
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f"{limit}{extra}</joint>"
    )


def robot(*parts: str) -> str:
    """Return a robot with these parts."""
    return f'<robot name="r">{"".join(parts)}</robot>'


def tensor(**changes: str) -> str:
    """Return the box's tensor with some entries replaced."""
    entries = dict(ixx="0.1", ixy="0", ixz="0", iyy="0.1", iyz="0", izz="0.1") | changes
    return " ".join(f'{key}="{value}"' for key, value in entries.items())


def rewritten(text: str, write: Callable[[float], str]) -> str:
    """Rewrite each angle of a URDF with ``write``."""

    def angles(match: re.Match[str]) -> str:
        return 'rpy="' + " ".join(write(float(angle)) for angle in match[1].split()) + '"'

    return re.sub(r'rpy="([^"]*)"', angles, text)


def with_decimals(decimals: int) -> Callable[[float], str]:
    """Return a writer of angles with at most this many decimals."""
    return lambda angle: repr(round(angle, decimals))


A, B, C = '<link name="a"/>', link("b"), link("c")
