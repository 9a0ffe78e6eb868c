"""User-defined functions, made from a Python function by a decorator.

``@function(inputs={"q": array("nq", unit="rad", sampling=POSITION)}, outputs={"y": array()})``
above a Python function turns it into a :class:`pinion.functions.Function` like those of the table:
arguments are matched to inputs by name, and return values to outputs by name or in order. The
Python function is traced on symbols for the core, and called with plain numbers to check the trace.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from pinion import dynamics
from pinion.base.arrays import Floats
from pinion.base.escaping import one_line
from pinion.dynamics.rnea import no_region
from pinion.functions.blocks import Block, State
from pinion.functions.built import BuiltFunction
from pinion.functions.mistakes import CodePosition, UserError, caller, place_of, return_of, said
from pinion.functions.reduced import numbered_graph
from pinion.functions.row import Function, word_columns
from pinion.functions.samples import sample
from pinion.functions.table import FUNCTIONS
from pinion.graph import Graph, Word, names
from pinion.graph.costs import UnitCosts
from pinion.graph.passes import fold
from pinion.robot import Model, coupled

from .described import (
    MODEL,
    REGION,
    Blocks,
    blocks_of,
    check_name,
    dimensions,
    of_robot,
    python_parameters,
)
from .returned import boxed, elements, ordered

MOST_NODES = 2_000_000
"""Most operations of a trace; a function with millions more contains an unintended loop."""

CHECKED, SEED = 16, 20_261_124
"""States in which trace and Python function are compared, and the seed that samples them."""

SAME, SAME_AS_REFERENCE = 1e-9, 1e-6
"""Largest difference between the two, and from a reference, relative to a block's largest word."""


_SAME_MOTION = "one for a robot that moves in the same way with other frames and masses"
_GROWING = ", and a state that grows without end below a limit"


@dataclass(frozen=True, kw_only=True, repr=False)
class OwnFunction(Function):
    """A user-defined function; calling it calls the Python function.

    Members
    -------
    python : the Python function.
    reference : another float model, or None.

    The other members are those of :class:`pinion.functions.Function`.
    """

    python: Callable[..., Any]
    reference: Callable[..., Any] | None = None

    most_nodes: ClassVar[int] = MOST_NODES

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the Python function itself, on numbers or arrays."""
        return self.python(*arguments, **named)

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        return self.python

    def check(self, model: Model) -> None:
        """Trace for a robot, and compare the trace with the Python function and the reference.

        Raises
        ------
        pinion.functions.FunctionError
            If the function cannot be traced, an input or a state affects nothing, an output is the
            same for every input, trace, Python function and reference differ, or the results depend
            on frames although ``joint_space`` denies it; with file and line.
        """
        super().check(model)
        model = coupled(model)
        built = BuiltFunction.of(self, model)
        place = return_of(self.python)
        # Drawing calls the user's description, which may raise.
        with said(f"The function '{self.name}'", place_of(self.python)):
            _check_reach(self, built.graph, model)
            requests = sample(model, self, CHECKED, distribution="reference", seed=SEED)
        states = {name: values.astype(np.float64) for name, values in requests.items()}
        with np.errstate(all="ignore"):
            traced, stream = built.follow(model, states)
            states |= self._arrays_of_states(model, stream.states)
            self._check_finite(traced, place)
            plain = self._on_numbers(model, states)
            if difference := self._apart(traced, plain, SAME, "a call with numbers"):
                raise UserError(
                    f"{place}: {difference}: make the results independent of tracing, of "
                    "earlier calls and of chance."
                )
            if self.reference is not None:
                other = self._by_reference(model, states, stream.states)
                if difference := self._apart(traced, other, SAME_AS_REFERENCE, "its reference"):
                    at = return_of(self.reference)
                    raise UserError(f"{at}: {difference}: correct whichever is wrong.")
            if self.joint_space:
                moved = replace(built, graph=self.trace(model))
                other = moved.follow(model, states)[0]
                if difference := self._apart(traced, other, SAME_AS_REFERENCE, _SAME_MOTION):
                    raise UserError(f"{place}: {difference}: leave joint_space=True out.")

    def _on_arrays(self, model: Model, arrays: Sequence[Floats]) -> list[Floats]:
        """Evaluate every operation of the trace on arrays: the float model."""
        blocks = (*self.inputs, *self.states)
        states = {block.name: values for block, values in zip(blocks, arrays, strict=True)}
        columns = word_columns(self.states, model, states)
        with np.errstate(all="ignore"):
            results = BuiltFunction.of(self, model).step(model, states, columns)
        # Nobody uses the next states of a single step.
        return [*(results[block.name] for block in self.outputs), *arrays[len(self.inputs) :]]

    def _arrays_of_states(self, model: Model, columns: Mapping[str, Floats]) -> dict[str, Floats]:
        """Return states by block name, (n, ...), from their columns by word."""
        arrays = {}
        for block in self.states:
            flat = np.stack([columns[word] for word in block.positions(model)], axis=1)
            arrays[block.name] = flat.reshape(len(flat), *block.dims(model))
        return arrays

    def _by_reference(
        self, model: Model, states: Mapping[str, Floats], columns: Mapping[str, Floats]
    ) -> dict[str, Floats]:
        """Evaluate the reference, with a separate robot in each state if parameters are inputs."""
        if not self.parameters:
            return self.evaluate(model, states)
        inputs, sets = self.inputs[:-1], states[self.inputs[-1].name]
        plain = replace(self, parameters=(), load=None, inputs=inputs)
        each = [
            plain.step(
                dynamics.parametric_model(model, self.parameters, values.tolist()),
                {block.name: states[block.name][k : k + 1] for block in inputs},
                {word: column[k : k + 1] for word, column in columns.items()},
            )
            for k, values in enumerate(sets)
        ]
        return {name: np.concatenate([part[name] for part in each]) for name in each[0]}

    def _on_numbers(self, model: Model, states: Mapping[str, Floats]) -> dict[str, Floats]:
        """Call the Python function on plain numbers, state by state."""
        results: dict[str, list[Floats]] = {block.name: [] for block in self.outputs}
        for state in range(CHECKED):
            values: list[Any] = [
                # A copy: the function may write to its arguments.
                states[b.name][state].copy() if b.shape else float(states[b.name][state])
                for b in (*self.inputs, *self.states)
            ]
            robot = model
            if self.parameters:
                numbers = values.pop(len(self.inputs) - 1).tolist()
                robot = dynamics.parametric_model(model, self.parameters, numbers)
            returned = self.scalars(robot, *values, region=no_region)
            for block, flat in zip(self.outputs, returned, strict=False):
                array = np.array(flat, np.float64).reshape(block.dims(model))
                if block.symmetric and not _is_symmetric(array):
                    raise UserError(
                        f"{return_of(self.python)}: the output '{block.name}' of '{self.name}' is "
                        "described as symmetric, but differs from its transpose by up to "
                        f"{np.nanmax(np.abs(array - array.T)):.3g}: return a symmetric matrix, or "
                        "leave symmetric=True out."
                    )
                results[block.name].append(array)
        return {name: np.stack(arrays) for name, arrays in results.items()}

    def _check_finite(self, results: Mapping[str, Floats], place: CodePosition) -> None:
        for name, values in results.items():
            bad = values[~np.isfinite(values)]
            if bad.size:
                raise UserError(
                    f"{place}: the output '{name}' of '{self.name}' is {bad[0]} in some "
                    "of the sampled states: sample the inputs where the output is defined, "
                    "or keep divisors away from zero with clamp() or maximum()"
                    f"{_GROWING if self.states else ''}."
                )

    def _apart(
        self,
        traced: Mapping[str, Floats],
        other: Mapping[str, Floats],
        tolerance: float,
        opponent: str,
    ) -> str:
        """Return the beginning of a sentence about an output that differs; "" if none does."""
        for block in self.outputs:
            values = traced[block.name]
            size = float(np.max(np.abs(values), initial=0.0))
            apart = np.abs(values - other[block.name])
            if not (apart <= tolerance * max(size, tolerance)).all():
                return (
                    f"the output '{block.name}' of '{self.name}' differs between its trace and "
                    f"{opponent}, by up to {np.max(apart):.3g} where values are up to {size:.3g}"
                )
        return ""

    def idle_inputs(self, model: Model) -> tuple[str, ...]:
        """Return the inputs that affect no result for a robot, though they may for another."""
        model = coupled(model)
        mask, _ = _reach(self, self.trace(model, minimal=False), model)
        return tuple(
            block.name for number, block in enumerate(self.inputs) if not mask >> number & 1
        )


def idle_sentence(function: Function, model: Model) -> str:
    """Return a sentence on a function's optional inputs that affect no result, "" for none."""
    if not isinstance(function, OwnFunction) or function.robotless:
        return ""
    idle = function.idle_inputs(model)
    if not idle:
        return ""
    them = "it" if len(idle) == 1 else "them"
    return f"The {_idle(idle, function, model)}; another robot may need {them}."


_NEEDED = (
    ": let the function use a part of the robot that moves, or write array(..., optional=True) for "
    "an input that a robot may not need."
)


def _idle(inputs: Sequence[str], function: Function, model: Model) -> str:
    """Return the clause saying that these inputs change nothing, without the leading article."""
    listed = ", ".join(f"'{name}'" for name in inputs)
    verb = f"input {listed} changes" if len(inputs) == 1 else f"inputs {listed} change"
    return f"{verb} no result of {function.name} for {model.name}"


def function(
    *,
    inputs: Blocks,
    outputs: Blocks,
    states: Blocks = (),
    name: str | None = None,
    doc: str | None = None,
    dims: Mapping[str, int] | None = None,
    reference: Callable[..., Any] | None = None,
    joint_space: bool = False,
) -> Callable[[Callable[..., Any]], OwnFunction]:
    """Return a decorator that turns a Python function into a function for hardware.

    Parameters
    ----------
    inputs, outputs : :func:`array` by name, in the order of the records. The Python function has a
        parameter for each input: a number for a scalar, otherwise an array of numbers (NumPy, of
        objects while it is traced). It may have two more, ``model`` for the robot and ``region``
        for marking parts, ``with region("forward", 1):``. It returns a mapping from outputs to
        values, values in order, or the only value; arrays as nested sequences or NumPy arrays.
    states : :func:`state` by name: arrays passed from request to request. The Python function has a
        parameter for each, and returns the values for the next request along with the outputs, by
        name or after them.
    name : by default that of the Python function.
    doc : one line; by default the first line of its docstring.
    dims : lengths of axes by names of your own.
    reference : another float model to compare with and to verify against: the same parameters, each
        array (n, ...) of float64, the robot in ``model`` if it has such a parameter, and the same
        results, (n, ...).
    joint_space : whether the results depend on the robot only through its equations of motion in
        the joints' coordinates (torques, accelerations, M), not on any link, frame or energy. The
        function may then be traced for a robot that moves in the same way, with fewer operations.

    Raises
    ------
    pinion.functions.FunctionError
        If the description is incomplete or does not fit the Python function, with file and line.

    Without a parameter ``model``, an axis of the robot or a quantity of its state, the function
    takes no robot: it is built for ``none``.
    """
    place_of_call = caller()

    def decorate(python: Any) -> OwnFunction:
        if not callable(python) or isinstance(python, type | Function):
            raise UserError(
                f"{place_of_call}: @function is applied to {python!r:.80}, but it accepts only "
                "plain Python functions."
            )
        place = place_of(python)
        function_name = name if name is not None else getattr(python, "__name__", "")
        check_name(function_name, f"the function {function_name!r}", place_of_call)
        if function_name in FUNCTIONS:
            raise UserError(
                f"{place_of_call}: Pinion already has a function '{function_name}': give yours "
                "another name, with name='...'."
            )
        sizes = dimensions(dims or {}, place_of_call)
        input_blocks = blocks_of(inputs, "input", function_name, sizes, place_of_call)
        output_blocks = blocks_of(outputs, "output", function_name, sizes, place_of_call)
        state_blocks = (
            blocks_of(states, "state", function_name, sizes, place_of_call) if states else ()
        )
        names_taken = {block.name for block in input_blocks}
        for block in output_blocks:
            if block.name in names_taken:
                raise UserError(
                    f"{place_of_call}: the output '{block.name}' of '{function_name}' has the name "
                    f"of an input: give it another, such as {block.name}_next, or describe a state."
                )
        for block in state_blocks:
            if block.name in {other.name for other in (*input_blocks, *output_blocks)}:
                raise UserError(
                    f"{place_of_call}: the state '{block.name}' of '{function_name}' has the name "
                    "of an input or an output: give it another."
                )
        taken_all, given_all = (*input_blocks, *state_blocks), (*output_blocks, *state_blocks)
        extra = python_parameters(python, taken_all, function_name, place)
        lines = (inspect.getdoc(python) or function_name).splitlines()
        robot = MODEL in extra or any(of_robot(block) for block in (*taken_all, *output_blocks))
        return OwnFunction(
            name=function_name,
            doc=one_line(doc if doc is not None else lines[0]),
            inputs=input_blocks,
            outputs=output_blocks,
            scalars=_algorithm(python, function_name, taken_all, given_all, extra, place),
            floats=(
                None
                if reference is None
                else _batches(reference, function_name, taken_all, given_all)
            ),
            states=tuple(block for block in state_blocks if isinstance(block, State)),
            joint_space=joint_space and robot,
            robotless=not robot,
            python=python,
            reference=reference,
        )

    return decorate


def _algorithm(
    python: Callable[..., Any],
    name: str,
    inputs: Sequence[Block],
    outputs: Sequence[Block],
    extra: Sequence[str],
    place: CodePosition,
) -> Callable[..., list[list[Any]]]:
    """Wrap a Python function as a row's algorithm, which returns the elements of each output."""

    ends = return_of(python)

    def scalars(model: Model, *values: Any, region: Any) -> list[list[Any]]:
        arguments = {b.name: boxed(x) for b, x in zip(inputs, values, strict=True)}
        arguments |= {k: v for k, v in ((MODEL, model), (REGION, region)) if k in extra}
        with said(f"The function '{name}'", place):
            returned = python(**arguments)
        in_order = ordered(returned, outputs, name, ends)
        return [
            elements(value, block.dims(model), block, name, ends)
            for block, value in zip(outputs, in_order, strict=True)
        ]

    return scalars


def _batches(
    reference: Callable[..., Any], name: str, inputs: Sequence[Block], outputs: Sequence[Block]
) -> Callable[..., list[Floats]]:
    """Wrap a reference as a row's float model, which checks the shapes of its results."""
    place, ends = place_of(reference), return_of(reference)
    extra = python_parameters(reference, inputs, name, place)

    def floats(model: Model, *values: Floats) -> list[Floats]:
        count = len(values[0])
        # Copies: the reference may write to its arguments.
        arguments: dict[str, Any] = {b.name: x.copy() for b, x in zip(inputs, values, strict=True)}
        with said(f"The reference of '{name}'", place):
            returned = reference(**arguments, **({MODEL: model} if MODEL in extra else {}))
        results = []
        in_order = ordered(returned, outputs, name, ends)
        for block, value in zip(outputs, in_order, strict=True):
            array, expected_shape = np.asarray(value), (count, *block.dims(model))
            if array.shape != expected_shape or array.dtype.kind not in "fiu":
                raise UserError(
                    f"{ends}: the reference of '{name}' returns shape {array.shape} and type "
                    f"{array.dtype} for '{block.name}': return numbers of shape {expected_shape}."
                )
            results.append(array.astype(np.float64))
        return results

    return floats


def _is_symmetric(matrix: Floats) -> bool:
    """Return whether a matrix is symmetric up to rounding; NaN and infinity count as symmetric."""
    size = float(np.max(np.abs(matrix), initial=0.0))
    return not (np.abs(matrix - matrix.T) > SAME * max(size, SAME)).any()


def _check_reach(function: OwnFunction, graph: Graph, model: Model) -> None:
    """Raise `UserError` for inputs that affect nothing, unchanging states, and constant outputs.

    A robot may make some outputs constant or inputs useless that another one needs: outputs are
    refused only if none depends on an input, and inputs unless they are optional.
    """
    next_nodes = {feedback.word: graph.nodes[feedback.node] for feedback in graph.states}
    for state in function.states:
        words = [Word.of(word) for word in state.positions(model)]
        if all(next_nodes[w].op == names.INPUT and next_nodes[w].params[0] == w for w in words):
            raise UserError(
                f"{return_of(function.python)}: the state '{state.name}' of '{function.name}' "
                "never changes: return its next value, or leave the state out."
            )
    used, by_output = _reach(function, graph, model)
    blocks = (*function.inputs, *function.states)
    kinds = {b.name: "state" if isinstance(b, State) else "input" for b in blocks}
    code = getattr(function.python, "__code__", None)
    for number, block in enumerate(blocks):
        mentioned = code is None or _reads(code, block.name)
        if not used >> number & 1 and (function.robotless or not mentioned):
            raise UserError(
                f"{place_of(function.python)}: the {kinds[block.name]} '{block.name}' of "
                f"'{function.name}' changes no output: use it, or leave it out."
            )
    fixed = [name for name, mask in by_output.items() if not mask]
    if fixed and (function.robotless or len(fixed) == len(by_output)):
        raise UserError(
            f"{return_of(function.python)}: the output '{fixed[0]}' of '{function.name}' is "
            "constant, the same for every input: leave it out, or compute it from the inputs."
        )
    idle = [
        block.name
        for number, block in enumerate(function.inputs)
        if not used >> number & 1 and not block.optional
    ]
    if idle:
        raise UserError(f"{place_of(function.python)}: the {_idle(idle, function, model)}{_NEEDED}")


def _reach(function: OwnFunction, graph: Graph, model: Model) -> tuple[int, dict[str, int]]:
    """Return bit masks of the inputs and states that affect results: for all, and by output."""
    # Without terms that cancel, however they are grouped, or are multiplied by zero. If constants
    # divide by zero, the comparison with numbers reports it, and where.
    with suppress(ZeroDivisionError), np.errstate(all="ignore"):
        graph = numbered_graph(fold(graph), model, function, costs=UnitCosts())
    blocks = (*function.inputs, *function.states)
    bits = {block.name: 1 << k for k, block in enumerate(blocks)}
    through = dict.fromkeys((state.word for state in graph.states), 0)
    while True:
        reached: list[int] = []
        for node in graph.nodes:
            mask = 0
            if node.op == names.INPUT:
                word = Word.of(str(node.params[0]))
                mask = bits[word.block] | through.get(word, 0)
            for arg in node.args:
                mask |= reached[arg]
            reached.append(mask)
        # The operands of a state reach the results of later requests.
        following = {
            state.word: through[state.word] | reached[state.node] for state in graph.states
        }
        if following == through:
            break
        through = following
    by_output = dict.fromkeys((block.name for block in function.outputs), 0)
    for word, node_id in graph.outputs:
        by_output[word.block] |= reached[node_id]
    used = 0
    for mask in by_output.values():
        used |= mask
    return used, by_output


def _reads(code: Any, name: str) -> bool:
    """Return whether code reads a parameter, directly or in a nested function."""
    if name in code.co_cellvars:
        return True
    for step in dis.get_instructions(code):
        arguments = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        if step.opname.startswith("LOAD_FAST") and name in arguments:
            return True
    return False
