"""Memory layouts of a batch: arrays of structures, structures of arrays, blocks.

========  ============================  ===========================================================
layout    an array of ``shape``         purpose
========  ============================  ===========================================================
aos       ``(n, *shape)``               usual in NumPy: the numbers of a sample are contiguous
soa       ``(*shape, n)``               the samples of an element are contiguous; rows may be
                                        farther apart than n, but avoid a power of two
blocks    ``(ceil(n/16), *shape, 16)``  the kernel's own layout, 16 samples side by side, without
                                        conversion
========  ============================  ===========================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pinion.batch import InputError
from pinion.link import Array

BLOCK = 16
"""Samples per block."""

LAYOUTS = ("aos", "soa", "blocks")


def check_layout(layout: str) -> None:
    """Raise `InputError` if a layout is unknown; the message lists the known ones."""
    if layout not in LAYOUTS:
        raise InputError(f"Unknown layout '{layout}': choose one of {', '.join(LAYOUTS)}.")


def batch_shape(layout: str, shape: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Return the shape of an array of ``count`` samples of a given shape in a layout."""
    if layout == "aos":
        return (count, *shape)
    if layout == "soa":
        return (*shape, count)
    return (-(-count // BLOCK), *shape, BLOCK)


def to_blocks(array: ArrayLike) -> NDArray[Any]:
    """Return (n, ...) as blocks (ceil(n/16), ..., 16), padded with copies of the last sample."""
    values = np.asarray(array)
    count = len(values)
    whole = -(-count // BLOCK) * BLOCK
    if whole != count:
        values = values[np.minimum(np.arange(whole), count - 1)]
    blocks = values.reshape(whole // BLOCK, BLOCK, *values.shape[1:])
    return np.ascontiguousarray(np.moveaxis(blocks, 1, -1))


def from_blocks(blocks: ArrayLike, count: int) -> NDArray[Any]:
    """Return the first ``count`` samples of blocks (..., 16) as an array (count, ...)."""
    values = np.moveaxis(np.asarray(blocks), -1, 1)
    return np.ascontiguousarray(values.reshape(-1, *values.shape[2:])[:count])


def sample_count(layout: str, arrays: Sequence[tuple[Array, NDArray[Any]]]) -> int:
    """Check the shapes of arrays in ``soa`` or ``blocks`` and return their number of samples.

    Raises
    ------
    InputError
        If a shape does not fit, or numbers of samples differ.
    """
    counts: dict[str, int] = {}
    for array, values in arrays:
        if values.ndim != len(array.shape) + (1 if layout == "soa" else 2):
            raise _misfit(layout, array, values)
        expected = (
            (*array.shape, values.shape[-1])
            if layout == "soa"
            else (values.shape[0], *array.shape, BLOCK)
        )
        if values.shape != expected:
            raise _misfit(layout, array, values)
        counts[array.name] = values.shape[-1] if layout == "soa" else BLOCK * values.shape[0]
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} has {n}" for name, n in counts.items())
        raise InputError(
            f"The arrays have different numbers of samples ({listed}): give the same number "
            "in each."
        )
    return next(iter(counts.values()), 0)


def _misfit(layout: str, array: Array, values: NDArray[Any]) -> InputError:
    axes = ", ".join(map(str, array.shape))
    expected = f"({axes}, n)" if layout == "soa" else f"(ceil(n/16), {axes}, 16)"
    return InputError(
        f"'{array.name}' has the shape {values.shape}: the layout '{layout}' requires "
        f"{expected.replace('(, ', '(').replace(', , ', ', ')}."
    )


def row_stride(array: Array, values: NDArray[Any]) -> int | None:
    """Return the distance between rows of a ``soa`` array in elements.

    None if rows are not equidistant or the samples of a row not contiguous.
    """
    size = values.itemsize
    if values.shape[-1] > 1 and values.strides[-1] != size:
        return None
    axes = [(n, s) for n, s in zip(array.shape, values.strides, strict=False) if n > 1]
    if not axes:
        return int(values.shape[-1])
    stride, rest = axes[-1][1], axes[-1][1]
    for n, s in reversed(axes):
        if s != rest:
            return None
        rest = s * n
    return stride // size if stride % size == 0 and stride >= size * values.shape[-1] else None
