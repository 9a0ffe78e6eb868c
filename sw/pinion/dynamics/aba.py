r"""Forward dynamics by the articulated-body algorithm (ABA; ABIA in the prefix-sum paper).

Source: Featherstone 2008, chapter 7; equations (6) to (8) of Yang, Wu and Pan, "Parallel Dynamics
Computation using Prefix Sum Operations", 2017. The accelerations are split in two,

    a_i = a0_i + da_i,     a0: those of inverse dynamics with qdd = 0, gravity included,

so that the forces ``f0_i`` of the first part are inverse dynamics' own (equation 6's bias) and the
articulated recursion is linear and homogeneous in ``da``. The paper's two backward recursions, of
the bias forces and of ``z`` in equation (8), are carried as one:

    backward:  p_i = f0_i + sum over children c of X_c^T (p_c + U_c c_c / D_c)
               c_i = tau_i - S^T p_i
    forward:   qdd_i = c_i / D_i - (U_i / D_i)^T X_i da_parent,    da_i = X_i da_parent + S qdd_i

with no velocity-product accelerations and no ``IA c`` terms left.
"""

from __future__ import annotations

from collections.abc import Sequence

from pinion.dynamics.articulated import (
    Articulated,
    Pivot,
    articulated_to_parent,
    eliminate,
    joined_articulated,
    own_articulated,
    pivot_response,
)
from pinion.dynamics.crba import along_axis
from pinion.dynamics.rnea import (
    BodyMotion,
    Region,
    base_motion,
    body_force,
    forward_step,
    no_region,
)
from pinion.dynamics.scalar import Scalar, add, mul, sub
from pinion.dynamics.spatial import (
    ZERO,
    JointTransform,
    Vector,
    joint_transform,
    scale,
    vadd,
    vsub,
)
from pinion.robot.model import Joint, JointKind, Model


def with_axis(joint: Joint, angular: Vector, linear: Vector, x: Scalar) -> tuple[Vector, Vector]:
    """Return ``[angular; linear] + S x`` in the coordinates of the joint's body."""
    if joint.kind is JointKind.PRISMATIC:
        return angular, (linear[0], linear[1], add(linear[2], x))
    return (angular[0], angular[1], add(angular[2], x)), linear


def aba_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    f_ext: Sequence[Sequence[Scalar]] | None = None,
    region: Region = no_region,
) -> list[Scalar]:
    """Return the joint accelerations ``qdd = M(q)^-1 (tau - C(q, qd) qd - g(q))``.

    Arguments
    ---------
    q, qd, tau : (nv,) scalars, joint positions [rad | m], rates and efforts [N m | N].
    f_ext : for each body the external force on it, ``[angular; linear]`` in its own coordinates
        about its origin [N m, N].
    region : as for :func:`.rnea.rnea_scalars`; the passes are ``bias``, ``backward`` and
        ``forward``.

    Returns
    -------
    qdd : (nv,) scalars [rad/s^2 | m/s^2].
    """
    bodies = model.bodies
    n = len(bodies)
    base = base_motion(model)
    transforms: list[JointTransform] = []
    motions: list[BodyMotion] = []
    moments: list[Vector] = []
    forces: list[Vector] = []
    for i, body in enumerate(bodies):
        with region("bias", i + 1):
            X = joint_transform(body.joint, q[i])
            parent = base if body.parent < 0 else motions[body.parent]
            motion = forward_step(body.joint, parent, X, qd[i], 0.0)
            moment, force = body_force(body.inertia, motion)
            if f_ext is not None:
                moment = vsub(moment, (f_ext[i][0], f_ext[i][1], f_ext[i][2]))
                force = vsub(force, (f_ext[i][3], f_ext[i][4], f_ext[i][5]))
            transforms.append(X)
            motions.append(motion)
            moments.append(moment)
            forces.append(force)

    inertias: list[Articulated] = [own_articulated(body.inertia) for body in bodies]
    pivots: list[Pivot] = []
    efforts: list[Scalar] = [0.0] * n
    for i in reversed(range(n)):
        body, X = bodies[i], transforms[i]
        with region("backward", i + 1):
            pivot, behind = eliminate(body.joint, inertias[i])
            pivots.insert(0, pivot)
            efforts[i] = sub(tau[i], along_axis(body.joint, moments[i], forces[i]))
            if body.parent < 0:
                continue
            carried = articulated_to_parent(X, behind)
            inertias[body.parent] = joined_articulated(inertias[body.parent], carried)
            moment = vadd(moments[i], scale(efforts[i], pivot.angular))
            force = vadd(forces[i], scale(efforts[i], pivot.linear))
            # The joint transmits its effort and no more: said outright, one addition is saved.
            if body.joint.kind is JointKind.PRISMATIC:
                force = (force[0], force[1], tau[i])
            else:
                moment = (moment[0], moment[1], tau[i])
            moment, force = X.force_to_parent(moment, force)
            moments[body.parent] = vadd(moments[body.parent], moment)
            forces[body.parent] = vadd(forces[body.parent], force)

    qdd: list[Scalar] = []
    accelerations: list[tuple[Vector, Vector]] = []
    for i, body in enumerate(bodies):
        with region("forward", i + 1):
            angular, linear = (ZERO, ZERO) if body.parent < 0 else accelerations[body.parent]
            angular, linear = transforms[i].motion_to_child(angular, linear)
            free = mul(efforts[i], pivots[i].D_inverse)
            qdd.append(sub(free, pivot_response(pivots[i], angular, linear)))
            accelerations.append(with_axis(body.joint, angular, linear, qdd[i]))
    return qdd
