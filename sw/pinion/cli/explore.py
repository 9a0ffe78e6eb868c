"""``pinion explore``: many builds of one function, and the best of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pinion.base.escaping import identifier
from pinion.base.installation import require
from pinion.console.errors import CHECK_FAILED, InterruptionError, UsageError, complain
from pinion.console.terminal import counted, fits, out, put_json, say, show
from pinion.report.sweep import (
    kept_sentence,
    option_word,
    sweep_blocks,
    sweep_failures,
    sweep_table,
    write_sweep,
)

from .again import again
from .options import (
    Frames,
    Inputs,
    JointTerms,
    Json,
    Outputs,
    Reference,
    Robot,
    RobotArguments,
    Scheduler,
    Seed,
    Snap,
    frame_texts,
    load_both,
    names,
)

if TYPE_CHECKING:
    from pinion.cosim.explore import Runner

INTERVALS = "1,2,4,8,16,32"


def command(
    context: typer.Context,
    robot: Robot,
    function: Annotated[
        str,
        typer.Argument(
            metavar="FUNCTION", help="The function that the cores compute; the table is below."
        ),
    ],
    *,
    folder: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="Folder of the points and results. [default: build/explore/ROBOT_FUNCTION]",
        ),
    ] = None,
    ii: Annotated[
        str, typer.Option("--ii", metavar="N,N,...", help="Cycles between results; auto chooses.")
    ] = INTERVALS,
    formats: Annotated[
        str, typer.Option(metavar="NAME,...", help="Number formats, as for `pinion build`.")
    ] = "q16.16",
    objective: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="throughput, latency or area.")
    ] = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OPTION=A,B,...",
            help="Another option of `pinion build` to vary, such as derivatives=composite,column; "
            "may be repeated.",
        ),
    ] = None,
    inputs: Inputs = None,
    outputs: Outputs = None,
    joint_terms: JointTerms = None,
    frames: Frames = None,
    reference: Reference = None,
    robot_options: RobotArguments,
    snap: Snap = True,
    clock: Annotated[
        float | None,
        typer.Option(metavar="MHZ", help="Assumed clock, which no tool confirms. [default: 250]"),
    ] = None,
    samples: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of states for the errors.")
    ] = 2000,
    seed: Seed = 0,
    synth: Annotated[
        bool, typer.Option("--synth", help="Count resources with Yosys instead of estimating them.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Send the states through each point's RTL as well.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            "-j",
            "--jobs",
            min=1,
            metavar="N",
            help="Number of points built in parallel. [default: cores]",
        ),
    ] = None,
    scheduler: Scheduler = None,
    json: Json = False,
) -> None:
    """Build a function with many options and draw the Pareto front.

    Every combination of the given values is a point. The same command resumes an interrupted
    sweep. Exit code 1 if a verification fails or no point works.
    """
    require("hw", *(() if scheduler is None else ("campaign",)))
    if scheduler is not None and jobs is not None:
        raise UsageError(f"The scheduler '{scheduler}' has its own workers: leave out --jobs.")
    from pinion.cosim.explore import explore
    from pinion.flow.explore import Measurements, grid
    from pinion.functions import named_function as row
    from pinion.functions import snapping, snapping_sentence

    axes = axes_of(ii, formats, objective, sweep)
    fixed: dict[str, Any] = {}
    if clock is not None:
        fixed["clock_mhz"] = clock
    if inputs:
        fixed["inputs"] = names(inputs)
    if outputs:
        fixed["outputs"] = names(outputs)
    if joint_terms:
        fixed["joint_terms"] = names(joint_terms)
    if frames:
        fixed["frames"] = frame_texts(frames)
    if reference is not None:
        fixed["reference"] = reference
    as_read, model = load_both(robot, robot_options.options(snap=snap))
    points = grid(model, function, axes, fixed=fixed)
    plain_row = row(function)
    place = folder or Path("build") / "explore" / identifier(f"{model.name}_{plain_row.name}")
    finished = 0
    with counted("Exploring", total=len(points)) as advance:

        def count(_: Mapping[str, Any]) -> None:
            nonlocal finished
            finished += 1
            advance(1)

        try:
            with _runner(scheduler) as runner:
                rows = explore(
                    points,
                    place,
                    measure=Measurements(samples=samples, seed=seed, synth=synth, verify=verify),
                    jobs=jobs or len(os.sched_getaffinity(0)),
                    on_row=count,
                    elsewhere=runner,
                )
        except KeyboardInterrupt:
            raise InterruptionError(
                f"Interrupted with {finished} of {len(points)} points finished; finished points "
                f"are kept in '{place}'. To continue: {again(context)}"
            ) from None
    if all(row["dsp"] is None for row in rows):
        raise UsageError(f"No point could be built: {' '.join(sweep_failures(rows))}")
    result = {
        "robot": model.name,
        "function": function,
        "axes": {name: [option_word(value) for value in values] for name, values in axes.items()},
        "samples": samples,
        "seed": seed,
        "distribution": "reference",
        "assumed": ["clock_mhz"],
        "points": rows,
    }
    if snapped := snapping(as_read, model, plain_row):
        result["snapping"] = snapped.figures()
        complain(snapping_sentence(plain_row.name, snapped.figures()))
    written, earlier = write_sweep(place, result)
    if len({row["version"] for row in rows if row["version"]}) > 1:
        complain(
            "Pinion's sources changed during the sweep, so its points come from several versions; "
            "the same command measures the outdated ones again."
        )
    if json:
        files = {"files": written, "kept": earlier}
        put_json({**result, **{name: list(map(str, paths)) for name, paths in files.items()}})
    else:
        _show(result, written, earlier)
    if not any(row["usable"] for row in rows):
        complain("No point gives a core that works on reference states: choose other formats.")
        raise typer.Exit(CHECK_FAILED)
    if any(row["verified"] is False for row in rows):
        raise typer.Exit(CHECK_FAILED)


@contextmanager
def _runner(scheduler: str | None) -> Iterator[Runner | None]:
    """Yield the function that runs points on a scheduler's workers, or None without one."""
    if scheduler is None:
        yield None
        return
    from pinion.campaign import cluster, on

    with cluster(scheduler) as client:
        yield on(client)


def axes_of(
    ii: str,
    formats: str,
    objective: str | None,
    sweep: Sequence[str] | None,
) -> dict[str, list[Any]]:
    """Return the values to try, for each option that was given.

    Raises
    ------
    UsageError
        If an option has no values or is given twice.
    """
    axes: dict[str, list[Any]] = {"ii": values("--ii", ii), "formats": values("--formats", formats)}
    if objective is not None:
        axes["objective"] = values("--objective", objective)
    for text in sweep or ():
        name, equals, listed = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name:
            raise UsageError(f"A sweep (--sweep) must have the form OPTION=A,B,..., not '{text}'.")
        if name in axes:
            once = f"--{name}" if name in ("ii", "formats", "objective") else "one --sweep"
            raise UsageError(
                f"The option '{name}' already has values, so '--sweep {text}' is refused: give all "
                f"its values with {once}."
            )
        axes[name] = values(f"--sweep {name}", listed)
    for number in axes["ii"]:
        if not isinstance(number, int | None):
            raise UsageError(
                f"The interval '{number}' (--ii) is neither 'auto' nor a whole number of cycles in "
                "digits, such as 8."
            )
        if number is not None and number < 1:
            raise UsageError(
                f"The interval (--ii) must be at least 1 cycle, or 'auto', not {number} cycles."
            )
    return axes


def values(option: str, text: str) -> list[Any]:
    """Return the values of a comma-separated list: integers, other numbers, or words.

    ``auto`` is a word, except for ``--ii``, where it becomes None as in a build.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise UsageError(f"The option {option} needs at least one value, not '{text}'.")
    return [None if option == "--ii" and part == "auto" else _value(part) for part in parts]


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _show(result: Mapping[str, Any], written: Sequence[Path], earlier: Sequence[Path]) -> None:
    table = sweep_table(result)
    if table is not None and fits(table):
        show(table)
    elif table is not None:
        say(sweep_blocks(table))
        say(table.note)
    for sentence, points in sweep_failures(result["points"]).items():
        complain(f"{', '.join(points)}: {sentence}")
    out().print(f"Written to {', '.join(str(path) for path in written)}.")
    if earlier:
        out().print(kept_sentence(earlier))
