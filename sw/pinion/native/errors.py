"""Errors of compiling a function or computing a batch."""

from __future__ import annotations

from pinion.batch import InputError


class ComputeError(InputError):
    """An error that the caller or the machine's owner can correct; the message says how.

    For example a wrong array, an unsupported instruction set, or a missing or failing compiler.
    """


class StorageError(ComputeError):
    """A failure to write a file, for example for lack of space or permission.

    Members
    -------
    reason : the cause in a few words, which the message contains too.
    """

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason
