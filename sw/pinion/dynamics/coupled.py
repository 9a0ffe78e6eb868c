r"""Coordinates of a robot whose mimicking joints are tied to those they follow, over any scalar.

With the positions q_r of the free joints, and d'Alembert's principle (ties do no work),

    q = G q_r + c      qd = G qd_r      tau_r = G^T tau      M_r = G^T M G

and likewise for gradients (Featherstone 2008, section 3.2, for constraints that are explicit and
constant). A row of G has one entry: a product by a constant at most, none for 1 and -1.

**Factorising M_r.** Eliminating joints from the leaves to the root fills in nothing in a tree
(:mod:`.ltdl`); ties make entries between branches, and eliminations fill in others. The tree that
elimination follows then is not the robot's: the parent of k is the last joint before it that it has
an entry with when its turn comes (Liu 1990, the elimination tree, from the last to the first).

:mod:`.mimic` has the same as arrays, with dense matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from pinion.robot.edit.coupling import Tie, ties, uncoupled
from pinion.robot.model import Model

from .scalar import Scalar, add, scaled_sum

Rows = list[list[Scalar]]


@dataclass(frozen=True, kw_only=True)
class Coupling:
    """From the free joints to all and back.

    Members
    -------
    model : the robot with every joint as one of its own.
    free : the robot in the coordinates of its free joints.
    ties : of each body's joint.
    region : as for :func:`.rnea.rnea_scalars`, with the pass ``tie``.
    """

    model: Model
    free: Model
    ties: tuple[Tie, ...]
    region: Callable[[str, int], AbstractContextManager[object]]

    def positions(self, q: Sequence[Scalar]) -> list[Scalar]:
        """Return the positions of all joints, (nq,) scalars [rad | m], from those of the free."""
        return self._spread(q, self.free.q_slices, offsets=True)

    def rates(self, qd: Sequence[Scalar]) -> list[Scalar]:
        """Return the rates (or accelerations) of all joints, (nv,) scalars."""
        return self._spread(qd, self.free.v_slices, offsets=False)

    def efforts(self, tau: Sequence[Scalar]) -> list[Scalar]:
        """Return the free joints' efforts, (nr,) scalars, from those at all joints."""
        gathered: list[Scalar] = [0.0] * self.free.nv
        bodies = owners(self.free)
        for k, (column, ratio) in enumerate(self.columns()):
            with self.region("tie", bodies[column]):
                gathered[column] = add(gathered[column], scaled_sum((ratio,), (tau[k],)))
        return gathered

    def columns(self) -> list[tuple[int, float]]:
        """Return G: for each joint's velocity the free joint's, and the ratio."""
        own = self.free.v_slices
        return [
            (own[tie.leader].start + k, tie.ratio)
            for body, tie in zip(self.model.bodies, self.ties, strict=True)
            for k in range(body.joint.kind.nv)
        ]

    def of_columns(self, rows: Sequence[Sequence[Scalar]]) -> Rows:
        """Return a matrix (m, nv) of something by each joint's rate by the free ones': ``A G``."""
        return [self.efforts(row) for row in rows]

    def square(self, matrix: Sequence[Sequence[Scalar]], *, symmetric: bool = False) -> Rows:
        """Return ``G^T A G``, (nr, nr) scalars.

        ``symmetric`` : the upper triangle's are the same objects as the lower one's, which alone
        are made.
        """
        members: list[list[tuple[int, float]]] = [[] for _ in range(self.free.nv)]
        for k, (column, ratio) in enumerate(self.columns()):
            members[column].append((k, ratio))
        result: Rows = [[0.0] * self.free.nv for _ in members]
        bodies = owners(self.free)
        for i, rows in enumerate(members):
            for j, columns in enumerate(members):
                if symmetric and j > i:
                    continue
                total: Scalar = 0.0
                with self.region("tie", bodies[i]):
                    for a, first in rows:
                        for b, second in columns:
                            if symmetric and i == j and b > a:
                                continue
                            twice = 2.0 if symmetric and i == j and b < a else 1.0
                            factor = twice * first * second
                            total = add(total, scaled_sum((factor,), (matrix[a][b],)))
                result[i][j] = total
                if symmetric:
                    result[j][i] = total
        return result

    def _spread(
        self, free: Sequence[Scalar], places: Sequence[slice], *, offsets: bool
    ) -> list[Scalar]:
        every: list[Scalar] = []
        for k, tie in enumerate(self.ties):
            given = free[places[tie.leader]]
            if tie.leader == k:
                every.extend(given)  # a sum of a list and an array is an array
            else:
                with self.region("tie", k + 1):
                    moved = scaled_sum((tie.ratio,), (given[0],))
                    every.append(add(moved, tie.offset if offsets else 0.0))
        return every


def coupling_of(
    model: Model, region: Callable[[str, int], AbstractContextManager[object]] | None = None
) -> Coupling:
    """Return the coupling of a coupled model; ``region`` as in :class:`Coupling`."""
    around = region or (lambda name, body: nullcontext((name, body)))
    return Coupling(model=uncoupled(model), free=model, ties=ties(model), region=around)


def elimination_parents(model: Model) -> tuple[int, ...]:
    """Return for each velocity the next one on the way that eliminating it takes, -1 for none.

    In a tree of joints that is the one before it on the way to the base: that before it in its own
    joint, or the last of the parent's.
    """
    slices = uncoupled(model).v_slices
    parents: list[int] = []
    for body, own in zip(model.bodies, slices, strict=True):
        parents.append(-1 if body.parent < 0 else slices[body.parent].stop - 1)
        parents.extend(range(own.start, own.stop - 1))
    if not model.coupled:
        return tuple(parents)
    columns = coupling_of(model).columns()
    # Entries of each row left of its diagonal: of joints whose members carry each other.
    rows: list[set[int]] = [set() for _ in range(model.nv)]
    for k in range(len(parents)):
        above = k
        while above >= 0:
            pair = columns[k], columns[above]
            if all(ratio != 0.0 for _, ratio in pair):
                low, high = sorted(column for column, _ in pair)
                if low < high:
                    rows[high].add(low)
            above = parents[above]
    found = [-1] * model.nv
    for k in reversed(range(model.nv)):
        if rows[k]:
            found[k] = max(rows[k])
            rows[found[k]] |= rows[k] - {found[k]}
    return tuple(found)


def owners(model: Model) -> list[int]:
    """Return the number of the body, from 1 on, whose joint has each velocity."""
    return [i + 1 for i, own in enumerate(model.v_slices) for _ in range(own.start, own.stop)]
