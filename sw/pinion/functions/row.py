"""A function of a robot as one frozen object: what goes in, what comes out, how it is computed.

One row serves every backend: the float model, the hardware core, the host driver. Those of the
literature stand in :mod:`.table`; CONTRIBUTING.md says how to add one.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pinion import dynamics
from pinion.base.escaping import one_line
from pinion.base.html import html_table
from pinion.dynamics.joint_terms import FRICTION_WIDTH, wanted_terms
from pinion.dynamics.rnea import no_region
from pinion.graph import Graph, Stream, Tracer, stream_floats
from pinion.robot import Model, coupled

from .blocks import Block, LoadBox, Quantity, State
from .errors import FunctionError

Floats = NDArray[np.float64]
Scalars = Callable[..., Sequence[Any]]

# Helpers whose source lines say nothing about the algorithm.
_HELPERS = ("spatial.py", "scalar.py", "tensor.py", "axis.py", "coupled.py", "joint_terms.py")


@dataclass(frozen=True, kw_only=True)
class Variant:
    """Another formulation of the same function.

    Members
    -------
    name, doc : as on the command line.
    scalars : the algorithm, as that of `Function`.
    published : it is kept as it was published: traced for the robot as it is, and no operation
        taken out but by folding.
    """

    name: str
    doc: str
    scalars: Scalars
    published: bool = False


@dataclass(frozen=True, kw_only=True)
class Function:
    """A function of a robot.

    Members
    -------
    name, doc : as on the command line.
    inputs : blocks in record order.
    outputs : all that the algorithm returns, in record order.
    scalars : the algorithm over scalars; takes the model, one scalar, sequence of scalars or
        sequence of rows an input block, and ``region``; returns one such thing an output block.
    floats : the float model; takes the model and one array (n, ...) an input block and returns one
        array an output block. None: `scalars` on arrays.
    formulation : what the algorithm is called where there are others.
    variants : other formulations.
    optional : names of results that come only when they are asked for.
    added : those that were asked for.
    variant : the other formulation that this is, if it is one.
    joint_space : results depend on the robot only through its equations of motion in the joints'
        coordinates. False for a row that takes or gives anything of a link: external forces,
        poses, potential energy.
    passive : whether damping, friction and springs change the results. True: the algorithm and the
        float model take them as ``joint_terms`` and ``friction_width``
        (:mod:`pinion.dynamics.joint_terms`); False: they have no part in the results; None: nothing
        is known of them. Armature is in every function.
    states : what goes on from request to request. The algorithm takes it behind the inputs and
        returns what comes next behind the outputs; so does a float model, on arrays. The next
        state depends on the robot as the results do (``joint_space``).
    joint_terms, friction_width : the terms that were asked for, and the rate within which friction
        changes sign [rad/s | m/s].
    robotless : it takes no robot, and is built for :data:`pinion.robot.NO_ROBOT`.
    parameters : links whose inertial parameters are inputs, or ``gravity``; their block is the last
        of `inputs` (:mod:`pinion.dynamics.parametric`).
    load : the box that parameters of links are drawn from.
    """

    name: str
    doc: str
    inputs: tuple[Block, ...]
    outputs: tuple[Block, ...]
    scalars: Scalars
    floats: Callable[..., Sequence[Floats]] | None = None
    formulation: str = ""
    variants: tuple[Variant, ...] = ()
    optional: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    variant: Variant | None = None
    joint_space: bool = True
    passive: bool | None = None
    states: tuple[State, ...] = ()
    joint_terms: tuple[str, ...] = ()
    friction_width: float = FRICTION_WIDTH
    robotless: bool = False
    parameters: tuple[str, ...] = ()
    load: LoadBox | None = None

    most_nodes: ClassVar[int] = sys.maxsize
    """Operations that a trace may have."""

    def __post_init__(self) -> None:
        names = [block.name for block in (*self.inputs, *self.outputs, *self.states)]
        for name in names:
            if not name.isidentifier():
                raise FunctionError(
                    f"The function '{self.name}' has an array {name!r}: give it a name of letters, "
                    "digits and underscores."
                )
        for blocks in ((*self.inputs, *self.states), (*self.outputs, *self.states)):
            if len({block.name for block in blocks}) != len(blocks):
                raise FunctionError(f"The function '{self.name}' names an array twice: {names}.")

    def __repr__(self) -> str:
        takes, gives = (", ".join(b.name for b in blocks) for blocks in (self.inputs, self.results))
        options = "".join(f", {name}={value}" for name, value in self.options.items())
        return one_line(f"<{type(self).__name__} {self.name}({takes}) -> {gives}{options}>")

    def _repr_html_(self) -> str:
        blocks = [("in", self.inputs), ("out", self.results), ("state", self.states)]
        rows = [
            (way, b.name, "x".join(map(str, b.shape)) or "1", b.unit)
            for way, some in blocks
            for b in some
        ]
        heads = ("", "array", "shape", "unit")
        return html_table(f"{self.name}: {self.doc}", rows, heads=heads)

    @property
    def results(self) -> tuple[Block, ...]:
        """The outputs that come: all but optional ones that nobody asked for."""
        return tuple(b for b in self.outputs if b.name not in self.optional or b.name in self.added)

    @property
    def published(self) -> bool:
        """Whether this is a formulation that is kept as it was published."""
        return self.variant is not None and self.variant.published

    @property
    def options(self) -> dict[str, str]:
        """How this differs from the row's default, for the manifest."""
        options = {} if self.variant is None else {"derivatives": self.variant.name}
        if self.added:
            options["outputs"] = ",".join(self.added)
        if self.parameters:
            options["parameters"] = ",".join(self.parameters)
            if self.load is not None:
                options["parameter_range"] = str(self.load)
        if self.joint_terms:
            options["joint_terms"] = ",".join(self.joint_terms)
            if "friction" in self.joint_terms:
                options["friction_width"] = repr(self.friction_width)
        return options

    @property
    def _terms(self) -> dict[str, Any]:
        """What the algorithm is told of passive terms."""
        if not self.joint_terms:
            return {}
        return {"joint_terms": self.joint_terms, "friction_width": self.friction_width}

    def formulated(self, name: str) -> Function:
        """The same function in another formulation.

        Raises
        ------
        FunctionError
            When the row has none of that name.
        """
        if name == self.formulation:
            return replace(self, variant=None)
        for variant in self.variants:
            if variant.name == name:
                return replace(self, variant=variant)
        known = [self.formulation, *(variant.name for variant in self.variants)]
        choose = f"choose one of {', '.join(known)}" if self.variants else "there is only one"
        raise FunctionError(f"'{self.name}' has no formulation '{name}'; {choose}.")

    def asked(self, outputs: Sequence[str]) -> Function:
        """The same function with the optional results of these names, or of a text with commas.

        Raises
        ------
        FunctionError
            When it has no such result.
        """
        if isinstance(outputs, str):
            outputs = [name.strip() for name in outputs.split(",") if name.strip()]
        known = {block.name for block in self.outputs}
        for output in outputs:
            if output not in known:
                raise FunctionError(
                    f"'{self.name}' has no result '{output}'; its results are "
                    f"{', '.join(sorted(known))}."
                )
        return replace(self, added=tuple(name for name in self.optional if name in outputs))

    def with_terms(
        self, joint_terms: bool | Sequence[str], friction_width: float = FRICTION_WIDTH
    ) -> Function:
        """The same function with what joints add besides their armature.

        Parameters
        ----------
        joint_terms : names of ``damping``, ``friction`` and ``stiffness``; True for all.
        friction_width : rate above zero within which friction changes sign [rad/s | m/s].

        Raises
        ------
        FunctionError
            When there is no such term, the width is not above zero, or the function knows no terms.
        """
        try:
            names = wanted_terms(joint_terms)
        except dynamics.DynamicsError as error:
            raise FunctionError(str(error)) from None
        if not 0.0 < friction_width < math.inf:
            raise FunctionError(
                f"The friction_width is {friction_width!r}: give a finite rate above 0, within "
                "which friction changes sign [rad/s | m/s]."
            )
        if self.passive is None and names:
            raise FunctionError(
                f"The function '{self.name}' does not say what {', '.join(names)} of joints do to "
                "it: leave joint_terms out, or set the row's `passive`."
            )
        if not self.passive:
            return self
        return replace(self, joint_terms=names, friction_width=float(friction_width))

    def with_parameters(self, names: Sequence[str], load: LoadBox | None = None) -> Function:
        """The same function with inertial parameters of links, or gravity, as inputs.

        Parameters
        ----------
        names : links, or ``gravity``: the function gets one more input, ``parameters``, of ten
            numbers a link and three of gravity, in this order (:mod:`pinion.dynamics.parametric`).
        load : what links may carry besides what the robot's file gives them.

        Raises
        ------
        FunctionError
            When a name comes twice.
        """
        if isinstance(names, str):
            names = [name.strip() for name in names.split(",") if name.strip()]
        if len(set(names)) != len(names):
            raise FunctionError(
                f"The parameters {', '.join(names)} name one twice: name each once."
            )
        if self.parameters:
            raise FunctionError(
                f"The function '{self.name}' has parameters already: name all at once."
            )
        if not names:
            return self
        block = Block(
            name="parameters",
            shape=(dynamics.count_of(names),),
            unit="kg, kg m, kg m^2; m/s^2",
            sampling=Quantity.PARAMETER,
        )
        inputs = (*self.inputs, block)
        return replace(self, parameters=tuple(names), load=load, inputs=inputs)

    def trace(self, model: Model, *, minimal: bool = True) -> Graph:
        """Run the algorithm on symbols for one robot: a graph with its constants inside.

        Joints that mimic others are coupled to them (:func:`pinion.robot.coupled`).

        Parameters
        ----------
        minimal : trace :func:`pinion.dynamics.minimal_model`, which has the same joint-space
            dynamics and fewer constants, where the row allows it; else the robot as it is.

        Raises
        ------
        FunctionError
            When the algorithm has no place for one of the robot's joints, or there is a robot and
            should be none, or none and should be one.
        """
        self._check_robot(model)
        self._check_terms(model)
        model = coupled(model)
        minimal = minimal and self.joint_space
        if minimal and not self.parameters:
            model = dynamics.minimal_model(model)
        tracer = Tracer(skip=_HELPERS, most=self.most_nodes)
        arguments = [
            b.nested({at: tracer.input(w) for w, at in b.positions(model).items()}, model)
            for b in (*self.inputs, *self.states)
        ]
        algorithm = self.scalars if self.variant is None else self.variant.scalars
        try:
            if self.parameters:
                values = arguments.pop(len(self.inputs) - 1)
                with tracer.region("parameters", 1):
                    model = dynamics.parametric_model(
                        model, self.parameters, values, minimal=minimal
                    )
            results = algorithm(model, *arguments, region=tracer.region, **self._terms)
        except dynamics.DynamicsError as error:
            raise FunctionError(f"'{self.name}' cannot be traced: {error}") from None
        coming, made = self.results, list(results)
        for block, values in zip(self.outputs, made, strict=False):
            if block in coming:
                flat = _flat(values)
                for word, position in block.positions(model).items():
                    tracer.output(word, flat[position])
        for state, values in zip(self.states, made[len(self.outputs) :], strict=True):
            flat, initial = _flat(values), state.initials(model)
            for word, position in state.positions(model).items():
                tracer.feed_back(word, flat[position], initial[word])
        return tracer.finish()

    def check(self, model: Model) -> None:
        """Find out, before it is built, whether the function can be what it says for a robot.

        Raises
        ------
        FunctionError
            As :meth:`trace`, and what a function of the user's own may do wrong besides.
        """
        self._check_robot(model)

    def _check_robot(self, model: Model) -> None:
        if self.robotless and model.bodies:
            raise FunctionError(
                f"The function '{self.name}' takes no robot, and '{model.name}' is given: write "
                "none in its place, or None in Python."
            )
        if not self.robotless and not model.bodies:
            raise FunctionError(
                f"The function '{self.name}' computes something of a robot, and '{model.name}' has "
                "no joints: name a robot in its place."
            )

    def _check_terms(self, model: Model) -> None:
        """Raise for terms of which the robot has none: a build would keep quiet about them."""
        joints = [body.joint for body in model.bodies]
        missing = [
            name
            for name in self.joint_terms
            if not any(getattr(j, name) or any(getattr(j, f"{name}_poly", ())) for j in joints)
        ]
        if self.joint_terms and missing == list(self.joint_terms):
            raise FunctionError(
                f"No joint of the robot '{model.name}' has {' or '.join(missing)}: leave "
                "joint_terms out, or give the joints such figures."
            )

    def evaluate(self, model: Model, arrays: Mapping[str, Floats]) -> dict[str, Floats]:
        """The float model in float64 on a batch of arrays (n, ...), by block name.

        Joints that mimic others are coupled to them. With states the batch is one stream, in its
        order, from the initial values on.
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
        """The float model as `evaluate`, and the states of the stream.

        Parameters
        ----------
        fresh : requests (n,) before which the state is set to its initial values.
        start : what the first request finds, by word (`Stream.left` of the batch before); None for
            the initial values.
        """
        stream = Stream({}, {})
        if self.states:
            graph = self.trace(model, minimal=False)
            columns = columns_of(self.inputs, coupled(model), arrays)
            stream = stream_floats(graph, columns, fresh=fresh, start=start)
        return self.step(model, arrays, stream.found), stream

    def step(
        self, model: Model, arrays: Mapping[str, Floats], found: Mapping[str, Floats]
    ) -> dict[str, Floats]:
        """The float model of requests that find these states, columns (n,) by word."""
        model = coupled(model)
        given = [np.asarray(arrays[block.name], dtype=np.float64) for block in self.inputs]
        count = len(given[0]) if given else 1
        for state in self.states:
            flat = np.zeros((count, math.prod(state.dims(model))))
            for word, at in state.positions(model).items():
                flat[:, at] = found[word]
            given.append(flat.reshape(count, *state.dims(model)))
        if self.floats is None or self.parameters:
            results: Sequence[Floats] = self._on_arrays(model, given)
        else:
            results = self.floats(model, *given, **self._terms)
        named = zip((*self.outputs, *self.states), results, strict=True)
        coming = self.results
        return {block.name: result for block, result in named if block in coming}

    def _on_arrays(self, model: Model, given: Sequence[Floats]) -> list[Floats]:
        """The algorithm over scalars with a batch in the place of each scalar."""
        count = len(given[0]) if given else 1
        arguments = []
        for block, array in zip((*self.inputs, *self.states), given, strict=True):
            columns = array.reshape(count, -1)
            arguments.append(block.nested(dict(enumerate(columns.T)), model))
        if self.parameters:
            values = arguments.pop(len(self.inputs) - 1)
            model = dynamics.parametric_model(model, self.parameters, values)
        results = self.scalars(model, *arguments, region=no_region, **self._terms)
        made = []
        for block, values in zip((*self.outputs, *self.states), results, strict=True):
            flat = [np.broadcast_to(np.asarray(x, np.float64), (count,)) for x in _flat(values)]
            made.append(np.stack(flat, axis=1).reshape(count, *block.dims(model)))
        return made


def columns_of(
    blocks: Sequence[Block], model: Model, arrays: Mapping[str, NDArray[Any]]
) -> dict[str, Floats]:
    """Arrays (n, ...) by block name as columns (n,) in float64 by word."""
    columns: dict[str, Floats] = {}
    for block in blocks:
        array = np.asarray(arrays[block.name], dtype=np.float64)
        flat = array.reshape(len(array), -1)
        columns |= {word: flat[:, at] for word, at in block.positions(model).items()}
    return columns


def _flat(values: Any) -> list[Any]:
    if not isinstance(values, (list, tuple)):
        return [values]
    return [element for value in values for element in _flat(value)]
