"""What is wrong with a function."""

from __future__ import annotations

from pinion.batch.errors import InputError


class FunctionError(InputError):
    """An unknown function or block, or a row that is not whole; the message says which."""
