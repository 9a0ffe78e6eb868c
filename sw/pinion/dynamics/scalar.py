"""Scalars of the algorithms: floats, batches, complex steps, tracing symbols.

This package operates on its numbers only through ``+``, ``-``, ``*`` and these functions and never
asks for a value, so the same source computes one robot state, a batch of states (an element is an
array of shape ``(n,)``), a complex-step derivative, or the graph of operations that becomes
hardware.

The functions skip operations that cannot change a result: a term whose factor is the *Python float*
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
    """Ring operations that an element must support, with Python floats on either side."""

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
    """Apply a function of the operation table to floats, arrays or tracing symbols.

    A tracing symbol has its own method ``apply``; arrays of symbols are mapped element by element.

    Parameters
    ----------
    op : name of the table's row.
    floats : the function for floats and arrays (n,), with the parameters after its operands.
    operands : elements, of which any may be a symbol.
    params : the row's parameters.
    """
    for x in operands:
        if isinstance(x, np.ndarray) and x.dtype == object:
            elementwise = np.frompyfunc(partial(apply, op, floats, params=params), len(operands), 1)
            return elementwise(*operands)
        if (method := getattr(x, "apply", None)) is not None:
            return method(op, *operands, params=params)
    return floats(*operands, *params)


def sin(x: Scalar) -> Scalar:
    """Return the sine of an angle [rad]."""
    return cast("Scalar", apply("sin", np.sin, x))


def cos(x: Scalar) -> Scalar:
    """Return the cosine of an angle [rad]."""
    return cast("Scalar", apply("cos", np.cos, x))


class SingularError(ValueError):
    """Reciprocal of the constant zero, such as the pivot of a joint that moves no inertia."""


def reciprocal(x: Scalar) -> Scalar:
    """Return ``1 / x``, a separate operation, since hardware divides by multiplying by it.

    Raises
    ------
    SingularError : x is the constant zero.
    """
    if is_zero(x):
        raise SingularError(
            "0 has no reciprocal. If it is a joint's inertia, give the joint an armature, or give "
            "mass and inertia to the bodies that it moves."
        )
    return cast("Scalar", apply("reciprocal", lambda x: 1.0 / x, x))


def clamp(x: Scalar, low: float, high: float) -> Scalar:
    """Return ``x`` limited to the interval between two constants.

    Raises
    ------
    ValueError : the bounds are not finite numbers, or not in order.
    """
    numbers = all(isinstance(end, int | float | np.integer | np.floating) for end in (low, high))
    if not numbers or not -np.inf < low <= high < np.inf:
        raise ValueError(
            f"clamp needs two finite numbers as bounds, the lower one first, not {low!r:.60} and "
            f"{high!r:.60}: for computed bounds write minimum(maximum(x, low), high)."
        )
    return cast("Scalar", apply("clamp", np.clip, x, params=(float(low), float(high))))


def absolute(x: Scalar) -> Scalar:
    """Return the magnitude of ``x``."""
    return cast("Scalar", apply("abs", np.abs, x))


def minimum(a: Scalar, b: Scalar) -> Scalar:
    """Return the smaller of two values."""
    return cast("Scalar", apply("minimum", np.minimum, a, b))


def maximum(a: Scalar, b: Scalar) -> Scalar:
    """Return the larger of two values."""
    return cast("Scalar", apply("maximum", np.maximum, a, b))


def less(a: Scalar, b: Scalar) -> Any:
    """Return whether ``a < b``, a condition for :func:`select`."""
    return apply("less", np.less, a, b)


def select(condition: Any, a: Scalar, b: Scalar) -> Scalar:
    """Return ``a`` if a condition holds, else ``b``; both are computed.

    Parameters
    ----------
    condition : the result of a comparison, or a number, which holds above 1/2.
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
    """Return the square root; 0 for negative operands, which hardware flags."""
    return cast("Scalar", apply("sqrt", lambda x: np.sqrt(np.maximum(x, 0.0)), x))


def arctan2(y: Scalar, x: Scalar) -> Scalar:
    """Return the angle [rad] of (x, y), -pi to pi; 0 for (0, 0), which hardware flags."""
    return cast("Scalar", apply("arctan2", lambda y, x: np.arctan2(y + 0.0, x + 0.0), y, x))


def look_up(table: Piecewise, x: Scalar) -> Scalar:
    """Return the value of a table at ``x``, or at the table's nearer end if ``x`` is outside.

    Parameters
    ----------
    table : from a function by :meth:`Piecewise.fit`, or from samples by :meth:`Piecewise.samples`.

    Raises
    ------
    TypeError : the table is not a :class:`Piecewise`.
    """
    if not isinstance(table, Piecewise):
        raise TypeError(
            f"The first argument of look_up must be a table, not {table!r:.60}: make one with "
            "Piecewise.fit(function, low, high, error=...) or Piecewise.samples(x, y, error=...)."
        )
    floats = partial(_looked_up, table)
    return cast("Scalar", apply("look_up", floats, x, params=(table.text,)))


def _looked_up(table: Piecewise, x: Any, text: str) -> Any:
    return table.floats(x)


def is_zero(x: Scalar) -> bool:
    """Return whether ``x`` is the Python float zero; symbols and arrays never are."""
    return isinstance(x, float) and x == 0.0


def is_one(x: Scalar) -> bool:
    """Return whether ``x`` is the Python float one; symbols and arrays never are."""
    return isinstance(x, float) and x == 1.0


def add(x: Scalar, y: Scalar) -> Scalar:
    """Return ``x + y``, without the operation if a term is the constant zero."""
    if is_zero(x):
        return y
    return x if is_zero(y) else x + y


def sub(x: Scalar, y: Scalar) -> Scalar:
    """Return ``x - y``, without the operation if a term is the constant zero."""
    if is_zero(y):
        return x
    return -y if is_zero(x) else x - y


def mul(x: Scalar, y: Scalar) -> Scalar:
    """Return ``x * y``, without the operation if a factor is the constant zero or one."""
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
