"""Lossless conversion of a model to JSON data and back.

Floats are numbers (Python writes the shortest text that reads back as the same float); infinite
limits, which JSON lacks, are the strings ``"inf"`` and ``"-inf"``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from .errors import RobotError
from .model import Body, Frame, Inertia, Joint, JointKind, Mat3, Mimic, Model, Transform, vec3

FORMAT = "pinion-model-1"
"""Version of the data's layout; the reader refuses any other."""


def model_to_dict(model: Model) -> dict[str, Any]:
    """Return the model as dictionaries, lists, strings and finite numbers."""
    return {
        "format": FORMAT,
        "name": model.name,
        "source": model.source,
        "gravity": list(model.gravity),
        "bodies": [_body_to(body) for body in model.bodies],
        "base_links": list(model.base_links),
        "frames": [
            {"name": frame.name, "body": frame.body, "placement": _transform_to(frame.placement)}
            for frame in model.frames
        ],
        "notes": list(model.notes),
        "rated_velocity": [_number_to(value) for value in model.rated_velocity],
        **({"coupled": True} if model.coupled else {}),
        **({"tips": list(model.tips)} if model.tips else {}),
        **({"fixed_joints": dict(model.fixed_joints)} if model.fixed_joints else {}),
        **({"contacts": list(model.contacts)} if model.contacts else {}),
        **({"loops": [list(loop) for loop in model.loops]} if model.loops else {}),
    }


def model_from_dict(data: Mapping[str, Any]) -> Model:
    """Return the model that ``model_to_dict`` described, bit for bit.

    Errors
    ------
    RobotError : the data is not of this format or lacks a key.
    """
    layout = data.get("format")
    if layout != FORMAT:
        raise RobotError(
            f"The stored model's format is {layout!r}, not {FORMAT!r}; build it again."
        )
    try:
        return Model(
            name=str(data["name"]),
            source=str(data["source"]),
            gravity=vec3(data["gravity"]),
            bodies=tuple(_body_from(body) for body in data["bodies"]),
            base_links=tuple(data["base_links"]),
            frames=tuple(
                Frame(
                    name=frame["name"],
                    body=frame["body"],
                    placement=_transform_from(frame["placement"]),
                )
                for frame in data["frames"]
            ),
            notes=tuple(data["notes"]),
            rated_velocity=tuple(map(_number_from, data["rated_velocity"])),
            coupled=bool(data.get("coupled", False)),
            tips=tuple(data.get("tips", ())),
            fixed_joints=tuple(dict(data.get("fixed_joints", {})).items()),
            contacts=tuple(map(str, data.get("contacts", ()))),
            loops=tuple((str(a), str(b), str(kind)) for a, b, kind in data.get("loops", ())),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RobotError(
            f"The stored model is damaged ({type(error).__name__}: {error}); build it again."
        ) from None


def _body_to(body: Body) -> dict[str, Any]:
    joint = body.joint
    return {
        "name": body.name,
        "parent": body.parent,
        "joint": {
            "name": joint.name,
            "kind": joint.kind.value,
            "continuous": joint.continuous,
            "tree": _transform_to(joint.tree),
            "lower": _number_to(joint.lower),
            "upper": _number_to(joint.upper),
            "velocity": _number_to(joint.velocity),
            "effort": _number_to(joint.effort),
            "damping": joint.damping,
            "friction": joint.friction,
            "armature": joint.armature,
            "mimic": None if joint.mimic is None else asdict(joint.mimic),
            **({"pitch": joint.pitch} if joint.pitch else {}),
            **({"stiffness": joint.stiffness} if joint.stiffness else {}),
            **({"rest": joint.rest} if joint.rest else {}),
            **({"armature_in_base": True} if joint.armature_in_base else {}),
            **{
                name: list(getattr(joint, name))
                for name in ("damping_poly", "stiffness_poly")
                if any(getattr(joint, name))
            },
        },
        "inertia": {
            "mass": body.inertia.mass,
            "h": list(body.inertia.h),
            "I": list(body.inertia.I),
        },
        "links": list(body.links),
    }


def _body_from(data: Mapping[str, Any]) -> Body:
    joint, inertia = data["joint"], data["inertia"]
    xx, xy, xz, yy, yz, zz = map(float, inertia["I"])
    return Body(
        name=data["name"],
        parent=data["parent"],
        joint=Joint(
            name=joint["name"],
            kind=JointKind(joint["kind"]),
            continuous=joint["continuous"],
            tree=_transform_from(joint["tree"]),
            lower=_number_from(joint["lower"]),
            upper=_number_from(joint["upper"]),
            velocity=_number_from(joint["velocity"]),
            effort=_number_from(joint["effort"]),
            damping=float(joint["damping"]),
            friction=float(joint["friction"]),
            # Absent from older models, or if zero.
            armature=float(joint.get("armature", 0.0)),
            mimic=_mimic_from(joint.get("mimic")),
            pitch=float(joint.get("pitch", 0.0)),
            stiffness=float(joint.get("stiffness", 0.0)),
            rest=float(joint.get("rest", 0.0)),
            damping_poly=_pair(joint.get("damping_poly", (0.0, 0.0))),
            armature_in_base=bool(joint.get("armature_in_base", False)),
            stiffness_poly=_pair(joint.get("stiffness_poly", (0.0, 0.0))),
        ),
        inertia=Inertia(
            mass=float(inertia["mass"]), h=vec3(inertia["h"]), I=(xx, xy, xz, yy, yz, zz)
        ),
        links=tuple(data["links"]),
    )


def _mimic_from(data: Mapping[str, Any] | None) -> Mimic | None:
    if data is None:
        return None
    return Mimic(
        joint=str(data["joint"]),
        multiplier=float(data["multiplier"]),
        offset=float(data["offset"]),
    )


def _transform_to(transform: Transform) -> dict[str, Any]:
    return {"E": [list(row) for row in transform.E], "r": list(transform.r)}


def _transform_from(data: Mapping[str, Any]) -> Transform:
    x, y, z = map(vec3, data["E"])
    rotation: Mat3 = (x, y, z)
    return Transform(E=rotation, r=vec3(data["r"]))


def _pair(data: Sequence[float]) -> tuple[float, float]:
    x, y = map(float, data)
    return (x, y)


def _number_to(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _number_from(value: float | str) -> float:
    return float(value)
