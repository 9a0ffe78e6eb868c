r"""Inverse dynamics by the recursive Newton-Euler algorithm (RNEA).

Source: Algorithm 1 of Plancher, Neuman, Bourgeat, Kuindersma, Devadas, Reddi, "Accelerating Robot
Dynamics Gradients on a CPU, GPU, and FPGA", 2021:

    v_i = X v_p + S qd        a_i = X a_p + S qdd + v_i x S qd        f_i = I a_i + v_i x* I v_i

This module computes the same result with fewer operations, because each one becomes hardware or an
instruction. All quantities of a body are in its own coordinates, about the origin O of its frame.
Forward dynamics' bias (:mod:`.aba`) and the gradient (:mod:`.rnea_derivatives`) use the same
forward pass. :mod:`.general.recursion` has Algorithm 1 unchanged.

**Classical acceleration.** Let ``a' = a_lin + w x v_lin`` be the acceleration of O as an observer
sees it. With ``I = (m, h, I_O)`` the force of Algorithm 1 is

    linear   m a_lin + al x h + w x (m v_lin + w x h)    = m a' + al x h + w x (w x h)
    moment   I_O al + h x a_lin + w x (I_O w + h x v_lin) + v_lin x (m v_lin + w x h)
           = I_O al + w x I_O w + h x a'

where the moment uses the Jacobi identity ``w x (h x v) + v x (w x h) = h x (w x v)``. The linear
velocity cancels.

**One matrix for each body.** A point fixed at p in the body accelerates by ``a' + B p``, where

    B = [al]x + [w]x [w]x =  [ -wy^2-wz^2   wx wy - alz   wx wz + aly ]
                             [ wx wy + alz  -wx^2-wz^2    wy wz - alx ]
                             [ wx wz - aly  wy wz + alx   -wx^2-wy^2  ]

so ``f = m a' + B h``, and a child's frame at r starts from ``a' + B r``. The moment uses B's
entries for the products of inertia, and al with one product of velocities for each diagonal term.

**A revolute joint does not move its own axis.** Points on the joint's axis belong to both the
parent and the child: the z column of B is the parent's, expressed in the child's frame, and does
not contain the joint's rate or acceleration. The child's angular acceleration and the other columns
then follow from it and from the products of the child's angular velocity:

    alx = wy wz - B_yz      aly = B_xz - wx wz      alz = al_parent,z + qdd

so four products turn the column and no product with ``qd`` is left.

**A joint of any kind**, with rates W about and u along its body's axes (sums of ``S qd``), starts
from the motion of the parent's point at O, in the child's coordinates: w_p, al_p, B_p, a_p. For
constant qd, W and u are constant in the body, so

    w = w_p + W      al = al_p + W' + w_p x W      a' = a_p + u' + (w_p + w) x u

with W' and u' for the sums of ``S qdd``; B follows from w and al.

**The base** is at rest and its frame accelerates upwards by ``-gravity``: w, al and B are constant
zeros, which cost no operation in the first joint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from pinion.robot import Inertia, Joint, JointKind, Model

from .axis import Axis, axes, axis_effort, joint_motion, joint_transform
from .coupled import coupling_of
from .joint_terms import FRICTION_WIDTH, joint_terms_of
from .scalar import Scalar, add, mul, scaled_sum, sub
from .spatial import (
    ZERO,
    JointTransform,
    Matrix,
    Spatial,
    Vector,
    conjugate,
    cross,
    plus,
    rotate,
    scale,
    times_constant,
    vadd,
    vsub,
)
from .tensor import matrix_to_child, times

Region = Callable[[str, int], AbstractContextManager[object]]
"""Context manager around each step of an algorithm, called with the name of the pass and the number
of the body, 1 for the first, such as ``region("forward", 3)``."""


def no_region(pass_name: str, body: int | None = None) -> AbstractContextManager[object]:
    """Return a context manager without effect, in place of a tracer's region."""
    return nullcontext((pass_name, body))


@dataclass(frozen=True, kw_only=True)
class BodyMotion:
    """Motion of a body, in its own coordinates.

    Members
    -------
    w : (3,) angular velocity [rad/s].
    al : (3,) angular acceleration [rad/s^2].
    B : (3, 3) acceleration of a point of the body per metre from the origin [1/s^2].
    a : (3,) classical acceleration of the frame's origin, gravity as an upward motion [m/s^2].
    """

    w: Vector
    al: Vector
    B: Matrix
    a: Vector


def base_motion(model: Model) -> BodyMotion:
    """Return the motion of the fixed base: at rest, accelerating against gravity."""
    x, y, z = model.gravity
    return BodyMotion(w=ZERO, al=ZERO, B=(ZERO, ZERO, ZERO), a=(0.0 - x, 0.0 - y, 0.0 - z))


def forward_step(
    joint: Joint,
    parent: BodyMotion,
    X: JointTransform,
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
) -> tuple[BodyMotion, BodyMotion]:
    """Return a child's motion from its parent's, across one joint.

    ``X`` is the joint's transform at its position, ``qd`` its rates [rad/s | m/s], ``qdd`` its
    accelerations [rad/s^2 | m/s^2]. Returns the child's motion and ``before`` of
    :class:`BodyState`.
    """
    if not joint.kind.simple:
        before = point_at_the_child(joint, parent, X)
        return across_any(joint, before, qd, qdd), before
    a = at_the_joint(joint, parent)
    if joint.kind is JointKind.REVOLUTE:
        motion = across_revolute(joint, parent, X, a, qd[0], qdd[0])
        return motion, motion
    motion = across_prismatic(joint, parent, X.shift[2], a, qd[0], qdd[0])
    return motion, motion


def at_the_joint(joint: Joint, parent: BodyMotion) -> Vector:
    """Return the acceleration of the parent's point at the joint's origin, in the joint's frame."""
    return rotate(joint.tree.E, vadd(parent.a, times_constant(parent.B, joint.tree.r)))


def across_revolute(
    joint: Joint, parent: BodyMotion, X: JointTransform, a: Vector, qd: Scalar, qdd: Scalar
) -> BodyMotion:
    """Return the motion of a revolute joint's child; ``a``: acceleration of the joint's origin."""
    E = joint.tree.E
    w_parent = rotate(E, parent.w)
    B_axis = X.turn(rotate(E, times_constant(parent.B, E[2])))
    w_turned = X.turn(w_parent)
    w = (w_turned[0], w_turned[1], add(w_turned[2], qd))

    xx, zz = mul(w[0], w[0]), mul(w[2], w[2])
    xy, xz, yz = mul(w[0], w[1]), mul(w[0], w[2]), mul(w[1], w[2])
    B_xz, B_yz, B_zz = B_axis
    al = (sub(yz, B_yz), sub(B_xz, xz), add(scaled_sum(E[2], parent.al), qdd))
    # B_zz, the square of w's part across the axis, is available early: of the other squares only xx
    # is needed. Likewise 2 yz - B_yz, not yz + alx: one addition after the recursion, not two.
    B = (
        (add(xx, sub(B_zz, zz)), sub(xy, al[2]), B_xz),
        (add(xy, al[2]), sub(0.0, add(xx, zz)), B_yz),
        (sub(add(xz, xz), B_xz), sub(add(yz, yz), B_yz), B_zz),
    )
    return BodyMotion(w=w, al=al, B=B, a=X.turn(a))


def across_prismatic(
    joint: Joint, parent: BodyMotion, shift: Scalar, a: Vector, qd: Scalar, qdd: Scalar
) -> BodyMotion:
    """Return the motion of a prismatic joint's child, whose origin moves along the joint's z.

    ``a_child = a + B z q + 2 w x z qd + z qdd``: transport to the shifted origin, Coriolis, own.
    """
    E = joint.tree.E
    w = rotate(E, parent.w)
    B = conjugate(E, parent.B)
    transport = scale(shift, (B[0][2], B[1][2], B[2][2]))
    rate = add(qd, qd)
    coriolis_and_own = (mul(w[1], rate), sub(0.0, mul(w[0], rate)), qdd)
    a_child = vadd(a, vadd(transport, coriolis_and_own))
    return BodyMotion(w=w, al=rotate(E, parent.al), B=B, a=a_child)


def point_at_the_child(joint: Joint, parent: BodyMotion, X: JointTransform) -> BodyMotion:
    """Return the motion of the parent's point at the child's origin, in child coordinates."""
    a = at_the_joint(joint, parent)
    B = matrix_to_child(X, parent.B)
    return BodyMotion(
        w=X.to_child(parent.w),
        al=X.to_child(parent.al),
        B=B,
        a=vadd(X.turn(a), times(B, X.shift)),
    )


def across_any(
    joint: Joint, before: BodyMotion, qd: Sequence[Scalar], qdd: Sequence[Scalar]
) -> BodyMotion:
    """Return the motion of a child after a joint of any kind, from the motion ``before`` it."""
    turned, moving = joint_motion(joint, qd)
    gained_al, gained_a = joint_motion(joint, qdd)
    w = vadd(before.w, turned)
    al = vadd(vadd(before.al, gained_al), cross(before.w, turned))
    coriolis = vadd(cross(before.w, moving), cross(w, moving))
    a = vadd(vadd(before.a, gained_a), coriolis)
    return BodyMotion(w=w, al=al, B=turning(w, al), a=a)


def turning(w: Vector, al: Vector) -> Matrix:
    """Return ``B = [al]x + [w]x [w]x`` of an angular velocity and acceleration."""
    xx, yy, zz = mul(w[0], w[0]), mul(w[1], w[1]), mul(w[2], w[2])
    xy, xz, yz = mul(w[0], w[1]), mul(w[0], w[2]), mul(w[1], w[2])
    return (
        (sub(0.0, add(yy, zz)), sub(xy, al[2]), add(xz, al[1])),
        (add(xy, al[2]), sub(0.0, add(xx, zz)), sub(yz, al[0])),
        (sub(xz, al[1]), add(yz, al[0]), sub(0.0, add(xx, yy))),
    )


def body_force(inertia: Inertia, motion: BodyMotion) -> Spatial:
    """Return the moment about the origin [N m] and the force [N] that a body's motion needs.

    Products of inertia multiply entries of B, moments of inertia multiply al and ``wy wz`` and so
    on; equal moments and zero products of inertia save operations.
    """
    xx, xy, xz, yy, yz, zz = inertia.I
    w, al, B = motion.w, motion.al, motion.B
    diagonal = (
        scaled_sum((xx, zz - yy), (al[0], mul(w[1], w[2]))),
        scaled_sum((yy, xx - zz), (al[1], mul(w[0], w[2]))),
        scaled_sum((zz, yy - xx), (al[2], mul(w[0], w[1]))),
    )
    # Differences of B's diagonal, so that each product of inertia multiplies once per row.
    x_y, y_z, z_x = sub(B[0][0], B[1][1]), sub(B[1][1], B[2][2]), sub(B[2][2], B[0][0])
    products = (
        scaled_sum((-xy, xz, yz), (B[2][0], B[1][0], y_z)),
        scaled_sum((xy, xz, -yz), (B[2][1], z_x, B[0][1])),
        scaled_sum((xy, -xz, yz), (x_y, B[1][2], B[0][2])),
    )
    force = vadd(scale(inertia.mass, motion.a), times_constant(B, inertia.h))
    moment = vadd(vadd(diagonal, products), cross(inertia.h, motion.a))
    return moment, force


def less_external(f: Spatial, f_ext: Sequence[Sequence[Scalar]] | None, body: int) -> Spatial:
    """Return the force that a body's motion needs, less the external force on the body.

    ``f`` : the force that the motion needs; ``f_ext`` : external force on each body,
    ``[angular; linear]``; both in the body's coordinates about its origin [N m, N].
    """
    if f_ext is None:
        return f
    n_x, n_y, n_z, f_x, f_y, f_z = f_ext[body]
    return vsub(f[0], (n_x, n_y, n_z)), vsub(f[1], (f_x, f_y, f_z))


@dataclass(frozen=True, kw_only=True)
class BodyState:
    """Results of the forward pass for a body, in the body's own coordinates.

    Members
    -------
    X : the transform of the body's joint.
    motion : the body's motion.
    before : motion of the parent's point at the body's origin, in the body's coordinates; equal to
        ``motion`` for a revolute or prismatic joint, whose axis sees no difference.
    f : moment about its origin [N m] and force [N] that its motion needs, less the external force.
    """

    X: JointTransform
    motion: BodyMotion
    before: BodyMotion
    f: Spatial


def forward_body(
    model: Model,
    i: int,
    before: Sequence[BodyState],
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    f_ext: Sequence[Sequence[Scalar]] | None,
) -> BodyState:
    """Return the state of body i from its parent's, which is among the states ``before``.

    ``q``, ``qd``, ``qdd`` : positions [rad | m], rates and accelerations of the body's joint;
    ``f_ext`` as for :func:`rnea_scalars`.
    """
    body = model.bodies[i]
    X = joint_transform(body.joint, q)
    parent = base_motion(model) if body.parent < 0 else before[body.parent].motion
    motion, carried = forward_step(body.joint, parent, X, qd, qdd)
    f = less_external(body_force(body.inertia, motion), f_ext, i)
    return BodyState(X=X, motion=motion, before=carried, f=f)


def forward_pass(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    f_ext: Sequence[Sequence[Scalar]] | None,
    region: Region,
    *,
    name: str = "forward",
) -> list[BodyState]:
    """Return the states of all bodies, parents first; ``name`` names the pass for ``region``.

    Arguments as for :func:`rnea_scalars`.
    """
    states: list[BodyState] = []
    for i, (at, v_at) in enumerate(zip(model.q_slices, model.v_slices, strict=True)):
        with region(name, i + 1):
            states.append(forward_body(model, i, states, q[at], qd[v_at], qdd[v_at], f_ext))
    return states


def backward_step(
    joint: Sequence[Axis], X: JointTransform, f: Spatial
) -> tuple[list[Scalar], Spatial]:
    """Return one joint's efforts and the force through it, carried from the child to the parent.

    ``f`` acts on the child about its origin, child coordinates. Returns tau [N m | N] and the
    moment and force on the parent about the parent's origin.
    """
    return [axis_effort(axis, f) for axis in joint], X.force_to_parent(*f)


def backward_pass(
    model: Model, states: Sequence[BodyState], region: Region
) -> tuple[list[Scalar], list[Spatial]]:
    """Return the joints' efforts, (nv,), and the force through each joint, from the bodies' forces.

    The second is the moment and the force on a body and everything it carries, about the body's
    origin in its coordinates.
    """
    f = [state.f for state in states]
    v_slices = model.v_slices
    tau: list[Scalar] = [0.0] * model.nv
    for i in reversed(range(len(states))):
        body = model.bodies[i]
        with region("backward", i + 1):
            tau[v_slices[i]], carried = backward_step(axes(body.joint), states[i].X, f[i])
            if body.parent >= 0:
                f[body.parent] = plus(f[body.parent], carried)
    return tau, f


def rnea_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    f_ext: Sequence[Sequence[Scalar]] | None = None,
    region: Region = no_region,
    *,
    joint_terms: bool | Sequence[str] = (),
    friction_width: float = FRICTION_WIDTH,
) -> list[Scalar]:
    """Return the joint efforts ``tau = M(q) qdd + C(q, qd) qd + g(q)``, for any scalar type.

    M includes the armature.

    Arguments
    ---------
    q : (nq,) scalars, joint positions [rad | m].
    qd, qdd : (nv,) scalars, joint rates and accelerations.
    f_ext : external force on each body, ``[angular; linear]`` in body coordinates about its origin
        [N m, N]; subtracted, as in Algorithm 1.
    region : called with the name of a pass and the number of a body, 1 for the first; returns a
        context manager around that step of the algorithm. The passes are ``forward`` and
        ``backward``.
    joint_terms, friction_width : joint terms besides the armature, as for
        :func:`.joint_terms.joint_terms_of`.

    Returns
    -------
    tau : (nv,) scalars [N m | N].
    """
    if model.coupled:
        tied = coupling_of(model, region)
        every = tied.positions(q), tied.rates(qd), tied.rates(qdd)
        terms_of: Any = {"joint_terms": joint_terms, "friction_width": friction_width}
        return tied.efforts(rnea_scalars(tied.model, *every, f_ext, region, **terms_of))
    tau, _ = backward_pass(model, forward_pass(model, q, qd, qdd, f_ext, region), region)
    terms = joint_terms_of(model, joint_terms, friction_width)
    for i, v_at in enumerate(model.v_slices):
        acting = [k for k in range(v_at.start, v_at.stop) if terms.acts_on(k)]
        with region("backward", i + 1) if acting else nullcontext():
            for k in acting:
                passive = terms.effort(k, q, qd)
                tau[k] = add(tau[k], add(mul(terms.armature[k], qdd[k]), passive))
    return tau
