r"""Second derivatives of forward dynamics, contracted with a vector, by implicit differentiation.

Both sides of ``rnea(q, qd, FD(q, qd, tau)) = tau`` have equal derivatives. The second ones, with
``lambda = M^-1 weights``, H for the Hessian blocks of ``lambda^T rnea`` at ``qdd = FD(q, qd, tau)``
(:mod:`.rnea_second_derivatives`), N for its block by q and qdd, and Fq, Fv for the gradient, give
those of ``weights^T FD``:

    by q, q    - (Hqq + N Fq + (N Fq)^T)      by q, qd     - (Hqv + N Fv)
    by qd, qd  - Hvv                          by q, tau    - N M^-1

and the others are zero: qdd is affine in tau, with M^-1, which depends on q only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pinion.robot import Model

from .fd_derivatives import fd_derivatives_scalars
from .joint_terms import FRICTION_WIDTH
from .ltdl import by_velocity
from .matrices import Rows, inner, transposed, zeros
from .rnea import Region, no_region
from .rnea_second_derivatives import rnea_second_derivatives_scalars
from .scalar import Scalar, add, mul, sub


@dataclass(frozen=True, kw_only=True)
class ForwardSecondDerivatives:
    """Blocks of the Hessian of a weighted sum of accelerations, each (nv, nv).

    Members
    -------
    q_q, qd_qd : twice with respect to q, and twice with respect to qd: symmetric.
    q_qd, q_tau : entry ``[i][j]`` is with respect to ``q_i`` and to ``qd_j`` or ``tau_j``.
    """

    q_q: Rows
    q_qd: Rows
    qd_qd: Rows
    q_tau: Rows


def fd_second_derivatives_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    weights: Sequence[Scalar],
    region: Region = no_region,
    *,
    joint_terms: bool | Sequence[str] = (),
    friction_width: float = FRICTION_WIDTH,
) -> ForwardSecondDerivatives:
    """Return the second derivatives of ``weights^T FD(q, qd, tau)``, for any scalar type.

    Arguments
    ---------
    q, qd, tau : (nv,) scalars, joint positions [rad | m], rates and efforts [N m | N].
    weights : (nv,) scalars, one for each acceleration.
    region, joint_terms, friction_width : as for
        :func:`.rnea_second_derivatives.rnea_second_derivatives_scalars`; the passes are those of
        the algorithms used, including ``solve``.

    Raises
    ------
    DynamicsError : a joint has several positions or velocities.
    """
    n, at_body = model.nv, by_velocity(model, region)
    terms: Any = {"joint_terms": joint_terms, "friction_width": friction_width}
    first = fd_derivatives_scalars(model, q, qd, tau, region=region, **terms)
    multipliers: list[Scalar] = []
    for i in range(n):
        with at_body("solve", i + 1):
            multipliers.append(inner(first.minv[i], list(weights)))
    H = rnea_second_derivatives_scalars(model, q, qd, first.qdd, multipliers, region, **terms)
    q_q, q_qd, qd_qd, q_tau = (zeros(n) for _ in range(4))
    by_q, by_qd = transposed(first.dqdd_dq), transposed(first.dqdd_dqd)
    N_Fq: Rows = []
    for i in range(n):
        with at_body("solve", i + 1):
            row = H.q_qdd[i]
            N_Fq.append([inner(row, column) for column in by_q])
            for j in range(n):
                block = add(H.q_qd[i][j], inner(row, by_qd[j]))
                q_qd[i][j] = sub(0.0, block)
                q_tau[i][j] = sub(0.0, inner(row, first.minv[j]))
            for j in range(i + 1):
                symmetric = add(N_Fq[i][j], N_Fq[j][i])
                q_q[i][j] = q_q[j][i] = sub(0.0, add(H.q_q[i][j], symmetric))
                qd_qd[i][j] = qd_qd[j][i] = sub(0.0, H.qd_qd[i][j])
    return ForwardSecondDerivatives(q_q=q_q, q_qd=q_qd, qd_qd=qd_qd, q_tau=q_tau)


def step_second_derivatives_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    dt: Scalar,
    value: Sequence[Scalar],
    region: Region = no_region,
    **terms: Any,
) -> tuple[Rows, Rows, Rows, Rows]:
    """Return the second derivatives of ``value^T [q+; qd+]`` for a semi-implicit Euler step.

    With ``q+ = q + h qd + h^2 FD`` and ``qd+ = qd + h FD`` they are those of
    ``h (h value_q + value_qd)^T FD``, multiplied by h last: in fixed point small weights would
    lose bits.

    Arguments
    ---------
    q, qd, tau, region, terms : as for :func:`fd_second_derivatives_scalars`.
    dt : length of the step [s].
    value : (2 nv,) scalars, in differential dynamic programming the gradient of the next value.

    Returns
    -------
    q_q, q_qd, qd_qd, q_tau : (nv, nv) each, as in :class:`ForwardSecondDerivatives`.

    Raises
    ------
    DynamicsError : a joint has several positions or velocities.
    """
    n, at_body = model.nv, by_velocity(model, region)
    weights: list[Scalar] = []
    for i in range(n):
        with at_body("step", i + 1):
            weights.append(add(value[n + i], mul(dt, value[i])))
    F = fd_second_derivatives_scalars(model, q, qd, tau, weights, region, **terms)

    def times_step(block: Rows) -> Rows:
        result: Rows = []
        for i, row in enumerate(block):
            with at_body("step", i + 1):
                result.append([mul(dt, x) for x in row])
        return result

    return times_step(F.q_q), times_step(F.q_qd), times_step(F.qd_qd), times_step(F.q_tau)
