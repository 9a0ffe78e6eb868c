"""A picture of results' errors relative to floats, with the derived budgets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator

from pinion.base.arrays import Floats
from pinion.link.accuracy import BlockErrors, ErrorGroup, margins

from .errors import NONE_VALID
from .palette import ALARM, DPI, FAINT, INK, Colour, link_colours
from .table import percent


def draw_errors(path: Path, *, title: str, blocks: Sequence[BlockErrors]) -> None:
    """Draw the distribution of ``|RTL - float|`` on logarithmic axes, one panel per block.

    A vector has a violin for each word, in the word's unit. A matrix has one for each row, since it
    has dozens of words, and shows errors relative to each word's budget, since the budgets of a row
    differ by more than the errors.

    Parameters
    ----------
    path : of the PNG.
    title : robot, function and number of requests, for the first line.
    blocks : from top to bottom.
    """
    most_groups = max(len(block.groups) for block in blocks)
    tall = 5.2 if len(blocks) == 1 else 3.7
    figure = Figure(
        figsize=(max(9.5, 1.35 * most_groups), 1.0 + tall * len(blocks)),
        dpi=DPI,
        layout="constrained",
    )
    FigureCanvasAgg(figure)
    column = figure.subplots(len(blocks), 1, squeeze=False)[:, 0]
    for axes, block in zip(column, blocks, strict=True):
        _draw_panel(axes, block)
    head = figure.suptitle(_title(title, blocks), x=0.01, ha="left", fontsize=13, color=INK)
    head.set_parse_math(False)  # a robot's name is not a formula
    handles = [
        Line2D([], [], color=ALARM, linewidth=2.2, label="budget, derived"),
        Line2D([], [], color=INK, marker="v", linestyle="", label="largest"),
        Line2D([], [], color=INK, marker="_", linestyle="", ms=10, label="99 % are below"),
        Line2D([], [], color=INK, marker="o", mfc="white", linestyle="", label="median"),
    ]
    if not all(block.is_matrix for block in blocks):
        handles.append(Line2D([], [], color=FAINT, linestyle=(0, (4, 3)), label="LSB of a result"))
    figure.legend(handles=handles, loc="outside lower left", ncols=5, frameon=False, fontsize=9)
    figure.savefig(path)


def _draw_panel(axes: Axes, block: BlockErrors) -> None:
    groups, edges = block.groups, np.array(block.edges)
    colours = link_colours(len(groups))
    budget = np.array(block.budget)
    axes.set_yscale("log")
    for number, (group, colour) in enumerate(zip(groups, colours, strict=True)):
        words = list(group.words)
        bound = 1.0 if block.is_matrix else float(budget[words[0]])
        _draw_group(axes, number, group, bound, edges, colour)
        axes.annotate(
            NONE_VALID
            if group.largest is None
            else _margin(np.array([block.largest])[:, words], budget[words]),
            (number, bound),
            xytext=(0, 5),
            textcoords="offset points",
            ha="center",
            fontsize=9,
            color=ALARM,
        )
    if edges[0] < block.lsb < edges[-1] and not block.is_matrix:
        axes.axhline(block.lsb, color=FAINT, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    labels = [group.name for group in groups]
    if block.is_matrix:
        exponent = 3 * math.floor(math.log10(float(budget.max())) / 3)
        scaled = [budget[list(group.words)] / 10.0**exponent for group in groups]
        labels = [f"{g.name}\n{_range(s, '')}" for g, s in zip(groups, scaled, strict=True)]
        ten = f"$10^{{{exponent}}}$ " if exponent else ""
        axes.set_xlabel(
            f"rows, with the least and the greatest budget of their words [{ten}{block.unit}]"
        )
    axes.set_xticks(range(len(groups)), labels, fontsize=10)
    axes.set_xlim(-0.6, len(groups) - 0.4)
    axes.set_ylim(edges[0], edges[-1])
    axes.yaxis.set_major_locator(LogLocator(base=10, numticks=12))
    axes.grid(axis="y", which="major", color="#ececef", linewidth=0.7)
    axes.set_axisbelow(True)
    over = "  over the word's budget" if block.is_matrix else f"  [{block.unit}]"
    axes.set_ylabel(f"|RTL − float64|{over}")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _range(values: Floats, unit: str) -> str:
    # Two digits, but 180 instead of 1.8e+02.
    low, high = (f"{float(f'{value:.2g}'):g}" for value in (values.min(), values.max()))
    return f"{low}{unit}" if low == high else f"{low} to {high}{unit}"


def _draw_group(
    axes: Axes, number: int, group: ErrorGroup, budget: float, edges: Floats, colour: Colour
) -> None:
    """Draw a mirrored histogram on a logarithmic axis, with quantiles and the budget on top."""
    if any(group.counts):
        counts = np.array(group.counts, dtype=np.float64)
        if len(counts) > 1:
            counts[0] = counts[1]  # values below the axis are not a peak
        half = 0.4 * counts / max(1.0, counts.max())
        axes.stairs(number + half, edges, baseline=number - half, orientation="horizontal",
                    fill=True, color=colour, alpha=0.75, zorder=2)  # fmt: skip
    if group.median is not None:
        axes.plot(number, group.median, "o", color=INK, mfc="white", ms=6, zorder=4)
    if group.p99 is not None:
        axes.plot(number, group.p99, "_", color=INK, ms=13, zorder=4)
    if group.largest is not None:
        axes.plot(number, group.largest, "v", color=INK, ms=6, zorder=4)
    axes.hlines(budget, number - 0.36, number + 0.36, color=ALARM, linewidth=2.2, zorder=5)


def _margin(error: Floats, budget: Floats) -> str:
    """Return the range of the ratios of budgets to largest errors, as text."""
    ratios = margins(error, budget)
    if ratios["min"] is None:
        return "no error at all"
    extremes = np.array([ratios["min"], ratios["max"]])
    return _range(extremes, " ×") if error.shape[1] > 1 else _range(extremes, " × largest")


def _title(title: str, blocks: Sequence[BlockErrors]) -> str:
    """Return the title and the finding: whether budgets hold, and which word is nearest to one."""
    words = [word for block in blocks for word in block.words]
    used = [share for block in blocks for share in block.shares]
    invalid = sum(block.invalid for block in blocks)
    nearest = int(np.argmax(used))
    if not invalid and all(g.largest is None for block in blocks for g in block.groups):
        finding = "NO request has a valid result, so no error was checked"
    elif invalid:
        finding = f"{invalid:,} results ARE NOT NUMBERS"
    elif used[nearest] > 1.0:
        finding = f"{words[nearest]} BREAKS its budget, by a factor of {used[nearest]:.3g}"
    else:
        nearest_word = f"{words[nearest]} uses most, {percent(used[nearest])}"
        finding = f"every error is within its budget; {nearest_word}"
    return f"{title}:\n{finding}"
