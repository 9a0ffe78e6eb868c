"""Arguments and options that several commands share, and how their values are read."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

from pinion.console.errors import UsageError, complain

if TYPE_CHECKING:
    from pinion.functions import RowOptions
    from pinion.robot import Model, RobotOptions, Vec3

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
Lanes = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=8,
        metavar="P",
        help="Number of lanes that share one sample.  [default: 4]",
        show_default=False,
    ),
]
MachineSource = Annotated[
    str | None,
    typer.Option(
        "--machine",
        metavar="FILE",
        help="Instead: a TOML file of the processor and its board, or ulx3s_25f, which is shipped.",
    ),
]
Lock = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME[=VALUE]",
        help="A joint to lock at a position in rad or m; may be repeated.",
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
    typer.Option(
        "--floating-base", help="Add a free-flyer joint between the base and the root link."
    ),
]
AcceptInertia = Annotated[
    bool,
    typer.Option(
        "--accept-inertia",
        help="Accept inertias that no real body can have, with a warning for each.",
    ),
]
Snap = Annotated[
    bool,
    typer.Option(
        "--snap/--no-snap",
        help="Replace rounded right angles, such as 1.5708, by exact right angles.",
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
Contacts = Annotated[
    list[str] | None,
    typer.Option(
        "--contact",
        metavar="LINK[@X,Y,Z][:3d|:6d]",
        help="A contact with the ground, a point (3d) or a face (6d); may be repeated.",
    ),
]
Loops = Annotated[
    list[str] | None,
    typer.Option(
        "--loop",
        metavar="LINK[@X,Y,Z]=LINK[@X,Y,Z][:3d|:6d]",
        help="Two frames that close a loop, by a ball joint (3d) or rigidly (6d); may be repeated.",
    ),
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME,...",
        help="Optional inputs: constraint_dynamics has velocity_gain, position_gain and target.",
    ),
]
Outputs = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="An optional result: fd_derivatives has minv, Jacobians of the tip R and p.",
    ),
]
JointTerms = Annotated[
    list[str] | None,
    typer.Option(
        "--joint-terms",
        metavar="NAME,...",
        help="Joint terms besides the armature: damping, friction, stiffness, or all.",
    ),
]
FrictionWidth = Annotated[
    float,
    typer.Option(
        metavar="RATE", help="Rate within which dry friction changes sign smoothly, rad/s or m/s."
    ),
]
FRICTION_WIDTH = 0.05
"""As in :mod:`pinion.dynamics.joint_terms`, which help pages do not load."""
Frames = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME,...",
        help="Links or fixed joints to use instead of the tip; LINK@X,Y,Z with an offset.",
    ),
]
Reference = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Reference of the frames' motion: local, local_world_aligned or world.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, metavar="S", help="Seed of the states.")]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="A Dask scheduler, such as tcp://head:8786, instead of processes on this machine.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]


@dataclass(frozen=True, kw_only=True)
class RobotArguments:
    """Options of commands that load a robot."""

    lock: Lock = None
    tip: Tip = None
    floating_base: FloatingBase = False
    accept_inertia: AcceptInertia = False
    gravity: Gravity = None
    contacts: Contacts = None
    loops: Loops = None

    def options(self, *, snap: bool) -> RobotOptions:
        """Return the options for :func:`pinion.robot.asked_robot`.

        Raises
        ------
        UsageError
            If the gravity is not three finite numbers.
        """
        return {
            "lock": self.lock or (),
            "tip": self.tip,
            "floating_base": self.floating_base,
            "accept_inertia": self.accept_inertia,
            "gravity": three_numbers(self.gravity),
            "contacts": tuple(self.contacts or ()),
            "loops": tuple(map(loop_of, self.loops or ())),
            "snap": snap,
        }


@dataclass(frozen=True, kw_only=True)
class RowArguments:
    """Options of commands that define a function."""

    derivatives: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Gradients in closed form (composite), or one recursion per joint (column).",
        ),
    ] = "composite"
    inputs: Inputs = None
    outputs: Outputs = None
    joint_terms: JointTerms = None
    friction_width: FrictionWidth = FRICTION_WIDTH
    parameters: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME,...",
            help="Inputs instead of constants: LINK, LINK:on-axis, JOINT:damping, gravity, ...",
        ),
    ] = None
    parameter_range: Annotated[
        str | None,
        typer.Option(
            metavar="MASS@RADIUS",
            help="Loads that such links carry, as 3kg@0.2m. [default: a tenth of the robot, 0.2 m]",
        ),
    ] = None

    frames: Frames = None
    reference: Reference = None

    def options(self) -> RowOptions:
        """Return the options for :func:`pinion.functions.row_of`."""
        return {
            "derivatives": self.derivatives,
            "inputs": names(self.inputs),
            "outputs": names(self.outputs),
            "joint_terms": names(self.joint_terms),
            "friction_width": self.friction_width,
            "parameters": names(self.parameters),
            "parameter_range": self.parameter_range,
            "frames": frame_texts(self.frames),
            "reference": self.reference,
        }


def grouped(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Replace each dataclass-typed parameter of a command by that class's members, as options."""
    hints = get_type_hints(verb, include_extras=True)
    groups: dict[str, Any] = {n: hint for n, hint in hints.items() if is_dataclass(hint)}
    parameters = []
    for name, parameter in inspect.signature(verb).parameters.items():
        if name not in groups:
            parameters.append(parameter.replace(annotation=hints.get(name, Any)))
            continue
        group_hints = get_type_hints(groups[name], include_extras=True)
        parameters += [
            inspect.Parameter(
                member.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=member.default,
                annotation=group_hints[member.name],
            )
            for member in fields(groups[name])
        ]

    @wraps(verb)
    def call(*arguments: Any, **options: Any) -> Any:
        for name, group in groups.items():
            values = {member.name: options.pop(member.name) for member in fields(group)}
            options[name] = group(**values)
        return verb(*arguments, **options)

    # `inspect` and Typer read these.
    vars(call)["__signature__"] = inspect.Signature(parameters)
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    return call


class WithFunctions(TyperCommand):
    """A command whose help page ends with the table of functions."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the table of functions, which is loaded only when help is requested."""
        from pinion.functions import FUNCTIONS, installed, named_function

        super().format_epilog(ctx, formatter)
        rows = [(name, named_function(name).doc) for name in FUNCTIONS]
        rows += [(name, f"of an installed package: {where}") for name, where in installed().items()]
        rows.append(("FILE.py:FUNCTION", "your own, in a file; see docs/own-functions.md"))
        rows.append(("MODULE:FUNCTION", "your own, in a module"))
        with formatter.section("Functions"):
            formatter.write_dl(rows)


def load_robot(robot: str, options: RobotOptions, *, quiet: bool = False) -> Model:
    """Load a robot by name or file, with mimic joints coupled to the joints they follow.

    Accepted inertias are reported unless ``quiet``.

    Raises
    ------
    pinion.robot.RobotError
        If there is no such robot, joint or link, a joint is locked twice, or the file is broken.
    """
    from pinion.robot import accepted_inertias, asked_robot, coupled

    model = asked_robot(robot, **options)
    if options["accept_inertia"] and not quiet:
        for note in accepted_inertias(model):
            complain(note)
    return coupled(model)


def load_both(robot: str, options: RobotOptions) -> tuple[Model, Model]:
    """Load a robot without snapped right angles, and with all options; see `load_robot`."""
    unsnapped = options.copy()
    unsnapped["snap"] = False
    return load_robot(robot, unsnapped, quiet=True), load_robot(robot, options)


def three_numbers(gravity: str | None) -> Vec3 | None:
    """Parse the option --gravity; return None if it was left out.

    Raises
    ------
    UsageError
        If it is not three finite numbers separated by commas.
    """
    if gravity is None:
        return None
    from pinion.base.amounts import decimal

    values = [decimal(text.strip()) for text in gravity.split(",")]
    if len(values) != 3 or not all(value is not None and isfinite(value) for value in values):
        raise UsageError(
            f"The gravity '{gravity}' is not an acceleration: give three comma-separated numbers, "
            "such as 0,0,-1.62, in m/s^2."
        )
    x, y, z = (value or 0.0 for value in values)
    return (x, y, z)


def loop_of(text: str) -> tuple[str, str, str]:
    """Parse a loop as its two frames and its kind, ``3d`` or ``6d``.

    Raises
    ------
    UsageError
        If the text does not have this form.
    """
    first, equal, second = text.partition("=")
    second, colon, kind = second.rpartition(":")
    if not colon:
        second, kind = kind, "3d"
    if not (equal and first and second and "=" not in second and kind in ("3d", "6d")):
        raise UsageError(
            f"The loop '{text}' (--loop) does not have the form FRAME=FRAME[:3d|:6d]: write it "
            "like coupler@0.3,0,0=rocker@0.2,0,0:3d."
        )
    return first, second, kind


def interval(text: str) -> int | None:
    """Parse the option --ii as cycles between results, or None for ``auto``.

    Raises
    ------
    UsageError
        If the text is neither a whole number nor ``auto``.
    """
    if text == "auto":
        return None
    try:
        return int(text)
    except ValueError:
        raise UsageError(
            f"The interval '{text}' (--ii) is neither 'auto' nor a whole number of cycles in "
            "digits, such as 8."
        ) from None


def names(texts: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names in a repeatable option with comma-separated names, without duplicates."""
    parts = (name.strip() for text in texts or () for name in text.split(","))
    return tuple(dict.fromkeys(name for name in parts if name))


def frame_texts(texts: Sequence[str] | None) -> tuple[str, ...]:
    """Split a repeatable option into frames at its commas, except at commas within offsets."""
    from pinion.functions.frames import split_frames

    return tuple(frame for text in texts or () for frame in split_frames(text))
