"""What every way to compute a function has in common."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from numpy.typing import ArrayLike

from .result import Result


class Backend(Protocol):
    """A function of a robot, wherever it runs; a context manager."""

    def run(self, /, *values: ArrayLike, **arrays: ArrayLike) -> Result:
        """Compute a batch: arrays (...) or (n, ...) in, named arrays out.

        Arrays by position are the function's inputs in their order; the others go by name.
        """

    def __call__(self, /, *values: ArrayLike, **arrays: ArrayLike) -> Result:
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


class Closing:
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
