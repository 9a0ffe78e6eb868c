"""Robots by name or by path."""

from __future__ import annotations

import math
import os
from pathlib import Path

from pinion.robot.canonical import canonicalise
from pinion.robot.errors import RobotError
from pinion.robot.generated import GENERATED, generated_text, is_generated
from pinion.robot.model import Model, Vec3
from pinion.robot.urdf import parse, read

STANDARD_GRAVITY: Vec3 = (0.0, 0.0, -9.81)
"""Acceleration of gravity unless the caller says otherwise, base coordinates [m/s^2]."""

_FOLDER = Path(__file__).parent / "builtin"


def builtin_names() -> tuple[str, ...]:
    """Names of the built-in robots, sorted."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.urdf")))


def urdf_text(name: str) -> str:
    """URDF text of a built-in or generated robot.

    Errors
    ------
    RobotError : no such robot.
    """
    if name in builtin_names():
        return (_FOLDER / f"{name}.urdf").read_text(encoding="utf-8")
    if is_generated(name):
        return generated_text(name)
    raise RobotError(f"There is no robot {name!r}; {_choices()}.")


def load(name_or_path: str | os.PathLike[str], *, gravity: Vec3 | None = None) -> Model:
    """Load a robot.

    Parameters
    ----------
    name_or_path : a built-in or generated robot's name, or the path of a URDF file. A name wins;
        write ``./iiwa14`` for a file of that name.
    gravity : (3,) acceleration of gravity, base coordinates [m/s^2]; (0, 0, -9.81) when None.

    Errors
    ------
    RobotError : unknown robot, or anything wrong with the file; the message is one sentence.
    """
    name = os.fspath(name_or_path)
    if name in builtin_names():
        return load_text(urdf_text(name), source=f"built-in {name}", gravity=gravity)
    if is_generated(name):
        return load_text(generated_text(name), source=f"generated {name}", gravity=gravity)
    path = Path(name)
    looks_like_path = path.suffix != "" or len(path.parts) > 1
    if not looks_like_path and not os.path.lexists(name):
        raise RobotError(
            f"There is no robot {name!r}; {_choices()}, "
            "or give the path of a URDF file that exists."
        )
    return canonicalise(read(name), gravity=_gravity(gravity))


def load_text(text: str | bytes, *, source: str = "text", gravity: Vec3 | None = None) -> Model:
    """Load a robot from URDF text; ``source`` stands for it in the model and in messages."""
    return canonicalise(parse(text, source=source), gravity=_gravity(gravity))


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
    return f"built in are {', '.join(builtin_names())}, generated are {', '.join(GENERATED)}"
