r"""Second derivatives of inverse dynamics, contracted with a vector, in closed form.

Differential dynamic programming needs not the tensors but the Hessian of one number,
``s = weights^T rnea(q, qd, qdd)``. With mu for the velocity of each point when the joints move at
the rates ``weights``, s is the sum over points of ``m mu . a``: a power (compare Singh, Russell,
Wensing, "On Second-Order Derivatives of Rigid-Body Dynamics: Theory & Implementation", 2023, who
have the tensors, and Nganga and Wensing, "Accelerating Second-Order Differential Dynamic
Programming for Rigid-Body Systems", 2021, for that power). It costs O(n d) with d for the depth.

**The first derivative.** As in :mod:`.rnea_derivatives`, a change of ``q_k`` only changes how the
subtree of joint k is carried: its points' accelerations by the column (dw, dal, da), and mu by the
rigid motion ``D_k = mu x S_k``. So with F for the net force on the subtree, W(column) for the
wrench that a column needs on it, and ``R = (g_w, g_al, g_a)`` for the row of mu,

    ds/dq_k = D_k . F + R . col_k        ds/dqd_k = R . col_k'        ds/dqdd_k = S_k . (g_al, g_a)

where ``g_a = sum m mu``, ``g_al = sum m r x mu`` and ``g_w = 2 sum m rdot x mu``.

**The second.** A change of joint j on the path from k to the base (or k itself), with its column
(dw, dal, da) carried to body k and its rigid motion D, changes

    F by W(column)     D_k by D x S_k     R . c by D . W(c)     rdot by dw x r
    col_k  by ( dw x s_w,  dal x s_w + 2 dw x (w x s_w),  dal x s_v + 2 dw x (w x s_v) + da x s_w )
    col_k' by ( 0,  2 dw x s_w,  2 dw x s_v )

and the change of rdot is a bilinear form of both columns' dw, ``- dw^T Y dw_k`` with ``Y = 2
(tr(Z) 1 - Z)`` and ``Z = sum m mu r^T``. All of this is linear in (dw, dal, da) and in D: for each
k a row and a wrench, which are carried towards the root as in the gradient, where column and D are
sparse. Y is carried like Q in :mod:`.composite`, but mu does not change with the origin.

The case j = k follows in the same way only for a joint of one position: revolute, prismatic or
helical. Second derivatives by the tangents of a joint with several depend on the order of its axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pinion.robot import Inertia, Model

from .axis import (
    Axis,
    axes,
    axis_cross_force,
    axis_effort,
    axis_motion,
    cross_axis,
    plus_axis,
    plus_axis_cross_force,
)
from .checks import DynamicsError
from .composite import (
    Composite,
    Coriolis,
    Drift,
    composite_to_parent,
    coriolis_to_parent,
    joined,
    joined_coriolis,
    own_composite,
    own_coriolis,
    rank_one,
)
from .coupled import coupling_of
from .joint_terms import FRICTION_WIDTH, joint_terms_of
from .matrices import Rows, zeros
from .rnea import BodyState, Region, forward_pass, no_region
from .rnea_derivatives import Row, SubtreeChange, columns, joint_drift, row_to_parent, wrench
from .scalar import Scalar, add, mul
from .spatial import (
    NOTHING,
    ZERO,
    JointTransform,
    Matrix,
    Spatial,
    Vector,
    cross,
    dot,
    plus,
    vadd,
    vsub,
)
from .tensor import NO_MATRIX, matrix_sum, matrix_to_parent, times


@dataclass(frozen=True, kw_only=True)
class SecondDerivatives:
    """Blocks of the Hessian of a weighted sum of efforts, each (nv, nv).

    Members
    -------
    q_q, qd_qd : twice with respect to q, and twice with respect to qd: symmetric.
    q_qd, q_qdd : entry ``[i][j]`` is with respect to ``q_i`` and to ``qd_j`` or ``qdd_j``.
    """

    q_q: Rows
    q_qd: Rows
    qd_qd: Rows
    q_qdd: Rows


@dataclass(frozen=True, kw_only=True)
class Weighed:
    """Response of a subtree to the motion mu, about a frame's origin in its coordinates.

    Members
    -------
    row : the row of mu (R above).
    Y : (3, 3) ``2 (tr(Z) eye(3) - Z)`` [kg m^2/s for rates].
    """

    row: Row
    Y: Matrix


_NO_WEIGHT = Weighed(row=Row(g_w=ZERO, g_al=ZERO, g_a=ZERO), Y=NO_MATRIX)


def own_weighed(inertia: Inertia, w: Vector, mu: Spatial) -> Weighed:
    """Return a single body's sums R and Y for the virtual motion mu = [angular; linear].

    w is the body's angular velocity.
    """
    Y = matrix_sum(own_coriolis(inertia, mu[0]).Q, rank_one(vadd(mu[1], mu[1]), inertia.h))
    return Weighed(row=row_of(mu, own_composite(inertia), own_coriolis(inertia, w)), Y=Y)


def row_of(motion: Spatial, inertia: Composite, coriolis: Coriolis) -> Row:
    """Return the row of a rigid motion of a subtree."""
    g_al, g_a = inertia.times(*motion)
    return Row(g_w=coriolis.row(*motion), g_al=g_al, g_a=g_a)


def joined_weighed(a: Weighed, b: Weighed) -> Weighed:
    """Return the sum of the responses of two sets of bodies about the same origin."""
    return Weighed(row=sum_of_rows(a.row, b.row), Y=matrix_sum(a.Y, b.Y))


def sum_of_rows(a: Row, b: Row) -> Row:
    """Return the sum of two rows."""
    return Row(g_w=vadd(a.g_w, b.g_w), g_al=vadd(a.g_al, b.g_al), g_a=vadd(a.g_a, b.g_a))


def weighed_to_parent(X: JointTransform, drift: Drift, weighed: Weighed) -> Weighed:
    """Return a child's response about the parent's origin, in the parent's coordinates.

    Points at r are at ``r + d`` there, and Z gains ``sum m mu d^T``.
    """
    row = row_to_parent(X, drift, weighed.row)
    g_a = weighed.row.g_a
    slid = matrix_sum(weighed.Y, rank_one(vadd(g_a, g_a), X.shift))
    placed = matrix_to_parent(X, slid)
    twice = vadd(row.g_a, row.g_a)
    return Weighed(row=row, Y=matrix_sum(placed, rank_one(twice, X.tree.r)))


@dataclass(frozen=True, kw_only=True)
class ChangeMap:
    """Linear map from a change caused nearer the base to the derivative for one joint.

    Members
    -------
    row : factor of the change's column; None if it is zero.
    spin : (3,) factor of the column's dw only.
    force : factor of its rigid motion D.
    """

    force: Spatial
    row: Row | None = None
    spin: Vector = ZERO

    def carried(self, X: JointTransform, drift: Drift) -> ChangeMap:
        """Return the map in the parent's coordinates."""
        return ChangeMap(
            force=X.force_to_parent(*self.force),
            row=None if self.row is None else row_to_parent(X, drift, self.row),
            spin=X.to_parent(self.spin),
        )

    def of_column(self, column: SubtreeChange) -> Scalar:
        """Return the map's value for a column."""
        spun = dot(column.dw, self.spin)
        return spun if self.row is None else add(self.row.times(column), spun)

    def of_motion(self, motion: Spatial) -> Scalar:
        """Return the map's value for a rigid motion."""
        return add(dot(motion[0], self.force[0]), dot(motion[1], self.force[1]))


@dataclass(frozen=True, kw_only=True)
class JointColumns:
    """Changes of motion with a joint's position and rate, in its body's coordinates.

    Members
    -------
    axis : the joint's axis.
    by_q, by_qd : columns.
    D : change of mu with the position, ``mu x S``.
    """

    axis: Axis
    by_q: SubtreeChange
    by_qd: SubtreeChange
    D: Spatial


def readers(
    joint: JointColumns,
    w: Vector,
    inertia: Composite,
    coriolis: Coriolis,
    weighed: Weighed,
    net: Spatial,
) -> tuple[ChangeMap, ChangeMap, ChangeMap]:
    """Return the maps to the derivatives with respect to a joint's q, qd and qdd.

    ``w`` is the angular velocity of its body, the others belong to its subtree.
    """
    axis, R = joint.axis, weighed.row
    angular, linear = axis_motion(axis, 1.0)
    rigid = axis_cross_force(axis, (R.g_al, R.g_a))
    # Products with w x s for both the turning and the shifting part.
    turned, shifted = cross(w, angular), cross(w, linear)
    spin = vadd(cross(turned, R.g_al), cross(shifted, R.g_a))
    spin = vadd(vadd(spin, spin), cross(angular, R.g_w))
    spin = vsub(spin, times(weighed.Y, joint.by_q.dw))
    motion_row = row_of(joint.D, inertia, coriolis)
    moved = Row(g_w=spin, g_al=rigid[0], g_a=rigid[1])
    force = wrench(joint.by_q, inertia, coriolis)
    by_q = ChangeMap(
        row=sum_of_rows(motion_row, moved), force=plus_axis_cross_force(axis, force, net)
    )
    by_qd = ChangeMap(
        spin=vsub(vadd(rigid[0], rigid[0]), times(weighed.Y, joint.by_qd.dw)),
        force=wrench(joint.by_qd, inertia, coriolis),
    )
    return by_q, by_qd, ChangeMap(force=inertia.times(angular, linear))


def rnea_second_derivatives_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    weights: Sequence[Scalar],
    region: Region = no_region,
    *,
    joint_terms: bool | Sequence[str] = (),
    friction_width: float = FRICTION_WIDTH,
) -> SecondDerivatives:
    """Return the second derivatives of ``weights^T rnea(q, qd, qdd)``, for any scalar type.

    Arguments
    ---------
    q, qd, qdd : (nv,) scalars, joint positions [rad | m], rates and accelerations.
    weights : (nv,) scalars, one for each effort; with weights in the units of rates [rad/s | m/s]
        the sum is a power [W].
    region : as for :func:`.rnea.rnea_scalars`; the passes are ``forward``, ``backward`` and
        ``column``.
    joint_terms, friction_width : as for :func:`.rnea.rnea_scalars`.

    Raises
    ------
    DynamicsError : a joint has several positions or velocities.
    """
    if model.coupled:
        tied = coupling_of(model, region)
        every = tied.positions(q), tied.rates(qd), tied.rates(qdd), tied.rates(weights)
        terms_of: Any = {"joint_terms": joint_terms, "friction_width": friction_width}
        hessian = rnea_second_derivatives_scalars(tied.model, *every, region, **terms_of)
        return SecondDerivatives(
            q_q=tied.square(hessian.q_q, symmetric=True),
            q_qd=tied.square(hessian.q_qd),
            qd_qd=tied.square(hessian.qd_qd, symmetric=True),
            q_qdd=tied.square(hessian.q_qdd),
        )
    check_one_axis(model)
    bodies = model.bodies
    states = forward_pass(model, q, qd, qdd, None, region)
    motions, drifts, coriolis, joints = _moved(model, states, qd, weights, region)
    nets = [state.f for state in states]
    inertias = [own_composite(body.inertia) for body in bodies]
    weighed = [_NO_WEIGHT] * len(bodies)
    q_q, q_qd, qd_qd, q_qdd = (zeros(model.nv) for _ in range(4))
    terms = joint_terms_of(model, joint_terms, friction_width)
    for k in reversed(range(len(bodies))):
        body, X, w = bodies[k], states[k].X, states[k].motion.w
        with region("backward", k + 1):
            weighed[k] = joined_weighed(own_weighed(body.inertia, w, motions[k]), weighed[k])
        with region("column", k + 1):
            row_readers = readers(joints[k], w, inertias[k], coriolis[k], weighed[k], nets[k])
            by_q, by_qd, by_qdd = row_readers
            j = k
            while True:
                above = joints[j]
                row = by_q.row
                assert row is not None
                moved = add(by_q.of_column(above.by_q), by_q.of_motion(above.D))
                q_q[k][j] = q_q[j][k] = moved
                qd_qd[k][j] = qd_qd[j][k] = by_qd.of_column(above.by_qd)
                q_qd[k][j] = by_q.of_column(above.by_qd)
                q_qdd[k][j] = axis_effort(above.axis, (row.g_al, row.g_a))
                if j != k:
                    q_qd[j][k] = add(by_qd.of_column(above.by_q), by_qd.of_motion(above.D))
                    q_qdd[j][k] = by_qdd.of_motion(above.D)
                if bodies[j].parent < 0:
                    break
                by_q, by_qd, by_qdd = (
                    reader.carried(states[j].X, drifts[j]) for reader in (by_q, by_qd, by_qdd)
                )
                j = bodies[j].parent
            qd_qd[k][k] = add(qd_qd[k][k], mul(weights[k], terms.curvature(k, qd)))
            q_q[k][k] = add(q_q[k][k], mul(weights[k], terms.bend(k, q)))
        if body.parent >= 0:
            above_k = body.parent
            with region("backward", k + 1):
                turned = coriolis_to_parent(X, drifts[k], inertias[k], coriolis[k])
                coriolis[above_k] = joined_coriolis(coriolis[above_k], turned)
                inertias[above_k] = joined(inertias[above_k], composite_to_parent(X, inertias[k]))
                carried = weighed_to_parent(X, drifts[k], weighed[k])
                weighed[above_k] = joined_weighed(weighed[above_k], carried)
                nets[above_k] = plus(nets[above_k], X.force_to_parent(*nets[k]))
    return SecondDerivatives(q_q=q_q, q_qd=q_qd, qd_qd=qd_qd, q_qdd=q_qdd)


def _moved(
    model: Model,
    states: Sequence[BodyState],
    qd: Sequence[Scalar],
    weights: Sequence[Scalar],
    region: Region,
) -> tuple[list[Spatial], list[Drift], list[Coriolis], list[JointColumns]]:
    """Return mu, the drift, the own Coriolis terms and the joint columns of each body."""
    motions: list[Spatial] = []
    drifts: list[Drift] = []
    coriolis: list[Coriolis] = []
    joints: list[JointColumns] = []
    for i, (body, state) in enumerate(zip(model.bodies, states, strict=True)):
        with region("forward", i + 1):
            (axis,) = axes(body.joint)
            root = body.parent < 0
            before = NOTHING if root else state.X.motion_to_child(*motions[body.parent])
            motions.append(plus_axis(axis, before, weights[i]))
            parent_w = ZERO if root else states[body.parent].motion.w
            drifts.append(joint_drift(body.joint, state, parent_w, qd[i : i + 1]))
            coriolis.append(own_coriolis(body.inertia, state.motion.w))
            ((by_q, by_qd),) = columns(body.joint, state.motion, state.before, qd[i : i + 1])
            D = cross_axis(axis, before, 1.0)
            joints.append(JointColumns(axis=axis, by_q=by_q, by_qd=by_qd, D=D))
    return motions, drifts, coriolis, joints


def check_one_axis(model: Model) -> None:
    """Raise `DynamicsError` for a joint that has several positions or velocities."""
    for body in model.bodies:
        kind = body.joint.kind
        if kind.nq != 1 or kind.nv != 1:
            raise DynamicsError(
                f"The joint {body.joint.name!r} of {model.name!r} is {kind.value}, with {kind.nq} "
                f"positions and {kind.nv} velocities; second derivatives support only joints with "
                "one of each: load the robot on a fixed base, without such joints."
            )
