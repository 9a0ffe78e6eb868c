"""A build's bound of errors beside what a verification has sampled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pinion.base.progress import SILENT, Progress
from pinion.flow.build import Build, BuildError
from pinion.formats.bound import Bounds, error_bounds
from pinion.functions import Function, request_box
from pinion.graph import Word

from .verify import verify

# The float model itself is rounded: relative to a block's largest result, far above what float64
# adds over its operations and far below what any format does.
FLOAT64 = 1e-12


def build_bounds(folder: Path, distribution: str = "reference") -> Bounds:
    """Bounds of a build's errors over the box of a distribution's requests.

    Raises
    ------
    ValueError
        Subclasses with a sentence: no build folder, a function for which no bound is known, an
        input whose range follows from others, a box all of whose requests raise the flag.
    """
    build = Build.read(folder)
    return error_bounds(build.graph, request_box(build.model, build.function, distribution))


def verify_bounded(
    folder: Path,
    *,
    bound: bool,
    distribution: str = "reference",
    function: Function | None = None,
    progress: Progress = SILENT,
    **options: Any,
) -> dict[str, Any]:
    """Verify a build, where ``bound`` is asked for beside a bound of its errors.

    Parameters
    ----------
    bound : bound the errors, too; figures are those of `bound_figures` then.
    distribution, function, progress, options : as of :func:`pinion.cosim.verify.verify`.

    Raises
    ------
    ValueError, RuntimeError
        As of `build_bounds` and `verify`; BuildError where a bound and a function are asked for.
    """
    if bound and function is not None:
        raise BuildError(
            f"A bound is relative to the build's own float graph, and errors would be to "
            f"'{function.name}': leave bound (--bound) or function (--function) out."
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
    """Figures to stand beside those of :func:`pinion.cosim.verify.verify`.

    Returns
    -------
    JSON-able figures. ``bound``: by result word, what no unflagged request's error exceeds, in the
    result's unit. ``bound_looseness``: that over the largest error of the verification, None where
    there was none. ``bound_blocks``: for each block the largest sampled error, budget and bound of
    its words, and the ratio of the last to the first. ``bound_held``: no sampled error is above
    its bound; None where no request is valid. ``ok``: that of the verification, and this.
    """
    sampled: Mapping[str, float | None] = verified["error_max"]
    budget: Mapping[str, float | None] | None = verified["budget"]
    words: dict[str, list[str]] = {}
    for word in bounds.error:
        words.setdefault(Word.of(word).block, []).append(word)
    held = True
    blocks: dict[str, dict[str, float | None]] = {}
    for block, own in words.items():
        noise = FLOAT64 * max(bounds.largest[word] for word in own)
        seen = {word: sampled[word] for word in own}
        held &= all(
            error is None or error <= bounds.error[word] + noise for word, error in seen.items()
        )
        found = max((error for error in seen.values() if error is not None), default=None)
        end = max(bounds.error[word] for word in own)
        blocks[block] = {
            "sampled": found,
            "budget": max((budget[word] or 0.0 for word in own), default=0.0) if budget else None,
            "bound": end,
            "looseness": _ratio(end, found),
        }
    return {
        "bound": dict(bounds.error),
        "bound_looseness": {w: _ratio(end, sampled[w]) for w, end in bounds.error.items()},
        "bound_blocks": blocks,
        "bound_held": held if verified["valid"] else None,
        "ok": bool(verified["ok"] and held),
    }


def _ratio(bound: float, sampled: float | None) -> float | None:
    return bound / sampled if sampled else None
