"""The number formats of a build on its page."""

from __future__ import annotations

from pinion.fixedpoint import Format

from .blocks import Data, bars, beside, folded, note, span
from .html import element, html_table, text
from .table import Table

_FEW = 12  # rows that need not be folded


def formats_section(one: Data, k: int) -> str:
    """How wide signals and products are, where their points are, and what each signal has."""
    found = one["formats"]
    made = ""
    if found["uniform"]:
        ((width, frac, _),) = found["kinds"]
        line = (
            f"All {found['signals']:,} signals are in {found['uniform']}: one uniform format, of "
            f"{width - frac} integer bits with the sign and {frac} fraction bits."
        )
        made += element("p", {}, text(line))
    else:
        most = max(n for _, n in found["widths"])
        drawn = bars(
            [(f"{width} bits", count, most, f"{count:,}") for width, count in found["widths"]],
            f"Widths of {found['signals']:,} signals: request words and results of operations",
        )
        made += beside(drawn + _integer_bits(found), html_table(_regions(found)))
        kinds = _kinds(found)
        few = len(kinds.rows) <= _FEW
        made += folded(f"{len(kinds.rows)} formats as a table", html_table(kinds), open_=few)
    if found["products"]:
        products = html_table(_products(found))
        few = len(found["products"]) <= _FEW
        made += folded("Products by the widths of their factors", products, open_=few)
    signals = element("div", {"class": "signals", "data-build": k})
    without = element("noscript", {}, "This table needs JavaScript; it is the schedule's data.")
    return made + folded(f"All {found['signals']:,} signals", signals + without) + _meaning()


def _meaning() -> str:
    return note(
        "Integer bits have the sign among them. A format with the point outside of its word has "
        "less than none of one kind, and so more of the other than it is wide."
    )


def _integer_bits(found: Data) -> str:
    counts: dict[int, int] = {}
    for width, frac, count in found["kinds"]:
        counts[width - frac] = counts.get(width - frac, 0) + count
    most = max(counts.values())
    rows = [(f"{bits} bits", n, most, f"{n:,}") for bits, n in sorted(counts.items())]
    return bars(rows, "Integer bits of the same signals, the sign among them")


def _regions(found: Data) -> Table:
    return Table(
        columns=("region", "signals", "bits wide", "on average", "integer", "fraction"),
        rows=[
            (
                *(row["region"], row["signals"], span(row["widths"])),
                f"{row['bits'] / row['signals']:.1f}",
                *(span(row["integer"]), span(row["frac"])),
            )
            for row in found["regions"]
        ],
    )


def _kinds(found: Data) -> Table:
    rows: list[tuple[object, ...]] = []
    for width, frac, count in found["kinds"]:
        reach, step = 2.0 ** (width - 1 - frac), 2.0**-frac
        own = (f"{-reach:.3g} to {reach:.3g}", f"{step:.2e}")
        rows.append((Format(width, frac).name, width, width - frac, frac, *own, count))
    return Table(
        columns=("format", "bits", "integer", "fraction", "from, to below", "step", "signals"),
        rows=rows,
    )


def _products(found: Data) -> Table:
    return Table(
        columns=("factors, bits", "products", "of them by constants", "bits of the exact product"),
        rows=[
            (f"{wide} x {narrow}", count, constant, wide + narrow)
            for wide, narrow, count, constant in found["products"]
        ],
        note="As the units read them, after their operands were rounded to what they take. The "
        "exact product is rounded once, behind the sum that it is in.",
    )
