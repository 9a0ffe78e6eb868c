"""The command line that was given, for whoever wants to go on with an interrupted job."""

from __future__ import annotations

import shlex

import typer


def again(context: typer.Context) -> str:
    """The command line that was given, for a shell."""
    words = ["pinion", context.info_name or "explore"]
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE":
            continue
        value = context.params[name]
        if parameter.param_type_name == "argument":
            words.append(str(value))
        elif value is True:
            words.append(parameter.opts[-1])
        else:
            many = value if isinstance(value, list | tuple) else [value]
            for item in many:
                words += [parameter.opts[-1], str(item)]
    return shlex.join(words)
