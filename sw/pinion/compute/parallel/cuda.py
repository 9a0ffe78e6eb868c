"""Inverse and forward dynamics of long chains on a GPU.

>>> from pinion.compute.parallel import cuda
>>> inverse = cuda.compile(chain, "rnea")                                       # doctest: +SKIP
>>> tau = inverse(q=q, qd=qd, qdd=qdd)                                          # doctest: +SKIP

A chain is data, so that kernels depend on the number of its links alone, and by that on how many
threads compute a robot (:func:`pinion.compute.parallel.device_chain.shape_of`). Constraint forces
of several robots have other threads than those of one (:func:`.device_cfa.cfa_shape`).

======== =========== ======================================================================
function method      what computes it
======== =========== ======================================================================
rnea     scan        two scans (``kernels/inverse.cuh``)
rnea     warp        the recursion, by a warp a robot (``kernels/serial.cuh``)
rnea     thread      the recursion, by a thread a robot
aba      jsiia       M by n + 1 inverse dynamics, Cholesky (``kernels/jsiia.cuh``)
aba      hybrid      scans (``kernels/articulated.cuh``); articulated inertias by the processor,
                     while the device computes the bias
aba      abia        the same with articulated inertias by a warp of the device
aba      warp        articulated bodies, by a warp a robot
aba      thread      articulated bodies, by a thread a robot
aba      cfa_oee     constraint forces (``kernels/cfa.cuh``) by odd-even elimination
aba      cfa_oer     the same by odd-even reduction
aba      cfa_ldl     the same by L D L^T, by a thread a robot
======== =========== ======================================================================

.. note:: None of it has been run on a GPU yet: kernels are compiled for GPUs and run on a
   processor in the tests.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from pinion.dynamics.parallel.chain import Chain
from pinion.dynamics.parallel.recursion import articulated
from pinion.dynamics.parallel.state import state_of
from pinion.functions import InputError

from ..cuda import open_gpu
from ..cuda.device import Device, Launch, Memory, Stream
from ..cuda.kernel import DeviceArray, contiguous, described, is_on_a_device
from ..errors import ComputeError
from .device_cfa import SOLVERS, cfa_kernel, constraint_numbers, words_a_link
from .device_chain import BLOCK_LINKS, SCALARS, WARP, Array, Shape, canonical, packed, shape_of

__all__ = ["METHODS", "ChainKernel", "ChainSource", "KernelSource", "compile", "source"]

METHODS: Mapping[str, tuple[str, ...]] = {
    "rnea": ("scan", "warp", "thread"),
    "aba": ("jsiia", "hybrid", "abia", "warp", "thread", "cfa_oee", "cfa_oer", "cfa_ldl"),
}
"""Ways to compute each function."""

SHARED_BYTES = 48 * 1024
"""Of a block's shared memory, which no device has to be asked for."""

_MOVING, _CARRIED, _AFFINE, _TRANSPOSED = 24, 18, 42, 72  # words of elements, and of two inertias
_INVERSE_WORKSPACE, _FORWARD_WORKSPACE, _FACTORS = 6, 14, 7  # numbers a link
_THREADS = 128  # of a block in which each computes a robot
_BOUND = 256  # threads of any block, with 255 registers each

_SOLVERS = {f"cfa_{solver}": solver for solver in SOLVERS}  # by method

_ARGUMENTS = "robots, n, numbers, chain_step, robot_step, step"


@dataclass(frozen=True, kw_only=True)
class KernelSource:
    """A kernel and how it is launched.

    Its parameters have eight bytes each: robots, links, address of the chains' numbers, distance
    of robots' chains, distances of robots and of links in the arrays (``kernels/chain.cuh``),
    address of scratch memory, addresses of `arrays`. Those that are `constrained` have others
    besides, see :class:`.device_cfa.CfaKernel`.

    Members
    -------
    name, text : CUDA C++17 for NVRTC, with ``-fmad=false``.
    arrays : names, inputs of the kernel first.
    shape : threads and links; of the scope ``Thread`` a thread computes a robot.
    per_robot : as many robots of the launch stand for one, see ``kernels/jsiia.cuh``.
    shared_bytes : of a block.
    elements : words of the scans' elements, for scratch memory of a grid.
    workspace : numbers a link of scratch memory, behind those of a grid.
    constrained : it computes constraint forces; the workspace is its work memory.
    """

    name: str
    text: str
    arrays: tuple[str, ...]
    shape: Shape
    per_robot: int = 1
    shared_bytes: int = 0
    elements: tuple[int, ...] = ()
    workspace: int = 0
    constrained: bool = False

    def launch(self, robots: int) -> Launch:
        """Blocks and threads for so many robots; a grid is for one."""
        blocks = self.shape.blocks(robots * self.per_robot)
        cooperative = self.shape.scope == "Grid"
        return Launch(blocks, self.shape.threads, self.shared_bytes, cooperative)

    def scratch_bytes(self, robots: int, n: int, dtype: np.dtype[Any]) -> int:
        """Bytes of scratch memory; a grid's first 16 are zero before its first launch."""
        at_once = self.at_once(robots)
        return self.own_bytes(dtype) + at_once * n * self.workspace * dtype.itemsize

    def own_bytes(self, dtype: np.dtype[Any]) -> int:
        """Bytes of scratch memory before the workspace."""
        # What a grid for one robot needs to be zero is left alone by the kernels for several.
        least = 16 if self.constrained else 0
        return max(least, self.shape.scratch_bytes(self.elements, dtype))

    def at_once(self, robots: int) -> int:
        """Robots of a launch; a grid is for one."""
        return 1 if self.shape.scope == "Grid" else robots


@dataclass(frozen=True, kw_only=True)
class ChainSource:
    """The kernels of a function for chains of n links.

    Members
    -------
    function, method, dtype : see the module.
    n : links.
    kernels : in their order.
    alone : those for one robot, where they are others; else empty.
    inputs, result : names of the arrays, (robots, n) each.
    between : names of the arrays between kernels, and their numbers a robot.
    """

    function: str
    method: str
    dtype: str
    n: int
    kernels: tuple[KernelSource, ...]
    inputs: tuple[str, ...]
    result: str
    between: Mapping[str, int]
    alone: tuple[KernelSource, ...] = ()

    def kernels_for(self, robots: int) -> tuple[KernelSource, ...]:
        """The kernels for so many robots."""
        return self.alone if self.alone and robots == 1 else self.kernels


def source(
    n: int,
    function: str,
    *,
    method: str | None = None,
    dtype: str = "float64",
    refine: int | None = None,
) -> ChainSource:
    """The kernels for chains of n links.

    Parameters
    ----------
    function, method : see the module; by default the first method of the function that can be.
    dtype : ``float64``, or ``float32``, which is exact enough for inverse dynamics and for forward
        dynamics of short chains.
    refine : of constraint forces, as of :func:`pinion.dynamics.parallel.cfa.cfa`: by default 1.

    Raises
    ------
    InputError
        When an argument does not do, or a chain is too long for the method.
    """
    if function not in METHODS:
        raise InputError(f"There is no function '{function}' here: choose one of {_list(METHODS)}.")
    if dtype not in SCALARS:
        raise InputError(f"Kernels have no dtype '{dtype}': choose one of {_list(SCALARS)}.")
    if n < 1:
        raise InputError(f"A chain of {n} links is none: give one at least.")
    longest = _longest_jsiia(dtype)
    if method is None:
        method = METHODS[function][0]
        if method == "jsiia" and n > longest:
            method = "abia"
    if method not in METHODS[function]:
        raise InputError(
            f"'{function}' has no method '{method}': choose one of {_list(METHODS[function])}."
        )
    if method == "jsiia" and n > longest:
        raise InputError(
            f"The method 'jsiia' keeps M in {SHARED_BYTES // 1024} KiB: {longest} links in {dtype} "
            f"at most, not {n}; choose 'abia' or 'hybrid'."
        )
    constrained = method in _SOLVERS
    if refine is not None and not constrained:
        raise InputError(
            f"The method '{method}' is not refined: leave 'refine' out, or choose one of "
            f"{_list(_SOLVERS)}."
        )
    refine = 1 if refine is None else refine
    if refine < 0:
        raise InputError(f"'refine' is {refine}: give 0 or more.")
    made = _Maker(n, dtype)
    alone: tuple[KernelSource, ...] = ()
    between: dict[str, int] = {}
    if constrained:
        kernels, alone = made.cfa(_SOLVERS[method], refine)
    else:
        kernels, between = made.rnea(method) if function == "rnea" else made.aba(method)
    return ChainSource(
        function=function,
        method=method,
        dtype=dtype,
        n=n,
        kernels=kernels,
        inputs=("q", "qd", "qdd" if function == "rnea" else "tau"),
        result="tau" if function == "rnea" else "qdd",
        between=between,
        alone=alone,
    )


def compile(
    chain: Chain | Sequence[Chain],
    function: str,
    *,
    method: str | None = None,
    dtype: str = "float64",
    refine: int | None = None,
    device: int | Device = 0,
    cache: Path | None = None,
    factors: Callable[[Array], Array] | None = None,
) -> ChainKernel:
    """Compile a function of a chain for a GPU, or find it compiled.

    Parameters
    ----------
    chain : joints of one velocity, no side branches; or one for each robot, of as many links.
    function, method, dtype, refine : as of `source`.
    device : the number of a GPU, or a device.
    cache : where compiled kernels are kept; by default the user's cache.
    factors : for ``hybrid``, what gives the processor's part as :func:`joint_factors` does.

    Raises
    ------
    InputError
        When an argument does not do, or there is no such GPU; one sentence.
    ComputeError
        When the chain is none that kernels take (for constraint forces every link needs an
        inertia that has an inverse), or a kernel does not compile or load.
    """
    chains = [chain] if isinstance(chain, Chain) else list(chain)
    lengths = sorted({one.n for one in chains})
    if len(lengths) != 1:
        raise InputError(f"The chains have {lengths} links: give some, and all of the same length.")
    return ChainKernel(
        chains=[canonical(one) for one in chains],
        source=source(lengths[0], function, method=method, dtype=dtype, refine=refine),
        device=open_gpu(device, cache) if isinstance(device, int) else device,
        factors=factors,
    )


def joint_factors(chain: Chain, q: Array) -> Array:
    """Return ``K = U / D`` and ``1 / D`` of all joints, (B, 7, n), by equation 7 of Yang 2017.

    Parameters
    ----------
    chain : canonical. q : (B, n) [rad | m], whose type is computed in.
    """
    zeros = np.zeros_like(q)
    at = state_of(chain, q, tau=zeros)
    none = np.zeros((len(q), chain.n, 6), q.dtype)
    found = articulated(at, none, none, reversed(range(chain.n)))
    inverse = 1 / found.d
    both = np.concatenate([found.U[..., 0] * inverse, inverse], axis=-1)
    return np.ascontiguousarray(both.swapaxes(1, 2))


class ChainKernel:
    """A function of chains on a device; one call at a time.

    Members
    -------
    chains : in canonical frames; one for all robots, or one each.
    source : its kernels.
    device : where they run.
    """

    def __init__(
        self,
        *,
        chains: Sequence[Chain],
        source: ChainSource,
        device: Device,
        factors: Callable[[Array], Array] | None = None,
    ) -> None:
        self.chains = tuple(chains)
        self.source = source
        self.device = device
        self.dtype = np.dtype(source.dtype)
        self._factors = factors or self._own_factors
        self._room: _Room | None = None
        self._loaded: dict[str, Any] = {}
        self._steps(len(self.chains))
        self._numbers, self._chain_step = self._of_chains(packed)
        if any(kernel.constrained for kernel in source.kernels):
            self._constraints, self._constraint_step = self._of_chains(constraint_numbers)

    def __call__(self, **arrays: Any) -> Any:
        """Compute a batch.

        Parameters
        ----------
        arrays : the inputs by name, (n,) or (B, n) each [rad | m; s; N m | N]: all of the host, or
            all on the device (``__cuda_array_interface__`` or DLPack), of the kernel's dtype and in
            rows or in columns; not for ``hybrid``, whose first part is the processor's.

        Returns
        -------
        tau or qdd, as the inputs: NumPy's, or a :class:`pinion.compute.cuda.DeviceArray`.

        Raises
        ------
        InputError
            When a name, a shape or a dtype does not do, or arrays are in different places.
        ComputeError
            When the device has no memory left or failed.
        """
        names = self.source.inputs
        if sorted(arrays) != sorted(names):
            raise InputError(f"The inputs are {_list(names)}, not {_list(arrays)}: give these.")
        there = [name for name in names if is_on_a_device(arrays[name])]
        if there and len(there) < len(names):
            here = next(name for name in names if name not in there)
            raise InputError(
                f"'{there[0]}' is on a device and '{here}' is in the host's memory: give all in "
                "one place."
            )
        try:
            return self._on_device(arrays) if there else self._from_host(arrays)
        except MemoryError as error:
            self.close()
            raise ComputeError(f"{error} Give fewer robots at once.") from None
        except BaseException:
            # What is still under way belongs to nobody any more.
            self.close()
            raise

    def sent(self, values: Array) -> DeviceArray:
        """A copy of an array of the host, (n,) or (B, n), on the device, for later calls.

        Raises
        ------
        ComputeError
            When the device has no memory left or failed.
        """
        flat = np.ascontiguousarray(values, self.dtype)
        memory, strides = self._uploaded(flat), contiguous(flat.shape)
        return DeviceArray(self.device.index, memory, flat.shape, strides, self.dtype)

    def close(self) -> None:
        """Give the device's memory back, that of the chains aside."""
        if self._room is not None:
            self._room.close()
        self._room = None

    def _steps(self, robots: int) -> list[tuple[KernelSource, Any]]:
        """The kernels for so many robots, loaded."""
        steps = []
        for kernel in self.source.kernels_for(robots):
            if kernel.name not in self._loaded:
                self._check_grid(kernel.shape)
                self._loaded[kernel.name] = self.device.load(kernel.name, kernel.text)
            steps.append((kernel, self._loaded[kernel.name]))
        return steps

    def _check_grid(self, shape: Shape) -> None:
        if shape.scope != "Grid":
            return
        # So many threads take all registers of a multiprocessor.
        most = self.device.multiprocessors * (_BOUND // shape.threads)
        if shape.blocks_a_robot > most:
            raise InputError(
                f"{self.device.name} runs {most} blocks at once, and a chain of {self.source.n} "
                f"links takes {shape.blocks_a_robot}: give {most * shape.threads * shape.links} "
                "links at most."
            )

    def _uploaded(self, flat: Array) -> Memory:
        try:
            memory = self.device.allocate(max(1, flat.nbytes))
            pinned = self.device.pinned(flat.nbytes)
        except MemoryError as error:
            raise ComputeError(f"{error} Give fewer robots at once.") from None
        pinned.view(self.dtype)[...] = flat.ravel()
        stream = self.device.stream()
        stream.upload(memory, pinned)
        stream.wait()
        return memory

    def _of_chains(self, numbers_of: Callable[[Chain, Any], Array]) -> tuple[Memory, int]:
        """Numbers of all chains on the device, and the distance of robots' there."""
        numbers = np.concatenate([numbers_of(chain, self.dtype) for chain in self.chains])
        return self._uploaded(numbers), len(numbers) // len(self.chains) if len(
            self.chains
        ) > 1 else 0

    def _from_host(self, arrays: Mapping[str, Any]) -> Array:
        n = self.source.n
        given = {name: np.asarray(arrays[name]) for name in self.source.inputs}
        batch = given["q"].shape[:-1]
        for name, x in given.items():
            if x.ndim not in (1, 2) or x.shape != (*batch, n) or x.dtype.kind not in "fiu":
                raise InputError(
                    f"'{name}' has shape {x.shape} of {x.dtype}: give numbers, ({n},) for one "
                    f"robot or (B, {n}) for as many as 'q' has."
                )
        robots = self._robots(prod(batch))
        if not robots:
            return np.zeros((*batch, n), self.dtype)
        room = self._room_for(robots)
        stream = room.stream
        for name, x in given.items():
            sent = room.pinned[name][: robots * n].reshape(*batch, n)
            sent[...] = x
            stream.upload(room.memory[name], sent)
        places = {name: memory.address for name, memory in room.memory.items()}
        for kernel, loaded in self._steps(robots):
            if "factors" in kernel.arrays and self.source.method == "hybrid":
                # The bias is being computed meanwhile.
                values = self._factors(room.pinned["q"][: robots * n].reshape(robots, n))
                sent = room.pinned["factors"][: values.size]
                sent[...] = values.ravel()
                room.side.upload(room.memory["factors"], sent)
                room.side.wait()
            self._queue(stream, kernel, loaded, robots, places, (n, 1), room.scratch)
        fetched = room.pinned[self.source.result][: robots * n]
        stream.download(fetched, room.memory[self.source.result])
        stream.wait()
        return fetched.reshape(*batch, n).copy()

    def _on_device(self, arrays: Mapping[str, Any]) -> DeviceArray:
        n = self.source.n
        if self.source.method == "hybrid":
            raise InputError(
                "The processor computes a part of 'hybrid': give arrays of the host, or choose "
                "the method 'abia'."
            )
        places: dict[str, int] = {}
        first: tuple[tuple[int, ...], tuple[int, ...]] | None = None
        for name in self.source.inputs:
            shape, strides, address, dtype, device = described(name, arrays[name])
            if device is not None and device != self.device.index:
                raise InputError(
                    f"'{name}' is on the device {device}, and the kernel on {self.device.index}: "
                    "copy it there."
                )
            # Of an axis of one element the stride says nothing, and libraries choose any.
            strides = tuple(
                own if size > 1 else rows
                for size, own, rows in zip(shape, strides, contiguous(shape), strict=True)
            )
            first = first or (shape, strides)
            if len(shape) not in (1, 2) or shape[-1] != n or dtype != self.dtype:
                raise InputError(
                    f"'{name}' has shape {shape} of {dtype}: give ({n},) or (B, {n}) of "
                    f"{self.dtype}."
                )
            if (shape, strides) != first:
                raise InputError(
                    f"'{name}' has shape {shape} and strides {strides}, and 'q' has {first[0]} and "
                    f"{first[1]}: give all in one layout."
                )
            places[name] = address
        assert first is not None
        shape, strides = first
        robots = self._robots(prod(shape[:-1]))
        rows, columns = (n, 1), (1, robots)
        steps = rows if len(shape) == 1 else (strides[0], strides[1])
        if (len(shape) == 1 and strides != (1,)) or steps not in (rows, columns):
            raise InputError(
                f"'q' has strides {strides}: give arrays in rows, {rows}, or in columns, {columns}."
            )
        result = self.device.allocate(max(1, robots * n * self.dtype.itemsize))
        if robots:
            room = self._room_for(robots)
            places |= {name: room.memory[name].address for name in self.source.between}
            places[self.source.result] = result.address
            self.device.wait()  # whoever makes the inputs may not be done
            for kernel, loaded in self._steps(robots):
                self._queue(room.stream, kernel, loaded, robots, places, steps, room.scratch)
            room.stream.wait()
        return DeviceArray(self.device.index, result, shape, strides, self.dtype)

    def _queue(
        self,
        stream: Stream,
        kernel: KernelSource,
        loaded: Any,
        robots: int,
        places: Mapping[str, int],
        steps: tuple[int, int],
        scratch: Memory,
    ) -> None:
        """Queue a kernel for all robots; a grid computes one after the other."""
        source, size = self.source, self.dtype.itemsize
        at_once = kernel.at_once(robots)
        for first in range(0, robots, at_once):
            addresses = []
            for name in kernel.arrays:
                apart = source.between.get(name, steps[0])
                addresses.append(places[name] + first * apart * size)
            chain = [self._numbers.address + first * self._chain_step * size, self._chain_step]
            work: list[int] = []
            if kernel.constrained:
                distance = self._constraint_step
                chain += [self._constraints.address + first * distance * size, distance]
                # Numbers of threads that compute a robot each are next to each other.
                words = source.n * kernel.workspace
                interleaved = kernel.shape.scope == "Thread"
                work = [scratch.address + kernel.own_bytes(self.dtype)]
                work += [1, at_once] if interleaved else [words, 1]
            stream.launch(
                loaded,
                kernel.launch(at_once),
                [at_once, source.n, *chain, *steps, scratch.address, *work, *addresses],
            )

    def _robots(self, robots: int) -> int:
        if len(self.chains) > 1 and robots != len(self.chains):
            raise InputError(
                f"There are {len(self.chains)} chains and arrays for {robots} robots: give as many."
            )
        return robots

    def _room_for(self, robots: int) -> _Room:
        if self._room is None or self._room.robots < robots:
            self.close()
            self._room = _Room(self.device, self.source, robots)
        return self._room

    def _own_factors(self, q: Array) -> Array:
        if len(self.chains) == 1:
            return joint_factors(self.chains[0], q)
        found = [joint_factors(chain, q[k : k + 1]) for k, chain in enumerate(self.chains)]
        return np.concatenate(found)

    def __repr__(self) -> str:
        source = self.source
        return (
            f"<ChainKernel {source.function} by {source.method}: {source.n} links, {source.dtype}, "
            f"{self.device.name}>"
        )


class _Room:
    """Memory for so many robots: arrays on the device, pinned ones of the host, and streams."""

    def __init__(self, device: Device, source: ChainSource, robots: int) -> None:
        dtype = np.dtype(source.dtype)
        sizes = {name: robots * source.n for name in (*source.inputs, source.result)}
        sizes |= {name: robots * count for name, count in source.between.items()}
        # Later calls may have fewer robots: one, whose kernels may be others.
        kernels = (*source.kernels_for(robots), *source.alone)
        scratch = max(k.scratch_bytes(robots, source.n, dtype) for k in kernels)
        self.robots = robots
        self.stream, self.side = device.stream(), device.stream()
        self.memory: dict[str, Memory] = {}
        try:
            for name, size in sizes.items():
                self.memory[name] = device.allocate(size * dtype.itemsize)
            self.scratch = self.memory["scratch"] = device.allocate(max(16, scratch))
        except MemoryError:
            self.close()
            raise
        self.pinned = {
            name: device.pinned(size * dtype.itemsize).view(dtype) for name, size in sizes.items()
        }
        zeros = device.pinned(16)
        zeros[...] = 0
        self.stream.upload(self.scratch, zeros)
        self.stream.wait()

    def close(self) -> None:
        """Give the device's memory back, when nothing uses it any more."""
        for stream in (self.stream, self.side):
            with contextlib.suppress(ComputeError):
                stream.wait()
        for memory in self.memory.values():
            memory.close()


class _Maker:
    """Makes kernels for chains of n links in one dtype."""

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
        own = Shape("Warp", 1, WARP, 0)
        shared = _TRANSPOSED * self.dtype.itemsize
        factors = self._kernel(
            *("serial.cuh", "factors_by_warps", ("q", "factors"), own),
            f"factors_by_warps<{self.scalar}>(shared, {_ARGUMENTS}, q, factors);",
            shared_bytes=shared,
        )
        return (bias, factors, scans), between

    def cfa(
        self, solver: str, refine: int
    ) -> tuple[tuple[KernelSource, ...], tuple[KernelSource, ...]]:
        """For several robots, of which a grid computes one after the other, and for one."""
        several = self._constrained(2 if self.n <= BLOCK_LINKS else 1, solver, refine)
        alone = self._constrained(1, solver, refine)
        return (several,), (alone,) if alone != several else ()

    def _constrained(self, robots: int, solver: str, refine: int) -> KernelSource:
        made = cfa_kernel(self.n, robots, self.dtype.name, solver=solver, refine=refine)
        return KernelSource(
            name=made.name,
            text=made.text,
            arrays=made.arrays,
            shape=made.shape,
            shared_bytes=made.shared_bytes,
            elements=made.elements,
            workspace=words_a_link(self.n, solver),
            constrained=True,
        )

    def _inverse(self, arrays: tuple[str, ...]) -> KernelSource:
        return self._scan("inverse.cuh", "inverse", arrays, 1, [_MOVING, _CARRIED])

    def _scan(
        self,
        header: str,
        what: str,
        arrays: tuple[str, ...],
        per_robot: int,
        elements: Sequence[int],
    ) -> KernelSource:
        shape = self.shape
        scope = f"pinion::parallel::{shape.scope}"
        call = (
            f"{what}_kernel<{self.scalar}, {shape.links}, {scope}>(shared, scratch, {_ARGUMENTS}, "
            f"{', '.join(arrays)});"
        )
        return self._kernel(
            *(header, f"{what}_by_{shape.scope.lower()}", arrays, shape, call),
            per_robot=per_robot,
            shared_bytes=shape.shared_bytes(max(elements), self.dtype),
            elements=tuple(elements),
        )

    def _serial(
        self, what: str, method: str, arrays: tuple[str, ...], workspace: int
    ) -> KernelSource:
        name = f"{what}_by_{method}s"
        shape = Shape("Warp" if method == "warp" else "Thread", 1, _THREADS, 0)
        shared = what == "forward" and method == "warp"
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
        # A block's threads have a row each; more of them than rows would only wait.
        shape = Shape("Block", 1, -(-self.n // WARP) * WARP, 1)
        if self.n <= WARP:
            shape = Shape("Warp", 1, 4 * WARP, 0)
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
        shape: Shape,
        call: str,
        **more: Any,
    ) -> KernelSource:
        T = self.scalar
        name = f"{name}_{self.dtype.name}"
        given = ", ".join(f"{'' if a == arrays[-1] else 'const '}{T} *{a}" for a in arrays)
        text = (
            f'#include "../parallel/kernels/{header}"\n'
            f'extern "C" __global__ void __launch_bounds__({_BOUND})\n'
            f"{name}(long long robots, long long n, const {T} *numbers, long long chain_step,\n"
            f"    long long robot_step, long long step, void *scratch,\n    {given}) {{\n"
            f"  extern __shared__ __align__(16) {T} shared[];\n"
            f"  pinion::parallel::{call}\n}}\n"
        )
        return KernelSource(name=name, text=text, arrays=arrays, shape=shape, **more)


def _solve_words(n: int) -> int:
    """Of ``solve_kernel`` in ``kernels/jsiia.cuh``."""
    return (n + 1) * (n + 2) // 2 + n


def _longest_jsiia(dtype: str) -> int:
    n = 1
    while _solve_words(n + 1) * np.dtype(dtype).itemsize <= SHARED_BYTES:
        n += 1
    return n


def _list(names: Any) -> str:
    return ", ".join(names)
