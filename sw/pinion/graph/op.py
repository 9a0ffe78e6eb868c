"""Columns of the operation table, and how a function's row reads its parameters.

The rows are in :mod:`.ops` and the modules that it imports.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import prod
from typing import Any

from pinion.base.amounts import amount
from pinion.base.arrays import Flags
from pinion.fixedpoint import Format

from .graph import Node, Param
from .rules import Exact

FloatRule = Callable[[Node, Sequence[Any]], Any]
FormatRule = Callable[[Node, Sequence[Format]], Format]
IntegerRule = Callable[[Node, Sequence[Exact], Sequence[Format]], tuple[Exact, Flags | None]]
DerivativeRule = Callable[[Node, Sequence[Any]], Sequence[Any]]
SecantRule = Callable[[Node, Sequence[Any], Sequence[Any]], Sequence[Any]]
ErrorRule = Callable[[Node, Sequence[Format], Format], float]
UnitRule = Callable[[Node, Sequence[Format], Format], tuple[float, ...]]
FoldRule = Callable[[Node, Sequence[Node]], float | int | None]
DecisionRule = Callable[[Node, Sequence[Any]], tuple[Any, Sequence[float]]]
SignRule = Callable[[Node, Sequence[int]], tuple[int, Node] | None]


class Family(Enum):
    """Kinds of operations that passes and backends treat alike.

    A function is computed by a separate hardware unit, whose result has its own format: the last
    parameters in the fixed dialect. Its row has everything else about it.
    """

    INPUT = "input"
    CONSTANT = "constant"
    SUM = "sum"
    NEGATION = "negation"
    PRODUCT = "product"
    FUNCTION = "function"
    ROUNDING = "rounding"


class OperandPoint(Enum):
    """The binary point at which a function's unit reads an operand."""

    STORED = "as stored"
    SHARED = "shared"  # with the other operands of this kind: the finest that all are stored with
    RESULT = "of the result"  # which is no finer than any of these operands


def _by_parity(node: Node, signs: Sequence[int], parity: int) -> tuple[int, Node] | None:
    if min(signs, default=1) > 0:
        return 1, node
    return (prod(signs) if parity < 0 else 1, node) if parity else None


@dataclass(frozen=True, kw_only=True)
class Op:
    """A row of the operation table.

    Members
    -------
    name : name of the operation.
    doc : meaning, with its parameters.
    family : kind of operations that passes and backends treat alike.
    arity : number of operands; None for any number.
    params : allowed numbers of parameters; empty for any number.
    floats : value from operand values (floats or arrays).
    fmt : result format from operand formats (fixed dialect).
    integers : exact result, and which elements saturated (None if none can).
    derivative : partial derivative with respect to each operand.
    secant : for a function that is not smooth everywhere, the replacement for the derivative in
        error budgets: from operands and bounds on their errors, such that it bounds the result's
        deviation. None if the derivative suffices.
    unit : kind of hardware unit, or "" if the node needs none.
    unit_price : for a function, the price of a unit, in multipliers.
    unit_latency : for a function, cycles from operands to result, by the words' width; None if it
        depends on more, and the schedule's ``Timing`` has a member of the unit's name.
    unit_flags : for a function, whether a unit has an overflow flag.
    check : a complaint about a node's operands and parameters, or "".
    commutative : whether its two operands may be exchanged.
    parity : 1 if f(-x) = f(x), -1 if f(-x) = -f(x), otherwise 0, for each operand.
    real : number of parameters in the real dialect; those of the fixed dialect come after them; a
        function of the node if it varies.
    error : largest error of a fixed-dialect result, not counting the errors of its operands.
    points : for a function, the binary point at which its unit reads each operand.
    least : for a function, a magnitude that its result's format holds, whatever the samples reach;
        a function of the node if it varies.
    unit_parameters : for a function, parameters of the hardware unit besides its words' widths,
        from the formats of the operands as read and of the result.
    control : for a function, the bits that select this operation in a unit of several.
    fold : for a function, the value of a node that needs no operation: a float for a constant, an
        int for the number of the operand, otherwise None.
    turn : for a function, sign and node of the same value with unsigned operands; None if the signs
        have to stay. The default follows the parity.
    decides : for a function that jumps, the quantity whose sign decides the side, and its partial
        derivative with respect to each operand; None for any other.
    stand_in : for a function, a replacement for passes that look for equal values in samples; None
        if its own samples suffice (:class:`pinion.graph.passes.samples.Samples`).
    text : for a function, the expression in the compiled language, operands before parameters; a
        function of the node if a parameter is a string.
    price : for a function, in instructions of a vector unit.
    counted : for a function, its column among the counted operations.
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
    secant: SecantRule | None = None
    unit: str = ""
    unit_price: float = 0.0
    unit_latency: Callable[[int], int] | None = None
    unit_flags: bool = False
    check: Callable[[Node], str] = lambda node: ""
    commutative: bool = False
    parity: int = 0
    real: int | Callable[[Node], int] = 0
    error: ErrorRule = lambda node, sources, target: 0.0
    points: tuple[OperandPoint, ...] = ()
    least: float | Callable[[Node], float] = 0.0
    unit_parameters: UnitRule = lambda node, sources, target: ()
    control: tuple[int, ...] = ()
    fold: FoldRule = lambda node, operands: None
    turn: SignRule | None = None
    decides: DecisionRule | None = None
    stand_in: FloatRule | None = None
    text: str | Callable[[Node], str] = ""
    price: float = 1.0
    counted: str = ""

    def complaint(self, node: Node) -> str:
        """Return what is wrong with a node of this row, as a sentence, or ""."""
        if self.arity is not None and len(node.args) != self.arity:
            return f"{self.name} takes {amount(self.arity, 'operand')}, not {len(node.args)}."
        if self.params and len(node.params) not in self.params:
            allowed = " or ".join(map(str, self.params))
            return f"{self.name} takes {allowed} parameters, not {len(node.params)}."
        return self.check(node)

    def without_signs(self, node: Node, signs: Sequence[int]) -> tuple[int, Node] | None:
        """Return a sign and a node with unsigned operands, equal to a node with signed operands.

        None if there is no such node: then negative operands have to be negated.
        """
        if self.turn is None or min(signs, default=1) > 0:
            return _by_parity(node, signs, self.parity)
        return self.turn(node, signs)

    def real_count(self, node: Node) -> int:
        """Return how many of a node's parameters belong to the real dialect."""
        return self.real if isinstance(self.real, int) else self.real(node)

    def real_params(self, node: Node) -> tuple[Param, ...]:
        """Return the real-dialect parameters of a node of either dialect."""
        return node.params[: self.real_count(node)]

    def least_of(self, node: Node) -> float:
        """Return the magnitude that a node's format must represent, whatever the samples reach."""
        return self.least if isinstance(self.least, float) else self.least(node)

    def bound(self, node: Node) -> Op:
        """Return this row with ``text`` and ``floats`` specialised to one node's parameters."""
        if isinstance(self.text, str):
            return self
        return replace(self, text=self.text(node), floats=lambda _, x: self.floats(node, x))

    def own_format(self, node: Node) -> Format:
        """Return the format among the parameters of a fixed-dialect node."""
        width, frac = node.params[self.real_count(node) :][:2]
        return Format(int(width), int(frac))


def constant_format(node: Node) -> Format:
    """Return the format that a fixed-dialect node states as its last two parameters."""
    width, frac = node.params[-2:]
    return Format(int(width), int(frac))
