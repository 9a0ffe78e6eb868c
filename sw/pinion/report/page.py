"""Pages in Markdown with data and pictures; whatever comes from files is text on them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pinion.base.escaping import markdown as escaped
from pinion.base.escaping import one_line

from .table import Table, cell, markdown

__all__ = ["all_or_nothing", "code_line", "escaped", "escaped_table", "one_line"]


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


def all_or_nothing(
    folder: Path,
    data: Mapping[str, Any],
    page: tuple[str, str],
    pictures: Mapping[str, Callable[[Path], None]],
) -> list[Path]:
    """Write a page, its data and its pictures into a folder, or leave the folder as it was.

    Parameters
    ----------
    folder : made where it is not there yet.
    data : goes to a file of JSON, without NaN, of the page's name.
    page : the page's name and its text.
    pictures : what draws each, by its name.

    Returns
    -------
    The page, the data, the pictures.
    """
    title, words = page
    file = f"{Path(title).stem}.json"
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{Path(title).stem}-", dir=folder) as name:
        part = Path(name)
        for picture, draw in pictures.items():
            draw(part / picture)
        text = json.dumps(data, indent=1, allow_nan=False)
        (part / file).write_text(text + "\n", encoding="utf-8")
        (part / title).write_text(words, encoding="utf-8")
        # The page last: what it shows is there when it is.
        names = [title, file, *pictures]
        for name in reversed(names):
            os.replace(part / name, folder / name)
    return [folder / name for name in names]
