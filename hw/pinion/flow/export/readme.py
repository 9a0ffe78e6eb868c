"""What the README of an exported folder says about this core."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from pinion.functions import mixed_units_sentence
from pinion.link import Array, Manifest
from pinion.robot.escaping import comment, markdown

from ..build import Build
from .interface import CorePort


def readme_values(name: str, build: Build, ports: Sequence[CorePort]) -> dict[str, str]:
    """The values of the README's template."""
    m = build.manifest
    options = ", ".join(f"{key} {value}" for key, value in m.options.items())
    return {
        "name": name,
        "upper": name.upper(),
        "robot": markdown(m.robot),
        "robot_source": comment(m.robot_source),
        "function": markdown(m.function + (f" ({options})" if options else "")),
        "formats": markdown(m.formats),
        "ii": str(m.ii),
        "latency": str(m.latency_cycles),
        "clock": f"{m.clock_mhz:g}",
        "rate": f"{1000 * m.clock_mhz / m.ii:,.0f}",
        "lanes_in": str(m.lanes_in),
        "beats_in": str(m.beats_in),
        "words_in": str(m.words_in),
        "lanes_out": str(m.lanes_out),
        "beats_out": str(m.beats_out),
        "words_out": str(m.words_out),
        "distribution": comment(m.budget_distribution),
        "ports": _table(
            ("port", "direction", "bits", "meaning"),
            ((f"`{p.name}`", p.direction, str(p.width), p.doc) for p in ports),
        ),
        "request": _record(m.inputs),
        "result": _record(m.outputs),
        "units": mixed_units_sentence((*m.inputs, *m.outputs)),
        "budget": _table(
            ("result", "unit", "bound of the error", "largest at word"), _budget_rows(build)
        ),
        "resources": _resources(m),
    }


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace(' | ', ' or ').replace('|', '/') for cell in line)} |"
        for line in lines
    )


def _record(arrays: Sequence[Array]) -> str:
    rows, start = [], 0
    for array in arrays:
        last = start + array.words - 1
        where = "none" if not array.words else str(start) if array.words == 1 else f"{start}-{last}"
        rows.append(
            (where, f"`{array.name}`", _shape(array.shape), comment(array.unit), _travels(array))
        )
        start += array.words
    return _table(("words", "array", "shape", "unit", "what travels"), rows)


def _shape(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape)) or "1"


def _travels(array: Array) -> str:
    if array.sent is None:
        return "all elements, row-major"
    half = "one half of the symmetric matrix, " if array.symmetric else ""
    zeros = f"without {len(array.constants)} constants, " if array.constants else ""
    return f"{half}{zeros}{array.words} of {math.prod(array.shape)} elements; see `records.h`"


def _budget_rows(build: Build) -> Iterator[tuple[str, ...]]:
    names = [name for name, _ in build.graph.outputs]
    start = 0
    for array in build.manifest.outputs:
        words = names[start : start + array.words]
        start += array.words
        if words:
            largest = max(words, key=lambda word: build.manifest.budget[word])
            bound = build.manifest.budget[largest]
            yield f"`{array.name}`", array.unit, f"{bound:.3g}", f"`{largest}`"


def _resources(m: Manifest) -> str:
    units = ", ".join(f"{count} {kind}" for kind, count in m.units.items())
    return (
        f"{m.multipliers} multipliers (and {m.table_multipliers} in sine and reciprocal "
        f"units), {m.adders} adders, {m.registers} words of storage; units: {units}"
    )
