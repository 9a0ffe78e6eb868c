"""The functions of this package on NumPy arrays: shapes and values are checked here, once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pinion.dynamics.energy import kinetic_energy_scalars, potential_energy_scalars
from pinion.dynamics.rnea import rnea_scalars
from pinion.dynamics.scalar import Scalar
from pinion.robot.model import Model

Array = NDArray[np.float64]


class DynamicsError(ValueError):
    """An argument has a shape or a value that the dynamics cannot use."""


def rnea(
    model: Model, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, f_ext: ArrayLike | None = None
) -> Array:
    """Inverse dynamics: the joint efforts that produce the accelerations ``qdd``.

    Source: Algorithm 1 of Plancher et al. 2021, in the form that :mod:`pinion.dynamics.rnea`
    derives. Joint damping and friction are not part of it.

    Arguments
    ---------
    q : (nq,) or (n, nq) float, joint positions [rad | m].
    qd : (nv,) or (n, nv) float, joint rates [rad/s | m/s].
    qdd : (nv,) or (n, nv) float, joint accelerations [rad/s^2 | m/s^2].
    f_ext : (bodies, 6) or (n, bodies, 6) float, external force on each body, ``[angular; linear]``
        in the body's coordinates about its origin [N m, N].

    Returns
    -------
    tau : (nv,) or (n, nv) float64, joint efforts [N m | N].

    Raises
    ------
    DynamicsError : a shape does not fit the model or the other arguments, or a number is not
        finite.
    """
    states = checked_states(model, q=q, qd=qd, qdd=qdd)
    columns = {name: columns_of(array) for name, array in states.items()}
    batch = states["q"].shape[:-1]
    forces: Sequence[Sequence[Scalar]] | None = None
    if f_ext is not None:
        wrench = checked("f_ext", f_ext, (*batch, len(model.bodies), 6))
        forces = [columns_of(wrench[..., i, :]) for i in range(len(model.bodies))]
    tau = rnea_scalars(model, columns["q"], columns["qd"], columns["qdd"], forces)
    result = np.empty((*batch, model.nv))
    for i, element in enumerate(tau):
        result[..., i] = spread(element, batch)
    return result


def kinetic_energy(model: Model, q: ArrayLike, qd: ArrayLike) -> Array:
    """Kinetic energy [J]: () or (n,) float64.

    ``q`` : (nq,) or (n, nq) float, joint positions [rad | m]; ``qd`` : (nv,) or (n, nv) float,
    joint rates [rad/s | m/s]. Raises :class:`DynamicsError` like :func:`rnea`.
    """
    states = checked_states(model, q=q, qd=qd)
    energy = kinetic_energy_scalars(model, columns_of(states["q"]), columns_of(states["qd"]))
    return spread(energy, states["q"].shape[:-1])


def potential_energy(model: Model, q: ArrayLike) -> Array:
    """Potential energy [J], zero with all mass at the base's origin: () or (n,) float64.

    ``q`` : (nq,) or (n, nq) float, joint positions [rad | m]. Raises :class:`DynamicsError` like
    :func:`rnea`.
    """
    states = checked_states(model, q=q)
    energy = potential_energy_scalars(model, columns_of(states["q"]))
    return spread(energy, states["q"].shape[:-1])


def columns_of(array: Array) -> list[Scalar]:
    """Split (..., m) into m elements of shape (...): arrays of the batch, NumPy floats for one."""
    return list(np.ascontiguousarray(np.moveaxis(array, -1, 0)))


def spread(element: Scalar, batch: tuple[int, ...]) -> Array:
    """Return a result of shape ``batch``, also where it came out as a constant of the model."""
    values: Any = element
    return np.array(np.broadcast_to(np.asarray(values, dtype=np.float64), batch))


def checked_states(model: Model, **arguments: ArrayLike) -> dict[str, Array]:
    """Check arrays with one entry a joint, all (nv,) or all (n, nv) with the same n."""
    states: dict[str, Array] = {}
    first = ""
    for name, argument in arguments.items():
        array = as_numbers(name, argument)
        if array.ndim not in (1, 2) or array.shape[-1] != model.nv:
            raise DynamicsError(
                f"{name} has shape {array.shape}, but the robot {model.name!r} has {model.nv} "
                f"joints: pass ({model.nv},) for one state or (n, {model.nv}) for a batch."
            )
        first = first or name
        if array.shape != states.get(first, array).shape:
            raise DynamicsError(
                f"{name} has shape {array.shape} but {first} has {states[first].shape}: "
                "pass one state each, or batches of the same length."
            )
        states[name] = array
    for name, array in states.items():
        check_finite(name, array)
    return states


def checked(name: str, argument: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Check an array of one given shape and return it as float64."""
    array = as_numbers(name, argument)
    if array.shape != shape:
        raise DynamicsError(f"{name} has shape {array.shape}, expected {shape}.")
    check_finite(name, array)
    return array


def as_numbers(name: str, argument: ArrayLike) -> Array:
    """Return an argument as float64; text, complex numbers and ragged lists are errors."""
    try:
        array = np.asarray(argument)
    except ValueError as problem:
        raise DynamicsError(f"{name} is not a rectangular array of numbers: {problem}.") from None
    if array.dtype.kind not in "fiu":
        raise DynamicsError(f"{name} has dtype {array.dtype}, pass real numbers (float64).")
    return np.asarray(array, dtype=np.float64)


def check_finite(name: str, array: Array) -> None:
    """Raise for the first entry that is NaN or infinite, with its index."""
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        index = tuple(int(k) for k in bad[0])
        where = ", ".join(str(k) for k in index)
        raise DynamicsError(f"{name}[{where}] is {array[index]}, pass finite numbers.")
