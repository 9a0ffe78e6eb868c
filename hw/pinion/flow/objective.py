"""Objectives of a core: latencies of its units, and per-signal formats.

``area`` is the default: the fewest registers and lookup tables at the assumed clock. ``latency``
leaves out a register of each product and makes two additions in a cycle if that finishes earlier.
``throughput`` raises the clock: a register between the selection of an operand and the first carry
chain behind it, everywhere, so that the longest path is one lookup table and a carry chain.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from pinion.base.arrays import Floats
from pinion.formats import AutoFormats, FormatPlan
from pinion.formats.auto import HEADROOM, MAX_ERROR, MAX_ERROR_SHORT
from pinion.formats.multiplier import DSP48E2, Multiplier, multiplier_of
from pinion.formats.planfile import read_plan
from pinion.formats.signals import TableFormats
from pinion.functions import Function
from pinion.gateware import timing_for
from pinion.graph import Graph, names
from pinion.graph.ranges import Ranges, measure_ranges
from pinion.hls import Timing
from pinion.request import BuildRequest
from pinion.robot import Model

from .promises import GATE
from .states import REFERENCE, judged_states, range_states

AUTO = "auto"
# Words of 18 bits: every product is one multiplier of 18 x 18 bits, for FPGAs without wider ones.
# Shorter words take less wire and logic.
AUTO18 = "auto18"

PLAN_SUFFIX = ".toml"
"""Suffix of formats that are the path of a plan."""

OBJECTIVES = ("area", "latency", "throughput")


# Shares of sums' slack to try: saving adders costs cycles if units are shared.
PATIENCE: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {"area": (1.0,), "latency": (0.5, 0.0), "throughput": (1.0,)}
)

# Below this error the rounding of short sines and cosines matters.
_FINE = 2e-4


class ObjectiveError(ValueError):
    """Error for an objective or a precision that is not available."""


def signal_multiplier(formats: str) -> Multiplier | None:
    """Return the multiplier of per-signal formats (``auto``, ``auto18``, ``auto14``), else None.

    Raises
    ------
    ObjectiveError
        If no multiplier has such words.
    """
    if formats == AUTO:
        return DSP48E2
    if not (match := re.fullmatch(rf"{AUTO}(\d+)", formats)):
        return None
    try:
        return multiplier_of(int(match[1]))
    except ValueError as error:
        raise ObjectiveError(f"The formats '{formats}' are not available: {error}") from None


def objective_timing(objective: str, plan: FormatPlan | AutoFormats) -> Timing:
    """Return the unit latencies for an objective.

    Raises
    ------
    ObjectiveError
        If there is no such objective.
    """
    if objective not in OBJECTIVES:
        raise ObjectiveError(
            f"There is no objective '{objective}'; choose one of {', '.join(OBJECTIVES)}."
        )
    # A product of one block that adds as well needs no inner register; one of four blocks does,
    # and so does one whose sum is made of lookup tables.
    signals = isinstance(plan, AutoFormats)
    adds = isinstance(plan, AutoFormats) and plan.tables.multiplier.adds
    fast = signals and objective == "latency"
    stages = 1 if fast or adds else 2
    if objective == "throughput":
        timing = timing_for(plan, multiplier_stages=stages, add=2, port=1)
    else:
        timing = timing_for(plan, multiplier_stages=stages)
    return replace(timing, chained=1 + fast, wide=int(adds))


def wanted_error(formats: str, max_error: float | None) -> float:
    """Return the largest relative error requested for a build, by default that of its formats.

    Parameters
    ----------
    formats : by name, not the path of a plan.
    """
    if max_error is not None:
        return max_error
    multiplier = signal_multiplier(formats)
    return GATE if multiplier is None else _error_by_signal(multiplier)


def _error_by_signal(multiplier: Multiplier) -> float:
    return MAX_ERROR_SHORT if multiplier.square else MAX_ERROR


def format_plan(
    model: Model,
    row: Function,
    folded: Graph,
    request: BuildRequest,
    *,
    scales: Mapping[str, float],
    headroom: float = HEADROOM,
) -> FormatPlan | AutoFormats:
    """Return the formats of a folded graph: uniform, chosen per signal, or from a plan file.

    Parameters
    ----------
    request : with its formats named. Per-signal formats are chosen for its largest error; a uniform
        format is fixed, and only the build's promise depends on it (:mod:`pinion.flow.promises`).
    scales : of the graph's result blocks.
    headroom : share of the largest error that per-signal formats are chosen for.

    Raises
    ------
    ObjectiveError
        If the largest error is not between 0 and 1, or cannot be chosen.
    pinion.formats.planfile.PlanError
        If there is no such plan, or it is incomplete.
    """
    formats, max_error, ranges = request.formats, request.max_error, request.ranges
    assert formats is not None
    if max_error is not None and not (math.isfinite(max_error) and 0.0 < max_error < 1.0):
        raise ObjectiveError(
            f"A max_error (--max-error) of {max_error:g} is not between 0 and 1: give one that is, "
            f"such as {MAX_ERROR:g}."
        )
    if signal_multiplier(formats) is None and not formats.endswith(PLAN_SUFFIX):
        plan = FormatPlan.parse(formats)
        if ranges is not None:
            raise ObjectiveError(
                f"The format {formats} is the same for every signal, so ranges (--ranges) "
                f"cannot be '{ranges}': leave ranges out, or give formats '{AUTO}'."
            )
        return plan
    return _auto_formats(model, row, folded, request, scales=scales, headroom=headroom)


def _auto_formats(
    model: Model,
    row: Function,
    folded: Graph,
    request: BuildRequest,
    *,
    scales: Mapping[str, float],
    headroom: float,
) -> AutoFormats:
    """Return per-signal formats, chosen or from a plan."""
    formats, ranges, max_error = str(request.formats), request.ranges, request.max_error
    multiplier_kind = signal_multiplier(formats)
    saved = None if multiplier_kind is not None else read_plan(Path(formats))
    if saved is not None and (ranges is not None or max_error is not None):
        raise ObjectiveError(
            f"The plan '{formats}' already states its ranges and its largest error; "
            "leave ranges (--ranges) and max_error (--max-error) out, or give formats 'auto'."
        )
    multiplier = multiplier_kind or DSP48E2
    error_limit = _error_by_signal(multiplier) if max_error is None else max_error
    distribution = REFERENCE if ranges is None else ranges
    if saved is not None:
        distribution, error_limit = saved.distribution, saved.max_error
    states = range_states(model, row, distribution)
    coarse = multiplier.square or error_limit >= _FINE
    return AutoFormats(
        states=states,
        judged=judged_states(model, row, distribution),
        scales=scales,
        tables=saved.tables
        if saved
        else TableFormats.of(
            folded,
            finite_ranges(folded, states),
            multiplier=multiplier,
            turn=multiplier.turn if coarse else multiplier.fine_turn,
        ),
        max_error=error_limit,
        headroom=headroom,
        distribution=distribution,
        saved=saved,
    )


def finite_ranges(graph: Graph, states: Mapping[str, Floats]) -> Ranges:
    """Measure the range of every node, and refuse ranges that no word can hold."""
    with np.errstate(all="ignore"):
        ranges = measure_ranges(graph, states)
    for node, largest in zip(graph.nodes, ranges.largest, strict=True):
        if not math.isfinite(largest):
            read = node.op == names.INPUT
            subject = f"'{node.params[0]}'" if read else f"The result of {node.op} in {node.line}"
            raise ObjectiveError(
                f"{subject} is not finite on some of the states that formats are chosen on: sample "
                "inputs where the function is defined and limit states that grow without bound, or "
                "give formats such as q16.16."
            )
    return ranges
