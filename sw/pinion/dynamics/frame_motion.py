r"""Accelerations of links' frames and time derivatives of their Jacobians, for any scalar type.

The spatial acceleration of a frame is the time derivative of its spatial velocity. The classical
acceleration has the derivative of the origin's velocity as its linear part, which is larger by
``w x v``; an accelerometer measures it, minus gravity. The derivative J' of a Jacobian J in one of
``REFERENCES`` (:mod:`.kinematics`) is that of its elements: ``J qdd + J' qd`` is the spatial
acceleration for ``world`` and ``local``, and the classical one for ``local_world_aligned``.

In base axes a column of J is the spatial axis s of a joint; its derivative is ``v_j x s`` with the
spatial velocity v_j of the joint's body (Featherstone 2008, chapter 2). About a point that moves
with the velocity p', subtract ``p' x s_w`` from the linear part; in the axes of a frame with the
velocity v, subtract ``v x s``.
"""

from __future__ import annotations

from collections.abc import Sequence

from pinion.robot import Model

from .axis import axis_motion, joint_motion, joint_transform, numbered_axes
from .bias import weightless
from .checks import check_choice
from .coupled import coupling_of
from .kinematics import REFERENCES, Reference, body_poses_scalars, frame_of, path_to, pose_of_frame
from .matrices import Rows, zeros
from .rnea import BodyMotion, Region, base_motion, forward_step, no_region
from .scalar import Scalar
from .spatial import (
    NOTHING,
    ZERO,
    Spatial,
    Vector,
    cross,
    plus,
    rotate,
    scale,
    times_constant,
    vadd,
    vsub,
)


# Many parameters: a state, a frame, and the choices of Pinocchio's getFrameAcceleration.
def frame_acceleration_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar] | None,
    frame: str,
    region: Region = no_region,
    *,
    reference: Reference = "local_world_aligned",
    classical: bool = False,
) -> tuple[Vector, Vector]:
    """Return the angular [rad/s^2] and linear [m/s^2] acceleration of a link's frame, (3,) each.

    Arguments
    ---------
    q : (nq,) scalars, joint positions [rad | m].
    qd, qdd : (nv,) scalars, joint rates and accelerations; None for zero accelerations.
    frame : the name of a link.
    region : as for :func:`.rnea.rnea_scalars`, with the passes ``forward`` and ``pose``.
    reference : one of ``REFERENCES``.
    classical : whether to return the classical acceleration instead of the spatial one. Neither
        includes gravity.
    """
    check_choice("reference", reference, REFERENCES)
    if model.coupled:
        tied = coupling_of(model, region)
        states = tied.positions(q), tied.rates(qd), None if qdd is None else tied.rates(qdd)
        return frame_acceleration_scalars(
            tied.model, *states, frame, region, reference=reference, classical=classical
        )
    named = frame_of(model, frame)
    accelerations = [0.0] * model.nv if qdd is None else qdd
    motion, v = _motion_of_body(weightless(model), named.body, q, qd, accelerations, region)
    E, r = named.placement.E, named.placement.r
    with region("forward", named.body + 1):
        w, al = rotate(E, motion.w), rotate(E, motion.al)
        velocity = rotate(E, vsub(v, cross(r, motion.w)))
        point = rotate(E, vadd(motion.a, times_constant(motion.B, r)))
        linear = point if classical else vsub(point, cross(w, velocity))
    if reference == "local":
        return al, linear
    body = body_poses_scalars(model, q, path_to(model, named.body), region)[named.body]
    with region("pose", named.body + 1):
        pose = pose_of_frame(named, body)
        angular, linear = pose.to_base(al), pose.to_base(linear)
        if reference == "world":
            linear = vadd(linear, cross(pose.p, angular))
            if classical:  # of the body's point at the base's origin
                at_origin = cross(pose.p, pose.to_base(w))
                linear = vadd(linear, cross(pose.to_base(w), at_origin))
    return angular, linear


def _motion_of_body(
    model: Model,
    number: int,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    region: Region,
) -> tuple[BodyMotion, Vector]:
    """Return a body's motion and its origin's velocity [m/s], in the body's coordinates."""
    motion, linear = base_motion(model), ZERO
    for i in path_to(model, number):
        at, place = model.q_slices[i], model.v_slices[i]
        joint = model.bodies[i].joint
        with region("forward", i + 1):
            X = joint_transform(joint, q[at])
            _, carried = X.motion_to_child(motion.w, linear)
            linear = vadd(carried, joint_motion(joint, qd[place])[1])
            motion, _ = forward_step(joint, motion, X, qd[place], qdd[place])
    return motion, linear


def frame_jacobian_rate_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    frame: str,
    region: Region = no_region,
    *,
    reference: Reference = "local_world_aligned",
) -> Rows:
    """Return the time derivative J' (6, nv) of the Jacobian of a link's frame.

    ``q``, ``qd``, ``frame``, ``reference`` : as for :func:`frame_acceleration_scalars`;
    ``region`` : as there, with the passes ``pose``, ``forward`` and ``column``. Columns of joints
    that do not move the frame are the constant zero.
    """
    check_choice("reference", reference, REFERENCES)
    if model.coupled:
        tied = coupling_of(model, region)
        states = tied.positions(q), tied.rates(qd)
        rows = frame_jacobian_rate_scalars(tied.model, *states, frame, region, reference=reference)
        return tied.of_columns(rows)
    named = frame_of(model, frame)
    path = path_to(model, named.body)
    poses = body_poses_scalars(model, q, path, region)
    with region("pose", named.body + 1):
        pose = pose_of_frame(named, poses[named.body])
    joints = numbered_axes(model)
    v = NOTHING  # spatial velocity in base axes about the base's origin
    columns: list[tuple[int, Spatial, Spatial]] = []  # each axis with its rate
    for i in path:
        of_joint: list[tuple[int, Spatial]] = []
        with region("column", i + 1):
            for j, axis in joints[i]:
                w, linear = map(poses[i].to_base, axis_motion(axis, 1.0))
                of_joint.append((j, (w, vadd(linear, cross(poses[i].p, w)))))
        with region("forward", i + 1):
            for j, s in of_joint:
                v = plus(v, (scale(qd[j], s[0]), scale(qd[j], s[1])))
        with region("column", i + 1):
            columns += [(j, s, cross_motion(v, s)) for j, s in of_joint]
    rates = zeros(6, model.nv)
    with region("forward", named.body + 1):
        point = vadd(v[1], cross(v[0], pose.p))  # velocity of the frame's origin
    for j, s, rate in columns:
        with region("column", named.body + 1):
            angular, linear = rate
            if reference == "local":
                turned, moved = cross_motion(v, s)
                angular, linear = vsub(angular, turned), vsub(linear, moved)
            if reference != "world":
                linear = vsub(linear, cross(pose.p, angular))
            if reference == "local_world_aligned":
                linear = vsub(linear, cross(point, s[0]))
            if reference == "local":
                angular, linear = pose.from_base(angular), pose.from_base(linear)
            for k, element in enumerate((*angular, *linear)):
                rates[k][j] = element
    return rates


def cross_motion(v: Spatial, s: Spatial) -> Spatial:
    """Return ``v x s`` of two spatial motions."""
    return cross(v[0], s[0]), vadd(cross(v[0], s[1]), cross(v[1], s[0]))
