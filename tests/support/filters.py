"""Functions with states for tests: filters, which have short loops and need no robot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pinion.dynamics.scalar import clamp, sin
from pinion.functions import Block, Function, State, Uniform
from pinion.robot import Model

X = Block(name="x", shape=(), unit="1", sampling=Uniform(-1.0, 1.0))
Y = Block(name="y", shape=(), unit="1")


def state(name: str, initial: float = 0.0) -> State:
    """Return a scalar state."""
    return State(name=name, shape=(), unit="1", initial=initial)


def biquad(
    model: Model, x: Any, x1: Any, x2: Any, y1: Any, y2: Any, *, region: Any
) -> Sequence[Any]:
    """Compute a second-order filter in direct form I, with two delay lines."""
    y = x * 0.2 + x1 * 0.1 - x2 * 0.05 + y1 * 1.5 - y2 * 0.7
    return y, x, x1, y, y1


BIQUAD = Function(
    name="biquad",
    doc="a filter of second order",
    inputs=(X,),
    outputs=(Y,),
    scalars=biquad,
    states=(state("x1"), state("x2", 0.5), state("y1"), state("y2", -0.125)),
)


def integrator(model: Model, x: Any, sums: Sequence[Any], turn: Any, *, region: Any) -> Any:
    """Compute a clamped sum, and a loop of states through a second sum and a sine."""
    first = clamp(sums[0] + x * 0.05, -1.5, 1.25)
    second = sums[1] * 0.875 + sin(first + turn * 0.5)
    return second - first, [first, second], second * 0.25


INTEGRATOR = Function(
    name="integrator",
    doc="two sums, one of them with an end",
    inputs=(X,),
    outputs=(Y,),
    scalars=integrator,
    states=(State(name="sums", shape=(2,), unit="1", initial=(0.25, -0.5)), state("turn", 0.125)),
)


def delay(model: Model, x: Any, a: Any, b: Any, *, region: Any) -> Sequence[Any]:
    """Return the input of two requests ago."""
    return b, x, a


DELAY = Function(
    name="delay",
    doc="the value two requests ago",
    inputs=(X,),
    outputs=(Y,),
    scalars=delay,
    states=(state("a", 0.5), state("b", -0.25)),
)
