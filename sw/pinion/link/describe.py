"""The tables of ``docs/link.md``, rendered from the tables that RTL and driver read.

``python -m pinion.link.describe docs/link.md`` writes them between their markers.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from pinion.base.pages import Tables, markdown_table, write_tables

from . import protocol
from .protocol import HEADER, TRAILER, Cause, Magic, Status, field_of
from .registers import REGISTERS


def field_texts(name: str) -> dict[str, str]:
    """Return the descriptions of a record's fields, from the docstring in :mod:`.protocol`.

    Parameters
    ----------
    name : ``HEADER`` or ``TRAILER``.
    """
    texts: dict[str, str] = {}
    for line in _docstrings(ast.parse(inspect.getsource(protocol)).body)[name].splitlines():
        fields, colon, text = line.strip().partition(" : ")
        if colon:
            texts.update(dict.fromkeys(fields.split(", "), text))
    return texts


def record_table(name: str) -> str:
    """Render the fields of ``HEADER`` or ``TRAILER`` as a Markdown table."""
    record: np.dtype[np.void] = {"HEADER": HEADER, "TRAILER": TRAILER}[name]
    texts = field_texts(name)
    rows = []
    for field in record.names or ():
        dtype, offset = field_of(record, field)
        last = (offset + dtype.itemsize) // 4 - 1
        words = f"{offset // 4}" if offset // 4 == last else f"{offset // 4}-{last}"
        rows.append((words, offset, f"`{field}`", _type(dtype), texts[field]))
    return markdown_table(("word", "byte", "field", "type", "meaning"), rows)


def magic_table() -> str:
    """Render the magic words as a Markdown table."""
    rows = [
        (f"`{row.name}`", f"`{int(row):#010x}`", f"`{int(row).to_bytes(4, 'little').decode()}`")
        for row in Magic
    ]
    return markdown_table(("magic", "word", "bytes in memory"), rows)


def status_table() -> str:
    """Render a trailer's status bits as a Markdown table."""
    texts = _member_texts("Status")
    rows = [(int(row).bit_length() - 1, f"`{row.name}`", texts[str(row.name)]) for row in Status]
    return markdown_table(("bit", "name", "meaning"), rows)


def cause_table() -> str:
    """Render the values of the register ERROR as a Markdown table."""
    stay = (Cause.NONE, Cause.PAYLOAD_CRC, Cause.CORE_ERROR)
    rows = [
        (int(row), f"`{row.name}`", row.sentence, "no" if row in stay else "yes") for row in Cause
    ]
    return markdown_table(("ERROR", "cause", "what was found", "card stops"), rows)


def register_table() -> str:
    """Render all registers as a Markdown table, ordered by offset."""
    rows = [
        (f"`{row.offset:#04x}`", f"`{row.name}`", row.access, row.kind, row.text)
        for row in REGISTERS
    ]
    return markdown_table(("offset", "name", "access", "kind", "holds"), rows)


TABLES: Tables = {
    "header": lambda: record_table("HEADER"),
    "trailer": lambda: record_table("TRAILER"),
    "magic": magic_table,
    "status": status_table,
    "cause": cause_table,
    "registers": register_table,
}
"""Tables of the page."""


def _type(dtype: np.dtype[Any]) -> str:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return f"{_type(base)} x {shape[0]}"
    return f"u{8 * dtype.itemsize}"


def _member_texts(name: str) -> dict[str, str]:
    tree = ast.parse(inspect.getsource(protocol))
    (definition,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name)
    return {key: " ".join(text.split()) for key, text in _docstrings(definition.body).items()}


def _docstrings(body: Sequence[ast.stmt]) -> dict[str, str]:
    """Return the docstring below each assignment, by name."""
    texts = {}
    for before, after in itertools.pairwise(body):
        match before, after:
            case (
                ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                texts[name] = text
    return texts


if __name__ == "__main__":
    sys.exit(write_tables(sys.argv[1:], TABLES))
