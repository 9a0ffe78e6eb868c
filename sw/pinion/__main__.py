"""``python -m pinion``, and the command ``pinion``: the command line, if its extra is installed."""

from __future__ import annotations

import os
import sys

from pinion.installation import missing_module

_BAD_ENVIRONMENT, _INTERRUPTED = 2, 130


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code, which is 2 where the extra is missing."""
    _open_streams()
    try:
        from pinion.cli import main as command
    except ModuleNotFoundError as error:
        text = missing_module(error)
        if text is None:
            raise
        print(text, file=sys.stderr)
        sys.exit(_BAD_ENVIRONMENT)
    except KeyboardInterrupt:  # while it is read, for a second; later the command has its own way
        sys.exit(_INTERRUPTED)
    command(arguments)


def _open_streams() -> None:
    """Open the null device in place of standard streams that the caller closed (``>&-``).

    Else Python has None for them, and the next file or pipe that is opened gets their number: what
    a tool prints would end in it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: that stream's
            os.set_inheritable(null, null == number)
            # It stays open as long as the process.
            stream = open(null, "w" if number else "r", encoding="utf-8")  # noqa: SIM115
            setattr(sys, name, stream)


if __name__ == "__main__":
    main()
