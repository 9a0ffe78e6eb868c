"""``pinion bench``: benchmarks, as tables and pages."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from pinion.base.installation import require
from pinion.bench.core import cases as bench_core
from pinion.bench.link import measure as bench_link
from pinion.console.errors import UsageError

from .options import Json

HERE = ("core", "functions", "link", "cpu", "cuda", "compare", "scaling", "mpc")


def command(
    benchmark: Annotated[
        str, typer.Argument(metavar="WHAT", help=f"The measurements: {' or '.join(HERE)}.")
    ],
    target: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[BUILD | ROBOT FUNCTION...]",
            help="link: the build to measure with; by default fd_derivatives of the iiwa14. cpu, "
            "cuda, compare: a robot and functions; by default those of three robots. mpc: sources "
            "of gradients; by default all.",
            show_default=False,
        ),
    ] = None,
    *,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure",
            help="core: build, verify and synthesise missing rows (many minutes).",
        ),
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help=f"core: where the builds are kept (default: {bench_core.FOLDER}). cpu: folder of "
            "figures, a page and a picture. compare, scaling, mpc: folder of the page.",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("-j", "--jobs", min=1, metavar="N", help="core: number of parallel builds."),
    ] = None,
    device: Annotated[
        str, typer.Option(metavar="NAME", help="link, mpc: the card, sim or xdma:0.")
    ] = "sim",
    standin: Annotated[
        bool,
        typer.Option(
            "--standin", help="link: measure through the device files of a stand-in card."
        ),
    ] = False,
    largest: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="link, cpu, cuda, compare: size of the largest batch. scaling: largest number of "
            "links and of robots.",
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="S",
            help="link, cpu, compare: time for each batch size. scaling: for each figure. mpc: "
            "duration of the motion.",
        ),
    ] = None,
    rounds: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="cpu, cuda, compare: number of rounds, in each of which all run in turn.",
        ),
    ] = 7,
    native: Annotated[
        bool,
        typer.Option(
            help="cpu, compare: also Pinocchio's C++, which takes minutes per function to compile."
        ),
    ] = True,
    partitions: Annotated[
        bool,
        typer.Option(
            "--partitions",
            help="cuda: the gradient of forward dynamics, shared with the host in three ways as in "
            "the 2021 paper; without a GPU, only the host's parts.",
        ),
    ] = False,
    parameters: Annotated[
        bool,
        typer.Option(
            "--parameters",
            help="cpu: functions with the last link's inertia, and gravity, as inputs, compared "
            "with the same with constants.",
        ),
    ] = False,
    builds: Annotated[
        list[Path] | None,
        typer.Option(
            "--build",
            metavar="DIR",
            help="compare: a build folder for the FPGA rows; may be repeated.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Run a benchmark and print its tables.

    WHAT is core: operations, units, schedule and storage of rnea at many intervals, for many
    robots, then cores compared with published designs; functions: the same for every function of
    the iiwa14, with errors; link: batches through a card, the driver alone, and a model of the
    real link; cpu: compiled functions, their bounds, and others' code, on one core; cuda: the same
    on a GPU; compare: batches on all of these and in publications, as a page with plots; scaling:
    the papers' experiments with long chains and many robots, likewise; or mpc: a motion tracked in
    closed loop with gradients from every backend, likewise.
    """
    benchmarks = ", ".join(HERE)
    if benchmark not in HERE:
        raise UsageError(f"There is no benchmark '{benchmark}': choose one of {benchmarks}.")
    if measure and benchmark != "core":
        raise UsageError(
            f"The option --measure is only for 'core': leave it out for '{benchmark}'."
        )
    if target and benchmark not in ("link", "cpu", "cuda", "compare", "mpc"):
        raise UsageError(
            "Only 'link', 'cpu', 'cuda', 'compare' and 'mpc' accept targets: leave "
            f"'{target[0]}' out for '{benchmark}'."
        )
    if builds and benchmark != "compare":
        raise UsageError(
            f"The option --build is only for 'compare': leave it out for '{benchmark}'."
        )
    if partitions and benchmark != "cuda":
        raise UsageError(
            f"The option --partitions is only for 'cuda': leave it out for '{benchmark}'."
        )
    if parameters and benchmark != "cpu":
        raise UsageError(
            f"The option --parameters is only for 'cpu': leave it out for '{benchmark}'."
        )
    if benchmark == "link":
        bench_link.run(
            target or (),
            device=device,
            standin=standin,
            largest=bench_link.LARGEST if largest is None else largest,
            seconds=bench_link.BUDGET_S if seconds is None else seconds,
            json=json,
        )
    elif benchmark == "cpu" and parameters:
        from pinion.bench.cpu import parameters as bench_parameters

        bench_parameters.run(
            target or (),
            largest=bench_parameters.SAMPLES if largest is None else largest,
            seconds=0.005 if seconds is None else seconds,
            rounds=rounds,
            json=json,
        )
    elif benchmark == "cpu":
        from pinion.bench.cpu import measure as bench_cpu

        bench_cpu.run(
            target or (),
            largest=bench_cpu.SIZES[-1] if largest is None else largest,
            seconds=0.05 if seconds is None else seconds,
            rounds=rounds,
            native=native,
            json=json,
            folder=folder,
        )
    elif benchmark == "cuda" and partitions:
        from pinion.bench.partitions import measure as bench_partitions

        bench_partitions.run(
            target or (),
            largest=bench_partitions.SIZES[-1] if largest is None else largest,
            rounds=rounds,
            seconds=0.05 if seconds is None else seconds,
            json=json,
        )
    elif benchmark == "cuda":
        from pinion.bench.cuda import measure as bench_cuda

        bench_cuda.run(
            target or (),
            largest=bench_cuda.SIZES[-1] if largest is None else largest,
            rounds=rounds,
            json=json,
        )
    elif benchmark == "compare":
        from pinion.bench.batches import measure as bench_compare

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
    elif benchmark == "scaling":
        from pinion.bench.scaling import measure as bench_scaling

        bench_scaling.run(
            folder=folder or bench_scaling.FOLDER,
            largest=largest,
            seconds=bench_scaling.SECONDS if seconds is None else seconds,
            json=json,
        )
    elif benchmark == "mpc":
        from pinion.bench.mpc import measure as bench_mpc

        bench_mpc.run(
            target or (),
            folder=folder or bench_mpc.FOLDER,
            device=device,
            seconds=seconds,
            json=json,
        )
    elif benchmark == "core":
        require("hw")
        from pinion.bench.core import measure as bench_cores

        bench_cores.run(
            json=json,
            measure=measure,
            folder=folder or bench_core.FOLDER,
            jobs=jobs or len(os.sched_getaffinity(0)),
        )
    else:
        require("hw")
        from pinion.bench.functions import measure as bench_functions

        bench_functions.run(json=json)
