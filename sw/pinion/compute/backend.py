"""The backend for the CPU: the entry point ``cpu`` of ``pinion.backends``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike, DTypeLike

from pinion.base.progress import SILENT, Progress
from pinion.batch import Backend, InputError, Result, backend_table
from pinion.functions import Function
from pinion.robot import Model

from . import cpu
from .cpu import Kernel
from .native import called_by


class CpuBackend(Backend):
    """A backend that computes a function on this machine's CPU.

    Members
    -------
    kernel : the compiled function; it refuses NaN and infinities.
    model, function : its robot and function.

    It is pickled and copied like its kernel.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.model = kernel.model
        self.function = kernel.function
        # Replaces the method: a call saves the time that Python takes to pass its arguments on.
        self.run = kernel.run  # type: ignore[method-assign]
        self.__class__ = called_by(CpuBackend, kernel.run)

    def run(self, /, *values: ArrayLike, **arrays: ArrayLike) -> Result:
        """Compute a batch, as :class:`pinion.compute.cpu.Kernel` does.

        Raises
        ------
        pinion.batch.InputError
            As for a card.
        """
        return self.kernel(*values, **arrays)

    def __call__(self, /, *values: ArrayLike, **arrays: ArrayLike) -> Result:
        """Compute a batch, as `run` does."""
        result: Result = self.run(*values, **arrays)
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        return CpuBackend, (self.kernel,)

    def __repr__(self) -> str:
        k = self.kernel
        settings = f"{k.dtype.name}, {k.layout}, {k.isa.name}"
        return f"<CpuBackend {self.function!r} of {self.model!r}: {settings}>"

    def _repr_html_(self) -> str:
        k = self.kernel
        title = f"{k.title} on the CPU: {k.dtype.name}, {k.layout}, {k.isa.name}"
        return backend_table(title, k.inputs, k.results)


# Many parameters: `backend` reads a device's options from the keywords of its entry point.
def open_backend(
    model: Model,
    function: Function,
    address: str,
    *,
    dtype: DTypeLike = "float64",
    layout: str = "aos",
    check_rotations: bool = True,
    reuse: bool = True,
    threads: int = 0,
    isa: str | None = None,
    compiler: str | None = None,
    cache: Path | None = None,
    progress: Progress = SILENT,
) -> CpuBackend:
    """Compile a function for this machine; the options are those of :func:`cpu.compile`.

    Raises
    ------
    InputError
        As `cpu.compile`, or if the device has an address.
    """
    if address:
        raise InputError(
            f"The device 'cpu' has no address, but '{address}' follows the colon: leave it out; "
            "options are keywords, such as threads=1."
        )
    return CpuBackend(
        cpu.compile(
            model,
            function,
            dtype=dtype,
            layout=layout,
            finite=True,
            check_rotations=check_rotations,
            reuse=reuse,
            threads=threads,
            isa=isa,
            compiler=compiler,
            cache=cache,
            progress=progress,
        )
    )
