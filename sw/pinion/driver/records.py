"""Conversion between arrays and records in the manifest's layout.

A record is the arrays of one request or result, one after another, in row-major order, each element
a float32 in one 32-bit word. A structured dtype describes it, so that packing is one copy and
unpacking none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pinion.base.arrays import Floats32, Words
from pinion.link import Array, Manifest


def record_dtype(arrays: Sequence[Array]) -> np.dtype[np.void]:
    """Return the structured dtype of a record: a float32 field for the sent part of each array."""
    return np.dtype([(array.name, np.float32, array.record_shape) for array in arrays])


def request_dtype(manifest: Manifest) -> np.dtype[np.void]:
    """Return the structured dtype of a request, of ``4 * words_in`` bytes."""
    return record_dtype(manifest.inputs)


def result_dtype(manifest: Manifest) -> np.dtype[np.void]:
    """Return the structured dtype of a result, of ``4 * words_out`` bytes."""
    return record_dtype(manifest.outputs)


def pack(layout: np.dtype[np.void], arrays: Mapping[str, Floats32], count: int) -> Words:
    """Pack arrays (count, ...) by name into the words (count, words) of records.

    Parameters
    ----------
    layout : dtype of the records, from :func:`request_dtype`.
    arrays : for every field an array (count, ...), or (...) for all records.
    count : number of records.

    Returns
    -------
    (count, words) uint32, a new array in C order.
    """
    records = np.empty(count, dtype=layout)
    for name in layout.names or ():
        records[name] = arrays[name]
    return records.view(np.uint32).reshape(count, layout.itemsize // 4)


def unpack(layout: np.dtype[np.void], words: Words) -> dict[str, Floats32]:
    """Return words (n, words) as arrays (n, ...) by name, which are views of the words."""
    records = np.ascontiguousarray(words).view(layout).reshape(len(words))
    return {name: records[name] for name in layout.names or ()}
