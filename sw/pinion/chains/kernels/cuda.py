"""Inverse and forward dynamics of long chains on a GPU.

>>> from pinion.chains.kernels import cuda
>>> inverse = cuda.compile(chain, "rnea")                                       # doctest: +SKIP
>>> tau = inverse(q=q, qd=qd, qdd=qdd)                                          # doctest: +SKIP

A chain is data, so kernels depend only on the number of links, which determines the threads per
robot (:func:`pinion.chains.kernels.device_chain.shape_of`). For constraint forces the threads also
differ between one and several robots (:func:`.device_cfa.cfa_shape`).

======== =========== ======================================================================
function method      algorithm
======== =========== ======================================================================
rnea     scan        two scans (``kernels/inverse.cuh``)
rnea     warp        the recursion, with a warp per robot (``kernels/serial.cuh``)
rnea     thread      the recursion, with a thread per robot
aba      jsiia       M by n + 1 inverse dynamics, Cholesky (``kernels/jsiia.cuh``)
aba      hybrid      scans (``kernels/articulated.cuh``); articulated inertias by the CPU, while
                     the device computes the bias
aba      abia        the same with articulated inertias by a warp of the device
aba      warp        articulated bodies, with a warp per robot
aba      thread      articulated bodies, with a thread per robot
aba      cfa_oee     constraint forces (``kernels/cfa.cuh``) by odd-even elimination
aba      cfa_oer     the same by odd-even reduction
aba      cfa_ldl     the same by L D L^T, with a thread per robot
closed   cfa_oee     the same with the tip held in all six directions (``kernels/closed.cuh``)
closed   cfa_oer     the same by odd-even reduction
closed   cfa_ldl     the same by L D L^T, with a thread per robot
closed   two_streams odd-even elimination, with the matrix on one stream and inverse dynamics
                     on another in parallel: the two arrays of Fijany 1993, VI.C-D
======== =========== ======================================================================

``closed`` has another input G_C, the spatial acceleration of the tip that its contact requires,
(6,) per robot, without gravity. Besides qdd it returns the wrench F that the tip exerts, (6,), and
J M^-1 J^T, (6, 6), as :func:`pinion.chains.closed.closed_chain` does with ``TypeI(W=1)``: other
contacts have no kernels. If joints cannot move the tip in all six directions, qdd and F are NaN
unless there is damping.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pinion.base.amounts import amount
from pinion.batch import InputError
from pinion.chains.chain import Chain
from pinion.chains.recursion import articulated
from pinion.chains.state import state_of
from pinion.compute.cuda import open_gpu
from pinion.compute.cuda.device import CudaDevice, Memory
from pinion.compute.cuda.kernel import DeviceArray, contiguous, described, is_on_a_device
from pinion.native import ComputeError

from .chain_source import HELD, METHODS, MOST_THREADS, ZERO_BYTES, ChainSource, KernelSource, source
from .device_cfa import constraint_numbers
from .device_chain import Array, canonical, canonical_tip, packed

__all__ = ["METHODS", "ChainSource", "CudaChainKernel", "KernelSource", "compile", "source"]


# Many parameters: the options of a compiled chain, by keyword, as its page lists them.
def compile(
    chain: Chain | Sequence[Chain],
    function: str,
    *,
    method: str | None = None,
    dtype: str = "float64",
    refine: int | None = None,
    damping: float | None = None,
    frame: tuple[ArrayLike, ArrayLike] | None = None,
    device: int | CudaDevice = 0,
    cache: Path | None = None,
    factors: Callable[[Array], Array] | None = None,
) -> CudaChainKernel:
    """Compile a function of a chain for a GPU, or load it from the cache.

    Parameters
    ----------
    chain : a chain of joints with one degree of freedom, without side branches; or one for each
        robot, all with the same number of links.
    function, method, dtype, refine, damping : as for `source`.
    frame : of ``closed``, the tip's frame for all chains, as for
        :func:`pinion.chains.closed.closed_chain`: by default the last link's.
    device : the number of a GPU, or a device.
    cache : folder of compiled kernels; by default the user's cache.
    factors : for ``hybrid``, computes the CPU's part as :func:`joint_factors` does.

    Raises
    ------
    InputError
        If an argument is invalid, or there is no such GPU.
    ComputeError
        If kernels do not support the chain (constraint forces need an invertible inertia of every
        link), or a kernel does not compile or load.
    """
    chains = [chain] if isinstance(chain, Chain) else list(chain)
    lengths = sorted({chain.n for chain in chains})
    if len(lengths) != 1:
        raise InputError(
            f"The chains have lengths {lengths}: give at least one chain, all of one length."
        )
    if frame is not None and function != "closed":
        raise InputError(f"'{function}' has no frame at the tip: omit 'frame', or choose 'closed'.")
    moved = [canonical(chain) for chain in chains]
    return CudaChainKernel(
        chains=moved,
        source=source(
            lengths[0], function, method=method, dtype=dtype, refine=refine, damping=damping
        ),
        device=open_gpu(device, cache) if isinstance(device, int) else device,
        factors=factors,
        tips=[canonical_tip(chain, *_frame(frame)) for chain in chains],
    )


def _frame(frame: tuple[ArrayLike, ArrayLike] | None) -> tuple[Array, Array]:
    E, r = (np.eye(3), np.zeros(3)) if frame is None else (np.asarray(x, float) for x in frame)
    if E.shape != (3, 3) or r.shape != (3,):
        raise InputError(
            f"'frame' has shapes {E.shape} and {r.shape}: give a rotation (3, 3) and a point (3,)."
        )
    # A reflection has a reversed third axis; NaN fails as well.
    orthonormal = np.all(np.isfinite(r)) and np.allclose(E @ E.T, np.eye(3), atol=1e-6)
    if not orthonormal or E[2] @ np.cross(E[0], E[1]) < 0:
        raise InputError(
            f"'frame' is {E.tolist()} and {r.tolist()}: give a rotation, with determinant 1, and a "
            "finite point."
        )
    return E, r


def joint_factors(chain: Chain, q: Array) -> Array:
    """Return ``K = U / D`` and ``1 / D`` of all joints, (B, 7, n), by equation 7 of Yang 2017.

    Parameters
    ----------
    chain : canonical. q : (B, n) [rad | m]; its type is that of the computation.
    """
    at = state_of(chain, q, tau=np.zeros_like(q))
    zeros = np.zeros((len(q), chain.n, 6), q.dtype)
    bodies = articulated(at, zeros, zeros, reversed(range(chain.n)))
    inverse = 1 / bodies.d
    both = np.concatenate([bodies.U[..., 0] * inverse, inverse], axis=-1)
    return np.ascontiguousarray(both.swapaxes(1, 2))


_LESS_MEMORY = "Free memory of the device or the host, or give fewer robots or shorter chains."


class CudaChainKernel:
    """A compiled function of chains on a device; calls must not overlap.

    Members
    -------
    chains : in canonical frames; one for all robots, or one each.
    source : its kernels.
    device : runs the kernels.
    tips : of ``closed``, the tip of each chain from :func:`.device_chain.canonical_tip`.
    """

    def __init__(
        self,
        *,
        chains: Sequence[Chain],
        source: ChainSource,
        device: CudaDevice,
        factors: Callable[[Array], Array] | None = None,
        tips: Sequence[Array] = (),
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
        self._tips = self._uploaded(np.concatenate(tips)) if source.function == "closed" else None

    def __call__(self, **arrays: Any) -> Any:
        """Compute a batch from input arrays by name and return the result, or several by name.

        Parameters
        ----------
        arrays : the inputs by name, (n,) or (B, n) each [rad | m; s; N m | N], and G_C (6,) or
            (B, 6): all on the host, or all on the device (``__cuda_array_interface__`` or DLPack),
            of the kernel's dtype and in rows or columns, G_C in rows. ``hybrid`` needs host
            arrays, since the CPU computes its first part.

        Returns
        -------
        tau or qdd, a NumPy array or a :class:`pinion.compute.cuda.DeviceArray` as the inputs. For
        ``closed`` a dict of ``qdd``, ``F`` (6,) and ``Lambda_inverse`` (6, 6), with a batch axis if
        q has one.

        Raises
        ------
        InputError
            If a name, a shape or a dtype is invalid, or arrays are in different memories.
        ComputeError
            If the device has no memory left or failed.
        """
        names = self.source.inputs
        if sorted(arrays) != sorted(names):
            listed = ", ".join(arrays) or "no array"
            raise InputError(
                f"The inputs are {', '.join(names)}, but the call passes {listed}: pass all "
                "inputs and nothing else."
            )
        on_device = [name for name in names if is_on_a_device(arrays[name])]
        if on_device and len(on_device) < len(names):
            on_host = next(name for name in names if name not in on_device)
            raise InputError(
                f"'{on_device[0]}' is on a device, but '{on_host}' is in host memory: give all "
                "arrays on the device, or all in host memory."
            )
        try:
            return self._on_device(arrays) if on_device else self._from_host(arrays)
        except MemoryError as error:
            self.close()
            raise ComputeError(f"{error} {_LESS_MEMORY}") from None
        except BaseException:
            # Nobody will fetch what is still in flight.
            self.close()
            raise

    def sent(self, values: Array) -> DeviceArray:
        """Copy a host array, (n,) or (B, n), to the device for later calls.

        Raises
        ------
        ComputeError
            If the device has no memory left or failed.
        """
        flat = np.ascontiguousarray(values, self.dtype)
        memory, strides = self._uploaded(flat), contiguous(flat.shape)
        return DeviceArray(self.device.index, memory, flat.shape, strides, self.dtype)

    def close(self) -> None:
        """Free the device memory of states and results; the chains' memory stays allocated."""
        if self._room is not None:
            self._room.close()
        self._room = None

    def _steps(self, robots: int) -> list[tuple[KernelSource, Any]]:
        """Return the kernels for a number of robots, in order, each with its loaded function."""
        steps = []
        kernels = self.source.kernels_for(robots)
        if not all(map(self._fits, kernels)):
            # A block is slower than a grid, but computes one robot too.
            kernels = self.source.kernels
        for kernel in kernels:
            if kernel.name not in self._loaded:
                self._check_grid(kernel)
                self._loaded[kernel.name] = self.device.load(kernel.name, kernel.text)
            steps.append((kernel, self._loaded[kernel.name]))
        return steps

    def _blocks_at_once(self, kernel: KernelSource) -> int:
        # MOST_THREADS threads use all registers of a multiprocessor. Two parallel grids get half
        # each: waiting blocks of one must not keep out blocks of the other.
        most = self.device.multiprocessors * (MOST_THREADS // kernel.shape.threads)
        return most // 2 if kernel.part in ("STEP_I", "STEP_II") else most

    def _fits(self, kernel: KernelSource) -> bool:
        shape = kernel.shape
        return shape.scope != "Grid" or shape.blocks_a_robot <= self._blocks_at_once(kernel)

    def _check_grid(self, kernel: KernelSource) -> None:
        if not self._fits(kernel):
            shape, most = kernel.shape, self._blocks_at_once(kernel)
            raise InputError(
                f"{self.device.name} can run {amount(most, 'block')} of this kernel at once, but a "
                f"chain of {self.source.n} links needs {shape.blocks_a_robot}: give at most "
                f"{most * shape.threads * shape.links} links."
            )

    def _uploaded(self, flat: Array) -> Memory:
        try:
            memory = self.device.allocate(max(1, flat.nbytes))
            pinned = self.device.pinned(flat.nbytes)
        except MemoryError as error:
            raise ComputeError(f"{error} {_LESS_MEMORY}") from None
        pinned.view(self.dtype)[...] = flat.ravel()
        stream = self.device.stream()
        stream.upload(memory, pinned)
        stream.wait()
        return memory

    def _of_chains(self, numbers_of: Callable[[Chain, Any], Array]) -> tuple[Memory, int]:
        """Upload all chains' constants; return their memory and the stride in elements."""
        numbers = np.concatenate([numbers_of(chain, self.dtype) for chain in self.chains])
        step = len(numbers) // len(self.chains) if len(self.chains) > 1 else 0
        return self._uploaded(numbers), step

    def _from_host(self, arrays: Mapping[str, Any]) -> Any:
        n, shapes = self.source.n, self.source.shapes
        inputs = {name: np.asarray(arrays[name]) for name in self.source.inputs}
        batch = inputs["q"].shape[:-1]
        for name, x in inputs.items():
            (width,) = shapes[name]
            if x.ndim not in (1, 2) or x.shape != (*batch, width) or x.dtype.kind not in "fiu":
                raise InputError(
                    f"'{name}' has shape {x.shape} and dtype {x.dtype}: give numbers, ({width},) "
                    f"for one robot or (B, {width}) for a batch as large as that of 'q'."
                )
        robots = self._robots(prod(batch))
        if not robots:
            return self._given({x: np.zeros((*batch, *shapes[x])) for x in self.source.results})
        room = self._room_for(robots)
        stream = room.stream
        for name, x in inputs.items():
            sent = room.pinned[name][: x.size].reshape(x.shape)
            sent[...] = x
            stream.upload(room.memory[name], sent)
        places = {name: memory.address for name, memory in room.memory.items()}
        for steps in self._groups(robots):
            if self.source.method == "hybrid" and "factors" in steps[0][0].arrays:
                # Meanwhile the device computes the bias.
                values = self._factors(room.pinned["q"][: robots * n].reshape(robots, n))
                factors = room.pinned["factors"][: values.size]
                factors[...] = values.ravel()
                room.side.upload(room.memory["factors"], factors)
                room.side.wait()
            self._queue(room, steps, robots, places, (n, 1))
        fetched = {}
        for name in self.source.results:
            size = robots * prod(shapes[name])
            fetched[name] = room.pinned[name][:size].reshape(*batch, *shapes[name])
            stream.download(fetched[name], room.memory[name])
        stream.wait()
        return self._given({name: x.copy() for name, x in fetched.items()})

    def _given(self, results: Mapping[str, Any]) -> Any:
        """Return the result itself if there is only one, otherwise all results by name."""
        return dict(results) if len(results) > 1 else next(iter(results.values()))

    def _on_device(self, arrays: Mapping[str, Any]) -> Any:
        n = self.source.n
        if self.source.method == "hybrid":
            raise InputError(
                "The CPU computes a part of 'hybrid': give host arrays, or choose the method "
                "'abia'."
            )
        places: dict[str, int] = {}
        first: tuple[tuple[int, ...], tuple[int, ...]] | None = None
        for name in self.source.inputs:
            shape, strides, address, dtype, device = described(name, arrays[name])
            if device is not None and device != self.device.index:
                raise InputError(
                    f"'{name}' is on device {device}, but the kernel is on device "
                    f"{self.device.index}: copy the array there."
                )
            # The stride of an axis with one element is arbitrary.
            strides = tuple(
                stride if size > 1 else rows
                for size, stride, rows in zip(shape, strides, contiguous(shape), strict=True)
            )
            first = first or (shape, strides)
            (width,) = self.source.shapes[name]
            if len(shape) not in (1, 2) or shape[-1] != width or dtype != self.dtype:
                raise InputError(
                    f"'{name}' has shape {shape} and dtype {dtype}: give ({width},) or "
                    f"(B, {width}) of {self.dtype}."
                )
            if name in HELD:
                expected = (*first[0][:-1], width)
                if (shape, strides) != (expected, contiguous(expected)):
                    raise InputError(
                        f"'{name}' has shape {shape} and strides {strides}: give a "
                        f"contiguous array of shape {expected}."
                    )
            elif (shape, strides) != first:
                raise InputError(
                    f"'{name}' has shape {shape} and strides {strides}, but 'q' has shape "
                    f"{first[0]} and strides {first[1]}: use the shape and strides of 'q'."
                )
            places[name] = address
        assert first is not None
        shape, strides = first
        robots = self._robots(prod(shape[:-1]))
        rows, columns = (n, 1), (1, robots)
        steps = rows if len(shape) == 1 else (strides[0], strides[1])
        if (len(shape) == 1 and strides != (1,)) or steps not in (rows, columns):
            raise InputError(
                f"'q' has the strides {strides} in elements: "
                + ("use (1,)." if len(shape) == 1 else f"use {rows} or {columns}.")
            )
        outputs = {}
        for name in self.source.results:
            result_shape = (*shape[:-1], *self.source.shapes[name])
            memory = self.device.allocate(max(1, prod(result_shape) * self.dtype.itemsize))
            places[name] = memory.address
            apart = contiguous(result_shape) if name in HELD else strides
            outputs[name] = DeviceArray(self.device.index, memory, result_shape, apart, self.dtype)
        if robots:
            room = self._room_for(robots)
            places |= {name: room.memory[name].address for name in self.source.between}
            self.device.wait()  # the inputs may still be in computation
            for group in self._groups(robots):
                self._queue(room, group, robots, places, steps)
            room.stream.wait()
        return self._given(outputs)

    def _groups(self, robots: int) -> list[list[tuple[KernelSource, Any]]]:
        """Return the kernels in order, in groups that share work memory."""
        steps = self._steps(robots)
        return [steps] if steps[0][0].constrained else [[step] for step in steps]

    def _queue(
        self,
        room: _Room,
        steps: Sequence[tuple[KernelSource, Any]],
        robots: int,
        places: Mapping[str, int],
        strides: tuple[int, int],
    ) -> None:
        """Queue kernels for all robots; grids handle one robot after another."""
        source, size = self.source, self.dtype.itemsize
        at_once = min(kernel.at_once(robots) for kernel, _ in steps)
        apart = {name: prod(shape) for name, shape in HELD.items()} | dict(source.between)
        apart["tip"] = 12 if len(self.chains) > 1 else 0
        if self._tips is not None:
            places = {**places, "tip": self._tips.address}
        for first in range(0, robots, at_once):
            if len(steps) > 1:  # after the upload of the inputs and the previous robot
                room.side.after(room.stream)
            for kernel, loaded in steps:
                if kernel.part == "AFTER":
                    room.stream.after(room.side)
                addresses = [
                    places[name] + first * apart.get(name, strides[0]) * size
                    for name in kernel.arrays
                ]
                chain = [self._numbers.address + first * self._chain_step * size, self._chain_step]
                work: list[int] = []
                if kernel.constrained:
                    distance = self._constraint_step
                    chain += [self._constraints.address + first * distance * size, distance]
                    # With a thread per robot, numbers of neighbouring threads are adjacent.
                    words = source.n * kernel.workspace
                    interleaved = kernel.shape.scope == "Thread"
                    work = [room.scratch.address + kernel.own_bytes(self.dtype)]
                    work += [1, at_once] if interleaved else [words, 1]
                scratch = room.scratch.address + kernel.first_byte()
                (room.side if kernel.part == "STEP_II" else room.stream).launch(
                    loaded,
                    kernel.launch(at_once),
                    [at_once, source.n, *chain, *strides, scratch, *work, *addresses],
                )

    def _robots(self, robots: int) -> int:
        if len(self.chains) > 1 and robots != len(self.chains):
            raise InputError(
                f"There are {len(self.chains)} chains, but the batch has length {robots}: give "
                "one state per chain."
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
        factors = [joint_factors(chain, q[k : k + 1]) for k, chain in enumerate(self.chains)]
        return np.concatenate(factors)

    def __repr__(self) -> str:
        source = self.source
        return (
            f"<CudaChainKernel {source.function} by {source.method}: {source.n} links, "
            f"{source.dtype}, {self.device.name}>"
        )


class _Room:
    """Arrays on the device, pinned host arrays and streams for a number of robots."""

    def __init__(self, device: CudaDevice, source: ChainSource, robots: int) -> None:
        dtype = np.dtype(source.dtype)
        sizes = {name: robots * prod(shape) for name, shape in source.shapes.items()}
        sizes |= {name: robots * count for name, count in source.between.items()}
        # A later call may have a single robot, whose kernels may differ.
        kernels = (*source.kernels, *source.alone)
        scratch = max(k.scratch_bytes(robots, source.n, dtype) for k in kernels)
        self.robots = robots
        self.stream, self.side = device.stream(), device.stream()
        self.memory: dict[str, Memory] = {}
        try:
            for name, size in sizes.items():
                self.memory[name] = device.allocate(size * dtype.itemsize)
            self.scratch = self.memory["scratch"] = device.allocate(max(ZERO_BYTES, scratch))
        except MemoryError:
            self.close()
            raise
        self.pinned = {
            name: device.pinned(size * dtype.itemsize).view(dtype) for name, size in sizes.items()
        }
        zeros = device.pinned(ZERO_BYTES)
        zeros[...] = 0
        self.stream.upload(self.scratch, zeros)
        self.stream.wait()

    def close(self) -> None:
        """Free the device's memory after the queued work."""
        for stream in (self.stream, self.side):
            with contextlib.suppress(ComputeError):
                stream.wait()
        for memory in self.memory.values():
            memory.close()
