"""``pinion demo``: cores for the iiwa14, built and checked end to end, with pictures."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pinion.base.installation import require
from pinion.base.progress import Progress
from pinion.console.errors import CHECK_FAILED, UsageError
from pinion.console.terminal import by_block, margin_words, out, put_json, say, steps, table

from .options import Json, names

if TYPE_CHECKING:
    from rich.table import Table

ROBOT, II, FORMATS = "iiwa14", 8, "q16.16"
FUNCTIONS = ("rnea", "rnea_derivatives", "aba")
SEED = 0

ABREAST = 3
"""Functions side by side in a table; more would not fit on a terminal."""


REQUESTS = 10_000


def command(
    demonstration: Annotated[
        str | None,
        typer.Argument(
            metavar="[mpc|trot]",
            help="mpc: an arm that tracks a figure-eight by model predictive control, on this CPU; "
            "trot: a quadruped that follows commands by the same; by default, cores for FPGAs.",
            show_default=False,
        ),
    ] = None,
    *,
    folder: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of the builds and the pictures.")
    ] = Path("build/demo"),
    functions: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME,...", help=f"The functions. [default: {', '.join(FUNCTIONS)}]"),
    ] = None,
    requests: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="N",
            help=f"Requests per function. [default: {REQUESTS:,}]",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Build, simulate and check cores for the KUKA iiwa14.

    Inverse dynamics, its gradient and forward dynamics are each built, simulated and checked. The
    first run compiles the simulations, which takes most of its time; the simulations are kept.

    With mpc: the same robot tracks a figure-eight in MuJoCo, with a load, friction and a delay that
    its controller does not know, and with gradients from compiled functions.

    With trot: HyQ follows commands in MuJoCo while it is pushed, by whole-body model predictive
    control with contacts.
    """
    if demonstration is not None:
        _other(demonstration, folder, functions, requests, json)
        return
    require("hw")
    from pinion.functions import named_function

    function_names = names(functions) or FUNCTIONS
    requests = REQUESTS if requests is None else requests
    for name in function_names:
        named_function(name)  # refuse a wrong name before the work
    if not json:
        _introduce(function_names, requests)
    figures: dict[str, Any] = {}
    with steps() as progress:
        for number, name in enumerate(function_names, 1):
            figures[name] = one(
                name, folder, requests, _numbered(progress, name, number, function_names)
            )
    ok = all(f["ok"] for f in figures.values())
    if json:
        put_json({"functions": figures, "ok": ok})
    else:
        _show(figures, ok)
    if not ok:
        raise typer.Exit(CHECK_FAILED)


def _other(
    demonstration: str, folder: Path, functions: list[str] | None, requests: int | None, json: bool
) -> None:
    """Run the demonstration ``mpc`` or ``trot``; refuse other names and options for cores."""
    if demonstration not in ("mpc", "trot"):
        raise UsageError(
            f"There is no demonstration '{demonstration}': give 'mpc', 'trot', or no name."
        )
    for option, value in (("--functions", functions), ("--requests", requests)):
        if value is not None:
            raise UsageError(
                f"The option {option} is only for cores: leave it out for the demonstration "
                f"'{demonstration}'."
            )
    from . import demo_mpc, demo_trot

    module = demo_mpc if demonstration == "mpc" else demo_trot
    module.run(folder=folder, json=json)


def one(name: str, folder: Path, requests: int, progress: Progress) -> dict[str, Any]:
    """Build, run, check and draw one function, and return its figures."""
    from pinion.card.check import check
    from pinion.flow import build
    from pinion.functions import named_function
    from pinion.link import Manifest
    from pinion.report import draw_build
    from pinion.request import BuildRequest
    from pinion.robot import load

    began = time.perf_counter()
    model, request = load(ROBOT, snap=True), BuildRequest(ii=II, formats=FORMATS)
    build(model, named_function(name), folder / name, request, progress=progress)
    built = time.perf_counter() - began
    figures = check(folder / name, requests=requests, seed=SEED, progress=progress)
    progress.step("Compiling for this machine's CPU")
    processor = on_processor(name, requests, Manifest.read(folder / name).scales)
    progress.step("Drawing")
    pictures = draw_build(folder / name, folder)
    return {**figures, "build_seconds": built, "cpu": processor, "pictures": pictures}


def on_processor(name: str, requests: int, scales: Mapping[str, float]) -> dict[str, Any] | None:
    """Return figures of the function compiled in float32 for this CPU; None without a compiler.

    The figures are its time for the same number of requests, with one thread and with all, and its
    error relative to the float model.

    Parameters
    ----------
    scales : of its blocks; near zero, errors are relative to these.
    """
    import numpy as np

    from pinion.compute import cpu
    from pinion.compute.rates import kernel_case, rounds_of
    from pinion.functions import named_function, sample
    from pinion.link.relative import relative_errors
    from pinion.native import ComputeError
    from pinion.robot import load

    model, row = load(ROBOT), named_function(name)
    try:
        alone, all_of_them = (
            cpu.compile(model, row, dtype="float32", threads=threads) for threads in (1, 0)
        )
    except ComputeError:
        return None
    states = sample(model, row, requests, distribution="reference", seed=SEED)
    arrays = {key: values.astype(np.float32) for key, values in states.items()}
    result = alone(**arrays)
    expected = row.evaluate(
        model, {key: values.astype(np.float64) for key, values in arrays.items()}
    )
    floats = {key: x.reshape(requests, -1) for key, x in expected.items() if key in scales}
    errors = relative_errors(
        {key: np.abs(result[key].reshape(requests, -1) - x) for key, x in floats.items()},
        floats,
        scales,
    )
    cases = {
        "ns": kernel_case(alone, arrays, requests),
        "ns_all": kernel_case(all_of_them, arrays, requests),
    }
    times = rounds_of(cases, rounds=5, seconds=0.02)
    return {
        "isa": alone.isa.name,
        "dtype": "float32",
        "rel_err_max": {key: float(error.max()) for key, error in errors.items()},
        **{key: float(np.median(values)) for key, values in times.items()},
    }


def _numbered(progress: Progress, name: str, number: int, names: Sequence[str]) -> Progress:
    def inner(text: str) -> None:
        progress.step(f"{name} ({number} of {len(names)}): {text[:1].lower()}{text[1:]}")

    return Progress(inner)


def _introduce(names: Sequence[str], requests: int) -> None:
    from pinion.functions import named_function

    say("Pinion: from a robot to verified cores", style="bold")
    say(
        f"The KUKA LBR iiwa 14 has 7 joints. Each function below becomes a pipeline in {FORMATS} "
        f"fixed point that takes a request every {II} cycles. {requests:,} requests then go "
        "through the host driver to a simulated card, which runs the emitted RTL; every answer is "
        "compared with exact integers, bit for bit, and with the float64 model. Compiling the "
        "simulations takes a minute or two the first time; they are then kept."
    )
    for name in names:
        say(f"  {name}: {named_function(name).doc}")


def _show(figures: Mapping[str, Mapping[str, Any]], ok: bool) -> None:
    console = out()
    names = list(figures)
    for start in range(0, len(names), ABREAST):
        console.print(_compare([figures[name] for name in names[start : start + ABREAST]]))
    say(_verdict(list(figures.values())), style="bold green" if ok else "bold red")
    say(
        "\nThe relative error is the largest error in a block over the block's largest element; "
        "near rest, the divisor is at least 1 % of the block's usual size. Budgets are derived "
        "from the formats and the graphs, not fitted to the errors. The last rows are for the "
        "same functions compiled for this machine's CPU, in float32, measured now. No vendor tool "
        "and no board was used; the clock that a board reaches is unknown."
    )
    say("\nPictures: units against cycles, distribution of the error", style="bold")
    for one_of in figures.values():
        console.print(f"  {'  '.join(one_of['pictures'].values())}", soft_wrap=True)


def _verdict(figures: Sequence[Mapping[str, Any]]) -> str:
    """Return a summary of what holds for all functions, and what fails for some."""
    bits = all(f["mismatches"] == 0 for f in figures)
    valid = all(f["valid"] > 0 for f in figures)
    budgets = all(f["budget_held"] for f in figures)
    accuracy = all(f["accuracy_held"] for f in figures)
    flags = all(f["flags_held"] for f in figures)
    rate = all(f["cycles_per_result"] == f["ii"] for f in figures)
    parts = ["Every bit agrees with the integers" if bits else "The RTL and the integers DIFFER"]
    if not valid:
        parts.append("a function has NO valid result, so no error of it was checked")
    else:
        parts.append("every error is within its budget" if budgets else "a budget is BROKEN")
        if not accuracy:
            parts.append("a relative error is ABOVE its promise")
    if not flags:
        parts.append("MORE requests are flagged than the formats allow")
    if not rate:
        parts.append("results do NOT arrive at the promised rate")
    return f"{'; '.join(parts)}."


def _compare(columns: Sequence[Mapping[str, Any]]) -> Table:
    """Build a table with a column per function and a row per figure."""
    rows: dict[str, Callable[[Mapping[str, Any]], object]] = {
        "products": lambda f: f["ops"]["mul"],
        "products with constants": lambda f: f["ops"]["mul_const"],
        "additions": lambda f: f["ops"]["add"],
        "sines and cosines": lambda f: f["ops"]["trig"],
        "reciprocals": lambda f: f["ops"]["reciprocal"],
        "multipliers": lambda f: f["multipliers"],
        "adders": lambda f: f["adders"],
        "sine and reciprocal units": _table_units,
        "multipliers in these units": lambda f: f["table_multipliers"],
        "words in, words out": lambda f: f"{f['words_in']}, {f['words_out']}",
        "schedule, cycles": lambda f: f["schedule_cycles"],
        "latency, cycles": lambda f: f["latency_cycles"],
        "cycles per result, in RTL": lambda f: f"{f['cycles_per_result']:g}",
        "requests": lambda f: f["requests"],
        "mismatches": lambda f: f["mismatches"],
        "flagged": lambda f: f["flagged"],
        "result block": lambda f: "\n".join(f["rel_err_max"]),
        "relative error, median": lambda f: by_block(f["rel_err_median"]),
        "99 % are below": lambda f: by_block(f["rel_err_p99"]),
        "largest": lambda f: by_block(f["rel_err_max"]),
        "budgets held": lambda f: f["budget_held"],
        "budget over largest error": lambda f: margin_words(f["budget_over_largest"]),
        "simulated, requests per second": lambda f: round(f["simulation_requests_per_second"]),
        "time to build": lambda f: f"{f['build_seconds']:.1f} s",
        "on this CPU": lambda f: f["cpu"]["isa"] if f["cpu"] else "no C++ compiler",
        "ns per request, one core": lambda f: _processor(f, "ns"),
        "all cores": lambda f: _processor(f, "ns_all"),
        "largest error, float32": lambda f: (
            "\n".join(f"{e:.1e}" for e in f["cpu"]["rel_err_max"].values()) if f["cpu"] else "-"
        ),
    }
    return table(
        f"{ROBOT}, {FORMATS}, ii {II}",
        *(f["function"] for f in columns),
        rows=[(name, *(value(f) for f in columns)) for name, value in rows.items()],
    )


def _table_units(figures: Mapping[str, Any]) -> str:
    units = figures["units"]
    return f"{units.get('sincos', 0)}, {units.get('reciprocal', 0)}"


def _processor(figures: Mapping[str, Any], key: str) -> str:
    return f"{figures['cpu'][key]:.1f}" if figures["cpu"] else "-"
