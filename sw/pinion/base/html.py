"""Small HTML tables for notebooks; all content is escaped."""

from __future__ import annotations

import html
from collections.abc import Sequence

from .escaping import one_line

__all__ = ["html_table", "html_text"]


def html_text(value: object) -> str:
    """Escape a value as one line of HTML text."""
    return html.escape(one_line(value), quote=True)


def html_table(
    title: object,
    rows: Sequence[Sequence[object]],
    *,
    heads: Sequence[object] = (),
    note: object = "",
) -> str:
    """Return an HTML table; without headings, the first cell of each row is a header cell.

    Parameters
    ----------
    title : the line above the table.
    rows : cells of any type; they are escaped here.
    heads : column headings.
    note : the line below the table.
    """
    lines = [f"<p><b>{html_text(title)}</b></p>", "<table>"]
    if heads:
        lines.append(f"<tr>{''.join(f'<th>{html_text(head)}</th>' for head in heads)}</tr>")
    for row in rows:
        cells = [html_text(value) for value in row]
        if heads:
            lines.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
        else:
            values = "".join(f"<td>{cell}</td>" for cell in cells[1:])
            lines.append(f"<tr><th>{cells[0]}</th>{values}</tr>")
    lines.append("</table>")
    if note:
        lines.append(f"<p>{html_text(note)}</p>")
    return "\n".join(lines)
