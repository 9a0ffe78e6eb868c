r"""Velocity, acceleration and force of every link, the intermediate results of inverse dynamics.

Source: Algorithm 1 of Plancher, Neuman, Bourgeat, Kuindersma, Devadas, Reddi, "Accelerating Robot
Dynamics Gradients on a CPU, GPU, and FPGA", 2021:

    v_i = X v_p + S qd        a_i = X a_p + S qdd + v_i x S qd        f_i = I a_i + v_i x* I v_i
    f_p += X^T f_i

In the paper's "split" partition a host computes these vectors, and a coprocessor starts from them
(:mod:`.rnea_derivatives`). They are spatial vectors ``[angular; linear]`` of each link about the
origin O of its frame, in its own coordinates; f is the force through the joint, the sum over
everything it carries. The base accelerates against gravity.

:mod:`.rnea` has the same motion without linear velocities, in the classical acceleration ``a'`` of
O and the matrix B. The two are related by ``a' = a_lin + w x v_lin``.
"""

from __future__ import annotations

from collections.abc import Sequence

from pinion.robot import Model

from .axis import joint_motion, joint_transform
from .checks import check_mass
from .coupled import coupling_of
from .rnea import (
    BodyMotion,
    BodyState,
    Region,
    backward_pass,
    base_motion,
    forward_pass,
    no_region,
    point_at_the_child,
    turning,
)
from .scalar import Scalar
from .spatial import ZERO, Spatial, Vector, cross, vadd, vsub

Links = Sequence[Sequence[Scalar]]
"""Six scalars per link, ``[angular; linear]``."""


def link_states_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    f_ext: Sequence[Sequence[Scalar]] | None = None,
    region: Region = no_region,
) -> tuple[Links, Links, Links]:
    """Return the velocity, acceleration and force of every link, for any scalar type.

    Arguments as for :func:`.rnea.rnea_scalars`.

    Returns
    -------
    v : (bodies, 6) scalars, velocities [rad/s, m/s].
    a : (bodies, 6) scalars, spatial accelerations, gravity as an upward one [rad/s^2, m/s^2].
    f : (bodies, 6) scalars, moments and forces through the joints [N m, N].
    """
    check_mass(model)
    if model.coupled:
        tied = coupling_of(model, region)
        every = tied.positions(q), tied.rates(qd), tied.rates(qdd)
        return link_states_scalars(tied.model, *every, f_ext, region)
    states = forward_pass(model, q, qd, qdd, f_ext, region)
    linear: list[Vector] = []
    v: list[list[Scalar]] = []
    a: list[list[Scalar]] = []
    for i, (body, v_at) in enumerate(zip(model.bodies, model.v_slices, strict=True)):
        X, motion = states[i].X, states[i].motion
        with region("forward", i + 1):
            velocity: Vector = ZERO
            if body.parent >= 0:
                above = states[body.parent].motion.w
                _, velocity = X.motion_to_child(above, linear[body.parent])
            velocity = vadd(velocity, joint_motion(body.joint, qd[v_at])[1])
            linear.append(velocity)
            v.append([*motion.w, *velocity])
            a.append([*motion.al, *vsub(motion.a, cross(motion.w, velocity))])
    _, f = backward_pass(model, states, region)
    return v, a, [[*moment, *force] for moment, force in f]


def motion_of_link(v: Spatial, a: Spatial) -> BodyMotion:
    """Return a body's motion from its spatial velocity and acceleration."""
    w, al = v[0], a[0]
    return BodyMotion(w=w, al=al, B=turning(w, al), a=vadd(a[1], cross(w, v[1])))


def given_body(
    model: Model,
    i: int,
    before: Sequence[BodyState],
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    a: Sequence[Scalar],
    f: Sequence[Scalar],
) -> BodyState:
    """Return the state of body i from the results of :func:`link_states_scalars`.

    Its force covers everything its joint carries, not only the body. ``q`` : positions of the
    body's joint [rad | m]; ``before`` : states of the bodies before it.
    """
    body = model.bodies[i]
    X = joint_transform(body.joint, q)
    motion = carried = motion_of_link(spatial(v), spatial(a))
    if not body.joint.kind.simple:
        parent = base_motion(model) if body.parent < 0 else before[body.parent].motion
        carried = point_at_the_child(body.joint, parent, X)
    return BodyState(X=X, motion=motion, before=carried, f=spatial(f))


def spatial(link: Sequence[Scalar]) -> Spatial:
    """Return six scalars as an angular and a linear vector."""
    x, y, z, u, v, w = link
    return (x, y, z), (u, v, w)
