"""Resource and timing sections of a build's page."""

from __future__ import annotations

from typing import Any

from .blocks import Data, bars, folded, note
from .html import element, page_table, text
from .resources import resource_tables
from .table import FigureTable
from .timing import timing_table, timing_totals

_BARS = ("dsp", "lut", "ff", "bram")
_WORDS = {
    "dsp": "DSP",
    "lut": "LUT, including memories",
    "ff": "FF",
    "bram": "BRAM (36 Kb)",
    "lut4": "LUT4",
    "mult18x18d": "18 x 18",
    "dp16kd": "RAM (16 Kb)",
}

_NO_PATHS: dict[str, Any] = {"table": "", "note": "", "paths": [], "ns": {}, "mhz": {}}


def resources_section(build: Data, k: int) -> str:
    """Return HTML with a core's resource counts, compared with the resources of parts."""
    resources, board = build["resources"], build["board"]
    target = build["manifest"]["target"]
    parts = build["facts"].get("parts") or {}
    body = ""
    if resources is not None:
        counts = {name: resources[name] for name in _BARS}
        counts["lut"] += resources["srl"] + resources["lutram"]
        fitting = {n: p for n, p in parts.items() if set(_BARS) <= set(p["capacity"])}
        if not fitting:
            fitting = {resources["part"]: {k: resources[k] for k in ("part", "capacity", "dies")}}
        body += _parts(fitting, counts, target, f"r{k}")
        body += element("p", {}, text(resources["dsp_note"])) if resources["dsp_note"] else ""
        body += note(resources["note"])
        tables = "".join(
            page_table(t) for t in resource_tables({**resources, "timing": _NO_PATHS})[:-1]
        )
        body += folded("By kind of unit", tables)
    else:
        body += element(
            "p", {"class": "missing"},
            "Counts are missing: " + element("code", {}, "pinion synth DIR")
            + " counts with Yosys, as does "
            + element("code", {}, "pinion report DIR --synth -o FILE") + ".",
        )  # fmt: skip
    if board is not None:
        capacity = parts.get(target, {}).get("capacity", {})
        used = [
            (_WORDS.get(name, name), n, capacity[name], f"{n:,} of {capacity[name]:,}")
            for name, n in board["use"].items()
            if name in capacity and isinstance(n, int)
        ]
        line = (
            f"The board's tools: {board['fmax_mhz']:g} MHz after routing, "
            f"{board['clock_mhz']:g} MHz required."
        )
        body += element("h3", {}, text(f"Mapped for {target}")) + element("p", {}, text(line))
        body += bars(used, f"Of the part of {target}") if used else ""
    return body


def _parts(parts: Data, counts: Data, target: str, place: str) -> str:
    selected = target if target in parts else next(iter(parts))
    options = "".join(
        element(
            "option",
            {"value": name, **({"selected": "selected"} if name == selected else {})},
            text(f"{part['part']} ({name})"),
        )
        for name, part in parts.items()
    )
    body = element("label", {"for": place}, "Compared with the part ")
    body += element("select", {"id": place, "class": "parts"}, options)
    for name, part in parts.items():
        kind = "part" if name == selected else "part other"
        dies = part["dies"]
        charts = _taken(counts, part["capacity"], f"Of {part['part']}")
        if dies > 1:
            die_capacity = {key: size // dies for key, size in part["capacity"].items()}
            charts += _taken(counts, die_capacity, f"Of one of its {dies} dies (SLRs)")
        body += element("div", {"class": kind, "data-part": name, "data-of": place}, charts)
    return body


def _taken(counts: Data, capacity: Data, title: str) -> str:
    used = [
        (
            *(_WORDS[key], counts[key], capacity[key]),
            f"{counts[key]:,} of {capacity[key]:,}: {100 * counts[key] / capacity[key]:.2f} %",
        )
        for key in _BARS
    ]
    return bars(used, title)


def timing_section(build: Data, k: int) -> str:
    """Return HTML with the estimated clock and the slowest paths."""
    resources = build["resources"]
    if resources is None:
        line = "No estimate yet: make one with " + element("code", {}, "pinion synth")
        return element("p", {"class": "missing"}, line + ".")
    pairs = FigureTable(columns=(), rows=timing_totals(resources["timing"]), left=2)
    return (
        page_table(pairs, kind="pairs")
        + page_table(timing_table(resources["timing"]), kind="paths")
        + note("The page docs/timing.md of Pinion's source shows how accurate such estimates are.")
    )
