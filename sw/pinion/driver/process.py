"""Ownership of a device by the process that opened it.

A forked child has its memory but not its threads: calls there would wait forever, or disturb the
parent's transfers.
"""

from __future__ import annotations

import os
from concurrent.futures import Future
from typing import Generic, TypeVar

from .errors import DriverError

T = TypeVar("T")


class Owner:
    """The process that created an object."""

    __slots__ = ("_number",)

    def __init__(self) -> None:
        self._number = os.getpid()

    @property
    def here(self) -> bool:
        """Whether the caller runs in the process that created the object."""
        return os.getpid() == self._number

    def check(self) -> None:
        """Raise `DriverError` if the caller runs in another process, such as a forked child."""
        if not self.here:
            raise DriverError(
                f"The device was opened by process {self._number}, and process {os.getpid()} was "
                "forked from it without the threads that serve the card: open the device only in "
                "the process that uses it, after the fork."
            )


class OwnedFuture(Future[T], Generic[T]):
    """A future settled only in the process that made it; waiting in a forked child is an error."""

    def __init__(self) -> None:
        super().__init__()
        self._owner = Owner()

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result and return it.

        Raises
        ------
        DriverError
            In a forked child, unless the future is already settled.
        """
        self._check()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the outcome and return its error, or None; raise as `result` does if forked."""
        self._check()
        return super().exception(timeout)

    def _check(self) -> None:
        if not self._owner.here and not self.done():
            self._owner.check()
