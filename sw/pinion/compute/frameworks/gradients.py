"""Functions of a robot with gradients, for any array framework.

The gradients are analytic: the rows that :mod:`.rules` names for a row are compiled and multiplied
with the cotangents of its results; no algorithm is differentiated automatically. Frameworks
differentiate these products and, by the rules of their rows, these rows, as often as rules exist.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.base.amounts import amount
from pinion.batch import InputError
from pinion.compute import cpu
from pinion.dynamics import count_of, parameters_of
from pinion.dynamics.parametric import GRAVITY
from pinion.functions import FUNCTIONS, Block
from pinion.robot import Model, coupled, load

from .positions import CROSS, Space, ambient, tangent
from .rules import CONSTANTS, RULES, STEP, UNIT, WITHOUT, ZERO, Call, GradientTerm

Arrays = Mapping[str, Any]

Run = Callable[["Differentiable", Arrays], Arrays]
"""Computes the results of a function from its inputs, both by name."""

_WEIGHTLESS = ("crba", "minv")
"""Rows that rules call for functions of gravity, and that do not depend on it."""

_PARAMETERS = "parameters"


@dataclass(frozen=True)
class _Plan:
    """Terms, operands and calls for gradients with respect to some inputs.

    Members
    -------
    terms : the products.
    operands : names of the arrays that they use.
    calls : calls by name, in order, each with its results.
    """

    terms: Sequence[GradientTerm]
    operands: Set[str]
    calls: Mapping[str, tuple[Call, Sequence[str]]]


class RowKernels:
    """Kernels of a robot's functions, each compiled when it is first needed.

    Members
    -------
    model : the robot.
    parameters : links whose inertial parameters are inputs, or ``gravity``.
    """

    def __init__(
        self,
        model: Model,
        compile: Callable[..., Any],
        parameters: tuple[str, ...],
        options: Mapping[str, Any],
    ) -> None:
        self.model = model
        self.parameters = parameters
        self._compile = compile
        self._options = options
        self._compiled: dict[tuple[str, tuple[str, ...]], Any] = {}
        self._functions: dict[tuple[str, tuple[str, ...]], Differentiable] = {}

    def __call__(self, row: str, results: Collection[str]) -> Any:
        """Return the kernel of a function with at least these results."""
        outputs = tuple(name for name in FUNCTIONS[row].optional if name in results)
        key = row, outputs
        if key not in self._compiled:
            self._compiled[key] = self._compile(
                self.model, row, outputs=outputs, parameters=self.parameters, **self._options
            )
        return self._compiled[key]

    def function(self, row: str, results: Sequence[str]) -> Differentiable:
        """Return a function with these results as a `Differentiable`."""
        key = row, tuple(results)
        if key not in self._functions:
            self._functions[key] = Differentiable(self, row, results)
        return self._functions[key]

    def of(self, row: str) -> RowKernels:
        """Return the kernels for a function; gravity is a parameter only if it has an effect."""
        return self._weightless if row in _WEIGHTLESS and GRAVITY in self.parameters else self

    @cached_property
    def _weightless(self) -> RowKernels:
        names = tuple(name for name in self.parameters if name != GRAVITY)
        return RowKernels(self.model, self._compile, names, self._options)

    def places(self, names: Collection[str]) -> list[int]:
        """Return the indices of the named parameters' values in the input ``parameters``."""
        return [
            p.first + k
            for p in parameters_of(self.model, self.parameters)
            if p.name in names
            for k in range(p.count)
        ]


class Differentiable:
    """A function of a robot with its vector-Jacobian product.

    Members
    -------
    kernels : the compiled rows.
    row : the function's name.
    inputs : shapes of its inputs, without the batch.
    results : shapes of the results that it returns.
    terms : products that are its gradient.
    """

    def __init__(self, kernels: RowKernels, row: str, results: Sequence[str]) -> None:
        self.kernels = kernels = kernels.of(row)
        self.row = row
        self.inputs = self._shapes(row)
        self._outputs = {b.name: b for b in FUNCTIONS[row].outputs}
        self.results = {r: self._outputs[r].dims(kernels.model) for r in results}
        self._rule = RULES.get(row)
        self._plans: dict[frozenset[str], _Plan] = {}
        self.terms = tuple(
            term
            for term in (() if self._rule is None else self._rule.terms)
            if term.of in self.results and term.by in self.inputs
        )

    def _shapes(self, row: str) -> dict[str, tuple[int, ...]]:
        shapes = {b.name: b.dims(self.kernels.model) for b in FUNCTIONS[row].inputs}
        if self.kernels.parameters:
            shapes[_PARAMETERS] = (count_of(self.kernels.parameters),)
        return shapes

    @property
    def kernel(self) -> Any:
        """The compiled function."""
        return self.kernels(self.row, self.results)

    def answer(self, values: Arrays) -> Any:
        """Return results in the form for the user: a single array, or a named tuple."""
        ordered = [values[name] for name in self.results]
        return ordered[0] if len(ordered) == 1 else self._answer(*ordered)

    @cached_property
    def _answer(self) -> Any:
        # One class for all calls, because JAX compares the types of results.
        return namedtuple(self.row, tuple(self.results))

    def compile(self) -> None:
        """Compile all kernels that the function and its first-order gradients need."""
        _ = self.kernel
        needs = [name for name in self.inputs if not self.refusal([name])]
        for call, results in self._plan(needs).calls.values():
            _ = self.kernels.function(call.row, results).kernel

    def batch(self, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        """Return the common batch shape of the inputs, from their shapes in order.

        Raises
        ------
        InputError
            If there are more or fewer arrays than inputs, or a shape does not fit: every array has
            the same axes of the batch, or none.
        """
        if len(shapes) != len(self.inputs):
            raise InputError(
                f"'{self.row}' needs {amount(len(self.inputs), 'array')} "
                f"({', '.join(self.inputs)}), not {len(shapes)}."
            )
        batch: tuple[int, ...] = ()
        for (name, inner), shape in zip(self.inputs.items(), shapes, strict=True):
            outer = tuple(shape[: len(shape) - len(inner)])
            fits = len(shape) >= len(inner) and tuple(shape[len(outer) :]) == inner
            if not fits or (outer and batch and outer != batch):
                axes = ", ".join(["...", *map(str, inner)])
                raise InputError(
                    f"'{name}' has the shape {tuple(shape)}: give ({axes}), with the same batch "
                    f"axes as the other arrays, or {inner}."
                )
            batch = batch or outer
        return batch

    def refusal(self, needs: Collection[str]) -> str:
        """Return why there is no gradient with respect to these inputs; empty if there is one."""
        if self._rule is None:
            return f"'{self.row}' has no gradient: {WITHOUT[self.row]}."
        pairs = {(term.of, term.by) for term in self.terms} | set(self._rule.zero)
        for by in needs:
            for of in self.results:
                if (of, by) not in pairs:
                    others = [x for x in self.inputs if (of, x) in pairs]
                    only = f", only with respect to {', '.join(others)}" if others else ""
                    return (
                        f"'{of}' of '{self.row}' has no gradient with respect to '{by}'{only}: "
                        f"pass '{by}' as a constant."
                    )
        if self.kernels.model.coupled and any("before" in t.arrays for t in self.terms):
            return (
                f"'{self.row}' has no gradient for '{self.kernels.model.name}', which has mimic "
                "joints: use 'forward_kinematics', differentiated once."
            )
        return ""

    def operands(self, needs: Collection[str]) -> tuple[str, ...]:
        """Return the names of the arrays, other than inputs, that these inputs' gradients need."""
        return tuple(sorted(self._plan(needs).operands - self.inputs.keys()))

    def linear(self, space: Space, inputs: Arrays, needs: Collection[str], run: Run) -> Arrays:
        """Return the results, and the arrays by which :meth:`pull` multiplies cotangents.

        Parameters
        ----------
        inputs : (..., *shape) each.
        needs : inputs with respect to which gradients are needed.
        run : computes rows.
        """
        refusal = self.refusal(needs)
        if refusal:
            raise InputError(refusal)
        plan = self._plan(needs)
        calls, operands = plan.calls, plan.operands
        values = {
            result: source
            for result, source in (self._rule.value if self._rule else {}).items()
            if source.partition(".")[0] in calls
        }
        every = [r for r in self._outputs if r in self.results or r in operands]
        arrays: dict[str, Any] = {}
        if direct := [r for r in every if r not in values]:
            arrays |= run(self.kernels.function(self.row, direct), inputs)
        for label, (call, results) in calls.items():
            function = self.kernels.function(call.row, results)
            arguments = function.arguments(space, call, {**inputs, **arrays}, self)
            arrays |= {f"{label}.{r}": x for r, x in run(function, arguments).items()}
            arrays |= {r: arrays[s] for r, s in values.items() if s.partition(".")[0] == label}
        return {name: x for name, x in arrays.items() if name in operands or name in self.results}

    def pull(
        self, space: Space, arrays: Arrays, cotangents: Arrays, needs: Collection[str]
    ) -> dict[str, Any]:
        """Return the gradients by input, except those that are zero everywhere.

        Parameters
        ----------
        arrays : inputs, and the arrays of :meth:`linear`.
        cotangents : of the results, (..., *shape) each; a missing one is zero.
        """
        gradients: dict[str, Any] = {}
        tangents = {
            name: tangent(space, self.kernels.model, arrays[name], x)
            if self._moves(self._outputs[name])
            else x
            for name, x in cotangents.items()
        }
        for term in self._plan(needs).terms:
            if term.of not in tangents:
                continue
            factors = [
                self._constant(space, name) if name in CONSTANTS else arrays[name]
                for name in term.arrays
            ]
            part = space.module.einsum(term.spec, tangents[term.of], *factors)
            part = part if term.factor == 1.0 else term.factor * part
            gradients[term.by] = gradients[term.by] + part if term.by in gradients else part
        if "q" in gradients:
            gradients["q"] = ambient(space, self.kernels.model, arrays["q"], gradients["q"])
        return gradients

    def arguments(
        self, space: Space, call: Call, arrays: Arrays, caller: Differentiable
    ) -> dict[str, Any]:
        """Return this function's inputs for a call by another function.

        Parameters
        ----------
        arrays : inputs of the other one, and results so far.
        """
        name, inner = next(iter(caller.inputs.items()))
        batch = tuple(arrays[name].shape[: arrays[name].ndim - len(inner)])
        units = call.units
        rows = () if units is None else self.inputs[units]

        def full(array: Any, shape: tuple[int, ...]) -> Any:
            return space.module.broadcast_to(array, (*batch, *rows, *shape))

        def argument(name: str, shape: tuple[int, ...]) -> Any:
            source = call.at.get(name, name)
            if source == ZERO:
                return full(space.constant(f"0 {shape}", np.zeros(shape)), shape)
            if source == UNIT:
                return full(space.constant(f"1 {shape}", np.eye(shape[0])), shape)
            array = arrays[name if source == STEP else source]
            if name == _PARAMETERS and array.shape[-1:] != shape:
                array = array[..., caller.kernels.places(self.kernels.parameters)]
            array = array.reshape((*batch, *(1 for _ in rows), *shape))
            if source == STEP:
                array = array + space.constant(f"1 {shape}", np.eye(shape[0]))
            return full(array, shape)

        return {name: argument(name, shape) for name, shape in self.inputs.items()}

    def _moves(self, block: Block) -> bool:
        return block.shape == ("nq",)

    def _plan(self, needs: Collection[str]) -> _Plan:
        """Return the terms, operands and calls for gradients with respect to some inputs."""
        key = frozenset(needs)
        if key not in self._plans:
            terms = [term for term in self.terms if term.by in key]
            operands = {name for term in terms for name in term.arrays} - CONSTANTS
            # Cotangents of positions become tangent at the positions.
            operands |= {t.of for t in terms if self._moves(self._outputs[t.of])}
            self._plans[key] = _Plan(terms, operands, self._calls(terms))
        return self._plans[key]

    def _calls(self, terms: Sequence[GradientTerm]) -> dict[str, tuple[Call, list[str]]]:
        """Return the calls that terms use, in order, each with the results used."""
        if self._rule is None:
            return {}
        sources = {name for term in terms for name in term.arrays if "." in name}
        calls: dict[str, tuple[Call, list[str]]] = {}
        for label, call in reversed(list(self._rule.calls.items())):
            if any(s.partition(".")[0] == label for s in sources):
                sources |= {s for s in call.at.values() if "." in s}
        for label, call in self._rule.calls.items():
            sources_of = {s for s in sources if s.partition(".")[0] == label}
            if sources_of:
                sources_of |= {s for s in self._rule.value.values() if s.startswith(f"{label}.")}
                outputs = [b.name for b in FUNCTIONS[call.row].outputs]
                calls[label] = call, [r for r in outputs if f"{label}.{r}" in sources_of]
        return calls

    def _constant(self, space: Space, name: str) -> Any:
        if name == "ones":
            shape = self.inputs[_PARAMETERS]
            return space.constant(f"ones {shape}", np.ones(shape))
        return space.constant(name, self._constants[name])

    @cached_property
    def _constants(self) -> dict[str, NDArray[np.float64]]:
        """Constants of the terms by name (:data:`.rules.CONSTANTS`)."""
        model = self.kernels.model
        n = model.nv
        both = np.eye(6)
        turn, swing = np.zeros((2, 6, 6, 6))
        # Changes of a column j of J when the tip turns with column k, and is moved by it.
        turn[:3, :3, :3] = turn[3:, :3, 3:] = CROSS
        swing[3:, 3:, :3] = -CROSS
        start = np.concatenate([np.full(s.stop - s.start, s.start) for s in model.v_slices])
        before = (start[:, None] <= start[None, :]).astype(float)  # joint of k, joint of j
        mass = sum(body.inertia.mass for body in model.bodies)
        return {
            "angular": both[:3],
            "linear": both[3:],
            "cross": CROSS,
            "turn": turn,
            "swing": swing,
            "bracket": turn - swing,
            "before": before,
            "after": 1.0 - before,
            "first": np.eye(n, 2 * n),
            "last": np.eye(n, 2 * n, n),
            "per_mass": np.array(1.0 / mass if mass > 0.0 else np.nan),
        }


def differentiable(
    model: Model | str,
    function: str,
    *,
    outputs: Sequence[str] = (),
    parameters: Sequence[str] = (),
    joint_terms: bool | Sequence[str] = (),
    compile: Callable[..., Any] = cpu.compile,
    **options: Any,
) -> Differentiable:
    """Return a compiled function of a robot with its gradients.

    Parameters
    ----------
    outputs, parameters, joint_terms : of the row (:class:`pinion.functions.RowOptions`); `outputs`
        may also name A and B of ``euler_step``.
    compile : returns a kernel, as :func:`pinion.compute.cpu.compile` and
        :func:`pinion.compute.cuda.compile` do.
    options : of `compile`.

    Raises
    ------
    InputError
        As `compile`, or if the row has no gradient; the message says what can be used instead.
    """
    if function in WITHOUT:
        raise InputError(f"'{function}' has no gradient: {WITHOUT[function]}.")
    if function not in RULES:
        raise InputError(
            f"There is no function '{function}' with a gradient: choose one of {', '.join(RULES)}."
        )
    for name in ("frames", "reference"):
        if options.pop(name, None):
            raise InputError(
                f"Gradients do not support the option '{name}': functions of a frame have "
                "gradients only for the robot's tip, in the default reference frame; omit "
                f"'{name}'."
            )
    row, rule = FUNCTIONS[function], RULES[function]
    outputs, parameters = (
        tuple(x.strip() for x in names.split(",") if x.strip())
        if isinstance(names, str)
        else tuple(names)
        for names in (outputs, parameters)
    )
    choice = {term.of for term in rule.terms}
    for name in outputs:
        if name not in choice:
            raise InputError(
                f"'{function}' has no result '{name}' with a gradient: choose from "
                f"{', '.join(b.name for b in row.outputs if b.name in choice)}."
            )
    if row.passive:
        # Rows that no terms change are differentiated by rows that terms would change.
        options["joint_terms"] = joint_terms
    usual = rule.results or tuple(b.name for b in row.outputs if b.name not in row.optional)
    results = [b.name for b in row.outputs if b.name in usual or b.name in outputs]
    robot = coupled(load(model) if isinstance(model, str) else model)
    result = RowKernels(robot, compile, parameters, options).function(function, results)
    result.compile()
    return result
