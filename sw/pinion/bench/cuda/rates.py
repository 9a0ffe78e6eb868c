"""Speed of kernels on a device, compared with their bounds.

Two bounds accompany every time. *Bytes*: requests and results, over the rate of a copy from the
device's memory to itself, measured in the same run; a copy of n bytes reads and writes n. *Issue*:
the kernel's arithmetic instructions, over what all multiprocessors start at the device's stated
clock, 128 lanes per cycle for float32 and 64 for float64, which only the large chips have.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.compute.cuda.device import CudaDevice, CudaStream, Memory, Recorded
from pinion.compute.cuda.kernel import CudaKernel, DeviceArray
from pinion.compute.rates import KernelCall
from pinion.link import Array
from pinion.native import ComputeError

SINCOS_INSTRUCTIONS: Mapping[str, int] = {"float32": 25, "float64": 36}
"""Instructions of a sine and cosine pair in the fast range, estimated from ``sincos.hpp``."""

LANES: Mapping[str, int] = {"float32": 128, "float64": 64}
"""Instructions that a multiprocessor starts per cycle, over all its lanes."""

States = Mapping[str, NDArray[Any]]
"""Requests (m, ...) by name, repeated to fill a batch."""

_COPIED = 1 << 28  # bytes of the copy whose rate is measured


@dataclass(frozen=True)
class Limits:
    """Rates of a device that give a lower bound on a kernel's time.

    Members
    -------
    copy_bytes_ns : bytes read plus bytes written per nanosecond, by a copy.
    cycles_ns : cycles per nanosecond of all multiprocessors together.
    """

    copy_bytes_ns: float
    cycles_ns: float

    def floor_ns(self, kernel: CudaKernel) -> float:
        """Return the larger of the two lower bounds on a kernel's nanoseconds per sample."""
        source = kernel.source
        arrays = (*kernel.inputs, *kernel.results)
        moved = sum(prod(a.shape) for a in arrays) * kernel.dtype.itemsize
        instructions = sum(
            part.arithmetic + part.angles * SINCOS_INSTRUCTIONS[source.dtype]
            for part in source.kernels
        )
        issue = instructions / (LANES[source.dtype] * self.cycles_ns)
        return max(moved / self.copy_bytes_ns, issue)


def measured_limits(device: CudaDevice, *, size: int = _COPIED) -> Limits:
    """Return a device's limits: its measured copy rate and its reported clock.

    Raises
    ------
    ComputeError
        If the device fails or has no room for two arrays of ``size`` bytes.
    """
    stream = device.stream()
    buffers: list[Memory] = []
    try:
        for _ in range(2):
            buffers.append(device.allocate(size))

        def copies() -> None:
            for _ in range(5):
                stream.copy(*buffers)
            stream.wait()

        case = KernelCall(copies, 5)
        case.call()
        ns = min(case.time() for _ in range(5))
        stream.wait()
    except MemoryError:
        raise ComputeError(
            f"{device.name} cannot allocate the two arrays of {size:,} bytes with which copies are "
            "timed: free some of its memory."
        ) from None
    finally:
        for memory in buffers:
            memory.close()
    return Limits(2 * size / ns, device.multiprocessors * device.clock_ghz)


def host_case(kernel: CudaKernel, states: States, count: int) -> KernelCall:
    """Return a timed call of a kernel on host arrays, including transfers."""
    requests = _requests(kernel, states, count)
    out = {a.name: np.zeros((count, *a.shape), kernel.dtype) for a in kernel.results}
    return KernelCall(partial(kernel, out=out, **requests), count)


def device_case(kernel: CudaKernel, states: States, count: int) -> KernelCall:
    """Return a timed call of a kernel on device arrays, which waits for the results."""
    rows = _requests(kernel, states, count)
    device_inputs = {a.name: sent(kernel, a, rows[a.name]) for a in kernel.inputs}
    out = {a.name: placed(kernel, a, count) for a in kernel.results}
    return KernelCall(partial(kernel, out=out, **device_inputs), count)


def placed(kernel: CudaKernel, array: Array, count: int) -> DeviceArray:
    """Allocate an array of a batch on the kernel's device, with the strides of new results.

    Raises
    ------
    MemoryError : if the device has no room.
    """
    shape = (count, *array.shape)
    memory = kernel.device.allocate(prod(shape) * kernel.dtype.itemsize)
    strides = kernel._strides(array, shape)
    return DeviceArray(kernel.device.index, memory, shape, strides, kernel.dtype)


def sent(kernel: CudaKernel, array: Array, values: NDArray[Any]) -> DeviceArray:
    """Copy values to a new array on the kernel's device.

    Parameters
    ----------
    array : description of the values.
    values : (n, ...), of any float dtype.

    Raises
    ------
    MemoryError : if the device has no room, or the host cannot pin memory.
    """
    soa = kernel.source.layout == "soa"
    ordered = np.moveaxis(values, 0, -1) if soa else values
    flat = np.ascontiguousarray(ordered, kernel.dtype).reshape(-1)
    memory = placed(kernel, array, len(values))
    try:
        pinned = kernel.device.pinned(flat.nbytes)
        pinned[...] = flat.view(np.uint8)
        stream = kernel.device.stream()
        stream.upload(memory._memory, pinned)
        stream.wait()
    except BaseException:
        memory._memory.close()
        raise
    return memory


def _requests(kernel: CudaKernel, states: States, count: int) -> dict[str, NDArray[Any]]:
    return {
        a.name: np.resize(states[a.name].astype(kernel.dtype), (count, *a.shape))
        for a in kernel.inputs
    }


class OnDevice:
    """A batch of requests in device memory, computed by threads or by blocks.

    Launches are recorded and start with one call of the driver: for small batches, launches from
    Python one by one would measure the calls.

    Members
    -------
    samples : size of the batch.
    """

    def __init__(self, kernel: CudaKernel, states: States, samples: int) -> None:
        """Copy the requests to the device.

        Raises
        ------
        MemoryError : if the device has no room.
        """
        self.samples = samples
        self._kernel = kernel
        self._arrays: list[DeviceArray] = []
        self._workspace: Memory | None = None
        self._graphs: list[Recorded] = []
        self._stream = kernel.device.stream()
        requests = _requests(kernel, states, samples)
        try:
            for a in kernel.inputs:
                self._arrays.append(sent(kernel, a, requests[a.name]))
            for a in kernel.results:
                self._arrays.append(placed(kernel, a, samples))
            if kernel.source.workspace:
                self._workspace = kernel.device.allocate(kernel.workspace_bytes(samples))
        except BaseException:
            self.close()
            raise
        self._views = [
            kernel._view(a, array, "is used")
            for a, array in zip((*kernel.inputs, *kernel.results), self._arrays, strict=True)
        ]

    def by_threads(self, runs: int) -> KernelCall:
        """Return recorded launches in which one thread computes each sample."""
        kernel, count = self._kernel, self.samples
        return self._recorded(
            lambda stream: kernel._run_threads(stream, count, self._views, self._workspace), runs
        )

    def by_blocks(self, runs: int) -> KernelCall:
        """Return recorded launches in which one block computes each sample."""
        kernel, count = self._kernel, self.samples
        return self._recorded(lambda stream: kernel._run_small(stream, count, self._views), runs)

    def _recorded(self, run: Callable[[CudaStream], None], runs: int) -> KernelCall:
        run(self._stream)  # the first launch loads a kernel, which a recording may not do
        self._stream.wait()

        def work(stream: CudaStream) -> None:
            for _ in range(runs):
                run(stream)

        graph = self._stream.record(work)
        self._graphs.append(graph)

        def call() -> None:
            graph.launch()
            self._stream.wait()

        return KernelCall(call, runs * self.samples)

    def results(self) -> dict[str, NDArray[Any]]:
        """Copy the results to the host, (n, ...) by name."""
        results, kernel = {}, self._kernel
        for a, array in zip(kernel.results, self._arrays[len(kernel.inputs) :], strict=True):
            pinned = kernel.device.pinned(array._memory.size)
            self._stream.download(pinned, array._memory)
            self._stream.wait()
            flat, steps = (
                pinned.view(kernel.dtype),
                [s * array.dtype.itemsize for s in array.strides],
            )
            results[a.name] = np.lib.stride_tricks.as_strided(flat, array.shape, steps).copy()
        return results

    def close(self) -> None:
        """Free the device memory; device errors are ignored."""
        with contextlib.suppress(ComputeError):
            self._stream.wait()
        for graph in self._graphs:
            with contextlib.suppress(ComputeError):
                graph.close()
        for memory in (*(array._memory for array in self._arrays), self._workspace):
            if memory is not None:
                with contextlib.suppress(ComputeError):
                    memory.close()
        self._arrays, self._workspace, self._graphs = [], None, []
