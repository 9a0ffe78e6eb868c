"""The operation table: one row an operation, and every backend reads its column.

A row holds the float rule, the exact-integer rule, the format rule (widths are derived, never
chosen), the derivative rule (sensitivities, error budgets) and the kind of hardware unit. A
processor's instructions are chosen from the row's family (:mod:`pinion.compute.instructions`).
CONTRIBUTING.md lists the steps for a new row; a test asserts that every backend covers every row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

import numpy as np

from pinion.fixedpoint import (
    Flags,
    Format,
    FormatError,
    Overflow,
    Rounding,
    Wide,
    from_float,
    limit,
)
from pinion.fixedpoint.reciprocal import Reciprocal
from pinion.fixedpoint.sincos import SinCos

from . import names
from .graph import Node, Param
from .rules import (
    NARROW,
    Exact,
    dot_check,
    dot_derivative,
    dot_floats,
    dot_format,
    dot_integers,
    format_complaint,
    neg_integers,
    number_complaint,
    product_format,
    shown,
    signs_complaint,
    sum_floats,
    sum_format,
    sum_integers,
)
from .words import Word

FloatRule = Callable[[Node, Sequence[Any]], Any]
FormatRule = Callable[[Node, Sequence[Format]], Format]
IntegerRule = Callable[[Node, Sequence[Exact], Sequence[Format]], tuple[Exact, Flags | None]]
DerivativeRule = Callable[[Node, Sequence[Any]], Sequence[Any]]


class Family(Enum):
    """Kinds of operations that passes and backends treat alike."""

    INPUT = "input"
    CONSTANT = "constant"
    SUM = "sum"
    NEGATION = "negation"
    PRODUCT = "product"
    TABLE = "table"
    LIMIT = "limit"
    ROUNDING = "rounding"


@dataclass(frozen=True, kw_only=True)
class Op:
    """A row of the table.

    Members
    -------
    name, doc : what it is called, and what it means with its parameters.
    family : of operations that passes and backends treat alike.
    arity : number of operands; None for any number.
    params : allowed numbers of parameters; empty for any number.
    floats : value from operand values (floats or arrays).
    fmt : result format from operand formats (fixed dialect).
    integers : exact result, and which elements saturated (None where none can).
    derivative : partial derivative by each operand.
    unit : kind of hardware unit, or "" where the node needs none of its own.
    check : a complaint about a node's operands and parameters, or "".
    commutative : its two operands may change places.
    parity : 1 where f(-x) = f(x), -1 where f(-x) = -f(x), 0 where neither, of its one operand.
    """

    name: str
    family: Family
    doc: str
    arity: int | None
    params: tuple[int, ...]
    floats: FloatRule
    fmt: FormatRule
    integers: IntegerRule
    derivative: DerivativeRule
    unit: str = ""
    check: Callable[[Node], str] = lambda node: ""
    commutative: bool = False
    parity: int = 0

    def complaint(self, node: Node) -> str:
        """What is wrong with a node of this row, as a sentence, or ""."""
        if self.arity is not None and len(node.args) != self.arity:
            return f"{self.name} takes {self.arity} operands, not {len(node.args)}."
        if self.params and len(node.params) not in self.params:
            allowed = " or ".join(map(str, self.params))
            return f"{self.name} takes {allowed} parameters, not {len(node.params)}."
        return self.check(node)


def constant_format(node: Node) -> Format:
    """Format of a fixed-dialect input, constant, sine or cosine: its last two parameters."""
    width, frac = node.params[-2:]
    return Format(int(width), int(frac))


def quantizer(node: Node) -> tuple[Format, Rounding, Overflow]:
    """Parameters of a quantize node: target format, rounding, overflow."""
    width, frac, rounding, overflow = node.params
    return Format(int(width), int(frac)), Rounding(rounding), Overflow(overflow)


def reciprocal_unit(node: Node, source: Format) -> Reciprocal:
    """Parameters of a fixed-dialect reciprocal: target format, smallest operand (0: none)."""
    width, frac, *smallest = node.params
    minimum = float(smallest[0]) if smallest else 0.0
    return Reciprocal(source=source, target=Format(int(width), int(frac)), minimum=minimum or None)


def mirrored(ends: Sequence[Param]) -> tuple[float, float]:
    """Ends of the clamp of -a that is minus the clamp of a."""
    low, high = ends
    return 0.0 - float(high), 0.0 - float(low)


def clamp_ends(node: Node) -> tuple[int, int]:
    """Ends of a fixed-dialect clamp as integers: the constants rounded to nearest.

    Where they do not fit the format, nothing that is clamped reaches them.
    """
    fmt = constant_format(node)
    ends = np.array([float(end) for end in node.params[:2]])
    found, _ = from_float(ends, fmt, rounding=Rounding.NEAREST, overflow=Overflow.SATURATE)
    return int(found[0]), int(found[1])


def constant_integer(node: Node) -> int:
    """Integer that stands for a fixed-dialect constant: its value rounded to nearest."""
    fmt = constant_format(node)
    value, changed = from_float(
        float(node.params[0]), fmt, rounding=Rounding.NEAREST, overflow=Overflow.SATURATE
    )
    if changed.any():
        raise FormatError(
            f"The constant {node.params[0]!r} ({node.line or 'no line'}) does not fit {fmt.name}, "
            f"which ends at {fmt.max:g}: choose a format with more integer bits."
        )
    return int(value)


def _quantize_integers(
    node: Node, x: Sequence[Exact], fmts: Sequence[Format]
) -> tuple[Exact, Flags | None]:
    target, rounding, overflow = quantizer(node)
    shift = fmts[0].frac - target.frac
    value = x[0]
    if shift < 0:
        if isinstance(value, Wide):
            return limit((value << -shift).round_shift(0, rounding), target, overflow)
        if fmts[0].width - shift > NARROW:
            return limit((Wide.of(value) << -shift).round_shift(0, rounding), target, overflow)
        return limit(value << -shift, target, overflow)
    if isinstance(value, Wide):
        return limit(value.round_shift(shift, rounding), target, overflow)
    return limit(Wide.of(value).round_shift(shift, rounding), target, overflow)


def _sincos_integers(
    node: Node, x: Sequence[Exact], fmts: Sequence[Format]
) -> tuple[Exact, Flags | None]:
    unit = SinCos(source=fmts[0], target=constant_format(node))
    return unit.compute(np.asarray(x[0]), node.op == names.COS), None


def _reciprocal_integers(
    node: Node, x: Sequence[Exact], fmts: Sequence[Format]
) -> tuple[Exact, Flags | None]:
    return reciprocal_unit(node, fmts[0]).compute(np.asarray(x[0]))


def _clamp_format(node: Node, f: Sequence[Format]) -> Format:
    """The operand's own: what is clamped was there before, or is an end rounded to its grid."""
    own = constant_format(node)
    if own != f[0]:
        raise ValueError(f"A clamp has the format of its operand, {f[0].name}, not {own.name}.")
    return own


def _clamp_integers(
    node: Node, x: Sequence[Exact], fmts: Sequence[Format]
) -> tuple[Exact, Flags | None]:
    low, high = clamp_ends(node)
    return np.clip(np.asarray(x[0]), low, high), None


def _clamp_derivative(node: Node, x: Sequence[Any]) -> Sequence[Any]:
    low, high = map(float, node.params[:2])
    return (np.where((x[0] >= low) & (x[0] <= high), 1.0, 0.0),)


def _clamp_check(node: Node) -> str:
    low, high, *fmt = node.params
    wrong = number_complaint(low) or number_complaint(high)
    if not wrong and not float(low) <= float(high):
        wrong = f"The ends of a clamp are in order, not {shown(low)} and {shown(high)}."
    return wrong or (format_complaint(*fmt) if fmt else "")


def _no_integers(
    node: Node, x: Sequence[Exact], fmts: Sequence[Format]
) -> tuple[Exact, Flags | None]:
    return np.asarray(constant_integer(node), dtype=np.int64), None


def _input_check(node: Node) -> str:
    word, *fmt = node.params
    if not isinstance(word, str):
        return f"An input has the name of a word, not {shown(word)}."
    read = Word.of(word)
    if read != word:
        return f"The word {shown(str(word))} is written '{read:.80}'."
    return read.complaint or (format_complaint(*fmt) if fmt else "")


def _constant_check(node: Node) -> str:
    value, *fmt = node.params
    return number_complaint(value) or (format_complaint(*fmt) if fmt else "")


def _table_check(node: Node) -> str:
    """Of sines, cosines and reciprocals: a format, and the smallest operand of a reciprocal."""
    fmt, smallest = node.params[:2], node.params[2:]
    wrong = format_complaint(*fmt) if fmt else ""
    for number in smallest:
        wrong = wrong or number_complaint(number)
        if not wrong and float(number) < 0:
            wrong = f"The smallest operand is a magnitude, not {shown(number)}."
    return wrong


def _quantize_check(node: Node) -> str:
    width, frac, rounding, overflow = node.params
    wrong = format_complaint(width, frac)
    for mode, known in ((rounding, Rounding), (overflow, Overflow)):
        modes = [row.value for row in known]
        if not wrong and mode not in modes:
            wrong = f"quantize takes one of {', '.join(modes)}, not {shown(mode)}."
    return wrong


_ROWS = (
    Op(
        name=names.INPUT,
        family=Family.INPUT,
        doc="a word of the request record; params: word[, width, frac]",
        arity=0,
        params=(1, 3),
        floats=lambda node, x: None,
        fmt=lambda node, f: constant_format(node),
        integers=lambda node, x, f: (x[0], None),
        derivative=lambda node, x: (),
        check=_input_check,
    ),
    Op(
        name=names.CONST,
        family=Family.CONSTANT,
        doc="a constant of the robot; params: value[, width, frac]",
        arity=0,
        params=(1, 3),
        floats=lambda node, x: float(node.params[0]),
        fmt=lambda node, f: constant_format(node),
        integers=_no_integers,
        derivative=lambda node, x: (),
        check=_constant_check,
    ),
    Op(
        name=names.ADD,
        family=Family.SUM,
        doc="a + b",
        arity=2,
        params=(0,),
        floats=sum_floats,
        fmt=lambda node, f: sum_format(f),
        integers=sum_integers,
        derivative=lambda node, x: (1.0, 1.0),
        unit="add",
        commutative=True,
    ),
    Op(
        name=names.SUB,
        family=Family.SUM,
        doc="a - b",
        arity=2,
        params=(0,),
        floats=sum_floats,
        fmt=lambda node, f: sum_format(f),
        integers=sum_integers,
        derivative=lambda node, x: (1.0, -1.0),
        unit="add",
    ),
    Op(
        name=names.SUM,
        family=Family.SUM,
        doc="a +- b +- c ..., one operation; params: the signs, 1 or -1, the first one 1",
        arity=None,
        params=(),
        floats=sum_floats,
        fmt=lambda node, f: sum_format(f),
        integers=sum_integers,
        derivative=lambda node, x: tuple(float(sign) for sign in node.params),
        unit="add",
        check=lambda node: signs_complaint(node, len(node.args)),
    ),
    Op(
        name=names.NEG,
        family=Family.NEGATION,
        doc="-a",
        arity=1,
        params=(0,),
        floats=lambda node, x: -x[0],
        fmt=lambda node, f: Format(f[0].width + 1, f[0].frac),
        integers=neg_integers,
        derivative=lambda node, x: (-1.0,),
        unit="add",
        parity=-1,
    ),
    Op(
        name=names.MUL,
        family=Family.PRODUCT,
        doc="a * b",
        arity=2,
        params=(0,),
        floats=lambda node, x: x[0] * x[1],
        fmt=lambda node, f: product_format(f[0], f[1]),
        integers=dot_integers,
        derivative=lambda node, x: (x[1], x[0]),
        unit="dot",
        commutative=True,
    ),
    Op(
        name=names.DOT,
        family=Family.PRODUCT,
        doc="a b +- c d +- ... (+ e), accumulated exactly; params: the signs, 1 or -1: without an "
        "addend e the first is 1, with one the last",
        arity=None,
        params=(),
        floats=dot_floats,
        fmt=dot_format,
        integers=dot_integers,
        derivative=dot_derivative,
        unit="dot",
        check=dot_check,
    ),
    Op(
        name=names.SIN,
        family=Family.TABLE,
        doc="sine of an angle in radians; params: [width, frac]",
        arity=1,
        params=(0, 2),
        floats=lambda node, x: np.sin(x[0]),
        fmt=lambda node, f: constant_format(node),
        integers=_sincos_integers,
        derivative=lambda node, x: (np.cos(x[0]),),
        unit="sincos",
        parity=-1,
        check=_table_check,
    ),
    Op(
        name=names.COS,
        family=Family.TABLE,
        doc="cosine of an angle in radians; params: [width, frac]",
        arity=1,
        params=(0, 2),
        floats=lambda node, x: np.cos(x[0]),
        fmt=lambda node, f: constant_format(node),
        integers=_sincos_integers,
        derivative=lambda node, x: (-np.sin(x[0]),),
        unit="sincos",
        parity=1,
        check=_table_check,
    ),
    Op(
        name=names.RECIPROCAL,
        family=Family.TABLE,
        doc="1 / a; params: [width, frac[, smallest magnitude of a that is not flagged]]",
        arity=1,
        params=(0, 2, 3),
        floats=lambda node, x: 1.0 / x[0],
        fmt=lambda node, f: reciprocal_unit(node, f[0]).target,
        integers=_reciprocal_integers,
        derivative=lambda node, x: (-1.0 / (x[0] * x[0]),),
        unit="reciprocal",
        parity=-1,
        check=_table_check,
    ),
    Op(
        name=names.CLAMP,
        family=Family.LIMIT,
        doc="a where it is between two constants, else the nearer one; params: low, high[, width, "
        "frac]",
        arity=1,
        params=(2, 4),
        floats=lambda node, x: np.clip(x[0], float(node.params[0]), float(node.params[1])),
        fmt=_clamp_format,
        integers=_clamp_integers,
        derivative=_clamp_derivative,
        unit="clamp",
        check=_clamp_check,
    ),
    Op(
        name=names.QUANTIZE,
        family=Family.ROUNDING,
        doc="round and limit to a format; params: width, frac, rounding, overflow",
        arity=1,
        params=(4,),
        floats=lambda node, x: x[0],
        fmt=lambda node, f: quantizer(node)[0],
        integers=_quantize_integers,
        derivative=lambda node, x: (1.0,),
        unit="align",
        check=_quantize_check,
    ),
)

OPS: Mapping[str, Op] = MappingProxyType({row.name: row for row in _ROWS})
