"""Cores and published designs, with measured, published and assumed figures kept apart.

Measured figures come from a build, from its RTL in simulation and from Yosys; published ones from a
data file that names a source for each. Whatever needs a clock rate of Pinion's cores is computed
under an assumption, in a separate table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pinion.report import FigureTable, cell
from pinion.report.table import short_error, without_fraction
from pinion.report.timing import path_in_words

_MARKS = {"published": "", "figure": " f", "derived": " d"}


def published_table(data: Mapping[str, Any]) -> FigureTable:
    """Return the table of published figures (:func:`pinion.bench.published.published_designs`)."""
    designs = data["design"]
    keys = ("clock_mhz", "latency_cycles", "cycles_per_result", "end_to_end_per_second")
    functions = ", ".join(dict.fromkeys(design["function"] for design in designs))
    return FigureTable(
        columns=(
            *("design", "source", "robot"),
            *("clock, MHz", "latency, cycles", "cycles per result", "end to end/s", "DSP", "LUT"),
        ),
        rows=[
            (
                design["name"],
                f"[{', '.join(sorted({f['source'] for f in design['figures'].values()}))}]",
                f"{design['robot']} ({design['joints']})",
                *(_marked(design["figures"].get(key)) for key in (*keys, "dsp", "lut")),
            )
            for design in designs
        ],
        title=f"Published: {functions}",
        left=3,
        note=(
            "Published by others: d is derived from the source's statements, f read off a "
            "plot. Sources: "
            + "; ".join(f"[{key}] {text}" for key, text in data["sources"].items())
            + "."
        ),
    )


def measured_table(rows: Sequence[Mapping[str, Any]], *, samples: int) -> FigureTable:
    """Return the table of cores that were built, verified and synthesised here.

    Parameters
    ----------
    rows : one per core; figures that were not measured are None.
    samples : number of requests to each core.
    """
    return FigureTable(
        columns=(
            *("function", "robot", "formats", "for"),
            *("ii", "multipliers", "DSP", "LUT", "as memory", "FF", "MHz, estimated"),
            *("latency", "mismatches", "median", "largest", "flagged"),
        ),
        rows=[
            (
                row["function"],
                f"{row['robot']} ({row['joints']})",
                row["formats"],
                row["objective"],
                "auto" if row["ii"] is None else row["ii"],
                *(row[key] for key in ("multipliers", "dsp", "lut", "memory_lut", "ff")),
                without_fraction(row["mhz_estimated"]),
                *(row[key] for key in ("latency_cycles", "mismatches")),
                *(short_error(row[key]) for key in ("error_median", "error_max")),
                row["flagged"],
            )
            for row in rows
        ],
        title="Pinion, measured here",
        left=4,
        note=(
            f"Measured here: latency and mismatches in {samples:,} requests to the RTL, in "
            "simulation; DSP48E2, LUTs and flip-flops by Yosys for UltraScale+; errors of the "
            "worst block of results over its largest value. The clock is an estimate with typical "
            "nets: nothing was placed. 'auto' as ii is the fewest cycles for which the link is "
            "fast enough and a third of the part large enough."
        ),
    )


def critical_table(rows: Sequence[Mapping[str, Any]]) -> FigureTable:
    """Return the table of the cores' estimated critical paths; rows as for `measured_table`."""
    return FigureTable(
        columns=("function", "robot", "formats", "for", "ns", "critical path, estimated"),
        rows=[
            (
                row["function"],
                row["robot"],
                row["formats"],
                row["objective"],
                f"{row['critical_path']['ns']:.2f}",
                path_in_words(row["critical_path"]),
            )
            for row in rows
            if row["critical_path"] is not None
        ],
        title="Critical paths",
        left=6,
        note="Estimated from the mapped netlist with typical nets; no vendor's tool timed it.",
    )


def compared(
    designs: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]], *, clock_mhz: float
) -> list[dict[str, Any]]:
    """Compare each published design with Pinion's cores of the same function and robot.

    Parameters
    ----------
    designs : as published.
    rows : as for `measured_table`.
    clock_mhz : assumed clock of Pinion's cores.

    Returns
    -------
    ``design, robot, formats, objective, ii``; ``dsp_ratio`` (theirs over ours, without
    assumptions); ``latency_us, results_per_second`` of ours at the assumed clock and
    ``latency_us_published, results_per_second_published``, each None if a figure is missing.
    """
    result = []
    for design in designs:
        theirs = {key: figure["value"] for key, figure in design["figures"].items()}
        clock = theirs.get("clock_mhz")
        for row in rows:
            if (row["robot"], row["function"]) != (design["robot"], design["function"]):
                continue
            # Without a verified core there is nothing to compare.
            works = row["verified"] is True
            latency = row["latency_cycles"] if works else None
            blocks = row["dsp"] if works and row["dsp_source"] == "synth" else None
            result.append(
                {
                    **{"design": design["name"], "robot": row["robot"]},
                    **{key: row[key] for key in ("formats", "objective", "ii")},
                    "dsp_ratio": _over(theirs.get("dsp"), blocks),
                    "latency_us": _over(latency, clock_mhz),
                    "latency_us_published": _over(theirs.get("latency_cycles"), clock),
                    "results_per_second": _over(clock_mhz * 1e6 if works else None, row["ii"]),
                    "results_per_second_published": _over(
                        None if clock is None else clock * 1e6, theirs.get("cycles_per_result")
                    ),
                }
            )
    return result


def _over(numerator: float | None, denominator: float | None) -> float | None:
    return None if numerator is None or not denominator else numerator / denominator


def compared_table(rows: Sequence[Mapping[str, Any]], *, clock_mhz: float) -> FigureTable:
    """Return the rows of `compared` as a table."""
    return FigureTable(
        columns=(
            *("against", "robot", "formats", "for"),
            *("ii", "DSP, theirs/ours", "latency, us: theirs", "ours, assumed"),
            *("results/s: theirs", "ours, assumed"),
        ),
        rows=[
            (
                row["design"],
                row["robot"],
                row["formats"],
                row["objective"],
                "auto" if row["ii"] is None else row["ii"],
                None if row["dsp_ratio"] is None else f"{row['dsp_ratio']:.1f}",
                *(_us(row[key]) for key in ("latency_us_published", "latency_us")),
                *(_rate(row[f"results_per_second{end}"]) for end in ("_published", "")),
            )
            for row in rows
        ],
        title=f"Side by side, ours at an assumed {clock_mhz:g} MHz",
        left=4,
        note=(
            f"Assumed: a clock of {clock_mhz:g} MHz for our cores, which no vendor tool has "
            "confirmed and no board has run; latency and results per second depend on it. "
            "Published latencies and rates are for the published clock. The ratio of DSP blocks "
            "needs no clock, but theirs come from vendor tools and ours from Yosys."
        ),
    )


def _marked(figure: Mapping[str, Any] | None) -> str | None:
    """Return a published figure as text, with the letter of its kind."""
    if figure is None:
        return None
    value = figure["value"]
    number = f"{value / 1e6:.3g} M" if value >= 1e6 else cell(value)
    return f"{number}{_MARKS[figure['kind']]}"


def _us(value: float | None) -> str | None:
    return None if value is None else f"{value:.2f}"


def _rate(value: float | None) -> str | None:
    return None if value is None else f"{value / 1e6:.3g} M"
