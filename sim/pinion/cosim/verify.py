"""Verification of a build: requests through its RTL, against the integers and the floats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.boards.build import RTLIL, VERILOG, Build, BuildError
from pinion.functions import sample
from pinion.hls.budget import MARGIN, state_budgets

from .compiled import CompiledCore
from .reference import Reference, Words, request_words
from .runner import run_bench
from .scoreboard import Divergence, first_divergence
from .stream import StreamResult, pack_records, unpack_records

SIMULATORS = ("compiled", "icarus", "verilator")


def _quiet(message: str) -> None:
    del message


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
    report: Callable[[str], None] = _quiet,
) -> dict[str, Any]:
    """Send random requests through a build's RTL and compare every answer.

    Parameters
    ----------
    samples, seed, distribution : the requests (:func:`pinion.functions.sample`).
    simulator : ``compiled`` (CXXRTL, the embedded default), ``icarus`` or ``verilator`` (the same
        stream under cocotb, the float model running inside the bench).
    idle, stall : patterns of host pauses before requests and back-pressure on results.

    Returns
    -------
    JSON-able figures. ``mismatches``: requests whose result words or flag differ from the integer
    model in any bit. ``rel_err_*``: for each request and block, max |RTL - float| / max |float|
    over the block, unflagged requests. ``error_max``, ``budget``: largest absolute error and bound
    by result word. ``wrong_unflagged``: unflagged requests outside the budget. ``latency_cycles``:
    the datapath's, measured. ``ok``: everything holds.

    Raises
    ------
    ValueError, RuntimeError
        Subclasses with a sentence: no build folder, an unknown name, a simulator that is missing.
    """
    if simulator not in SIMULATORS:
        raise BuildError(
            f"There is no simulator '{simulator}'; choose one of {', '.join(SIMULATORS)}."
        )
    if samples < 1:
        raise BuildError(f"A verification needs at least 1 sample, not {samples}.")
    build = Build.read(folder)
    reference = Reference(build)
    manifest = build.manifest
    arrays = sample(build.model, build.function, samples, distribution=distribution, seed=seed)
    words = request_words(arrays)
    report("Evaluating the integer model")
    expected, flags = reference.expected(words)
    result = _simulate(build, words, simulator, distribution, idle, stall, waves, report)
    report("Comparing")
    got = unpack_records(result.beats, words=manifest.words_out, beats=manifest.beats_out)
    got_flags = result.user[manifest.beats_out - 1 :: manifest.beats_out]
    last_ok = _lasts_are_right(result, manifest.beats_out)
    wrong = (got != expected).any(axis=1) | (got_flags != flags) | ~last_ok
    figures: dict[str, Any] = {
        "samples": samples,
        "seed": seed,
        "simulator": simulator,
        "distribution": distribution,
        "mismatches": int(wrong.sum()),
        "flagged": int(got_flags.sum()),
    }
    figures |= _accuracy(reference, words, got, got_flags, distribution)
    figures |= _timing(build, result, paused=idle is not None or stall is not None)
    figures["first_divergence"] = None
    if wrong.any():
        report("Looking for the first operation that differs")
        figures["first_divergence"] = str(
            diverging(reference, words, int(np.flatnonzero(wrong)[0]), Path(folder))
        )
    figures["ok"] = bool(
        not wrong.any()
        and figures["budget_held"]
        and figures["wrong_unflagged"] == 0
        and figures["rate_held"]
    )
    return figures


def diverging(reference: Reference, words: Words, request: int, folder: Path) -> Divergence:
    """The first divergence of a failing request; its waveform goes to ``folder/sim``."""
    return first_divergence(reference, words, request, folder=folder / "sim")


def _simulate(
    build: Build,
    words: Words,
    simulator: str,
    distribution: str,
    idle: NDArray[np.bool_] | None,
    stall: NDArray[np.bool_] | None,
    waves: bool,
    report: Callable[[str], None],
) -> StreamResult:
    manifest = build.manifest
    beats, last = pack_records(words, lanes=manifest.lanes_in, beats=manifest.beats_in)
    expected_beats = len(words) * manifest.beats_out
    sim = build.folder / "sim"
    if simulator == "compiled":
        report("Compiling the simulation")
        core = CompiledCore.build(rtlil=build.folder / RTLIL, folder=sim)
        report(f"Simulating {len(words)} requests")
        return core.run(beats, last, expected_beats=expected_beats, idle=idle, stall=stall).check()
    report(f"Simulating {len(words)} requests under cocotb with {simulator}")
    return run_bench(
        verilog=build.folder / VERILOG,
        folder=sim,
        simulator=simulator,  # type: ignore[arg-type]
        beats=beats,
        last=last,
        expected_beats=expected_beats,
        reference="pinion.cosim.reference:make" if distribution == "reference" else None,
        reference_folder=build.folder,
        words_in=manifest.words_in,
        words_out=manifest.words_out,
        idle=idle,
        stall=stall,
        waves=waves,
    ).check()


def _lasts_are_right(result: StreamResult, beats: int) -> NDArray[np.bool_]:
    """Records (n,) whose TLAST stands on the last beat and nowhere else."""
    last = result.last.reshape(-1, beats)
    right: NDArray[np.bool_] = last[:, -1] & ~last[:, :-1].any(axis=1)
    return right


def _accuracy(
    reference: Reference,
    words: Words,
    got: Words,
    flagged: NDArray[np.bool_],
    distribution: str,
) -> dict[str, Any]:
    floats = reference.float_model(words)
    values = np.ascontiguousarray(got).view(np.float32).astype(np.float64)
    error = np.abs(values - floats)
    if distribution == "reference":
        bounds = np.broadcast_to(reference.budget, error.shape)
    else:
        # The manifest's budget is for the reference distribution; elsewhere each state has its own.
        by_word = state_budgets(reference.graph, reference.columns(words))
        bounds = np.stack([by_word[name] for name, _ in reference.graph.outputs], axis=1) * MARGIN
    good = ~flagged
    outside = ~(error <= bounds)  # NaN is outside
    names = [name for name, _ in reference.graph.outputs]
    largest = error[good].max(axis=0) if good.any() else np.full(len(names), np.nan)
    figures: dict[str, Any] = {
        "wrong_unflagged": int(outside[good].any(axis=1).sum()),
        "budget_held": bool(not outside[good].any()),
        "error_max": _by_name(names, largest),
        "budget": _by_name(names, bounds.max(axis=0)),
    }
    relative: dict[str, NDArray[np.float64]] = {}
    block_errors, block_floats = reference.blocks(error), reference.blocks(floats)
    for name, block in block_errors.items():
        scale = np.abs(block_floats[name]).max(axis=1)
        relative[name] = (block.max(axis=1) / np.where(scale > 0, scale, 1.0))[good]
    for key, quantile in (("median", 0.5), ("p99", 0.99), ("max", 1.0)):
        figures[f"rel_err_{key}"] = {
            name: float(np.quantile(r, quantile)) if len(r) else None
            for name, r in relative.items()
        }
    return figures


def _by_name(names: list[str], values: NDArray[np.float64]) -> dict[str, float | None]:
    return {n: float(v) if np.isfinite(v) else None for n, v in zip(names, values, strict=True)}


def _timing(build: Build, result: StreamResult, *, paused: bool) -> dict[str, Any]:
    """Rates and latencies from the cycle stamps of the RTL."""
    manifest = build.manifest
    done = result.emitted[manifest.beats_out - 1 :: manifest.beats_out]
    count = len(done)
    rate = float(done[-1] - done[0]) / (count - 1) if count > 1 else float(manifest.ii)
    total = int(done[0] - result.accepted[0])
    # From launch to the last beat, what the edges add is fixed; the rest is the datapath.
    inside = int(done[0] - result.launched[0])
    promised = build.schedule["last_beat"]
    return {
        "latency_cycles": manifest.latency_cycles + inside - promised,
        "total_latency_cycles": total,
        "cycles_per_result": rate,
        "simulated_cycles": result.cycles,
        "rate_held": paused
        or (rate == manifest.ii and inside == promised and total <= manifest.total_latency_cycles),
    }
