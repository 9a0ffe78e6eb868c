"""Design of a core for a robot's function: trace, formats, schedule and binding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pinion.base.amounts import amount
from pinion.base.progress import SILENT, Progress
from pinion.formats import AutoFormats, FormatPlan, PrecisionError
from pinion.formats.auto import HEADROOM
from pinion.formats.scales import block_scales
from pinion.functions import Function, reduced_graph
from pinion.graph import Graph
from pinion.graph.passes import fold
from pinion.hls import Design, DesignSettings, design
from pinion.hls.costs import DatapathCosts
from pinion.hls.design import known_words
from pinion.hls.schedule.modulo import StateLoopError
from pinion.request import BuildRequest
from pinion.robot import Model

from .by_task import TaskSearch
from .interval import IntervalChoice, choose_interval
from .objective import PATIENCE, format_plan, objective_timing
from .states import REFERENCE, budget_states, scale_states
from .targets import find_target, resolved


@dataclass(kw_only=True)
class DesignDraft:
    """Design in progress: its inputs, and the results of the stages so far.

    Members
    -------
    model, row, request : the robot, the function and the resolved request.
    search : chooses the formats instead of the request, if any.
    progress : as in :func:`pinion.flow.build.build`.
    headroom : share of the largest error that per-signal formats are chosen for.
    traced, droppable, scales, settings : as :mod:`pinion.hls` takes them.
    folded, constants : the folded graph of transferred inputs and outputs, and known results.
    interval : of the request, or chosen.
    design : the result.
    reason : why the interval was chosen; empty if it was given.
    """

    model: Model
    row: Function
    request: BuildRequest
    search: TaskSearch | None = None
    progress: Progress = SILENT
    headroom: float = HEADROOM
    traced: Graph = field(init=False)
    droppable: set[str] = field(init=False)
    folded: Graph = field(init=False)
    constants: dict[str, float] = field(init=False)
    scales: dict[str, float] = field(init=False)
    interval: IntervalChoice = field(init=False)
    settings: DesignSettings = field(init=False)
    design: Design = field(init=False)
    reason: str = ""


def trace(draft: DesignDraft) -> None:
    """Trace the function, and reduce its operations."""
    model, row = draft.model, draft.row
    draft.progress.step(f"Tracing {row.name} for {model.name}")
    row.check(model)
    if row.published:
        draft.traced = row.trace(model, minimal=False, mapped=True)
    else:
        draft.progress.step("Removing superfluous operations")
        draft.traced = reduced_graph(
            model, row, costs=DatapathCosts(), mapped=True, progress=draft.progress
        )


def leave_out_words(draft: DesignDraft) -> None:
    """Fold constants, remove words that need no transfer, and find the scales of the results."""
    matrices = [block for block in draft.row.inputs if len(block.shape) > 1]
    draft.droppable = {word for block in matrices for word in block.words(draft.model)}
    draft.folded, draft.constants = known_words(fold(draft.traced), draft.droppable)
    draft.scales = block_scales(draft.folded, scale_states(draft.model, draft.row))


def set_interval(draft: DesignDraft) -> None:
    """Set the initiation interval to the request's, or choose one."""
    if draft.request.ii is not None:
        draft.interval = IntervalChoice(draft.request.ii, "")
        return
    assert draft.request.clock_mhz is not None
    draft.interval = choose_interval(draft.folded, clock_mhz=draft.request.clock_mhz)
    # With states the schedule decides: loops through them may take longer.
    if not draft.folded.states:
        _explain(draft, draft.interval.ii, draft.interval.why)


def choose_formats(draft: DesignDraft) -> None:
    """Choose the formats, and derive the settings for scheduling."""
    model, row, request, scales = draft.model, draft.row, draft.request, draft.scales
    ii = draft.interval.ii
    plan: FormatPlan | AutoFormats
    if draft.search is None:
        headroom = draft.headroom
        plan = format_plan(model, row, draft.folded, request, scales=scales, headroom=headroom)
    else:
        plan = draft.search.plan(draft.folded, draft.constants, scales, ii)
    distribution = plan.distribution if isinstance(plan, AutoFormats) else REFERENCE
    draft.settings = DesignSettings(
        ii=ii,
        plan=plan,
        timing=objective_timing(request.objective, plan),
        states=budget_states(model, row, distribution),
        scales=scales,
        droppable=draft.droppable,
        patience=PATIENCE[request.objective],
        floorplan=find_target(request.target).floorplan,
    )


def schedule(draft: DesignDraft) -> None:
    """Schedule and bind at the interval, or at a longer one if a loop through states needs it.

    Raises
    ------
    pinion.hls.schedule.modulo.StateLoopError
        If a loop takes longer than the requested interval.
    """
    shortest, why = draft.interval.ii, draft.interval.why
    ii, core = shortest, None
    loop_errors: list[StateLoopError] = []
    while core is None:
        try:
            core = _design_at(draft, ii)
        except StateLoopError as error:
            loop_errors.append(error)
            ii = error.ii
            draft.progress.step(f"The loop through {error.through} takes {ii} cycles")
    # Sums are gathered for an interval: only a design shows whether a shorter one works.
    while ii - 1 > shortest:
        try:
            core, ii = _design_at(draft, ii - 1), ii - 1
        except StateLoopError:
            break
    if loop_errors and not why:
        raise StateLoopError(loop_errors[0].words, requested=shortest, ii=ii)
    draft.design = core
    if loop_errors:
        why = (
            f"the loop through {loop_errors[-1].through} takes {ii} cycles, and a request waits "
            f"for the one before it; without the loop the interval would be {shortest}: {why}"
        )
    if why and draft.folded.states:
        _explain(draft, ii, why)


DESIGN: tuple[Callable[[DesignDraft], None], ...] = (
    trace,
    leave_out_words,
    set_interval,
    choose_formats,
    schedule,
)
"""Stages of a design, in order."""


def make_design(
    model: Model,
    row: Function,
    request: BuildRequest,
    *,
    search: TaskSearch | None = None,
    progress: Progress = SILENT,
) -> Design:
    """Trace, schedule and bind a function of a robot: the stages :data:`DESIGN`.

    Parameters
    ----------
    request : its options of robot and row are ignored.
    search : chooses the formats instead of the request, if given.
    progress : as in :func:`pinion.flow.build.build`.

    Raises
    ------
    ValueError
        Subclasses with a message: an unknown format, an interval below 1 or shorter than a loop
        through states, a constant of the robot that the format cannot hold.
    """
    draft = DesignDraft(
        model=model, row=row, request=resolved(request),
        search=search, progress=progress,
    )  # fmt: skip
    for stage in DESIGN:
        stage(draft)
    return draft.design


def _design_at(draft: DesignDraft, ii: int) -> Design:
    """Design at an interval, with longer sine and cosine words if the accuracy requires them."""
    draft.progress.step(f"Scheduling at one result every {amount(ii, 'cycle')}")
    settings = replace(draft.settings, ii=ii)
    try:
        return design(draft.traced, settings, progress=draft.progress)
    except PrecisionError:
        plan = settings.plan.finer() if isinstance(settings.plan, AutoFormats) else None
        if plan is None:
            raise
        draft.progress.step("Scheduling with longer sines and cosines")
        timing = objective_timing(draft.request.objective, plan)
        settings = replace(settings, plan=plan, timing=timing)
        return design(draft.traced, settings, progress=draft.progress)


def _explain(draft: DesignDraft, ii: int, why: str) -> None:
    draft.reason = f"Interval {ii}: {why}"
    draft.progress.step(draft.reason)
