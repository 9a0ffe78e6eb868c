"""The subcommands, and the handling of their errors."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

from pinion.base import installation
from pinion.console.errors import (
    BAD_INPUT,
    NOTHING_KEPT,
    InterruptionError,
    complain,
    interruptible,
    sentence,
)
from pinion.console.progress import speaking

from . import (
    batch,
    bench,
    bitstream,
    build,
    campaign,
    card,
    demo,
    devices,
    explore,
    export,
    info,
    processor,
    program,
    report,
    robots,
    run,
    synth,
    verify,
)
from .options import WithFunctions, grouped

app = typer.Typer(
    name="pinion",
    add_completion=False,
    # Plain help and plain errors: they are read in logs as often as on a terminal.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

LISTED: Mapping[str, type[TyperCommand]] = {
    "build": WithFunctions,
    "explore": WithFunctions,
    "batch": WithFunctions,
    "program": WithFunctions,
}
"""Commands whose help pages list the functions."""

SPEAKING: Mapping[str, Callable[..., Any]] = {
    "build": build.command,
    "verify": verify.command,
    "synth": synth.command,
    "run": run.command,
    "bench": bench.command,
    "explore": explore.command,
    "campaign": campaign.command,
    "batch": batch.command,
    "card": card.command,
    "bitstream": bitstream.command,
    "report": report.command,
    "export": export.command,
    "demo": demo.command,
    "program": program.command,
    "processor": processor.command,
}
"""Commands that may take more than a few seconds and show progress, unless ``--quiet``."""

SHORT: Mapping[str, tuple[Callable[..., Any], str]] = {
    "robots": (robots.command, "it reads a list"),
    "info": (info.command, "it loads one robot and computes nothing"),
    "devices": (devices.command, "it reads some registers of each card"),
}
"""Commands that answer at once, and the reason."""

# In the order of a user's work.
for _name in (
    *("robots", "info", "build", "verify", "synth", "run", "bench", "explore", "campaign"),
    *("batch", "program", "processor", "devices", "card", "bitstream", "report", "export", "demo"),
):
    _verb = grouped(SHORT[_name][0]) if _name in SHORT else speaking(grouped(SPEAKING[_name]))
    app.command(_name, cls=LISTED.get(_name, TyperCommand))(interruptible(_verb))

INTERRUPTED = 130
"""Exit code after Ctrl-C, as in shells: 128 plus the signal's number."""

# Base class of all errors about the command line. Typer does not export it, and its module changed
# between versions; it is the parent of an exported error.
_COMPLAINT: type[Exception] = typer.BadParameter.__mro__[2]


def _version(requested: bool) -> None:
    if requested:
        print(f"pinion {installation.version()}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Robot dynamics in hardware: a URDF in, a verified fixed-point accelerator out."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 for success, 1 for a failed check, 2 for bad input."""
    # An exception, so that tools are stopped and temporary folders removed. A closed terminal
    # ends us likewise, unless nohup prevents it.
    signal.signal(signal.SIGTERM, _end)
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is not None and signal.getsignal(hangup) is signal.SIG_DFL:
        signal.signal(hangup, _end)
    sys.exit(_run(arguments))


class _Ended(SystemExit):
    """Exit on a signal, distinct from a `SystemExit` raised by a user's code."""


def _end(number: int, frame: object) -> NoReturn:
    raise _Ended(128 + number)


def _run(arguments: list[str] | None) -> int:
    if "" in (sys.argv[1:] if arguments is None else arguments):
        complain("An argument is empty, most likely an unset variable: give it a value.")
        return BAD_INPUT
    try:
        code = app(args=arguments, prog_name="pinion", standalone_mode=False)
        if code == INTERRUPTED:  # Typer's code for Ctrl-C before a command has begun
            complain(NOTHING_KEPT)
        return code if isinstance(code, int) else 0
    except _COMPLAINT as error:
        complain(_usage(error))
        return BAD_INPUT
    except InterruptionError as stop:
        complain(str(stop))
        return INTERRUPTED
    except (typer.Abort, KeyboardInterrupt):
        complain(NOTHING_KEPT)
        return INTERRUPTED
    except Exception as error:
        text = sentence(error)
        if text is None:
            raise
        complain(text)
        return BAD_INPUT


def _usage(error: Exception) -> str:
    """Return a command-line error as one line that points to the help page."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "pinion"
    text = _number(error) or " ".join(error.format_message().split()).rstrip(".")  # type: ignore[attr-defined]
    return f"{text}; see '{path} --help'."


def _number(error: Exception) -> str | None:
    """Return a message about an invalid number, or None for any other error.

    Typer reads numbers with pydantic, whose error, meant for programmers, is the cause.
    """
    details, parameter = getattr(error.__cause__, "errors", None), getattr(error, "param", None)
    if not callable(details) or parameter is None:
        return None
    detail = next((entry for entry in details() if "input" in entry), None)
    if detail is None:
        return None
    value, kind, limits = str(detail["input"]), str(detail["type"]), detail.get("ctx", {})
    accepted = [f"a number {words.format(limits[key])}" for key, words in _LIMITS if key in limits]
    if kind.startswith("int_"):
        accepted = [f"a whole number in digits{_such_as(value, whole=True)}"]
    elif kind.startswith("float_"):
        accepted = [f"a number{_such_as(value, whole=False)}"]
    if not accepted:
        return None
    option = parameter.param_type_name == "option"
    hint = max(parameter.opts, key=len) if option else parameter.name.upper()
    return f"'{hint}' must be {accepted[0]}, not '{value}'"


_THOUSANDS = r"-?\d{1,3}(,\d{3})+"
_LIMITS = (
    ("ge", "of at least {}"),
    ("gt", "above {}"),
    ("le", "of at most {}"),
    ("lt", "below {}"),
)


def _such_as(value: str, *, whole: bool) -> str:
    """Return ", such as N" with the number meant by ``1e4``, ``10,000`` or ``1%``, or ""."""
    plain = value.replace(",", "") if re.fullmatch(_THOUSANDS, value) else value
    try:
        number = float(plain.removesuffix("%")) / (100.0 if plain.endswith("%") else 1.0)
    except ValueError:
        return ""
    if not whole:
        return f", such as {number:g}"
    return f", such as {number:.0f}" if number.is_integer() and abs(number) < 1e15 else ""
