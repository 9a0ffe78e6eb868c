"""Values for the README of an exported folder."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from pinion.base.amounts import amount
from pinion.base.escaping import comment, markdown
from pinion.batch import mixed_units_sentence
from pinion.flow.build import Build
from pinion.gateware.dsp48e2 import MACRO
from pinion.link import Array, Manifest
from pinion.link.unit_names import unit_name
from pinion.synthesis.estimate import in_words, multipliers_of

from .interface import CorePort

# For cores with explicit multiplier blocks, and for all others.
_EXPLICIT = f"""
The Verilog contains each product of 27 x 18 bits with its addition twice: as arithmetic, for any
tool, and, if the macro `{MACRO}` is defined, as an explicit DSP48E2 of UltraScale or UltraScale+
(`synth_design -verilog_define {MACRO}`). Both compute the same bits. Leave the macro undefined for
other parts and for simulators without AMD's models; define it if Vivado reports more DSP blocks
than multipliers, or adders beside them. Neither form has been run through Vivado.
In a unit, `mac0` is the block of the first product, `mac1` that of the second, and so on.
"""
_PLAIN = f"""
The Verilog has its products only as arithmetic: the macro `{MACRO}`, which selects explicit
DSP48E2 blocks in other exports, changes nothing in this one.
"""


def readme_values(
    name: str, build: Build, ports: Sequence[CorePort], rtlil: str, explicit: str
) -> dict[str, str]:
    """Return the values for the README's template; ``rtlil`` and ``explicit`` are the core's."""
    m = build.manifest
    options = ", ".join(f"{key} {value}" for key, value in m.options.items())
    return {
        "name": name,
        "upper": name.upper(),
        "robot": markdown(m.robot),
        "robot_source": comment(m.robot_source),
        "function": markdown(m.function + (f" ({options})" if options else "")),
        "formats": markdown(m.formats),
        "every": "every cycle" if m.ii == 1 else f"every {m.ii} cycles",
        "latency": amount(m.latency_cycles, "cycle"),
        "clock": f"{m.clock_mhz:g}",
        "rate": f"{1000 * m.clock_mhz / m.ii:,.0f}",
        "beats_in": f"{amount(m.beats_in, 'beat')} of {m.lanes_in}",
        "words_in": amount(m.words_in, "word"),
        "beats_out": f"{amount(m.beats_out, 'beat')} of {m.lanes_out}",
        "words_out": amount(m.words_out, "word"),
        "distribution": comment(m.budget_distribution),
        "ports": _table(
            ("port", "direction", "bits", "meaning"),
            ((f"`{p.name}`", p.direction, str(p.width), p.doc) for p in ports),
        ),
        "request": _record(m.inputs),
        "result": _record(m.outputs),
        "mixed": mixed_units_sentence((*m.inputs, *m.outputs)),
        "budget": _table(("result", "unit", "error bound", "largest at word"), _budget_rows(build)),
        "resources": _resources(m, rtlil),
        "units": _table(
            ("kind of unit", "number", "what one does"),
            ((f"`{k}`", str(n), unit_name(k, m.formats)) for k, n in m.units.items()),
        ),
        "explicit": (_EXPLICIT if explicit else _PLAIN).strip(),
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
    return _table(("words", "array", "shape", "unit", "what is transferred"), rows)


def _shape(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape)) or "1"


def _travels(array: Array) -> str:
    if array.linear_map:
        return "the numbers of its bodies, a linear map of all elements; see `records.h`"
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


def _resources(m: Manifest, rtlil: str) -> str:
    others = (
        f"{amount(m.adders, 'adder')} and {amount(m.registers, 'word')} of storage between units"
    )
    return f"{in_words(multipliers_of(rtlil))} The core has {others}.".strip()
