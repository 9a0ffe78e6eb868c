"""The backend for a GPU: the entry point ``cuda`` of ``pinion.backends``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import DTypeLike

from pinion.base.progress import SILENT, Progress
from pinion.batch import Backend, InputError, Result, backend_table
from pinion.functions import Function, arrays_of
from pinion.functions.portable import PortableFunction, portable
from pinion.robot import Model

from . import compile as compile_kernel
from .kernel import CudaKernel


class CudaBackend(Backend):
    """A backend that computes a function on a GPU.

    Members
    -------
    kernel : the compiled function; it refuses NaN and infinities in host arrays.
    model, function : its robot and function.

    It is pickled and copied as robot, function and options; the copy is opened on the GPU of the
    same number.
    """

    def __init__(
        self, kernel: CudaKernel, address: str = "", options: Mapping[str, Any] | None = None
    ) -> None:
        self.kernel = kernel
        self._address = address
        self._options = dict(options or {})
        self.model = kernel.model
        self.function = kernel.function

    def run(self, /, *values: Any, **arrays: Any) -> Result:
        """Compute a batch, as :class:`pinion.compute.cuda.CudaKernel` does.

        Raises
        ------
        pinion.batch.InputError
            As for a card.
        """
        return self.kernel(*values, **arrays)

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self.model, portable(self.function), self._address, self._options)

    def __repr__(self) -> str:
        return f"<CudaBackend {self.kernel!r}>"

    def _repr_html_(self) -> str:
        row, model = self.function, self.model
        place = f"{self.kernel.device.name}: {self.kernel.dtype.name}"
        title = f"{row.name} of {model.name} on {place}"
        return backend_table(title, arrays_of(row.inputs, model), arrays_of(row.results, model))

    def close(self) -> None:
        """Free the GPU's memory."""
        self.kernel.close()


# Many parameters: `backend` reads a device's options from the keywords of its entry point.
def open_backend(
    model: Model,
    function: Function,
    address: str,
    *,
    dtype: DTypeLike = "float32",
    layout: str = "aos",
    check_rotations: bool = True,
    cache: Path | None = None,
    progress: Progress = SILENT,
) -> CudaBackend:
    """Compile a function for a GPU; the options are those of :func:`pinion.compute.cuda.compile`.

    Parameters
    ----------
    address : the number of the GPU; empty means 0.

    Raises
    ------
    InputError
        As `compile`, or if the address is not a number.
    """
    if address and not (address.isascii() and address.isdigit()):
        raise InputError(
            f"The device 'cuda:{address}' does not name a GPU by number: use 'cuda:0', for example."
        )
    options: dict[str, Any] = {
        **{"dtype": dtype, "layout": layout, "cache": cache},
        "check_rotations": check_rotations,
    }
    kernel = compile_kernel(
        model, function, finite=True, device=int(address or 0), progress=progress, **options
    )
    return CudaBackend(kernel, address, options)


def _opened(
    model: Model, function: PortableFunction, address: str, options: Mapping[str, Any]
) -> CudaBackend:
    return open_backend(model, function.function(), address, **options)
