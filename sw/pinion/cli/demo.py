"""``pinion demo``: the main job, end to end, with figures and pictures."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .errors import CHECK_FAILED
from .options import Json
from .terminal import Report, out, pairs, put_json, say, steps, table

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.table import Table

    from pinion.boards.build import Build

ROBOT, FUNCTION, II, FORMATS = "iiwa14", "rnea", 8, "q16.16"
SEED = 0


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the demo found.

    Members
    -------
    figures : the JSON object.
    error : (n, words) |RTL - float| of the unflagged requests.
    budget : (words,) its bound.
    names : of the result words.
    """

    figures: dict[str, Any]
    error: NDArray[Any]
    budget: NDArray[Any]
    names: list[str]


def command(
    *,
    folder: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the build and the pictures go.")
    ] = Path("build/demo"),
    requests: Annotated[int, typer.Option(min=2, metavar="N", help="Requests to run.")] = 10_000,
    json: Json = False,
) -> None:
    """The main job, end to end, for the KUKA iiwa14."""
    from pinion.boards.build import Build, build

    if not json:
        _introduce(requests)
    with steps() as report:
        began = time.perf_counter()
        build(ROBOT, FUNCTION, folder, ii=II, formats=FORMATS, report=report)
        made = Build.read(folder)
        built = time.perf_counter() - began
        outcome = check(made, requests, report)
        outcome.figures["build_seconds"] = built
        report("Drawing")
        outcome.figures["pictures"] = draw(made, outcome, requests)
    if json:
        put_json(outcome.figures)
    else:
        _show(made, outcome)
    if not outcome.figures["ok"]:
        raise typer.Exit(CHECK_FAILED)


def check(made: Build, requests: int, report: Report) -> Outcome:
    """Run requests of the reference distribution through the driver; compare bits and floats."""
    import numpy as np

    from pinion import driver
    from pinion.cosim.reference import Reference, request_words
    from pinion.functions import sample

    manifest = made.manifest
    arrays = sample(made.model, made.function, requests, distribution="reference", seed=SEED)

    def progress(done: int, total: int) -> None:
        report(f"Driver: {done:,} of {total:,} requests")

    report("Compiling the simulated card")
    with driver.open(made.folder, device="sim", chunk=1000, progress=progress) as device:
        report("Driver: the first requests")
        began = time.perf_counter()
        result = device.run(**arrays)
        seconds = time.perf_counter() - began
    report("Comparing with the integer and the float model")
    blocks = [getattr(result, a.name).reshape(requests, -1) for a in manifest.outputs]
    got = np.ascontiguousarray(np.concatenate(blocks, axis=1), dtype=np.float32)
    flags = np.asarray(result.saturated)
    reference = Reference(made)
    words = request_words(arrays)
    expected, expected_flags = reference.expected(words)
    differs = (got.view(np.uint32) != expected).any(axis=1) | (flags != expected_flags)
    error = np.abs(got.astype(np.float64) - reference.float_model(words))[~flags]
    inside = bool((error <= reference.budget).all())  # NaN is outside
    names = [name for name, _ in made.graph.outputs]
    mismatches = int(differs.sum())
    figures = {
        **{key: getattr(manifest, key) for key in ("robot", "function", "formats", "ii")},
        **{key: getattr(manifest, key) for key in ("ops", "units", "multipliers", "adders")},
        "table_multipliers": manifest.table_multipliers,
        "latency_cycles": manifest.latency_cycles,
        "total_latency_cycles": manifest.total_latency_cycles,
        "requests": requests,
        "seed": SEED,
        **_rate(made.folder, report),
        "mismatches": mismatches,
        "flagged": int(flags.sum()),
        "error": _errors(error, reference.budget, names),
        "budget_held": inside,
        "simulated_cycles": result.cycles,
        "simulation_seconds": seconds,
        "simulation_requests_per_second": requests / seconds,
        "folder": str(made.folder),
    }
    figures["ok"] = mismatches == 0 and inside and figures["cycles_per_result"] == manifest.ii
    return Outcome(figures=figures, error=error, budget=reference.budget, names=names)


def draw(made: Build, outcome: Outcome, requests: int) -> dict[str, str]:
    """Write both pictures into the build folder and say where they are."""
    from pinion.hls.evaluate import formats

    from .pictures import draw_errors, draw_schedule

    manifest = made.manifest
    title = f"{manifest.function} for {manifest.robot}"
    schedule, errors = made.folder / "schedule.png", made.folder / "errors.png"
    draw_schedule(schedule, title=title, schedule=made.schedule, links=made.model.nv)
    draw_errors(
        errors,
        title=f"{title}, {requests:,} requests",
        error=outcome.error,
        budget=outcome.budget,
        names=outcome.names,
        unit="N m",
        lsb=formats(made.graph)[made.graph.outputs[0][1]].lsb,
    )
    return {"schedule": str(schedule), "errors": str(errors)}


def _rate(folder: Path, report: Report) -> dict[str, float]:
    """Cycles between results, from the RTL's own cycle stamps with a host that is always ready.

    The driver sends batches, so its card also stands idle between them; the rate is measured on an
    uninterrupted stream.
    """
    from pinion.cosim.verify import verify

    measured = verify(folder, samples=500, seed=SEED + 1, report=report)
    return {"cycles_per_result": measured["cycles_per_result"]}


def _errors(error: NDArray[Any], budget: NDArray[Any], names: list[str]) -> dict[str, Any]:
    """Quantiles of the absolute error by result word, beside its budget; None without any."""
    import numpy as np

    columns = {"median": 0.5, "p99": 0.99, "max": 1.0}
    rows: dict[str, Any] = {}
    for number, name in enumerate(names):
        row: dict[str, float | None] = dict.fromkeys(columns)
        if len(error):
            row = {k: float(np.quantile(error[:, number], q)) for k, q in columns.items()}
        rows[name] = row | {"budget": float(budget[number])}
    return rows


def _introduce(requests: int) -> None:
    say("Pinion: from a robot to a verified core", style="bold")
    say(
        f"Inverse dynamics ({FUNCTION}) of the KUKA LBR iiwa 14, 7 joints, becomes a pipeline in "
        f"{FORMATS} fixed point that takes a request every {II} cycles. {requests:,} requests then "
        "go through the host driver to a simulated card, which runs the emitted RTL; every answer "
        "is compared with exact integers, bit for bit, and with the float64 model."
    )


def _show(made: Build, outcome: Outcome) -> None:
    console = out()
    figures = outcome.figures
    ops = figures["ops"]
    exact = figures["mismatches"] == 0
    rows: list[tuple[str, object]] = [
        ("robot, function", f"{figures['robot']}, {figures['function']} in {figures['formats']}"),
        (
            "operations",
            f"{ops['mul']} products, {ops['mul_const']} products with constants, "
            f"{ops['add']} additions, {ops['trig']} sines and cosines",
        ),
        (
            "units",
            f"{figures['multipliers']} multipliers, {figures['adders']} adders, "
            f"{figures['units'].get('sincos', 0)} sine units "
            f"(with {figures['table_multipliers']} multipliers of their own)",
        ),
        ("latency_cycles", f"{figures['latency_cycles']} from sine and cosine to the last result"),
        (
            "total_latency_cycles",
            f"{figures['total_latency_cycles']} at most, from the first beat in to the last out",
        ),
        ("cycles per result", f"{figures['cycles_per_result']:g}, measured in the RTL"),
        ("requests", f"{figures['requests']:,} of the reference distribution"),
        ("against integers", f"{figures['mismatches']:,} mismatches"),
        ("flagged", f"{figures['flagged']:,} saturated"),
        (
            "simulation",
            f"{figures['simulation_requests_per_second']:,.0f} requests a second "
            "(of this computer simulating, not of a card)",
        ),
        ("time to build", f"{figures['build_seconds']:.1f} s"),
    ]
    console.print(pairs(rows))
    console.print(_error_table(figures["error"]))
    verdict = "Every bit is as the integers have it" if exact else "The RTL and the integers DIFFER"
    held = "every error is inside its budget" if figures["budget_held"] else "a budget is BROKEN"
    say(f"{verdict}; {held}.", style="bold green" if figures["ok"] else "bold red")
    manifest = made.manifest
    say(
        "\nThe budget is derived from the formats and the graph, not fitted to the errors. "
        f"Not run: no vendor tool, no board. A clock of {manifest.clock_mhz:g} MHz would make "
        f"{manifest.clock_mhz / manifest.ii:.4g} million results a second and "
        f"{1e3 * manifest.total_latency_cycles / manifest.clock_mhz:.0f} ns of latency, but that "
        "clock is assumed: nothing here has measured it."
    )
    say("\nPictures", style="bold")
    for name, path in figures["pictures"].items():
        what = {"schedule": "units against cycles", "errors": "distribution of the error"}[name]
        console.print(f"  {path}  {what}", soft_wrap=True)


def _error_table(errors: Mapping[str, Mapping[str, float | None]]) -> Table:
    return table(
        "against float64 [N m]",
        *("median", "99 %", "largest", "budget", "budget / largest"),
        rows=[
            (
                name,
                *(row[key] for key in ("median", "p99", "max", "budget")),
                f"{row['budget'] / row['max']:.2g}" if row["budget"] and row["max"] else None,
            )
            for name, row in errors.items()
        ],
    )
