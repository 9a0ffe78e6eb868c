"""States of a robot, which need not be vectors, and the efforts of its actuators.

A state is x = [q; qd], (nq + nv,). Its changes dx = [dv; dqd], (2 nv,), are tangent: positions move
by :func:`pinion.dynamics.integrate`, a floating base along its own axes, as in Pinocchio and in
Crocoddyl's ``StateMultibody``. Of a robot whose joints have one position each, changes add.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pinion import dynamics
from pinion.base.arrays import Floats
from pinion.dynamics.general.tangent import tangent_rates
from pinion.robot import JointKind, Model

from .errors import ControlError


@dataclass(frozen=True)
class StateSpace:
    """State space and actuators of a robot.

    Members
    -------
    model : the robot, with mimic joints coupled to their leaders.
    nq, nv : of its positions and velocities.
    nx, ndx : of its states and of their changes, nq + nv and 2 nv.
    actuated : velocities with an actuator, (nu,): all but those of a floating base.
    turning : velocities of the joints whose positions do not add, as slices.
    units : positions of unit length, such as quaternions, as slices.
    flat : whether positions add.
    """

    model: Model
    nq: int = field(init=False)
    nv: int = field(init=False)
    actuated: tuple[int, ...] = field(init=False)
    turning: tuple[slice, ...] = field(init=False)
    units: tuple[slice, ...] = field(init=False)
    flat: bool = field(init=False)

    def __post_init__(self) -> None:
        model = self.model
        driven = [
            at
            for body, columns in zip(model.bodies, model.v_slices, strict=True)
            if body.joint.kind is not JointKind.FREE_FLYER
            for at in range(columns.start, columns.stop)
        ]
        object.__setattr__(self, "nq", model.nq)
        object.__setattr__(self, "nv", model.nv)
        joints = zip(model.bodies, model.v_slices, strict=True)
        turning = tuple(columns for body, columns in joints if body.joint.kind.nv > 1)
        object.__setattr__(self, "actuated", tuple(driven))
        object.__setattr__(self, "turning", turning)
        object.__setattr__(self, "units", _units(model))
        object.__setattr__(self, "flat", model.nq == model.nv)

    @property
    def nx(self) -> int:
        """Size of a state."""
        return self.nq + self.nv

    @property
    def ndx(self) -> int:
        """Size of a change of a state."""
        return 2 * self.nv

    @property
    def nu(self) -> int:
        """Number of actuators."""
        return len(self.actuated)

    def neutral(self) -> Floats:
        """Return the state (nx,) with every joint at zero and at rest."""
        q = dynamics.neutral_configuration(self.model)
        return np.concatenate([q, np.zeros(self.nv)])

    def efforts(self, u: Floats) -> Floats:
        """Return efforts (..., nv) of all joints from those of the actuators (..., nu).

        Raises
        ------
        ControlError
            If there is another number of efforts.
        """
        if u.shape[-1] != self.nu:
            raise ControlError(
                f"There are {u.shape[-1]} efforts, but {self.model.name} has {self.nu} actuators "
                "(a floating base has none): give one for each."
            )
        if self.nu == self.nv:
            return u
        tau = np.zeros((*u.shape[:-1], self.nv))
        tau[..., self.actuated] = u
        return tau

    def moved(self, q: Floats, v: Floats) -> Floats:
        """Return positions (..., nq) after a change (..., nv), NaN where either is not finite."""
        if self.flat:
            return q + v
        (starts, changes), lost = self._usable(q, v)
        flat = dynamics.integrate(self.model, starts, changes)
        flat[lost] = np.nan
        return flat.reshape(q.shape)

    def rates(self, v: Floats, qd: Floats) -> Floats:
        """Return the time derivative (..., nv) of a change (..., nv) at rates qd (..., nv).

        To order 3 in the change, as :func:`pinion.dynamics.general.tangent.tangent_rates`.
        """
        return qd if self.flat else tangent_rates(self.model, v, qd)

    def between(self, q0: Floats, q1: Floats) -> Floats:
        """Return the change (..., nv) that takes positions q0 to q1, NaN as for :meth:`moved`."""
        if self.flat:
            return q1 - q0
        q0, q1 = np.broadcast_arrays(q0, q1)
        (starts, ends), lost = self._usable(q0, q1)
        flat = dynamics.difference(self.model, starts, ends)
        flat[lost] = np.nan
        return flat.reshape(*q0.shape[:-1], self.nv)

    def _usable(self, *arrays: Floats) -> tuple[list[Floats], NDArray[np.bool_]]:
        """Return arrays as rows, neutral where not finite, and the mask of those rows."""
        rows = [array.reshape(-1, array.shape[-1]) for array in arrays]
        lost = ~np.all([np.isfinite(array).all(axis=1) for array in rows], axis=0)
        if lost.any():
            neutral = dynamics.neutral_configuration(self.model)
            substitutes = (neutral if array.shape[1] == self.nq else 0.0 for array in rows)
            rows = [
                np.where(lost[:, None], substitute, array)
                for array, substitute in zip(rows, substitutes, strict=True)
            ]
        return rows, lost

    def integrate(self, x: Floats, dx: Floats) -> Floats:
        """Return states (..., nx) after changes (..., ndx) of states (..., nx)."""
        q, qd = self.parts(x)
        return np.concatenate([self.moved(q, dx[..., : self.nv]), qd + dx[..., self.nv :]], axis=-1)

    def difference(self, x0: Floats, x1: Floats) -> Floats:
        """Return the changes (..., ndx) that take states x0 to x1, (..., nx) each."""
        if self.flat:
            return x1 - x0
        (q0, qd0), (q1, qd1) = self.parts(x0), self.parts(x1)
        return np.concatenate([self.between(q0, q1), qd1 - qd0], axis=-1)

    def between_jacobian(self, change: Floats) -> Floats:
        """Return the derivative (..., nv, nv) of :meth:`between` by q1, from the change (..., nv).

        A change dv of q1 changes the value by ``J_r^-1 dv``, with J_r that of
        :func:`pinion.dynamics.integrate_jacobians`.
        """
        if self.flat:
            return np.broadcast_to(np.eye(self.nv), (*change.shape, self.nv))
        rows = change.reshape(-1, self.nv)
        _, by_v = self.moved_jacobians(rows)
        return np.asarray(np.linalg.inv(by_v)).reshape(*change.shape, self.nv)

    def moved_jacobians(self, v: Floats) -> tuple[Floats, Floats]:
        """Return the derivatives (n, nv, nv) of :meth:`moved` for q and v, at changes v (n, nv)."""
        # They do not depend on the positions.
        q = np.tile(dynamics.neutral_configuration(self.model), (len(v), 1))
        by_q, by_v = dynamics.integrate_jacobians(self.model, q, v)
        return np.asarray(by_q), np.asarray(by_v)

    def is_unit(self, x: Floats) -> bool:
        """Return whether the quaternions of one state (nx,) have unit length, within 1e-12."""
        return all(abs(float(x[at] @ x[at]) - 1.0) < 1e-12 for at in self.units)

    def parts(self, x: Floats) -> tuple[Floats, Floats]:
        """Return positions (..., nq) and velocities (..., nv) of states (..., nx)."""
        return x[..., : self.nq], x[..., self.nq :]


def _units(model: Model) -> tuple[slice, ...]:
    """Return the positions of quaternions, and of cosines and sines of planar joints."""
    joints = zip(model.bodies, model.q_slices, strict=True)
    last = {JointKind.FREE_FLYER: 4, JointKind.SPHERICAL: 4, JointKind.PLANAR: 2}
    return tuple(
        slice(at.stop - last[body.joint.kind], at.stop)
        for body, at in joints
        if body.joint.kind in last
    )
