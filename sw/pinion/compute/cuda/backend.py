"""The GPU as a backend: what the entry point ``cuda`` of ``pinion.backends`` opens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from numpy.typing import DTypeLike

from pinion.functions import Function, InputError, Result, arrays_of
from pinion.functions.backend import Closing, backend_table
from pinion.robot import Model

from . import compile as compile_kernel
from .kernel import CudaKernel


class CudaBackend(Closing):
    """A function on a GPU.

    Members
    -------
    kernel : what computes; it refuses NaN and infinities in arrays of the host.
    model, function : what is computed.
    """

    def __init__(self, kernel: CudaKernel) -> None:
        self.kernel = kernel
        self.model = kernel.model
        self.function = kernel.function

    def run(self, /, *values: Any, **arrays: Any) -> Result:
        """Compute a batch, as :class:`pinion.compute.cuda.CudaKernel` does.

        Raises
        ------
        pinion.functions.InputError
            As from a card.
        """
        return self.kernel(*values, **arrays)

    def __call__(self, /, *values: Any, **arrays: Any) -> Result:
        """Compute a batch, as `run` does."""
        return self.kernel(*values, **arrays)

    def __repr__(self) -> str:
        return f"<CudaBackend {self.kernel!r}>"

    def _repr_html_(self) -> str:
        row, model = self.function, self.model
        place = f"{self.kernel.device.name}: {self.kernel.dtype.name}"
        title = f"{row.name} of {model.name} on {place}"
        return backend_table(title, arrays_of(row.inputs, model), arrays_of(row.results, model))

    def close(self) -> None:
        """Give the GPU's memory back."""
        self.kernel.close()


def open_backend(
    model: Model,
    function: Function,
    address: str,
    *,
    dtype: DTypeLike = "float32",
    layout: str = "aos",
    graphs: bool = True,
    cache: Path | None = None,
    report: Callable[[str], None] | None = None,
) -> CudaBackend:
    """Compile a function for a GPU; the options are those of :func:`pinion.compute.cuda.compile`.

    Parameters
    ----------
    address : the number of the GPU; empty is 0.

    Raises
    ------
    InputError
        As `compile`, and when the address is no number.
    """
    if address and not (address.isascii() and address.isdigit()):
        raise InputError(f"The device 'cuda:{address}' has no number: give cuda:0 or the like.")
    return CudaBackend(
        compile_kernel(
            model,
            function,
            dtype=dtype,
            layout=layout,
            finite=True,
            graphs=graphs,
            device=int(address or 0),
            cache=cache,
            report=report,
        )
    )
