r"""Dynamics of a robot whose mimicking joints are tied to the joints they follow.

A ``Model`` is loaded with a joint that mimics another as a joint of its own, as by Pinocchio's
reader. Here the ties hold, with dense matrices on arrays; the functions of :mod:`pinion.dynamics`
come here for coupled models. With the positions q_r of the joints that are free,

    q = G q_r + c        qd = G qd_r        qdd = G qdd_r        tau_r = G^T tau

because the ties do no work (d'Alembert), so that ``M_r = G^T M G`` and likewise for gradients
(Featherstone 2008, section 3.2, for constraints that are explicit and constant). Efforts at
mimicking joints have no meaning of their own: tau_r is what the drives of the free joints give for
all that they move.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from pinion.robot.edit.coupling import coupled, ties, uncoupled
from pinion.robot.errors import RobotError
from pinion.robot.model import Model

from . import arrays, kinematics, mass_centre
from .arrays import ForwardDerivatives
from .checks import (
    Array,
    DynamicsError,
    as_numbers,
    check_choice,
    check_finite,
    checked,
)

Given = ParamSpec("Given")
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class MimicMap:
    """A robot in the coordinates of its free joints; nr and nqr count those.

    The methods have the names, options and errors of the functions of :mod:`pinion.dynamics`;
    their q is (nqr,) or (n, nqr), their qd, qdd and tau (nr,) or (n, nr).

    Members
    -------
    model : the whole robot.
    joints : names of the free joints, in the order of q_r.
    G : (nv, nr), rates of all joints from those of the free ones.
    Gq, c : (nq, nqr) and (nq,), positions of all joints from those of the free ones [rad | m].
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
        """Return the rates (or accelerations) of all joints, (nv,) or (n, nv)."""
        return np.asarray(self._checked("qd", qd, self.G.shape[1]) @ self.G.T)

    def efforts(self, tau: ArrayLike) -> Array:
        """Return what efforts (nv,) or (n, nv) at all joints are at the free ones."""
        return np.asarray(self._checked("tau", tau, self.G.shape[0]) @ self.G)

    def rnea(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        qdd: ArrayLike,
        f_ext: ArrayLike | None = None,
        **options: Any,
    ) -> Array:
        """Inverse dynamics: efforts of the free joints."""
        states = self.positions(q), self.rates(qd), self.rates(qdd)
        return self.efforts(arrays.rnea(self.model, *states, f_ext, **options))

    def crba(self, q: ArrayLike) -> Array:
        """Inertia matrix of the free joints, (nr, nr) or (n, nr, nr)."""
        return self._square(arrays.crba(self.model, self.positions(q)))

    def minv(self, q: ArrayLike, *, method: str = "ltdl") -> Array:
        """Its inverse, by Cholesky's factors; ``method`` is ``ltdl``, articulated bodies have no
        ties.
        """
        check_choice("method", method, ("ltdl",))
        M = self.crba(q)
        try:
            root = np.linalg.inv(np.linalg.cholesky(M))
        except np.linalg.LinAlgError:
            raise DynamicsError(
                f"The inertia matrix of the free joints of {self.model.name!r} is not positive "
                "definite: a joint moves bodies without inertia; give them mass."
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
        """Forward dynamics: accelerations of the free joints."""
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
        """Gradient of :meth:`rnea`: dtau_dq, dtau_dqd."""
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
        """Forward dynamics with its gradient."""
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
        """Gradient of forward dynamics with accelerations and M^-1 given."""
        by_q, by_qd = self.rnea_derivatives(q, qd, qdd, f_ext, **options)
        lower = np.tril(checked("minv", minv, by_q.shape))
        inverse = lower + np.swapaxes(np.tril(lower, -1), -1, -2)
        return -inverse @ by_q, -inverse @ by_qd

    def link_states(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> tuple[Array, ...]:
        """Velocity, acceleration and force of every link, each (bodies, 6) or (n, bodies, 6)."""
        return arrays.link_states(self.model, self.positions(q), self.rates(qd), self.rates(qdd))

    def kinetic_energy(self, q: ArrayLike, qd: ArrayLike) -> Array:
        """Kinetic energy [J]."""
        return arrays.kinetic_energy(self.model, self.positions(q), self.rates(qd))

    def potential_energy(self, q: ArrayLike) -> Array:
        """Potential energy [J]."""
        return arrays.potential_energy(self.model, self.positions(q))

    def frame_placement(self, q: ArrayLike, frame: str) -> tuple[Array, Array]:
        """Where a link stands."""
        return kinematics.frame_placement(self.model, self.positions(q), frame)

    def frame_jacobian(self, q: ArrayLike, frame: str, **options: Any) -> Array:
        """Jacobian of a link's frame, (6, nr) or (n, 6, nr)."""
        every = kinematics.frame_jacobian(self.model, self.positions(q), frame, **options)
        return np.asarray(every @ self.G)

    def frame_velocity(self, q: ArrayLike, qd: ArrayLike, frame: str, **options: Any) -> Array:
        """Velocity of a link's frame."""
        states = self.positions(q), self.rates(qd)
        return kinematics.frame_velocity(self.model, *states, frame, **options)

    def centre_of_mass(self, q: ArrayLike) -> Array:
        """Centre of mass of the moving bodies [m]."""
        return mass_centre.centre_of_mass(self.model, self.positions(q))

    def com_jacobian(self, q: ArrayLike) -> Array:
        """Jacobian of the centre of mass, (3, nr) or (n, 3, nr)."""
        return np.asarray(mass_centre.com_jacobian(self.model, self.positions(q)) @ self.G)

    def _square(self, matrix: Array) -> Array:
        return np.asarray(self.G.T @ matrix @ self.G)

    def _checked(self, name: str, argument: ArrayLike, width: int) -> Array:
        array = as_numbers(name, argument)
        if array.ndim not in (1, 2) or array.shape[-1] != width:
            raise DynamicsError(
                f"{name} has shape {array.shape}: pass ({width},) for one state or (n, {width}) "
                f"for a batch of {self.model.name!r} with its mimicking joints tied."
            )
        check_finite(name, array)
        return array


def reduce_mimic(model: Model) -> MimicMap:
    """Tie every joint that mimics another to it; a joint may follow one that follows another.

    Raises
    ------
    DynamicsError : a joint follows one that is not there, that follows it in turn, or that has
        several positions.
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
            f"A model comes first, not a {type(model).__name__}: give what pinion.robot.load "
            "returns."
        )


def also_coupled(
    function: Callable[Concatenate[Model, Given], Result],
) -> Callable[Concatenate[Model, Given], Result]:
    """Give a function of a robot with every joint as one of its own the coupled robots too.

    Those go to the method of :class:`MimicMap` that has its name.
    """

    @wraps(function)
    def of_any(model: Model, /, *args: Given.args, **options: Given.kwargs) -> Result:
        _check_model(model)
        if not model.coupled:
            return function(model, *args, **options)
        method = getattr(reduce_mimic(model), function.__name__)
        return cast("Result", method(*args, **options))

    return of_any
