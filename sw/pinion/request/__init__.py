"""What a build is asked for, as one value: options of the robot, of the row and of the core.

Keywords of :func:`pinion.api.build` and the command line make a :class:`BuildRequest`, the flow
reads it, sweeps vary it by :meth:`BuildRequest.replaced`, and the manifest stores it as plain data.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Self, TypedDict, Unpack

from pinion.dynamics.joint_terms import FRICTION_WIDTH
from pinion.functions import Function, FunctionError, RowOptions, row_of
from pinion.functions.table import DERIVATIVES
from pinion.robot import Lock, Model, RobotOptions, Vec3, asked_robot

__all__ = [
    "BuildOptions",
    "BuildRequest",
    "CoreOptions",
    "RobotChoice",
    "RowChoice",
    "core_names",
    "row_names",
]


class CoreOptions(TypedDict, total=False):
    """Options of a core, as of :class:`BuildRequest`."""

    ii: int | None
    formats: str | None
    max_error: float | None
    ranges: str | None
    objective: str
    clock_mhz: float | None


class BuildOptions(RowOptions, RobotOptions, CoreOptions, total=False):
    """Everything that may be asked of a build by name, as of :class:`BuildRequest`."""

    target: str


@dataclass(frozen=True, kw_only=True)
class RobotChoice:
    """Options of a robot: the members are those of :class:`pinion.robot.RobotOptions`."""

    lock: Lock = ()
    tip: str | None = None
    floating_base: bool = False
    accept_inertia: bool = False
    snap: bool = True
    gravity: Vec3 | None = None

    def read(self, robot: str | os.PathLike[str] | Model | None) -> tuple[Model, Model | None]:
        """The robot as cores have it, and as its file has it.

        The second is None where the robot came as a model.

        Raises
        ------
        pinion.robot.RobotError
            As :func:`pinion.robot.asked_robot`.
        """
        options = RobotOptions(
            lock=self.lock,
            tip=self.tip,
            floating_base=self.floating_base,
            accept_inertia=self.accept_inertia,
            snap=self.snap,
            gravity=self.gravity,
        )
        if isinstance(robot, Model):
            return asked_robot(robot, **options), None
        as_read = options.copy()
        as_read["snap"] = False
        return asked_robot(robot, **options), asked_robot(robot, **as_read)


@dataclass(frozen=True, kw_only=True)
class RowChoice:
    """Options of a row: the members are those of :class:`pinion.functions.RowOptions`."""

    derivatives: str = DERIVATIVES[0]
    outputs: Sequence[str] = ()
    joint_terms: bool | Sequence[str] = ()
    friction_width: float = FRICTION_WIDTH

    def row(self, function: str | Function) -> Function:
        """The row of a function by its name, or of a row that is given.

        Raises
        ------
        pinion.functions.FunctionError
            As :func:`pinion.functions.row_of`, and where another formulation is asked of a row that
            has its own.
        """
        if isinstance(function, Function) and self.derivatives != DERIVATIVES[0]:
            raise FunctionError(
                f"The function '{function.name}' is given as an object, so derivatives "
                f"({self.derivatives}) cannot be chosen beside it: choose them on the object, with "
                "its method formulated."
            )
        return row_of(
            function,
            derivatives=self.derivatives,
            outputs=self.outputs,
            joint_terms=self.joint_terms,
            friction_width=self.friction_width,
        )


@dataclass(frozen=True, kw_only=True)
class BuildRequest:
    """What a build is asked for.

    Members
    -------
    robot, row : options of the robot and of the row.
    ii : cycles between results; None to choose.
    formats : ``q16.16`` or another uniform format, ``auto`` for formats by signal, ``auto18`` for
        such in words of 18 bits, or the path of a ``plan.toml``; None for the target's.
    max_error : largest relative error of a result block; None for the formats' own.
    ranges : with ``auto``, the states that the formats are made for; None for reference states.
    objective : ``area``, ``latency`` or ``throughput``.
    target : ``sim``, or a board.
    clock_mhz : the core's clock; None for the target's.
    """

    robot: RobotChoice = field(default_factory=RobotChoice)
    row: RowChoice = field(default_factory=RowChoice)
    ii: int | None = 8
    formats: str | None = None
    max_error: float | None = None
    ranges: str | None = None
    objective: str = "area"
    target: str = "sim"
    clock_mhz: float | None = None

    @classmethod
    def of(cls, **options: Unpack[BuildOptions]) -> Self:
        """The request of options by their names, whichever part they belong to.

        Raises
        ------
        TypeError
            A build has no such option.
        """
        return cls().replaced(**options)

    def replaced(self, **options: Any) -> Self:
        """The same with other options, by their names.

        Raises
        ------
        TypeError
            A build has no such option.
        """
        parts: dict[str, dict[str, Any]] = {"robot": {}, "row": {}, "": {}}
        places = _places()
        for name, value in options.items():
            if name not in places:
                raise TypeError(f"A build has no option '{name}'.")
            parts[places[name]][name] = value
        return replace(
            self,
            robot=replace(self.robot, **parts["robot"]),
            row=replace(self.row, **parts["row"]),
            **parts[""],
        )

    def plain(self) -> dict[str, Any]:
        """The options as JSON has them: ``robot``, ``row`` and those of the core."""
        return {name: _plain(value) for name, value in asdict(self).items()}


def core_names() -> tuple[str, ...]:
    """Names of the options of the core alone."""
    return tuple(name for name, part in _places().items() if not part)


def row_names() -> tuple[str, ...]:
    """Names of the options of the row."""
    return tuple(name for name, part in _places().items() if part == "row")


def _places() -> dict[str, str]:
    """Names of options, and the member of a request that holds each; "" for itself."""
    own = {one.name: "" for one in fields(BuildRequest) if one.name not in ("robot", "row")}
    of_robot = {one.name: "robot" for one in fields(RobotChoice)}
    return own | {one.name: "row" for one in fields(RowChoice)} | of_robot


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value
