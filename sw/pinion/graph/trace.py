"""Tracing: run a function on symbols and keep every operation that it does."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import NoReturn

from . import names
from .check import verify
from .graph import Feedback, Graph, Node, Output, Param, Region
from .words import Word


class TraceError(TypeError):
    """The traced function needs a symbol's value, which it does not have."""


class Symbol:
    """A scalar that stands for a node of the graph under construction.

    It adds, subtracts, multiplies, divides, and has ``sin()``, ``cos()``, ``reciprocal()`` and
    ``clamp()``; asking for its value raises.
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

    def sin(self) -> Symbol:
        """Sine of an angle in radians."""
        return self._tracer.emit(names.SIN, (self.node,))

    def cos(self) -> Symbol:
        """Cosine of an angle in radians."""
        return self._tracer.emit(names.COS, (self.node,))

    def reciprocal(self) -> Symbol:
        """One divided by this; hardware has a unit for it."""
        return self._tracer.emit(names.RECIPROCAL, (self.node,))

    def clamp(self, low: float, high: float) -> Symbol:
        """This where it is between two constants, else the nearer one."""
        return self._tracer.emit(names.CLAMP, (self.node,), (float(low), float(high)))

    def __truediv__(self, other: object) -> Symbol:
        if isinstance(other, Symbol):
            return self * other.reciprocal()
        if isinstance(other, (int, float)) and not isinstance(other, bool):
            return self * (1.0 / other)
        return NotImplemented

    def __rtruediv__(self, other: object) -> Symbol:
        inverse = self.reciprocal()
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
        self._states: list[Feedback] = []
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

    def feed_back(self, word: str, value: Symbol | float, initial: float = 0.0) -> None:
        """Say what an input word is in the next request, and in the first one: it is state then."""
        if not isinstance(value, Symbol):
            value = self.constant(float(value))
        self._states.append(Feedback(Word.of(word), value.node, float(initial)))

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
        return verify(Graph(tuple(self._nodes), tuple(self._outputs), tuple(self._states)))
