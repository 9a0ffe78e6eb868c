"""Estimated delays of a core as text (``timing`` of ``synth.json``), without placement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .table import FigureTable

# Modules that are not units.
_PARTS = {
    "": "the core's control",
    "datapath": "the datapath's lanes and flags",
    "words": "the input words",
    "input_fifo": "the input buffer",
    "output_fifo": "the output buffer",
}
_REGIONS = 2


def timing_totals(timing: Mapping[str, Any]) -> list[tuple[str, object]]:
    """Return the clock and the critical path that limits it, as names and values."""
    ns, mhz = timing["ns"], timing["mhz"]
    rows: list[tuple[str, object]] = [
        (
            "clock, estimated",
            f"{mhz['typical']:.0f} MHz ({ns['typical']:.2f} ns) with typical nets, "
            f"{mhz['short']:.0f} with short, {mhz['long']:.0f} with long ones",
        )
    ]
    if timing["paths"]:
        path = timing["paths"][0]
        rows.append(("critical path, estimated", f"{path_in_words(path)}: {_delays(path)}"))
    return rows


def timing_table(timing: Mapping[str, Any]) -> FigureTable:
    """Return the slowest path of each class, the critical path first."""
    return FigureTable(
        columns=(
            *("estimated path, from", "to", "ns", "of logic", "of nets", "short nets", "levels"),
            *("loads", "paths alike"),
        ),
        left=2,
        rows=[
            [
                *(place_in_words(path["from"]), place_in_words(path["to"])),
                *(path[key] for key in ("ns", "logic_ns", "nets_ns", "short_ns", "levels")),
                *(path["loads"], path["endpoints"]),
            ]
            for path in timing["paths"]
        ],
        title=_title(timing),
        note=timing["note"],
    )


def timing_blocks(timing: Mapping[str, Any]) -> str:
    """Return the slowest paths as short lines, for terminals too narrow for the table."""
    lines = [f"{_title(timing)}:"]
    for path in timing["paths"]:
        alike = "" if path["endpoints"] == 1 else f"; {path['endpoints']} paths alike"
        lines += [
            f"{path['ns']:.2f} ns: {path['logic_ns']:.2f} of logic, {path['nets_ns']:.2f} of nets, "
            f"{_levels(path)}{alike}",
            f"    from {place_in_words(path['from'])}",
            f"    to {place_in_words(path['to'])}",
        ]
    return "\n".join([*lines, timing["note"]])


def _title(timing: Mapping[str, Any]) -> str:
    return f"Slowest path of each class, the critical path first ({timing['table']}, typical nets)"


def path_in_words(path: Mapping[str, Any]) -> str:
    """Return the endpoints of a path as text."""
    return f"from {place_in_words(path['from'])} to {place_in_words(path['to'])}"


def place_in_words(place: Mapping[str, Any]) -> str:
    """Return a register of a unit with its regions, another register, or a port, as text."""
    if place["cell"] == "port":
        return "a port"
    # Older files have no unit for its multiplier blocks, but their path has it.
    holder, _, block = place["inside"].partition(".unit.")
    register, unit = (
        place["register"],
        place["unit"] or (holder.rpartition(".")[2] if block else ""),
    )
    name = register.removeprefix(f"{unit}_") if unit else register
    gate = place["role"].rpartition(", ")[2] if ", " in place["role"] else ""
    description = (
        f"{name or place['cell']}{f' ({gate})' if gate else ''}{f' of {block}' if block else ''}"
    )
    if unit:
        regions = place["regions"]
        hidden = len(regions) - _REGIONS
        region_names = ", ".join(regions[:_REGIONS]) + (f" and {hidden} more" if hidden > 0 else "")
        return f"{description} of unit {unit}" + (f" in {region_names}" if region_names else "")
    inside = place["inside"].rpartition(".")[2]
    return f"{description} of {_PARTS.get(inside, inside)}"


def _levels(path: Mapping[str, Any]) -> str:
    return f"{path['levels']} level{'' if path['levels'] == 1 else 's'}"


def _delays(path: Mapping[str, Any]) -> str:
    made_of = ", ".join(f"{number} {kind}" for kind, number in path["cells"].items())
    return (
        f"{_levels(path)} ({made_of or 'no logic'}), {path['logic_ns']:.2f} ns of logic "
        f"and {path['nets_ns']:.2f} ns of nets with up to {path['loads']:,} loads"
    )
