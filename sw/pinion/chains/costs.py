r"""Costs of the constraint force algorithm: operations per link, levels on two processor arrays.

**Operations** are counted from the equations, for a link of a long chain of revolute joints about
z, with frames in the modified convention of Denavit and Hartenberg: a constant screw along x, then
the joint's rotation about z and a shift along it. Zeros, ones and constants of a frame are free,
symmetric results are computed once, divisions count as multiplications and subtractions as
additions; sines and cosines are ignored. By these rules articulated bodies need 238 multiplications
and 236 additions.

Fijany 1993 (section V.D) says that the serial algorithm needs about 3.4 times the operations of the
best ones for a long chain, but not how that was counted. By these rules it is 2.3 times without
refinement, as in the text, and 3.5 times with one.

**Levels** are those of Fijany 1993, section VI.C and VI.D: two arrays of n processors, of which the
first diagonalises and finds Lambda^-1 while the second does everything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pinion.dynamics import DynamicsError

from .counting import Count
from .tridiagonal import diagonalise


@dataclass(frozen=True)
class Operations:
    """Scalar multiplications and additions."""

    multiplications: int
    additions: int

    def __add__(self, other: Operations) -> Operations:
        return Operations(
            self.multiplications + other.multiplications, self.additions + other.additions
        )

    def times(self, count: int) -> Operations:
        """Return the operations of `count` repetitions."""
        return Operations(count * self.multiplications, count * self.additions)

    @property
    def total(self) -> int:
        """Number of multiplications and additions."""
        return self.multiplications + self.additions


def factorisation(k: int) -> Operations:
    """Return the operations needed to factorise a symmetric k x k matrix into L D L^T."""
    return Operations(
        sum(2 * j + (k - 1 - j) * (j + 1) for j in range(k)),
        sum(j + (k - 1 - j) * j for j in range(k)),
    )


def solution(k: int, m: int) -> Operations:
    """Return the operations needed to solve for m right-hand sides with the factors L and D."""
    return Operations(k * (k - 1) + k, k * (k - 1)).times(m)


def product(rows: int, inner: int, columns: int) -> Operations:
    """Return the operations of the product of two dense matrices."""
    return Operations(inner, inner - 1).times(rows * columns)


# 3-vectors and 3x3 matrices under a turn about one axis with known sine and cosine: two components
# of a vector; of a matrix a 2x2 block, by sums and differences of its elements, and the two pairs
# beside it, which are equal for a symmetric matrix.
_VECTOR = Operations(4, 2)
_SYMMETRIC = Operations(8, 9)
_GENERAL = Operations(12, 12)
_SQUARES = Operations(2, 1)  # sin^2, sin cos
# A spatial vector: both parts under two turns, and shifts along two axes.
_MOVED = _VECTOR.times(4) + Operations(4, 4)
# An inertia turned about an axis, and shifted along one: two elements of e^ C for each of its
# columns, and the five elements of the rotational block that change.
_TURNED = _SYMMETRIC.times(2) + _GENERAL
_SHIFTED = Operations(6, 6) + Operations(5, 8)
_RIGID = Operations(24, 18)  # a body's inertia times a motion, by mass, lever and tensor
_CROSSED = Operations(18, 12)  # v x* f: three cross products, one addition of vectors
_COLUMNS = 5
"""Dimension of the constraint forces of a joint with one degree of freedom."""


def rnea_operations() -> Operations:
    """Return the operations per link of the recursive Newton-Euler algorithm with qdd = 0."""
    velocity = _MOVED + Operations(0, 1)
    acceleration = Operations(4, 0) + _MOVED + Operations(0, 4)
    force = _RIGID.times(2) + _CROSSED + Operations(0, 6)
    return velocity + acceleration + force + _MOVED + Operations(0, 6)


def aba_operations() -> Operations:
    """Return the operations per link of the articulated-body algorithm.

    ``U = IA S`` is a column, ``U / D`` has a one, and ``IA - U D^-1 U^T`` has a row of zeros.
    """
    velocity = _MOVED + Operations(0, 1) + Operations(4, 0)
    bias = _RIGID + _CROSSED
    joint = Operations(0, 1) + Operations(1 + 5, 0)
    through = Operations(15, 15)
    force = product(5, 4, 1) + Operations(5, 5) + Operations(0, 6)
    parent = _SQUARES + _TURNED.times(2) + _SHIFTED.times(2) + Operations(0, 21)
    parent += _MOVED + Operations(0, 6)
    back = _MOVED + Operations(0, 4) + Operations(6, 6) + Operations(0, 1)
    return velocity + bias + joint + through + force + parent + back


def cfa_operations(refine: int = 0) -> Operations:
    """Return the operations per link of the constraint force algorithm with L D L^T.

    ``J_i`` and ``X_i J_(i-1) X_i^T`` depend only on the angle of joint i, W_i^T J_i and
    ``X_(i+1)^T W_(i+1)`` only on that of the next one; W selects rows.
    """
    if refine < 0:
        raise DynamicsError(f"refine must be 0 or more, not {refine}.")
    k = _COLUMNS
    diagonal = _SQUARES + _TURNED + Operations(0, k * (k + 1) // 2)
    beside = _VECTOR.times(2 * k)
    halves = k * (k + 1) // 2
    eliminated = factorisation(k) + solution(k, k) + Operations(k, k).times(halves)
    # J X^T H is a constant column, times the next joint's effort.
    right = Operations(12, 6) + _MOVED + Operations(0, k)
    swept = Operations(k, k).times(k).times(2) + solution(k, 1)
    motion = _MOVED + Operations(0, 6) + product(6, 6, 1) + product(1, 3, 1) + Operations(0, 1)
    solved = rnea_operations() + Operations(0, 1) + right + swept + motion
    # A refinement also has accelerations: one more addition for S qdd, and one for the result.
    again = (solved + Operations(0, 2)).times(refine)
    return diagonal + beside + eliminated + solved + again


@dataclass(frozen=True)
class CostPhase:
    """A phase of the schedule: the simultaneous work of two processor arrays.

    Members
    -------
    first, second : number of levels by kind: ``diagonalise`` (eq. 90-91), ``update`` and ``solve``
        (eq. 92 and 93) of one right-hand side, ``updates`` and ``solves`` of six, ``scan`` (a
        recurrence by recursive doubling) and ``local``.
    """

    name: str
    first: Mapping[str, int]
    second: Mapping[str, int]


def schedule(n: int) -> tuple[CostPhase, ...]:
    """Return the phases of Fijany 1993, section VI.D, for a chain of n links.

    Levels of the block system are counted by diagonalising and solving one of n rows; the inverse
    dynamics are three scans and the projections one, with ``ceil(log2 n)`` levels each.

    Raises
    ------
    DynamicsError
        If there is no link.
    """
    if n < 1:
        raise DynamicsError(f"A chain needs at least one link, not {n}.")
    ones = np.ones((1, n, 1, 1))
    matrix, rhs = Count(), Count()
    diagonalise(4 * ones, ones[:, 1:], count=matrix).solve(ones, rhs)
    scan = (n - 1).bit_length()
    update = {"update": rhs.levels, "solve": rhs.solves}
    return (
        CostPhase(
            "steps I.a-b beside II.a-b",
            {"local": 1, "diagonalise": matrix.levels},
            {"scan": 4 * scan, "local": 3},
        ),
        CostPhase(
            "steps I.c beside II.c-d",
            {"updates": rhs.levels, "solves": rhs.solves, "local": 1},
            {**update, "local": 2, "scan": scan},
        ),
        CostPhase("step III", {}, {"local": 1}),
        CostPhase("step IV", {}, {"scan": scan, **update, "local": 3}),
    )


def prices() -> dict[str, int]:
    """Return the operations per processor in one level, by kind of level, for 5 x 5 blocks.

    A scan combines two displacements and their vectors: a product of rotations and three of a
    rotation and a vector. A local step counts as a link's inverse dynamics.
    """
    k = _COLUMNS
    update = product(k, k, 1).times(2) + Operations(0, 2 * k)
    squares = Operations(k, k).times(k * (k + 1) // 2).times(2)
    level = factorisation(k) + solution(k, k).times(2) + squares + product(k, k, k)
    return {
        "diagonalise": level.total,
        "update": update.total,
        "updates": update.times(6).total,
        "solve": (factorisation(k) + solution(k, 1)).total,
        "solves": (factorisation(k) + solution(k, 6)).total,
        "scan": (product(3, 3, 3) + (product(3, 3, 1) + Operations(0, 3)).times(3)).total,
        "local": rnea_operations().total,
    }


def depth(
    phases: tuple[CostPhase, ...], *, arrays: int = 2, price: Mapping[str, int] | None = None
) -> int:
    """Return the length of a schedule on one or two processor arrays, in units of `price`.

    Parameters
    ----------
    price : cost of a level of each kind; by default 1.
    """
    if arrays not in (1, 2):
        raise DynamicsError(f"arrays must be 1 or 2, not {arrays}.")

    def length(levels: Mapping[str, int]) -> int:
        return sum(count * (1 if price is None else price[kind]) for kind, count in levels.items())

    pairs = [(length(phase.first), length(phase.second)) for phase in phases]
    return sum(max(pair) if arrays == 2 else sum(pair) for pair in pairs)
