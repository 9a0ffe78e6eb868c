"""Rows of the operation table: square roots, angles of vectors, tables of one variable.

Square roots and angles have a point at which no derivative is finite. There, error budgets follow
their curves as far as rounded operands may deviate from exact ones.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from pinion.base.arrays import Flags
from pinion.fixedpoint import Format
from pinion.fixedpoint.atan2 import Atan2
from pinion.fixedpoint.piecewise import Piecewise
from pinion.fixedpoint.sqrt import Sqrt
from pinion.fixedpoint.table import FixedTable

from .graph import Node
from .op import Family, Op, OperandPoint, constant_format
from .rules import Exact, format_check, format_complaint

# States between the samples may be this many times nearer to a singularity than the nearest sample,
# whose distance is extrapolated from the distances of the nearest few.
_NEARER = 8.0
_FEW = 4

# How often a stand-in cycles through its range when an operand grows by one, and its start: no sum,
# multiple or negative of an operand has a stand-in related to that of the operand.
_SCATTER = (7919.0 * np.pi, 7907.0 * np.e)
_START = (0.7320508, 0.2360679)


def _scattered(x: Sequence[Any], *, seed: float = 0.0) -> Any:
    """Return a number in [0, 1), a pseudorandom function of the operands."""
    terms = (s * (value + (start + seed)) for s, start, value in zip(_SCATTER, _START, x))  # noqa: B905, one operand or two
    return np.modf(np.abs(sum(terms)))[0]


def _nearer(x: Any, most: float) -> Any:
    """Return distances from a singularity, the smallest reduced to allow for unsampled states.

    It is extrapolated from the smallest distances, but limited to a fraction of itself.
    """
    positive = np.sort(x[x > 0.0])
    if len(positive) < _FEW:
        return x
    least = positive[0]
    stand = max(least / most, least - 2.0 * (positive[_FEW - 1] - least))
    return np.where(x == least, stand, x)


# -- Square roots --------------------------------------------------------------------------------


def _root(x: Any) -> Any:
    return np.sqrt(np.maximum(x, 0.0))


def _sqrt_integers(
    node: Node, x: Sequence[Exact], fmts: Sequence[Format]
) -> tuple[Exact, Flags | None]:
    return Sqrt(source=fmts[0], target=constant_format(node)).compute(np.asarray(x[0]))


def _sqrt_derivative(node: Node, x: Sequence[Any]) -> Sequence[Any]:
    positive = np.asarray(x[0]) > 0.0
    return (np.where(positive, 0.5 / np.sqrt(np.where(positive, x[0], 1.0)), 0.0),)


def _sqrt_secant(node: Node, x: Sequence[Any], errors: Sequence[Any]) -> Sequence[Any]:
    """Return the root's largest deviation for an operand's error e, divided by e."""
    near, off = _nearer(x[0], _NEARER**2), np.asarray(errors[0]) > 0.0
    up = _root(near + errors[0]) - _root(near)
    down = _root(near) - _root(near - errors[0])
    (slope,) = _sqrt_derivative(node, (near,))
    return (np.where(off, np.maximum(up, down) / np.where(off, errors[0], 1.0), slope),)


def _sqrt_unit(node: Node, sources: Sequence[Format], target: Format) -> tuple[float, ...]:
    """Return the unit's parameters: parity and half, rounded up, of the shift before the root."""
    apart = 2 * target.frac - sources[0].frac
    return apart % 2, (apart + apart % 2) // 2


# -- Angles of vectors ---------------------------------------------------------------------------


def _angle(y: Any, x: Any) -> Any:
    """Return the angle [rad], with a negative zero, which integers do not have, taken as zero."""
    return np.arctan2(y + 0.0, x + 0.0)


def _arctan2_integers(
    node: Node, x: Sequence[Exact], fmts: Sequence[Format]
) -> tuple[Exact, Flags | None]:
    if fmts[0].frac != fmts[1].frac:
        raise ValueError(
            "The components of an angle must have the same LSB, but their formats are "
            f"{fmts[0].name} and {fmts[1].name}."
        )
    # The shorter one is also a word of the longer one's format.
    source = max(fmts, key=lambda fmt: fmt.width)
    unit = Atan2(source=source, target=constant_format(node))
    return unit.compute(np.asarray(x[0]), np.asarray(x[1]))


def _arctan2_derivative(node: Node, x: Sequence[Any]) -> Sequence[Any]:
    square = np.square(x[0]) + np.square(x[1])
    square = np.where(square > 0.0, square, np.inf)
    return x[1] / square, -x[0] / square


def _arctan2_secant(node: Node, x: Sequence[Any], errors: Sequence[Any]) -> Sequence[Any]:
    """Return the largest derivatives within the errors, limited to a change of one whole turn."""
    off = [np.maximum(error, 1e-300) for error in errors]
    length = np.maximum(np.hypot(x[0], x[1]), 1e-300)
    shorter = _nearer(length, _NEARER) / length
    up, across = (value * shorter for value in x)
    near = np.maximum(length * shorter - np.hypot(*off), 1e-150)
    by_y = np.minimum((np.abs(across) + off[1]) / near / near, 2 * math.pi / off[0])
    by_x = np.minimum((np.abs(up) + off[0]) / near / near, 2 * math.pi / off[1])
    # Signs as in derivatives: errors of one node may cancel on different paths.
    return np.copysign(by_y, across), np.copysign(by_x, -up)


def _arctan2_decides(node: Node, x: Sequence[Any]) -> tuple[Any, Sequence[float]]:
    """Return the quantity whose sign decides between pi and -pi, and its partial derivatives."""
    y, across = x[0], np.maximum(x[1], 0.0)
    return np.copysign(np.abs(y) + across, y), (1.0, 0.0)


# -- Tables of one variable ----------------------------------------------------------------------


def piecewise(node: Node) -> Piecewise:
    """Parse the piecewise polynomial in a table look-up's first parameter."""
    return Piecewise.parse(str(node.params[0]))


def _look_up_table(node: Node, source: Format, target: Format) -> FixedTable:
    return FixedTable(source=source, target=target, piecewise=piecewise(node))


def _look_up_integers(
    node: Node, x: Sequence[Exact], fmts: Sequence[Format]
) -> tuple[Exact, Flags | None]:
    return _look_up_table(node, fmts[0], constant_format(node)).compute(np.asarray(x[0])), None


def _look_up_unit(node: Node, sources: Sequence[Format], target: Format) -> tuple[float, ...]:
    return float(sources[0].frac), float(target.frac), *piecewise(node).numbers


def _look_up_text(node: Node) -> str:
    """Return the C++ lambda of a look-up, whose coefficients are constants in memory."""
    table = piecewise(node)
    rows = ", ".join(f"Scalar<V>({number!r})" for number in table.coefficients)
    ends = f"Scalar<V>({table.low!r}), Scalar<V>({table.high!r})"
    step = f"Scalar<V>({2.0**table.step!r})"
    call = f"look_up<{table.degree}>(at, {ends}, {step}, {table.first}, {table.count}, rows)"
    body = f"static constexpr Scalar<V> rows[] = {{{{{rows}}}}}; return {call};"
    return f"[&](V at) {{{{ {body} }}}}({{0}})"


def _look_up_check(node: Node) -> str:
    text, *fmt = node.params
    if not isinstance(text, str):
        return f"A table must be a string of numbers, not {text!r:.80}."
    try:
        Piecewise.parse(text)
    except ValueError as error:
        return str(error)
    return format_complaint(*fmt) if fmt else ""


ROWS = (
    Op(
        name="sqrt",
        family=Family.FUNCTION,
        doc="square root, 0 for operands below 0, which are flagged; params: [width, frac]",
        arity=1,
        params=(0, 2),
        floats=lambda node, x: _root(x[0]),
        fmt=lambda node, f: constant_format(node),
        integers=_sqrt_integers,
        derivative=_sqrt_derivative,
        secant=_sqrt_secant,
        unit="sqrt",
        unit_price=3.0,
        unit_flags=True,
        check=format_check,
        error=lambda node, sources, target: 0.5 * target.lsb,
        points=(OperandPoint.STORED,),
        unit_parameters=_sqrt_unit,
        stand_in=lambda node, x: _scattered(x),
        text="square_root({0})",
        price=10.0,
        counted="sqrt",
    ),
    Op(
        name="arctan2",
        family=Family.FUNCTION,
        doc="angle in radians of the vector (b, a) from the first axis, -pi to pi, 0 for (0, 0), "
        "which is flagged; params: [width, frac]",
        arity=2,
        params=(0, 2),
        floats=lambda node, x: _angle(x[0], x[1]),
        fmt=lambda node, f: constant_format(node),
        integers=_arctan2_integers,
        derivative=_arctan2_derivative,
        secant=_arctan2_secant,
        decides=_arctan2_decides,
        unit="arctan2",
        unit_price=10.0,
        unit_flags=True,
        check=format_check,
        error=lambda node, sources, target: Atan2(source=sources[0], target=target).error_bound,
        points=(OperandPoint.SHARED, OperandPoint.SHARED),
        least=math.pi,
        unit_parameters=lambda node, sources, target: (target.frac,),
        stand_in=lambda node, x: _scattered(x),
        text="arctan2({0}, {1})",
        price=30.0,
        counted="arctan2",
    ),
    Op(
        name="look_up",
        family=Family.FUNCTION,
        doc="a function of one variable as polynomials on segments, clamped to its ends; params: "
        "the table's numbers as a string: low, high, logarithm of the segments' width, degree, "
        "largest error, coefficients[, width, frac]",
        arity=1,
        params=(1, 3),
        floats=lambda node, x: piecewise(node).floats(x[0]),
        fmt=lambda node, f: _look_up_table(node, f[0], constant_format(node)).target,
        integers=_look_up_integers,
        derivative=lambda node, x: (piecewise(node).slopes(x[0]),),
        unit="look_up",
        unit_price=5.0,
        check=_look_up_check,
        real=1,
        error=lambda node, sources, target: _look_up_table(node, sources[0], target).error_bound,
        points=(OperandPoint.STORED,),
        # Slightly beyond the polynomials' range, but within one bit of the widest words.
        least=lambda node: (1.0 + 2.0**-10) * max(map(abs, piecewise(node).reach)),
        unit_parameters=_look_up_unit,
        stand_in=lambda node, x: _scattered(x, seed=zlib.crc32(str(node.params[0]).encode()) / 1e9),
        text=_look_up_text,
        price=20.0,
        counted="look_up",
    ),
)
