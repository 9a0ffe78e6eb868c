"""Formats chosen per signal and refined until the results are as accurate as requested."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.base.arrays import Floats
from pinion.base.progress import SILENT, Progress
from pinion.graph import OPS, Graph, node_floats
from pinion.graph.evaluate import adjoints, decisions
from pinion.graph.ops import Family
from pinion.graph.ranges import Ranges, chunks, measure_ranges, rounded_floats
from pinion.link.comparison import Comparison
from pinion.link.relative import divisors, rounded_up

from .multiplier import DSP48E2
from .planfile import SavedPlan
from .scales import result_blocks
from .signals import MARGIN, SignalPlan, TableFormats, lower_signals, plan_signals

# Largest relative error of a result block that `--formats auto` aims for.
MAX_ERROR = 1e-3

# The same for `--formats auto18`, whose words have 18 bits.
MAX_ERROR_SHORT = 5e-2

HEADROOM = 0.75
"""Share of the allowed error for which formats are chosen: the largest error of a hundred thousand
states is larger than that of a few thousand."""

# Rounds of widening the ranges of values that are mostly rounding error.
_WIDENINGS = 4

# Digits of the error in advice, rounded up.
_ADVISED_DIGITS = 3

# The uniform format with the most bits.
_LONGEST = "q16.20"

# Every how many of the states are evaluated with roundings; number of states to differentiate at.
_THIN = 8
_PROBES = 16


class PrecisionError(ValueError):
    """The requested error is out of reach; the message says which error is possible."""


@dataclass(frozen=True, kw_only=True)
class AutoFormats:
    """Choice of formats by range and sensitivity (:mod:`pinion.formats.signals`).

    Members
    -------
    states : a column (n,) for each input word: states whose ranges the formats cover.
    judged : states whose results must be accurate to `max_error`.
    scales : scales of the result blocks, to which their errors are relative near zero
        (:mod:`pinion.link.relative`).
    tables : formats of angles and pivots, which determine the latency of their units.
    margin : factor by which ranges exceed those of the states.
    max_error : largest relative error of a result block.
    headroom : share of it that the judged states may use.
    distribution : name of the states' distribution.
    saved : formats from a file, used instead of chosen ones.
    wide_share : share of the product units whose products get two wide ports, the most important
        first; otherwise as many as `max_error` requires. Errors are then not compared.
    """

    states: Mapping[str, Floats]
    judged: Mapping[str, Floats]
    scales: Mapping[str, float]
    tables: TableFormats
    margin: float = MARGIN
    max_error: float = MAX_ERROR
    headroom: float = HEADROOM
    distribution: str = "reference"
    saved: SavedPlan | None = None
    wide_share: float | None = None

    def finer(self) -> AutoFormats | None:
        """Return these formats with full-width sines and cosines; None if impossible."""
        turn = self.tables.multiplier.fine_turn
        if self.saved is not None or self.tables.multiplier.square or self.tables.turn == turn:
            return None
        return replace(self, tables=replace(self.tables, turn=turn))

    def plan(
        self, real: Graph, precise: frozenset[int] = frozenset(), ranges: Ranges | None = None
    ) -> SignalPlan:
        """Choose the formats of a real graph's signals.

        A sum that cancels may consist of rounding errors of its terms: ranges that such values
        exceed are widened, and the formats are chosen again.

        Parameters
        ----------
        precise : products that get two wide ports.
        ranges : ranges of the graph over the states, if already known.

        Raises
        ------
        PrecisionError
            If words are so short that some value is not a number.
        """
        if self.saved is not None:
            self.saved.check(real)
            return self.saved.signals
        ranges = ranges or measure_ranges(real, self.states)
        few = {name: column[::_THIN] for name, column in self.states.items()}
        for _ in range(_WIDENINGS):
            plan = plan_signals(real, ranges, self.tables, margin=self.margin, precise=precise)
            fixed, place = lower_signals(real, plan, stored=self.tables.stored)
            largest = ranges.largest.copy()
            for part in chunks(few):
                with np.errstate(all="ignore"):
                    values = rounded_floats(fixed, part)
                for i, node in place.items():
                    largest[i] = np.maximum(largest[i], np.max(np.abs(values[node])))
            if not np.isfinite(largest).all():
                lost = real.nodes[int(np.flatnonzero(~np.isfinite(largest))[0])]
                longer = "auto" if self.tables.stored < DSP48E2.wide else _LONGEST
                raise PrecisionError(
                    f"Words of {self.tables.stored} bits are too short: with rounding, the value "
                    f"of {lost.op} in {lost.line or 'the graph'} is not finite in some states, "
                    "for instance if a pivot becomes zero; use longer words, for example formats "
                    f"'{longer}' (--formats {longer})."
                )
            # For larger values, the margin covers the rounding errors.
            small = ~(largest <= ranges.largest * (1 + (self.margin - 1) / 4))
            if not small.any():
                return plan
            ranges = Ranges(np.where(small, largest, ranges.largest), ranges.smallest, ranges.rms)
        return plan_signals(real, ranges, self.tables, margin=self.margin, precise=precise)

    def lower(self, real: Graph, precise: frozenset[int] = frozenset()) -> Graph:
        """Return a real graph rewritten in the fixed dialect."""
        return lower_signals(real, self.plan(real, precise), stored=self.tables.stored)[0]

    def error(self, real: Graph, fixed: Graph) -> float:
        """Return the largest relative error of any result block over the judged states.

        States in which rounding changes a comparison are left out: their results have no bound. If
        none is left, the error is infinite.
        """
        errors: list[float] = []
        for part in chunks(self.judged):
            count = np.size(next(iter(part.values())))
            rounded = rounded_floats(fixed, part)
            comparison = Comparison.of(
                _results(fixed, rounded, count),
                _results(real, node_floats(real, part), count),
                blocks=result_blocks(real),
                scales=self.scales,
                undecided=~_decided_alike(fixed, part, rounded, count),
            )
            errors += comparison.largest.values()
        return float(np.max(errors)) if errors else math.inf  # nothing was compared

    def refine(
        self,
        real: Graph,
        ii: int,
        progress: Progress = SILENT,
    ) -> tuple[Graph, SignalPlan]:
        """Give the most important products two wide ports until the results are accurate enough.

        Parameters
        ----------
        ii : number of products that share a unit: whole units are added.
        progress : as for :func:`pinion.hls.design`.

        Returns
        -------
        The fixed graph and its formats.

        Raises
        ------
        PrecisionError
            If the error exceeds `max_error` even with wide ports everywhere.
        """
        plan = self.plan(real)
        fixed = lower_signals(real, plan, stored=self.tables.stored)[0]
        if self.wide_share is not None and self.saved is None:
            return self._shared(real, plan, fixed, ii)
        if self.saved is not None or self.error(real, fixed) <= self.headroom * self.max_error:
            return fixed, plan
        if self.tables.multiplier.square:
            error = self.error(real, fixed)
            raise PrecisionError(
                f"A maximum relative error of {self.max_error:g} is out of reach with words of "
                f"{self.tables.stored} bits: {self._excess(error)}. {self._advice(error, 'auto')}"
            )
        groups = _unit_loads(real, self._weights(real, plan), ii)
        ranges = measure_ranges(real, self.states)
        count = 1
        while True:
            precise = frozenset(i for group in groups[:count] for i in group)
            plan = self.plan(real, precise, ranges)
            fixed = lower_signals(real, plan, stored=self.tables.stored)[0]
            error = self.error(real, fixed)
            progress.step(f"{len(precise)} sums of 27 x 27-bit products: largest error {error:.2g}")
            if error <= self.headroom * self.max_error:
                return fixed, plan
            if count >= len(groups):
                raise PrecisionError(
                    f"A maximum relative error of {self.max_error:g} is out of reach: with 27 x 27 "
                    f"bits in every product, {self._excess(error)}. {self._advice(error)}"
                )
            progress.advance(count / len(groups))
            count = max(count + 1, int(count * 1.5))

    def _shared(
        self, real: Graph, plan: SignalPlan, fixed: Graph, ii: int
    ) -> tuple[Graph, SignalPlan]:
        """Return formats in which the requested share of product units has two wide ports."""
        groups = _unit_loads(real, self._weights(real, plan), ii) if self.wide_share else []
        count = round((self.wide_share or 0.0) * len(groups))
        if not count:
            return fixed, plan
        plan = self.plan(real, frozenset(i for group in groups[:count] for i in group))
        return lower_signals(real, plan, stored=self.tables.stored)[0], plan

    def _excess(self, error: float) -> str:
        """Return a clause on why an error is too large: above the limit, or too close to it."""
        if error > self.max_error:
            near = float(f"{error:.2g}") <= self.max_error  # it would print as the same figure
            rounded = rounded_up(error, _ADVISED_DIGITS) if near else float(f"{error:.2g}")
            return f"the error is {rounded:g}"
        return (
            f"the error is {error / self.max_error:.0%} of that in the states tried, and more than "
            f"{self.headroom:.0%} leaves no room for other states"
        )

    def _advice(self, error: float, finer: str = "") -> str:
        """Return advice for a requested error that is out of reach.

        Parameters
        ----------
        error : the smallest possible error.
        finer : formats with smaller errors, if any. A uniform format's errors need not be smaller.
        """
        advised = rounded_up(error * (1.0 + 1e-9) / self.headroom, _ADVISED_DIGITS)
        if advised < 1.0:
            other = f", or try the formats '{finer}', whose errors are smaller" if finer else ""
            return f"Ask for max_error={advised:g} (--max-error){other}."
        return (
            "No error below 1 is possible with these formats, so no digit of a result would be "
            f"certain: use the formats '{finer or _LONGEST}'."
        )

    def _weights(self, real: Graph, plan: SignalPlan) -> dict[int, float]:
        """Return the largest mean square error in a block caused by each product's narrow ports."""
        step = max(1, len(next(iter(self.judged.values()))) // _PROBES)
        states = {name: column[::step] for name, column in self.judged.items()}
        values = node_floats(real, states)
        weight = np.zeros(len(real.nodes))
        for name, words in result_blocks(real).items():
            largest = np.max([np.abs(values[real.outputs[w][1]]) for w in words], axis=0)
            scale = divisors(largest, self.scales[name])
            for w in words:
                bars = adjoints(real, values, real.outputs[w][1])
                for i, ports in plan.ports.items():
                    node = real.nodes[i]
                    if OPS[node.op].family is not Family.PRODUCT:
                        continue
                    share = 0.0
                    for k, other in enumerate(node.args[: len(node.args) // 2 * 2]):
                        # Operand k's partner is its neighbour in the pair.
                        if ports[k ^ 1].width == self.tables.multiplier.narrow:
                            lost = bars[i] / scale * values[other] * ports[k ^ 1].lsb
                            share += float(np.mean(lost**2))
                    weight[i] = max(weight[i], share)
        products = (i for i, node in enumerate(real.nodes) if OPS[node.op].family is Family.PRODUCT)
        return {i: float(weight[i]) for i in products}


def _decided_alike(
    fixed: Graph, states: Mapping[str, Floats], rounded: list[Floats], count: int
) -> NDArray[np.bool_]:
    """Return a mask (count,) of the states in which rounding changes no comparison."""
    alike = np.ones(count, dtype=np.bool_)
    if any(OPS[node.op].decides for node in fixed.nodes):
        exact, rounded_decisions = (
            decisions(fixed, node_floats(fixed, states)),
            decisions(fixed, rounded),
        )
        for i, quantity in exact.items():
            alike &= np.sign(quantity) == np.sign(rounded_decisions[i])
    return alike


def _results(graph: Graph, values: Sequence[Any], count: int) -> Floats:
    """Return a graph's results (count, outputs) from the values of its nodes."""
    return np.stack([np.broadcast_to(values[node], (count,)) for _, node in graph.outputs], axis=1)


def _unit_loads(graph: Graph, weights: Mapping[int, float], ii: int) -> list[list[int]]:
    """Group products so that each group fills a unit; the largest gain per multiplier is first."""
    by_width: dict[int, list[int]] = {}
    for i in sorted(weights, key=lambda i: (-weights[i], i)):
        by_width.setdefault(len(graph.nodes[i].args) // 2, []).append(i)
    groups = [
        (sum(weights[i] for i in group) / width, group)
        for width, members in by_width.items()
        for group in (members[k : k + ii] for k in range(0, len(members), ii))
    ]
    return [group for _, group in sorted(groups, key=lambda item: (-item[0], item[1]))]
