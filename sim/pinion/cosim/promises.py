"""Check of a build's promises on every distribution of states, by the exact integer model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pinion.base.progress import SILENT, Progress
from pinion.flow import Build, BuildError
from pinion.flow.states import stray
from pinion.functions import DISTRIBUTIONS, sample
from pinion.link.accuracy import quantile

from .reference import Reference, float_values, request_words

STATES = 20_000
"""Default number of requests of each distribution."""

# Requests at a time, so that all node values of a large graph fit into memory.
_CHUNK = 2_000


def check_promises(
    folder: Path,
    *,
    samples: int = STATES,
    seed: int = 0,
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Compare the integer model with the float model on every distribution, without simulation.

    Parameters
    ----------
    samples, seed : requests of each distribution, which differ from those that a build measures.
    progress : receives each step and its completed share.

    Returns
    -------
    JSON-able figures, by distribution under ``distributions``: ``promise``, the largest relative
    error (:mod:`pinion.link.relative`) of a valid result, which is neither flagged nor undecided
    (None if the build saw no valid result; the promise of the build's own distribution applies
    then), and ``largest``, the largest error found (None without any); ``flagged``, ``undecided``,
    ``valid``; ``wrong``, the number of requests that break the promise; ``held``: no request does,
    and on the build's own distribution some request is valid. ``ok``: all are held.

    Raises
    ------
    BuildError, pinion.link.manifest.ManifestError
        If no sample is requested, or the folder is not a build or promises nothing.
    """
    if samples < 1:
        raise BuildError(f"A verification needs at least 1 sample, not {samples}.")
    reference = Reference(Build.read(folder))
    by_distribution = {}
    for distribution in DISTRIBUTIONS:
        progress.step(f"Evaluating {samples:,} {distribution} states")
        by_distribution[distribution] = _on(reference, distribution, samples, seed, progress)
    manifest = reference.build.manifest
    return {
        **{key: getattr(manifest, key) for key in ("robot", "function", "formats")},
        "home": manifest.budget_distribution,
        "samples": samples,
        "seed": seed,
        "distributions": by_distribution,
        "ok": all(figures["held"] for figures in by_distribution.values()),
    }


def _on(
    reference: Reference, distribution: str, samples: int, seed: int, progress: Progress
) -> dict[str, Any]:
    build = reference.build
    promise, home = build.manifest.promise(distribution), build.manifest.budget_distribution
    times = stray(distribution, home)
    arrays = sample(build.model, build.function, samples, distribution=distribution, seed=seed)
    every = request_words(build.manifest, arrays)
    flagged = wrong = valid = 0
    largest: list[float] = []
    step = samples if build.graph.states else _CHUNK
    for start in range(0, samples, step):
        words = every[start : start + step]
        bits, flags = reference.expected(words)
        comparison = reference.comparison(words, float_values(bits), flags, times=times)
        largest += comparison.largest.values()
        flagged += int(flags.sum())
        valid += int(comparison.valid.sum())
        wrong += int(comparison.wrong(promise).sum())
        progress.advance(min(1.0, (start + step) / samples))
    return {
        "promise": build.manifest.promises.get(distribution),
        "largest": quantile(np.array(largest), 1.0),
        "flagged": flagged,
        "undecided": samples - flagged - valid,
        "valid": valid,
        "wrong": wrong,
        "held": wrong == 0 and (valid > 0 or distribution != home),
    }
