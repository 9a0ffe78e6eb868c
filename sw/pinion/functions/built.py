"""A function as a build stores it: its row's data and its float graph, without any code.

Evaluating, sampling and verifying a build folder needs only this file: no table is looked up, and
nothing of the row's module is imported.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.base.arrays import Floats
from pinion.dynamics.joint_terms import FRICTION_WIDTH
from pinion.graph import Graph, GraphError, Stream, evaluate_floats, stream_floats
from pinion.graph.interchange import graph_from_json, graph_to_json
from pinion.robot import Model

from .blocks import Block, LoadBox, Quantity, Sampling, State, Table, Uniform
from .errors import FunctionError
from .row import Function, block_arrays, word_columns

FORMAT = "pinion.function"
VERSION = 1
WITH_STATES = 2
"""Version of functions with states: a reader of version 1 alone must not ignore them."""

# States at a time: all words of a large result over all states would not fit in memory.
_CHUNK = 1000


@dataclass(frozen=True, kw_only=True)
class BuiltFunction:
    """A function built for one robot: its description and its float graph.

    Members
    -------
    name, doc : of the row.
    options : differences from the row's default.
    inputs, results : blocks in record order, every axis a number.
    graph : the algorithm as traced for the robot as loaded: the float model.
    states : arrays passed from request to request, every axis a number.
    parameter_map : rows of :meth:`.row.Function.parameter_map`, empty without one.
    """

    name: str
    doc: str
    options: Mapping[str, str]
    inputs: tuple[Block, ...]
    results: tuple[Block, ...]
    graph: Graph
    states: tuple[State, ...] = ()
    parameter_map: tuple[tuple[float, ...], ...] = ()

    @property
    def joint_terms(self) -> tuple[str, ...]:
        """Names of the passive joint terms that the function includes."""
        return tuple(name for name in self.options.get("joint_terms", "").split(",") if name)

    @property
    def friction_width(self) -> float:
        """Rate within which friction changes sign [rad/s | m/s]."""
        return float(self.options.get("friction_width", FRICTION_WIDTH))

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters that are inputs: links, joint coefficients, ``gravity``."""
        return tuple(name for name in self.options.get("parameters", "").split(",") if name)

    @property
    def load(self) -> LoadBox | None:
        """Loads from which the links' parameters are sampled, None for the default."""
        text = self.options.get("parameter_range", "")
        return LoadBox.parsed(text) if text else None

    @classmethod
    def of(cls, row: Function, model: Model) -> BuiltFunction:
        """Trace a function for a robot as loaded."""
        return cls(
            name=row.name,
            doc=row.doc,
            options=row.options,
            inputs=tuple(block.resolved(model) for block in row.inputs),
            results=tuple(block.resolved(model) for block in row.results),
            graph=row.trace(model, minimal=False),
            states=tuple(state.resolved(model) for state in row.states),
            parameter_map=row.parameter_map(model),
        )

    def evaluate(self, model: Model, arrays: Mapping[str, Floats]) -> dict[str, Floats]:
        """Evaluate the float model in float64 on a batch of arrays (n, ...), by block name.

        With states the batch is one stream, in order, starting at the initial values.
        """
        return self.follow(model, arrays)[0]

    def follow(
        self,
        model: Model,
        arrays: Mapping[str, Floats],
        *,
        fresh: NDArray[np.bool_] | None = None,
        start: Mapping[str, float] | None = None,
    ) -> tuple[dict[str, Floats], Stream]:
        """Evaluate the float model as `evaluate` does, and also return the states of the stream.

        Parameters
        ----------
        fresh, start : as in :meth:`pinion.functions.Function.follow`.
        """
        columns, stream = word_columns(self.inputs, model, arrays), Stream({}, {})
        if self.states:
            stream = stream_floats(self.graph, columns, fresh=fresh, start=start)
        return self.step(model, arrays, stream.states), stream

    def step(
        self, model: Model, arrays: Mapping[str, Floats], states: Mapping[str, Floats]
    ) -> dict[str, Floats]:
        """Evaluate the float model for requests with the given states, columns (n,) by word."""
        count = len(arrays[self.inputs[0].name]) if self.inputs else 1
        columns = word_columns(self.inputs, model, arrays) | dict(states)
        results = {word: np.empty(count) for b in self.results for word in b.positions(model)}
        for start in range(0, count, _CHUNK):
            part = {word: column[start : start + _CHUNK] for word, column in columns.items()}
            values = evaluate_floats(self.graph, part)
            for word, column in results.items():
                column[start : start + _CHUNK] = values[word]
        return block_arrays(self.results, model, results, count)

    def to_json(self) -> dict[str, Any]:
        """Return the function as JSON-compatible data, with its version."""
        return {
            "format": FORMAT,
            "version": WITH_STATES if self.states else VERSION,
            "name": self.name,
            "doc": self.doc,
            "options": dict(self.options),
            "inputs": [_block_to_json(block) for block in self.inputs],
            "results": [_block_to_json(block) for block in self.results],
            "graph": graph_to_json(self.graph),
            **({"states": [_state_to_json(state) for state in self.states]} if self.states else {}),
            **({"parameter_map": self.parameter_map} if self.parameter_map else {}),
        }

    @classmethod
    def from_json(cls, data: Any) -> BuiltFunction:
        """Read a function from JSON-compatible data.

        Raises
        ------
        FunctionError
            If the data is not a function, or has a later version.
        """
        kind, version = (
            (data.get("format"), data.get("version")) if isinstance(data, dict) else (None, None)
        )
        if kind != FORMAT or version not in (VERSION, WITH_STATES):
            raise FunctionError(
                f"The function has the format {kind!r}, version {version!r}, but this Pinion reads "
                f"{FORMAT!r}, versions {VERSION} and {WITH_STATES}: build the folder again."
            )
        try:
            built = cls(
                name=_text(data["name"]),
                doc=_text(data["doc"]),
                options={_text(k): _text(v) for k, v in data["options"].items()},
                inputs=tuple(_block_from_json(block) for block in data["inputs"]),
                results=tuple(_block_from_json(block) for block in data["results"]),
                graph=graph_from_json(data["graph"]),
                states=tuple(
                    _state_from_json(state)
                    for state in (data["states"] if version == WITH_STATES else ())
                ),
                parameter_map=tuple(
                    tuple(map(float, line)) for line in data.get("parameter_map", ())
                ),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            if isinstance(error, GraphError):
                raise FunctionError(
                    f"The function's float graph is invalid, so build the folder again: {error}"
                ) from None
            raise FunctionError(
                f"The function cannot be read ({type(error).__name__}: {str(error)[:100]}): build "
                "the folder again."
            ) from None
        return built


def _block_to_json(block: Block) -> dict[str, Any]:
    sampling: Any = None
    if isinstance(block.sampling, Quantity):
        sampling = block.sampling.value
    elif isinstance(block.sampling, Uniform):
        sampling = [float(block.sampling.low), float(block.sampling.high)]
    elif isinstance(block.sampling, Table):
        rows = base64.b64encode(block.sampling.rows).decode("ascii")
        sampling = {"words": block.sampling.words, "rows": rows}
    return {
        "name": block.name,
        "shape": list(block.shape),
        "unit": block.unit,
        "symmetric": block.symmetric,
        "sampling": sampling,
    }


def _block_from_json(data: Any) -> Block:
    source = data["sampling"]
    sampling: Sampling | None = None
    if isinstance(source, str):
        sampling = Quantity(source)
    elif isinstance(source, dict):
        rows = base64.b64decode(_text(source["rows"]), validate=True)
        sampling = Table(words=int(source["words"]), rows=rows)
    elif source is not None:
        low, high = source
        sampling = Uniform(float(low), float(high))
    if type(data["symmetric"]) is not bool:
        raise ValueError(f"symmetric is {data['symmetric']!r}, not a boolean")
    return Block(
        name=_text(data["name"]),
        shape=_shape(data),
        unit=_text(data["unit"]),
        symmetric=data["symmetric"],
        sampling=sampling,
    )


def _state_to_json(state: State) -> dict[str, Any]:
    initial: float | list[float]
    if isinstance(state.initial, tuple):
        initial = [float(value) for value in state.initial]
    else:
        initial = float(state.initial)
    return {
        "name": state.name,
        "shape": list(state.shape),
        "unit": state.unit,
        "initial": initial,
    }


def _state_from_json(data: Any) -> State:
    initial = data["initial"]
    return State(
        name=_text(data["name"]),
        shape=_shape(data),
        unit=_text(data["unit"]),
        initial=tuple(map(float, initial)) if isinstance(initial, list) else float(initial),
    )


def _shape(data: Any) -> tuple[int, ...]:
    shape = data["shape"]
    if not isinstance(shape, list) or any(type(axis) is not int or axis < 0 for axis in shape):
        raise ValueError(f"a shape is {shape!r}, not a list of whole numbers")
    return tuple(shape)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value
