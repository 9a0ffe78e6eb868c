"""Times of the gradient of forward dynamics with each partition of the 2021 paper.

The host's parts run on all CPU cores, the device's on a GPU, all in one dtype and as arrays of
structures. Without a device the host's parts are still measured, and the bytes counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.batch import InputError
from pinion.bench.cuda.rates import OnDevice
from pinion.compute import cpu, cuda
from pinion.compute.cuda.device import CudaDevice
from pinion.compute.cuda.kernel import CudaKernel
from pinion.compute.rates import KernelCall, kernel_case, median, rounds_of, states_of
from pinion.dynamics import minimal_model
from pinion.functions import named_function
from pinion.functions.partitions import PARTITIONS, Partition
from pinion.native import ComputeError
from pinion.robot import Model

SEED = 11
LAUNCHES = 20
"""Number of launches queued one after another to time one of them."""

PARTS = ("host_before_us", "kernel_us", "copies_us", "host_after_us", "total_us")
"""Times of a row: microseconds per batch, None without a device or a compiler."""

Row = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


def partition_times(
    model: Model,
    *,
    sizes: Sequence[int],
    rounds: int,
    seconds: float,
    dtype: str = "float32",
    device: CudaDevice | None = None,
    cache: Path | None = None,
) -> tuple[list[Row], dict[str, str], str]:
    """Measure the gradient with each partition, at each batch size.

    Parameters
    ----------
    sizes : batch sizes.
    rounds, seconds : as for :func:`pinion.compute.rates.rounds_of`.
    device : by default the first GPU.
    cache : folder of compiled kernels; by default the user's cache.

    Returns
    -------
    A row per partition and size: ``robot, partition, dtype, samples``; ``bytes_to_device`` and
    ``bytes_to_host`` of a sample; the times of `PARTS`, of which ``copies_us`` is derived, the
    device's call with arrays of the host less the kernel, and ``total_us`` is measured as a whole;
    and ``kernel``, a thread or a block per sample. What is left out, with the reason. The device's
    name, or "".

    Raises
    ------
    pinion.batch.InputError : if the gradient does not support a joint of the robot.
    """
    left_out: dict[str, str] = {}
    gpu = device
    try:
        gpu = cuda.open_gpu(0, cache) if gpu is None else gpu
    except InputError as error:
        left_out["Partitions, the device's part"] = str(error)
    rows: list[Row] = []
    for partition in PARTITIONS.values():
        try:
            run = _Run.compiled(partition, model, dtype=dtype, device=gpu, cache=cache)
        except ComputeError as error:
            left_out[f"Partitions, times of {partition.name}"] = str(error)
            run = None
        for count in sizes:
            times: dict[str, float | None] = dict.fromkeys(PARTS, None)
            try:
                if run is not None:
                    times = run.times(count, rounds, seconds)
            except MemoryError as error:
                left_out[f"Partitions, times of {partition.name}, N = {count:,}"] = str(error)
            to_device, to_host = partition.bytes_of(model, np.dtype(dtype).itemsize)
            about = {"robot": model.name, "partition": partition.name, "dtype": dtype}
            sizes_of = {"bytes_to_device": to_device, "bytes_to_host": to_host}
            who = None if run is None else run.who(count)
            rows.append({**about, "samples": count, **sizes_of, **times, "kernel": who})
        if run is not None and run.kernel is not None:
            run.kernel.close()
    return rows, left_out, "" if gpu is None else gpu.name


@dataclass(frozen=True, kw_only=True)
class _Run:
    """A compiled partition: the host's parts and the device's kernel.

    Members
    -------
    before, after : the host's parts, or None.
    kernel : the device's part, or None without a device.
    states : requests of the whole function, (m, ...), by name.
    """

    before: cpu.Kernel | None
    kernel: CudaKernel | None
    after: cpu.Kernel | None
    states: Mapping[str, NDArray[Any]]

    @classmethod
    def compiled(
        cls,
        partition: Partition,
        model: Model,
        *,
        dtype: str,
        device: CudaDevice | None,
        cache: Path | None,
    ) -> _Run:
        """Compile the parts of a partition, or load them from the cache.

        Links are those of the minimal model, which only the two sides see: with the iiwa14 as read,
        the kernel of `split` alone would have a quarter more instructions.
        """
        model = minimal_model(model)
        before, after = (
            None if row is None else cpu.compile(model, row, dtype=dtype, cache=cache)
            for row in (partition.before, partition.after)
        )
        kernel = None
        if device is not None:
            kernel = cuda.compile(model, partition.device, dtype=dtype, device=device, cache=cache)
        whole_function = named_function("fd_derivatives_from_minv")
        states = states_of(model, whole_function, seed=SEED)
        return cls(before=before, kernel=kernel, after=after, states=states)

    def who(self, count: int) -> str | None:
        """Return whether ``a thread`` or ``a block`` computes a sample; None without a device."""
        if self.kernel is None:
            return None
        return "a block" if self._by_blocks(self.kernel, count) else "a thread"

    @staticmethod
    def _by_blocks(kernel: CudaKernel, count: int) -> bool:
        return kernel.small is not None and count < kernel.crossover

    def times(self, count: int, rounds: int, seconds: float) -> dict[str, float | None]:
        """Return the microseconds of a batch by part, with the keys of `PARTS`."""
        # The host's time does not depend on the values, so it gets its functions' own states.
        cases = {
            name: kernel_case(host, states_of(host.model, host.function, seed=SEED), count)
            for name, host in (("host_before", self.before), ("host_after", self.after))
            if host is not None
        }
        resident = None
        try:
            if self.kernel is not None:
                requests, links, gradients, results = self._arrays(count)
                resident = OnDevice(self.kernel, {**requests, **links}, count)
                cases["kernel"] = _launches(self.kernel, resident, count)
                cases["call"] = KernelCall(
                    self._call({**requests, **links}, gradients or results), count
                )
                cases["total"] = KernelCall(self._whole(requests, links, gradients, results), count)
            rounds_ns = rounds_of(cases, rounds=rounds, seconds=seconds)
        finally:
            if resident is not None:
                resident.close()
        us = {name: median(ns) * count / 1e3 for name, ns in rounds_ns.items()}
        measured = self.kernel is not None
        return {
            "host_before_us": us.get("host_before", 0.0),
            "kernel_us": us.get("kernel"),
            "copies_us": us["call"] - us["kernel"] if measured else None,
            "host_after_us": us.get("host_after", 0.0),
            "total_us": us.get("total"),
        }

    def _arrays(self, count: int) -> tuple[Arrays, Arrays, Arrays, Arrays]:
        """Return requests, link quantities, the gradient of inverse dynamics and the results.

        The gradient is left empty if the device computes the result.
        """
        kernel = self.kernel
        assert kernel is not None
        requests = {
            name: np.resize(rows.astype(kernel.dtype), (count, *rows.shape[1:]))
            for name, rows in self.states.items()
        }

        def empty(of: cpu.Kernel | CudaKernel | None) -> Arrays:
            arrays = () if of is None else of.results
            return {a.name: np.zeros((count, *a.shape), kernel.dtype) for a in arrays}

        links = empty(self.before)
        if self.before is not None:
            self.before(out=links, **_taken(self.before, requests))
        if self.after is None:
            return requests, links, {}, empty(kernel)
        return requests, links, empty(kernel), empty(self.after)

    def _call(self, requests: Arrays, out: Arrays) -> Callable[[], Any]:
        """Return a function that runs the device's part on host arrays."""
        kernel = self.kernel
        assert kernel is not None
        inputs = _taken(kernel, requests)
        return lambda: kernel(out=out, **inputs)

    def _whole(
        self, requests: Arrays, links: Arrays, gradients: Arrays, results: Arrays
    ) -> Callable[[], None]:
        """Return a function that runs all parts, one after another."""
        steps = [self._call({**requests, **links}, gradients or results)]
        if self.before is not None:
            before, first = self.before, _taken(self.before, requests)
            steps.insert(0, lambda: before.run(out=links, **first))
        if self.after is not None:
            after, last = self.after, _taken(self.after, {**requests, **gradients})
            steps.append(lambda: after.run(out=results, **last))

        def run() -> None:
            for step in steps:
                step()

        return run


def _taken(kernel: cpu.Kernel | CudaKernel, arrays: Arrays) -> Arrays:
    return {a.name: arrays[a.name] for a in kernel.inputs}


def _launches(kernel: CudaKernel, resident: OnDevice, count: int) -> KernelCall:
    """Return the kernel's recorded launches as one timed call."""
    launches = resident.by_blocks if _Run._by_blocks(kernel, count) else resident.by_threads
    return launches(LAUNCHES)
