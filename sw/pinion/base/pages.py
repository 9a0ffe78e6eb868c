"""Tables of documentation pages, written between markers.

A page has a line ``<!-- table: NAME -->`` before each table and a line ``<!-- end -->`` after it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

Tables = Mapping[str, Callable[[], str]]
"""Functions that render a page's tables, by name."""

_MARKED = re.compile(r"<!-- table: (\w+) -->\n(.*?)<!-- end -->", flags=re.DOTALL)


class PageError(ValueError):
    """Error for a page that cannot be written; the message says what is missing."""


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table with these headings and rows."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def rewritten(page: str, tables: Tables) -> str:
    """Return a page's text with the tables between its markers rendered again.

    Raises
    ------
    PageError
        If the page does not have markers for each of the tables, once.
    """
    names = sorted(match[1] for match in _MARKED.finditer(page))
    if names != sorted(tables):
        raise PageError(
            f"The tables between '<!-- table: NAME -->' and '<!-- end -->' must be "
            f"{', '.join(sorted(tables))}, each once, not {', '.join(names) or 'none'}."
        )
    return _MARKED.sub(
        lambda match: f"<!-- table: {match[1]} -->\n{tables[match[1]]()}<!-- end -->", page
    )


def write_tables(paths: Sequence[str], tables: Tables) -> int:
    """Rewrite the tables of pages, print which pages changed, and return the exit code."""
    for path in map(Path, paths):
        old = path.read_text()
        try:
            new = rewritten(old, tables)
        except PageError as error:
            print(error, file=sys.stderr)
            return 1
        if new != old:
            path.write_text(new)
        print(f"{path}: {'rewritten' if new != old else 'unchanged'}")
    return 0
