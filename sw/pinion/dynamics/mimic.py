r"""Dynamics of a robot whose mimic joints are tied to their leaders.

A mimic joint is independent in a loaded ``Model``, as from Pinocchio's reader. Here the ties hold,
with dense matrices on arrays; the functions of :mod:`pinion.dynamics` use this module for coupled
models. With the positions q_r of the free joints,

    q = G q_r + c        qd = G qd_r        qdd = G qdd_r        tau_r = G^T tau

because the ties do no work (d'Alembert), so that ``M_r = G^T M G`` and likewise for gradients
(Featherstone 2008, section 3.2, for constraints that are explicit and constant). Efforts at mimic
joints have no separate meaning: tau_r covers everything that the free joints' drives move.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from pinion.robot import Model, RobotError, coupled, ties, uncoupled

from . import arrays, kinematics, mass_centre
from .arrays import ForwardDerivatives
from .checks import Array, DynamicsError, as_numbers, check_choice, check_finite, checked

Given = ParamSpec("Given")
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class MimicMap:
    """A robot in the coordinates of its independent joints, nqr positions and nr velocities.

    The methods have the names, options and errors of the functions of :mod:`pinion.dynamics`;
    their q is (nqr,) or (n, nqr), their qd, qdd and tau (nr,) or (n, nr).

    Members
    -------
    model : the robot with every joint independent.
    joints : names of the independent joints, in the order of q_r.
    G : (nv, nr), rates of all joints from the independent ones.
    Gq, c : (nq, nqr) and (nq,), positions of all joints from the independent ones [rad | m].
    """

    model: Model
    joints: tuple[str, ...]
    G: Array
    Gq: Array
    c: Array

    def positions(self, q: ArrayLike) -> Array:
        """Return the positions of all joints, (nq,) or (n, nq)."""
        return self._checked("q", q, self.Gq.shape[1]) @ self.Gq.T + self.c

    def rates(self, qd: ArrayLike) -> Array:
        """Return all joints' rates (or accelerations), (nv,) or (n, nv)."""
        return np.asarray(self._checked("qd", qd, self.G.shape[1]) @ self.G.T)

    def efforts(self, tau: ArrayLike) -> Array:
        """Return the independent joints' efforts from efforts (nv,) or (n, nv) at all joints."""
        return np.asarray(self._checked("tau", tau, self.G.shape[0]) @ self.G)

    def rnea(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        qdd: ArrayLike,
        f_ext: ArrayLike | None = None,
        **options: Any,
    ) -> Array:
        """Return the inverse-dynamics efforts of the independent joints, (nr,) or (n, nr)."""
        states = self.positions(q), self.rates(qd), self.rates(qdd)
        return self.efforts(arrays.rnea(self.model, *states, f_ext, **options))

    def crba(self, q: ArrayLike) -> Array:
        """Return the inertia matrix of the independent joints, (nr, nr) or (n, nr, nr)."""
        return self._square(arrays.crba(self.model, self.positions(q)))

    def minv(self, q: ArrayLike, *, method: str = "ltdl") -> Array:
        """Return the inverse of :meth:`crba`, by Cholesky; ``method`` must be ``ltdl``."""
        check_choice("method", method, ("ltdl",))
        M = self.crba(q)
        try:
            root = np.linalg.inv(np.linalg.cholesky(M))
        except np.linalg.LinAlgError:
            raise DynamicsError(
                f"The inertia matrix of the independent joints of {self.model.name!r} is not "
                "positive definite: a joint moves bodies without inertia; give it an armature."
            ) from None
        return np.asarray(np.swapaxes(root, -1, -2) @ root)

    def aba(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        tau: ArrayLike,
        f_ext: ArrayLike | None = None,
        **options: Any,
    ) -> Array:
        """Return the forward-dynamics accelerations of the independent joints, (nr,) or (n, nr)."""
        still = np.zeros(np.shape(qd))
        bias = self.rnea(q, qd, still, f_ext, **options)
        free = self._checked("tau", tau, self.G.shape[1]) - bias
        inverse = self.minv(q)
        return np.asarray((inverse @ free[..., None])[..., 0])

    def rnea_derivatives(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        qdd: ArrayLike,
        f_ext: ArrayLike | None = None,
        **options: Any,
    ) -> tuple[Array, Array]:
        """Return the gradient of :meth:`rnea`: dtau_dq and dtau_dqd, (..., nr, nr) each."""
        states = self.positions(q), self.rates(qd), self.rates(qdd)
        by_q, by_qd = arrays.rnea_derivatives(self.model, *states, f_ext, **options)
        return self._square(by_q), self._square(by_qd)

    def fd_derivatives(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        tau: ArrayLike,
        f_ext: ArrayLike | None = None,
        **options: Any,
    ) -> ForwardDerivatives:
        """Return forward dynamics of the independent joints with its gradient."""
        terms = {k: v for k, v in options.items() if k != "method"}
        qdd = self.aba(q, qd, tau, f_ext, **terms)
        inverse = self.minv(q)
        by_q, by_qd = self.rnea_derivatives(q, qd, qdd, f_ext, **options)
        return ForwardDerivatives(
            qdd=qdd, dqdd_dq=-inverse @ by_q, dqdd_dqd=-inverse @ by_qd, minv=inverse
        )

    def fd_derivatives_from_minv(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        qdd: ArrayLike,
        minv: ArrayLike,
        f_ext: ArrayLike | None = None,
        **options: Any,
    ) -> tuple[Array, Array]:
        """Return the gradient of forward dynamics from accelerations and M^-1."""
        by_q, by_qd = self.rnea_derivatives(q, qd, qdd, f_ext, **options)
        lower = np.tril(checked("minv", minv, by_q.shape))
        inverse = lower + np.swapaxes(np.tril(lower, -1), -1, -2)
        return -inverse @ by_q, -inverse @ by_qd

    def link_states(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> tuple[Array, ...]:
        """Return the velocity, acceleration and force of every link, (..., bodies, 6) each."""
        return arrays.link_states(self.model, self.positions(q), self.rates(qd), self.rates(qdd))

    def kinetic_energy(self, q: ArrayLike, qd: ArrayLike) -> Array:
        """Return the kinetic energy [J], () or (n,)."""
        return arrays.kinetic_energy(self.model, self.positions(q), self.rates(qd))

    def potential_energy(self, q: ArrayLike) -> Array:
        """Return the potential energy [J], () or (n,)."""
        return arrays.potential_energy(self.model, self.positions(q))

    def frame_placement(self, q: ArrayLike, frame: str) -> tuple[Array, Array]:
        """Return the placement of a frame: its rotation into the base, and its origin [m]."""
        return kinematics.frame_placement(self.model, self.positions(q), frame)

    def frame_jacobian(self, q: ArrayLike, frame: str, **options: Any) -> Array:
        """Return the Jacobian of a link's frame, (6, nr) or (n, 6, nr)."""
        every = kinematics.frame_jacobian(self.model, self.positions(q), frame, **options)
        return np.asarray(every @ self.G)

    def frame_velocity(self, q: ArrayLike, qd: ArrayLike, frame: str, **options: Any) -> Array:
        """Return the velocity ``[angular; linear]`` of a link's frame, (6,) or (n, 6)."""
        states = self.positions(q), self.rates(qd)
        return kinematics.frame_velocity(self.model, *states, frame, **options)

    def centre_of_mass(self, q: ArrayLike) -> Array:
        """Return the centre of mass of the moving bodies [m], (3,) or (n, 3)."""
        return mass_centre.centre_of_mass(self.model, self.positions(q))

    def com_jacobian(self, q: ArrayLike) -> Array:
        """Return the Jacobian of the centre of mass, (3, nr) or (n, 3, nr)."""
        return np.asarray(mass_centre.com_jacobian(self.model, self.positions(q)) @ self.G)

    def _square(self, matrix: Array) -> Array:
        return np.asarray(self.G.T @ matrix @ self.G)

    def _checked(self, name: str, argument: ArrayLike, width: int) -> Array:
        array = as_numbers(name, argument)
        if array.ndim not in (1, 2) or array.shape[-1] != width:
            raise DynamicsError(
                f"{name} has shape {array.shape}: pass ({width},) for one state or (n, {width}) "
                f"for a batch, with values of {self.model.name!r}'s independent joints only."
            )
        check_finite(name, array)
        return array


def reduce_mimic(model: Model) -> MimicMap:
    """Return the robot with every mimic joint tied to its leader, as maps between coordinates.

    Raises
    ------
    DynamicsError : a joint follows an unknown one, one that follows it in turn, or one with several
        positions.
    """
    try:
        tied = coupled(model)
    except RobotError as error:
        raise DynamicsError(str(error)) from None
    model = uncoupled(model)
    Gq, G, c = np.zeros((model.nq, tied.nq)), np.zeros((model.nv, tied.nv)), np.zeros(model.nq)
    places = list(zip(model.q_slices, model.v_slices, strict=True))
    columns = list(zip(tied.q_slices, tied.v_slices, strict=True))
    for (at, v_at), tie in zip(places, ties(model), strict=True):
        q_column, v_column = columns[tie.leader]
        Gq[at, q_column] = tie.ratio * np.eye(at.stop - at.start)
        G[v_at, v_column] = tie.ratio * np.eye(v_at.stop - v_at.start)
        c[at] = tie.offset
    joints = tuple(body.joint.name for body in tied.bodies if not tied.follows(body))
    return MimicMap(model=model, joints=joints, G=G, Gq=Gq, c=c)


def _check_model(model: object) -> None:
    if not isinstance(model, Model):
        raise DynamicsError(
            f"The first argument must be a model, not a {type(model).__name__}: pass the result of "
            "pinion.robot.load."
        )


def also_coupled(
    function: Callable[Concatenate[Model, Given], Result],
) -> Callable[Concatenate[Model, Given], Result]:
    """Decorate a function of uncoupled robots to accept coupled ones as well.

    For those it calls the method of :class:`MimicMap` of the same name.
    """

    @wraps(function)
    def of_any(model: Model, /, *args: Given.args, **options: Given.kwargs) -> Result:
        _check_model(model)
        if not model.coupled:
            return function(model, *args, **options)
        method = getattr(reduce_mimic(model), function.__name__)
        return cast("Result", method(*args, **options))

    return of_any
