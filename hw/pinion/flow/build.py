"""Build folders: everything about one core, written completely or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pinion.base.escaping import control_in
from pinion.base.places import check_place, holds_us, scratch_beside
from pinion.base.progress import SILENT, Progress
from pinion.formats import PrecisionError
from pinion.formats.planfile import PLAN, plan_text
from pinion.functions import BuiltFunction, Function, snapping
from pinion.gateware import Core, core_rtlil, emit_verilog
from pinion.gateware.dsp48e2 import VERILOG as DSP48E2
from pinion.gateware.dsp48e2 import explicit_modules
from pinion.gateware.emit import RTLIL
from pinion.graph import Graph, format_graph, parse_graph
from pinion.hls import Design
from pinion.link import Manifest, ManifestError
from pinion.link.build_files import MODEL, SCHEDULE
from pinion.link.digests import check_digests, write_digests
from pinion.link.manifest import MANIFEST
from pinion.link.replaced import exchange
from pinion.request import BuildRequest
from pinion.robot import Model, model_from_dict, model_to_dict
from pinion.robot.naming import check_names

from .by_task import Goal, TaskSearch
from .description import build_manifest, content_digest, function_text, schedule_rows
from .design import DESIGN, DesignDraft, choose_formats, schedule
from .objective import AUTO, AUTO18, signal_multiplier
from .promises import GATE, measured_errors, stated
from .states import REFERENCE
from .targets import Target, find_target, resolved
from .task_record import RECORD, TASK, record_text, task_record

# Share of the elaboration time, roughly, after which all units exist but not their text.
_ELABORATED = 0.3

TRIES = 3
"""Designs with finer formats that are tried if errors are larger on other states than on those that
the formats were chosen on."""

# Margin below the error limit that the measurement asks for.
_FINER = 0.9

FUNCTION, GRAPH, VERILOG = "function.json", "graph.txt", "core.v"


class BuildError(ValueError):
    """Error for invalid options of a build or bitstream, or a folder that cannot hold the build."""


@dataclass(frozen=True)
class Build:
    """Contents of a build folder, read back and checked.

    Members
    -------
    folder : where it is.
    manifest : the build in numbers.
    model : the robot.
    function : the function with its float model, as it was when it was built.
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
        """Read a build folder, and check that its files are unchanged since the build.

        Raises
        ------
        pinion.link.manifest.ManifestError
            When a file is missing, unreadable or not the one that was built.
        """
        folder = Path(folder)
        manifest = Manifest.read_core(folder)
        check_digests(folder)
        rows = SCHEDULE.read(folder)
        try:
            model = check_names(model_from_dict(json.loads((folder / MODEL).read_text())))
            computed = BuiltFunction.from_json(json.loads((folder / FUNCTION).read_text()))
            graph = parse_graph((folder / GRAPH).read_text())
            if content_digest(computed, graph, rows) != manifest.content:
                raise ValueError(
                    f"{FUNCTION}, {GRAPH} or {SCHEDULE.name} does not match {MANIFEST}"
                )
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise ManifestError(
                f"The build folder '{folder}' is not intact ({error}): build it again."
            ) from None
        return cls(folder, manifest, model, computed, graph, rows)


@dataclass(frozen=True, kw_only=True)
class Built:
    """Result of :func:`build`: manifest, design, and the reason for the interval.

    Members
    -------
    manifest, design : of the core.
    interval : reason for the interval; empty if it was given.
    earlier : this build's folder if it held the same build already, the path that another build
        with the user's own files was moved to, otherwise None.
    """

    manifest: Manifest
    design: Design
    interval: str = ""
    earlier: Path | None = None


@dataclass(kw_only=True)
class BuildDraft(DesignDraft):
    """Build in progress: its design, and the results of the stages so far.

    Members
    -------
    folder, as_read : as in :func:`build`.
    board : the target.
    measured : largest errors of the design by distribution (:func:`.promises.measured_errors`).
    record : of the task's search, if any.
    rows : the schedule as data.
    manifest, core, earlier : set by the last stages.
    """

    folder: Path
    as_read: Model | None
    board: Target
    measured: dict[str, float | None] = field(init=False)
    record: dict[str, Any] | None = None
    rows: dict[str, Any] = field(init=False)
    manifest: Manifest = field(init=False)
    core: Core = field(init=False)
    earlier: Path | None = None

    @cached_property
    def computed(self) -> BuiltFunction:
        """The function for this robot, with its float graph."""
        return BuiltFunction.of(self.row, self.model)

    @property
    def home(self) -> str:
        """Distribution of states that the core is designed for."""
        return self.design.saved.distribution if self.design.saved else REFERENCE

    @property
    def max_error(self) -> float:
        """Largest relative error allowed on states of the distribution `home`."""
        saved = self.design.saved
        return saved.max_error if saved else self.request.max_error or GATE


def build(
    model: Model,
    row: Function,
    folder: Path,
    request: BuildRequest | None = None,
    *,
    as_read: Model | None = None,
    goal: Goal | None = None,
    progress: Progress = SILENT,
) -> Built:
    """Build the core of a robot's function and write its folder.

    The folder appears complete or not at all. An earlier build there is replaced, or kept beside it
    if it holds files that Pinion did not write (:mod:`pinion.link.replaced`); any other folder that
    is not empty is refused.

    Parameters
    ----------
    model, row : the robot and the function; :data:`pinion.robot.NO_ROBOT` if it takes no robot.
    folder : the build folder to make.
    request : options of the core; those of robot and row are only stored. The default is
        :class:`pinion.request.BuildRequest`'s.
    as_read : the robot as its file describes it, if `model` has snapped angles: the manifest states
        what the snapping changed. The build's float model, which ``verify`` and error budgets refer
        to, is that of `model`.
    goal : with ``auto``, what formats are chosen for instead of an error limit: a task's measure
        and its largest allowed loss (:mod:`pinion.flow.by_task`). The build then promises the
        errors that it measures.
    progress : receives each step, and its share done if that is known.

    Raises
    ------
    ValueError
        Subclasses with a message, for everything that the caller can correct.
    """
    request = request or BuildRequest()
    if goal is not None:
        _check_goal(request)
    board, request = find_target(request.target), resolved(request)
    folder = Path(folder)
    if folder.is_symlink():  # the target is replaced, not the link
        folder = folder.resolve()
    _refuse_foreign(folder)
    check_names(model)
    if control_in(row.name):
        raise BuildError(
            f"The function's name {row.name!a} contains a control character: use printable "
            "characters."
        )
    search = None
    if goal is not None:
        search = TaskSearch(
            model, row, goal, adds=board.formats != AUTO18,
            ranges=request.ranges, objective=request.objective, progress=progress,
        )  # fmt: skip
    draft = BuildDraft(
        model=model, row=row, request=request, search=search, progress=progress,
        folder=folder, as_read=as_read, board=board,
    )  # fmt: skip
    for stage in BUILD:
        stage(draft)
    return Built(
        manifest=draft.manifest, design=draft.design, interval=draft.reason, earlier=draft.earlier
    )


def _judge(draft: BuildDraft) -> None:
    """Measure the scheduled design's loss in the task that chose its formats, if one did."""
    if draft.search is not None:
        draft.search.judge(draft.design)


def _measure(draft: BuildDraft) -> None:
    """Measure the largest error of the design on every distribution of states."""
    draft.progress.step("Measuring the errors on every distribution of states")
    draft.measured = measured_errors(
        draft.model, draft.computed, draft.design, home=draft.home,
        # A task sets no error limit: the measured error is promised.
        limit=draft.max_error if draft.search is None else 0.0,
        progress=draft.progress,
    )  # fmt: skip


def choose_finer_formats(draft: BuildDraft) -> None:
    """Repeat the design with finer per-signal formats, at most `TRIES` times, to meet the limit.

    Errors may be larger on other states than those that formats are chosen on. If :data:`TRIES`
    designs are not accurate enough, or none can be, the most accurate one is taken.
    """
    if draft.search is not None or signal_multiplier(draft.request.formats or "") is None:
        return
    home, max_error = draft.home, draft.max_error
    best = draft.design, draft.measured, draft.reason
    for _ in range(TRIES):
        error, least = draft.measured.get(home), best[1].get(home)
        if error is None or least is None or error <= max_error:
            break
        draft.headroom *= _FINER * max_error / error
        draft.progress.step(
            f"The largest error is {error:.2g} on other states: choosing finer formats"
        )
        try:
            choose_formats(draft)
            schedule(draft)
        except PrecisionError:
            break
        _measure(draft)
        error = draft.measured.get(home)
        if error is not None and error < least:
            best = draft.design, draft.measured, draft.reason
    draft.design, draft.measured, draft.reason = best


def _state_task(draft: BuildDraft) -> None:
    """Record the error of formats that a task chose, and the candidates of its search."""
    search, saved = draft.search, draft.design.saved
    if search is None or saved is None:
        return
    max_error = stated(draft.measured, home=draft.home, name=search.goal.name)
    saved = replace(saved, max_error=max_error, task=search.goal.name)
    draft.design = replace(draft.design, saved=saved)
    draft.record = task_record(search)
    draft.request = replace(draft.request, formats=draft.record["formats"], max_error=None)


def _elaborate(draft: BuildDraft) -> None:
    """Elaborate the core, and add its latencies to the manifest and so to the build hash."""
    draft.progress.step("Elaborating the gateware")
    model, row, design = draft.model, draft.row, draft.design
    probe = Core(graph=design.fixed, binding=design.binding, build_hash=0)
    draft.rows = schedule_rows(design, probe)
    draft.manifest = build_manifest(
        model, row, design, probe, draft.request,
        max_error=draft.max_error,
        measured=draft.measured,
        content=content_digest(draft.computed, design.fixed, draft.rows),
        snapping=snapping(draft.as_read, model, row) if draft.as_read else None,
        record=draft.record,
    )  # fmt: skip
    draft.core = Core(
        graph=design.fixed,
        binding=design.binding,
        build_hash=draft.manifest.hash,
        progress=draft.progress.part(0.0, _ELABORATED),
    )


def _write(draft: BuildDraft) -> None:
    """Write all files into a temporary folder, and move them into place."""
    design, manifest = draft.design, draft.manifest
    with scratch_beside(draft.folder) as scratch:
        parts = scratch / "build"
        parts.mkdir()
        manifest.write(parts)
        # Names of fixed joints are needed only to trace frames again.
        fixed_joints = draft.model.fixed_joints if draft.row.frames else ()
        stored = model_to_dict(replace(draft.model, fixed_joints=fixed_joints))
        (parts / MODEL).write_text(json.dumps(stored, indent=1) + "\n")
        (parts / FUNCTION).write_text(function_text(draft.computed))
        (parts / GRAPH).write_text(format_graph(design.fixed))
        SCHEDULE.write(parts, draft.rows, indent=1)
        if design.saved is not None:
            (parts / PLAN).write_text(plan_text(design.saved, design.real, design.reach))
        if draft.search is not None and draft.record is not None:
            (parts / TASK).write_text(draft.search.goal.text)
            (parts / RECORD).write_text(record_text(draft.record))
        (parts / RTLIL).write_text(core_rtlil(draft.core))
        draft.progress.advance(1.0)
        if blocks := explicit_modules(draft.core.datapath.blocks):
            (parts / DSP48E2).write_text(blocks)
        draft.progress.step("Writing Verilog")
        emit_verilog(parts / RTLIL, parts / VERILOG, explicit=blocks)
        draft.board.write(parts, manifest, draft.progress)
        write_digests(parts)
        draft.earlier = exchange(draft.folder, parts)


BUILD: tuple[Callable[[BuildDraft], None], ...] = (
    *DESIGN,
    _judge,
    _measure,
    choose_finer_formats,
    _state_task,
    _elaborate,
    _write,
)
"""Stages of a build, in order."""


def _check_goal(request: BuildRequest) -> None:
    formats = request.formats or find_target(request.target).formats
    if formats != AUTO:
        raise BuildError(
            f"A task chooses the formats itself, but the formats are '{formats}': give formats "
            f"'{AUTO}' (--formats), or leave out the task (--task)."
        )
    if request.max_error is not None:
        raise BuildError(
            "A task chooses the formats by its loss, so an error limit of "
            f"{request.max_error:g} cannot be requested as well: leave out the task (--task) or "
            "max_error (--max-error)."
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
            f"'{folder}' holds a build, which cannot be replaced from inside it: run the command "
            "from another folder, or give a new folder."
        )
