"""Argument checks for dynamics functions, and conversion between arrays and scalars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pinion.robot import JointKind, Model, massless
from pinion.robot.faults import idle_accepted

from .scalar import Scalar, SingularError

Array = NDArray[np.float64]

POSITIONS = ("q", "q0", "q1")
"""Names of arguments that are positions."""

UNIT_TOLERANCE = 1e-6
"""Largest accepted deviation from unit length of a quaternion (or a cosine and sine)."""


_P = ParamSpec("_P")
_R = TypeVar("_R")


class DynamicsError(ValueError):
    """Invalid argument of a dynamics function, or one for which the result does not exist."""


def wrenches(model: Model, f_ext: ArrayLike | None, batch: tuple[int, ...]) -> Array | None:
    """Check external forces; return them as float64, (*batch, bodies, 6), or None."""
    if f_ext is None:
        return None
    return checked("f_ext", f_ext, (*batch, len(model.bodies), 6))


def checked_forces(
    model: Model, f_ext: ArrayLike | None, batch: tuple[int, ...]
) -> Sequence[Sequence[Scalar]] | None:
    """Check external forces, (*batch, bodies, 6), and split them by body and component."""
    forces = wrenches(model, f_ext, batch)
    if forces is None:
        return None
    return [columns_of(forces[..., i, :]) for i in range(len(model.bodies))]


@dataclass(frozen=True, kw_only=True)
class Split:
    """Checked arguments of a robot whose joints are revolute or prismatic, split into scalars.

    Members
    -------
    columns : for each argument, by its name, a list with one element per joint.
    f_ext : external force on each body, six elements; None if there is none.
    batch : shape of an element, () for one state or (n,).
    """

    columns: Mapping[str, list[Scalar]]
    f_ext: Sequence[Sequence[Scalar]] | None
    batch: tuple[int, ...]

    def __getitem__(self, name: str) -> list[Scalar]:
        """Return the scalars of an argument, one per joint."""
        return self.columns[name]

    def vector(self, elements: Sequence[Scalar]) -> Array:
        """Return results as an array (*batch, len(elements))."""
        return vector_of(elements, self.batch)

    def matrix(self, rows: Sequence[Sequence[Scalar]]) -> Array:
        """Return a matrix of results as an array (*batch, rows, columns)."""
        return matrix_of(rows, self.batch)


def split(model: Model, f_ext: ArrayLike | None = None, **arguments: ArrayLike) -> Split:
    """Check arrays with one entry per joint, and external forces, and split them into scalars.

    Raises
    ------
    DynamicsError : a joint is neither revolute nor prismatic, or a shape or value is wrong.
    """
    check_single_dof(model)
    states = configurations(model, **arguments)
    batch = next(iter(states.values())).shape[:-1]
    forces = checked_forces(model, f_ext, batch)
    columns = {name: columns_of(array) for name, array in states.items()}
    return Split(columns=columns, f_ext=forces, batch=batch)


def check_mass(model: Model) -> None:
    """Raise `DynamicsError` for a robot whose moving bodies have no inertia."""
    if massless(model):
        raise DynamicsError(
            f"The moving bodies of {model.name!r} have no mass: the robot supports kinematics "
            "only, and this function needs inertia; give each link an <inertial>."
        )


def constant_inertias(model: Model) -> bool:
    """Return whether all inertial parameters of a robot are constants."""
    return all(
        isinstance(x, int | float)
        for inertia in (body.inertia for body in model.bodies)
        for x in (inertia.mass, *inertia.h, *inertia.I)
    )


def needs_inverse(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate an array function to raise if the joint-space inertia matrix has no inverse."""

    @wraps(function)
    def answered(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        model: Any = args[0] if args else kwargs["model"]
        if idle := idle_accepted(model):
            raise DynamicsError(
                f"The joint-space inertia matrix of {model.name!r} is singular: the joint"
                f"{'s' * (len(idle) > 1)} {', '.join(map(repr, idle[:8]))} "
                f"move{'s' * (len(idle) == 1)} no inertia; lock such joints, or give them an "
                "armature."
            )
        try:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                result: Any = function(*args, **kwargs)
        except SingularError as error:
            raise DynamicsError(str(error)) from None
        parts = result if isinstance(result, tuple) else (result,)
        if not all(np.isfinite(part).all() for part in parts):
            raise DynamicsError(
                "A result is not finite: the joint-space inertia matrix is singular in at least "
                "one state, or a value overflows; pass other positions, or smaller values."
            )
        return cast("_R", result)

    return answered


def columns_of(array: Array) -> list[Scalar]:
    """Split (..., m) into m elements of shape (...): arrays for a batch, floats for one state."""
    return list(np.ascontiguousarray(np.moveaxis(array, -1, 0)))


def spread(element: Scalar, batch: tuple[int, ...]) -> Array:
    """Broadcast a result, which may be a constant, to an array of shape ``batch``."""
    values: Any = element
    return np.array(np.broadcast_to(np.asarray(values, dtype=np.float64), batch))


def vector_of(elements: Sequence[Scalar], batch: tuple[int, ...]) -> Array:
    """Return results as an array (*batch, len(elements))."""
    result = np.empty((*batch, len(elements)))
    for i, element in enumerate(elements):
        result[..., i] = spread(element, batch)
    return result


def matrix_of(rows: Sequence[Sequence[Scalar]], batch: tuple[int, ...]) -> Array:
    """Return a matrix of results as an array (*batch, rows, columns)."""
    result = np.empty((*batch, len(rows), len(rows[0]) if rows else 0))
    for i, row in enumerate(rows):
        result[..., i, :] = vector_of(row, batch)
    return result


def check_choice(name: str, choice: str, choices: Sequence[str]) -> None:
    """Raise `DynamicsError` if a choice is not one of ``choices``, which the message lists."""
    if choice not in choices:
        raise DynamicsError(f"{name} is {choice!r}: choose {' or '.join(map(repr, choices))}.")


def check_single_dof(model: Model) -> None:
    """Raise `DynamicsError` for a robot with a joint that is neither revolute nor prismatic."""
    for body in model.bodies:
        if not body.joint.kind.simple:
            raise DynamicsError(
                f"The joint {body.joint.name!r} of {model.name!r} has the type "
                f"{body.joint.kind.value!r}; this function supports only revolute and prismatic "
                "joints."
            )


def configurations(model: Model, **arguments: ArrayLike) -> dict[str, Array]:
    """Check arrays by name: ``POSITIONS`` are (nq,) or (n, nq), the others (nv,) or (n, nv).

    Quaternions, and planar joints' cosine and sine, must have unit length within
    ``UNIT_TOLERANCE``; they are returned normalised.
    """
    states: dict[str, Array] = {}
    first = ""
    for name, argument in arguments.items():
        array = as_numbers(name, argument)
        width = model.nq if name in POSITIONS else model.nv
        if array.ndim not in (1, 2) or array.shape[-1] != width:
            noun = "independent " * model.coupled + ("joint" if width == 1 else "joints")
            if model.nq != model.nv:
                noun = "positions" if width == model.nq else "velocities"
            raise DynamicsError(
                f"{name} has shape {array.shape}, but the robot {model.name!r} has {width} "
                f"{noun}: pass ({width},) for one state or (n, {width}) for a batch."
            )
        first = first or name
        if array.shape[:-1] != states.get(first, array).shape[:-1]:
            raise DynamicsError(
                f"{name} has shape {array.shape} but {first} has {states[first].shape}: "
                "pass arrays for one state, or for batches of the same length."
            )
        states[name] = array
    for name, array in states.items():
        check_finite(name, array)
        if name in POSITIONS:
            states[name] = of_unit_length(name, array, rotation_slices(model))
    return states


def rotation_slices(model: Model) -> list[tuple[slice, str]]:
    """Return the slices of q that are unit vectors, each with its description for messages."""
    return rotations_of([body.joint.kind for body in model.bodies], model.q_slices)


def rotations_of(
    kinds: Sequence[JointKind | None], q_slices: Sequence[slice]
) -> list[tuple[slice, str]]:
    """Return the unit vectors of q as `rotation_slices` does; a joint of kind None has none."""
    rotations = []
    for kind, at in zip(kinds, q_slices, strict=True):
        if kind is JointKind.PLANAR:
            rotations.append((slice(at.stop - 2, at.stop), "cosine-sine pair"))
        elif kind in (JointKind.SPHERICAL, JointKind.FREE_FLYER):
            rotations.append((slice(at.stop - 4, at.stop), "quaternion"))
    return rotations


def of_unit_length(name: str, q: Array, slices: Sequence[tuple[slice, str]]) -> Array:
    """Return q (..., nq) with its unit vectors normalised; raise if one is far from norm 1."""
    if not slices:
        return q
    result = np.array(q)
    for at, noun in slices:
        lengths = unit_lengths(name, q, at, noun)
        result[..., at] = q[..., at] / lengths[..., None]
    return result


def unit_lengths(name: str, q: Array, at: slice, noun: str, *, finite: bool = True) -> Array:
    """Return the norms (...) of vectors in q (..., nq); raise if one is far from 1.

    ``finite=False`` accepts vectors with a NaN or an infinity.
    """
    lengths = np.linalg.norm(q[..., at], axis=-1)
    far = ~(np.abs(lengths - 1.0) <= UNIT_TOLERANCE)
    if not finite and far.any():
        far &= np.isfinite(q[..., at]).all(axis=-1)
    if far.any():
        index = tuple(int(k) for k in np.argwhere(far)[0])
        where = ", ".join([*map(str, index), f"{at.start}:{at.stop}"])
        raise DynamicsError(
            f"The {noun} {name}[{where}] has norm {lengths[index]:.7g}, not 1: pass "
            "unit vectors; pinion.dynamics.normalise scales others, unless they are zero."
        )
    return np.asarray(lengths)


def checked(name: str, argument: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Check an array's shape and values and return it as float64."""
    array = as_numbers(name, argument)
    if array.shape != shape:
        raise DynamicsError(f"{name} has shape {array.shape}: pass shape {shape}.")
    check_finite(name, array)
    return array


def as_numbers(name: str, argument: ArrayLike) -> Array:
    """Return an argument as float64; raise for text, masks, complex numbers and ragged lists."""
    if isinstance(argument, np.ma.MaskedArray) and np.ma.is_masked(argument):
        raise DynamicsError(f"{name} has masked elements: fill them first, with filled(value).")
    try:
        array = np.asarray(argument)
    except ValueError as problem:
        raise DynamicsError(f"{name} is not a rectangular array of numbers: {problem}.") from None
    if array.dtype.kind == "O":
        raise DynamicsError(
            f"{name} has dtype object: pass real numbers (float64); for traced values, "
            "call the variant of the function whose name ends in _scalars."
        )
    if array.dtype.kind not in "fiu":
        raise DynamicsError(f"{name} has dtype {array.dtype}: pass real numbers (float64).")
    return np.asarray(array, dtype=np.float64)


def checked_damping(damping: ArrayLike, batch: tuple[int, ...]) -> Array:
    """Return the damping as float64, () or (*batch,); raise if it is negative or not finite."""
    array = as_numbers("damping", damping)
    usable = np.all((array >= 0.0) & np.isfinite(array))
    if array.shape not in ((), batch) or not usable:
        raise DynamicsError(
            f"damping is {damping!r:.60}: pass a finite number of at least 0, or one per state."
        )
    return array


def check_finite(name: str, array: Array) -> None:
    """Raise `DynamicsError` for the first entry that is NaN or infinite, with its index."""
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        index = tuple(int(k) for k in bad[0])
        where = ", ".join(str(k) for k in index)
        raise DynamicsError(f"{name}[{where}] is {array[index]}: pass finite numbers.")
