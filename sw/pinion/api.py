"""One name for every way to compute a function: ``backend("iiwa14", "rnea", device="cpu")``.

What a function of one's own is written with is here too: the decorator :func:`function`, the
descriptions of its arrays and the scalar functions that can be traced.
"""

from __future__ import annotations

import inspect
import shutil
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pinion import driver, installation
from pinion.driver import Device, DriverError, find_transport
from pinion.driver.transport import split_device
from pinion.dynamics.joint_terms import FRICTION_WIDTH
from pinion.dynamics.scalar import (
    absolute,
    arctan2,
    clamp,
    cos,
    hypot2,
    less,
    look_up,
    maximum,
    minimum,
    reciprocal,
    select,
    sin,
    sqrt,
)
from pinion.fixedpoint.piecewise import Piecewise
from pinion.functions import (
    Backend,
    Block,
    BuiltFunction,
    Closing,
    Function,
    FunctionError,
    InputError,
    OwnFunction,
    Quantity,
    Result,
    State,
    Uniform,
    array,
    arrays_of,
    check_arrays,
    row_of,
    state,
    uniform,
)
from pinion.functions.own import function
from pinion.robot import NO_ROBOT, Model, coupled, load, model_to_dict

from .link.manifest import ManifestError

__all__ = [
    "ACCELERATION",
    "EFFORT",
    "POSITION",
    "VELOCITY",
    "Backend",
    "Block",
    "CardBackend",
    "FloatBackend",
    "FunctionError",
    "OwnFunction",
    "Piecewise",
    "Quantity",
    "State",
    "Uniform",
    "__version__",
    "absolute",
    "arctan2",
    "array",
    "backend",
    "clamp",
    "cos",
    "function",
    "hypot2",
    "less",
    "look_up",
    "maximum",
    "minimum",
    "reciprocal",
    "select",
    "sin",
    "sqrt",
    "state",
    "uniform",
]

POSITION = Quantity.POSITION
VELOCITY = Quantity.VELOCITY
ACCELERATION = Quantity.ACCELERATION
EFFORT = Quantity.EFFORT

__version__ = installation.version()
"""The version of the installed distribution."""

GROUP = "pinion.backends"
"""Entry points that compute on the host or on a device of their own; what is none is a card."""


class FloatBackend(Closing):
    """The float model on the host: float64 results of the float32 requests that a card would get.

    States of a function go on from batch to batch, until `reset_state`.

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

    def run(self, **arrays: ArrayLike) -> Result:
        """Compute a batch; ``saturated`` is False throughout, ``cycles`` None.

        Raises
        ------
        pinion.functions.InputError
            As from a card.
        """
        batch = check_arrays(self._inputs, arrays)
        states = {
            a.name: np.broadcast_to(batch.arrays[a.name], (batch.count, *a.shape)).astype(float)
            for a in self._inputs
        }
        results, stream = self.function.follow(self.model, states, start=self._state)
        self._state = stream.left or None
        flags = np.zeros(batch.count, dtype=np.bool_)
        if batch.single:
            results = {name: array[0, ...] for name, array in results.items()}
            return Result(arrays=results, saturated=flags[0, ...], cycles=None)
        return Result(arrays=results, saturated=flags, cycles=None)

    def __call__(self, **arrays: ArrayLike) -> Result:
        """Compute a batch, as `run` does."""
        return self.run(**arrays)


class CardBackend(Closing):
    """A card, simulated or real, that holds a build.

    Members
    -------
    device : the open device, for ``submit`` and the manifest.
    folder : the build folder.
    """

    def __init__(self, *, device: Device, folder: Path, temporary: bool) -> None:
        self.device = device
        self.folder = folder
        self._temporary = temporary

    def run(self, **arrays: ArrayLike) -> Result:
        """Compute a batch, as :meth:`pinion.driver.Device.run` does."""
        return self.device.run(**arrays)

    def __call__(self, **arrays: ArrayLike) -> Result:
        """Compute a batch, as `run` does."""
        return self.run(**arrays)

    def reset_state(self) -> None:
        """Begin a new stream, as :meth:`pinion.driver.Device.reset_state` does."""
        self.device.reset_state()

    def close(self) -> None:
        """Close the device; a build folder that the backend made for itself goes too."""
        self.device.close()
        if self._temporary:
            shutil.rmtree(self.folder.parent, ignore_errors=True)


def _quiet(message: str) -> None:
    del message


def backend(
    robot: str | Model | None,
    function: str | Function,
    *,
    device: str = "sim",
    derivatives: str = "composite",
    outputs: Sequence[str] = (),
    joint_terms: bool | Sequence[str] = (),
    friction_width: float = FRICTION_WIDTH,
    **options: Any,
) -> Backend:
    """Pick a way to compute a function by name.

    Parameters
    ----------
    robot : a built-in name, a URDF path, a model that was loaded (with a floating base, say), or
        None for a function that takes no robot.
    function : a row of the table of functions by its name, or a function of your own, as it is or
        by ``module:function``, ``file.py:function`` or the name of its entry point.
    device : ``cpu`` (compiled for this machine), ``cuda`` or ``cuda:1`` (compiled for a GPU),
        ``float`` (the float model on the host), ``sim`` (the simulated card) or another transport
        of the driver with its address, such as ``xdma:0``. Other packages add devices by entry
        points of the group ``pinion.backends``.
    derivatives, outputs, joint_terms, friction_width : as of :func:`pinion.functions.function`.
    options : of the device. ``cpu``: those of :func:`pinion.compute.backend.open_backend`, among
        them ``dtype`` and ``threads``. ``cuda``: those of
        :func:`pinion.compute.cuda.backend.open_backend`. Cards: ``ii`` and ``formats`` of the
        build; ``snap``, False to keep rounded right angles as written; ``folder``, used again when
        it holds just this build, else built anew, by default a temporary one that goes when the
        backend is closed; ``report``, called with a short line at each step of a build.

    Raises
    ------
    ValueError
        Subclasses with a sentence: an unknown robot, function, format, device or option.
    """
    name, address = split_device(device)
    robot = NO_ROBOT if robot is None else robot
    row = row_of(
        function,
        derivatives=derivatives,
        outputs=outputs,
        joint_terms=joint_terms,
        friction_width=friction_width,
    )
    point = _entry_point(name)
    if point is not None:
        opener = _loaded(point)
        _check_options(name, opener, options)
        model = load(robot) if isinstance(robot, str) else robot
        row.check(model)
        made: Backend = opener(model, row, address, **options)
        return made
    _check_options(name, _card, options)
    return _card(robot, row, device, **options)


def _entry_point(name: str) -> EntryPoint | None:
    """The backend of a device, not loaded yet; Pinion's own are found without a look at others."""
    try:
        own = distribution(installation.DISTRIBUTION).entry_points.select(group=GROUP, name=name)
    except PackageNotFoundError:
        own = entry_points(group=GROUP, name=name)
    found = tuple(own) or tuple(entry_points(group=GROUP, name=name))
    return found[0] if found else None


def _loaded(point: EntryPoint) -> Callable[..., Backend]:
    try:
        opener = point.load()
    except ModuleNotFoundError as error:
        raise DriverError(installation.missing_module(error) or str(error)) from error
    if not callable(opener):
        raise DriverError(f"The entry point '{point.name}' of {GROUP} is no function: {opener!r}.")
    made: Callable[..., Backend] = opener
    return made


def _check_options(device: str, opener: Callable[..., Any], options: dict[str, Any]) -> None:
    known = [
        name
        for name, parameter in inspect.signature(opener).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    for name in options:
        if name not in known:
            raise InputError(
                f"The device '{device}' has no option '{name}'; "
                + (f"it has {', '.join(known)}." if known else "it has none.")
            )


def open_float(model: Model, function: Function, address: str) -> FloatBackend:
    """Open the float model: the entry point ``float``.

    Raises
    ------
    InputError
        When the device has an address.
    """
    if address:
        raise InputError(
            f"The device 'float' has no address, and '{address}' stands behind the colon."
        )
    return FloatBackend(model=model, function=function)


def _card(
    robot: str | Model,
    row: Function,
    device: str,
    *,
    ii: int = 8,
    formats: str = "q16.16",
    folder: str | Path | None = None,
    snap: bool = True,
    report: Callable[[str], None] = _quiet,
) -> CardBackend:
    """Build a core and open a card that has it."""
    find_transport(device)  # before minutes of building
    try:
        from .flow.build import build  # not at the top: the float model needs NumPy alone
    except ModuleNotFoundError as error:
        raise DriverError(installation.missing_module(error) or str(error)) from error
    path = Path(tempfile.mkdtemp(prefix="pinion-")) / "build" if folder is None else Path(folder)
    try:
        if not _holds(path, robot=robot, row=row, ii=ii, formats=formats, snap=snap):
            build(robot, row, path, ii=ii, formats=formats, snap=snap, report=report)
        opened = driver.open(path, device=device)
    except BaseException:
        if folder is None:
            shutil.rmtree(path.parent, ignore_errors=True)
        raise
    return CardBackend(device=opened, folder=path, temporary=folder is None)


def _holds(
    folder: Path, *, robot: str | Model, row: Function, ii: int, formats: str, snap: bool
) -> bool:
    """Whether a folder holds an intact build of exactly this, the robot's numbers included."""
    from .flow.build import Build

    try:
        found = Build.read(folder)
    except ManifestError:
        return False
    m = found.manifest
    model = load(robot, snap=snap) if isinstance(robot, str) else robot
    if (m.function, m.ii, m.formats) != (row.name, ii, formats):
        return False
    if model_to_dict(coupled(found.model)) != model_to_dict(coupled(model)):
        return False
    return found.function == BuiltFunction.of(row, model)
