"""A function of a robot as one frozen object: inputs, outputs and algorithm.

One row serves every backend: the float model, the hardware core, the host driver. Rows of the
literature are in :mod:`.table`; CONTRIBUTING.md says how to add one.
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
from pinion.base.arrays import Floats
from pinion.base.escaping import one_line
from pinion.base.html import html_table
from pinion.dynamics.joint_terms import FRICTION_WIDTH, JOINT_TERMS, wanted_terms
from pinion.dynamics.parametric import split_name
from pinion.dynamics.rnea import no_region
from pinion.graph import Graph, Stream, Tracer, names, stream_floats
from pinion.link.manifest import mapped, unmapped
from pinion.robot import Model, coupled

from .blocks import PARAMETERS, Block, LoadBox, Quantity, State
from .errors import FunctionError
from .frames import REFERENCES, blocks_of_frames, frame_labels, frame_names, split_frames

Scalars = Callable[..., Sequence[Any]]

# Helpers whose source lines say nothing about the algorithm.
_HELPERS = (
    "spatial.py",
    "scalar.py",
    "matrices.py",
    "tensor.py",
    "axis.py",
    "coupled.py",
    "joint_terms.py",
)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """An alternative formulation of a function.

    Members
    -------
    name, doc : for the command line.
    scalars : the algorithm, as in `Function`.
    published : whether it stays as published: traced for the robot as loaded, and reduced only by
        folding.
    """

    name: str
    doc: str
    scalars: Scalars
    published: bool = False


@dataclass(frozen=True, kw_only=True)
class Function:
    """A function of a robot, with the options that are set.

    Members
    -------
    name, doc : for the command line.
    inputs : blocks in record order.
    outputs : all results of the algorithm, in record order.
    scalars : the algorithm over scalars; takes the model, for each input block a scalar, a sequence
        of scalars or a sequence of rows, and ``region``; returns the same for each output block.
    floats : the float model; takes the model and one array (n, ...) per input block and returns one
        array per output block. None: `scalars` on arrays.
    formulation : name of the algorithm if there are others.
    variants : other formulations.
    optional : names of results that are only returned on request.
    added : optional results that were requested.
    optional_inputs : blocks that are only inputs on request; the algorithm and the float model take
        them by name.
    added_inputs : names of those that were requested; their blocks are in `inputs`.
    variant : the other formulation that this is, if any.
    joint_space : whether results depend on the robot only through its equations of motion in the
        joints' coordinates. False for a row that takes or returns a quantity of a link: external
        forces, poses, potential energy.
    passive : whether damping, friction and springs affect the results. True: the algorithm and the
        float model take them as ``joint_terms`` and ``friction_width``
        (:mod:`pinion.dynamics.joint_terms`); False: they do not affect the results; None: unknown.
        Armature is in every function.
    states : arrays passed from request to request. The algorithm takes them after the inputs and
        returns their next values after the outputs; so does a float model, on arrays. The next
        state depends on the robot as the results do (``joint_space``).
    joint_terms, friction_width : the requested terms, and the rate within which friction changes
        sign [rad/s | m/s].
    robotless : whether it takes no robot, and is built for :data:`pinion.robot.NO_ROBOT`.
    of_contacts : whether it is for robots with contacts (:func:`pinion.robot.with_contacts`).
    parameters : links and figures of joints that are inputs, or ``gravity``; their block is the
        last of `inputs` (:mod:`pinion.dynamics.parametric`).
    load : box of the loads that parameters of links are sampled from.
    of_frames : whether the results are of frames: the algorithm and the float model take their
        names as ``frames``, and return all outputs of each, or the robot's tip's if there are none.
    frames : the requested frames, whose results are named by them (:mod:`.frames`).
    references : points and axes that results of frames may be for (``reference`` of
        :func:`pinion.dynamics.frame_jacobian`), the default first; the algorithm and the float
        model take ``reference``.
    frame_reference : the requested one if it is not the default.
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
    optional_inputs: tuple[Block, ...] = ()
    added_inputs: tuple[str, ...] = ()
    variant: Variant | None = None
    joint_space: bool = True
    passive: bool | None = None
    states: tuple[State, ...] = ()
    joint_terms: tuple[str, ...] = ()
    friction_width: float = FRICTION_WIDTH
    robotless: bool = False
    of_contacts: bool = False
    parameters: tuple[str, ...] = ()
    load: LoadBox | None = None
    of_frames: bool = False
    frames: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    frame_reference: str = ""

    most_nodes: ClassVar[int] = sys.maxsize
    """Largest number of operations of a trace."""

    def __post_init__(self) -> None:
        names = [block.name for block in (*self.inputs, *self.outputs, *self.states)]
        for name in names:
            if not name.isidentifier():
                raise FunctionError(
                    f"The function '{self.name}' has an array named {name!r}: give it a name of "
                    "letters, digits (not first) and underscores."
                )
        for blocks in ((*self.inputs, *self.states), (*self.outputs, *self.states)):
            listed = [block.name for block in blocks]
            for name in listed:
                if listed.count(name) > 1:
                    raise FunctionError(
                        f"The function '{self.name}' has two arrays named {name!r}: rename one of "
                        "them."
                    )

    def __repr__(self) -> str:
        takes, gives = (", ".join(b.name for b in blocks) for blocks in (self.inputs, self.results))
        options = "".join(f", {name}={value}" for name, value in self.options.items())
        return one_line(f"<{type(self).__name__} {self.name}({takes}) -> {gives}{options}>")

    def _repr_html_(self) -> str:
        blocks = [("in", self.inputs), ("out", self.results), ("state", self.states)]
        rows = [
            (way, b.name, "x".join(map(str, b.shape)) or "1", b.unit)
            for way, group in blocks
            for b in group
        ]
        heads = ("", "array", "shape", "unit")
        return html_table(f"{self.name}: {self.doc}", rows, heads=heads)

    @property
    def results(self) -> tuple[Block, ...]:
        """The outputs that are returned: all but the optional ones that were not requested."""
        return tuple(b for b in self.outputs if b.name not in self.optional or b.name in self.added)

    @property
    def published(self) -> bool:
        """Whether the formulation is traced as published, and reduced only by folding."""
        return self.variant is not None and self.variant.published

    @property
    def options(self) -> dict[str, str]:
        """Options that differ from the row's defaults, as strings for the manifest."""
        options = {} if self.variant is None else {"derivatives": self.variant.name}
        if self.frames:
            options["frames"] = ",".join(self.frames)
        if self.frame_reference:
            options["reference"] = self.frame_reference
        if self.added_inputs:
            options["inputs"] = ",".join(self.added_inputs)
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
    def _choices(self) -> dict[str, Any]:
        """Keyword arguments of the algorithm: passive terms, frames and their reference."""
        choices: dict[str, Any] = {}
        if self.joint_terms:
            choices |= {"joint_terms": self.joint_terms, "friction_width": self.friction_width}
        if self.of_frames:
            choices["frames"] = frame_names(self.frames)
        if self.references:
            choices["reference"] = self.frame_reference or self.references[0]
        return choices

    def _called(
        self,
        algorithm: Callable[..., Sequence[Any]],
        model: Model,
        arguments: Sequence[Any],
        **options: Any,
    ) -> Sequence[Any]:
        """Call an algorithm with inputs (except parameters) and states; optional ones by name."""
        blocks = [b for b in (*self.inputs, *self.states) if b.sampling is not Quantity.PARAMETER]
        positional = []
        for block, argument in zip(blocks, arguments, strict=True):
            if block.name in self.added_inputs:
                options[block.name] = argument
            else:
                positional.append(argument)
        return algorithm(model, *positional, **options, **self._choices)

    def formulated(self, name: str) -> Function:
        """Return the same function in another formulation.

        Raises
        ------
        FunctionError
            If the row has none of that name.
        """
        if name == self.formulation:
            return replace(self, variant=None)
        for variant in self.variants:
            if variant.name == name:
                return replace(self, variant=variant)
        formulations = [self.formulation, *(variant.name for variant in self.variants)]
        choose = (
            f"choose one of {', '.join(formulations)}" if self.variants else "there is only one"
        )
        raise FunctionError(f"'{self.name}' has no formulation '{name}'; {choose}.")

    def asked(self, outputs: Sequence[str]) -> Function:
        """Return the same function with these optional results: names, or a comma-separated string.

        With frames, the name without a frame is that of every frame's result.

        Raises
        ------
        FunctionError
            If it has no such result.
        """
        outputs = _listed(outputs)
        result_names = {block.name for block in self.outputs}
        requested: set[str] = set()
        for output in outputs:
            names = {output}
            if output not in result_names:  # of every frame
                names = {f"{output}_{label}" for label in frame_labels(self.frames)}
            if not names or not names <= result_names:
                raise FunctionError(
                    f"'{self.name}' has no result '{output}'; its results are "
                    f"{', '.join(sorted(result_names))}."
                )
            requested |= names
        return replace(self, added=tuple(name for name in self.optional if name in requested))

    def with_inputs(self, inputs: Sequence[str]) -> Function:
        """Return the same function with these optional inputs: names, or a comma-separated string.

        Raises
        ------
        FunctionError
            If it has no such optional input.
        """
        inputs = _listed(inputs)
        optional = [block.name for block in self.optional_inputs]
        for name in inputs:
            if name not in optional:
                choices = f"choose from {', '.join(optional)}" if optional else "leave it out"
                raise FunctionError(f"'{self.name}' has no optional input '{name}': {choices}.")
        added = tuple(
            block
            for block in self.optional_inputs
            if block.name in inputs and block.name not in self.added_inputs
        )
        names = (*self.added_inputs, *(block.name for block in added))
        return replace(self, inputs=(*self.inputs, *added), added_inputs=names)

    def with_terms(
        self, joint_terms: bool | Sequence[str], friction_width: float = FRICTION_WIDTH
    ) -> Function:
        """Return the same function with passive terms of the joints.

        Parameters
        ----------
        joint_terms : names of ``damping``, ``friction`` and ``stiffness``; True for all.
        friction_width : rate above zero within which friction changes sign [rad/s | m/s].

        Raises
        ------
        FunctionError
            If there is no such term, the width is not positive, or the function knows no terms.
        """
        try:
            names = wanted_terms(joint_terms)
        except dynamics.DynamicsError as error:
            raise FunctionError(str(error)) from None
        if not 0.0 < friction_width < math.inf:
            raise FunctionError(
                f"The friction_width is {friction_width!r}: give a positive finite rate, within "
                "which friction changes sign [rad/s | m/s]."
            )
        if self.passive is None and names:
            raise FunctionError(
                f"The function '{self.name}' does not say whether joint terms ({', '.join(names)}) "
                "affect it: omit joint_terms (--joint-terms), or, if you built the Function "
                "yourself, set its member `passive` to True or False."
            )
        if not self.passive:
            return self
        return replace(self, joint_terms=names, friction_width=float(friction_width))

    def with_frames(self, frames: Sequence[str]) -> Function:
        """Return the same function with the results of these frames in place of the tip's.

        Parameters
        ----------
        frames : links, fixed joints, or either with an offset, ``link_7@0,0,0.1``, each with a
            label before ``=`` if wanted; or one string with commas. Results are named by them,
            ``p_link_7`` (:mod:`.frames`).

        Raises
        ------
        FunctionError
            If the results do not belong to frames, the function already has frames, or two frames
            name their results alike.
        """
        frames = split_frames(frames) if isinstance(frames, str) else tuple(frames)
        if not frames:
            return self
        if not self.of_frames:
            raise FunctionError(
                f"The results of '{self.name}' do not belong to frames: leave out the frames "
                f"({', '.join(frames)})."
            )
        if self.frames:
            raise FunctionError(
                f"The function '{self.name}' already has frames ({', '.join(self.frames)}): name "
                "all of them at once."
            )
        optional = [block for block in self.outputs if block.name in self.optional]
        added = [block for block in self.outputs if block.name in self.added]
        return replace(
            self,
            doc=self.doc.replace("the tip", "each frame"),
            frames=frames,
            outputs=blocks_of_frames(self.outputs, frames),
            optional=tuple(block.name for block in blocks_of_frames(optional, frames)),
            added=tuple(block.name for block in blocks_of_frames(added, frames)),
        )

    def with_reference(self, reference: str) -> Function:
        """Return the same function with its frames' results in another reference: point and axes.

        Parameters
        ----------
        reference : ``local``, ``local_world_aligned`` or ``world``, as for
            :func:`pinion.dynamics.frame_jacobian`.

        Raises
        ------
        FunctionError
            If the function has no such reference.
        """
        if reference not in self.references:
            choices = ", ".join(self.references)
            advice = f"choose one of {choices}" if choices else "leave it out"
            raise FunctionError(f"'{self.name}' has no reference '{reference}': {advice}.")
        current = self.frame_reference or self.references[0]
        return replace(
            self,
            doc=self.doc.replace(REFERENCES[current], REFERENCES[reference]),
            frame_reference="" if reference == self.references[0] else reference,
        )

    def with_parameters(self, names: Sequence[str], load: LoadBox | None = None) -> Function:
        """Return the same function with parameters of links or joints, or gravity, as inputs.

        Parameters
        ----------
        names : such as ``link``, ``link:on-axis``, ``joint:damping`` or ``gravity``: the function
            gets one more input, ``parameters``: ten numbers per link, four if on the axis, one per
            joint and three for gravity, in this order (:mod:`pinion.dynamics.parametric`).
        load : what links may carry in addition to their inertia in the robot's file.

        Raises
        ------
        FunctionError
            If a name comes twice.
        """
        names = _listed(names)
        if not names:
            if load is not None:
                raise FunctionError(
                    f"The parameter_range {load} is given without parameters: name links whose "
                    "parameters become inputs, or leave parameter_range out."
                )
            return self
        if len(set(names)) != len(names):
            raise FunctionError(
                f"The parameters name {next(n for n in names if names.count(n) > 1)!r} more than "
                "once: name each once."
            )
        if self.parameters:
            raise FunctionError(
                f"The function '{self.name}' already has parameters "
                f"({', '.join(self.parameters)}): name all of them at once."
            )
        if self.robotless:
            raise FunctionError(
                f"The function '{self.name}' takes no robot, so a robot's parameters cannot be its "
                "inputs: leave the parameters out."
            )
        block = Block(
            name=PARAMETERS,
            shape=(dynamics.count_of(names),),
            unit=_unit_of(names),
            sampling=Quantity.PARAMETER,
        )
        inputs = (*self.inputs, block)
        return replace(self, parameters=tuple(names), load=load, inputs=inputs)

    def parameter_map(self, model: Model) -> tuple[tuple[float, ...], ...]:
        """Return the map (count, count + 1) of :func:`pinion.dynamics.parameter_map`, row by row.

        It leads to the parameters of a ``mapped`` trace; empty if those are the links' own.
        """
        if not self.parameters:
            return ()
        minimal = self.joint_space and not self.published
        result = dynamics.parameter_map(coupled(model), self.parameters, minimal=minimal)
        if np.array_equal(result, np.eye(*result.shape)):
            return ()
        return tuple(map(tuple, result.tolist()))

    def trace(self, model: Model, *, minimal: bool = True, mapped: bool = False) -> Graph:
        """Run the algorithm on symbols for one robot and return the graph, constants included.

        Joints that mimic others are coupled to them (:func:`pinion.robot.coupled`).

        Parameters
        ----------
        minimal : trace :func:`pinion.dynamics.minimal_model`, which has the same joint-space
            dynamics and fewer constants, if the row allows it; otherwise the robot as loaded.
        mapped : parameters are those that :meth:`parameter_map` makes of the links' own.

        Raises
        ------
        FunctionError
            If the algorithm does not support one of the robot's joints, or the function needs a
            robot and has none, or the reverse.
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
                        model, self.parameters, values, minimal=minimal, mapped=mapped
                    )
            results = self._called(algorithm, model, arguments, region=tracer.region)
        except dynamics.DynamicsError as error:
            raise FunctionError(f"'{self.name}' cannot be traced: {error}") from None
        coming, returned = self.results, list(results)
        for block, values in zip(self.outputs, returned, strict=False):
            if block in coming:
                flat = _flat(values)
                for word, position in block.positions(model).items():
                    tracer.output(word, flat[position])
        for state, values in zip(self.states, returned[len(self.outputs) :], strict=True):
            flat, initial = _flat(values), state.initials(model)
            for word, position in state.positions(model).items():
                tracer.feed_back(word, flat[position], initial[word])
        graph = tracer.finish()
        self._check_parameters(graph)
        return graph

    def _check_parameters(self, graph: Graph) -> None:
        """Raise `FunctionError` for a parameter that changes no result."""
        if not self.parameters:
            return
        live = [False] * len(graph.nodes)
        for root in [*(out.node for out in graph.outputs), *(s.node for s in graph.states)]:
            live[root] = True
        words: set[object] = set()
        for number in reversed(range(len(graph.nodes))):
            node = graph.nodes[number]
            if live[number] and node.op == names.INPUT:
                words.add(str(node.params[0]))
            for operand in node.args if live[number] else ():
                live[operand] = True
        first = 0
        for name in self.parameters:
            count = dynamics.count_of((name,))
            if not any(f"parameters[{k}]" in words for k in range(first, first + count)):
                raise FunctionError(
                    f"The parameters of '{name}' change no result of '{self.name}': leave "
                    f"'{name}' out of the parameters."
                )
            first += count

    def check(self, model: Model) -> None:
        """Check, before building, that the function is valid for a robot.

        Raises
        ------
        FunctionError
            As :meth:`trace`, and for mistakes of a user-defined function.
        """
        self._check_robot(model)

    def _check_robot(self, model: Model) -> None:
        if self.robotless and model.bodies:
            raise FunctionError(
                f"The function '{self.name}' takes no robot, but '{model.name}' is given: write "
                "'none' in its place, or None in Python."
            )
        if not self.robotless and not model.bodies:
            raise FunctionError(
                f"The function '{self.name}' needs a robot, but '{model.name}' has no joints: name "
                "a robot with joints."
            )
        if self.of_contacts and not (model.contacts or model.loops):
            raise FunctionError(needs_contacts(self.name, model.name))

    def _check_terms(self, model: Model) -> None:
        """Raise `FunctionError` for joint terms or parameters that a build would ignore."""
        figures = {split_name(name)[1]: name for name in self.parameters}
        for figure in JOINT_TERMS:
            if figure in figures and figure not in self.joint_terms:
                raise FunctionError(
                    f"The parameter '{figures[figure]}' changes nothing without the {figure} of "
                    f"joints: add joint_terms='{figure}'."
                    if self.passive
                    else f"The {figure} of joints cannot be a parameter of '{self.name}': leave "
                    f"'{figures[figure]}' out of the parameters."
                )
        joints = [body.joint for body in model.bodies]
        missing = [
            name
            for name in self.joint_terms
            if name not in figures
            and not any(getattr(j, name) or any(getattr(j, f"{name}_poly", ())) for j in joints)
        ]
        if self.joint_terms and missing == list(self.joint_terms):
            raise FunctionError(
                f"No joint of the robot '{model.name}' has {' or '.join(missing)}: omit "
                "joint_terms (--joint-terms), or give the joints such values."
            )

    def evaluate(self, model: Model, arrays: Mapping[str, Floats]) -> dict[str, Floats]:
        """Evaluate the float model in float64 on a batch of arrays (n, ...), by block name.

        Joints that mimic others are coupled to them. With states the batch is one stream, in order,
        starting at the initial values.
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
        fresh : requests (n,) before which the state is set to its initial values.
        start : state of the first request, by word (`Stream.left` of the previous batch); None for
            the initial values.
        """
        stream = Stream({}, {})
        if self.states:
            graph = self.trace(model, minimal=False)
            columns = word_columns(self.inputs, coupled(model), arrays)
            stream = stream_floats(graph, columns, fresh=fresh, start=start)
        return self.step(model, arrays, stream.states), stream

    def step(
        self, model: Model, arrays: Mapping[str, Floats], states: Mapping[str, Floats]
    ) -> dict[str, Floats]:
        """Evaluate the float model for requests with the given states, columns (n,) by word."""
        model = coupled(model)
        inputs = [np.asarray(arrays[block.name], dtype=np.float64) for block in self.inputs]
        count = len(inputs[0]) if inputs else 1
        for state in self.states:
            flat = np.zeros((count, math.prod(state.dims(model))))
            for word, at in state.positions(model).items():
                flat[:, at] = states[word]
            inputs.append(flat.reshape(count, *state.dims(model)))
        if self.floats is None or self.parameters:
            results: Sequence[Floats] = self._on_arrays(model, inputs)
        else:
            results = self._called(self.floats, model, inputs)
        named = zip((*self.outputs, *self.states), results, strict=True)
        coming = self.results
        return {block.name: result for block, result in named if block in coming}

    def _on_arrays(self, model: Model, arrays: Sequence[Floats]) -> list[Floats]:
        """Run the algorithm over scalars with a batch in place of each scalar."""
        count = len(arrays[0]) if arrays else 1
        arguments = []
        for block, array in zip((*self.inputs, *self.states), arrays, strict=True):
            columns = array.reshape(count, math.prod(block.dims(model)))
            arguments.append(block.nested(dict(enumerate(columns.T)), model))
        if self.parameters:
            values = arguments.pop(len(self.inputs) - 1)
            model = dynamics.parametric_model(model, self.parameters, values)
        results = self._called(self.scalars, model, arguments, region=no_region)
        stacked = []
        for block, values in zip((*self.outputs, *self.states), results, strict=True):
            flat = [np.broadcast_to(np.asarray(x, np.float64), (count,)) for x in _flat(values)]
            stacked.append(np.stack(flat, axis=1).reshape(count, *block.dims(model)))
        return stacked


def needs_contacts(function: str, robot: str) -> str:
    """Return the error message for a function that needs contacts and a robot without any."""
    return (
        f"The function '{function}' needs contacts, but '{robot}' has none: name them "
        "as contacts=(LINK, ...) (--contact LINK), or loops as loops=((LINK, LINK, '3d'), ...) "
        "(--loop LINK=LINK)."
    )


def _listed(names: Sequence[str]) -> Sequence[str]:
    """Return names as a sequence; they may be given as a comma-separated string."""
    if isinstance(names, str):
        return [name.strip() for name in names.split(",") if name.strip()]
    return names


def _unit_of(parameters: Sequence[str]) -> str:
    """Return the units of a function's parameters, separated by semicolons."""
    units = {"": "kg, kg m, kg m^2", "gravity": "m/s^2", "armature": "kg m^2 | kg"}
    units |= {"on-axis": units[""], "friction": "N m | N"}
    units |= {"damping": "N m s/rad | N s/m", "stiffness": "N m/rad | N/m"}
    return "; ".join(dict.fromkeys(units[split_name(name)[1]] for name in parameters))


def mapped_arrays(
    arrays: Mapping[str, NDArray[Any]], parameter_map: Sequence[Sequence[float]]
) -> dict[str, NDArray[Any]]:
    """Return requests with their parameters mapped for a ``mapped`` trace, in float32 as sent."""
    if not parameter_map:
        return dict(arrays)
    parameters = mapped(arrays[PARAMETERS], np.array(parameter_map))
    return {**arrays, PARAMETERS: parameters.astype(np.float32)}


def unmapped_arrays(
    arrays: Mapping[str, NDArray[Any]], parameter_map: Sequence[Sequence[float]]
) -> dict[str, Floats]:
    """Undo :func:`mapped_arrays`: return arrays in float64, with the links' own parameters."""
    doubles = {name: array.astype(np.float64) for name, array in arrays.items()}
    if parameter_map:
        doubles[PARAMETERS] = unmapped(doubles[PARAMETERS], np.array(parameter_map))
    return doubles


def word_columns(
    blocks: Sequence[Block], model: Model, arrays: Mapping[str, NDArray[Any]]
) -> dict[str, Floats]:
    """Return arrays (n, ...) by block name as columns (n,) in float64 by word."""
    columns: dict[str, Floats] = {}
    for block in blocks:
        array = np.asarray(arrays[block.name], dtype=np.float64)
        flat = array.reshape(len(array), math.prod(block.dims(model)))
        columns |= {word: flat[:, at] for word, at in block.positions(model).items()}
    return columns


def block_arrays(
    blocks: Sequence[Block], model: Model, columns: Mapping[Any, NDArray[Any]], count: int
) -> dict[str, NDArray[Any]]:
    """Return columns (n,) by word as arrays (n, ...) by block name; symmetric ones in full."""
    arrays = {}
    for block in blocks:
        dims, positions = block.dims(model), block.positions(model)
        dtype = np.result_type(*(columns[word].dtype for word in positions), np.float32)
        flat = np.zeros((count, math.prod(dims)), dtype)
        for word, at in positions.items():
            flat[:, at] = columns[word]
        array = flat.reshape(count, *dims)
        if block.symmetric:
            array += np.swapaxes(np.tril(array, -1), -1, -2)
        arrays[block.name] = array
    return arrays


def _flat(values: Any) -> list[Any]:
    if not isinstance(values, (list, tuple)):
        return [values]
    return [element for value in values for element in _flat(value)]
