r"""A robot as a discrete-time system, on any backend.

The state is x = [q; qd], (nq + nv,), and the efforts u of the actuators, (nu,), are held over a
step of length h. Semi-implicit Euler:

    qd+ = qd + h FD(q, qd, u)        q+ = integrate(q, h qd+)

with A and B of :mod:`pinion.dynamics.general.discrete`, from the gradient of forward dynamics;
``rk4`` is the classical method of order 4, with A and B of the function ``rk4_step``. Changes of
states are tangent (:mod:`.state`); where positions add, integrate(q, v) is q + v. FD of a robot
with contacts is its dynamics in contact: a mask says which contacts are on the ground in a step.

A string selects the source of gradients: ``float``, ``cpu``, ``cuda``, ``sim`` or a card such as
``xdma:0``. Simulation always uses :func:`pinion.dynamics.aba` in float64 or a compiled one: a
controller's model may be coarse, but its line search may not be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pinion import dynamics
from pinion.api import backend
from pinion.base.arrays import Floats
from pinion.batch import Backend, Closing, Result, by_name
from pinion.functions import Function, row_of
from pinion.robot import Model, contacts_of, coupled, load

from .errors import ControlError, check_number, is_number
from .state import StateSpace

METHODS = dynamics.STEP_METHODS


@dataclass(frozen=True)
class ForceGradient:
    """Contact forces on a robot, in world axes, and their gradient.

    Members
    -------
    value : (n, knots, nc), of each contact 3 components [N], or the moment [N m] and the force.
    x, u : (n, knots, nc, 2 nv) and (n, knots, nc, nu), with respect to states and efforts.
    """

    value: Floats
    x: Floats
    u: Floats


@dataclass(frozen=True)
class Linear:
    """Linearised steps, ``x+ (x + dx, u + du) = x+ + A dx + B du``.

    Members
    -------
    A, B : (n, knots, 2 nv, 2 nv) and (n, knots, 2 nv, nu).
    saturated : (n, knots), where a card's number format overflowed and A and B are invalid.
    force : forces on the contacts; None unless they were asked for.
    """

    A: Floats
    B: Floats
    saturated: NDArray[np.bool_]
    force: ForceGradient | None = None


class Plant(Closing):
    """A robot, stepped and linearised in batches.

    Members
    -------
    model : the robot, with mimic joints coupled to their leaders.
    space : its states and actuators.
    contacts : number of its contacts and loops.
    dt : length of a step [s].
    method : of `METHODS`.
    waited : total time of the calls of `gradients` [s].
    gradients : computes :func:`gradient_row` of the model and method.
    forward : computes ``qdd`` of ``q, qd, tau``, and for contacts also of ``active``, ``damping``
        and ``velocity_gain``.
    velocity_gain : what holds contacts in place against drift (Baumgarte) [1/s].
    damping : compliance of the contacts, with which redundant ones share their forces
        [1/kg | 1/(kg m^2)].
    """

    def __init__(
        self,
        model: Model,
        *,
        dt: float,
        gradients: Backend,
        forward: Callable[..., Any],
        method: dynamics.StepMethod = "semi_implicit",
        velocity_gain: float = 0.0,
        damping: float = 0.0,
    ) -> None:
        check_step(dt, method)
        self.model = control_model(model)
        self.space = StateSpace(self.model)
        self.contacts = contacts_in(self.model)
        check_contacts(self.contacts, method, velocity_gain=velocity_gain, damping=damping)
        self.dt = dt
        self.method = method
        self.velocity_gain = velocity_gain
        self.damping = damping
        self.waited = 0.0
        self.gradients = gradients
        self.forward = forward

    @classmethod
    def open(
        cls,
        robot: str | Model,
        *,
        dt: float,
        device: str = "cpu",
        method: dynamics.StepMethod = "semi_implicit",
        velocity_gain: float = 0.0,
        damping: float = 0.0,
        **options: Any,
    ) -> Self:
        """Open a plant whose gradients come from a device.

        Parameters
        ----------
        robot : a built-in name, a URDF path, or a model.
        dt, method, velocity_gain, damping : as the members.
        device, options : as for :func:`pinion.api.backend`.

        Raises
        ------
        ValueError
            Subclasses: an unknown robot, device or option, or an invalid step.
        """
        check_step(dt, method)
        model = control_model(robot)
        contacts = contacts_in(model)
        # Before anything is compiled, which may take minutes.
        check_contacts(contacts, method, velocity_gain=velocity_gain, damping=damping)
        row = gradient_row(method, contacts=contacts)
        gradients = float64_or_backend(model, row, device, **options)
        try:
            forward = forward_of(model, device)
            return cls(
                model,
                dt=dt,
                gradients=gradients,
                forward=forward,
                method=method,
                velocity_gain=velocity_gain,
                damping=damping,
            )
        except BaseException:
            gradients.close()
            raise

    def close(self) -> None:
        """Close the backend of the gradients."""
        self.gradients.close()

    def accelerations(self, x: Floats, u: Floats, active: Floats | None = None) -> Floats:
        """Return accelerations (..., nv) of states (..., nx) with efforts (..., nu).

        ``active`` (..., contacts) : 1 for a contact on the ground, 0 for one in the air, loops
        last; by default all are on the ground.
        """
        return self._forward("qdd", x, u, active)

    def forces(self, x: Floats, u: Floats, active: Floats | None = None) -> Floats:
        """Return forces (..., nc) on the contacts, in world axes [N m | N].

        Parameters as for :meth:`accelerations`; ``nc`` is 3 for a point, 6 for a face (its moment
        [N m], then its force [N]), 0 in the air.

        Raises
        ------
        ControlError
            If the robot has no contacts.
        """
        if not self.contacts:
            raise ControlError(
                f"{self.model.name} has no contacts, and so no contact forces: add contacts with "
                "pinion.robot.with_contacts."
            )
        return self._forward("force", x, u, active)

    def _forward(self, name: str, x: Floats, u: Floats, active: Floats | None) -> Floats:
        q, qd = self.space.parts(x)
        lead = np.broadcast_shapes(x.shape[:-1], u.shape[:-1])
        arrays = self._batch(lead, q=q, qd=qd, tau=self.space.efforts(u), active=active)
        values = np.asarray(getattr(self.forward(**arrays), name), dtype=np.float64)
        return values.reshape(*lead, values.shape[-1])

    def step(self, x: Floats, u: Floats, active: Floats | None = None) -> Floats:
        """Return the states after a step from states (..., nx) with efforts (..., nu).

        ``active`` : as for :meth:`accelerations`.
        """
        h, space = self.dt, self.space
        q, qd = space.parts(x)
        if self.method == "semi_implicit":
            qd = qd + h * self.accelerations(x, u, active)
            return np.concatenate([space.moved(q, h * qd), qd], axis=-1)
        move, end = np.zeros_like(qd), np.zeros_like(qd)
        slope, qdd = np.zeros_like(qd), np.zeros_like(qd)
        for share, weight in RK4:
            shift, rates = share * h * slope, qd + share * h * qdd
            at = np.concatenate([space.moved(q, shift), rates], axis=-1)
            qdd, slope = self.accelerations(at, u), space.rates(shift, rates)
            move, end = move + weight * slope, end + weight * qdd
        return np.concatenate([space.moved(q, h * move), qd + h * end], axis=-1)

    def linearise(
        self,
        x: Floats,
        u: Floats,
        active: Floats | None = None,
        *,
        following: Floats | None = None,
        forces: bool = False,
    ) -> Linear:
        """Linearise steps from states (n, knots, nx) with efforts (n, knots, nu) in one batch.

        Parameters
        ----------
        active : (n, knots, contacts), as for :meth:`accelerations`.
        following : (n, knots, nx), states whose tangents A and B lead to; by default the ends of
            the steps, which those of a plan with gaps are not.
        forces : whether contact forces are returned.
        """
        n, h, driven = self.model.nv, self.dt, list(self.space.actuated)
        if self.method == "rk4":
            A, B, flags = self._gradient(("A", "B"), x, u, dt=np.full(u[..., 0].size, h))
            return Linear(A, B[..., driven], flags)
        names = ("qdd", "dqdd_dq", "dqdd_dqd", "dqdd_dtau" if self.contacts else "minv")
        force_names = ("force", "dforce_dq", "dforce_dqd", "dforce_dtau") if forces else ()
        qdd, by_q, by_qd, minv, *of_force, flags = self._gradient(
            (*names, *force_names), x, u, active=active
        )
        identity = np.eye(n)
        lower = np.concatenate([h * by_q, identity + h * by_qd], axis=-1)
        upper, by_efforts = h * lower, h * h * minv
        if self.space.flat:
            upper[..., :, :n] += identity
        else:
            q, qd = self.space.parts(x)
            move = turn = h * (qd + h * qdd)
            if following is not None:
                q_next, qd_next = self.space.parts(following)
                move, turn = h * qd_next, self.space.between(q, q_next)
            by_start = self.space.moved_jacobians(turn.reshape(-1, n))[0].reshape(*qd.shape, n)
            by_move = self.space.moved_jacobians(move.reshape(-1, n))[1].reshape(*qd.shape, n)
            for at in self.space.turning:
                block = by_move[..., at, at]
                upper[..., at, :] = block @ upper[..., at, :]
                by_efforts[..., at, :] = block @ by_efforts[..., at, :]
            upper[..., :, :n] += by_start
        A = np.concatenate([upper, lower], axis=-2)
        B = np.concatenate([by_efforts, h * minv], axis=-2)
        force = None
        if forces:
            value, *by_state, by_tau = of_force
            by_x = np.concatenate(by_state, axis=-1)
            force = ForceGradient(value=value, x=by_x, u=by_tau[..., driven])
        return Linear(A, B if self.space.flat else B[..., driven], flags, force)

    def _batch(
        self, lead: tuple[int, ...], *, active: Floats | None = None, **arrays: Floats
    ) -> dict[str, Floats]:
        """Return arrays (..., m) as (n, m), followed by inputs for contacts if there are any."""
        sizes = {"q": self.space.nq, "qd": self.space.nv, "tau": self.space.nv}
        for name, array in arrays.items():
            if array.shape[-1] != sizes[name]:
                raise ControlError(
                    f"The states have {array.shape[-1]} values of '{name}', but {self.model.name} "
                    f"has {sizes[name]}: give states with {self.space.nx} values."
                )
        count = self.contacts
        mask = np.ones(count) if active is None else np.asarray(active, dtype=np.float64)
        if mask.shape[-1:] != (count,):
            raise ControlError(
                f"'active' has the shape {mask.shape}, but {self.model.name} has {count} contacts "
                "and loops: give one value for each."
            )
        if count:
            arrays["active"] = mask
            arrays["damping"] = np.full(1, self.damping)
            arrays["velocity_gain"] = np.full(count, self.velocity_gain)
        flat = {
            name: np.broadcast_to(array, (*lead, array.shape[-1])).reshape(-1, array.shape[-1])
            for name, array in arrays.items()
        }
        if self.contacts:
            flat["damping"] = flat["damping"][:, 0]
        return flat

    def _gradient(
        self,
        names: Sequence[str],
        x: Floats,
        u: Floats,
        *,
        active: Floats | None = None,
        **more: Floats,
    ) -> list[Any]:
        """Return the named arrays that the gradients' backend computes, followed by its flags."""
        lead = u.shape[:-1]
        q, qd = self.space.parts(x)
        arrays = self._batch(lead, q=q, qd=qd, tau=self.space.efforts(u), active=active) | more
        # Compiled functions convert arrays of another layout or dtype much more slowly.
        dtype = dtype_of(self.gradients)
        began = time.perf_counter()
        result = self.gradients(
            **{name: np.ascontiguousarray(array, dtype=dtype) for name, array in arrays.items()}
        )
        self.waited += time.perf_counter() - began
        results = [np.asarray(getattr(result, name), dtype=np.float64) for name in names]
        return [
            *(array.reshape(*lead, *array.shape[1:]) for array in results),
            np.asarray(result.saturated).reshape(lead),
        ]


RK4 = ((0.0, 1 / 6), (0.5, 1 / 3), (0.5, 1 / 3), (1.0, 1 / 6))
"""Fraction of the step, and weight, of each stage of the classical Runge-Kutta method."""


def gradient_row(method: dynamics.StepMethod = "semi_implicit", *, contacts: int = 0) -> Function:
    """Return the function that computes a plant's gradients.

    That is ``fd_derivatives`` with M^-1, ``rk4_step``, or that of dynamics in contact. In fixed
    point the gradient of forward dynamics keeps its accuracy however short a step is.
    """
    if method == "rk4":
        return row_of("rk4_step")
    if contacts:
        return row_of(
            "constraint_dynamics_derivatives",
            inputs=("velocity_gain",),
            outputs=("dqdd_dtau", "dforce_dtau"),
            reference="local_world_aligned",
        )
    return row_of("fd_derivatives", outputs=("minv",))


def forward_of(model: Model, device: str = "cpu") -> Backend:
    """Return a backend for forward dynamics in float64: the float model, or compiled code."""
    if contacts_in(model):
        row = row_of(
            "constraint_dynamics", inputs=("velocity_gain",), reference="local_world_aligned"
        )
    else:
        row = row_of("aba")
    return float64_or_backend(model, row, "float" if device == "float" else "cpu")


def second_of(plant: Plant) -> Backend:
    """Return a backend for second derivatives of semi-implicit steps, float or compiled."""
    device = "float" if isinstance(plant.forward, Float64) else "cpu"
    return float64_or_backend(plant.model, row_of("step_second_derivatives"), device)


def float64_or_backend(model: Model, row: Function, device: str, **options: Any) -> Backend:
    """Return the float model in float64 for the device ``float``, else the device's backend."""
    if device == "float":
        return Float64(model, row)
    return backend(model, row, device=device, **options)


def dtype_of(function: Backend) -> Any:
    """Return the dtype that a backend computes in, float64 unless it is compiled."""
    return getattr(getattr(function, "kernel", None), "dtype", np.float64)


def control_model(robot: str | Model) -> Model:
    """Return the model of a robot (a model, name or path), with mimic joints coupled.

    Raises
    ------
    ValueError
        Subclasses: an unknown robot.
    """
    return coupled(robot if isinstance(robot, Model) else load(robot))


def contacts_in(model: Model) -> int:
    """Return the number of contacts and loops of a robot."""
    return len(contacts_of(model))


def single_joints_model(robot: str | Model, subject: str, instead: str) -> Model:
    """Return :func:`control_model` of a robot, checked by :func:`check_single_joints`.

    Raises
    ------
    ValueError
        Subclasses: an unknown robot, or one with joints of several positions, or contacts.
    """
    model = control_model(robot)
    check_single_joints(model, subject, instead)
    return model


def check_single_joints(model: Model, subject: str, instead: str) -> None:
    """Raise `ControlError` unless joints have one position each and there are no contacts or loops.

    Parameters
    ----------
    subject, instead : of the sentence, such as ``a Stage``, and what supports the robot instead.
    """
    if model.nq != model.nv:
        raise ControlError(
            f"{model.name} has nq = {model.nq} and nv = {model.nv}, but {subject} supports only "
            f"fixed-base robots whose joints have one position each: use {instead}."
        )
    for contact in contacts_of(model):
        partner = contact.partner
        noun = f"contact '{contact.name}'"
        if partner is not None:
            noun = f"loop of '{contact.name}' and '{partner.name}'"
        raise ControlError(
            f"{model.name} has the {noun}, but {subject} supports only robots without contacts or "
            f"loops: use {instead}."
        )


def check_contacts(contacts: int, method: str, **options: float) -> None:
    """Raise `ControlError` unless the method and the options suit the number of contacts."""
    for name, value in options.items():
        check_number(f"'{name}'", value)
        if not (np.isfinite(value) and value >= 0.0):
            raise ControlError(f"'{name}' is {value}: it must be finite and at least 0.")
        if value and not contacts:
            raise ControlError(
                f"'{name}' is {value}, but the robot has no contacts: leave it out, or add "
                "contacts with pinion.robot.with_contacts."
            )
    if contacts and method == "rk4":
        raise ControlError(
            "The method 'rk4' does not support contacts: choose 'semi_implicit' for this robot."
        )


class Float64(Backend):
    """A function's float model in float64, without a card's rounding of requests to float32."""

    def __init__(self, model: Model, function: Function) -> None:
        self.model = model
        self.function = function

    def run(self, /, *values: ArrayLike, **arrays: ArrayLike) -> Result:
        """Compute a batch: named arrays (n, ...) in, named arrays out."""
        named = by_name(self.function.inputs, values, arrays)
        inputs = {name: np.asarray(array, dtype=np.float64) for name, array in named.items()}
        results = self.function.evaluate(self.model, inputs)
        count = len(next(iter(inputs.values())))
        return Result(arrays=results, saturated=np.zeros(count, dtype=np.bool_), cycles=None)


def check_step(dt: float, method: str = "semi_implicit", *, name: str = "time step 'dt'") -> None:
    """Raise `ControlError` unless the method is known and the time step is in (0, 1] s."""
    if method not in METHODS:
        raise ControlError(
            f"There is no integration method '{method}': choose one of {', '.join(METHODS)}."
        )
    if not is_number(dt) or not 0.0 < dt <= 1.0:
        raise ControlError(f"The {name} must be above 0 and at most 1 s, not {dt!r:.60}.")


def gravity_efforts(model: Model, q: Floats) -> Floats:
    """Return efforts (..., nv) [N m | N] that hold a robot still at positions (..., nq)."""
    still = np.zeros((*q.shape[:-1], model.nv)).reshape(-1, model.nv)
    efforts = dynamics.rnea(model, q.reshape(-1, model.nq), still, still)
    return np.asarray(efforts).reshape(*q.shape[:-1], model.nv)


def holding_efforts(model: Model, q: Floats, active: Floats | None = None) -> Floats:
    """Return the least-norm efforts (..., nu) that keep a robot's joints still [N m | N].

    Parameters
    ----------
    q : (..., nq).
    active : (..., contacts), as for :meth:`Plant.accelerations`. Without a contact on the ground,
        a floating base falls.
    """
    space, lead = StateSpace(model), q.shape[:-1]
    contacts = contacts_in(model)
    if space.flat and not contacts:
        return gravity_efforts(model, q)
    flat = q.reshape(-1, space.nq)
    still = np.zeros((len(flat), space.nv))
    if contacts:
        mask = np.ones(contacts) if active is None else active
        mask = np.broadcast_to(mask, (*lead, contacts)).reshape(-1, contacts)
        at_rest = _at_rest(model, flat, mask)
        qdd, by_tau = at_rest.qdd, at_rest.dqdd_dtau
    else:
        qdd, _, _, by_tau = dynamics.fd_derivatives(model, flat, still, still)
    driven = list(space.actuated)
    # Joints between contacts cannot move on their own, so the response to efforts is singular.
    response = by_tau[:, driven][:, :, driven]
    inverse = np.linalg.pinv(response, rcond=1e-9, hermitian=True)
    efforts = -np.einsum("nij,nj->ni", inverse, qdd[:, driven])
    return np.asarray(efforts).reshape(*lead, space.nu)


def _at_rest(model: Model, q: Floats, active: Floats) -> dynamics.ConstraintDerivatives:
    """Return accelerations at zero efforts and rates, and their gradient."""
    still = np.zeros((len(q), model.nv))
    try:
        return dynamics.constraint_dynamics_derivatives(model, q, still, still, active)
    except dynamics.DynamicsError:
        # Redundant contacts share their forces.
        return dynamics.constraint_dynamics_derivatives(model, q, still, still, active, 1e-6)
