"""What arguments of the dynamics must be, checked once; and results as arrays again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pinion.robot.faults import idle_accepted, massless
from pinion.robot.model import JointKind, Model

from .scalar import Scalar, SingularError

Array = NDArray[np.float64]

POSITIONS = ("q", "q0", "q1")
"""Names of arguments that are positions."""

UNIT_TOLERANCE = 1e-6
"""A quaternion (or a cosine and sine) this near to unit length is one, and is normalised."""


_P = ParamSpec("_P")
_R = TypeVar("_R")


class DynamicsError(ValueError):
    """An argument has a shape or a value that the dynamics cannot use."""


def wrenches(model: Model, f_ext: ArrayLike | None, batch: tuple[int, ...]) -> Array | None:
    """Check external forces, (*batch, bodies, 6)."""
    if f_ext is None:
        return None
    return checked("f_ext", f_ext, (*batch, len(model.bodies), 6))


def checked_forces(
    model: Model, f_ext: ArrayLike | None, batch: tuple[int, ...]
) -> Sequence[Sequence[Scalar]] | None:
    """Check external forces, (*batch, bodies, 6), and split them by body and component."""
    found = wrenches(model, f_ext, batch)
    if found is None:
        return None
    return [columns_of(found[..., i, :]) for i in range(len(model.bodies))]


@dataclass(frozen=True, kw_only=True)
class Split:
    """Checked arguments of a robot whose joints are revolute or prismatic, split for scalars.

    Members
    -------
    columns : for each argument, by its name, a list with one element a joint.
    f_ext : for each body the external force on it, six elements; None where there is none.
    batch : shape of an element, () for one state or (n,).
    """

    columns: Mapping[str, list[Scalar]]
    f_ext: Sequence[Sequence[Scalar]] | None
    batch: tuple[int, ...]

    def __getitem__(self, name: str) -> list[Scalar]:
        """Return the elements of an argument."""
        return self.columns[name]

    def vector(self, elements: Sequence[Scalar]) -> Array:
        """Return results as an array (*batch, len(elements))."""
        return vector_of(elements, self.batch)

    def matrix(self, rows: Sequence[Sequence[Scalar]]) -> Array:
        """Return a square matrix of results as an array (*batch, len(rows), len(rows))."""
        return matrix_of(rows, self.batch)


def split(model: Model, f_ext: ArrayLike | None = None, **arguments: ArrayLike) -> Split:
    """Check arrays with one entry a joint, and external forces, and split them into elements.

    Raises
    ------
    DynamicsError : as :func:`checked_states`, or the forces have a wrong shape or value.
    """
    states = checked_states(model, **arguments)
    batch = next(iter(states.values())).shape[:-1]
    forces = checked_forces(model, f_ext, batch)
    columns = {name: columns_of(array) for name, array in states.items()}
    return Split(columns=columns, f_ext=forces, batch=batch)


def check_mass(model: Model) -> None:
    """Raise for a robot of which nothing that moves has any inertia: it serves kinematics alone."""
    if massless(model):
        raise DynamicsError(
            f"Nothing that moves of {model.name!r} has any mass: the robot serves kinematics, and "
            "this needs inertia; give its links an <inertial> each."
        )


def needs_inverse(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Let a function on arrays raise where the joint-space inertia matrix has no inverse."""

    @wraps(function)
    def answered(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        given: Any = args[0] if args else kwargs["model"]
        if idle := idle_accepted(given):
            raise DynamicsError(
                f"The joint-space inertia matrix of {given.name!r} is singular, so that forward "
                f"dynamics does not exist: {', '.join(map(repr, idle[:8]))} "
                f"{'move' if len(idle) > 1 else 'moves'} no inertia; lock such joints, or give "
                "them an armature."
            )
        try:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                found: Any = function(*args, **kwargs)
        except SingularError as error:
            raise DynamicsError(str(error)) from None
        parts = found if isinstance(found, tuple) else (found,)
        if not all(np.isfinite(part).all() for part in parts):
            raise DynamicsError(
                "The joint-space inertia matrix is singular in one of these states: the joints "
                "stand so that they move bodies without inertia; pass other positions."
            )
        return cast("_R", found)

    return answered


def columns_of(array: Array) -> list[Scalar]:
    """Split (..., m) into m elements of shape (...): arrays of the batch, NumPy floats for one."""
    return list(np.ascontiguousarray(np.moveaxis(array, -1, 0)))


def spread(element: Scalar, batch: tuple[int, ...]) -> Array:
    """Return a result of shape ``batch``, also where it came out as a constant of the model."""
    values: Any = element
    return np.array(np.broadcast_to(np.asarray(values, dtype=np.float64), batch))


def vector_of(elements: Sequence[Scalar], batch: tuple[int, ...]) -> Array:
    """Return results as an array (*batch, len(elements))."""
    result = np.empty((*batch, len(elements)))
    for i, element in enumerate(elements):
        result[..., i] = spread(element, batch)
    return result


def matrix_of(rows: Sequence[Sequence[Scalar]], batch: tuple[int, ...]) -> Array:
    """Return a square matrix of results as an array (*batch, len(rows), len(rows))."""
    result = np.empty((*batch, len(rows), len(rows)))
    for i, row in enumerate(rows):
        result[..., i, :] = vector_of(row, batch)
    return result


def check_choice(name: str, choice: str, choices: Sequence[str]) -> None:
    """Raise for an option that does not exist, naming those that do."""
    if choice not in choices:
        raise DynamicsError(f"{name} is {choice!r}, choose one of {', '.join(map(repr, choices))}.")


def checked_states(model: Model, **arguments: ArrayLike) -> dict[str, Array]:
    """Check arrays with one entry a joint, all (nv,) or all (n, nv) with the same n.

    Raises for a robot with joints of other kinds than revolute and prismatic: the functions that
    come here do not know them. :func:`configurations` is for those that do.
    """
    check_single_dof(model)
    return configurations(model, **arguments)


def check_single_dof(model: Model) -> None:
    """Raise for a robot with a joint that is neither revolute nor prismatic."""
    for body in model.bodies:
        if not body.joint.kind.simple:
            raise DynamicsError(
                f"The joint {body.joint.name!r} of {model.name!r} is of the kind "
                f"{body.joint.kind.value!r}; this function takes robots whose joints are revolute "
                "or prismatic."
            )


def configurations(model: Model, **arguments: ArrayLike) -> dict[str, Array]:
    """Check arrays by name: ``POSITIONS`` are (nq,) or (n, nq), the others (nv,) or (n, nv).

    Quaternions, and planar joints' cosine and sine, must have unit length within
    ``UNIT_TOLERANCE``; they come back with exactly that.
    """
    states: dict[str, Array] = {}
    first = ""
    for name, argument in arguments.items():
        array = as_numbers(name, argument)
        width = model.nq if name in POSITIONS else model.nv
        if array.ndim not in (1, 2) or array.shape[-1] != width:
            what = "joints"
            if model.nq != model.nv:
                what = "positions" if width == model.nq else "velocities"
            raise DynamicsError(
                f"{name} has shape {array.shape}, but the robot {model.name!r} has {width} "
                f"{what}: pass ({width},) for one state or (n, {width}) for a batch."
            )
        first = first or name
        if array.shape[:-1] != states.get(first, array).shape[:-1]:
            raise DynamicsError(
                f"{name} has shape {array.shape} but {first} has {states[first].shape}: "
                "pass one state each, or batches of the same length."
            )
        states[name] = array
    for name, array in states.items():
        check_finite(name, array)
        if name in POSITIONS:
            states[name] = unit_rotations(model, name, array)
    return states


def rotation_slices(model: Model) -> list[tuple[slice, str]]:
    """Where q holds vectors of unit length, and what each of them is."""
    return rotations_of([body.joint.kind for body in model.bodies], model.q_slices)


def rotations_of(
    kinds: Sequence[JointKind | None], q_slices: Sequence[slice]
) -> list[tuple[slice, str]]:
    """Where q holds vectors of unit length, for joints' kinds and places (None has none)."""
    found = []
    for kind, own in zip(kinds, q_slices, strict=True):
        if kind is JointKind.PLANAR:
            found.append((slice(own.stop - 2, own.stop), "cosine and sine"))
        elif kind in (JointKind.SPHERICAL, JointKind.FREE_FLYER):
            found.append((slice(own.stop - 4, own.stop), "quaternion"))
    return found


def unit_rotations(model: Model, name: str, q: Array) -> Array:
    """Return q (..., nq) with rotations of unit length; raise for one that is far from it."""
    return of_unit_length(name, q, rotation_slices(model))


def of_unit_length(name: str, q: Array, slices: Sequence[tuple[slice, str]]) -> Array:
    """Return q (..., nq) with the vectors there of unit length; raise for one far from it."""
    if not slices:
        return q
    result = np.array(q)
    for own, what in slices:
        lengths = unit_lengths(name, q, own, what)
        result[..., own] = q[..., own] / lengths[..., None]
    return result


def unit_lengths(name: str, q: Array, own: slice, what: str, *, finite: bool = True) -> Array:
    """Return the lengths (...) of vectors of q (..., nq); raise for one that is far from 1.

    ``finite=False`` lets vectors pass that hold a NaN or an infinity.
    """
    lengths = np.linalg.norm(q[..., own], axis=-1)
    far = ~(np.abs(lengths - 1.0) <= UNIT_TOLERANCE)
    if not finite and far.any():
        far &= np.isfinite(q[..., own]).all(axis=-1)
    if far.any():
        index = tuple(int(k) for k in np.argwhere(far)[0])
        where = ", ".join([*map(str, index), f"{own.start}:{own.stop}"])
        raise DynamicsError(
            f"{name}[{where}] is a {what} of length {lengths[index]:.6g}, not 1: pass it "
            "through normalise first."
        )
    return np.asarray(lengths)


def checked(name: str, argument: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Check an array of one given shape and return it as float64."""
    array = as_numbers(name, argument)
    if array.shape != shape:
        raise DynamicsError(f"{name} has shape {array.shape}, expected {shape}.")
    check_finite(name, array)
    return array


def as_numbers(name: str, argument: ArrayLike) -> Array:
    """Return an argument as float64; text, masks, complex numbers and ragged lists are errors."""
    if isinstance(argument, np.ma.MaskedArray) and np.ma.is_masked(argument):
        raise DynamicsError(f"{name} has masked elements, pass a plain array such as its filled().")
    try:
        array = np.asarray(argument)
    except ValueError as problem:
        raise DynamicsError(f"{name} is not a rectangular array of numbers: {problem}.") from None
    if array.dtype.kind == "O":
        raise DynamicsError(
            f"{name} has dtype object, pass real numbers (float64); where it holds traced values, "
            "call the function of the same name that ends in _scalars."
        )
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
