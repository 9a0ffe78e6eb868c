r"""Coordinates of state changes in which the steps of joints with several velocities add up.

A semi-implicit step ``q+ = integrate(q, h qd+)`` of a floating base carries a change of its
position over, ``dq+ = exp(-ad) dq + h J_r dqd+`` with both of ``h qd+``, so A is not ``A0 + W F``
with A0 and W as where positions add (:mod:`.kernels`). It is so in the coordinates

    z = T dq        w = U dqd        T = Ad(X)        U = Ad(X) J_r(h qd)

with X the joint's displacement, because Ad(X) = Ad(X+) exp(-ad) (Sola, Deray and Atchuthan 2018):
z is the displacement along axes that do not move. Then

    z+ = z + h w+        w+ = w + h (F [z; w] + M du)        M = U+ dqdd/du
    F = [U+ dqdd/dq T^-1,  U+ dqdd/dqd U^-1 + (U+ U^-1 - 1) / h]

and costs and gains of the tangents dq and dqd are turned likewise. Only rows and columns of joints
with several velocities change. Displacements count from an origin near the robot: with the world's,
far away, Ad(X) would lose digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pinion.dynamics.displacements import inverse_jacobian, joint_adjoint, joint_position
from pinion.dynamics.matrices import Rows, combined, identity, product, transposed
from pinion.dynamics.scalar import mul
from pinion.dynamics.spatial import ZERO
from pinion.dynamics.steps import joints_of, step_jacobians
from pinion.robot import JointKind, Model


@dataclass(frozen=True, kw_only=True)
class Coordinates:
    """Coordinates z and w for changes of one state, computed on scalars.

    Members
    -------
    model : the robot, with mimic joints coupled.
    q, qd : (nq,) and (nv,), the state.
    origin : (nq,), positions from which displacements count.
    step : h [s].
    places : the velocities of each turning joint.
    of_q, of_qd : T and U of each turning joint.
    to_q, to_qd : their inverses.
    """

    model: Model
    q: Sequence[Any]
    qd: Sequence[Any]
    origin: Sequence[Any]
    step: float
    places: list[slice] = field(init=False, default_factory=list)
    of_q: list[Rows] = field(init=False, default_factory=list)
    of_qd: list[Rows] = field(init=False, default_factory=list)
    to_q: list[Rows] = field(init=False, default_factory=list)
    to_qd: list[Rows] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        for kind, at, place in joints_of(self.model):
            if kind.nv == 1:
                continue
            fixed = kind is JointKind.SPHERICAL
            origin = ZERO if fixed else joint_position(kind, self.origin[at])
            into, out = joint_adjoint(kind, self.q[at], origin)
            move = [mul(self.step, rate) for rate in self.qd[place]]
            self.places.append(place)
            self.of_q.append(into)
            self.of_qd.append(product(into, step_jacobians(kind, move)[1]))
            self.to_q.append(out)
            self.to_qd.append(product(inverse_jacobian(kind, move), out))

    def dynamics(self, then: Coordinates, by_q: Rows, by_qd: Rows, by_u: Rows) -> tuple[Rows, Rows]:
        """Return F (nv, 2 nv) and M (nv, nu) from the gradient of accelerations.

        ``then`` : the coordinates of the state after the step.
        """
        by_q, by_qd = columns(by_q, self.places, self.to_q), columns(by_qd, self.places, self.to_qd)
        by_q, by_qd, by_u = (rows(x, self.places, then.of_qd) for x in (by_q, by_qd, by_u))
        for place, after, before in zip(self.places, then.of_qd, self.to_qd, strict=True):
            turned = combined((1.0, product(after, before)), (-1.0, identity(len(before))))
            block = [row[place] for row in by_qd[place]]
            for row, changed in zip(
                by_qd[place], combined((1.0, block), (1.0 / self.step, turned)), strict=True
            ):
                row[place] = changed
        return [[*a, *b] for a, b in zip(by_q, by_qd, strict=True)], by_u

    def states(self, by_state: Rows) -> Rows:
        """Return derivatives (k, 2 nv) with respect to z and w, given those for the tangents."""
        return columns(by_state, self._both(), [*self.to_q, *self.to_qd])

    def _both(self) -> list[slice]:
        n = self.model.nv
        rates = [slice(n + place.start, n + place.stop) for place in self.places]
        return [*self.places, *rates]

    def cost(self, lq: Sequence[Any], lqd: Sequence[Any], lqq: Rows, lqdqd: Rows) -> list[Any]:
        """Return a cost's gradients and Hessians for z and w, given those for the tangents."""
        turned: list[Any] = []
        for gradient, inverses in ((lq, self.to_q), (lqd, self.to_qd)):
            turned.append(columns([list(gradient)], self.places, inverses)[0])
        for hessian, inverses in ((lqq, self.to_q), (lqdqd, self.to_qd)):
            right = columns(hessian, self.places, inverses)
            turned.append(rows(right, self.places, [transposed(x) for x in inverses]))
        return turned

    def gains(self, K: Rows) -> Rows:
        """Return gains (nu, 2 nv) for the tangents, given those for z and w."""
        return columns(K, self._both(), [*self.of_q, *self.of_qd])

    def tangents(self, z: Sequence[Any], w: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Return the tangents dq and dqd, (nv,) each, of a change z, w."""
        return self._turned(z, self.to_q), self._turned(w, self.to_qd)

    def change(self, dq: Sequence[Any], dqd: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Return z and w, (nv,) each, of the tangents dq and dqd."""
        return self._turned(dq, self.of_q), self._turned(dqd, self.of_qd)

    def _turned(self, change: Sequence[Any], turns: Sequence[Rows]) -> list[Any]:
        return [row[0] for row in rows([[x] for x in change], self.places, turns)]


def rows(matrix: Rows, places: Sequence[slice], turns: Sequence[Rows]) -> Rows:
    """Return the matrix with its rows at each place multiplied from the left by that turn."""
    turned = [list(row) for row in matrix]
    for place, turn in zip(places, turns, strict=True):
        turned[place] = product(turn, matrix[place])
    return turned


def columns(matrix: Rows, places: Sequence[slice], turns: Sequence[Rows]) -> Rows:
    """Return the matrix with its columns at each place multiplied from the right by that turn."""
    turned = [list(row) for row in matrix]
    for place, turn in zip(places, turns, strict=True):
        for row, changed in zip(turned, product([r[place] for r in matrix], turn), strict=True):
            row[place] = changed
    return turned
