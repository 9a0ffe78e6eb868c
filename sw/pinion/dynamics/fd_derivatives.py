r"""Gradient of forward dynamics, from efforts or from accelerations and M^-1.

Source: Algorithm 3 of Plancher et al. 2021 (after Carpentier and Mansard 2018). Inverse and forward
dynamics are inverse to each other, ``tau = ID(q, qd, FD(q, qd, tau))``, so by the chain rule

    d qdd / du = -M^-1 d ID / du        at the accelerations qdd = FD(q, qd, tau), u = q or qd.

:func:`fd_derivatives_from_minv_scalars` is Algorithm 3 itself, with qdd and M^-1 given, as a
controller keeps them from its last step. :func:`fd_derivatives_scalars` starts from q, qd and tau:

    M = CRBA(q) = L^T D L,  qdd = M^-1 (tau - RNEA(q, qd, 0)),  then Algorithm 3,

with M^-1 b from the inverse factors (:func:`.ltdl.solve`): M^-1 itself is not needed, and costs
nothing if it is not read. CRBA's composites are also the gradient's: a graph of operations has them
once.

**A floating base** alone responds to some changes: to a rotation, which turns gravity as it sees
it, and to a change of its linear velocity v, which is in its own rotating axes. Everything that it
carries would have to accelerate by the same da (:mod:`.rnea_derivatives`), and the base's own
acceleration changes by -da so that nothing does: a column of M^-1 times columns of M.

Both skip the zeros of a tree; :mod:`.general.derivatives` is Algorithm 3 with dense products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pinion.robot import Model, uncoupled

from .axis import axes, joint_transform
from .coupled import elimination_parents
from .crba import crba_scalars
from .joint_terms import FRICTION_WIDTH, JointTerms, joint_terms_of
from .ltdl import ancestors, by_velocity, factors, inverse, scaled_rows, solve
from .matrices import Rows, inner, transposed
from .rnea import Region, base_motion, forward_step, no_region, rnea_scalars
from .rnea_derivatives import columns, rnea_derivatives_scalars
from .scalar import Scalar, is_zero, sub


@dataclass(frozen=True, kw_only=True)
class ForwardGradient:
    """Forward dynamics and its gradient, as scalars.

    Members
    -------
    qdd : (nv,) joint accelerations.
    dqdd_dq, dqdd_dqd : (nv, nv), entry ``[i][j]`` differentiates ``qdd_i`` with respect to joint j.
    minv : (nv, nv) inverse of the joint-space inertia matrix, ``dqdd/dtau``.
    """

    qdd: list[Scalar]
    dqdd_dq: Rows
    dqdd_dqd: Rows
    minv: Rows


# Many parameters: the quantities of the equation, and the optional terms.
def fd_derivatives_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    f_ext: Sequence[Sequence[Scalar]] | None = None,
    region: Region = no_region,
    *,
    method: str = "composite",
    joint_terms: bool | Sequence[str] = (),
    friction_width: float = FRICTION_WIDTH,
) -> ForwardGradient:
    """Return forward dynamics and its gradient at given positions, rates and efforts.

    Arguments
    ---------
    q : (nq,) scalars, joint positions [rad | m].
    qd, tau : (nv,) scalars, joint rates and efforts [N m | N].
    f_ext, region, method, joint_terms, friction_width : as for
        :func:`.rnea_derivatives.rnea_derivatives_scalars`; the passes are those of the algorithms
        used and ``solve``.
    """
    n = model.nv
    M = crba_scalars(model, q, region=region)
    terms: Any = {"joint_terms": joint_terms, "friction_width": friction_width}
    parents, at_body = elimination_parents(model), by_velocity(model, region)
    factored = factors(parents, M, at_body)
    with region("solve", 1):
        scaled = scaled_rows(factored)
    bias = rnea_scalars(model, q, qd, [0.0] * n, f_ext, region, **terms)
    with region("solve", 1):
        qdd = solve(factored, scaled, [sub(tau[k], bias[k]) for k in range(n)])
    by_q, by_qd = rnea_derivatives_scalars(model, q, qd, qdd, f_ext, region, method=method, **terms)
    solutions: list[Rows] = []
    of_joints = joint_terms_of(uncoupled(model), joint_terms, friction_width)
    base_columns = answers_of_bases(model, q, qd, of_joints)
    for gradient, of_bases in zip((by_q, by_qd), base_columns, strict=True):
        solved: Rows = []
        for j in range(n):
            with at_body("solve", j + 1):
                if j in of_bases:
                    solved.append(of_bases[j])
                    continue
                column = solve(factored, scaled, [gradient[k][j] for k in range(n)])
                solved.append([sub(0.0, entry) for entry in column])
        solutions.append([[solved[j][i] for j in range(n)] for i in range(n)])
    minv = inverse(parents, factored, at_body)
    return ForwardGradient(qdd=qdd, dqdd_dq=solutions[0], dqdd_dqd=solutions[1], minv=minv)


def answers_of_bases(
    model: Model, q: Sequence[Scalar], qd: Sequence[Scalar], terms: JointTerms
) -> tuple[dict[int, list[Scalar]], dict[int, list[Scalar]]]:
    """Return the columns of dqdd/dq and dqdd/dqd in which only a joint at the base responds.

    Their change of motion is an acceleration along the joint's own axes: all positions of a
    free-flyer or planar joint, and the rates of its shifts. There are none for a base with joint
    terms, which act between it and the ground.
    """
    answers: tuple[dict[int, list[Scalar]], dict[int, list[Scalar]]] = ({}, {})
    places = uncoupled(model).v_slices  # of the terms: every joint has its own slice
    slices = zip(model.bodies, model.q_slices, model.v_slices, places, strict=True)
    for body, at, v_at, term_at in slices:
        if body.parent >= 0 or body.joint.kind.simple:
            continue
        if any(terms.acts_on(k) for k in range(term_at.start, term_at.stop)):
            continue
        numbered = list(zip(range(v_at.start, v_at.stop), axes(body.joint), strict=True))
        X = joint_transform(body.joint, q[at])
        still = [0.0] * len(numbered)
        motion, before = forward_step(body.joint, base_motion(model), X, qd[v_at], still)
        shifts = {axis.along: m for m, axis in numbered if not axis.turns}
        pairs = columns(body.joint, motion, before, qd[v_at])
        for (k, _), pair in zip(numbered, pairs, strict=True):
            for answer, column in zip(answers, pair, strict=True):
                turning = not all(map(is_zero, (*column.dw, *column.dal)))
                if turning or any(not is_zero(column.da[x]) for x in {0, 1, 2} - set(shifts)):
                    continue
                answer[k] = [0.0] * model.nv
                for x, m in shifts.items():
                    answer[k][m] = sub(0.0, column.da[x])
    return answers


# Many parameters: the quantities of the equation, and the optional terms.
def fd_derivatives_from_minv_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    minv: Sequence[Sequence[Scalar]],
    f_ext: Sequence[Sequence[Scalar]] | None = None,
    region: Region = no_region,
    *,
    method: str = "composite",
    joint_terms: bool | Sequence[str] = (),
    friction_width: float = FRICTION_WIDTH,
) -> tuple[Rows, Rows]:
    """Return ``dqdd/dq`` and ``dqdd/dqd`` from accelerations and M^-1 (Algorithm 3).

    Arguments
    ---------
    q : (nq,) scalars, joint positions [rad | m].
    qd, qdd : (nv,) scalars, joint rates and accelerations.
    minv : (nv, nv) scalars, the inverse of the joint-space inertia matrix at q. Only its lower
        triangle is read, without entries of two joints whose paths to the base share no joint.
    f_ext, region, method, joint_terms, friction_width : as for
        :func:`.rnea_derivatives.rnea_derivatives_scalars`; ``solve`` is the pass of the product, by
        rows.
    """
    by_q, by_qd = rnea_derivatives_scalars(
        model,
        q,
        qd,
        qdd,
        f_ext,
        region,
        method=method,
        joint_terms=joint_terms,
        friction_width=friction_width,
    )
    minv_rows = structured(model, minv)
    first = minus_product(model, minv_rows, by_q, region)
    return first, minus_product(model, minv_rows, by_qd, region)


def minus_minv_times_scalars(
    model: Model,
    minv: Sequence[Sequence[Scalar]],
    dtau_dq: Sequence[Sequence[Scalar]],
    dtau_dqd: Sequence[Sequence[Scalar]],
    region: Region = no_region,
) -> tuple[Rows, Rows]:
    """Return ``dqdd/dq`` and ``dqdd/dqd`` from M^-1 and the gradient of inverse dynamics.

    This is Algorithm 3's last line.

    Arguments
    ---------
    minv : as for :func:`fd_derivatives_from_minv_scalars`.
    dtau_dq, dtau_dqd : (nv, nv) scalars. Entries of two joints of which neither carries the other
        are zero and are not read.
    region : ``solve`` is the pass.
    """
    minv_rows, n = structured(model, minv), model.nv
    parents = elimination_parents(model)
    on_the_way = [{i, *ancestors(parents, i)} for i in range(n)]

    def in_line(gradient: Sequence[Sequence[Scalar]]) -> Rows:
        return [
            [gradient[i][j] if i in on_the_way[j] or j in on_the_way[i] else 0.0 for j in range(n)]
            for i in range(n)
        ]

    first = minus_product(model, minv_rows, in_line(dtau_dq), region)
    return first, minus_product(model, minv_rows, in_line(dtau_dqd), region)


def trees(model: Model) -> list[int]:
    """Return, for each velocity, the first velocity of its tree: that of the joint at the base."""
    first: list[int] = []
    for i, parent in enumerate(elimination_parents(model)):
        first.append(i if parent < 0 else first[parent])
    return first


def structured(model: Model, minv: Sequence[Sequence[Scalar]]) -> Rows:
    """Return M^-1 from its lower triangle, with constant zeros between separate trees."""
    first = trees(model)
    n = model.nv
    return [
        [minv[max(i, j)][min(i, j)] if first[i] == first[j] else 0.0 for j in range(n)]
        for i in range(n)
    ]


def minus_product(model: Model, minv: Rows, gradient: Rows, region: Region) -> Rows:
    """Return ``-minv gradient``, (nv, nv), without operations on constant zeros."""
    at_body, columns = by_velocity(model, region), transposed(gradient)
    result: Rows = []
    for i in range(model.nv):
        with at_body("solve", i + 1):
            result.append([sub(0.0, inner(minv[i], column)) for column in columns])
    return result
