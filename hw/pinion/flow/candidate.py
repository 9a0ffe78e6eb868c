"""Evaluation of a function in fixed point before scheduling, on arrays of requests."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.base.arrays import Floats
from pinion.functions import Function
from pinion.graph import Graph
from pinion.graph.evaluate import Integers
from pinion.robot import Model


class Candidate:
    """Function in candidate formats, evaluated in integers for float32 requests.

    Parameters
    ----------
    model, row : the robot and its function, without states.
    fixed : its graph in fixed point.
    constants : values of result words that are not computed.
    """

    def __init__(
        self, model: Model, row: Function, fixed: Graph, constants: Mapping[str, float]
    ) -> None:
        self.model = model
        self.row = row
        self.fixed = fixed
        self.constants = constants

    @cached_property
    def _integers(self) -> Integers:
        return Integers(self.fixed)

    def run(self, arrays: Mapping[str, Any]) -> tuple[dict[str, Floats], NDArray[np.bool_]]:
        """Return the results (n, ...) by block and the flags (n,) for requests (n, ...) by block.

        The results have the core's bits, exactly represented as floats.
        """
        sent: dict[str, NDArray[np.float32]] = {}
        for block in self.row.inputs:
            flat = np.asarray(arrays[block.name], dtype=np.float32)
            flat = flat.reshape(len(flat), -1)
            sent |= {word: flat[:, at] for word, at in block.positions(self.model).items()}
        count = len(flat)
        inputs, flags = self._integers.received(sent, count)
        values = self._integers(inputs)
        flags |= values.any_saturated(count)
        results = self._integers.sent(values, count).astype(np.float64).T
        words: dict[str, Floats | float] = dict(self.constants)
        words |= {word: x for (word, _), x in zip(self.fixed.outputs, results, strict=True)}
        return {block.name: self._block(block, words, count) for block in self.row.results}, flags

    def _block(self, block: Any, values: Mapping[str, Any], count: int) -> Floats:
        dims = block.dims(self.model)
        flat = np.zeros((count, int(np.prod(dims))))
        for word, at in block.positions(self.model).items():
            flat[:, at] = values[word]
        whole = flat.reshape(count, *dims)
        if block.symmetric:
            whole = whole + np.swapaxes(np.tril(whole, -1), -1, -2)
        return whole
