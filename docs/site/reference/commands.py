"""The page of the command line, from the output of ``--help``."""

from __future__ import annotations

import inspect
from typing import Any

from typer.main import get_command

from pinion.cli.app import app

HEAD = """\
# Command line

`pinion VERB --help` prints the same in a terminal. With `--json` a verb prints one object
([its keys](json.md)); [exit codes](errors.md) are 0 for success, 1 for a failed check and 2 for
invalid input. Progress of long jobs goes to standard error.

"""


def page() -> str:
    """Return every verb with its usage, text, arguments and options."""
    root: Any = get_command(app)
    verbs = root.commands
    listed = "".join(f"| [`{name}`](#{name}) | {_first(verb)} |\n" for name, verb in verbs.items())
    parts = [HEAD, "| verb | what it does |\n| --- | --- |\n", listed]
    return "".join([*parts, *(_verb(name, verb) for name, verb in verbs.items())])


def _verb(name: str, verb: Any) -> str:
    # One name for the whole command: a parent's help would only say that there are verbs.
    context = verb.context_class(verb, info_name=f"pinion {name}")
    usage = verb.get_usage(context).removeprefix("Usage: ")
    rows = [p.get_help_record(context) for p in verb.get_params(context)]
    table = "".join(f"| {_code(opts)} | {_cell(text)} |\n" for opts, text in filter(None, rows))
    text = inspect.cleandoc(verb.help)
    return (
        f"\n## {name}\n\n```text\n{' '.join(usage.split())}\n```\n\n{text}\n\n"
        f"| option | meaning |\n| --- | --- |\n{table}"
    )


def _first(verb: Any) -> str:
    return _cell(inspect.cleandoc(verb.help).partition("\n\n")[0])


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("[", "\\[")
