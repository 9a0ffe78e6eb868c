"""The numbers that mechanics is written over: floats, batches, complex steps, tracing symbols.

Everything in this package touches its numbers through ``+``, ``-``, ``*``, ``sin``, ``cos``,
``reciprocal`` and ``clamp`` alone and never asks for a value, so the same source computes one robot
state, a batch of states (an element is an array of shape ``(n,)``), a complex-step derivative, or
the graph of operations that becomes hardware.

The functions here leave out what cannot change a result: a term whose factor is the *Python float*
``0.0`` is dropped and a factor of the Python float ``1.0`` is not multiplied. The robot's constants
and the resting base are Python floats; the joints' variables, in a batch or a trace, are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

import numpy as np


class Scalar(Protocol):
    """What an element must know: the ring operations, with Python floats on either side."""

    def __add__(self, other: Any, /) -> Scalar:
        """Return ``self + other``."""

    def __radd__(self, other: Any, /) -> Scalar:
        """Return ``other + self``."""

    def __sub__(self, other: Any, /) -> Scalar:
        """Return ``self - other``."""

    def __rsub__(self, other: Any, /) -> Scalar:
        """Return ``other - self``."""

    def __mul__(self, other: Any, /) -> Scalar:
        """Return ``self * other``."""

    def __rmul__(self, other: Any, /) -> Scalar:
        """Return ``other * self``."""

    def __neg__(self) -> Scalar:
        """Return ``-self``."""


def sin(x: Scalar) -> Scalar:
    """Sine of an angle [rad]: the element's own ``sin`` method when it has one, else NumPy's."""
    own = getattr(x, "sin", None)
    return cast("Scalar", own() if own is not None else np.sin(cast("Any", x)))


def cos(x: Scalar) -> Scalar:
    """Cosine of an angle [rad]: the element's own ``cos`` method when it has one, else NumPy's."""
    own = getattr(x, "cos", None)
    return cast("Scalar", own() if own is not None else np.cos(cast("Any", x)))


class SingularError(ValueError):
    """A robot has no forward dynamics: one of its joints moves no inertia."""


def reciprocal(x: Scalar) -> Scalar:
    """Return ``1 / x``: the element's own ``reciprocal`` method when it has one, else a division.

    A tracing symbol has the method, because hardware divides by multiplying with a reciprocal.

    Raises
    ------
    SingularError : of the constant zero.
    """
    if is_zero(x):
        raise SingularError(
            "The joint-space inertia matrix is singular: a joint moves bodies without inertia, so "
            "that forward dynamics does not exist; give them mass, or their joint an armature."
        )
    own = getattr(x, "reciprocal", None)
    return cast("Scalar", own() if own is not None else 1.0 / cast("Any", x))


def clamp(x: Scalar, low: float, high: float) -> Scalar:
    """Return ``x`` where it is between two constants, else the nearer one.

    The element's own ``clamp`` method when it has one, else NumPy's ``clip``.
    """
    own = getattr(x, "clamp", None)
    return cast("Scalar", own(low, high) if own is not None else np.clip(cast("Any", x), low, high))


def is_zero(x: Scalar) -> bool:
    """Whether ``x`` is the Python float zero; a symbol or an array is never asked for its value."""
    return isinstance(x, float) and x == 0.0


def is_one(x: Scalar) -> bool:
    """Whether ``x`` is the Python float one; a symbol or an array is never asked for its value."""
    return isinstance(x, float) and x == 1.0


def add(x: Scalar, y: Scalar) -> Scalar:
    """Return ``x + y``, without the operation when a term is the constant zero."""
    if is_zero(x):
        return y
    return x if is_zero(y) else x + y


def sub(x: Scalar, y: Scalar) -> Scalar:
    """Return ``x - y``, without the operation when a term is the constant zero."""
    if is_zero(y):
        return x
    return -y if is_zero(x) else x - y


def mul(x: Scalar, y: Scalar) -> Scalar:
    """Return ``x * y``, without the operation when a factor is the constant zero or one."""
    if is_zero(x) or is_zero(y):
        return 0.0
    if is_one(x):
        return y
    return x if is_one(y) else x * y


def scaled_sum(constants: Sequence[float], values: Sequence[Scalar]) -> Scalar:
    """Return the sum of ``constants[k] * values[k]``; constants 0, 1 and -1 cost no product."""
    total: Scalar = 0.0
    for constant, value in zip(constants, values, strict=True):
        total = sub(total, value) if constant == -1.0 else add(total, mul(constant, value))
    return total
