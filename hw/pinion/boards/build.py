"""Build folders: everything about one core, written as a whole or not at all."""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pinion.functions import Block, Function, function, reduced_graph
from pinion.gateware.core import Core
from pinion.gateware.emit import core_rtlil
from pinion.gateware.library import multiplier_count
from pinion.gateware.verilog import emit_verilog
from pinion.hls import Array, Design, Graph, Manifest, design, format_graph, parse_graph
from pinion.hls.auto import AutoFormats
from pinion.hls.clusters import NONE, link_parents
from pinion.hls.design import known_words
from pinion.hls.manifest import MANIFEST, ManifestError
from pinion.hls.operations import TABLES, kind_names
from pinion.hls.passes import fold
from pinion.hls.planfile import PLAN, plan_text
from pinion.robot import Model, load, model_from_dict, model_to_dict

from .interval import choose_interval
from .objective import format_plan, objective_timing
from .states import REFERENCE, budget_states

TARGETS = ("sim",)

MODEL, GRAPH, SCHEDULE, RTLIL, VERILOG = (
    "model.json",
    "graph.txt",
    "schedule.json",
    "core.il",
    "core.v",
)


_SCHEDULE_KEYS = {"ii", "length", "first_operand", "last_beat", "units", "operations", "outputs"}


# Compiled simulations, kept from build to build; named by the hash of what they were made of.
SIMULATION = "sim"


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
    graph : the fixed graph; its integer evaluation is what the core computes.
    schedule : ``schedule.json``: operations with unit, start, latency, region, line.
    """

    folder: Path
    manifest: Manifest
    model: Model
    graph: Graph
    schedule: dict[str, Any]

    @property
    def function(self) -> Function:
        """The function's row of the table, in the variant that was built."""
        options = self.manifest.options
        outputs = options["outputs"].split(",") if "outputs" in options else ()
        derivatives = options.get("derivatives", "composite")
        return function(self.manifest.function, derivatives=derivatives, outputs=outputs)

    @classmethod
    def read(cls, folder: Path) -> Build:
        """Read a build folder.

        Raises
        ------
        pinion.hls.manifest.ManifestError
            When a file is missing or unreadable.
        """
        folder = Path(folder)
        manifest = Manifest.read(folder)
        try:
            model = model_from_dict(json.loads((folder / MODEL).read_text()))
            graph = parse_graph((folder / GRAPH).read_text())
            rows = json.loads((folder / SCHEDULE).read_text())
            if missing := _SCHEDULE_KEYS - set(rows):
                raise KeyError(f"{SCHEDULE} lacks {', '.join(sorted(missing))}")
            if _content(graph, rows) != manifest.content:
                raise ValueError(f"{GRAPH} and {SCHEDULE} are not those of {MANIFEST}")
        except (OSError, ValueError, KeyError) as error:
            raise ManifestError(
                f"The build folder '{folder}' is not intact ({error}): build it again."
            ) from None
        return cls(folder, manifest, model, graph, rows)


def make_design(
    model: Model,
    row: Function,
    *,
    ii: int | None,
    formats: str,
    max_error: float | None = None,
    ranges: str | None = None,
    objective: str = "area",
    clusters: str = NONE,
    clock_mhz: float = 250.0,
    report: Callable[[str], None] = _quiet,
) -> Design:
    """Trace, schedule and bind a function of a robot.

    Parameters
    ----------
    ii : cycles between results, or None to choose (:mod:`pinion.boards.interval`).
    formats, max_error, ranges, objective, clusters : as in :func:`build`.

    Raises
    ------
    ValueError
        Subclasses with a sentence: an unknown format, an interval below 1, a constant of the robot
        that the format cannot hold.
    """
    parents = link_parents(clusters, model.parents)
    report(f"Tracing {row.name} for {model.name}")
    if row.options.get("derivatives") == "column":
        traced = row.trace(model, minimal=False)  # the formulation as it was published
    else:
        report("Taking out superfluous operations")
        traced = reduced_graph(model, row)
    matrices = [block for block in row.inputs if len(block.shape) > 1]
    droppable = {word for block in matrices for word in block.words(model)}
    folded = known_words(fold(traced), droppable)[0]
    plan = format_plan(model, row, folded, formats, ranges=ranges, max_error=max_error)
    distribution = plan.distribution if isinstance(plan, AutoFormats) else REFERENCE
    timing = objective_timing(objective, plan)
    if ii is None:
        chosen = choose_interval(folded, clock_mhz=clock_mhz)
        ii = chosen.ii
        report(f"Interval {ii}: {chosen.why}")
    report(f"Scheduling at one result every {ii} cycles")
    return design(
        traced,
        ii=ii,
        plan=plan,
        timing=timing,
        states=budget_states(model, row, distribution),
        droppable=droppable,
        link_parents=parents,
        report=report,
    )


def build(
    robot: str | Model,
    function_name: str,
    folder: Path,
    *,
    ii: int | None = 8,
    formats: str = "q16.16",
    max_error: float | None = None,
    ranges: str | None = None,
    objective: str = "area",
    clusters: str = NONE,
    target: str = "sim",
    clock_mhz: float = 250.0,
    derivatives: str = "composite",
    outputs: Sequence[str] = (),
    report: Callable[[str], None] = _quiet,
) -> Manifest:
    """Build a core and write its folder.

    The folder appears complete or not at all; an earlier build at the same place is replaced, and
    any other folder that is not empty is refused.

    Parameters
    ----------
    robot : a built-in name, a URDF path, or a model that was loaded and edited.
    function_name : a row of the table of functions.
    folder : the build folder to make.
    ii : cycles between results; None to choose, with a report that explains it.
    formats : ``q16.16``, ``q12.20`` or any other uniform format; ``auto`` for formats by signal,
        ``auto18`` for such in words of 18 bits; the path of a plan (``plan.toml`` of an earlier build, edited perhaps) for formats by
        signal as they stand there.
    max_error : with ``auto``, largest error of a result block relative to its largest word.
    ranges : with ``auto``, the distribution of states that the formats are made for.
    objective : what the units' latencies are chosen for (:mod:`pinion.boards.objective`).
    clusters : ``link`` gives every link units of its own, so that wires stay short
        (:mod:`pinion.hls.clusters`); with ``none`` all operations share them.
    derivatives, outputs : variant of the function (:func:`pinion.functions.function`).
    report : called with a short line at each step.

    Raises
    ------
    ValueError
        Subclasses with a sentence, for everything that the caller can mend.
    """
    row = function(function_name, derivatives=derivatives, outputs=outputs)
    if target not in TARGETS:
        raise BuildError(f"There is no target '{target}' yet; choose one of {', '.join(TARGETS)}.")
    if not 1.0 <= clock_mhz <= 2000.0:
        raise BuildError(f"A clock of {clock_mhz:g} MHz is no clock; give 1 to 2000.")
    if ii is not None and not 1 <= ii <= 4096:
        raise BuildError(f"The initiation interval is 1 to 4096 cycles, not {ii}.")
    folder = Path(folder)
    _refuse_foreign(folder)
    if isinstance(robot, str):
        report(f"Loading {robot}")
    model = load(robot) if isinstance(robot, str) else robot
    plan = make_design(
        model,
        row,
        ii=ii,
        formats=formats,
        max_error=max_error,
        ranges=ranges,
        objective=objective,
        clusters=clusters,
        clock_mhz=clock_mhz,
        report=report,
    )
    report("Elaborating the gateware")
    # The hash covers the latencies of the core that will hold it.
    probe = Core(graph=plan.fixed, binding=plan.binding, build_hash=0)
    rows = _rows(plan, probe)
    manifest = _manifest(
        model, row, plan, probe, rows, formats, objective, clusters, target, clock_mhz
    )
    core = Core(graph=plan.fixed, binding=plan.binding, build_hash=manifest.hash)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as scratch:
        parts = Path(scratch) / "build"
        parts.mkdir()
        manifest.write(parts)
        (parts / MODEL).write_text(json.dumps(model_to_dict(model), indent=1) + "\n")
        (parts / GRAPH).write_text(format_graph(plan.fixed))
        (parts / SCHEDULE).write_text(json.dumps(rows, indent=1) + "\n")
        if plan.saved is not None:
            (parts / PLAN).write_text(plan_text(plan.saved, plan.real, plan.reach))
        (parts / RTLIL).write_text(core_rtlil(core))
        report("Writing Verilog")
        emit_verilog(parts / RTLIL, parts / VERILOG)
        if folder.exists():
            _keep_simulation(folder, parts, manifest)
            shutil.rmtree(folder)
        parts.rename(folder)
    return manifest


def _keep_simulation(old: Path, new: Path, manifest: Manifest) -> None:
    """Take the compiled simulation along when the same build is made again."""
    try:
        same = Manifest.read(old).hash == manifest.hash
    except ManifestError:
        return
    if same and (old / SIMULATION).is_dir():
        (old / SIMULATION).rename(new / SIMULATION)


def _refuse_foreign(folder: Path) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise BuildError(f"'{folder}' is a file: give a folder for the build.")
    ours = all((folder / name).is_file() for name in (MANIFEST, GRAPH, RTLIL))
    if any(folder.iterdir()) and not ours:
        raise BuildError(
            f"'{folder}' holds files that are not a Pinion build: give an empty or a new folder."
        )


def _manifest(
    model: Model,
    row: Function,
    plan: Design,
    core: Core,
    rows: dict[str, Any],
    formats: str,
    objective: str,
    clusters: str,
    target: str,
    clock_mhz: float,
) -> Manifest:
    binding, modulo = plan.binding, plan.binding.schedule
    tables = sum(
        multiplier_count(kind) * count
        for kind, count in modulo.units.items()
        if kind.name in TABLES
    )
    return Manifest(
        version=_version(),
        robot=model.name,
        robot_source=Path(model.source).name,
        function=row.name,
        options=dict(row.options) | ({} if clusters == NONE else {"clusters": clusters}),
        formats=Path(formats).name,
        objective=objective,
        max_error=plan.saved.max_error if plan.saved else 0.0,
        target=target,
        ii=modulo.ii,
        clock_mhz=clock_mhz,
        inputs=tuple(_array(b, model, set(plan.fixed.inputs), {}) for b in row.inputs),
        outputs=tuple(
            _array(b, model, {name for name, _ in plan.fixed.outputs}, plan.constants)
            for b in row.outputs
        ),
        lanes_in=binding.lanes_in,
        beats_in=binding.beats_in,
        lanes_out=binding.lanes_out,
        beats_out=binding.beats_out,
        latency_cycles=modulo.latency_cycles,
        total_latency_cycles=core.total_latency,
        multipliers=plan.multipliers,
        table_multipliers=tables,
        adders=plan.adders,
        units=plan.units(),
        ops=plan.ops,
        registers=binding.registers,
        budget={name: float(f"{value:.6g}") for name, value in plan.budget.items()},
        budget_distribution=plan.saved.distribution if plan.saved else REFERENCE,
        content=_content(plan.fixed, rows),
    )


def _content(graph: Graph, rows: dict[str, Any]) -> str:
    """Digest of what the gateware is made of."""
    text = format_graph(graph) + json.dumps(rows, sort_keys=True)
    return sha256(text.encode()).hexdigest()


def _array(block: Block, model: Model, sent: set[str], constants: Mapping[str, float]) -> Array:
    """A block as the records carry it."""
    positions = block.positions(model)
    travels = tuple(position for word, position in positions.items() if word in sent)
    dims = block.dims(model)
    whole = len(travels) == math.prod(dims)
    return Array(
        name=block.name,
        shape=dims,
        unit=block.unit,
        sent=None if whole else travels,
        constants=tuple((positions[w], v) for w, v in constants.items() if w in positions),
        symmetric=block.symmetric,
    )


def _rows(plan: Design, core: Core) -> dict[str, Any]:
    """The schedule as data, for reports, pictures and the scoreboard."""
    binding, modulo = plan.binding, plan.binding.schedule
    names = kind_names(modulo.units)
    return {
        "ii": modulo.ii,
        "length": modulo.length,
        "first_operand": modulo.first_operand,
        "last_beat": core.last_beat,
        "units": {names[kind]: count for kind, count in modulo.units.items()},
        "operations": [
            {
                "node": operation.node,
                "kind": names[operation.kind],
                "unit": binding.unit[i],
                "start": modulo.start[i],
                "latency": operation.latency,
                "region": operation.region,
                "line": operation.line,
            }
            for i, operation in enumerate(modulo.operations)
        ],
        "outputs": [
            {"name": o.name, "node": o.node, "lane": o.lane, "beat": o.beat, "cycle": o.cycle}
            for o in binding.outputs
        ],
    }


def _version() -> str:
    try:
        return version("pinion")
    except PackageNotFoundError:
        return "0+unknown"
