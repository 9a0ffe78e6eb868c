"""Final statistics of a campaign, which depend only on its plan and its tally."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from pinion.base.arrays import Words
from pinion.card.programs import Models
from pinion.cosim.verify import FLAGGED_SHARE

from .devices import BACKENDS, EXACT
from .measure import has_budget, largest_allowed
from .plan import GIVEN, Plan
from .tally import Extreme, FigureTally, Spread


def figures(
    plan: Plan,
    reference: Models,
    total: FigureTally,
    failures: Mapping[int, str],
    words: Words | None = None,
) -> dict[str, Any]:
    """Return the final statistics of a campaign as a JSON-able dictionary.

    Returns
    -------
    JSON-able figures. ``states`` requested and ``finished``; ``mismatches``: requests whose words
    or flag differ from the integer model in any bit, None for a device that is that model or
    computes in floats, and ``first_mismatch``, the index of the first; ``flagged``, ``undecided``,
    ``valid`` (neither); ``wrong``: valid requests with a relative error above ``wrong_above`` or
    NaN; ``outside`` their budget, None if no budget applies. ``relative`` by block: ``median`` and
    ``p99`` as the bounds of their bin (:mod:`.tally`), ``max``, ``at`` (the index of the request),
    ``request`` (its arrays). ``error_max`` by word: ``value``, ``at``, ``budget``. ``failures``:
    messages by chunk. ``ok``: all chunks are finished, some request is valid and every check
    passes. ``digest``: of all the above.
    """
    build = reference.build
    manifest = build.manifest
    fixed = plan.device.partition(":")[0] not in BACKENDS
    budget = has_budget(plan, reference, fixed=fixed)
    compared = fixed and plan.device not in EXACT
    counts = total.counts
    home = plan.distribution == manifest.budget_distribution
    flags_held = not (fixed and home) or counts["flagged"] <= FLAGGED_SHARE * counts["requests"]
    names = [str(word) for word in reference.outputs]
    result: dict[str, Any] = {
        "build": plan.build,
        "robot": manifest.robot,
        "function": manifest.function,
        "formats": manifest.formats,
        **{key: getattr(plan, key) for key in ("device", "distribution", "seed", "states")},
        "chunk": plan.chunk,
        "chunks": plan.chunks,
        "finished": counts["requests"],
        "mismatches": counts["mismatches"] if compared else None,
        "first_mismatch": total.first["mismatches"],
        "flagged": counts["flagged"],
        "undecided": counts["undecided"],
        "valid": counts["valid"],
        "wrong": counts["wrong"],
        "first_wrong": total.first["wrong"],
        "wrong_above": largest_allowed(plan, reference, fixed=fixed),
        "outside": counts["outside"] if budget else None,
        "first_outside": total.first["outside"],
        "relative": {
            name: {
                "median": _ends(spread, 0.5),
                "p99": _ends(spread, 0.99),
                "max": spread.largest.value,
                "at": spread.largest.at,
                "request": extreme_request(plan, reference, spread.largest, words),
            }
            for name, spread in total.relative.items()
        },
        "error_max": {
            name: {
                "value": total.absolute[name].value,
                "at": total.absolute[name].at,
                "budget": float(reference.budget[k]) if budget else None,
            }
            for k, name in enumerate(names)
            if name in total.absolute
        },
        "failures": {str(number): sentence for number, sentence in failures.items()},
    }
    result["ok"] = bool(
        counts["requests"] == plan.states
        and counts["valid"]
        and not counts["mismatches"]
        and not counts["wrong"]
        and not counts["outside"]
        and flags_held
        and not failures
    )
    text = json.dumps(result, sort_keys=True, allow_nan=False)
    return {**result, "digest": sha256(text.encode()).hexdigest()}


def _ends(spread: Spread, share: float) -> list[float] | None:
    """Return the bounds of a quantile's bin as a list; None without numbers."""
    bin_ends = spread.quantile(share)
    return None if bin_ends is None else list(bin_ends)


def extreme_request(
    plan: Plan, reference: Models, extreme: Extreme, words: Words | None
) -> dict[str, Any] | None:
    """Return the arrays of the request with an extreme value, sampled again; None if unknown."""
    if extreme.at is None:
        return None
    if plan.distribution == GIVEN:
        if words is None:
            return None
        row = words[extreme.at : extreme.at + 1]
    else:
        number = extreme.at // plan.chunk
        at = extreme.at - number * plan.chunk
        row = plan.words(reference.build, number)[at : at + 1]
    return {name: array[0].tolist() for name, array in reference.arrays(row).items()}
