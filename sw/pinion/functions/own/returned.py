"""Arguments and return values of a user's Python function, element by element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pinion.functions.blocks import Block, State
from pinion.functions.mistakes import CodePosition, UserError
from pinion.graph import Symbol


def boxed(value: Any) -> Any:
    """Return an input as the Python function expects it: nested lists as an array of objects."""
    if not isinstance(value, list):
        return value
    shape: list[int] = []
    inner: Any = value
    while isinstance(inner, list):
        shape.append(len(inner))
        inner = inner[0] if inner else None
    boxed = np.empty(shape, dtype=object)
    for index in np.ndindex(*shape):
        element: Any = value
        for place in index:
            element = element[place]
        boxed[index] = element
    return boxed


def ordered(returned: Any, outputs: Sequence[Block], name: str, place: CodePosition) -> list[Any]:
    """Return a function's return value as a list, one element per output, in their order."""
    names = [block.name for block in outputs]
    listed = ", ".join(names)
    if returned is None:
        raise UserError(
            f"{place}: '{name}' returns nothing: end it with a return of its values, {listed}."
        )
    if isinstance(returned, Mapping):
        for key in returned:
            if key not in names:
                raise UserError(
                    f"{place}: '{name}' returns {key!r:.40}, which is not among its outputs "
                    f"and states, {listed}: describe it there, or leave it out."
                )
        for key in names:
            if key not in returned:
                states = [block.name for block in outputs if isinstance(block, State)]
                addition = ", the next value of a state" if key in states else ""
                raise UserError(f"{place}: '{name}' returns no '{key}'{addition}: return {listed}.")
        return [returned[key] for key in names]
    if len(names) == 1:
        return [returned]
    if not isinstance(returned, tuple | list):
        raise UserError(
            f"{place}: '{name}' returns one {type(returned).__name__} in place of "
            f"{listed}: return a dictionary with these names, or a tuple in this order."
        )
    if len(returned) != len(names):
        raise UserError(
            f"{place}: '{name}' returns {len(returned)} value{'s' * (len(returned) != 1)} in place "
            f"of {len(names)} ({listed}): return one for each."
        )
    return list(returned)


def elements(
    value: Any, dims: tuple[int, ...], block: Block, name: str, place: CodePosition
) -> list[Any]:
    """Return the elements of an output, row by row; check their number and types."""
    kind = "next value of the state" if isinstance(block, State) else "output"
    subject = f"the {kind} '{block.name}' of '{name}'"
    if isinstance(value, tuple | list) and len(value) == 1 and not dims:
        value = value[0]  # the result of a trailing comma
    flat: list[Any] = []
    shape = _shape(value)
    if shape != dims:
        raise UserError(
            f"{place}: {subject} has shape {dims}, but its value has "
            f"{'rows of unequal lengths' if shape is None else f'shape {shape}'}: return a value "
            f"of shape {dims}, or describe the intended shape."
        )
    _flatten(value, flat)
    for element in flat:
        number = isinstance(element, Symbol | int | float | np.integer | np.floating)
        if not number or isinstance(element, bool):
            kind = type(element).__name__
            plain = isinstance(element, str | bytes | bool | complex)
            text = f"{element!r:.40} ({kind})" if plain else f"an object of type {kind}"
            raise UserError(
                f"{place}: {subject} contains {text}: return numbers, and "
                "select(condition, 1.0, 0.0) for a condition."
            )
    return [x if isinstance(x, Symbol) else float(x) for x in flat]


def _shape(value: Any) -> tuple[int, ...] | None:
    if isinstance(value, np.ndarray):
        return tuple(value.shape)
    if not isinstance(value, tuple | list):
        return ()
    shapes = {_shape(element) for element in value}
    if len(shapes) > 1 or None in shapes:
        return None
    return (len(value), *(shapes.pop() or () if shapes else ()))


def _flatten(value: Any, flat: list[Any]) -> None:
    if isinstance(value, np.ndarray):
        flat += list(value.flat)
    elif isinstance(value, tuple | list):
        for element in value:
            _flatten(element, flat)
    else:
        flat.append(value)
