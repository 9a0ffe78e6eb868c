"""Classification of errors as the user's or Pinion's, and their messages.

Every error class that Pinion defines for its callers (a wrong robot, a broken build folder, a
missing tool, ...) has a message of one line; it goes to standard error, with exit code 2. So do
errors of the operating system that name a file. Anything else is a defect of Pinion and keeps its
traceback.
"""

from __future__ import annotations

import errno
import sys
import tempfile
from collections.abc import Callable
from functools import wraps
from typing import Any

from pinion.base.installation import missing_module

_FULL = (errno.ENOSPC, errno.EDQUOT)

BAD_INPUT = 2
"""Exit code: the input or the environment is wrong."""

CHECK_FAILED = 1
"""Exit code: a check ran and failed."""


class UsageError(ValueError):
    """Error for an inconsistent command line."""


NOTHING_KEPT = "Interrupted: unfinished work is not kept, and the same command starts again."


class InterruptionError(RuntimeError):
    """Error for Ctrl-C; the message says what is finished and how to resume, if that is known."""


def interruptible(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Make a command raise :class:`InterruptionError` on Ctrl-C.

    Typer turns a ``KeyboardInterrupt`` into an exit code, and loses the message for the user.
    """

    @wraps(verb)
    def ended(*arguments: Any, **options: Any) -> Any:
        try:
            return verb(*arguments, **options)
        except KeyboardInterrupt as stop:
            raise InterruptionError(str(stop) or NOTHING_KEPT) from None

    return ended


def sentence(error: BaseException) -> str | None:
    """Return an error's message for the user, on one line, or None for a defect of Pinion."""
    if isinstance(error, ModuleNotFoundError):
        text = missing_module(error)
    elif type(error).__module__.partition(".")[0] == "pinion":
        # Assertion and type errors of Pinion's packages are for programmers.
        text = str(error) if isinstance(error, ValueError | RuntimeError | OSError) else None
    elif isinstance(error, MemoryError):
        why = str(error) or "no more is available"
        text = (
            f"There is not enough memory ({why}): ask for fewer requests or samples at a time; "
            "`pinion campaign` and `pinion batch` process any number in chunks."
        )
    elif isinstance(error, OSError) and error.filename is not None:
        text = (
            f"'{error.filename}' cannot be used ({error.strerror}): check that it exists, that you "
            "may read or write it, and that the disk is not full; or give another path."
        )
    elif isinstance(error, FileNotFoundError | PermissionError):
        text = str(error)  # raised by hand, with a message
    else:
        text = _no_room(error)
    return None if text is None else " ".join(text.split())


def _no_room(error: BaseException) -> str | None:
    """Return a message if a full disk is the cause of an error."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in _FULL:
            named = f"'{cause.filename}'" if cause.filename is not None else "the output"
            return (
                f"There is no room for {named} ({cause.strerror}): free some space there, and in "
                f"'{tempfile.gettempdir()}' for temporary files, or give another path."
            )
        cause = cause.__cause__ or cause.__context__
    return None


def complain(text: str) -> None:
    """Print one line on standard error."""
    print(text, file=sys.stderr)
