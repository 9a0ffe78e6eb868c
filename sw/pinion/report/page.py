"""Pages in Markdown of data that may come from files: whatever is in them is text."""

from __future__ import annotations

import html
import re

from .table import Table, cell, markdown

_MARKED = re.compile(r"[\\`*\[\]|~$#!]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")


def one_line(text: object) -> str:
    """A text on one line, of characters that may be shown."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())


def escaped(text: object) -> str:
    """A text from a file as Markdown that shows it and does nothing else."""
    marked = _MARKED.sub(r"\\\g<0>", one_line(text))
    # After the backslashes, for entities have characters of their own.
    safe = html.escape(marked, quote=False).replace("://", "&#58;//").replace("@", "&#64;")
    return re.sub(r"(?i)\bwww\.", "www&#46;", safe)


def code_line(text: object) -> str:
    """A line of code, whatever is in it: four spaces begin it, and it has no line breaks."""
    return "    " + one_line(text)


def escaped_table(table: Table) -> list[str]:
    """The lines of a table in Markdown, heads and cells escaped."""
    return markdown(
        Table(
            columns=tuple(map(escaped, table.columns)),
            rows=[[escaped(cell(value)) for value in row] for row in table.rows],
            left=table.left,
        )
    )
