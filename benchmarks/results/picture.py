"""The picture on the first page: DSP blocks of published designs and Pinion's, and batch times.

It is written as text instead of by Matplotlib, whose files differ between versions: a test compares
it with the records letter by letter, and it follows a dark page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any

from .page import beside

N = 128
"""Size of the batch."""

# Bars by the names of `pinion bench compare`, with their labels. Transfers are included.
SHOWN = {
    ("Pinion CPU, float32, one processor", "M^-1 computed"): "Pinion, CPU, one core, float32",
    ("Pinion CPU, float64, one processor", "M^-1 computed"): "Pinion, CPU, one core, float64",
    ("GRiD, with copies", "M^-1 computed"): "GRiD, GPU RTX 5090",
    ("paper's GPU", "M^-1 given"): "Plancher 2021, GPU GTX 2080*",
    ("Pinocchio code generation", "M^-1 computed"): "Pinocchio, generated, CPU",
    ("paper's FPGA", "M^-1 given"): "Plancher 2021, FPGA*",
    ("paper's CPU", "M^-1 given"): "Plancher 2021, four cores*",
    ("Pinocchio as C by CasADi, float64, one processor", "M^-1 computed"): (
        "Pinocchio, C by CasADi, CPU"
    ),
}
CARD = "Pinion behind PCIe, a model*"

_COUNTED = {"dsp": "DSP blocks", "lut": "Lookup tables"}

WIDTH, LINE, NAMES, BARS = 540, 29, 276, 170
"""Sizes in pixels; LINE is the height of a bar with its margins, BARS the width of the longest.

A telephone shows the picture 340 to 360 pixels wide: letters must be readable at two thirds of
their size, so panels are below each other.
"""

_STYLE = """
text { font: 17px system-ui, sans-serif; fill: #24292f; }
.title { font-weight: 600; font-size: 18px; }
.faint { fill: #59636e; font-size: 16px; }
.own { fill: #1f7a99; } .model { fill: #8cc3d6; } .others { fill: #b7bdc6; } .paper { fill: #fff; }
@media (prefers-color-scheme: dark) {
  .paper { fill: #0d1117; }
  text { fill: #e6edf3; } .faint { fill: #9aa4ae; }
  .own { fill: #4aa8c7; } .model { fill: #2f6577; } .others { fill: #6b727b; }
}
"""


@dataclass(frozen=True, kw_only=True)
class _Bar:
    """Bar of the chart: name, value, start of a range, and the CSS class of its colour."""

    name: str
    value: float
    least: float | None = None
    kind: str = "others"

    @property
    def text(self) -> str:
        if self.least is not None:
            return f"{self.least:.0f} to {self.value:.0f}"
        return f"{self.value:,.0f}" if self.value >= 10 else f"{self.value:.1f}"


def drawn(cores: Mapping[str, Any], factor: Mapping[str, Any], batches: Mapping[str, Any]) -> str:
    """Return the picture as SVG.

    Raises
    ------
    ValueError
        If a row to be shown is not in the records.
    """
    lines: list[str] = []
    height = 0
    for key, words in _COUNTED.items():
        bars = _counts(cores, factor, key)
        largest = max(bar.value for bar in bars)
        panel, height = _panel(
            f"{words} of the gradient's core, iiwa14",
            f"Pinion's: counted by Yosys, a result every {factor['column']['ii']} cycles.\n"
            "The others': published, or derived where stated.",
            bars,
            top=height,
            length=partial(_share, largest),
        )
        lines += panel
    # The times span a few microseconds to a few hundred: each decade has the same length.
    panel, height = _panel(
        f"Microseconds for {N} gradients of the iiwa14",
        "Transfers included; logarithmic. Pinion's CPU and CasADi,\n"
        "one core: measured on one machine; others: published.\n"
        "* M^-1 is given; all others compute it.",
        _times(batches),
        top=height,
        length=lambda value: math.log10(value / 2) / math.log10(800 / 2),
    )
    body = "\n".join(lines + panel)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img">\n'
        f"<title>Pinion compared with others: DSP blocks and times of batches</title>\n"
        f"<style>{_STYLE}</style>\n"
        # A page may be dark while the system is light, or the other way round.
        f'<rect class="paper" width="{WIDTH}" height="{height}" rx="6"/>\n{body}\n</svg>\n'
    )


def _share(largest: float, value: float) -> float:
    return value / largest


def _panel(
    title: str, note: str, bars: Sequence[_Bar], *, top: int, length: Callable[[float], float]
) -> tuple[list[str], int]:
    """Return SVG lines of titled bars with a note, and the y coordinate of the next panel."""
    lines = [f'<text class="title" x="4" y="{top + 24}">{escape(title)}</text>']
    under = top + 36
    for bar in bars:
        width = max(2.0, BARS * length(bar.value))
        lines += [
            f'<text x="{NAMES - 8}" y="{under + 19}" text-anchor="end">{escape(bar.name)}</text>',
            f'<rect class="{bar.kind}" x="{NAMES}" y="{under + 3}" width="{width:.1f}" '
            'height="21" rx="2"/>',
            f'<text x="{NAMES + width + 7:.1f}" y="{under + 19}">{escape(bar.text)}</text>',
        ]
        under += LINE
    for line in note.splitlines():
        under += 21
        lines.append(f'<text class="faint" x="4" y="{under}">{escape(line)}</text>')
    return lines, under + 24


def _counts(cores: Mapping[str, Any], factor: Mapping[str, Any], key: str) -> list[_Bar]:
    """Return bars of a resource for Pinion's cores and the published designs that state it."""
    bars = []
    for words, row in beside(cores, factor, "iiwa14"):
        # Others' reports also count lookup tables that serve as memory.
        value = row[key] + (row["memory_lut"] if key == "lut" else 0)
        bars.append(_Bar(name=f"Pinion, {words}", value=value, kind="own"))
    for design in cores["published"]["design"]:
        if design["robot"] == "iiwa14" and key in design["figures"]:
            figure = design["figures"][key]
            derived = ", derived" if figure["kind"] == "derived" else ""
            bars.append(_Bar(name=design["name"] + derived, value=figure["value"]))
    return sorted(bars, key=lambda bar: bar.value)


def _times(batches: Mapping[str, Any]) -> list[_Bar]:
    bars = []
    card = [row for row in batches["rows"] if row["label"] == "model" and row["samples"] == N]
    if card:  # over every link of the model, as in the table below the picture
        least, most = min(row["us_least"] for row in card), max(row["us_per_batch"] for row in card)
        bars.append(_Bar(name=CARD, value=most, least=least, kind="model"))
    for row in batches["rows"]:
        if row["samples"] != N:
            continue
        name = SHOWN.get((row["by"], row["work"]))
        if name is not None:
            kind = "own" if name.startswith("Pinion,") else "others"
            bars.append(_Bar(name=name, value=row["us_per_batch"], kind=kind))
    names = [bar.name for bar in bars]
    missing = [name for name in (*SHOWN.values(), CARD) if name not in names]
    if missing:
        raise ValueError(
            f"The record of batches has no rows of {', '.join(missing)}: measure it again."
        )
    return sorted(bars, key=lambda bar: bar.value)
