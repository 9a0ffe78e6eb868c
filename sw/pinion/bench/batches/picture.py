"""A picture of times of batches: measured solid, models dashed, published figures as marks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pinion.base.escaping import one_line
from pinion.report.palette import FAINT, INK, Colour, link_colours

from .data import Row, is_own, label_words, series, work_of

_MARKS = ("o", "s", "D", "^", "v", "P", "X", "*", "p", "<", ">", "h", "d")
_OTHERS = ("#c1272d", "#d9822b", "#8c564b", "#b8860b", "#a0527f")
_MODELS = ("#5b5bd6", "#9a9ae6")
_WIDEST = 46  # letters in a line of the legend


def draw_batches(path: Path, *, robot: str, function: str, rows: Sequence[Row]) -> None:
    """Draw the time for a batch against its size, both axes logarithmic.

    Parameters
    ----------
    path : of the SVG.
    rows : of one section (:func:`pinion.bench.batches.data.sections`).
    """
    # A fixed salt and no date: the same data gives the same file.
    with rc_context({"svg.hashsalt": "pinion"}):
        figure = Figure(figsize=(10.5, 5.6), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.subplots()
        axes.set_xscale("log")
        axes.set_yscale("log")
        handles = _draw(axes, rows, function)
        _finish(axes)
        title = figure.suptitle(
            f"{legend_text(robot)}, {legend_text(function)} ({work_of(function)})",
            **{"x": 0.01, "ha": "left", "fontsize": 13, "color": INK},
        )
        title.set_parse_math(False)
        legend = figure.legend(
            handles=handles, loc="outside right upper", frameon=False, fontsize=8, labelspacing=0.6
        )
        for text in legend.get_texts():
            text.set_parse_math(False)
        figure.savefig(path, format="svg", metadata={"Date": None})


def _draw(axes: Axes, rows: Sequence[Row], function: str) -> list[Line2D]:
    handles = []
    runs = list(series(rows).values())
    first = [next(iter(run.values())) for run in runs]
    colours = iter(link_colours(sum(row["label"] == "measured" and is_own(row) for row in first)))
    others, models, marks, number = 0, 0, 0, 0
    for run, row in zip(runs, first, strict=True):
        counts = sorted(run)
        us = [run[n]["us_per_batch"] for n in counts]
        colour: Colour | str
        style: dict[str, Any]
        if row["label"] == "measured":
            colour = next(colours) if is_own(row) else _OTHERS[others % len(_OTHERS)]
            others += not is_own(row)
            mark = _MARKS[number % 3]
            number += 1
            style = {"linestyle": "-", "marker": mark, "markersize": 4, "linewidth": 1.6}
        elif row["label"] == "model":
            colour = _MODELS[models % len(_MODELS)]
            models += 1
            style = {"linestyle": (0, (5, 3)), "linewidth": 1.4}
            low = [run[n]["us_least"] or run[n]["us_per_batch"] for n in counts]
            if low != us:
                axes.fill_between(counts, low, us, color=colour, alpha=0.12, linewidth=0)
                axes.plot(counts, low, color=colour, **style)
        else:
            same = row["work"] == work_of(function)
            colour = INK if same else FAINT
            style = {"linestyle": "", "marker": _MARKS[marks % len(_MARKS)], "markersize": 6}
            style |= {"markerfacecolor": "none", "zorder": 5 if same else 4}
            marks += 1
        axes.plot(counts, us, color=colour, **style)
        words = f"{row['by']}, {label_words(row)}"
        if row["work"] != work_of(function):
            words += f", {row['work']}"
        handles.append(Line2D([], [], color=colour, label=_folded(words), **style))
    return handles


def _finish(axes: Axes) -> None:
    axes.set_xlabel("samples of a batch, N")
    axes.set_ylabel("time for the batch [us]")
    axes.grid(which="major", color="#ececef", linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def legend_text(text: str) -> str:
    """Return a text as one line; Matplotlib hides labels that begin with an underscore."""
    return one_line(text).lstrip("_")[:120]


def _folded(text: str) -> str:
    """Return a text wrapped onto at most two lines."""
    words = legend_text(text)
    if len(words) <= _WIDEST:
        return words
    cut = words.rfind(" ", 0, _WIDEST)
    cut = _WIDEST if cut <= 0 else cut
    return f"{words[:cut]}\n   {words[cut:].strip()[:_WIDEST]}"
