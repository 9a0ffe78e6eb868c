"""``pinion verify``: compare a build's RTL with the integer model, and that with floats."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from pinion.base.amounts import amount
from pinion.base.installation import require
from pinion.console.errors import CHECK_FAILED, UsageError, complain
from pinion.console.terminal import out, pairs, put_json, say, show, steps
from pinion.link import ManifestError
from pinion.link.accuracy import ErrorDistribution
from pinion.processor.folder import PROGRAM
from pinion.report import bound_table, budget_table, promise_table, relative_error_table

from .arrays import read_arrays
from .options import Folder, Json


def command(
    folder: Folder,
    *,
    samples: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Number of requests (1000; --netlist: 200; --promises: 20000 per distribution).",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="S", help="Seed of the requests.")] = 0,
    distribution: Annotated[
        str,
        typer.Option(metavar="NAME", help="States: reference, slow, rest, stress or beyond."),
    ] = "reference",
    simulator: Annotated[
        str, typer.Option(metavar="NAME", help="compiled, icarus or verilator.")
    ] = "compiled",
    netlist: Annotated[
        bool,
        typer.Option(
            "--netlist", help="Check the netlist that Yosys mapped to the ECP5, instead of the RTL."
        ),
    ] = False,
    source: Annotated[
        Path | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help="With --netlist: an .npz of requests, such as a recorded control loop, instead of "
            "random ones.",
        ),
    ] = None,
    dsp48e2: Annotated[
        bool,
        typer.Option(
            "--dsp48e2", help="Simulate the explicit DSP48E2 blocks of core.v, by a model."
        ),
    ] = False,
    promises: Annotated[
        bool,
        typer.Option(
            "--promises",
            help="Check the promised accuracy on every distribution, with the integers alone.",
        ),
    ] = False,
    bound: Annotated[
        bool,
        typer.Option(
            "--bound",
            help="Also bound the errors of every request in the distribution's box.",
        ),
    ] = False,
    function: Annotated[
        str | None,
        typer.Option(
            "--function",
            metavar="FUNCTION",
            help="The function of the build, FILE.py:FUNCTION or MODULE:FUNCTION; its code is run, "
            "and errors are relative to its reference, not to the build's float graph.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Check a build in simulation, bit for bit.

    The answers are compared with exact integers (no tolerance) and with the float model (within
    the build's error budget). Exit code 1 if a check fails.
    """
    require("hw", *(("sim",) if simulator in ("icarus", "verilator") else ()))
    if (folder / PROGRAM.name).exists():
        if (simulator, netlist, source, dsp48e2, promises, bound, function) != (
            *("compiled", False, None, False, False, False, None),
        ):
            raise UsageError(
                "A program is verified on its simulated card, against the model of the processor "
                "and the float model: leave out all options except --samples, --seed, "
                "--distribution and --json."
            )
        _program(folder, samples or 1000, seed=seed, distribution=distribution, json=json)
        return
    if netlist:
        options = (distribution, simulator, dsp48e2, bound, promises, function)
        if options != ("reference", "compiled", False, False, False, None):
            raise UsageError(
                "A netlist is simulated as compiled code, with its own DSP blocks and on reference "
                "states: leave out --distribution, --simulator, --dsp48e2, --bound, --promises and "
                "--function."
            )
        if source is not None and (samples is not None or seed):
            raise UsageError(f"The requests come from '{source}': leave out --samples and --seed.")
        _netlist(folder, samples or 200, seed=seed, recorded=source, json=json)
        return
    if source is not None:
        raise UsageError(
            f"Requests from a file ('{source}') are only for a netlist: add --netlist."
        )
    if promises:
        if bound or (distribution, simulator, dsp48e2, function) != (
            "reference",
            "compiled",
            False,
            None,
        ):
            raise UsageError(
                "The option --promises covers every distribution and simulates nothing: leave out "
                "--distribution, --simulator, --dsp48e2, --bound and --function."
            )
        _every_distribution(folder, samples, seed=seed, json=json)
        return
    from pinion.cosim import MismatchError, StreamDeadlockError
    from pinion.cosim.bound import verify_bounded
    from pinion.functions import named_function as row

    before = _measured(folder)
    try:
        with steps() as progress:
            result = verify_bounded(
                folder,
                bound=bound,
                samples=samples or 1000,
                seed=seed,
                distribution=distribution,
                simulator=simulator,
                dsp48e2=dsp48e2,
                function=None if function is None else row(function),
                progress=progress,
            )
    except (MismatchError, StreamDeadlockError) as error:
        complain(str(error))
        raise typer.Exit(CHECK_FAILED) from None
    if json:
        put_json(result)
    else:
        _show(result)
        now = _measured(folder)
        if before is not None and now is not None and now < before:
            say(
                f"Reports now show this check of {amount(now, 'request')} instead of the last one "
                f"of {before:,}: --samples {before} checks as many again."
            )
    if not result["ok"]:
        raise typer.Exit(CHECK_FAILED)


def _program(folder: Path, samples: int, *, seed: int, distribution: str, json: bool) -> None:
    """Verify a program of the dynamics processor."""
    require("sim")
    from pinion.card.programs import verify_program

    with steps() as progress:
        result = verify_program(
            folder, samples=samples, seed=seed, distribution=distribution, progress=progress
        )
    if json:
        put_json(result)
    else:
        _show(result)
    if not result["ok"]:
        raise typer.Exit(CHECK_FAILED)


def _measured(folder: Path) -> int | None:
    """Return the number of requests from which the errors in a build folder are, or None."""
    try:
        errors = ErrorDistribution.find(folder)
    except ManifestError:  # it is measured again anyway
        return None
    return None if errors is None else errors.requests


def _netlist(folder: Path, samples: int, *, seed: int, recorded: Path | None, json: bool) -> None:
    from pinion.cosim.netlist import check_netlist

    with steps() as progress:
        arrays = None if recorded is None else read_arrays(recorded)
        result = check_netlist(folder, samples, seed=seed, arrays=arrays, progress=progress)
    if json:
        put_json(result)
    else:
        keys = ("netlist", "cells", "requests", "mismatches")
        out().print(pairs([(name, result[name]) for name in keys]))
        say(
            "Every bit agrees." if result["ok"] else "The check failed: see the mismatches.",
            style="green" if result["ok"] else "bold red",
        )
    if not result["ok"]:
        raise typer.Exit(CHECK_FAILED)


def _every_distribution(folder: Path, samples: int | None, *, seed: int, json: bool) -> None:
    from pinion.cosim.promises import STATES, check_promises

    with steps() as progress:
        result = check_promises(
            folder,
            samples=samples or STATES,
            seed=seed,
            progress=progress,
        )
    if json:
        put_json(result)
    else:
        show(promise_table(result))
        say(
            "Every result that is neither flagged nor undecided is as accurate as promised."
            if result["ok"]
            else f"The check failed: {_broken_promises(result)}.",
            style="green" if result["ok"] else "bold red",
        )
    if not result["ok"]:
        raise typer.Exit(CHECK_FAILED)


def _broken_promises(result: Mapping[str, Any]) -> str:
    """Return why a check of all promises failed."""
    home, distributions = result["home"], result["distributions"]
    reasons = []
    if any(figures["wrong"] for figures in distributions.values()):
        reasons.append("some results are wrong but not flagged")
    if not distributions[home]["valid"]:
        reasons.append(
            f"no request has a valid result on {home} states, for which the core is made"
        )
    return "; ".join(reasons)


_ROWS = {
    "home": "made for",
    "dsp48e2": "explicit DSP48E2 blocks",
    "mismatches": "requests with a wrong bit",
    "accuracy_held": "errors as promised",
    "budget_held": "errors within their budgets",
    "valid": "neither flagged nor undecided",
    "wrong_unflagged": "wrong but not flagged",
    "flags_held": "flags within their limit",
    "latency_cycles": "measured latency, cycles",
    "rate_held": "a result in every interval",
}
"""Titles of rows, by key of ``--json``."""


def _show(result: Mapping[str, Any]) -> None:
    from pinion.functions import snapped_errors_sentence

    console = out()
    hidden = {"ok", "first_divergence", "promise", "wrong_above", "task_broken"}
    if result["budget"] is None:
        # On other states than the build's own any number may be flagged.
        hidden.add("flags_held")
    rows = [
        (_ROWS.get(name, name.replace("_", " ")), value)
        for name, value in result.items()
        if isinstance(value, int | float | str) and name not in hidden
    ]
    console.print(pairs(rows))
    show(relative_error_table(result))
    say(_promise(result))
    if result["budget"] is not None:
        show(budget_table(result))
    if "bound" in result:
        _show_bound(result)
    if "drift_max" in result:
        drift = ", ".join(
            f"{name} {value:.2g}"
            for name, value in result["drift_max"].items()
            if value is not None
        )
        say(
            f"A stream computed entirely in floats has relative differences of at most: {drift}. "
            "Errors accumulate over a stream, so no budget bounds these; the errors above are "
            "those of single requests that start at the core's states."
        )
    if result.get("undecided"):
        say(
            f"Undecided requests: {result['undecided']:,}. In each, a comparison is closer than "
            "the error of its operands, so the request's bits are checked, but not its errors."
        )
    if "task" in result:
        say(_task(result["task"]))
    if "snapping" in result:
        say(snapped_errors_sentence(result["snapping"]))
    if result["ok"]:
        say(
            "Every bit agrees, and every error is as promised and within its budget."
            if result["budget"]
            else "Every bit agrees, and every error is as promised.",
            style="green",
        )
        return
    if result.get("task_broken"):
        say(result["task_broken"], style="bold red")
    if not result["valid"]:
        say(_none_valid(result), style="bold red")
    broken = [name for name, holds in _promises(result).items() if not holds]
    say(f"The check failed: {', '.join(broken)}.", style="bold red")
    if result["first_divergence"]:
        say(result["first_divergence"])


def _promise(result: Mapping[str, Any]) -> str:
    """Return the promised limit on relative errors, and their smallest divisors, as text."""
    floors = ", ".join(f"{block} {value:.2g}" for block, value in result["floor"].items())
    states = f"on {result['distribution']} states"
    promised = f"Promised {states}: at most {result['wrong_above']:g}."
    if result["promise"] is None:
        promised = (
            f"Nothing is promised {states}, since the build found no valid result there; a valid "
            f"result may be off by {result['wrong_above']:g}, as on {result['home']} states."
        )
    return (
        f"{promised} An error is relative to the largest word of its block in the same request, "
        f"but near rest to at least 1 % of the block's usual size: {floors}."
    )


def _show_bound(result: Mapping[str, Any]) -> None:
    show(bound_table(result))
    say(
        "No unflagged request with inputs in the ranges of this distribution exceeds the bound, "
        "relative to the float model in exact arithmetic. Requests outside these ranges and "
        "flagged ones are not covered."
    )


def _promises(result: Mapping[str, Any]) -> dict[str, bool]:
    """Return whether each check passed, by the description of its failure."""
    # Where nothing is promised, the limit is that of the states for which the core is made.
    states = result["home"] if result["promise"] is None else result["distribution"]
    return {
        "the RTL and the integers differ": result["mismatches"] == 0,
        "no request has a valid result": result["valid"] > 0,
        "an error exceeds its budget": result["budget_held"] is not False,
        f"a relative error is above {result['wrong_above']:g}, the largest promised on {states} "
        "states": result["accuracy_held"] is not False,
        _flags(result): result["flags_held"],
        "results do not arrive at the promised rate": result["rate_held"],
        "an error is above its bound, which is a defect of Pinion": result.get("bound_held")
        is not False,
        "the build's statement about its task does not hold": not result.get("task_broken"),
    }


def _none_valid(result: Mapping[str, Any]) -> str:
    """Return why no error could be judged, and how to build a core for such states."""
    samples, flagged = amount(result["samples"], "request"), result["flagged"]
    bits = "Every bit agrees, but no accuracy" if not result["mismatches"] else "No accuracy"
    if flagged < result["samples"]:
        return (
            f"{bits} was checked: of {samples}, {flagged:,} raised the flag, and the others are "
            "undecided."
        )
    home, distribution = result["home"], result["distribution"]
    other = (
        f" Accuracy is promised for {home} states: for {distribution} states, build a core with "
        f"--ranges {distribution} --formats auto."
    )
    return (
        f"{bits} was checked: every request raised the flag ({samples})."
        f"{other if home != distribution else ''}"
    )


def _flags(result: Mapping[str, Any]) -> str:
    """Return how many requests raised the flag, the limit, and advice."""
    from pinion.cosim.verify import FLAGGED_SHARE

    return (
        f"the flag is raised by {result['flagged']:,} of {result['samples']:,} requests, and at "
        f"most {FLAGGED_SHARE:.1%} may raise it: a value overflows its format, as after a division "
        "by nearly zero or a root of a negative number (do not sample such requests, clamp the "
        "divisor, or give a format with more integer bits)"
    )


def _task(task: Mapping[str, Any]) -> str:
    """Return the tracking loss with formats chosen by a task, and what is not promised."""
    return (
        f"Formats chosen by the task '{task['name']}': the build measured a loss of "
        f"{task['found']:.2g} of float64's tracking error there ({task['loss']:g} stated), and of "
        f"{task['held_out']:.2g} on motions that the search had not seen "
        f"({task['held_out_loss']:g} stated). That does not make errors of single results small: "
        "the promise is the measured errors."
    )
