"""Jacobians of dynamics from CPU kernels, for tests of the frameworks on a device."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.compute import cpu

KERNELS = MappingProxyType(
    {
        "rnea": (("rnea", ()), ("rnea_derivatives", ()), ("crba", ())),
        "aba": (("fd_derivatives", ("minv",)),),
    }
)
"""Kernels of value and Jacobians, in order, with their optional results, by function."""

RESULTS = MappingProxyType(
    {
        "rnea": ("tau", "dtau_dq", "dtau_dqd", "M"),
        "aba": ("qdd", "dqdd_dq", "dqdd_dqd", "minv"),
    }
)
"""Value and Jacobians by the inputs, in order, by function."""


class Jacobians:
    """Function of a robot and its Jacobians, computed by CPU kernels."""

    def __init__(self, robot: str, function: str, *, dtype: str = "float64") -> None:
        self._function = function
        self._plain = cpu.compile(robot, function, dtype=dtype)
        self._kernels = [
            cpu.compile(robot, row, dtype=dtype, outputs=outputs)
            for row, outputs in KERNELS[function]
        ]

    def value(self, *inputs: Any) -> NDArray[Any]:
        """Compute the function of (n, nv) arrays."""
        return np.asarray(self._plain(*inputs)[RESULTS[self._function][0]])

    def linear(self, *inputs: Any) -> tuple[NDArray[Any], Sequence[NDArray[Any]]]:
        """Compute the function (n, nv) and its Jacobians, (n, nv, nv) each."""
        arrays: dict[str, Any] = {}
        for kernel in self._kernels:
            result = kernel(*inputs[: len(kernel.inputs)])
            arrays |= {name: result[name] for name in result.names}
        value, *jacobians = (arrays[name] for name in RESULTS[self._function])
        return value, jacobians
