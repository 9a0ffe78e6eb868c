"""A robot as points and lines in a bent posture, and its drawing from any side."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pinion.base.arrays import Floats
from pinion.robot import JointKind, Model

from .html import element, number, text
from .posture import position_text as position_in_words
from .posture import posture

SIZE = 300
"""Side of a view, in user units."""

_MARGIN = 40

_AXIS = 20.0  # half length of a joint's axis, in user units
_CORNER, _ARM = 40.0, 24.0  # position and length of the base's axes

_FLAT = 0.06  # height over width below which a view shows a line

_HERE = 1e-6  # distance [m] within which two places are the same

VIEWS = (
    ("from the front: y to the right, z up", 90.0, 0.0),
    ("from the side: x to the right, z up", 0.0, 0.0),
    ("from above: x to the right, y up", 0.0, 90.0),
)
TURNED = ("turned: drag, or the arrow keys", 35.0, 22.0)
"""Caption, azimuth and elevation [degrees] of each view."""


def skeleton(robot: Model) -> dict[str, Any]:
    """Return points and lines of a robot in its :func:`pinion.report.posture.posture`.

    Returns
    -------
    ``points`` (n, 3) in the base [m]: the base, each body's joint, then the tips; ``bones``: pairs
    of points, each with the number of its body; ``axes``: directions of the joints' axes; ``tips``:
    names of the last points; ``kinds``: of the joints; ``drawn``: their positions as text.
    """
    at = posture(robot)
    turns: list[Floats] = []
    points: list[Floats] = [np.zeros(3)]
    bones: list[tuple[int, int, int]] = []
    for k, body in enumerate(robot.bodies):
        tree = body.joint.tree
        rotation, origin = np.eye(3), np.zeros(3)
        if body.parent >= 0:
            rotation, origin = turns[body.parent], points[body.parent + 1]
        turn = rotation @ np.asarray(tree.E, dtype=np.float64).T
        point = origin + rotation @ np.asarray(tree.r, dtype=np.float64)
        if body.joint.kind is JointKind.REVOLUTE:
            turn = turn @ _about_z(at[k])
        elif body.joint.kind is JointKind.PRISMATIC:
            point = point + turn[:, 2] * at[k]
        turns.append(turn)
        points.append(point)
        bones.append((body.parent + 1, k + 1, max(body.parent, 0)))
    frames = {frame.name: frame for frame in robot.frames}
    ends = set(range(len(robot.bodies))) - set(robot.parents)
    tips = []
    for k in sorted(ends):
        tip_frames = [f for n in robot.tips if (f := frames.get(n)) is not None and f.body == k]
        inertia = robot.bodies[k].inertia
        # A tip in the joint itself would omit the last link.
        if tip_frames and max(map(abs, tip_frames[0].placement.r)) > _HERE:
            name, place = (
                tip_frames[0].name,
                np.asarray(tip_frames[0].placement.r, dtype=np.float64),
            )
        elif inertia.mass > 0:
            link = tip_frames[0].name if tip_frames else robot.bodies[k].name
            name = f"{link}, drawn to its centre of mass"
            place = np.asarray(inertia.h, dtype=np.float64) / inertia.mass
        else:
            continue
        points.append(points[k + 1] + turns[k] @ place)
        bones.append((k + 1, len(points) - 1, k))
        tips.append(name)
    return {
        "points": [[_tidy(x) for x in point] for point in points],
        "bones": [list(bone) for bone in bones],
        "axes": [[_tidy(x) for x in turn[:, 2]] for turn in turns],
        "tips": tips,
        "kinds": [body.joint.kind.name.lower() for body in robot.bodies],
        "drawn": [
            position_in_words(body.joint, q) for body, q in zip(robot.bodies, at, strict=True)
        ],
    }


def _about_z(angle: float) -> Floats:
    c, s = math.cos(angle), math.sin(angle)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def is_flat(robot: dict[str, Any], view: tuple[str, float, float]) -> bool:
    """Return whether a robot of at least three points looks like a single line in a view."""
    _, azimuth, elevation = view
    points = np.array(robot["points"], dtype=np.float64)
    flattened = projected(points - points.mean(axis=0), azimuth, elevation)
    wide, narrow = np.linalg.svd(flattened, compute_uv=False)
    return len(points) > 2 and bool(narrow < _FLAT * max(wide, 1e-9))


def _tidy(value: float) -> float:
    return round(float(value), 6) + 0.0


def projected(points: Floats, azimuth: float, elevation: float) -> Floats:
    """Project points (n, 3) to (n, 2), right and up, in the same unit."""
    a, e = math.radians(azimuth), math.radians(elevation)
    right = points @ np.array([math.cos(a), math.sin(a), 0.0])
    deep = points @ np.array([-math.sin(a), math.cos(a), 0.0])
    up = points[:, 2] * math.cos(e) + deep * math.sin(e)
    return np.stack([right, up], axis=1)


def drawing(robot: dict[str, Any], view: tuple[str, float, float], *, turns: bool = False) -> str:
    """Return one view of a robot as SVG; ``turns`` marks a view that a script may rotate."""
    caption, azimuth, elevation = view
    points = np.array(robot["points"], dtype=np.float64)
    middle = (points.max(axis=0) + points.min(axis=0)) / 2
    reach = max(float(np.linalg.norm(points - middle, axis=1).max()), 1e-3)
    scale = (SIZE / 2 - _MARGIN) / reach
    flat = projected(points - middle, azimuth, elevation) * scale
    flat = np.stack([SIZE / 2 + flat[:, 0], SIZE / 2 - flat[:, 1]], axis=1)
    axes = np.array(robot["axes"], dtype=np.float64).reshape(-1, 3)
    along = projected(axes, azimuth, elevation) * _AXIS if len(axes) else np.zeros((0, 2))
    parts = [_corner(azimuth, elevation)]
    count = len(robot["axes"])
    for a, b, _ in robot["bones"]:
        # Alternating shades show where links begin and end.
        kind = f"bone {('even', 'odd')[a % 2]}{' tip' if b > count else ''}"
        parts.append(_line(flat[a], flat[b], kind, {"data-a": a, "data-b": b}))
    for k in range(count):
        at, step = flat[k + 1], along[k] * (1, -1)
        # A rim around the stroke separates it from a link that it lies in.
        for kind in ("rim", "axis"):
            parts.append(_line(at - step, at + step, kind, {"data-axis": k}))
    x, y = map(number, flat[0])
    parts.append(element("circle", {"class": "base", "cx": x, "cy": y, "r": 6, "data-p": 0}))
    for k, joint in enumerate(robot["joints"]):
        x, y = map(number, flat[k + 1])
        label = f"joint {k + 1}: {joint['name']} ({joint['kind']}), moves {joint['link']}"
        mark = {"class": f"joint {robot['kinds'][k]}", "cx": x, "cy": y, "r": 4.5, "data-p": k + 1}
        parts.append(element("circle", mark, element("title", {}, text(label))))
        at = {"class": "number", "x": number(flat[k + 1][0] + 9), "data-t": k + 1}
        parts.append(element("text", at | {"y": number(flat[k + 1][1] - 6)}, str(k + 1)))
    for k, name in enumerate(robot["tips"]):
        x, y = map(number, flat[count + 1 + k])
        mark = {"class": "end", "cx": x, "cy": y, "r": 4, "data-p": count + 1 + k}
        parts.append(element("circle", mark, element("title", {}, text(f"tip: {name}"))))
    title = f"{robot['name']}, {count} joints, bent, {caption}"
    attributes: dict[str, object] = {
        "viewBox": f"0 0 {SIZE} {SIZE}",
        "role": "img",
        "aria-label": title,
        "class": "robot turns" if turns else "robot",
    }
    if turns:
        attributes |= {"tabindex": 0, "data-azimuth": azimuth, "data-elevation": elevation}
    picture = element("svg", attributes, "".join(parts))
    return element("figure", {}, picture + element("figcaption", {}, text(caption)))


def _corner(azimuth: float, elevation: float) -> str:
    """Return the base's axes with their names as SVG, for the lower left corner."""
    directions = projected(np.eye(3), azimuth, elevation) * (1, -1)
    start = np.array([_CORNER, SIZE - _CORNER])
    parts = []
    for k, name in enumerate("xyz"):
        end, place = start + directions[k] * _ARM, start + directions[k] * (_ARM + 9.0)
        parts.append(_line(start, end, "frame", {"data-frame": k}))
        at = {"class": "number", "text-anchor": "middle", "data-name": k}
        # An axis that points at the reader cannot be labelled.
        at |= {"opacity": 1 if float(np.linalg.norm(directions[k])) > 0.2 else 0}
        at |= {"x": number(place[0]), "y": number(place[1] + 3.5)}
        parts.append(element("text", at, name))
    return "".join(parts)


def _line(a: Floats, b: Floats, kind: str, more: dict[str, object]) -> str:
    ends = {"x1": a[0], "y1": a[1], "x2": b[0], "y2": b[1]}
    return element("line", {"class": kind} | {k: number(v) for k, v in ends.items()} | more)
