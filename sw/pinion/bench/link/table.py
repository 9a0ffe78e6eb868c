"""Table of the modelled link (:mod:`pinion.link.transfer`) and of published times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pinion.link.transfer import LINKS, SIZES
from pinion.report import FigureTable


def link_times_table(data: Mapping[str, Any]) -> FigureTable:
    """Return the table of modelled times on both links, with a note on their quality.

    Parameters
    ----------
    data : of :func:`pinion.link.transfer.model`, with ``published`` of
        :func:`pinion.bench.published.published_times`.
    """
    beside = comparable(data)
    assumed = data["assumed"]
    links = "; ".join(f"{name}, {text}" for name, text in assumed["links"].items())
    low, high = assumed["fixed_us"]
    return FigureTable(
        columns=("end to end, us", *(f"N = {count}" for count in SIZES)),
        rows=_lines(data["estimates"], beside),
        title="MODEL, not measured: the real link",
        note=(
            "Model, not measured; clocks assumed: no board has run this, and no tool has confirmed "
            f"{assumed['core_mhz']:g} MHz for the core and {assumed['link_mhz']:g} MHz for the "
            f"link. Microseconds from the call to the last of N results of {data['robot']} "
            f"{data['function']}. least: {low:g} us fixed, the higher rates, transfers and "
            f"computation overlap fully; most: {high:g} us fixed, the lower rates, no overlap. "
            f"Links: {links}. card is the card's part. "
            + (
                "f: read off a plot of the 2021 paper (plancher2021 of 'pinion bench core'), the "
                "gradient with M^-1 given, at 55.6 MHz on its FPGA. "
                if beside
                else "The paper's figures, for the gradient of the iiwa14, are not shown. "
            )
            + "The equations and their sources are in docs/link.md."
        ),
    )


def comparable(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the published rows comparable with this build: gradients of the same robot."""
    return [
        row
        for row in data["published"]
        if row["robot"] == data["robot"] and data["function"] in (row["function"], *_ALIKE)
    ]


_ALIKE = ("fd_derivatives",)
"""Functions comparable with the paper's; this one computes M^-1 itself."""


def _lines(
    estimates: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]
) -> list[tuple[object, ...]]:
    lines: list[tuple[object, ...]] = []
    for link in LINKS:
        mine = [row for row in estimates if row["link"] == link.name]
        spans = [f"{row['least_us']:.1f} - {row['most_us']:.1f}" for row in mine]
        lines.append((f"model, {link.name}", *spans))
    first = [row for row in estimates if row["link"] == LINKS[0].name]
    lines.append(("  of it, card", *(f"{row['card_us']:.2f}" for row in first)))
    for row in rows:
        figures = (row["us"].get(count) for count in SIZES)
        cells = (None if us is None else f"{us:.1f} f" for us in figures)
        lines.append((f"paper 2021, {row['name']}", *cells))
    return lines
