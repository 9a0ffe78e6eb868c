"""docs/results.md, and the lines of the README, from the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pinion.functions import DISTRIBUTIONS
from pinion.report.table import cell

from .records import RECORDS, Record

Figures = Mapping[str, Any]

GRADIENT = "fd_derivatives_from_minv"
SIZES = (16, 32, 64, 128, 1024)


def grid(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [" | ".join(columns), " | ".join("---" for _ in columns)]
    lines += [" | ".join("-" if x is None else cell(x) for x in row) for row in rows]
    return "".join(f"| {line} |\n" for line in lines)


def error(value: float | None) -> str:
    """In two digits."""
    return "-" if value is None else f"{value:.1e}"


def made_by(record: Record, found: Figures) -> str:
    """The command of a record, and when and on what it ran."""
    machine = found["machine"]
    return (
        f"`{record.command}`, {found['date']}, {found['commit']}, {machine['processors']} cores of "
        f"{machine['processor']}."
    )


def cores(figures: Figures) -> str:
    """Cores that were built, verified and synthesised."""
    return grid(
        (
            *("function", "robot", "formats", "for", "`--ii`", "multipliers", "DSP48E2"),
            *(
                "LUT, as memory",
                "flip-flops",
                "clock, estimated MHz",
                "schedule",
                "latency, cycles",
            ),
            *("error, median", "error, largest", "mismatches"),
        ),
        [
            (
                f"`{row['function']}`",
                row["robot"],
                row["formats"],
                row["objective"],
                row["ii"],
                row["multipliers"],
                row["dsp"],
                f"{row['lut'] / 1e3:.1f}k + {row['memory_lut'] / 1e3:.1f}k",
                f"{row['ff'] / 1e3:.1f}k",
                f"{row['mhz_estimated']:.0f}",
                row["schedule_cycles"],
                row["latency_cycles"],
                error(row["error_median"]),
                error(row["error_max"]),
                row["mismatches"],
            )
            for row in figures["measured"]
        ],
    )


def ours(figures: Figures, robot: str) -> Figures:
    """The core for a robot that stands beside published ones: by signal, smallest area."""
    found = [
        row
        for row in figures["measured"]
        if (row["robot"], row["function"], row["formats"], row["objective"])
        == (robot, GRADIENT, "auto", "area")
    ]
    return dict(found[0])


def published(figures: Figures) -> str:
    """DSP blocks of published designs beside ours."""
    rows = []
    for design in figures["published"]["design"]:
        theirs = design["figures"].get("dsp")
        if theirs is None:
            continue
        own = ours(figures, design["robot"])
        cycles = design["figures"].get("cycles_per_result")
        rows.append(
            (
                design["name"],
                design["robot"],
                theirs["value"],
                theirs["kind"],
                None if cycles is None else cycles["value"],
                own["dsp"],
                own["ii"],
                f"{theirs['value'] / own['dsp']:.0f}",
            )
        )
    return grid(
        (
            *("design", "robot", "DSP blocks", "which is", "cycles a result"),
            *("Pinion, DSP48E2", "cycles a result", "times fewer"),
        ),
        rows,
    )


def functions(figures: Figures) -> str:
    """Every function in one uniform format."""
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
            *("function", "products", "additions", "reciprocals", "multipliers", "the fewest"),
            *("adders", "schedule, cycles", "words in / out", "error, median", "error, largest"),
        ),
        rows,
    )


def intervals(figures: Figures) -> str:
    """RNEA at many intervals."""
    return grid(
        (
            *("cycles a result (`--ii`)", "multipliers", "adders", "sine units"),
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
    """RNEA of many robots."""
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
    """What each core promises on each distribution, and the largest error found."""
    rows = []
    for core in figures["cores"]:
        kinds = [core["objective"]] if core["objective"] != "area" else []
        kinds += [f"made for {core['options']['ranges']}"] if "ranges" in core["options"] else []
        if "max_error" in core["options"]:
            kinds.append(f"{core['options']['max_error']:g}")
        cells = []
        for name in DISTRIBUTIONS:
            found = core["distributions"][name]
            flagged = found["flagged"] / core["samples"]
            text = f"{error(found['promise'])}: {error(found['largest'])}"
            cells.append(text + (f" ({flagged:.0%} flagged)" if flagged >= 0.005 else ""))
        rows.append((f"{core['robot']} `{core['function']}`", ", ".join(kinds) or "area", *cells))
    return grid(("core", "for", *DISTRIBUTIONS), rows)


def batches(figures: Figures) -> str:
    """Times of batches, a row for each who computes them."""
    found: dict[tuple[str, str, str, str], dict[int, Figures]] = {}
    for row in figures["rows"]:
        if row["function"] in (GRADIENT, "fd_derivatives"):
            key = (row["by"], row["work"], row["label"], row["machine"])
            found.setdefault(key, {})[row["samples"]] = row
    order = ("measured", "model", "published")
    rows = []
    for (by, work, label, machine), times in sorted(
        found.items(), key=lambda item: (order.index(item[0][2]), item[0][1], item[0][0])
    ):
        cells = []
        for size in SIZES:
            one = times.get(size)
            if one is None:
                cells.append("-")
            elif one["us_least"] is None:
                cells.append(f"{one['us_per_batch']:.3g}")
            else:
                cells.append(f"{one['us_least']:.0f}-{one['us_per_batch']:.0f}")
        if any(x != "-" for x in cells):
            rows.append((by, work, label, machine, *cells))
    return grid(("who", "M^-1", "kind", "machine", *(f"N = {n:,}" for n in SIZES)), rows)


def built(figures: Figures) -> str:
    """How others' code that was measured was built, a line each."""
    found = {
        row["by"]: row["note"].partition(";")[0]
        for row in figures["rows"]
        if row["label"] == "measured" and not row["by"].startswith("Pinion")
    }
    return "".join(f"- {by}: {cell(note)}\n" for by, note in found.items())


def lanes(figures: Figures) -> str:
    """What the ratio to CasADi's C is made of, a column for each dtype."""
    kinds = figures["dtypes"]
    counts = figures["operations"]
    operations = counts["theirs"] / counts["ours"]

    def ratio(dtype: str, first: str, second: str) -> float:
        times = kinds[dtype]["ns"]
        return float(times[first] / times[second])

    def ns(what: str, way: str) -> tuple[str, ...]:
        cells = []
        for kind in kinds.values():
            low, high = kind["quartiles"][way]
            cells.append(f"{kind['ns'][way]:.0f} ({low:.0f}-{high:.0f})")
        return (what, *cells)

    def times(what: str, values: Sequence[float]) -> tuple[str, ...]:
        return (what, *(f"x {value:.2g}" for value in values))

    widths = " and ".join(str(kind["lanes"]) for kind in kinds.values())
    return grid(
        (f"`{figures['function']}`, {figures['robot']}, ns a state", *kinds),
        [
            ns("CasADi's C, one state after the other", "scalar"),
            ns(f"the same C, {widths} states at once", "lanes"),
            ns("Pinion, arrays in blocks, as those lanes have theirs", "blocks"),
            ns("Pinion, arrays (n, ...)", "rows"),
            times("lanes: first row by second", [ratio(d, "scalar", "lanes") for d in kinds]),
            times(
                f"operations: {counts['theirs']:,} by {counts['ours']:,} a state",
                [operations] * len(kinds),
            ),
            times(
                "the rest: order of instructions, fused products, registers, sines",
                [ratio(d, "lanes", "blocks") / operations for d in kinds],
            ),
            times("together: first row by third", [ratio(d, "scalar", "blocks") for d in kinds]),
        ],
    )


def lanes_built(figures: Figures) -> str:
    """How both sides were built."""
    kinds = figures["dtypes"].values()
    theirs = dict.fromkeys(text for kind in kinds for text in kind["built"].values())
    return "".join(f"- CasADi's C: {text}\n" for text in theirs) + (
        f"- Pinion: {figures['built']}\n"
    )


def by_threads(figures: Figures) -> str:
    """Pinocchio's published figure of several threads, beside ours of one."""
    at = {
        row["by"]: row["us_per_batch"]
        for row in figures["rows"]
        if row["samples"] == 128 and row["function"] == "fd_derivatives"
    }
    theirs = at["Pinocchio code generation"]
    ours = [at[f"Pinion CPU, {dtype}, one processor"] for dtype in ("float64", "float32")]
    return (
        f"{theirs:g} us at N = 128, {theirs / 128 * 1e3:.0f} ns a state. One core of the machine "
        f"of the batches\nabove takes {ours[0]:.3g} us in float64 and {ours[1]:.3g} in float32."
    )


TEXT = Path(__file__).with_name("page.md")
"""The page around its tables."""


def page() -> str:
    """The whole of docs/results.md."""
    found = {name: record.read() for name, record in RECORDS.items()}
    figures = {name: record["figures"] for name, record in found.items()}
    return TEXT.read_text(encoding="utf-8").format(
        cores=cores(figures["cores"]),
        published=published(figures["cores"]),
        intervals=intervals(figures["cores"]),
        robots=robots(figures["cores"]),
        functions=functions(figures["functions"]),
        promises=promises(figures["promises"]),
        states=figures["promises"]["states"],
        batches=batches(figures["batches"]),
        built=built(figures["batches"]),
        by_threads=by_threads(figures["batches"]),
        lanes=lanes(figures["lanes"]),
        lanes_states=figures["lanes"]["states"],
        lanes_built=lanes_built(figures["lanes"]),
        **{f"{name}_made": made_by(RECORDS[name], record) for name, record in found.items()},
    )
