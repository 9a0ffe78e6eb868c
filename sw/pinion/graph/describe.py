"""The tables of ``docs/graph.md``, rendered from the operation table.

``python -m pinion.graph.describe docs/graph.md`` writes them between their markers.
"""

from __future__ import annotations

import inspect
import sys

from pinion.base.pages import Tables, markdown_table, write_tables
from pinion.fixedpoint import Format

from .graph import Node
from .ops import OPS, Family, Op

# Operands of the example of derived formats, and their number if a row takes any number.
_OPERAND = Format.parse("q8.8")
_SOME = {Family.SUM: 3, Family.PRODUCT: 4}

_EXACT = (Family.SUM, Family.NEGATION, Family.PRODUCT)


def column_texts() -> dict[str, str]:
    """Return the description of each column, read from the docstring of `Op`, in its order."""
    texts: dict[str, str] = {}
    current: list[str] = []
    for line in inspect.cleandoc(Op.__doc__ or "").partition("-------\n")[2].splitlines():
        columns, colon, text = line.partition(" : ")
        if colon and not line.startswith(" "):
            current = columns.split(", ")
            texts.update(dict.fromkeys(current, text))
        else:
            texts.update({name: f"{texts[name]} {line.strip()}" for name in current})
    return texts


def operation_table() -> str:
    """Render the operands, parameters and value of each operation as a Markdown table."""
    rows = [
        (
            f"`{row.name}`",
            _operands(row),
            row.doc.partition("; params: ")[2] or "-",
            _meaning(row),
            row.family.value,
            _derived(row),
            row.unit or "-",
        )
        for row in OPS.values()
    ]
    heads = ("operation", "operands", "parameters", "value", "family", "format", "unit")
    return markdown_table(heads, rows)


def column_table() -> str:
    """Render the description of each column of the operation table as a Markdown table."""
    rows = [(f"`{name}`", text) for name, text in column_texts().items()]
    return markdown_table(("column", "holds"), rows)


TABLES: Tables = {"operations": operation_table, "columns": column_table}
"""Tables of the page."""


def _operands(row: Op) -> str:
    if row.arity is not None:
        return str(row.arity)
    return "two per product" if row.family is Family.PRODUCT else "one per sign"


def _meaning(row: Op) -> str:
    text = row.doc.partition("; params: ")[0]
    extra = "commutative" if row.commutative else {1: "even", -1: "odd"}.get(row.parity, "")
    return f"{text} ({extra})" if extra else text


def _derived(row: Op) -> str:
    """Return the result format of an operation for operands of the example format."""
    if row.family not in _EXACT:
        return "given by its parameters"
    count = _SOME[row.family] if row.arity is None else row.arity
    signs = count // 2 if row.family is Family.PRODUCT else count
    node = Node(row.name, tuple(range(count)), () if row.arity is not None else (1,) * signs)
    terms = f", {signs} {'products' if row.family is Family.PRODUCT else 'terms'}"
    return f"{row.fmt(node, [_OPERAND] * count).name}{terms if row.arity is None else ''}"


if __name__ == "__main__":
    sys.exit(write_tables(sys.argv[1:], TABLES))
