r"""What the constraint force algorithm costs: operations of a link, and levels on two arrays.

**Operations** are counted from the equations, for a link of a long chain of revolute joints about
z, with frames that a constant turn and shift about and along x take into each other but for the
joint's own turn and a shift along z (modified Denavit and Hartenberg). Zeros, ones and what is
constant in a link's frame cost nothing, a symmetric result is made once, divisions are
multiplications, subtractions additions; sines and cosines are left out. By these rules articulated
bodies need 238 multiplications and 236 additions.

Fijany 1993 (section V.D) says that the serial algorithm needs about 3.4 times the operations of the
best ones, for a long chain; how that was counted the text does not say. By these rules it is 2.3
times without refinement, as in the text, and 3.5 times with one.

**Levels** are those of Fijany 1993, section VI.C and VI.D: two arrays of n processors, of which the
first diagonalises and finds Lambda^-1 while the second does everything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pinion.dynamics.checks import DynamicsError

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
        """Return what `count` of them need."""
        return Operations(count * self.multiplications, count * self.additions)

    @property
    def total(self) -> int:
        """All of them."""
        return self.multiplications + self.additions


def factorisation(k: int) -> Operations:
    """Of a symmetric k x k matrix into L D L^T."""
    return Operations(
        sum(2 * j + (k - 1 - j) * (j + 1) for j in range(k)),
        sum(j + (k - 1 - j) * j for j in range(k)),
    )


def solution(k: int, m: int) -> Operations:
    """Of m right-hand sides with such factors."""
    return Operations(k * (k - 1) + k, k * (k - 1)).times(m)


def product(rows: int, inner: int, columns: int) -> Operations:
    """Of two dense matrices."""
    return Operations(inner, inner - 1).times(rows * columns)


# Of 3-vectors and 3x3 matrices under a turn about one axis, whose sine and cosine are given: two
# components of a vector; of a matrix a 2x2 block, by sums and differences of its elements, and its
# two pairs beside that, which are one for a symmetric matrix.
_VECTOR = Operations(4, 2)
_SYMMETRIC = Operations(8, 9)
_GENERAL = Operations(12, 12)
_SQUARES = Operations(2, 1)  # sin^2, sin cos
# A spatial vector: two parts under two turns, and shifts along two axes.
_MOVED = _VECTOR.times(4) + Operations(4, 4)
# An inertia about an axis, and shifted along one: two elements of e^ C for each of its columns, and
# the five elements of the rotational block that change.
_TURNED = _SYMMETRIC.times(2) + _GENERAL
_SHIFTED = Operations(6, 6) + Operations(5, 8)
_RIGID = Operations(24, 18)  # a body's inertia times a motion, by mass, lever and tensor
_CROSSED = Operations(18, 12)  # v x* f: three cross products, one addition of vectors
_COLUMNS = 5
"""Forces that do no work in a joint of one degree of freedom."""


def rnea_operations() -> Operations:
    """Of recursive Newton-Euler with given velocities and no accelerations, a link."""
    velocity = _MOVED + Operations(0, 1)
    acceleration = Operations(4, 0) + _MOVED + Operations(0, 4)
    force = _RIGID.times(2) + _CROSSED + Operations(0, 6)
    return velocity + acceleration + force + _MOVED + Operations(0, 6)


def aba_operations() -> Operations:
    """Of forward dynamics by articulated bodies, a link.

    ``U = IA S`` is a column, ``U / D`` has a one, and ``IA - U D^-1 U^T`` a row of zeros.
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
    """Of forward dynamics by the constraint force algorithm with L D L^T, a link.

    ``J_i`` and ``X_i J_(i-1) X_i^T`` are constant but for the turn of joint i, and so are W_i^T J_i
    and ``X_(i+1)^T W_(i+1)`` but for that of the next; W picks rows.
    """
    if refine < 0:
        raise DynamicsError(f"refine is {refine}: pass how many times, 0 or more.")
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
    # A refinement has accelerations too: one more addition for S qdd, and one for the result.
    again = (solved + Operations(0, 2)).times(refine)
    return diagonal + beside + eliminated + solved + again


@dataclass(frozen=True)
class Phase:
    """What the two arrays of processors do at the same time.

    Members
    -------
    first, second : levels by their kind: ``diagonalise`` (eq. 90-91), ``update`` and ``solve``
        (eq. 92 and 93) of one right-hand side, ``updates`` and ``solves`` of six, ``scan`` (a
        recurrence by recursive doubling) and ``local``.
    """

    name: str
    first: Mapping[str, int]
    second: Mapping[str, int]


def schedule(n: int) -> tuple[Phase, ...]:
    """Return the phases of Fijany 1993, section VI.D, for a chain of n links.

    Levels of the block system are counted while one of n rows is diagonalised and solved; the
    inverse dynamics are three scans, the projections one, of ``ceil(log2 n)`` levels each.

    Raises
    ------
    DynamicsError
        When there is no link.
    """
    if n < 1:
        raise DynamicsError(f"A chain of {n} links has no schedule: pass 1 or more.")
    ones = np.ones((1, n, 1, 1))
    matrix, rhs = Count(), Count()
    diagonalise(4 * ones, ones[:, 1:], count=matrix).solve(ones, rhs)
    scan = (n - 1).bit_length()
    update = {"update": rhs.levels, "solve": rhs.solves}
    return (
        Phase(
            "steps I.a-b beside II.a-b",
            {"local": 1, "diagonalise": matrix.levels},
            {"scan": 4 * scan, "local": 3},
        ),
        Phase(
            "steps I.c beside II.c-d",
            {"updates": rhs.levels, "solves": rhs.solves, "local": 1},
            {**update, "local": 2, "scan": scan},
        ),
        Phase("step III", {}, {"local": 1}),
        Phase("step IV", {}, {"scan": scan, **update, "local": 3}),
    )


def prices() -> dict[str, int]:
    """Return the operations of a processor in a level of each kind, for blocks of 5 x 5.

    A scan combines two displacements with what they carry: a product of rotations and three of a
    rotation and a vector. A local step is taken for no more than a link's inverse dynamics.
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
    phases: tuple[Phase, ...], *, arrays: int = 2, price: Mapping[str, int] | None = None
) -> int:
    """Return the length of a schedule on one array or two.

    Parameters
    ----------
    price : of a level of each kind; by default one each.
    """
    if arrays not in (1, 2):
        raise DynamicsError(f"arrays is {arrays}: the schedule is for 1 or 2.")

    def length(levels: Mapping[str, int]) -> int:
        return sum(count * (1 if price is None else price[kind]) for kind, count in levels.items())

    pairs = [(length(phase.first), length(phase.second)) for phase in phases]
    return sum(max(pair) if arrays == 2 else sum(pair) for pair in pairs)
