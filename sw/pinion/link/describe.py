"""The tables of ``docs/link.md``, rendered from the tables that RTL and driver read.

``python -m pinion.link.describe docs/link.md`` rewrites what stands between a line
``<!-- table: NAME -->`` and the next ``<!-- end -->`` and leaves the rest alone.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import protocol
from .protocol import HEADER, TRAILER, Cause, Magic, Status, field_of
from .registers import REGISTERS

_MARKED = re.compile(r"<!-- table: (\w+) -->\n(.*?)<!-- end -->", flags=re.DOTALL)


class PageError(ValueError):
    """A page asks for a table that does not exist, or for none; the message names it."""


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
    """Return the table of the fields of ``HEADER`` or ``TRAILER``."""
    record: np.dtype[np.void] = {"HEADER": HEADER, "TRAILER": TRAILER}[name]
    texts = field_texts(name)
    rows = []
    for field in record.names or ():
        dtype, offset = field_of(record, field)
        last = (offset + dtype.itemsize) // 4 - 1
        words = f"{offset // 4}" if offset // 4 == last else f"{offset // 4}-{last}"
        rows.append((words, offset, f"`{field}`", _type(dtype), texts[field]))
    return _table(("word", "byte", "field", "type", "meaning"), rows)


def magic_table() -> str:
    """Return the table of the magic words."""
    rows = [
        (f"`{row.name}`", f"`{int(row):#010x}`", f"`{int(row).to_bytes(4, 'little').decode()}`")
        for row in Magic
    ]
    return _table(("magic", "word", "bytes in memory"), rows)


def status_table() -> str:
    """Return the table of a trailer's status bits."""
    texts = _member_texts("Status")
    rows = [(int(row).bit_length() - 1, f"`{row.name}`", texts[str(row.name)]) for row in Status]
    return _table(("bit", "name", "meaning"), rows)


def cause_table() -> str:
    """Return the table of the values of the register ERROR."""
    stay = (Cause.NONE, Cause.PAYLOAD_CRC, Cause.CORE_ERROR)
    rows = [
        (int(row), f"`{row.name}`", row.sentence, "no" if row in stay else "yes") for row in Cause
    ]
    return _table(("ERROR", "cause", "what was found", "card stops"), rows)


def register_table() -> str:
    """Return the table of all registers, ordered by offset."""
    rows = [
        (f"`{row.offset:#04x}`", f"`{row.name}`", row.access, row.kind, row.text)
        for row in REGISTERS
    ]
    return _table(("offset", "name", "access", "kind", "holds"), rows)


TABLES: Mapping[str, Callable[[], str]] = {
    "header": lambda: record_table("HEADER"),
    "trailer": lambda: record_table("TRAILER"),
    "magic": magic_table,
    "status": status_table,
    "cause": cause_table,
    "registers": register_table,
}
"""What may stand between markers."""


def rewrite(page: str) -> str:
    """The same page with the tables of this code between its markers.

    Raises
    ------
    PageError : a marker names no table, or a table of `TABLES` is missing.
    """
    names = [found[1] for found in _MARKED.finditer(page)]
    if sorted(names) != sorted(TABLES):
        raise PageError(
            f"The page has the tables {', '.join(sorted(names)) or 'none'}: it needs each of "
            f"{', '.join(sorted(TABLES))} once, between '<!-- table: NAME -->' and '<!-- end -->'."
        )

    def one(found: re.Match[str]) -> str:
        return f"<!-- table: {found[1]} -->\n{TABLES[found[1]]()}<!-- end -->"

    return _MARKED.sub(one, page)


def _type(dtype: np.dtype[Any]) -> str:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return f"{_type(base)} x {shape[0]}"
    return f"u{8 * dtype.itemsize}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


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


def main(arguments: Sequence[str]) -> int:
    """Rewrite the tables of each page that is named; says which changed."""
    for name in arguments:
        path = Path(name)
        before = path.read_text()
        after = rewrite(before)
        if after != before:
            path.write_text(after)
        print(f"{path}: {'rewritten' if after != before else 'as it should be'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
