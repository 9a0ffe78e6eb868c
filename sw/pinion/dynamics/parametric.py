r"""Inertial parameters, gravity and joint parameters as inputs in place of constants.

An algorithm over scalars takes a :class:`pinion.robot.Model` whose inertias, gravity and joints may
hold scalars. Here such a model is made from names and values:

- a link: the ten parameters of the body that carries it (:data:`.regressor.PARAMETERS`), about the
  origin of the link's frame in its axes;
- ``LINK:on-axis``: four of them, for loads that are symmetric about the joint's axis: mass, first
  moment along the axis, inertia across it (the mean of both directions) and about it. All else,
  such as products of inertia, stays as the file has it;
- ``gravity``: three components in base axes;
- ``JOINT:armature``, ``JOINT:damping``, ``JOINT:friction``, ``JOINT:stiffness``: a number each.

Every change of coordinates is linear in a link's parameters: from the link's frame to the body's,
and to the frames, the units of length and the regrouped inertias of the minimal model
(:mod:`.minimal`). The linear map is found by passing unit inertias through the same functions.
Regrouping leaves a body with ten parameters alone: what its children pass to it are ten constants.
On-axis parameters are regrouped: they meet only numbers that constants would occupy anyway, so that
the algorithm has the products of the constant robot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.robot import Inertia, Model
from pinion.robot.inertia import PHYSICAL_TOLERANCE, SMALLEST_RADIUS, physical_problem
from pinion.robot.lookup import find_link, unknown

from .checks import Array, DynamicsError
from .minimal import Parameters, minimal_model, parameters
from .scalar import Scalar, add, scaled_sum

GRAVITY, ON_AXIS = "gravity", "on-axis"
"""Gravity's name among parameters, which no link can have, and the suffix of four of a link's."""

JOINT_FIGURES = ("armature", "damping", "friction", "stiffness")
"""Suffixes of a joint's name."""

COUNTS = {GRAVITY: 3, "": 10, ON_AXIS: 4, **dict.fromkeys(JOINT_FIGURES, 1)}

AXIAL = 1e-9
"""A link's origin this close to a joint's axis is on it [m]."""

_ADVICE = "correct it, or pass accept_inertia=True."


@dataclass(frozen=True, kw_only=True, eq=False)
class Parameter:
    """The parameters with one name: those of a link, gravity, or one coefficient of a joint.

    Members
    -------
    name, owner : the name, and the link or joint in it.
    figure : "" for a link, :data:`ON_AXIS`, :data:`GRAVITY`, or one of :data:`JOINT_FIGURES`.
    body : the body that carries the link or is moved by the joint, -1 for gravity.
    file : its numbers in the robot's file, (10,) for a link in its frame, otherwise (count,).
    reading : (count, numbers of `file`), the matrix from such numbers to the values.
    basis : (numbers of `file`, count), their derivatives with respect to the values.
    axis : of an on-axis link, (3,) the joint's axis in the link's frame.
    first, count : position and number of its values among those of all parameters.
    """

    name: str
    owner: str
    figure: str
    body: int
    file: Array
    basis: Array
    reading: Array
    axis: Array | None
    first: int
    count: int

    @property
    def of_link(self) -> bool:
        """Whether the values are inertial parameters of a link."""
        return self.figure in ("", ON_AXIS)

    @property
    def origin(self) -> Array:
        """The numbers of `file` with all values set to zero."""
        return np.asarray(self.file - self.basis @ (self.reading @ self.file))

    def full(self, values: Array) -> Array:
        """Expand a link's values (..., count) to its ten inertial parameters (..., 10)."""
        if self.axis is None:
            return values
        return np.asarray(self.origin + values @ self.basis.T)


def split_name(name: str) -> tuple[str, str]:
    """Split a parameter's name into its link or joint and the quantity, "" for a whole link."""
    if name == GRAVITY:
        return name, GRAVITY
    owner, _, figure = name.rpartition(":")
    return (owner, figure) if owner and figure in COUNTS else (name, "")


def count_of(names: Sequence[str]) -> int:
    """Return the number of values of the parameters with these names."""
    return sum(COUNTS[split_name(name)[1]] for name in names)


def parameters_of(model: Model, names: Sequence[str]) -> list[Parameter]:
    """Return the parameters that the names describe, in their order.

    Raises
    ------
    RobotError : there is no such link or joint.
    DynamicsError : a link of the fixed base, a name twice, two links of the same body, or
        on-axis parameters of a link whose origin is not on a joint's axis.
    """
    result: list[Parameter] = []
    first = 0
    for name in names:
        parameter = _parameter(model, name, first)
        clash = next((p for p in result if _place(p) == _place(parameter)), None)
        if clash is not None:
            where = repr(model.bodies[clash.body].name) if clash.of_link else clash.figure
            raise DynamicsError(
                f"The parameters {clash.name!r} and {name!r} both describe {where}: keep only one."
            )
        result.append(parameter)
        first += parameter.count
    return result


def _place(parameter: Parameter) -> tuple[int, str]:
    return parameter.body, "" if parameter.of_link else parameter.figure


def _parameter(model: Model, name: str, first: int) -> Parameter:
    owner, figure = split_name(name)
    axis: Array | None = None
    basis = reading = np.eye(COUNTS[figure])
    if figure == GRAVITY:
        body, file = -1, np.array(model.gravity)
    elif figure in JOINT_FIGURES:
        body, file = _of_joint(model, owner, figure)
    else:
        body, file = _of_link(model, owner)
        if figure == ON_AXIS:
            axis = _axis_of(model, owner)
            basis, reading = _about(axis)
    return Parameter(
        name=name,
        owner=owner,
        figure=figure,
        body=body,
        file=file,
        reading=reading,
        basis=basis,
        axis=axis,
        first=first,
        count=COUNTS[figure],
    )


def _of_joint(model: Model, name: str, figure: str) -> tuple[int, Array]:
    if name not in model.joint_names:
        raise unknown("moving joint", name, model.joint_names, model.name)
    body = model.joint_names.index(name)
    joint = model.bodies[body].joint
    if figure == "stiffness" and joint.kind.nq > 1:
        raise DynamicsError(
            f"The joint {name!r} is {joint.kind.value}, and only joints with one position can have "
            f"springs: leave '{name}:{figure}' out of the parameters."
        )
    return body, np.array([float(getattr(joint, figure))])


def _of_link(model: Model, name: str) -> tuple[int, Array]:
    """Return a link's body, and that body's ten inertial parameters in the link's frame."""
    frame = find_link(model, name, moving=True)
    if frame.body < 0:
        raise DynamicsError(
            f"The link {name!r} is part of the fixed base, whose inertia changes nothing; "
            "name a link that moves."
        )
    E, r = np.array(frame.placement.E), np.array(frame.placement.r)
    return frame.body, flat(parameters(model.bodies[frame.body].inertia).moved(-r).turned(E.T))


def _axis_of(model: Model, name: str) -> Array:
    """Return the joint's axis (3,) in a link's frame; raise if the origin is off the axis."""
    frame = find_link(model, name)
    joint, (x, y, _) = model.bodies[frame.body].joint, frame.placement.r
    if joint.kind.nq > 1:
        raise DynamicsError(
            f"The joint {joint.name!r} of the link {name!r} is {joint.kind.value} and has no "
            f"single axis: name {name!r} without ':{ON_AXIS}'."
        )
    if (beside := float(np.hypot(x, y))) > AXIAL:
        raise DynamicsError(
            f"The origin of the link {name!r} is {beside:g} m off the axis of {joint.name!r}: "
            f"name a link on the axis, or {name!r} without ':{ON_AXIS}'."
        )
    axis = np.array(frame.placement.E)[:, 2]
    return _clean(axis)


def _about(axis: Array) -> tuple[Array, Array]:
    """Return the `basis` (10, 4) and `reading` (4, 10) of a :class:`Parameter` about an axis."""
    unit, along = _tensor(np.eye(3)), _tensor(np.outer(axis, axis))
    basis, reading = np.zeros((10, 4)), np.zeros((4, 10))
    basis[0, 0] = reading[0, 0] = 1.0
    basis[1:4, 1] = reading[1, 1:4] = axis
    basis[4:, 2], basis[4:, 3] = unit - along, along
    reading[3, 4:] = along * [1.0, 2.0, 1.0, 2.0, 2.0, 1.0]  # products of inertia occur twice
    reading[2, 4:] = (unit - reading[3, 4:]) / 2.0
    return basis, reading


def parameter_values(model: Model, names: Sequence[str]) -> list[float]:
    """Return the parameters' values in the robot's file, (count,)."""
    return [float(value) for p in parameters_of(model, names) for value in p.reading @ p.file]


def rigid_body(mass: Array, com: Array, inertia: Array) -> Array:
    """Return inertial parameters (..., 10) in the order of :data:`.regressor.PARAMETERS`.

    Arguments
    ---------
    mass : (...) [kg]. com : (..., 3) centre of mass [m].
    inertia : (..., 6) xx, xy, xz, yy, yz, zz about that centre [kg m^2].
    """
    x, y, z = np.moveaxis(com, -1, 0)
    xx, xy, xz, yy, yz, zz = np.moveaxis(inertia, -1, 0)
    numbers = [
        *(mass, mass * x, mass * y, mass * z),
        *(xx + mass * (y * y + z * z), xy - mass * x * y, yy + mass * (x * x + z * z)),
        *(xz - mass * x * z, yz - mass * y * z, zz + mass * (x * x + y * y)),
    ]
    return np.stack(np.broadcast_arrays(*numbers), axis=-1)


def check_values(parameters: Sequence[Parameter], values: Array) -> None:
    """Raise `DynamicsError` if parameters, (count,) or (n, count), are physically impossible.

    A mass must be positive, and the inertia about the centre of mass positive definite without a
    moment above the sum of the others, with the slack of the robot's readers: then the
    pseudo-inertia matrix is positive definite (Wensing, Kim, Slotine 2018). Figures of joints must
    not be negative.

    Raises
    ------
    DynamicsError : a value is impossible; the message has the link or joint, and the sample.
    """
    eps = float(np.finfo(values.dtype).eps)
    for parameter in parameters:
        part = values[..., parameter.first : parameter.first + parameter.count]
        if parameter.of_link:
            _check_inertias(parameter.owner, parameter.full(part), eps)
        elif parameter.figure != GRAVITY and (bad := part < 0.0).any():
            raise DynamicsError(
                f"The {parameter.figure} of the joint {parameter.owner!r}{_sample(bad[..., 0])} is "
                f"{part[bad][0]:g}: it must not be negative."
            )


def _check_inertias(link: str, numbers: Array, eps: float) -> None:
    m = numbers[..., 0]
    if (bad := ~(m > 0.0)).any():
        raise DynamicsError(
            f"The mass of the link {link!r}{_sample(bad)} is {m[bad][0]:g} kg: it must be "
            f"positive; {_ADVICE}"
        )
    centre = numbers[..., 1:4] / m[..., None]
    point = rigid_body(m, centre, np.zeros(6))
    xx, xy, yy, xz, yz, zz = np.moveaxis((numbers - point)[..., 4:], -1, 0)
    # The second moments of mass have the triangle's slacks as eigenvalues: all minors are positive.
    trace = xx + yy + zz
    slack = PHYSICAL_TOLERANCE / 2.0 * trace + m * SMALLEST_RADIUS**2
    slack = slack + 16.0 * eps * np.abs(numbers[..., 4:]).max(axis=-1)  # of the subtraction
    a, b, c = (trace / 2.0 - moment + slack for moment in (xx, yy, zz))
    second = a * b - xy * xy
    third = c * second - a * yz * yz - b * xz * xz - 2.0 * xy * xz * yz
    bad = ~((a > 0.0) & (second > 0.0) & (third > 0.0))
    if not bad.any():
        return
    xx, xy, yy, xz, yz, zz = (float(x[bad][0]) for x in (xx, xy, yy, xz, yz, zz))
    moments, problem = physical_problem((xx, xy, xz, yy, yz, zz))
    raise DynamicsError(
        f"The inertia of the link {link!r}{_sample(bad)} is not physical: its principal moments "
        f"about the centre of mass are {moments} kg m^2, {problem}; {_ADVICE}"
    )


def _sample(bad: NDArray[np.bool_]) -> str:
    """Return a clause with the index of the first faulty sample, "" for a single set."""
    return f" in sample {int(np.argmax(bad))}" if bad.ndim else ""


def flat(inertia: Parameters) -> Array:
    """Return an inertia as parameters (10,) in the order of :data:`.regressor.PARAMETERS`."""
    return np.array([inertia.m, *inertia.h, *_tensor(inertia.I)])


def structured(values: Array) -> Parameters:
    """Return the inertia of parameters (10,) in the order of :data:`.regressor.PARAMETERS`."""
    m, hx, hy, hz, xx, xy, yy, xz, yz, zz = values
    full = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return Parameters(m=float(m), h=np.array([hx, hy, hz]), I=full)


def _tensor(I: Array) -> Array:  # noqa: E741 - the symbol in the literature
    """Return xx, xy, yy, xz, yz, zz of a symmetric matrix."""
    return I[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]


def parametric_model(
    model: Model,
    names: Sequence[str],
    values: Sequence[Scalar],
    *,
    minimal: bool = False,
    mapped: bool = False,
) -> Model:
    """Return the model with parameters in place of constants.

    Arguments
    ---------
    names : of links, gravity and figures of joints, as above.
    values : (count,) scalars, in the order of the names. :func:`check_values` tests whether a body
        can have them; here no test is made.
    minimal : the minimal model (:func:`.minimal.minimal_model`), in place of the robot's own.
    mapped : the values are those that :func:`parameter_map` makes of the links' own.

    Raises
    ------
    As :func:`parameters_of`.
    """
    named = parameters_of(model, names)
    change = _change(named, minimal)
    result = change(model)
    bodies = list(result.bodies)
    gravity: Any = result.gravity  # scalars stand for numbers
    links = [parameter for parameter in named if parameter.of_link]
    whole = {p.body: p for p in links if mapped and p.figure == ""}
    for parameter in named:
        inputs = values[parameter.first : parameter.first + parameter.count]
        if parameter.figure == GRAVITY:
            scale = 1.0 if mapped else _gravity_scale(model, change)
            gravity = tuple(scaled_sum((scale,), (component,)) for component in inputs)
        elif not parameter.of_link:
            body = bodies[parameter.body]
            figures: Any = {parameter.figure: inputs[0]}
            bodies[parameter.body] = replace(body, joint=replace(body.joint, **figures))
    if links:
        T, constants = linear_map(model, links, change)
        inputs = [x for p in links for x in values[p.first : p.first + p.count]]
        for number in np.flatnonzero(T.any(axis=(1, 2))).tolist():
            rows, offsets = T[number], constants[number].tolist()
            if number in whole:
                p = whole[number]
                rows = np.where(_columns_of(p, links), 0.0, rows)
                offsets = values[p.first : p.first + p.count]
            m, hx, hy, hz, xx, xy, yy, xz, yz, zz = (
                add(scaled_sum(row, inputs), offset)
                for row, offset in zip(rows.tolist(), offsets, strict=True)
            )
            inertia = Inertia(mass=m, h=(hx, hy, hz), I=(xx, xy, xz, yy, yz, zz))  # type: ignore[arg-type] # scalars stand for numbers
            bodies[number] = replace(bodies[number], inertia=inertia)
    return replace(result, bodies=tuple(bodies), gravity=gravity)


def parameter_map(model: Model, names: Sequence[str], *, minimal: bool) -> Array:
    """Return the map (count, count + 1) from [links' parameters; 1] to the bodies' parameters.

    The ten numbers of a link become those of its body in the frames and units of the model that an
    algorithm is traced for, with what the body's children pass to it; gravity gets that model's
    unit. All else stays. A host that computes this saves a core the products.

    Raises
    ------
    As :func:`parameters_of`.
    """
    named = parameters_of(model, names)
    change = _change(named, minimal)
    links = [parameter for parameter in named if parameter.of_link]
    count = sum(parameter.count for parameter in named)
    result = np.eye(count, count + 1)
    if any(parameter.figure == "" for parameter in links):
        T, constants = linear_map(model, links, change)
    for parameter in named:
        place = slice(parameter.first, parameter.first + parameter.count)
        if parameter.figure == GRAVITY:
            result[place, place] *= _gravity_scale(model, change)
        elif parameter.figure == "":
            result[place, place] = T[parameter.body][:, _columns_of(parameter, links)]
            result[place, count] = constants[parameter.body]
    return result


def _change(named: Sequence[Parameter], minimal: bool) -> Callable[[Model], Model]:
    """Return a function that maps a robot to the model for which an algorithm is traced."""
    if not minimal:
        return lambda robot: robot
    keep = {parameter.body for parameter in named if parameter.figure == ""}
    return lambda robot: minimal_model(robot, keep)


def _columns_of(parameter: Parameter, links: Sequence[Parameter]) -> NDArray[np.bool_]:
    """Return a mask of a parameter's values among the concatenated values of all links."""
    return np.concatenate([np.full(p.count, p is parameter) for p in links])


def linear_map(
    model: Model, links: Sequence[Parameter], change: Callable[[Model], Model]
) -> tuple[Array, Array]:
    """Return T (bodies, 10, count) and c (bodies, 10) of the changed inertias ``T values + c``.

    ``links`` : parameters of links; the values are theirs, one after the other.
    """

    def changed(numbers: Sequence[Array]) -> Array:
        bodies = list(model.bodies)
        for parameter, ten in zip(links, numbers, strict=True):
            frame = find_link(model, parameter.owner)
            E, r = np.array(frame.placement.E), np.array(frame.placement.r)
            placed = structured(ten).turned(E).moved(r)
            m, hx, hy, hz, xx, xy, yy, xz, yz, zz = flat(placed).tolist()
            inertia = Inertia(mass=m, h=(hx, hy, hz), I=(xx, xy, xz, yy, yz, zz))
            bodies[parameter.body] = replace(bodies[parameter.body], inertia=inertia)
        moved = change(replace(model, bodies=tuple(bodies)))
        return np.stack([flat(parameters(body.inertia)) for body in moved.bodies])

    origins = [parameter.origin for parameter in links]
    constants = changed(origins)
    columns = []
    for k, parameter in enumerate(links):
        for column in parameter.basis.T:
            columns.append(changed([*origins[:k], origins[k] + column, *origins[k + 1 :]]))
    return _clean(np.stack(columns, axis=-1) - constants[..., None]), constants


def _clean(array: Array) -> Array:
    """Return an array with entries within rounding errors of -1, 0 or 1 set to these values."""
    whole = np.clip(np.round(array), -1.0, 1.0)
    return np.where(np.abs(array - whole) < 1e-14, whole, array)


def _gravity_scale(model: Model, change: Callable[[Model], Model]) -> float:
    """Return the factor by which a change of the model scales gravity."""
    return change(replace(model, gravity=(0.0, 0.0, 1.0))).gravity[2]
