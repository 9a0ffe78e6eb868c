"""A function in fixed point before it is scheduled: what its core will compute, as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.fixedpoint.float32 import fixed_to_float32, float32_to_fixed
from pinion.functions import Function
from pinion.graph import Graph, names
from pinion.graph.evaluate import Integers
from pinion.robot import Model

Floats = NDArray[np.float64]


class Candidate:
    """Formats that may be chosen: a function's integers, on float32 requests as they travel.

    Parameters
    ----------
    model, row : the robot, and the function of it, without states.
    fixed : its graph in fixed point.
    constants : values of result words that are not computed.

    Members
    -------
    model, row, fixed, constants : as given.
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
        """Results by block, (n, ...), of requests by block, (n, ...), and the flags (n,).

        The bits are those of the core; as floats, they are exact.
        """
        sent: dict[str, NDArray[np.float32]] = {}
        for block in self.row.inputs:
            flat = np.asarray(arrays[block.name], dtype=np.float32)
            flat = flat.reshape(len(flat), -1)
            sent |= {word: flat[:, at] for word, at in block.positions(self.model).items()}
        count = len(flat)
        flags = np.zeros(count, dtype=np.bool_)
        inputs: dict[str, Any] = {}
        formats = self._integers.formats
        for node, fmt in zip(self.fixed.nodes, formats, strict=True):
            if node.op == names.INPUT:
                word = str(node.params[0])
                bits = np.ascontiguousarray(sent[word]).view(np.uint32)
                inputs[word], bad = float32_to_fixed(bits, fmt)
                flags |= bad
        values = self._integers(inputs)
        flags |= values.any_saturated(count)
        found: dict[str, Floats | float] = dict(self.constants)
        for word, at in self.fixed.outputs:
            whole = np.broadcast_to(np.asarray(values.nodes[at]), (count,))
            back = np.ascontiguousarray(fixed_to_float32(whole, formats[at]), dtype=np.uint32)
            found[word] = back.view(np.float32).astype(np.float64)
        return {block.name: self._block(block, found, count) for block in self.row.results}, flags

    def _block(self, block: Any, found: Mapping[str, Any], count: int) -> Floats:
        dims = block.dims(self.model)
        flat = np.zeros((count, int(np.prod(dims))))
        for word, at in block.positions(self.model).items():
            flat[:, at] = found[word]
        whole = flat.reshape(count, *dims)
        if block.symmetric:
            whole = whole + np.swapaxes(np.tril(whole, -1), -1, -2)
        return whole
