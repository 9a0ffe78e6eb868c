"""Build folders: everything about one core, written as a whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pinion.base.escaping import control_in
from pinion.base.places import check_place, holds_us, scratch_beside
from pinion.base.progress import Advance, portion, unheard
from pinion.formats import FormatPlan
from pinion.formats.auto import HEADROOM, AutoFormats, PrecisionError
from pinion.formats.planfile import PLAN, plan_text
from pinion.formats.scales import block_scales
from pinion.functions import BuiltFunction, Function, reduced_graph, snapping
from pinion.gateware.core import Core
from pinion.gateware.dsp48e2 import VERILOG as DSP48E2
from pinion.gateware.dsp48e2 import explicit_modules
from pinion.gateware.emit import RTLIL, core_rtlil
from pinion.gateware.verilog import emit_verilog
from pinion.graph import Graph, format_graph, parse_graph
from pinion.graph.passes import fold
from pinion.hls import Design, DesignSettings, design
from pinion.hls.clusters import link_parents
from pinion.hls.costs import DatapathCosts
from pinion.hls.design import known_words
from pinion.hls.schedule import LoopError
from pinion.link import Manifest, ManifestError
from pinion.link.build_files import MODEL, SCHEDULE
from pinion.link.digests import check_digests, write_digests
from pinion.link.manifest import MANIFEST
from pinion.request import BuildRequest
from pinion.robot import Model, model_from_dict, model_to_dict
from pinion.robot.naming import check_names

from .by_task import Goal, TaskSearch
from .description import build_manifest, content_digest, function_text, schedule_rows
from .interval import choose_interval
from .objective import (
    AUTO,
    AUTO18,
    PATIENCE,
    format_plan,
    objective_timing,
    signal_multiplier,
)
from .promises import GATE, finer, measured_errors, stated
from .replaced import exchange
from .states import REFERENCE, budget_states, scale_states
from .targets import find_target, resolved
from .task_record import RECORD, TASK, record_text, task_record

# About the share of the time of elaboration after which all units are there, but not their text.
_ELABORATED = 0.3

FUNCTION, GRAPH, VERILOG = "function.json", "graph.txt", "core.v"


class BuildError(ValueError):
    """What was asked for cannot be built, or not there; the message says why."""


def _quiet(message: str) -> None:
    del message


@dataclass(frozen=True)
class Build:
    """A build folder, read back.

    Members
    -------
    folder : where it is.
    manifest : the build in numbers.
    model : the robot.
    function : what it computes, with its float model; as it was when it was built, so that nothing
        is looked up by name.
    graph : the fixed graph; its integer evaluation is what the core computes.
    schedule : ``schedule.json``: operations with unit, start, latency, region, line.
    """

    folder: Path
    manifest: Manifest
    model: Model
    function: BuiltFunction
    graph: Graph
    schedule: dict[str, Any]

    @classmethod
    def read(cls, folder: Path) -> Build:
        """Read a build folder, all of whose files must be as they were built.

        Raises
        ------
        pinion.link.manifest.ManifestError
            When a file is missing, unreadable or not the one that was built.
        """
        folder = Path(folder)
        manifest = Manifest.read(folder)
        check_digests(folder)
        rows = SCHEDULE.read(folder)
        try:
            model = check_names(model_from_dict(json.loads((folder / MODEL).read_text())))
            computed = BuiltFunction.from_json(json.loads((folder / FUNCTION).read_text()))
            graph = parse_graph((folder / GRAPH).read_text())
            if content_digest(computed, graph, rows) != manifest.content:
                raise ValueError(
                    f"{FUNCTION}, {GRAPH} and {SCHEDULE.name} are not those of {MANIFEST}"
                )
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise ManifestError(
                f"The build folder '{folder}' is not intact ({error}): build it again."
            ) from None
        return cls(folder, manifest, model, computed, graph, rows)


@dataclass(frozen=True, kw_only=True)
class Built:
    """What :func:`build` has made.

    Members
    -------
    manifest, design : of the core.
    interval : why the interval was chosen; empty where it was given.
    kept : the folder that has what others wrote into an earlier build at the same place: this
        build's, or where the earlier one was moved to. None where there was nothing of that kind.
    """

    manifest: Manifest
    design: Design
    interval: str = ""
    kept: Path | None = None


def make_design(
    model: Model,
    row: Function,
    request: BuildRequest,
    *,
    headroom: float = HEADROOM,
    floorplan: bool = False,
    search: TaskSearch | None = None,
    report: Callable[[str], None] = _quiet,
    advance: Advance = unheard,
) -> Design:
    """Trace, schedule and bind a function of a robot.

    Parameters
    ----------
    request : options of robot and row are not looked at.
    headroom : share of the largest error that formats by signal are chosen for.
    floorplan : choose units for short wires (:mod:`pinion.hls.floorplan`).
    search : what chooses the formats in place of those of the request.
    report, advance : as in :func:`build`.

    Raises
    ------
    ValueError
        Subclasses with a sentence: an unknown format, an interval below 1 or shorter than a loop
        through states, a constant of the robot that the format cannot hold.
    """
    return explained_design(
        model,
        row,
        resolved(request),
        headroom=headroom,
        floorplan=floorplan,
        search=search,
        report=report,
        advance=advance,
    )[0]


def explained_design(
    model: Model,
    row: Function,
    request: BuildRequest,
    *,
    headroom: float = HEADROOM,
    floorplan: bool,
    search: TaskSearch | None,
    report: Callable[[str], None],
    advance: Advance,
) -> tuple[Design, str]:
    """The design of a resolved request, and why its interval was chosen; "" where it was given."""
    ii, reason = request.ii, ""
    assert request.clock_mhz is not None
    parents = link_parents(request.clusters, model.parents)
    report(f"Tracing {row.name} for {model.name}")
    row.check(model)
    if row.published:
        traced = row.trace(model, minimal=False)
    else:
        report("Taking out superfluous operations")
        traced = reduced_graph(model, row, costs=DatapathCosts(), advance=advance)
    matrices = [block for block in row.inputs if len(block.shape) > 1]
    droppable = {word for block in matrices for word in block.words(model)}
    folded, constants = known_words(fold(traced), droppable)
    scales = block_scales(folded, scale_states(model, row))
    chosen = None
    if ii is None:
        chosen = choose_interval(folded, clock_mhz=request.clock_mhz)
        ii = chosen.ii
        # With states a schedule decides: their loops may take longer.
        if not folded.states:
            reason = f"Interval {ii}: {chosen.why}"
            report(reason)
    plan: FormatPlan | AutoFormats
    if search is None:
        plan = format_plan(model, row, folded, request, scales=scales, headroom=headroom)
    else:
        plan = search.plan(folded, constants, scales, ii)
    distribution = plan.distribution if isinstance(plan, AutoFormats) else REFERENCE
    states = budget_states(model, row, distribution)

    def formatted(plan: FormatPlan | AutoFormats, interval: int) -> Design:
        settings = DesignSettings(
            ii=interval,
            plan=plan,
            timing=objective_timing(request.objective, plan),
            states=states,
            scales=scales,
            droppable=droppable,
            patience=PATIENCE[request.objective],
            link_parents=parents,
            floorplan=floorplan,
        )
        return design(traced, settings, report=report, advance=advance)

    def at(interval: int) -> Design:
        report(f"Scheduling at one result every {interval} cycles")
        try:
            return formatted(plan, interval)
        except PrecisionError:
            if not isinstance(plan, AutoFormats) or (finer := plan.finer()) is None:
                raise
            report("Scheduling with longer sines and cosines")
            return formatted(finer, interval)

    wanted, late, made, loop = ii, None, None, ""
    while made is None:
        try:
            made = at(ii)
        except LoopError as error:
            late, ii, loop = late or error, error.ii, error.through
            report(f"The loop through {loop} takes {ii} cycles")
    if late is None:
        if chosen is not None and folded.states:
            reason = f"Interval {ii}: {chosen.why}"
            report(reason)
        return made, reason
    # Sums are gathered for an interval: only a design shows whether the next shorter one is kept.
    while ii - 1 > wanted:
        try:
            made = at(ii - 1)
        except LoopError:
            break
        ii -= 1
    if chosen is None:
        raise LoopError(late.words, asked=wanted, ii=ii)
    reason = (
        f"Interval {ii}: the loop through {loop} takes {ii} cycles, and a request waits for the "
        f"one before it; without it the interval would be {wanted}: {chosen.why}"
    )
    report(reason)
    return made, reason


def build(
    model: Model,
    row: Function,
    folder: Path,
    request: BuildRequest | None = None,
    *,
    as_read: Model | None = None,
    goal: Goal | None = None,
    report: Callable[[str], None] = _quiet,
    advance: Advance = unheard,
) -> Built:
    """Build a core and write its folder.

    The folder appears complete or not at all; an earlier build at the same place is replaced, or
    kept beside it where it holds what Pinion did not write (:mod:`pinion.flow.replaced`), and any
    other folder that is not empty is refused.

    Parameters
    ----------
    model, row : what is built; for a function that takes no robot :data:`pinion.robot.NO_ROBOT`.
    folder : the build folder to make.
    request : its options of the core; those of robot and row are stored alone. By default all are
        as :class:`pinion.request.BuildRequest` has them.
    as_read : the same robot as its file has it, where `model` has snapped angles: the manifest says
        what the snapping changed. A build's own float model, which ``verify`` and error budgets
        refer to, is that of `model`.
    goal : with ``auto``, what formats are chosen for in place of a largest error: a task's measure
        and the loss at which it is still done (:mod:`pinion.flow.by_task`). The build then promises
        the errors that it measures.
    report : called with a short line at each step.
    advance : called with the share of the step that is done, from 0.0 to 1.0, where it is known.

    Raises
    ------
    ValueError
        Subclasses with a sentence, for everything that the caller can correct.
    """
    request = request or BuildRequest()
    if goal is not None:
        _check_goal(request)
    board, request = find_target(request.target), resolved(request)
    folder = Path(folder)
    if folder.is_symlink():  # what it leads to is replaced, and not the link
        folder = folder.resolve()
    _refuse_foreign(folder)
    check_names(model)
    if control_in(row.name):
        raise BuildError(
            f"The function's name {row.name!a} holds a control character: use characters that can "
            "be seen."
        )
    search = None
    if goal is not None:
        search = TaskSearch(
            model, row, goal, adds=board.formats != AUTO18,
            ranges=request.ranges, objective=request.objective, report=report,
        )  # fmt: skip
    planned = partial(
        explained_design,
        model,
        row,
        request,
        floorplan=board.floorplan,
        search=search,
        report=report,
        advance=advance,
    )
    plan, interval = planned()
    if search is not None:
        search.judge(plan)
    computed = BuiltFunction.of(row, model)
    home = plan.saved.distribution if plan.saved else REFERENCE
    wanted = plan.saved.max_error if plan.saved else request.max_error or GATE
    if search is not None:
        wanted = 0.0  # so that what is measured is what is promised

    def measure(plan: Design) -> dict[str, float | None]:
        report("Measuring the errors on every distribution of states")
        return measured_errors(model, computed, plan, home=home, wanted=wanted, advance=advance)

    measured = measure(plan)
    if search is None and signal_multiplier(request.formats or "") is not None:
        plan, measured = finer(
            plan, measured, lambda share: planned(headroom=share)[0], measure,
            home=home, wanted=wanted, report=report,
        )  # fmt: skip
    record: dict[str, Any] | None = None
    if search is not None:
        wanted = stated(measured, home=home, name=search.goal.name)
        assert plan.saved is not None
        plan = replace(plan, saved=replace(plan.saved, max_error=wanted, task=search.goal.name))
        record = task_record(search)
        request = replace(request, formats=record["formats"], max_error=None)
    report("Elaborating the gateware")
    # The hash covers the latencies of the core that will hold it.
    probe = Core(graph=plan.fixed, binding=plan.binding, build_hash=0)
    rows = schedule_rows(plan, probe)
    manifest = build_manifest(
        model, row, plan, probe, rows, request,
        max_error=wanted,
        measured=measured,
        content=content_digest(computed, plan.fixed, rows),
        snapping=snapping(as_read, model, row) if as_read else None,
        record=record,
    )  # fmt: skip
    core = Core(
        graph=plan.fixed,
        binding=plan.binding,
        build_hash=manifest.hash,
        advance=portion(advance, 0.0, _ELABORATED),
    )
    with scratch_beside(folder) as scratch:
        parts = scratch / "build"
        parts.mkdir()
        manifest.write(parts)
        (parts / MODEL).write_text(json.dumps(model_to_dict(model), indent=1) + "\n")
        (parts / FUNCTION).write_text(function_text(computed))
        (parts / GRAPH).write_text(format_graph(plan.fixed))
        SCHEDULE.write(parts, rows, indent=1)
        if plan.saved is not None:
            (parts / PLAN).write_text(plan_text(plan.saved, plan.real, plan.reach))
        if search is not None and record is not None:
            (parts / TASK).write_text(search.goal.text)
            (parts / RECORD).write_text(record_text(record))
        (parts / RTLIL).write_text(core_rtlil(core))
        advance(1.0)
        if blocks := explicit_modules(core.datapath.blocks):
            (parts / DSP48E2).write_text(blocks)
        report("Writing Verilog")
        emit_verilog(parts / RTLIL, parts / VERILOG, explicit=blocks)
        board.write(parts, manifest, report)
        write_digests(parts)
        kept = exchange(folder, parts, manifest)
    return Built(manifest=manifest, design=plan, interval=interval, kept=kept)


def _check_goal(request: BuildRequest) -> None:
    formats = request.formats or find_target(request.target).formats
    if formats != AUTO:
        raise BuildError(
            f"A task chooses formats by signal, and the formats are {formats}: give formats "
            f"{AUTO}, or leave the task out."
        )
    if request.max_error is not None:
        raise BuildError(
            "A task chooses the formats by its own loss, so a largest error of "
            f"{request.max_error:g} cannot be asked for beside it: leave one of the two out."
        )


def _refuse_foreign(folder: Path) -> None:
    check_place(folder, "build", BuildError)
    if not folder.exists():
        return
    if not folder.is_dir():
        raise BuildError(f"'{folder}' is a file: give a folder for the build.")
    ours = all((folder / name).is_file() for name in (MANIFEST, GRAPH, RTLIL))
    if any(folder.iterdir()) and not ours:
        raise BuildError(
            f"'{folder}' holds files that are not a Pinion build: give an empty or a new folder."
        )
    if ours and holds_us(folder):
        raise BuildError(
            f"'{folder}' holds a build, which cannot be replaced from inside: go to another folder "
            "and name this one from there, or give a new folder."
        )
