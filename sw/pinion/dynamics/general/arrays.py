"""Dynamics for joints of any kind, on one state or a batch, for :mod:`pinion.dynamics.arrays`.

Arguments, results and errors are those of the functions of the same names there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pinion.dynamics.checks import Array, DynamicsError, configurations, wrenches
from pinion.dynamics.checks import checked as checked_array
from pinion.dynamics.joint_terms import JointTerms, joint_terms_of
from pinion.robot import Model

from . import derivatives, energy, recursion
from .state import BodyPoses, pose_of


@dataclass(frozen=True, kw_only=True)
class CheckedArguments:
    """Checked arguments with a leading batch axis, and the batch shape of the results."""

    pose: BodyPoses
    states: dict[str, Array]
    f_ext: Array | None
    terms: JointTerms
    batch: tuple[int, ...]

    def shaped(self, result: Array) -> Array:
        """Return a result (n, ...) without the batch axis if the caller passed one state."""
        return np.asarray(result).reshape((*self.batch, *result.shape[1:]))


NO_TERMS: Mapping[str, Any] = MappingProxyType({})


def checked_arguments(
    model: Model,
    f_ext: ArrayLike | None = None,
    terms: Mapping[str, Any] = NO_TERMS,
    **arguments: ArrayLike,
) -> CheckedArguments:
    """Check arguments by name and compute poses; ``terms`` are options of `joint_terms_of`."""
    joint_terms = joint_terms_of(model, **terms)
    states = configurations(model, **arguments)
    batch = states["q"].shape[:-1]
    forces = wrenches(model, f_ext, batch)
    if not batch:
        states = {name: array[None] for name, array in states.items()}
        forces = None if forces is None else forces[None]
    pose = pose_of(model, states["q"])
    return CheckedArguments(pose=pose, states=states, f_ext=forces, terms=joint_terms, batch=batch)


def rnea(
    model: Model,
    q: ArrayLike,
    qd: ArrayLike,
    qdd: ArrayLike,
    f_ext: ArrayLike | None,
    **terms: Any,
) -> Array:
    """Return the efforts of inverse dynamics, (nv,) or (n, nv) [N m | N]."""
    checked = checked_arguments(model, f_ext, terms, q=q, qd=qd, qdd=qdd)
    x = checked.states
    return checked.shaped(
        recursion.rnea(checked.pose, x["qd"], x["qdd"], checked.f_ext, checked.terms)
    )


def crba(model: Model, q: ArrayLike) -> Array:
    """Return the joint-space inertia matrix, (nv, nv) or (n, nv, nv)."""
    checked = checked_arguments(model, q=q)
    return checked.shaped(recursion.crba(checked.pose, checked.terms))


def minv(model: Model, q: ArrayLike, *, method: str) -> Array:
    """Return the inverse of the joint-space inertia matrix, (nv, nv) or (n, nv, nv)."""
    checked = checked_arguments(model, q=q)
    return checked.shaped(recursion.minv(checked.pose, checked.terms, method))


def aba(
    model: Model,
    q: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    f_ext: ArrayLike | None,
    **terms: Any,
) -> Array:
    """Return the accelerations of forward dynamics, (nv,) or (n, nv) [rad/s^2 | m/s^2]."""
    checked = checked_arguments(model, f_ext, terms, q=q, qd=qd, tau=tau)
    x = checked.states
    return checked.shaped(
        recursion.aba(checked.pose, x["qd"], x["tau"], checked.f_ext, checked.terms)
    )


def rnea_derivatives(
    model: Model,
    q: ArrayLike,
    qd: ArrayLike,
    qdd: ArrayLike,
    f_ext: ArrayLike | None,
    *,
    method: str,
    **terms: Any,
) -> tuple[Array, Array]:
    """Return the gradient of inverse dynamics: dtau_dq and dtau_dqd, (..., nv, nv) each."""
    check_method(model, method)
    checked = checked_arguments(model, f_ext, terms, q=q, qd=qd, qdd=qdd)
    x = checked.states
    by_q, by_qd = derivatives.rnea_derivatives(
        checked.pose, x["qd"], x["qdd"], checked.f_ext, checked.terms
    )
    return checked.shaped(by_q), checked.shaped(by_qd)


def fd_derivatives(
    model: Model,
    q: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    f_ext: ArrayLike | None,
    *,
    method: str,
    **terms: Any,
) -> tuple[Array, Array, Array, Array]:
    """Return forward dynamics with its gradient: qdd, dqdd_dq, dqdd_dqd, minv."""
    check_method(model, method)
    checked = checked_arguments(model, f_ext, terms, q=q, qd=qd, tau=tau)
    x = checked.states
    qdd, by_q, by_qd, inverse = derivatives.fd_derivatives(
        checked.pose, x["qd"], x["tau"], checked.f_ext, checked.terms
    )
    shaped = checked.shaped
    return shaped(qdd), shaped(by_q), shaped(by_qd), shaped(inverse)


def fd_derivatives_from_minv(
    model: Model,
    q: ArrayLike,
    qd: ArrayLike,
    qdd: ArrayLike,
    minv: ArrayLike,
    f_ext: ArrayLike | None,
    *,
    method: str,
    **terms: Any,
) -> tuple[Array, Array]:
    """Return the gradient of forward dynamics from accelerations and M^-1: dqdd_dq, dqdd_dqd."""
    check_method(model, method)
    checked = checked_arguments(model, f_ext, terms, q=q, qd=qd, qdd=qdd)
    x = checked.states
    nv = model.nv
    lower = np.tril(checked_array("minv", minv, (*checked.batch, nv, nv))).reshape(-1, nv, nv)
    inverse = lower + np.swapaxes(np.tril(lower, -1), -1, -2)
    by_q, by_qd = derivatives.fd_derivatives_from_minv(
        checked.pose, x["qd"], x["qdd"], inverse, checked.f_ext, checked.terms
    )
    return checked.shaped(by_q), checked.shaped(by_qd)


def kinetic_energy(model: Model, q: ArrayLike, qd: ArrayLike) -> Array:
    """Return the kinetic energy [J], () or (n,)."""
    checked = checked_arguments(model, q=q, qd=qd)
    return checked.shaped(energy.kinetic_energy(checked.pose, checked.states["qd"]))


def potential_energy(model: Model, q: ArrayLike) -> Array:
    """Return the potential energy [J], () or (n,)."""
    checked = checked_arguments(model, q=q)
    return checked.shaped(energy.potential_energy(model, checked.states["q"]))


def check_method(model: Model, method: str) -> None:
    """Raise `DynamicsError` for any method but ``composite``, the only one for all joints."""
    if method != "composite":
        raise DynamicsError(
            f"method is {method!r}, but the joints of {model.name!r} support only 'composite'."
        )
