"""Small tables of HTML for notebooks; whatever comes from files is text in them."""

from __future__ import annotations

import html
from collections.abc import Sequence

from .escaping import one_line

__all__ = ["html_table", "html_text"]


def html_text(value: object) -> str:
    """A value as text in HTML that shows it and does nothing else, on one line."""
    return html.escape(one_line(value), quote=True)


def html_table(
    title: object,
    rows: Sequence[Sequence[object]],
    *,
    heads: Sequence[object] = (),
    note: object = "",
) -> str:
    """A table; without heads the first cell of a row is its name.

    Parameters
    ----------
    title : what it shows, above it.
    rows : cells, of any type; they are escaped here.
    heads : of the columns.
    note : below it.
    """
    lines = [f"<p><b>{html_text(title)}</b></p>", "<table>"]
    if heads:
        lines.append(f"<tr>{''.join(f'<th>{html_text(head)}</th>' for head in heads)}</tr>")
    for row in rows:
        cells = [html_text(value) for value in row]
        if heads:
            lines.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
        else:
            first, rest = cells[0], cells[1:]
            marked = "".join(f"<td>{cell}</td>" for cell in rest)
            lines.append(f"<tr><th>{first}</th>{marked}</tr>")
    lines.append("</table>")
    if note:
        lines.append(f"<p>{html_text(note)}</p>")
    return "\n".join(lines)
