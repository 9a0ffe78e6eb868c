r"""Solution of block tridiagonal systems by odd-even elimination or reduction, or L D L^T.

Row i of the system is ``L_(i-1) x_(i-1) + D_i x_i + U_i x_(i+1) = R_i``. All three methods subtract
multiples of rows from others until each row has one unknown; they differ in the order of rows.

- *Odd-even elimination* (OEE; Fijany 1993, eq. 90-93; Yang, Wu and Pan 2016, eq. 19 and algorithm
  2): at level j all rows eliminate their neighbours at the distance ``h = 2^(j-1)`` and get
  neighbours at 2h. ``ceil(log2 n)`` levels and one solve. Each row is written by its owner alone:

      E_i = U_i D_(i+h)^-1            K_i = L_(i-h) D_(i-h)^-1
      D_i -= E_i L_i + K_i U_(i-h)    U_i = -E_i U_(i+h)    R_i -= E_i R_(i+h) + K_i R_(i-h)

  Fijany's eq. 90-92 print the neighbours as i +- 2 for i +- 2^(j-1). In Yang's eq. 19 the X on the
  right is R, and K is numbered by its target row; algorithm 2 numbers it by the other row, writes
  row i + h from two threads (lines 7 and 8, 10 and 11), and does not update rows with only one
  neighbour.
- *Odd-even reduction* (OER, cyclic reduction; Fijany 1993, section VI.B): each level eliminates
  every other row, which is recovered when its neighbours are known. ``2 floor(log2 n)`` levels and
  one solve.
- *L D L^T*: one row after the other, ``2 n - 1`` steps: serial, with the least work.

:class:`~.counting.Count` compares them: a level counts the multiples of rows that are subtracted in
parallel, and the solve of all blocks counts as a solve, not a level. The ``2 n - 1`` steps of
L D L^T are ``2 n - 2`` levels and the solve.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from pinion.dynamics import DynamicsError
from pinion.dynamics.checks import check_choice
from pinion.dynamics.general.spatial import transposed

from .chain import Array
from .counting import Count
from .small import factorise, factorise_general, solve_exchanged, solve_factored

METHODS = ("oee", "oer", "ldl")


@dataclass(frozen=True, eq=False)
class Elimination:
    """Subtraction of multiples of rows from other rows: ``x[target] -= factor x[source]``.

    factor : (B, rows, k, k).
    """

    target: slice
    source: slice
    factor: Array


Level = tuple[Elimination, ...]


@dataclass(frozen=True, eq=False)
class Diagonal:
    """A diagonalised block tridiagonal matrix, for any number of right-hand sides.

    Members
    -------
    forward, backward : eliminations before and after the solve; those of a level are parallel.
    inverse : solves the n remaining blocks for right-hand sides (B, n, k, m).
    shape : (n, k).
    """

    forward: tuple[Level, ...]
    backward: tuple[Level, ...]
    inverse: Callable[[Array], Array]
    shape: tuple[int, int]

    def solve(self, R: Array, count: Count | None = None) -> Array:
        """Solve for right-hand sides (B, n, k, m).

        Parameters
        ----------
        count : receives the levels, which coincide with those of the matrix's diagonalisation.

        Raises
        ------
        DynamicsError
            If R has the wrong shape.
        """
        if R.ndim != 4 or R.shape[1:3] != self.shape:
            n, k = self.shape
            raise DynamicsError(f"R has shape {R.shape}, expected (B, {n}, {k}, m).")
        x = _applied(self.forward, R, count)
        x = self.inverse(x)
        if count is not None:
            count.solve()
        return _applied(self.backward, x, count)


def solve_tridiagonal(
    D: Array,
    U: Array,
    R: Array,
    method: str = "oee",
    *,
    lower: Array | None = None,
    count: Count | None = None,
) -> Array:
    """Solve a block tridiagonal system.

    Parameters
    ----------
    D : (B, n, k, k) diagonal blocks. U : (B, n - 1, k, k) blocks right of them.
    R : (B, n, k, m) right-hand sides.
    method : ``oee``, ``oer`` or ``ldl``.
    lower : (B, n - 1, k, k) blocks left of the diagonal, from the second row on; None for a
        symmetric positive definite matrix, where they are ``U^T``.
    count : receives the levels; the matrix and its right-hand sides are processed together.

    Returns
    -------
    x : (B, n, k, m).

    Raises
    ------
    DynamicsError
        If a shape or the method is invalid.
    np.linalg.LinAlgError
        If a diagonal block is not positive definite, or with `lower` not invertible.
    """
    return diagonalise(D, U, lower=lower, method=method).solve(R, count)


def diagonalise(
    D: Array,
    U: Array,
    *,
    lower: Array | None = None,
    method: str = "oee",
    count: Count | None = None,
) -> Diagonal:
    """Diagonalise a block tridiagonal matrix for later right-hand sides.

    Arguments and errors as for :func:`solve_tridiagonal`; `count` receives the matrix's levels;
    :meth:`Diagonal.solve` counts those of right-hand sides.
    """
    check_choice("method", method, METHODS)
    if D.ndim != 4 or D.shape[1] < 1 or D.shape[2] != D.shape[3]:
        raise DynamicsError(
            f"D has shape {D.shape}, expected (B, n, k, k) with at least one block."
        )
    expected = (D.shape[0], D.shape[1] - 1, *D.shape[2:])
    for name, blocks in {"U": U, "lower": U if lower is None else lower}.items():
        if blocks.shape != expected:
            raise DynamicsError(f"{name} has shape {blocks.shape}, expected {expected}.")
    algorithm = {"oee": _eliminated, "oer": _reduced, "ldl": _swept}[method]
    forward, backward, left = algorithm(D, U, lower)
    if count is not None:
        for level in forward:
            count.level(_combines(level))
    return Diagonal(forward, backward, _inverse_of(left, lower is None), (D.shape[1], D.shape[2]))


def _inverse_of(D: Array, symmetric: bool) -> Callable[[Array], Array]:
    if symmetric:
        return partial(solve_factored, *factorise(D))
    return partial(solve_exchanged, *factorise_general(D))


def _divided(blocks: Array, D: Array, symmetric: bool) -> Array:
    """Return ``blocks D^-1``."""
    return transposed(_inverse_of(transposed(D), symmetric)(transposed(blocks)))


def _applied(levels: tuple[Level, ...], R: Array, count: Count | None) -> Array:
    x = R
    for level in levels:
        before, x = x, np.array(x, np.result_type(x, level[0].factor))
        for elimination in level:
            x[:, elimination.target] -= elimination.factor @ before[:, elimination.source]
        if count is not None:
            count.level(_combines(level))
    return x


def _combines(level: Level) -> int:
    return sum(elimination.factor.shape[1] for elimination in level)


_Steps = tuple[tuple[Level, ...], tuple[Level, ...], Array]
"""Levels before and after the solve, and the remaining diagonal blocks."""


def _eliminated(D: Array, U: Array, lower: Array | None) -> _Steps:
    n, symmetric = D.shape[1], lower is None
    levels: list[Level] = []
    L = transposed(U) if lower is None else lower
    h = 1
    while h < n:
        first, last, rest = slice(0, n - h), slice(h, n), max(0, n - 2 * h)
        E = _divided(U, D[:, last], symmetric)
        K = _divided(L, D[:, first], symmetric)
        levels.append((Elimination(first, last, E), Elimination(last, first, K)))
        D = np.array(D)
        D[:, first] -= E @ L
        D[:, last] -= K @ U
        L, U = -K[:, h:] @ L[:, :rest], -E[:, :rest] @ U[:, h:]
        if symmetric:
            L = transposed(U)
        h *= 2
    return tuple(levels), (), D


def _places(first: int, step: int, count: int) -> slice:
    return slice(first, first + step * count, step)


def _reduced(D: Array, U: Array, lower: Array | None) -> _Steps:
    symmetric = lower is None
    forward: list[Level] = []
    backward: list[Level] = []
    left = np.empty_like(D)
    L = transposed(U) if lower is None else lower
    h = 1
    while (m := D.shape[1]) > 1:
        # The first, third, ... of the m remaining rows are eliminated: from each of the others a
        # multiple of the row before it is subtracted, and, except from the last for an even m, one
        # of the row after it.
        left[:, h - 1 :: 2 * h] = D[:, 0::2]
        before, after = D[:, 0::2][:, : m // 2], D[:, 2::2]
        K = _divided(L[:, 0::2], before, symmetric)
        E = _divided(U[:, 1::2], after, symmetric)
        odd, former = _places(2 * h - 1, 2 * h, m // 2), _places(h - 1, 2 * h, m // 2)
        between, later = (_places(i * h - 1, 2 * h, E.shape[1]) for i in (2, 3))
        forward.append((Elimination(odd, former, K), Elimination(between, later, E)))
        if symmetric:
            back = (transposed(K), transposed(E))
        else:
            back = (
                _inverse_of(before, symmetric)(U[:, 0::2]),
                _inverse_of(after, symmetric)(L[:, 1::2]),
            )
        backward.append((Elimination(former, odd, back[0]), Elimination(later, between, back[1])))
        rest = m // 2 - 1
        D = np.array(D[:, 1::2])
        D -= K @ U[:, 0::2]
        D[:, : E.shape[1]] -= E @ L[:, 1::2]
        L, U = -K[:, 1:] @ L[:, 1::2][:, :rest], -E[:, :rest] @ U[:, 2::2]
        if symmetric:
            L = transposed(U)
        h *= 2
    left[:, h - 1 : h] = D
    return tuple(forward), tuple(reversed(backward)), left


def _swept(D: Array, U: Array, lower: Array | None) -> _Steps:
    symmetric = lower is None
    forward: list[Level] = []
    backward: list[Level] = []
    L = transposed(U) if lower is None else lower
    left = np.array(D)
    for i in range(D.shape[1] - 1):
        pivot, after = slice(i, i + 1), slice(i + 1, i + 2)
        K = _divided(L[:, pivot], left[:, pivot], symmetric)
        back = transposed(K) if symmetric else _inverse_of(left[:, pivot], False)(U[:, pivot])
        left[:, after] -= K @ U[:, pivot]
        forward.append((Elimination(after, pivot, K),))
        backward.append((Elimination(pivot, after, back),))
    return tuple(forward), tuple(reversed(backward)), left
