"""Named arrays of requests and results: shapes, units, and how requests are sampled."""

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
from pinion.robot import Model, coupled

from .errors import FunctionError
from .mistakes import UserError, place_of, return_of, said

# Names of axes, and their lengths for a robot: of the joints that follow no other.
DIMENSIONS: Mapping[str, Callable[[Model], int]] = MappingProxyType(
    {
        "nq": lambda m: coupled(m).nq,
        "nv": lambda m: coupled(m).nv,
        "nx": lambda m: 2 * coupled(m).nv,
        "bodies": lambda m: len(m.bodies),
        "parameters": lambda m: 10 * len(m.bodies),
    }
)


class Quantity(Enum):
    """What of a robot's state an input is: it is drawn with the others, not on its own."""

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
    """Of every link, (bodies, 6), as :func:`pinion.dynamics.link_states` gives them."""
    EXTERNAL_FORCE = "external force"
    """On every moving link, (bodies, 6), as :mod:`pinion.dynamics.external` takes them; efforts of
    the state's motion are with them."""

    PARAMETER = "parameter"
    """Inertial parameters of links, and gravity, as :mod:`pinion.dynamics.parametric` takes them;
    efforts of the state's motion are with them."""

    @property
    def of_links(self) -> bool:
        """Whether it is something of every link."""
        return self in (
            Quantity.LINK_VELOCITY,
            Quantity.LINK_ACCELERATION,
            Quantity.LINK_FORCE,
        )


@dataclass(frozen=True)
class LoadBox:
    """Rigid loads that a link may carry: masses to a limit, anywhere within a sphere.

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
                f"A load of {self.mass} kg within {self.radius} m cannot be drawn: give a mass "
                "and a radius above 0."
            )

    def __str__(self) -> str:
        return f"{self.mass!r}kg@{self.radius!r}m"

    @classmethod
    def parsed(cls, text: str) -> Self:
        """A box from a text such as ``3kg@0.2m``.

        Raises
        ------
        FunctionError
            When the text is of another form.
        """
        match = re.fullmatch(r"\s*([\d.eE+-]+)\s*kg\s*@\s*([\d.eE+-]+)\s*m\s*", text)
        try:
            if match is None:
                raise ValueError(text)
            mass, radius = map(float, match.groups())
        except ValueError:
            raise FunctionError(
                f"The range of loads is {text!r}: write a mass and a radius, such as 3kg@0.2m."
            ) from None
        return cls(mass=mass, radius=radius)


@dataclass(frozen=True)
class Uniform:
    """Numbers drawn evenly between two ends, for inputs that are no quantity of the robot."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise FunctionError(
                f"Numbers cannot be drawn between {self.low} and {self.high}: give two finite "
                "ends, the lower one first."
            )


@dataclass(frozen=True, eq=False)
class Drawn:
    """Numbers that a function of the user's draws.

    Members
    -------
    draw : called once, as ``draw(rng, count)`` with a :class:`numpy.random.Generator`; returns an
        array (count, *shape) of the block's shape.

    What it draws becomes a :class:`Table`, of which states are drawn from then on: a build holds
    that table, not the function.
    """

    draw: Callable[[np.random.Generator, int], Any]

    def table(self, name: str, dims: Sequence[int]) -> Table:
        """The table of a block of this shape; the same one each time.

        Raises
        ------
        FunctionError
            When what is drawn has another shape, or is no finite number.
        """
        words = max(1, math.prod(dims))
        count = max(LEAST_ROWS, min(MOST_ROWS, TABLE_WORDS // words))
        with said(f"The sampling of '{name}'", place_of(self.draw)):
            drawn = np.asarray(self.draw(np.random.default_rng(TABLE_SEED), count))
        if drawn.shape != (count, *dims) or drawn.dtype.kind not in "fiu":
            raise UserError(
                f"{return_of(self.draw)}: the sampling of '{name}' draws an array {drawn.shape} of "
                f"{drawn.dtype}: called with a random generator and the count {count}, it must "
                f"return {(count, *dims)} numbers."
            )
        rows = drawn.reshape(count, -1).astype(np.float32)
        if not np.isfinite(rows).all():
            raise UserError(
                f"{return_of(self.draw)}: the sampling of '{name}' draws numbers that are not "
                "finite in float32: draw such as a request can hold."
            )
        return Table(words=rows.shape[1], rows=rows.astype("<f4").tobytes())


@dataclass(frozen=True)
class Table:
    """Values of an input that were drawn before; a state takes one of the rows.

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
                f"A table of rows of {self.words} words cannot have {len(self.rows)} bytes."
            )
        if not np.isfinite(self.values).all():
            raise FunctionError("A table of rows to draw from holds numbers that are not finite.")

    @property
    def values(self) -> NDArray[np.float64]:
        """The rows, (count, words)."""
        return np.frombuffer(self.rows, dtype="<f4").reshape(-1, self.words).astype(np.float64)


Sampling = Quantity | Uniform | Drawn | Table

# A table is long enough that its rows do not tire, and short enough for a build's JSON.
LEAST_ROWS, MOST_ROWS, TABLE_WORDS = 64, 4096, 1 << 15
TABLE_SEED = 20_261_123


@dataclass(frozen=True, kw_only=True)
class Block:
    """A named array of a request or a result.

    Members
    -------
    name : such as ``q`` or ``dtau_dq``.
    shape : its axes without the batch: numbers, or names of dimensions of the robot (``nq``,
        ``nv``, where joints that mimic others have none, ``nx``, twice ``nv``, of the tangent of a
        state [q; qd], and ``bodies``); empty for a scalar.
    unit : SI unit of an element, revolute | prismatic.
    symmetric : a symmetric matrix, of which only the lower triangle travels.
    sampling : how an input is drawn for tests, budgets and ranges; results have none.
    optional : an input of a user's function that may change no result for some robots; a build does
        not keep it.
    """

    name: str
    shape: tuple[str | int, ...]
    unit: str
    symmetric: bool = False
    sampling: Sampling | None = None
    optional: bool = field(default=False, compare=False)

    def dims(self, model: Model) -> tuple[int, ...]:
        """Axes as numbers for a model.

        Raises
        ------
        FunctionError
            When an axis has a name that is no dimension of a robot.
        """
        sizes = []
        for axis in self.shape:
            if isinstance(axis, int):
                sizes.append(axis)
            elif axis in DIMENSIONS:
                sizes.append(DIMENSIONS[axis](model))
            else:
                raise FunctionError(
                    f"The array '{self.name}' has the axis '{axis}': give a number, or one of "
                    f"{', '.join(DIMENSIONS)}."
                )
        return tuple(sizes)

    def positions(self, model: Model) -> dict[str, int]:
        """Its words in record order (row by row), ``tau[0]`` or ``minv[1,0]``, and for each the
        flat position of its element in the array.
        """
        dims = self.dims(model)
        return {
            Word(self.name, index): position
            for position, index in enumerate(np.ndindex(*dims))
            if not self.symmetric or index[0] >= index[1]
        }

    def words(self, model: Model) -> list[str]:
        """Its words in record order."""
        return list(self.positions(model))

    def resolved(self, model: Model) -> Self:
        """The block with its axes as numbers, and what a function draws as a table."""
        dims, drawn = self.dims(model), self.sampling
        if isinstance(drawn, Drawn):
            drawn = drawn.table(self.name, dims)
        return replace(self, shape=dims, sampling=drawn)

    def nested(self, elements: Mapping[int, Any], model: Model) -> Any:
        """Elements by flat position as an algorithm over scalars takes them.

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
    """An array that goes on from request to request: what one leaves is what the next one finds.

    Members
    -------
    initial : what the first request finds, in the array's unit: one number for every element, or
        one an element, row by row.
    """

    initial: float | tuple[float, ...] = 0.0

    def __post_init__(self) -> None:
        values = self.initial if isinstance(self.initial, tuple) else (self.initial,)
        if not all(math.isfinite(value) for value in values):
            raise FunctionError(
                f"The state '{self.name}' begins with {self.initial!r}: give finite numbers."
            )
        if self.symmetric or self.sampling is not None:
            raise FunctionError(
                f"The state '{self.name}' is given as symmetric or with a sampling: every element "
                "of a state is kept, and what it reaches follows from the requests."
            )

    def initials(self, model: Model) -> dict[str, float]:
        """What the first request finds, by word.

        Raises
        ------
        FunctionError
            When there are not as many numbers as elements.
        """
        words = self.positions(model)
        if not isinstance(self.initial, tuple):
            return dict.fromkeys(words, float(self.initial))
        if len(self.initial) != len(words):
            raise FunctionError(
                f"The state '{self.name}' has {len(words)} elements and {len(self.initial)} "
                "initial values: give one number for all, or one an element."
            )
        return {word: float(self.initial[at]) for word, at in words.items()}
