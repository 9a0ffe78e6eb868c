"""Comparison of a build's error bounds with the errors of a verification."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pinion.base.progress import SILENT, Progress
from pinion.flow import Build, BuildError
from pinion.formats.bound import Bounds, error_bounds
from pinion.functions import Function, request_box
from pinion.graph import Word

from .verify import verify

# Allowance for rounding in the float model, relative to a block's largest result: far above the
# rounding errors of float64 and far below those of any format.
FLOAT64 = 1e-12


def build_bounds(folder: Path, distribution: str = "reference") -> Bounds:
    """Return bounds on a build's errors over the box of a distribution's requests.

    Raises
    ------
    ValueError
        Subclasses with a message for the user: if there is no build folder, no bound is known for
        the function, an input's range depends on others, or all requests in the box are flagged.
    """
    build = Build.read(folder)
    box = request_box(build.model, build.function, distribution)
    array = build.manifest.parameters
    if array is not None and array.linear_map:
        words = [f"{array.name}[{k}]" for k in range(array.words)]
        matrix, offset = np.split(np.array(array.linear_map), [-1], axis=1)
        low, high = np.array([box[word] for word in words]).T
        middle = matrix @ (low + high) / 2.0 + offset[:, 0]
        # A little outwards: what is sent is rounded to float32.
        half = np.abs(matrix) @ (high - low) / 2.0 * (1.0 + 1e-6)
        half += np.abs(middle) * 1e-6
        box |= dict(zip(words, zip(middle - half, middle + half, strict=True), strict=True))
    return error_bounds(build.graph, box)


def verify_bounded(
    folder: Path,
    *,
    bound: bool,
    distribution: str = "reference",
    function: Function | None = None,
    progress: Progress = SILENT,
    **options: Any,
) -> dict[str, Any]:
    """Verify a build, and compare its errors with bounds if ``bound`` is set.

    Parameters
    ----------
    bound : bound the errors as well, and add the figures of `bound_figures`.
    distribution, function, progress, options : as for :func:`pinion.cosim.verify.verify`.

    Raises
    ------
    ValueError, RuntimeError
        As for `build_bounds` and `verify`; BuildError if both a bound and a function are requested.
    """
    if bound and function is not None:
        raise BuildError(
            f"A bound is relative to the build's float graph, but errors would be relative to "
            f"'{function.name}': omit bound (--bound) or function (--function)."
        )
    bounds = None
    if bound:
        progress.step("Bounding the errors")
        bounds = build_bounds(folder, distribution)
    result = verify(
        folder, distribution=distribution, function=function, progress=progress, **options
    )
    return result if bounds is None else result | bound_figures(bounds, result)


def bound_figures(bounds: Bounds, verified: Mapping[str, Any]) -> dict[str, Any]:
    """Compare error bounds with a verification's errors; return entries to add to its result.

    Returns
    -------
    JSON-able figures. ``bound``: by result word, the bound on the error of unflagged requests, in
    the result's unit. ``bound_looseness``: the bound over the largest error of the verification,
    None without an error. ``bound_blocks``: for each block the largest sampled error, budget and
    bound of its words, and the ratio of the last to the first. ``bound_held``: no sampled error
    exceeds its bound; None if no request is valid. ``ok``: ``ok`` of the verification, and
    ``bound_held``.
    """
    sampled: Mapping[str, float | None] = verified["error_max"]
    budget: Mapping[str, float | None] | None = verified["budget"]
    words: dict[str, list[str]] = {}
    for word in bounds.error:
        words.setdefault(Word.of(word).block, []).append(word)
    within = True
    blocks: dict[str, dict[str, float | None]] = {}
    for block, members in words.items():
        noise = FLOAT64 * max(bounds.largest[word] for word in members)
        errors = {word: sampled[word] for word in members}
        within &= all(
            error is None or error <= bounds.error[word] + noise for word, error in errors.items()
        )
        largest = max((error for error in errors.values() if error is not None), default=None)
        end = max(bounds.error[word] for word in members)
        blocks[block] = {
            "sampled": largest,
            "budget": max((budget[word] or 0.0 for word in members), default=0.0)
            if budget
            else None,
            "bound": end,
            "looseness": _ratio(end, largest),
        }
    return {
        "bound": dict(bounds.error),
        "bound_looseness": {w: _ratio(end, sampled[w]) for w, end in bounds.error.items()},
        "bound_blocks": blocks,
        "bound_held": within if verified["valid"] else None,
        "ok": bool(verified["ok"] and within),
    }


def _ratio(bound: float, sampled: float | None) -> float | None:
    return bound / sampled if sampled else None
