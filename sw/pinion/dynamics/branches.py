r"""The system of accelerations and contact forces, inverted by branches, for many right sides.

With the inertia matrix M and the contacts' Jacobian J,

    M x - J^T y = e      J x + damping y = a

The velocities from the base to the first fork of the elimination tree are the **trunk**, t. The
branches behind it do not see each other. Each branch b is eliminated with the inverse of its block,

    U = M_bb^-1     P = - U M_bt     Z = U J_b^T     x_b = U e_b + P x_t + Z y

which leaves the trunk and the contacts:

    M' x_t - J'^T y = e_t - M_tb U e_b          M' = M_tt + M_tb P
    J' x_t + C y = a - J_b U e_b                J' = J_t + J_b P    C = J_b Z + damping

Contacts are added one by one (:mod:`.trunk`). A column of the right side that is in one branch, the
trunk and the contacts of that branch takes few products.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .contact_state import Constraints
from .coupled import elimination_parents
from .ltdl import by_velocity, chain, factors, inverse, region_at, scaled_rows
from .matrices import Rows, inner, transposed, zeros
from .rnea import Region
from .scalar import Scalar, add, is_zero, mul, sub
from .trunk import Hip, Responses, hip_of, seen, trunk_of


@dataclass(frozen=True, kw_only=True)
class Branch:
    """Velocities that are eliminated together, before the trunk.

    Members
    -------
    at : indices of the velocities, the one next to the trunk first.
    forks : whether the branch has a fork, so that an inverse factor is sparser than an inverse.
    hip : coordinates in which the branch sees the trunk; None for the trunk's own.
    across : (velocities, trunk) block ``M_bt``.
    reach : the same, or ``D^-1 X^T M_bt`` if the branch forks.
    P : (velocities, trunk) response to the trunk, in the coordinates of ``hip``.
    """

    at: tuple[int, ...]
    forks: bool
    hip: Hip | None
    across: Rows
    reach: Rows
    P: Rows


@dataclass(frozen=True, kw_only=True)
class Eliminated:
    """The inverse of the whole system in blocks.

    Members
    -------
    trunk : indices of velocities.
    branches : the others.
    J, J_trunk : Jacobian of the contacts (nc, nv), and J' (nc, trunk), in the coordinates in which
        the contacts' branches see the trunk.
    X, scaled : (nv, nv) inverse factor of the branches' blocks of M, and the same times ``D^-1``.
    U : (nv, nv) inverse of these blocks.
    Z : (nv, nc) response of the branches to forces.
    closed : responses of the trunk and all contacts.
    closed_by : for each branch, the same to efforts of the trunk as it sees them.
    lifted_by : for each branch, these without the contacts that were added last, or None if those
        are on other branches. What happens on the branch reaches the rest through the trunk and
        these contacts.
    """

    trunk: tuple[int, ...]
    branches: tuple[Branch, ...]
    J: Rows
    J_trunk: Rows
    X: Rows
    scaled: Rows
    U: Rows
    Z: Rows
    closed: Responses
    closed_by: tuple[Responses, ...]
    lifted_by: tuple[Responses | None, ...]

    def solve(
        self, efforts: Sequence[Scalar], accelerations: Sequence[Scalar], cause: int | None = None
    ) -> tuple[list[Scalar], list[Scalar]]:
        """Return x (nv,) and y (nc,) for efforts e (nv,) and accelerations a (nc,) of contacts.

        ``cause`` : the velocity whose joint causes these, if any: the trunk's efforts are then
        those of a wrench through the first joint of its branch.
        """
        at_trunk = [efforts[k] for k in self.trunk]
        at_contacts = list(accelerations)
        alone: dict[int, Scalar] = {}
        for branch in self.branches:
            e = [efforts[k] for k in branch.at]
            if all(map(is_zero, e)):
                continue
            turned = [inner([self.X[i][k] for i in branch.at], e) for k in branch.at]
            moved = [inner([self.scaled[k][i] for i in branch.at], turned) for k in branch.at]
            alone.update(zip(branch.at, moved, strict=True))
            for place in range(len(self.trunk)):
                column = [row[place] for row in branch.reach]
                reached = inner(column, turned if branch.forks else moved)
                at_trunk[place] = sub(at_trunk[place], reached)
            for c, row in enumerate(self.J):
                at_contacts[c] = sub(at_contacts[c], inner([row[k] for k in branch.at], moved))
        number = self._branch_of(cause)
        hip = None if number is None else self.branches[number].hip
        if hip is not None:
            at_trunk[hip.pivot] = 0.0
        return self._spread(number, at_trunk, at_contacts, alone)

    def of_effort(self, k: int) -> tuple[list[Scalar], list[Scalar]]:
        """Return x (nv,) and y (nc,) for a unit effort along velocity k."""
        number = self._branch_of(k)
        if number is None:
            unit: list[Scalar] = [float(k == t) for t in self.trunk]
            return self._spread(None, unit, [0.0] * len(self.J), {})
        branch = self.branches[number]
        alone = {i: self.U[i][k] for i in branch.at}
        to_trunk = branch.P[branch.at.index(k)]
        return self._spread(number, to_trunk, [sub(0.0, z) for z in self.Z[k]], alone)

    def _branch_of(self, k: int | None) -> int | None:
        """Return the number of a velocity's branch, or None for one of the trunk."""
        return next((i for i, branch in enumerate(self.branches) if k in branch.at), None)

    def _spread(
        self,
        number: int | None,
        efforts: Sequence[Scalar],
        accelerations: Sequence[Scalar],
        alone: Mapping[int, Scalar],
    ) -> tuple[list[Scalar], list[Scalar]]:
        """Return x and y from the right sides of the trunk and of the contacts.

        ``number`` : of the only branch that these come from, in whose coordinates the efforts are;
        ``alone`` : responses of branches to their own efforts.
        """
        responses = self.closed if number is None else self.closed_by[number]
        lifted = None if number is None else self.lifted_by[number]
        y: list[Scalar] = [0.0] * len(self.J)
        if lifted is not None:
            last = responses.rows[len(lifted.rows) :]
            for c in last:
                y[c] = responses.force(c, efforts, accelerations)
            for c in last:
                push = [mul(j, y[c]) for j in self.J_trunk[c]]
                efforts = [add(x, part) for x, part in zip(efforts, push, strict=True)]
            responses, accelerations = lifted, [0.0] * len(y)
        for c in responses.rows:
            y[c] = responses.force(c, efforts, accelerations)
        of_trunk = [
            add(inner(row, efforts), inner(column, accelerations))
            for row, column in zip(responses.N, transposed(self.closed.S), strict=True)
        ]
        x: list[Scalar] = [0.0] * len(self.U)
        for k, value in zip(self.trunk, of_trunk, strict=True):
            x[k] = value
        for other in self.branches:
            moved = seen(other.hip, of_trunk)
            for k, row in zip(other.at, other.P, strict=True):
                x[k] = add(alone.get(k, 0.0), add(inner(row, moved), inner(self.Z[k], y)))
        return x, y


def branches_of(parents: Sequence[int], trunk: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the velocities of each branch, its first one first."""
    branches: dict[int, list[int]] = {}
    root: dict[int, int] = {}
    for k, parent in enumerate(parents):
        if k not in trunk:
            root[k] = root.get(parent, k)
            branches.setdefault(root[k], []).append(k)
    return [tuple(at) for at in branches.values()]


def eliminate_branches(
    at_state: Constraints,
    M: Sequence[Sequence[Scalar]],
    damping: Scalar,
    region: Region,
    terms_of: Mapping[str, Any],
) -> Eliminated:
    """Return the inverse of the system from the inertia matrix M and the contacts' Jacobian.

    ``terms_of`` : joint terms of the efforts to solve for.
    """
    plain, J = at_state.plain, at_state.J
    parents = elimination_parents(plain)
    trunk = trunk_of(parents)
    n, size = plain.nv, len(trunk)
    at, at_last = by_velocity(plain, region), region_at(region, len(plain.bodies))
    apart = [-1 if parent in trunk or k in trunk else parent for k, parent in enumerate(parents)]
    block = [
        [M[i][j] if i not in trunk and j not in trunk else float(i == j) for j in range(n)]
        for i in range(n)
    ]
    factored = factors(apart, block, at)
    with at_last("solve", 1):
        scaled = scaled_rows(factored)
        U = inverse(apart, factored, at)
    Z = zeros(n, len(J))
    J_trunk = [[row[t] for t in trunk] for row in J]
    inertia = [[M[t][u] for u in trunk] for t in trunk]
    branches = []
    for velocities in branches_of(parents, trunk):
        across = [[M[k][t] for t in trunk] for k in velocities]
        pairs = zip(velocities[1:], velocities, strict=False)
        forks = any(parents[k] != before for k, before in pairs)
        response, reach = U, across
        if forks:
            response, reach = factored.X, []
            for k in velocities:
                with at("solve", k + 1):
                    below = [scaled[i][k] for i in velocities]
                    reach.append([inner(below, column) for column in zip(*across, strict=True)])
        hip = None if at_state.loops else hip_of(plain, trunk, velocities, terms_of)
        P = []
        for k in velocities:
            with at("solve", k + 1):
                to_k = [response[k][i] for i in velocities]
                P.append([sub(0.0, inner(to_k, column)) for column in zip(*reach, strict=True)])
                if hip is not None:
                    P[-1][hip.pivot] = -1.0 / hip.scale if k == velocities[0] else 0.0
                U_k = [U[k][i] for i in velocities]
                Z[k] = [inner(U_k, [row[i] for i in velocities]) for row in J]
        branch = Branch(at=velocities, forks=forks, hip=hip, across=across, reach=reach, P=P)
        with at_last("solve", 1):
            _add_inertia(inertia, branch)
            _add_rows(J_trunk, at_state, branch)
        branches.append(branch)

    with at_last("solve", 1):
        free = inverse(chain(size), factors(chain(size), inertia))
        closed = Responses(rows=(), N=free, S=zeros(len(J), size), Lambda=zeros(len(J)))
        before = closed
        for rows in _groups(at_state, branches):
            touched = [branch for branch in branches if _touches(at_state, rows, branch)]
            hip = touched[0].hip if touched else None
            C = [[inner(J[c], [z[d] for z in Z]) for d in rows] for c in rows]
            for i in range(len(rows)):
                C[i][i] = add(C[i][i], damping)
            before, on = closed, [at_state.on_ground[c] for c in rows]
            closed = before.with_contacts(rows, [J_trunk[c] for c in rows], C, on, hip)
        last = closed.rows[len(before.rows) :]
        closed_by = tuple(closed.seen_by(branch.hip) for branch in branches)
        lifted_by = tuple(
            before.seen_by(branch.hip) if _touches(at_state, last, branch) else None
            for branch in branches
        )
    return Eliminated(
        trunk=trunk,
        branches=tuple(branches),
        J=J,
        J_trunk=J_trunk,
        X=factored.X,
        scaled=scaled,
        U=U,
        Z=Z,
        closed=closed,
        closed_by=closed_by,
        lifted_by=lifted_by,
    )


def _add_inertia(inertia: Rows, branch: Branch) -> None:
    """Add ``M_tb P`` of a branch to the trunk's inertia, in place."""
    size, hip = len(inertia), branch.hip
    across, P = transposed(branch.across), transposed(branch.P)
    passed = zeros(size)
    others = [a for a in range(size) if hip is None or a != hip.pivot]
    for a in others:
        for b in others:
            if b <= a:
                passed[a][b] = passed[b][a] = inner(across[a], P[b])
    if hip is not None:
        # passed s is the first column of - across.
        p = hip.pivot
        for a in (*others, p):
            rest = inner([passed[a][b] for b in others], [hip.ratios[b] for b in others])
            passed[a][p] = passed[p][a] = sub(mul(-1.0 / hip.scale, across[a][0]), rest)
    for a in range(size):
        for b in range(a + 1):
            inertia[a][b] = inertia[b][a] = add(inertia[a][b], passed[a][b])


def _add_rows(J_trunk: Rows, at_state: Constraints, branch: Branch) -> None:
    """Add ``J_b P`` of a branch to the rows of J' of its contacts, in place."""
    for c, row in enumerate(at_state.J):
        if not _touches(at_state, (c,), branch):
            continue
        of_branch = [row[k] for k in branch.at]
        for place, column in enumerate(zip(*branch.P, strict=True)):
            if branch.hip is not None and place == branch.hip.pivot:
                J_trunk[c][place] = 0.0
            else:
                J_trunk[c][place] = add(J_trunk[c][place], inner(of_branch, column))


def _touches(at_state: Constraints, rows: Sequence[int], branch: Branch) -> bool:
    """Return whether a contact of any of these rows is on the branch."""
    return any(k in at_state.moved_by[c] for c in rows for k in branch.at)


def _groups(at_state: Constraints, branches: Sequence[Branch]) -> list[list[int]]:
    """Return the rows of contacts in groups that share no branch; those of a link stay together."""
    groups: list[list[int]] = []
    moved_by = at_state.moved_by
    for c in range(len(at_state.J)):
        touched = [branch for branch in branches if _touches(at_state, (c,), branch)]
        joined = [
            group
            for group in groups
            if moved_by[group[-1]] == moved_by[c]
            or any(_touches(at_state, group, branch) for branch in touched)
        ]
        groups = [group for group in groups if group not in joined]
        groups.append([*(d for group in joined for d in group), c])
    return groups
