"""A quantity on several pages has the same value everywhere: the record's, if there is one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from pinion.link.transfer import FIXED_US

ROOT = Path(__file__).resolve().parents[2]


@cache
def page(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


@cache
def record(name: str) -> dict[str, Any]:
    content = json.loads((ROOT / "benchmarks/records" / f"{name}.json").read_text("utf-8"))
    assert isinstance(content, dict)
    return dict(content["figures"])


def core(function: str, *keys: str, formats: str = "auto") -> list[float]:
    """Return recorded figures of a core of the iiwa14, smallest area."""
    (row,) = (
        row
        for row in record("cores")["measured"]
        if (row["robot"], row["function"], row["formats"], row["objective"])
        == ("iiwa14", function, formats, "area")
    )
    return [float(row[key]) for key in keys]


def products(function: str) -> list[float]:
    """Return recorded products of two values and by a constant of an iiwa14 function."""
    (row,) = (
        row
        for row in record("functions")["functions"]
        if row["function"] == function and row["derivatives"] in (None, "composite")
    )
    return [float(row["ops"][key]) for key in ("mul", "mul_const")]


def chains(function: str) -> list[float]:
    """Return recorded nanoseconds a robot of 1,000 chains of 10 links, float64, on one core."""
    rows = json.loads((ROOT / "benchmarks/records/scaling.json").read_text("utf-8"))["peers"]
    expected = {"by": "Pinion", "function": function, "dtype": "float64", "threads": 1}
    (row,) = (r for r in rows if r["robots"] == 1000 and expected.items() <= r.items())
    return [float(row["ns_per_robot"])]


def paper(*keys: str) -> list[float]:
    design = record("cores")["published"]["design"][0]
    assert (design["name"], design["robot"]) == ("Plancher et al. 2021", "iiwa14")
    return [float(design["figures"][key]["value"]) for key in keys]


def verified_files() -> list[float]:
    """Return the number of surveyed files with a core whose requests all agree."""
    table = page("docs/robots.md").partition("## Cores")[2]
    rows = [
        [c.strip() for c in line.split("|")[1:-1]] for line in table.splitlines() if "|" in line
    ]
    heads, *rest = rows
    at = {name: heads.index(name) for name in ("robot", "requests", "mismatches")}
    good = [r for r in rest[1:] if int(r[at["requests"]]) > 0 and r[at["mismatches"]] == "0"]
    return [float(len({row[at["robot"]] for row in good}))]


def verified_robots() -> list[float]:
    """Return the number of built-in robots with a core whose requests all agree."""
    rows = [*record("cores")["measured"], *record("factor")["measured"]]
    good = [r for r in rows if r["verified"] is True and r["samples"] and r["mismatches"] == 0]
    return [float(len({row["robot"] for row in good}))]


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """Figures that belong together, and every page that has them.

    Members
    -------
    places : page and pattern, one group per figure; each pattern matches exactly once.
    value : the value of a record or the code; None if the pages are only compared.
    digits : to which the pages round.
    """

    places: Sequence[tuple[str, str]]
    value: Callable[[], Sequence[float]] | None = None
    digits: int = 12


LAW, WHERE = "docs/control.md", "docs/guides/where-each-backend-wins.md"
GRADIENTS = "docs/concepts/fd-derivatives.md"
MINV = "fd_derivatives_from_minv"

QUANTITIES: Mapping[str, Quantity] = {
    "the gradient's core, M^-1 given": Quantity(
        places=[
            (
                GRADIENTS,
                r"## As a core[\s\S]*?\| `fd_derivatives_from_minv` \| (\S+) \| (\S+) \| (\S+) \|",
            )
        ],
        value=lambda: core(MINV, "multipliers", "schedule_cycles", "error_max"),
        digits=2,
    ),
    "the gradient's core": Quantity(
        places=[
            (GRADIENTS, r"## As a core[\s\S]*?\| `fd_derivatives` \| (\S+) \| (\S+) \| (\S+) \|")
        ],
        value=lambda: core("fd_derivatives", "multipliers", "schedule_cycles", "error_max"),
        digits=2,
    ),
    "the gradient's products, M^-1 given": Quantity(
        places=[
            (
                GRADIENTS,
                r"## What it costs[\s\S]*?\| `fd_derivatives_from_minv` \| ([\d,]+) \| ([\d,]+) \|",
            )
        ],
        value=lambda: products(MINV),
    ),
    "the gradient's products": Quantity(
        places=[
            (
                GRADIENTS,
                r"## What it costs[\s\S]*?\| `fd_derivatives` \| ([\d,]+) \| ([\d,]+) \|",
            )
        ],
        value=lambda: products("fd_derivatives"),
    ),
    "its units, where a task chooses the formats": Quantity(
        places=[
            (
                "docs/formats.md",
                r"\| `--max-error 1e-3` \|[^|]*\| (\d+) \| (\d+) \| [\d,]+ \| ([\d,]+) \| (\d+) \|",
            )
        ],
        value=lambda: core(MINV, "multipliers", "dsp", "registers", "schedule_cycles"),
    ),
    "the published design": Quantity(
        places=[(GRADIENTS, r"design has ([\d,]+) DSP blocks for one result every (\d+) cycles")],
        value=lambda: paper("dsp", "cycles_per_result"),
    ),
    "cells of the guide's core": Quantity(
        places=[
            (
                "docs/guides/vcu118.md",
                r"DSP blocks +(\d+) [\s\S]*? as logic +([\d,]+)\n +as memory +([\d,]+)\n"
                r" flip-flops +([\d,]+) ",
            )
        ],
        value=lambda: core("rnea", "dsp", "lut", "memory_lut", "ff"),
    ),
    "faults of the soak": Quantity(
        places=[
            ("README.md", r"Of ([\d,]+) requests through a stand-in card with ([\d,]+) faults"),
            ("docs/checks.md", r"\| ([\d,]+) requests through a stand-in card with ([\d,]+) fault"),
        ]
    ),
    "files that open and agree": Quantity(
        places=[
            ("README.md", r"(\d+) of the (\d+) URDFs of example-robot-data open, and on (\d+) of"),
            (
                "docs/robots.md",
                r"## Fixed base\s+(\d+) of (\d+) files open, \d+ of them as they are; (\d+) agree",
            ),
        ]
    ),
    "files with verified cores": Quantity(
        places=[("README.md", r"verified, in simulation, for (\d+) of\s+these files")],
        value=verified_files,
    ),
    "robots with verified cores": Quantity(
        places=[("README.md", r"and for (\d+) built-in robots")], value=verified_robots
    ),
    "the law's line": Quantity(
        places=[
            (WHERE, r"\| the same behind its SPI line, [\d.]+ Mbit/s \| ([\d,]+) cycles, (\S+) us"),
            (LAW, r"\*\*a transfer\*\* \| \*\*178\*\* \| \*\*([\d,]+)\*\* \| \| (\S+) us at"),
        ]
    ),
    "the law in the loop": Quantity(
        places=[
            (WHERE, r"tip's error from (\S+) to\s+(\S+) mm"),
            (
                LAW,
                r"\| float64 \| 1,000 \|[^|]*\|[^|]*\| (\S+) mm [\s\S]*?every bit of the line "
                r"\| 1,000 \|[^|]*\|[^|]*\| (\S+) mm",
            ),
        ]
    ),
    "the driver's share": Quantity(
        places=[
            (WHERE, r"the driver of a card needs (\d+) to (\d+) us"),
            (WHERE, r"PCIe card behind the vendor's driver \| (\d+) to (\d+) us"),
            ("docs/results.md", r"cost of the driver \((\d+) to (\d+) us\)"),
            ("docs/link.md", r"\*Fixed\*: (\d+) to (\d+) us for a write and a read"),
            ("docs/roadmap.md", r"(\d+) to (\d+) microseconds of a batch"),
        ],
        value=lambda: FIXED_US,
    ),
    **{
        f"chains by {name}": Quantity(
            places=[
                ("docs/cpu.md", rf"Nanoseconds per robot[\s\S]*?\| `{name}`[^|]*\| (\S+) \|"),
            ],
            value=partial(chains, name),
            digits=3,
        )
        for name in ("rnea", "aba", "jsiia", "cfa")
    },
}


def read(places: Sequence[tuple[str, str]], text: Callable[[str], str]) -> list[tuple[float, ...]]:
    """Return the figures of each place.

    Raises
    ------
    ValueError
        A pattern is not on its page exactly once.
    """
    figures = []
    for name, pattern in places:
        matches = list(re.finditer(pattern, text(name)))
        if len(matches) != 1:
            raise ValueError(f"{name} has {len(matches)} places of {pattern!r}.")
        figures.append(tuple(float(group.replace(",", "")) for group in matches[0].groups()))
    return figures


def rounded(values: Sequence[float], digits: int) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in values]


def complaint(quantity: Quantity, text: Callable[[str], str] = page) -> str:
    """Return the differences, or an empty text."""
    try:
        figures = read(quantity.places, text)
    except ValueError as error:
        return str(error)
    if quantity.value is not None:
        figures.append(tuple(quantity.value()))
    distinct = {tuple(rounded(values, quantity.digits)) for values in figures}
    return "" if len(distinct) == 1 and len(figures) > 1 else f"{sorted(distinct)}"


@pytest.mark.parametrize("name", QUANTITIES)
def test_a_quantity_is_the_same_wherever_it_stands(name: str) -> None:
    fault = complaint(QUANTITIES[name])
    assert not fault, f"{name}: {fault}; pages {[place for place, _ in QUANTITIES[name].places]}"
