r"""Coordinates of a robot whose mimic joints are tied to their leaders, for any scalar type.

With the positions q_r of the free joints, and d'Alembert's principle (ties do no work),

    q = G q_r + c      qd = G qd_r      tau_r = G^T tau      M_r = G^T M G

and likewise for gradients (Featherstone 2008, section 3.2, for constraints that are explicit and
constant). A row of G has one entry: at most a product with a constant, none for 1 and -1.

**Factorising M_r.** In a tree, eliminating joints from the leaves to the root creates no fill-in
(:mod:`.ltdl`); ties add entries between branches, and eliminations fill in others. Elimination then
follows another tree: the parent of k is the last joint before k with a nonzero entry when k is
eliminated (Liu 1990, the elimination tree, from the last to the first).

:mod:`.mimic` has the same on arrays, with dense matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from pinion.robot import Model, Tie, ties, uncoupled

from .matrices import Rows, zeros
from .scalar import Scalar, add, scaled_sum


@dataclass(frozen=True, kw_only=True)
class Coupling:
    """Conversion from the independent joints to all joints and back.

    Members
    -------
    model : the robot with every joint independent.
    free : the robot in the coordinates of its independent joints.
    ties : the tie of each body's joint.
    region : as for :func:`.rnea.rnea_scalars`, with the pass ``tie``.
    """

    model: Model
    free: Model
    ties: tuple[Tie, ...]
    region: Callable[[str, int], AbstractContextManager[object]]

    def positions(self, q: Sequence[Scalar]) -> list[Scalar]:
        """Return all joints' positions, (nq,) scalars [rad | m], from the independent ones."""
        return self._spread(q, self.free.q_slices, offsets=True)

    def rates(self, qd: Sequence[Scalar]) -> list[Scalar]:
        """Return all joints' rates (or accelerations), (nv,) scalars, from the independent ones."""
        return self._spread(qd, self.free.v_slices, offsets=False)

    def efforts(self, tau: Sequence[Scalar]) -> list[Scalar]:
        """Return the independent joints' efforts, (nr,) scalars, from those of all joints."""
        gathered: list[Scalar] = [0.0] * self.free.nv
        bodies = owners(self.free)
        for k, (column, ratio) in enumerate(self.columns()):
            with self.region("tie", bodies[column]):
                gathered[column] = add(gathered[column], scaled_sum((ratio,), (tau[k],)))
        return gathered

    def columns(self) -> list[tuple[int, float]]:
        """Return G by rows: the index of each velocity's independent velocity, and the ratio."""
        v_slices = self.free.v_slices
        return [
            (v_slices[tie.leader].start + k, tie.ratio)
            for body, tie in zip(self.model.bodies, self.ties, strict=True)
            for k in range(body.joint.kind.nv)
        ]

    def of_columns(self, rows: Sequence[Sequence[Scalar]]) -> Rows:
        """Return ``A G`` for a matrix A (m, nv) with a column for each joint's rate."""
        return [self.efforts(row) for row in rows]

    def square(self, matrix: Sequence[Sequence[Scalar]], *, symmetric: bool = False) -> Rows:
        """Return ``G^T A G``, (nr, nr) scalars.

        ``symmetric`` : compute only the lower triangle; the upper one has the same objects.
        """
        members: list[list[tuple[int, float]]] = [[] for _ in range(self.free.nv)]
        for k, (column, ratio) in enumerate(self.columns()):
            members[column].append((k, ratio))
        result = zeros(len(members), self.free.nv)
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
            leader_values = free[places[tie.leader]]
            if tie.leader == k:
                every.extend(leader_values)  # a sum of a list and an array is an array
            else:
                with self.region("tie", k + 1):
                    moved = scaled_sum((tie.ratio,), (leader_values[0],))
                    every.append(add(moved, tie.offset if offsets else 0.0))
        return every


def coupling_of(
    model: Model, region: Callable[[str, int], AbstractContextManager[object]] | None = None
) -> Coupling:
    """Return the coupling of a coupled model; ``region`` as in :class:`Coupling`."""
    around = region or (lambda name, body: nullcontext((name, body)))
    return Coupling(model=uncoupled(model), free=model, ties=ties(model), region=around)


def elimination_parents(model: Model) -> tuple[int, ...]:
    """Return each velocity's parent in the elimination tree, -1 for none.

    In a tree of joints that is the velocity before it on the path to the base: the one before it in
    the same joint, or the last of the parent's joint.
    """
    slices = uncoupled(model).v_slices
    parents: list[int] = []
    for body, v_at in zip(model.bodies, slices, strict=True):
        parents.append(-1 if body.parent < 0 else slices[body.parent].stop - 1)
        parents.extend(range(v_at.start, v_at.stop - 1))
    if not model.coupled:
        return tuple(parents)
    columns = coupling_of(model).columns()
    # Entries of each row left of its diagonal, for joints on a common path.
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
    elimination = [-1] * model.nv
    for k in reversed(range(model.nv)):
        if rows[k]:
            elimination[k] = max(rows[k])
            rows[elimination[k]] |= rows[k] - {elimination[k]}
    return tuple(elimination)


def owners(model: Model) -> list[int]:
    """Return the number of each velocity's body, counted from 1."""
    return [i + 1 for i, v_at in enumerate(model.v_slices) for _ in range(v_at.start, v_at.stop)]
