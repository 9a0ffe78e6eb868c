r"""One simulation step and its gradient, for any scalar type; the time step is a scalar too.

The equations are those of :mod:`.general.discrete`, which has them on arrays. A step computes the
tangent vector u of ``q+ = integrate(q, u)`` with forward dynamics ``qdd = FD(q, qd, tau)``, by

**semi_implicit** (symplectic Euler)

    qd+ = qd + h FD(q, qd, tau)        u = h qd+

**rk4** (classical where positions add; Munthe-Kaas 1999 elsewhere): four evaluations of
``u' = (1 + ad_u / 2 + ad_u^2 / 12) qd`` and ``qd' = FD(integrate(q, u), qd, tau)``.

Gradients are those of the discrete step, by the chain rule. Changes of positions are tangent
vectors in body axes, at q for the argument and at q+ for the result.

**Rotations without quotients.** The exponential of SO(3) and its left Jacobian are quadratic in the
skew matrix W of the rotation vector w, since ``W^3 = -t^2 W`` (Sola, Deray, Atchuthan 2018,
equations 132 and 143):

    exp(W) = 1 + A W + B W^2       A = sin(t)/t     B = (1 - cos t)/t^2      C = (t - sin t)/t^3
    J_l(w) = 1 + B W + C W^2       t^2 = w . w

A, B and C are power series in ``w . w``: they have no special case at zero and can be traced. For
SE(3), w becomes the dual vector ``w + e v``, and the off-diagonal block is the derivative along v.
Each series has ``TERMS`` terms: for a rotation by the angle t the largest omitted term is
``t^13 / 13!``, 2e-14 for half a radian.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pinion.robot import JointKind, Model

from .axis import quaternion_matrix
from .fd_derivatives import fd_derivatives_scalars
from .general.discrete import RK4_NODES, RK4_WEIGHTS, StepMethod
from .joint_terms import FRICTION_WIDTH
from .ltdl import by_velocity
from .matrices import Rows, combined, identity, product, zeros
from .rnea import Region, no_region
from .scalar import Scalar, add, mul, sub
from .spatial import ZERO, Matrix, Vector, cross, dot, scale, vadd

TERMS = 6
"""Terms of each series."""

_A, _B, _C = (tuple((-1) ** k / math.factorial(2 * k + n) for k in range(TERMS)) for n in (1, 2, 3))
_COSINE = tuple((-1) ** k / math.factorial(2 * k) for k in range(TERMS))


def joints_of(model: Model) -> list[tuple[JointKind, slice, slice]]:
    """Return each joint's kind and slices of q and v, without coupled mimic joints."""
    joints = zip(model.bodies, model.q_slices, model.v_slices, strict=True)
    return [(body.joint.kind, at, v_at) for body, at, v_at in joints if not model.follows(body)]


def series(coefficients: Sequence[float], x: Scalar) -> Scalar:
    """Return the value at x of the polynomial with these coefficients, constant first."""
    total: Scalar = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = add(coefficient, mul(total, x))
    return total


def slope(coefficients: Sequence[float]) -> tuple[float, ...]:
    """Return the coefficients of a polynomial's derivative."""
    return tuple(k * coefficient for k, coefficient in enumerate(coefficients))[1:]


def skew(a: Vector) -> Matrix:
    """Return the (3, 3) matrix of the cross product with a vector: ``skew(a) b = a x b``."""
    x, y, z = a
    return (
        (0.0, sub(0.0, z), y),
        (z, 0.0, sub(0.0, x)),
        (sub(0.0, y), x, 0.0),
    )


@dataclass(frozen=True, kw_only=True)
class RotationShift:
    """A rotation vector w and a translation v, with their frequently used products.

    Members
    -------
    w, v : (3,) rotation [rad] and shift [m], body axes.
    x : ``w . w``; y : its derivative along v, ``2 w . v``.
    """

    w: Vector
    v: Vector
    x: Scalar
    y: Scalar

    def function(
        self, linear: Sequence[float], square: Sequence[float], unit: float = 1.0
    ) -> tuple[Rows, Rows]:
        """Return ``1 - f W + g W^2`` and its derivative along v.

        f and g are series in ``x / unit``: coefficients of many terms would otherwise vanish.
        """
        W, V = skew(self.w), skew(self.v)
        WW, both = product(W, W), combined((1.0, product(W, V)), (1.0, product(V, W)))
        x, y = mul(1.0 / unit, self.x), mul(1.0 / unit, self.y)
        f, g = series(linear, x), series(square, x)
        f_v, g_v = mul(y, series(slope(linear), x)), mul(y, series(slope(square), x))
        value = combined((1.0, identity(3)), (sub(0.0, f), W), (g, WW))
        along = combined((sub(0.0, f_v), W), (sub(0.0, f), V), (g_v, WW), (g, both))
        return value, along


def turn_of(kind: JointKind, u: Sequence[Scalar]) -> RotationShift:
    """Return the step u of a multi-velocity joint as a rotation vector and a translation."""
    if kind is JointKind.SPHERICAL:
        w, v = (u[0], u[1], u[2]), ZERO
    elif kind is JointKind.PLANAR:
        w, v = (0.0, 0.0, u[2]), (u[0], u[1], 0.0)
    else:
        w, v = (u[3], u[4], u[5]), (u[0], u[1], u[2])
    half = dot(w, v)
    return RotationShift(w=w, v=v, x=dot(w, w), y=add(half, half))


def moved_joint(kind: JointKind, q: Sequence[Scalar], u: Sequence[Scalar]) -> list[Scalar]:
    """Return a joint's positions after the step u, like :func:`pinion.dynamics.integrate`."""
    if kind.nv == 1:
        return [add(q[0], u[0])]
    turn = turn_of(kind, u)
    if kind is JointKind.SPHERICAL:
        return turned_quaternion(q, turn)
    # J_l(w) v = v + B w x v + C w x (w x v)
    once = cross(turn.w, turn.v)
    bend = scale(series(_C, turn.x), cross(turn.w, once))
    shift = vadd(turn.v, vadd(scale(series(_B, turn.x), once), bend))
    if kind is JointKind.PLANAR:
        c, s = q[2], q[3]
        cosine = sub(1.0, mul(turn.x, series(_B, turn.x)))
        sine = mul(turn.w[2], series(_A, turn.x))
        return [
            add(q[0], sub(mul(c, shift[0]), mul(s, shift[1]))),
            add(q[1], add(mul(s, shift[0]), mul(c, shift[1]))),
            sub(mul(c, cosine), mul(s, sine)),
            add(mul(s, cosine), mul(c, sine)),
        ]
    R = quaternion_matrix(q[3:])
    position = [add(x, dot(row, shift)) for x, row in zip(q[:3], R, strict=True)]
    return position + turned_quaternion(q[3:], turn)


def turned_quaternion(q: Sequence[Scalar], turn: RotationShift) -> list[Scalar]:
    """Return a quaternion (x, y, z, w) times the step's rotation, renormalised."""
    quarter = mul(0.25, turn.x)
    half, cosine = mul(0.5, series(_A, quarter)), series(_COSINE, quarter)
    vector: Vector = (q[0], q[1], q[2])
    step = scale(half, turn.w)
    real = sub(mul(q[3], cosine), dot(vector, step))
    imaginary = vadd(vadd(scale(cosine, vector), scale(q[3], step)), cross(vector, step))
    # One Newton step towards length 1: (3 - L^2) / 2.
    square = add(dot(imaginary, imaginary), mul(real, real))
    factor = sub(1.5, mul(0.5, square))
    return [*scale(factor, imaginary), mul(factor, real)]


def dual_rows(value: Rows, along: Rows, kind: JointKind) -> Rows:
    """Return ``[[value, along], [0, value]]``, or the part of it that a joint of this kind has."""
    if kind is JointKind.SPHERICAL:
        return value
    rows = [a + b for a, b in zip(value, along, strict=True)]
    rows += [[0.0] * 3 + row for row in value]
    if kind is JointKind.FREE_FLYER:
        return rows
    places = (0, 1, 5)
    return [[rows[i][j] for j in places] for i in places]


def step_jacobians(kind: JointKind, u: Sequence[Scalar]) -> tuple[Rows, Rows]:
    """Return ``exp(-ad_u)`` and ``J_r(u)`` of a joint, (nv, nv), as in `integrate_jacobians`."""
    if kind.nv == 1:
        return [[1.0]], [[1.0]]
    turn = turn_of(kind, u)
    return dual_rows(*turn.function(_A, _B), kind), dual_rows(*turn.function(_B, _C), kind)


def bracket(kind: JointKind, u: Sequence[Scalar]) -> Rows:
    """Return ``ad_u`` (nv, nv), which maps a velocity v to the Lie bracket ``[u, v]``."""
    if kind.nv == 1:
        return [[0.0]]
    turn = turn_of(kind, u)
    W, V = ([list(row) for row in skew(a)] for a in (turn.w, turn.v))
    return dual_rows(W, V, kind)


def tangent_rate(kind: JointKind, u: Sequence[Scalar], v: Sequence[Scalar]) -> list[Scalar]:
    """Return the rate u' of a joint's step for the velocity v (:mod:`.general.tangent`)."""
    if kind.nv == 1:
        return list(v)
    ad = bracket(kind, u)
    once = product(ad, [[x] for x in v])
    twice = product(ad, once)
    return [
        add(x, add(mul(0.5, a[0]), mul(1.0 / 12.0, b[0])))
        for x, a, b in zip(v, once, twice, strict=True)
    ]


def tangent_rate_jacobians(
    kind: JointKind, u: Sequence[Scalar], v: Sequence[Scalar]
) -> tuple[Rows, Rows]:
    """Return the derivatives of :func:`tangent_rate` with respect to u and v, (nv, nv) each."""
    if kind.nv == 1:
        return [[0.0]], [[1.0]]
    ad, ad_v = bracket(kind, u), bracket(kind, v)
    once = bracket(kind, [row[0] for row in product(ad, [[x] for x in v])])
    by_u = combined((-0.5, ad_v), (-1.0 / 12.0, once), (-1.0 / 12.0, product(ad, ad_v)))
    by_v = combined((1.0, identity(kind.nv)), (0.5, ad), (1.0 / 12.0, product(ad, ad)))
    return by_u, by_v


# Many parameters: the quantities of the equation, and the terms that rows switch.
def step_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    dt: Scalar,
    region: Region = no_region,
    *,
    method: StepMethod,
    joint_terms: bool | Sequence[str] = (),
    friction_width: float = FRICTION_WIDTH,
) -> tuple[list[Scalar], list[Scalar], Rows, Rows]:
    """Return q+, qd+, A and B of one step with the efforts held constant, for any scalar type.

    Arguments
    ---------
    q : (nq,) scalars, positions [rad | m].
    qd, tau : (nv,) scalars, rates and efforts [N m | N].
    dt : scalar, the time step [s].
    region, joint_terms, friction_width : as for :func:`.fd_derivatives.fd_derivatives_scalars`;
        the pass of the step itself is ``step``.
    method : ``semi_implicit`` or ``rk4``.

    Returns
    -------
    q+, qd+ : (nq,) and (nv,) positions, angles not wrapped, and rates after the step.
    A : (2 nv, 2 nv) derivative of [q+; qd+] with respect to [q; qd], along tangent directions.
    B : (2 nv, nv) derivative of [q+; qd+] with respect to tau.
    """
    terms: dict[str, Any] = {"joint_terms": joint_terms, "friction_width": friction_width}
    n, at_body = model.nv, by_velocity(model, region)
    joints = joints_of(model)

    def each_joint(
        jacobians: Callable[[JointKind, slice], Rows], columns: Sequence[Sequence[Scalar]]
    ) -> Rows:
        """Return the block-diagonal matrix of the joints' Jacobians times (nv, m) columns."""
        result: Rows = []
        for kind, _, place in joints:
            with at_body("step", place.start + 1):
                result += product(jacobians(kind, place), columns[place])
        return result

    def integrated(u: Sequence[Scalar]) -> list[Scalar]:
        positions: list[Scalar] = []
        for kind, at, place in joints:
            with at_body("step", place.start + 1):
                positions += moved_joint(kind, q[at], u[place])
        return positions

    def sums(factor: Scalar, first: Rows, second: Rows) -> Rows:
        """Return ``first + factor second``, row by row."""
        result: Rows = []
        for i, (row, others) in enumerate(zip(first, second, strict=True)):
            with at_body("step", i + 1):
                result.append([add(x, mul(factor, y)) for x, y in zip(row, others, strict=True)])
        return result

    def moved(x: Sequence[Scalar], factor: Scalar, rate: Sequence[Scalar]) -> list[Scalar]:
        return [row[0] for row in sums(factor, [[a] for a in x], [[b] for b in rate])]

    # d_x is the derivative of x by the step's [q; qd; tau].
    start = identity(3 * n)
    d_q, d_qd, d_tau = start[:n], start[n : 2 * n], start[2 * n :]
    none: list[Scalar] = [0.0] * n
    d_none = zeros(n, 3 * n)

    def carried(u: Sequence[Scalar], d_u: Rows) -> Rows:
        """Return the derivative of ``integrate(q, u)`` with respect to [q; qd; tau]."""
        by_q = each_joint(lambda kind, place: step_jacobians(kind, u[place])[0], d_q)
        return sums(1.0, by_q, each_joint(lambda kind, p: step_jacobians(kind, u[p])[1], d_u))

    def accelerated(
        u: Sequence[Scalar], d_u: Rows, rates: Sequence[Scalar], d_rates: Rows
    ) -> tuple[list[Scalar], Rows]:
        """Return the accelerations at ``integrate(q, u)`` and their [q; qd; tau] derivative."""
        positions = list(q) if u is none else integrated(u)
        d_positions = d_q if u is none else carried(u, d_u)
        forward = fd_derivatives_scalars(model, positions, rates, tau, region=region, **terms)
        derivatives: Rows = []
        for i in range(n):
            with at_body("step", i + 1):
                parts = (
                    (forward.dqdd_dq, d_positions),
                    (forward.dqdd_dqd, d_rates),
                    (forward.minv, d_tau),
                )
                total = zeros(1, 3 * n)
                for matrix, columns in parts:
                    total = combined((1.0, total), (1.0, product([matrix[i]], columns)))
                derivatives.append(total[0])
        return forward.qdd, derivatives

    if method == "semi_implicit":
        qdd, d_qdd = accelerated(none, d_none, qd, d_qd)
        end, d_end = moved(qd, dt, qdd), sums(dt, d_qd, d_qdd)
        move, d_move = moved(none, dt, end), sums(dt, d_none, d_end)
    else:
        move, d_move, end, d_end = none, d_none, list(qd), d_qd
        u_rate, d_u_rate, qdd, d_qdd = none, d_none, none, d_none
        for node, weight in zip(RK4_NODES, RK4_WEIGHTS, strict=True):
            with at_body("step", 1):
                h, share = mul(node, dt), mul(weight, dt)
            first = node == 0.0
            u, d_u = (
                (none, d_none) if first else (moved(none, h, u_rate), sums(h, d_none, d_u_rate))
            )
            rates = list(qd) if first else moved(qd, h, qdd)
            d_rates = d_qd if first else sums(h, d_qd, d_qdd)
            qdd, d_qdd = accelerated(u, d_u, rates, d_rates)
            u_rate, d_u_rate = [], []
            for kind, _, place in joints:
                with at_body("step", place.start + 1):
                    u_rate += tangent_rate(kind, u[place], rates[place])
                    by_u, by_rates = tangent_rate_jacobians(kind, u[place], rates[place])
                    d_u_rate += combined(
                        (1.0, product(by_u, d_u[place])), (1.0, product(by_rates, d_rates[place]))
                    )
            move, d_move = moved(move, share, u_rate), sums(share, d_move, d_u_rate)
            end, d_end = moved(end, share, qdd), sums(share, d_end, d_qdd)
    whole = carried(move, d_move) + d_end
    return (
        integrated(move),
        end,
        [row[: 2 * n] for row in whole],
        [row[2 * n :] for row in whole],
    )
