"""The command line that resumes an interrupted job."""

from __future__ import annotations

import shlex
from pathlib import Path

import typer

from pinion.base.amounts import amount


def again(context: typer.Context) -> str:
    """Return the command line of the running command, quoted for a shell."""
    words = ["pinion", context.info_name or "explore"]
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE":
            continue
        value = context.params[name]
        if parameter.param_type_name == "argument":
            words.append(str(value))
        elif isinstance(value, bool):
            words.append((parameter.opts if value else parameter.secondary_opts)[-1])
        else:
            many = value if isinstance(value, list | tuple) else [value]
            for item in many:
                words += [parameter.opts[-1], str(item)]
    return shlex.join(words)


def interrupted(finished: int, noun: str, file: Path, context: typer.Context) -> str:
    """Return a message that says what an interrupted job has finished and how to resume it."""
    left = (
        f"with {amount(finished, noun)} finished, which {'is' if finished == 1 else 'are'} kept in "
        f"{file}"
        if finished
        # By this command: the file may hold chunks of others.
        else f"before another chunk was finished; the chunks in {file} are kept"
        if file.exists()
        else "before a chunk was finished"
    )
    return f"Interrupted {left}. To continue: {again(context)}"
