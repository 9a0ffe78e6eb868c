"""The table of functions: what goes in, what comes out, and how each is traced for a model.

One row serves every backend: the float model, the hardware core, the host driver. Adding a row is
described in CONTRIBUTING.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion import dynamics
from pinion.hls.graph import Graph
from pinion.hls.trace import Symbol, Tracer
from pinion.robot import Model

Floats = NDArray[np.float64]

# Helpers whose source lines say nothing about the algorithm.
_HELPERS = ("spatial.py", "scalar.py")


class FunctionError(ValueError):
    """An unknown function or array name, or an array that does not fit; the message says which."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """A named array of a request or a result.

    Members
    -------
    name : such as ``q`` or ``dtau_dq``.
    shape : its axes without the batch, as names of model dimensions: ``("nv",)``.
    unit : SI unit of an element, revolute | prismatic.
    """

    name: str
    shape: tuple[str, ...]
    unit: str

    def dims(self, model: Model) -> tuple[int, ...]:
        """Axes as numbers for a model."""
        return tuple({"nq": model.nq, "nv": model.nv}[axis] for axis in self.shape)

    def words(self, model: Model) -> list[str]:
        """Names of its words in record order (row by row): ``tau[0]``, ``minv[0,1]``."""
        indices = np.ndindex(*self.dims(model))
        return [f"{self.name}[{','.join(map(str, index))}]" for index in indices]


@dataclass(frozen=True, kw_only=True)
class Function:
    """A row of the table.

    Members
    -------
    name, doc : as on the command line.
    inputs, outputs : blocks in record order.
    scalars : the algorithm over scalars; takes the model, one sequence of scalars an input block,
        and ``region``; returns one flat sequence an output block.
    floats : the float model; takes the model and one array (n, ...) an input block and returns one
        array an output block.
    """

    name: str
    doc: str
    inputs: tuple[Block, ...]
    outputs: tuple[Block, ...]
    scalars: Callable[..., Sequence[Sequence[Any]]]
    floats: Callable[..., Sequence[Floats]]

    def trace(self, model: Model) -> Graph:
        """Run the algorithm on symbols for one robot: a graph with its constants inside."""
        tracer = Tracer(skip=_HELPERS)
        arguments: list[list[Symbol]] = [
            [tracer.input(word) for word in block.words(model)] for block in self.inputs
        ]
        results = self.scalars(model, *arguments, region=tracer.region)
        for block, values in zip(self.outputs, results, strict=True):
            for word, value in zip(block.words(model), values, strict=True):
                tracer.output(word, value)
        return tracer.finish()

    def evaluate(self, model: Model, arrays: Mapping[str, Floats]) -> dict[str, Floats]:
        """The float model in float64 on a batch, by block name."""
        results = self.floats(model, *(arrays[block.name] for block in self.inputs))
        return {b.name: r for b, r in zip(self.outputs, results, strict=True)}


def _rnea_scalars(
    model: Model, q: Sequence[Any], qd: Sequence[Any], qdd: Sequence[Any], *, region: Any
) -> Iterator[Sequence[Any]]:
    yield dynamics.rnea_scalars(model, q, qd, qdd, region=region)


_Q = Block(name="q", shape=("nq",), unit="rad | m")
_QD = Block(name="qd", shape=("nv",), unit="rad/s | m/s")
_QDD = Block(name="qdd", shape=("nv",), unit="rad/s^2 | m/s^2")
_TAU = Block(name="tau", shape=("nv",), unit="N m | N")

FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        row.name: row
        for row in (
            Function(
                name="rnea",
                doc="inverse dynamics: tau from q, qd, qdd (recursive Newton-Euler algorithm)",
                inputs=(_Q, _QD, _QDD),
                outputs=(_TAU,),
                scalars=lambda *a, **k: list(_rnea_scalars(*a, **k)),
                floats=lambda model, q, qd, qdd: (dynamics.rnea(model, q, qd, qdd),),
            ),
        )
    }
)


def function(name: str) -> Function:
    """A row by name.

    Raises
    ------
    FunctionError
        When there is no such row; the message lists the names.
    """
    try:
        return FUNCTIONS[name]
    except KeyError:
        raise FunctionError(
            f"There is no function '{name}'; choose one of {', '.join(FUNCTIONS)}."
        ) from None
