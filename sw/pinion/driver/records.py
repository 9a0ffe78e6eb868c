"""Arrays to words and back, as the manifest lays the records out.

A record is the arrays of one request or result, one behind the other, row by row, each element a
float32 in one 32-bit word. A structured dtype says the same to NumPy, so that packing is one copy
and unpacking none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pinion.link import Array, Manifest

Floats = NDArray[np.float32]
Words = NDArray[np.uint32]


def record_dtype(arrays: Sequence[Array]) -> np.dtype[np.void]:
    """Structured dtype of one record: a float32 field of what travels of each array."""
    return np.dtype([(array.name, np.float32, array.record_shape) for array in arrays])


def request_dtype(manifest: Manifest) -> np.dtype[np.void]:
    """Structured dtype of a request; its size is ``4 * words_in`` bytes."""
    return record_dtype(manifest.inputs)


def result_dtype(manifest: Manifest) -> np.dtype[np.void]:
    """Structured dtype of a result; its size is ``4 * words_out`` bytes."""
    return record_dtype(manifest.outputs)


def pack(layout: np.dtype[np.void], arrays: Mapping[str, Floats], count: int) -> Words:
    """Lay arrays out as words.

    Parameters
    ----------
    layout : of the records, from :func:`request_dtype`.
    arrays : for every field an array (count, ...) or, for a value that all records share, (...).
    count : number of records.

    Returns
    -------
    (count, words) uint32, a fresh array in C order.
    """
    records = np.empty(count, dtype=layout)
    for name in layout.names or ():
        records[name] = arrays[name]
    return records.view(np.uint32).reshape(count, layout.itemsize // 4)


def unpack(layout: np.dtype[np.void], words: Words) -> dict[str, Floats]:
    """Read words (n, words) as arrays (n, ...) by name: views of the words, not copies."""
    records = np.ascontiguousarray(words).view(layout).reshape(len(words))
    return {name: records[name] for name in layout.names or ()}
