"""End-to-end check of a build: requests through the host driver to the simulated card."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion import driver
from pinion.base.progress import Progress
from pinion.cosim import Reference, request_words, verify
from pinion.cosim.verify import FLAGGED_SHARE
from pinion.flow import Build
from pinion.functions import sample
from pinion.link.accuracy import Verdict, margins, quantile

CHUNK = 1000
"""Requests between two progress reports."""

_RATE_SAMPLES = 500


def check(folder: Path, *, requests: int, seed: int, progress: Progress) -> dict[str, Any]:
    """Run requests of the reference distribution and compare the results with the models.

    Bits are compared with the integer model, values with the float model. The distribution of the
    errors is written into the build folder (:mod:`pinion.link.accuracy`).

    Parameters
    ----------
    folder : the build folder.
    requests, seed : number of states and their seed.
    progress : receives each step.

    Returns
    -------
    JSON-able figures: what was built, ``mismatches`` (requests with a bit that differs from the
    integer model), ``flagged``, ``valid`` (neither flagged nor undecided), quantiles of the
    relative error by block (``rel_err_*``) and of the absolute error by word (``error``),
    ``accuracy_held`` (no relative error above ``max_error``) and ``budget_held``, None if no
    request is valid, ``budget_over_largest``, ``flags_held``, ``cycles_per_result``, and how long
    the simulation took. ``ok``: no mismatch, valid requests, every error as promised, hardly any
    flags, results at the promised rate.
    """
    build = Build.read(folder)
    manifest = build.manifest
    arrays = sample(build.model, build.function, requests, distribution="reference", seed=seed)

    def count(finished: int, total: int) -> None:
        progress.step(f"driver, {finished:,} of {total:,} requests")

    progress.step("compiling the simulated card")
    with driver.open(
        build.folder, device="sim", chunk=CHUNK, on_packet=count, progress=progress
    ) as device:
        progress.step("driver, the first requests")
        began = time.perf_counter()
        result = device.run(**arrays)
        seconds = time.perf_counter() - began
    # The driver's card is idle between batches; the rate is measured on an uninterrupted stream, by
    # the RTL's own cycle stamps, with a host that is always ready.
    stream = verify(folder, samples=_RATE_SAMPLES, seed=seed + 1, progress=progress)
    rate = stream["cycles_per_result"]
    progress.step("comparing with the integer and the float model")
    parts = [a.gather(getattr(result, a.name)).reshape(requests, -1) for a in manifest.outputs]
    values = np.ascontiguousarray(np.concatenate(parts, axis=1), dtype=np.float32)
    flags = np.asarray(result.saturated)
    reference = Reference(build)
    words = request_words(manifest, arrays)
    expected, expected_flags = reference.expected(words)
    differs = (values.view(np.uint32) != expected).any(axis=1) | (flags != expected_flags)
    comparison = reference.comparison(words, values.astype(np.float64), flags)
    valid = comparison.valid
    judged = comparison.error[valid]
    promised = manifest.promise("reference")
    budget_held = comparison.held(comparison.outside(reference.budget))
    accuracy_held = comparison.held(comparison.wrong(promised))
    flagged = int(flags.sum())
    flags_held = flagged <= FLAGGED_SHARE * requests
    words_of = [name for name, _ in build.graph.outputs]
    mismatches = int(differs.sum())
    verdict = Verdict.of(
        mismatches,
        valid=bool(valid.any()),
        budget=budget_held is not False,
        accuracy=accuracy_held is not False,
        flags=flags_held,
        rate=rate == manifest.ii,
    )
    reference.distribution_of(
        comparison,
        distribution="reference",
        seed=seed,
        simulator="card",
        verdict=verdict,
    ).write(build.folder)
    return {
        **{key: getattr(manifest, key) for key in ("robot", "function", "formats", "ii")},
        **{key: getattr(manifest, key) for key in ("ops", "units", "multipliers", "adders")},
        **{key: getattr(manifest, key) for key in ("table_multipliers", "words_in", "words_out")},
        "schedule_cycles": manifest.schedule_cycles,
        "latency_cycles": manifest.latency_cycles,
        "requests": requests,
        "seed": seed,
        "cycles_per_result": rate,
        "mismatches": mismatches,
        "flagged": flagged,
        "valid": int(valid.sum()),
        **comparison.quantiles(),
        "error": _errors(judged, reference.budget, words_of),
        "accuracy_held": accuracy_held,
        "max_error": promised,
        "budget_held": budget_held,
        "budget_over_largest": margins(judged, reference.budget),
        "flags_held": flags_held,
        "simulated_cycles": result.cycles,
        "simulation_seconds": seconds,
        "simulation_requests_per_second": requests / seconds,
        "folder": str(build.folder),
        "ok": verdict.ok,
    }


def _errors(error: NDArray[Any], budget: NDArray[Any], words: Sequence[str]) -> dict[str, Any]:
    """Return, by result word, the budget and quantiles of the absolute error (None if empty)."""
    columns = {"median": 0.5, "p99": 0.99, "max": 1.0}
    rows: dict[str, Any] = {}
    for number, name in enumerate(words):
        row: dict[str, float | None] = dict.fromkeys(columns)
        if len(error):
            row = {k: quantile(error[:, number], q) for k, q in columns.items()}
        rows[name] = row | {"budget": float(budget[number])}
    return rows
