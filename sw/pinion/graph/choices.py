"""Rows of the operation table: absolute value, minimum and maximum, comparison, selection.

None of them is smooth. Each has a stand-in for passes that look for equal values in samples: a
function of the operands without the relations that hold on one side of a kink only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pinion.base.arrays import Flags
from pinion.fixedpoint import Format

from . import names
from .graph import Node
from .op import Family, Op, OperandPoint, constant_format
from .rules import Exact, format_check

# Two numbers unrelated to each other and to any robot: how often a stand-in cycles through its
# values when an operand grows by one.
_FIRST, _SECOND = 7919.0 * np.pi, 6133.0 * np.e


def _drawn(a: Any, b: Any = 0.0) -> Any:
    """Return numbers in [0, 1), a pseudorandom function of the operands."""
    turns = _FIRST * np.asarray(a) + _SECOND * np.asarray(b)
    return turns - np.floor(turns)


def _at_result(node: Node, fmts: Sequence[Format]) -> Format:
    """Return the node's format; raise ValueError if an operand other than a condition differs."""
    result_format = constant_format(node)
    read = fmts[1:] if node.op == names.SELECT else fmts
    if {*read} != {result_format}:
        other = next(fmt.name for fmt in read if fmt != result_format)
        raise ValueError(
            f"An operand of {node.op} has the format {other}, but needs that of the result, "
            f"{result_format.name}."
        )
    return result_format


def _truth_format(node: Node, fmts: Sequence[Format]) -> Format:
    result_format = constant_format(node)
    if fmts[0] != fmts[1]:
        first, second = fmts
        raise ValueError(
            f"The operands of {node.op} must have the same format, not {first.name} and "
            f"{second.name}."
        )
    if not 0 <= result_format.frac < result_format.width - 1:
        raise ValueError(
            f"{result_format.name} cannot represent 1, which {node.op} returns for true."
        )
    return result_format


def _magnitude(
    node: Node, x: Sequence[Exact], fmts: Sequence[Format]
) -> tuple[Exact, Flags | None]:
    """Return the magnitude; that of the most negative integer saturates and is flagged."""
    value = np.abs(np.asarray(x[0]))
    most = constant_format(node).max_int
    return np.minimum(value, most), value > most


def _nearer(node: Node, x: Sequence[Exact], fmts: Sequence[Format]) -> tuple[Exact, Flags | None]:
    rule = np.minimum if node.op == names.MINIMUM else np.maximum
    return rule(np.asarray(x[0]), np.asarray(x[1])), None


def _truth(node: Node, x: Sequence[Exact], fmts: Sequence[Format]) -> tuple[Exact, Flags | None]:
    less = np.asarray(x[0]) < np.asarray(x[1])
    return less.astype(np.int64) << constant_format(node).frac, None


def half(source: Format) -> int:
    """Return the largest integer of a format that is at most 1/2: a condition above it is true."""
    return 1 << source.frac - 1 if source.frac > 0 else 0


def _chosen(node: Node, x: Sequence[Exact], fmts: Sequence[Format]) -> tuple[Exact, Flags | None]:
    true = np.asarray(x[0]) > half(fmts[0])
    return np.where(true, np.asarray(x[1]), np.asarray(x[2])), None


def _turned_pair(node: Node, signs: Sequence[int]) -> tuple[int, Node] | None:
    """Rewrite the minimum of -a and -b as minus the maximum of a and b, and vice versa."""
    if max(signs) > 0:
        return None
    other = names.MAXIMUM if node.op == names.MINIMUM else names.MINIMUM
    return -1, replace(node, op=other)


def _turned_comparison(node: Node, signs: Sequence[int]) -> tuple[int, Node] | None:
    """Rewrite ``-a < -b`` as ``b < a``."""
    return None if max(signs) > 0 else (1, replace(node, args=node.args[::-1]))


def _turned_choice(node: Node, signs: Sequence[int]) -> tuple[int, Node] | None:
    """Rewrite a selection from -a and -b as minus the selection from a and b."""
    return (-1, node) if tuple(signs) == (1, -1, -1) else None


def _chosen_fold(node: Node, operands: Sequence[Node]) -> int | None:
    if operands[0].op == names.CONST:
        return 1 if float(operands[0].params[0]) > 0.5 else 2
    return 1 if node.args[1] == node.args[2] else None


def _pair_derivative(node: Node, x: Sequence[Any]) -> Sequence[Any]:
    first = x[0] <= x[1] if node.op == names.MINIMUM else x[0] >= x[1]
    return np.where(first, 1.0, 0.0), np.where(first, 0.0, 1.0)


def _between(node: Node, x: Sequence[Any]) -> Any:
    """Return a pseudorandom number between the two operands, the same if they are exchanged."""
    low, high = np.minimum(x[0], x[1]), np.maximum(x[0], x[1])
    share = _drawn(low, high) if node.op == names.MINIMUM else _drawn(high, low)
    return low + (high - low) * share


ROWS = (
    Op(
        name=names.ABS,
        family=Family.FUNCTION,
        doc="the magnitude of a; params: [width, frac]",
        arity=1,
        params=(0, 2),
        floats=lambda node, x: np.abs(x[0]),
        fmt=_at_result,
        integers=_magnitude,
        derivative=lambda node, x: (np.where(np.asarray(x[0]) < 0.0, -1.0, 1.0),),
        unit="abs",
        unit_price=0.1,
        unit_latency=lambda width: 1,
        unit_flags=True,
        check=format_check,
        parity=1,
        points=(OperandPoint.RESULT,),
        fold=lambda node, operands: 0 if operands[0].op == names.ABS else None,
        stand_in=lambda node, x: np.abs(x[0]) * (0.5 + _drawn(np.abs(x[0]))),
        text="select<V>({0} < splat<V>(0), -{0}, {0})",
        price=2.0,
        counted="abs",
    ),
    *(
        Op(
            name=name,
            family=Family.FUNCTION,
            doc=f"the {which} of a and b; params: [width, frac]",
            arity=2,
            params=(0, 2),
            floats=floats,
            fmt=_at_result,
            integers=_nearer,
            derivative=_pair_derivative,
            unit="minmax",
            unit_price=0.1,
            unit_latency=lambda width: 1,
            check=format_check,
            commutative=True,
            points=(OperandPoint.RESULT, OperandPoint.RESULT),
            control=(control,),
            fold=lambda node, operands: 0 if node.args[0] == node.args[1] else None,
            turn=_turned_pair,
            stand_in=_between,
            # NaN if either operand is NaN.
            text=f"select<V>({{0}} {sign} {{1}}, {{0}}, "
            f"select<V>({{1}} {sign} {{0}}, {{1}}, {{0}} + {{1}}))",
            price=4.0,
            counted=name,
        )
        for name, which, control, sign, floats in (
            (names.MINIMUM, "smaller", 0, "<=", lambda node, x: np.minimum(x[0], x[1])),
            (names.MAXIMUM, "larger", 1, ">=", lambda node, x: np.maximum(x[0], x[1])),
        )
    ),
    Op(
        name=names.LESS,
        family=Family.FUNCTION,
        doc="1 where a < b, else 0; params: [width, frac]",
        arity=2,
        params=(0, 2),
        floats=lambda node, x: np.where(np.asarray(x[0]) < np.asarray(x[1]), 1.0, 0.0),
        fmt=_truth_format,
        integers=_truth,
        derivative=lambda node, x: (0.0, 0.0),
        unit="less",
        unit_price=0.1,
        unit_latency=lambda width: 1,
        check=format_check,
        points=(OperandPoint.SHARED, OperandPoint.SHARED),
        least=1.0,
        unit_parameters=lambda node, sources, target: (target.frac,),
        fold=lambda node, operands: 0.0 if node.args[0] == node.args[1] else None,
        turn=_turned_comparison,
        stand_in=lambda node, x: _drawn(x[0], x[1]),
        decides=lambda node, x: (x[0] - x[1], (1.0, -1.0)),
        text="select<V>({0} < {1}, splat<V>(1), splat<V>(0))",
        price=2.0,
        counted="less",
    ),
    Op(
        name=names.SELECT,
        family=Family.FUNCTION,
        doc="b where the condition a is above 1/2, else c; params: [width, frac]",
        arity=3,
        params=(0, 2),
        floats=lambda node, x: np.where(np.asarray(x[0]) > 0.5, x[1], x[2]),
        fmt=_at_result,
        integers=_chosen,
        derivative=lambda node, x: (
            0.0,
            np.where(np.asarray(x[0]) > 0.5, 1.0, 0.0),
            np.where(np.asarray(x[0]) > 0.5, 0.0, 1.0),
        ),
        unit="select",
        unit_price=0.1,
        unit_latency=lambda width: 1,
        check=format_check,
        points=(OperandPoint.STORED, OperandPoint.RESULT, OperandPoint.RESULT),
        unit_parameters=lambda node, sources, target: (half(sources[0]),),
        fold=_chosen_fold,
        turn=_turned_choice,
        stand_in=lambda node, x: x[2] + (x[1] - x[2]) * _drawn(x[0]),
        decides=lambda node, x: (x[0] - 0.5, (1.0, 0.0, 0.0)),
        text="select<V>({0} > splat<V>(0.5), {1}, {2})",
        price=2.0,
        counted="select",
    ),
)
