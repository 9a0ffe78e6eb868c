"""Conversion between arrays and packets with one copy in each direction.

A record is the arrays of one request or result, one after another, so an array's part of all
records is a column of the packet. If only some elements are sent (see
`pinion.link.manifest.Array`), an index selects them; it is applied in blocks that fit the cache.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.base.arrays import Floats32
from pinion.link import Array

from .memory import Pool

BLOCK = 1024
"""Records to which an index is applied at a time."""

LARGE = 256 << 10
"""Bytes from which the memory of a result array is pooled."""

FEW = 32
"""Records up to which a plain copy is fastest."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RecordColumn:
    """The words of a record that hold one array.

    Members
    -------
    array : shape and name.
    start, stop : its words in the record.
    size : elements of the whole array.
    gather : (stop - start,) flat positions of the elements that are sent, None if all are.
    target, source : positions in the whole array and their words; None if all elements are sent.
    lump : the words of one record as one element.
    template : (size,) float32, values of the elements that are not sent; None if all are.
    """

    array: Array
    start: int
    stop: int
    size: int
    gather: NDArray[np.intp] | None
    target: NDArray[np.intp] | None
    source: NDArray[np.intp] | None
    template: Floats32 | None
    lump: np.dtype[np.void]

    def pack(self, words: Floats32, values: NDArray[Any], first: int) -> None:
        """Write values into the array's column of a packet.

        Parameters
        ----------
        words : (n, words of a record) float32 view of the packet's records.
        values : (count, size) numbers, or (1, size) for all records.
        first : the first record of ``values`` to pack.
        """
        column = words[:, self.start : self.stop]
        shared = len(values) == 1
        if self.gather is None:
            _copy(column, values if shared else values[first : first + len(words)], self.lump)
            return
        if shared:
            column[:] = values[:, self.gather]
            return
        for at in range(0, len(words), BLOCK):
            part = column[at : at + BLOCK]
            start = first + at
            part[:] = values[start : start + len(part)].take(self.gather, axis=1, mode="clip")

    def blank(self, count: int, pool: Pool | None = None) -> Floats32:
        """Return a (count, size) float32 array for results, with unsent elements already set."""
        length = 4 * count * self.size
        if pool is None or length < LARGE:
            results = np.empty((count, self.size), dtype=np.float32)
        else:
            results = pool.lease(length).view(np.float32).reshape(count, self.size)
        if self.template is not None and self.target is not None and len(self.target) < self.size:
            results[:] = self.template
        return results

    def unpack(self, words: Floats32, results: Floats32) -> None:
        """Copy the array's column of a packet into (n, size) results from `blank`."""
        column = words[:, self.start : self.stop]
        if self.target is None or self.source is None:
            _copy(results, column, self.lump)
            return
        full = len(self.target) == self.size
        for at in range(0, len(words), BLOCK):
            block = column[at : at + BLOCK].take(self.source, axis=1, mode="clip")
            if full:
                results[at : at + BLOCK] = block
            else:
                results[at : at + BLOCK, self.target] = block


def record_columns(arrays: Sequence[Array]) -> tuple[RecordColumn, ...]:
    """Return the columns of a record, one per array, in word order."""
    columns, at = [], 0
    for array in arrays:
        columns.append(_column(array, at))
        at += array.words
    return tuple(columns)


def flatten(
    columns: Sequence[RecordColumn], arrays: Mapping[str, NDArray[Any]]
) -> list[NDArray[Any]]:
    """Return checked arrays as (count, size), or (1, size) for a shared one; views if possible."""
    return [arrays[c.array.name].reshape(-1, c.size) for c in columns]


def _column(array: Array, start: int) -> RecordColumn:
    size = math.prod(array.shape)
    sent = None if array.sent is None else np.array(array.sent, dtype=np.intp)
    target = source = template = None
    if array.sent is not None:
        template = np.zeros(size, dtype=np.float32)
        for position, value in array.constants:
            template[position] = value
        words = {position: word for word, position in enumerate(array.sent)}
        if array.symmetric:
            mirror = np.arange(size).reshape(array.shape).T.reshape(-1)
            words |= {int(mirror[position]): word for position, word in words.items()}
            # The constants of a symmetric array apply to its lower half as well.
            template = np.where(template == 0, template[mirror], template)
        target = np.array(sorted(words), dtype=np.intp)
        source = np.array([words[position] for position in sorted(words)], dtype=np.intp)
    return RecordColumn(
        array=array,
        start=start,
        stop=start + array.words,
        size=size,
        gather=sent,
        target=target,
        source=source,
        template=template,
        lump=np.dtype((np.void, 4 * array.words)),
    )


def _copy(target: Floats32, source: NDArray[Any], lump: np.dtype[np.void]) -> None:
    """Copy rows; many float32 rows are copied as opaque bytes, which takes half the time."""
    if source.dtype != np.float32:
        with np.errstate(under="ignore"):
            target[:] = source
    elif len(source) > FEW and source.strides[1] == target.strides[1] == 4:
        target.view(lump)[:, 0] = source.view(lump)[:, 0]
    else:
        target[:] = source
