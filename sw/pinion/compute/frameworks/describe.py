"""The tables of ``docs/guides/torch-and-jax.md``, rendered from the rules.

``python -m pinion.compute.frameworks.describe docs/guides/torch-and-jax.md`` writes them between
their markers.
"""

from __future__ import annotations

import sys
from collections.abc import Collection

from pinion.base.pages import Tables, markdown_table, write_tables
from pinion.functions import FUNCTIONS, SUBJECTS

from .rules import RULES, WITHOUT, GradientTerm

_ALL, _SIMPLE, _NONE = "all joints", "joints of one position", "-"


def terms_of(row: str, results: Collection[str]) -> list[GradientTerm]:
    """Return the gradient terms of a function for some of its results."""
    return [term for term in RULES[row].terms if term.of in results] if row in RULES else []


def returned(row: str) -> tuple[str, ...]:
    """Return the names of the results that a differentiable function returns by default."""
    function = FUNCTIONS[row]
    usual = tuple(b.name for b in function.outputs if b.name not in function.optional)
    return RULES[row].results or usual


def sources(row: str, results: Collection[str]) -> dict[str, set[str]]:
    """Return the results that the gradient multiplies, by the function that computes them."""
    rows: dict[str, set[str]] = {}
    outputs = {block.name for block in FUNCTIONS[row].outputs}
    for term in terms_of(row, results):
        for name in term.arrays:
            label, dot, result = name.partition(".")
            if dot:
                rows.setdefault(RULES[row].calls[label].row, set()).add(result)
            elif name in outputs:
                rows.setdefault(row, set()).add(name)
    return rows


def once(row: str, results: Collection[str]) -> str:
    """Return a table entry: the joints for which these results can be differentiated once."""
    if not set(results) <= {term.of for term in terms_of(row, results)}:
        return _NONE
    second = {function.name for function in SUBJECTS["second order"]}
    return _SIMPLE if sources(row, results).keys() & second else _ALL


def twice(row: str, results: Collection[str]) -> str:
    """Return a table entry: the joints for which these results can be differentiated twice."""
    joints = {once(other, used) for other, used in sources(row, results).items()}
    return next((kind for kind in (_NONE, _SIMPLE) if kind in joints), _ALL)


def rule_table() -> str:
    """Return a Markdown table of the functions with reverse-mode gradients."""
    rows = []
    for row in RULES:
        results = returned(row)
        terms = terms_of(row, results)
        names = [*(b.name for b in FUNCTIONS[row].inputs), "parameters"]
        by = [f"`{name}`" for name in names if any(term.by == name for term in terms)]
        used = ["itself" if other == row else f"`{other}`" for other in sources(row, results)]
        rows.append(
            (
                f"`{row}`",
                ", ".join(f"`{name}`" for name in results),
                ", ".join(by),
                ", ".join(used),
                once(row, results),
                twice(row, results),
            )
        )
    heads = ("function", "returns", "gradients with respect to", "from", "once", "twice")
    return markdown_table(heads, rows)


def without_table() -> str:
    """Return a Markdown table of the functions without reverse-mode gradients."""
    rows = [(f"`{row}`", text.replace("'", "`")) for row, text in WITHOUT.items()]
    return markdown_table(("function", "instead"), rows)


TABLES: Tables = {"gradients": rule_table, "without": without_table}
"""Tables of the page."""


if __name__ == "__main__":
    sys.exit(write_tables(sys.argv[1:], TABLES))
