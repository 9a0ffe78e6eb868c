"""Tables and picture of ``pinion bench cpu``."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from pinion.report import FigureTable, markdown
from pinion.report.palette import ALARM, FAINT, INK

IN_CACHE = (4096, 256)
"""Batch sizes to show on a page: the first one that was measured is used."""

_LINES = (
    ("float32", "blocks", "#1b6ca8", "o"),
    ("float32", "aos", "#5aa9e6", "s"),
    ("float64", "blocks", "#8a4f9e", "o"),
    ("float64", "aos", "#c79bd6", "s"),
)
_RIVALS = {
    "casadi-c": ("Pinocchio's algorithm as C by CasADi", (0, (6, 2))),
    "pinocchio-native": ("Pinocchio in C++", (0, (4, 2, 1, 2))),
    "pinocchio-python": ("Pinocchio from Python", (0, (2, 2))),
}


def cpu_times_table(data: Mapping[str, Any], robot: str) -> FigureTable:
    """Return the table of nanoseconds per evaluation for one robot's functions.

    Parameters
    ----------
    data : output of ``pinion bench cpu --json``.
    """
    rows = [row for row in data["rows"] if row["robot"] == robot]
    lines: list[tuple[Any, ...]] = []
    for name in dict.fromkeys(row["function"] for row in rows):
        matching = [row for row in rows if row["function"] == name]
        rivals = {by: _fastest(matching, by) for by in _RIVALS}
        best = _in_cache(matching, "float32", "blocks")
        lines.append(
            (
                name,
                *(_ns(rivals[by]) for by in reversed(_RIVALS)),
                _ns(_in_cache(matching, "float64", "blocks")),
                _ns(_in_cache(matching, "float32", "aos")),
                _ns(best),
                _times(best, "faster_than_baseline"),
                _times(best, "over_floor"),
            )
        )
    return FigureTable(
        title=f"{robot}: nanoseconds per evaluation",
        columns=(
            "function",
            *("Pinocchio, Python", "Pinocchio, C++", "its graph as C"),
            *("float64", "float32, (n, ...)", "float32, blocks"),
            *("x its graph as C", "x floor"),
        ),
        rows=lines,
    )


def cpu_page(data: Mapping[str, Any], picture: str) -> str:
    """Return a page in Markdown: the machine, and a table for each robot."""
    about = data["machine"]
    robots = dict.fromkeys(row["robot"] for row in data["rows"])
    lines = [
        "# Compiled functions on a CPU",
        "",
        f"Measured by `{_escaped(data['command'])}` on one core of {about['processor']} "
        f"({about['isa']}), {about['compiler']}, Python {about['python']}, NumPy "
        f"{about['numpy']}; medians of {data['rounds']} rounds in one run. Batches stay in "
        "the cache; others' code computes float64. *x its graph as C*: speed of float32 in blocks "
        "relative to Pinocchio's algorithm as C written by CasADi. *x floor*: time over that of "
        "the kernel's vector instructions, each taking as long as a fused multiply-add.",
        "",
        f"![Time per evaluation against the batch size]({picture})",
        "",
    ]
    for robot in robots:
        table = cpu_times_table(data, robot)
        lines += [f"## {_escaped(table.title or '')}", "", *markdown(table), ""]
    lines += [f"Left out: {_escaped(f'{label}: {why}')}" for label, why in data["left_out"].items()]
    return "\n".join(lines).rstrip() + "\n"


def draw_cpu_times(path: Path, data: Mapping[str, Any]) -> None:
    """Draw the time per evaluation against the batch size, a panel for each robot.

    Parameters
    ----------
    path : of the picture; its suffix selects the format.
    data : output of ``pinion bench cpu --json``; each robot shows its last function, which is the
        gradient of forward dynamics if it was measured.
    """
    robots = list(dict.fromkeys(row["robot"] for row in data["rows"]))
    figure = Figure(figsize=(max(5.5, 4.3 * len(robots)), 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(robots), squeeze=False)[0]
    for axes, robot in zip(panels, robots, strict=True):
        rows = [row for row in data["rows"] if row["robot"] == robot]
        names = list(dict.fromkeys(row["function"] for row in rows))
        name = "fd_derivatives" if "fd_derivatives" in names else names[-1]
        _panel(axes, [row for row in rows if row["function"] == name], f"{robot} {name}")
    panels[0].set_ylabel("nanoseconds per evaluation, one core")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=2 if len(robots) == 1 else 4,
        frameon=False,
        fontsize=8,
    )
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _panel(axes: Axes, rows: Sequence[Mapping[str, Any]], title: str) -> None:
    for dtype, layout, colour, marker in _LINES:
        ours = [
            row
            for row in rows
            if row.get("dtype") == dtype and row.get("layout") == layout and row["best"]
        ]
        axes.plot(
            [row["samples"] for row in ours],
            [row["ns"] for row in ours],
            color=colour,
            marker=marker,
            markersize=4,
            label=f"{dtype}, {'(n, ...)' if layout == 'aos' else layout}",
        )
    floors = [
        row["ns"] / row["over_floor"]
        for row in rows
        if row.get("dtype") == "float32" and row.get("over_floor") and row["best"]
    ]
    if floors:
        axes.axhline(min(floors), color=ALARM, linewidth=1, label="floor of float32")
    for by, (label, style) in _RIVALS.items():
        fastest = _fastest(rows, by)
        if fastest is not None:
            axes.axhline(fastest["ns"], color=INK, linewidth=1, linestyle=style, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("samples of the batch")
    axes.set_title(title, fontsize=10, loc="left", color=INK)
    axes.grid(color=FAINT, alpha=0.25, which="major")
    axes.spines[["top", "right"]].set_visible(False)


def _escaped(text: str) -> str:
    """Escape a text from a file or command for a page."""
    printable = "".join(c if c.isprintable() else " " for c in text).replace("`", "'")
    return html.escape(printable, quote=False).replace("|", "\\|")


def _in_cache(rows: Sequence[Mapping[str, Any]], dtype: str, layout: str) -> Any:
    for samples in IN_CACHE:
        for row in rows:
            if (row.get("dtype"), row.get("layout"), row.get("samples")) == (
                dtype,
                layout,
                samples,
            ) and row["best"]:
                return row
    return None


def _fastest(rows: Sequence[Mapping[str, Any]], by: str) -> Any:
    return min((row for row in rows if row["by"] == by), key=lambda row: row["ns"], default=None)


def _ns(row: Mapping[str, Any] | None) -> str | None:
    if row is None:
        return None
    ns = row["ns"]
    return f"{ns:,.0f}" if ns >= 100 else f"{ns:.1f}"


def _times(row: Mapping[str, Any] | None, key: str) -> str | None:
    return None if row is None or row.get(key) is None else f"{row[key]:.2f}"
