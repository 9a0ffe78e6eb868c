"""The interface of all backends."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from numpy.typing import ArrayLike

from pinion.base.html import html_table
from pinion.link import Array

from .errors import InputError
from .result import Result
from .units import mixed_units_sentence


class Closing(Protocol):
    """A context manager that closes itself at the end of its ``with`` block."""

    def close(self) -> None:
        """Release the resources of the object; by default there are none."""
        return  # not abstract

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Backend(Closing, Protocol):
    """A function of a robot on any device; a context manager.

    Pinion's backends derive from it and implement `run`; others need only the same methods.
    """

    @abstractmethod
    def run(self, /, *values: ArrayLike, **arrays: Any) -> Result:
        """Compute a batch from arrays (...) or (n, ...), and return named arrays.

        Positional arrays are the function's inputs in order; pass the others by name.
        """

    def __call__(self, /, *values: ArrayLike, **arrays: Any) -> Result:
        """Compute a batch, as `run` does."""
        return self.run(*values, **arrays)

    def attach(
        self,
        link: str,
        *,
        mass: float,
        com: Sequence[float] = (0.0, 0.0, 0.0),
        inertia: Sequence[float] | None = None,
    ) -> None:
        """Fix a rigid load to a link for all later calls; it replaces an earlier load on that link.

        Calls in progress keep the load with which they began.

        Parameters
        ----------
        link : one of the backend's parameters.
        mass : mass of the load [kg]; 0 detaches it.
        com : (3,) its centre of mass, link coordinates [m].
        inertia : (6,) xx, xy, xz, yy, yz, zz about that centre, link axes [kg m^2]; None for a
            point mass.

        Raises
        ------
        InputError
            If the backend was not opened with the link among its ``parameters``, or no real body
            can be such a load.
        """
        del mass, com, inertia
        raise InputError(
            f"This {type(self).__name__} does not accept loads: to attach one, open it with "
            f"pinion.api.backend, parameters=({link!r},) and the default layout 'aos'."
        )


def backend_table(title: str, inputs: Sequence[Array], results: Sequence[Array]) -> str:
    """Return a backend's inputs and results as a table for notebooks.

    Parameters
    ----------
    title : robot, function and where they are computed.
    inputs, results : with shapes of one sample.
    """
    rows = [
        (way, a.name, " x ".join(map(str, ("n", *a.shape))), a.unit)
        for way, arrays in (("in", inputs), ("out", results))
        for a in arrays
    ]
    note = mixed_units_sentence((*inputs, *results))
    return html_table(title, rows, heads=("", "array", "shape", "unit"), note=note)
