"""Loading of a robot file, if necessary with the options that its faults require."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pinion.robot import Model, RobotError, load

HELD: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        # They mimic joints that the file lacks.
        "alex_psyonic_hands": tuple(
            f"{side}_{finger}_q2"
            for side in ("Left", "Right")
            for finger in ("index", "middle", "ring", "pinky")
        ),
        # Massless fingers; those that mimic these are locked with them.
        "romeo": ("LHand", "RHand"),
        "romeo_laas_small": ("l_gripper_joint", "r_gripper_joint"),
    }
)
"""Joints to lock, by file name, for files that are refused otherwise."""


@dataclass(frozen=True, kw_only=True)
class Opened:
    """Model of a file that could be opened, and the same robot as Pinocchio reads it.

    Members
    -------
    options : required options, as on the command line; "" if none.
    other : the same robot as Pinocchio reads it, without locked joints.
    """

    model: Model
    options: str
    other: Any


@dataclass(frozen=True, kw_only=True)
class Refused:
    """Reason why a file could not be opened."""

    reason: str


def opened(path: Path, *, floating_base: bool, snap: bool = False) -> Opened | Refused:
    """Open a file with as few options as possible; ``snap`` snaps right angles as for cores."""
    reason = ""
    for accept, locked in _attempts(path):
        try:
            model = load(
                path,
                floating_base=floating_base,
                accept_inertia=accept,
                snap=snap,
                lock=dict.fromkeys(locked),
            )
        except RobotError as error:
            reason = reason or str(error)
            continue
        words = ["--accept-inertia"] if accept else []
        words += [f"--lock {name}" for name in locked]
        pinocchio_model = _pinocchio(path, model, floating_base=floating_base)
        return Opened(model=model, options=" ".join(words), other=pinocchio_model)
    return Refused(reason=reason)


def _attempts(path: Path) -> Iterator[tuple[bool, tuple[str, ...]]]:
    locked = HELD.get(path.stem, ())
    yield False, ()
    if locked:
        yield False, locked
    yield True, locked


def _pinocchio(path: Path, model: Model, *, floating_base: bool) -> Any:
    pin = import_module("pinocchio")
    root = (pin.JointModelFreeFlyer(),) if floating_base else ()
    pinocchio_model = pin.buildModelFromUrdf(str(path), *root)
    locked = [
        pinocchio_model.getJointId(str(n))
        for n in pinocchio_model.names[1:]
        if str(n) not in model.joint_names
    ]
    return (
        pin.buildReducedModel(pinocchio_model, locked, pin.neutral(pinocchio_model))
        if locked
        else pinocchio_model
    )
