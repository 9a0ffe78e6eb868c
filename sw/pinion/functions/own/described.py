"""What a function of the user's own says of itself: its arrays, their axes, how they are drawn."""

from __future__ import annotations

import inspect
import keyword
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from pinion.functions.mistakes import Place, UserError, caller, said

Blocks = Mapping[str, Block] | Iterable[tuple[str, Block]]

Floats = NDArray[np.float64]

MODEL, REGION = "model", "region"
"""Parameters of a Python function that are no inputs: the robot, and the marker of regions."""

TAKEN = (MODEL, REGION, "self", "saturated", "cycles", "names")
"""Names that no array can have: they are parameters, or members of a result."""

LONGEST = 63
"""Letters of a name or a unit at most: what C tells apart, and files of any system can hold."""


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
    unit : of an element, such as ``rad`` or ``N m``.
    sampling : for inputs, how they are drawn for tests, error budgets and number formats: a
        quantity of the robot's state (``POSITION``, ``VELOCITY``, ``ACCELERATION``, ``EFFORT``),
        ``uniform(low, high)``, or a function ``draw(rng, count)`` that returns an array (count,
        *shape) drawn with a :class:`numpy.random.Generator`. A build keeps a table of what it drew.
    symmetric : a symmetric matrix: the lower triangle travels, and counts for both.
    optional : for inputs of functions of a robot: for some robots it may change no result. Without
        it such a robot is refused.

    Raises
    ------
    pinion.functions.FunctionError
        When an axis or the sampling is none of these, with the line of the call.
    """
    for axis in shape:
        named = isinstance(axis, str) and axis.isidentifier()
        if not named and not (type(axis) is int and axis >= 1):
            raise UserError(
                f"{caller()}: the axis {axis!r} is none: give a number of at least 1, or the name "
                "of a dimension, such as array('nq') or array(3, 3)."
            )
    if symmetric and (len(shape) != 2 or shape[0] != shape[1]):
        raise UserError(
            f"{caller()}: a symmetric array has two equal axes, not {_axes(shape)}: write "
            "array(4, 4, symmetric=True)."
        )
    if not isinstance(unit, str):
        raise UserError(f"{caller()}: the unit {unit!r} is no text: write unit='rad'.")
    if (character := control_in(unit)) or len(unit) > LONGEST:
        wrong = f"holds the control character {character!a}" if character else "is a long text"
        raise UserError(
            f"{caller()}: the unit {unit[:40]!a} {wrong}: write at most {LONGEST} characters that "
            "can be seen, such as unit='rad'."
        )
    drawn: Sampling | None
    given: Any = sampling
    if sampling is None or isinstance(sampling, Quantity | Uniform | Drawn | Table):
        drawn = sampling
    elif given is uniform or isinstance(given, type):
        raise UserError(
            f"{caller()}: the sampling is {given.__name__} itself, without its ends: write "
            "uniform(low, high)."
        )
    elif callable(sampling):
        drawn = Drawn(sampling)
    else:
        raise UserError(
            f"{caller()}: the sampling {sampling!r} says not how to draw: give uniform(low, high), "
            "a quantity of the state such as POSITION, or a function of a random generator and a "
            "count."
        )
    return Block(
        name="",
        shape=tuple(shape),
        unit=unit,
        symmetric=symmetric,
        sampling=drawn,
        optional=optional,
    )


def state(
    *shape: int | str, unit: str = "1", initial: float | Sequence[Any] | Floats = 0.0
) -> State:
    """Describe a state of :func:`function`: what one request leaves is what the next one finds.

    Parameters
    ----------
    shape, unit : as of :func:`array`.
    initial : what the first request finds: one number for every element, or an array of the shape.

    Raises
    ------
    pinion.functions.FunctionError
        When an axis is none, or what it begins with are no finite numbers, with the line of the
        call.
    """
    block = array(*shape, unit=unit)
    with said("The state", caller()):
        if initial is None:  # NumPy makes it a NaN
            raise FunctionError("A state begins with None: give finite numbers.")
        values = np.asarray(initial, dtype=np.float64)
        if not np.isfinite(values).all():
            bad = values[~np.isfinite(values)].flat[0]
            raise FunctionError(f"A state begins with {bad}: give finite numbers.")
        first = float(values) if values.ndim == 0 else tuple(map(float, values.flat))
        return State(name="", shape=block.shape, unit=unit, initial=first)


def uniform(low: float, high: float) -> Uniform:
    """Sampling for an input: every element drawn evenly between two ends.

    Raises
    ------
    pinion.functions.FunctionError
        When the ends are not finite, or the first is above the second, with the line of the call.
    """
    with said("The sampling", caller()):
        return Uniform(float(low), float(high))


def dimensions(dims: Mapping[Any, Any], here: Place) -> Mapping[str, int]:
    """Lengths of axes by names of the user's own, checked."""
    for name, size in dims.items():
        if not isinstance(name, str) or not name.isidentifier() or name in DIMENSIONS:
            raise UserError(
                f"{here}: the dimension {name!r} is no name of your own: write letters, digits and "
                f"underscores, and none of {', '.join(DIMENSIONS)}, which are the robot's."
            )
        if type(size) is not int or size < 1:
            raise UserError(
                f"{here}: the dimension '{name}' is {size!r}: give a whole number of at least 1."
            )
    return dims


def check_name(name: Any, what: str, here: Place) -> None:
    """Refuse what is no identifier; ``what`` is the subject of the sentence."""
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise UserError(
            f"{here}: {what} has a name that is no identifier: give it letters, digits and "
            "underscores, and no word of Python's own."
        )
    if len(name) > LONGEST:
        raise UserError(
            f"{here}: {what[:60]}... has a name of {len(name)} letters: give it at most {LONGEST}."
        )


def blocks_of(
    given: Blocks, kind: str, function: str, dims: Mapping[str, int], here: Place
) -> tuple[Block, ...]:
    """Inputs or outputs with their names, and their axes as numbers where they are known."""
    try:
        pairs = [(name, block) for name, block in _pairs(given)]
    except (TypeError, ValueError):
        raise UserError(
            f"{here}: the {kind}s of '{function}' are {given!r:.60}: give a dictionary of array() "
            "by name."
        ) from None
    if not pairs:
        raise UserError(
            f"{here}: '{function}' has no {kind}: describe at least one, {kind}s={{'x': array()}}."
        )
    made: dict[str, Block] = {}
    for name, block in pairs:
        check_name(name, f"the {kind} {name!r} of '{function}'", here)
        if name in TAKEN or name.startswith("_"):
            raise UserError(
                f"{here}: the {kind} '{name}' of '{function}' has a name that is taken, as "
                f"{', '.join(TAKEN)} and all that begin with an underscore are: give it another."
            )
        if name in made:
            raise UserError(f"{here}: '{function}' has two {kind}s '{name}': give each its name.")
        if isinstance(block, State) != (kind == "state"):
            raise UserError(
                f"{here}: the {kind} '{name}' of '{function}' is described by {_call(block)}: "
                "describe states by state(), and inputs and outputs by array()."
            )
        if not isinstance(block, Block):
            raise UserError(
                f"{here}: the {kind} '{name}' of '{function}' is described by {block!r:.60}: write "
                "array() with its axes, and its sampling if it is an input."
            )
        made[name] = _named(block, name, kind, function, dims, here)
    return tuple(made.values())


def _pairs(given: Blocks) -> Iterable[tuple[str, Block]]:
    return given.items() if isinstance(given, Mapping) else given


def _named(
    block: Block, name: str, kind: str, function: str, dims: Mapping[str, int], here: Place
) -> Block:
    for axis in block.shape:
        if isinstance(axis, str) and axis not in DIMENSIONS and axis not in dims:
            known = ", ".join((*DIMENSIONS, *dims))
            raise UserError(
                f"{here}: the {kind} '{name}' of '{function}' has the unknown dimension '{axis}': "
                f"there are {known}; name others in dims={{'{axis}': 4}}."
            )
    if kind == "input" and block.sampling is None:
        raise UserError(
            f"{here}: the input '{name}' of '{function}' does not say how it is drawn: give "
            "array() a sampling, such as uniform(-1, 1) or POSITION."
        )
    if kind == "output" and block.sampling is not None:
        raise UserError(
            f"{here}: the output '{name}' of '{function}' has a sampling, and outputs are "
            "computed, not drawn: leave it out."
        )
    if kind == "output" and block.optional:
        raise UserError(
            f"{here}: the output '{name}' of '{function}' is optional, which inputs alone can be: "
            "leave it out."
        )
    if isinstance(block, State) and isinstance(block.initial, tuple):
        _check_initial(block, name, function, dims, here)
    shape = tuple(dims.get(axis, axis) if isinstance(axis, str) else axis for axis in block.shape)
    return replace(block, name=name, shape=shape)


def _check_initial(
    block: State, name: str, function: str, dims: Mapping[str, int], here: Place
) -> None:
    """Refuse other numbers of initial values than of elements, where they are known."""
    sizes = [dims.get(axis) if isinstance(axis, str) else axis for axis in block.shape]
    known = [size for size in sizes if size is not None]
    given = len(block.initial) if isinstance(block.initial, tuple) else 1
    if len(known) == len(sizes) and given != math.prod(known):
        raise UserError(
            f"{here}: the state '{name}' of '{function}' has {math.prod(known)} elements and "
            f"{given} initial values: give one number for all, or one an element."
        )


def parameters_of(
    python: Callable[..., Any], blocks: Sequence[Block], name: str, place: Place
) -> list[str]:
    """Parameters besides inputs and states, ``model`` and ``region``, where there are such."""
    inputs = [block.name for block in blocks]
    if inspect.isgeneratorfunction(python) or inspect.iscoroutinefunction(python):
        raise UserError(
            f"{place}: '{name}' yields or awaits: it must be a plain function that returns its "
            "outputs."
        )
    found: list[str] = []
    for parameter in inspect.signature(python).parameters.values():
        if parameter.kind not in (
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            inspect.Parameter.KEYWORD_ONLY,
        ):
            raise UserError(
                f"{place}: the parameter '{parameter.name}' of '{name}' cannot be matched by its "
                "name: write one plain parameter for each input."
            )
        wanted = parameter.default is inspect.Parameter.empty
        if parameter.name not in (*inputs, MODEL, REGION) and wanted:
            raise UserError(
                f"{place}: the parameter '{parameter.name}' of '{name}' is no input: its inputs "
                f"are {', '.join(inputs)}, and 'model' and 'region' may stand beside them."
            )
        found.append(parameter.name)
    for block in blocks:
        if block.name not in found:
            kind = "state" if isinstance(block, State) else "input"
            raise UserError(
                f"{place}: '{name}' has no parameter for its {kind} '{block.name}': add one of "
                f"that name, or leave the {kind} out."
            )
    return [parameter for parameter in found if parameter in (MODEL, REGION)]


def of_robot(block: Block) -> bool:
    """Whether an array has the shape, or an input the values, of something of a robot."""
    return isinstance(block.sampling, Quantity) or any(axis in DIMENSIONS for axis in block.shape)


def _axes(shape: Sequence[int | str]) -> str:
    return f"({', '.join(map(repr, shape))})"


def _call(block: object) -> str:
    """What a description was written with, for a sentence."""
    if isinstance(block, State):
        return "state()"
    return "array()" if isinstance(block, Block) else f"{block!r:.60}"
