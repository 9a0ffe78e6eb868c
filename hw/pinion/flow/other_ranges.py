"""Estimated cost and errors of per-signal formats for other speeds, without scheduling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from pinion.formats import AutoFormats, PrecisionError
from pinion.formats.budget import decision_budget
from pinion.formats.signals import TableFormats
from pinion.functions import BuiltFunction, Function, sample
from pinion.graph import OPS, Graph
from pinion.graph.ops import Family
from pinion.hls import Design, operations
from pinion.hls.schedule.modulo import unit_counts
from pinion.robot import Model

from .measure import compare
from .objective import finite_ranges, objective_timing
from .states import REFERENCE, budget_states, judged_states, range_states
from .unit_cost import unit_cost

STRESS, REST = "stress", "rest"

STATES, SEED = 2_000, 20_210_223
"""Requests of each distribution for flags and errors, and their seed."""


@dataclass(frozen=True, kw_only=True)
class RangeResults:
    """Overflows and errors of a core's integer model on sampled requests.

    Members
    -------
    flagged : number of `STATES` stress states that overflowed the formats.
    errors : largest relative error of the others, by distribution with valid states.
    """

    flagged: int
    errors: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class OtherRanges:
    """Estimates for per-signal formats on other states, with a design's interval and sums.

    Members
    -------
    ranges : the states that these formats are made for.
    kind : name of the multiplier blocks.
    blocks, blocks_now : multiplier blocks with them and with the design's own, both estimated from
        the products and their widths.
    other, present : results of these formats and of the design's own.
    refused : message that says why they are out of reach; then only figures of now are present.
    """

    ranges: str
    kind: str
    blocks: int | None
    blocks_now: int
    other: RangeResults | None
    present: RangeResults
    refused: str = ""

    def figures(self) -> dict[str, object]:
        """Return the members as a flat JSON-able mapping; errors have two digits."""
        errors = {} if self.other is None else self.other.errors
        return {
            "ranges": self.ranges,
            "blocks_estimated": self.blocks,
            "blocks_now_estimated": self.blocks_now,
            "stress_states": STATES,
            "flagged": None if self.other is None else self.other.flagged,
            "flagged_now": self.present.flagged,
            **{f"error_{name}": float(f"{error:.2g}") for name, error in errors.items()},
            **{f"error_{n}_now": float(f"{error:.2g}") for n, error in self.present.errors.items()},
            "refused": self.refused,
        }

    def sentence(self) -> str:
        """Return a sentence or two that compare the build with the other choice of ``--ranges``."""
        flags = f"flags {self.present.flagged:,} of {STATES:,} {STRESS} states"
        if self.other is None or self.blocks is None:
            return (
                f"This core {flags}. Formats for {self.ranges} states are out of reach with its "
                f"sums: {self.refused} A build with ranges '{self.ranges}' (--ranges) reports what "
                "is within reach."
            )
        errors = [
            f"{error:.2g} on {name} states ({self.present.errors[name]:.2g} now)"
            for name, error in self.other.errors.items()
            if name in self.present.errors
        ]
        largest = f" Its largest relative errors would be {' and '.join(errors)}." if errors else ""
        return (
            f"This core {flags}. Made for {self.ranges} states (--ranges {self.ranges}) it would "
            f"flag {self.other.flagged:,} and take about {self.blocks:,} {self.kind} "
            f"({self.blocks_now:,} now; estimates).{largest}"
        )


def other_ranges(model: Model, row: Function, design: Design) -> OtherRanges | None:
    """Choose formats for the URDF's speed limits instead of rated speeds, or the other way round.

    They are chosen on as many states as in a build, since fewer show smaller errors and ask for
    fewer wide ports. The sums stay as they are, and nothing is scheduled.

    Parameters
    ----------
    design : of the function for the robot, with per-signal formats.

    Returns
    -------
    None for formats that were made for other states, and if both states are the same: the function
    takes no rates, or the URDF has no limits besides the rated speeds.
    """
    assert design.saved is not None
    saved, graph, ii = design.saved, design.real, design.binding.schedule.ii
    if saved.distribution not in (REFERENCE, STRESS):
        return None
    ranges = REFERENCE if saved.distribution == STRESS else STRESS
    if _alike(model, row, ranges, saved.distribution):
        return None
    multiplier = saved.tables.multiplier
    kind = "multipliers of 18 x 18 bits" if multiplier.square else "DSP48E2"
    blocks_now = unit_cost(design.binding.schedule.units)[0]
    present = _judged(model, row, design)
    states = range_states(model, row, ranges)
    try:
        auto = AutoFormats(
            states=states,
            judged=judged_states(model, row, ranges),
            scales=design.scales,
            tables=TableFormats.of(
                graph, finite_ranges(graph, states), multiplier=multiplier, turn=saved.tables.turn
            ),
            max_error=saved.max_error,
            distribution=ranges,
        )
        fixed, _ = _reachable(auto, graph).refine(graph, ii)
    except ValueError as error:
        return OtherRanges(
            ranges=ranges,
            kind=kind,
            blocks=None,
            blocks_now=blocks_now,
            other=None,
            present=present,
            # Its advice concerns these sums; a build's refusal concerns its own.
            refused=f"{str(error).partition('. ')[0].removesuffix('.')}.",
        )
    units = unit_counts(operations(fixed, objective_timing("area", auto)), ii)
    alternative = replace(
        design, fixed=fixed, decisions=decision_budget(fixed, budget_states(model, row, ranges))
    )
    return OtherRanges(
        ranges=ranges,
        kind=kind,
        blocks=unit_cost(units)[0],
        blocks_now=blocks_now,
        other=_judged(model, row, alternative),
        present=present,
    )


def _reachable(auto: AutoFormats, graph: Graph) -> AutoFormats:
    """Return the formats if accurate enough, or finer ones with longer sine and cosine words.

    Two wide ports for every product show it immediately; refining would try many sets of them.

    Raises
    ------
    PrecisionError
        If neither reaches it.
    """
    if auto.tables.multiplier.square:  # no wider ones exist, and refining says so at once
        return auto
    every = frozenset(
        i for i, node in enumerate(graph.nodes) if OPS[node.op].family is Family.PRODUCT
    )
    error = auto.max_error
    for plan in filter(None, (auto, auto.finer())):
        error = plan.error(graph, plan.lower(graph, every))
        if error <= plan.max_error:
            return plan
    raise PrecisionError(
        f"A maximum relative error of {auto.max_error:g} is out of reach: with 27 x 27 bits in "
        f"every product it is {error:.2g}."
    )


def _alike(model: Model, row: Function, first: str, second: str) -> bool:
    """Return whether samples of a function's requests are identical for two distributions."""
    requests = [sample(model, row, 16, distribution=d, seed=SEED) for d in (first, second)]
    return all(np.array_equal(requests[0][name], requests[1][name]) for name in requests[0])


def _judged(model: Model, row: Function, design: Design) -> RangeResults:
    """Count flagged requests at the URDF's limits; measure errors at rated speeds and at rest."""
    function = BuiltFunction.of(row, model)
    flagged, errors = 0, {}
    for name in (STRESS, REFERENCE, REST):
        arrays = sample(model, function, STATES, distribution=name, seed=SEED)
        comparison = compare(
            model, function, design.fixed, arrays, scales=design.scales, decisions=design.decisions
        )
        if name == STRESS:
            flagged = int(comparison.flagged.sum())
        elif largest := comparison.largest:
            errors[name] = max(largest.values())
    return RangeResults(flagged=flagged, errors=errors)
