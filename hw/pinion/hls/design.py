"""The middle of the flow in one call: from a traced graph to a bound schedule."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from pinion.base.progress import Advance, portion, unheard
from pinion.formats.auto import AutoFormats, PrecisionError
from pinion.formats.budget import decision_budget, error_budget
from pinion.formats.lower import FormatPlan, lower
from pinion.formats.planfile import SavedPlan, graph_digest
from pinion.formats.scales import block_scales
from pinion.graph import Graph, names, node_floats, op_counts
from pinion.graph.evaluate import Floats
from pinion.graph.passes import fold
from pinion.graph.passes.simplify import without_inputs
from pinion.graph.ranges import measure_ranges

from .binding import Binding, bind
from .check import check_binding, check_schedule
from .clusters import clustered
from .floorplan import arrange
from .operations import Operation, operations
from .schedule import LoopError, check_loops, loops_of, schedule, shorter
from .sharing import share
from .sums import gather_dots
from .timing import Timing

# Sets of dot widths to try. Wide dots save adders, narrow ones leave the schedule more freedom;
# which set finishes first depends on function and interval. Beyond four products the operands of
# most sums arrive too far apart.
DOT_WIDTHS = ((4, 3, 2), (3, 2), (2,))

# About the share of scheduling that trying these takes.
_TRIED = 0.6


@dataclass(frozen=True, kw_only=True)
class Design:
    """Everything that the gateware needs, and what it promises.

    Members
    -------
    traced : the graph as traced, every operation of the algorithm.
    real : folded, products gathered into dots, sums balanced; exact in real arithmetic.
    fixed : in fixed point; its integer evaluation is what the hardware does, bit for bit.
    binding : its schedule, units and registers, checked.
    constants : value of each result word that does not depend on the inputs; such words are not
        computed, nor sent.
    budget : bound of each result word's error against floats, in the result's unit.
    decisions : how far what a comparison decides by may be off, by node of the fixed graph: nearer
        ones may be decided either way, and then no budget holds.
    saved : the formats as a plan that can be written, where they were chosen per signal.
    reach : largest magnitude of each real node on the way to them.
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
        """Scalar operations as ``build --json`` reports them."""
        return op_counts(self.real)

    def units(self) -> dict[str, int]:
        """Number of units of each kind, by label."""
        counts: dict[str, int] = {}
        for kind, count in self.binding.schedule.units.items():
            counts[kind.label] = counts.get(kind.label, 0) + count
        return counts

    @property
    def multipliers(self) -> int:
        """Multipliers of the dot units; those inside sine units are counted apart."""
        units = self.binding.schedule.units
        return sum(kind.products * count for kind, count in units.items())

    @property
    def adders(self) -> int:
        """Shared adders (those inside dot units are part of them)."""
        return sum(n for label, n in self.units().items() if label.startswith("add"))


def design(
    traced: Graph,
    *,
    ii: int,
    plan: FormatPlan | AutoFormats,
    timing: Timing,
    states: Mapping[str, Floats],
    scales: Mapping[str, float] | None = None,
    droppable: Collection[str] = (),
    effort: int = 3,
    patience: Sequence[float] = (1.0,),
    link_parents: Sequence[int] = (),
    floorplan: bool = False,
    report: Callable[[str], None] = lambda text: None,
    advance: Advance = unheard,
) -> Design:
    """Fold, gather, lower, schedule, bind and check a traced function.

    Parameters
    ----------
    ii : initiation interval, cycles between requests.
    states : input states (n,) by word for which the error budget shall hold.
    scales : of the result blocks; those over `states` where there are none.
    droppable : input words that are left out of the record when nothing reads them.
    effort : tries of each length of the schedule, and moves of the search for few inputs of
        selectors.
    patience : shares of sums' slack to spend on saving adders (:func:`.sums.gather_dots`), to be
        tried.
    link_parents : parent of each link, to give every link units of its own
        (:func:`pinion.hls.clusters.clustered`); empty to share all units.
    floorplan : choose units for short wires (:mod:`pinion.hls.floorplan`) instead of for few inputs
        of selectors (:mod:`pinion.hls.sharing`).
    report : called with a short line where a step begins, or where there is something to say.
    advance : called with the share of the step that is done; the first one is scheduling.

    Raises
    ------
    pinion.hls.schedule.ScheduleError
        When the interval is not positive; `LoopError` when a loop through states is longer.
    pinion.hls.check.CheckError
        When scheduler and checker disagree: a defect of Pinion.
    """
    folded, constants = known_words(fold(traced), droppable)
    if not folded.inputs or not folded.outputs:
        raise ValueError("A function without inputs or without results needs no hardware.")
    if isinstance(plan, FormatPlan):
        plan = replace(plan, smallest_pivot=_smallest_pivot(folded, states))

    def unit_operations(fixed: Graph) -> tuple[Operation, ...]:
        found = operations(fixed, timing)
        return clustered(found, parents=link_parents, ii=ii) if link_parents and ii > 0 else found

    def gathered(addends: bool) -> Iterator[tuple[Graph, tuple[int, ...]]]:
        known = plan.saved if isinstance(plan, AutoFormats) else None
        for widths in DOT_WIDTHS if known is None else (known.widths,):
            for share_of_slack in patience:
                yield (
                    gather_dots(
                        folded, timing, widths=widths, ii=max(1, ii),
                        patience=share_of_slack, addends=addends,
                    ),
                    widths,
                )  # fmt: skip

    tried = 1.0 if isinstance(plan, AutoFormats) else _TRIED

    def fastest(addends: bool) -> tuple[Graph, Graph, tuple[int, ...]]:
        """The real graph with the shortest schedule, the fixed one, and its dot widths."""
        best: tuple[int, Graph, Graph, tuple[int, ...]] | None = None
        late: LoopError | None = None
        tries = len(DOT_WIDTHS) * len(patience)
        for number, (real, widths) in enumerate(gathered(addends)):
            part = portion(advance, tried * number / tries, tried * (number + 1) / tries)
            fixed = plan.lower(real) if isinstance(plan, AutoFormats) else lower(real, plan)
            found, loops = unit_operations(fixed), loops_of(fixed)
            if loops and ii > 0:
                try:
                    check_loops(found, ii, loops)
                except LoopError as error:
                    if late is None or error.ii < late.ii:
                        late = error
                    continue
            # All use the same number of multipliers; the first of equals has the fewest adders.
            if best is None:
                plain = schedule(found, ii=ii, timing=timing, effort=1, loops=loops, advance=part)
                best = plain.length, real, fixed, widths
            elif better := shorter(
                found, ii=ii, timing=timing, length=best[0], loops=loops, advance=part
            ):
                best = better.length, real, fixed, widths
        if late is not None and best is None:
            raise late
        assert best is not None
        return best[1:]

    saved: SavedPlan | None = None
    reach: dict[int, float] = {}
    if isinstance(plan, AutoFormats):
        real, fixed, saved = _with_formats(plan, gathered, fastest, ii, report, advance)
        reach = dict(enumerate(measure_ranges(real, plan.states).largest))
    else:
        real, fixed, _ = fastest(True)
    rest = portion(advance, tried % 1.0, 1.0)
    modulo = schedule(
        unit_operations(fixed),
        ii=ii, timing=timing, effort=effort, loops=loops_of(fixed), advance=rest,
    )  # fmt: skip
    check_schedule(fixed, modulo)
    binding = bind(fixed, modulo)
    if floorplan:
        report("Choosing units for short wires")
        binding = replace(binding, unit=arrange(binding, advance=advance))
    else:
        report("Choosing units and cycles for few inputs of selectors")
        fixed, binding = share(fixed, binding, effort=effort, advance=advance)
        check_schedule(fixed, binding.schedule)
    check_binding(fixed, binding)
    report("Bounding the errors")
    budget = error_budget(fixed, states, advance)
    return Design(
        traced=traced,
        real=real,
        fixed=fixed,
        binding=binding,
        constants=constants,
        budget=budget,
        decisions=decision_budget(fixed, states),
        saved=saved,
        reach=reach,
        scales=block_scales(folded, states) if scales is None else scales,
    )


def _with_formats(
    plan: AutoFormats,
    gathered: Callable[[bool], Iterator[tuple[Graph, tuple[int, ...]]]],
    fastest: Callable[[bool], tuple[Graph, Graph, tuple[int, ...]]],
    ii: int,
    report: Callable[[str], None],
    advance: Advance,
) -> tuple[Graph, Graph, SavedPlan]:
    """A real graph, the fixed one with formats as exact as asked for, and these as a plan.

    Products give up bits where their sum has a coarse addend. Where that is too much, and wider
    ports are not to be had, adders add it.
    """
    if plan.saved is not None:
        digest = plan.saved.digest
        every = chain(gathered(True), gathered(False))
        first = next(every)
        # One that is not there is refused by its plan.
        same = (pair for pair in chain([first], every) if graph_digest(pair[0]) == digest)
        real, widths = next(same, first)
        fixed, signals = plan.refine(real, ii, report, advance)
    else:
        real, _, widths = fastest(True)
        report("Choosing the formats of signals")
        try:
            fixed, signals = plan.refine(real, ii, report, advance)
        except PrecisionError:
            if not plan.tables.multiplier.square:
                raise
            report("Scheduling without sums of products that add")
            real, _, widths = fastest(False)
            report("Choosing the formats of signals")
            fixed, signals = plan.refine(real, ii, report, advance)
    report("Scheduling in the formats chosen")
    saved = SavedPlan(
        signals=signals,
        tables=plan.tables,
        widths=widths,
        digest=graph_digest(real),
        distribution=plan.distribution,
        max_error=plan.max_error,
    )
    return real, fixed, saved


def _smallest_pivot(graph: Graph, states: Mapping[str, Floats]) -> float:
    """Half the smallest operand of a reciprocal at the given states, 0 without reciprocals.

    Pivots of a robot have a lower bound above zero; one that is far below all of these comes from
    rounding or from a state outside the ranges, and what is divided by it is useless.
    """
    pivots = [node.args[0] for node in graph.nodes if node.op == names.RECIPROCAL]
    if not pivots:
        return 0.0
    values = node_floats(graph, states)
    smallest = min(float(np.min(np.abs(values[pivot]))) for pivot in pivots)
    return float(f"{smallest / 2:.3g}")


def known_words(graph: Graph, droppable: Collection[str]) -> tuple[Graph, dict[str, float]]:
    """Take constant results and unread droppable inputs out of a folded graph.

    Returns
    -------
    The graph of what travels, and the value of each constant result.
    """
    constants: dict[str, float] = {
        name: float(graph.nodes[node].params[0])
        for name, node in graph.outputs
        if graph.nodes[node].op == names.CONST
    }
    if len(constants) == len(graph.outputs):
        constants = {}  # nothing to compute at all: keep the words, so that there is a record
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
