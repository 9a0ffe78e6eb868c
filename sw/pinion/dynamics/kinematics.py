r"""Kinematics of frames: placements, Jacobians, velocities.

A frame is a link of the robot's file, including links merged into other bodies and into the base, a
fixed joint, or either with an offset, ``link_7@0,0,0.1`` (:func:`pinion.robot.lookup.find_frame`).
The base's frame is the world.

The rotation R of a body into the base is stored as its rows, which are the base's axes in the
body's coordinates; they pass a joint like any vector. The unit vector of a joint's axis is a column
of R. With e_j and p_j the axis and the origin of joint j, and p the frame's origin, all in base
coordinates, a column of the Jacobian is (Featherstone 2008, section 2.4 and chapter 4)

    about e_j    [e_j; e_j x (p - p_j)]        along e_j    [0; e_j]

for the frame's origin in base axes. ``REFERENCES`` lists the choices of point and axes, which
correspond to Pinocchio's ``ReferenceFrame`` constants of the same names, here in the order
``[angular; linear]``.

The functions over scalars can be traced; they visit only the bodies between the frame and the base.
On arrays :mod:`.general.kinematics` serves robots with joints that are neither revolute nor
prismatic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from numpy.typing import ArrayLike

from pinion.robot import Frame, Model, RobotError
from pinion.robot.lookup import find_frame

from .axis import axis_motion, joint_motion, joint_transform, numbered_axes
from .checks import Array, DynamicsError, check_choice, split
from .coupled import coupling_of
from .general import kinematics as general
from .general.arrays import checked_arguments
from .matrices import Rows, zeros
from .rnea import Region, no_region
from .scalar import Scalar
from .spatial import (
    NOTHING,
    ZERO,
    Matrix,
    Vector,
    cross,
    dot,
    plus,
    rotate,
    scale,
    times_constant,
    vadd,
    vsub,
)

Reference = Literal["world", "local", "local_world_aligned"]

REFERENCES: tuple[Reference, ...] = ("world", "local", "local_world_aligned")
"""``world``: the point of the moving link at the base's origin, base axes (the spatial velocity in
base coordinates). ``local``: the frame's origin and axes. ``local_world_aligned``: the frame's
origin, base axes."""


@dataclass(frozen=True, kw_only=True)
class FramePose:
    """Pose of a frame in the base.

    Members
    -------
    R : (3, 3) rotation, frame coordinates to base coordinates.
    p : (3,) origin of the frame, base coordinates [m].
    """

    R: Matrix
    p: Vector

    def to_base(self, a: Vector) -> Vector:
        """Return ``R a``: a free vector from frame to base coordinates."""
        x, y, z = (dot(row, a) for row in self.R)
        return x, y, z

    def from_base(self, a: Vector) -> Vector:
        """Return ``R^T a``: a free vector from base to frame coordinates."""
        x, y, z = (scale(element, row) for element, row in zip(a, self.R, strict=True))
        return vadd(vadd(x, y), z)


BASE_POSE = FramePose(R=((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)), p=ZERO)


def frame_of(model: Model, name: str) -> Frame:
    """Return a frame by its name; raise :class:`DynamicsError` if there is none."""
    try:
        return find_frame(model, name)
    except RobotError as error:
        raise DynamicsError(str(error)) from None


def path_to(model: Model, body: int) -> list[int]:
    """Return the bodies from the base to ``body``, including ``body``; [] for -1."""
    path: list[int] = []
    while body >= 0:
        path.append(body)
        body = model.bodies[body].parent
    return path[::-1]


def body_poses_scalars(
    model: Model,
    q: Sequence[Scalar],
    bodies: Sequence[int] | None = None,
    region: Region = no_region,
) -> dict[int, FramePose]:
    """Return the poses of bodies in the base, by number; -1 is the base itself.

    Arguments
    ---------
    q : (nq,) scalars, joint positions [rad | m].
    bodies : the bodies, parents first and with all their ancestors; every body if None.
    region : as for :func:`.rnea.rnea_scalars`; the pass is ``pose``.
    """
    if model.coupled:
        tied = coupling_of(model, region)
        return body_poses_scalars(tied.model, tied.positions(q), bodies, region)
    poses = {-1: BASE_POSE}
    slices = model.q_slices
    for i in range(len(model.bodies)) if bodies is None else bodies:
        joint, parent = model.bodies[i].joint, poses[model.bodies[i].parent]
        with region("pose", i + 1):
            X = joint_transform(joint, q[slices[i]])
            R = (X.to_child(parent.R[0]), X.to_child(parent.R[1]), X.to_child(parent.R[2]))
            placed = vadd(parent.p, times_constant(parent.R, joint.tree.r))
            shift = dot(X.shift, R[0]), dot(X.shift, R[1]), dot(X.shift, R[2])
            poses[i] = FramePose(R=R, p=vadd(placed, shift))
    return poses


def frame_placement_scalars(
    model: Model, q: Sequence[Scalar], frame: str, region: Region = no_region
) -> tuple[Matrix, Vector]:
    """Return R (3, 3), frame to base coordinates, and the origin p (3,) [m], for any scalar type.

    ``q`` : (nq,) scalars, joint positions [rad | m]; ``frame`` : its name; ``region`` :
    as for :func:`.rnea.rnea_scalars`, with the pass ``pose``.
    """
    named = frame_of(model, frame)
    if model.coupled:
        tied = coupling_of(model, region)
        return frame_placement_scalars(tied.model, tied.positions(q), frame, region)
    body = body_poses_scalars(model, q, path_to(model, named.body), region)[named.body]
    with region("pose", named.body + 1):
        pose = pose_of_frame(named, body)
    return pose.R, pose.p


def frame_jacobian_scalars(
    model: Model,
    q: Sequence[Scalar],
    frame: str,
    *,
    reference: Reference = "world",
    region: Region = no_region,
) -> Rows:
    """Return J (6, nv) with ``[angular; linear] = J qd`` for a link's frame, for any scalar type.

    ``q`` : (nq,) scalars, joint positions [rad | m]; ``frame`` : its name;
    ``reference`` : one of ``REFERENCES``; ``region`` : as for :func:`.rnea.rnea_scalars`, with the
    passes ``pose`` and ``column``. Columns of joints that do not move the frame are constant zeros.
    """
    check_choice("reference", reference, REFERENCES)
    if model.coupled:
        tied = coupling_of(model, region)
        every = frame_jacobian_scalars(
            tied.model, tied.positions(q), frame, reference=reference, region=region
        )
        return tied.of_columns(every)
    named = frame_of(model, frame)
    if reference == "local":
        return _seen_from_the_frame(model, q, named, region)
    path = path_to(model, named.body)
    poses = body_poses_scalars(model, q, path, region)
    with region("pose", named.body + 1):
        point = ZERO if reference == "world" else pose_of_frame(named, poses[named.body]).p
    J = zeros(6, model.nv)
    joints = numbered_axes(model)
    for i in path:
        with region("column", i + 1):
            for j, axis in joints[i]:
                angular, linear = map(poses[i].to_base, axis_motion(axis, 1.0))
                if axis.turns:
                    linear = vadd(linear, cross(angular, vsub(point, poses[i].p)))
                for k, element in enumerate((*angular, *linear)):
                    J[k][j] = element
    return J


def _seen_from_the_frame(model: Model, q: Sequence[Scalar], named: Frame, region: Region) -> Rows:
    """Return the Jacobian in the frame's axes, computed from the frame towards the base.

    With R and p the frame's pose in a body, a joint's ``[w; v]`` in the body's coordinates is
    ``[R^T w; R^T (v + w x p)]`` in the frame's. R is stored as its columns, the frame's axes, which
    pass a joint towards the base like any vector.
    """
    J = zeros(6, model.nv)
    x, y, z = named.placement.E
    frame_axes: list[Vector] = [x, y, z]
    p: Vector = named.placement.r
    joints, at = numbered_axes(model), model.q_slices
    for i in reversed(path_to(model, named.body)):
        with region("pose", i + 1):
            X = joint_transform(model.bodies[i].joint, q[at[i]])
        with region("column", i + 1):
            for j, axis in joints[i]:
                angular, linear = axis_motion(axis, 1.0)
                if axis.turns:
                    linear = vadd(linear, cross(angular, p))
                for k, direction in enumerate(frame_axes):
                    J[k][j], J[k + 3][j] = dot(direction, angular), dot(direction, linear)
        with region("pose", i + 1):
            frame_axes = [X.to_parent(direction) for direction in frame_axes]
            p = vadd(X.tree.r, X.to_parent(vadd(p, X.shift)))
    return J


def frame_velocity_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    frame: str,
    *,
    reference: Reference = "world",
    region: Region = no_region,
) -> tuple[Vector, Vector]:
    """Return the angular [rad/s] and the linear velocity [m/s] of a frame, for any scalar type.

    It uses the recursion ``v_i = Xup v_parent + S qd`` instead of the Jacobian. ``q``, ``qd`` :
    (nv,) scalars; ``frame`` : its name; ``reference`` : one of ``REFERENCES``; ``region`` : as for
    :func:`.rnea.rnea_scalars`, with the passes ``forward`` and ``pose``.
    """
    check_choice("reference", reference, REFERENCES)
    if model.coupled:
        tied = coupling_of(model, region)
        states = tied.positions(q), tied.rates(qd)
        return frame_velocity_scalars(
            tied.model, *states, frame, reference=reference, region=region
        )
    named = frame_of(model, frame)
    path = path_to(model, named.body)
    v = NOTHING
    at, v_at = model.q_slices, model.v_slices
    for i in path:
        joint = model.bodies[i].joint
        with region("forward", i + 1):
            carried = joint_transform(joint, q[at[i]]).motion_to_child(*v)
            v = plus(carried, joint_motion(joint, qd[v_at[i]]))
    angular, linear = v
    E, r = named.placement.E, named.placement.r
    with region("forward", named.body + 1):
        angular, linear = rotate(E, angular), rotate(E, vsub(linear, cross(r, angular)))
    if reference == "local":
        return angular, linear
    body = body_poses_scalars(model, q, path, region)[named.body]
    with region("pose", named.body + 1):
        pose = pose_of_frame(named, body)
        angular, linear = pose.to_base(angular), pose.to_base(linear)
        if reference == "world":
            linear = vadd(linear, cross(pose.p, angular))
    return angular, linear


def frame_placement(model: Model, q: ArrayLike, frame: str) -> tuple[Array, Array]:
    """Return the placement of a frame: its rotation into the base, and its origin there [m].

    Arguments
    ---------
    q : (nq,) or (n, nq) float, joint positions [rad | m].
    frame : a link, a fixed joint, or either with an offset, ``link_7@0,0,0.1``.

    Returns
    -------
    R : (3, 3) or (n, 3, 3) float64, frame coordinates to base coordinates.
    p : (3,) or (n, 3) float64, origin of the link's frame, base coordinates [m].

    Raises
    ------
    DynamicsError : unknown link, a shape does not fit, or a number is not finite.
    """
    if not model.single_dof:
        checked = checked_arguments(model, q=q)
        R, p = general.frame_placement(model, checked.states["q"], frame_of(model, frame))
        return checked.shaped(R), checked.shaped(p)
    x = split(model, q=q)
    rows, origin = frame_placement_scalars(model, x["q"], frame)
    return x.matrix(rows), x.vector(origin)


def frame_jacobian(
    model: Model, q: ArrayLike, frame: str, *, reference: Reference = "world"
) -> Array:
    """Return the Jacobian of a link's frame: its velocity ``[angular; linear]`` is ``J qd``.

    Arguments
    ---------
    q : (nq,) or (n, nq) float, joint positions [rad | m].
    frame : a link, a fixed joint, or either with an offset, ``link_7@0,0,0.1``.
    reference : ``world``: velocity of the link's point at the base's origin, base axes;
        ``local``: of the frame's origin, frame's axes; ``local_world_aligned``: of the frame's
        origin, base axes. Pinocchio's WORLD, LOCAL and LOCAL_WORLD_ALIGNED.

    Returns
    -------
    J : (6, nv) or (n, 6, nv) float64; Pinocchio has the linear half first.

    Raises
    ------
    DynamicsError : as :func:`frame_placement`, or an unknown reference.
    """
    check_choice("reference", reference, REFERENCES)
    if not model.single_dof:
        checked = checked_arguments(model, q=q)
        named = frame_of(model, frame)
        return checked.shaped(general.frame_jacobian(model, checked.states["q"], named, reference))
    x = split(model, q=q)
    return x.matrix(frame_jacobian_scalars(model, x["q"], frame, reference=reference))


def frame_velocity(
    model: Model, q: ArrayLike, qd: ArrayLike, frame: str, *, reference: Reference = "world"
) -> Array:
    """Return the velocity ``[angular; linear]`` of a link's frame: (6,) or (n, 6) float64.

    The units are [rad/s, m/s].

    ``q`` : (nq,) or (n, nq) float, joint positions [rad | m]; ``qd`` : the joint rates, same shape
    [rad/s | m/s]; ``frame`` and ``reference`` as in :func:`frame_jacobian`, with its errors.
    """
    if not model.single_dof:
        rates = checked_arguments(model, q=q, qd=qd).states["qd"]
        J = frame_jacobian(model, q, frame, reference=reference)
        return (J @ rates.reshape((*J.shape[:-2], model.nv, 1)))[..., 0]
    x = split(model, q=q, qd=qd)
    angular, linear = frame_velocity_scalars(model, x["q"], x["qd"], frame, reference=reference)
    return x.vector((*angular, *linear))


def pose_of_frame(frame: Frame, body: FramePose) -> FramePose:
    """Return the pose of a frame fixed in a body with pose ``body``."""
    E, r = frame.placement.E, frame.placement.r
    R = (rotate(E, body.R[0]), rotate(E, body.R[1]), rotate(E, body.R[2]))
    return FramePose(R=R, p=vadd(body.p, times_constant(body.R, r)))
