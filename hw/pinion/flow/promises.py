"""Promised errors of a build by distribution, and the measurements behind them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from pinion.base.progress import SILENT, Progress
from pinion.functions import DISTRIBUTIONS, BuiltFunction, sample
from pinion.hls import Design
from pinion.link import Manifest
from pinion.link.relative import MARGIN, rounded_up
from pinion.robot import Model

from .measure import compare
from .states import stray

STATES, SEED = 4_000, 20261123
"""Requests of each distribution on which a build measures its integers."""

MOST_STATES = 20_000
"""Requests if the promise depends on the measurement: errors have long-tailed distributions."""

GATE = 1e-2
"""Default limit on the largest relative error of a uniform format."""

# If the measured error exceeds this share of the limit, other requests may exceed the limit.
_NEAR = 0.75

_STREAM_STATES = 2_000

# Values of nodes in memory at the same time: 64 MB of integers.
_HELD = 1 << 23

# Digits of a measured error, rounded up.
_DIGITS = 3

_UNIFORM = r"q\d+\.\d+"


def measured_errors(
    model: Model,
    function: BuiltFunction,
    design: Design,
    *,
    home: str,
    limit: float,
    progress: Progress = SILENT,
) -> dict[str, float | None]:
    """Return the largest relative error of the integers on valid requests, by distribution.

    Valid requests are neither flagged nor undecided. None stands for no valid request; a
    distribution on which the floats are not finite is left out.

    Parameters
    ----------
    home : the distribution that the design is made for.
    limit : the largest relative error that was requested; 0 to promise the measured error.
    """
    measured: dict[str, float | None] = {}
    for number, distribution in enumerate(DISTRIBUTIONS):
        worst, count, valid = list[float](), 0, 0
        # The requested error is promised there, and formats were chosen on as many states.
        settled = distribution == home and design.saved is not None and limit > 0.0
        for arrays in _requests(model, function, design, distribution):
            comparison = compare(
                *(model, function, design.fixed, arrays),
                scales=design.scales,
                decisions=design.decisions,
                times=stray(distribution, home),
            )
            worst += comparison.largest.values()
            count += len(comparison.valid)
            valid += int(comparison.valid.sum())
            # The largest error of few requests says little.
            margin = MARGIN if valid >= STATES else MARGIN**2
            if count >= STATES and (settled or not margin * max(worst, default=0.0) > limit):
                break
        if not valid:
            measured[distribution] = None
        # If floats are not finite, a promise is useless: verification finds it.
        elif worst and np.isfinite(worst).all():
            measured[distribution] = rounded_up(max(worst), _DIGITS)
        progress.advance((number + 1) / len(DISTRIBUTIONS))
    return measured


def stated(measured: Mapping[str, float | None], *, home: str, name: str) -> float:
    """Return the error bound for a task's formats: :data:`MARGIN` times the measured error.

    Raises
    ------
    PromiseError
        If every request was flagged or not finite.
    """
    largest = measured.get(home) or 0.0
    if not largest > 0.0:
        raise PromiseError(
            f"The formats that the task '{name}' chose have no known error on {home} states, as "
            "results are flagged or not finite: give the task a smaller loss or a wider motion."
        )
    return rounded_up(MARGIN * largest)


class PromiseError(ValueError):
    """Error for a build for which no error bound can be stated."""


def promises(measured: Mapping[str, float | None], *, home: str, limit: float) -> dict[str, float]:
    """Return the promised largest relative error of valid results, by distribution.

    It is the requested error at home; elsewhere too, unless :data:`MARGIN` times the measured error
    is larger. Nothing is promised elsewhere if no request was valid.

    Parameters
    ----------
    measured : of `measured_errors`.
    home : the distribution that the design is made for.
    limit : the largest relative error that was requested.
    """
    limits = {}
    for distribution in DISTRIBUTIONS:
        largest = measured.get(distribution, 0.0)
        if distribution == home:
            limits[distribution] = limit
        elif largest is not None:
            limits[distribution] = max(limit, rounded_up(MARGIN * largest))
    return limits


def misses_target(manifest: Manifest) -> bool:
    """Return whether per-signal formats miss the error that they were chosen for.

    A uniform format is chosen for none.
    """
    error = manifest.measured.get(manifest.budget_distribution)
    return _by_signal(manifest) and not (error is not None and error <= manifest.max_error)


def _by_signal(manifest: Manifest) -> bool:
    return re.fullmatch(_UNIFORM, manifest.formats) is None


def gate_sentence(manifest: Manifest) -> str:
    """Return a warning if results miss the requested error or nearly do, with advice; else "".

    Per-signal formats are chosen with headroom, so only a uniform format comes near.
    """
    home, gate = manifest.budget_distribution, manifest.max_error
    by_signal = _by_signal(manifest)
    if home not in manifest.measured:
        wider = "such as q16.16" if by_signal else "with more integer bits, or formats auto"
        return (
            f"The error of {manifest.formats} on {home} states is unknown: results are flagged or "
            f"not finite, most likely because values overflow. Give a format {wider}."
        )
    error = manifest.measured[home]
    if not error > (1.0 if by_signal else _NEAR) * gate:
        return ""
    finding = (
        f"The largest relative error of {manifest.formats} is {error:.2g} on {home} states, "
        + ("above" if error > gate else "near")
        + f" the largest allowed, {gate:g}: "
    )
    higher = rounded_up(MARGIN * error)
    accept = f"accept it with max_error={higher:g} (--max-error)"
    if manifest.formats.startswith("auto"):
        advice = "finer formats were tried, and none is accurate enough"
        advice += f"; ask for max_error={higher:g} (--max-error)" if higher < 1.0 else ""
    elif by_signal:
        advice = "give formats auto, which are chosen for an error limit"
    else:
        advice = "give formats auto, or a format with more fraction bits"
        advice += f", or {accept}" if higher < 1.0 else ""
    fails = " The core is built nevertheless; pinion verify fails if it samples such a state."
    return f"{finding}{advice}.{fails if error > gate else ''}"


def _requests(
    model: Model, function: BuiltFunction, design: Design, distribution: str
) -> Iterator[dict[str, NDArray[np.float32]]]:
    """Yield requests of a distribution, in batches whose values all fit into memory.

    For functions with states there is one short stream.
    """
    if function.states:
        yield sample(model, function, _STREAM_STATES, distribution=distribution, seed=SEED)
        return
    step = max(1, min(STATES, _HELD // len(design.fixed.nodes)))
    for seed in range(SEED, SEED + MOST_STATES // STATES):
        arrays = sample(model, function, STATES, distribution=distribution, seed=seed)
        for start in range(0, STATES, step):
            yield {name: array[start : start + step] for name, array in arrays.items()}
