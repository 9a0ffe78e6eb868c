"""``pinion explore``: many builds of one function, and which of them are worth having."""

from __future__ import annotations

import csv
import json as jsonlib
import os
import shlex
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Annotated, Any

import typer

from .errors import CHECK_FAILED, UsageError, complain
from .options import Json, Lock, Robot, Tip, load_robot, names
from .terminal import counted, out, put_json, say, table

INTERVALS = "1,2,4,8,16,32"

TABLE, DATA, PICTURE = "explore.csv", "explore.json", "pareto"

# Columns of the CSV behind the axes; what has several figures (by block) is in the JSON alone.
_COLUMNS = (
    *("multipliers", "table_multipliers", "adders", "registers", "dsp", "dsp_source", "lut", "ff"),
    *("max_levels", "latency_cycles", "total_latency_cycles", "clock_mhz_assumed"),
    *("results_per_second", "error_median", "error_max", "error_block", "flagged", "samples"),
    *(
        "seed",
        "mismatches",
        "verified",
        "usable",
        "pareto",
        "failure",
        "version",
        "seconds",
        "folder",
    ),
)


def command(
    context: typer.Context,
    robot: Robot,
    function: Annotated[
        str, typer.Argument(metavar="FUNCTION", help="What the cores compute; the table is below.")
    ],
    *,
    folder: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="Where points and results go. [default: build/explore/ROBOT_FUNCTION]",
        ),
    ] = None,
    ii: Annotated[
        str, typer.Option("--ii", metavar="N,N,...", help="Cycles between results; auto chooses.")
    ] = INTERVALS,
    formats: Annotated[
        str, typer.Option(metavar="NAME,...", help="Number formats, as `pinion build` has them.")
    ] = "q16.16",
    objective: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="throughput, latency or area.")
    ] = None,
    clusters: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="How units are kept together.")
    ] = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OPTION=A,B,...",
            help="Any other option of a build to vary, such as derivatives=composite,column; "
            "may be repeated.",
        ),
    ] = None,
    outputs: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A result that comes only when asked for."),
    ] = None,
    lock: Lock = None,
    tip: Tip = None,
    clock: Annotated[
        float | None,
        typer.Option(
            metavar="MHZ", help="Clock to count with; nothing confirms it. [default: 250]"
        ),
    ] = None,
    samples: Annotated[int, typer.Option(min=1, metavar="N", help="States for the errors.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, metavar="S", help="Seed of the states.")] = 0,
    synth: Annotated[
        bool, typer.Option("--synth", help="Count resources by Yosys; else DSPs are estimated.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Send the states through each point's RTL as well.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option("-j", "--jobs", min=1, metavar="N", help="Points at a time. [default: cores]"),
    ] = None,
    json: Json = False,
) -> None:
    """Build a function in many ways and draw the Pareto front.

    Every combination of the given values is a point. A sweep that was interrupted goes on where it
    stopped when the same command is given again.
    """
    from pinion.cosim.explore import explore
    from pinion.flow.explore import Measurements, grid

    axes = axes_of(ii, formats, objective, clusters, sweep)
    fixed: dict[str, Any] = {}
    if clock is not None:
        fixed["clock_mhz"] = clock
    if chosen := names(outputs):
        fixed["outputs"] = chosen
    model = load_robot(robot, lock, tip)
    points = grid(model, function, axes, fixed=fixed)
    place = folder or Path("build") / "explore" / f"{model.name}_{function}"
    finished = 0
    with counted("Exploring", total=len(points)) as advance:

        def one_more(row: Mapping[str, Any]) -> None:
            nonlocal finished
            finished += 1
            advance(1)

        try:
            rows = explore(
                points,
                place,
                measure=Measurements(samples=samples, seed=seed, synth=synth, verify=verify),
                jobs=jobs or len(os.sched_getaffinity(0)),
                done=one_more,
            )
        except KeyboardInterrupt:
            complain(
                f"Interrupted with {finished} of {len(points)} points finished; they are kept in "
                f"{place}. To go on: {again(context)}"
            )
            raise
    if all(row["dsp"] is None for row in rows):
        raise UsageError(f"No point could be built: {' '.join(_failures(rows))}")
    result = {
        "robot": model.name,
        "function": function,
        "axes": {name: [_word(value) for value in values] for name, values in axes.items()},
        "samples": samples,
        "seed": seed,
        "distribution": "reference",
        "assumed": ["clock_mhz"],
        "points": rows,
    }
    written = _write(place, result)
    if len({row["version"] for row in rows if row["version"]}) > 1:
        complain(
            "Pinion's sources changed during the sweep, so points are of different ones; the same "
            "command measures again what is not of the present sources."
        )
    if json:
        put_json({**result, "files": [str(path) for path in written]})
    else:
        _show(result, written)
    if any(row["verified"] is False for row in rows):
        raise typer.Exit(CHECK_FAILED)


def axes_of(
    ii: str,
    formats: str,
    objective: str | None,
    clusters: str | None,
    sweep: Sequence[str] | None,
) -> dict[str, list[Any]]:
    """Values to try by option of a build; what was not given is no axis.

    Raises
    ------
    UsageError : an option without values, or given twice.
    """
    axes: dict[str, list[Any]] = {"ii": values("--ii", ii), "formats": values("--formats", formats)}
    for name, text in (("objective", objective), ("clusters", clusters)):
        if text is not None:
            axes[name] = values(f"--{name}", text)
    for text in sweep or ():
        name, equals, rest = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name:
            raise UsageError(f"A sweep is written OPTION=A,B,..., not '{text}'.")
        if name in axes:
            raise UsageError(f"The option '{name}' is swept twice, again by '{text}'.")
        axes[name] = values(f"--sweep {name}", rest)
    for number in axes["ii"]:
        if not isinstance(number, int | None):
            raise UsageError(
                f"The interval '{number}' is neither a whole number of cycles nor auto; "
                "see 'pinion explore --help'."
            )
    return axes


def values(option: str, text: str) -> list[Any]:
    """Values from a list with commas: whole numbers, other numbers, words.

    ``auto`` is a word, but for ``--ii``, where a build writes it as None.
    """
    found = [part.strip() for part in text.split(",") if part.strip()]
    if not found:
        raise UsageError(f"The option {option} needs at least one value, not '{text}'.")
    return [None if option == "--ii" and part == "auto" else _value(part) for part in found]


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _word(value: Any) -> Any:
    return "auto" if value is None else value


def again(context: typer.Context) -> str:
    """The command line that was given, for a shell."""
    words = ["pinion", context.info_name or "explore"]
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE":
            continue
        value = context.params[name]
        if parameter.param_type_name == "argument":
            words.append(str(value))
        elif value is True:
            words.append(parameter.opts[-1])
        else:
            many = value if isinstance(value, list | tuple) else [value]
            for item in many:
                words += [parameter.opts[-1], str(item)]
    return shlex.join(words)


def _write(folder: Path, result: Mapping[str, Any]) -> list[Path]:
    """The table, the data and the pictures; returns where they are."""
    from .explore_picture import draw_front

    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / TABLE, folder / DATA]
    _put(paths[0], csv_text(result))
    _put(paths[1], jsonlib.dumps(result, indent=1, allow_nan=False) + "\n")
    pictures = [folder / f"{PICTURE}.{kind}" for kind in ("png", "svg")]
    draw_front(pictures, result=result)
    return paths + pictures


def _put(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.part")
    part.write_text(text)
    os.replace(part, path)


def csv_text(result: Mapping[str, Any]) -> str:
    """One line a point: its place on the axes, then its figures; empty where there is none."""
    axes = [name for name in result["axes"] if name not in ("ii", "formats")]
    text = StringIO()
    writer = csv.DictWriter(
        text,
        ["robot", "function", "ii", "formats", *axes, *_COLUMNS],
        extrasaction="ignore",
        lineterminator="\n",
    )
    writer.writeheader()
    for row in result["points"]:
        options = {name: _word(row["options"].get(name)) for name in axes}
        writer.writerow(
            {**row, **options, "ii": _word(row["ii"]), "clock_mhz_assumed": row["clock_mhz"]}
        )
    return text.getvalue()


def _show(result: Mapping[str, Any], written: Sequence[Path]) -> None:
    rows = result["points"]
    good = [row for row in rows if row["dsp"] is not None]
    axes = [name for name in result["axes"] if name not in ("ii", "formats")]
    console = out()
    if good:
        synth = any(row["lut"] is not None for row in good)
        verify = any(row["mismatches"] is not None for row in good)
        extra = [
            *(("LUT", "FF", "levels") if synth else ()),
            *(("mismatches",) if verify else ()),
        ]
        console.print(
            table(
                *("best", "formats", *axes, "ii"),
                *("multipliers", "DSP", "latency", "results/s", "median", "largest", *extra),
                rows=[_cells(row, axes, synth, verify) for row in good],
                title=f"{result['function']} for {result['robot']}",
                left=2 + len(axes),
            )
        )
        say(_legend(good, result))
    for sentence, points in _failures(rows).items():
        complain(f"{', '.join(points)}: {sentence}")
    console.print(f"Written to {', '.join(str(path) for path in written)}.")


def _cells(row: Mapping[str, Any], axes: Sequence[str], synth: bool, verify: bool) -> list[Any]:
    estimate = row["dsp_source"] == "estimate"
    flagged = f" ({row['flagged']} flagged)" if row["flagged"] else ""
    rate = row["results_per_second"]
    return [
        "*" if row["pareto"] else "",
        row["formats"],
        *(_word(row["options"].get(name)) for name in axes),
        row["ii"],
        row["multipliers"],
        f"~{row['dsp']:,}" if estimate else row["dsp"],
        row["latency_cycles"],
        None if rate is None else f"{rate / 1e6:.4g} M",
        _short(row["error_median"]),
        f"{_short(row['error_max']) or '-'}{flagged}",
        *((row["lut"], row["ff"], row["max_levels"]) if synth else ()),
        *((row["mismatches"],) if verify else ()),
    ]


def _short(error: float | None) -> str | None:
    return None if error is None else f"{error:.1e}"


def _legend(rows: Sequence[Mapping[str, Any]], result: Mapping[str, Any]) -> str:
    clocks = sorted({row["clock_mhz"] for row in rows})
    sources = {row["dsp_source"] for row in rows}
    counted_by = {
        "synth": "counted by Yosys",
        "estimate": "estimated (~) from the widths of the products in the RTL",
    }
    return (
        "* marks points that no other beats in DSP blocks, latency, results a second and largest "
        f"error together. DSP blocks are {' or '.join(counted_by[s] for s in sorted(sources))}. "
        "Latency is in cycles, from sine and cosine to the last result. Results a second are for "
        f"an assumed clock of {' and '.join(f'{clock:g}' for clock in clocks)} MHz: no tool "
        "confirmed it. Errors are those of the exact integers, of the worst block of results over "
        f"the block's largest value, on {result['samples']:,} states of the reference distribution."
    )


def _failures(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """What went wrong, and at which points."""
    found: dict[str, list[str]] = {}
    for row in rows:
        sentences = [row["failure"]] if row["failure"] else []
        if row["verified"] is False:
            sentences.append(f"The check failed; see 'pinion verify {row['folder']}'.")
        for sentence in sentences:
            point = " ".join(f"{key} {_word(value)}" for key, value in row["options"].items())
            found.setdefault(sentence, []).append(point)
    return found
