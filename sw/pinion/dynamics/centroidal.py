r"""Centroidal momentum, its rate and their derivatives, for any scalar type.

The momentum of all moving bodies about their centre of mass, in base axes, ``[angular; linear]``
(Orin, Goswami, Lee 2013), is linear in the rates. Its rate is the wrench of all external forces:

    h = A_G qd        h_dot = A_G qdd + A_G_dot qd = external wrench + gravity

No new recursion is needed. Attach the robot's base to a massless free-flyer at rest. The first six
rows of the inertia matrix then map rates to the momentum about the base's origin, the first six
efforts of inverse dynamics without gravity are the rate of that momentum, and the same rows of
inverse dynamics' gradient are its derivatives. With zero rates and qd for the accelerations the
efforts are ``tau = M qd``, so that the same gradient is that of the momentum. The free-flyer's
constants fold away.

From the origin to the centre of mass c, with P the linear and L the angular momentum,

    L_G = L - c x P        dL_G = dL - dc x P - c x dP        dc/dq = (linear rows of A) / mass

and likewise for the wrench (the term ``c_dot x P`` is zero).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from numpy.typing import ArrayLike

from pinion.robot import Body, Inertia, Joint, JointKind, Model
from pinion.robot.rotation import IDENTITY_TRANSFORM

from .checks import Array, columns_of, configurations, matrix_of, vector_of
from .coupled import coupling_of
from .crba import crba_scalars
from .mass_centre import centre_of_mass_scalars, mass_reciprocal
from .matrices import Rows, inner
from .rnea import Region, no_region, rnea_scalars
from .rnea_derivatives import rnea_derivatives_scalars
from .scalar import Scalar, mul
from .spatial import Vector, cross, vsub

_STILL: tuple[Scalar, ...] = (0.0,) * 6
_AT_HOME: tuple[Scalar, ...] = (*_STILL, 1.0)


@dataclass(frozen=True, kw_only=True)
class CentroidalDerivatives:
    """Derivatives of centroidal momentum h and of its rate, (6, nv) scalars each.

    Members
    -------
    dh_dq : of h with respect to positions, along tangent directions.
    dhdot_dq, dhdot_dqd : of its rate with respect to q and qd.
    dhdot_dqdd : of its rate with respect to qdd: the centroidal momentum matrix A_G.
    """

    dh_dq: Rows
    dhdot_dq: Rows
    dhdot_dqd: Rows
    dhdot_dqdd: Rows


def on_a_root(model: Model) -> Model:
    """Return the robot, without gravity, mounted on a massless free-flyer as its first joint."""
    root = Joint(
        name="centroidal root",
        kind=JointKind.FREE_FLYER,
        continuous=False,
        tree=IDENTITY_TRANSFORM,
        lower=0.0,
        upper=0.0,
        velocity=0.0,
        effort=0.0,
    )
    nothing = Inertia(mass=0.0, h=(0.0,) * 3, I=(0.0,) * 6)
    base = Body(name="centroidal root", parent=-1, joint=root, inertia=nothing, links=())
    bodies = tuple(replace(body, parent=body.parent + 1) for body in model.bodies)
    return replace(model, bodies=(base, *bodies), gravity=(0.0, 0.0, 0.0), frames=())


def _of_bodies(region: Region) -> Region:
    """Wrap ``region`` so that body numbers do not count the added root."""

    def moved(name: str, body: int) -> AbstractContextManager[object]:
        return region(name, max(1, body - 1))

    return moved


def _angular_first(rows: Sequence[Sequence[Scalar]], first: int = 6) -> Rows:
    """Return the root's six rows, ``[linear; angular]``, as ``[angular; linear]``."""
    return [list(row[first:]) for row in (*rows[3:6], *rows[:3])]


def _about(
    c: Vector, rows: Rows, moved: Rows | None = None, linear_part: Vector | None = None
) -> Rows:
    """Return (6, m) columns of momentum or wrench about the point c instead of the origin.

    For columns that are derivatives, ``moved`` (3, m) is the derivative of c and ``linear_part``
    the linear part of the differentiated momentum or wrench.
    """
    result: Rows = [[], [], [], [], [], []]
    for k in range(len(rows[0])):
        linear: Vector = (rows[3][k], rows[4][k], rows[5][k])
        turned = vsub((rows[0][k], rows[1][k], rows[2][k]), cross(c, linear))
        if moved is not None and linear_part is not None:
            turned = vsub(turned, cross((moved[0][k], moved[1][k], moved[2][k]), linear_part))
        for row, element in zip(result, (*turned, *linear), strict=True):
            row.append(element)
    return result


def centroidal_momentum_scalars(
    model: Model, q: Sequence[Scalar], qd: Sequence[Scalar], region: Region = no_region
) -> tuple[list[Scalar], Rows]:
    """Return the centroidal momentum h (6,) and its matrix A_G (6, nv), ``[angular; linear]``.

    ``q`` : (nq,) scalars, joint positions [rad | m]; ``qd`` : (nv,) scalars, rates; ``region`` : as
    for :func:`.rnea.rnea_scalars`, with the passes of :func:`.crba.crba_scalars` and ``moment``.
    """
    if model.coupled:
        tied = coupling_of(model, region)
        states = tied.positions(q), tied.rates(qd)
        momentum, matrix = centroidal_momentum_scalars(tied.model, *states, region)
        return momentum, tied.of_columns(matrix)
    c = centre_of_mass_scalars(model, q, region)
    M = crba_scalars(on_a_root(model), [*_AT_HOME, *q], _of_bodies(region))
    with region("moment", 1):
        A = _about(c, _angular_first(M))
        return [inner(row, qd) for row in A], A


def centroidal_rate_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar] | None = None,
    region: Region = no_region,
) -> list[Scalar]:
    """Return the rate of the centroidal momentum (6,), ``A_G qdd + A_G_dot qd``.

    ``q``, ``qd``, ``qdd`` : as for :func:`.rnea.rnea_scalars`; without ``qdd`` the result is the
    drift ``A_G_dot qd``. ``region`` : as there, with the pass ``moment`` besides.
    """
    if model.coupled:
        tied = coupling_of(model, region)
        accelerations = None if qdd is None else tied.rates(qdd)
        states = tied.positions(q), tied.rates(qd), accelerations
        return centroidal_rate_scalars(tied.model, *states, region)
    accelerations = [0.0] * model.nv if qdd is None else list(qdd)
    c = centre_of_mass_scalars(model, q, region)
    states_of_all = [*_AT_HOME, *q], [*_STILL, *qd], [*_STILL, *accelerations]
    tau = rnea_scalars(on_a_root(model), *states_of_all, None, _of_bodies(region))
    with region("moment", 1):
        return [row[0] for row in _about(c, _angular_first([[effort] for effort in tau], 0))]


def centroidal_derivatives_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    region: Region = no_region,
) -> CentroidalDerivatives:
    """Return the derivatives of centroidal momentum and of its rate.

    ``q``, ``qd``, ``qdd`` : as for :func:`.rnea.rnea_scalars`; ``region`` : as there, with the
    passes of its gradient, of :func:`.crba.crba_scalars`, and ``moment``. Equal to Pinocchio's
    ``computeCentroidalDynamicsDerivatives``, which has linear parts first.
    """
    if model.coupled:
        tied = coupling_of(model, region)
        states = tied.positions(q), tied.rates(qd), tied.rates(qdd)
        every = centroidal_derivatives_scalars(tied.model, *states, region)
        return CentroidalDerivatives(
            **{name: tied.of_columns(rows) for name, rows in vars(every).items()}
        )
    root, at_body = on_a_root(model), _of_bodies(region)
    positions = [*_AT_HOME, *q]
    rates, accelerations, still = [*_STILL, *qd], [*_STILL, *qdd], [0.0] * root.nv
    c, share = centre_of_mass_scalars(model, q, region), mass_reciprocal(model, region)
    M = crba_scalars(root, positions, at_body)
    wrench = rnea_scalars(root, positions, rates, accelerations, None, at_body)
    momentum = rnea_scalars(root, positions, still, rates, None, at_body)
    by_q, by_qd = rnea_derivatives_scalars(root, positions, rates, accelerations, None, at_body)
    of_momentum, _ = rnea_derivatives_scalars(root, positions, still, rates, None, at_body)
    with region("moment", 1):
        A = _angular_first(M)
        moved = [[mul(share, element) for element in row] for row in A[3:]]
        P, F = (tuple(linear[:3]) for linear in (momentum, wrench))
        return CentroidalDerivatives(
            dh_dq=_about(c, _angular_first(of_momentum), moved, (P[0], P[1], P[2])),
            dhdot_dq=_about(c, _angular_first(by_q), moved, (F[0], F[1], F[2])),
            dhdot_dqd=_about(c, _angular_first(by_qd)),
            dhdot_dqdd=_about(c, A),
        )


def centroidal_momentum(model: Model, q: ArrayLike, qd: ArrayLike) -> tuple[Array, Array]:
    """Return the centroidal momentum h and the matrix A_G with ``h = A_G qd``.

    Arguments
    ---------
    q : (nq,) or (n, nq) float, joint positions [rad | m].
    qd : (nv,) or (n, nv) float, joint rates.

    Returns
    -------
    h : (6,) or (n, 6) float64, ``[angular; linear]`` about the centre of mass in base axes
        [kg m^2/s, kg m/s].
    A : (6, nv) or (n, 6, nv) float64, ``h = A qd``. Pinocchio has linear parts first.

    Raises
    ------
    DynamicsError : a shape is wrong, a number is not finite, or the robot has no mass.
    """
    x = configurations(model, q=q, qd=qd)
    batch = x["q"].shape[:-1]
    h, A = centroidal_momentum_scalars(model, columns_of(x["q"]), columns_of(x["qd"]))
    return vector_of(h, batch), matrix_of(A, batch)
