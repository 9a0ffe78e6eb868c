"""``pinion demo``: the main job, end to end, with figures and pictures."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .errors import CHECK_FAILED
from .measure import margin_words, margins, quantiles, relative_errors
from .options import Json, names
from .terminal import Report, cell, out, put_json, say, steps, table

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.table import Table

    from pinion.flow.build import Build

ROBOT, II, FORMATS = "iiwa14", 8, "q16.16"
FUNCTIONS = ("rnea", "rnea_derivatives", "aba")
SEED = 0
CHUNK = 1000
"""Requests between two signs of progress."""

ABREAST = 3
"""Functions beside each other in a table; more would not fit into a terminal."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the demo found of one function.

    Members
    -------
    figures : its part of the JSON object.
    error : (n, words) |RTL - float| of the unflagged requests.
    budget : (words,) its bound.
    """

    figures: dict[str, Any]
    error: NDArray[Any]
    budget: NDArray[Any]


def command(
    *,
    folder: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the builds and the pictures go.")
    ] = Path("build/demo"),
    functions: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME,...", help=f"Which functions; {', '.join(FUNCTIONS)} unless given."
        ),
    ] = None,
    requests: Annotated[
        int, typer.Option(min=2, metavar="N", help="Requests to run, of each function.")
    ] = 10_000,
    json: Json = False,
) -> None:
    """The main job, end to end, for the KUKA iiwa14.

    Inverse dynamics, its gradient and forward dynamics, each built, simulated and checked. The
    first run compiles the simulations, which takes most of its time; they are kept.
    """
    from pinion.functions import function

    chosen = names(functions) or FUNCTIONS
    for name in chosen:
        function(name)  # a wrong name is told before the work
    if not json:
        _introduce(chosen, requests)
    figures: dict[str, Any] = {}
    with steps() as report:
        for number, name in enumerate(chosen, 1):
            figures[name] = one(name, folder, requests, _numbered(report, name, number, chosen))
    ok = all(f["ok"] for f in figures.values())
    if json:
        put_json({"functions": figures, "ok": ok})
    else:
        _show(figures, ok)
    if not ok:
        raise typer.Exit(CHECK_FAILED)


def one(name: str, folder: Path, requests: int, report: Report) -> dict[str, Any]:
    """Build, run, check and draw one function; returns its figures."""
    from pinion.flow.build import Build, build

    began = time.perf_counter()
    build(ROBOT, name, folder / name, ii=II, formats=FORMATS, report=report)
    built = time.perf_counter() - began
    made = Build.read(folder / name)
    outcome = check(made, requests, report)
    report("Drawing")
    pictures = draw(made, outcome, folder, requests)
    return {**outcome.figures, "build_seconds": built, "pictures": pictures}


def check(made: Build, requests: int, report: Report) -> Outcome:
    """Run requests of the reference distribution through the driver; compare bits and floats."""
    import numpy as np

    from pinion import driver
    from pinion.cosim.reference import Reference, request_words
    from pinion.functions import sample

    manifest = made.manifest
    arrays = sample(made.model, made.function, requests, distribution="reference", seed=SEED)

    def progress(done: int, total: int) -> None:
        report(f"driver, {done:,} of {total:,} requests")

    report("compiling the simulated card")
    with driver.open(made.folder, device="sim", chunk=CHUNK, progress=progress) as device:
        report("driver, the first requests")
        began = time.perf_counter()
        result = device.run(**arrays)
        seconds = time.perf_counter() - began
    report("comparing with the integer and the float model")
    parts = [a.gather(getattr(result, a.name)).reshape(requests, -1) for a in manifest.outputs]
    got = np.ascontiguousarray(np.concatenate(parts, axis=1), dtype=np.float32)
    flags = np.asarray(result.saturated)
    reference = Reference(made)
    words = request_words(manifest, arrays)
    expected, expected_flags = reference.expected(words)
    differs = (got.view(np.uint32) != expected).any(axis=1) | (flags != expected_flags)
    floats = reference.float_model(words)
    error = np.abs(got.astype(np.float64) - floats)
    inside = bool((error[~flags] <= reference.budget).all())  # NaN is outside
    relative = relative_errors(reference.blocks(error), reference.blocks(floats))
    words_of = [name for name, _ in made.graph.outputs]
    mismatches = int(differs.sum())
    figures = {
        **{key: getattr(manifest, key) for key in ("robot", "function", "formats", "ii")},
        **{key: getattr(manifest, key) for key in ("ops", "units", "multipliers", "adders")},
        **{key: getattr(manifest, key) for key in ("table_multipliers", "words_in", "words_out")},
        "latency_cycles": manifest.latency_cycles,
        "total_latency_cycles": manifest.total_latency_cycles,
        "requests": requests,
        "seed": SEED,
        **_rate(made.folder, report),
        "mismatches": mismatches,
        "flagged": int(flags.sum()),
        **quantiles({name: r[~flags] for name, r in relative.items()}),
        "error": _errors(error[~flags], reference.budget, words_of),
        "budget_held": inside,
        "budget_over_largest": margins(error[~flags], reference.budget),
        "simulated_cycles": result.cycles,
        "simulation_seconds": seconds,
        "simulation_requests_per_second": requests / seconds,
        "folder": str(made.folder),
    }
    figures["ok"] = mismatches == 0 and inside and figures["cycles_per_result"] == manifest.ii
    return Outcome(figures=figures, error=error[~flags], budget=reference.budget)


def draw(made: Build, outcome: Outcome, folder: Path, requests: int) -> dict[str, str]:
    """Write both pictures of a build and say where they are."""
    from pinion.graph.evaluate import formats

    from .errors_picture import Panel, draw_errors
    from .schedule_picture import draw_schedule

    manifest = made.manifest
    title = f"{manifest.function} for {manifest.robot}"
    schedule = folder / f"schedule_{manifest.function}.png"
    errors = folder / f"errors_{manifest.function}.png"
    draw_schedule(schedule, title=title, schedule=made.schedule, links=made.model.nv)
    fmts, outputs, panels, start = formats(made.graph), made.graph.outputs, [], 0
    for array in manifest.outputs:
        own = slice(start, start := start + array.words)
        if not array.words:
            continue
        panels.append(
            Panel(
                name=array.name,
                # All joints of the robot turn.
                unit=array.unit.partition(" | ")[0],
                lsb=fmts[outputs[own][0][1]].lsb,
                words=tuple(name for name, _ in outputs[own]),
                error=outcome.error[:, own],
                budget=outcome.budget[own],
            )
        )
    draw_errors(errors, title=f"{title}, {requests:,} requests", panels=panels)
    return {"schedule": str(schedule), "errors": str(errors)}


def _numbered(report: Report, name: str, number: int, chosen: Sequence[str]) -> Report:
    def inner(text: str) -> None:
        report(f"{name} ({number} of {len(chosen)}): {text[:1].lower()}{text[1:]}")

    return inner


def _rate(folder: Path, report: Report) -> dict[str, float]:
    """Cycles between results, from the RTL's own cycle stamps with a host that is always ready.

    The driver sends batches, so its card also stands idle between them; the rate is measured on an
    uninterrupted stream.
    """
    from pinion.cosim.verify import verify

    measured = verify(folder, samples=500, seed=SEED + 1, report=report)
    return {"cycles_per_result": measured["cycles_per_result"]}


def _errors(error: NDArray[Any], budget: NDArray[Any], words: Sequence[str]) -> dict[str, Any]:
    """Quantiles of the absolute error by result word, beside its budget; None without any."""
    import numpy as np

    columns = {"median": 0.5, "p99": 0.99, "max": 1.0}
    rows: dict[str, Any] = {}
    for number, name in enumerate(words):
        row: dict[str, float | None] = dict.fromkeys(columns)
        if len(error):
            row = {k: float(np.quantile(error[:, number], q)) for k, q in columns.items()}
        rows[name] = row | {"budget": float(budget[number])}
    return rows


def _introduce(chosen: Sequence[str], requests: int) -> None:
    from pinion.functions import function

    say("Pinion: from a robot to verified cores", style="bold")
    say(
        f"The KUKA LBR iiwa 14 has 7 joints. Each function below becomes a pipeline in {FORMATS} "
        f"fixed point that takes a request every {II} cycles. {requests:,} requests then go "
        "through the host driver to a simulated card, which runs the emitted RTL; every answer is "
        "compared with exact integers, bit for bit, and with the float64 model. Compiling the "
        "simulations takes a minute or two the first time; they are kept."
    )
    for name in chosen:
        say(f"  {name}: {function(name).doc}")


def _show(figures: Mapping[str, Mapping[str, Any]], ok: bool) -> None:
    console = out()
    names = list(figures)
    for start in range(0, len(names), ABREAST):
        console.print(_compare([figures[name] for name in names[start : start + ABREAST]]))
    exact = all(f["mismatches"] == 0 for f in figures.values())
    inside = all(f["budget_held"] for f in figures.values())
    rate = all(f["cycles_per_result"] == f["ii"] for f in figures.values())
    verdict = "Every bit is as the integers have it" if exact else "The RTL and the integers DIFFER"
    held = "every error is inside its budget" if inside else "a budget is BROKEN"
    came = "" if rate else "; results do NOT come at the promised rate"
    say(f"{verdict}; {held}{came}.", style="bold green" if ok else "bold red")
    say(
        "\nThe relative error is the largest of a block's elements, over the largest element of "
        "that block. Budgets are derived from the formats and the graphs, not fitted to the "
        "errors. Not run: no vendor tool, no board; what a clock could be is not known."
    )
    say("\nPictures: units against cycles, distribution of the error", style="bold")
    for one_of in figures.values():
        console.print(f"  {'  '.join(one_of['pictures'].values())}", soft_wrap=True)


def _compare(columns: Sequence[Mapping[str, Any]]) -> Table:
    """A column a function, a row a figure."""
    rows: dict[str, Callable[[Mapping[str, Any]], object]] = {
        "products": lambda f: f["ops"]["mul"],
        "products with constants": lambda f: f["ops"]["mul_const"],
        "additions": lambda f: f["ops"]["add"],
        "sines and cosines": lambda f: f["ops"]["trig"],
        "reciprocals": lambda f: f["ops"]["reciprocal"],
        "multipliers": lambda f: f["multipliers"],
        "adders": lambda f: f["adders"],
        "sine, reciprocal units": _table_units,
        "multipliers in these": lambda f: f["table_multipliers"],
        "words in, words out": lambda f: f"{f['words_in']}, {f['words_out']}",
        "latency_cycles": lambda f: f["latency_cycles"],
        "total_latency_cycles": lambda f: f["total_latency_cycles"],
        "cycles per result, in RTL": lambda f: f"{f['cycles_per_result']:g}",
        "requests": lambda f: f["requests"],
        "mismatches": lambda f: f["mismatches"],
        "flagged": lambda f: f["flagged"],
        "result block": lambda f: "\n".join(f["rel_err_max"]),
        "relative error, median": lambda f: _by_block(f["rel_err_median"]),
        "99 % are below": lambda f: _by_block(f["rel_err_p99"]),
        "largest": lambda f: _by_block(f["rel_err_max"]),
        "budgets held": lambda f: f["budget_held"],
        "budget over largest error": lambda f: margin_words(f["budget_over_largest"]),
        "simulated, requests a second": lambda f: round(f["simulation_requests_per_second"]),
        "time to build": lambda f: f"{f['build_seconds']:.1f} s",
    }
    return table(
        f"{ROBOT}, {FORMATS}, ii {II}",
        *(f["function"] for f in columns),
        rows=[(name, *(value(f) for f in columns)) for name, value in rows.items()],
    )


def _table_units(figures: Mapping[str, Any]) -> str:
    units = figures["units"]
    return f"{units.get('sincos', 0)}, {units.get('reciprocal', 0)}"


def _by_block(values: Mapping[str, float | None]) -> str:
    return "\n".join(cell(None if v is None else float(f"{v:.2g}")) for v in values.values())
