"""Dynamics with their Jacobians, for PyTorch and JAX.

Two functions have Jacobians by all of their inputs:

======== ================== =======================================================
function value              Jacobians
======== ================== =======================================================
rnea     tau(q, qd, qdd)    dtau_dq, dtau_dqd, and the inertia matrix M by qdd
aba      qdd(q, qd, tau)    dqdd_dq, dqdd_dqd, and its inverse by tau
======== ================== =======================================================

They are the analytic Jacobians of the compiled functions ``rnea_derivatives`` with ``crba`` and
``fd_derivatives`` with ``minv``; the algorithm is not differentiated automatically.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pinion.batch import InputError
from pinion.compute import cpu
from pinion.robot import Model, coupled, load

Run = Callable[[Any, Mapping[str, Any]], Mapping[str, Any]]
"""A function that runs a kernel with its inputs by name and returns its results by name."""


@dataclass(frozen=True)
class Rule:
    """The kernels and Jacobians of a function.

    Members
    -------
    inputs : names of its arguments, each (n, nv).
    value : name of its result.
    kernels : functions that compute the Jacobians, each with its optional results.
    jacobians : names of the results that are the Jacobians, in the order of the inputs.
    """

    inputs: tuple[str, ...]
    value: str
    kernels: tuple[tuple[str, tuple[str, ...]], ...]
    jacobians: tuple[str, ...]


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "rnea": Rule(
            inputs=("q", "qd", "qdd"),
            value="tau",
            kernels=(("rnea", ()), ("rnea_derivatives", ()), ("crba", ())),
            jacobians=("dtau_dq", "dtau_dqd", "M"),
        ),
        "aba": Rule(
            inputs=("q", "qd", "tau"),
            value="qdd",
            kernels=(("fd_derivatives", ("minv",)),),
            jacobians=("dqdd_dq", "dqdd_dqd", "minv"),
        ),
    }
)


def _called(kernel: Any, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    result = kernel(**arguments)
    return {name: result[name] for name in result.names}


class Differentiable:
    """A function of a robot with its Jacobians.

    Members
    -------
    model, function, rule : its robot, name and rule.
    plain : the kernel of the function alone.
    kernels : the kernels of value and Jacobians.
    """

    def __init__(
        self,
        model: Model | str,
        function: str,
        *,
        dtype: str = "float64",
        compile: Callable[..., Any] = cpu.compile,
        **options: Any,
    ) -> None:
        """Compile the kernels.

        Parameters
        ----------
        compile : returns a kernel, as :func:`pinion.compute.cpu.compile` and
            :func:`pinion.compute.cuda.compile` do.
        options : of `compile`.
        """
        if function not in RULES:
            raise InputError(f"'{function}' has no gradient: choose one of {', '.join(RULES)}.")
        self.model = coupled(load(model) if isinstance(model, str) else model)
        self.function = function
        self.rule = RULES[function]
        if self.model.nq != self.model.nv:
            raise InputError(
                f"'{self.model.name}' has {self.model.nq} positions but {self.model.nv} "
                "velocities: gradients need a robot whose joints have one coordinate each."
            )
        self.plain = compile(self.model, function, dtype=dtype, **options)
        self.kernels = tuple(
            compile(self.model, name, dtype=dtype, outputs=outputs, **options)
            for name, outputs in self.rule.kernels
        )

    def value(self, *inputs: Any, run: Run = _called) -> Any:
        """Return the function of arrays (n, nv) or (nv,), or of other types that `run` accepts."""
        return run(self.plain, dict(zip(self.rule.inputs, inputs, strict=True)))[self.rule.value]

    def linear(self, *inputs: Any, run: Run = _called) -> tuple[Any, Sequence[Any]]:
        """Return the function and its Jacobians, (n, nv) and (n, nv, nv) each."""
        arguments = dict(zip(self.rule.inputs, inputs, strict=True))
        results: dict[str, Any] = {}
        for kernel in self.kernels:
            results |= run(kernel, {a.name: arguments[a.name] for a in kernel.inputs})
        return results[self.rule.value], [results[name] for name in self.rule.jacobians]
