"""The general functions on one state or a batch: what :mod:`pinion.dynamics.arrays` hands over.

Arguments, results and errors are those of the functions of the same names there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pinion.dynamics.checks import Array, DynamicsError, checked, configurations, wrenches
from pinion.dynamics.joint_terms import FRICTION_WIDTH, JointTerms, joint_terms_of
from pinion.robot.model import Model

from . import derivatives, energy, recursion
from .state import Pose, pose_of

Wanted = bool | Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Request:
    """Checked arguments with a batch in front, and the shape that the results take."""

    pose: Pose
    states: dict[str, Array]
    f_ext: Array | None
    terms: JointTerms
    batch: tuple[int, ...]

    def shaped(self, result: Array) -> Array:
        """Return a result (n, ...) without the batch where the caller gave one state."""
        return np.asarray(result).reshape((*self.batch, *result.shape[1:]))


def request(
    model: Model,
    joint_terms: Wanted = (),
    friction_width: float = FRICTION_WIDTH,
    f_ext: ArrayLike | None = None,
    **arguments: ArrayLike,
) -> Request:
    """Check arguments by name and place the bodies."""
    terms = joint_terms_of(model, joint_terms, friction_width)
    states = configurations(model, **arguments)
    batch = states["q"].shape[:-1]
    forces = wrenches(model, f_ext, batch)
    if not batch:
        states = {name: array[None] for name, array in states.items()}
        forces = None if forces is None else forces[None]
    pose = pose_of(model, states["q"])
    return Request(pose=pose, states=states, f_ext=forces, terms=terms, batch=batch)


def rnea(
    model: Model,
    q: ArrayLike,
    qd: ArrayLike,
    qdd: ArrayLike,
    f_ext: ArrayLike | None,
    *,
    joint_terms: Wanted,
    friction_width: float,
) -> Array:
    """Inverse dynamics."""
    given = request(model, joint_terms, friction_width, f_ext, q=q, qd=qd, qdd=qdd)
    x = given.states
    return given.shaped(recursion.rnea(given.pose, x["qd"], x["qdd"], given.f_ext, given.terms))


def crba(model: Model, q: ArrayLike) -> Array:
    """Joint-space inertia matrix."""
    given = request(model, q=q)
    return given.shaped(recursion.crba(given.pose, given.terms))


def minv(model: Model, q: ArrayLike, *, method: str) -> Array:
    """Inverse of the joint-space inertia matrix."""
    given = request(model, q=q)
    return given.shaped(recursion.minv(given.pose, given.terms, method))


def aba(
    model: Model,
    q: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    f_ext: ArrayLike | None,
    *,
    joint_terms: Wanted,
    friction_width: float,
) -> Array:
    """Forward dynamics."""
    given = request(model, joint_terms, friction_width, f_ext, q=q, qd=qd, tau=tau)
    x = given.states
    return given.shaped(recursion.aba(given.pose, x["qd"], x["tau"], given.f_ext, given.terms))


def rnea_derivatives(
    model: Model,
    q: ArrayLike,
    qd: ArrayLike,
    qdd: ArrayLike,
    f_ext: ArrayLike | None,
    *,
    method: str,
    joint_terms: Wanted,
    friction_width: float,
) -> tuple[Array, Array]:
    """Gradient of inverse dynamics."""
    check_method(model, method)
    given = request(model, joint_terms, friction_width, f_ext, q=q, qd=qd, qdd=qdd)
    x = given.states
    by_q, by_qd = derivatives.rnea_derivatives(
        given.pose, x["qd"], x["qdd"], given.f_ext, given.terms
    )
    return given.shaped(by_q), given.shaped(by_qd)


def fd_derivatives(
    model: Model,
    q: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    f_ext: ArrayLike | None,
    *,
    method: str,
    joint_terms: Wanted,
    friction_width: float,
) -> tuple[Array, Array, Array, Array]:
    """Forward dynamics with its gradient: qdd, dqdd_dq, dqdd_dqd, minv."""
    check_method(model, method)
    given = request(model, joint_terms, friction_width, f_ext, q=q, qd=qd, tau=tau)
    x = given.states
    qdd, by_q, by_qd, inverse = derivatives.fd_derivatives(
        given.pose, x["qd"], x["tau"], given.f_ext, given.terms
    )
    return given.shaped(qdd), given.shaped(by_q), given.shaped(by_qd), given.shaped(inverse)


# Many parameters: the quantities of the equation, and the terms that rows switch.
def fd_derivatives_from_minv(
    model: Model,
    q: ArrayLike,
    qd: ArrayLike,
    qdd: ArrayLike,
    minv: ArrayLike,
    f_ext: ArrayLike | None,
    *,
    method: str,
    joint_terms: Wanted,
    friction_width: float,
) -> tuple[Array, Array]:
    """Gradient of forward dynamics with accelerations and M^-1 given."""
    check_method(model, method)
    given = request(model, joint_terms, friction_width, f_ext, q=q, qd=qd, qdd=qdd)
    x = given.states
    nv = model.nv
    lower = np.tril(checked("minv", minv, (*given.batch, nv, nv))).reshape(-1, nv, nv)
    inverse = lower + np.swapaxes(np.tril(lower, -1), -1, -2)
    by_q, by_qd = derivatives.fd_derivatives_from_minv(
        given.pose, x["qd"], x["qdd"], inverse, given.f_ext, given.terms
    )
    return given.shaped(by_q), given.shaped(by_qd)


def kinetic_energy(model: Model, q: ArrayLike, qd: ArrayLike) -> Array:
    """Kinetic energy."""
    given = request(model, q=q, qd=qd)
    return given.shaped(energy.kinetic_energy(given.pose, given.states["qd"]))


def potential_energy(model: Model, q: ArrayLike) -> Array:
    """Potential energy."""
    given = request(model, q=q)
    return given.shaped(energy.potential_energy(model, given.states["q"]))


def check_method(model: Model, method: str) -> None:
    """Raise for the column recursion, which knows no other joints."""
    if method == "composite":
        return
    raise DynamicsError(
        f"method is {method!r}, but for the joints of {model.name!r} there is 'composite' alone."
    )
