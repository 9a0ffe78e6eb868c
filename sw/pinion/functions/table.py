"""The table of functions: what goes in, what comes out, and how each is traced for a model.

One row serves every backend: the float model, the hardware core, the host driver. Adding a row is
described in CONTRIBUTING.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion import dynamics
from pinion.graph import Graph, Tracer, Word
from pinion.robot import Model

Floats = NDArray[np.float64]
Scalars = Sequence[Any]

# Helpers whose source lines say nothing about the algorithm.
_HELPERS = ("axis.py", "spatial.py", "scalar.py", "tensor.py")


class FunctionError(ValueError):
    """An unknown function or array name, or an array that does not fit; the message says which."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """A named array of a request or a result.

    Members
    -------
    name : such as ``q`` or ``dtau_dq``.
    shape : its axes without the batch, as names of model dimensions: ``("nv",)``.
    unit : SI unit of an element, revolute | prismatic.
    symmetric : a symmetric matrix, of which only the lower triangle travels.
    """

    name: str
    shape: tuple[str, ...]
    unit: str
    symmetric: bool = False

    def dims(self, model: Model) -> tuple[int, ...]:
        """Axes as numbers for a model."""
        return tuple({"nq": model.nq, "nv": model.nv}[axis] for axis in self.shape)

    def positions(self, model: Model) -> dict[Word, int]:
        """Its words in record order (row by row), ``tau[0]`` or ``minv[1,0]``, and for each the
        flat position of its element in the array.
        """
        dims = self.dims(model)
        return {
            Word(self.name, index): position
            for position, index in enumerate(np.ndindex(*dims))
            if not self.symmetric or index[0] >= index[1]
        }

    def words(self, model: Model) -> list[Word]:
        """Names of its words in record order."""
        return list(self.positions(model))


@dataclass(frozen=True, kw_only=True)
class Function:
    """A row of the table.

    Members
    -------
    name, doc : as on the command line.
    inputs, outputs : blocks in record order.
    scalars : the algorithm over scalars; takes the model, one sequence of scalars (or of rows) an
        input block, and ``region``; returns one such sequence an output block.
    floats : the float model; takes the model and one array (n, ...) an input block and returns one
        array an output block.
    options : how it differs from the row's default, for the manifest.
    joint_space : results depend on the robot only through its equations of motion in the joints'
        coordinates. False for a row that takes or gives anything of a link: external forces,
        poses, energies.
    """

    name: str
    doc: str
    inputs: tuple[Block, ...]
    outputs: tuple[Block, ...]
    scalars: Callable[..., Sequence[Sequence[Any]]]
    floats: Callable[..., Sequence[Floats]]
    options: Mapping[str, str] = field(default_factory=dict)
    joint_space: bool = True

    def trace(self, model: Model, *, minimal: bool = True) -> Graph:
        """Run the algorithm on symbols for one robot: a graph with its constants inside.

        Parameters
        ----------
        minimal : trace :func:`pinion.dynamics.minimal_model`, which has the same joint-space
            dynamics and fewer constants, where the row allows it; else the robot as it is.

        Raises
        ------
        FunctionError
            When the robot has a joint that is neither revolute nor prismatic.
        """
        check_traceable(model)
        if minimal and self.joint_space:
            model = dynamics.minimal_model(model)
        tracer = Tracer(skip=_HELPERS)
        arguments = [_symbols(tracer, block, model) for block in self.inputs]
        results = self.scalars(model, *arguments, region=tracer.region)
        for block, values in zip(self.outputs, results, strict=True):
            flat = _flat(values)
            for word, position in block.positions(model).items():
                tracer.output(word, flat[position])
        return tracer.finish()

    def evaluate(self, model: Model, arrays: Mapping[str, Floats]) -> dict[str, Floats]:
        """The float model in float64 on a batch, by block name."""
        results = self.floats(model, *(arrays[block.name] for block in self.inputs))
        return {b.name: r for b, r in zip(self.outputs, results, strict=True)}


def check_traceable(model: Model) -> None:
    """Raise for a robot whose joints only the float models know, naming the joints."""
    odd = [body.joint for body in model.bodies if not body.joint.kind.simple]
    if not odd:
        return
    shown = ", ".join(f"'{joint.name}' ({joint.kind.value})" for joint in odd[:4])
    more = f" and {len(odd) - 4} more" if len(odd) > 4 else ""
    raise FunctionError(
        f"Cores take revolute and prismatic joints alone, but the robot '{model.name}' has "
        f"{shown}{more}: load it with a fixed base and without such joints, or use the float "
        "models of pinion.dynamics."
    )


def _symbols(tracer: Tracer, block: Block, model: Model) -> list[Any]:
    """Input symbols of a block: a list, or rows of a matrix (a symmetric one shares symbols)."""
    symbols = {position: tracer.input(w) for w, position in block.positions(model).items()}
    dims = block.dims(model)
    if len(dims) == 1:
        return [symbols[i] for i in range(dims[0])]
    rows, columns = dims
    return [
        [
            symbols[(j * columns + i) if block.symmetric and j > i else (i * columns + j)]
            for j in range(columns)
        ]
        for i in range(rows)
    ]


def _flat(values: Sequence[Any]) -> list[Any]:
    flat: list[Any] = []
    for value in values:
        flat += _flat(value) if isinstance(value, (list, tuple)) else [value]
    return flat


_Q = Block(name="q", shape=("nq",), unit="rad | m")
_QD = Block(name="qd", shape=("nv",), unit="rad/s | m/s")
_QDD = Block(name="qdd", shape=("nv",), unit="rad/s^2 | m/s^2")
_TAU = Block(name="tau", shape=("nv",), unit="N m | N")
_MATRIX = ("nv", "nv")
_M = Block(name="M", shape=_MATRIX, unit="kg m^2 | kg", symmetric=True)
_MINV = Block(name="minv", shape=_MATRIX, unit="1/(kg m^2) | 1/kg", symmetric=True)
_DTAU_DQ = Block(name="dtau_dq", shape=_MATRIX, unit="N m/rad | N/m")
_DTAU_DQD = Block(name="dtau_dqd", shape=_MATRIX, unit="N m s/rad | N s/m")
_DQDD_DQ = Block(name="dqdd_dq", shape=_MATRIX, unit="1/s^2")
_DQDD_DQD = Block(name="dqdd_dqd", shape=_MATRIX, unit="1/s")

DERIVATIVES = ("composite", "column")


def _rnea(derivatives: str) -> Function:
    return Function(
        name="rnea",
        doc="inverse dynamics: tau from q, qd, qdd (recursive Newton-Euler algorithm)",
        inputs=(_Q, _QD, _QDD),
        outputs=(_TAU,),
        scalars=lambda model, q, qd, qdd, *, region: (
            dynamics.rnea_scalars(model, q, qd, qdd, region=region),
        ),
        floats=lambda model, *x: (dynamics.rnea(model, *x),),
    )


def _rnea_derivatives(derivatives: str) -> Function:
    return Function(
        name="rnea_derivatives",
        doc="gradient of inverse dynamics by q and qd",
        inputs=(_Q, _QD, _QDD),
        outputs=(_DTAU_DQ, _DTAU_DQD),
        scalars=lambda model, q, qd, qdd, *, region: dynamics.rnea_derivatives_scalars(
            model, q, qd, qdd, region=region, method=derivatives
        ),
        floats=dynamics.rnea_derivatives,
    )


def _crba(derivatives: str) -> Function:
    return Function(
        name="crba",
        doc="joint-space inertia matrix M(q) (composite rigid bodies)",
        inputs=(_Q,),
        outputs=(_M,),
        scalars=lambda model, q, region: (dynamics.crba_scalars(model, q, region=region),),
        floats=lambda model, q: (dynamics.crba(model, q),),
    )


def _minv(derivatives: str) -> Function:
    return Function(
        name="minv",
        doc="inverse of the joint-space inertia matrix (L^T D L of the composite rigid bodies)",
        inputs=(_Q,),
        outputs=(_MINV,),
        scalars=lambda model, q, region: (dynamics.minv_scalars(model, q, region=region),),
        floats=lambda model, q: (dynamics.minv(model, q),),
    )


def _aba(derivatives: str) -> Function:
    return Function(
        name="aba",
        doc="forward dynamics: qdd from q, qd, tau (articulated-body algorithm)",
        inputs=(_Q, _QD, _TAU),
        outputs=(_QDD,),
        scalars=lambda model, q, qd, tau, *, region: (
            dynamics.aba_scalars(model, q, qd, tau, region=region),
        ),
        floats=lambda model, *x: (dynamics.aba(model, *x),),
    )


def _fd_derivatives(derivatives: str) -> Function:
    def scalars(
        model: Model, q: Scalars, qd: Scalars, tau: Scalars, *, region: Any
    ) -> Sequence[Sequence[Any]]:
        full = dynamics.fd_derivatives_scalars(model, q, qd, tau, region=region, method=derivatives)
        return full.qdd, full.dqdd_dq, full.dqdd_dqd, full.minv

    return Function(
        name="fd_derivatives",
        doc="forward dynamics with its gradient, all from q, qd, tau",
        inputs=(_Q, _QD, _TAU),
        outputs=(_QDD, _DQDD_DQ, _DQDD_DQD, _MINV),
        scalars=scalars,
        floats=dynamics.fd_derivatives,
    )


def _fd_derivatives_from_minv(derivatives: str) -> Function:
    return Function(
        name="fd_derivatives_from_minv",
        doc="gradient of forward dynamics with qdd and M^-1 given (the 2021 paper's partition)",
        inputs=(_Q, _QD, _QDD, _MINV),
        outputs=(_DQDD_DQ, _DQDD_DQD),
        scalars=lambda model, q, qd, qdd, minv, *, region: (
            dynamics.fd_derivatives_from_minv_scalars(
                model, q, qd, qdd, minv, region=region, method=derivatives
            )
        ),
        floats=dynamics.fd_derivatives_from_minv,
    )


_MAKERS: tuple[Callable[[str], Function], ...] = (
    _rnea,
    _rnea_derivatives,
    _crba,
    _minv,
    _aba,
    _fd_derivatives,
    _fd_derivatives_from_minv,
)

# Results that come only when they are asked for.
_OPTIONAL: Mapping[str, tuple[str, ...]] = MappingProxyType({"fd_derivatives": ("minv",)})

_WITH_GRADIENT = ("rnea_derivatives", "fd_derivatives", "fd_derivatives_from_minv")

FUNCTIONS: Mapping[str, Callable[[str], Function]] = MappingProxyType(
    {maker("composite").name: maker for maker in _MAKERS}
)


def function(name: str, *, derivatives: str = "composite", outputs: Sequence[str] = ()) -> Function:
    """A row by name.

    Parameters
    ----------
    derivatives : ``composite`` (closed form, fewest operations) or ``column`` (one chain a joint,
        the formulation of Plancher et al. 2021), for the functions that contain a gradient.
    outputs : optional results to add, such as ``minv`` for ``fd_derivatives``.

    Raises
    ------
    FunctionError
        When there is no such row or variant; the message lists the names.
    """
    if name not in FUNCTIONS:
        raise FunctionError(f"There is no function '{name}'; choose one of {', '.join(FUNCTIONS)}.")
    if derivatives not in DERIVATIVES:
        raise FunctionError(
            f"There is no formulation '{derivatives}' of the derivatives; choose one of "
            f"{', '.join(DERIVATIVES)}."
        )
    if derivatives != "composite" and name not in _WITH_GRADIENT:
        raise FunctionError(
            f"'{name}' contains no gradient, so it has no formulation '{derivatives}'; the "
            f"functions that do are {', '.join(_WITH_GRADIENT)}."
        )
    row = FUNCTIONS[name](derivatives)
    optional = _OPTIONAL.get(name, ())
    known = {block.name for block in row.outputs}
    for output in outputs:
        if output not in known:
            raise FunctionError(
                f"'{name}' has no result '{output}'; its results are {', '.join(sorted(known))}."
            )
    kept = [b.name not in optional or b.name in outputs for b in row.outputs]
    options = {} if derivatives == "composite" else {"derivatives": derivatives}
    added = [name for name in optional if name in outputs]
    if added:
        options["outputs"] = ",".join(added)
    if all(kept):
        return replace(row, options=options)
    scalars, floats = row.scalars, row.floats

    def chosen(values: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(value for value, keep in zip(values, kept, strict=True) if keep)

    return replace(
        row,
        outputs=chosen(row.outputs),
        scalars=lambda *a, **k: chosen(scalars(*a, **k)),
        floats=lambda *a, **k: chosen(floats(*a, **k)),
        options=options,
    )
