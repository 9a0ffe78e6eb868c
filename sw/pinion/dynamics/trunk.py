r"""Responses of a robot's trunk with contacts that are added one by one, for any scalar type.

The trunk t and the forces y of contacts, where the branches are eliminated (:mod:`.branches`):

    M' x_t - J'^T y = e      J' x_t + C y = a

C is the compliance of the branches with their contacts. It has no entries between contacts of
different branches, so that the rows of J' enter as measurements with independent errors enter a
Kalman filter. N, the trunk's response to efforts, is ``M'^-1`` without contacts and shrinks with
each group of contacts that is added, by the inverse of a block as small as the group:

    W = J' N     G = W J'^T + C     K = G^-1 W     N <- N - W^T K

With ``R = S J'^T``, the responses of the contacts before it change too: S, of forces to efforts of
the trunk, by ``- R K``, and Lambda, of forces to accelerations of contacts, by ``R G^-1 R^T``. The
blocks G are pivots of ``J' M'^-1 J'^T + C``, which is positive definite however far a leg is
stretched; C alone is singular there.

**Hips.** A branch whose first joint is on a floating base stays where it is when the base moves
about the joint's axis and the joint moves back. With s, the velocity of the base that is equal to
the joint's, and P, the response of the branch to the trunk,

    P s = - (1, 0, ..., 0)     J' s = 0     s^T e = 0

the last one for efforts e that reach the base through the joint while the branch moves freely. In
coordinates of the trunk that have s as an axis (:class:`Hip`) these take no products. Terms of the
joint alone, such as its armature, are not in the equations: a joint that has some is no hip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pinion.robot import JointKind, Model

from .axis import axes, axis_motion
from .checks import DynamicsError
from .constraints import REDUNDANT
from .coupled import owners
from .joint_terms import joint_terms_of
from .ltdl import chain, factors, inverse
from .matrices import Rows, inner, transposed, zeros
from .scalar import Scalar, SingularError, add, mul, select, sub
from .spatial import Vector, cross, scale, vadd


def trunk_of(parents: Sequence[int]) -> tuple[int, ...]:
    """Return the velocities from the root to the first fork of an elimination tree."""
    roots = [k for k, parent in enumerate(parents) if parent < 0]
    trunk: list[int] = []
    while len(roots) == 1:
        trunk.append(roots[0])
        roots = [k for k, parent in enumerate(parents) if parent == trunk[-1]]
    return tuple(trunk)


@dataclass(frozen=True, kw_only=True)
class Hip:
    """Coordinates of the trunk in which the motion s of a branch's first joint is an axis.

    Members
    -------
    pivot : index of the coordinate along s, which is that of the largest entry of s.
    scale : that entry.
    ratios : entries of s divided by ``scale``, zero at the pivot.
    """

    pivot: int
    scale: float
    ratios: tuple[float, ...]

    @classmethod
    def along(cls, s: Sequence[float]) -> Hip:
        """Return the coordinates for a velocity s of the trunk."""
        pivot = max(range(len(s)), key=lambda k: abs(s[k]))
        ratios = [x / s[pivot] for x in s]
        ratios[pivot] = 0.0
        return cls(pivot=pivot, scale=s[pivot], ratios=tuple(ratios))


def seen(hip: Hip | None, motion: Sequence[Scalar]) -> list[Scalar]:
    """Return a motion of the trunk in a hip's coordinates."""
    if hip is None:
        return list(motion)
    along = motion[hip.pivot]
    return [sub(x, mul(ratio, along)) for x, ratio in zip(motion, hip.ratios, strict=True)]


def hip_of(
    model: Model, trunk: Sequence[int], branch: Sequence[int], terms_of: Mapping[str, Any]
) -> Hip | None:
    """Return the trunk's coordinates for a branch, or None if the trunk's own are as good.

    ``branch`` : indices of its velocities; ``terms_of`` : joint terms that efforts include.
    """
    first = branch[0]
    if model.coupled or joint_terms_of(model, **terms_of).acts_on(first):
        return None
    body = model.bodies[owners(model)[first] - 1]
    root = model.bodies[body.parent] if body.parent >= 0 else None
    floats = root is not None and root.parent < 0 and root.joint.kind is JointKind.FREE_FLYER
    if root is None or not floats or len(trunk) != 6 or body.joint.kind.nv > 1:
        return None
    (axis,) = axes(body.joint)
    E, r = body.joint.tree.E, body.joint.tree.r
    turned, shifted = axis_motion(axis, 1.0)
    z: Vector = E[2]
    angular, linear = scale(turned[2], z), vadd(scale(shifted[2], z), cross(r, scale(turned[2], z)))
    halves: dict[bool, Any] = {True: angular, False: linear}
    hip = Hip.along([float(halves[axis.turns][axis.along]) for axis in axes(root.joint)])
    # A tilted axis takes more products for every motion of the trunk than a short branch saves.
    return hip if sum(map(bool, hip.ratios)) < len(branch) else None


@dataclass(frozen=True, kw_only=True)
class Responses:
    """Inverse of the system of the trunk and some of the contacts, behind eliminated branches.

    Members
    -------
    rows : those of the contacts, in the order in which they were added.
    N : (trunk, trunk) response of the trunk to its efforts.
    S : (nc, trunk) response of the forces to these, negated; that of the trunk to accelerations of
        the contacts, transposed. Zeros for contacts that are not among ``rows``.
    Lambda : (nc, nc) response of the forces to accelerations of the contacts.
    """

    rows: tuple[int, ...]
    N: Rows
    S: Rows
    Lambda: Rows

    def with_contacts(
        self, rows: Sequence[int], J: Rows, C: Rows, on: Sequence[Scalar], hip: Hip | None
    ) -> Responses:
        """Return the responses of the system with more contacts.

        Arguments
        ---------
        rows : those of the new contacts.
        J : (rows, trunk) block of J', in the coordinates of ``hip``.
        C : (rows, rows) block of C.
        on : (rows,) whether the contact is active.
        """
        size = len(self.N)
        columns = [seen(hip, column) for column in self.N]
        W = [[inner(row, column) for column in columns] for row in J]
        R = {c: [inner(row, seen(hip, self.S[c])) for row in J] for c in self.rows}
        G = zeros(len(rows))
        for i, active in enumerate(on):
            response = seen(hip, W[i])
            for j in range(i + 1):
                G[i][j] = G[j][i] = add(C[i][j], inner(response, J[j]))
            G[i][i] = select(active, G[i][i], 1.0)
        dense = chain(len(rows))
        try:
            G_inverse = inverse(dense, factors(dense, G))
        except SingularError:
            raise DynamicsError(REDUNDANT) from None
        K = [[inner(row, column) for column in transposed(W)] for row in G_inverse]

        N = zeros(size)
        S, Lambda = ([list(row) for row in matrix] for matrix in (self.S, self.Lambda))
        for a in range(size):
            for b in range(a + 1):
                lost = inner([row[a] for row in W], [row[b] for row in K])
                N[a][b] = N[b][a] = sub(self.N[a][b], lost)
        for place, c in enumerate(self.rows):
            passed = [inner(row, R[c]) for row in G_inverse]
            for d in self.rows[: place + 1]:
                Lambda[c][d] = Lambda[d][c] = add(Lambda[c][d], inner(passed, R[d]))
            for d, x in zip(rows, passed, strict=True):
                Lambda[c][d] = Lambda[d][c] = sub(0.0, x)
            S[c] = [sub(x, inner(R[c], [row[k] for row in K])) for k, x in enumerate(S[c])]
        for c, gain, entries in zip(rows, K, G_inverse, strict=True):
            S[c] = gain
            for d, x in zip(rows, entries, strict=True):
                Lambda[c][d] = x
        return Responses(rows=(*self.rows, *rows), N=N, S=S, Lambda=Lambda)

    def force(self, c: int, efforts: Sequence[Scalar], accelerations: Sequence[Scalar]) -> Scalar:
        """Return the force of row c for efforts of the trunk and accelerations of the contacts."""
        return sub(inner(self.Lambda[c], accelerations), inner(self.S[c], efforts))

    def seen_by(self, hip: Hip | None) -> Responses:
        """Return the responses to efforts of the trunk that are in a hip's coordinates."""
        N, S = ([seen(hip, row) for row in rows] for rows in (self.N, self.S))
        return replace(self, N=N, S=S)
