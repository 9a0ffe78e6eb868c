r"""Inertial parameters and gravity as inputs of an algorithm instead of constants of the robot.

The inertias and gravity of the :class:`pinion.robot.Model` that an algorithm over scalars takes may
be scalars. :func:`parametric_model` makes such a model. For each named link, the caller passes the
ten parameters (:data:`.regressor.PARAMETERS`) of the body that carries the link, in the link's
frame; for ``gravity``, three components in base axes.

The body's parameters are a linear function of these: of the change from the link's frame to the
body's, and of the frames, units of length and regrouped inertias of the minimal model
(:mod:`.minimal`). Regrouping takes nothing from a named body; what its children contribute to it is
constant. The linear map is obtained by passing unit inertias through the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pinion.robot import Inertia, Model, Transform
from pinion.robot.lookup import find_link

from .checks import Array, DynamicsError
from .minimal import Parameters, minimal_model, parameters
from .scalar import Scalar, add, scaled_sum

GRAVITY = "gravity"
"""The name of gravity among parameters; a link of this name cannot be a parameter."""

PER_LINK, PER_GRAVITY = 10, 3


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A link's inertia, or gravity, as a part of the parameters.

    Members
    -------
    name : a link, or :data:`GRAVITY`.
    body : the body that carries the link, -1 for gravity.
    placement : of the link's frame in the body.
    first, count : position and number of its values among those of all parameters.
    """

    name: str
    body: int
    placement: Transform | None
    first: int
    count: int


def count_of(names: Sequence[str]) -> int:
    """Return the number of values of the parameters with these names."""
    return sum(PER_GRAVITY if name == GRAVITY else PER_LINK for name in names)


def parameters_of(model: Model, names: Sequence[str]) -> list[Parameter]:
    """Return the parameters with these names.

    Raises
    ------
    RobotError : there is no such link.
    DynamicsError : a link belongs to the fixed base, a name is repeated, or two links belong to
        the same body.
    """
    result: list[Parameter] = []
    first = 0
    for name in names:
        if name == GRAVITY:
            body, placement, count = -1, None, PER_GRAVITY
        else:
            frame = find_link(model, name, moving=True)
            body, placement, count = frame.body, frame.placement, PER_LINK
            if body < 0:
                raise DynamicsError(
                    f"The link {name!r} is part of the fixed base, whose inertia changes nothing; "
                    "name a link that moves."
                )
        clash = next((other for other in result if other.body == body), None)
        if clash is not None:
            raise DynamicsError(
                f"The parameters {clash.name!r} and {name!r} are both of "
                f"{'gravity' if body < 0 else repr(model.bodies[body].name)}: name one of them."
            )
        result.append(
            Parameter(name=name, body=body, placement=placement, first=first, count=count)
        )
        first += count
    return result


def parameter_values(model: Model, names: Sequence[str]) -> list[float]:
    """Return the robot's values of the parameters with these names, (count,)."""
    values: list[float] = []
    for parameter in parameters_of(model, names):
        if parameter.placement is None:
            values += model.gravity
        else:
            E, r = np.array(parameter.placement.E), np.array(parameter.placement.r)
            inertia = parameters(model.bodies[parameter.body].inertia).moved(-r).turned(E.T)
            values += flat(inertia).tolist()
    return values


def flat(inertia: Parameters) -> Array:
    """Return an inertia as ten numbers in the order of :data:`.regressor.PARAMETERS`."""
    xx, xy, xz, _, yy, yz, *_, zz = inertia.I.ravel()
    return np.array([inertia.m, *inertia.h, xx, xy, yy, xz, yz, zz])


def structured(values: Array) -> Parameters:
    """Return ten numbers in the order of :data:`.regressor.PARAMETERS` as an inertia."""
    m, hx, hy, hz, xx, xy, yy, xz, yz, zz = values
    full = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return Parameters(m=float(m), h=np.array([hx, hy, hz]), I=full)


def parametric_model(
    model: Model, names: Sequence[str], values: Sequence[Scalar], *, minimal: bool = False
) -> Model:
    """Return the model with the named constants replaced by scalars.

    Arguments
    ---------
    names : links, or :data:`GRAVITY`.
    values : (count,) scalars, in the order of the names: ten for a link, three for gravity
        [m/s^2]. Whether a body can have such an inertia is not checked.
    minimal : whether to return the minimal model (:func:`.minimal.minimal_model`).

    Raises
    ------
    RobotError, DynamicsError : as for :func:`parameters_of`.
    """
    named = parameters_of(model, names)
    keep = {parameter.body for parameter in named}
    change: Callable[[Model], Model] = (
        (lambda robot: minimal_model(robot, keep)) if minimal else (lambda robot: robot)
    )
    result = change(model)
    bodies = list(result.bodies)
    gravity: Any = result.gravity  # scalars stand for numbers
    for parameter in named:
        inputs = values[parameter.first : parameter.first + parameter.count]
        if parameter.placement is None:
            scale = change(replace(model, gravity=(0.0, 0.0, 1.0))).gravity[2]
            gravity = tuple(scaled_sum((scale,), (component,)) for component in inputs)
            continue
        T, constant = linear_map(model, parameter, change)
        m, hx, hy, hz, xx, xy, yy, xz, yz, zz = (
            add(scaled_sum(row, inputs), offset)
            for row, offset in zip(T.tolist(), constant.tolist(), strict=True)
        )
        inertia = Inertia(mass=m, h=(hx, hy, hz), I=(xx, xy, xz, yy, yz, zz))  # type: ignore[arg-type] # scalars stand for numbers
        bodies[parameter.body] = replace(bodies[parameter.body], inertia=inertia)
    return replace(result, bodies=tuple(bodies), gravity=gravity)


def linear_map(
    model: Model, parameter: Parameter, change: Callable[[Model], Model]
) -> tuple[Array, Array]:
    """Return T (10, 10) and c (10,): the changed body has the parameters ``T values + c``."""
    assert parameter.placement is not None
    E, r = np.array(parameter.placement.E), np.array(parameter.placement.r)
    body = model.bodies[parameter.body]

    def changed(values: Array) -> Array:
        placed = structured(values).turned(E).moved(r)
        I = placed.I  # noqa: E741 - the field's name for it
        inertia = Inertia(
            mass=placed.m,
            h=(float(placed.h[0]), float(placed.h[1]), float(placed.h[2])),
            I=(*map(float, I[0]), float(I[1, 1]), float(I[1, 2]), float(I[2, 2])),  # type: ignore[arg-type] # six of them
        )
        bodies = list(model.bodies)
        bodies[parameter.body] = replace(body, inertia=inertia)
        moved = change(replace(model, bodies=tuple(bodies)))
        return flat(parameters(moved.bodies[parameter.body].inertia))

    constant = changed(np.zeros(PER_LINK))
    columns = [changed(unit) - constant for unit in np.eye(PER_LINK)]
    T = np.stack(columns, axis=1)
    T[np.abs(T) < 1e-14] = 0.0
    T[np.abs(T - 1.0) < 1e-14] = 1.0
    return T, constant
