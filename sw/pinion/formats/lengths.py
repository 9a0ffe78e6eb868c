"""Bounds on the lengths of rotated vectors, which rotations do not change.

A vector's coordinates are nodes that are sums, each with parts ``x cos(t) + y sin(t)`` of some
angles. Then the vector is X cos(t) + Y sin(t) + P with vectors X, Y and P. If X and Y are
orthogonal, whatever the values of their nodes, the first two terms together are no longer than the
longer of the two; otherwise no longer than the vector of the coordinates of both. So the length of
a vector is bounded by lengths of other vectors of earlier nodes, recursively.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from .intervals import FloatOrArray, up

# Vectors of more coordinates are bounded by these alone.
_MOST = 6

Vector = Mapping[int, int]
"""Squares of factors by node: a vector of the nodes, each times its factor."""

Parts = tuple[Sequence[tuple[int, int]], Sequence[tuple[int, int]]]
"""Factors of the cosine and the sine of an angle: whole numbers, each with a node."""


class Lengths:
    """Upper bounds on the lengths of vectors of node values.

    Parameters
    ----------
    magnitude : magnitude of a node.
    turned : a node's parts by angle.
    beside : magnitude of a node without the parts of an angle.
    latest : the one of several nodes to expand first: no other depends on it.
    """

    def __init__(
        self,
        *,
        magnitude: Callable[[int], FloatOrArray],
        turned: Callable[[int], Mapping[int, Parts]],
        beside: Callable[[int, int], FloatOrArray],
        latest: Callable[[Sequence[int]], int],
    ) -> None:
        self._magnitude = magnitude
        self._turned = turned
        self._beside = beside
        self._latest = latest
        self._known: dict[frozenset[tuple[int, int]], FloatOrArray] = {}

    def of(self, vector: Vector) -> FloatOrArray:
        """Return an upper bound on the length of a vector of nodes with weights."""
        key = frozenset(vector.items())
        if (cached := self._known.get(key)) is not None:
            return cached
        squares: FloatOrArray = np.float64(0.0)
        for i, weight in vector.items():
            squares = up(squares + up(weight * up(self._magnitude(i) ** 2)))
        length: FloatOrArray = up(np.sqrt(squares))
        turned = [i for i in vector if self._turned(i)]
        if turned and len(vector) <= _MOST:
            for angle in self._turned(self._latest(turned)):
                length = np.minimum(length, self.by_angle(vector, angle))
        self._known[key] = length
        return length

    def by_angle(self, vector: Vector, angle: int) -> FloatOrArray:
        """Return an upper bound on a vector's length from the parts that an angle rotates."""
        still: dict[int, int] = {}
        turning: tuple[dict[int, int], dict[int, int]] = ({}, {})
        across: dict[frozenset[int], int] = {}
        beside: FloatOrArray = np.float64(0.0)
        for i, weight in vector.items():
            parts = self._turned(i).get(angle)
            if parts is None:
                still[i] = weight
                continue
            if any(len(part) > 1 for part in parts):
                return np.float64(np.inf)  # X would be a vector of sums
            for coordinates, part in zip(turning, parts, strict=True):
                for times, node in part:
                    coordinates[node] = coordinates.get(node, 0) + weight * times * times
            if all(parts):
                ((by_cosine, a),), ((by_sine, b),) = parts
                pair = frozenset((a, b))
                across[pair] = across.get(pair, 0) + weight * by_cosine * by_sine
            beside = up(beside + up(weight * up(self._beside(i, angle) ** 2)))
        length: FloatOrArray
        if any(across.values()):
            length = self.of(_joined(still, *turning))
        else:
            x, y = (self.of(_joined(still, coordinates)) for coordinates in turning)
            length = np.maximum(x, y)
        return up(length + up(np.sqrt(beside)))  # type: ignore[no-any-return]  # NumPy's own


def _joined(*vectors: Vector) -> dict[int, int]:
    """Merge several vectors into one, adding the weights of coordinates that they share."""
    joined: dict[int, int] = {}
    for vector in vectors:
        for node, weight in vector.items():
            joined[node] = joined.get(node, 0) + weight
    return joined
