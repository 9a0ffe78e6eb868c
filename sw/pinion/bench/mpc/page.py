"""The page of ``pinion bench mpc``, rendered from its data alone.

``python -m pinion.bench.mpc.page docs/mpc.md benchmarks/records/tracking.json`` writes its tables
into the page that explains them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pinion.report import FigureTable
from pinion.report.page import all_or_nothing, code_line, escaped, escaped_table

from .tracking import card_model_table, check_tracking, finding, solve_times_table, tracking_table

PAGE, PICTURE = "tracking.md", "tracking.svg"
"""File of the page; its data is ``tracking.json``."""

BEGIN, END = "<!-- measured -->", "<!-- end -->"
"""Marks around the tables on a page that explains them."""


def write_tracking(folder: Path, data: Mapping[str, Any]) -> list[Path]:
    """Write the data, the page and the picture, or nothing.

    Returns
    -------
    Paths of the page, the data and the picture.
    """
    from .picture import draw_tracking  # Matplotlib takes half a second to load

    check_tracking(data)
    pictures = {PICTURE: partial(draw_tracking, data=data)}
    return all_or_nothing(folder, data, (PAGE, tracking_page(data)), pictures)


def tracking_page(data: Mapping[str, Any]) -> str:
    """Return the page of ``pinion bench mpc`` in Markdown."""
    lines = ["# A figure-eight, tracked with gradients from every backend", ""]
    lines += [escaped(finding(data)), "", f"![Path, errors and times]({PICTURE})", ""]
    lines += ["Run it again:", "", code_line(data["command"]), ""]
    for table in tables(data):
        lines += [f"## {table.title}", "", *escaped_table(table), "", escaped(table.note), ""]
    about = [("date", data["date"]), ("Pinion", data["version"]), *data["machine"].items()]
    shares = data["rows"][0]["limit_shares"]
    about += [
        (f"largest share of {key} limits", f"{100 * share:.0f} %") for key, share in shares.items()
    ]
    lines += ["## How it was measured", ""]
    lines += escaped_table(FigureTable(columns=("what", "value"), rows=about, left=2))
    lines += ["", "## What is missing, and why", ""]
    lines += [f"- {escaped(k)}: {escaped(v)}" for k, v in data["left_out"].items()] or ["Nothing."]
    return "\n".join(lines) + "\n"


def tables(data: Mapping[str, Any]) -> list[FigureTable]:
    """Return all tables that have data."""
    modelled = card_model_table(data)
    tables = [tracking_table(data), solve_times_table(data)]
    return tables if modelled is None else [*tables, modelled]


def filled(page: str, data: Mapping[str, Any], folder: str) -> str:
    """Return a page with the finding, the picture and the tables between its two marks.

    Parameters
    ----------
    folder : of the picture, relative to the page.

    Raises
    ------
    ValueError : if the page lacks a mark.
    """
    before, begin, tail = page.partition(BEGIN)
    _, end, after = tail.partition(END)
    if not (begin and end):
        raise ValueError(f"the page must have '{BEGIN}' and, after it, '{END}'")
    lines = [escaped(finding(data)), "", f"![Path, errors and times]({folder}/{PICTURE})", ""]
    lines += ["Made by this command, whose page has the machine and all settings:", ""]
    lines += [code_line(data["command"]), ""]
    for table in tables(data):
        lines += [f"**{table.title}**", "", *escaped_table(table), "", escaped(table.note), ""]
    return "\n".join([before + begin, "", *lines]) + end + after


if __name__ == "__main__":
    page, source = (Path(name) for name in sys.argv[1:])
    data = json.loads(source.read_text(encoding="utf-8"))
    text = filled(page.read_text(encoding="utf-8"), data, source.parent.name)
    page.write_text(text, encoding="utf-8")
