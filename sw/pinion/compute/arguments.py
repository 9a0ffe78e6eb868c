"""What a caller may say besides the arrays of a batch, checked where it comes in."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pinion.batch import InputError
from pinion.batch.result import SATURATED, Result
from pinion.compute.program.source import SCALARS
from pinion.link import Array
from pinion.native.errors import ComputeError


def dtype_name(dtype: DTypeLike) -> str:
    """The name of a kernel's numbers, which may be given as whatever NumPy takes for a dtype.

    Raises
    ------
    ComputeError
        Which lists those there are.
    """
    name = str(dtype)
    if dtype is not None:  # which NumPy takes for float64
        with suppress(TypeError, ValueError):  # else it is shown as it was given
            name = np.dtype(dtype).name
    if name not in SCALARS:
        raise ComputeError(f"There is no dtype '{name}' here; choose one of {', '.join(SCALARS)}.")
    return name


def check_threads(threads: object) -> int:
    """The number of threads that compute at most, 0 for all processors.

    Raises
    ------
    ComputeError
        It is no whole number, or a negative one.
    """
    try:
        count = operator.index(threads)  # type: ignore[arg-type]  # what has none ends below
    except TypeError:
        count = -1
    if count < 0:
        raise ComputeError(f"A kernel cannot use {threads!r} threads: give 0 for all, or a number.")
    return count


def check_out(out: object, results: Sequence[Array]) -> None:
    """Refuse what results cannot be written to by name: a mapping of arrays, such as a `Result`.

    Besides the results it may have ``saturated``.

    Raises
    ------
    InputError
        It is no mapping, has a name that is no result's, or lacks one.
    """
    if not isinstance(out, Mapping):
        named = ", ".join(f'"{array.name}": ...' for array in results)
        raise InputError(
            f"'out' is a mapping from the names of the results to arrays, such as {{{named}}}, and "
            f"not of the type {type(out).__name__}."
        )
    names = [array.name for array in results]
    for name in out:
        if name not in names and name != SATURATED:
            raise InputError(
                f"There is no result '{name}' to write; the results are {', '.join(names)}."
            )
    for name in names:
        if name not in out:
            raise InputError(f"'out' has no array for the result '{name}': give all or none.")


def flags_for(out: Mapping[str, Any] | None, shape: tuple[int, ...]) -> NDArray[np.bool_] | None:
    """The array of ``out`` that flags are written to; None where it has none that can be.

    Parameters
    ----------
    shape : () for a single request, else (n,).

    Raises
    ------
    InputError
        A mapping that is no `Result` has one that cannot be written. (Those of single requests,
        which results share, cannot.)
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
    raise InputError(
        f"The array for '{SATURATED}' must be writeable, contiguous, {shape} of bool: give such a "
        "one, or leave it out."
    )
