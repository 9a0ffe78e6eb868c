"""Pictures of the 2021 paper's figures: measured bars filled, published hatched, models dashed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.text import Text

from pinion.bench.partitions.table import TIMES
from pinion.report.palette import ALARM, FAINT, INK, link_colours

from .paper import ROBOT, TITLES, Bar, partition_rows, platform_bars, published_gpu, single_bars
from .picture import legend_text

_SHORT: Mapping[str, str] = {"split": "s", "fused": "f", "completely fused": "c"}
_SPENT = tuple(key for key in TIMES if key != "total_us")


def draw_figure(path: Path, number: int, data: Mapping[str, Any]) -> None:
    """Draw one figure of the 2021 paper.

    Parameters
    ----------
    path : of the SVG.
    number : of the figure, one of :func:`.paper.figures`.
    data : of ``pinion bench compare``.
    """
    # A fixed salt and no date: the same data gives the same file.
    with rc_context({"svg.hashsalt": "pinion"}):
        figure = Figure(figsize=(10.5, 4.8), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.subplots()
        handles = {1: _single, 2: _partitions, 3: _platforms}[number](axes, data)
        if handles:
            figure.legend(handles=handles, loc="outside right upper", fontsize=8, frameon=False)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        axes.set_axisbelow(True)
        words = f"{ROBOT}, M^-1 given: {TITLES[number]}"
        title = figure.suptitle(words, **{"x": 0.01, "ha": "left", "fontsize": 12, "color": INK})
        for text in (title, *figure.findobj(match=Text)):
            assert isinstance(text, Text)
            text.set_parse_math(False)
        figure.savefig(path, format="svg", metadata={"Date": None})


def _style(bar: Bar, colour: Any) -> dict[str, Any]:
    if bar.label == "published":
        return {"facecolor": "none", "edgecolor": colour, "hatch": "///"}
    if bar.label == "model":
        return {"facecolor": "none", "edgecolor": colour, "linestyle": (0, (4, 2))}
    return {"facecolor": colour, "edgecolor": colour}


def _single(axes: Axes, data: Mapping[str, Any]) -> list[Patch]:
    bars = single_bars(data)
    names = [f"{legend_text(bar.name)} ({bar.words})" for bar in bars]
    for k, bar in enumerate(bars):
        axes.barh(k, bar.us, 0.65, **_style(bar, _platform_colour(bar)))
        axes.annotate(
            f" {bar.us:.3g}", (bar.us, k), va="center", fontsize=8, color=INK, annotation_clip=False
        )
    axes.set_yticks(range(len(bars)), names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("time of one computation [us]")
    axes.grid(axis="x", color="#ececef", linewidth=0.7)
    return []  # every bar is labelled


def _platforms(axes: Axes, data: Mapping[str, Any]) -> list[Patch]:
    groups = platform_bars(data)
    names = list(dict.fromkeys(bar.name for bars in groups.values() for bar in bars))
    width = 0.8 / len(names)
    handles: dict[str, Patch] = {}
    for group, bars in enumerate(groups.values()):
        for bar in bars:
            at = group - 0.4 + (names.index(bar.name) + 0.5) * width
            style = _style(bar, _platform_colour(bar))
            axes.bar(at, bar.us, 0.9 * width, **style)
            if bar.least_us is not None:
                axes.hlines(bar.least_us, at - 0.45 * width, at + 0.45 * width, colors=INK, lw=1)
            words = f"{legend_text(bar.name)} ({bar.words})"
            handles.setdefault(bar.name, Patch(**style, label=words))
    _groups(axes, list(groups))
    return list(handles.values())


def _partitions(axes: Axes, data: Mapping[str, Any]) -> list[Patch]:
    rows = partition_rows(data)
    counts = sorted({row["samples"] for row in rows})
    published, width = published_gpu(data), 0.2
    colours = dict(zip(_SPENT, link_colours(len(_SPENT)), strict=True))
    missing = False
    for group, count in enumerate(counts):
        sized = [row for row in rows if row["samples"] == count]
        for k, row in enumerate(sized):
            at, height = group + (k - 1.5) * width, 0.0
            for key in _SPENT:
                us = max(0.0, row[key] or 0.0)
                axes.bar(at, us, 0.9 * width, bottom=height, color=colours[key])
                height += us
            letter = _SHORT.get(row["partition"], legend_text(row["partition"]))
            alone = row["total_us"] is None
            missing |= alone
            words = f"{letter}*" if alone else letter
            axes.annotate(words, (at, height), ha="center", va="bottom", fontsize=8, color=INK)
        if count in published:
            bar = published[count]
            axes.bar(group + 1.5 * width, bar.us, 0.9 * width, **_style(bar, FAINT))
    _groups(axes, counts)
    spent = [key for key in _SPENT if any(row[key] for row in rows)]
    kinds = {"copies_us": "the rest of the call"}
    handles = [
        Patch(color=colours[key], label=f"{TIMES[key]} ({kinds.get(key, 'measured')})")
        for key in spent
    ]
    if published:
        bar = next(iter(published.values()))
        style = _style(bar, FAINT)
        handles.append(Patch(**style, label=f"{legend_text(bar.name)}, c ({bar.words})"))
    words = "s split, f fused, c completely fused"
    if missing:
        words += "; * without the device's part, which was not measured"
    axes.set_title(words, fontsize=9, loc="left", color=ALARM if missing else INK)
    return handles


def _groups(axes: Axes, counts: Sequence[int]) -> None:
    axes.set_xticks(range(len(counts)), [f"N = {count}" for count in counts])
    axes.set_ylabel("time for the batch [us]")
    axes.grid(axis="y", color="#ececef", linewidth=0.7)
    axes.margins(y=0.15)


def _platform_colour(bar: Bar) -> str:
    """Return the colour of a platform: CPU, GPU or FPGA of any maker."""
    for word, colour in (("FPGA", "#5b5bd6"), ("GPU", "#2a8f5b"), ("CUDA", "#2a8f5b")):
        if word in bar.name:
            return colour
    return "#d9822b"
