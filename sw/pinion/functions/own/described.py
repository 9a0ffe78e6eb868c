"""The description of a user-defined function: its arrays, their axes, and their sampling."""

from __future__ import annotations

import inspect
import keyword
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pinion.base.arrays import Floats
from pinion.base.escaping import control_in
from pinion.functions.blocks import (
    DIMENSIONS,
    Block,
    Drawn,
    Quantity,
    Sampling,
    State,
    Table,
    Uniform,
)
from pinion.functions.errors import FunctionError
from pinion.functions.mistakes import CodePosition, UserError, caller, said

Blocks = Mapping[str, Block] | Iterable[tuple[str, Block]]


MODEL, REGION = "model", "region"
"""Parameters of a Python function that are not inputs: the robot, and the marker of regions."""

TAKEN = (MODEL, REGION, "self", "saturated", "cycles", "names")
"""Names that no array can have: they are parameters, or members of a result."""

LONGEST = 63
"""Most letters of a name or a unit: what C distinguishes, and files of any system can hold."""


def array(
    *shape: int | str,
    unit: str = "1",
    sampling: Sampling | Callable[[np.random.Generator, int], Any] | None = None,
    symmetric: bool = False,
    optional: bool = False,
) -> Block:
    """Describe an input or an output of :func:`function`.

    Parameters
    ----------
    shape : its axes: numbers, ``"nq"``, ``"nv"``, ``"bodies"`` of the robot, or names of ``dims``;
        none for a single number.
    unit : unit of an element, such as ``rad`` or ``N m``.
    sampling : for inputs, how they are sampled for tests, error budgets and number formats: a
        quantity of the robot's state (``POSITION``, ``VELOCITY``, ``ACCELERATION``, ``EFFORT``),
        ``uniform(low, high)``, or a function ``draw(rng, count)`` that returns an array (count,
        *shape) sampled with a :class:`numpy.random.Generator`. A build keeps a table of its values.
    symmetric : whether it is a symmetric matrix, of which only the lower triangle is transmitted.
    optional : for inputs of functions of a robot, whether it may affect no result for some robots.
        Without it such a robot is refused.

    Raises
    ------
    pinion.functions.FunctionError
        If an axis or the sampling is invalid, with the line of the call.
    """
    for axis in shape:
        named = isinstance(axis, str) and axis.isidentifier()
        if not named and not (type(axis) is int and axis >= 1):
            raise UserError(
                f"{caller()}: the axis {axis!r} is invalid: give an int of at least 1, or the "
                "name of a dimension, such as array('nq') or array(3, 3)."
            )
    if symmetric and (len(shape) != 2 or shape[0] != shape[1]):
        raise UserError(
            f"{caller()}: a symmetric array needs two equal axes, not {_axes(shape)}: write, "
            "for example, array(4, 4, symmetric=True)."
        )
    if not isinstance(unit, str):
        raise UserError(f"{caller()}: the unit {unit!r} must be a string, such as 'rad'.")
    if (character := control_in(unit)) or len(unit) > LONGEST:
        wrong = f"contains the control character {character!a}" if character else "is too long"
        raise UserError(
            f"{caller()}: the unit {unit[:40]!a} {wrong}: write at most {LONGEST} visible "
            "characters, such as unit='rad'."
        )
    source: Sampling | None
    unchecked: Any = sampling
    if sampling is None or isinstance(sampling, Quantity | Uniform | Drawn | Table):
        source = sampling
    elif unchecked is uniform or isinstance(unchecked, type):
        raise UserError(
            f"{caller()}: {unchecked.__name__} itself is not a sampling: write uniform(low, high), "
            "or a quantity such as POSITION."
        )
    elif callable(sampling):
        source = Drawn(sampling)
    else:
        raise UserError(
            f"{caller()}: the sampling {sampling!r:.60} is invalid: give uniform(low, high), a "
            "quantity of the state such as POSITION, or a function of a random generator and a "
            "count."
        )
    return Block(
        name="",
        shape=tuple(shape),
        unit=unit,
        symmetric=symmetric,
        sampling=source,
        optional=optional,
    )


def state(
    *shape: int | str, unit: str = "1", initial: float | Sequence[Any] | Floats = 0.0
) -> State:
    """Describe a state of :func:`function`: an array that each request passes to the next one.

    Parameters
    ----------
    shape, unit : as in :func:`array`.
    initial : value for the first request: one number for every element, or an array of the shape.

    Raises
    ------
    pinion.functions.FunctionError
        If an axis is invalid or an initial value is not a finite number, with the line of the call.
    """
    block = array(*shape, unit=unit)
    with said("The state", caller()):
        if initial is None:  # NumPy would turn it into NaN
            raise FunctionError("A state's initial value is None: give finite numbers.")
        values = np.asarray(initial, dtype=np.float64)
        if not np.isfinite(values).all():
            bad = values[~np.isfinite(values)].flat[0]
            raise FunctionError(f"A state's initial value contains {bad}: give finite numbers.")
        first = float(values) if values.ndim == 0 else tuple(map(float, values.flat))
        return State(name="", shape=block.shape, unit=unit, initial=first)


def uniform(low: float, high: float) -> Uniform:
    """Return a sampling that draws every element of an input uniformly between two bounds.

    Raises
    ------
    pinion.functions.FunctionError
        If the bounds are not finite, or the first exceeds the second, with the line of the call.
    """
    with said("The sampling", caller()):
        return Uniform(float(low), float(high))


def dimensions(dims: Mapping[Any, Any], place: CodePosition) -> Mapping[str, int]:
    """Check lengths of axes with user-defined names, and return them."""
    for name, size in dims.items():
        if not isinstance(name, str) or not name.isidentifier() or name in DIMENSIONS:
            raise UserError(
                f"{place}: the dimension {name!r} has an invalid name: write an identifier "
                f"other than {', '.join(DIMENSIONS)}, which are dimensions of the robot."
            )
        if type(size) is not int or size < 1:
            raise UserError(
                f"{place}: the dimension '{name}' is {size!r}: give an int of at least 1."
            )
    return dims


def check_name(name: Any, subject: str, place: CodePosition) -> None:
    """Raise `UserError` for a name that is not an identifier; `subject` begins the sentence."""
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise UserError(
            f"{place}: {subject} has a name that is not an identifier: use letters, digits (not "
            "first) and underscores, but no Python keyword."
        )
    if len(name) > LONGEST:
        raise UserError(
            f"{place}: {subject[:60]}... has a name of {len(name)} characters: give it "
            f"at most {LONGEST}."
        )


def blocks_of(
    described: Blocks, kind: str, function: str, dims: Mapping[str, int], place: CodePosition
) -> tuple[Block, ...]:
    """Check the inputs, outputs or states, and return them with names and known axis lengths."""
    try:
        items = described.items() if isinstance(described, Mapping) else described
        pairs = [(name, block) for name, block in items]
    except (TypeError, ValueError):
        raise UserError(
            f"{place}: the {kind}s of '{function}' cannot be {described!r:.60}: give a dictionary "
            f"of {'state' if kind == 'state' else 'array'}() by name."
        ) from None
    if not pairs:
        raise UserError(
            f"{place}: '{function}' has no {kind}: describe at least one in {kind}s={{...}}."
        )
    blocks: dict[str, Block] = {}
    for name, block in pairs:
        check_name(name, f"the {kind} {name!r} of '{function}'", place)
        if name in TAKEN or name.startswith("_"):
            raise UserError(
                f"{place}: the {kind} '{name}' of '{function}' has a reserved name: choose one "
                f"without a leading underscore and other than {', '.join(TAKEN)}."
            )
        if name in blocks:
            raise UserError(f"{place}: '{function}' has two {kind}s '{name}': rename one of them.")
        if isinstance(block, State) != (kind == "state"):
            raise UserError(
                f"{place}: the {kind} '{name}' of '{function}' is described by {_call(block)}: "
                "describe states by state(), and inputs and outputs by array()."
            )
        if not isinstance(block, Block):
            raise UserError(
                f"{place}: the {kind} '{name}' of '{function}' is described by {block!r:.60}: "
                "write array() with its axes, and its sampling if it is an input."
            )
        blocks[name] = _named(block, name, kind, function, dims, place)
    return tuple(blocks.values())


def _named(
    block: Block, name: str, kind: str, function: str, dims: Mapping[str, int], place: CodePosition
) -> Block:
    for axis in block.shape:
        if isinstance(axis, str) and axis not in DIMENSIONS and axis not in dims:
            choices = ", ".join((*DIMENSIONS, *dims))
            raise UserError(
                f"{place}: the {kind} '{name}' of '{function}' has the unknown dimension '{axis}': "
                f"choose one of {choices}, or define it in dims={{'{axis}': 4}}."
            )
    if kind == "input" and block.sampling is None:
        raise UserError(
            f"{place}: the input '{name}' of '{function}' has no sampling: give array() one, "
            "such as sampling=uniform(-1, 1) or sampling=POSITION."
        )
    if kind == "output" and block.sampling is not None:
        raise UserError(
            f"{place}: the output '{name}' of '{function}' has a sampling, but outputs are "
            "computed, not sampled: leave the sampling out."
        )
    if kind == "output" and block.optional:
        raise UserError(
            f"{place}: the output '{name}' of '{function}' is optional, but only inputs can be: "
            "leave optional=True out."
        )
    if isinstance(block, State) and isinstance(block.initial, tuple):
        _check_initial(block, name, function, dims, place)
    shape = tuple(dims.get(axis, axis) if isinstance(axis, str) else axis for axis in block.shape)
    return replace(block, name=name, shape=shape)


def _check_initial(
    block: State, name: str, function: str, dims: Mapping[str, int], place: CodePosition
) -> None:
    """Raise `UserError` if the initial values do not match the elements, where known."""
    sizes = [dims.get(axis) if isinstance(axis, str) else axis for axis in block.shape]
    known_sizes = [size for size in sizes if size is not None]
    count = len(block.initial) if isinstance(block.initial, tuple) else 1
    if len(known_sizes) == len(sizes) and count != math.prod(known_sizes):
        raise UserError(
            f"{place}: the state '{name}' of '{function}' has size {math.prod(known_sizes)}, but "
            f"its initial value has size {count}: give one number for all, or one per element."
        )


def python_parameters(
    python: Callable[..., Any], blocks: Sequence[Block], name: str, place: CodePosition
) -> list[str]:
    """Check the parameters of a Python function, and return `model` and `region` if it has them."""
    inputs = [block.name for block in blocks]
    if inspect.isgeneratorfunction(python) or inspect.iscoroutinefunction(python):
        raise UserError(
            f"{place}: '{name}' is a generator or a coroutine: write a plain function that returns "
            "its outputs."
        )
    names: list[str] = []
    for parameter in inspect.signature(python).parameters.values():
        if parameter.kind not in (
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            inspect.Parameter.KEYWORD_ONLY,
        ):
            raise UserError(
                f"{place}: the parameter '{parameter.name}' of '{name}' cannot be matched by its "
                "name: write one plain parameter for each input."
            )
        required = parameter.default is inspect.Parameter.empty
        if parameter.name not in (*inputs, MODEL, REGION) and required:
            raise UserError(
                f"{place}: the parameter '{parameter.name}' of '{name}' is not an input or a "
                f"state ({', '.join(inputs)}): only 'model' and 'region' may be added."
            )
        names.append(parameter.name)
    for block in blocks:
        if block.name not in names:
            kind = "state" if isinstance(block, State) else "input"
            raise UserError(
                f"{place}: '{name}' has no parameter for its {kind} '{block.name}': add one of "
                f"that name, or leave the {kind} out."
            )
    return [parameter for parameter in names if parameter in (MODEL, REGION)]


def of_robot(block: Block) -> bool:
    """Return whether an array has a robot's shape or, as an input, a robot's quantity."""
    return isinstance(block.sampling, Quantity) or any(axis in DIMENSIONS for axis in block.shape)


def _axes(shape: Sequence[int | str]) -> str:
    return f"({', '.join(map(repr, shape))})"


def _call(block: object) -> str:
    """Return the call that described a block, for a message."""
    if isinstance(block, State):
        return "state()"
    return "array()" if isinstance(block, Block) else f"{block!r:.60}"
