"""A scalar without a value, which records operations and refuses any use of its value."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn


class Symbol:
    """A node of a graph; equal operations on the same operands are the same object."""

    def __init__(self, op: str, *args: Any) -> None:
        self.op = op
        self.args = args

    def __add__(self, other: Any) -> Symbol:
        return Symbol("add", self, other)

    def __radd__(self, other: Any) -> Symbol:
        return Symbol("add", other, self)

    def __sub__(self, other: Any) -> Symbol:
        return Symbol("sub", self, other)

    def __rsub__(self, other: Any) -> Symbol:
        return Symbol("sub", other, self)

    def __mul__(self, other: Any) -> Symbol:
        return Symbol("mul", self, other)

    def __rmul__(self, other: Any) -> Symbol:
        return Symbol("mul", other, self)

    def __neg__(self) -> Symbol:
        return Symbol("neg", self)

    def apply(self, op: str, *operands: Any, params: Iterable[Any] = ()) -> Symbol:
        assert not params
        return Symbol(op, *operands)

    def refuse(self, *_: object) -> NoReturn:
        raise TypeError("a symbol has no value")

    __bool__ = __float__ = __index__ = __int__ = refuse
    __lt__ = __le__ = __gt__ = __ge__ = refuse
    __eq__ = __ne__ = refuse
    __hash__ = None  # type: ignore[assignment]


class Steps:
    """A region that records its steps; nested steps are an error."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []
        self._open = False

    @contextmanager
    def __call__(self, pass_name: str, body: int) -> Iterator[None]:
        assert not self._open, "regions must not nest"
        self._open = True
        self.seen.append((pass_name, body))
        yield
        self._open = False


def reachable(outputs: Iterable[Any]) -> list[tuple[str, tuple[Any, ...]]]:
    """Return distinct ``(op, operands)`` of the operations that outputs need, operands first.

    An operand is ``("const", value)`` or ``("node", row)``, the number of an earlier row; an input
    is a row ``("in", (("const", name),))``.
    """
    rows: list[tuple[str, tuple[Any, ...]]] = []
    numbers: dict[tuple[str, tuple[Any, ...]], int] = {}
    row_of: dict[int, int] = {}
    todo: list[Any] = [x for x in outputs if isinstance(x, Symbol)]
    while todo:
        node = todo[-1]
        waiting = [a for a in node.args if isinstance(a, Symbol) and id(a) not in row_of]
        if waiting:
            todo.extend(waiting)
            continue
        todo.pop()
        operands = tuple(
            ("node", row_of[id(a)]) if isinstance(a, Symbol) else ("const", a) for a in node.args
        )
        row = (node.op, tuple(sorted(operands)) if node.op in ("add", "mul") else operands)
        if row not in numbers:
            numbers[row] = len(rows)
            rows.append(row)
        row_of[id(node)] = numbers[row]
    return rows


def evaluate(outputs: list[Any], inputs: dict[str, float]) -> list[float]:
    """Compute symbols from the inputs' values; constant outputs are unchanged."""
    values: dict[int, float] = {}

    def value(x: Any) -> float:
        return values[id(x)] if isinstance(x, Symbol) else float(x)

    rules: dict[str, Callable[..., float]] = {
        "add": operator.add,
        "sub": operator.sub,
        "mul": operator.mul,
        "neg": operator.neg,
        "sin": math.sin,
        "cos": math.cos,
        "reciprocal": lambda x: 1.0 / x,
    }
    todo = [x for x in outputs if isinstance(x, Symbol)]
    while todo:
        node = todo[-1]
        waiting = [a for a in node.args if isinstance(a, Symbol) and id(a) not in values]
        if waiting:
            todo.extend(waiting)
            continue
        todo.pop()
        if node.op == "in":
            values[id(node)] = inputs[node.args[0]]
        else:
            values[id(node)] = rules[node.op](*(value(a) for a in node.args))
    return [value(x) for x in outputs]


def count(outputs: Iterable[Any]) -> dict[str, int]:
    """Count variable products, products by a constant, additions, negations, doublings, trig."""
    counts = {"mul": 0, "mul_const": 0, "add": 0, "neg": 0, "double": 0, "trig": 0}
    for op, operands in reachable(outputs):
        if op == "mul":
            counts["mul_const" if any(kind == "const" for kind, _ in operands) else "mul"] += 1
        elif op in ("add", "sub"):
            counts["double" if operands[0] == operands[1] else "add"] += 1
        elif op in ("sin", "cos"):
            counts["trig"] += 1
        elif op == "neg":
            counts["neg"] += 1
    return counts
