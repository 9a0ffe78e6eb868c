"""A build's promises on every distribution of states, by the integers that its RTL equals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pinion.base.progress import SILENT, Progress
from pinion.flow.build import Build, BuildError
from pinion.flow.states import stray
from pinion.functions import DISTRIBUTIONS, sample
from pinion.link.accuracy import quantile

from .reference import Reference, float_values, request_words

STATES = 20_000
"""Requests of each distribution, unless another number is asked for."""

# Requests at a time: all nodes of a large graph would not fit into memory.
_CHUNK = 2_000


def check_promises(
    folder: Path,
    *,
    samples: int = STATES,
    seed: int = 0,
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Compare integers and floats on every distribution; nothing is simulated.

    Parameters
    ----------
    samples, seed : requests of each distribution. A build measures other ones.
    progress : told each step and the share of it that is done.

    Returns
    -------
    JSON-able figures, by distribution under ``distributions``: ``promise``, the largest relative
    error (:mod:`pinion.link.relative`) of a valid result, which is neither flagged nor undecided
    (None where the build saw none: one that comes all the same is held to the promise of the
    build's own distribution), and ``largest``, what was found (None without any);
    ``flagged``, ``undecided``, ``valid``; ``wrong``, how many requests break the promise; ``held``:
    none does, and on the build's own distribution some request is valid. ``ok``: all are.

    Raises
    ------
    BuildError, pinion.link.manifest.ManifestError
        No sample is asked for; the folder is no build, or promises nothing.
    """
    if samples < 1:
        raise BuildError(f"A verification needs at least 1 sample, not {samples}.")
    reference = Reference(Build.read(folder))
    found = {}
    for distribution in DISTRIBUTIONS:
        progress.step(f"Evaluating {samples:,} {distribution} states")
        found[distribution] = _on(reference, distribution, samples, seed, progress)
    manifest = reference.build.manifest
    return {
        **{key: getattr(manifest, key) for key in ("robot", "function", "formats")},
        "home": manifest.budget_distribution,
        "samples": samples,
        "seed": seed,
        "distributions": found,
        "ok": all(figures["held"] for figures in found.values()),
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
        got, flags = reference.expected(words)
        comparison = reference.comparison(words, float_values(got), flags, times=times)
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
