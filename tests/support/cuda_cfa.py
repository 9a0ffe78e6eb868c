"""CUDA kernels of the constraint force algorithm on this CPU, and their error limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import c_longlong
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.chains.chain import Chain
from pinion.chains.kernels.device_cfa import CfaKernel, constraint_numbers
from pinion.chains.kernels.device_chain import canonical, packed
from pinion.chains.random import random_chain, random_state
from pinion.chains.recursion import aba

from .cuda_host import HostKernels

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Robots:
    """Random robots, all with the same number of links.

    Members
    -------
    chains : canonical, one a robot.
    q, qd, tau : (robots, n).
    qdd : (robots, n), in 80-bit arithmetic.
    floor : (robots,) of max |qdd|: the error of articulated bodies in double, or what q of one unit
        in the last place more or less changes, whichever is larger.
    """

    chains: tuple[Chain, ...]
    q: Array
    qd: Array
    tau: Array
    qdd: Array
    floor: Array

    def one(self, k: int) -> Robots:
        """Return the data of robot `k` alone."""
        at = slice(k, k + 1)
        return Robots(
            chains=self.chains[at],
            q=self.q[at],
            qd=self.qd[at],
            tau=self.tau[at],
            qdd=self.qdd[at],
            floor=self.floor[at],
        )

    def groups(self) -> list[slice]:
        """Return a slice for each run of consecutive robots with the same chain."""
        chains = self.chains
        first = [k for k, chain in enumerate(chains) if k == 0 or chain is not chains[k - 1]]
        return [slice(k, end) for k, end in zip(first, [*first[1:], len(chains)], strict=True)]

    def errors(self, qdd: Array) -> Array:
        """Return each robot's largest error, relative to max |qdd|; infinite for NaN."""
        return relative_errors(qdd, self.qdd)


def random_robots(
    n: int, robots: int, *, seed: int = 0, inertias: str = "arm", states: int = 8
) -> Robots:
    """Sample robots with exact accelerations; each run of `states` robots has the same chain."""
    chains: list[Chain] = []
    parts: list[tuple[Array, ...]] = []
    while len(chains) < robots:
        count = min(states, robots - len(chains))
        chain = canonical(random_chain(n, seed + len(chains), inertias=inertias))
        at = random_state(chain, seed, count)
        q, qd, tau = (x.astype(np.longdouble) for x in (at.q, at.qd, at.tau))
        exact = aba(chain, q, qd, tau)
        ulp = np.finfo(np.float64).eps * np.random.default_rng(seed).choice([-1, 1], q.shape)
        error = np.maximum(
            relative_errors(aba(chain, at.q, at.qd, at.tau), exact),
            relative_errors(aba(chain, q * (1 + ulp), qd, tau), exact),
        )
        chains += [chain] * count
        parts.append((at.q, at.qd, at.tau, exact, error))
    q, qd, tau, qdd, error = (np.concatenate(x) for x in zip(*parts, strict=True))
    return Robots(chains=tuple(chains), q=q, qd=qd, tau=tau, qdd=qdd, floor=error)


def relative_errors(x: Array, exact: Array) -> Array:
    """Return each row's largest error, relative to its largest number; infinite for NaN."""
    error = np.max(np.abs(x - exact), axis=1) / np.max(np.abs(exact), axis=1)
    return np.where(np.isnan(error), np.inf, error).astype(float)


def launched(
    host: HostKernels,
    kernel: CfaKernel | Sequence[CfaKernel],
    robots: Robots,
    dtype: str,
    *,
    seed: int = 0,
    contact: Mapping[str, Array] | None = None,
    workspace: bool = True,
    shared_bytes: int | None = None,
    memory: Array | None = None,
) -> dict[str, Array]:
    """Run a kernel on memory filled with NaN, and return its results by name.

    Parameters
    ----------
    kernel : or several, one after the other, which have one work memory and the same arrays.
    contact : ``tip`` and ``G_C`` of a closed chain.
    workspace : False where the kernel's text has its work memory elsewhere.
    shared_bytes : more than the kernel asks for.
    memory : bytes of work memory, in the place of those made here.
    """
    kernels = [kernel] if isinstance(kernel, CfaKernel) else kernel
    count, n = map(int, robots.q.shape)
    size = np.dtype(dtype).itemsize
    same = all(chain is robots.chains[0] for chain in robots.chains)
    chains = robots.chains[:1] if same else robots.chains
    numbers, constraints = (
        np.stack(x) for x in zip(*(_numbers_of(chain, dtype) for chain in chains), strict=True)
    )
    guard = 64 * size
    work = np.full(kernels[0].work_bytes + guard if workspace else guard, 0xFF, np.uint8)
    work = work if memory is None else memory
    widths: dict[str, int] = {"F": 6, "Lambda_inverse": 36}
    inputs = {"q": robots.q, "qd": robots.qd, "tau": robots.tau, **(contact or {})}
    if "tip" in inputs and not same:
        inputs["tip"] = np.broadcast_to(inputs["tip"], (count, 12))
    arrays = {
        name: np.ascontiguousarray(inputs[name], dtype)
        if name in inputs
        else np.full((count, widths.get(name, n)), np.nan, dtype)
        for name in kernels[0].arrays
    }
    for launched in kernels:
        scratch = np.full(max(16, launched.scratch_bytes), 0xFF, np.uint8)
        scratch[:16] = 0
        host.launch(
            launched.name,
            launched.blocks,
            launched.shape.threads,
            launched.shared_bytes if shared_bytes is None else shared_bytes,
            [
                *_numbers(count, n),
                numbers,
                *_numbers(0 if same else numbers.shape[1]),
                constraints,
                *_numbers(0 if same else constraints.shape[1], n, 1),
                scratch,
                work,
                *_numbers(launched.work_step, launched.row_step),
                *arrays.values(),
            ],
            seed,
            cooperative=launched.shape.scope == "Grid",
        )
    if memory is None and not np.all(work[-guard:] == 0xFF):
        raise AssertionError(f"{kernels[0].name} wrote past the end of its work memory.")
    return {name: x for name, x in arrays.items() if name not in inputs}


@cache
def _numbers_of(chain: Chain, dtype: str) -> tuple[Array, Array]:
    return packed(chain, dtype), constraint_numbers(chain, dtype)


def _numbers(*values: int) -> Sequence[c_longlong]:
    return [c_longlong(x) for x in values]
