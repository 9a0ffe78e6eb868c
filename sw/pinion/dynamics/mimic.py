r"""Dynamics of a robot whose mimicking joints are tied to the joints they follow.

A ``Model`` keeps a joint that mimics another as a joint of its own. Here the ties hold: with the
positions q_r of the joints that are free,

    q = G q_r + c        qd = G qd_r        qdd = G qdd_r        tau_r = G^T tau

because the ties do no work (d'Alembert), so that ``M_r = G^T M G`` and likewise for gradients
(Featherstone 2008, section 3.2, for constraints that are explicit and constant). Efforts at
mimicking joints have no meaning of their own: tau_r is what the drives of the free joints give for
all that they move.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pinion.dynamics.arrays import ForwardDerivatives
from pinion.dynamics.checks import Array, DynamicsError, as_numbers, check_finite
from pinion.robot.model import Model

from . import arrays


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

    def minv(self, q: ArrayLike) -> Array:
        """Its inverse."""
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
    bodies = {body.joint.name: k for k, body in enumerate(model.bodies)}
    free = [k for k, body in enumerate(model.bodies) if body.joint.mimic is None]
    full_q, full_v = model.q_slices, model.v_slices
    Gq = np.zeros((model.nq, sum(model.bodies[k].joint.kind.nq for k in free)))
    G = np.zeros((model.nv, sum(model.bodies[k].joint.kind.nv for k in free)))
    c = np.zeros(model.nq)
    columns: dict[int, tuple[int, int]] = {}
    at_q = at_v = 0
    for k in free:
        kind = model.bodies[k].joint.kind
        columns[k] = at_q, at_v
        Gq[full_q[k], at_q : at_q + kind.nq] = np.eye(kind.nq)
        G[full_v[k], at_v : at_v + kind.nv] = np.eye(kind.nv)
        at_q, at_v = at_q + kind.nq, at_v + kind.nv
    for k, body in enumerate(model.bodies):
        if body.joint.mimic is None:
            continue
        leader, ratio, offset = _leader(model, bodies, k)
        q_column, v_column = columns[leader]
        Gq[full_q[k], q_column] = ratio
        G[full_v[k], v_column] = ratio
        c[full_q[k]] = offset
    joints = tuple(model.bodies[k].joint.name for k in free)
    return MimicMap(model=model, joints=joints, G=G, Gq=Gq, c=c)


def _leader(model: Model, bodies: dict[str, int], follower: int) -> tuple[int, float, float]:
    """Return the free joint that a joint follows in the end, and its ratio and offset to it."""
    ratio, offset = 1.0, 0.0
    seen: list[str] = []
    k = follower
    while True:
        joint = model.bodies[k].joint
        if joint.kind.nq != 1:
            raise DynamicsError(
                f"The joint {joint.name!r} of {model.name!r} is {joint.kind.value} and part of a "
                "mimic: only joints of one position can follow or lead."
            )
        if joint.mimic is None:
            return k, ratio, offset
        if joint.name in seen:
            shown = " -> ".join(map(repr, [*seen, joint.name]))
            raise DynamicsError(f"The mimics {shown} of {model.name!r} form a circle; open it.")
        seen.append(joint.name)
        offset += ratio * joint.mimic.offset
        ratio *= joint.mimic.multiplier
        if joint.mimic.joint not in bodies:
            raise DynamicsError(
                f"The joint {joint.name!r} of {model.name!r} mimics {joint.mimic.joint!r}, which "
                "does not move: there is no such joint."
            )
        k = bodies[joint.mimic.joint]
