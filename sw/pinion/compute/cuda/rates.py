"""How fast kernels are on a device, beside what bounds them.

Two bounds stand beside every time. *Bytes*: requests and results, over the rate of a copy from the
device's memory to itself, measured in the same run; a copy of n bytes reads and writes n. *Issue*:
the kernel's arithmetic instructions, over what all multiprocessors start at the clock that the
device states, 128 lanes a cycle for float32 and 64 for float64, which only the large chips have.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .device import Device, Memory, Stream
from .kernel import CudaKernel, Placed

SINCOS_INSTRUCTIONS: Mapping[str, int] = {"float32": 25, "float64": 36}
"""Instructions of a pair of sine and cosine in the fast range, an estimate from ``sincos.hpp``."""

LANES: Mapping[str, int] = {"float32": 128, "float64": 64}
"""Instructions that a multiprocessor starts in a cycle, over all its lanes."""

_COPIED = 1 << 28  # bytes of the copy whose rate is measured


@dataclass(frozen=True)
class Limits:
    """What bounds a device.

    Members
    -------
    copy_bytes_ns : bytes read plus bytes written in a nanosecond, by a copy.
    cycles_ns : of all multiprocessors together.
    """

    copy_bytes_ns: float
    cycles_ns: float

    def floor_ns(self, kernel: CudaKernel) -> float:
        """Nanoseconds a sample that a kernel takes at least: the larger one of the two bounds."""
        source = kernel.source
        arrays = (*kernel.inputs, *kernel.results)
        moved = sum(prod(a.shape) for a in arrays) * kernel.dtype.itemsize
        instructions = sum(
            part.arithmetic + part.angles * SINCOS_INSTRUCTIONS[source.dtype]
            for part in source.kernels
        )
        issue = instructions / (LANES[source.dtype] * self.cycles_ns)
        return max(moved / self.copy_bytes_ns, issue)


def measured_limits(device: Device, *, size: int = _COPIED) -> Limits:
    """Measure the rate of copies; the clock is what the device states.

    Raises
    ------
    ComputeError, MemoryError
        When the device fails or has no room for two arrays of ``size`` bytes.
    """
    stream, held = device.stream(), [device.allocate(size) for _ in range(2)]
    try:
        seconds = min(repeated(stream, lambda: stream.copy(*held), runs=5) for _ in range(5))
    finally:
        stream.wait()
        for memory in held:
            memory.close()
    return Limits(2 * size / (1e9 * seconds), device.multiprocessors * device.clock_ghz)


def repeated(stream: Stream, run: Callable[[], None], *, runs: int) -> float:
    """Seconds of one run of several that are queued behind each other."""
    run()
    stream.wait()
    start = time.perf_counter()
    for _ in range(runs):
        run()
    stream.wait()
    return (time.perf_counter() - start) / runs


class OnDevice:
    """A batch whose arrays are on the device.

    Members
    -------
    samples : of the batch.
    """

    def __init__(
        self, kernel: CudaKernel, states: Mapping[str, NDArray[Any]], samples: int
    ) -> None:
        """Send the requests.

        Parameters
        ----------
        states : requests (m, ...), repeated up to the number of samples.

        Raises
        ------
        MemoryError : the device has no room.
        """
        self.samples = samples
        self._kernel = kernel
        self._held: list[Memory] = []
        device, size = kernel.device, kernel.dtype.itemsize
        self.stream = device.stream()
        try:
            for a in (*kernel.inputs, *kernel.results):
                self._held.append(device.allocate(samples * prod(a.shape) * size))
            work = kernel.source.workspace
            self._workspace = device.allocate(kernel.workspace_bytes(samples)) if work else None
        except MemoryError:
            self.close()
            raise
        if self._workspace is not None:
            self._held.append(self._workspace)
        soa = kernel.source.layout == "soa"
        for a, memory in zip(kernel.inputs, self._held, strict=False):
            rows = np.resize(states[a.name].astype(kernel.dtype), (samples, *a.shape))
            flat = np.ascontiguousarray(np.moveaxis(rows, 0, -1) if soa else rows).reshape(-1)
            pinned = device.pinned(flat.nbytes)
            pinned.view(kernel.dtype)[...] = flat
            self.stream.upload(memory, pinned)
            self.stream.wait()
        self._views = [
            Placed(memory.address, *((1, samples) if soa else (prod(a.shape), 1)), samples, memory)
            for a, memory in zip((*kernel.inputs, *kernel.results), self._held, strict=False)
        ]

    def by_threads(self) -> None:
        """Queue the kernels in which a thread computes a sample."""
        self._kernel._run_threads(self.stream, self.samples, self._views, self._workspace)

    def by_blocks(self) -> None:
        """Queue the kernel in which a block computes a sample."""
        self._kernel._run_small(self.stream, self.samples, self._views)

    def results(self) -> dict[str, NDArray[Any]]:
        """Fetch what was computed, (n, ...)."""
        found, kernel = {}, self._kernel
        memories = self._held[len(kernel.inputs) :]
        for a, memory in zip(kernel.results, memories, strict=False):
            pinned = kernel.device.pinned(self.samples * prod(a.shape) * kernel.dtype.itemsize)
            self.stream.download(pinned, memory)
            self.stream.wait()
            flat = pinned.view(kernel.dtype)
            if kernel.source.layout == "soa":
                found[a.name] = np.moveaxis(flat.reshape(*a.shape, self.samples), -1, 0).copy()
            else:
                found[a.name] = flat.reshape(self.samples, *a.shape).copy()
        return found

    def close(self) -> None:
        """Give the device's memory back."""
        self.stream.wait()
        for memory in self._held:
            memory.close()
        self._held = []
