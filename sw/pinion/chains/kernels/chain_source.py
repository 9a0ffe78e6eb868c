"""Source texts and launch configurations of a function's kernels for chains of n links.

:mod:`.cuda` lists the functions and methods, compiles the kernels and runs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pinion.batch import InputError
from pinion.compute.cuda.device import Launch

from .device_cfa import SOLVERS, CfaKernel, cfa_kernel, closed_kernel, words_a_link
from .device_chain import BLOCK_LINKS, SCALARS, WARP, ThreadShape, shape_of

__all__ = ["METHODS", "ChainSource", "KernelSource", "source"]

METHODS: Mapping[str, tuple[str, ...]] = {
    "rnea": ("scan", "warp", "thread"),
    "aba": ("jsiia", "hybrid", "abia", "warp", "thread", "cfa_oee", "cfa_oer", "cfa_ldl"),
    "closed": ("cfa_oee", "cfa_oer", "cfa_ldl", "two_streams"),
}
"""Methods of each function."""

SHARED_BYTES = 48 * 1024
"""Shared memory of a block that is available without a request to the device."""

_MOVING, _CARRIED, _AFFINE, _TRANSPOSED = 24, 18, 42, 72  # words of elements, and of two inertias
_INVERSE_WORKSPACE, _FORWARD_WORKSPACE, _FACTORS = 6, 14, 7  # numbers per link
_THREADS = 128  # of a block with one robot per thread
MOST_THREADS = 256  # threads of any block, with 255 registers each

_SOLVERS = {f"cfa_{solver}": solver for solver in SOLVERS} | {"two_streams": "oee"}  # by method
_PARTS = ("STEP_I", "STEP_II", "AFTER")  # of two streams
_COUNTER_BYTES = 16  # barrier of a grid, zero before its first launch
ZERO_BYTES = 2 * _COUNTER_BYTES  # at the beginning of scratch memory, for two parallel grids
HELD = {"G_C": (6,), "F": (6,), "Lambda_inverse": (6, 6)}  # shapes of arrays without links

_ARGUMENTS = "robots, n, numbers, chain_step, robot_step, step"


@dataclass(frozen=True, kw_only=True)
class KernelSource:
    """A kernel's source and its launch configuration.

    Its parameters have eight bytes each: robots, links, address of the chains' numbers, distance
    of robots' chains, distances of robots and of links in the arrays (``kernels/chain.cuh``),
    address of scratch memory, addresses of `arrays`. `constrained` kernels have further ones, see
    :class:`.device_cfa.CfaKernel`.

    Members
    -------
    name, text : CUDA C++17 for NVRTC, with ``-fmad=false``.
    arrays : names of the arrays, inputs first.
    shape : threads and links; in the scope ``Thread`` each thread computes a robot.
    per_robot : number of the launch's robots for one robot, see ``kernels/jsiia.cuh``.
    shared_bytes : shared memory per block.
    elements : words of the scans' elements, for a grid's scratch memory.
    workspace : number of words per link in scratch memory, after those of a grid.
    constrained : whether it computes constraint forces; the workspace is its work memory.
    part : of `constrained` ones, one of :data:`.device_cfa.PARTS`; ``STEP_II`` may run in parallel
        to ``STEP_I``.
    """

    name: str
    text: str
    arrays: tuple[str, ...]
    shape: ThreadShape
    per_robot: int = 1
    shared_bytes: int = 0
    elements: tuple[int, ...] = ()
    workspace: int = 0
    constrained: bool = False
    part: str = "ALL"

    def launch(self, robots: int) -> Launch:
        """Return the launch configuration for a number of robots; a grid handles one robot."""
        blocks = self.shape.blocks(robots * self.per_robot)
        cooperative = self.shape.scope == "Grid"
        return Launch(blocks, self.shape.threads, self.shared_bytes, cooperative)

    def scratch_bytes(self, robots: int, n: int, dtype: np.dtype[Any]) -> int:
        """Return the size of the scratch memory in bytes.

        A grid's first 16 bytes must be zero before its first launch, and the next 16 for step II.
        """
        at_once = self.at_once(robots)
        return self.own_bytes(dtype) + at_once * n * self.workspace * dtype.itemsize

    def own_bytes(self, dtype: np.dtype[Any]) -> int:
        """Return the size in bytes of the scratch memory before the workspace."""
        # Kernels for several robots leave the zeros for a grid of one robot alone.
        least = _COUNTER_BYTES if self.constrained else 0
        return self.first_byte(last=True) + max(
            least, self.shape.scratch_bytes(self.elements, dtype)
        )

    def first_byte(self, *, last: bool = False) -> int:
        """Return the offset in bytes of a grid's scratch memory, or of the `last` part's."""
        # Step I, which has no scan, has a separate barrier.
        first = self.part == "ALL" or (self.part == "STEP_I" and not last)
        return 0 if first else _COUNTER_BYTES

    def at_once(self, robots: int) -> int:
        """Return the number of robots per launch; a grid handles one robot."""
        return 1 if self.shape.scope == "Grid" else robots


@dataclass(frozen=True, kw_only=True)
class ChainSource:
    """The kernels of a function for chains of n links.

    Members
    -------
    function, method, dtype : see the module.
    n : links.
    kernels : in order of execution.
    alone : kernels for a single robot if they differ, otherwise empty.
    inputs, results : names of the arrays, (robots, n) each except for `shapes`.
    between : names of the arrays between kernels, and their lengths per robot.
    """

    function: str
    method: str
    dtype: str
    n: int
    kernels: tuple[KernelSource, ...]
    inputs: tuple[str, ...]
    results: tuple[str, ...]
    between: Mapping[str, int]
    alone: tuple[KernelSource, ...] = ()

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Shapes of the inputs and results of one robot, by name."""
        return {name: HELD.get(name, (self.n,)) for name in (*self.inputs, *self.results)}

    def kernels_for(self, robots: int) -> tuple[KernelSource, ...]:
        """Return the kernels for a number of robots."""
        return self.alone if self.alone and robots == 1 else self.kernels


def source(
    n: int,
    function: str,
    *,
    method: str | None = None,
    dtype: str = "float64",
    refine: int | None = None,
    damping: float | None = None,
) -> ChainSource:
    """Return the kernels of a function for chains of n links.

    Parameters
    ----------
    function, method : see :mod:`.cuda`; by default the function's first possible method.
    dtype : ``float64``, or ``float32``, which is accurate enough for inverse dynamics and for
        forward dynamics of short chains.
    refine : of constraint forces, as for :func:`pinion.chains.cfa.cfa`: by default 1.
    damping : of ``closed``, as for :func:`~pinion.chains.closed.closed_chain`: by default 0.

    Raises
    ------
    InputError
        If an argument is invalid, or a chain is too long for the method.
    """
    if function not in METHODS:
        raise InputError(f"Unknown function '{function}': choose one of {', '.join(METHODS)}.")
    if dtype not in SCALARS:
        raise InputError(
            f"Kernels do not support the dtype '{dtype}': choose one of {', '.join(SCALARS)}."
        )
    if n < 1:
        raise InputError(f"A chain needs at least one link, not {n}.")
    longest = _longest_jsiia(dtype)
    if method is None:
        method = METHODS[function][0]
        if method == "jsiia" and n > longest:
            method = "abia"
    if method not in METHODS[function]:
        raise InputError(
            f"'{function}' has no method '{method}': choose one of {', '.join(METHODS[function])}."
        )
    if method == "jsiia" and n > longest:
        raise InputError(
            f"The method 'jsiia' keeps M in {SHARED_BYTES // 1024} KiB of shared memory, enough "
            f"for at most {longest} links in {dtype}, not {n}: choose 'abia' or 'hybrid'."
        )
    constrained = method in _SOLVERS
    if refine is not None and not constrained:
        refined = ", ".join(name for name in METHODS[function] if name in _SOLVERS)
        raise InputError(
            f"The method '{method}' has no refinement: omit 'refine'"
            + (f", or choose one of {refined}." if refined else ".")
        )
    refine = 1 if refine is None else refine
    if refine < 0:
        raise InputError(f"'refine' must be 0 or more, not {refine}.")
    closed = function == "closed"
    if damping is not None and not closed:
        raise InputError(f"'{function}' has no damping: omit 'damping', or choose 'closed'.")
    damping = 0.0 if damping is None else float(damping)
    if not 0.0 <= damping < np.inf:
        raise InputError(f"'damping' must be 0 or more and finite, not {damping}.")
    if closed and n < 6 and not damping:
        raise InputError(
            f"A chain of {n} joint{'s' * (n > 1)} cannot move its tip in all six directions, in "
            "which 'closed' holds it: give at least six joints, or a 'damping' above 0."
        )
    maker = _Maker(n, dtype)
    alone: tuple[KernelSource, ...] = ()
    between: dict[str, int] = {}
    if closed:
        kernels, alone = maker.closed(method, refine, damping)
    elif constrained:
        kernels, alone = maker.cfa(_SOLVERS[method], refine)
    else:
        kernels, between = maker.rnea(method) if function == "rnea" else maker.aba(method)
    return ChainSource(
        function=function,
        method=method,
        dtype=dtype,
        n=n,
        kernels=kernels,
        inputs=("q", "qd", "qdd" if function == "rnea" else "tau", *(("G_C",) if closed else ())),
        results=("tau",)
        if function == "rnea"
        else ("qdd", *(("F", "Lambda_inverse") if closed else ())),
        between=between,
        alone=alone,
    )


class _Maker:
    """Generator of kernels for chains of n links in one dtype."""

    def __init__(self, n: int, dtype: str) -> None:
        self.n = n
        self.dtype = np.dtype(dtype)
        self.scalar = SCALARS[dtype]
        self.shape = shape_of(n)

    def rnea(self, method: str) -> tuple[tuple[KernelSource, ...], dict[str, int]]:
        if method == "scan":
            return (self._inverse(("q", "qd", "qdd", "tau")),), {}
        arrays = ("q", "qd", "qdd", "tau")
        return (self._serial("inverse", method, arrays, _INVERSE_WORKSPACE),), {}

    def aba(self, method: str) -> tuple[tuple[KernelSource, ...], dict[str, int]]:
        arrays = ("q", "qd", "tau", "qdd")
        n = self.n
        if method in ("warp", "thread"):
            return (self._serial("forward", method, arrays, _FORWARD_WORKSPACE),), {}
        if method == "jsiia":
            columns = self._scan("jsiia.cuh", "columns", ("q", "qd", "matrix"), n + 1, [_MOVING])
            return (columns, self._solve()), {"matrix": n * (n + 1)}
        # The bias is inverse dynamics without accelerations.
        bias = self._scan("articulated.cuh", "bias", ("q", "qd", "bias"), 1, [_MOVING, _CARRIED])
        scans = self._scan(
            *("articulated.cuh", "abia", ("q", "tau", "bias", "factors", "qdd"), 1),
            [_AFFINE, _AFFINE],
        )
        between = {"bias": n, "factors": _FACTORS * n}
        if method == "hybrid":
            return (bias, scans), between
        shape = ThreadShape("Warp", 1, WARP, 0)
        shared = _TRANSPOSED * self.dtype.itemsize
        factors = self._kernel(
            *("serial.cuh", "factors_by_warps", ("q", "factors"), shape),
            f"factors_by_warps<{self.scalar}>(shared, {_ARGUMENTS}, q, factors);",
            shared_bytes=shared,
        )
        return (bias, factors, scans), between

    def cfa(
        self, solver: str, refine: int
    ) -> tuple[tuple[KernelSource, ...], tuple[KernelSource, ...]]:
        """Return the kernels for several robots, launched in sequence, and those for one robot."""
        several = self._constrained(2 if self.n <= BLOCK_LINKS else 1, solver, refine)
        alone = self._constrained(1, solver, refine)
        return (several,), (alone,) if alone != several else ()

    def closed(
        self, method: str, refine: int, damping: float
    ) -> tuple[tuple[KernelSource, ...], tuple[KernelSource, ...]]:
        """Return the kernels for a contact at the tip: those for several robots and for one."""
        parts = _PARTS if method == "two_streams" else ("ALL",)

        def kernels(robots: int) -> tuple[KernelSource, ...]:
            return tuple(
                self._constrained(robots, _SOLVERS[method], refine, part, damping) for part in parts
            )

        several = kernels(2 if self.n <= BLOCK_LINKS else 1)
        alone = kernels(1)
        return several, alone if alone != several else ()

    def _constrained(
        self,
        robots: int,
        solver: str,
        refine: int,
        part: str = "ALL",
        damping: float | None = None,
    ) -> KernelSource:
        contact = damping is not None
        kernel: CfaKernel
        if damping is None:
            kernel = cfa_kernel(self.n, robots, self.dtype.name, solver=solver, refine=refine)
        else:
            kernel = closed_kernel(
                *(self.n, robots, self.dtype.name),
                solver=solver,
                refine=refine,
                damping=damping,
                part=part,
            )
        return KernelSource(
            name=kernel.name,
            text=kernel.text,
            arrays=kernel.arrays,
            shape=kernel.shape,
            shared_bytes=kernel.shared_bytes,
            elements=kernel.elements,
            workspace=words_a_link(self.n, solver, contact=contact, part=part),
            constrained=True,
            part=part,
        )

    def _inverse(self, arrays: tuple[str, ...]) -> KernelSource:
        return self._scan("inverse.cuh", "inverse", arrays, 1, [_MOVING, _CARRIED])

    def _scan(
        self,
        header: str,
        stage: str,
        arrays: tuple[str, ...],
        per_robot: int,
        elements: Sequence[int],
    ) -> KernelSource:
        shape = self.shape
        scope = f"pinion::parallel::{shape.scope}"
        call = (
            f"{stage}_kernel<{self.scalar}, {shape.links}, {scope}>(shared, scratch, {_ARGUMENTS}, "
            f"{', '.join(arrays)});"
        )
        return self._kernel(
            *(header, f"{stage}_by_{shape.scope.lower()}", arrays, shape, call),
            per_robot=per_robot,
            shared_bytes=shape.shared_bytes(max(elements), self.dtype),
            elements=tuple(elements),
        )

    def _serial(
        self, stage: str, method: str, arrays: tuple[str, ...], workspace: int
    ) -> KernelSource:
        name = f"{stage}_by_{method}s"
        shape = ThreadShape("Warp" if method == "warp" else "Thread", 1, _THREADS, 0)
        shared = stage == "forward" and method == "warp"
        call = (
            f"{name}<{self.scalar}>({'shared, ' if shared else ''}{_ARGUMENTS}, "
            f"({self.scalar} *)scratch, {', '.join(arrays)});"
        )
        return self._kernel(
            *("serial.cuh", name, arrays, shape, call),
            shared_bytes=_THREADS // WARP * _TRANSPOSED * self.dtype.itemsize if shared else 0,
            workspace=workspace,
        )

    def _solve(self) -> KernelSource:
        # Each thread of a block has a row; more threads than rows would only wait.
        shape = ThreadShape("Block", 1, -(-self.n // WARP) * WARP, 1)
        if self.n <= WARP:
            shape = ThreadShape("Warp", 1, 4 * WARP, 0)
        robots = 1 if shape.scope == "Block" else shape.threads // WARP
        arrays = ("tau", "matrix", "qdd")
        return self._kernel(
            *("jsiia.cuh", f"solve_by_{shape.scope.lower()}", arrays, shape),
            f"solve_kernel<{self.scalar}, pinion::parallel::{shape.scope}>(shared, robots, n, "
            f"robot_step, step, {', '.join(arrays)});",
            shared_bytes=robots * _solve_words(self.n) * self.dtype.itemsize,
        )

    def _kernel(
        self,
        header: str,
        name: str,
        arrays: tuple[str, ...],
        shape: ThreadShape,
        call: str,
        **more: Any,
    ) -> KernelSource:
        T = self.scalar
        name = f"{name}_{self.dtype.name}"
        parameters = ", ".join(f"{'' if a == arrays[-1] else 'const '}{T} *{a}" for a in arrays)
        text = (
            f'#include "../../chains/kernels/sources/{header}"\n'
            f'extern "C" __global__ void __launch_bounds__({MOST_THREADS})\n'
            f"{name}(long long robots, long long n, const {T} *numbers, long long chain_step,\n"
            f"    long long robot_step, long long step, void *scratch,\n    {parameters}) {{\n"
            f"  extern __shared__ __align__(16) {T} shared[];\n"
            f"  pinion::parallel::{call}\n}}\n"
        )
        return KernelSource(name=name, text=text, arrays=arrays, shape=shape, **more)


def _solve_words(n: int) -> int:
    """Return the words of shared memory that ``solve_kernel`` in ``kernels/jsiia.cuh`` needs."""
    return (n + 1) * (n + 2) // 2 + n


def _longest_jsiia(dtype: str) -> int:
    n = 1
    while _solve_words(n + 1) * np.dtype(dtype).itemsize <= SHARED_BYTES:
        n += 1
    return n
