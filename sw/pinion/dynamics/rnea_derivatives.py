r"""Gradient of inverse dynamics in closed form, from composite inertias and Coriolis terms.

Sources: Singh, Russell and Wensing, "Efficient Analytical Derivatives of Rigid-Body Dynamics using
Spatial Vector Algebra", 2022; Carpentier and Mansard 2018; restated here in the classical
accelerations of :mod:`.rnea`. :mod:`.column_derivatives` has the column recursion of Plancher et
al. 2021, Algorithm 2; both give the same numbers.

**Three vectors describe a column.** Seen from the subtree that joint j moves, a change of ``q_j``
or ``qd_j`` only changes how the subtree is carried: by ``dw`` in the angular velocity (only through
Coriolis accelerations), ``dal`` in the angular and ``da`` in the origin's acceleration,

    acceleration of a point r that moves by rdot:   da + dal x r + 2 dw x rdot.

In the coordinates of body j, with its motion (w, al, B, a), and ``psi = w x z``:

                      dw     dal      da
    revolute   d/dq   psi    B z      a x z
               d/dqd  z      2 psi    0
    prismatic  d/dq   0      0        B z
               d/dqd  0      0        2 psi

All of these are already known from inverse dynamics. (A revolute joint does not move its own axis:
B z, and psi, are the parent's; the parent's motion as the subtree sees it turns by ``- z x``, so
``dw = psi`` and ``dal = al x z + w x psi = B z``.)

**A joint of any kind** has a column for each column s = [s_w; s_v] of its S. Its body's motion is
not sufficient, because its axes move each other: a displacement along s is relative to the parent,
whose point at the body's origin moves with (w_p, al_p, B_p, a_p). With u for the linear part of
``S qd``, all in the body's coordinates,

                      dw          dal                 da
    any        d/dq   w_p x s_w   B_p s_w             B_p s_v + a_p x s_w + 2 (w_p x s_w) x u
               d/dqd  s_w         (w + w_p) x s_w     (w + w_p) x s_v + s_w x u

**Below and above the diagonal.** With (m, h, I, l, Q) of joint i's subtree (:mod:`.composite`),

    moment = h x da + I dal + Q dw        force = m da + dal x h + dw x l

*tau_i, q_j for j above i*: joint i takes the component of the wrench along its axis, so that row is
carried from i to j's frame, where the column's vectors are sparse. A motion (dw, dal, da) arrives
at the end of a lever r that moves by rdot as ``da + dal x r + 2 dw x rdot``, so the row
(g_w, g_al, g_a) is carried back as ``g_al + r x g_a`` and ``g_w + 2 rdot x g_a``; (g_al, g_a) is
CRBA's ``IC S``.
*tau_j, q_i for j above i*: the wrench of joint i's own column is carried towards the root, and so
turns (or shifts) with the joint, by ``S x* f`` with the net force f on the subtree.

The joint-space inertia matrix is a by-product.

Hardware and programs use this form, which has the fewest operations. :mod:`.column_derivatives` has
the formulation of Plancher et al., and :mod:`.general.derivatives` that with 6x6 matrices in base
axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from pinion.robot import Joint, Model

from .axis import (
    Axis,
    axes,
    axis_effort,
    axis_motion,
    axis_part,
    cross_axis,
    joint_motion,
    numbered_axes,
    plus_axis_cross_force,
)
from .checks import check_choice, check_mass
from .column_derivatives import column_derivatives_from_links_scalars, column_derivatives_scalars
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
)
from .coupled import coupling_of
from .joint_terms import FRICTION_WIDTH, add_slopes, joint_terms_of
from .link_states import Links, given_body
from .matrices import Rows, zeros
from .rnea import BodyMotion, BodyState, Region, forward_body, no_region
from .scalar import Scalar, add
from .spatial import (
    ZERO,
    JointTransform,
    Spatial,
    Vector,
    cross,
    cross_z,
    dot,
    plus,
    scale,
    vadd,
    vsub,
)
from .tensor import full, times

DERIVATIVE_METHODS = ("composite", "column")


@dataclass(frozen=True, kw_only=True)
class SubtreeChange:
    """Change of a subtree's motion with its joint's variable, in body coordinates.

    Members
    -------
    dw : (3,) change of angular velocity, by its Coriolis acceleration.
    dal : (3,) change of angular acceleration.
    da : (3,) change of the origin's acceleration.
    """

    dw: Vector
    dal: Vector
    da: Vector


Columns = Callable[
    [Joint, BodyMotion, BodyMotion, Sequence[Scalar]], list[tuple[SubtreeChange, SubtreeChange]]
]
"""Type of :func:`columns`."""


def columns(
    joint: Joint, motion: BodyMotion, before: BodyMotion, qd: Sequence[Scalar]
) -> list[tuple[SubtreeChange, SubtreeChange]]:
    """Return the position and rate columns of each of a joint's axes, in its body's coordinates.

    ``motion``, ``before`` : of the body, as in :class:`.rnea.BodyState`; ``qd`` : rates of the
    joint.
    """
    if joint.kind.simple:
        return [columns_about_z(axis, motion) for axis in axes(joint)]
    _, moving = joint_motion(joint, qd)
    return [columns_of_any(axis, motion, before, moving) for axis in axes(joint)]


def columns_about_z(axis: Axis, motion: BodyMotion) -> tuple[SubtreeChange, SubtreeChange]:
    """Return the columns of a revolute or prismatic joint from its body's motion.

    The table above has ``B z`` and ``2 psi`` in the half where S has its z, angular or linear, and
    ``a x z`` where ``[0; a] x S`` has it; ``psi`` and ``z`` change w if the joint turns.
    """
    psi = cross_z(motion.w, 1.0)
    phi: Vector = (motion.B[0][2], motion.B[1][2], motion.B[2][2])
    twice = vadd(psi, psi)
    dal, da = plus(axis_part(axis, phi), cross_axis(axis, (ZERO, motion.a), 1.0))
    by_q = SubtreeChange(dw=axis_part(axis, psi)[0], dal=dal, da=da)
    dal, da = axis_part(axis, twice)
    return by_q, SubtreeChange(dw=axis_motion(axis, 1.0)[0], dal=dal, da=da)


def columns_of_any(
    axis: Axis, motion: BodyMotion, before: BodyMotion, moving: Vector
) -> tuple[SubtreeChange, SubtreeChange]:
    """Return the columns of one axis of a joint of any kind, whose linear rate is ``moving``."""
    angular, linear = axis_motion(axis, 1.0)
    dw = cross(before.w, angular)
    da = vadd(times(before.B, linear), cross(before.a, angular))
    da = vadd(da, cross(vadd(dw, dw), moving))
    by_q = SubtreeChange(dw=dw, dal=times(before.B, angular), da=da)
    both = vadd(motion.w, before.w)
    da = vadd(cross(both, linear), cross(angular, moving))
    return by_q, SubtreeChange(dw=angular, dal=cross(both, angular), da=da)


def wrench(column: SubtreeChange, inertia: Composite, coriolis: Coriolis) -> Spatial:
    """Return the moment and the force that a column's change of motion requires on a subtree."""
    moment = vadd(times(full(inertia.I), column.dal), times(coriolis.Q, column.dw))
    moment = vadd(moment, vsub(ZERO, cross(column.da, inertia.h)))
    force = vadd(cross(column.dal, inertia.h), cross(column.dw, coriolis.l))
    return moment, vadd(force, scale(inertia.mass, column.da))


@dataclass(frozen=True, kw_only=True)
class Row:
    """Linear map from a column (dw, dal, da) to a joint's effort, in some body's coordinates."""

    g_w: Vector
    g_al: Vector
    g_a: Vector

    def times(self, column: SubtreeChange) -> Scalar:
        """Return the joint's effort for a column."""
        rigid = add(dot(column.dal, self.g_al), dot(column.da, self.g_a))
        return add(rigid, dot(column.dw, self.g_w))


def axis_row(axis: Axis, inertia: Composite, coriolis: Coriolis) -> Row:
    """Return the row of an axis in its own body: the wrench's component along it."""
    S = axis_motion(axis, 1.0)
    g_al, g_a = inertia.times(*S)
    return Row(g_w=coriolis.row(*S), g_al=g_al, g_a=g_a)


def row_to_parent(X: JointTransform, drift: Drift, row: Row) -> Row:
    """Transform a row from a body's coordinates to its parent's."""
    g_w = X.to_parent(vadd(row.g_w, cross(drift.shift, row.g_a)))
    g_al, g_a = X.force_to_parent(row.g_al, row.g_a)
    return Row(g_w=vadd(g_w, cross(drift.tree, g_a)), g_al=g_al, g_a=g_a)


def joint_drift(joint: Joint, state: BodyState, parent_w: Vector, qd: Sequence[Scalar]) -> Drift:
    """Return twice the velocities of the ends of a joint's two levers.

    ``parent_w`` is the parent's angular velocity in its own coordinates, ``qd`` the joint's rates;
    the lever after the rotation also turns with the parent, and grows by the rates of its shifts.
    """
    x, y, z = joint.tree.r
    tree = vsub(ZERO, cross((2.0 * x, 2.0 * y, 2.0 * z), parent_w))
    _, growth = joint_motion(joint, qd)
    shift = state.X.shift
    turned = cross(state.before.w, vadd(shift, shift))
    return Drift(tree=tree, shift=vadd(turned, vadd(growth, growth)))


def composite_derivatives_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    f_ext: Sequence[Sequence[Scalar]] | None = None,
    region: Region = no_region,
    columns_of: Columns = columns,
) -> tuple[Rows, Rows, Rows]:
    """Return ``dtau/dq``, ``dtau/dqd`` and the inertia matrix M, each (nv, nv), in closed form.

    Arguments as for :func:`rnea_derivatives_scalars`.
    """
    at, v_at = model.q_slices, model.v_slices

    def state_of(i: int, before: Sequence[BodyState]) -> BodyState:
        return forward_body(model, i, before, q[at[i]], qd[v_at[i]], qdd[v_at[i]], f_ext)

    return derivatives_at(model, qd, state_of, region, columns_of=columns_of)


def rnea_derivatives_from_links_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    v: Links,
    a: Links,
    f: Links,
    region: Region = no_region,
    *,
    method: str = "composite",
) -> tuple[Rows, Rows]:
    """Return the position and rate gradients of inverse dynamics from the links' states.

    Source: the "split" partition of Plancher et al. 2021, Section IV-B: the coprocessor's part if
    its host ran Algorithm 1. Joint accelerations are not needed, since ``a`` includes them.

    Arguments
    ---------
    q, qd : as for :func:`rnea_derivatives_scalars`.
    v, a, f : (bodies, 6) scalars, velocity [rad/s, m/s], acceleration [rad/s^2, m/s^2] and force
        through the joint [N m, N] of each link, as from :func:`.link_states.link_states_scalars`.
        External forces are subtracted from f, and constant in the coordinates of their bodies.
    region, method : as for :func:`rnea_derivatives_scalars`.

    Returns
    -------
    dtau_dq, dtau_dqd : as from :func:`rnea_derivatives_scalars`, without joint terms.
    """
    check_choice("method", method, DERIVATIVE_METHODS)
    check_mass(model)
    if model.coupled:
        tied = coupling_of(model, region)
        every = tied.positions(q), tied.rates(qd)
        gradients = rnea_derivatives_from_links_scalars(
            tied.model, *every, v, a, f, region, method=method
        )
        return tied.square(gradients[0]), tied.square(gradients[1])
    if method == "column":
        return column_derivatives_from_links_scalars(model, q, qd, v, a, f, region)
    at = model.q_slices

    def state_of(i: int, before: Sequence[BodyState]) -> BodyState:
        return given_body(model, i, before, q[at[i]], v[i], a[i], f[i])

    dtau_dq, dtau_dqd, _ = derivatives_at(model, qd, state_of, region, carried=True)
    return dtau_dq, dtau_dqd


def derivatives_at(
    model: Model,
    qd: Sequence[Scalar],
    state_of: Callable[[int, Sequence[BodyState]], BodyState],
    region: Region,
    *,
    carried: bool = False,
    columns_of: Columns = columns,
) -> tuple[Rows, Rows, Rows]:
    """Return ``dtau/dq``, ``dtau/dqd`` and M, each (nv, nv), at the states of all bodies.

    ``state_of`` returns a body's state from those before it. ``carried`` : forces in the states
    cover everything a body carries, not only the body. ``columns_of`` : as for
    :func:`rnea_derivatives_scalars`.
    """
    bodies = model.bodies
    states: list[BodyState] = []
    drifts: list[Drift] = []
    coriolis: list[Coriolis] = []
    slices = model.v_slices
    for i, (body, v_at) in enumerate(zip(bodies, slices, strict=True)):
        with region("forward", i + 1):
            state = state_of(i, states)
            states.append(state)
            parent_w = ZERO if body.parent < 0 else states[body.parent].motion.w
            drifts.append(joint_drift(body.joint, state, parent_w, qd[v_at]))
            coriolis.append(own_coriolis(body.inertia, state.motion.w))

    def columns_at(i: int) -> list[tuple[SubtreeChange, SubtreeChange]]:
        return columns_of(bodies[i].joint, states[i].motion, states[i].before, qd[slices[i]])

    nets = [state.f for state in states]
    inertias = [own_composite(body.inertia) for body in bodies]
    M, dtau_dq, dtau_dqd = (zeros(model.nv) for _ in range(3))
    joints = numbered_axes(model)
    for i in reversed(range(len(bodies))):
        above, X = bodies[i].parent, states[i].X
        with region("backward", i + 1):
            if above >= 0:
                inertia = composite_to_parent(X, inertias[i])
                turned = coriolis_to_parent(X, drifts[i], inertias[i], coriolis[i])
                inertias[above] = joined(inertias[above], inertia)
                coriolis[above] = joined_coriolis(coriolis[above], turned)
                if not carried:
                    nets[above] = plus(nets[above], X.force_to_parent(*nets[i]))
        with region("column", i + 1):
            own_columns = columns_at(i)
            for (k, axis), (by_q, by_qd) in zip(joints[i], own_columns, strict=True):
                row = axis_row(axis, inertias[i], coriolis[i])
                for (m, other), (other_q, other_qd) in zip(joints[i], own_columns, strict=True):
                    if m <= k:
                        M[k][m] = M[m][k] = axis_effort(other, (row.g_al, row.g_a))
                    dtau_dq[k][m], dtau_dqd[k][m] = row.times(other_q), row.times(other_qd)
                own_q = wrench(by_q, inertias[i], coriolis[i])
                own_q = plus_axis_cross_force(axis, own_q, nets[i])
                own_qd = wrench(by_qd, inertias[i], coriolis[i])
                j = i
                while bodies[j].parent >= 0:
                    row = row_to_parent(states[j].X, drifts[j], row)
                    own_q = states[j].X.force_to_parent(*own_q)
                    own_qd = states[j].X.force_to_parent(*own_qd)
                    j = bodies[j].parent
                    others = zip(joints[j], columns_at(j), strict=True)
                    for (m, other), (other_q, other_qd) in others:
                        M[k][m] = M[m][k] = axis_effort(other, (row.g_al, row.g_a))
                        dtau_dq[k][m], dtau_dqd[k][m] = row.times(other_q), row.times(other_qd)
                        dtau_dq[m][k] = axis_effort(other, own_q)
                        dtau_dqd[m][k] = axis_effort(other, own_qd)
    return dtau_dq, dtau_dqd, M


# Many parameters: the quantities of the equation, and the optional terms.
def rnea_derivatives_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    f_ext: Sequence[Sequence[Scalar]] | None = None,
    region: Region = no_region,
    *,
    method: str = "composite",
    columns_of: Columns = columns,
    joint_terms: bool | Sequence[str] = (),
    friction_width: float = FRICTION_WIDTH,
) -> tuple[Rows, Rows]:
    """Return the position and rate gradients of inverse dynamics, for any scalar type.

    Arguments
    ---------
    q : (nq,) scalars, joint positions [rad | m].
    qd, qdd : (nv,) scalars, joint rates and accelerations.
    f_ext : external force on each body, ``[angular; linear]`` in body coordinates about its origin
        [N m, N]; constant in those coordinates, it turns with the body.
    region : as for :func:`.rnea.rnea_scalars`; the passes are ``forward``, ``backward`` and
        ``column``.
    method : ``composite`` for the closed form of this module, ``column`` for Algorithm 2 of
        Plancher et al. 2021 (revolute and prismatic joints only).
    columns_of : the columns of a joint, in the form of :func:`columns`; only for ``composite``.
    joint_terms, friction_width : as for :func:`.rnea.rnea_scalars`; armature does not contribute.

    Returns
    -------
    dtau_dq, dtau_dqd : (nv, nv) scalars, entry ``[i][j]`` is the derivative of ``tau_i``
        with respect to ``q_j`` (a tangent direction if positions are not a vector) or ``qd_j``.
        Joints on different branches have constant zeros.
    """
    check_choice("method", method, DERIVATIVE_METHODS)
    if model.coupled:
        tied = coupling_of(model, region)
        every = tied.positions(q), tied.rates(qd), tied.rates(qdd)
        terms_of: Any = {"joint_terms": joint_terms, "friction_width": friction_width}
        gradients = rnea_derivatives_scalars(
            tied.model, *every, f_ext, region, method=method, columns_of=columns_of, **terms_of
        )
        return tied.square(gradients[0]), tied.square(gradients[1])
    if method == "composite":
        dtau_dq, dtau_dqd, _ = composite_derivatives_scalars(
            model, q, qd, qdd, f_ext, region, columns_of
        )
    else:
        dtau_dq, dtau_dqd = column_derivatives_scalars(model, q, qd, qdd, f_ext, region)
    terms = joint_terms_of(model, joint_terms, friction_width)
    for i, v_at in enumerate(model.v_slices):
        acting = [k for k in range(v_at.start, v_at.stop) if terms.acts_on(k)]
        with region("column", i + 1) if acting else nullcontext():
            for k in acting:
                add_slopes(terms, dtau_dq, dtau_dqd, k, q, qd)
    return dtau_dq, dtau_dqd
