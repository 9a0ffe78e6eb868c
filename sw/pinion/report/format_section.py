"""Formats section of a build's page."""

from __future__ import annotations

from pinion.fixedpoint import Format

from .blocks import Data, bars, beside, folded, note, span
from .html import element, page_table, text
from .table import FigureTable

_FEW = 12  # largest number of rows that is shown unfolded


def formats_section(build: Data, k: int) -> str:
    """Return HTML with widths of signals and products, binary points, and a table of signals."""
    data = build["formats"]
    body = ""
    if data["uniform"]:
        ((width, frac, _),) = data["kinds"]
        line = (
            f"All {data['signals']:,} signals are in {data['uniform']}: one uniform "
            f"format, of {width - frac} integer bits with the sign and {frac} fraction bits."
        )
        body += element("p", {}, text(line))
    else:
        largest = max(n for _, n in data["widths"])
        chart = bars(
            [(f"{width} bits", count, largest, f"{count:,}") for width, count in data["widths"]],
            f"Widths of {data['signals']:,} signals: request words and results of operations",
        )
        body += beside(chart + _integer_bits(data), page_table(_regions(data)))
        kinds = _kinds(data)
        few = len(kinds.rows) <= _FEW
        body += folded(f"{len(kinds.rows)} formats as a table", page_table(kinds), open_=few)
    if data["products"]:
        products = page_table(_products(data))
        few = len(data["products"]) <= _FEW
        body += folded("Products by the widths of their factors", products, open_=few)
    signals = element("div", {"class": "signals", "data-build": k})
    without = element("noscript", {}, "This table needs JavaScript; it is the schedule's data.")
    return body + folded(f"All {data['signals']:,} signals", signals + without) + _meaning()


def _meaning() -> str:
    return note(
        "Integer bits include the sign. A format whose binary point is outside its word has a "
        "negative number of one kind of bits, and more of the other kind than its width."
    )


def _integer_bits(data: Data) -> str:
    counts: dict[int, int] = {}
    for width, frac, count in data["kinds"]:
        counts[width - frac] = counts.get(width - frac, 0) + count
    largest = max(counts.values())
    rows = [(f"{bits} bits", n, largest, f"{n:,}") for bits, n in sorted(counts.items())]
    return bars(rows, "Integer bits of the same signals, including the sign")


def _regions(data: Data) -> FigureTable:
    return FigureTable(
        columns=("region", "signals", "bits wide", "on average", "integer", "fraction"),
        rows=[
            (
                *(row["region"], row["signals"], span(row["widths"])),
                f"{row['bits'] / row['signals']:.1f}",
                *(span(row["integer"]), span(row["frac"])),
            )
            for row in data["regions"]
        ],
    )


def _kinds(data: Data) -> FigureTable:
    rows: list[tuple[object, ...]] = []
    for width, frac, count in data["kinds"]:
        reach, step = 2.0 ** (width - 1 - frac), 2.0**-frac
        range_and_step = (f"{-reach:.3g} to {reach:.3g}", f"{step:.2e}")
        rows.append((Format(width, frac).name, width, width - frac, frac, *range_and_step, count))
    return FigureTable(
        columns=("format", "bits", "integer", "fraction", "from, to below", "step", "signals"),
        rows=rows,
    )


def _products(data: Data) -> FigureTable:
    return FigureTable(
        columns=("factors, bits", "products", "of which by constants", "bits of the exact product"),
        rows=[
            (f"{wide} x {narrow}", count, constant, wide + narrow)
            for wide, narrow, count, constant in data["products"]
        ],
        note="As the units read them, after the operands are rounded. The exact product is rounded "
        "once, after its sum.",
    )
