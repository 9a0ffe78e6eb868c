"""Reference pages, generated from the code that they describe, by their names in the site."""

from __future__ import annotations

from . import commands, errors, json_keys, python, wire

__all__ = ["modules", "pages"]


def pages() -> dict[str, str | bytes]:
    """Return every generated page of the section."""
    return {
        "reference/index.md": INDEX,
        "reference/commands.md": commands.page(),
        "reference/wire.md": wire.page(),
        "reference/errors.md": errors.page(),
        "reference/json.md": json_keys.page(),
        **python.pages(),
    }


def modules() -> list[str]:
    """Return the pages of the Python interface, in menu order."""
    return list(python.pages())


INDEX = """\
# Reference

| page | made from |
| --- | --- |
| [Functions](../functions.md): arrays, units, frames | the table of functions |
| [Python](python/index.md): what can be imported | docstrings |
| [Command line](commands.md): every verb and option | `pinion VERB --help` |
| [JSON keys](json.md): what `--json` prints | a list that tests compare with output |
| [Errors and exit codes](errors.md) | the classes of the errors |
| [Operations](../graph.md#operations) of the graph | the table of operations |
| [Packets and registers](../link.md), [the tables alone](wire.md) | the link's descriptions |
"""
