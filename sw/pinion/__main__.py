"""``python -m pinion`` and the command ``pinion``: the command line, if its extra is installed.

Without the extra only the version and a help page are available.
"""

from __future__ import annotations

import ast
import io
import os
import sys
from pathlib import Path
from typing import Any, TextIO

from .base.installation import install_hint, missing_module, namesake, version

_BAD_ENVIRONMENT, _INTERRUPTED = 2, 130


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code, which is 2 if the extra is missing."""
    _open_streams()
    if text := namesake():
        print(text, file=sys.stderr)
    try:
        from .cli import main as command
    except ModuleNotFoundError as error:
        text = missing_module(error)
        if text is None:
            raise
        page = _without_extra(sys.argv[1:] if arguments is None else arguments)
        print(page or text, file=sys.stdout if page else sys.stderr)
        sys.exit(0 if page else _BAD_ENVIRONMENT)
    except KeyboardInterrupt:  # while it is imported, for a second; later the command handles it
        sys.exit(_INTERRUPTED)
    command(arguments)


def _open_streams() -> None:
    """Open the null device in place of standard streams that the caller closed (``>&-``).

    Otherwise Python sets them to None, and the next file or pipe that is opened gets their number
    and a tool's output. Output to a pipe whose reader has left (``| head``) goes to the null device
    as well.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            null = os.open(os.devnull, os.O_RDWR)  # the lowest free number: that stream's
            os.set_inheritable(null, null == number)
            # It stays open until the process ends.
            stream = open(null, "w" if number else "r", encoding="utf-8")  # noqa: SIM115
            setattr(sys, name, stream)
        elif number and stream is getattr(sys, f"__{name}__"):  # not what a caller captures
            setattr(sys, name, _unheard(stream))


class _Unheard(io.FileIO):
    """A standard stream that discards its output once nobody reads it."""

    def write(self, data: Any, /) -> int:
        """Write to the file, or to the null device after a broken pipe."""
        try:
            return super().write(data)
        except BrokenPipeError:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())  # a tool's output goes there as well
            os.close(null)
            return super().write(data)


def _unheard(stream: TextIO) -> TextIO:
    """Wrap a stream, if it is a plain file, so that writing never fails when its reader is gone.

    Otherwise the verb would end when it prints, with the exit code of a failed check.
    """
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    buffer = stream.buffer
    unbuffered = type(buffer) is io.FileIO  # python -u
    if not unbuffered and type(getattr(buffer, "raw", None)) is not io.FileIO:
        return stream
    stream.flush()
    raw = _Unheard(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        raw if unbuffered else io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _without_extra(arguments: list[str]) -> str | None:
    """Return what ``pinion`` prints if its extra ``cli`` is missing; None for a subcommand."""
    if arguments == ["--version"]:
        return f"pinion {version()}"
    if arguments not in ([], ["-h"], ["--help"]):
        return None
    # From the sources, since the modules of the verbs cannot be imported.
    verbs = {}
    for path in sorted(Path(__file__).with_name("cli").glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name == "command":
                verbs[path.stem] = (ast.get_docstring(node) or "").partition("\n")[0]
    return "\n".join(
        [
            "Usage: pinion [--version] [--help] COMMAND ...",
            "",
            "Robot dynamics in hardware: a URDF in, a verified fixed-point accelerator out.",
            "",
            "Commands:",
            *(f"  {verb:<10} {purpose}" for verb, purpose in verbs.items()),
            "",
            f"They need more packages: {install_hint('cli')}.",
        ]
    )


if __name__ == "__main__":
    main()
