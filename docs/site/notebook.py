"""The notebook as a page, with the output of its cells when ``make notebooks`` ran it."""

from __future__ import annotations

import json
import re
from pathlib import Path

SOURCE = "docs/start.ipynb"
EXECUTED = "build/notebooks/start.ipynb"


class NotebookError(RuntimeError):
    """There is no executed notebook; the message says how to make one."""


def pages(root: Path) -> dict[str, str | bytes]:
    """Return the notebook's page and its pictures, by their names in the site.

    Raises
    ------
    NotebookError : the notebook was changed after it was executed.
    """
    from nbconvert import MarkdownExporter  # a second of imports, which only this page needs

    place = root / EXECUTED
    if not is_executed(root):
        raise NotebookError(
            f"'{EXECUTED}' is not the result of running '{SOURCE}': run make notebooks"
        )
    text, resources = MarkdownExporter().from_filename(str(place))
    # Join the printed output and the result of a cell.
    text = re.sub(r"\n(?:[ \t]*\n){3,}(?=    )", "\n\n", text)
    pictures: dict[str, str | bytes] = {}
    for name, content in resources["outputs"].items():
        pictures[f"notebook/{name}"] = content
        text = text.replace(f"]({name})", f"](notebook/{name})")
    return {"notebook.md": text, **pictures}


def is_executed(root: Path) -> bool:
    """Return whether there is an executed copy with the same cells as the notebook."""
    place = root / EXECUTED
    return place.is_file() and _cells(place) == _cells(root / SOURCE)


def _cells(place: Path) -> list[tuple[str, str]]:
    """Return kind and text of each cell, without its output."""
    cells = json.loads(place.read_text("utf-8"))["cells"]
    return [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
