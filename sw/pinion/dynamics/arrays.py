"""The dynamics functions on NumPy arrays, with checks of shapes and values.

Robots with a joint that is neither revolute nor prismatic use :mod:`pinion.dynamics.general`.
Positions (nq) and velocities (nv) then differ in length, and derivatives by q are by the tangent of
``integrate``, so they have nv columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pinion.robot import Model

from .aba import aba_scalars
from .checks import (
    Array,
    check_choice,
    checked,
    columns_of,
    configurations,
    needs_inverse,
    split,
    spread,
    vector_of,
)
from .crba import crba_scalars
from .energy import kinetic_energy_scalars, potential_energy_scalars
from .fd_derivatives import fd_derivatives_from_minv_scalars, fd_derivatives_scalars
from .general import arrays as general
from .joint_terms import FRICTION_WIDTH
from .link_states import link_states_scalars
from .minv import MINV_METHODS, minv_scalars
from .rnea import rnea_scalars
from .rnea_derivatives import DERIVATIVE_METHODS, rnea_derivatives_scalars


class ForwardDerivatives(NamedTuple):
    """Joint accelerations, their gradients and M^-1, as :func:`fd_derivatives` returns them.

    Members
    -------
    qdd : (nv,) or (n, nv) joint accelerations [rad/s^2 | m/s^2].
    dqdd_dq, dqdd_dqd : (nv, nv) or (n, nv, nv), entry ``[..., i, j]`` is the derivative of
        ``qdd_i`` with respect to the position or rate of joint j.
    minv : (nv, nv) or (n, nv, nv) inverse of the joint-space inertia matrix, ``dqdd/dtau``.
    """

    qdd: Array
    dqdd_dq: Array
    dqdd_dqd: Array
    minv: Array


def rnea(
    model: Model,
    q: ArrayLike,
    qd: ArrayLike,
    qdd: ArrayLike,
    f_ext: ArrayLike | None = None,
    *,
    joint_terms: bool | Sequence[str] = False,
    friction_width: float = FRICTION_WIDTH,
) -> Array:
    """Compute inverse dynamics: the joint efforts that produce the accelerations ``qdd``.

    Source: Algorithm 1 of Plancher et al. 2021, in the form that :mod:`pinion.dynamics.rnea`
    derives.

    Arguments
    ---------
    q : (nq,) or (n, nq) float, joint positions [rad | m].
    qd : (nv,) or (n, nv) float, joint rates [rad/s | m/s].
    qdd : (nv,) or (n, nv) float, joint accelerations [rad/s^2 | m/s^2].
    f_ext : (bodies, 6) or (n, bodies, 6) float, external force on each body, ``[angular; linear]``
        in the body's coordinates about its origin [N m, N].
    joint_terms : joint terms besides the armature, which always counts: True for all, or names of
        ``damping``, ``friction`` and ``stiffness`` (:mod:`.joint_terms`).
    friction_width : rate [rad/s | m/s] within which friction changes sign smoothly, 0 for a jump.

    Returns
    -------
    tau : (nv,) or (n, nv) float64, joint efforts [N m | N].

    Raises
    ------
    DynamicsError : a shape does not fit the model or the other arguments, or a number is not
        finite.
    """
    terms: Any = {"joint_terms": joint_terms, "friction_width": friction_width}
    if not model.single_dof:
        return general.rnea(model, q, qd, qdd, f_ext, **terms)
    x = split(model, f_ext, q=q, qd=qd, qdd=qdd)
    return x.vector(rnea_scalars(model, x["q"], x["qd"], x["qdd"], x.f_ext, **terms))


def crba(model: Model, q: ArrayLike) -> Array:
    """Return the joint-space inertia matrix M(q), symmetric: (nv, nv) or (n, nv, nv) float64.

    ``q`` : (nq,) or (n, nq) float, joint positions [rad | m]. Source: :mod:`pinion.dynamics.crba`.
    The joints' armature is on its diagonal. Raises :class:`DynamicsError` like :func:`rnea`.
    """
    if not model.single_dof:
        return general.crba(model, q)
    x = split(model, q=q)
    return x.matrix(crba_scalars(model, x["q"]))


@needs_inverse
def minv(model: Model, q: ArrayLike, *, method: str = "ltdl") -> Array:
    """Return the inverse joint-space inertia matrix: (nv, nv) or (n, nv, nv) float64, symmetric.

    ``q`` : (nq,) or (n, nq) float, joint positions [rad | m]. ``method`` is ``ltdl`` (factorise
    CRBA's matrix) or ``aba`` (articulated bodies), see :mod:`pinion.dynamics.minv`. Raises
    :class:`DynamicsError` like :func:`rnea`, and for an unknown method.
    """
    check_choice("method", method, MINV_METHODS)
    if not model.single_dof:
        return general.minv(model, q, method=method)
    x = split(model, q=q)
    return x.matrix(minv_scalars(model, x["q"], method=method))


@needs_inverse
def aba(
    model: Model,
    q: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    f_ext: ArrayLike | None = None,
    *,
    joint_terms: bool | Sequence[str] = False,
    friction_width: float = FRICTION_WIDTH,
) -> Array:
    """Compute forward dynamics: the joint accelerations that the efforts ``tau`` produce.

    Source: the articulated-body algorithm as :mod:`pinion.dynamics.aba` derives it.

    Arguments
    ---------
    q, qd : as for :func:`rnea`.
    tau : (nv,) or (n, nv) float, joint efforts [N m | N].
    f_ext, joint_terms, friction_width : as for :func:`rnea`.

    Returns
    -------
    qdd : (nv,) or (n, nv) float64, joint accelerations [rad/s^2 | m/s^2].

    Raises
    ------
    DynamicsError : as for :func:`rnea`.
    """
    terms: Any = {"joint_terms": joint_terms, "friction_width": friction_width}
    if not model.single_dof:
        return general.aba(model, q, qd, tau, f_ext, **terms)
    x = split(model, f_ext, q=q, qd=qd, tau=tau)
    return x.vector(aba_scalars(model, x["q"], x["qd"], x["tau"], x.f_ext, **terms))


def rnea_derivatives(
    model: Model,
    q: ArrayLike,
    qd: ArrayLike,
    qdd: ArrayLike,
    f_ext: ArrayLike | None = None,
    *,
    method: str = "composite",
    joint_terms: bool | Sequence[str] = False,
    friction_width: float = FRICTION_WIDTH,
) -> tuple[Array, Array]:
    """Return the gradient of inverse dynamics with respect to positions and rates.

    Arguments
    ---------
    q, qd, qdd : as for :func:`rnea`.
    f_ext : as for :func:`rnea`; a force is constant in its body's coordinates and turns with the
        body when q changes (as in Pinocchio).
    method : ``composite`` (closed form, :mod:`pinion.dynamics.rnea_derivatives`) or ``column``
        (Algorithm 2 of Plancher et al. 2021; revolute and prismatic joints only).
    joint_terms, friction_width : as for :func:`rnea`.

    Returns
    -------
    dtau_dq, dtau_dqd : (nv, nv) or (n, nv, nv) float64, entry ``[..., i, j]`` is the derivative of
        ``tau_i`` with respect to the position or rate of joint j.

    Raises
    ------
    DynamicsError : as for :func:`rnea`, and for an unknown method.
    """
    check_choice("method", method, DERIVATIVE_METHODS)
    terms: Any = {"joint_terms": joint_terms, "friction_width": friction_width}
    if not model.single_dof:
        return general.rnea_derivatives(model, q, qd, qdd, f_ext, method=method, **terms)
    x = split(model, f_ext, q=q, qd=qd, qdd=qdd)
    by_q, by_qd = rnea_derivatives_scalars(
        model, x["q"], x["qd"], x["qdd"], x.f_ext, method=method, **terms
    )
    return x.matrix(by_q), x.matrix(by_qd)


def link_states(
    model: Model, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike
) -> tuple[Array, Array, Array]:
    """Return the velocity, acceleration and force of every link, (bodies, 6) each.

    Source: Algorithm 1 of Plancher et al. 2021 (:mod:`pinion.dynamics.link_states`).

    Arguments
    ---------
    q, qd, qdd : as for :func:`rnea`.

    Returns
    -------
    v, a, f : (bodies, 6) or (n, bodies, 6) float64, ``[angular; linear]`` of each link about the
        origin of its frame, in its coordinates: velocity [rad/s, m/s], spatial acceleration with
        gravity as an upward one [rad/s^2, m/s^2], and the force through the joint [N m, N].

    Raises
    ------
    DynamicsError : as for :func:`rnea`.
    """
    states = configurations(model, q=q, qd=qd, qdd=qdd)
    batch = states["q"].shape[:-1]
    columns = {name: columns_of(array) for name, array in states.items()}
    link_vectors = link_states_scalars(model, columns["q"], columns["qd"], columns["qdd"])
    v, a, f = (
        np.stack([vector_of(link, batch) for link in links], axis=-2)
        if links
        else np.zeros((*batch, 0, 6))
        for links in link_vectors
    )
    return v, a, f


@needs_inverse
def fd_derivatives(
    model: Model,
    q: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    f_ext: ArrayLike | None = None,
    *,
    method: str = "composite",
    joint_terms: bool | Sequence[str] = False,
    friction_width: float = FRICTION_WIDTH,
) -> ForwardDerivatives:
    """Return forward dynamics and its gradient at given positions, rates and efforts.

    Arguments
    ---------
    q, qd, tau : as for :func:`aba`.
    f_ext, method, joint_terms, friction_width : as for :func:`rnea_derivatives`.

    Returns
    -------
    result : :class:`ForwardDerivatives`, a named tuple (qdd, dqdd_dq, dqdd_dqd, minv).

    Raises
    ------
    DynamicsError : as for :func:`rnea_derivatives`.
    """
    check_choice("method", method, DERIVATIVE_METHODS)
    terms: Any = {"joint_terms": joint_terms, "friction_width": friction_width}
    if not model.single_dof:
        return ForwardDerivatives(
            *general.fd_derivatives(model, q, qd, tau, f_ext, method=method, **terms)
        )
    x = split(model, f_ext, q=q, qd=qd, tau=tau)
    gradient = fd_derivatives_scalars(
        model, x["q"], x["qd"], x["tau"], x.f_ext, method=method, **terms
    )
    return ForwardDerivatives(
        qdd=x.vector(gradient.qdd),
        dqdd_dq=x.matrix(gradient.dqdd_dq),
        dqdd_dqd=x.matrix(gradient.dqdd_dqd),
        minv=x.matrix(gradient.minv),
    )


# Many parameters: the quantities of the equation, and the optional terms.
def fd_derivatives_from_minv(
    model: Model,
    q: ArrayLike,
    qd: ArrayLike,
    qdd: ArrayLike,
    minv: ArrayLike,
    f_ext: ArrayLike | None = None,
    *,
    method: str = "composite",
    joint_terms: bool | Sequence[str] = False,
    friction_width: float = FRICTION_WIDTH,
) -> tuple[Array, Array]:
    """Return the gradient of forward dynamics from known accelerations and M^-1.

    Source: Algorithm 3 of Plancher et al. 2021.

    Arguments
    ---------
    q, qd, qdd : as for :func:`rnea`; ``qdd`` is forward dynamics' result.
    minv : (nv, nv) or (n, nv, nv) float, inverse of the joint-space inertia matrix at q; only its
        lower triangle is read.
    f_ext, method, joint_terms, friction_width : as for :func:`rnea_derivatives`.

    Returns
    -------
    dqdd_dq, dqdd_dqd : (nv, nv) or (n, nv, nv) float64, as in :class:`ForwardDerivatives`.

    Raises
    ------
    DynamicsError : as for :func:`rnea_derivatives`.
    """
    check_choice("method", method, DERIVATIVE_METHODS)
    terms: Any = {"joint_terms": joint_terms, "friction_width": friction_width}
    if not model.single_dof:
        return general.fd_derivatives_from_minv(
            model, q, qd, qdd, minv, f_ext, method=method, **terms
        )
    x = split(model, f_ext, q=q, qd=qd, qdd=qdd)
    inverse = checked("minv", minv, (*x.batch, model.nv, model.nv))
    rows = [columns_of(inverse[..., i, :]) for i in range(model.nv)]
    by_q, by_qd = fd_derivatives_from_minv_scalars(
        model, x["q"], x["qd"], x["qdd"], rows, x.f_ext, method=method, **terms
    )
    return x.matrix(by_q), x.matrix(by_qd)


def kinetic_energy(model: Model, q: ArrayLike, qd: ArrayLike) -> Array:
    """Return the kinetic energy, including the joints' armature [J]: () or (n,) float64.

    ``q`` : (nq,) or (n, nq) float, joint positions [rad | m]; ``qd`` : (nv,) or (n, nv) float,
    joint rates [rad/s | m/s]. Raises :class:`DynamicsError` like :func:`rnea`.
    """
    if not model.single_dof:
        return general.kinetic_energy(model, q, qd)
    x = split(model, q=q, qd=qd)
    return spread(kinetic_energy_scalars(model, x["q"], x["qd"]), x.batch)


def potential_energy(model: Model, q: ArrayLike) -> Array:
    """Return the potential energy [J], zero at the base's origin: () or (n,) float64.

    ``q`` : (nq,) or (n, nq) float, joint positions [rad | m]. Raises :class:`DynamicsError` like
    :func:`rnea`.
    """
    if not model.single_dof:
        return general.potential_energy(model, q)
    x = split(model, q=q)
    return spread(potential_energy_scalars(model, x["q"]), x.batch)
