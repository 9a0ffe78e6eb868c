"""Loading of robots by name, from a file or from a Pinocchio model."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Protocol

from .contacts import with_contacts, with_loops
from .edit import locked, subchain
from .edit.locked import Lock
from .errors import RobotError
from .faults import Draft
from .generated import GENERATED, generated_text, is_generated
from .model import Model, Vec3
from .read.canonical import canonicalise
from .read.document import read_bytes, root_tag
from .read.mjcf import read_mjcf
from .read.pinocchio import is_pinocchio, read_pinocchio
from .read.urdf import parse, read

STANDARD_GRAVITY: Vec3 = (0.0, 0.0, -9.81)
"""Default acceleration of gravity, base coordinates [m/s^2]."""


class PinocchioModel(Protocol):
    """The attributes of a ``pinocchio.Model``, declared without importing the library."""

    njoints: int
    nq: int
    nv: int


NO_ROBOT = Model(name="none", source="none", bodies=())
"""Model without joints, for functions that need no robot."""

_SHOWN = 60
"""Characters of an invalid robot argument that a message repeats at most."""

_FOLDER = Path(__file__).parent / "builtin"


@cache
def builtin_names() -> tuple[str, ...]:
    """Return the names of the built-in robots, sorted."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.urdf")))


def urdf_text(name: str) -> str:
    """Return the URDF text of a built-in or generated robot.

    Errors
    ------
    RobotError : no such robot.
    """
    if name in builtin_names():
        return (_FOLDER / f"{name}.urdf").read_text(encoding="utf-8")
    if is_generated(name):
        return generated_text(name)
    raise RobotError(f"There is no robot {name!r}; {_choices()}.")


# Many parameters: what can be changed about a robot, by keyword.
def load(
    name_or_path: str | os.PathLike[str] | PinocchioModel,
    *,
    gravity: Vec3 | None = None,
    lock: Lock | None = None,
    tip: str | None = None,
    floating_base: bool = False,
    accept_inertia: bool = False,
    snap: bool = False,
    contacts: Sequence[str] = (),
    loops: Sequence[Sequence[str]] = (),
) -> Model:
    """Load a robot by its name, from a file or from a Pinocchio model.

    Parameters
    ----------
    name_or_path : a built-in or generated robot's name, the path of a URDF file or of an MJCF file
        (``.xml``, through the ``mujoco`` library), or a ``pinocchio.Model``. A name with a suffix
        or a folder is a path; otherwise a robot's name wins: write ``./iiwa14`` for a file.
        ``none`` is the model without joints, for functions that need no robot.
    gravity : (3,) acceleration of gravity, base coordinates [m/s^2]; if None (0, 0, -9.81), or that
        of the MJCF file or the Pinocchio model.
    lock : joints to lock, with their positions [rad | m], by name, such as ``{"elbow": 0.3}``, or
        as strings, such as ``["elbow=0.3"]``; see ``pinion.robot.lock``.
    tip : a link; only the chain from the base to it is kept, after locking; see
        ``pinion.robot.tip``.
    floating_base : put a free-flyer between the base and the root link, whose inertia is kept.
    accept_inertia : keep inertias that no real body can have, with a note on each, as Pinocchio
        does; negative masses are refused in any case.
    snap : replace rounded right angles in a URDF, such as 1.5708, by exact ones, and residues up to
        1e-9 by zeros, as for cores; without it the model is as read, except for what float64
        rounds. See ``docs/robot-files.md``.
    contacts : links or frames that may be in contact with the world, such as ``lf_foot`` for a
        point or ``lf_foot:6d`` for a face; see ``pinion.robot.with_contacts``.
    loops : pairs of frames that close loops, each with its kind, such as ``("coupler@0.3,0,0",
        "rocker@0.2,0,0", "3d")``, in place of those that an MJCF file has; see
        ``pinion.robot.with_loops``.

    Errors
    ------
    RobotError : unknown robot, or anything wrong with the file; the message is one sentence.
        Inertias are checked for the bodies that still move after locking and cutting, all at once.
    """
    if name_or_path == NO_ROBOT.name:
        if lock or tip is not None or floating_base or gravity is not None or contacts or loops:
            raise RobotError(
                "The robot 'none' has no joints, links or base: omit lock, tip, floating_base, "
                "gravity, contacts and loops, or name a robot."
            )
        return NO_ROBOT
    draft = _load(name_or_path, gravity, floating_base, snap)
    model = draft.model if gravity is None else with_gravity(draft.model, gravity)
    model = locked.held_still(model, lock or (), snap=snap)
    if tip is not None:
        model = subchain.cut_down(model, tip)
    finished = replace(draft, model=model).finished(accept_inertia=accept_inertia)
    finished = with_contacts(finished, contacts) if contacts else finished
    return with_loops(finished, loops) if loops else finished


def _load(
    source: str | os.PathLike[str] | PinocchioModel,
    gravity: Vec3 | None,
    floating_base: bool,
    snap: bool,
) -> Draft:
    vector = None if gravity is None else _gravity(gravity)
    if source is None:
        raise RobotError(
            "The robot is None, perhaps from a path that was not set; give a name, the path of a "
            f"file or a pinocchio.Model, or {NO_ROBOT.name!r} for functions that take no robot."
        )
    if not isinstance(source, str | os.PathLike):
        if not is_pinocchio(source):
            raise RobotError(
                f"The object {_cut(repr(source))} cannot be loaded as a robot; "
                "give a name, the path of a file or a pinocchio.Model."
            )
        _refuse_floating(floating_base, "A pinocchio.Model", "pinocchio.JointModelFreeFlyer()")
        return read_pinocchio(source, gravity=vector, snap=snap)
    name = os.fspath(source)
    if name in builtin_names():
        text, kind = urdf_text(name), "built-in"
    elif is_generated(name) and not _looks_like_path(name):
        text, kind = generated_text(name), "generated"
    else:
        return _load_file(name, gravity, floating_base, snap)
    urdf = parse(text, source=f"{kind} {name}")
    return canonicalise(urdf, gravity=_gravity(gravity), floating_base=floating_base, snap=snap)


def with_gravity(model: Model, gravity: Vec3) -> Model:
    """Return the robot with another gravity, (3,) base coordinates [m/s^2], with a note.

    Errors
    ------
    RobotError : not three finite numbers, or a model without joints.
    """
    if not model.bodies:
        raise RobotError(f"The robot {model.name!r} has no joints: leave gravity out.")
    x, y, z = vector = _gravity(gravity)
    note = f"Gravity is ({x:g}, {y:g}, {z:g}) m/s^2, as requested."
    return replace(model, gravity=vector, notes=(note, *model.notes))


def _cut(text: str) -> str:
    """Truncate a text to fit in a message."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _looks_like_path(name: str) -> bool:
    """Return whether a name has a folder or a suffix; the 5 of chain_1.5 is not a suffix."""
    path = Path(name)
    suffix = path.suffix[1:]
    return bool(suffix and not (suffix.isascii() and suffix.isdecimal())) or len(path.parts) > 1


def _load_file(name: str, gravity: Vec3 | None, floating_base: bool, snap: bool) -> Draft:
    path = Path(name)
    if name.lstrip("\ufeff \t\r\n").startswith("<") and not os.path.lexists(name):
        raise RobotError(
            f"The text {_cut(repr(name))} is a robot's description, not a path; give the path of "
            "its file, or pass a URDF's text to pinion.robot.load_text."
        )
    if not _looks_like_path(name) and not os.path.lexists(name):
        raise RobotError(
            f"There is no robot {name!r}; {_choices()}, or the path of an existing URDF file."
        )
    if _is_mjcf(path):
        _refuse_floating(floating_base, "An MJCF file", "<freejoint/>")
        return read_mjcf(path, gravity=None if gravity is None else _gravity(gravity), snap=snap)
    return canonicalise(
        read(name), gravity=_gravity(gravity), floating_base=floating_base, snap=snap
    )


def _refuse_floating(floating_base: bool, source: str, how: str) -> None:
    if floating_base:
        raise RobotError(
            f"{source} itself states whether its base floats; use {how} at its root body instead "
            "of floating_base=True (--floating-base)."
        )


def _is_mjcf(path: Path) -> bool:
    """Return whether a file's suffix and root element identify it as MJCF."""
    if path.suffix not in (".xml", ".mjcf") or not path.is_file():
        return False
    try:
        data = read_bytes(path)
    except RobotError:
        return False  # the URDF reader reports the problem
    return root_tag(data) in ("mujoco", "mujocoinclude")


def load_text(
    text: str | bytes,
    *,
    source: str = "text",
    gravity: Vec3 | None = None,
    floating_base: bool = False,
    accept_inertia: bool = False,
    snap: bool = False,
) -> Model:
    """Load a robot from URDF text; ``source`` names it in the model and in messages."""
    draft = canonicalise(
        parse(text, source=source),
        gravity=_gravity(gravity),
        floating_base=floating_base,
        snap=snap,
    )
    return draft.finished(accept_inertia=accept_inertia)


def _gravity(gravity: Vec3 | None) -> Vec3:
    if gravity is None:
        return STANDARD_GRAVITY
    try:
        x, y, z = (float(value) for value in gravity)
    except (TypeError, ValueError):
        raise RobotError(f"The gravity {gravity!r} is malformed; give three numbers.") from None
    if not all(map(math.isfinite, (x, y, z))):
        raise RobotError(f"The gravity {gravity!r} is not finite; give three finite numbers.")
    return (x, y, z)


def _choices() -> str:
    built_in, generated = ", ".join(builtin_names()), ", ".join(GENERATED)
    return f"use a built-in robot ({built_in}) or a generated one ({generated})"
