"""Text of docs/results.md, written from the records."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pinion.functions import DISTRIBUTIONS
from pinion.report.table import cell

from .records import RECORDS, Record

Figures = Mapping[str, Any]

GRADIENT = "fd_derivatives_from_minv"
PAPER = "Plancher et al. 2021"
SIZES = (16, 32, 64, 128, 1024)


def grid(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table in Markdown."""
    lines = [" | ".join(columns), " | ".join("---" for _ in columns)]
    lines += [" | ".join("-" if x is None else cell(x) for x in row) for row in rows]
    return "".join(f"| {line} |\n" for line in lines)


def error(value: float | None) -> str:
    """Format an error with two significant digits; ``-`` for None."""
    return "-" if value is None else f"{value:.1e}"


def made_by(record: Record, figures: Figures) -> str:
    """Return the command of a record, with date, commit and machine."""
    machine = figures["machine"]
    return (
        f"`{record.command}`, {figures['date']}, {figures['commit']}, "
        f"{machine['processors']} cores of {machine['processor']}."
    )


def clock(row: Figures) -> str:
    """Format the estimated clock [MHz] with typical nets, and with long ones if recorded."""
    long = row.get("mhz_long_nets")
    typical = f"{row['mhz_estimated']:.0f} est."
    return typical if long is None else f"{typical} ({long:.0f} with long nets)"


def cores(rows: Sequence[Figures]) -> str:
    """Return the table of the cores that were built, verified and synthesised."""
    return grid(
        (
            *("function", "robot", "formats", "for", "`--ii`", "multipliers", "DSP48E2"),
            *("LUT, as memory", "flip-flops", "clock, MHz", "schedule", "latency, cycles"),
            *("error, median", "error, largest", "mismatches"),
        ),
        [
            (
                f"`{row['function']}`",
                row["robot"],
                row["formats"],
                made_for(row),
                row["ii"],
                row["multipliers"],
                row["dsp"],
                f"{row['lut'] / 1e3:.1f}k + {row['memory_lut'] / 1e3:.1f}k",
                f"{row['ff'] / 1e3:.1f}k",
                clock(row),
                row["schedule_cycles"],
                row["latency_cycles"],
                error(row["error_median"]),
                error(row["error_max"]),
                row["mismatches"],
            )
            for row in rows
        ],
    )


def made_for(row: Figures) -> str:
    """Describe a core's objective, and the states for which its formats were chosen."""
    ranges = row.get("options", {}).get("ranges")
    return str(row["objective"]) + (f", made for {ranges}" if ranges else "")


def ours(figures: Figures, robot: str, formats: str = "auto") -> Figures:
    """Return the record of a robot's gradient core for rated speeds, with the objective `area`."""
    rows = [
        row
        for row in figures["measured"]
        if (row["robot"], row["function"], row["formats"], row["objective"])
        == (robot, GRADIENT, formats, "area")
    ]
    return dict(rows[0])


def whole_range(factor: Figures) -> Figures:
    """Return the record of the gradient core for the robot's whole range of speeds."""
    (measured,) = factor["measured"]
    return dict(measured)


def times_fewer(theirs: float, ours: float) -> str:
    """Format a published figure over Pinion's, as a whole number if the ratio is at least 10."""
    ratio = theirs / ours
    return f"{ratio:.0f}" if ratio >= 9.95 else f"{ratio:.1f}"


def beside(figures: Figures, factor: Figures, robot: str) -> list[tuple[str, Figures]]:
    """Return the cores to compare with a robot's published designs, each with a description."""
    rated = ("rated speeds", ours(figures, robot))
    if robot != whole_range(factor)["robot"]:
        return [rated]
    return [
        ("whole speed range", whole_range(factor)),
        rated,
        ("q16.16", ours(figures, robot, "q16.16")),
    ]


def published(figures: Figures, factor: Figures) -> str:
    """Return the table of DSP blocks: published designs beside Pinion's cores."""
    rows = []
    for design in figures["published"]["design"]:
        theirs = design["figures"].get("dsp")
        if theirs is None:
            continue
        cycles = design["figures"].get("cycles_per_result")
        for words, figure in beside(figures, factor, design["robot"]):
            rows.append(
                (
                    design["name"],
                    design["robot"],
                    theirs["value"],
                    theirs["kind"],
                    None if cycles is None else cycles["value"],
                    words,
                    figure["dsp"],
                    figure["ii"],
                    times_fewer(theirs["value"], figure["dsp"]),
                )
            )
    return grid(
        (
            *("design", "robot", "DSP blocks", "kind", "cycles per result"),
            *("Pinion, for", "DSP48E2", "cycles per result", "times fewer"),
        ),
        rows,
    )


def steps(figures: Figures, factor: Figures) -> str:
    """Return the steps from the published design to Pinion's, one change at a time."""
    (paper,) = (
        design["figures"]
        for design in figures["published"]["design"]
        if design["name"] == PAPER and design["robot"] == whole_range(factor)["robot"]
    )
    column, robot = factor["column"], whole_range(factor)["robot"]
    lines: list[tuple[str, object, int, int, str]] = [
        (PAPER, None, paper["dsp"]["value"], paper["cycles_per_result"]["value"], "derived"),
        (
            f"its formulation (`--derivatives column`) in {column['formats']}, multipliers shared",
            *(column["multipliers"], column["blocks"], column["ii"]),
            "counted from units, not synthesised",
        ),
    ]
    for words, design_row in (
        ("our formulation, q16.16", ours(figures, robot, "q16.16")),
        ("per-signal formats, whole speed range", whole_range(factor)),
        ("the same for rated speeds alone", ours(figures, robot)),
    ):
        lines.append(
            (
                words,
                design_row["multipliers"],
                design_row["dsp"],
                design_row["ii"],
                "counted by Yosys",
            )
        )
    first = lines[0][2]
    ratios = [("-", "-")] + [
        (f"{last[2] / row[2]:.2g}", times_fewer(first, row[2]))
        for last, row in itertools.pairwise(lines)
    ]
    return grid(
        (
            *("what", "multipliers", "DSP blocks", "cycles per result", "kind"),
            *("times fewer, this step", "all steps"),
        ),
        [(*row, *both) for row, both in zip(lines, ratios, strict=True)],
    )


def functions(figures: Figures) -> str:
    """Return the table of every function in one uniform format."""
    rows = []
    for row in figures["functions"]:
        label = f"`{row['function']}`"
        if row["derivatives"] == "column":
            label += ", column"
        medians, largest = row["rel_err_median"], row["rel_err_max"]
        rows.append(
            (
                label,
                row["ops"]["mul"] + row["ops"]["mul_const"],
                row["ops"]["add"],
                row["ops"]["reciprocal"],
                row["multipliers"],
                row["multipliers_least"],
                row["adders"],
                row["schedule_cycles"],
                f"{row['words_in']} / {row['words_out']}",
                " / ".join(map(error, medians.values())),
                " / ".join(map(error, largest.values())),
            )
        )
    return grid(
        (
            *("function", "products", "additions", "reciprocals", "multipliers", "minimum"),
            *("adders", "schedule, cycles", "words in / out", "error, median", "error, largest"),
        ),
        rows,
    )


def intervals(figures: Figures) -> str:
    """Return the table of `rnea` at several initiation intervals."""
    return grid(
        (
            *("cycles per result (`--ii`)", "multipliers", "adders", "sine units"),
            *("schedule, cycles", "words of storage"),
        ),
        [
            (
                *(row["ii"], row["multipliers"], row["adders"], row["units"]["sincos"]),
                *(row["schedule_cycles"], row["registers"]),
            )
            for row in figures["intervals"]
        ],
    )


def robots(figures: Figures) -> str:
    """Return the table of `rnea` for many robots."""
    return grid(
        ("robot, `--ii 8`", "joints", "products", "multipliers", "adders", "schedule, cycles"),
        [
            (
                *(row["robot"], row["dof"], row["ops"]["mul"] + row["ops"]["mul_const"]),
                *(row["multipliers"], row["adders"], row["schedule_cycles"]),
            )
            for row in figures["robots"]
        ],
    )


def promises(figures: Figures) -> str:
    """Return the table of each core's promise and largest error, by distribution."""
    rows = []
    for core in figures["cores"]:
        kinds = [core["objective"]] if core["objective"] != "area" else []
        kinds += [f"made for {core['options']['ranges']}"] if "ranges" in core["options"] else []
        if "max_error" in core["options"]:
            kinds.append(f"{core['options']['max_error']:g}")
        cells = []
        for name in DISTRIBUTIONS:
            distribution = core["distributions"][name]
            flagged = distribution["flagged"] / core["samples"]
            text = f"{error(distribution['promise'])}: {error(distribution['largest'])}"
            if distribution["largest"] is None:
                text = "none valid"
            cells.append(text + (f" ({flagged:.0%} flagged)" if flagged >= 0.005 else ""))
        rows.append((f"{core['robot']} `{core['function']}`", ", ".join(kinds) or "area", *cells))
    return grid(("core", "for", *DISTRIBUTIONS), rows)


def batches(figures: Figures) -> str:
    """Return the table of batch times, with a row for each implementation."""
    by_target: dict[tuple[str, str, str, str], dict[int, Figures]] = {}
    for row in figures["rows"]:
        if row["function"] in (GRADIENT, "fd_derivatives"):
            key = (row["by"], row["work"], row["label"], row["machine"])
            by_target.setdefault(key, {})[row["samples"]] = row
    order = ("measured", "model", "published")
    rows = []
    for (by, work, label, machine), times in sorted(
        by_target.items(), key=lambda item: (order.index(item[0][2]), item[0][1], item[0][0])
    ):
        cells = []
        for size in SIZES:
            sized = times.get(size)
            if sized is None:
                cells.append("-")
            elif sized["us_least"] is None:
                spread = sized.get("spread")
                within = "" if spread is None else f" ({spread:.0%})"
                cells.append(f"{sized['us_per_batch']:.3g}{within}")
            else:
                cells.append(f"{sized['us_least']:.0f}-{sized['us_per_batch']:.0f}")
        if any(x != "-" for x in cells):
            rows.append((by, work, label, machine, *cells))
    return grid(("who", "M^-1", "kind", "machine", *(f"N = {n:,}" for n in SIZES)), rows)


def built(figures: Figures) -> str:
    """Return a list of how the measured code of others was built, a line for each."""
    notes = {
        row["by"]: row["note"].partition(";")[0]
        for row in figures["rows"]
        if row["label"] == "measured" and not row["by"].startswith("Pinion")
    }
    return "".join(f"- {by}: {cell(note)}\n" for by, note in notes.items())


def lanes(figures: Figures) -> str:
    """Return the table that factors the speed-up over CasADi's C, with a column per dtype."""
    kinds = figures["dtypes"]
    counts = figures["operations"]
    operations = counts["theirs"] / counts["ours"]

    def ratio(dtype: str, first: str, second: str) -> float:
        times = kinds[dtype]["ns"]
        return float(times[first] / times[second])

    def ns(label: str, way: str) -> tuple[str, ...]:
        cells = []
        for kind in kinds.values():
            low, high = kind["quartiles"][way]
            cells.append(f"{kind['ns'][way]:.0f} ({low:.0f}-{high:.0f})")
        return (label, *cells)

    def times(label: str, values: Sequence[float]) -> tuple[str, ...]:
        return (label, *(f"x {value:.2g}" for value in values))

    widths = " and ".join(str(kind["lanes"]) for kind in kinds.values())
    return grid(
        (f"`{figures['function']}`, {figures['robot']}, ns per state", *kinds),
        [
            ns("CasADi's C, one state after another", "scalar"),
            ns(f"the same C, {widths} states at once", "lanes"),
            ns("Pinion, arrays in blocks, as for those lanes", "blocks"),
            ns("Pinion, arrays (n, ...)", "rows"),
            times("lanes: first row over second", [ratio(d, "scalar", "lanes") for d in kinds]),
            times(
                f"operations: {counts['theirs']:,} / {counts['ours']:,} per state",
                [operations] * len(kinds),
            ),
            times(
                "the remainder: order of instructions, fused products, registers, sines",
                [ratio(d, "lanes", "blocks") / operations for d in kinds],
            ),
            times("together: first row over third", [ratio(d, "scalar", "blocks") for d in kinds]),
        ],
    )


def lanes_built(figures: Figures) -> str:
    """Return a list of how CasADi's C and Pinion's kernel were built."""
    kinds = figures["dtypes"].values()
    theirs = dict.fromkeys(text for kind in kinds for text in kind["built"].values())
    return "".join(f"- CasADi's C: {text}\n" for text in theirs) + (
        f"- Pinion: {figures['built']}\n"
    )


def by_threads(figures: Figures) -> str:
    """Return sentences that compare Pinocchio's published time with Pinion's on one core."""
    at = {
        row["by"]: row["us_per_batch"]
        for row in figures["rows"]
        if row["samples"] == 128 and row["function"] == "fd_derivatives"
    }
    theirs = at["Pinocchio code generation"]
    ours = [at[f"Pinion CPU, {dtype}, one processor"] for dtype in ("float64", "float32")]
    return (
        f"{theirs:g} us at N = 128, {theirs / 128 * 1e3:.0f} ns per state. Pinion takes, on one "
        f"core of the machine\nof the batches above, {ours[0]:.3g} us in float64 and "
        f"{ours[1]:.3g} in float32."
    )


def spread(figures: Figures) -> str:
    """Return a sentence on the spread of the batch times, or that it was not recorded."""
    spreads = [row["spread"] for row in figures["rows"] if row.get("spread") is not None]
    if spreads:
        return (
            f"Parentheses give the interquartile range of {figures['rounds']} rounds, relative to "
            f"their median; it is at most {max(spreads):.0%} here."
        )
    return (
        "The spread of the rounds of this run was not recorded; runs on this shared machine differ "
        "by up to a factor of two."
    )


def programs(figures: Figures) -> str:
    """Return the table of cycles that the dynamics processor's programs take."""
    kinds = ("fast_1", "fast_4", "fine_1", "fine_4")
    return grid(
        (
            *("robot", "function", "`fast`, 1 lane", "4 lanes", "`fine`, 1 lane", "4 lanes"),
            *("slots, `fast` / `fine`", "words, 4 lanes, `fine`"),
        ),
        [
            (
                row["robot"],
                f"`{row['function']}`",
                *(f"{row[kind]['cycles']:,}" for kind in kinds),
                f"{row['fast_4']['slots']:,} / {row['fine_4']['slots']:,}",
                row["fine_4"]["words"],
            )
            for row in figures["cycles"]
        ],
    )


def interleave(figures: Figures) -> str:
    """Return the table of the cycles that programs of several samples take for each."""
    kinds = [(precision, k) for precision in ("fast", "fine") for k in figures["samples"]]

    def cycles(program: Figures | None, samples: int) -> str | None:
        if program is None:
            return None
        return f"{program['cycles'] / samples:,.0f} ({program['busy']:.0%})"

    return grid(
        ("robot", "function", *(f"`{precision}`, {samples}" for precision, samples in kinds)),
        [
            (
                row["robot"],
                f"`{row['function']}`",
                *(cycles(row[f"{precision}_{samples}"], samples) for precision, samples in kinds),
            )
            for row in figures["cycles"]
        ],
    )


def program_errors(figures: Figures) -> str:
    """Return the table of the programs' largest errors, on reference states and on all others."""
    kinds = ("fine", "float32", "fast")
    return grid(
        (
            "robot",
            *(
                cell
                for kind in kinds
                for cell in (f"`{kind}`, reference", f"the other {len(DISTRIBUTIONS) - 1}")
            ),
        ),
        [
            (
                row["robot"],
                *(
                    error(value)
                    for kind in kinds
                    for value in (
                        row[kind]["reference"],
                        max(e for name, e in row[kind].items() if name != "reference"),
                    )
                ),
            )
            for row in figures["errors"]
        ],
    )


def flagged_programs(figures: Figures) -> str:
    """List how many states of each program were flagged, at the precision with most flags."""
    most: dict[str, int] = {}
    for row in figures["errors"]:
        for function, _, distribution, count in row["flagged"]:
            name = f"of the {row['robot']}'s `{function}` (`{distribution}`)"
            most[name] = max(count, most.get(name, 0))
    return ",\n".join(f"{count} {name}" for name, count in most.items()) or "none"


def processor_card(figures: Figures) -> str:
    """Return the teams, resource use and clock of the shipped bitstream as text."""
    card = figures["card"]
    use = card["use"]
    return (
        f"{card['teams']} teams of four lanes and takes {use['lut4']:,} LUT4, {use['ff']:,} "
        f"registers,\n{use['mult18x18d']} multiplier blocks and {use['dp16kd']} RAM blocks of the "
        f"{card['part']}; nextpnr reports {card['fmax_mhz']} MHz"
    )


TEXT = Path(__file__).with_name("page.md")
"""Template of the page."""


def page() -> str:
    """Return docs/results.md."""
    records = {name: record.read() for name, record in RECORDS.items()}
    figures = {name: record["figures"] for name, record in records.items()}
    return TEXT.read_text(encoding="utf-8").format(
        cores=cores([*figures["cores"]["measured"], *figures["factor"]["measured"]]),
        published=published(figures["cores"], figures["factor"]),
        steps=steps(figures["cores"], figures["factor"]),
        intervals=intervals(figures["cores"]),
        robots=robots(figures["cores"]),
        functions=functions(figures["functions"]),
        promises=promises(figures["promises"]),
        states=figures["promises"]["states"],
        batches=batches(figures["batches"]),
        built=built(figures["batches"]),
        by_threads=by_threads(figures["batches"]),
        programs=programs(figures["programs"]),
        interleave=interleave(figures["interleave"]),
        program_errors=program_errors(figures["programs"]),
        program_states=figures["programs"]["states"],
        flagged_programs=flagged_programs(figures["programs"]),
        processor_card=processor_card(figures["programs"]),
        lanes=lanes(figures["lanes"]),
        lanes_states=figures["lanes"]["states"],
        lanes_built=lanes_built(figures["lanes"]),
        spread=spread(figures["batches"]),
        **{f"{name}_made": made_by(RECORDS[name], record) for name, record in records.items()},
    )
