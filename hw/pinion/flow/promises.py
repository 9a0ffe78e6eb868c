"""What a build promises of its errors, by distribution, and what it was measured on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from pinion.functions import DISTRIBUTIONS, BuiltFunction, sample
from pinion.graph.progress import Advance, unheard
from pinion.hls import Design
from pinion.link import Manifest
from pinion.link.relative import rounded_up
from pinion.robot import Model

from .measure import compare
from .states import stray

STATES, SEED = 4_000, 20261123
"""Requests of each distribution that a build measures its integers on."""

GATE = 1e-2
"""Largest relative error that a uniform format has to pass where nothing else was asked for."""

HEADROOM = 0.75
"""Share of the largest error asked for up to which what was measured keeps that promise."""

MARGIN = 2.0
"""Where more was measured, so many times that is promised: other requests have larger errors."""

# Streams go request by request.
_STREAM_STATES = 2_000

_CHUNK = 2_000

# Digits of a measured error, rounded up.
_DIGITS = 3

_UNIFORM = r"q\d+\.\d+"

# What a build may be given that is finer: one with formats by signal, one without.
_FINER = {
    True: "a smaller --max-error to choose the formats for",
    False: "--formats auto, or a format of more fraction bits",
}


def measured_errors(
    model: Model,
    function: BuiltFunction,
    made: Design,
    *,
    home: str,
    advance: Advance = unheard,
) -> dict[str, float]:
    """Largest relative error of the integers by distribution, of requests neither flagged nor
    undecided; distributions without any are left out.

    Parameters
    ----------
    home : the distribution that the design is made for.
    """
    found: dict[str, float] = {}
    for number, distribution in enumerate(DISTRIBUTIONS):
        worst = [0.0]
        for arrays in _requests(model, function, distribution):
            times = stray(distribution, home)
            seen = compare(model, function, made, arrays, times=times)
            errors = seen.relative(function.results, model, made.scales)
            worst += [float(error.max()) for error in errors.values() if error.size]
        # Where floats have no number, no promise is of any use: verification finds it.
        if len(worst) > 1 and np.isfinite(worst).all():
            found[distribution] = rounded_up(max(worst), _DIGITS)
        advance((number + 1) / len(DISTRIBUTIONS))
    return found


def promises(measured: Mapping[str, float], *, home: str, wanted: float) -> dict[str, float]:
    """Largest relative error of a result that is neither flagged nor undecided, by distribution.

    At home it is what was asked for. Elsewhere too, where no more than :data:`HEADROOM` of it was
    measured, or every request was flagged; else what was measured times :data:`MARGIN`.

    Parameters
    ----------
    measured : of `measured_errors`.
    home : the distribution that the design is made for.
    wanted : the largest relative error that was asked for.
    """
    return {
        distribution: wanted
        if distribution == home or not measured.get(distribution, 0.0) > HEADROOM * wanted
        else rounded_up(MARGIN * measured[distribution])
        for distribution in DISTRIBUTIONS
    }


def gate_sentence(manifest: Manifest) -> str:
    """That a build's results are not as exact as asked for, or hardly, and what to do; else empty.

    Formats by signal are chosen with headroom, so that only a uniform format comes near.
    """
    home, gate = manifest.budget_distribution, manifest.max_error
    found, chosen = (
        manifest.measured.get(home, 0.0),
        re.fullmatch(_UNIFORM, manifest.formats) is None,
    )
    if not found > (1.0 if chosen else HEADROOM) * gate:
        return ""
    what = (
        f"The largest relative error of {manifest.formats} is {found:.2g} on {home} states, "
        + ("above" if found > gate else "near")
        + f" the largest allowed, {gate:g}: "
    )
    higher = rounded_up(MARGIN * found)
    accept = f", or accept it with --max-error {higher:g}" if higher < 1.0 else ""
    return f"{what}give {_FINER[chosen]}{accept}."


def _requests(
    model: Model, function: BuiltFunction, distribution: str
) -> Iterator[dict[str, NDArray[np.float32]]]:
    """Requests of a distribution, a few at a time: all nodes of many would not fit into memory."""
    count = _STREAM_STATES if function.states else STATES
    arrays = sample(model, function, count, distribution=distribution, seed=SEED)
    step = count if function.states else _CHUNK
    for start in range(0, count, step):
        yield {name: array[start : start + step] for name, array in arrays.items()}
