r"""One step of semi-implicit Euler with its gradient over any scalar, including the time step.

The equations are those of :mod:`.discrete`, which has them on arrays for joints of every kind:

    qd' = qd + h qdd      A = [ 1 + h^2 Fq    h (1 + h Fv) ]    B = [ h^2 M^-1 ]
    q'  = q + h qd'           [ h Fq          1 + h Fv     ]        [ h M^-1   ]

with ``qdd = FD(q, qd, tau)`` and its gradient ``Fq, Fv, M^-1``. The lower half is computed first,
and the upper half is h times the lower one: a product each.
"""

from __future__ import annotations

from collections.abc import Sequence

from pinion.robot.model import Model

from .checks import DynamicsError
from .fd_derivatives import fd_derivatives_scalars
from .joint_terms import FRICTION_WIDTH
from .ltdl import by_velocity
from .rnea import Region, no_region
from .scalar import Scalar, add, mul

Rows = list[list[Scalar]]


def euler_step_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    dt: Scalar,
    region: Region = no_region,
    *,
    joint_terms: bool | Sequence[str] = (),
    friction_width: float = FRICTION_WIDTH,
) -> tuple[list[Scalar], list[Scalar], Rows, Rows]:
    """Return q', qd', A and B of one step with constant efforts, over any scalar.

    Arguments
    ---------
    q, qd, tau : (nv,) scalars, positions [rad | m], rates and efforts [N m | N].
    dt : length of the step [s], a scalar.
    region, joint_terms, friction_width : as for :func:`.fd_derivatives.fd_derivatives_scalars`;
        ``step`` is the pass of the step itself.

    Returns
    -------
    q', qd' : (nv,) positions, angles not wrapped, and rates after the step.
    A : (2 nv, 2 nv) derivative of [q'; qd'] by [q; qd].
    B : (2 nv, nv) derivative of [q'; qd'] by tau.

    Raises
    ------
    DynamicsError : a joint has several positions, which do not add.
    """
    check_positions_add(model)
    gradient = fd_derivatives_scalars(
        model,
        q,
        qd,
        tau,
        region=region,
        joint_terms=joint_terms,
        friction_width=friction_width,
    )
    n, at_body = model.nv, by_velocity(model, region)
    q_next: list[Scalar] = []
    qd_next: list[Scalar] = []
    upper_A: Rows = []
    lower_A: Rows = []
    upper_B: Rows = []
    lower_B: Rows = []
    for i in range(n):
        with at_body("step", i + 1):
            qd_next.append(add(qd[i], mul(dt, gradient.qdd[i])))
            q_next.append(add(q[i], mul(dt, qd_next[i])))
            by_q = [mul(dt, x) for x in gradient.dqdd_dq[i]]
            by_qd = [mul(dt, x) for x in gradient.dqdd_dqd[i]]
            by_qd[i] = add(1.0, by_qd[i])
            by_tau = [mul(dt, x) for x in gradient.minv[i]]
            above = [mul(dt, x) for x in by_q]
            above[i] = add(1.0, above[i])
            lower_A.append(by_q + by_qd)
            lower_B.append(by_tau)
            upper_A.append(above + [mul(dt, x) for x in by_qd])
            upper_B.append([mul(dt, x) for x in by_tau])
    return q_next, qd_next, upper_A + lower_A, upper_B + lower_B


def check_positions_add(model: Model) -> None:
    """Raise for a robot with a joint of several positions, which an Euler step cannot add to."""
    for body in model.bodies:
        kind = body.joint.kind
        if kind.nq != 1:
            raise DynamicsError(
                f"The joint {body.joint.name!r} of {model.name!r} is {kind.value}, whose {kind.nq} "
                "positions do not change by adding rates; euler_step supports only joints of one "
                "position: load the robot without such joints, or step on the host with "
                "pinion.dynamics.discrete_dynamics."
            )
