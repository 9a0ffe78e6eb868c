"""Verification of a build's RTL against the integer and the float model."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.base.arrays import Words
from pinion.base.progress import SILENT, Progress
from pinion.flow import Build, BuildError
from pinion.flow.build import VERILOG
from pinion.flow.states import stray
from pinion.flow.task_record import broken_task
from pinion.formats.scales import result_blocks
from pinion.functions import Function, sample
from pinion.gateware import run_yosys
from pinion.gateware.dsp48e2 import MACRO, explicit_text, model_path
from pinion.gateware.emit import RTLIL, TOP
from pinion.gateware.foreign import check_verilog
from pinion.gateware.yosys import yosys_path
from pinion.link.accuracy import Verdict
from pinion.link.comparison import Comparison
from pinion.link.relative import floor
from pinion.link.replaced import SIMULATION

from .compiled import CompiledCore
from .reference import Reference, float_values, request_words
from .runner import run_bench
from .scoreboard import Divergence, first_divergence
from .stream import StreamResult, joined_runs, pack_records, unpack_records

# Largest share of flagged requests on the reference distribution.
FLAGGED_SHARE = 1e-3

SIMULATORS = ("compiled", "icarus", "verilator")


# Many parameters: the options of `pinion verify`, by keyword.
def verify(
    folder: Path,
    *,
    samples: int = 1000,
    seed: int = 0,
    distribution: str = "reference",
    simulator: str = "compiled",
    idle: NDArray[np.bool_] | None = None,
    stall: NDArray[np.bool_] | None = None,
    waves: bool = False,
    dsp48e2: bool = False,
    function: Function | None = None,
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Send random requests through a build's RTL, and compare every answer with the models.

    Parameters
    ----------
    samples, seed, distribution : the requests (:func:`pinion.functions.sample`).
    simulator : ``compiled`` (CXXRTL, the embedded default), ``icarus`` or ``verilator`` (the same
        stream under cocotb, the float model running inside the bench).
    idle, stall : patterns of host pauses before requests and back-pressure on results.
    dsp48e2 : use the explicit blocks of ``core.v``, with a model of the primitive, instead of the
        generic ones.
    function : the function that the folder was built from, to use its present float model or
        reference instead of the folder's float graph. No code in a folder is run.
    progress : receives each step and, if known, its completed share: of the C++ compilation, and of
        the simulated results.

    Returns
    -------
    JSON-able figures. ``mismatches``: requests whose result words or flag differ from the integer
    model in any bit. ``home``: the distribution that the build is for. ``valid``: requests that
    are neither flagged nor undecided, whose errors count; without any the verification fails.
    ``float_model``: what errors are relative to, in words.
    ``rel_err_*``: for each request and block, max |RTL - float| / max |float| over the block, of
    unflagged requests; near rest relative to at least ``floor``, by block in its unit
    (:mod:`pinion.link.relative`). ``error_max``, ``budget``: largest absolute error and bound by
    result word, on the distribution that the build is for (the reference, unless it was built for
    another). ``wrong_unflagged``: wrong unflagged requests: on that distribution those outside the
    budget; on any, those with a block's relative error above ``wrong_above``, the build's
    ``promise`` for this distribution, or its ``max_error`` on its own distribution and on any for
    which it promises nothing because it saw no valid result. ``budget_held``, ``accuracy_held``:
    there is no request of the first kind (None on other distributions), or of the second; None
    without valid requests.
    With states the requests are one stream, with a reset of the state in its middle in the compiled
    simulation; errors are those of each request alone, against floats that begin at the core's
    state, and ``drift_max`` is the difference from a stream in floats alone, which no budget
    bounds.
    ``undecided``, if the build compares: requests in which the compared values differ by less than
    their possible error, so that floats may decide differently; bits are checked for them, but no
    figure of errors counts them.
    ``snapping``: the manifest's, if any: errors are relative to the build's own robot.
    ``task``, if one chose the formats: its losses as stated and measured at the build, which are
    not measured again, and ``task_broken``: an inconsistency in them, as a message.
    ``schedule_cycles``: the datapath's, measured; ``latency_cycles``: from the first input beat to
    the last output beat. ``ok``: every check passes. On the distribution that the build is for, the
    distribution of errors and this verdict are written into the folder
    (:mod:`pinion.link.accuracy`), unless explicit blocks were requested.

    Raises
    ------
    ValueError, RuntimeError
        Subclasses with a message for the user, if there is no build folder, a name is unknown or a
        simulator is missing.
    """
    if simulator not in SIMULATORS:
        raise BuildError(
            f"There is no simulator '{simulator}'; choose one of {', '.join(SIMULATORS)}."
        )
    if samples < 1:
        raise BuildError(f"A verification needs at least 1 sample, not {samples}.")
    build = Build.read(folder)
    if dsp48e2 and not explicit_text(build.folder):
        raise BuildError(
            f"The build '{folder}' has no explicit DSP48E2 blocks, which only products of 27 x 18 "
            "bits have: build it again with formats 'auto' (--formats auto)."
        )
    reference = Reference(build, function)
    manifest = build.manifest
    progress.step(f"Drawing {samples:,} requests")
    arrays = sample(build.model, build.function, samples, distribution=distribution, seed=seed)
    words = request_words(manifest, arrays)
    progress.step("Evaluating the integer model")
    # The compiled simulation resets the state in the middle of the stream; cocotb does not.
    fresh: NDArray[np.bool_] | None = None
    if reference.graph.states and simulator == "compiled":
        fresh = np.arange(samples) == samples // 2
    expected, flags = reference.expected(words, fresh)
    result = _simulate(
        build, words, simulator, distribution, idle, stall, waves, dsp48e2, progress, fresh
    )
    progress.step("Comparing")
    results = unpack_records(
        result.beats, words=manifest.words_out, beats=manifest.beats_out, records=samples
    )
    result_flags = result.user[manifest.beats_out - 1 :: manifest.beats_out]
    last_ok = _lasts_are_right(result, manifest.beats_out)
    wrong = (results != expected).any(axis=1) | (result_flags != flags) | ~last_ok
    figures: dict[str, Any] = {
        "samples": samples,
        "seed": seed,
        "simulator": simulator,
        "distribution": distribution,
        "home": manifest.budget_distribution,
        "dsp48e2": dsp48e2,
        "float_model": _float_model(function),
        "mismatches": int(wrong.sum()),
        "flagged": int(result_flags.sum()),
        **({"snapping": manifest.snapping} if manifest.snapping else {}),
    }
    home = distribution == manifest.budget_distribution
    times = stray(distribution, manifest.budget_distribution)
    comparison = reference.comparison(
        words, float_values(results), result_flags, times=times, fresh=fresh
    )
    if manifest.decisions:
        figures["undecided"] = int(comparison.undecided.sum())
    figures["valid"] = int(comparison.valid.sum())
    figures |= _accuracy(reference, comparison, distribution)
    if reference.graph.states:
        figures |= _drift(reference, words, results, result_flags, fresh)
    # A format that flags states of the home distribution is too small.
    figures["flags_held"] = bool(not home or figures["flagged"] <= FLAGGED_SHARE * samples)
    unbroken = samples if fresh is None else samples // 2 or samples
    figures |= _timing(build, result, unbroken, paused=idle is not None or stall is not None)
    if manifest.task:
        figures["task"] = {"name": manifest.task["name"], **manifest.tracking}
        figures["task_broken"] = broken_task(Path(folder), manifest, build.graph)
    verdict = Verdict.of(
        figures["mismatches"],
        valid=figures["valid"] > 0,
        budget=figures["budget_held"] is not False,
        accuracy=figures["accuracy_held"] is not False,
        flags=figures["flags_held"],
        rate=figures["rate_held"],
        task=not figures.get("task_broken"),
    )
    if home and not dsp48e2:
        reference.distribution_of(
            comparison,
            distribution=distribution,
            seed=seed,
            simulator=simulator,
            verdict=verdict,
        ).write(build.folder)
    figures["first_divergence"] = None
    if wrong.any() and not dsp48e2:  # only generic blocks can be traced
        progress.step("Looking for the first operation that differs")
        figures["first_divergence"] = str(
            diverging(reference, words, int(np.flatnonzero(wrong)[0]), Path(folder), fresh)
        )
    figures["ok"] = verdict.ok
    return figures


def _float_model(function: Function | None) -> str:
    """Return the name of the float model that errors are relative to, for reports."""
    if function is None:
        return "the float graph in the folder"
    has_reference = getattr(function, "reference", None) is not None
    return f"the {'reference' if has_reference else 'present code'} of {function.name}"


def diverging(
    reference: Reference,
    words: Words,
    request: int,
    folder: Path,
    fresh: NDArray[np.bool_] | None,
) -> Divergence:
    """Replay a failing request from the last state reset, and return its first divergence.

    The waveform goes to ``folder/sim``.
    """
    begins = 0 if fresh is None else int(np.flatnonzero(fresh[: request + 1]).max(initial=0))
    return first_divergence(reference, words[begins:], request - begins, folder=folder / SIMULATION)


# Many parameters: options of `verify`.
def _simulate(
    build: Build,
    words: Words,
    simulator: str,
    distribution: str,
    idle: NDArray[np.bool_] | None,
    stall: NDArray[np.bool_] | None,
    waves: bool,
    dsp48e2: bool,
    progress: Progress,
    fresh: NDArray[np.bool_] | None,
) -> StreamResult:
    manifest = build.manifest
    beats, last = pack_records(words, lanes=manifest.lanes_in, beats=manifest.beats_in)
    expected_beats = len(words) * manifest.beats_out
    sim = build.folder / SIMULATION
    if simulator == "compiled":
        progress.step("Compiling the simulation")
        rtlil = explicit_rtlil(build.folder, sim) if dsp48e2 else build.folder / RTLIL
        core = CompiledCore.build(rtlil=rtlil, progress=progress)
        progress.step(f"Simulating {len(words)} requests")
        parts = [0, len(words)] if fresh is None else [0, *np.flatnonzero(fresh), len(words)]
        runs = []
        for start, end in pairwise(sorted({int(part) for part in parts})):
            if start:
                core.reset_state()
            span = slice(start * manifest.beats_in, end * manifest.beats_in)
            runs.append(
                core.run(
                    beats[span],
                    last[span],
                    expected_beats=(end - start) * manifest.beats_out,
                    idle=idle,
                    stall=stall,
                    progress=progress.part(start / len(words), end / len(words)),
                ).check()
            )
        return joined_runs(runs)
    home = distribution == manifest.budget_distribution
    progress.step(f"Simulating {len(words)} requests under cocotb with {simulator}")
    verilog = build.folder / VERILOG
    check_verilog(verilog.read_text(), where=verilog)
    # Not in the build folder, where foreign files would be linked and imported. Kept if the bench
    # fails, since the message names its log.
    work = Path(tempfile.mkdtemp(prefix="pinion-bench-"))
    result = run_bench(
        verilog=verilog,
        folder=work,
        simulator=simulator,  # type: ignore[arg-type]  # `verify` has checked the name
        beats=beats,
        last=last,
        expected_beats=expected_beats,
        reference="pinion.cosim.reference:make" if home else None,
        reference_folder=build.folder,
        words_in=manifest.words_in,
        words_out=manifest.words_out,
        idle=idle,
        stall=stall,
        waves=waves,
        defines=(MACRO,) if dsp48e2 else (),
        models=(model_path(),) if dsp48e2 else (),
        progress=progress,
    ).check()
    log_folder = sim / simulator
    log_folder.mkdir(parents=True, exist_ok=True)
    for pattern in ("bench.log", "*.fst", "*.vcd"):
        for path in work.rglob(pattern):
            shutil.copyfile(path, log_folder / path.name)
    shutil.rmtree(work)
    return replace(result, log=str(log_folder / "bench.log"))


def explicit_rtlil(folder: Path, work: Path) -> Path:
    """Write RTLIL of ``core.v`` with explicit DSP48E2 blocks and their model; return its path."""
    verilog = folder / VERILOG
    check_verilog(verilog.read_text(), where=verilog)
    path = work / "explicit.il"
    run_yosys(
        [
            f"read_verilog -D{MACRO} {yosys_path(verilog, folder=work)}",
            f"read_verilog {yosys_path(model_path(), folder=work)}",
            f"hierarchy -check -top {TOP}",
            "proc",
            f"write_rtlil {path.name}",
        ],
        folder=work,
        name="explicit",
    )
    return path


def _lasts_are_right(result: StreamResult, beats: int) -> NDArray[np.bool_]:
    """Return which records (n,) have TLAST on the last beat and on no other."""
    last = result.last.reshape(-1, beats)
    right: NDArray[np.bool_] = last[:, -1] & ~last[:, :-1].any(axis=1)
    return right


def _accuracy(reference: Reference, comparison: Comparison, distribution: str) -> dict[str, Any]:
    """Return statistics on the errors of valid requests, compared with promise and budget."""
    names = [name for name, _ in reference.graph.outputs]
    manifest = reference.build.manifest
    promised = manifest.promise(distribution)
    wrong = comparison.wrong(promised)
    figures: dict[str, Any] = {
        "error_max": _by_name(names, comparison.largest_error),
        "accuracy_held": comparison.held(wrong),
        "promise": manifest.promises.get(distribution),
        "wrong_above": promised,
        "floor": {name: floor(manifest.scales[name]) for name in comparison.relative},
        "budget_held": None,
        "budget": None,
    }
    if distribution == manifest.budget_distribution:
        outside = comparison.outside(reference.budget)
        wrong |= outside
        figures |= {
            "budget_held": comparison.held(outside),
            "budget": _by_name(names, reference.budget),
        }
    return figures | {"wrong_unflagged": int(wrong.sum()), **comparison.quantiles()}


def _drift(
    reference: Reference,
    words: Words,
    results: Words,
    flagged: NDArray[np.bool_],
    fresh: NDArray[np.bool_] | None,
) -> dict[str, Any]:
    """Return a stream's largest relative error, to the float model, and number of state resets."""
    stream = Comparison.of(
        float_values(results),
        reference.float_stream(words, fresh),
        blocks=result_blocks(reference.graph),
        scales=reference.build.manifest.scales,
        flagged=flagged,
    )
    return {
        "drift_max": stream.quantiles()["rel_err_max"],
        "state_resets": 0 if fresh is None else int(fresh.sum()),
    }


def _by_name(names: Sequence[str], values: NDArray[np.float64]) -> dict[str, float | None]:
    return {n: float(v) if np.isfinite(v) else None for n, v in zip(names, values, strict=True)}


def _timing(build: Build, result: StreamResult, unbroken: int, *, paused: bool) -> dict[str, Any]:
    """Return the rate and latency of the first ``unbroken`` requests, measured in cycles."""
    manifest = build.manifest
    end_cycles = result.emitted[manifest.beats_out - 1 :: manifest.beats_out][:unbroken]
    count = len(end_cycles)
    rate = float(end_cycles[-1] - end_cycles[0]) / (count - 1) if count > 1 else float(manifest.ii)
    total = int(end_cycles[0] - result.accepted[0])
    # From launch to the last beat the edges add a fixed delay; the remainder is the datapath's.
    inside = int(end_cycles[0] - result.launched[0])
    promised = build.schedule["last_beat"]
    return {
        "schedule_cycles": manifest.schedule_cycles + inside - promised,
        "latency_cycles": total,
        "cycles_per_result": rate,
        "simulated_cycles": result.cycles,
        "rate_held": paused
        or (rate == manifest.ii and inside == promised and total <= manifest.latency_cycles),
    }
