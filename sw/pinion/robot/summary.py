"""Summary of a robot, as ``pinion info`` shows it."""

from __future__ import annotations

import math
from typing import TypedDict

from .edit.coupling import uncoupled
from .edit.subchain import tips_of
from .inertia import about_com, com
from .model import Body, Mimic, Model


class TreeTransform(TypedDict):
    """The child frame in its parent body's frame: ``E`` (3, 3) parent to child, ``r`` [m]."""

    E: list[list[float]]
    r: list[float]


class LinkSummary(TypedDict):
    """Moving body: mass [kg], centre of mass [m] and tensor about it [kg m^2], body frame."""

    name: str
    mass: float
    com: list[float]
    inertia: list[float]
    merged: list[str]


class MimicSummary(TypedDict):
    """Coupling of a joint to another: ``q = multiplier * q[joint] + offset``."""

    joint: str
    multiplier: float
    offset: float


class JointSummary(TypedDict):
    """Joint: limits [rad | m], rates [rad/s | m/s], effort [N m | N]; None if unlimited.

    ``damping_poly`` and ``stiffness_poly`` have the coefficients of second and third order.
    ``nq`` and ``nv`` are the numbers of its positions and velocities, 0 for a joint that is coupled
    to the one it mimics.
    """

    name: str
    kind: str
    nq: int
    nv: int
    continuous: bool
    parent: str
    child: str
    unit: str
    lower: float | None
    upper: float | None
    velocity: float | None
    rated_velocity: float
    effort: float | None
    damping: float
    friction: float
    armature: float
    armature_in_base: bool
    stiffness: float
    rest: float
    damping_poly: list[float]
    stiffness_poly: list[float]
    mimic: MimicSummary | None
    tree: TreeTransform


class Summary(TypedDict):
    """Summary of a robot; every value can be written as strict JSON.

    ``tip`` is the tip that functions use, None if ``tips`` has several.
    """

    name: str
    source: str
    nq: int
    nv: int
    gravity: list[float]
    total_mass: float
    max_depth: int
    base_links: list[str]
    tip: str | None
    tips: list[str]
    links: list[LinkSummary]
    joints: list[JointSummary]
    notes: list[str]


def summarise(model: Model) -> Summary:
    """Return the links, joints, limits, inertias and notes of a model.

    ``total_mass`` [kg] covers the moving bodies; ``max_depth`` is the number of joints on the
    longest path from the base.
    """
    tips = list(tips_of(model))
    depths: list[int] = []
    for body in model.bodies:
        depths.append(1 if body.parent < 0 else depths[body.parent] + 1)
    return {
        "name": model.name,
        "source": model.source,
        "nq": model.nq,
        "nv": model.nv,
        "gravity": list(model.gravity),
        "total_mass": math.fsum(body.inertia.mass for body in model.bodies),
        "max_depth": max(depths, default=0),
        "base_links": list(model.base_links),
        "tip": tips[0] if len(tips) == 1 else None,
        "tips": tips,
        "links": [_link(body) for body in model.bodies],
        "joints": [_joint(model, number) for number in range(len(model.bodies))],
        "notes": list(model.notes),
    }


def _link(body: Body) -> LinkSummary:
    return {
        "name": body.name,
        "mass": body.inertia.mass,
        "com": list(com(body.inertia)),
        "inertia": list(about_com(body.inertia)),
        "merged": list(body.links[1:]),
    }


def _joint(model: Model, number: int) -> JointSummary:
    body = model.bodies[number]
    joint = body.joint
    return {
        "name": joint.name,
        "kind": joint.kind.value,
        "nq": 0 if model.follows(body) else joint.kind.nq,
        "nv": 0 if model.follows(body) else joint.kind.nv,
        "continuous": joint.continuous,
        "parent": "base" if body.parent < 0 else model.bodies[body.parent].name,
        "child": body.name,
        "unit": joint.kind.unit,
        "lower": _finite(joint.lower),
        "upper": _finite(joint.upper),
        "velocity": _finite(joint.velocity),
        "rated_velocity": model.rated_velocity[uncoupled(model).v_slices[number].start],
        "effort": _finite(joint.effort),
        "damping": joint.damping,
        "friction": joint.friction,
        "armature": joint.armature,
        "armature_in_base": joint.armature_in_base,
        "stiffness": joint.stiffness,
        "rest": joint.rest,
        "damping_poly": list(joint.damping_poly),
        "stiffness_poly": list(joint.stiffness_poly),
        "mimic": None if joint.mimic is None else _mimic(joint.mimic),
        "tree": {"E": [list(row) for row in joint.tree.E], "r": list(joint.tree.r)},
    }


def _mimic(mimic: Mimic) -> MimicSummary:
    return {"joint": mimic.joint, "multiplier": mimic.multiplier, "offset": mimic.offset}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
