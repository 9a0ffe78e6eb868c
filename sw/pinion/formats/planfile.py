"""Plan files: per-signal formats to review, to edit and to build from."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pinion.base.amounts import amount
from pinion.base.escaping import one_line
from pinion.fixedpoint import Format, FormatError
from pinion.graph import OPS, Graph, Node, format_graph, names
from pinion.graph.op import OperandPoint
from pinion.graph.ops import Family
from pinion.graph.rules import addend, pairs

from .multiplier import Multiplier, multiplier_of, part_of
from .signals import SignalPlan, TableFormats

PLAN = "plan.toml"

VERSION = 1
"""Version of the file format."""

_HEAD = """\
# Formats of a core's signals. [27, 18] is a word of 27 bits, 18 of them after the binary point.
# `value` is what is stored; `ports` are the operands as the unit reads them, in the operation's
# order. Edit and build again with it (--formats {name}). What must stay: the ports of one
# product are 27 bits and 18 or 27 bits; all products of one operation have the same number of
# fraction bits in total; a result drops 17 of them (26 with two ports of 27 bits); an
# addition's ports, and the last one of an odd number of ports, have the value's fraction bits.
"""


# Formats chosen by a task may leave no certain digit, as long as the task is fulfilled.
_LARGEST = 1e9

# Largest distance of a binary point from the word's end, in either direction.
_MOST_FRAC = 60


class PlanError(ValueError):
    """A plan file cannot be used; the message says why."""


@dataclass(frozen=True, kw_only=True)
class SavedPlan:
    """A plan of formats, with the graph and the purpose for which it was made.

    Members
    -------
    signals : the formats.
    tables : formats of angles and pivots.
    widths : dot widths of the graph that the node numbers belong to.
    digest : digest of that graph.
    distribution, max_error : what the formats are meant for.
    task : name of the task that chose them, if not an error limit; `max_error` is then the error
        that a build with them has stated.
    """

    signals: SignalPlan
    tables: TableFormats
    widths: tuple[int, ...]
    digest: str
    distribution: str
    max_error: float
    task: str = ""

    def check(self, graph: Graph) -> None:
        """Raise `PlanError` unless the plan was made for this graph and obeys the hardware's rules.

        Raises
        ------
        PlanError
        """
        if graph_digest(graph) != self.digest:
            raise PlanError(
                "The plan belongs to another core: robot, function, interval, objective and "
                "version of Pinion must be those for which it was written. Make a new one with "
                "formats 'auto'."
            )
        negated = graph.negated_results()
        signals = {
            i for i, node in enumerate(graph.nodes) if node.op != names.CONST and i not in negated
        }
        if strays := sorted(set(self.signals.values) ^ signals):
            raise PlanError(
                f"The plan has no signal {strays[0]}: restore it."
                if strays[0] in signals
                else f"The plan has a signal {strays[0]}, which its core does not have: remove it."
            )
        angles = {node.args[0] for node in graph.nodes if node.op in names.TRIG}
        for i in sorted(signals):
            node = graph.nodes[i]
            if rule := self._broken_rule(i, node, angle=i in angles):
                raise PlanError(f"Signal {i} ({node.op}) of the plan breaks a rule: {rule}.")

    def _broken_rule(self, i: int, node: Node, *, angle: bool) -> str:
        """Return the hardware rule that a signal breaks, in words, or an empty string."""
        ports, value = self.signals.ports.get(i, ()), self.signals.values[i]
        stored, short = self.tables.stored, self.tables.multiplier.narrow
        if len(ports) != len(node.args):
            return f"it must have {amount(len(node.args), 'port')}, not {len(ports)}"
        function = OPS[node.op].family is Family.FUNCTION
        if angle and value != self.tables.angle and not function:
            return "every angle must have the format `angle` at the top of the file"
        match node.op:
            case names.SIN | names.COS:
                if value != self.tables.turn or ports[0] != self.tables.angle:
                    return (
                        "a sine or cosine must read `angle` and have the format `turn`, both at "
                        "the top of the file"
                    )
            case names.RECIPROCAL:
                together = value.frac + ports[0].frac
                if {value.width, ports[0].width} != {stored} or together != self.tables.together:
                    return (
                        f"a reciprocal and its port must have {stored} bits each and `together` "
                        "fraction bits in total"
                    )
            case names.ADD | names.SUB | names.SUM | names.NEG:
                if {*ports, value} != {value} or value.width != stored:
                    return f"an addition's ports and value must share a format of {stored} bits"
            case names.MUL | names.DOT:
                products = pairs(ports)
                narrow = {min(a.width, b.width) for a, b in products}
                wide = {max(a.width, b.width) for a, b in products} | {value.width}
                if wide != {stored} or narrow not in ({short}, {stored}):
                    return (
                        f"one port of a product must have {stored} bits, and the other {short} "
                        f"or {stored}, the same in all products of the operation"
                    )
                dropped = narrow.pop() - 1
                if addend(ports) not in (None, value):
                    return "the addend of products must have the format of the value"
                if {a.frac + b.frac for a, b in products} != {value.frac + dropped}:
                    return (
                        "the fraction bits of a product's two ports must add up to those of the "
                        f"value and {dropped} more"
                    )
            case _ if function:
                return self._broken_function(node, ports, value)
            case _:
                if value.width != stored:
                    return f"a request's words must have {stored} bits"
        return ""

    def _broken_function(self, node: Node, ports: tuple[Format, ...], value: Format) -> str:
        """Return the rule that a function's formats break, in words, or an empty string."""
        stored, points = self.tables.stored, OPS[node.op].points
        if {fmt.width for fmt in (*ports, value)} != {stored}:
            return f"the ports and the value of {node.op} must have {stored} bits each"
        shared = {
            port.frac for port, p in zip(ports, points, strict=True) if p is OperandPoint.SHARED
        }
        at_result = {
            port.frac for port, p in zip(ports, points, strict=True) if p is OperandPoint.RESULT
        }
        if len(shared) > 1 or at_result - {value.frac}:
            point_names = [p.value for p in points]
            return (
                f"{node.op} must read its operands at these binary points: {', '.join(point_names)}"
            )
        if (least := OPS[node.op].least_of(node)) > value.max:
            return f"the format of {node.op} must hold {least:g}"
        return ""


def graph_digest(graph: Graph) -> str:
    """Return a graph's digest, which ties a plan to the graph."""
    return hashlib.sha256(format_graph(graph).encode()).hexdigest()[:16]


def plan_text(plan: SavedPlan, graph: Graph, reach: Mapping[int, float]) -> str:
    """Return a plan as TOML.

    Parameters
    ----------
    graph : the real graph that the plan is for.
    reach : largest magnitude of each node, for the reader.
    """
    results = {node: word for word, node in reversed(graph.outputs)}
    lines = [
        _HEAD.format(name=PLAN),
        f"version = {VERSION}",
        f"distribution = {json.dumps(plan.distribution)}",
        *([f"task = {json.dumps(plan.task)}"] if plan.task else []),
        f"max_error = {plan.max_error!r}",
        f"angle = [{plan.tables.angle.width}, {plan.tables.angle.frac}]",
        f"turn = [{plan.tables.turn.width}, {plan.tables.turn.frac}]",
        f"together = {plan.tables.together}  # fraction bits of a pivot and its reciprocal",
        *_multiplier_lines(plan.tables.multiplier),
        f"dot_widths = {list(plan.widths)}",
        f"graph = {json.dumps(plan.digest)}",
    ]
    for i, fmt in sorted(plan.signals.values.items()):
        node = graph.nodes[i]
        about = [f"%{i}", node.op, str(node.region or ""), node.line, results.get(i, "")]
        if node.op == names.INPUT:
            about.append(str(node.params[0]))
        lines += [
            "",
            f"[signal.{i}]  # {one_line(' '.join(part for part in about if part))}",
            f"value = [{fmt.width}, {fmt.frac}]  # holds {fmt.max:.4g}; seen {reach[i]:.4g}",
        ]
        if i in plan.signals.ports:
            ports = ", ".join(f"[{p.width}, {p.frac}]" for p in plan.signals.ports[i])
            lines.append(f"ports = [{ports}]")
    return "\n".join(lines) + "\n"


def _multiplier_lines(multiplier: Multiplier) -> list[str]:
    """Return the TOML lines for a multiplier that the words' length does not determine."""
    try:
        if multiplier == multiplier_of(multiplier.wide):
            return []
    except ValueError:
        pass
    return [
        f"narrow = {multiplier.narrow}  # bits of a product's narrow port",
        f"adds = {str(multiplier.adds).lower()}  # whether a block adds to its product",
    ]


def _multiplier(stored: int, data: Mapping[str, object]) -> Multiplier:
    """Return the multiplier of a plan whose words have `stored` bits."""
    if "narrow" not in data:
        return multiplier_of(stored)
    narrow, adds = data["narrow"], data.get("adds")
    if type(narrow) is not int or type(adds) is not bool:
        raise ValueError(
            f"narrow and adds must be an integer and a boolean, not {narrow!r} and {adds!r}"
        )
    return part_of(stored, narrow, adds=adds)


def read_plan(path: Path) -> SavedPlan:
    """Read a plan file; raise `PlanError` if it is invalid.

    Raises
    ------
    PlanError
        If it cannot be read or is invalid; the message says where.
    """
    try:
        data = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise PlanError(
            f"The plan '{path}' cannot be read: {reason}; give the plan.toml of a build with "
            "per-signal formats."
        ) from None
    version = data.get("version")
    if data and version != VERSION:
        raise PlanError(
            f"The plan '{path}' has version {version}, but this Pinion reads version {VERSION}: "
            "make a new one with formats 'auto'."
        )
    try:
        values, ports = {}, {}
        for key, entry in data["signal"].items():
            values[int(key)] = _format(path, f"Signal {key}", entry["value"])
            if "ports" in entry:
                ports[int(key)] = tuple(
                    _format(path, f"Signal {key}", port) for port in entry["ports"]
                )
        angle = _format(path, "The angle", data["angle"])
        return SavedPlan(
            signals=SignalPlan(values=values, ports=ports),
            tables=TableFormats(
                angle=angle,
                together=int(data["together"]),
                turn=_format(path, "The turn", data["turn"]),
                multiplier=_multiplier(angle.width, data),  # an angle is a stored word
            ),
            widths=tuple(int(width) for width in data["dot_widths"]),
            digest=str(data["graph"]),
            distribution=str(data["distribution"]),
            max_error=_error(path, data["max_error"], any_size="task" in data),
            task=str(data.get("task", "")),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, PlanError):
            raise
        raise PlanError(
            f"The plan '{path}' is incomplete or invalid ({type(error).__name__}: {error}): it "
            "needs version, distribution, max_error, angle, turn, together, dot_widths, graph and "
            "a [signal.N] for each signal."
        ) from None


def _error(path: Path, value: object, *, any_size: bool) -> float:
    most = _LARGEST if any_size else 1.0
    if isinstance(value, int | float) and 0.0 < value < most:
        return float(value)
    raise PlanError(
        f"The max_error of the plan '{path}' is {value!r}: give a number between 0 and {most:g}."
    )


def _format(path: Path, element: str, pair: object) -> Format:
    whole = isinstance(pair, list) and len(pair) == 2 and all(type(x) is int for x in pair)
    if whole and isinstance(pair, list) and 2 <= pair[0] <= 36 and abs(pair[1]) <= _MOST_FRAC:
        try:
            return Format(pair[0], pair[1])
        except FormatError as error:
            raise PlanError(f"{element} of '{path}': {error}") from None
    raise PlanError(
        f"{element} of '{path}' has the format {pair}; write [bits, fraction bits] with 2 to 36 "
        f"bits and -{_MOST_FRAC} to {_MOST_FRAC} fraction bits, such as [27, 18]."
    )
