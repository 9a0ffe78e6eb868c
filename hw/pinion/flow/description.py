"""The manifest of a build, and its schedule as data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from pinion.base import installation
from pinion.base.escaping import one_line
from pinion.functions import BuiltFunction, Function, Snapping, parameter_box
from pinion.functions.records import array_of, mapped_array
from pinion.gateware import Core, multiplier_count
from pinion.graph import Graph, format_graph
from pinion.hls import Design
from pinion.hls.operations import kind_names
from pinion.link import Manifest
from pinion.request import BuildRequest
from pinion.robot import Model

from .promises import promises
from .states import REFERENCE
from .task_record import task_figures, task_names


# Many parameters: the manifest states all of them, for one caller.
def build_manifest(
    model: Model,
    row: Function,
    plan: Design,
    core: Core,
    request: BuildRequest,
    *,
    max_error: float,
    measured: Mapping[str, float | None],
    content: str,
    snapping: Snapping | None,
    record: Mapping[str, Any] | None = None,
) -> Manifest:
    """Return the manifest of a design and its core; the request must state all but the interval."""
    formats = one_line(Path(str(request.formats)).name)
    assert request.clock_mhz is not None
    sent: set[str] = set(plan.fixed.inputs)
    bounds = {word: ends for word, ends in parameter_box(model, row).items() if word in sent}
    binding, modulo = plan.binding, plan.binding.schedule
    home = plan.saved.distribution if plan.saved else REFERENCE
    tables = sum(
        multiplier_count(kind) * count for kind, count in modulo.units.items() if not kind.products
    )
    return Manifest(
        version=installation.version(),
        robot=model.name,
        robot_source=one_line(Path(model.source).name),
        function=row.name,
        options=dict(row.options),
        formats=formats,
        objective=request.objective,
        max_error=max_error,
        target=request.target,
        ii=modulo.ii,
        clock_mhz=request.clock_mhz,
        inputs=tuple(mapped_array(array_of(b, model, sent, {}), row, model) for b in row.inputs),
        outputs=tuple(
            array_of(b, model, {name for name, _ in plan.fixed.outputs}, plan.constants)
            for b in row.results
        ),
        lanes_in=binding.lanes_in,
        beats_in=binding.beats_in,
        lanes_out=binding.lanes_out,
        beats_out=binding.beats_out,
        schedule_cycles=modulo.schedule_cycles,
        latency_cycles=core.latency,
        multipliers=plan.multipliers,
        table_multipliers=tables,
        adders=plan.adders,
        units=plan.units(),
        ops=plan.ops,
        registers=binding.registers,
        budget={name: float(f"{value:.6g}") for name, value in plan.budget.items()},
        budget_distribution=home,
        content=content,
        request=replace(request, formats=formats).plain(),
        decisions={f"%{i}": float(f"{bound:.6g}") for i, bound in plan.decisions.items()},
        snapping=snapping.figures() if snapping else {},
        states={str(state.word): state.initial for state in plan.fixed.states},
        parameter_low={word: low for word, (low, _) in bounds.items()},
        parameter_high={word: high for word, (_, high) in bounds.items()},
        scales=dict(plan.scales),
        measured={name: error for name, error in measured.items() if error is not None},
        promises=promises(measured, home=home, limit=max_error),
        task={} if record is None else task_names(record),
        tracking={} if record is None else task_figures(record),
    )


def function_text(function: BuiltFunction) -> str:
    """Return the text of the file that describes the function of a build."""
    return json.dumps(function.to_json(), allow_nan=False, separators=(",", ":")) + "\n"


def content_digest(function: BuiltFunction, graph: Graph, rows: dict[str, Any]) -> str:
    """Return the digest of a build's function, graph and schedule."""
    text = function_text(function) + format_graph(graph) + json.dumps(rows, sort_keys=True)
    return sha256(text.encode()).hexdigest()


def schedule_rows(plan: Design, core: Core) -> dict[str, Any]:
    """Return the schedule as data for reports, pictures and the scoreboard."""
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
                "region": str(operation.region or ""),
                "line": operation.line,
            }
            for i, operation in enumerate(modulo.operations)
        ],
        "outputs": [
            {"name": o.name, "node": o.node, "lane": o.lane, "beat": o.beat, "cycle": o.cycle}
            for o in binding.outputs
        ],
    }
