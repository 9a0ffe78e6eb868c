"""Checks of a caller's arrays, with errors that name the array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pinion.link import MASK_UNIT, Array

from .errors import InputError

BLOCK = 1 << 15
"""Elements that are checked at a time."""


class Named(Protocol):
    """An object with a name, such as an array or a block."""

    @property
    def name(self) -> str:
        """Name of the input."""
        ...


@dataclass(frozen=True)
class RequestArrays:
    """Checked input arrays of a batch of requests.

    Members
    -------
    arrays : by name, (count, ...), or (...) if one value serves all requests; float32 from
        `check_arrays`, unchanged from `validate_arrays`.
    count : number of requests.
    single : whether every array came without a batch axis, so that the result has none either.
    """

    arrays: dict[str, NDArray[Any]]
    count: int
    single: bool


def by_name(
    expected: Sequence[Named],
    values: Sequence[Any],
    named: Mapping[str, Any],
) -> dict[str, Any]:
    """Merge arrays given by position, in the order of the inputs, with arrays given by name.

    Raises
    ------
    InputError
        If there are more arrays by position than inputs, or one is given both ways.
    """
    if not values:
        return dict(named)
    names = [array.name for array in expected]
    if len(values) > len(names):
        listed = ", ".join(names) or "none"
        raise InputError(
            f"Too many arrays are given by position ({len(values)}; inputs: {listed}): "
            f"leave {len(values) - len(names)} out."
        )
    placed = dict(zip(names, values, strict=False))
    for name in placed:
        if name in named:
            raise InputError(
                f"The input array '{name}' is given twice, by position and by name: give it once."
            )
    return {**placed, **named}


def check_arrays(expected: Sequence[Array], named_arrays: Mapping[str, ArrayLike]) -> RequestArrays:
    """Check named arrays against the expected ones and convert them to float32.

    Parameters
    ----------
    expected : the arrays of a request: names, shapes without the batch axis, units.
    named_arrays : for each an array of floats or integers of that shape, optionally with a batch
        axis in front. An array without a batch axis, given with others that have one,
        serves all requests.

    Raises
    ------
    InputError
        If a name is unknown or missing, a shape, the number of requests or a dtype does not fit, or
        a value is NaN, infinite or too large for float32; the message names array, axis or index.
    """
    checked = validate_arrays(expected, named_arrays)
    with np.errstate(under="ignore"):
        copies = {name: values.astype(np.float32) for name, values in checked.arrays.items()}
    return RequestArrays(copies, checked.count, checked.single)


def validate_arrays(
    expected: Sequence[Array],
    named_arrays: Mapping[str, ArrayLike],
    *,
    dtype: type[np.floating[Any]] = np.float32,
    finite: bool = True,
) -> RequestArrays:
    """Check arrays as `check_arrays` does, for float32 or float64, without converting them.

    Parameters
    ----------
    dtype : type of the computation, float32 or float64.
    finite : False accepts NaN, infinities and numbers that become infinite.

    Raises
    ------
    InputError
        As `check_arrays`.
    """
    names = {array.name for array in expected}
    for name in named_arrays:
        if name not in names:
            raise InputError(
                f"There is no input array '{name}'; the inputs are {_wanted(expected)}."
            )
    arrays: dict[str, NDArray[Any]] = {}
    lengths: dict[str, int] = {}
    for array in expected:
        if array.name not in named_arrays:
            raise InputError(
                f"The input array '{array.name}' is missing; give {_wanted(expected)}."
            )
        values = _numeric(array, named_arrays[array.name], dtype)
        _check_shape(array, values.shape)
        if array.unit == MASK_UNIT:
            check_mask(array, values)
        elif finite:
            _check_values(array, values, dtype)
        arrays[array.name] = values
        if values.ndim > len(array.shape):
            lengths[array.name] = len(values)
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} has {n}" for name, n in lengths.items())
        raise InputError(
            f"The arrays have different numbers of requests on axis 0 ({listed}): give the same "
            f"number in each, or leave the batch axis out of an array that all requests share."
        )
    return RequestArrays(arrays, next(iter(lengths.values()), 1), not lengths)


def check_mask(array: Array, values: NDArray[Any]) -> None:
    """Raise `InputError` if a mask contains anything but 0 and 1; the message names the index."""
    wrong = (values != 0) & (values != 1)
    if wrong.any():
        raise InputError(
            f"{_index(array, values, wrong)} is {values[_first(wrong)]}: give 1 for a contact on "
            "the ground and 0 for one in the air."
        )


def _wanted(expected: Sequence[Array]) -> str:
    return ", ".join(f"{array.name} {_shape(array.shape)}" for array in expected) or "none"


def _shape(shape: tuple[int, ...]) -> str:
    single = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
    batch = ", ".join(("n", *map(str, shape)))
    return f"({single}) or ({batch}{',' if not shape else ''})"


def _numeric(array: Array, value: ArrayLike, dtype: type[np.floating[Any]]) -> NDArray[Any]:
    if _masked(value):
        raise InputError(
            f"'{array.name}' has masked elements, which are not supported: fill them first, with "
            "filled(value)."
        )
    try:
        values = np.asarray(value)
    except ValueError as error:  # rows of different lengths
        raise InputError(
            f"'{array.name}' is not an array ({error}): give numbers of shape "
            f"{_shape(array.shape)}."
        ) from None
    if array.unit == MASK_UNIT and values.dtype == np.bool_:
        return values.astype(dtype)
    if values.dtype.kind not in "fiu":
        raise InputError(
            f"'{array.name}' has the dtype {values.dtype}: give floats or integers, which are "
            f"converted to {np.dtype(dtype).name}."
        )
    return values


def _masked(value: ArrayLike) -> bool:
    """Return whether an array, or one in a list, has masked elements; NumPy would drop the mask."""
    if type(value) is np.ndarray:
        return False
    if isinstance(value, list | tuple):
        return any(
            isinstance(element, np.ma.MaskedArray) and np.ma.is_masked(element) for element in value
        )
    return bool(np.ma.is_masked(value))


def _check_shape(array: Array, shape: tuple[int, ...]) -> None:
    expected = array.shape
    if len(shape) not in (len(expected), len(expected) + 1):
        raise InputError(
            f"'{array.name}' has the wrong number of axes (shape {shape}): give {_shape(expected)}."
        )
    offset = len(shape) - len(expected)
    for axis, size in enumerate(expected, start=offset):
        if shape[axis] != size:
            raise InputError(
                f"'{array.name}' has the shape {shape}, whose axis {axis} has length "
                f"{shape[axis]} instead of {size}: give {_shape(expected)}."
            )


def _check_values(array: Array, values: NDArray[Any], dtype: type[np.floating[Any]]) -> None:
    if values.dtype.kind != "f":
        return  # every integer of 64 bits fits float32's range
    if not _all_finite(values):
        finite = np.isfinite(values)
        index = _index(array, values, ~finite)
        raise InputError(
            f"{index} is {values[_first(~finite)]}: every input must be a finite number."
        )
    if values.dtype.itemsize <= np.dtype(dtype).itemsize or not values.size:
        return
    with np.errstate(over="ignore", under="ignore"):
        if np.isfinite(np.array([values.min(), values.max()]).astype(dtype)).all():
            return
        lost = ~np.isfinite(values.astype(dtype))
    index = _index(array, values, lost)
    raise InputError(
        f"{index} is {values[_first(lost)]}, which {np.dtype(dtype).name} cannot hold: give "
        f"values below {np.finfo(dtype).max:.4g} in magnitude."
    )


def _all_finite(values: NDArray[Any]) -> bool:
    if values.size <= BLOCK or not values.flags.c_contiguous:
        return bool(np.isfinite(values).all())
    # In blocks, so that the flags stay in the cache.
    flat, finite = values.reshape(-1), np.empty(BLOCK, dtype=np.bool_)
    for start in range(0, len(flat), BLOCK):
        part = flat[start : start + BLOCK]
        if not np.isfinite(part, out=finite[: len(part)]).all():
            return False
    return True


def _first(bad: NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(bad.argmax()), bad.shape))


def _index(array: Array, values: NDArray[Any], bad: NDArray[np.bool_]) -> str:
    if not values.ndim:
        return f"'{array.name}'"
    return f"'{array.name}' at index [{', '.join(map(str, _first(bad)))}]"
