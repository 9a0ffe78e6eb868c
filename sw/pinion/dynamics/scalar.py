"""The numbers that mechanics is written over: floats, batches, complex steps, tracing symbols.

Everything in this package touches its numbers through ``+``, ``-``, ``*`` and the functions here
alone and never asks for a value, so the same source computes one robot state, a batch of states (an
element is an array of shape ``(n,)``), a complex-step derivative, or the graph of operations that
becomes hardware.

The functions here leave out what cannot change a result: a term whose factor is the *Python float*
``0.0`` is dropped and a factor of the Python float ``1.0`` is not multiplied. The robot's constants
and the resting base are Python floats; the joints' variables, in a batch or a trace, are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, cast

import numpy as np

from pinion.fixedpoint.piecewise import Piecewise


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


def apply(op: str, floats: Callable[..., Any], *operands: Any, params: Sequence[Any] = ()) -> Any:
    """A function of the operation table: of an element that is neither float nor array its own.

    Such an element, a tracing symbol, has a method ``apply`` for it. An array of such elements is
    gone through.

    Parameters
    ----------
    op : name of the row.
    floats : the function of floats and of arrays (n,), parameters behind its operands.
    operands : elements, of which any may be one with a method of its own.
    params : the row's parameters.
    """
    for x in operands:
        if isinstance(x, np.ndarray) and x.dtype == object:
            one = np.frompyfunc(partial(apply, op, floats, params=params), len(operands), 1)
            return one(*operands)
        if (own := getattr(x, "apply", None)) is not None:
            return own(op, *operands, params=params)
    return floats(*operands, *params)


def sin(x: Scalar) -> Scalar:
    """Sine of an angle [rad]."""
    return cast("Scalar", apply("sin", np.sin, x))


def cos(x: Scalar) -> Scalar:
    """Cosine of an angle [rad]."""
    return cast("Scalar", apply("cos", np.cos, x))


class SingularError(ValueError):
    """A robot has no forward dynamics: one of its joints moves no inertia."""


def reciprocal(x: Scalar) -> Scalar:
    """Return ``1 / x``, an operation of its own, since hardware divides by multiplying with it.

    Raises
    ------
    SingularError : of the constant zero.
    """
    if is_zero(x):
        raise SingularError(
            "The joint-space inertia matrix is singular: a joint moves bodies without inertia, so "
            "that forward dynamics does not exist; give them mass, or their joint an armature."
        )
    return cast("Scalar", apply("reciprocal", lambda x: 1.0 / x, x))


def clamp(x: Scalar, low: float, high: float) -> Scalar:
    """Return ``x`` where it is between two constants, else the nearer one.

    Raises
    ------
    ValueError : of ends that are not finite numbers, or not in order.
    """
    numbers = all(isinstance(end, int | float | np.integer | np.floating) for end in (low, high))
    if not numbers or not -np.inf < low <= high < np.inf:
        raise ValueError(
            f"clamp takes two finite numbers as ends, the lower one first, not {low!r:.60} and "
            f"{high!r:.60}: for ends that are computed write minimum(maximum(x, low), high)"
        )
    return cast("Scalar", apply("clamp", np.clip, x, params=(float(low), float(high))))


def absolute(x: Scalar) -> Scalar:
    """Return the magnitude of ``x``, as Python's own ``abs`` does."""
    return cast("Scalar", apply("abs", np.abs, x))


def minimum(a: Scalar, b: Scalar) -> Scalar:
    """Return the smaller of two."""
    return cast("Scalar", apply("minimum", np.minimum, a, b))


def maximum(a: Scalar, b: Scalar) -> Scalar:
    """Return the larger of two."""
    return cast("Scalar", apply("maximum", np.maximum, a, b))


def less(a: Scalar, b: Scalar) -> Any:
    """Return whether ``a < b``, as the operator does: a condition for :func:`select`."""
    return apply("less", np.less, a, b)


def select(condition: Any, a: Scalar, b: Scalar) -> Scalar:
    """Return ``a`` where a condition holds, else ``b``; both are computed.

    Parameters
    ----------
    condition : what a comparison gives, or a number, which holds above 1/2.
    """
    if isinstance(condition, bool | np.bool_ | float | int):  # the same for every input
        return a if condition > 0.5 else b
    return cast("Scalar", apply("select", _where, condition, a, b))


def _where(condition: Any, a: Any, b: Any) -> Any:
    return np.where(np.asarray(condition) > 0.5, a, b)


def hypot2(a: Scalar, b: Scalar) -> Scalar:
    """Return ``a^2 + b^2``, rounded once."""
    return cast("Scalar", apply("hypot2", lambda a, b: a * a + b * b, a, b))


def sqrt(x: Scalar) -> Scalar:
    """Square root; 0 for operands below 0, which hardware flags."""
    return cast("Scalar", apply("sqrt", lambda x: np.sqrt(np.maximum(x, 0.0)), x))


def arctan2(y: Scalar, x: Scalar) -> Scalar:
    """Angle [rad] of the vector (x, y) from the x axis, -pi to pi; 0 for (0, 0), which hardware
    flags."""
    return cast("Scalar", apply("arctan2", lambda y, x: np.arctan2(y + 0.0, x + 0.0), y, x))


def look_up(table: Piecewise, x: Scalar) -> Scalar:
    """Value of a table at ``x``, and at its nearer end where ``x`` is outside of its ends.

    Parameters
    ----------
    table : made of a function or of samples by :meth:`Piecewise.fit` or :meth:`Piecewise.samples`.

    Raises
    ------
    TypeError : of a table that is none.
    """
    if not isinstance(table, Piecewise):
        raise TypeError(
            f"look_up takes a table and then what to look up, not {table!r:.60}: make one with "
            "Piecewise.fit(function, low, high, error=...) or Piecewise.samples(x, y, error=...)."
        )
    floats = partial(_looked_up, table)
    return cast("Scalar", apply("look_up", floats, x, params=(table.text,)))


def _looked_up(table: Piecewise, x: Any, text: str) -> Any:
    return table.floats(x)


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


def scaled_sum(constants: Sequence[Scalar], values: Sequence[Scalar]) -> Scalar:
    """Return the sum of ``constants[k] * values[k]``; the floats 0, 1 and -1 cost no product.

    Constants of the robot may be scalars (:mod:`.parametric`).
    """
    total: Scalar = 0.0
    for constant, value in zip(constants, values, strict=True):
        negative = isinstance(constant, float) and constant == -1.0
        total = sub(total, value) if negative else add(total, mul(constant, value))
    return total
