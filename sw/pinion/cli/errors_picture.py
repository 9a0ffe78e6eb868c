"""A picture of how far results stray from floats, beside the derived budgets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator
from numpy.typing import NDArray

from .measure import margins
from .palette import ALARM, DPI, FAINT, INK, Colour, link_colours

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A block of results.

    Members
    -------
    name, unit : of the block, such as ``dtau_dq`` in ``N m/rad``.
    lsb : weight of a result's last bit, drawn for comparison.
    words : names of the words that travel, ``tau[0]`` or ``dtau_dq[1,0]``, row by row.
    error : (n, words) absolute errors, finite.
    budget : (words,) bound of each.
    """

    name: str
    unit: str
    lsb: float
    words: tuple[str, ...]
    error: Floats
    budget: Floats

    @property
    def is_matrix(self) -> bool:
        """Whether a row of it has several words."""
        return "," in self.words[0]

    def groups(self) -> dict[str, list[int]]:
        """Columns of each violin: a word of a vector, a row of a matrix."""
        found: dict[str, list[int]] = {}
        for column, word in enumerate(self.words):
            row, comma, _ = word.partition(",")
            found.setdefault(f"{row}, :]" if comma else word, []).append(column)
        return found


def draw_errors(path: Path, *, title: str, panels: Sequence[Panel]) -> None:
    """Draw the distribution of ``|RTL - float|`` on logarithmic axes, one for each block.

    A vector has a violin for each word, in its unit. A matrix has one for each row, because dozens
    of words would be no picture, and shows errors as shares of each word's own budget, because the
    budgets of a row differ by more than the errors stray.

    Parameters
    ----------
    path : where the PNG goes.
    title : the robot, the function and the number of requests, for the first line.
    panels : the blocks, from top to bottom.
    """
    most = max(len(panel.groups()) for panel in panels)
    tall = 5.2 if len(panels) == 1 else 3.7
    figure = Figure(
        figsize=(max(9.5, 1.35 * most), 1.0 + tall * len(panels)), dpi=DPI, layout="constrained"
    )
    FigureCanvasAgg(figure)
    column = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
    for axes, panel in zip(column, panels, strict=True):
        _draw_panel(axes, panel)
    figure.suptitle(_title(title, panels), x=0.01, ha="left", fontsize=13, color=INK)
    handles = [
        Line2D([], [], color=ALARM, linewidth=2.2, label="budget, derived"),
        Line2D([], [], color=INK, marker="v", linestyle="", label="largest"),
        Line2D([], [], color=INK, marker="_", linestyle="", ms=10, label="99 % are below"),
        Line2D([], [], color=INK, marker="o", mfc="white", linestyle="", label="median"),
    ]
    if not all(panel.is_matrix for panel in panels):
        handles.append(
            Line2D([], [], color=FAINT, linestyle=(0, (4, 3)), label="last bit of a result")
        )
    figure.legend(handles=handles, loc="outside lower left", ncols=5, frameon=False, fontsize=9)
    figure.savefig(path)


def _draw_panel(axes: Axes, panel: Panel) -> None:
    groups = panel.groups()
    colours = link_colours(len(groups))
    error, budget = panel.error, panel.budget
    if panel.is_matrix:
        error, budget = error / budget, np.ones_like(budget)
    axes.set_yscale("log")
    largest = float(error.max(initial=0.0))
    lowest = float(np.quantile(error, 0.01)) if error.size else 0.0
    floor = max(lowest, largest * 1e-5, float(budget.min()) * 1e-6, 1e-12)
    edges = np.geomspace(floor, max(largest, float(budget.max())) * 3.0, 90)
    for number, (columns, colour) in enumerate(zip(groups.values(), colours, strict=True)):
        _draw_group(axes, number, error[:, columns], float(budget[columns[0]]), edges, colour)
        axes.annotate(
            _margin(panel.error[:, columns], panel.budget[columns]),
            (number, float(budget[columns[0]])),
            xytext=(0, 5),
            textcoords="offset points",
            ha="center",
            fontsize=9,
            color=ALARM,
        )
    if floor < panel.lsb < edges[-1] and not panel.is_matrix:
        axes.axhline(panel.lsb, color=FAINT, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    labels = list(groups)
    if panel.is_matrix:
        exponent = 3 * math.floor(math.log10(float(panel.budget.max())) / 3)
        scaled = {name: panel.budget[columns] / 10.0**exponent for name, columns in groups.items()}
        labels = [f"{name}\n{_range(values, '')}" for name, values in scaled.items()]
        ten = f"$10^{{{exponent}}}$ " if exponent else ""
        axes.set_xlabel(
            f"rows, with the least and the greatest budget of their words [{ten}{panel.unit}]"
        )
    axes.set_xticks(range(len(groups)), labels, fontsize=10)
    axes.set_xlim(-0.6, len(groups) - 0.4)
    axes.set_ylim(floor, edges[-1])
    axes.yaxis.set_major_locator(LogLocator(base=10, numticks=12))
    axes.grid(axis="y", which="major", color="#ececef", linewidth=0.7)
    axes.set_axisbelow(True)
    over = "  over the word's budget" if panel.is_matrix else f"  [{panel.unit}]"
    axes.set_ylabel(f"|RTL − float64|{over}")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _range(values: Floats, unit: str) -> str:
    # Two digits, but 180 rather than 1.8e+02.
    low, high = (f"{float(f'{value:.2g}'):g}" for value in (values.min(), values.max()))
    return f"{low}{unit}" if low == high else f"{low} to {high}{unit}"


def _draw_group(
    axes: Axes, number: int, error: Floats, budget: float, edges: Floats, colour: Colour
) -> None:
    """A histogram in a logarithmic axis, mirrored; quantiles and the budget on top."""
    if error.size:
        counts = np.histogram(np.clip(error, edges[0], None), bins=edges)[0].astype(np.float64)
        counts[0] = counts[1]  # what lies below the axis is not a peak
        half = 0.4 * counts / max(1.0, counts.max())
        axes.stairs(number + half, edges, baseline=number - half, orientation="horizontal",
                    fill=True, color=colour, alpha=0.75, zorder=2)  # fmt: skip
        median, p99, largest = (float(np.quantile(error, q)) for q in (0.5, 0.99, 1.0))
        axes.plot(number, median, "o", color=INK, mfc="white", ms=6, zorder=4)
        axes.plot(number, p99, "_", color=INK, ms=13, zorder=4)
        axes.plot(number, largest, "v", color=INK, ms=6, zorder=4)
    axes.hlines(budget, number - 0.36, number + 0.36, color=ALARM, linewidth=2.2, zorder=5)


def _margin(error: Floats, budget: Floats) -> str:
    """How many times the largest error of its word a budget is."""
    ratios = margins(error, budget)
    if ratios["min"] is None:
        return "no error at all"
    both = np.array([ratios["min"], ratios["max"]])
    return _range(both, " ×") if error.shape[1] > 1 else _range(both, " × largest")


def _title(title: str, panels: Sequence[Panel]) -> str:
    """The finding: whether the budget holds, and where it is nearest to breaking."""
    words = [word for panel in panels for word in panel.words]
    used = np.concatenate([p.error.max(axis=0, initial=0.0) / p.budget for p in panels])
    nearest = int(np.argmax(used))
    if used[nearest] > 1.0:
        finding = f"{words[nearest]} BREAKS its budget, by a factor of {used[nearest]:.3g}"
    else:
        most = f"{words[nearest]} uses most, {used[nearest]:.0%}"
        finding = f"every error is inside its budget; {most}"
    return f"{title}:\n{finding}"
