"""Tracing: run a function on symbols and record each of its operations."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn, TypeGuard

import numpy as np

from . import names
from .check import verify
from .graph import Feedback, Graph, Node, Output, Param, Region
from .ops import OPS, Family
from .rules import value_text
from .words import Word


class TraceError(TypeError):
    """Error in a traced function, which uses a symbol's value or an unsupported operation.

    Parameters
    ----------
    wrong : what the function asked for, and why a symbol does not have it.
    instead : what to write instead.

    Members
    -------
    query : the value that the function asked for, as in "float value"; `HOLDS` if it asked whether
        a condition holds; "" for anything else.
    """

    HOLDS: ClassVar[str] = "whether it holds"

    def __init__(self, wrong: str, instead: str, *, query: str = "") -> None:
        super().__init__(wrong, instead)
        self.wrong = wrong
        self.instead = instead
        self.query = query

    def __str__(self) -> str:
        return f"{self.wrong}: {self.instead}."


_INSTEAD: Mapping[str, str] = MappingProxyType(
    {
        "truth value": "compare it, as in x > 0.0, and write select(condition, a, b)",
        "equality": "compare with a margin, as in abs(a - b) < 0.001",
        "float value": "keep traced values in lists, or in arrays such as np.zeros(3, "
        "dtype=object)",
        "integer value": "index and count with Python's own numbers, or choose with select() among "
        "a few values, or use look_up() with a table",
        "remainder": "send angles and counters already in range, or subtract select(x > limit, "
        "period, 0.0)",
        "whole part": "a core rounds only to its formats; write steps as sums of select()",
        "elements": "loop over an array, or over one of Python's own ranges",
    }
)
"""What to write instead, by the value that the function asked for."""


def _is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a Python or NumPy number, other than a boolean."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


class Symbol:
    """A scalar that represents a node of the graph under construction.

    It adds, subtracts, multiplies, divides, has powers with whole exponents, and has the functions
    of the operation table as methods (``x.sin()``, ``x.clamp(-1.0, 1.0)``). Comparing with ``<``,
    ``<=``, ``>`` and ``>=`` gives a condition; asking for its value raises.
    """

    __slots__ = ("_tracer", "node")

    # NumPy's scalars defer to a symbol; arrays operate on their elements.
    __array_priority__ = -1.0

    def __init__(self, tracer: Tracer, node: int) -> None:
        self._tracer = tracer
        self.node = node

    def _binary(self, op: str, other: object, *, swap: bool = False) -> Symbol:
        if isinstance(other, Symbol):
            right = other
        elif _is_number(other):
            right = self._tracer.constant(float(other))
        else:
            return NotImplemented  # type: ignore[no-any-return]
        pair = (right.node, self.node) if swap else (self.node, right.node)
        return self._tracer.emit(op, pair)

    def __add__(self, other: object) -> Symbol:
        return self._binary(names.ADD, other)

    def __radd__(self, other: object) -> Symbol:
        return self._binary(names.ADD, other, swap=True)

    def __sub__(self, other: object) -> Symbol:
        return self._binary(names.SUB, other)

    def __rsub__(self, other: object) -> Symbol:
        return self._binary(names.SUB, other, swap=True)

    def __mul__(self, other: object) -> Symbol:
        return self._binary(names.MUL, other)

    def __rmul__(self, other: object) -> Symbol:
        return self._binary(names.MUL, other, swap=True)

    def __neg__(self) -> Symbol:
        return self._tracer.emit(names.NEG, (self.node,))

    def __pos__(self) -> Symbol:
        return self

    def __abs__(self) -> Symbol:
        return self._tracer.emit(names.ABS, (self.node,))

    def _compared(self, other: object, *, swap: bool = False) -> Condition:
        if not isinstance(other, Symbol) and not _is_number(other):
            return NotImplemented  # type: ignore[no-any-return]
        pair = (other, self) if swap else (self, other)
        condition: Condition = self.apply(names.LESS, *pair)
        return condition

    def __lt__(self, other: object) -> Condition:
        return self._compared(other)

    def __gt__(self, other: object) -> Condition:
        return self._compared(other, swap=True)

    def __le__(self, other: object) -> Condition:
        more = self._compared(other, swap=True)
        return more if more is NotImplemented else ~more

    def __ge__(self, other: object) -> Condition:
        less = self._compared(other)
        return less if less is NotImplemented else ~less

    def apply(self, op: str, *operands: object, params: Sequence[Param] = ()) -> Any:
        """Apply a function of the operation table to operands that include this symbol.

        Returns
        -------
        A symbol, or a condition for a comparison.

        Raises
        ------
        TraceError
            If an operand is neither a symbol nor a number.
        """
        nodes = []
        for operand in operands:
            if _is_number(operand):
                operand = self._tracer.constant(float(operand))
            if isinstance(operand, Condition):
                return operand.apply(op, *operands, params=params)
            if not isinstance(operand, Symbol):
                raise TraceError(
                    f"The operation {op} takes traced scalars and numbers, "
                    f"not {value_text(operand)}",
                    "give it single values, such as the elements of an array",
                )
            nodes.append(operand.node)
        result = self._tracer.emit(op, tuple(nodes), tuple(params))
        return Condition(result) if op == names.LESS else result

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a function of the table as a method, which NumPy calls for arrays of symbols."""
        row = OPS.get(name)
        if row is None or row.family is not Family.FUNCTION:
            raise AttributeError(f"A traced scalar has no attribute '{name}'.")
        others = (row.arity or 1) - 1

        def function(*values: Any) -> Any:
            return self.apply(name, self, *values[:others], params=values[others:])

        return function

    def __truediv__(self, other: object) -> Symbol:
        if isinstance(other, Symbol):
            return self * other._inverse()
        if _is_number(other):
            return self * (1.0 / float(other))
        return NotImplemented

    def __rtruediv__(self, other: object) -> Symbol:
        inverse = self._inverse()
        return inverse if other == 1 else other * inverse

    def _inverse(self) -> Symbol:
        return self._tracer.emit(names.RECIPROCAL, (self.node,))

    def __pow__(self, exponent: object) -> Symbol:
        if isinstance(exponent, Symbol):
            raise TraceError(
                "A traced scalar cannot be an exponent",
                "write a whole number, as in x ** 3, or look_up() with a table",
            )
        if not _is_number(exponent):
            return NotImplemented
        if exponent == 0.5 and (root := getattr(self, "sqrt", None)) is not None:
            power: Symbol = root()
            return power
        if exponent != int(exponent):
            raise TraceError(
                f"A traced scalar cannot be raised to the power {exponent!r}",
                "the exponent must be a whole number, or 0.5, which is sqrt(x)",
            )
        return self._power(int(exponent))

    def _power(self, exponent: int) -> Symbol:
        if exponent < 0:
            return self._power(-exponent)._inverse()
        if exponent == 0:
            return self._tracer.constant(1.0)
        if exponent == 1:
            return self
        half = self._power(exponent // 2)
        return half * half * self if exponent % 2 else half * half

    def __rpow__(self, base: object) -> Symbol:
        del base
        return self.__pow__(self)  # whose error says what an exponent may be

    def __repr__(self) -> str:
        return self._tracer.shown(self.node)

    def __format__(self, spec: str) -> str:
        del spec  # a number format in a line that prints the symbol
        return repr(self)

    def _no_value(self, query: str) -> NoReturn:
        raise TraceError(f"A traced scalar has no {query}", _INSTEAD[query], query=query)

    def __bool__(self) -> bool:
        self._no_value("truth value")

    def __float__(self) -> float:
        self._no_value("float value")

    def __index__(self) -> int:
        self._no_value("integer value")

    def __eq__(self, other: object) -> bool:
        self._no_value("equality")

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[Symbol]:
        self._no_value("elements")

    def __mod__(self, other: object) -> Symbol:
        self._no_value("remainder")

    __rmod__ = __divmod__ = __rdivmod__ = __mod__

    def __floordiv__(self, other: object) -> Symbol:
        self._no_value("whole part")

    __rfloordiv__ = __floordiv__

    def __round__(self, digits: int | None = None) -> Symbol:
        self._no_value("whole part")

    def __trunc__(self) -> Symbol:
        self._no_value("whole part")

    __floor__ = __ceil__ = __trunc__


class Condition:
    """The result of a traced comparison: 1 if it holds, otherwise 0, for ``select`` to choose by.

    Conditions combine by ``&``, ``|`` and ``~``, like arrays of truth values, with at most one
    choice. Any other use raises.
    """

    __slots__ = ("_symbol", "_turned")

    __array_priority__ = -1.0  # as for symbols

    def __init__(self, symbol: Symbol, turned: bool = False) -> None:
        self._symbol = symbol
        self._turned = turned

    def apply(self, op: str, *operands: object, params: Sequence[Param] = ()) -> Any:
        """Apply ``select`` with this condition as the first operand.

        Raises
        ------
        TraceError
            For any other operation, or if another operand is a condition.
        """
        if op != names.SELECT or operands[0] is not self:
            self._no_number()
        first, second = operands[1:]
        if self._turned:
            first, second = second, first
        return self._symbol.apply(op, self._symbol, first, second)

    def __invert__(self) -> Condition:
        return Condition(self._symbol, not self._turned)

    def __and__(self, other: object) -> Condition | bool:
        if isinstance(other, (bool, np.bool_)):  # a comparison of numbers
            return self if other else False
        if not isinstance(other, Condition):
            self._no_number()
        return self._and(other)

    def __or__(self, other: object) -> Condition | bool:
        if isinstance(other, (bool, np.bool_)):
            return True if other else self
        if not isinstance(other, Condition):
            self._no_number()
        return self._or(other)

    def _and(self, other: Condition) -> Condition:
        if self._turned and other._turned:
            return ~(~self)._or(~other)
        if other._turned:
            return other._and(self)
        return Condition(self.apply(names.SELECT, self, other._symbol, 0.0))

    def _or(self, other: Condition) -> Condition:
        if self._turned or other._turned:
            return ~(~self)._and(~other)
        return Condition(self.apply(names.SELECT, self, 1.0, other._symbol))

    __rand__ = __and__
    __ror__ = __or__

    def _no_number(self, *_: object) -> NoReturn:
        raise TraceError(
            "A traced condition is not a number",
            "write select(condition, 1.0, 0.0) to get a number",
        )

    def __bool__(self) -> NoReturn:
        raise TraceError(
            "A traced condition is neither true nor false yet",
            "write select(condition, a, b), for each element of an array",
            query=TraceError.HOLDS,
        )

    __float__ = __int__ = __index__ = __neg__ = __pos__ = __abs__ = _no_number
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _no_number
    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = _no_number
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _no_number
    __hash__ = None  # type: ignore[assignment]


class Tracer:
    """Recorder of operations as nodes; one tracer builds one graph.

    Parameters
    ----------
    skip : file names to skip in the search for a node's source line, so that it is the line of the
        algorithm and not of a vector helper; NumPy's files are always skipped.
    most : largest number of nodes of the graph.
    """

    def __init__(self, *, skip: tuple[str, ...] = (), most: int = sys.maxsize) -> None:
        self.skip = (PurePath(__file__).name, *skip)
        self.most = most
        self._nodes: list[Node] = []
        self._outputs: list[Output] = []
        self._states: list[Feedback] = []
        self._region: Region | None = None
        self._names: dict[str, str] = {}  # of files, by their paths

    def emit(self, op: str, args: tuple[int, ...] = (), params: tuple[Param, ...] = ()) -> Symbol:
        """Append a node and return its symbol.

        Raises
        ------
        TraceError
            If the graph has reached its largest number of nodes.
        """
        if len(self._nodes) >= self.most:
            self._refuse()
        self._nodes.append(Node(op, args, params, self._region, self._line()))
        return Symbol(self, len(self._nodes) - 1)

    def _line(self) -> str:
        depth = 2
        while True:
            try:
                frame = sys._getframe(depth)
            except ValueError:
                return ""
            path = frame.f_code.co_filename
            name = self._names.get(path)
            if name is None:
                file = PurePath(path)
                passed = file.name in self.skip or "numpy" in file.parts
                name = self._names[path] = "" if passed else file.name
            if name:
                return f"{name}:{frame.f_lineno}"
            depth += 1

    def _refuse(self) -> NoReturn:
        line, count = Counter(node.line for node in self._nodes).most_common(1)[0]
        raise TraceError(
            f"Tracing stopped at {self.most:,} operations, {count:,} of them from {line}",
            "every iteration of a loop adds operations, so use fewer, and make the loop end",
        )

    def shown(self, node: int) -> str:
        """Return a node as text, for ``print`` in a traced function."""
        traced = self._nodes[node]
        if traced.op == names.INPUT:
            return f"<{traced.params[0]}>"
        return f"<{traced.op} of {traced.line}>"

    def input(self, word: str) -> Symbol:
        """Append an input word and return its symbol; the record keeps the order of calls."""
        return self.emit(names.INPUT, params=(Word.of(word),))

    def constant(self, value: float) -> Symbol:
        """Append a constant and return its symbol.

        Raises
        ------
        TraceError
            If it is infinite or not a number.
        """
        if not math.isfinite(value):
            raise TraceError(
                f"The constant {value!r} is not finite",
                "a core computes only with finite numbers, so use one, or leave the operation out",
            )
        return self.emit(names.CONST, params=(value,))

    def output(self, word: str, value: Symbol | float) -> None:
        """Make a value a result word; the result record keeps the order of calls."""
        if not isinstance(value, Symbol):
            value = self.constant(float(value))
        self._outputs.append(Output(Word.of(word), value.node))

    def feed_back(self, word: str, value: Symbol | float, initial: float = 0.0) -> None:
        """Make an input word a state, with its values for the next and for the first request."""
        if not isinstance(value, Symbol):
            value = self.constant(float(value))
        self._states.append(Feedback(Word.of(word), value.node, float(initial)))

    @contextmanager
    def region(self, name: str, body: int | None = None) -> Iterator[None]:
        """Label the nodes emitted inside with a pass and its current body, counted from 1."""
        before, self._region = self._region, Region(name, body)
        try:
            yield
        finally:
            self._region = before

    def finish(self) -> Graph:
        """Return the graph so far, verified."""
        return verify(Graph(tuple(self._nodes), tuple(self._outputs), tuple(self._states)))
