"""What can go wrong when a function is compiled or a batch is computed."""

from __future__ import annotations

from pinion.batch import InputError


class ComputeError(InputError):
    """The caller or the machine's owner can correct it; the message is one sentence and says how.

    A wrong array, an instruction set that the machine lacks, no compiler, one that fails.
    """


class StorageError(ComputeError):
    """A file could not be written: no room or no permission.

    Members
    -------
    reason : why, in a few words; the message has it too.
    """

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason
