"""Parameters of a backend by link: values for one call, and loads for all later calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pinion.base.amounts import amount
from pinion.base.escaping import one_line
from pinion.batch import Backend, InputError, Result
from pinion.dynamics import DynamicsError, parameters_of
from pinion.dynamics.parametric import Parameter, check_values, rigid_body
from pinion.functions import Function
from pinion.functions.blocks import PARAMETERS
from pinion.robot import Model, RobotError, payload

Array = NDArray[np.float64]

RIGID_BODY = ("mass", "com", "inertia")
"""Keys of the dictionary that may describe a set."""

ROUND = 1e-6
"""Fraction of a set, off the joint's axis, that counts as rounding."""


class ParametricBackend(Backend):
    """A backend whose input ``parameters`` is optional and checked.

    By default it has the values of the robot's file plus those of the attached loads. Other
    attributes are those of the wrapped backend.

    Members
    -------
    backend : computes the batches.
    """

    def __init__(
        self, *, backend: Backend, model: Model, function: Function, accept_inertia: bool
    ) -> None:
        self.backend = backend
        self._model = model
        self._inputs = len(function.inputs)
        self._parameters = parameters_of(model, function.parameters)
        # Where the robot was accepted with an inertia that no body has, sets may have one too.
        self._to_check = [] if accept_inertia else [p for p in self._parameters if _possible(p)]
        self._accepted = b""
        self._loads: Mapping[str, Array] = {}
        self._set = self._with_loads()

    @property
    def parameters(self) -> Array:
        """The default of the input ``parameters``, (count,)."""
        return self._set.copy()

    def attach(
        self,
        link: str,
        *,
        mass: float,
        com: Sequence[float] = (0.0, 0.0, 0.0),
        inertia: Sequence[float] | None = None,
    ) -> None:
        """Attach a load, as :meth:`pinion.batch.Backend.attach` describes."""
        parameter = self._of_link(link)
        loads = {name: load for name, load in self._loads.items() if name != parameter.name}
        if np.ndim(mass) or mass != 0.0:
            try:
                payload(self._model, parameter.owner, mass=mass, com=com, inertia=inertia)
            except RobotError as error:
                raise InputError(str(error)) from None
            about_com = (0.0,) * 6 if inertia is None else inertia
            load = rigid_body(*(np.array(x, np.float64) for x in (mass, com, about_com)))
            loads[parameter.name] = _values(parameter, load, parameter.basis)
        # Assigned at once: calls in other threads have the old set or the new one.
        self._loads = loads
        self._set = self._with_loads()

    def run(
        self,
        /,
        *values: ArrayLike,
        inertia: Mapping[str, Any] | None = None,
        **arrays: Any,
    ) -> Result:
        """Compute a batch of requests, with the default parameters or others for this call.

        Parameters
        ----------
        values, arrays : as for any backend.
        inertia : sets for this call by link (or other name among the parameters), in place of the
            default: ten numbers as in ``parameters``, or a dictionary of ``mass`` [kg], ``com``
            (3,) in the link's frame [m] and ``inertia`` about it (6,), xx, xy, xz, yy, yz, zz
            [kg m^2]; four numbers of a link on its axis or all ten, three numbers of gravity, one
            of a joint. With a batch axis each sample has its own.

        Raises
        ------
        pinion.batch.InputError
            Also for a set that no body can have, unless the robot was opened with `accept_inertia`.
        """
        if len(values) >= self._inputs or PARAMETERS in arrays:
            if inertia is not None:
                raise InputError(
                    "The parameters are given twice, as 'parameters' and as 'inertia': omit one."
                )
            explicit = arrays.get(PARAMETERS, values[-1] if values else None)
            self._check(explicit, self._parameters)
            return self.backend.run(*values, **arrays)
        current = self._set
        if inertia is not None:
            if not isinstance(inertia, Mapping):
                raise InputError(
                    "'inertia' must be a dictionary of parameters by link name, not "
                    f"{str(inertia)[:60]!r}."
                )
            current = self._replaced(current, inertia)
        return self.backend.run(*values, **{**arrays, PARAMETERS: current})

    def close(self) -> None:
        """Close the wrapped backend."""
        self.backend.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "backend":
            raise AttributeError(name)
        return getattr(self.backend, name)

    def __repr__(self) -> str:
        return repr(self.backend)

    def _repr_html_(self) -> str:
        html: Any = self.backend
        return str(html._repr_html_())

    def _with_loads(self) -> Array:
        return np.concatenate(
            [p.reading @ p.file + self._loads.get(p.name, 0.0) for p in self._parameters]
        )

    def _named(self, name: str) -> Parameter:
        for parameter in self._parameters:
            if name == parameter.name or (parameter.of_link and name == parameter.owner):
                return parameter
        listed = ", ".join(repr(p.name) for p in self._parameters)
        raise InputError(
            f"The backend has no parameters of {name!r}, only of {listed}: add {name!r} to "
            "parameters= when you open it."
        )

    def _of_link(self, name: str) -> Parameter:
        parameter = self._named(name)
        if not parameter.of_link:
            raise InputError(f"{name!r} is not a link: attach the load to a link.")
        return parameter

    def _replaced(self, current: Array, sets: Mapping[str, Any]) -> Array:
        """Return the parameters with some sets replaced, (count,) or (n, count)."""
        parts = np.split(current, [p.first for p in self._parameters[1:]])
        named = {name: self._named(name) for name in sets}
        for parameter in named.values():
            same = [name for name in named if named[name] is parameter]
            if len(same) > 1:
                raise InputError(
                    f"The sets of 'inertia' for {' and '.join(map(repr, same))} name the "
                    "same link: give one set per link."
                )
        for name, value in sets.items():
            parameter = named[name]
            parts[self._parameters.index(parameter)] = _set_of(parameter, value)
        lengths = {len(part) for part in parts if part.ndim > 1}
        if len(lengths) > 1:
            raise InputError(
                "The sets of 'inertia' have different numbers of samples "
                f"({' and '.join(map(str, sorted(lengths)))}): give the same number in each, or "
                "one set for all samples."
            )
        batch = tuple(lengths)
        replaced = np.concatenate(
            [np.broadcast_to(part, (*batch, part.shape[-1])) for part in parts], axis=-1
        )
        self._check(replaced, list(named.values()))
        return replaced

    def _check(self, values: Any, parameters: Sequence[Parameter]) -> None:
        """Raise an error for a physically impossible set; the backend reports other mistakes."""
        parameters = [parameter for parameter in parameters if parameter in self._to_check]
        if not parameters or hasattr(values, "__cuda_array_interface__"):
            return
        try:
            numbers = np.asarray(values)
        except ValueError:
            return
        count = len(self._set)
        if numbers.dtype.kind not in "fiu" or numbers.shape[-1:] != (count,) or numbers.ndim > 2:
            return
        numbers = numbers.astype(np.result_type(numbers, np.float32), copy=False)
        # Control loops pass the same set with every call.
        single = numbers.tobytes() if numbers.ndim == 1 else b""
        if (single and single == self._accepted) or not np.isfinite(numbers).all():
            return
        try:
            check_values(parameters, numbers)
        except DynamicsError as error:
            raise InputError(str(error)) from None
        self._accepted = single


def _possible(parameter: Parameter) -> bool:
    """Return whether the values in the robot's file are physically possible."""
    try:
        check_values([replace(parameter, first=0)], parameter.reading @ parameter.file)
    except DynamicsError:
        return False
    return True


def _set_of(parameter: Parameter, value: Any) -> Array:
    """Return a parameter's values, (count,) or (n, count), from a set in any accepted form."""
    numbers = len(parameter.file)
    try:
        if isinstance(value, Mapping):
            array = _rigid_body(parameter, value)
        else:
            array = np.asarray(value, np.float64)
            if numbers == 1 and array.shape[-1:] != (1,):
                array = array[..., None]
    except (TypeError, ValueError):
        array = np.empty(())
    if array.ndim in (1, 2) and array.shape[-1] == parameter.count < numbers:
        return array
    if array.ndim not in (1, 2) or array.shape[-1] != numbers:
        described = " or a dictionary of mass, com and inertia" if parameter.of_link else ""
        if parameter.count < numbers:
            described = f", the {parameter.count} of {parameter.name!r}{described}"
        shape = np.shape(value) if array.ndim else ()
        fault = f"has the shape {shape}" if shape else f"cannot be {one_line(repr(value)):.60}"
        raise InputError(
            f"The set of {parameter.name!r} {fault}: give "
            f"{amount(numbers, 'number')}{described}, once for all samples or once per sample."
        )
    if not parameter.of_link:
        return array
    return _values(parameter, array, parameter.basis, parameter.origin)


def _rigid_body(parameter: Parameter, described: Mapping[str, Any]) -> Array:
    if not parameter.of_link or "mass" not in described or not described.keys() <= {*RIGID_BODY}:
        raise ValueError(described)
    mass = np.asarray(described["mass"], np.float64)
    com, inertia = (
        np.zeros(n) if described.get(name) is None else np.asarray(described[name], np.float64)
        for name, n in (("com", 3), ("inertia", 6))
    )
    return rigid_body(mass, com, inertia)


def _values(parameter: Parameter, numbers: Array, basis: Array, origin: Any = 0.0) -> Array:
    """Return a parameter's values for ten inertial numbers (..., 10) in the span of its basis."""
    values = numbers @ parameter.reading.T
    beside = np.abs(numbers - origin - values @ basis.T).max(axis=-1)
    if np.any(beside > ROUND * np.abs(numbers).max(axis=-1)):
        advice = f"open the backend with parameters=({parameter.owner!r},)."
        if (
            np.abs(origin).max() > ROUND * np.abs(parameter.file).max()
        ):  # a whole set, which the file's remainder is part of
            raise InputError(
                f"The set of {parameter.owner!r} differs from the robot's file in quantities that "
                f"{parameter.name!r} does not set: give only the "
                f"{amount(parameter.count, 'number')} of {parameter.name!r}, or {advice}"
            )
        subject = "set of" if np.ndim(origin) else "load on"
        raise InputError(
            f"The {subject} {parameter.owner!r} is not symmetric about its joint's axis, as "
            f"{parameter.name!r} requires: {advice}"
        )
    return np.asarray(values)
