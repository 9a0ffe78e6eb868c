"""The options of a build as one value: those of the robot, the function and the core.

Keywords of :func:`pinion.api.build` and the command line become a :class:`BuildRequest`, the flow
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


_OF_FRAMES = ("frames", "reference")


class CoreOptions(TypedDict, total=False):
    """Options of a core, as in :class:`BuildRequest`."""

    ii: int | None
    formats: str | None
    max_error: float | None
    ranges: str | None
    objective: str
    clock_mhz: float | None


class BuildOptions(RowOptions, RobotOptions, CoreOptions, total=False):
    """All options of a build by name, as in :class:`BuildRequest`."""

    target: str


@dataclass(frozen=True, kw_only=True)
class RobotChoice:
    """Options of a robot, with the members of :class:`pinion.robot.RobotOptions`."""

    lock: Lock = ()
    tip: str | None = None
    floating_base: bool = False
    accept_inertia: bool = False
    snap: bool = True
    gravity: Vec3 | None = None
    contacts: Sequence[str] = ()
    loops: Sequence[Sequence[str]] = ()

    def read(self, robot: str | os.PathLike[str] | Model | None) -> tuple[Model, Model | None]:
        """Return the robot as cores use it, and as its file describes it.

        The second is None if the robot is given as a model.

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
            contacts=self.contacts,
            loops=self.loops,
        )
        if isinstance(robot, Model):
            return asked_robot(robot, **options), None
        as_read = options.copy()
        as_read["snap"] = False
        return asked_robot(robot, **options), asked_robot(robot, **as_read)


@dataclass(frozen=True, kw_only=True)
class RowChoice:
    """Options of a function, with the members of :class:`pinion.functions.RowOptions`."""

    derivatives: str = DERIVATIVES[0]
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    joint_terms: bool | Sequence[str] = ()
    friction_width: float = FRICTION_WIDTH
    parameters: Sequence[str] = ()
    parameter_range: str | None = None
    frames: Sequence[str] = ()
    reference: str | None = None

    def row(self, function: str | Function) -> Function:
        """Return a function's row with these options, given the function's name or its row.

        Raises
        ------
        pinion.functions.FunctionError
            As :func:`pinion.functions.row_of`, and if another formulation is requested of a row
            object.
        """
        if isinstance(function, Function) and self.derivatives != DERIVATIVES[0]:
            raise FunctionError(
                f"The function '{function.name}' is given as an object, so derivatives "
                f"({self.derivatives}) cannot be chosen as well: choose them with the "
                "object's method formulated()."
            )
        return row_of(
            function,
            derivatives=self.derivatives,
            outputs=self.outputs,
            inputs=self.inputs,
            joint_terms=self.joint_terms,
            friction_width=self.friction_width,
            parameters=self.parameters,
            parameter_range=self.parameter_range,
            frames=self.frames,
            reference=self.reference,
        )


@dataclass(frozen=True, kw_only=True)
class BuildRequest:
    """All options of a build: of its robot, its function and its core.

    Members
    -------
    robot, row : options of the robot and of the row.
    ii : cycles between results; None to have it chosen.
    formats : ``q16.16`` or another uniform format, ``auto`` for per-signal formats, ``auto18`` for
        formats in words of 18 bits, or the path of a ``plan.toml``; None for the target's default.
    max_error : largest relative error of a result block; None for the formats' default.
    ranges : with ``auto``, the states that the formats are made for; None for reference states.
    objective : ``area``, ``latency`` or ``throughput``.
    target : ``sim``, or a board.
    clock_mhz : the core's clock; None for the target's default.
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
        """Return a request with the named options, each in the part that defines it.

        Raises
        ------
        TypeError
            If a build has no such option.
        """
        return cls().replaced(**options)

    def replaced(self, **options: Any) -> Self:
        """Return a copy of the request with the named options replaced.

        Raises
        ------
        TypeError
            If a build has no such option.
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
        """Return the options as JSON-compatible data: ``robot``, ``row`` and those of the core.

        Options of frames are left out if unset, so that hashes of builds without them stay valid.
        """
        plain = {name: _plain(value) for name, value in asdict(self).items()}
        plain["row"] = {k: v for k, v in plain["row"].items() if v or k not in _OF_FRAMES}
        return plain


def core_names() -> tuple[str, ...]:
    """Return the names of the core's own options."""
    return tuple(name for name, part in _places().items() if not part)


def row_names() -> tuple[str, ...]:
    """Return the names of the row's options."""
    return tuple(name for name, part in _places().items() if part == "row")


def _places() -> dict[str, str]:
    """Return, for each option, the member of a request that holds it; "" for the request itself."""
    core = {f.name: "" for f in fields(BuildRequest) if f.name not in ("robot", "row")}
    of_robot = {f.name: "robot" for f in fields(RobotChoice)}
    return core | {f.name: "row" for f in fields(RowChoice)} | of_robot


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value
