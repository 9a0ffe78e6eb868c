"""The interface of every way to compute a function."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from numpy.typing import ArrayLike

from pinion.base.html import html_table
from pinion.link import Array

from .result import Result
from .units import mixed_units_sentence


class Closing(Protocol):
    """An object that is closed at the end of a ``with`` block."""

    def close(self) -> None:
        """Release its resources; by default there are none."""
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
    """A function of a robot, wherever it runs; a context manager.

    Pinion's backends derive from it and implement `run`; others need only the same methods.
    """

    @abstractmethod
    def run(self, /, *values: ArrayLike, **arrays: ArrayLike) -> Result:
        """Compute a batch: arrays (...) or (n, ...) in, named arrays out.

        Arrays by position are the function's inputs in their order; the others go by name.
        """

    def __call__(self, /, *values: ArrayLike, **arrays: ArrayLike) -> Result:
        """Compute a batch, as `run` does."""
        return self.run(*values, **arrays)


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
