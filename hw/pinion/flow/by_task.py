"""Formats chosen by what a core is for: the cheapest ones with which a task is still done.

What a task is, and how well it is done, is a measure that the caller hands in; here are the formats
that are tried, in what order, and what they cost. Words get shorter as a whole first, then the
narrow ports of the products, then those of all but the products that matter most. Losses are taken
to fall with each bit more, so that lengths are found by halving; what is chosen must hold together
with the next finer length, which keeps a lucky one out.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pinion.base.progress import SILENT, Progress
from pinion.formats.auto import AutoFormats, PrecisionError
from pinion.formats.multiplier import DSP48E2, FEWEST, MULT18X18D, part_of
from pinion.formats.planfile import SavedPlan, graph_digest
from pinion.formats.signals import SignalPlan, TableFormats
from pinion.functions import Function
from pinion.graph import Graph
from pinion.hls import Design
from pinion.hls.operations import operations
from pinion.hls.schedule.modulo import unit_counts
from pinion.hls.sums import gather_dots
from pinion.request import BuildRequest
from pinion.robot import Model

from .candidate import Candidate
from .objective import AUTO, PATIENCE, finite_ranges, format_plan, objective_timing
from .states import REFERENCE, judged_states, range_states
from .unit_cost import unit_cost

EVALUATIONS = 16
"""Candidates that are measured at most, besides the design itself."""

ORDINARY = 1e-3
"""Largest relative error of the formats that those of a task are compared with."""

WIDE_SHARES = (0.25, 0.5, 1.0)
"""Shares of the product units with two wide ports that are tried where one port is too narrow."""

_WIDTHS = (4, 3, 2)


class TaskError(ValueError):
    """No formats do the task as well as asked for, or they cannot be chosen; the message says."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How well a candidate does a task.

    Members
    -------
    loss : against float64; NaN and infinity never hold.
    figures : whatever else was measured, by name.
    """

    loss: float
    figures: Mapping[str, float] = field(default_factory=dict)


Measure = Callable[[Candidate], Outcome]


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A task, and the loss at which it is still done.

    Members
    -------
    name, text : of the task's file; the text goes into the build.
    loss : largest that holds.
    measure : what candidates are judged by.
    held_out, held_out_loss : what the chosen one is judged by in the end, on motions that the
        search never saw, and the largest loss there.
    exact : figures of float64, by name.
    evaluations : candidates that are measured at most.
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
    """Lengths of a core's words, the finer of two the greater.

    Members
    -------
    wide, narrow : bits of every stored word, and of a product's narrow port.
    share : of the product units that have two wide ports.
    """

    wide: int
    narrow: int
    share: float = 0.0

    def __str__(self) -> str:
        """In words."""
        some = f", {self.share:.0%} of the products {self.wide} x {self.wide}" * bool(self.share)
        return f"{self.wide} x {self.narrow} bits{some}"


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A candidate that was measured, or refused.

    Members
    -------
    words : its lengths.
    blocks, bits : estimates: multiplier blocks of all units, and bits of all units' operands, which
        selectors, wires and registers grow with.
    outcome : of the measure.
    held : whether the loss is at most the stated one.
    refused : why such formats cannot be made, as a sentence; then the loss is NaN.
    """

    words: Words
    blocks: int
    bits: int
    outcome: Outcome
    held: bool
    refused: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        loss = self.outcome.loss
        return {
            "wide": self.words.wide,
            "narrow": self.words.narrow,
            "wide_share": self.words.share,
            "blocks": self.blocks,
            "bits": self.bits,
            "loss": float(f"{loss:.6g}") if math.isfinite(loss) else None,
            "held": self.held,
            **({"refused": self.refused} if self.refused else {}),
            **{name: float(f"{value:.6g}") for name, value in self.outcome.figures.items()},
        }


class _Lowered(NamedTuple):
    """Formats of some lengths, the sums gathered for them, both in fixed point, and what it takes:
    blocks and bits.
    """

    plan: AutoFormats
    real: Graph
    fixed: Graph
    signals: SignalPlan
    cost: tuple[int, int]


class TaskSearch:
    """The search for a goal, from a folded graph to a design that was measured itself.

    Parameters
    ----------
    model, row, goal : the robot, the function, and what for.
    adds : whether the FPGA's blocks add to their products (DSP48E2; False for the ECP5).
    ranges : distribution of states that the formats hold.
    objective : of the build.
    progress : told each candidate.

    Members
    -------
    tried : candidates in the order in which they were measured.
    found, held_out : of the design itself, after `judge`.
    ordinary : blocks and bits of the formats chosen by a largest error of `ORDINARY`; None where
        they cannot be had.
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
                f"The function '{row.name}' has states, and a task judges requests one by one: "
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
        """The formats to make a design of.

        Parameters
        ----------
        folded, constants : the graph of what travels, and results that are known.
        scales : of the result blocks.
        ii : cycles between results.

        Raises
        ------
        TaskError
            When none do the task.
        """
        self._folded, self._constants, self._scales, self._ii = folded, constants, scales, ii
        self._states = range_states(self.model, self.row, self.distribution)
        self._judged = judged_states(self.model, self.row, self.distribution)
        self._seen = finite_ranges(folded, self._states)
        self.chosen = self._search()
        self.ordinary = self._ordinary()
        lowered = self._lowered[self.chosen.words]
        # As a plan, so that sums are gathered as they were: other integers are other losses.
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
        """Measure a design, the very integers of the core, in the task and on what was held out.

        Raises
        ------
        TaskError
            When it loses more than is allowed.
        """
        core = self._candidate(core_design.fixed, core_design.constants)
        self.progress.step(f"Measuring the scheduled core in the task '{self.goal.name}'")
        self.found = self.goal.measure(core)
        if not _holds(self.found.loss, self.goal.loss):
            raise TaskError(
                f"The scheduled core loses {self.found.loss:.3g} in the task '{self.goal.name}', "
                f"more than the {self.goal.loss:g} stated, though its formats held before it was "
                "scheduled: the measure is not the same at every call."
            )
        self.progress.step("Measuring it on motions that the search has not seen")
        self.held_out = self.goal.held_out(core)
        if not _holds(self.held_out.loss, self.goal.held_out_loss):
            raise TaskError(
                f"The formats chosen by the task '{self.goal.name}' ({self._words}) lose "
                f"{self.held_out.loss:.3g} on motions that the search has not seen, more than the "
                f"{self.goal.held_out_loss:g} allowed there: state a smaller loss, or a task that "
                "shows more of what the robot does."
            )

    @property
    def _words(self) -> Words:
        assert self.chosen is not None
        return self.chosen.words

    def _candidate(self, fixed: Graph, constants: Mapping[str, float]) -> Candidate:
        return Candidate(self.model, self.row, fixed, constants)

    def _ladder(self) -> list[Words]:
        """Lengths of words as a whole, the shortest first."""
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
            best = min((t.outcome.loss for t in self.tried if _finite(t)), default=math.nan)
            raise TaskError(
                f"No formats do the task '{self.goal.name}' with a loss of {self.goal.loss:g}: the "
                f"least that was measured, with up to {ladder[-1]}, is {best:.3g}; state a larger "
                "loss."
            )
        words = first.words
        if words.share == 0.0:
            self._narrow(words)
        # What costs least; of equals the one that loses least.
        holding = sorted(
            (first, *(t for t in self.tried if t.held and _like(t.words, words))),
            key=lambda candidate: (candidate.blocks, candidate.bits, candidate.outcome.loss),
        )
        return holding[0]

    def _first_that_holds(self, ladder: Sequence[Words]) -> Tried | None:
        """The shortest that holds together with the next longer one."""
        low, high = 0, len(ladder)
        while low < high:
            middle = (low + high) // 2
            if self._measured(ladder[middle]).held:
                high = middle
            else:
                low = middle + 1
        while low < len(ladder):
            middle_try = self._measured(ladder[low])
            if middle_try.held and (low + 1 == len(ladder) or self._measured(ladder[low + 1]).held):
                return middle_try
            low += 1
        return None

    def _narrow(self, words: Words) -> None:
        """Give the products of words that hold narrower ports, all of them or most."""
        ports = [
            replace(words, narrow=narrow) for narrow in range(-(-words.wide // 2), words.narrow)
        ]
        low, high = 0, len(ports)
        while low < high and self._left:
            middle = (low + high) // 2
            if self._measured(ports[middle]).held:
                high = middle
            else:
                low = middle + 1
        if not low > 0:
            return
        # One bit less did not hold for all products; with wide ports for some it may.
        for share in WIDE_SHARES[:-1]:
            mixed = replace(ports[low - 1], share=share)
            best = min(t.bits for t in self.tried if t.held and t.words.wide == words.wide)
            if self._left and self._cheaper(mixed, best) and self._measured(mixed).held:
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
                f"The task '{self.goal.name}' was measured with {len(self.tried)} formats, as many "
                "as its 'evaluations' allow, and none of them is known to be the cheapest: allow "
                "more."
            )
        try:
            blocks, bits = self._cost(words)
        except ValueError as error:  # a constant that no such word holds
            nothing = Outcome(loss=math.nan)
            refused = Tried(
                words=words, blocks=0, bits=0, outcome=nothing, held=False, refused=str(error)
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
            held=_holds(outcome.loss, self.goal.loss),
        )
        self.tried.append(result)
        verdict = "holds" if result.held else "does not hold"
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
        """Estimated blocks and bits; nothing is scheduled."""
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
            # Nobody compares with it: the task does.
            max_error=math.inf,
            distribution=self.distribution,
            wide_share=words.share,
        )

    def _ordinary(self) -> tuple[int, int] | None:
        """Blocks and bits of the formats that `--max-error` alone chooses."""
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
    """Whether words are as long as the shortest that hold, with narrower ports."""
    return words.wide == first.wide and words.narrow < first.narrow and not first.share


def _holds(loss: float, most: float) -> bool:
    """Whether a loss, to the digits that are recorded, is at most so much; NaN is not."""
    return bool(float(f"{loss:.6g}") <= most)


def _finite(candidate: Tried) -> bool:
    return math.isfinite(candidate.outcome.loss)
