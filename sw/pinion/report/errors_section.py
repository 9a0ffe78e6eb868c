"""Errors section of a build's page: histograms by output and distribution, with promises."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pinion.link.accuracy import CHECKS

from .errors import NONE_VALID
from .html import element, number, page_table, text
from .table import FigureTable, percent, short_error

WIDTH, HEIGHT, FOOT, TOP = 230, 136, 20, 18
"""Size of a histogram, and room for its axis and for the value of the promise, in user units."""

_LABEL = 36  # width of a power of ten on the axis


def errors_section(build: Mapping[str, Any], k: int) -> str:
    """Return HTML with histograms of the integer model's errors, and a verification's result."""
    errors = build["facts"].get("errors")
    body = ""
    if errors is None:
        line = (
            "No states were run for this page: leave out states=0 (--states 0) to show errors on "
            "every distribution."
        )
        body += element("p", {"class": "missing"}, text(line))
    else:
        body += _histograms(errors, build["manifest"])
    return body + _verified(build["verified"])


def _histograms(errors: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    promises = manifest.get("promises", {})
    line = (
        f"Relative errors of the exact integer model on {errors['states']:,} states of each "
        f"distribution, seed {errors['seed']}, run for this page; the core was made for "
        f"{manifest['budget_distribution']} states. The line is the build's promise. Flagged and "
        "undecided requests are not judged."
    )
    first, last = _reach(errors, promises)
    charts: dict[str, list[str]] = {}
    rows = []
    for name, distribution in errors["distributions"].items():
        promise = promises.get(name)
        for block, figures in distribution["blocks"].items():
            reason = f"{NONE_VALID}, {distribution['flagged']:,} flagged"
            chart = _chart(name, block, figures, reason, promise, errors["edges"], first, last)
            charts.setdefault(block, []).append(chart)
            status = None if figures["max"] is not None else NONE_VALID
            if promise is not None and figures["max"] is not None:
                status = "kept" if figures["max"] <= promise else "BROKEN"
            rows.append(
                (
                    name,
                    block,
                    *(short_error(figures[key]) for key in ("median", "p99", "max")),
                    short_error(promise),
                    status,
                    distribution["flagged"],
                    distribution["undecided"],
                )
            )
    table = FigureTable(
        columns=(
            *("states", "result", "median", "99 %", "largest", "promise", "held"),
            *("flagged", "undecided"),
        ),
        rows=rows,
        left=2,
    )
    return (
        element("p", {}, text(line))
        + "".join(
            element("h3", {}, text(block))
            + element("div", {"class": f"histograms n{min(len(row), 6)}"}, "".join(row))
            for block, row in charts.items()
        )
        + page_table(table)
    )


def _reach(errors: Mapping[str, Any], promises: Mapping[str, float]) -> tuple[float, float]:
    """Return the range of exponents that all charts share."""
    edges = errors["edges"]
    exponents = [
        edges[k + end]
        for distribution in errors["distributions"].values()
        for block in distribution["blocks"].values()
        for k, count in enumerate(block["counts"])
        if count
        for end in (0, 1)
    ]
    exponents += [math.log10(p) for p in promises.values() if p > 0]
    if not exponents:
        return float(edges[0]), float(edges[-1])
    return math.floor(min(exponents) - 0.2), math.ceil(max(exponents) + 0.2)


def _chart(
    name: str,
    block: str,
    figures: Mapping[str, Any],
    why: str,
    promise: float | None,
    edges: list[float],
    first: float,
    last: float,
) -> str:
    scale = WIDTH / max(last - first, 1e-9)
    top = max(figures["counts"], default=0) or 1
    floor = HEIGHT - FOOT
    parts = []
    for exponent in range(int(first), int(last) + 1):
        x = number((exponent - first) * scale)
        parts.append(element("line", {"class": "grid", "x1": x, "x2": x, "y1": 0, "y2": floor}))
        stride = max(1, math.ceil(_LABEL / scale))
        # A label at an end would be cut off, or run into the next chart.
        inside = _LABEL / 2 <= (exponent - first) * scale <= WIDTH - _LABEL / 2
        if (exponent - int(first)) % stride == 0 and inside:
            at = {"x": x, "y": HEIGHT - 6, "text-anchor": "middle"}
            parts.append(element("text", at, f"1e{exponent}"))
    for k, count in enumerate(figures["counts"]):
        if count:
            high = (floor - TOP) * count / top
            parts.append(
                element(
                    "rect",
                    {
                        **{"class": "fill", "x": number((edges[k] - first) * scale)},
                        **{"y": number(floor - high), "height": number(high)},
                        "width": number(max((edges[k + 1] - edges[k]) * scale - 1, 0.5)),
                    },
                    element("title", {}, f"{count:,} from {10 ** edges[k]:.1e}"),
                )
            )
    caption = why
    if figures["max"] is None:
        parts.append(element("text", {"x": 4, "y": 40, "class": "why"}, text(why)))
    if figures["max"] is not None:
        caption = f"median {figures['median']:.1e}, 99 % {figures['p99']:.1e}, "
        caption += f"largest {figures['max']:.1e}"
    if figures["below"]:
        caption += f"; {figures['below']:,} below {10 ** edges[0]:.0e}"
    if figures["above"]:
        caption += f"; {figures['above']:,} above {10 ** edges[-1]:.0f}, infinite or NaN"
    if promise is not None and promise > 0:
        x = number((math.log10(promise) - first) * scale)
        line = {"class": "promise", "x1": x, "x2": x, "y1": 3, "y2": floor}
        parts.append(element("line", line, element("title", {}, f"promise {promise:.2g}")))
        right = float(x) > WIDTH / 2
        at = {"class": "promised", "x": number(float(x) + (-4 if right else 4)), "y": 11}
        parts.append(
            element(
                "text",
                at | {"text-anchor": "end" if right else "start"},
                short_error(promise) or "",
            )
        )
        caption += f"; promise {promise:.2g}"
    parts.append(
        element("line", {"class": "floor", "x1": 0, "x2": WIDTH, "y1": floor, "y2": floor})
    )
    label = f"{block} on {name} states: {caption}"
    view = {"viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img", "aria-label": label}
    title = element("strong", {}, text(name)) + " states"
    return element(
        "figure", {}, element("figcaption", {}, title) + element("svg", view, "".join(parts))
    )


def _verified(verdict: Mapping[str, Any] | None) -> str:
    if verdict is None:
        line = "This build's RTL has not been verified yet: " + element(
            "code", {}, "pinion verify DIR"
        )
        return element("p", {"class": "missing"}, line + " compares every bit with the integers.")
    line = (
        f"pinion verify ran {verdict['requests']:,} {verdict['distribution']} states (seed "
        f"{verdict['seed']}, simulator: {verdict['simulator']}) through the RTL and compared every "
        f"result word and flag with the exact integers; {verdict['flagged']:,} were flagged."
    )
    table = FigureTable(
        columns=(
            *("result", "unit", "word nearest to its budget", "its largest error", "its budget"),
            *("share", "NaN or infinite"),
        ),
        rows=[
            (
                *(b["name"], b["unit"], b["word"], f"{b['error']:.2e}", f"{b['budget']:.2e}"),
                *(percent(b["share"]), b["invalid"]),
            )
            if b["word"] is not None
            else (b["name"], b["unit"], NONE_VALID, None, None, None, b["invalid"])
            for b in verdict["blocks"]
        ],
        left=3,
    )
    return (
        element("h3", {}, "Verification")
        + _verdict(verdict)
        + element("p", {}, text(line))
        + page_table(table)
    )


def _verdict(verdict: Mapping[str, Any]) -> str:
    """Return an HTML paragraph on how many requests were wrong, and which checks failed."""
    if verdict["failed"] is None:
        line = (
            "The version of Pinion that verified this build kept no verdict: how many of "
            f"{verdict['requests']:,} requests were wrong is not known. Run "
        )
        command = element("code", {}, "pinion verify DIR")
        return element("p", {"class": "missing"}, text(line) + command + " again.")
    count = f"{verdict['mismatches']:,} of {verdict['requests']:,} requests wrong"
    if not verdict["failed"]:
        sentence = (
            element("strong", {}, text(count))
            + ": every bit agrees, and every error is as promised"
        )
        return element("p", {"class": "verdict good"}, sentence + " and within its budget.")
    reasons = "; ".join(CHECKS[name] for name in verdict["failed"])
    sentence = element("strong", {}, "FAILED") + text(f", {count}: {reasons}.")
    return element("p", {"class": "verdict bad"}, sentence)
