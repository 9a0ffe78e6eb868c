"""A picture of a program: what each lane does in each cycle, by link and pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from pinion.base.html import html_text

from .compile import CompiledProgram
from .machine import RECIPROCAL_DELAY, Half
from .program import NOTHING, Program

WIDTH, LEFT, TOP = 1000.0, 90.0, 56.0
SLOTS, WRITES, GAP = 22.0, 7.0, 9.0
INK, FAINT, GRID = "#1b2733", "#5d6b7a", "#d8dde3"
NO_LINK, WRITE, RESULT = "#9aa4ae", "#b9c2cb", "#33475b"


def picture(compiled: CompiledProgram, *, title: str) -> str:
    """Return the schedule of a program as SVG.

    A band for each lane: slots in the colour of their link, those of passes from the tip to the
    base darker, and below them the words that are written to its memory; then the reciprocal unit,
    words of the request as they arrive, and result words. If samples are interleaved, the slots of
    each are in a strip of the band, those of the first at the top.
    """
    program = compiled.program
    lanes, samples = program.machine.lanes, program.interleave
    scale = WIDTH / program.cycles
    pitch = SLOTS + WRITES + GAP
    bodies = 1 + max(
        (v.region.body or 0 for v in compiled.sums.values if v.region is not None), default=0
    )
    body: list[str] = []
    for lane in range(lanes):
        y = TOP + lane * pitch
        body.append(_label(f"lane {lane}", y + SLOTS / 2))
        rows = program.lanes[:, lane]
        places = [
            divmod(int(row["value"]), len(compiled.sums.values))
            if row["half"] != Half.IDLE
            else None
            for row in rows
        ]
        strip = SLOTS / samples
        for sample in range(samples):
            colours = [
                _colour(compiled, place[1], bodies) if place and place[0] == sample else None
                for place in places
            ]
            body += _band(colours, y + sample * strip, strip, scale)
        writes = [WRITE if source != NOTHING else None for source in rows["source"]]
        body += _band(writes, y + SLOTS + 1, WRITES, scale)
    y = TOP + lanes * pitch
    for name, colours in _others(program):
        body.append(_label(name, y + WRITES / 2))
        body += _band(colours, y, WRITES, scale)
        y += WRITES + GAP
    height = y + 34
    axis = [
        f'<path d="M{LEFT + cycle * scale:.1f} {TOP - 8} V{y:.1f}" stroke="{GRID}"/>'
        f'<text x="{LEFT + cycle * scale:.1f}" y="{y + 16:.1f}" fill="{FAINT}" '
        f'text-anchor="middle">{cycle}</text>'
        for cycle in range(0, program.cycles + 1, _step(program.cycles))
    ]
    each = f" for {samples} samples" if samples > 1 else ""
    sentence = f"{title}: {program.cycles} cycles{each}, lanes busy for {program.busy:.0%}"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH + LEFT + 30:.0f} '
            f'{height:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="12">',
            f"<title>{html_text(sentence)}</title>",
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            f'<text x="{LEFT}" y="24" fill="{INK}" font-size="16">{html_text(sentence)}</text>',
            *_legend(bodies),
            *axis,
            *body,
            "</svg>\n",
        ]
    )


def _others(program: Program) -> Iterator[tuple[str, list[str | None]]]:
    """Yield the name and the colours by cycle of each band below the lanes."""
    cycles = program.cycles
    if (program.team["operand"] != NOTHING).any():
        starts = np.flatnonzero(program.team["operand"] != NOTHING)
        unit = {int(s) + k for s in starts for k in range(RECIPROCAL_DELAY)}
        yield "reciprocal", [RESULT if cycle in unit else None for cycle in range(cycles)]
    words = program.interleave * len(program.inputs)
    yield "words in", [RESULT if cycle < words else None for cycle in range(cycles)]
    yield "results", [RESULT if place >= 0 else None for place in program.team["output"]]


def _colour(compiled: CompiledProgram, number: int, bodies: int) -> str:
    """Return the colour of a value: that of its link, darker for passes from the tip."""
    region = compiled.sums.values[number].region
    if region is None or region.body is None:
        return NO_LINK
    return _hue(region.body, bodies, dark=region.name == "backward")


def _hue(link: int, bodies: int, *, dark: bool) -> str:
    return f"hsl({round(300 * link / max(1, bodies))} 60% {38 if dark else 62}%)"


def _band(colours: Sequence[str | None], y: float, height: float, scale: float) -> Iterator[str]:
    """Yield an SVG group with a path of strokes for each colour; a cycle is one unit wide."""
    runs: dict[str, list[str]] = {}
    cycle = 0
    for colour, run in groupby(colours):
        count = sum(1 for _ in run)
        if colour is not None:
            runs.setdefault(colour, []).append(f"M{cycle} 0h{count}")
        cycle += count
    place = f"translate({LEFT:g} {y + height / 2:g}) scale({scale:.4g} 1)"
    yield f'<g transform="{place}" stroke-width="{height:g}">'
    for colour, strokes in runs.items():
        yield f'<path stroke="{colour}" d="{"".join(strokes)}"/>'
    yield "</g>"


def _label(text: str, y: float) -> str:
    return f'<text x="{LEFT - 10}" y="{y + 4:.1f}" fill="{INK}" text-anchor="end">{text}</text>'


def _legend(bodies: int) -> Iterator[str]:
    """Yield the SVG elements of the legend for the colours."""
    text = "links from base to tip; dark: passes from tip to base; grey: no link, and writes"
    for link in range(1, bodies):
        x = LEFT + 12 * (link - 1)
        for row, dark in enumerate((False, True)):
            yield (
                f'<rect x="{x:.0f}" y="{31 + 6 * row}" width="11" height="6" '
                f'fill="{_hue(link, bodies, dark=dark)}"/>'
            )
    x = LEFT + 12 * (bodies - 1) + 8
    yield f'<text x="{x:.0f}" y="41" fill="{FAINT}">{text}</text>'


def _step(cycles: int) -> int:
    """Return the distance between ticks in cycles, for about ten ticks."""
    return next(
        step for step in (10, 20, 50, 100, 200, 500, 1000) if step * 12 >= cycles or step == 1000
    )
