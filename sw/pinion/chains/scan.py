"""Prefix sums over any associative operator, by three parallel methods or sequentially.

The scan of ``a_1, ..., a_n`` is ``x_i = a_i (+) x_(i-1)``. The newer element is the first operand,
as for matrices that act on columns and in equations 12 to 14 of Yang, Wu and Pan 2017; their
equation 10 has the older one first. From the tip it is ``x_i = a_i (+) x_(i+1)``.

Sources: Hillis and Steele 1986; Blelloch 1990; Brent and Kung 1982, in place. Levels for n
operands: ``ceil(log2 n)``; ``2 ceil(log2 n)``, and one more for the inclusive scan; at most
``2 ceil(log2 n) - 1``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from pinion.dynamics import DynamicsError
from pinion.dynamics.checks import check_choice

from .chain import Array
from .counting import Count

METHODS = ("sequential", "hillis_steele", "blelloch", "brent_kung")

Elements = tuple[Array, ...]
"""Arrays with the same leading axes; their entries at one index of these form an element."""


@dataclass(frozen=True)
class Operator:
    """An associative operator on elements.

    Members
    -------
    combine : combines newer and older elements, index by index.
    identity : returns identity elements of the same shapes as its argument.
    """

    combine: Callable[[Elements, Elements], Elements]
    identity: Callable[[Elements], Elements]


@overload
def scan(
    op: Operator,
    x: Array,
    method: str = ...,
    count: Count | None = ...,
    *,
    axis: int = ...,
    exclusive: bool = ...,
    from_tip: bool = ...,
) -> Array: ...


@overload
def scan(
    op: Operator,
    x: Sequence[Array],
    method: str = ...,
    count: Count | None = ...,
    *,
    axis: int = ...,
    exclusive: bool = ...,
    from_tip: bool = ...,
) -> Elements: ...


def scan(
    op: Operator,
    x: Array | Sequence[Array],
    method: str = "sequential",
    count: Count | None = None,
    *,
    axis: int = 1,
    exclusive: bool = False,
    from_tip: bool = False,
) -> Array | Elements:
    """Return all prefix sums of a sequence of elements under an associative operator.

    Parameters
    ----------
    x : arrays (B, n, ...) that form the elements, or one array.
    method : ``sequential``, ``hillis_steele``, ``blelloch`` or ``brent_kung``.
    count : receives the levels and combines for one state of the batch.
    axis : axis of the elements, the same in all arrays.
    exclusive : exclude element i from prefix i: the first prefix is the operator's identity.
    from_tip : scan from the last element to the first.

    Returns
    -------
    As x: at index i the combination of all elements from the first (from the tip: the last) to i.

    Raises
    ------
    DynamicsError
        If the method is unknown, there are no elements, or arrays differ in length.
    """
    check_choice("method", method, METHODS)
    single = isinstance(x, np.ndarray)
    elements = (x,) if isinstance(x, np.ndarray) else tuple(x)
    heads = {a.shape[: axis + 1] for a in elements}
    if len(heads) != 1 or len(next(iter(heads))) <= axis or next(iter(heads))[axis] == 0:
        raise DynamicsError(
            f"The leading axes of the arrays of a scan have the shapes {sorted(heads)}: pass at "
            "least one array, all of the same batch and length, with at least one element along "
            f"axis {axis}."
        )
    line = _Line(op, axis, Count() if count is None else count)
    if from_tip:
        elements = line.part(elements, slice(None, None, -1))
    if method == "blelloch":
        scanned = line.blelloch(elements, exclusive)
    else:
        if exclusive:
            # The identity is the first element, and the last one is dropped.
            first = op.identity(line.part(elements, slice(0, 1)))
            elements = line.joined(first, line.part(elements, slice(0, -1)))
        methods = {
            "sequential": line.sequential,
            "hillis_steele": line.hillis_steele,
            "brent_kung": line.brent_kung,
        }
        scanned = methods[method](elements)
    if from_tip:
        scanned = line.part(scanned, slice(None, None, -1))
    return scanned[0] if single else scanned


@dataclass(frozen=True)
class _Line:
    """An operator applied to elements along an axis, with counted levels."""

    op: Operator
    axis: int
    count: Count

    def length(self, x: Elements) -> int:
        return int(x[0].shape[self.axis])

    def at(self, span: slice) -> tuple[slice, ...]:
        return (*[slice(None)] * self.axis, span)

    def part(self, x: Elements, span: slice) -> Elements:
        return tuple(a[self.at(span)] for a in x)

    def joined(self, first: Elements, second: Elements) -> Elements:
        pairs = zip(first, second, strict=True)
        return tuple(np.concatenate(pair, axis=self.axis) for pair in pairs)

    def write(self, x: Elements, span: slice, values: Elements) -> None:
        for a, value in zip(x, values, strict=True):
            a[self.at(span)] = value

    def level(self, newer: Elements, older: Elements) -> Elements:
        self.count.level(self.length(newer))
        return self.op.combine(newer, older)

    def sequential(self, x: Elements) -> Elements:
        result = tuple(a.copy() for a in x)
        for i in range(1, self.length(x)):
            target, before = slice(i, i + 1), slice(i - 1, i)
            self.write(result, target, self.level(self.part(x, target), self.part(result, before)))
        return result

    def hillis_steele(self, x: Elements) -> Elements:
        h = 1
        while h < self.length(x):
            newer = self.level(self.part(x, slice(h, None)), self.part(x, slice(None, -h)))
            x = self.joined(self.part(x, slice(None, h)), newer)
            h *= 2
        return x

    def brent_kung(self, x: Elements) -> Elements:
        result = tuple(a.copy() for a in x)
        h = 1
        while h < self.length(x):
            self.update(result, 2 * h - 1, h)
            h *= 2
        while h > 1:
            h //= 2
            self.update(result, 3 * h - 1, h)
        return result

    def update(self, x: Elements, first: int, h: int) -> None:
        """Combine every second element with the one at distance h before it, in place."""
        n = self.length(x)
        if first < n:
            target, before = slice(first, n, 2 * h), slice(first - h, n - h, 2 * h)
            self.write(x, target, self.level(self.part(x, target), self.part(x, before)))

    def blelloch(self, x: Elements, exclusive: bool) -> Elements:
        n = self.length(x)
        size = 1 << (n - 1).bit_length()
        # A full tree: missing leaves are the identity.
        tree = self.joined(x, self.op.identity(self.part(x, slice(0, size - n))))
        h = 1
        while h < size:
            self.update(tree, 2 * h - 1, h)
            h *= 2
        root = slice(size - 1, size)
        self.write(tree, root, self.op.identity(self.part(tree, root)))
        while h > 1:
            h //= 2
            left, right = slice(h - 1, size, 2 * h), slice(2 * h - 1, size, 2 * h)
            # Copies: the left child takes its parent's value, the right one its parent's combined
            # with its left sibling's.
            sums = tuple(a.copy() for a in self.part(tree, left))
            before = tuple(a.copy() for a in self.part(tree, right))
            self.write(tree, left, before)
            self.write(tree, right, self.level(sums, before))
        result = self.part(tree, slice(0, n))
        return result if exclusive else self.level(x, result)
