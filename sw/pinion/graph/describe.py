"""The tables of ``docs/graph.md``, rendered from the operation table.

``python -m pinion.graph.describe docs/graph.md`` rewrites what stands between a line
``<!-- table: NAME -->`` and the next ``<!-- end -->`` and leaves the rest alone.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from pinion.fixedpoint import Format

from .graph import Node
from .ops import OPS, Family, Op

_MARKED = re.compile(r"<!-- table: (\w+) -->\n(.*?)<!-- end -->", flags=re.DOTALL)

# Operands of the example of derived formats, and how many there are where a row takes any number.
_OPERAND = Format.parse("q8.8")
_SOME = {Family.SUM: 3, Family.PRODUCT: 4}

_EXACT = (Family.SUM, Family.NEGATION, Family.PRODUCT)


class PageError(ValueError):
    """A page asks for a table that does not exist, or for none; the message names it."""


def column_texts() -> dict[str, str]:
    """What the docstring of a row says of each column, in its order."""
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
    """What each operation takes and gives."""
    rows = [
        (
            f"`{row.name}`",
            _operands(row),
            _parameters(row) or "-",
            _meaning(row),
            row.family.value,
            _derived(row),
            row.unit or "-",
        )
        for row in OPS.values()
    ]
    heads = ("operation", "operands", "parameters", "value", "family", "format", "unit")
    return _table(heads, rows)


def column_table() -> str:
    """What a row says of its operation."""
    return _table(
        ("column", "holds"), [(f"`{name}`", text) for name, text in column_texts().items()]
    )


TABLES: Mapping[str, Callable[[], str]] = MappingProxyType(
    {"operations": operation_table, "columns": column_table}
)
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


def _operands(row: Op) -> str:
    if row.arity is not None:
        return str(row.arity)
    return "two a product" if row.family is Family.PRODUCT else "one a sign"


def _meaning(row: Op) -> str:
    text = row.doc.partition("; params: ")[0]
    extra = "commutative" if row.commutative else {1: "even", -1: "odd"}.get(row.parity, "")
    return f"{text} ({extra})" if extra else text


def _parameters(row: Op) -> str:
    return row.doc.partition("; params: ")[2]


def _derived(row: Op) -> str:
    """The format that the table derives for operands of one format."""
    if row.family not in _EXACT:
        return "as its parameters say"
    count = _SOME[row.family] if row.arity is None else row.arity
    signs = count // 2 if row.family is Family.PRODUCT else count
    node = Node(row.name, tuple(range(count)), () if row.arity is not None else (1,) * signs)
    terms = f", {signs} {'products' if row.family is Family.PRODUCT else 'terms'}"
    return f"{row.fmt(node, [_OPERAND] * count).name}{terms if row.arity is None else ''}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


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
