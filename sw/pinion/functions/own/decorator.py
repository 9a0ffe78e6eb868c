"""A function of the user's own, made of a Python function by one decorator.

``@function(inputs={"q": array("nq", unit="rad", sampling=POSITION)}, outputs={"y": array()})``
above a Python function makes a :class:`pinion.functions.Function` of it, a citizen like those of
the table: arguments are matched to inputs by name, and what it returns to outputs by name or in
order. The Python function is traced on symbols for the core, and called with plain numbers to see
whether the trace does the same.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pinion.base.escaping import one_line
from pinion.functions.blocks import Block, State
from pinion.functions.built import BuiltFunction
from pinion.functions.mistakes import Place, UserError, caller, place_of, return_of, said
from pinion.functions.own.described import (
    MODEL,
    REGION,
    Blocks,
    blocks_of,
    check_name,
    dimensions,
    of_robot,
    parameters_of,
)
from pinion.functions.own.returned import boxed, elements, ordered
from pinion.functions.reduced import numbered_graph
from pinion.functions.row import Function, columns_of
from pinion.functions.samples import sample
from pinion.functions.table import FUNCTIONS
from pinion.graph import Graph, Word, names
from pinion.graph.costs import UnitCosts
from pinion.graph.passes import fold
from pinion.robot import Model, coupled

Floats = NDArray[np.float64]
MOST_NODES = 2_000_000
"""Operations of a trace at most; millions more are no core, but a loop that was meant otherwise."""

CHECKED, SEED = 16, 20_261_124
"""States in which trace and Python function are compared, and the seed that they are drawn with."""

SAME, SAME_AS_REFERENCE = 1e-9, 1e-6
"""Largest difference of the two, and from a reference, relative to a block's largest word."""


_SAME_MOTION = "that for a robot that moves in the same way by other frames and masses"
_GROWING = ", and a state that grows without end below a limit"


@dataclass(frozen=True, kw_only=True, repr=False)
class OwnFunction(Function):
    """A function of the user's own; called, it is the Python function that it was made of.

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
            When the function cannot be traced, an input or a state changes nothing, an output is
            the same for every input, trace, Python function and reference differ, or the results
            depend on frames that ``joint_space`` says they do not; with file and line.
        """
        super().check(model)
        model = coupled(model)
        built = BuiltFunction.of(self, model)
        place = return_of(self.python)
        # Drawing may raise, of what the description asks for.
        with said(f"The function '{self.name}'", place_of(self.python)):
            _check_reach(self, built.graph, model)
            drawn = sample(model, self, CHECKED, distribution="reference", seed=SEED)
        states = {name: values.astype(np.float64) for name, values in drawn.items()}
        with np.errstate(all="ignore"):
            traced, stream = built.follow(model, states)
            states |= self._arrays_of_states(model, stream.states)
            self._check_finite(traced, place)
            plain = self._on_numbers(model, states)
            if found := self._apart(traced, plain, SAME, "a call with numbers"):
                raise UserError(
                    f"{place}: {found}: let the function do the same in both, and nothing that "
                    "depends on earlier calls or on chance."
                )
            if self.reference is not None:
                other = self.evaluate(model, states)
                if found := self._apart(traced, other, SAME_AS_REFERENCE, "its reference"):
                    at = return_of(self.reference)
                    raise UserError(f"{at}: {found}: one of the two is wrong.")
            if self.joint_space:
                moved = replace(built, graph=self.trace(model))
                other = moved.follow(model, states)[0]
                if found := self._apart(traced, other, SAME_AS_REFERENCE, _SAME_MOTION):
                    raise UserError(f"{place}: {found}: leave joint_space=True out.")

    def _on_arrays(self, model: Model, given: Sequence[Floats]) -> list[Floats]:
        """The float model: every operation of the trace, on arrays."""
        blocks = (*self.inputs, *self.states)
        states = {block.name: values for block, values in zip(blocks, given, strict=True)}
        found = columns_of(self.states, model, states)
        with np.errstate(all="ignore"):
            results = BuiltFunction.of(self, model).step(model, states, found)
        # What the next request finds, nobody asks of a single step.
        return [*(results[block.name] for block in self.outputs), *given[len(self.inputs) :]]

    def _arrays_of_states(self, model: Model, found: Mapping[str, Floats]) -> dict[str, Floats]:
        """States by block name, (n, ...), from their columns by word."""
        arrays = {}
        for block in self.states:
            flat = np.stack([found[word] for word in block.positions(model)], axis=1)
            arrays[block.name] = flat.reshape(len(flat), *block.dims(model))
        return arrays

    def _on_numbers(self, model: Model, states: Mapping[str, Floats]) -> dict[str, Floats]:
        """The Python function on plain numbers, state by state."""
        results: dict[str, list[Floats]] = {block.name: [] for block in self.outputs}
        for state in range(CHECKED):
            values = [
                # A copy: the function may write to its arguments.
                states[b.name][state].copy() if b.shape else float(states[b.name][state])
                for b in (*self.inputs, *self.states)
            ]
            returned = self.scalars(model, *values, region=_unmarked)
            for block, flat in zip(self.outputs, returned, strict=False):
                found = np.array(flat, np.float64).reshape(block.dims(model))
                if block.symmetric and not _is_symmetric(found):
                    raise UserError(
                        f"{return_of(self.python)}: the output '{block.name}' of '{self.name}' is "
                        "described as symmetric, and what is returned for it is not: return a "
                        "symmetric matrix, or leave symmetric=True out."
                    )
                results[block.name].append(found)
        return {name: np.stack(found) for name, found in results.items()}

    def _check_finite(self, found: Mapping[str, Floats], place: Place) -> None:
        for name, values in found.items():
            bad = values[~np.isfinite(values)]
            if bad.size:
                raise UserError(
                    f"{place}: the output '{name}' of '{self.name}' is {bad[0]} "
                    "in some of the states that its inputs are drawn in: draw them where it is "
                    "defined, or keep what it divides by away from zero with clamp() or maximum()"
                    f"{_GROWING if self.states else ''}."
                )

    def _apart(
        self,
        traced: Mapping[str, Floats],
        other: Mapping[str, Floats],
        tolerance: float,
        what: str,
    ) -> str:
        """Which output differs, by how much, as a sentence's beginning; "" where none does."""
        for block in self.outputs:
            values = traced[block.name]
            size = float(np.max(np.abs(values), initial=0.0))
            apart = np.abs(values - other[block.name])
            if not (apart <= tolerance * max(size, tolerance)).all():
                return (
                    f"the output '{block.name}' of '{self.name}' differs between its trace and "
                    f"{what}, by up to {np.max(apart):.3g} where values are up to {size:.3g}"
                )
        return ""

    def idle_inputs(self, model: Model) -> tuple[str, ...]:
        """Inputs that change no result for a robot, though they may for another."""
        model = coupled(model)
        mask, _ = _reach(self, self.trace(model, minimal=False), model)
        return tuple(
            block.name for number, block in enumerate(self.inputs) if not mask >> number & 1
        )


def idle_sentence(function: Function, model: Model) -> str:
    """Which optional inputs of a user's function change no result for a robot; "" for none."""
    if not isinstance(function, OwnFunction) or function.robotless:
        return ""
    idle = function.idle_inputs(model)
    if not idle:
        return ""
    them = "it" if len(idle) == 1 else "them"
    return f"The {_idle(idle, function, model)}; another robot may need {them}."


_NEEDED = (
    ": let the function use a part of the robot that moves, or write array(..., optional=True) for "
    "what a robot may do without."
)


def _idle(inputs: Sequence[str], function: Function, model: Model) -> str:
    """That inputs change nothing, from their names on."""
    shown = ", ".join(f"'{name}'" for name in inputs)
    verb = f"input {shown} changes" if len(inputs) == 1 else f"inputs {shown} change"
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
    """Make a function for hardware of a Python function: a decorator.

    Parameters
    ----------
    inputs, outputs : :func:`array` by name, in the order of the records. The Python function has a
        parameter for each input: a number for a scalar, else an array of numbers (NumPy, of objects
        while it is traced). It may have two more, ``model`` for the robot and ``region`` for
        marking parts, ``with region("forward", 1):``. It returns a mapping from outputs to values,
        or values in order, or the one value; arrays as nested sequences or NumPy arrays.
    states : :func:`state` by name: what goes on from request to request. The Python function has a
        parameter for each, and returns what the next request finds beside the outputs, by name or
        behind them.
    name : by default that of the Python function.
    doc : one line; by default the first of its docstring.
    dims : lengths of axes by names of your own.
    reference : another float model to be compared with, and to verify against: the same parameters,
        each array (n, ...) of float64, the robot in ``model`` if it has such a parameter, and the
        same results, (n, ...).
    joint_space : the results depend on the robot through its equations of motion in the joints'
        coordinates alone (torques, accelerations, M), not on any link, frame or energy. It may then
        be traced for a robot that moves in the same way, with fewer operations.

    Raises
    ------
    pinion.functions.FunctionError
        When the description is not whole or does not fit the Python function, with file and line.

    Without a parameter ``model``, an axis of the robot or a quantity of its state, the function
    takes no robot: it is built for ``none``.
    """
    here = caller()

    def made(python: Any) -> OwnFunction:
        if not callable(python) or isinstance(python, type | Function):
            raise UserError(
                f"{here}: @function stands above {python!r:.80}, and makes functions for hardware "
                "of plain Python functions alone."
            )
        place = place_of(python)
        known = name if name is not None else getattr(python, "__name__", "")
        check_name(known, f"the function {known!r}", here)
        if known in FUNCTIONS:
            raise UserError(
                f"{here}: Pinion has a function '{known}' of its own: give yours another name, "
                "with name='...'."
            )
        sizes = dimensions(dims or {}, here)
        taken = blocks_of(inputs, "input", known, sizes, here)
        given = blocks_of(outputs, "output", known, sizes, here)
        kept = blocks_of(states, "state", known, sizes, here) if states else ()
        names_taken = {block.name for block in taken}
        for block in given:
            if block.name in names_taken:
                raise UserError(
                    f"{here}: the output '{block.name}' of '{known}' has the name of an input: "
                    f"give it another, such as {block.name}_next, or describe a state."
                )
        for block in kept:
            if block.name in {other.name for other in (*taken, *given)}:
                raise UserError(
                    f"{here}: the state '{block.name}' of '{known}' has the name of an input or an "
                    "output: give it another."
                )
        taken_all, given_all = (*taken, *kept), (*given, *kept)
        extra = parameters_of(python, taken_all, known, place)
        lines = (inspect.getdoc(python) or known).splitlines()
        robot = MODEL in extra or any(of_robot(block) for block in (*taken_all, *given))
        return OwnFunction(
            name=known,
            doc=one_line(doc if doc is not None else lines[0]),
            inputs=taken,
            outputs=given,
            scalars=_algorithm(python, known, taken_all, given_all, extra, place),
            floats=(
                None if reference is None else _batches(reference, known, taken_all, given_all)
            ),
            states=tuple(block for block in kept if isinstance(block, State)),
            joint_space=joint_space and robot,
            robotless=not robot,
            python=python,
            reference=reference,
        )

    return made


def _algorithm(
    python: Callable[..., Any],
    name: str,
    inputs: Sequence[Block],
    outputs: Sequence[Block],
    extra: Sequence[str],
    place: Place,
) -> Callable[..., list[list[Any]]]:
    """The Python function as a row's algorithm: elements of each output, row by row."""

    ends = return_of(python)

    def scalars(model: Model, *values: Any, region: Any) -> list[list[Any]]:
        arguments = {b.name: boxed(x) for b, x in zip(inputs, values, strict=True)}
        arguments |= {k: v for k, v in ((MODEL, model), (REGION, region)) if k in extra}
        with said(f"The function '{name}'", place):
            returned = python(**arguments)
        found = ordered(returned, outputs, name, ends)
        return [
            elements(value, block.dims(model), block, name, ends)
            for block, value in zip(outputs, found, strict=True)
        ]

    return scalars


def _batches(
    reference: Callable[..., Any], name: str, inputs: Sequence[Block], outputs: Sequence[Block]
) -> Callable[..., list[Floats]]:
    """A reference as a row's float model, its results of the right shapes."""
    place, ends = place_of(reference), return_of(reference)
    extra = parameters_of(reference, inputs, name, place)

    def floats(model: Model, *values: Floats) -> list[Floats]:
        count = len(values[0])
        # Copies: the reference may write to its arguments.
        arguments: dict[str, Any] = {b.name: x.copy() for b, x in zip(inputs, values, strict=True)}
        with said(f"The reference of '{name}'", place):
            returned = reference(**arguments, **({MODEL: model} if MODEL in extra else {}))
        results = []
        in_order = ordered(returned, outputs, name, ends)
        for block, value in zip(outputs, in_order, strict=True):
            found, wanted = np.asarray(value), (count, *block.dims(model))
            if found.shape != wanted or found.dtype.kind not in "fiu":
                raise UserError(
                    f"{ends}: the reference of '{name}' returns for '{block.name}' an array "
                    f"{found.shape} of {found.dtype}: it must be {wanted} numbers."
                )
            results.append(found.astype(np.float64))
        return results

    return floats


def _is_symmetric(matrix: Floats) -> bool:
    """Whether a matrix is symmetric, to rounding; one with what is no number counts as such."""
    size = float(np.max(np.abs(matrix), initial=0.0))
    return not (np.abs(matrix - matrix.T) > SAME * max(size, SAME)).any()


def _unmarked(name: str, body: int | None = None) -> AbstractContextManager[object]:
    """In place of a marker of regions, where there is nothing to mark."""
    return nullcontext((name, body))


def _check_reach(function: OwnFunction, graph: Graph, model: Model) -> None:
    """Refuse inputs that change nothing, states that stay, and outputs that nothing changes.

    For a robot both may follow from the robot, and another one may need them: outputs are refused
    only if none depends on an input, and inputs unless they are optional.
    """
    kept = {feedback.word: graph.nodes[feedback.node] for feedback in graph.states}
    for state in function.states:
        words = [Word.of(word) for word in state.positions(model)]
        if all(kept[w].op == names.INPUT and kept[w].params[0] == w for w in words):
            raise UserError(
                f"{return_of(function.python)}: the state '{state.name}' of '{function.name}' "
                "stays as it begins: return what the next request finds, or leave the state out."
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
            "constant, the same for every input: leave it out, or compute it from them."
        )
    idle = [
        block.name
        for number, block in enumerate(function.inputs)
        if not used >> number & 1 and not block.optional
    ]
    if idle:
        raise UserError(f"{place_of(function.python)}: the {_idle(idle, function, model)}{_NEEDED}")


def _reach(function: OwnFunction, graph: Graph, model: Model) -> tuple[int, dict[str, int]]:
    """Which inputs and states (a bit each, in order) change any output, and each of them."""
    # Without what cancels, however it is grouped, and what is multiplied by zero. Where constants
    # divide by zero the comparison with numbers says it, and where.
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
        # What a state is made from reaches the results of later requests.
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
    """Whether code reads a parameter, itself or in a function inside it."""
    if name in code.co_cellvars:
        return True
    for step in dis.get_instructions(code):
        found = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        if step.opname.startswith("LOAD_FAST") and name in found:
            return True
    return False
