"""``pinion info``: what a robot is made of, and what canonicalisation did to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .options import Json, Robot
from .terminal import out, pairs, put_json, table

if TYPE_CHECKING:
    from pinion.robot import Summary


def command(robot: Robot, *, json: Json = False) -> None:
    """Show a robot's links, joints, limits and inertias, and what canonicalisation did."""
    from pinion.robot import load, summarise

    summary = summarise(load(robot))
    if json:
        put_json(summary)
        return
    _show(summary)


def _show(summary: Summary) -> None:
    console = out()
    gravity = ", ".join(f"{g:g}" for g in summary["gravity"])
    rows: list[tuple[str, object]] = [
        ("source", summary["source"]),
        ("joints", summary["nv"]),
        ("longest chain", f"{summary['max_depth']} joints"),
        ("moving mass", f"{summary['total_mass']:.6g} kg"),
        ("gravity", f"({gravity}) m/s^2"),
        ("fixed base", ", ".join(summary["base_links"])),
    ]
    console.print(pairs(rows, title=summary["name"]))
    console.print(
        table(
            "joint",
            "kind",
            "parent",
            "moves",
            "lower",
            "upper",
            "speed",
            "rated",
            "effort",
            rows=[
                (
                    j["name"],
                    "continuous" if j["continuous"] else j["kind"],
                    j["parent"],
                    j["child"],
                    j["lower"],
                    j["upper"],
                    j["velocity"],
                    j["rated_velocity"],
                    j["effort"],
                )
                for j in summary["joints"]
            ],
            title="Joints (rad, rad/s, N m; prismatic: m, m/s, N)",
            left=4,
        )
    )
    console.print(
        table(
            "link",
            "mass",
            *("x", "y", "z"),
            *("Ixx", "Ixy", "Ixz", "Iyy", "Iyz", "Izz"),
            "merged",
            rows=[
                (
                    link["name"],
                    link["mass"],
                    *(_tidy(v) for v in link["com"]),
                    *(_tidy(v) for v in link["inertia"]),
                    len(link["merged"]),
                )
                for link in summary["links"]
            ],
            title="Links (kg; centre of mass in m; inertia about it in kg m^2; joint frames)",
        )
    )
    if summary["notes"]:
        console.print("Canonicalisation", style="bold")
        for note in summary["notes"]:
            console.print(f"  - {note}")


def _tidy(value: float) -> float:
    """Nothing at all, where a figure is less than anyone can measure of a link."""
    return value if abs(value) >= 1e-9 else 0.0
