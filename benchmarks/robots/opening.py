"""Opens a file as it is, and with the options that its faults ask for where it is refused."""

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
        # They mimic joints that the file does not have.
        "alex_psyonic_hands": tuple(
            f"{side}_{finger}_q2"
            for side in ("Left", "Right")
            for finger in ("index", "middle", "ring", "pinky")
        ),
        # Fingers without any mass; those that mimic these are held with them.
        "romeo": ("LHand", "RHand"),
        "romeo_laas_small": ("l_gripper_joint", "r_gripper_joint"),
    }
)
"""Joints to hold still, by the name of the file, where the file is refused without."""


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A robot that opened.

    Members
    -------
    options : what was needed for it, as on the command line; "" where nothing was.
    other : the same robot as Pinocchio reads it, held joints taken out.
    """

    model: Model
    options: str
    other: Any


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A file that did not open, and the sentence that says why."""

    reason: str


def opened(path: Path, *, floating_base: bool, snap: bool = False) -> Opened | Refused:
    """Open a file with as few options as it needs, as read or, with ``snap``, as cores have it."""
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
        other = _pinocchio(path, model, floating_base=floating_base)
        return Opened(model=model, options=" ".join(words), other=other)
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
    other = pin.buildModelFromUrdf(str(path), *root)
    locked = [other.getJointId(str(n)) for n in other.names[1:] if str(n) not in model.joint_names]
    return pin.buildReducedModel(other, locked, pin.neutral(other)) if locked else other
