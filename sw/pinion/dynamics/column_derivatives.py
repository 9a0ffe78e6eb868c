r"""Gradient of inverse dynamics column by column: the reference formulation.

Source: Algorithms 1 and 2 of Plancher, Neuman, Bourgeat, Kuindersma, Devadas, Reddi, "Accelerating
Robot Dynamics Gradients on a CPU, GPU, and FPGA", 2021. With u the position or the rate of joint j,

    dv_i = X dv_p + { (X v_p) x S  |  S }
    da_i = X da_p + dv_i x S qd + { (X a_p) x S  |  v_i x S }
    df_i = I da_i + dv_i x* I v_i + v_i x* I dv_i
    dtau_i = S^T df_i,    df_p += X^T df_i + { X^T (S x* f_i)  |  0 }

where the braces have the terms of the position | of the rate, and apply at i = j only. On the way
down a column is zero above its joint and off the joint's branch; those constant zeros cost nothing.

It serves for comparison, with one chain of operations per joint as in the paper's accelerators. It
does not share :mod:`.rnea`'s forward pass, because a column needs the spatial velocities and
accelerations that :mod:`.rnea` avoids. As published, it is for single-axis joints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pinion.robot import Model

from .axis import (
    axes,
    axis_cross_force,
    axis_effort,
    axis_motion,
    cross_axis,
    joint_transform,
    plus_axis,
)
from .checks import DynamicsError
from .link_states import Links, spatial
from .ltdl import ancestors
from .matrices import Rows, zeros
from .rnea import Region, less_external, no_region
from .scalar import Scalar
from .spatial import NOTHING, ZERO, JointTransform, Spatial, cross_force, inertia_times, plus


@dataclass(frozen=True, kw_only=True)
class ForwardPass:
    """Results of Algorithm 1 that Algorithm 2 needs, for each body in its own coordinates.

    Members
    -------
    X : transform of each joint.
    v_before, v : spatial velocity, from the parent (before the joint's own) and in total.
    a_before, a : spatial acceleration, from the parent (before the joint's own; None if unknown)
        and in total.
    momentum : ``I v``.
    f : net force on the subtree.
    """

    X: list[JointTransform]
    v_before: list[Spatial]
    v: list[Spatial]
    a_before: list[Spatial] | None
    a: list[Spatial]
    momentum: list[Spatial]
    f: list[Spatial]


def rnea_state(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    f_ext: Sequence[Sequence[Scalar]] | None,
    region: Region,
) -> ForwardPass:
    """Run Algorithm 1 and return its intermediate vectors."""
    x, y, z = model.gravity
    gravity: Spatial = (ZERO, (0.0 - x, 0.0 - y, 0.0 - z))
    before: list[Spatial] = []
    state = ForwardPass(X=[], v_before=[], v=[], a_before=before, a=[], momentum=[], f=[])
    a = state.a
    for i, body in enumerate(model.bodies):
        (axis,) = axes(body.joint)
        with region("forward", i + 1):
            X = joint_transform(body.joint, (q[i],))
            v_before = NOTHING if body.parent < 0 else X.motion_to_child(*state.v[body.parent])
            a_before = X.motion_to_child(*(gravity if body.parent < 0 else a[body.parent]))
            v = plus_axis(axis, v_before, qd[i])
            joint_part = plus(axis_motion(axis, qdd[i]), cross_axis(axis, v_before, qd[i]))
            a.append(plus(a_before, joint_part))
            momentum = inertia_times(body.inertia, *v)
            f = plus(inertia_times(body.inertia, *a[i]), cross_force(v, momentum))
            state.X.append(X)
            state.v_before.append(v_before)
            state.v.append(v)
            before.append(a_before)
            state.momentum.append(momentum)
            state.f.append(less_external(f, f_ext, i))
    for i in reversed(range(model.nv)):
        parent = model.bodies[i].parent
        with region("backward", i + 1):
            if parent >= 0:
                state.f[parent] = plus(state.f[parent], state.X[i].force_to_parent(*state.f[i]))
    return state


def column_of(
    model: Model, qd: Sequence[Scalar], state: ForwardPass, j: int, *, by_rate: bool
) -> list[Scalar]:
    """Return the derivatives of all efforts with respect to joint j's q or qd (Algorithm 2)."""
    bodies = model.bodies
    n = len(bodies)
    dv: list[Spatial] = [NOTHING] * n
    da: list[Spatial] = [NOTHING] * n
    df: list[Spatial] = [NOTHING] * n
    subtree = [i for i in range(j, n) if i == j or j in ancestors(model.parents, i)]
    for i in subtree:
        body, X = bodies[i], state.X[i]
        (axis,) = axes(body.joint)
        if i != j:
            dv[i] = X.motion_to_child(*dv[body.parent])
            da[i] = X.motion_to_child(*da[body.parent])
            da[i] = plus(da[i], cross_axis(axis, dv[i], qd[i]))
        elif by_rate:
            dv[i] = axis_motion(axis, 1.0)
            da[i] = cross_axis(axis, state.v_before[i], 1.0)
        elif state.a_before is None:
            dv[i] = cross_axis(axis, state.v_before[i], 1.0)
            da[i] = cross_axis(axis, state.a[i], 1.0)
        else:
            dv[i] = cross_axis(axis, state.v_before[i], 1.0)
            da[i] = cross_axis(axis, state.a_before[i], 1.0)
            da[i] = plus(da[i], cross_axis(axis, dv[i], qd[i]))
        df[i] = inertia_times(body.inertia, *da[i])
        df[i] = plus(df[i], cross_force(dv[i], state.momentum[i]))
        df[i] = plus(df[i], cross_force(state.v[i], inertia_times(body.inertia, *dv[i])))
    dtau: list[Scalar] = [0.0] * n
    for i in reversed(sorted({*subtree, *ancestors(model.parents, j)})):
        body = bodies[i]
        (axis,) = axes(body.joint)
        dtau[i] = axis_effort(axis, df[i])
        if body.parent >= 0:
            if i == j and not by_rate:
                df[i] = plus(df[i], axis_cross_force(axis, state.f[i]))
            carried = state.X[i].force_to_parent(*df[i])
            df[body.parent] = plus(df[body.parent], carried)
    return dtau


def column_derivatives_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    f_ext: Sequence[Sequence[Scalar]] | None = None,
    region: Region = no_region,
) -> tuple[Rows, Rows]:
    """Return ``dtau/dq`` and ``dtau/dqd``, each (nv, nv), by the column recursion.

    Arguments as for :func:`.rnea_derivatives.rnea_derivatives_scalars`.

    Raises
    ------
    DynamicsError : a joint is neither revolute nor prismatic.
    """
    check_columns(model)
    return all_columns(model, qd, rnea_state(model, q, qd, qdd, f_ext, region), region)


def column_derivatives_from_links_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    v: Links,
    a: Links,
    f: Links,
    region: Region = no_region,
) -> tuple[Rows, Rows]:
    """Return ``dtau/dq`` and ``dtau/dqd``, each (nv, nv), by Algorithm 2 alone.

    Arguments as for :func:`.rnea_derivatives.rnea_derivatives_from_links_scalars`; raises like
    :func:`column_derivatives_scalars`.

    The motion before a joint's own is not needed: ``(X v_p) x S = v x S`` since ``S x S = 0``, and
    so ``(X a_p) x S + dv x S qd = a x S`` in the braces of q.
    """
    check_columns(model)
    state = ForwardPass(X=[], v_before=[], v=[], a_before=None, a=[], momentum=[], f=[])
    for i, body in enumerate(model.bodies):
        with region("forward", i + 1):
            state.X.append(joint_transform(body.joint, (q[i],)))
            state.v.append(spatial(v[i]))
            state.v_before.append(state.v[i])
            state.a.append(spatial(a[i]))
            state.momentum.append(inertia_times(body.inertia, *state.v[i]))
            state.f.append(spatial(f[i]))
    return all_columns(model, qd, state, region)


def check_columns(model: Model) -> None:
    """Raise `DynamicsError` unless all joints are revolute or prismatic, as columns require."""
    if not model.single_dof:
        raise DynamicsError(
            f"The gradient of {model.name!r} cannot be computed by columns, which support only "
            "revolute and prismatic joints: choose 'composite' (--derivatives composite)."
        )


def all_columns(
    model: Model, qd: Sequence[Scalar], state: ForwardPass, region: Region
) -> tuple[Rows, Rows]:
    """Return ``dtau/dq`` and ``dtau/dqd``, each (nv, nv), from Algorithm 1's results."""
    dtau_dq, dtau_dqd = zeros(model.nv), zeros(model.nv)
    for j in range(model.nv):
        with region("column", j + 1):
            by_q = column_of(model, qd, state, j, by_rate=False)
            by_qd = column_of(model, qd, state, j, by_rate=True)
            for i in range(model.nv):
                dtau_dq[i][j], dtau_dqd[i][j] = by_q[i], by_qd[i]
    return dtau_dq, dtau_dqd
