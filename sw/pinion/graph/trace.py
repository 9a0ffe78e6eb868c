"""Tracing: run a function on symbols and keep every operation that it does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any, NoReturn

from . import names
from .check import verify
from .graph import Graph, Node, Output, Param, Region
from .ops import OPS, Family
from .rules import shown
from .words import Word


class TraceError(TypeError):
    """The traced function needs a symbol's value, which it does not have."""


class Symbol:
    """A scalar that stands for a node of the graph under construction.

    It adds, subtracts, multiplies, divides, and has the functions of the operation table as
    methods (``x.sin()``, ``x.clamp(-1.0, 1.0)``); asking for its value raises.
    """

    __slots__ = ("_tracer", "node")

    def __init__(self, tracer: Tracer, node: int) -> None:
        self._tracer = tracer
        self.node = node

    def _binary(self, op: str, other: object, *, swap: bool = False) -> Symbol:
        if isinstance(other, Symbol):
            right = other
        elif isinstance(other, (int, float)) and not isinstance(other, bool):
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

    def apply(self, op: str, *operands: object, params: Sequence[Param] = ()) -> Symbol:
        """A function of the operation table, of symbols and numbers; this is one of the operands.

        Raises
        ------
        TraceError
            When an operand is neither a symbol nor a number.
        """
        nodes = []
        for operand in operands:
            if isinstance(operand, (int, float)) and not isinstance(operand, bool):
                operand = self._tracer.constant(float(operand))
            if not isinstance(operand, Symbol):
                raise TraceError(
                    f"The operation {op} takes scalars, traced ones and numbers, not "
                    f"{shown(operand)}: apply it to the elements."
                )
            nodes.append(operand.node)
        return self._tracer.emit(op, tuple(nodes), tuple(params))

    def __getattr__(self, name: str) -> Callable[..., Symbol]:
        """A function of the table as a method, which NumPy calls for arrays of symbols."""
        row = OPS.get(name)
        if row is None or row.family is not Family.FUNCTION:
            raise AttributeError(f"A traced scalar has no attribute '{name}'.")
        others = (row.arity or 1) - 1

        def function(*values: Any) -> Symbol:
            return self.apply(name, self, *values[:others], params=values[others:])

        return function

    def __truediv__(self, other: object) -> Symbol:
        if isinstance(other, Symbol):
            return self * other.apply(names.RECIPROCAL, other)
        if isinstance(other, (int, float)) and not isinstance(other, bool):
            return self * (1.0 / other)
        return NotImplemented

    def __rtruediv__(self, other: object) -> Symbol:
        inverse = self.apply(names.RECIPROCAL, self)
        return inverse if other == 1 else other * inverse

    def _no_value(self, wanted: str) -> NoReturn:
        raise TraceError(
            f"A traced scalar has no {wanted}: the function must do the same operations for every "
            "input, so it cannot branch on one, index with one or convert one."
        )

    def __bool__(self) -> bool:
        self._no_value("truth value")

    def __float__(self) -> float:
        self._no_value("float value")

    def __index__(self) -> int:
        self._no_value("integer value")

    def __eq__(self, other: object) -> bool:
        self._no_value("equality")

    def __lt__(self, other: object) -> bool:
        self._no_value("order")

    __gt__ = __le__ = __ge__ = __lt__
    __hash__ = None  # type: ignore[assignment]


class Tracer:
    """Collects nodes; one tracer makes one graph.

    Parameters
    ----------
    skip : file names that are looked through when a node's source line is taken, so that the line
        of the algorithm is kept and not that of a vector helper.
    """

    def __init__(self, *, skip: tuple[str, ...] = ()) -> None:
        self.skip = (PurePath(__file__).name, *skip)
        self._nodes: list[Node] = []
        self._outputs: list[Output] = []
        self._region: Region | None = None
        self._names: dict[str, str] = {}  # of files, by their paths

    def emit(self, op: str, args: tuple[int, ...] = (), params: tuple[Param, ...] = ()) -> Symbol:
        """Append a node and return its symbol."""
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
                name = self._names[path] = PurePath(path).name
            if name not in self.skip:
                return f"{name}:{frame.f_lineno}"
            depth += 1

    def input(self, word: str) -> Symbol:
        """A word of the request record; the order of calls is the order of the record."""
        return self.emit(names.INPUT, params=(Word.of(word),))

    def constant(self, value: float) -> Symbol:
        """A constant."""
        return self.emit(names.CONST, params=(value,))

    def output(self, word: str, value: Symbol | float) -> None:
        """Name a result word; the order of calls is the order of the record."""
        if not isinstance(value, Symbol):
            value = self.constant(float(value))
        self._outputs.append(Output(Word.of(word), value.node))

    @contextmanager
    def region(self, name: str, body: int | None = None) -> Iterator[None]:
        """Label the nodes made inside with a pass and the body that it is at, counted from 1."""
        before, self._region = self._region, Region(name, body)
        try:
            yield
        finally:
            self._region = before

    def finish(self) -> Graph:
        """The graph so far, verified."""
        return verify(Graph(tuple(self._nodes), tuple(self._outputs)))
