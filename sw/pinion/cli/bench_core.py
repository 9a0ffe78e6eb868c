"""Cores beside published designs: what was measured here, what was published, what is assumed.

The three are never mixed. Measured figures come from a build, from its RTL in simulation and from
Yosys; published ones from a data file that names a source for each; and whatever needs a clock rate
of ours is computed under an assumption and stands in a table of its own.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .options import load_robot
from .terminal import cell, out, say, table

if TYPE_CHECKING:
    from pinion.flow.explore import Measurements, Point

CLOCK_MHZ = 250.0
"""The clock of our cores: assumed, no tool has confirmed it."""

SAMPLES, SEED = 10_000, 0

FOLDER = Path("build") / "bench"

_FINGERS = tuple(f"{arm}_gripper_{side}_finger_joint" for arm in "rl" for side in "lr")

_MARKS = {"published": "", "figure": " f", "derived": " d"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A core to measure.

    Members
    -------
    robot, lock : the robot, and joints that are held still.
    function, formats, objective : what is built.
    ii : cycles between results; None for the fewest that the link feeds and the part holds.
    """

    robot: str
    function: str
    formats: str = "auto"
    objective: str = "area"
    ii: int | None = 8
    lock: tuple[str, ...] = ()

    def point(self) -> Point:
        """The same for :mod:`pinion.cosim.explore`."""
        from pinion.flow.explore import Point

        return Point(
            model=load_robot(self.robot, self.lock, None),
            function=self.function,
            options={
                "ii": self.ii,
                "formats": self.formats,
                "objective": self.objective,
                "clock_mhz": CLOCK_MHZ,
            },
        )


GRADIENT = "fd_derivatives_from_minv"

CASES = (
    Case(robot="iiwa14", function=GRADIENT),
    *(Case(robot="iiwa14", function=GRADIENT, objective=x) for x in ("latency", "throughput")),
    Case(robot="iiwa14", function=GRADIENT, formats="q16.16"),
    *(
        Case(robot="iiwa14", function=name)
        for name in ("fd_derivatives", "rnea_derivatives", "aba", "minv", "rnea")
    ),
    Case(robot="iiwa14", function="aba", objective="latency"),
    *(Case(robot="hyq", function=name, ii=None) for name in (GRADIENT, "aba")),
    *(Case(robot="baxter", function=name, ii=None, lock=_FINGERS) for name in (GRADIENT, "aba")),
)


def published() -> dict[str, Any]:
    """The data file: ``sources`` and ``design`` (a list)."""
    return tomllib.loads((files("pinion.cli") / "published.toml").read_text())


def measurements() -> Measurements:
    """All that can be measured of a core here."""
    from pinion.flow.explore import Measurements

    return Measurements(samples=SAMPLES, seed=SEED, synth=True, verify=True)


def measured(
    cases: Sequence[Case],
    folder: Path,
    *,
    measure: bool,
    jobs: int,
    done: Callable[[int], None],
) -> list[dict[str, Any]]:
    """A row a case: what this very code gave, None where it was not measured.

    Parameters
    ----------
    folder : where the builds are, or go.
    measure : build, verify and synthesise what is not there yet (many minutes); otherwise only
        read what is.
    jobs : processes at the same time.
    done : called with 1 for each case that is finished.
    """
    from pinion.cosim.explore import explore, kept

    points = [case.point() for case in cases]
    rows: Sequence[Mapping[str, Any] | None]
    if measure:
        rows = explore(points, folder, measure=measurements(), jobs=jobs, done=lambda row: done(1))
    else:
        rows = kept(points, folder, measure=measurements())
    result = []
    for case, point, row in zip(cases, points, rows, strict=True):
        figures = row or {}
        result.append(
            {
                **{"robot": case.robot, "joints": point.model.nv, "locked": list(case.lock)},
                **{"function": case.function, "formats": case.formats},
                "objective": case.objective,
                "ii": figures.get("ii") or case.ii,
                **{key: figures.get(key) for key in _MEASURED},
            }
        )
    return result


_MEASURED = (
    *("multipliers", "latency_cycles", "total_latency_cycles", "registers"),
    *("dsp", "dsp_source", "lut", "ff", "max_levels"),
    *("rel_err_max", "rel_err_median", "error_max", "error_median", "flagged", "samples"),
    *("mismatches", "verified", "failure", "folder"),
)


def compared(
    designs: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Each published design beside our cores of the same function and robot.

    Returns
    -------
    ``design, robot, formats, objective, ii``; ``dsp_ratio`` (theirs over ours, no assumption in
    it); ``latency_us, results_per_second`` of ours at the assumed clock and ``latency_us_published,
    results_per_second_published``, each None where a figure is missing.
    """
    result = []
    for design in designs:
        theirs = {key: figure["value"] for key, figure in design["figures"].items()}
        clock = theirs.get("clock_mhz")
        for row in rows:
            if (row["robot"], row["function"]) != (design["robot"], design["function"]):
                continue
            # Without a verified core there is nothing to set beside anything.
            works = row["verified"] is True
            latency = row["latency_cycles"] if works else None
            blocks = row["dsp"] if works and row["dsp_source"] == "synth" else None
            result.append(
                {
                    **{"design": design["name"], "robot": row["robot"]},
                    **{key: row[key] for key in ("formats", "objective", "ii")},
                    "dsp_ratio": _over(theirs.get("dsp"), blocks),
                    "latency_us": _over(latency, CLOCK_MHZ),
                    "latency_us_published": _over(theirs.get("latency_cycles"), clock),
                    "results_per_second": _over(CLOCK_MHZ * 1e6 if works else None, row["ii"]),
                    "results_per_second_published": _over(
                        None if clock is None else clock * 1e6, theirs.get("cycles_per_result")
                    ),
                }
            )
    return result


def _over(one: float | None, other: float | None) -> float | None:
    return None if one is None or not other else one / other


def show(data: Mapping[str, Any]) -> None:
    """The three tables, each with what its figures are worth."""
    console = out()
    console.print(_published_table(data["published"]["design"]))
    say(
        "Published by others, no figure of ours in it: d is derived from what the source says, f "
        "measured off a plot. Sources: "
        + "; ".join(f"[{key}] {text}" for key, text in data["published"]["sources"].items())
        + "."
    )
    console.print(_measured_table(data["measured"]))
    say(
        f"Measured here: latency and mismatches in {SAMPLES:,} requests to the RTL, in simulation; "
        "DSP48E2, LUTs and levels of the longest path by Yosys for UltraScale+, without placement "
        "or timing; errors of the worst block of results over its largest value. 'auto' as ii is "
        "the fewest cycles that the link feeds and a third of the part holds."
    )
    for row in data["measured"]:
        sentence = row["failure"]
        if row["verified"] is False:
            sentence = f"The check failed; see 'pinion verify {row['folder']}'."
        if sentence:
            say(f"{row['robot']} {row['function']} {row['formats']}: {sentence}", style="bold red")
    if any(row["verified"] is None and not row["failure"] for row in data["measured"]):
        say(
            "Rows with dashes were not measured by this version of the sources; "
            "'pinion bench core --measure' does that, and goes on where it was interrupted."
        )
    console.print(_compared_table(data["compared"]))
    say(
        f"Assumed: a clock of {CLOCK_MHZ:g} MHz for our cores, which no vendor tool has confirmed "
        "and no board has run; latency and results a second stand and fall with it. Published "
        "latencies and rates are for the published clock. DSP blocks of theirs over ours need no "
        "clock, but theirs come from vendor tools and ours from Yosys."
    )


def _published_table(designs: Sequence[Mapping[str, Any]]) -> Any:
    keys = ("clock_mhz", "latency_cycles", "cycles_per_result", "end_to_end_per_second")
    return table(
        *("design", "source", "robot"),
        *("clock, MHz", "latency, cycles", "cycles a result", "end to end/s", "DSP", "LUT"),
        rows=[
            (
                design["name"],
                f"[{', '.join(sorted({f['source'] for f in design['figures'].values()}))}]",
                f"{design['robot']} ({design['joints']})",
                *(_marked(design["figures"].get(key)) for key in (*keys, "dsp", "lut")),
            )
            for design in designs
        ],
        title=f"Published: {GRADIENT}",
        left=3,
    )


def _marked(figure: Mapping[str, Any] | None) -> str | None:
    """A figure and the letter of its kind."""
    if figure is None:
        return None
    value = figure["value"]
    shown = f"{value / 1e6:.3g} M" if value >= 1e6 else cell(value)
    return f"{shown}{_MARKS[figure['kind']]}"


def _measured_table(rows: Sequence[Mapping[str, Any]]) -> Any:
    return table(
        *("function", "robot", "formats", "for"),
        *("ii", "multipliers", "DSP", "LUT", "levels", "latency", "mismatches"),
        *("median", "largest", "flagged"),
        rows=[
            (
                row["function"],
                f"{row['robot']} ({row['joints']})",
                row["formats"],
                row["objective"],
                "auto" if row["ii"] is None else row["ii"],
                *(row[key] for key in ("multipliers", "dsp", "lut", "max_levels")),
                *(row[key] for key in ("latency_cycles", "mismatches")),
                *(_short(row[key]) for key in ("error_median", "error_max")),
                row["flagged"],
            )
            for row in rows
        ],
        title="Pinion, measured here",
        left=4,
    )


def _compared_table(rows: Sequence[Mapping[str, Any]]) -> Any:
    return table(
        *("against", "robot", "formats", "for"),
        *("ii", "DSP, theirs/ours", "latency, us: theirs", "ours, assumed"),
        *("results/s: theirs", "ours, assumed"),
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
        title=f"Side by side, ours at an assumed {CLOCK_MHZ:g} MHz",
        left=4,
    )


def _us(value: float | None) -> str | None:
    return None if value is None else f"{value:.2f}"


def _rate(value: float | None) -> str | None:
    return None if value is None else f"{value / 1e6:.3g} M"


def _short(value: float | None) -> str | None:
    return None if value is None else f"{value:.1e}"
