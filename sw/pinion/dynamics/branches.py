r"""The system of accelerations and contact forces, inverted by branches, for many right sides.

With the inertia matrix M and the contacts' Jacobian J,

    M x - J^T y = e      J x + damping y = a

The velocities from the base to the first fork of the elimination tree are the **trunk**, t. The
branches behind it do not see each other. Each branch b is eliminated with the inverse of its block,

    U = M_bb^-1     P = - U M_bt     Z = U J_b^T     x_b = U e_b + P x_t + Z y

which leaves the trunk and the contacts:

    M' x_t - J'^T y = e_t - M_tb U e_b          M' = M_tt + M_tb P
    J' x_t + D y = a - J_b U e_b                J' = J_t + J_b P    D = J_b Z + damping

**Contacts one by one.** D has no entries between contacts of different branches, so J' enters as
measurements with independent errors enter a Kalman filter. The trunk's response N to efforts,
``M'^-1`` without contacts, shrinks with every contact (or group of contacts on one branch) that is
added, by the inverse of its own block:

    W = J' N     G = W J'^T + D     K = G^-1 W     N <- N - W^T K

The responses of the contacts before it change by ``R = S J'^T``: S, of forces to efforts of the
trunk, by ``- R K``, and Lambda, of forces to accelerations of contacts, by ``R G^-1 R^T``. The
blocks G are pivots of the system without velocities, which is positive definite, however far a leg
is stretched.

**Hips.** A branch whose first joint is on a floating base stays behind when the base moves about
the joint's axis and the joint moves back. With the base's velocity s that is equal to the joint's,

    P s = - (1, 0, ..., 0)     J' s = 0     s^T (e_t - M_tb U e_b) = 0

The last equation is for efforts ``e_t`` that reach the base through the joint. Where the trunk is
seen in coordinates that have s as an axis, these zeros need no products (:class:`Hip`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pinion.robot import JointKind, Model

from .axis import axes, axis_motion
from .checks import DynamicsError
from .constraints import REDUNDANT
from .contact_state import Constraints
from .coupled import elimination_parents, owners
from .joint_terms import joint_terms_of
from .ltdl import by_velocity, chain, factors, inverse, region_at, scaled_rows
from .matrices import Rows, inner, transposed, zeros
from .rnea import Region
from .scalar import Scalar, SingularError, add, is_zero, mul, select, sub
from .spatial import cross, vadd


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


@dataclass(frozen=True, kw_only=True)
class Branch:
    """Velocities that are eliminated together, before the trunk.

    Members
    -------
    at : indices of the velocities.
    forks : whether the branch has a fork, so that an inverse factor is sparser than an inverse.
    reach : (velocities, trunk) block ``M_bt``, or ``D^-1 X^T M_bt`` if the branch forks.
    hip : coordinates in which the branch sees the trunk; None for the trunk's own.
    N, S : responses of the trunk and of all forces to efforts of the trunk, for efforts in these
        coordinates.
    lifted : rows of contacts that these two lack, those of the branch if they were added last; a
        branch's own efforts and contacts reach the rest through the trunk and these forces.
    """

    at: tuple[int, ...]
    forks: bool
    reach: Rows
    hip: Hip | None
    N: Rows
    S: Rows
    lifted: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Eliminated:
    """The inverse of the system in blocks.

    Members
    -------
    trunk : indices of velocities.
    branches : the others.
    branch_of : number of the branch of each velocity that is in one.
    J, J_trunk : Jacobian of the contacts (nc, nv), and J' (nc, trunk) as the branches see the trunk.
    X, scaled : (nv, nv) inverse factor of the branches' blocks of M, and the same times ``D^-1``.
    U : (nv, nv) inverse of these blocks.
    P : (nv, trunk) response of each branch to the trunk, as the branch sees it.
    Z : (nv, nc) response of the branches to forces.
    N : (trunk, trunk) response of the trunk to its efforts.
    S : (nc, trunk) response of the forces to these, negated.
    Lambda : (nc, nc) response of the forces to accelerations of the contacts.
    """

    trunk: tuple[int, ...]
    branches: tuple[Branch, ...]
    branch_of: Mapping[int, int]
    J: Rows
    J_trunk: Rows
    X: Rows
    scaled: Rows
    U: Rows
    P: Rows
    Z: Rows
    N: Rows
    S: Rows
    Lambda: Rows

    def solve(
        self, efforts: Sequence[Scalar], accelerations: Sequence[Scalar], cause: int | None = None
    ) -> tuple[list[Scalar], list[Scalar]]:
        """Return x (nv,) and y (nc,) for efforts e (nv,) and accelerations a (nc,) of contacts.

        ``cause`` : the velocity whose joint causes these, if any: efforts of other joints are
        those of a wrench through it.
        """
        at_trunk = [efforts[k] for k in self.trunk]
        at_contacts = list(accelerations)
        own = {}
        for branch in self.branches:
            e = [efforts[k] for k in branch.at]
            if all(map(is_zero, e)):
                continue
            turned = [inner([self.X[i][k] for i in branch.at], e) for k in branch.at]
            moved = [inner([self.scaled[k][i] for i in branch.at], turned) for k in branch.at]
            own.update(zip(branch.at, moved, strict=True))
            for place in range(len(self.trunk)):
                column = [row[place] for row in branch.reach]
                reached = inner(column, turned if branch.forks else moved)
                at_trunk[place] = sub(at_trunk[place], reached)
            for c, row in enumerate(self.J):
                at_contacts[c] = sub(at_contacts[c], inner([row[k] for k in branch.at], moved))
        branch = self.branches[self.branch_of[cause]] if cause in self.branch_of else None
        if branch is not None and branch.hip is not None:
            at_trunk[branch.hip.pivot] = 0.0
        return self._spread(branch, at_trunk, at_contacts, own)

    def of_effort(self, k: int) -> tuple[list[Scalar], list[Scalar]]:
        """Return x (nv,) and y (nc,) for a unit effort along velocity k."""
        if k in self.branch_of:
            branch = self.branches[self.branch_of[k]]
            own = {i: self.U[i][k] for i in branch.at}
            return self._spread(branch, self.P[k], [sub(0.0, z) for z in self.Z[k]], own)
        unit = [float(k == t) for t in self.trunk]
        return self._spread(None, unit, [0.0] * len(self.J), {})

    def _spread(
        self,
        branch: Branch | None,
        efforts: Sequence[Scalar],
        accelerations: Sequence[Scalar],
        own: Mapping[int, Scalar],
    ) -> tuple[list[Scalar], list[Scalar]]:
        """Return x and y from the right sides of trunk and contacts.

        ``branch`` : whose coordinates the efforts have; ``own`` : response of the branches to their
        own efforts.
        """
        forces, on = list(efforts), list(accelerations)
        y: list[Scalar] = [0.0] * len(self.J)
        lifted = branch.lifted if branch is not None else ()
        N, S = (self.N, self.S) if branch is None else (branch.N, branch.S)
        for c in lifted:
            S_c = seen(branch.hip, self.S[c])
            y[c] = sub(inner(self.Lambda[c], accelerations), inner(S_c, efforts))
        for c in lifted:
            forces = [add(x, mul(j, y[c])) for x, j in zip(forces, self.J_trunk[c], strict=True)]
            on[c] = 0.0
        for c, (row, s) in enumerate(zip(self.Lambda, S, strict=True)):
            if c not in lifted:
                y[c] = sub(inner(row, on), inner(s, forces))
        of_trunk = [
            add(inner(row, forces), inner(column, on))
            for row, column in zip(N, transposed(self.S), strict=True)
        ]
        x: list[Scalar] = [0.0] * len(self.P)
        for k, value in zip(self.trunk, of_trunk, strict=True):
            x[k] = value
        for other in self.branches:
            moved = seen(other.hip, of_trunk)
            for k in other.at:
                x[k] = add(own.get(k, 0.0), add(inner(self.P[k], moved), inner(self.Z[k], y)))
        return x, y


def trunk_of(parents: Sequence[int]) -> tuple[int, ...]:
    """Return the velocities from the root to the first fork of an elimination tree."""
    roots = [k for k, parent in enumerate(parents) if parent < 0]
    trunk: list[int] = []
    while len(roots) == 1:
        trunk.append(roots[0])
        roots = [k for k, parent in enumerate(parents) if parent == trunk[-1]]
    return tuple(trunk)


def branches_of(parents: Sequence[int], trunk: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the velocities of each branch, its first one first."""
    branches: dict[int, list[int]] = {}
    root: dict[int, int] = {}
    for k, parent in enumerate(parents):
        if k not in trunk:
            root[k] = root.get(parent, k)
            branches.setdefault(root[k], []).append(k)
    return [tuple(at) for at in branches.values()]


def hip_of(
    model: Model, trunk: Sequence[int], first: int, terms_of: Mapping[str, Any]
) -> Hip | None:
    """Return the trunk's coordinates for a branch, or None if the trunk's own are as good.

    ``first`` : the branch's first velocity; ``terms_of`` : joint terms, which act on the joint
    alone, so that the equations above do not hold.
    """
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
    z = E[2]
    angular = tuple(component * turned[2] for component in z)
    linear = tuple(component * shifted[2] for component in z)
    linear = vadd(linear, cross(r, angular))
    halves = {True: angular, False: linear}
    return Hip.along([float(halves[axis.turns][axis.along]) for axis in axes(root.joint)])


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
    n, count, size = plain.nv, len(J), len(trunk)
    apart = [-1 if parent in trunk or k in trunk else parent for k, parent in enumerate(parents)]
    at, at_last = by_velocity(plain, region), region_at(region, len(plain.bodies))
    within = [k for k in range(n) if k not in trunk]
    block = [
        [M[i][j] if i in within and j in within else float(i == j) for j in range(n)]
        for i in range(n)
    ]
    factored = factors(apart, block, at)
    with at_last("solve", 1):
        scaled = scaled_rows(factored)
        U = inverse(apart, factored, at)
    P, Z = zeros(n, size), zeros(n, count)
    J_trunk = [[row[t] for t in trunk] for row in J]
    inertia = [[M[t][u] for u in trunk] for t in trunk]
    branches = []
    branch_of: dict[int, int] = {}
    for velocities in branches_of(parents, trunk):
        hip = None if at_state.loops else hip_of(plain, trunk, velocities[0], terms_of)
        across = [[M[k][t] for k in velocities] for t in trunk]
        branch_of.update(dict.fromkeys(velocities, len(branches)))
        pairs = zip(velocities[1:], velocities, strict=False)
        forks = any(parents[k] != before for k, before in pairs)
        reach = [[M[k][t] for t in trunk] for k in velocities]
        if forks:
            for place, k in enumerate(velocities):
                with at("solve", k + 1):
                    below = [scaled[i][k] for i in velocities]
                    reach[place] = [inner(below, column) for column in across]
        response = factored.X if forks else U
        for k in velocities:
            with at("solve", k + 1):
                to_k = [response[k][i] for i in velocities]
                P[k] = [sub(0.0, inner(to_k, column)) for column in zip(*reach, strict=True)]
                if hip is not None:
                    P[k][hip.pivot] = -1.0 / hip.scale if k == velocities[0] else 0.0
                own = [U[k][i] for i in velocities]
                Z[k] = [inner(own, [row[i] for i in velocities]) for row in J]
        with at_last("solve", 1):
            _add_inertia(inertia, across, [P[k] for k in velocities], hip)
            for c, row in enumerate(J):
                of_branch = [row[k] for k in velocities]
                if all(map(is_zero, of_branch)):
                    continue
                for place in range(size):
                    if hip is not None and place == hip.pivot:
                        J_trunk[c][place] = 0.0
                        continue
                    passed = inner(of_branch, [P[k][place] for k in velocities])
                    J_trunk[c][place] = add(J_trunk[c][place], passed)
        branches.append(
            Branch(at=velocities, forks=forks, reach=reach, hip=hip, N=[], S=[])
        )
    dense = chain(size)
    with at_last("solve", 1):
        N = inverse(dense, factors(dense, inertia, at_last), at_last)
        S, Lambda = zeros(count, size), zeros(count)
        before: list[int] = []
        groups = _groups(J, branches)
        for group, hip in groups:
            N_before, S_before = [list(row) for row in N], [list(row) for row in S]
            _add_contacts(at_state, damping, J_trunk, Z, hip, group, before, N, S, Lambda, at_last)
            before += group
        for number, branch in enumerate(branches):
            of_last = any(not is_zero(J[c][k]) for c in groups[-1][0] for k in branch.at)
            branches[number] = replace(
                branch,
                N=[seen(branch.hip, row) for row in (N_before if of_last else N)],
                S=[seen(branch.hip, row) for row in (S_before if of_last else S)],
                lifted=tuple(groups[-1][0]) if of_last else (),
            )
    return Eliminated(
        trunk=trunk,
        branches=tuple(branches),
        branch_of=branch_of,
        J=J,
        J_trunk=J_trunk,
        X=factored.X,
        scaled=scaled,
        U=U,
        P=P,
        Z=Z,
        N=N,
        S=S,
        Lambda=Lambda,
    )


def _add_inertia(
    inertia: Rows, across: Sequence[Sequence[Scalar]], P: Sequence[Sequence[Scalar]], hip: Hip | None
) -> None:
    """Add ``M_tb P`` of a branch to the trunk's inertia, in place.

    ``across`` : (trunk, branch) block of M; P as the branch sees the trunk.
    """
    size = len(inertia)
    passed = zeros(size)
    free = [a for a in range(size) if hip is None or a != hip.pivot]
    columns = transposed(P)
    for a in free:
        for b in free:
            if b <= a:
                passed[a][b] = passed[b][a] = inner(across[a], columns[b])
    if hip is not None:
        p = hip.pivot
        for a in (*free, p):
            # Of passed s = - the first column of across.
            rest = inner([passed[a][b] for b in free], [hip.ratios[b] for b in free])
            entry = sub(mul(-1.0 / hip.scale, across[a][0]), rest)
            passed[a][p] = passed[p][a] = entry
    for a in range(size):
        for b in range(a + 1):
            inertia[a][b] = inertia[b][a] = add(inertia[a][b], passed[a][b])


def _groups(J: Rows, branches: Sequence[Branch]) -> list[tuple[list[int], Hip | None]]:
    """Return the rows of contacts that share a branch, and the branch's coordinates.

    A row of no branch is alone.
    """
    groups: list[tuple[list[int], set[int]]] = []
    for c, row in enumerate(J):
        touched = {
            number
            for number, branch in enumerate(branches)
            if not all(is_zero(row[k]) for k in branch.at)
        }
        rows = [c]
        for group in [group for group in groups if group[1] & touched]:
            groups.remove(group)
            rows, touched = group[0] + rows, group[1] | touched
        groups.append((rows, touched))
    return [
        (rows, branches[min(touched)].hip if len(touched) == 1 else None)
        for rows, touched in groups
    ]


# Many parameters: the system so far, which grows in place.
def _add_contacts(
    at_state: Constraints,
    damping: Scalar,
    J_trunk: Rows,
    Z: Rows,
    hip: Hip | None,
    group: Sequence[int],
    before: Sequence[int],
    N: Rows,
    S: Rows,
    Lambda: Rows,
    region: Region,
) -> None:
    """Add a group of contact rows to the system of the trunk and of the rows ``before``."""
    rows = [J_trunk[c] for c in group]
    size = len(N)
    columns = [seen(hip, column) for column in N]
    of_trunk = [[inner(row, column) for column in columns] for row in rows]
    of_before = {r: [inner(row, seen(hip, S[r])) for row in rows] for r in before}
    G = zeros(len(group))
    for i, c in enumerate(group):
        response = seen(hip, of_trunk[i])
        J_c = at_state.J[c]
        for j in range(i + 1):
            inside = inner(J_c, [z[group[j]] for z in Z])
            G[i][j] = G[j][i] = add(inside, inner(response, rows[j]))
        G[i][i] = select(at_state.on_ground[c], add(G[i][i], damping), 1.0)
    dense = chain(len(group))
    try:
        own = inverse(dense, factors(dense, G, region), region)
    except SingularError:
        raise DynamicsError(REDUNDANT) from None
    gain = [[inner(row, column) for column in transposed(of_trunk)] for row in own]
    for a in range(size):
        for b in range(a + 1):
            lost = inner([row[a] for row in of_trunk], [row[b] for row in gain])
            N[a][b] = N[b][a] = sub(N[a][b], lost)
    passed = {r: [inner(row, R) for row in own] for r, R in of_before.items()}
    for i, r in enumerate(before):
        for s in before[: i + 1]:
            Lambda[r][s] = Lambda[s][r] = add(Lambda[r][s], inner(passed[r], of_before[s]))
        S[r] = [
            sub(x, inner(of_before[r], [row[k] for row in gain])) for k, x in enumerate(S[r])
        ]
        for c, x in zip(group, passed[r], strict=True):
            Lambda[r][c] = Lambda[c][r] = sub(0.0, x)
    for i, c in enumerate(group):
        S[c] = gain[i]
        for d, x in zip(group, own[i], strict=True):
            Lambda[c][d] = x
