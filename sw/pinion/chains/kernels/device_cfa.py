"""Kernels of the constraint force algorithm: chain data, source texts and launch configurations.

``kernels/tridiagonal.cuh`` solves the block tridiagonal system, ``kernels/cfa.cuh`` computes the
chain with it, ``kernels/closed.cuh`` adds a contact at the tip. They need single-axis joints
and chains without side branches, which :func:`.device_chain.canonical` checks.

========= ============================== ==================================================
solver    levels                         numbers in device memory per link
========= ============================== ==================================================
oee       ``ceil(log2 n)`` and a solve   ``140 + 50 ceil(log2 n)``: 590 at 512
oer       ``2 floor(log2 n)``, a solve   130
ldl       ``2 n - 1``, by one thread     130
========= ============================== ==================================================

For one robot use ``oee``, which has the fewest levels. Many robots are limited by memory and work
rather than by levels: use ``oer`` with a block per robot, or ``ldl`` with a thread per robot for
thousands.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from pinion.chains.cfa import radii
from pinion.chains.chain import Chain
from pinion.chains.small import factorise, solve_factored
from pinion.dynamics.checks import check_choice
from pinion.native import ComputeError

from .device_chain import BLOCK_LINKS, SCALARS, WARP, WARPS_A_BLOCK, Array, ThreadShape

SOLVERS = {"oee": "Elimination", "oer": "Reduction", "ldl": "Sweep"}
"""Structs of ``tridiagonal.cuh``."""

BLOCK_THREADS = 256
"""Largest number of threads per block: a thread uses up to 255 of 65,536 registers."""

PARTS = ("ALL", "STEP_I", "STEP_II", "AFTER")
"""Parts of ``closed.cuh``: one kernel, or three for two streams."""

GRID_THREADS = 64
"""Threads per block if several blocks compute a robot: this distributes its links over many
multiprocessors, whose double-precision units limit the time of a level."""

SINGLE_BLOCK = 128
"""Largest number of links for which one block computes a single robot."""

_SINGULAR = 64
"""A pivot smaller than this many rounding errors of its diagonal element counts as zero."""

_SCAN_WORDS = (24, 18)  # of an inverse dynamics
_PLACE, _COUPLING = 55, 50  # place_words(0) and COUPLING of tridiagonal.cuh
_LINK_ROWS, _TIP_ROWS, _STEP_ROWS = 20, 18, 12  # of cfa.cuh and closed.cuh
_ASSERTED = (
    f"static_assert(BLOCK == 5 && place_words(0) == {_PLACE} && COUPLING == {_COUPLING} && "
    f'LINK_ROWS == {_LINK_ROWS}, "words_a_link() in device_cfa.py");\n'
)
_ASSERTED_CLOSED = (
    f"static_assert(TIP_ROWS == {_TIP_ROWS} && STEP_ROWS == {_STEP_ROWS}, "
    '"words_a_link() in device_cfa.py");\n'
)
_PARAMETERS = (
    "long long robots, long long n, const {T} *numbers, long long chain_step, "
    "const {T} *constraints, long long constraint_step, long long robot_step, long long step, "
    "void *scratch, void *work, long long work_step, long long row_step"
)


def cfa_shape(n: int, robots: int, solver: str) -> ThreadShape:
    """Return the threads to compute one robot's dynamics.

    Returns
    -------
    One thread for ``ldl``; otherwise one warp up to 32 links, one block up to 128, or up to 1,024
    for several robots, and beyond that a cooperative grid, which computes one robot.

    Raises
    ------
    ComputeError
        If several robots have more than 1,024 links each.
    """
    check_choice("solver", solver, tuple(SOLVERS))
    if solver == "ldl":
        return ThreadShape("Thread", 1, WARP, 0)
    if n <= WARP:
        return ThreadShape("Warp", 1, WARPS_A_BLOCK * WARP if robots > 1 else WARP, 0)
    if n <= (SINGLE_BLOCK if robots == 1 else BLOCK_LINKS):
        links = -(-n // BLOCK_THREADS)
        return ThreadShape("Block", links, -(-n // (links * WARP)) * WARP, 1)
    if robots > 1:
        raise ComputeError(
            f"There are {robots} robots of {n} links, but a grid handles one robot: launch them "
            f"one by one, or give chains of at most {BLOCK_LINKS} links."
        )
    return ThreadShape("Grid", 1, GRID_THREADS, -(-n // GRID_THREADS))


@dataclass(frozen=True, kw_only=True)
class CfaKernel:
    """A kernel's source and its launch configuration for a number of robots.

    Its parameters have eight bytes each: robots, links, address of the chains' numbers and the
    distance of robots' chains (:func:`.device_chain.packed`), the same for `constraint_numbers`,
    distances of robots and of links in the arrays, addresses of scratch and work memory,
    `work_step`, `row_step`, addresses of `arrays`.

    Members
    -------
    name, text : CUDA C++17 for NVRTC, with ``-fmad=false``.
    arrays : names of the arrays, inputs first; q, qd, tau and qdd are (robots, n), G_C and F
        (robots, 6), Lambda_inverse (robots, 36), tip (12,): see ``closed.cuh``.
    shape : threads and links.
    blocks : of the launch; cooperative in the scope ``Grid``.
    elements : words of the elements of successive scans.
    shared_bytes, scratch_bytes, work_bytes : shared memory per block, and device memory. A grid's
        first 16 bytes of scratch memory must be zero before its first launch.
    work_step, row_step : distances of robots and of rows in work memory, in numbers.
    """

    name: str
    text: str
    arrays: tuple[str, ...]
    shape: ThreadShape
    blocks: int
    elements: tuple[int, ...]
    shared_bytes: int
    scratch_bytes: int
    work_bytes: int
    work_step: int
    row_step: int


def cfa_kernel(
    n: int,
    robots: int,
    dtype: str = "float64",
    *,
    solver: str = "oee",
    refine: int = 1,
    shape: ThreadShape | None = None,
) -> CfaKernel:
    """Return the kernel of forward dynamics by the constraint force algorithm.

    Parameters
    ----------
    n, robots : links of a chain, and number of chains.
    dtype : ``float64``; in ``float32`` the algorithm is useless beyond about twenty links.
    solver : ``oee``, ``oer`` or ``ldl``.
    refine : as for :func:`pinion.chains.cfa.cfa`.
    shape : threads, by default those of `cfa_shape`.

    Raises
    ------
    ComputeError
        If there is no such kernel.
    """
    return _kernel(n, robots, dtype, solver, refine, shape, None, "ALL")


def closed_kernel(
    n: int,
    robots: int,
    dtype: str = "float64",
    *,
    solver: str = "oee",
    refine: int = 1,
    damping: float = 0.0,
    shape: ThreadShape | None = None,
    part: str = "ALL",
) -> CfaKernel:
    """Return the kernel of forward dynamics with the tip held in all six directions.

    Arguments and errors as for `cfa_kernel`; damping as for
    :func:`pinion.chains.closed.closed_chain`.

    Parameters
    ----------
    part : one of `PARTS`. Steps I and II may run in parallel, the rest after both; all three share
        work memory. A grid's steps need separate scratch memory; the rest uses that of step II.
    """
    check_choice("part", part, PARTS)
    if part != "ALL" and solver != "oee":
        raise ComputeError(f"The solver '{solver}' has no kernels for two streams: choose 'oee'.")
    if not 0.0 <= damping < np.inf:
        raise ComputeError(f"The damping must be 0 or more and finite, not {damping}.")
    return _kernel(n, robots, dtype, solver, refine, shape, damping, part)


def words_a_link(n: int, solver: str, *, contact: bool = False, part: str = "ALL") -> int:
    """Return the number of words per link in work memory."""
    place = _PLACE + 5 * (7 if contact else 1)
    levels = (n - 1).bit_length()
    solver_words = 2 * place + levels * _COUPLING if solver == "oee" else place + _COUPLING
    return (
        _LINK_ROWS
        + solver_words
        + (_TIP_ROWS if contact else 0)
        + (_STEP_ROWS if part != "ALL" else 0)
    )


def _kernel(
    n: int,
    robots: int,
    dtype: str,
    solver: str,
    refine: int,
    shape: ThreadShape | None,
    damping: float | None,
    part: str,
) -> CfaKernel:
    if dtype not in SCALARS:
        raise ComputeError(
            f"Kernels do not support the dtype '{dtype}': choose one of {', '.join(SCALARS)}."
        )
    if n < 1 or robots < 1 or refine < 0:
        raise ComputeError(
            f"robots, n and refine must be at least 1, 1 and 0, not {robots}, {n} and {refine}."
        )
    T, contact = SCALARS[dtype], damping is not None
    kernel_shape = cfa_shape(n, robots, solver) if shape is None else shape
    inputs = ("q", "qd", "tau", "tip", "G_C") if contact else ("q", "qd", "tau")
    results = ("qdd", "F", "Lambda_inverse") if contact else ("qdd",)
    arrays = [f"const {T} *{x}" for x in inputs] + [f"{T} *{x}" for x in results]
    kind = "closed" if contact else "cfa"
    part_argument = "" if part == "ALL" else f", Part::{part}"
    settings = f"{refine}, {T}({damping!r})" if contact else f"{refine}"
    whole = kind if part == "ALL" else f"{kind}_{part.lower()}"
    name = f"{whole}_{solver}_{kernel_shape.scope.lower()}_{kernel_shape.links}_{refine}_{dtype}"
    text = (
        f'#include "../../chains/kernels/sources/{kind}.cuh"\n'
        f'extern "C" __global__ void {name}({_PARAMETERS.format(T=T)}, {", ".join(arrays)}) {{\n'
        f"  using namespace pinion::parallel;\n"
        f"  {_ASSERTED}{'  ' + _ASSERTED_CLOSED if contact else ''}"
        f"  static_assert(sizeof(Moving<{T}>::Element) == {_SCAN_WORDS[0]} * sizeof({T}) &&\n"
        f'      sizeof(Carried<{T}>::Element) == {_SCAN_WORDS[1]} * sizeof({T}), "scans");\n'
        f"  extern __shared__ {T} shared[];\n"
        f"  {kind}_kernel<{T}, {kernel_shape.links}, {SOLVERS[solver]}, "
        f"{kernel_shape.scope}{part_argument}>(\n"
        "      shared, scratch, Work{work, work_step, row_step}, robots, n, numbers, chain_step,\n"
        f"      constraints, constraint_step, robot_step, step, {settings}, "
        f"{', '.join([*inputs, *results])});\n"
        "}\n"
    )
    alone = kernel_shape.scope == "Thread"
    words = words_a_link(n, solver, contact=contact, part=part) * n
    scans = _SCAN_WORDS * (refine + 1)
    if contact:
        scans += scans
    size = np.dtype(dtype).itemsize
    return CfaKernel(
        name=name,
        text=text,
        arrays=(*inputs, *results),
        shape=kernel_shape,
        blocks=-(-robots // kernel_shape.threads) if alone else kernel_shape.blocks(robots),
        elements=scans,
        shared_bytes=0 if alone else kernel_shape.shared_bytes(max(_SCAN_WORDS), dtype),
        scratch_bytes=kernel_shape.scratch_bytes(scans, dtype),
        work_bytes=words * robots * size,
        work_step=1 if alone else words,
        row_step=robots if alone else 1,
    )


def constraint_numbers(chain: Chain, dtype: DTypeLike) -> Array:
    """Return a canonical chain's constants in the layout of ``kernels/cfa.cuh``, (41 n,).

    Raises
    ------
    ComputeError
        If a link's inertia is not invertible in `dtype`.
    """
    n = chain.n
    inertia = chain.I
    least = _SINGULAR * np.finfo(dtype).eps * np.diagonal(inertia, axis1=1, axis2=2)
    bad = np.ones(n, bool)
    for i in range(n):
        try:
            _, d = factorise(inertia[i])
        except np.linalg.LinAlgError:
            continue
        bad[i] = bool(np.any(d <= least[i]))
    if np.any(bad):
        wider = ", use float64" if np.dtype(dtype) == np.float32 else ""
        raise ComputeError(
            f"The inertia of link {int(np.argmax(bad))} of the chain '{chain.name}' has no "
            f"inverse in {np.dtype(dtype)}, which the constraint force algorithm needs: give the "
            f"link mass and a rotational inertia about each axis{wider} or, for a free tip, "
            "choose the method 'abia'."
        )
    J = solve_factored(*factorise(inertia), np.eye(6))
    J = 0.5 * (J + np.swapaxes(J, 1, 2))
    turn, shift, length = chain.S[:, 2, 0], chain.S[:, 5, 0], radii(chain)
    across = np.hypot(length * turn, shift)
    moment, force = -length * shift / across, length * turn / across
    W = np.zeros((n, 6, 5))
    W[:, 0, 0] = W[:, 1, 1] = length
    W[:, 3, 2] = W[:, 4, 3] = 1.0
    W[:, 2, 4], W[:, 5, 4] = moment, force
    square = turn**2 + shift**2
    numbers = np.concatenate(
        [
            J[:, *np.triu_indices(6)],
            np.stack([length, moment, force, turn / square, shift / square], axis=1),
            (np.swapaxes(W, 1, 2) @ J @ W)[:, *np.tril_indices(5)],
        ],
        axis=1,
    )
    return np.asarray(numbers.T.ravel(), dtype)
