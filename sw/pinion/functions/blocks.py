"""Named arrays of requests and results: shapes, units, and how requests are sampled."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

import numpy as np

from pinion.graph import Word
from pinion.robot import Model, coupled

from .errors import FunctionError

# Names of axes, and their lengths for a robot: of the joints that follow no other.
DIMENSIONS: Mapping[str, Callable[[Model], int]] = MappingProxyType(
    {
        "nq": lambda m: coupled(m).nq,
        "nv": lambda m: coupled(m).nv,
        "nx": lambda m: 2 * coupled(m).nv,
        "bodies": lambda m: len(m.bodies),
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

    @property
    def of_links(self) -> bool:
        """Whether it is something of every link."""
        return self in (
            Quantity.LINK_VELOCITY,
            Quantity.LINK_ACCELERATION,
            Quantity.LINK_FORCE,
        )


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


Sampling = Quantity | Uniform


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
    """

    name: str
    shape: tuple[str | int, ...]
    unit: str
    symmetric: bool = False
    sampling: Sampling | None = None

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

    def resolved(self, model: Model) -> Block:
        """The block with its axes as numbers."""
        return Block(
            name=self.name,
            shape=self.dims(model),
            unit=self.unit,
            symmetric=self.symmetric,
            sampling=self.sampling,
        )

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
