"""``python -m pinion``, and the command ``pinion``: the command line, if its extra is installed."""

from __future__ import annotations

import sys

from pinion.installation import missing_module

_BAD_ENVIRONMENT, _INTERRUPTED = 2, 130


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code, which is 2 where the extra is missing."""
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


if __name__ == "__main__":
    main()
