"""Robots from files, from other libraries, built in or generated, as one ``Model`` type."""

from __future__ import annotations

from .asked import RobotOptions, asked_robot
from .contacts import Contact, contacts_of, loops_of, with_contacts, with_loops
from .edit.coupling import Tie, coupled, ties, uncoupled
from .edit.locked import Lock, lock, parse_lock
from .edit.payloads import payload
from .edit.subchain import tip, tip_of, tips_of
from .errors import RobotError
from .faults import accepted_inertias, massless
from .generated import GENERATED, random_tree
from .library import NO_ROBOT, builtin_names, load, load_text, urdf_text
from .lookup import opportunity
from .model import Body, Frame, Inertia, Joint, JointKind, Mat3, Mimic, Model, Transform, Vec3
from .model_json import model_from_dict, model_to_dict
from .pinocchio_map import q_from_pinocchio, q_to_pinocchio, v_permutation
from .read.mjcf import from_mjcf
from .read.pinocchio import from_pinocchio
from .speeds import placeholder_sentences, stated_velocity
from .summary import Summary, summarise

__all__ = [
    "GENERATED",
    "NO_ROBOT",
    "Body",
    "Contact",
    "Frame",
    "Inertia",
    "Joint",
    "JointKind",
    "Lock",
    "Mat3",
    "Mimic",
    "Model",
    "RobotError",
    "RobotOptions",
    "Summary",
    "Tie",
    "Transform",
    "Vec3",
    "accepted_inertias",
    "asked_robot",
    "builtin_names",
    "contacts_of",
    "coupled",
    "from_mjcf",
    "from_pinocchio",
    "load",
    "load_text",
    "lock",
    "loops_of",
    "massless",
    "model_from_dict",
    "model_to_dict",
    "opportunity",
    "parse_lock",
    "payload",
    "placeholder_sentences",
    "q_from_pinocchio",
    "q_to_pinocchio",
    "random_tree",
    "stated_velocity",
    "summarise",
    "ties",
    "tip",
    "tip_of",
    "tips_of",
    "uncoupled",
    "urdf_text",
    "v_permutation",
    "with_contacts",
    "with_loops",
]
