"""The notebook as a page, with what its cells printed and drew when ``make notebooks`` ran it."""

from __future__ import annotations

import json
import re
from pathlib import Path

SOURCE = "docs/start.ipynb"
EXECUTED = "build/notebooks/start.ipynb"


class NotebookError(RuntimeError):
    """There is no executed notebook; the message says what makes one."""


def pages(root: Path) -> dict[str, str | bytes]:
    """The notebook's page and the pictures on it, by their names in the site.

    Raises
    ------
    NotebookError : it was not executed since it was changed.
    """
    from nbconvert import MarkdownExporter  # a second of imports, which only this page needs

    place = root / EXECUTED
    if not is_executed(root):
        raise NotebookError(
            f"'{EXECUTED}' is not what running '{SOURCE}' gives; say: make notebooks"
        )
    text, resources = MarkdownExporter().from_filename(str(place))
    # What a cell prints and what it gives, as one block.
    text = re.sub(r"\n(?:[ \t]*\n){3,}(?=    )", "\n\n", text)
    pictures: dict[str, str | bytes] = {}
    for name, content in resources["outputs"].items():
        pictures[f"notebook/{name}"] = content
        text = text.replace(f"]({name})", f"](notebook/{name})")
    return {"notebook.md": text, **pictures}


def is_executed(root: Path) -> bool:
    """Whether the executed copy is there, and of the same cells as the notebook."""
    place = root / EXECUTED
    return place.is_file() and _cells(place) == _cells(root / SOURCE)


def _cells(place: Path) -> list[tuple[str, str]]:
    """Kind and text of each cell, without what running it added."""
    cells = json.loads(place.read_text("utf-8"))["cells"]
    return [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
