"""``pinion bench``: measured tables."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pinion.base.installation import require
from pinion.report import cell
from pinion.report.comparison import compared
from pinion.report.published import published_designs

from . import bench_core, bench_link
from .errors import CHECK_FAILED, InterruptionError, UsageError, complain
from .options import Json
from .terminal import counted, margin_words, out, put_json, say, table

if TYPE_CHECKING:
    from rich.table import Table

HERE = ("core", "functions", "link", "cpu", "cuda", "compare", "scaling", "mpc")
INTERVALS = (1, 2, 4, 8, 16, 32)
ROBOTS = ("pendulum", "two_link", "iiwa14", "hyq", "baxter", "atlas")
ROBOT, FUNCTION, FORMATS, II = "iiwa14", "rnea", "q16.16", 8
STATES, SEED = 2000, 0


def command(
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help=f"Which measurements: {' or '.join(HERE)}.")
    ],
    target: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[BUILD | ROBOT FUNCTION...]",
            help="link: the build to measure with; by default fd_derivatives of the iiwa14. cpu, "
            "cuda, compare: a robot and functions; by default those of three robots. mpc: where "
            "gradients come from; by default all.",
            show_default=False,
        ),
    ] = None,
    *,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure",
            help="core: build, verify and synthesise what is not measured yet (many minutes).",
        ),
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help=f"core: where the builds are kept (default: {bench_core.FOLDER}). cpu: gets the "
            "figures, a page and a picture. compare, scaling, mpc: where the page goes.",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("-j", "--jobs", min=1, metavar="N", help="core: builds at a time."),
    ] = None,
    device: Annotated[
        str, typer.Option(metavar="NAME", help="link, mpc: the card, sim or xdma:0.")
    ] = "sim",
    standin: Annotated[
        bool, typer.Option("--standin", help="link: through the device files of a stand-in card.")
    ] = False,
    largest: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="link, cpu, cuda, compare: requests of the largest batch. scaling: links and "
            "robots.",
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="S",
            help="link, cpu, compare: time for each size of batch. scaling: for each figure. mpc: "
            "length of the motion.",
        ),
    ] = None,
    rounds: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="cpu, cuda, compare: rounds in which all take their turn."
        ),
    ] = 7,
    native: Annotated[
        bool,
        typer.Option(help="cpu, compare: Pinocchio's C++ too, minutes of compiling a function."),
    ] = True,
    partitions: Annotated[
        bool,
        typer.Option(
            "--partitions",
            help="cuda: the gradient of forward dynamics shared with the host in three ways, as in "
            "the 2021 paper; without a GPU the host's parts alone.",
        ),
    ] = False,
    builds: Annotated[
        list[Path] | None,
        typer.Option(
            "--build",
            metavar="DIR",
            help="compare: a build folder for the rows of the FPGA; may be repeated.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Print a table of measurements.

    WHAT is core: operations, units, schedule and storage of rnea at many intervals, for many
    robots, then cores beside published designs; functions: the same for every function of the
    iiwa14, with errors; link: batches through a card, the driver alone, and a model of the
    real link; cpu: compiled functions, what bounds them, and others' code, on one core;
    cuda: the same on a GPU; compare: batches on all of these and in publications, as a page with
    plots; scaling: the papers' experiments with long chains and many robots, likewise; or mpc:
    a motion tracked in closed loop with gradients from every backend, likewise.
    """
    there = ", ".join(HERE)
    if what not in HERE:
        raise UsageError(f"There is no benchmark '{what}'; there are {there}.")
    if measure and what != "core":
        raise UsageError(f"The option --measure is for core; {what} is always measured.")
    if target and what not in ("link", "cpu", "cuda", "compare", "mpc"):
        raise UsageError(
            f"Only link, cpu, cuda, compare and mpc take a target; {what} takes no '{target[0]}'."
        )
    if builds and what != "compare":
        raise UsageError(f"The option --build is for compare; {what} takes none.")
    if partitions and what != "cuda":
        raise UsageError(f"The option --partitions is for cuda; {what} has none.")
    if what == "link":
        bench_link.run(
            target or (),
            device=device,
            standin=standin,
            largest=bench_link.LARGEST if largest is None else largest,
            seconds=bench_link.BUDGET_S if seconds is None else seconds,
            json=json,
        )
    elif what == "cpu":
        from . import bench_cpu  # it needs a compiler's modules, the others do not

        bench_cpu.run(
            target or (),
            largest=bench_cpu.SIZES[-1] if largest is None else largest,
            seconds=0.05 if seconds is None else seconds,
            rounds=rounds,
            native=native,
            json=json,
            folder=folder,
        )
    elif what == "cuda" and partitions:
        from . import bench_partitions

        bench_partitions.run(
            target or (),
            largest=bench_partitions.SIZES[-1] if largest is None else largest,
            rounds=rounds,
            seconds=0.05 if seconds is None else seconds,
            json=json,
        )
    elif what == "cuda":
        from . import bench_cuda

        bench_cuda.run(
            target or (),
            largest=bench_cuda.SIZES[-1] if largest is None else largest,
            rounds=rounds,
            json=json,
        )
    elif what == "compare":
        from . import bench_compare

        bench_compare.run(
            target or (),
            builds=builds or (),
            folder=folder or bench_compare.FOLDER,
            largest=bench_compare.SIZES[-1] if largest is None else largest,
            seconds=0.05 if seconds is None else seconds,
            rounds=rounds,
            native=native,
            json=json,
        )
    elif what == "scaling":
        from . import bench_scaling

        bench_scaling.run(
            folder=folder or bench_scaling.FOLDER,
            largest=largest,
            seconds=bench_scaling.SECONDS if seconds is None else seconds,
            json=json,
        )
    elif what == "mpc":
        from . import bench_mpc

        bench_mpc.run(
            target or (),
            folder=folder or bench_mpc.FOLDER,
            device=device,
            seconds=seconds,
            json=json,
        )
    elif what == "core":
        require("hw")
        _core(json, measure, folder or bench_core.FOLDER, jobs or len(os.sched_getaffinity(0)))
    else:
        require("hw")
        _functions(json)


def _core(json: bool, measure: bool, folder: Path, jobs: int) -> None:
    sweep = [(ROBOT, ii) for ii in INTERVALS]
    robots = [(robot, II) for robot in ROBOTS]
    wanted = list(dict.fromkeys(sweep + robots))
    done = {}
    with counted("Scheduling", total=len(wanted)) as advance:
        for robot, ii in wanted:
            done[robot, ii] = row(robot, ii)
            advance(1)
    against = _against(measure, folder, jobs)
    if json:
        put_json(
            {
                "bench": "core",
                "function": FUNCTION,
                "formats": FORMATS,
                "intervals": [done[key] for key in sweep],
                "robots": [done[key] for key in robots],
                **against,
            }
        )
        _leave(against)
        return
    console = out()
    console.print(_table(f"{ROBOT} at every interval", "ii", [done[key] for key in sweep]))
    console.print(_table(f"Robots at ii {II}", "robot", [done[key] for key in robots]))
    say(
        f"{FUNCTION} in {FORMATS}: schedules, counted without simulation. Operations are products "
        "(mul), products with constants (const), additions, sines and cosines (trig). Hardware is "
        "multipliers (mults; least is ceil(operations / ii)), adders, sine units and words of "
        "storage. Schedule is its length in cycles, from sine and cosine to the last result; the "
        "latency, beats included, is longer."
    )
    bench_core.show_comparison(against)
    _leave(against)


def _against(measure: bool, folder: Path, jobs: int) -> dict[str, Any]:
    """Published, measured and compared, each under its own key."""
    cases, published, finished = bench_core.CASES, published_designs(), 0
    with counted("Measuring cores", total=len(cases)) as advance:

        def one_more(count: int) -> None:
            nonlocal finished
            finished += count
            advance(count)

        try:
            measured = bench_core.measured(cases, folder, measure=measure, jobs=jobs, done=one_more)
        except KeyboardInterrupt:
            raise InterruptionError(
                f"Interrupted with {finished} of {len(cases)} cores finished; they are kept in "
                f"{folder}, and the same command goes on from there."
            ) from None
    return {
        "published": published,
        "measured": measured,
        "compared": compared(published["design"], measured, clock_mhz=bench_core.CLOCK_MHZ),
        "assumed": {"clock_mhz": bench_core.CLOCK_MHZ},
    }


def _leave(against: Mapping[str, Any]) -> None:
    if any(row["verified"] is False or row["failure"] for row in against["measured"]):
        raise typer.Exit(CHECK_FAILED)


def row(robot: str, ii: int) -> dict[str, Any]:
    """Operations, units, latency and registers of one robot's core at one interval."""
    from pinion.flow.design import make_design
    from pinion.flow.measure import hardware
    from pinion.functions import function
    from pinion.request import BuildRequest
    from pinion.robot import coupled, load

    model = coupled(load(robot, snap=True))
    made = make_design(model, function(FUNCTION), BuildRequest(ii=ii, formats=FORMATS))
    return {"robot": robot, "dof": model.nv, "ii": ii, **hardware(made)}


def _table(title: str, key: str, rows: list[dict[str, Any]]) -> Table:
    return table(
        key,
        *("mul", "const", "add", "trig"),
        *("mults", "least", "adders", "sines", "schedule", "words"),
        rows=[
            (
                r[key],
                *(r["ops"][name] for name in ("mul", "mul_const", "add", "trig")),
                r["multipliers"],
                r["multipliers_least"],
                r["adders"],
                r["units"].get("sincos", 0),
                r["schedule_cycles"],
                r["registers"],
            )
            for r in rows
        ],
        title=title,
    )


def _functions(json: bool) -> None:
    from pinion.functions import FUNCTIONS

    wanted = [
        (name, derivatives)
        for name in FUNCTIONS
        for derivatives in ("composite", "column")
        # The others have no gradient to formulate in one way or the other.
        if derivatives == "composite" or FUNCTIONS[name].variants
    ]
    rows = []
    with counted("Scheduling", total=len(wanted)) as advance:
        for name, derivatives in wanted:
            rows.append(function_row(name, derivatives))
            advance(1)
    if json:
        put_json(
            {
                "bench": "functions",
                "robot": ROBOT,
                "formats": FORMATS,
                "ii": II,
                "states": STATES,
                "seed": SEED,
                "functions": rows,
            }
        )
        _leave_functions(rows)
        return
    console = out()
    console.print(_operation_table(rows))
    console.print(_hardware_table(rows))
    console.print(_error_table(rows))
    say(
        f"{ROBOT} in {FORMATS} at ii {II}: schedules, counted without simulation. Operations are "
        "products (mul), products with constants (const), additions, reciprocals (recip), sines "
        "and cosines (trig); in and out are words of a record. Hardware is multipliers (mults; "
        "least is ceil(operations / ii)), adders, units with tables (sines and reciprocals) and "
        "words of storage. Schedule is its length in cycles, from sine and cosine to the last "
        "result; the latency, beats included, is longer. Errors "
        f"are those of the exact integers, on {STATES:,} states of the reference distribution: "
        "the largest of a block, over the largest value of the block, near zero over 1 % of its "
        "usual one at least. budget is how many times "
        "the largest error the derived budgets are, word by word."
    )
    _leave_functions(rows)


def _leave_functions(rows: Sequence[Mapping[str, Any]]) -> None:
    """Fail where a budget does not hold, or had nothing to hold for."""
    wrong: dict[str, list[str]] = {}
    for row in rows:
        if not row["budget_held"]:
            nothing = row["budget_held"] is None
            what = "no request has a valid result of" if nothing else "budgets do not hold for"
            wrong.setdefault(what, []).append(_label(row))
    faults = [f"{what} {', '.join(labels)}" for what, labels in wrong.items()]
    if faults:
        complain(f"The check failed: {'; '.join(faults)}.")
        raise typer.Exit(CHECK_FAILED)


def function_row(name: str, derivatives: str) -> dict[str, Any]:
    """Hardware and errors of one function of the iiwa14."""
    from pinion.flow.design import make_design
    from pinion.flow.measure import hardware, measure
    from pinion.functions import function
    from pinion.request import BuildRequest
    from pinion.robot import load

    model, wanted = load(ROBOT), function(name, derivatives=derivatives)
    made = make_design(model, wanted, BuildRequest(ii=II, formats=FORMATS))
    figures = hardware(made)
    return {
        "function": name,
        "derivatives": derivatives if wanted.variants else None,
        **figures,
        "table_units": sum(figures["units"].get(kind, 0) for kind in ("sincos", "reciprocal")),
        "words_in": len(made.fixed.inputs),
        "words_out": len(made.fixed.outputs),
        **measure(model, wanted, made, states=STATES, seed=SEED),
    }


def _label(row: Mapping[str, Any]) -> str:
    column = row["derivatives"] == "column"
    return f"{row['function']}, column" if column else str(row["function"])


def _operation_table(rows: list[dict[str, Any]]) -> Table:
    return table(
        "function",
        *("mul", "const", "add", "recip", "trig", "in", "out"),
        rows=[
            (
                _label(r),
                *(r["ops"][op] for op in ("mul", "mul_const", "add", "reciprocal", "trig")),
                *(r[key] for key in ("words_in", "words_out")),
            )
            for r in rows
        ],
        title="Operations and records",
    )


def _hardware_table(rows: list[dict[str, Any]]) -> Table:
    return table(
        "function",
        *("mults", "least", "adders", "tables", "schedule", "words"),
        rows=[
            (
                _label(r),
                *(r[key] for key in ("multipliers", "multipliers_least", "adders", "table_units")),
                *(r[key] for key in ("schedule_cycles", "registers")),
            )
            for r in rows
        ],
        title="Hardware",
    )


def _error_table(rows: list[dict[str, Any]]) -> Table:
    def by_block(values: Mapping[str, float | None]) -> str:
        return "\n".join(cell(None if v is None else float(f"{v:.2g}")) for v in values.values())

    return table(
        "function",
        *("result", "median", "largest", "held", "budget", "flagged"),
        rows=[
            (
                _label(r),
                "\n".join(r["rel_err_max"]),
                by_block(r["rel_err_median"]),
                by_block(r["rel_err_max"]),
                r["budget_held"],
                margin_words(r["budget_over_largest"]),
                r["flagged"],
            )
            for r in rows
        ],
        title="Relative errors and budgets",
        left=2,
    )
