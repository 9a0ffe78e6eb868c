"""One name for every way to compute a function: ``backend("iiwa14", "rnea", device="sim")``."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from pinion import driver, installation
from pinion.driver import Device, DriverError, find_transport
from pinion.functions import BuiltFunction, Function, Result, check_arrays
from pinion.functions import function as named_function
from pinion.robot import Model, load, model_to_dict

from .link.manifest import Array, ManifestError

__all__ = ["Backend", "CardBackend", "FloatBackend", "__version__", "backend"]

__version__ = installation.version()
"""The version of the installed distribution."""

HOST_DEVICES = ("float",)
PLANNED_DEVICES = ("cpu", "cuda")


class Backend(Protocol):
    """A function of a robot, wherever it runs; a context manager."""

    def run(self, **arrays: ArrayLike) -> Result:
        """Compute a batch: named arrays (...) or (n, ...) in, named arrays out."""

    def __call__(self, **arrays: ArrayLike) -> Result:
        """Compute a batch, as `run` does."""

    def close(self) -> None:
        """Give back what the backend holds."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class _Closing:
    """Closes at the end of a ``with`` block."""

    def close(self) -> None:
        """Give back what the backend holds; here nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class FloatBackend(_Closing):
    """The float model on the host: float64 results of the float32 requests that a card would get.

    Members
    -------
    model, function : what is computed.
    """

    def __init__(self, *, model: Model, function: Function) -> None:
        self.model = model
        self.function = function
        self._inputs = tuple(
            Array(name=b.name, shape=b.dims(model), unit=b.unit) for b in function.inputs
        )

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
        results = self.function.evaluate(self.model, states)
        flags = np.zeros(batch.count, dtype=np.bool_)
        if batch.single:
            results = {name: array[0, ...] for name, array in results.items()}
            return Result(arrays=results, saturated=flags[0, ...], cycles=None)
        return Result(arrays=results, saturated=flags, cycles=None)

    def __call__(self, **arrays: ArrayLike) -> Result:
        """Compute a batch, as `run` does."""
        return self.run(**arrays)


class CardBackend(_Closing):
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

    def close(self) -> None:
        """Close the device; a build folder that the backend made for itself goes too."""
        self.device.close()
        if self._temporary:
            shutil.rmtree(self.folder.parent, ignore_errors=True)


def _quiet(message: str) -> None:
    del message


def backend(
    robot: str,
    function: str | Function,
    *,
    device: str = "sim",
    ii: int = 8,
    formats: str = "q16.16",
    folder: str | Path | None = None,
    report: Callable[[str], None] = _quiet,
) -> Backend:
    """Pick a way to compute a function by name.

    Parameters
    ----------
    robot : a built-in name or a URDF path.
    function : a row of the table of functions by its name, or a row of your own.
    device : ``float`` (the float model on the host), ``sim`` (the simulated card) or another
        transport of the driver with its address, such as ``xdma:0``.
    ii, formats : of the build, for cards; the float model has neither.
    folder : the build folder; used again when it holds just this build, else built anew. By
        default a temporary one that goes when the backend is closed.
    report : called with a short line at each step of a build.

    Raises
    ------
    ValueError
        Subclasses with a sentence: an unknown robot, function, format or device.
    """
    if device in PLANNED_DEVICES:
        raise DriverError(
            f"The device '{device}' is not there yet: take 'float' for the float model on the "
            f"host, or 'sim' for the simulated card."
        )
    row = named_function(function) if isinstance(function, str) else function
    if device in HOST_DEVICES:
        return FloatBackend(model=load(robot), function=row)
    find_transport(device)  # before minutes of building
    try:
        from .flow.build import build  # not at the top: the float model needs NumPy alone
    except ModuleNotFoundError as error:
        raise DriverError(installation.missing_module(error) or str(error)) from error
    path = Path(tempfile.mkdtemp(prefix="pinion-")) / "build" if folder is None else Path(folder)
    try:
        if not _holds(path, robot=robot, row=row, ii=ii, formats=formats):
            build(robot, row, path, ii=ii, formats=formats, report=report)
        opened = driver.open(path, device=device)
    except BaseException:
        if folder is None:
            shutil.rmtree(path.parent, ignore_errors=True)
        raise
    return CardBackend(device=opened, folder=path, temporary=folder is None)


def _holds(folder: Path, *, robot: str, row: Function, ii: int, formats: str) -> bool:
    """Whether a folder holds an intact build of exactly this, the robot's numbers included."""
    from .flow.build import Build

    try:
        found = Build.read(folder)
    except ManifestError:
        return False
    m, model = found.manifest, load(robot)
    if (m.function, m.ii, m.formats) != (row.name, ii, formats):
        return False
    if model_to_dict(found.model) != model_to_dict(model):
        return False
    return found.function == BuiltFunction.of(row, model)
