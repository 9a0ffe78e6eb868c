"""Named arrays of requests and results: shapes, units and sampling."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pinion.graph import Word
from pinion.robot import Model, contacts_of, coupled

from .errors import FunctionError
from .mistakes import UserError, place_of, return_of, said

# Lengths of named axes for a robot, without joints that follow others.
DIMENSIONS: Mapping[str, Callable[[Model], int]] = MappingProxyType(
    {
        "nq": lambda m: coupled(m).nq,
        "nv": lambda m: coupled(m).nv,
        "nx": lambda m: 2 * coupled(m).nv,
        "bodies": lambda m: len(m.bodies),
        "parameters": lambda m: 10 * len(m.bodies),
        "contacts": lambda m: len(contacts_of(m)),
        "nc": lambda m: sum(contact.size for contact in contacts_of(m)),
    }
)


PARAMETERS = "parameters"
"""Name of the input that holds a function's parameters (:meth:`.row.Function.with_parameters`)."""


class Quantity(Enum):
    """Quantity of a robot's state as an input, sampled consistently with the other quantities."""

    POSITION = "position"
    VELOCITY = "velocity"
    ACCELERATION = "acceleration"
    EFFORT = "effort"
    """The generalised forces of the state's motion."""
    INVERSE_INERTIA = "inverse inertia"
    """The inverse of the joint-space inertia matrix at the state's positions."""
    LINK_VELOCITY = "link velocity"
    LINK_ACCELERATION = "link acceleration"
    LINK_FORCE = "link force"
    """Of every link, (bodies, 6), as :func:`pinion.dynamics.link_states` returns them."""
    EXTERNAL_FORCE = "external force"
    """On every moving link, (bodies, 6), as :mod:`pinion.dynamics.external` takes them; efforts of
    the state's motion include them."""
    CONTACT_MASK = "contact mask"
    """For each contact of the robot whether it is on the ground, 1 or 0."""
    CONTACT_TARGET = "contact target"
    """For each contact a point near its place at the state's positions, (contacts, 3), as
    :mod:`pinion.dynamics.stabilisation` takes it."""
    CONTACT_EFFORT = "contact effort"
    """Efforts of joints that move the robot as drawn while its contacts carry it; 0 at a floating
    base."""
    PARAMETER = "parameter"
    """Inertial parameters of links, and gravity, as :mod:`pinion.dynamics.parametric` takes them;
    efforts of the state's motion are with them."""

    @property
    def of_links(self) -> bool:
        """Whether the quantity is one that :func:`pinion.dynamics.link_states` returns."""
        return self in (
            Quantity.LINK_VELOCITY,
            Quantity.LINK_ACCELERATION,
            Quantity.LINK_FORCE,
        )


@dataclass(frozen=True)
class LoadBox:
    """Rigid loads that a link may carry: masses up to a limit, anywhere within a sphere.

    Members
    -------
    mass : of the heaviest [kg].
    radius : of the sphere about the origin of the link's frame that holds the load [m].
    """

    mass: float
    radius: float

    def __post_init__(self) -> None:
        if not (0.0 < self.mass < math.inf and 0.0 < self.radius < math.inf):
            raise FunctionError(
                f"A load of {self.mass} kg within {self.radius} m cannot be sampled: give a finite "
                "mass and radius above 0."
            )

    def __str__(self) -> str:
        return f"{self.mass!r}kg@{self.radius!r}m"

    @classmethod
    def parsed(cls, text: str) -> Self:
        """Parse a range of loads such as ``3kg@0.2m``.

        Raises
        ------
        FunctionError
            If the string is of another form.
        """
        match = re.fullmatch(r"\s*([\d.eE+-]+)\s*kg\s*@\s*([\d.eE+-]+)\s*m\s*", text)
        try:
            if match is None:
                raise ValueError(text)
            mass, radius = map(float, match.groups())
        except ValueError:
            raise FunctionError(
                f"parameter_range cannot be {text!r}: write a mass and a radius, such as 3kg@0.2m."
            ) from None
        return cls(mass=mass, radius=radius)


@dataclass(frozen=True)
class Uniform:
    """Numbers sampled uniformly between two bounds, for inputs without a `Quantity`."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise FunctionError(
                f"Numbers cannot be sampled between {self.low} and {self.high}: give two finite "
                "bounds, the lower one first."
            )


@dataclass(frozen=True, eq=False)
class Drawn:
    """Numbers sampled by a user-defined function.

    Members
    -------
    draw : called once, as ``draw(rng, count)`` with a :class:`numpy.random.Generator`; returns an
        array (count, *shape) of the block's shape.

    Its values become a :class:`Table`, from which states are sampled: a build holds the table, not
    the function.
    """

    draw: Callable[[np.random.Generator, int], Any]

    def table(self, name: str, dims: Sequence[int]) -> Table:
        """Draw the table for a block of shape ``dims``, with a fixed seed.

        Raises
        ------
        FunctionError
            If the values have the wrong shape or are not finite numbers.
        """
        words = max(1, math.prod(dims))
        count = max(LEAST_ROWS, min(MOST_ROWS, TABLE_WORDS // words))
        with said(f"The sampling of '{name}'", place_of(self.draw)):
            values = np.asarray(self.draw(np.random.default_rng(TABLE_SEED), count))
        if values.shape != (count, *dims) or values.dtype.kind not in "fiu":
            raise UserError(
                f"{return_of(self.draw)}: the sampling of '{name}' returns an array of shape "
                f"{values.shape} and type {values.dtype}: called with a random generator and the "
                f"count {count}, it must return numbers of shape {(count, *dims)}."
            )
        rows = values.reshape(count, -1).astype(np.float32)
        if not np.isfinite(rows).all():
            raise UserError(
                f"{return_of(self.draw)}: the sampling of '{name}' returns "
                f"{values.reshape(count, -1)[~np.isfinite(rows)][0]}, which is not finite in "
                "float32: return numbers that float32 can represent."
            )
        return Table(words=rows.shape[1], rows=rows.astype("<f4").tobytes())


@dataclass(frozen=True)
class Table:
    """Values of an input sampled in advance; each state uses one of the rows.

    Members
    -------
    words : elements of a row.
    rows : little-endian float32, row by row.
    """

    words: int
    rows: bytes

    def __post_init__(self) -> None:
        size = 4 * self.words
        if self.words < 1 or not self.rows or len(self.rows) % size:
            raise FunctionError(
                f"The table has {len(self.rows)} bytes, but its rows have {size}: give a whole "
                "number of rows, at least one."
            )
        if not np.isfinite(self.values).all():
            raise FunctionError(
                "A table to sample from contains "
                f"{self.values[~np.isfinite(self.values)][0]}: give finite numbers."
            )

    @property
    def values(self) -> NDArray[np.float64]:
        """The rows as float64, (count, words)."""
        return np.frombuffer(self.rows, dtype="<f4").reshape(-1, self.words).astype(np.float64)


Sampling = Quantity | Uniform | Drawn | Table

# Enough rows for varied states, and few enough for a build's JSON.
LEAST_ROWS, MOST_ROWS, TABLE_WORDS = 64, 4096, 1 << 15
TABLE_SEED = 20_261_123


@dataclass(frozen=True, kw_only=True)
class Block:
    """A named array of a request or a result.

    Members
    -------
    name : such as ``q`` or ``dtau_dq``.
    shape : its axes without the batch: numbers, or dimensions of the robot (``nq`` and ``nv``,
        without joints that mimic others, ``nx``, twice ``nv``, for the tangent of a state [q; qd],
        ``bodies``, ``contacts`` and ``nc``, the components of their forces); empty for a scalar.
    unit : SI unit of an element, revolute | prismatic.
    symmetric : whether it is a symmetric matrix, transmitted as its lower triangle.
    sampling : how an input is sampled for tests, budgets and ranges; None for results.
    optional : whether an input of a user-defined function may affect no result for some robots; a
        build does not store it.
    """

    name: str
    shape: tuple[str | int, ...]
    unit: str
    symmetric: bool = False
    sampling: Sampling | None = None
    optional: bool = field(default=False, compare=False)

    def dims(self, model: Model) -> tuple[int, ...]:
        """Return the lengths of the axes for a model.

        Raises
        ------
        FunctionError
            If an axis has a name that is not a dimension of a robot.
        """
        sizes = []
        for axis in self.shape:
            if isinstance(axis, int):
                sizes.append(axis)
            elif axis in DIMENSIONS:
                sizes.append(DIMENSIONS[axis](model))
            else:
                raise FunctionError(
                    f"The array '{self.name}' has the unknown axis '{axis}': use a number, or "
                    f"one of {', '.join(DIMENSIONS)}."
                )
        return tuple(sizes)

    def positions(self, model: Model) -> dict[str, int]:
        """Return the words in record order (row by row) with their flat positions in the array.

        Words are such as ``tau[0]`` or ``minv[1,0]``.
        """
        dims = self.dims(model)
        return {
            Word(self.name, index): position
            for position, index in enumerate(np.ndindex(*dims))
            if not self.symmetric or index[0] >= index[1]
        }

    def words(self, model: Model) -> list[str]:
        """Return the names of the words in record order."""
        return list(self.positions(model))

    def resolved(self, model: Model) -> Self:
        """Return the block with numeric axes, and with a user-defined sampling as a table."""
        dims, sampling = self.dims(model), self.sampling
        if isinstance(sampling, Drawn):
            sampling = sampling.table(self.name, dims)
        return replace(self, shape=dims, sampling=sampling)

    def nested(self, elements: Mapping[int, Any], model: Model) -> Any:
        """Nest elements by flat position, as an algorithm over scalars expects them.

        Returns
        -------
        The element of a scalar, a list of them, or rows of a matrix; the two halves of a symmetric
        matrix share their elements.
        """
        dims = self.dims(model)

        def level(index: tuple[int, ...]) -> Any:
            if len(index) < len(dims):
                return [level((*index, i)) for i in range(dims[len(index)])]
            if self.symmetric and index[1] > index[0]:
                index = index[::-1]
            return elements[int(np.ravel_multi_index(index, dims)) if dims else 0]

        return level(())


@dataclass(frozen=True, kw_only=True)
class State(Block):
    """An array that each request passes to the next one.

    Members
    -------
    initial : value for the first request, in the array's unit: one number for every element, or one
        per element, row by row.
    """

    initial: float | tuple[float, ...] = 0.0

    def __post_init__(self) -> None:
        values = self.initial if isinstance(self.initial, tuple) else (self.initial,)
        if not all(math.isfinite(value) for value in values):
            raise FunctionError(
                f"The initial value of '{self.name}' is {self.initial!r}: give finite numbers."
            )
        if self.symmetric or self.sampling is not None:
            raise FunctionError(
                f"The state '{self.name}' has symmetric={self.symmetric} and "
                f"sampling={self.sampling!r:.60}: leave both out; every element is kept, and its "
                "range follows from the requests."
            )

    def initials(self, model: Model) -> dict[str, float]:
        """Return the initial values, which the first request reads, by word.

        Raises
        ------
        FunctionError
            If the number of values does not match the number of elements.
        """
        words = self.positions(model)
        if not isinstance(self.initial, tuple):
            return dict.fromkeys(words, float(self.initial))
        if len(self.initial) != len(words):
            raise FunctionError(
                f"The state '{self.name}' has size {len(words)}, but its initial value has size "
                f"{len(self.initial)}: give one number for all elements, or one per element."
            )
        return {word: float(self.initial[at]) for word, at in words.items()}
