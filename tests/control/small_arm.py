"""An arm of three joints whose tip can move in any direction, and its figure-eight."""

from __future__ import annotations

from pathlib import Path

from pinion.control.track.disturbance import Disturbance
from pinion.control.track.scenario import Scenario

LINK = """<link name="{name}"><inertial><origin xyz="0.15 0 0"/><mass value="{mass}"/>
<inertia ixx="0.002" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.02"/></inertial></link>"""
JOINT = """<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>
<origin xyz="{xyz}" rpy="0 0 0"/>{more}</joint>"""
MORE = '<axis xyz="{axis}"/><limit lower="-2.5" upper="2.5" effort="40" velocity="6"/>'


def urdf(path: Path) -> Path:
    """Return the arm as URDF."""
    links = [LINK.format(name=f"link_{k}", mass=m) for k, m in ((1, 2.0), (2, 1.5), (3, 1.0))]
    joints = [
        JOINT.format(
            name=f"joint_{k}",
            kind="revolute",
            parent=parent,
            child=f"link_{k}",
            xyz=xyz,
            more=MORE.format(axis=axis),
        )
        for k, parent, xyz, axis in (
            (1, "base", "0 0 0.3", "0 0 1"),
            (2, "link_1", "0 0 0.1", "0 1 0"),
            (3, "link_2", "0.3 0 0", "0 1 0"),
        )
    ]
    tip = JOINT.format(
        name="tip", kind="fixed", parent="link_3", child="hand", xyz="0.3 0 0", more=""
    )
    parts = ['<link name="base"/>', *links, '<link name="hand"/>', *joints, tip]
    path.write_text(f'<robot name="arm">{"".join(parts)}</robot>')
    return path


def scenario(path: Path, *, duration: float = 0.1) -> Scenario:
    """Return the arm's figure-eight: a second per lap, as wide as a hand."""
    return Scenario(
        robot=str(urdf(path)),
        posture=(0.0, -0.7, 1.4),
        width=0.12,
        height=0.08,
        lap=1.0,
        ramp=0.05,
        duration=duration,
        period=0.004,
        inner=4,
        step=0.008,
        knots=8,
        disturbance=Disturbance(payload=0.3, damping=0.1, friction=0.2, delay=0.004),
    )
