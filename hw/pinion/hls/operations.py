"""Unit operations: the fixed graph as a list of the operations that hardware units perform.

A ``quantize`` node and the product or sum in front of it are one operation of one unit, because the
exact value between them exists only inside that unit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pinion.fixedpoint import Overflow
from pinion.graph import OPS, Graph, GraphError, Node, Region, names
from pinion.graph.evaluate import formats
from pinion.graph.ops import UNITS, Family, constant_integer, quantizer

from .timing import Timing

_ZERO = -1  # no node: the constant 0, or nothing


@dataclass(frozen=True, order=True)
class UnitKind:
    """Kind of a hardware unit: two operations can share a unit if their kinds are equal.

    Members
    -------
    name : ``dot``, ``add``, ``align``, or a unit in :data:`pinion.graph.ops.UNITS`.
    products : number of products of a dot, else 0.
    widths : width of each operand port; a dot with an odd number of ports has an addend.
    shift : bits dropped by the quantization.
    width : bits of the result.
    rounding, overflow : of the quantization, "" if the unit rounds by its own rule.
    parameters : of a function's unit, from its operation's row (``unit_parameters``).
    """

    name: str
    products: int
    widths: tuple[int, ...]
    shift: int
    width: int
    rounding: str = ""
    overflow: str = ""
    parameters: tuple[float, ...] = ()

    @property
    def saturates(self) -> bool:
        """Whether the unit has an overflow flag."""
        return UNITS[self.name].unit_flags if self.name in UNITS else True

    @property
    def rounds(self) -> bool:
        """Whether the second operand of each product is rounded at its port."""
        return self.name == "dot" and self.widths[1] < self.widths[0]

    @property
    def wide(self) -> bool:
        """Whether both operands of each product are as wide as stored words."""
        return self.name == "dot" and self.widths[1] == self.widths[0]

    @property
    def adds(self) -> bool:
        """Whether a dot's last port is for an addend."""
        return self.name == "dot" and len(self.widths) % 2 == 1

    @property
    def label(self) -> str:
        """Short name: ``dot2``, ``dot2x27`` (with its narrow port's width), ``add``, ``sincos``."""
        if self.name == "add" and len(self.widths) > 2:
            return f"add{len(self.widths)}"
        if self.name != "dot":
            return self.name
        return f"dot{self.products}" + (f"x{self.widths[1]}" if self.overflow == "wrap" else "")


@dataclass(frozen=True)
class Operand:
    """Source of an operand, and how the port reads it.

    Members
    -------
    node : the operation, input or constant that is read.
    constant : integer of a constant, else None.
    shift : bits of the value that the port drops; negative if it appends zeros.
    narrows : whether the port drops high bits of the value, so that a large value does not fit.
    offset : cycles after the operation's start at which its unit reads the port.
    """

    node: int
    constant: int | None = None
    shift: int = 0
    narrows: bool = False
    offset: int = 0

    @property
    def unused(self) -> bool:
        """Whether the port reads nothing: the addend's port for a dot without an addend."""
        return self.node == _ZERO and self.constant is None


@dataclass(frozen=True)
class Operation:
    """One use of a unit, with its operands and control bits.

    Members
    -------
    node : the node whose value the unit outputs.
    kind : the kind of unit.
    operands : one per operand port.
    control : control bits of this use: signs of a dot's terms after the first (1 subtracts); with a
        port for an addend the signs of all terms and whether there is an addend; ``sub`` of an
        addition, ``cosine`` of a sincos.
    latency : cycles from operands to result.
    region, line : from the node.
    """

    node: int
    kind: UnitKind
    operands: tuple[Operand, ...]
    control: tuple[int, ...]
    latency: int
    region: Region | None
    line: str

    def control_offset(self, k: int) -> int:
        """Return how many cycles after the start the unit reads a control bit."""
        if self.kind.name != "dot":
            return 0
        if self.kind.adds and k == len(self.control) - 1:
            return self.operands[-1].offset
        return self.operands[2 * (k if self.kind.adds else k + 1)].offset


def operations(graph: Graph, timing: Timing) -> tuple[Operation, ...]:
    """Return the unit operations of a fixed-dialect graph, in evaluation order.

    Raises
    ------
    GraphError
        If an exact product or sum is used without a quantize node behind it.
    """
    fmts = formats(graph)
    users = graph.users()
    outputs = set(graph.roots)
    negated = graph.negated_results()

    def operand(node_id: int, offset: int) -> Operand:
        if (source := port_source(graph, node_id)) is not None:
            stored, read = fmts[source], fmts[node_id]
            high = stored.width - stored.frac > read.width - read.frac
            return Operand(source, shift=stored.frac - read.frac, narrows=high, offset=offset)
        node = graph.nodes[node_id]
        constant = constant_integer(node) if node.op == names.CONST else None
        return Operand(node_id, constant, offset=offset)

    result: list[Operation] = []
    for i, node in enumerate(graph.nodes):
        if node.op in names.LEAVES or i in negated:
            continue
        if i not in outputs and port_source(graph, i) is not None:
            continue  # done by the ports that read it
        row = OPS[node.op]
        if node.op != names.QUANTIZE and row.family is not Family.FUNCTION:
            quantized = all(graph.nodes[u].op == names.QUANTIZE for u in users[i])
            if i in outputs or not quantized:
                raise GraphError(
                    f"Node %{i} ({node.op}) is exact but used without a quantize node after it."
                )
            continue
        args = node.args
        products = 0
        control: tuple[int, ...] = ()
        if row.family is Family.FUNCTION:
            sources = [fmts[a] for a in args]
            parameters = row.unit_parameters(node, sources, fmts[i])
            widths = tuple(source.width for source in sources)
            kind = UnitKind(row.unit, 0, widths, 0, fmts[i].width, parameters=parameters)
            control = row.control
            latency = timing.latency(node.op)
        else:
            target, rounding, overflow = quantizer(node)
            exact = graph.nodes[args[0]]
            shift = fmts[args[0]].frac - target.frac
            unit = OPS[exact.op].unit
            if not unit or OPS[exact.op].family is Family.FUNCTION or exact.op == names.QUANTIZE:
                unit = "align"
            elif exact.op == names.NEG:
                args, control = (_ZERO, exact.args[0]), (1,)  # 0 - x
            elif unit == "add":
                args, control = exact.args, (int(exact.op == names.SUB),)
                if exact.op == names.SUM:
                    control = tuple(int(int(sign) < 0) for sign in exact.params[1:])
            else:
                args = exact.args
                control = _dot_control(exact)
            products = len(args) // 2 if unit == "dot" else 0
            widths = tuple(fmts[a].width if a != _ZERO else target.width for a in args)
            kind = UnitKind(
                unit, products, widths, shift, target.width, rounding.value, overflow.value,
            )  # fmt: skip
            latency = (
                timing.dot(products, wide=kind.wide)
                if unit == "dot"
                else (timing.add if unit == "add" else timing.align)
            )
        result.append(
            Operation(
                node=i,
                kind=kind,
                operands=tuple(
                    Operand(_ZERO, 0)
                    if a == _ZERO
                    else operand(
                        a, timing.offset(names.DOT, len(args), k, wide=kind.wide) if products else 0
                    )
                    for k, a in enumerate(args)
                ),
                control=control,
                latency=latency,
                region=node.region,
                line=node.line,
            )
        )
    return _with_addends(result, timing)


def _dot_control(exact: Node) -> tuple[int, ...]:
    """Return a dot's control bits: all signs but the first or, with an addend, all and a 1."""
    signs = tuple(int(int(sign) < 0) for sign in exact.params[: len(exact.args) // 2])
    return (*signs, 1) if len(exact.args) % 2 else signs[1:]


def _with_addends(operations: list[Operation], timing: Timing) -> tuple[Operation, ...]:
    """Give each dot without an addend the unit kind of an otherwise equal dot with an addend.

    Separate units would be idle more often than a common one.
    """
    adding = {op.kind for op in operations if op.kind.adds}
    wider = {replace(kind, widths=kind.widths[:-1]): kind for kind in sorted(adding)}
    result = []
    for op in operations:
        if op.kind.name == "dot" and op.kind in wider:
            count = 2 * op.kind.products
            offset = timing.offset(names.DOT, count + 1, count, wide=op.kind.wide)
            nothing = Operand(_ZERO, offset=offset)
            op = replace(
                op,
                kind=wider[op.kind],
                operands=(*op.operands, nothing),
                control=(0, *op.control, 0),
            )
        result.append(op)
    return tuple(result)


def port_source(graph: Graph, node_id: int) -> int | None:
    """Return the value that a node only converts for its readers' ports, or None.

    Such ``quantize`` nodes wrap around and need no unit: a constant shift is wiring, and ports that
    round have the adder for it.
    """
    node = graph.nodes[node_id]
    if node.op != names.QUANTIZE or quantizer(node)[2] is not Overflow.WRAP:
        return None
    source = graph.nodes[node.args[0]]
    if source.op == names.INPUT or OPS[source.op].family is Family.FUNCTION:
        return node.args[0]
    if source.op != names.QUANTIZE:
        return None
    return node.args[0] if (below := port_source(graph, node.args[0])) is None else below


def kind_names(kinds: Iterable[UnitKind]) -> dict[UnitKind, str]:
    """Return a distinct name for each kind: its label, numbered if several kinds share it."""
    by_label: dict[str, list[UnitKind]] = {}
    for kind in sorted(set(kinds)):
        by_label.setdefault(kind.label, []).append(kind)
    names = {
        kind: label if len(same) == 1 else f"{label}_k{n}"
        for label, same in by_label.items()
        for n, kind in enumerate(same)
    }
    return dict(sorted(names.items()))
