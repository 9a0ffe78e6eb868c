"""Formats chosen by a task: the cheapest ones with which a core reaches the task's goal.

The caller hands in the measure of the task; this module chooses the candidates, their order and
their cost estimate. Words get shorter first, then the narrow ports of the products, then those of
all but the products that matter most. Losses are assumed to fall with each additional bit, so
lengths are found by bisection; the next finer length must hold too, which excludes lucky hits.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pinion.base.progress import SILENT, Progress
from pinion.formats import AutoFormats, PrecisionError
from pinion.formats.multiplier import DSP48E2, FEWEST, MULT18X18D, part_of
from pinion.formats.planfile import SavedPlan, graph_digest
from pinion.formats.signals import SignalPlan, TableFormats
from pinion.functions import Function
from pinion.graph import Graph
from pinion.hls import Design, operations
from pinion.hls.schedule.modulo import unit_counts
from pinion.hls.sums import gather_dots
from pinion.request import BuildRequest
from pinion.robot import Model

from .candidate import Candidate
from .objective import AUTO, PATIENCE, finite_ranges, format_plan, objective_timing
from .states import REFERENCE, judged_states, range_states
from .unit_cost import unit_cost

EVALUATIONS = 16
"""Largest number of measured candidates, besides the design itself."""

ORDINARY = 1e-3
"""Largest relative error of the formats that a task's formats are compared with."""

WIDE_SHARES = (0.25, 0.5, 1.0)
"""Shares of product units with two wide ports to try if one narrow port is not enough."""

_WIDTHS = (4, 3, 2)


class TaskError(ValueError):
    """Error for a task whose loss no formats keep within its limit, or an impossible search."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Loss of a candidate in a task, with other measurements by name.

    Members
    -------
    loss : relative to float64; NaN and infinity never hold.
    figures : other measurements, by name.
    """

    loss: float
    figures: Mapping[str, float] = field(default_factory=dict)


Measure = Callable[[Candidate], Outcome]


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A task and its largest allowed loss.

    Members
    -------
    name, text : of the task's file; the text goes into the build.
    loss : the largest allowed loss.
    measure : judges candidates.
    held_out, held_out_loss : judges the chosen one in the end, on motions that the search never
        saw, and the largest allowed loss there.
    exact : figures of float64, by name.
    evaluations : largest number of measured candidates.
    """

    name: str
    text: str
    loss: float
    measure: Measure
    held_out: Measure
    held_out_loss: float
    exact: Mapping[str, float] = field(default_factory=dict)
    evaluations: int = EVALUATIONS

    @property
    def digest(self) -> str:
        """SHA-256 of the task's text."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, order=True)
class Words:
    """Word lengths of a core; longer ones compare as greater.

    Members
    -------
    wide, narrow : bits of every stored word, and of a product's narrow port.
    share : share of the product units with two wide ports.
    """

    wide: int
    narrow: int
    share: float = 0.0

    def __str__(self) -> str:
        """Return the word lengths as text for messages, such as ``27 x 18 bits``."""
        some = f", {self.share:.0%} of the products {self.wide} x {self.wide}" * bool(self.share)
        return f"{self.wide} x {self.narrow} bits{some}"


@dataclass(frozen=True, kw_only=True)
class Tried:
    """Candidate of a search with its measured loss, or the reason why it cannot be built.

    Members
    -------
    words : its lengths.
    blocks, bits : estimated multiplier blocks of all units, and operand bits of all units, with
        which selectors, wires and registers grow.
    outcome : of the measure.
    meets_goal : whether the loss is at most the allowed one.
    refused : message that says why such formats cannot be made; the loss is NaN then.
    """

    words: Words
    blocks: int
    bits: int
    outcome: Outcome
    meets_goal: bool
    refused: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the members as a JSON-able dictionary."""
        loss = self.outcome.loss
        return {
            "wide": self.words.wide,
            "narrow": self.words.narrow,
            "wide_share": self.words.share,
            "blocks": self.blocks,
            "bits": self.bits,
            "loss": float(f"{loss:.6g}") if math.isfinite(loss) else None,
            "held": self.meets_goal,
            **({"refused": self.refused} if self.refused else {}),
            **{name: float(f"{value:.6g}") for name, value in self.outcome.figures.items()},
        }


class _Lowered(NamedTuple):
    """Graph lowered to candidate word lengths, with its estimated cost (DSP blocks, bits)."""

    plan: AutoFormats
    real: Graph
    fixed: Graph
    signals: SignalPlan
    cost: tuple[int, int]


class TaskSearch:
    """Search for the cheapest formats that reach a goal, and the final measurement of the design.

    Parameters
    ----------
    model, row, goal : the robot, the function and the task.
    adds : whether the FPGA's blocks add to their products (DSP48E2; False for the ECP5).
    ranges : distribution of states that the formats cover.
    objective : of the build.
    progress : receives each candidate.

    Members
    -------
    tried : candidates in the order in which they were measured.
    found, held_out : of the design itself, after `judge`.
    ordinary : blocks and bits of formats chosen for an error limit of `ORDINARY`; None if that
        is out of reach.
    """

    def __init__(
        self,
        model: Model,
        row: Function,
        goal: Goal,
        *,
        adds: bool = True,
        ranges: str | None = None,
        objective: str = "area",
        progress: Progress = SILENT,
    ) -> None:
        if row.states:
            raise TaskError(
                f"The function '{row.name}' has states, but a task evaluates each request alone: "
                "choose its formats with max_error (--max-error)."
            )
        self.model = model
        self.row = row
        self.goal = goal
        self.adds = adds
        self.distribution = REFERENCE if ranges is None else ranges
        self.objective = objective
        self.progress = progress
        self.tried: list[Tried] = []
        self.found: Outcome | None = None
        self.held_out: Outcome | None = None
        self.ordinary: tuple[int, int] | None = None
        self.chosen: Tried | None = None
        self._lowered: dict[Words, _Lowered] = {}

    def plan(
        self,
        folded: Graph,
        constants: Mapping[str, float],
        scales: Mapping[str, float],
        ii: int,
    ) -> AutoFormats:
        """Search for the cheapest candidate that meets the goal, and return its formats.

        Parameters
        ----------
        folded, constants : the graph of the transferred words, and known results.
        scales : of the result blocks.
        ii : cycles between results.

        Raises
        ------
        TaskError
            If no formats meet the goal.
        """
        self._folded, self._constants, self._scales, self._ii = folded, constants, scales, ii
        self._states = range_states(self.model, self.row, self.distribution)
        self._judged = judged_states(self.model, self.row, self.distribution)
        self._seen = finite_ranges(folded, self._states)
        self.chosen = self._search()
        self.ordinary = self._ordinary()
        lowered = self._lowered[self.chosen.words]
        # As a plan, so that the same sums are gathered: other integers have other losses.
        saved = SavedPlan(
            signals=lowered.signals,
            tables=lowered.plan.tables,
            widths=_WIDTHS,
            digest=graph_digest(lowered.real),
            distribution=self.distribution,
            max_error=math.inf,
        )
        return replace(lowered.plan, saved=saved)

    def judge(self, core_design: Design) -> None:
        """Measure the integers of a scheduled core in the task and on held-out motions.

        Raises
        ------
        TaskError
            If the core loses more than allowed.
        """
        core = self._candidate(core_design.fixed, core_design.constants)
        self.progress.step(f"Measuring the scheduled core in the task '{self.goal.name}'")
        self.found = self.goal.measure(core)
        if not _holds(self.found.loss, self.goal.loss):
            raise TaskError(
                f"The scheduled core has a loss of {self.found.loss:.3g} in the task "
                f"'{self.goal.name}', but at most {self.goal.loss:g} is allowed. Its formats met "
                "this limit before scheduling: the task must give equal results the same loss."
            )
        self.progress.step("Measuring it on motions that the search did not see")
        self.held_out = self.goal.held_out(core)
        if not _holds(self.held_out.loss, self.goal.held_out_loss):
            raise TaskError(
                f"The formats chosen by the task '{self.goal.name}' ({self._words}) have a "
                f"loss of {self.held_out.loss:.3g} on motions that the search did not see, but at "
                f"most {self.goal.held_out_loss:g} is allowed there: give the task a smaller "
                "loss with the same held_out_loss, or a more varied motion."
            )

    @property
    def _words(self) -> Words:
        assert self.chosen is not None
        return self.chosen.words

    def _candidate(self, fixed: Graph, constants: Mapping[str, float]) -> Candidate:
        return Candidate(self.model, self.row, fixed, constants)

    def _ladder(self) -> list[Words]:
        """Return the word lengths to try, the shortest first."""
        last = DSP48E2.wide if self.adds else MULT18X18D.wide
        lengths = [Words(wide, min(wide, DSP48E2.narrow)) for wide in range(FEWEST, last + 1)]
        finest = lengths[-1]
        if finest.narrow < finest.wide:
            lengths += [replace(finest, share=share) for share in WIDE_SHARES]
        return lengths

    def _search(self) -> Tried:
        ladder = self._ladder()
        first = self._first_that_holds(ladder)
        if first is None:
            losses = [t.outcome.loss for t in self.tried if math.isfinite(t.outcome.loss)]
            advice = (
                f"the smallest loss measured is {min(losses):.3g}; allow slightly more than that."
                if losses
                else "none of those tried has a finite loss; check the task."
            )
            raise TaskError(
                f"No formats of up to {ladder[-1]} keep the loss of the task '{self.goal.name}' "
                f"at or below {self.goal.loss:g}: {advice}"
            )
        words = first.words
        if words.share == 0.0:
            self._narrow(words)
        # The cheapest; among equals the one with the smallest loss.
        holding = sorted(
            (first, *(t for t in self.tried if t.meets_goal and _like(t.words, words))),
            key=lambda candidate: (candidate.blocks, candidate.bits, candidate.outcome.loss),
        )
        return holding[0]

    def _first_that_holds(self, ladder: Sequence[Words]) -> Tried | None:
        """Return the shortest lengths that, with the next longer ones, meet the goal, or None."""
        low, high = 0, len(ladder)
        while low < high:
            middle = (low + high) // 2
            if self._measured(ladder[middle]).meets_goal:
                high = middle
            else:
                low = middle + 1
        while low < len(ladder):
            middle_try = self._measured(ladder[low])
            if middle_try.meets_goal and (
                low + 1 == len(ladder) or self._measured(ladder[low + 1]).meets_goal
            ):
                return middle_try
            low += 1
        return None

    def _narrow(self, words: Words) -> None:
        """Try narrower multiplier ports for all or most products, at lengths that meet the goal."""
        ports = [
            replace(words, narrow=narrow) for narrow in range(-(-words.wide // 2), words.narrow)
        ]
        low, high = 0, len(ports)
        while low < high and self._left:
            middle = (low + high) // 2
            if self._measured(ports[middle]).meets_goal:
                high = middle
            else:
                low = middle + 1
        if not low > 0:
            return
        # One bit less failed for all products; it may hold with wide ports for some.
        for share in WIDE_SHARES[:-1]:
            mixed = replace(ports[low - 1], share=share)
            best = min(t.bits for t in self.tried if t.meets_goal and t.words.wide == words.wide)
            if self._left and self._cheaper(mixed, best) and self._measured(mixed).meets_goal:
                return

    @property
    def _left(self) -> bool:
        return len(self.tried) < self.goal.evaluations

    def _measured(self, words: Words) -> Tried:
        earlier = next((t for t in self.tried if t.words == words), None)
        if earlier is not None:
            return earlier
        if not self._left:
            raise TaskError(
                f"The search for formats for the task '{self.goal.name}' reached its limit of "
                f"'evaluations' ({len(self.tried)}) before it found the cheapest formats: raise "
                f"that limit to {len(self._ladder())}, which is always enough."
            )
        try:
            blocks, bits = self._cost(words)
        except ValueError as error:  # such words cannot hold a constant
            nothing = Outcome(loss=math.nan)
            refused = Tried(
                words=words, blocks=0, bits=0, outcome=nothing, meets_goal=False, refused=str(error)
            )
            self.tried.append(refused)
            self.progress.step(f"{words}: {error}")
            return refused
        outcome = self.goal.measure(self._candidate(self._lowered[words].fixed, self._constants))
        result = Tried(
            words=words,
            blocks=blocks,
            bits=bits,
            outcome=outcome,
            meets_goal=_holds(outcome.loss, self.goal.loss),
        )
        self.tried.append(result)
        verdict = "is allowed" if result.meets_goal else "is too large"
        self.progress.step(
            f"{words}: about {blocks} blocks, {bits} bits of operands; loss {outcome.loss:.3g} "
            f"{verdict}"
        )
        return result

    def _cheaper(self, words: Words, bits: int) -> bool:
        try:
            return self._cost(words)[1] < bits
        except ValueError:
            return False

    def _cost(self, words: Words) -> tuple[int, int]:
        """Estimate multiplier blocks and operand bits for some word lengths, without scheduling."""
        if words not in self._lowered:
            plan = self._formats(words)
            real = self._gathered(plan)
            fixed, signals = plan.refine(real, self._ii)
            timing = objective_timing(self.objective, plan)
            units = unit_counts(operations(fixed, timing), self._ii)
            cost = unit_cost(units)
            self._lowered[words] = _Lowered(plan, real, fixed, signals, cost)
        return self._lowered[words].cost

    def _gathered(self, plan: AutoFormats) -> Graph:
        return gather_dots(
            self._folded,
            objective_timing(self.objective, plan),
            widths=_WIDTHS,
            ii=self._ii,
            patience=PATIENCE[self.objective][0],
        )

    def _formats(self, words: Words) -> AutoFormats:
        multiplier = part_of(words.wide, words.narrow, adds=self.adds)
        return AutoFormats(
            states=self._states,
            judged=self._judged,
            scales=self._scales,
            tables=TableFormats.of(
                self._folded, self._seen, multiplier=multiplier, turn=multiplier.turn
            ),
            # Unused: the task judges.
            max_error=math.inf,
            distribution=self.distribution,
            wide_share=words.share,
        )

    def _ordinary(self) -> tuple[int, int] | None:
        """Estimate blocks and bits of formats for an error of `ORDINARY`; None if out of reach."""
        request = BuildRequest(formats=AUTO, ranges=self.distribution, max_error=ORDINARY)
        plan = format_plan(self.model, self.row, self._folded, request, scales=self._scales)
        assert isinstance(plan, AutoFormats)
        real = self._gathered(plan)
        for candidate in (plan, plan.finer()):
            if candidate is None:
                continue
            try:
                fixed, _ = candidate.refine(real, self._ii)
            except PrecisionError:
                continue
            timing = objective_timing(self.objective, candidate)
            return unit_cost(unit_counts(operations(fixed, timing), self._ii))
        return None


def _like(words: Words, first: Words) -> bool:
    """Return whether word lengths differ from `first` only by a narrower multiplier port."""
    return words.wide == first.wide and words.narrow < first.narrow and not first.share


def _holds(loss: float, most: float) -> bool:
    """Return whether a loss, rounded as recorded, is within a limit; NaN is not."""
    return bool(float(f"{loss:.6g}") <= most)
