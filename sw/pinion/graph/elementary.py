"""Rows of the operation table: sines, cosines, reciprocals, clamps, sums of two squares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from pinion.base.arrays import Flags
from pinion.fixedpoint import Format, Overflow, Rounding, from_float
from pinion.fixedpoint.reciprocal import Reciprocal
from pinion.fixedpoint.sincos import SinCos

from . import names
from .graph import Node, Param
from .op import Family, Op, OperandPoint, constant_format
from .rules import (
    Exact,
    dot_format,
    dot_integers,
    format_complaint,
    number_complaint,
    quantized,
    value_text,
)


def reciprocal_unit(node: Node, source: Format) -> Reciprocal:
    """Return the unit model of a fixed-dialect reciprocal, for operands in ``source``."""
    return _reciprocal(node.params, source)


@lru_cache(maxsize=32)
def _reciprocal(params: tuple[Param, ...], source: Format) -> Reciprocal:
    """Return the model of a reciprocal unit, cached because its table takes long to build."""
    width, frac, *smallest = params
    minimum = float(smallest[0]) if smallest else 0.0
    return Reciprocal(source=source, target=Format(int(width), int(frac)), minimum=minimum or None)


def mirrored(ends: Sequence[Param]) -> tuple[float, float]:
    """Return (-high, -low), the bounds for which clamping -a gives minus the clamp of a."""
    low, high = ends
    return 0.0 - float(high), 0.0 - float(low)


def clamp_ends(node: Node) -> tuple[int, int]:
    """Return the bounds of a fixed-dialect clamp as integers: the constants rounded to nearest.

    A bound beyond the format saturates; no operand reaches it.
    """
    fmt = constant_format(node)
    ends = np.array([float(end) for end in node.params[:2]])
    integers, _ = from_float(ends, fmt, rounding=Rounding.NEAREST, overflow=Overflow.SATURATE)
    return int(integers[0]), int(integers[1])


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
    """Return the operand's format, which a clamp's result must have."""
    result_format = constant_format(node)
    if result_format != f[0]:
        raise ValueError(
            f"A clamp must have the format of its operand, {f[0].name}, not {result_format.name}."
        )
    return result_format


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
        wrong = f"A clamp's lower bound {value_text(low)} exceeds the upper {value_text(high)}."
    return wrong or (format_complaint(*fmt) if fmt else "")


def _table_check(node: Node) -> str:
    """Check the format of sines, cosines and reciprocals, and a reciprocal's smallest operand."""
    fmt, smallest = node.params[:2], node.params[2:]
    wrong = format_complaint(*fmt) if fmt else ""
    for number in smallest:
        wrong = wrong or number_complaint(number)
        if not wrong and float(number) < 0:
            wrong = f"The smallest operand is {value_text(number)}: it must not be negative."
    return wrong


def _sine(x: Any) -> Any:
    return math.sin(x) if type(x) is float else np.sin(x)  # constants as in C


def _cosine(x: Any) -> Any:
    return math.cos(x) if type(x) is float else np.cos(x)


def _sincos_error(node: Node, sources: Sequence[Format], target: Format) -> float:
    return SinCos(source=sources[0], target=target).error_bound


def _sincos_unit(node: Node, sources: Sequence[Format], target: Format) -> tuple[float, ...]:
    return sources[0].frac, target.frac


def _reciprocal_unit(node: Node, sources: Sequence[Format], target: Format) -> tuple[float, ...]:
    """Return the unit's parameters: sum of the fraction bits, and smallest operand in LSBs."""
    smallest = float(node.params[2]) if len(node.params) == 3 else 0.0
    return sources[0].frac + target.frac, smallest * 2.0 ** sources[0].frac


def _clamp_fold(node: Node, operands: Sequence[Node]) -> float | int | None:
    """Fold equal bounds to a constant, and a clamp of a narrower clamp to its operand."""
    low, high = map(float, node.params)
    if low == high:
        return low
    if operands[0].op == names.CLAMP:
        first, last = map(float, operands[0].params)
        if low <= first and last <= high:
            return 0
    return None


def _clamp_turn(node: Node, signs: Sequence[int]) -> tuple[int, Node]:
    """Rewrite the clamp of -a as minus the clamp of a with mirrored bounds."""
    return -1, replace(node, params=mirrored(node.params[:2]))


# How often the stand-in for a clamp cycles through its range when the operand grows by one.
_SCATTER = 7919.0 * np.pi


def _clamp_stand_in(node: Node, x: Sequence[Any]) -> Any:
    """Return a number between the bounds, a pseudorandom function of the operand.

    Like the clamp, it changes its sign if operand and bounds do.
    """
    low, high = map(float, node.params[:2])
    return low + (high - low) * (0.5 + 0.5 * np.modf(_SCATTER * np.asarray(x[0]))[0])


def _clamp_error(node: Node, sources: Sequence[Format], target: Format) -> float:
    """Return the larger rounding error of the two bounds, 0 for a bound outside the format."""
    return max(
        (
            abs(integer * target.lsb - float(end))
            for end, integer in zip(node.params[:2], clamp_ends(node), strict=True)
            if abs(float(end)) <= target.max
        ),
        default=0.0,
    )


def _hypot2_integers(
    node: Node, x: Sequence[Exact], fmts: Sequence[Format]
) -> tuple[Exact, Flags | None]:
    """Return the exact sum of the squares, rounded and saturated once."""
    squares = Node(names.DOT, (0, 0, 1, 1), (1, 1))
    read = [fmts[0], fmts[0], fmts[1], fmts[1]]
    exact, _ = dot_integers(squares, [x[0], x[0], x[1], x[1]], read)
    source = dot_format(squares, read)
    return quantized(exact, source, constant_format(node), Rounding.NEAREST, Overflow.SATURATE)


def _hypot2_shift(node: Node, sources: Sequence[Format], target: Format) -> tuple[float, ...]:
    return (2 * sources[0].frac - target.frac,)


ROWS = (
    *(
        Op(
            name=name,
            family=Family.FUNCTION,
            doc=f"{noun} of an angle in radians; params: [width, frac]",
            arity=1,
            params=(0, 2),
            floats=floats,
            fmt=lambda node, f: constant_format(node),
            integers=_sincos_integers,
            derivative=derivative,
            unit="sincos",
            unit_price=10.0,
            parity=parity,
            error=_sincos_error,
            points=(OperandPoint.STORED,),
            unit_parameters=_sincos_unit,
            control=(control,),
            price=12.0,
            counted="trig",
            check=_table_check,
        )
        for name, noun, parity, control, floats, derivative in (
            (
                *(names.SIN, "sine", -1, 0),
                lambda node, x: _sine(x[0]),
                lambda node, x: (np.cos(x[0]),),
            ),
            (
                *(names.COS, "cosine", 1, 1),
                lambda node, x: _cosine(x[0]),
                lambda node, x: (-np.sin(x[0]),),
            ),
        )
    ),
    Op(
        name=names.RECIPROCAL,
        family=Family.FUNCTION,
        doc="1 / a; params: [width, frac[, smallest magnitude of a that is not flagged]]",
        arity=1,
        params=(0, 2, 3),
        floats=lambda node, x: 1.0 / x[0],
        fmt=lambda node, f: reciprocal_unit(node, f[0]).target,
        integers=_reciprocal_integers,
        derivative=lambda node, x: (-1.0 / (x[0] * x[0]),),
        unit="reciprocal",
        unit_price=10.0,
        unit_flags=True,
        parity=-1,
        error=lambda node, sources, target: reciprocal_unit(node, sources[0]).error_bound,
        points=(OperandPoint.STORED,),
        unit_parameters=_reciprocal_unit,
        text="recip({0})",
        price=10.0,
        counted="reciprocal",
        check=_table_check,
    ),
    Op(
        name=names.CLAMP,
        family=Family.FUNCTION,
        doc="a where it is between two constants, else the nearer one; params: low, high[, width, "
        "frac]",
        arity=1,
        params=(2, 4),
        floats=lambda node, x: np.clip(x[0], float(node.params[0]), float(node.params[1])),
        fmt=_clamp_format,
        integers=_clamp_integers,
        derivative=_clamp_derivative,
        unit="clamp",
        unit_price=0.1,
        unit_latency=lambda width: 1,
        real=2,
        error=_clamp_error,
        points=(OperandPoint.RESULT,),
        unit_parameters=lambda node, sources, target: clamp_ends(node),
        fold=_clamp_fold,
        turn=_clamp_turn,
        stand_in=_clamp_stand_in,
        text="clamp({0}, {1}, {2})",
        price=2.0,
        check=_clamp_check,
    ),
    Op(
        name="hypot2",
        family=Family.FUNCTION,
        doc="a^2 + b^2, rounded once; params: [width, frac]",
        arity=2,
        params=(0, 2),
        floats=lambda node, x: x[0] * x[0] + x[1] * x[1],
        fmt=lambda node, f: constant_format(node),
        integers=_hypot2_integers,
        derivative=lambda node, x: (2.0 * x[0], 2.0 * x[1]),
        unit="hypot2",
        unit_price=2.0,
        unit_latency=lambda width: 3,
        unit_flags=True,
        check=_table_check,
        commutative=True,
        parity=1,
        error=lambda node, sources, target: Rounding.NEAREST.error * target.lsb,
        points=(OperandPoint.SHARED, OperandPoint.SHARED),
        unit_parameters=_hypot2_shift,
        text="fma({0}, {0}, {1} * {1})",
        price=2.0,
        counted="hypot2",
    ),
)
