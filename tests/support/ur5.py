"""URDF of a UR5-like arm; its last link is a fixed `base`, as in public UR5 files."""

from __future__ import annotations

from pathlib import Path

LINK = """<link name="{name}"><inertial><origin xyz="{com}"/><mass value="{mass}"/>
<inertia ixx="{i}" ixy="0" ixz="0" iyy="{i}" iyz="0" izz="{i}"/></inertial></link>"""
JOINT = """<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>
<origin xyz="{xyz}" rpy="{rpy}"/><axis xyz="{axis}"/>
<limit lower="-6.28" upper="6.28" effort="{effort}" velocity="3.15"/></joint>"""


def like_a_ur5(path: Path) -> Path:
    """Write a URDF of six joints with a UR5's lengths and masses; its last link is `base`."""
    bodies = (
        ("shoulder", 3.7, "0 0 0", "0 0 0.089", "0 0 0", "0 0 1", 150),
        ("upper_arm", 8.39, "0 0 0.28", "0 0.136 0", "0 1.5708 0", "0 1 0", 150),
        ("forearm", 2.28, "0 0 0.25", "0 -0.12 0.425", "0 0 0", "0 1 0", 150),
        ("wrist_1", 1.22, "0 0 0", "0 0 0.392", "0 1.5708 0", "0 1 0", 28),
        ("wrist_2", 1.22, "0 0 0", "0 0.093 0", "0 0 0", "0 0 1", 28),
        ("wrist_3", 0.19, "0 0.06 0", "0 0 0.095", "0 0 0", "0 1 0", 28),
    )
    parts, parent = ['<link name="base_link"/>'], "base_link"
    for name, mass, com, xyz, rpy, axis, effort in bodies:
        parts.append(LINK.format(name=name, com=com, mass=mass, i=0.01 * mass))
        parts.append(
            JOINT.format(
                name=f"{name}_joint", kind="revolute", parent=parent, child=name, xyz=xyz, rpy=rpy,
                axis=axis, effort=effort,
            )
        )  # fmt: skip
        parent = name
    for child, parent, xyz in (("tool0", "wrist_3", "0 0.082 0"), ("base", "base_link", "0 0 0")):
        parts.append(f'<link name="{child}"/>')
        parts.append(
            JOINT.format(
                name=f"{child}_joint", kind="fixed", parent=parent, child=child, xyz=xyz,
                rpy="0 0 1.5", axis="0 0 1", effort=0,
            )
        )  # fmt: skip
    path.write_text(f'<robot name="like_a_ur5">{"".join(parts)}</robot>')
    return path
