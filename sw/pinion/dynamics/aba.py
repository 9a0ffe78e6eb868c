r"""Forward dynamics by the articulated-body algorithm (ABA; ABIA in the prefix-sum paper).

Source: Featherstone 2008, chapter 7; equations (6) to (8) of Yang, Wu and Pan, "Parallel Dynamics
Computation using Prefix Sum Operations", 2017. The accelerations are split in two,

    a_i = a0_i + da_i,     a0: those of inverse dynamics with qdd = 0, gravity included,

so that the forces ``f0_i`` of the first part are those of inverse dynamics (equation 6's bias) and
the articulated recursion is linear and homogeneous in ``da``. The paper's two backward recursions,
of the bias forces and of ``z`` in equation (8), are combined:

    backward:  p_i = f0_i + sum over children c of X_c^T (p_c + U_c c_c / D_c)
               c_i = tau_i - S^T p_i
    forward:   qdd_i = c_i / D_i - (U_i / D_i)^T X_i da_parent,    da_i = X_i da_parent + S qdd_i

without velocity-product accelerations or ``IA c`` terms. A joint of several axes is therefore
equivalent to a chain of single-axis joints in one place, at position zero.

This form and the blocks of :mod:`.articulated` save operations, each of which becomes hardware or
an instruction. The textbook form is in :mod:`.general.recursion`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pinion.robot import Model

from .articulated import (
    ArticulatedInertia,
    Pivot,
    articulated_to_parent,
    eliminate,
    joined_articulated,
    own_articulated,
    response,
    yielding,
)
from .axis import axis_effort, numbered_axes
from .coupled import elimination_parents
from .crba import crba_scalars
from .joint_terms import FRICTION_WIDTH, joint_terms_of
from .ltdl import by_velocity, factors, scaled_rows, solve
from .rnea import Region, forward_pass, no_region, rnea_scalars
from .scalar import Scalar, sub
from .spatial import NOTHING, Spatial, plus


def aba_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    f_ext: Sequence[Sequence[Scalar]] | None = None,
    region: Region = no_region,
    *,
    joint_terms: bool | Sequence[str] = (),
    friction_width: float = FRICTION_WIDTH,
) -> list[Scalar]:
    """Return the joint accelerations ``qdd = M(q)^-1 (tau - C(q, qd) qd - g(q))``.

    Arguments
    ---------
    q : (nq,) scalars, joint positions [rad | m].
    qd, tau : (nv,) scalars, joint rates and efforts [N m | N].
    f_ext : external force on each body, ``[angular; linear]`` in body coordinates about its origin
        [N m, N].
    region : as for :func:`.rnea.rnea_scalars`; the passes are ``bias``, ``backward`` and
        ``forward``.
    joint_terms, friction_width : as for :func:`.rnea.rnea_scalars`.

    Returns
    -------
    qdd : (nv,) scalars [rad/s^2 | m/s^2].

    Articulated bodies do not support ties between branches. For a coupled robot the accelerations
    are ``M^-1 (tau - RNEA(q, qd, 0))`` by :mod:`.ltdl`, with the passes of those algorithms.
    """
    if model.coupled:
        M = crba_scalars(model, q, region)
        factored = factors(elimination_parents(model), M, by_velocity(model, region))
        still = [0.0] * model.nv
        terms_of: Any = {"joint_terms": joint_terms, "friction_width": friction_width}
        bias = rnea_scalars(model, q, qd, still, f_ext, region, **terms_of)
        with region("solve", 1):
            net_efforts = [
                sub(effort, bias_effort) for effort, bias_effort in zip(tau, bias, strict=True)
            ]
            return solve(factored, scaled_rows(factored), net_efforts)
    bodies = model.bodies
    n = model.nv
    terms = joint_terms_of(model, joint_terms, friction_width)
    states = forward_pass(model, q, qd, [0.0] * n, f_ext, region, name="bias")
    p = [state.f for state in states]
    inertias: list[ArticulatedInertia] = [own_articulated(body.inertia) for body in bodies]
    pivots: dict[int, Pivot] = {}
    efforts: list[Scalar] = [0.0] * n
    joints = numbered_axes(model)
    for i in reversed(range(len(bodies))):
        body, X = bodies[i], states[i].X
        with region("backward", i + 1):
            behind, f = inertias[i], p[i]
            for k, axis in reversed(joints[i]):
                pivots[k], behind = eliminate(axis, behind, terms.armature[k])
                applied = sub(tau[k], terms.effort(k, q, qd))
                efforts[k] = sub(applied, axis_effort(axis, f))
                if k > joints[i][0][0]:
                    f = yielding(axis, pivots[k], f, efforts[k], applied)
            if body.parent < 0:
                continue
            carried = articulated_to_parent(X, behind)
            inertias[body.parent] = joined_articulated(inertias[body.parent], carried)
            # The joint's first axis is the last to yield.
            push = X.force_to_parent(*yielding(axis, pivots[k], f, efforts[k], applied))
            p[body.parent] = plus(p[body.parent], push)

    qdd: list[Scalar] = []
    da: list[Spatial] = []
    for i, body in enumerate(bodies):
        with region("forward", i + 1):
            a_parent = NOTHING if body.parent < 0 else da[body.parent]
            a_child = states[i].X.motion_to_child(*a_parent)
            for k, axis in joints[i]:
                acceleration, a_child = response(axis, pivots[k], efforts[k], a_child)
                qdd.append(acceleration)
            da.append(a_child)
    return qdd
