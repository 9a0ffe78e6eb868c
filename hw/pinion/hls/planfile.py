"""The plan of per-signal formats as a file: to read, to review, to edit and to build from."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pinion.fixedpoint import Format, FormatError

from .graph import Graph
from .signals import SignalPlan, TableFormats
from .text import format_graph

PLAN = "plan.toml"

_HEAD = """\
# Formats of a core's signals. [27, 18] is a word of 27 bits, 18 of them behind the binary point.
# `value` is what is stored; `ports` are the operands as the unit reads them, in the operation's
# order. Edit and build again with --formats {name}. What must stay: the ports of one
# product are 27 bits and 18 or 27 bits; all products of one operation have the same number of
# fraction bits, ports added; a result drops 17 of them (26 with two ports of 27 bits); an
# addition's ports have its value's fraction bits.
"""


class PlanError(ValueError):
    """A plan file cannot be used; the message says why."""


@dataclass(frozen=True, kw_only=True)
class SavedPlan:
    """A plan with what it was made for.

    Members
    -------
    signals : the formats.
    tables : those of angles and pivots.
    widths : dot widths of the graph that the node numbers belong to.
    digest : of that graph.
    distribution, max_error : what the formats are meant for.
    """

    signals: SignalPlan
    tables: TableFormats
    widths: tuple[int, ...]
    digest: str
    distribution: str
    max_error: float

    def check(self, graph: Graph) -> None:
        """Refuse a graph that the plan was not made for.

        Raises
        ------
        PlanError
        """
        if graph_digest(graph) != self.digest:
            raise PlanError(
                "The plan belongs to another core: robot, function, interval and version of Pinion "
                "must be those that it was written for. Make a new one with --formats auto."
            )


def graph_digest(graph: Graph) -> str:
    """What a plan recognises its graph by."""
    return hashlib.sha256(format_graph(graph).encode()).hexdigest()[:16]


def format_plan(plan: SavedPlan, graph: Graph, reach: Mapping[int, float]) -> str:
    """Write a plan as TOML.

    Parameters
    ----------
    graph : the real graph that the plan is for.
    reach : largest magnitude seen of each node, for the reader.
    """
    names = {node: name for name, node in reversed(graph.outputs)}
    lines = [
        _HEAD.format(name=PLAN),
        f"distribution = {json.dumps(plan.distribution)}",
        f"max_error = {plan.max_error!r}",
        f"angle = [{plan.tables.angle.width}, {plan.tables.angle.frac}]",
        f"together = {plan.tables.together}  # fraction bits of a pivot and its reciprocal",
        f"dot_widths = {list(plan.widths)}",
        f"graph = {json.dumps(plan.digest)}",
    ]
    for i, fmt in sorted(plan.signals.values.items()):
        node = graph.nodes[i]
        about = [f"%{i}", node.op, node.region, node.line, names.get(i, "")]
        if node.op == "input":
            about.append(str(node.params[0]))
        lines += [
            "",
            f"[signal.{i}]  # {' '.join(part for part in about if part)}",
            f"value = [{fmt.width}, {fmt.frac}]  # holds {fmt.max:.4g}; seen {reach[i]:.4g}",
        ]
        if i in plan.signals.ports:
            ports = ", ".join(f"[{p.width}, {p.frac}]" for p in plan.signals.ports[i])
            lines.append(f"ports = [{ports}]")
    return "\n".join(lines) + "\n"


def read_plan(path: Path) -> SavedPlan:
    """Read a plan file.

    Raises
    ------
    PlanError
        With the place, when it cannot be read.
    """
    try:
        data = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PlanError(f"The plan '{path}' cannot be read: {error}.") from None
    try:
        values, ports = {}, {}
        for key, entry in data["signal"].items():
            values[int(key)] = _format(path, key, entry["value"])
            if "ports" in entry:
                ports[int(key)] = tuple(_format(path, key, port) for port in entry["ports"])
        return SavedPlan(
            signals=SignalPlan(values=values, ports=ports),
            tables=TableFormats(
                angle=_format(path, "angle", data["angle"]), together=int(data["together"])
            ),
            widths=tuple(int(width) for width in data["dot_widths"]),
            digest=str(data["graph"]),
            distribution=str(data["distribution"]),
            max_error=float(data["max_error"]),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, PlanError):
            raise
        raise PlanError(
            f"The plan '{path}' is not whole ({type(error).__name__}: {error}): it needs "
            "distribution, max_error, angle, together, dot_widths, graph and a [signal.N] for each."
        ) from None


def _format(path: Path, key: str, pair: object) -> Format:
    whole = isinstance(pair, list) and len(pair) == 2 and all(type(x) is int for x in pair)
    if whole and isinstance(pair, list) and 2 <= pair[0] <= 36 and -100 <= pair[1] <= 100:
        try:
            return Format(pair[0], pair[1])
        except FormatError as error:
            raise PlanError(f"Signal {key} of '{path}': {error}") from None
    raise PlanError(
        f"Signal {key} of '{path}' has the format {pair}; write [bits, fraction bits] with 2 to 36 "
        "bits and -100 to 100 fraction bits, such as [27, 18]."
    )
