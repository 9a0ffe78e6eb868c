"""Compilation of a traced graph into a bound schedule."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from pinion.base.arrays import Floats
from pinion.base.progress import SILENT, Progress
from pinion.formats import AutoFormats, FormatPlan, PrecisionError, error_budget, lower
from pinion.formats.budget import decision_budget
from pinion.formats.planfile import SavedPlan, graph_digest
from pinion.formats.scales import block_scales
from pinion.graph import Graph, names, node_floats, op_counts
from pinion.graph.passes import fold
from pinion.graph.passes.simplify import without_inputs
from pinion.graph.ranges import measure_ranges

from .operations import operations
from .schedule.binding import Binding, bind
from .schedule.check import check_binding, check_schedule
from .schedule.floorplan import arrange_units
from .schedule.modulo import StateLoopError, check_loops, loops_of, schedule, shorter
from .schedule.sharing import share_units
from .sums import gather_dots
from .timing import Timing

# Sets of dot widths to try. Wide dots save adders, narrow ones leave the schedule more freedom;
# which set finishes first depends on function and interval. With more than four products the
# operands of most sums arrive too far apart.
DOT_WIDTHS = ((4, 3, 2), (3, 2), (2,))

# Share of scheduling, roughly, that trying them takes.
_TRIED = 0.6


@dataclass(frozen=True, kw_only=True)
class DesignSettings:
    """Settings from which a core is designed: interval, formats, latencies and search effort.

    Members
    -------
    ii : initiation interval, cycles between requests.
    plan : one format for all values, or per-signal formats.
    timing : latencies of the units.
    states : input states (n,) by word for which the error budget must hold.
    scales : of the result blocks; by default those over `states`.
    droppable : input words that are left out of the record if nothing reads them.
    effort : tries for each length of the schedule, and factor on the moves of the search for few
        selector inputs.
    patience : shares of sums' slack to try spending on saving adders (:func:`.sums.gather_dots`).
    floorplan : choose units for short wires (:mod:`.schedule.floorplan`) instead of few selector
        inputs (:mod:`.schedule.sharing`).
    """

    ii: int
    plan: FormatPlan | AutoFormats
    timing: Timing
    states: Mapping[str, Floats]
    scales: Mapping[str, float] | None = None
    droppable: Collection[str] = ()
    effort: int = 3
    patience: Sequence[float] = (1.0,)
    floorplan: bool = False


@dataclass(frozen=True, kw_only=True)
class Design:
    """Design of a core: graphs, bound schedule, formats and error bounds.

    Members
    -------
    traced : the traced graph, with every operation of the algorithm.
    real : folded, products gathered into dots, sums balanced; exact in real arithmetic.
    fixed : in fixed point; the hardware equals its integer evaluation bit for bit.
    binding : its schedule, units and registers, checked.
    constants : values of result words that do not depend on the inputs; they are neither computed
        nor sent.
    budget : bound on each result word's error relative to floats, in the result's unit.
    decisions : error bounds of compared values, by node of the fixed graph: closer comparisons may
        be decided either way, and then no budget holds.
    saved : the formats as a plan that can be written, if they were chosen per signal.
    reach : largest magnitude of each real node on which those formats are based.
    scales : of the result blocks, which errors are relative to near zero
        (:mod:`pinion.link.relative`).
    """

    traced: Graph
    real: Graph
    fixed: Graph
    binding: Binding
    constants: Mapping[str, float]
    budget: Mapping[str, float]
    decisions: Mapping[int, float] = field(default_factory=dict)
    saved: SavedPlan | None = None
    reach: Mapping[int, float] = field(default_factory=dict)
    scales: Mapping[str, float] = field(default_factory=dict)

    @property
    def ops(self) -> dict[str, int]:
        """Counts of scalar operations, as in ``build --json``."""
        return op_counts(self.real)

    def units(self) -> dict[str, int]:
        """Return the number of units of each kind, by label."""
        counts: dict[str, int] = {}
        for kind, count in self.binding.schedule.units.items():
            counts[kind.label] = counts.get(kind.label, 0) + count
        return counts

    @property
    def multipliers(self) -> int:
        """Number of multipliers in dot units; those inside sine units are not counted."""
        units = self.binding.schedule.units
        return sum(kind.products * count for kind, count in units.items())

    @property
    def adders(self) -> int:
        """Number of shared adders; those inside dot units are not counted."""
        return sum(n for label, n in self.units().items() if label.startswith("add"))


@dataclass(kw_only=True)
class _Draft:
    """Design in progress, to which stages add members of :class:`Design` and intermediate results.

    Members
    -------
    folded : graph of the transferred words.
    widths : numbers of products of its dots.
    """

    traced: Graph
    settings: DesignSettings
    progress: Progress
    folded: Graph = field(init=False)
    constants: Mapping[str, float] = field(init=False)
    real: Graph = field(init=False)
    widths: tuple[int, ...] = field(init=False)
    fixed: Graph = field(init=False)
    saved: SavedPlan | None = None
    reach: Mapping[int, float] = field(default_factory=dict)
    binding: Binding = field(init=False)

    @property
    def sums_share(self) -> float:
        """Share of the scheduling step spent on gathering; 1 if formats are chosen afterwards."""
        return _TRIED if isinstance(self.settings.plan, FormatPlan) else 1.0


def design(
    traced: Graph,
    settings: DesignSettings,
    *,
    progress: Progress = SILENT,
) -> Design:
    """Compile a traced function into a checked, bound schedule, by the :data:`STAGES`.

    Parameters
    ----------
    progress : receives each step and its share done; the first one is scheduling.

    Raises
    ------
    pinion.hls.schedule.modulo.ScheduleError
        If the interval is not positive; `StateLoopError` if a loop through states is longer.
    pinion.hls.schedule.check.CheckError
        If scheduler and checker disagree: a defect of Pinion.
    """
    draft = _Draft(traced=traced, settings=settings, progress=progress)
    for stage in STAGES:
        stage(draft)
    progress.step("Bounding the errors")
    states, scales = settings.states, settings.scales
    return Design(
        traced=traced,
        real=draft.real,
        fixed=draft.fixed,
        binding=draft.binding,
        constants=draft.constants,
        budget=error_budget(draft.fixed, states, progress),
        decisions=decision_budget(draft.fixed, states),
        saved=draft.saved,
        reach=draft.reach,
        scales=block_scales(draft.folded, states) if scales is None else scales,
    )


def _leave_out_words(draft: _Draft) -> None:
    """Fold constants, and remove the words that need no transfer."""
    draft.folded, draft.constants = known_words(fold(draft.traced), draft.settings.droppable)
    if not draft.folded.inputs or not draft.folded.outputs:
        raise ValueError(
            "A function without inputs or without results needs no hardware (inputs after "
            f"folding: {len(draft.folded.inputs)}, results: {len(draft.folded.outputs)})."
        )


def _bound_pivots(draft: _Draft) -> None:
    """Set the smallest pivot that a uniform format accepts, from the pivots at the given states."""
    settings = draft.settings
    if isinstance(settings.plan, FormatPlan):
        pivot = _smallest_pivot(draft.folded, settings.states)
        draft.settings = replace(settings, plan=replace(settings.plan, smallest_pivot=pivot))


def _choose_sums_and_formats(draft: _Draft) -> None:
    """Gather sums of products into dots, and choose per-signal formats that are accurate enough.

    Products lose bits if their sum has a coarse addend. If that is too much and no wider ports
    exist, adders add it.
    """
    _gather_sums(draft, addends=True)
    try:
        _choose_formats(draft)
    except PrecisionError:
        plan = draft.settings.plan
        if isinstance(plan, FormatPlan) or not plan.tables.multiplier.square:
            raise
        draft.progress.step("Scheduling without addends in sums of products")
        _gather_sums(draft, addends=False)
        _choose_formats(draft)


def _schedule_and_bind(draft: _Draft) -> None:
    """Schedule the fixed-point graph with full effort, and bind it."""
    settings, fixed = draft.settings, draft.fixed
    modulo = schedule(
        operations(fixed, settings.timing),
        ii=settings.ii, timing=settings.timing, effort=settings.effort, loops=loops_of(fixed),
        progress=draft.progress.part(draft.sums_share % 1.0, 1.0),
    )  # fmt: skip
    check_schedule(fixed, modulo)
    draft.binding = bind(fixed, modulo)


def _choose_units(draft: _Draft) -> None:
    """Choose a unit for each operation and, without a floorplan, its cycle within the slack."""
    if draft.settings.floorplan:
        draft.progress.step("Choosing units for short wires")
        units = arrange_units(draft.binding, progress=draft.progress)
        draft.binding = replace(draft.binding, unit=units)
    else:
        draft.progress.step("Choosing units and cycles for few selector inputs")
        draft.fixed, draft.binding = share_units(
            draft.fixed, draft.binding, effort=draft.settings.effort, progress=draft.progress
        )
        check_schedule(draft.fixed, draft.binding.schedule)
    check_binding(draft.fixed, draft.binding)


STAGES: tuple[Callable[[_Draft], None], ...] = (
    _leave_out_words,
    _bound_pivots,
    _choose_sums_and_formats,
    _schedule_and_bind,
    _choose_units,
)
"""Stages of a design, in order."""


def _gather_sums(draft: _Draft, *, addends: bool) -> None:
    """Gather sums as in the saved plan or, without one, for the shortest schedule."""
    plan = draft.settings.plan
    if isinstance(plan, FormatPlan) or plan.saved is None:
        _gather_shortest(draft, addends=addends)
        return
    choices = chain(_sums(draft, addends=True), _sums(draft, addends=False))
    first, digest = next(choices), plan.saved.digest
    # If none has the digest, the plan refuses the first.
    alike = (sums for sums in chain([first], choices) if graph_digest(sums[0]) == digest)
    draft.real, draft.widths = next(alike, first)


def _gather_shortest(draft: _Draft, *, addends: bool) -> None:
    """Gather sums into the dots that give the shortest schedule, and lower the graph.

    If all have loops longer than the interval, the error states the shortest.
    """
    settings, plan = draft.settings, draft.settings.plan
    ii, timing = settings.ii, settings.timing
    share_of_try = draft.sums_share / len(DOT_WIDTHS) / len(settings.patience)
    length: int | None = None
    loop_errors: list[StateLoopError] = []
    for number, (real, widths) in enumerate(_sums(draft, addends=addends)):
        part = draft.progress.part(share_of_try * number, share_of_try * (number + 1))
        fixed = lower(real, plan) if isinstance(plan, FormatPlan) else plan.lower(real)
        ops, loops = operations(fixed, timing), loops_of(fixed)
        if loops and ii > 0:
            try:
                check_loops(ops, ii, loops)
            except StateLoopError as error:
                loop_errors.append(error)
                continue
        # All use the same number of multipliers; the first among equals has the fewest adders.
        modulo = (
            schedule(ops, ii=ii, timing=timing, effort=1, loops=loops, progress=part)
            if length is None
            else shorter(ops, ii=ii, timing=timing, length=length, loops=loops, progress=part)
        )
        if modulo is not None:
            length, draft.real, draft.fixed, draft.widths = modulo.length, real, fixed, widths
    if length is None:
        raise min(loop_errors, key=lambda error: error.ii)


def _sums(draft: _Draft, *, addends: bool) -> Iterator[tuple[Graph, tuple[int, ...]]]:
    """Yield graphs with differently gathered sums, and their dot widths, which a plan may fix."""
    settings, plan = draft.settings, draft.settings.plan
    saved = None if isinstance(plan, FormatPlan) else plan.saved
    for widths in DOT_WIDTHS if saved is None else (saved.widths,):
        for patience in settings.patience:
            real = gather_dots(
                draft.folded, settings.timing, widths=widths, ii=max(1, settings.ii),
                patience=patience, addends=addends,
            )  # fmt: skip
            yield real, widths


def _choose_formats(draft: _Draft) -> None:
    """Choose per-signal formats and lower the graph to them; do nothing for a uniform format."""
    plan = draft.settings.plan
    if isinstance(plan, FormatPlan):
        return
    if plan.saved is None:
        draft.progress.step("Choosing the formats of signals")
    draft.fixed, signals = plan.refine(draft.real, draft.settings.ii, draft.progress)
    draft.progress.step("Scheduling in the chosen formats")
    draft.saved = SavedPlan(
        signals=signals,
        tables=plan.tables,
        widths=draft.widths,
        digest=graph_digest(draft.real),
        distribution=plan.distribution,
        max_error=plan.max_error,
    )
    draft.reach = dict(enumerate(measure_ranges(draft.real, plan.states).largest))


def _smallest_pivot(graph: Graph, states: Mapping[str, Floats]) -> float:
    """Return half the smallest divisor of any reciprocal on the given states; 0 for none.

    Pivots of a robot have a positive lower bound; a much smaller one comes from rounding or from a
    state outside the ranges, and quotients by it are useless.
    """
    pivots = [node.args[0] for node in graph.nodes if node.op == names.RECIPROCAL]
    if not pivots:
        return 0.0
    values = node_floats(graph, states)
    smallest = min(float(np.min(np.abs(values[pivot]))) for pivot in pivots)
    return float(f"{smallest / 2:.3g}")


def known_words(graph: Graph, droppable: Collection[str]) -> tuple[Graph, dict[str, float]]:
    """Remove constant results, unless all are constant, and unread droppable inputs.

    Returns
    -------
    The graph of the remaining words, and the value of each constant result.
    """
    constants: dict[str, float] = {
        name: float(graph.nodes[node].params[0])
        for name, node in graph.outputs
        if graph.nodes[node].op == names.CONST
    }
    if len(constants) == len(graph.outputs):
        constants = {}  # nothing to compute: keep the words, so that a record exists
    outputs = tuple(out for out in graph.outputs if out.word not in constants)
    uses, words = graph.uses(), graph.state_nodes()
    unread = {
        str(node.params[0])
        for i, node in enumerate(graph.nodes)
        if node.op == names.INPUT
        and i not in words
        and not uses[i]
        and str(node.params[0]) in droppable
    }
    return without_inputs(Graph(graph.nodes, outputs, graph.states), unread), constants
