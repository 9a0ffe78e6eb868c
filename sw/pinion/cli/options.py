"""Arguments and options that several verbs share, and what the values mean."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from pinion.console.errors import UsageError, complain

if TYPE_CHECKING:
    from pinion.robot import Model, Vec3

Robot = Annotated[
    str,
    typer.Argument(
        metavar="ROBOT",
        help="A built-in robot's name or a URDF file; none for a function without a robot.",
    ),
]
Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="A build folder, made by `pinion build`.")
]
Lock = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME[=VALUE]",
        help="A joint to hold still, at a position in rad or m; may be repeated.",
    ),
]
Tip = Annotated[
    str | None,
    typer.Option(
        metavar="LINK", help="Only the chain from the base to this link, the tip of kinematics."
    ),
]
FloatingBase = Annotated[
    bool,
    typer.Option("--floating-base", help="Put a free-flyer between the base and the root link."),
]
AcceptInertia = Annotated[
    bool,
    typer.Option(
        "--accept-inertia", help="Keep inertias that no real body can have; each is a warning."
    ),
]
Snap = Annotated[
    bool,
    typer.Option(
        "--snap/--no-snap",
        help="Take rounded right angles, such as 1.5708, for the right angles they stand for.",
    ),
]
Gravity = Annotated[
    str | None,
    typer.Option(
        metavar="X,Y,Z",
        help="Acceleration of gravity in the base's axes, in m/s^2. [default: the file's, or "
        "0,0,-9.81]",
    ),
]
JointTerms = Annotated[
    list[str] | None,
    typer.Option(
        "--joint-terms",
        metavar="NAME,...",
        help="What joints add besides their armature: damping, friction, stiffness, or all.",
    ),
]
FrictionWidth = Annotated[
    float,
    typer.Option(
        metavar="RATE", help="Within it dry friction changes sign smoothly, in rad/s or m/s."
    ),
]
FRICTION_WIDTH = 0.05
"""As :mod:`pinion.dynamics.joint_terms` has it, which help pages do not load."""
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="A Dask scheduler, such as tcp://head:8786; else processes of this machine.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Processes of this machine. [default: cores]"),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]


class WithFunctions(TyperCommand):
    """A verb whose help page ends with the table of functions."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the table; it is only read when somebody asks for help."""
        from pinion.functions import FUNCTIONS, installed, named_function

        super().format_epilog(ctx, formatter)
        rows = [(name, named_function(name).doc) for name in FUNCTIONS]
        rows += [(name, f"of an installed package: {where}") for name, where in installed().items()]
        rows.append(("FILE.py:FUNCTION", "one of your own in a file; docs/own-functions.md"))
        rows.append(("MODULE:FUNCTION", "one of your own in a module"))
        with formatter.section("Functions"):
            formatter.write_dl(rows)


def load_robot(
    robot: str,
    lock: Sequence[str] | None,
    tip: str | None,
    *,
    floating_base: bool = False,
    accept_inertia: bool = False,
    gravity: str | None = None,
    snap: bool,
    quiet: bool = False,
) -> Model:
    """A robot by name or file, floating, with joints locked and cut to a chain as options say;
    with ``snap`` as cores have it, else as read.

    Inertias that were accepted because an option asks for it are complained about unless ``quiet``.

    Joints that mimic others are coupled to them, as in every function.

    Raises
    ------
    pinion.robot.RobotError : no such robot, joint or link, a joint locked twice, or a broken file.
    """
    from pinion.robot import accepted_inertias, asked_robot, coupled

    model = asked_robot(
        robot,
        lock=lock or (),
        tip=tip,
        floating_base=floating_base,
        accept_inertia=accept_inertia,
        gravity=three_numbers(gravity),
        snap=snap,
    )
    if accept_inertia and not quiet:
        for note in accepted_inertias(model):
            complain(note)
    return coupled(model)


def load_both(
    robot: str,
    lock: Sequence[str] | None,
    tip: str | None,
    *,
    floating_base: bool = False,
    accept_inertia: bool = False,
    gravity: str | None = None,
    snap: bool,
) -> tuple[Model, Model]:
    """A robot as read and, with ``snap``, as cores have it; see `load_robot`."""
    as_read, model = (
        load_robot(
            robot,
            lock,
            tip,
            floating_base=floating_base,
            accept_inertia=accept_inertia,
            gravity=gravity,
            snap=wanted,
            quiet=quiet,
        )
        for wanted, quiet in ((False, True), (snap, False))
    )
    return as_read, model


def three_numbers(gravity: str | None) -> Vec3 | None:
    """Gravity as an option writes it, None where it is left out.

    Raises
    ------
    UsageError : not three finite numbers with commas between them.
    """
    if gravity is None:
        return None
    from pinion.base.amounts import decimal

    values = [decimal(text.strip()) for text in gravity.split(",")]
    if len(values) != 3 or not all(value is not None and isfinite(value) for value in values):
        raise UsageError(
            f"The gravity '{gravity}' is no acceleration: give three numbers with commas between "
            "them, such as 0,0,-1.62, in m/s^2."
        )
    x, y, z = (value or 0.0 for value in values)
    return (x, y, z)


def interval(text: str) -> int | None:
    """Cycles between results, None where they shall be chosen.

    Raises
    ------
    UsageError : neither a whole number nor ``auto``.
    """
    if text == "auto":
        return None
    try:
        return int(text)
    except ValueError:
        raise UsageError(
            f"The interval '{text}' is neither a whole number of cycles nor auto; "
            "see 'pinion build --help'."
        ) from None


def names(texts: Sequence[str] | None) -> tuple[str, ...]:
    """Names from an option that may be repeated and may hold several, separated by commas."""
    found = (name.strip() for text in texts or () for name in text.split(","))
    return tuple(dict.fromkeys(name for name in found if name))
