"""Backends, opened by device name: ``backend("iiwa14", "rnea", device="cpu")``."""

from __future__ import annotations

import inspect
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from pathlib import Path
from typing import Any, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from pinion import driver
from pinion.base import installation
from pinion.base.progress import SILENT, Progress
from pinion.batch import Backend, InputError, Result, backend_table, by_name, check_arrays
from pinion.batch.result import not_finite
from pinion.driver import Device, DriverError, split_device, transports
from pinion.functions import BuiltFunction, Function, RowOptions, arrays_of, row_of
from pinion.functions.portable import PortableFunction, portable
from pinion.link import ManifestError
from pinion.request import BuildRequest, CoreOptions, core_names
from pinion.robot import Model, RobotOptions, asked_robot, coupled, model_to_dict

from .parameters import ParametricBackend

SIM = "sim"
"""Name of the simulated card."""

GROUP = "pinion.backends"
"""Group of entry points of backends; any other device is a card."""


class CardOptions(CoreOptions, total=False):
    """Options of the build that a card runs.

    Members
    -------
    ii, formats, max_error, ranges, objective, clock_mhz : as in
        :class:`pinion.request.BuildRequest`; the target is the simulation.
    folder : the build folder, reused if it holds exactly this build, otherwise built again; by
        default a temporary folder that is removed when the backend is closed.
    """

    folder: str | Path | None


class BackendOptions(RowOptions, RobotOptions, CardOptions, total=False):
    """All options of :func:`backend`: those of the function, the robot and the devices.

    Members
    -------
    dtype, layout, check_rotations, reuse, threads, isa, compiler, cache : of ``cpu``
        (:func:`pinion.compute.cpu.compile`).
    dtype, layout, check_rotations, cache : of ``cuda``
        (:func:`pinion.compute.cuda.compile`).
    lanes, machine, precision, interleave : of ``processor``
        (:func:`pinion.processor.backend.open_processor`).
    progress : receives each step of compiling or building before the first batch;
        ``progress=Progress(print)`` prints them.
    """

    dtype: DTypeLike
    layout: str
    check_rotations: bool
    reuse: bool
    threads: int
    isa: str | None
    compiler: str | None
    cache: Path | None
    lanes: int | None
    machine: str | Path | None
    precision: str
    interleave: int
    progress: Progress


class FloatBackend(Backend):
    """The float model on the host: float64 results for requests rounded to float32, as for a card.

    The states of a function continue from batch to batch, until `reset_state`. Pickling and copying
    keep the robot, the function and the states of the stream.

    Members
    -------
    model, function : the robot and its function.
    """

    def __init__(self, *, model: Model, function: Function) -> None:
        self.model = model
        self.function = function
        if function.parameters:
            function.trace(model)  # which refuses parameters that change nothing
        self._inputs = arrays_of(function.inputs, model)
        self._state: dict[str, float] | None = None

    def reset_state(self) -> None:
        """Begin a new stream: the next request starts from the function's initial states."""
        self._state = None

    def run(self, /, *values: ArrayLike, **arrays: ArrayLike) -> Result:
        """Compute a batch; ``saturated`` marks results that are not finite, and ``cycles`` is None.

        Raises
        ------
        pinion.batch.InputError
            As for a card.
        """
        batch = check_arrays(self._inputs, by_name(self._inputs, values, arrays))
        states = {
            a.name: np.broadcast_to(batch.arrays[a.name], (batch.count, *a.shape)).astype(float)
            for a in self._inputs
        }
        results, stream = self.function.follow(self.model, states, start=self._state)
        self._state = stream.left or None
        flags = not_finite(results, batch.count)
        if batch.single:
            results = {name: array[0, ...] for name, array in results.items()}
            return Result(arrays=results, saturated=flags[0, ...], cycles=None)
        return Result(arrays=results, saturated=flags, cycles=None)

    def __reduce__(self) -> tuple[Any, ...]:
        return _float, (self.model, portable(self.function), self._state)

    def __repr__(self) -> str:
        return f"<FloatBackend {self.function!r} of {self.model!r}>"

    def _repr_html_(self) -> str:
        title = f"{self.function.name} of {self.model.name}, the float model"
        return backend_table(title, self._inputs, arrays_of(self.function.results, self.model))


def _float(
    model: Model, function: PortableFunction, state: dict[str, float] | None
) -> FloatBackend:
    backend = FloatBackend(model=model, function=function.function())
    backend._state = state
    return backend


class CardBackend(Backend):
    """A card, simulated or real, that holds a build.

    A simulated card is pickled and copied as robot, function and options: the copy opens a new
    card, at the beginning of a stream, with its own build unless a folder was given.

    Members
    -------
    device : the open device, for ``submit`` and the manifest.
    folder : the build folder.
    """

    def __init__(
        self,
        *,
        device: Device,
        folder: Path,
        temporary: bool,
        address: str = "",
        request: tuple[Any, ...] = (),
    ) -> None:
        self.device = device
        self.folder = folder
        self._address = address
        self._asked = request
        # Also if nobody closes it, at the latest when Python ends.
        self._remove = (
            weakref.finalize(self, shutil.rmtree, folder.parent, ignore_errors=True)
            if temporary
            else None
        )

    def run(self, /, *values: ArrayLike, **arrays: ArrayLike) -> Result:
        """Compute a batch, as :meth:`pinion.driver.Device.run` does."""
        return self.device.run(*values, **arrays)

    def __reduce__(self) -> tuple[Any, ...]:
        name = split_device(self._address)[0]
        if name != SIM:
            raise DriverError(
                f"The card '{self._address}' cannot be copied or sent to another process: only one "
                "process can hold it. Close it here and open it there, with pinion.api.backend("
                f"..., device='{self._address}')."
            )
        model, row, options = self._asked
        return _simulated, (model, portable(row), options)

    def reset_state(self) -> None:
        """Begin a new stream, as :meth:`pinion.driver.Device.reset_state` does."""
        self.device.reset_state()

    def __repr__(self) -> str:
        return f"<CardBackend {self.device!r} in {str(self.folder)!r}>"

    def _repr_html_(self) -> str:
        return self.device._repr_html_()

    def close(self) -> None:
        """Close the device, and remove a temporary build folder."""
        self.device.close()
        if self._remove is not None:
            self._remove()


def _simulated(robot: Any, function: PortableFunction, options: Mapping[str, Any]) -> CardBackend:
    opened: Any = backend(robot, function.function(), device=SIM, **options)
    card: CardBackend = getattr(opened, "backend", opened)  # without defaults of parameters
    return card


def backend(
    robot: str | os.PathLike[str] | Model | None,
    function: str | Function,
    *,
    device: str = "cpu",
    **options: Unpack[BackendOptions],
) -> Backend:
    """Open a backend that computes a function of a robot on a device.

    Parameters
    ----------
    robot : a built-in name, the path of a URDF or MJCF file, a loaded model, or None for a function
        that takes no robot.
    function : name of a row of the function table, or your own function, as an object or as
        ``module:function``, ``file.py:function`` or the name of its entry point.
    device : ``cpu`` (compiled for this machine), ``cuda`` or ``cuda:1`` (compiled for a GPU),
        ``float`` (the float model on the host), ``sim`` (the simulated card) or another transport
        of the driver with its address, such as ``xdma:0``. Other packages add devices by entry
        points of the group ``pinion.backends``.
    options : of the row, ``derivatives``, ``inputs``, ``outputs``, ``joint_terms``,
        ``friction_width``, ``parameters``, ``parameter_range``
        (:class:`pinion.functions.RowOptions`); of the robot, ``lock``, ``tip``, ``floating_base``,
        ``accept_inertia`` (also for sets of parameters that no body can have), ``gravity``,
        ``contacts``, ``loops``, ``snap`` (:class:`pinion.robot.RobotOptions`; cards snap unless it
        is False, the others only if it is True); of the device: `CardOptions` of cards, the others
        as in `BackendOptions`.
        ``progress=Progress(print)`` shows what is compiled or built before the first batch.

    Raises
    ------
    ValueError
        A subclass with an error message: an unknown robot, function, format, device or option.
    """
    checked: Any = device
    if not isinstance(checked, str):
        raise DriverError(f"The device must be a name, such as 'cpu', not {checked!r}.")
    name, address = split_device(device)
    remaining: dict[str, Any] = dict(options)
    row_options = cast(RowOptions, _taken(remaining, RowOptions))
    robot_options = cast(RobotOptions, _taken(remaining, RobotOptions))
    row = row_of(function, **row_options)
    accept_inertia = robot_options.get("accept_inertia", False)
    if row.parameters and isinstance(robot, Model):
        robot_options.pop("accept_inertia", None)  # which then is about the sets alone
    point = _entry_point(name)
    if point is not None:
        opener = _loaded(point)
        _check_options(name, _keywords(opener), remaining)
        model = asked_robot(robot, **robot_options)
        row.check(model)
        opened: Backend = opener(model, row, address, **remaining)
        return _with_defaults(opened, model, row, options.get("layout"), accept_inertia)
    if name not in transports():
        names = sorted({*entry_points(group=GROUP).names, *transports()})
        raise DriverError(
            f"There is no device '{device}'; give one of {', '.join(names)}, with an address "
            "after a colon if it needs one."
        )
    _check_options(name, [*CardOptions.__annotations__, "progress"], remaining)
    card, model = _card(robot, row, device, robot_options, **remaining)
    return _with_defaults(card, model, row, None, accept_inertia)


def _with_defaults(
    opened: Backend, model: Model, row: Function, layout: str | None, accept_inertia: bool
) -> Backend:
    """Wrap a backend to make parameters optional, if it has any and samples are the first axis."""
    if not row.parameters or layout not in (None, "aos"):
        return opened
    return ParametricBackend(
        backend=opened, model=model, function=row, accept_inertia=accept_inertia
    )


def _taken(options: dict[str, Any], kind: type) -> dict[str, Any]:
    """Remove the options that a typed dictionary declares, and return them."""
    return {name: options.pop(name) for name in kind.__annotations__ if name in options}


def _entry_point(name: str) -> EntryPoint | None:
    """Return a device's entry point, not yet loaded, or None; Pinion's own are searched first."""
    try:
        pinion_points = distribution(installation.DISTRIBUTION).entry_points.select(
            group=GROUP, name=name
        )
    except PackageNotFoundError:
        pinion_points = entry_points(group=GROUP, name=name)
    points = tuple(pinion_points) or tuple(entry_points(group=GROUP, name=name))
    return points[0] if points else None


def _loaded(point: EntryPoint) -> Callable[..., Backend]:
    with installation.needs(DriverError):
        opener = point.load()
    if not callable(opener):
        raise DriverError(
            f"The entry point '{point.name}' of {GROUP} must be a function that opens a backend, "
            f"not {opener!r}."
        )
    checked: Callable[..., Backend] = opener
    return checked


def _keywords(opener: Callable[..., Any]) -> list[str]:
    """Return the names of a function's keyword-only parameters."""
    return [
        name
        for name, parameter in inspect.signature(opener).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    ]


def _check_options(device: str, allowed: Sequence[str], options: Mapping[str, Any]) -> None:
    every = (*RowOptions.__annotations__, *RobotOptions.__annotations__)
    for name in options:
        if name not in allowed:
            near = get_close_matches(name, (*every, *allowed), n=1)
            specific = ", ".join(allowed)
            raise InputError(
                f"The device '{device}' has no option '{name}'"
                + (f" (did you mean '{near[0]}'?)" if near else "")
                + (f"; its own options are {specific}, and" if specific else ";")
                + f" every device has {', '.join(every)}."
            )


def open_float(
    model: Model, function: Function, address: str, *, progress: Progress = SILENT
) -> FloatBackend:
    """Open the float model: the entry point ``float``.

    Raises
    ------
    InputError
        If the device has an address.
    """
    if address:
        raise InputError(
            f"The device 'float' has no address, but '{address}' follows the colon: leave it out."
        )
    del progress
    return FloatBackend(model=model, function=function)


def _card(
    robot: str | os.PathLike[str] | Model | None,
    row: Function,
    device: str,
    robot_options: RobotOptions,
    *,
    folder: str | Path | None = None,
    progress: Progress = SILENT,
    **options: Unpack[CoreOptions],
) -> tuple[CardBackend, Model]:
    """Build a core and open a card that runs it; return the card and the core's robot."""
    with installation.needs(DriverError):  # the float model only needs NumPy
        from pinion.flow import build
    path = Path(tempfile.mkdtemp(prefix="pinion-")) / "build" if folder is None else Path(folder)
    request = BuildRequest.of(**robot_options, **options)
    try:
        model, as_read = request.robot.read(robot)
        if not _holds(path, model=model, row=row, request=request):
            build(model, row, path, request, as_read=as_read, progress=progress)
        opened = driver.open(path, device=device, progress=progress)
    except BaseException:
        if folder is None:
            shutil.rmtree(path.parent, ignore_errors=True)
        raise
    card = CardBackend(
        device=opened,
        folder=path,
        temporary=folder is None,
        address=device,
        request=(robot, row, {**robot_options, **options, "folder": folder}),
    )
    return card, model


def _holds(folder: Path, *, model: Model, row: Function, request: BuildRequest) -> bool:
    """Return whether a folder contains an intact build of this request for an equal robot.

    A build with formats from a file is never reused: the file may have changed.
    """
    from pinion.flow import Build
    from pinion.flow.objective import PLAN_SUFFIX
    from pinion.flow.targets import resolved

    try:
        build = Build.read(folder)
    except ManifestError:
        return False
    complete = resolved(request)
    if str(complete.formats).endswith(PLAN_SUFFIX) or build.manifest.task:
        return False
    core = core_names()
    stored, plain = build.manifest.request, complete.plain()
    if any(stored.get(name, "") != plain[name] for name in core):
        return False
    # Names of fixed joints are only in builds of frames, whose traces are compared below.
    built, requested = (replace(coupled(m), fixed_joints=()) for m in (build.model, model))
    if model_to_dict(built) != model_to_dict(requested):
        return False
    return build.function == BuiltFunction.of(row, model)
