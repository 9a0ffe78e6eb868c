"""Build folders: everything about one core, written as a whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any

from pinion.dynamics.joint_terms import FRICTION_WIDTH
from pinion.functions import BuiltFunction, Function, reduced_graph, row_of, snapping
from pinion.functions import function as named_function
from pinion.functions.table import DERIVATIVES
from pinion.gateware.core import Core
from pinion.gateware.dsp48e2 import VERILOG as DSP48E2
from pinion.gateware.dsp48e2 import explicit_modules
from pinion.gateware.emit import RTLIL, core_rtlil
from pinion.gateware.verilog import emit_verilog
from pinion.graph import Graph, format_graph, parse_graph
from pinion.graph.passes import fold
from pinion.graph.progress import Advance, portion, unheard
from pinion.hls import Design, FormatPlan, design
from pinion.hls.auto import HEADROOM, AutoFormats, PrecisionError
from pinion.hls.clusters import NONE, link_parents
from pinion.hls.costs import DatapathCosts
from pinion.hls.design import known_words
from pinion.hls.planfile import PLAN, plan_text
from pinion.hls.scales import block_scales
from pinion.hls.schedule import LoopError
from pinion.link import Manifest, ManifestError
from pinion.link.build_files import MODEL, SCHEDULE
from pinion.link.digests import check_digests, write_digests
from pinion.link.manifest import MANIFEST
from pinion.link.places import check_place, holds_us, scratch_beside
from pinion.robot import NO_ROBOT, Model, load, model_from_dict, model_to_dict
from pinion.robot.escaping import control_in
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
from .targets import SIM, find_target
from .task_record import RECORD, TASK, record_text, task_record

# About the share of the time of elaboration after which all units are there, but not their text.
_ELABORATED = 0.3

FUNCTION, GRAPH, VERILOG = "function.json", "graph.txt", "core.v"


class BuildError(ValueError):
    """What was asked for cannot be built, or not there; the message says why."""


def _quiet(message: str) -> None:
    del message


def _forgotten(place: Path) -> None:
    del place


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


def make_design(
    model: Model,
    row: Function,
    *,
    ii: int | None,
    formats: str,
    max_error: float | None = None,
    headroom: float = HEADROOM,
    ranges: str | None = None,
    objective: str = "area",
    clusters: str = NONE,
    clock_mhz: float = 250.0,
    floorplan: bool = False,
    search: TaskSearch | None = None,
    report: Callable[[str], None] = _quiet,
    advance: Advance = unheard,
) -> Design:
    """Trace, schedule and bind a function of a robot.

    Parameters
    ----------
    ii : cycles between results, or None to choose (:mod:`pinion.flow.interval`).
    formats, max_error, ranges, objective, clusters : as in :func:`build`.
    headroom : share of the largest error that formats by signal are chosen for.
    floorplan : choose units for short wires (:mod:`pinion.hls.floorplan`).
    search : what chooses the formats in place of `formats` and `max_error`.
    report, advance : as in :func:`build`.

    Raises
    ------
    ValueError
        Subclasses with a sentence: an unknown format, an interval below 1 or shorter than a loop
        through states, a constant of the robot that the format cannot hold.
    """
    parents = link_parents(clusters, model.parents)
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
        chosen = choose_interval(folded, clock_mhz=clock_mhz)
        ii = chosen.ii
        # With states a schedule decides: their loops may take longer.
        if not folded.states:
            report(f"Interval {ii}: {chosen.why}")
    plan: FormatPlan | AutoFormats
    if search is None:
        plan = format_plan(
            model, row, folded, formats,
            ranges=ranges, max_error=max_error, scales=scales, headroom=headroom,
        )  # fmt: skip
    else:
        plan = search.plan(folded, constants, scales, ii)
    distribution = plan.distribution if isinstance(plan, AutoFormats) else REFERENCE
    states = budget_states(model, row, distribution)

    def formatted(plan: FormatPlan | AutoFormats, interval: int) -> Design:
        return design(
            traced,
            ii=interval,
            plan=plan,
            timing=objective_timing(objective, plan),
            states=states,
            scales=scales,
            droppable=droppable,
            patience=PATIENCE[objective],
            link_parents=parents,
            floorplan=floorplan,
            report=report,
            advance=advance,
        )

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
            report(f"Interval {ii}: {chosen.why}")
        return made
    # Sums are gathered for an interval: only a design shows whether the next shorter one is kept.
    while ii - 1 > wanted:
        try:
            made = at(ii - 1)
        except LoopError:
            break
        ii -= 1
    if chosen is None:
        raise LoopError(late.words, asked=wanted, ii=ii)
    report(
        f"Interval {ii}: the loop through {loop} takes {ii} cycles, and a request waits for the "
        f"one before it; without it the interval would be {wanted}: {chosen.why}"
    )
    return made


def build(
    robot: str | Model | None,
    function: str | Function,
    folder: Path,
    *,
    ii: int | None = 8,
    formats: str | None = None,
    max_error: float | None = None,
    ranges: str | None = None,
    objective: str = "area",
    clusters: str = NONE,
    target: str = SIM,
    clock_mhz: float | None = None,
    derivatives: str = "composite",
    outputs: Sequence[str] = (),
    snap: bool = True,
    as_read: Model | None = None,
    joint_terms: bool | Sequence[str] = (),
    friction_width: float = FRICTION_WIDTH,
    goal: Goal | None = None,
    designed: Callable[[Model, Function, Design], None] | None = None,
    kept: Callable[[Path], None] = _forgotten,
    report: Callable[[str], None] = _quiet,
    advance: Advance = unheard,
) -> Manifest:
    """Build a core and write its folder.

    The folder appears complete or not at all; an earlier build at the same place is replaced, or
    kept beside it where it holds what Pinion did not write (:mod:`pinion.flow.replaced`), and any
    other folder that is not empty is refused.

    Parameters
    ----------
    robot : a built-in name, a URDF path, a model that was loaded and edited, or None for a function
        that takes no robot.
    function : a row of the table of functions by its name, or a function of your own, as it is or
        by ``module:function`` or ``file.py:function``.
    folder : the build folder to make.
    ii : cycles between results; None to choose, with a report that explains it.
    formats : ``q16.16``, ``q12.20`` or any other uniform format; ``auto`` for formats by signal,
        ``auto18`` for such in words of 18 bits; the path of a plan (``plan.toml`` of an earlier
        build, edited perhaps) for formats by signal as they stand there. None for the target's.
    max_error : largest relative error of a result block (:mod:`pinion.link.relative`): with
        ``auto`` what formats are chosen for, with a uniform format what it has to pass, which
        :func:`pinion.flow.promises.gate_sentence` says of the manifest. None for the formats' own.
    ranges : with ``auto``, the distribution of states that the formats are made for.
    objective : what the units' latencies are chosen for (:mod:`pinion.flow.objective`).
    target : ``sim``, or a board, whose files are written into the folder as well
        (:mod:`pinion.flow.targets`).
    clock_mhz : the core's clock to count with; a board's clock manager may make it a little slower.
        None for the target's.
    clusters : ``link`` gives every link units of its own, so that wires stay short
        (:mod:`pinion.hls.clusters`); with ``none`` all operations share them.
    derivatives, outputs : variant of a function that is named
        (:func:`pinion.functions.function`).
    snap : load a robot that is given by its name or path with exact right angles
        (:func:`pinion.robot.load`); a model is taken as it is.
    as_read : the same robot as its file has it, where ``robot`` is a model with snapped angles: the
        manifest says what the snapping changed. A build's own float model, which ``verify`` and
        error budgets refer to, is that of ``robot``.
    joint_terms, friction_width : what joints add besides their armature, to any function
        (:meth:`pinion.functions.Function.with_terms`).
    goal : with ``auto``, what formats are chosen for in place of a largest error: a task's measure
        and the loss at which it is still done (:mod:`pinion.flow.by_task`). The build then promises
        the errors that it measures.
    designed : called with robot, function and design, before the gateware is made.
    kept : called with the folder that has what others wrote into an earlier build, if they did:
        this one, or where the earlier build was moved to.
    report : called with a short line at each step.
    advance : called with the share of the step that is done, from 0.0 to 1.0, where it is known.

    Raises
    ------
    ValueError
        Subclasses with a sentence, for everything that the caller can correct.
    """
    row = _row(function, derivatives, outputs)
    if joint_terms:
        row = row.with_terms(joint_terms, friction_width)
    board = find_target(target)
    formats = board.formats if formats is None else formats
    clock_mhz = board.clock_mhz if clock_mhz is None else clock_mhz
    if not 1.0 <= clock_mhz <= 2000.0:
        raise BuildError(f"A clock of {clock_mhz:g} MHz is no clock; give 1 to 2000.")
    if ii is not None and not (_is_whole(ii) and 1 <= ii <= 4096):
        raise BuildError(
            f"An interval of {ii} cycles cannot be built: give ii (--ii) from 1 to 4096."
        )
    clock_mhz = board.reachable_mhz(clock_mhz)
    folder = Path(folder)
    if folder.is_symlink():  # what it leads to is replaced, and not the link
        folder = folder.resolve()
    robot = NO_ROBOT if robot is None else robot
    _refuse_foreign(folder)
    if isinstance(robot, str):
        report(f"Loading {robot}")
    if isinstance(robot, str):
        model, as_read = load(robot, snap=snap), load(robot)
    else:
        model = robot
    check_names(model)
    if control_in(row.name):
        raise BuildError(
            f"The function's name {row.name!a} holds a control character: use characters that can "
            "be seen."
        )
    search = None
    if goal is not None:
        _check_goal(formats, max_error)
        search = TaskSearch(
            model, row, goal,
            adds=board.formats != AUTO18, ranges=ranges, objective=objective, report=report,
        )  # fmt: skip
    planned = partial(
        make_design,
        model,
        row,
        ii=ii,
        formats=formats,
        max_error=max_error,
        ranges=ranges,
        objective=objective,
        clusters=clusters,
        clock_mhz=clock_mhz,
        floorplan=board.floorplan,
        search=search,
        report=report,
        advance=advance,
    )
    plan = planned()
    if search is not None:
        search.judge(plan)
    computed = BuiltFunction.of(row, model)
    home = plan.saved.distribution if plan.saved else REFERENCE
    wanted = plan.saved.max_error if plan.saved else GATE if max_error is None else max_error
    if search is not None:
        wanted = 0.0  # so that what is measured is what is promised

    def measure(plan: Design) -> dict[str, float | None]:
        report("Measuring the errors on every distribution of states")
        return measured_errors(model, computed, plan, home=home, wanted=wanted, advance=advance)

    measured = measure(plan)
    if search is None and signal_multiplier(formats) is not None:
        plan, measured = finer(
            plan, measured, lambda share: planned(headroom=share), measure,
            home=home, wanted=wanted, report=report,
        )  # fmt: skip
    if designed is not None:
        designed(model, row, plan)
    record: dict[str, Any] | None = None
    if search is not None:
        wanted = stated(measured, home=home, name=search.goal.name)
        assert plan.saved is not None
        plan = replace(plan, saved=replace(plan.saved, max_error=wanted, task=search.goal.name))
        record = task_record(search)
        formats = record["formats"]
    report("Elaborating the gateware")
    # The hash covers the latencies of the core that will hold it.
    probe = Core(graph=plan.fixed, binding=plan.binding, build_hash=0)
    rows = schedule_rows(plan, probe)
    manifest = build_manifest(
        model, row, plan, probe, rows, formats, objective, clusters, target, clock_mhz,
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
        exchange(folder, parts, manifest, kept)
    return manifest


def _is_whole(value: object) -> bool:
    """Whether a value of a caller's, of whatever type, is a whole number."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def _check_goal(formats: str, max_error: float | None) -> None:
    if formats != AUTO:
        raise BuildError(
            f"A task chooses formats by signal, and the formats are {formats}: give formats "
            f"{AUTO}, or leave the task out."
        )
    if max_error is not None:
        raise BuildError(
            f"A task chooses the formats by its own loss, so a largest error of {max_error:g} "
            "cannot be asked for beside it: leave one of the two out."
        )


def _row(function: str | Function, derivatives: str, outputs: Sequence[str]) -> Function:
    if isinstance(function, str):
        return named_function(function, derivatives=derivatives, outputs=outputs)
    function = row_of(function)
    if derivatives != DERIVATIVES[0] or outputs:
        raise BuildError(
            f"The function '{function.name}' is given as an object, so derivatives ({derivatives}) "
            f"and outputs ({', '.join(outputs) or 'none'}) cannot be chosen beside it: choose them "
            "on the object, with its methods formulated and asked."
        )
    return function


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
