"""Pages in Markdown, with data and pictures; strings from files are escaped."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pinion.base.escaping import markdown as escaped
from pinion.base.escaping import one_line

from .table import FigureTable, cell, markdown

__all__ = ["all_or_nothing", "code_line", "escaped", "escaped_table", "one_line"]


def code_line(text: object) -> str:
    """Return a text as one indented line of code in Markdown."""
    return "    " + one_line(text)


def escaped_table(table: FigureTable) -> list[str]:
    """Return the lines of a table in Markdown, with its heads and cells escaped."""
    return markdown(
        FigureTable(
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
    """Write a page, its data and its pictures into a folder, or leave the folder unchanged.

    Parameters
    ----------
    folder : created if it does not exist.
    data : written as JSON, without NaN, under the page's name.
    page : the page's name and its text.
    pictures : drawing functions by file name.

    Returns
    -------
    Paths of the page, the data and the pictures.
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
        # The page last, so that everything it shows exists.
        names = [title, file, *pictures]
        for name in reversed(names):
            os.replace(part / name, folder / name)
    return [folder / name for name in names]
