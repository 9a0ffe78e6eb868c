r"""Discrete-time dynamics for model predictive control: a simulation step and its gradient.

The state is ``x = [q; qd]``, positions first, joints in the model's order; the input is ``u = tau``
and is held constant over the step (zero-order hold). With forward dynamics ``qdd = FD(q, qd, tau)``
and its gradient ``Fq, Fv, M^-1``, a step of length h is one of

**semi_implicit** (symplectic Euler, as in most physics engines): the new rates move positions.

    qd+ = qd + h FD(q, qd, tau)         A = [ 1 + h^2 Fq    h (1 + h Fv) ]    B = [ h^2 M^-1 ]
    q+  = q + h qd+                         [ h Fq          1 + h Fv     ]        [ h M^-1   ]

**rk4** (the classical Runge-Kutta method of order 4): four evaluations of ``f(x) = [qd; FD]``, at
x, x + h/2 k1, x + h/2 k2, x + h k3, weighted 1, 2, 2, 1 in sixths. Its gradient is the exact one of
these four stages by the chain rule, not the continuous one multiplied by h.

Both gradients are exact for the step as computed: ``x+(x + d) = x+ + A d`` holds to first order in
d for any h. Positions of revolute and prismatic joints add, and angles are not wrapped; those of
other joints move by ``integrate`` and their nv changes are tangent, in both methods:
:mod:`pinion.dynamics.general.discrete` has the equations for all joints, and the array functions
use them for every robot. :func:`.steps.step_scalars` has the same steps over scalars, so they
can be traced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pinion.robot import Model

from .aba import aba_scalars
from .checks import (
    Array,
    DynamicsError,
    check_choice,
    checked_forces,
    columns_of,
    configurations,
    matrix_of,
    vector_of,
    wrenches,
)
from .fd_derivatives import fd_derivatives_scalars
from .general import derivatives, recursion
from .general.discrete import (
    STEP_METHODS,
    Forward,
    Gradient,
    StepMethod,
    check_result,
    step,
    step_derivatives,
)
from .general.state import pose_of
from .joint_terms import FRICTION_WIDTH, joint_terms_of
from .scalar import Scalar

__all__ = [
    "STEP_METHODS",
    "StepMethod",
    "discrete_derivatives",
    "discrete_dynamics",
]


# Many parameters: the quantities of the equation, and the optional terms.
def discrete_dynamics(
    model: Model,
    q: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    dt: float,
    *,
    method: StepMethod = "semi_implicit",
    f_ext: ArrayLike | None = None,
    joint_terms: bool | Sequence[str] = (),
    friction_width: float = FRICTION_WIDTH,
) -> tuple[Array, Array]:
    """Return positions and rates after one simulation step with the efforts held constant.

    Arguments
    ---------
    q : (nq,) or (n, nq) float, joint positions [rad | m].
    qd : (nv,) or (n, nv) float, joint rates [rad/s | m/s].
    tau : (nv,) or (n, nv) float, joint efforts [N m | N], constant over the step.
    dt : length of the step [s], above zero.
    method : ``semi_implicit`` (order 1, one forward dynamics) or ``rk4`` (order 4, four).
    f_ext : (bodies, 6) or (n, bodies, 6) float, external force on each body, ``[angular; linear]``
        in the body's coordinates about its origin [N m, N], constant there over the step.
    joint_terms, friction_width : joint terms besides the armature, as for
        :func:`.joint_terms.joint_terms_of`. Steps are explicit in them: keep ``dt`` times damping,
        or times the slope of friction, below the joint's inertia.

    Returns
    -------
    q_next, qd_next : (nq,) or (n, nq), and (nv,) or (n, nv) float64, positions (angles not wrapped)
        and rates after the step. Joint limits are ignored.

    Raises
    ------
    DynamicsError : a shape does not fit, a number is not finite, dt is not positive, the method is
        unknown, or the step is so long that its result is not finite.
    """
    terms = {"joint_terms": joint_terms, "friction_width": friction_width}
    x = _start(model, q, qd, tau, dt, method, f_ext, terms)
    with np.errstate(over="ignore", invalid="ignore"):
        return x.shaped(*step(model, x.forward, x.q, x.qd, x.dt, method))


# Many parameters: the quantities of the equation, and the optional terms.
def discrete_derivatives(
    model: Model,
    q: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    dt: float,
    *,
    method: StepMethod = "semi_implicit",
    f_ext: ArrayLike | None = None,
    joint_terms: bool | Sequence[str] = (),
    friction_width: float = FRICTION_WIDTH,
) -> tuple[Array, Array]:
    """Return the gradient of :func:`discrete_dynamics` with respect to ``[q; qd]`` and ``tau``.

    Arguments
    ---------
    model, q, qd, tau, dt, method, f_ext, joint_terms, friction_width : as for
        :func:`discrete_dynamics`.

    Returns
    -------
    A : (2 nv, 2 nv) or (n, 2 nv, 2 nv) float64, ``[..., i, j]`` is the derivative of the next
        state's entry i with respect to the state's entry j; the first nv entries are positions.
    B : (2 nv, nv) or (n, 2 nv, nv) float64, the derivative of the next state with respect to tau.

    Raises
    ------
    DynamicsError : as for :func:`discrete_dynamics`.
    """
    terms = {"joint_terms": joint_terms, "friction_width": friction_width}
    x = _start(model, q, qd, tau, dt, method, f_ext, terms)
    with np.errstate(over="ignore", invalid="ignore"):
        return x.shaped(*step_derivatives(model, x.gradient, x.q, x.qd, x.dt, method))


@dataclass(frozen=True, kw_only=True)
class _Start:
    """Checked states with a batch axis, the time step, and dynamics at given efforts and forces.

    ``batch`` is the caller's batch shape: () for one state, in which case n is 1.
    """

    q: Array
    qd: Array
    dt: float
    forward: Forward
    gradient: Gradient
    batch: tuple[int, ...]

    def shaped(self, *results: Array) -> tuple[Array, Array]:
        """Return two results, without the batch axis for one state; raise if one is not finite."""
        check_result(self.dt, *results)
        first, second = (result.reshape(*self.batch, *result.shape[1:]) for result in results)
        return first, second


def _start(
    model: Model,
    q: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    dt: float,
    method: StepMethod,
    f_ext: ArrayLike | None,
    terms: Mapping[str, Any],
) -> _Start:
    check_choice("method", method, STEP_METHODS)
    dt = _checked_step(dt)
    states = configurations(model, q=q, qd=qd, tau=tau)
    batch = states["q"].shape[:-1]
    x = {name: array.reshape(-1, array.shape[-1]) for name, array in states.items()}
    scalars = model.single_dof or model.coupled
    make = _scalar_dynamics if scalars else _general_dynamics
    forward, gradient = make(model, x["tau"], f_ext, batch, terms)
    return _Start(q=x["q"], qd=x["qd"], dt=dt, forward=forward, gradient=gradient, batch=batch)


def _scalar_dynamics(
    model: Model,
    tau: Array,
    f_ext: ArrayLike | None,
    batch: tuple[int, ...],
    terms: Mapping[str, Any],
) -> tuple[Forward, Gradient]:
    """Return forward dynamics and its gradient by the scalar algorithms, on arrays (n, nv).

    One state is computed in plain floats, several times as fast as arrays of length 1.
    """
    forces = checked_forces(model, f_ext, batch)

    def split(array: Array) -> list[Scalar]:
        return columns_of(array.reshape(*batch, array.shape[-1]))

    def matrix(rows: Sequence[Sequence[Scalar]]) -> Array:
        return matrix_of(rows, batch).reshape(*tau.shape, model.nv)

    def forward(q: Array, qd: Array) -> Array:
        qdd = aba_scalars(model, split(q), split(qd), split(tau), forces, **terms)
        return vector_of(qdd, batch).reshape(tau.shape)

    def gradient(q: Array, qd: Array) -> tuple[Array, Array, Array, Array]:
        fd = fd_derivatives_scalars(model, split(q), split(qd), split(tau), forces, **terms)
        qdd = vector_of(fd.qdd, batch).reshape(tau.shape)
        return qdd, matrix(fd.dqdd_dq), matrix(fd.dqdd_dqd), matrix(fd.minv)

    return forward, gradient


def _general_dynamics(
    model: Model,
    tau: Array,
    f_ext: ArrayLike | None,
    batch: tuple[int, ...],
    terms: Mapping[str, Any],
) -> tuple[Forward, Gradient]:
    """Return forward dynamics and its gradient by the dense algorithms, on arrays (n, nv)."""
    external = wrenches(model, f_ext, batch)
    forces = None if external is None else external.reshape(len(tau), *external.shape[-2:])
    joint_terms = joint_terms_of(model, **terms)

    def forward(q: Array, qd: Array) -> Array:
        return recursion.aba(pose_of(model, q), qd, tau, forces, joint_terms)

    def gradient(q: Array, qd: Array) -> tuple[Array, Array, Array, Array]:
        return derivatives.fd_derivatives(pose_of(model, q), qd, tau, forces, joint_terms)

    return forward, gradient


def _checked_step(dt: float) -> float:
    try:
        step = float(dt)
    except (TypeError, ValueError):
        raise DynamicsError(f"dt is {dt!r:.60}: pass a positive number of seconds.") from None
    if not 0.0 < step < float("inf"):
        raise DynamicsError(f"dt is {dt}: pass a finite positive number of seconds.")
    return step
