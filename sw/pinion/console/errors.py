"""The one place that decides which errors are the user's, and what is said about them.

Every error class that Pinion defines for its callers (a wrong robot, a broken build folder, a
missing tool, ...) has a message that is one sentence; it goes to standard error and the exit code
is 2. So do errors of the operating system, which name a file. Anything else is a defect of Pinion
and keeps its traceback.
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
    """The command line asks for something that does not go together; the message says what."""


NOTHING_KEPT = "Interrupted: what was not finished is not kept, and the same command begins anew."


class InterruptionError(RuntimeError):
    """Ctrl-C, as a sentence: where a verb knows what is finished it says that, and how to go on."""


def interruptible(verb: Callable[..., Any]) -> Callable[..., Any]:
    """A verb that ends in an :class:`InterruptionError` on Ctrl-C.

    Typer makes an exit code of a ``KeyboardInterrupt``, and loses what it says of a user's code.
    """

    @wraps(verb)
    def ended(*arguments: Any, **options: Any) -> Any:
        try:
            return verb(*arguments, **options)
        except KeyboardInterrupt as stop:
            raise InterruptionError(str(stop) or NOTHING_KEPT) from None

    return ended


def sentence(error: BaseException) -> str | None:
    """What to tell the user, on one line, or None where the error is a defect of Pinion."""
    if isinstance(error, ModuleNotFoundError):
        text = missing_module(error)
    elif type(error).__module__.partition(".")[0] == "pinion":
        # Assertions and wrong types that Pinion's packages define speak to programmers.
        text = str(error) if isinstance(error, ValueError | RuntimeError | OSError) else None
    elif isinstance(error, MemoryError):
        why = str(error) or "no more is given"
        text = (
            f"There is not enough memory ({why}): ask for fewer at a time; "
            "`pinion campaign` and `pinion batch` take any number in chunks."
        )
    elif isinstance(error, OSError) and error.filename is not None:
        text = (
            f"'{error.filename}' cannot be used ({error.strerror}): see that it is there, that you "
            "may read or write it and that there is room, or give another one."
        )
    elif isinstance(error, FileNotFoundError | PermissionError):
        text = str(error)  # raised by hand, with a sentence
    else:
        text = _no_room(error)
    return None if text is None else " ".join(text.split())


def _no_room(error: BaseException) -> str | None:
    """A sentence where a full disk began it, whatever came of that."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in _FULL:
            named = f"'{cause.filename}'" if cause.filename is not None else "what is made"
            return (
                f"There is no room for {named} ({cause.strerror}): make room where it goes, and in "
                f"'{tempfile.gettempdir()}' for temporary files, or name another place."
            )
        cause = cause.__cause__ or cause.__context__
    return None


def complain(text: str) -> None:
    """Put one line on standard error."""
    print(text, file=sys.stderr)
