"""The operation table: one row per operation, one column per property that backends read.

A row holds the float rule, the exact-integer rule, the format rule (widths are derived, never
chosen), the derivative rule (sensitivities, error budgets) and the kind of hardware unit. A
processor's instructions are chosen by the row's family
(:mod:`pinion.compute.program.instructions`). CONTRIBUTING.md lists the steps for a new row; a test
asserts that every backend covers every row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from pinion.base.arrays import Flags
from pinion.fixedpoint import Format, FormatError, Overflow, Rounding, from_float

from . import choices, curves, elementary, names
from .graph import Node
from .op import Family, Op, constant_format
from .rules import (
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
    quantized,
    signs_complaint,
    sum_floats,
    sum_format,
    sum_integers,
    value_text,
)
from .words import Word

__all__ = ["OPS", "UNITS", "Family", "Op", "constant_format", "constant_integer", "quantizer"]


def quantizer(node: Node) -> tuple[Format, Rounding, Overflow]:
    """Return the parameters of a quantize node: target format, rounding, overflow."""
    width, frac, rounding, overflow = node.params
    return Format(int(width), int(frac)), Rounding(rounding), Overflow(overflow)


def constant_integer(node: Node) -> int:
    """Return the integer of a fixed-dialect constant: its value rounded to nearest."""
    fmt = constant_format(node)
    value, changed = from_float(
        float(node.params[0]), fmt, rounding=Rounding.NEAREST, overflow=Overflow.SATURATE
    )
    if changed.any():
        raise FormatError(
            f"The constant {node.params[0]!r} ({node.line or 'no line'}) is outside the range of "
            f"{fmt.name}, {fmt.min:g} to {fmt.max:g}: choose a format with more integer bits."
        )
    return int(value)


def _quantize_integers(
    node: Node, x: Sequence[Exact], fmts: Sequence[Format]
) -> tuple[Exact, Flags | None]:
    target, rounding, overflow = quantizer(node)
    return quantized(x[0], fmts[0], target, rounding, overflow)


def _no_integers(
    node: Node, x: Sequence[Exact], fmts: Sequence[Format]
) -> tuple[Exact, Flags | None]:
    return np.asarray(constant_integer(node), dtype=np.int64), None


def _constant_error(node: Node, sources: Sequence[Format], target: Format) -> float:
    return abs(constant_integer(node) * target.lsb - float(node.params[0]))


def _quantize_error(node: Node, sources: Sequence[Format], target: Format) -> float:
    _, rounding, _ = quantizer(node)
    return rounding.error * target.lsb if sources[0].frac > target.frac else 0.0


def _input_check(node: Node) -> str:
    word, *fmt = node.params
    if not isinstance(word, str):
        return f"An input needs the name of a word, not {value_text(word)}."
    read = Word.of(word)
    if read != word:
        return f"The word {value_text(str(word))} must be written '{read:.80}'."
    return read.complaint or (format_complaint(*fmt) if fmt else "")


def _constant_check(node: Node) -> str:
    value, *fmt = node.params
    return number_complaint(value) or (format_complaint(*fmt) if fmt else "")


def _quantize_check(node: Node) -> str:
    width, frac, rounding, overflow = node.params
    wrong = format_complaint(width, frac)
    for mode, mode_type in ((rounding, Rounding), (overflow, Overflow)):
        modes = [row.value for row in mode_type]
        if not wrong and mode not in modes:
            wrong = f"quantize takes one of {', '.join(modes)}, not {value_text(mode)}."
    return wrong


_ARITHMETIC = (
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
        real=1,
        error=lambda node, sources, target: 0.5 * target.lsb,
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
        real=1,
        error=_constant_error,
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
        doc="a b +- c d +- ... (+ e), accumulated exactly; params: the signs, 1 or -1: the first "
        "must be 1, or, if there is an addend e, the last",
        arity=None,
        params=(),
        floats=dot_floats,
        fmt=dot_format,
        integers=dot_integers,
        derivative=dot_derivative,
        unit="dot",
        check=dot_check,
    ),
)

_QUANTIZE = Op(
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
    error=_quantize_error,
)

OPS: Mapping[str, Op] = MappingProxyType(
    {
        row.name: row
        for row in (
            *_ARITHMETIC,
            *elementary.ROWS,
            *curves.ROWS,
            *choices.ROWS,
            _QUANTIZE,
        )
    }
)

UNITS: Mapping[str, Op] = MappingProxyType(
    {row.unit: row for row in OPS.values() if row.family is Family.FUNCTION}
)
"""A row for each kind of unit that computes a function: its price, operands and flags."""
