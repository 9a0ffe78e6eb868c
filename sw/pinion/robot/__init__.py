"""Robots: URDF files, built-in and generated ones, read into one canonical ``Model``."""

from __future__ import annotations

from pinion.robot.errors import RobotError
from pinion.robot.generated import GENERATED, random_tree
from pinion.robot.library import builtin_names, load, load_text, urdf_text
from pinion.robot.model import Body, Frame, Inertia, Joint, JointKind, Mat3, Model, Transform, Vec3
from pinion.robot.serial import model_from_dict, model_to_dict
from pinion.robot.summary import Summary, summarise

__all__ = [
    "GENERATED",
    "Body",
    "Frame",
    "Inertia",
    "Joint",
    "JointKind",
    "Mat3",
    "Model",
    "RobotError",
    "Summary",
    "Transform",
    "Vec3",
    "builtin_names",
    "load",
    "load_text",
    "model_from_dict",
    "model_to_dict",
    "random_tree",
    "summarise",
    "urdf_text",
]
