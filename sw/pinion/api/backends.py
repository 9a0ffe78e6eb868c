"""One name for every way to compute a function: ``backend("iiwa14", "rnea", device="cpu")``."""

from __future__ import annotations

import inspect
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from pathlib import Path
from typing import Any, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from pinion import driver
from pinion.base import installation
from pinion.base.progress import SILENT, Progress
from pinion.batch import Backend, InputError, Result, by_name, check_arrays
from pinion.batch.backend import backend_table
from pinion.batch.result import not_finite
from pinion.driver import Device, DriverError
from pinion.driver.transport import split_device, transports
from pinion.functions import BuiltFunction, Function, RowOptions, arrays_of, row_of
from pinion.functions.portable import PortableFunction, portable
from pinion.link import ManifestError
from pinion.request import BuildRequest, CoreOptions, core_names
from pinion.robot import Model, RobotOptions, asked_robot, coupled, model_to_dict

SIM = "sim"
"""The device that is a simulated card."""

GROUP = "pinion.backends"
"""Entry points that compute on the host or on a device of their own; what is none is a card."""


class CardOptions(CoreOptions, total=False):
    """Options of the devices that are cards: those of the build that is made for them.

    Members
    -------
    ii, formats, max_error, ranges, objective, clock_mhz : as of
        :class:`pinion.request.BuildRequest`; its target is the simulation.
    folder : used again when it holds just this build, else built anew; by default a temporary one
        that goes when the backend is closed.
    """

    folder: str | Path | None


class BackendOptions(RowOptions, RobotOptions, CardOptions, total=False):
    """Everything that :func:`backend` takes by name, of the row, the robot and the devices.

    Members
    -------
    dtype, layout, check_rotations, reuse, threads, isa, compiler, cache : of ``cpu``
        (:func:`pinion.compute.cpu.compile`).
    dtype, layout, check_rotations, graphs, cache : of ``cuda``
        (:func:`pinion.compute.cuda.compile`).
    progress : told each step of what takes its time before the first batch, compiling or building;
        ``progress=Progress(print)`` shows them.
    """

    dtype: DTypeLike
    layout: str
    check_rotations: bool
    reuse: bool
    threads: int
    isa: str | None
    compiler: str | None
    graphs: bool
    cache: Path | None
    progress: Progress


class FloatBackend(Backend):
    """The float model on the host: float64 results of the float32 requests that a card would get.

    States of a function go on from batch to batch, until `reset_state`. It pickles and copies by
    robot and function, with what it knows of a stream.

    Members
    -------
    model, function : what is computed.
    """

    def __init__(self, *, model: Model, function: Function) -> None:
        self.model = model
        self.function = function
        self._inputs = arrays_of(function.inputs, model)
        self._state: dict[str, float] | None = None

    def reset_state(self) -> None:
        """Begin a new stream: the next request finds the function's initial states."""
        self._state = None

    def run(self, /, *values: ArrayLike, **arrays: ArrayLike) -> Result:
        """Compute a batch; ``saturated`` says which results are not finite, ``cycles`` is None.

        Raises
        ------
        pinion.batch.InputError
            As from a card.
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

    A simulated one pickles and copies by robot, function and options: a card of its own, at the
    beginning of a stream, is opened where it arrives, of a build that is made there unless it has a
    folder of its own.

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
        # Also where nobody closes it, at the latest when Python ends.
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
                f"A card cannot be copied or sent to another process, and '{self._address}' is "
                "one: one process holds it; open it there, by pinion.api.backend(..., "
                f"device='{self._address}'), and close it here before."
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
        """Close the device; a build folder that the backend made for itself goes too."""
        self.device.close()
        if self._remove is not None:
            self._remove()


def _simulated(robot: Any, function: PortableFunction, options: Mapping[str, Any]) -> CardBackend:
    return cast(CardBackend, backend(robot, function.function(), device=SIM, **options))


def backend(
    robot: str | os.PathLike[str] | Model | None,
    function: str | Function,
    *,
    device: str = "cpu",
    **options: Unpack[BackendOptions],
) -> Backend:
    """Pick a way to compute a function by name.

    Parameters
    ----------
    robot : a built-in name, the path of a URDF or MJCF file, a model that was loaded, or None for a
        function that takes no robot.
    function : a row of the table of functions by its name, or a function of your own, as it is or
        by ``module:function``, ``file.py:function`` or the name of its entry point.
    device : ``cpu`` (compiled for this machine), ``cuda`` or ``cuda:1`` (compiled for a GPU),
        ``float`` (the float model on the host), ``sim`` (the simulated card) or another transport
        of the driver with its address, such as ``xdma:0``. Other packages add devices by entry
        points of the group ``pinion.backends``.
    options : of the row, ``derivatives``, ``outputs``, ``joint_terms``, ``friction_width``
        (:class:`pinion.functions.RowOptions`); of the robot, ``lock``, ``tip``, ``floating_base``,
        ``accept_inertia``, ``gravity``, ``snap`` (:class:`pinion.robot.RobotOptions`; cards snap
        unless that is False, the others only where it is True); of the device: `CardOptions` of
        cards, the others as in `BackendOptions`. What is compiled or built before the first batch
        says so with ``progress=Progress(print)``.

    Raises
    ------
    ValueError
        Subclasses with a sentence: an unknown robot, function, format, device or option.
    """
    checked: Any = device
    if not isinstance(checked, str):
        raise DriverError(f"The device is {checked!r}: give the name of one, such as 'cpu'.")
    name, address = split_device(device)
    remaining: dict[str, Any] = dict(options)
    row_options = cast(RowOptions, _taken(remaining, RowOptions))
    robot_options = cast(RobotOptions, _taken(remaining, RobotOptions))
    row = row_of(function, **row_options)
    point = _entry_point(name)
    if point is not None:
        opener = _loaded(point)
        _check_options(name, _keywords(opener), remaining)
        model = asked_robot(robot, **robot_options)
        row.check(model)
        opened: Backend = opener(model, row, address, **remaining)
        return opened
    if name not in transports():
        names = sorted({*entry_points(group=GROUP).names, *transports()})
        raise DriverError(
            f"There is no device '{device}'; give one of {', '.join(names)}, with an address "
            "behind a colon if it needs one."
        )
    _check_options(name, [*CardOptions.__annotations__, "progress"], remaining)
    return _card(robot, row, device, robot_options, **remaining)


def _taken(options: dict[str, Any], kind: type) -> dict[str, Any]:
    """The options of one kind, which are no longer among the others then."""
    return {name: options.pop(name) for name in kind.__annotations__ if name in options}


def _entry_point(name: str) -> EntryPoint | None:
    """The backend of a device, not loaded yet; Pinion's own are found without a look at others."""
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
        raise DriverError(f"The entry point '{point.name}' of {GROUP} is no function: {opener!r}.")
    checked: Callable[..., Backend] = opener
    return checked


def _keywords(opener: Callable[..., Any]) -> list[str]:
    """Names of what a function takes by keyword alone."""
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
            raise InputError(
                f"The device '{device}' has no option '{name}'"
                + (f", perhaps {near[0]}; it has " if near else "; it has ")
                + (", ".join(allowed) or "none")
                + f", and every device has {', '.join(every)}."
            )


def open_float(
    model: Model, function: Function, address: str, *, progress: Progress = SILENT
) -> FloatBackend:
    """Open the float model: the entry point ``float``; it has nothing to report.

    Raises
    ------
    InputError
        When the device has an address.
    """
    if address:
        raise InputError(
            f"The device 'float' has no address, and '{address}' stands behind the colon."
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
) -> CardBackend:
    """Build a core and open a card that has it."""
    with installation.needs(DriverError):  # the float model needs NumPy alone
        from pinion.flow.build import build
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
    return CardBackend(
        device=opened,
        folder=path,
        temporary=folder is None,
        address=device,
        request=(robot, row, {**robot_options, **options, "folder": folder}),
    )


def _holds(folder: Path, *, model: Model, row: Function, request: BuildRequest) -> bool:
    """Whether a folder holds an intact build of exactly this, the robot's numbers included.

    Formats from a file are built anew: the file may be another one than it was.
    """
    from pinion.flow.build import Build
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
    if model_to_dict(coupled(build.model)) != model_to_dict(coupled(model)):
        return False
    return build.function == BuiltFunction.of(row, model)
