r"""Regressors: inverse dynamics, gravity and energies as linear functions of inertial parameters.

The equations of motion are linear in the ten parameters of each body (Atkeson, An, Hollerbach 1986;
Khalil and Dombre 2002, chapter 12): ``tau = Y(q, qd, qdd) pi``. ``pi`` holds for each body, in the
order of Pinocchio's ``Inertia.toDynamicParameters``,

    m    h_x h_y h_z    I_xx I_xy I_yy I_xz I_yz I_zz

its mass [kg], first moment [kg m] and rotational inertia [kg m^2] about the origin of the moving
link's frame and in its coordinates. This is the frame of the joint in Pinocchio's models. Links
fixed to the moving link belong to the same body. Armature is a parameter of a joint and has
separate columns (:func:`joint_regressor_scalars`).

**Columns.** The force on a body and the moment about that origin (:mod:`.rnea`) are

    force = m a + B h        moment = h x a + (terms of I)

with the classical acceleration ``a`` of the origin; ``a + B r`` is that of a point r. The axis of
joint i in the body's coordinates is a spatial motion ``s = [w; v]``, propagated from body to body
by ``s_child = Xup s``. Row i of the body's ten columns is ``s`` times the wrench of each parameter,

    m: v . a        h: B^T v + a x w        I: six products of w with entries of B, al and w w

Propagating an axis towards the leaves costs a tenth of propagating ten wrenches to the base. Rows
of joints that do not support the body are the constant zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from pinion.robot import Body, Model, Transform

from .axis import axis_motion, joint_motion, joint_transform, numbered_axes
from .checks import Array, columns_of, configurations, matrix_of, vector_of
from .coupled import coupling_of, elimination_parents
from .crba import crba_scalars
from .external import link_frames
from .joint_terms import FRICTION_WIDTH, joint_terms_of
from .kinematics import body_poses_scalars
from .ltdl import by_velocity, factors, scaled_rows, solve
from .matrices import Rows, transposed, zeros
from .minimal import parameters
from .rnea import BodyMotion, Region, base_motion, forward_step, no_region, rnea_scalars
from .scalar import Scalar, add, mul, scaled_sum, sub
from .spatial import (
    NOTHING,
    Spatial,
    Vector,
    conjugate,
    cross,
    dot,
    plus,
    rotate,
    times_constant,
    vadd,
    vsub,
)

PARAMETERS = ("m", "hx", "hy", "hz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
"""The inertial parameters of a body in the order of a regressor's columns."""


JointTerm = Literal["armature", "damping", "friction"]


def inertial_parameters(model: Model) -> list[float]:
    """Return the parameters ``pi`` of all bodies, (10 bodies,) [kg, kg m, kg m^2]."""
    values: list[float] = []
    for body, place in zip(model.bodies, link_frames(model), strict=True):
        E = np.array(place.E)
        inertia = parameters(body.inertia).moved(-np.array(place.r)).turned(E.T)
        xx, xy, xz, _, yy, yz, *_, zz = inertia.I.ravel().tolist()
        values += [inertia.m, *inertia.h.tolist(), xx, xy, yy, xz, yz, zz]
    return values


def seen_from(place: Transform, motion: BodyMotion) -> BodyMotion:
    """Return a body's motion in a body-fixed frame, about the frame's origin."""
    E = place.E
    return BodyMotion(
        w=rotate(E, motion.w),
        al=rotate(E, motion.al),
        B=conjugate(E, motion.B),
        a=rotate(E, vadd(motion.a, times_constant(motion.B, place.r))),
    )


def placed(place: Transform, motion: Spatial) -> Spatial:
    """Return a spatial motion in a body-fixed frame, about the frame's origin."""
    w, v = motion
    return rotate(place.E, w), rotate(place.E, vsub(v, cross(place.r, w)))


def wrench_power(axis: Spatial, motion: BodyMotion) -> list[Scalar]:
    """Return the product of an axis and a body's wrench for one unit of each parameter.

    Arguments
    ---------
    axis : (angular, linear), a spatial motion in the link's frame, about its origin.
    motion : motion of the body in the same frame.

    Returns
    -------
    power : (10,) scalars, in the order of :data:`PARAMETERS`.
    """
    w, v = axis
    al, B, a = motion.al, motion.B, motion.a
    x, y, z = w
    # Each serves two diagonal elements of I: (w x I w)_x holds (I_zz - I_yy) w_y w_z.
    x_yz = mul(x, mul(motion.w[1], motion.w[2]))
    y_xz = mul(y, mul(motion.w[0], motion.w[2]))
    z_xy = mul(z, mul(motion.w[0], motion.w[1]))
    x_y, y_z, z_x = sub(B[0][0], B[1][1]), sub(B[1][1], B[2][2]), sub(B[2][2], B[0][0])
    along = tuple(dot((B[0][k], B[1][k], B[2][k]), v) for k in range(3))
    h = vadd((along[0], along[1], along[2]), cross(a, w))
    return [
        dot(v, a),
        *h,
        add(mul(x, al[0]), sub(y_xz, z_xy)),
        add(sub(mul(y, B[2][1]), mul(x, B[2][0])), mul(z, x_y)),
        add(mul(y, al[1]), sub(z_xy, x_yz)),
        add(sub(mul(x, B[1][0]), mul(z, B[1][2])), mul(y, z_x)),
        add(sub(mul(z, B[0][2]), mul(y, B[0][1])), mul(x, y_z)),
        add(mul(z, al[2]), sub(x_yz, y_xz)),
    ]


def rnea_regressor_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    region: Region = no_region,
) -> Rows:
    """Return ``Y`` (nv, 10 bodies), with ``tau = Y pi`` for joints without armature.

    Arguments
    ---------
    q : (nq,) scalars, joint positions [rad | m].
    qd, qdd : (nv,) scalars, joint rates and accelerations.
    region : as for :func:`.rnea.rnea_scalars`, with the passes ``forward`` and ``column``.
    """
    if model.coupled:
        tied = coupling_of(model, region)
        states = tied.positions(q), tied.rates(qd), tied.rates(qdd)
        rows = rnea_regressor_scalars(tied.model, *states, region)
        return transposed([tied.efforts(column) for column in transposed(rows)])
    Y = zeros(model.nv, 10 * len(model.bodies))
    joints = numbered_axes(model)
    motions: list[BodyMotion] = []
    # For each body its supporting joints: row of Y, and axis in the body's coordinates.
    carriers: list[list[tuple[int, Spatial]]] = []
    frames = link_frames(model)
    slices = zip(model.bodies, model.q_slices, model.v_slices, strict=True)
    for i, (body, at, place) in enumerate(slices):
        with region("forward", i + 1):
            X = joint_transform(body.joint, q[at])
            parent = base_motion(model) if body.parent < 0 else motions[body.parent]
            motion, _ = forward_step(body.joint, parent, X, qd[place], qdd[place])
            motions.append(motion)
        with region("column", i + 1):
            above = [] if body.parent < 0 else carriers[body.parent]
            axes = [(row, X.motion_to_child(*axis)) for row, axis in above]
            axes += [(row, axis_motion(axis, 1.0)) for row, axis in joints[i]]
            carriers.append(axes)
            of_link = seen_from(frames[i], motion)
            for row, axis in axes:
                Y[row][10 * i : 10 * (i + 1)] = wrench_power(placed(frames[i], axis), of_link)
    return Y


def gravity_regressor_scalars(
    model: Model, q: Sequence[Scalar], region: Region = no_region
) -> Rows:
    """Return ``G`` (nv, 10 bodies) with ``g(q) = G pi``: the regressor of gravity efforts.

    ``q`` : (nq,) scalars, joint positions [rad | m]. Columns of rotational inertia are zero.
    """
    still: list[Scalar] = [0.0] * model.nv
    return rnea_regressor_scalars(model, q, still, still, region)


def kinetic_energy_regressor_scalars(
    model: Model, q: Sequence[Scalar], qd: Sequence[Scalar], region: Region = no_region
) -> list[Scalar]:
    """Return ``y`` (10 bodies,); ``y pi`` is the kinetic energy [J] without the armature's.

    ``q`` : (nq,) scalars, joint positions [rad | m]; ``qd`` : (nv,) scalars, joint rates;
    ``region`` : as for :func:`.rnea.rnea_scalars`, with the pass ``forward``.
    """
    if model.coupled:
        tied = coupling_of(model, region)
        return kinetic_energy_regressor_scalars(
            tied.model, tied.positions(q), tied.rates(qd), region
        )
    velocities: list[Spatial] = []
    row: list[Scalar] = []
    frames = link_frames(model)
    for i, (body, at, place) in enumerate(
        zip(model.bodies, model.q_slices, model.v_slices, strict=True)
    ):
        with region("forward", i + 1):
            parent = NOTHING if body.parent < 0 else velocities[body.parent]
            carried = joint_transform(body.joint, q[at]).motion_to_child(*parent)
            velocities.append(plus(carried, joint_motion(body.joint, qd[place])))
            w, v = placed(frames[i], velocities[i])
            x, y, z = (mul(0.5, component) for component in w)
            row.append(mul(0.5, dot(v, v)))
            row.extend(cross(v, w))
            row.extend((mul(x, w[0]), mul(w[0], w[1]), mul(y, w[1])))
            row.extend((mul(w[0], w[2]), mul(w[1], w[2]), mul(z, w[2])))
    return row


def potential_energy_regressor_scalars(
    model: Model, q: Sequence[Scalar], region: Region = no_region
) -> list[Scalar]:
    """Return ``y`` (10 bodies,); ``y pi`` is the potential energy [J] of :mod:`.energy`.

    ``q`` : (nq,) scalars, joint positions [rad | m]; ``region`` : as for
    :func:`.rnea.rnea_scalars`, with the pass ``pose``.
    """
    if model.coupled:
        tied = coupling_of(model, region)
        return potential_energy_regressor_scalars(tied.model, tied.positions(q), region)
    x, y, z = model.gravity
    upwards: Vector = (0.0 - x, 0.0 - y, 0.0 - z)
    poses = body_poses_scalars(model, q, region=region)
    row: list[Scalar] = []
    for i, place in enumerate(link_frames(model)):
        with region("pose", i + 1):
            of_body = poses[i].from_base(upwards)
            height = add(dot(upwards, poses[i].p), scaled_sum(place.r, of_body))
            row += [height, *rotate(place.E, of_body), *(6 * [0.0])]
    return row


def joint_regressor_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    term: JointTerm,
    region: Region = no_region,
) -> Rows:
    """Return efforts (nv, bodies) per unit of one joint term, a column for each body's joint.

    Arguments
    ---------
    q, qd, qdd : as for :func:`rnea_regressor_scalars`.
    term : ``armature`` [kg m^2 | kg], ``damping`` [N m s/rad | N s/m] or ``friction`` [N m | N],
        whose sign changes within ``FRICTION_WIDTH`` of zero. As in the model, a joint has one
        coefficient for all its velocities.
    region : as for :func:`.rnea.rnea_scalars`, with the pass ``joint``.
    """
    if model.coupled:
        tied = coupling_of(model, region)
        states = tied.positions(q), tied.rates(qd), tied.rates(qdd)
        rows = joint_regressor_scalars(tied.model, *states, term, region)
        return transposed([tied.efforts(column) for column in transposed(rows)])
    unit = replace(model, bodies=tuple(map(partial(with_unit, term), model.bodies)))
    terms = joint_terms_of(unit, () if term == "armature" else (term,))
    rows = zeros(model.nv, len(model.bodies))
    for i, place in enumerate(model.v_slices):
        with region("joint", i + 1):
            for k in range(place.start, place.stop):
                rows[k][i] = add(mul(terms.armature[k], qdd[k]), terms.effort(k, q, qd))
    return rows


def with_unit(term: JointTerm, body: Body) -> Body:
    """Return a body of 1 kg whose joint has one unit of this term and no other terms."""
    plain = replace(
        body.joint,
        armature=0.0,
        damping=0.0,
        friction=0.0,
        stiffness=0.0,
        damping_poly=(0.0, 0.0),
        stiffness_poly=(0.0, 0.0),
    )
    match term:
        case "armature":
            joint = replace(plain, armature=1.0)
        case "damping":
            joint = replace(plain, damping=1.0)
        case "friction":
            joint = replace(plain, friction=1.0)
    # joint_terms_of expects bodies with mass; a regressor also works without.
    return replace(body, joint=joint, inertia=replace(body.inertia, mass=1.0))


def fd_parameter_derivatives_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    region: Region = no_region,
    *,
    joint_terms: bool | Sequence[str] = (),
    friction_width: float = FRICTION_WIDTH,
) -> tuple[list[Scalar], Rows]:
    """Return qdd (nv,) and its parameter derivative ``-M^-1 Y`` (nv, 10 bodies).

    Arguments
    ---------
    q : (nq,) scalars, joint positions [rad | m].
    qd, tau : (nv,) scalars, joint rates and efforts [N m | N].
    region : as for :func:`.rnea.rnea_scalars`, with the passes of the algorithms used.
    joint_terms, friction_width : as for :func:`.rnea.rnea_scalars`.
    """
    still: list[Scalar] = [0.0] * model.nv
    at_body = by_velocity(model, region)
    factored = factors(elimination_parents(model), crba_scalars(model, q, region=region), at_body)
    terms: dict[str, Any] = {"joint_terms": joint_terms, "friction_width": friction_width}
    bias = rnea_scalars(model, q, qd, still, None, region, **terms)
    with region("solve", 1):
        scaled = scaled_rows(factored)
        qdd = solve(factored, scaled, [sub(t, b) for t, b in zip(tau, bias, strict=True)])
    columns: Rows = []
    for k, column in enumerate(transposed(rnea_regressor_scalars(model, q, qd, qdd, region))):
        with region("solve", k // 10 + 1):
            answer = solve(factored, scaled, [sub(0.0, element) for element in column])
            columns.append(list(answer))
    return qdd, transposed(columns)


def rnea_regressor(model: Model, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> Array:
    """Return the regressor of inverse dynamics: (nv, 10 bodies) or (n, nv, 10 bodies) float64.

    Arguments
    ---------
    q : (nq,) or (n, nq) float, joint positions [rad | m].
    qd, qdd : (nv,) or (n, nv) float, joint rates and accelerations.

    Returns
    -------
    Y : ``Y pi`` is :func:`.rnea` without armature; ``pi`` are the bodies' parameters
        (:func:`inertial_parameters`). Equal to Pinocchio's ``computeJointTorqueRegressor``, whose
        rows and columns are in the order of its joints.

    Raises
    ------
    DynamicsError : a shape is wrong, or a number is not finite.
    """
    x = configurations(model, q=q, qd=qd, qdd=qdd)
    states = [columns_of(x[name]) for name in ("q", "qd", "qdd")]
    rows = rnea_regressor_scalars(model, states[0], states[1], states[2])
    return matrix_of(rows, x["q"].shape[:-1])


def gravity_regressor(model: Model, q: ArrayLike) -> Array:
    """Return the regressor of the gravity efforts, (nv, 10 bodies) or (n, nv, 10 bodies).

    ``q`` : (nq,) or (n, nq) float, joint positions [rad | m]. Errors as for
    :func:`rnea_regressor`.
    """
    x = configurations(model, q=q)
    return matrix_of(gravity_regressor_scalars(model, columns_of(x["q"])), x["q"].shape[:-1])


def kinetic_energy_regressor(model: Model, q: ArrayLike, qd: ArrayLike) -> Array:
    """Return the regressor of the bodies' kinetic energy, (10 bodies,) or (n, 10 bodies).

    ``q``, ``qd`` : (nq,) and (nv,) or batches of them. Errors as for :func:`rnea_regressor`.
    """
    x = configurations(model, q=q, qd=qd)
    row = kinetic_energy_regressor_scalars(model, columns_of(x["q"]), columns_of(x["qd"]))
    return vector_of(row, x["q"].shape[:-1])


def potential_energy_regressor(model: Model, q: ArrayLike) -> Array:
    """Return the regressor of the potential energy, (10 bodies,) or (n, 10 bodies).

    ``q`` : (nq,) or (n, nq) float, joint positions [rad | m]. Errors as for
    :func:`rnea_regressor`.
    """
    x = configurations(model, q=q)
    row = potential_energy_regressor_scalars(model, columns_of(x["q"]))
    return vector_of(row, x["q"].shape[:-1])
