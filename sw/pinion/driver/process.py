"""Which process a device belongs to: a child that ``fork`` made has its memory and not its threads.

What the child would do with it would wait for ever, or reach into its parent's transfers.
"""

from __future__ import annotations

import os
from concurrent.futures import Future
from typing import Generic, TypeVar

from .errors import DriverError

T = TypeVar("T")


class Owner:
    """The process that this was made in."""

    __slots__ = ("_number",)

    def __init__(self) -> None:
        self._number = os.getpid()

    @property
    def here(self) -> bool:
        """Whether the caller is in that process."""
        return os.getpid() == self._number

    def check(self) -> None:
        """Refuse another process.

        Raises
        ------
        DriverError
            With the numbers of both.
        """
        if not self.here:
            raise DriverError(
                f"The device was opened by process {self._number}, and process {os.getpid()} was "
                "forked from it without the threads that serve the card: open a device in the "
                "process that uses it, after the fork, or start processes with the method 'spawn'."
            )


class OwnedFuture(Future[T], Generic[T]):
    """A future that threads of the process settle which made it, and no child of it waits for."""

    def __init__(self) -> None:
        super().__init__()
        self._owner = Owner()

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result.

        Raises
        ------
        DriverError
            In a forked child, where nobody would settle it.
        """
        self._check()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the error, or for None; raises as `result` does in a forked child."""
        self._check()
        return super().exception(timeout)

    def _check(self) -> None:
        if not self._owner.here and not self.done():
            self._owner.check()
