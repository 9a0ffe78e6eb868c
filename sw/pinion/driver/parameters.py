"""Robot parameters of a batch: range checks, and the requests that can share a packet."""

from __future__ import annotations

import math

import numpy as np

from pinion.base.arrays import Floats32
from pinion.batch import RequestArrays
from pinion.link import Manifest

from .errors import DriverError

TINY = 1e-30
"""Bounds closer to zero are rounded zeros."""


class ParameterSets:
    """The input of a build that is sent once per packet, before the records.

    Parameters
    ----------
    manifest : of a build with parameters.
    """

    def __init__(self, manifest: Manifest) -> None:
        assert manifest.parameters is not None
        self._array = array = manifest.parameters
        self._made_for = ", ".join(
            text
            for name in ("parameters", "parameter_range")
            if (text := manifest.options.get(name))
        )
        self._names = list(manifest.parameter_low)
        # The bounds are float32 numbers, like requests.
        self._low = np.array(list(manifest.parameter_low.values()), dtype=np.float32)
        self._high = np.array(list(manifest.parameter_high.values()), dtype=np.float32)
        self._size = math.prod(array.shape)

    def runs(self, requests: RequestArrays) -> list[tuple[int, int, Floats32]]:
        """Return (first, end, words) of each run of requests with equal parameters.

        Raises
        ------
        DriverError
            If a value is outside the bounds that the formats of the build were chosen for.
        """
        if not requests.count:
            return []
        values = requests.arrays[self._array.name].reshape(-1, self._size)
        self._check(values if self._array.sent is None else values[:, list(self._array.sent)])
        words = np.ascontiguousarray(self._array.gather(values).astype(np.float32))
        if len(words) == 1:
            return [(0, requests.count, words[0])]
        changes = np.flatnonzero((words[1:] != words[:-1]).any(axis=1)) + 1
        starts = [0, *changes.tolist()]
        ends = [*starts[1:], len(words)]
        return [(start, end, words[start]) for start, end in zip(starts, ends, strict=True)]

    def _check(self, values: Floats32) -> None:
        values = values.astype(np.float32)  # as they are sent
        outside = (values < self._low) | (values > self._high)
        if not outside.any():
            return
        request, word = (int(k) for k in np.argwhere(outside)[0])
        where = f" of request {request}" if len(values) > 1 else ""
        # With all digits: a rounded bound could be outside the range.
        value, low, high = (
            "0" if abs(number) < TINY else str(number).removesuffix(".0")
            for number in (values[request, word], self._low[word], self._high[word])
        )
        raise DriverError(
            f"{self._names[word]}{where} is {value}, outside {low} to {high}, "
            f"the range of this build ({self._made_for}): give parameters within the range, or "
            "build again for a wider one."
        )
