"""Checks of a caller's arguments other than the arrays of a batch."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pinion.batch import InputError, Result
from pinion.batch.result import SATURATED
from pinion.link import Array
from pinion.native import ComputeError

from .program.source import SCALARS


def dtype_name(dtype: DTypeLike) -> str:
    """Return the name of a dtype, given as anything that NumPy accepts.

    Raises
    ------
    ComputeError
        If kernels do not support it; the message lists the supported ones.
    """
    name = str(dtype)
    if dtype is not None:  # NumPy reads None as float64
        with suppress(TypeError, ValueError):
            name = np.dtype(dtype).name
    if name not in SCALARS:
        text = dtype if isinstance(dtype, str) else name
        raise ComputeError(f"Unknown dtype '{text}': choose one of {', '.join(SCALARS)}.")
    return name


def check_threads(threads: object) -> int:
    """Check a limit on threads and return it as an int; 0 means one thread per CPU core.

    Raises
    ------
    ComputeError
        If it is not an integer, or negative.
    """
    try:
        count = operator.index(threads)  # type: ignore[arg-type]  # refused below
    except TypeError:
        count = -1
    if count < 0:
        raise ComputeError(
            f"'threads' must be a positive integer, or 0 for all CPU cores, not {threads!r}."
        )
    return count


def check_inputs(arrays: Mapping[str, Any], inputs: Sequence[Array]) -> None:
    """Raise `InputError` if an input is unknown or missing."""
    names = [array.name for array in inputs]
    for name in arrays:
        if name not in names:
            raise InputError(
                f"There is no input array '{name}'; the inputs are {', '.join(names)}."
            )
    for name in names:
        if name not in arrays:
            raise InputError(f"The input array '{name}' is missing; give {', '.join(names)}.")


def check_out(out: object, results: Sequence[Array]) -> None:
    """Raise `InputError` unless ``out`` maps every result's name to an array, as a `Result` does.

    It may have ``saturated`` as well.

    Raises
    ------
    InputError
        If it is not a mapping, has an unknown name, or lacks a result.
    """
    if not isinstance(out, Mapping):
        named = ", ".join(f'"{array.name}": ...' for array in results)
        raise InputError(
            f"'out' must be a mapping from result names to arrays, such as {{{named}}}, not an "
            f"object of type {type(out).__name__}."
        )
    names = [array.name for array in results]
    for name in out:
        if name not in names and name != SATURATED:
            raise InputError(
                f"There is no result '{name}' to write; the results are {', '.join(names)}."
            )
    for name in names:
        if name not in out:
            raise InputError(
                f"'out' has no array for the result '{name}': give an array for every result, or "
                "omit 'out'."
            )


def flags_for(out: Mapping[str, Any] | None, shape: tuple[int, ...]) -> NDArray[np.bool_] | None:
    """Return the array in ``out`` for the saturation flags, or None if there is no suitable one.

    Parameters
    ----------
    shape : () for a single request, otherwise (n,).

    Raises
    ------
    InputError
        If a mapping other than a `Result` has an unsuitable one. (In a `Result` of a single
        request it is shared and read-only.)
    """
    if out is None or SATURATED not in out:
        return None
    flags = out[SATURATED]
    if (
        isinstance(flags, np.ndarray)
        and (flags.dtype, flags.shape) == (np.dtype(np.bool_), shape)
        and flags.flags.c_contiguous
        and flags.flags.writeable
    ):
        return flags
    if isinstance(out, Result):
        return None
    kind = f"of type {type(flags).__name__}"
    if isinstance(flags, np.ndarray):
        access = "writeable" if flags.flags.writeable else "read-only"
        kind = f"{access}, of shape {flags.shape}, strides {flags.strides} and dtype {flags.dtype}"
    raise InputError(
        f"The array for '{SATURATED}' must be writeable and contiguous, with shape {shape} and "
        f"dtype bool, but is {kind}: give such an array, or leave '{SATURATED}' out of 'out'."
    )
