"""How long the gradient of forward dynamics takes by each partition of the 2021 paper.

Host's parts run on the CPU path with all processors, the device's on a GPU, all of one dtype and as
arrays of structures. Where there is no device, what the host does is measured all the same, and
bytes are counted: they need none.
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
from pinion.compute.cuda.device import Device
from pinion.compute.cuda.kernel import CudaKernel
from pinion.compute.rates import Case, kernel_case, median, rounds_of, states_of
from pinion.dynamics import minimal_model
from pinion.functions import named_function
from pinion.functions.partitions import PARTITIONS, Partition
from pinion.native.errors import ComputeError
from pinion.robot import Model

SEED = 11
LAUNCHES = 20
"""That are queued behind each other where the time of one is wanted."""

PARTS = ("host_before_us", "kernel_us", "copies_us", "host_after_us", "total_us")
"""Times of a row: microseconds a batch, None where there is no device or no compiler."""

Row = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


def partition_times(
    model: Model,
    *,
    sizes: Sequence[int],
    rounds: int,
    seconds: float,
    dtype: str = "float32",
    device: Device | None = None,
    cache: Path | None = None,
) -> tuple[list[Row], dict[str, str], str]:
    """Measure all partitions.

    Parameters
    ----------
    sizes : samples of batches.
    rounds, seconds : as of :func:`pinion.compute.rates.rounds_of`.
    device : by default the first GPU.
    cache : where compiled kernels are kept; by default the user's cache.

    Returns
    -------
    A row a partition and a size: ``robot, partition, dtype, samples``; ``bytes_to_device`` and
    ``bytes_to_host`` of a sample; the times of `PARTS`, of which ``copies_us`` is derived, the
    device's call with arrays of the host less the kernel, and ``total_us`` measured as a whole;
    and ``kernel``, who computes a sample, a thread or a block. What is left out, with the reason.
    The device's name, "" for none.

    Raises
    ------
    pinion.batch.InputError : the robot has a joint that the gradient does not take.
    """
    left_out: dict[str, str] = {}
    there = device
    try:
        there = cuda.open_gpu(0, cache) if there is None else there
    except InputError as error:
        left_out["Partitions, the device's part"] = str(error)
    rows: list[Row] = []
    for partition in PARTITIONS.values():
        try:
            run = _Run.compiled(partition, model, dtype=dtype, device=there, cache=cache)
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
    return rows, left_out, "" if there is None else there.name


@dataclass(frozen=True, kw_only=True)
class _Run:
    """A partition that is ready to run.

    Members
    -------
    before, after : the host's parts, None where there is none.
    kernel : the device's, None where there is no device.
    states : requests of the whole, (m, ...), by name.
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
        device: Device | None,
        cache: Path | None,
    ) -> _Run:
        """Compile the parts, or find them compiled.

        Links are those of the minimal model, which both sides take and nobody else sees: for the
        iiwa14 as loaded the kernel of `split` alone would have a quarter more instructions.
        """
        model = minimal_model(model)
        before, after = (
            None if row is None else cpu.compile(model, row, dtype=dtype, cache=cache)
            for row in (partition.before, partition.after)
        )
        kernel = None
        if device is not None:
            kernel = cuda.compile(model, partition.device, dtype=dtype, device=device, cache=cache)
        whole = named_function("fd_derivatives_from_minv")
        states = states_of(model, whole, seed=SEED)
        return cls(before=before, kernel=kernel, after=after, states=states)

    def who(self, count: int) -> str | None:
        """Who computes a sample of a batch of so many."""
        if self.kernel is None:
            return None
        return "a block" if self._by_blocks(self.kernel, count) else "a thread"

    @staticmethod
    def _by_blocks(kernel: CudaKernel, count: int) -> bool:
        return kernel.small is not None and count < kernel.crossover

    def times(self, count: int, rounds: int, seconds: float) -> dict[str, float | None]:
        """Microseconds of a batch, by the names of `PARTS`."""
        # What the host computes is the same for any numbers: those of its functions' own states.
        cases = {
            name: kernel_case(host, states_of(host.model, host.function, seed=SEED), count)
            for name, host in (("host_before", self.before), ("host_after", self.after))
            if host is not None
        }
        there = None
        try:
            if self.kernel is not None:
                given, links, gradients, results = self._arrays(count)
                there = OnDevice(self.kernel, {**given, **links}, count)
                cases["kernel"] = _launches(self.kernel, there, count)
                cases["call"] = Case(self._call({**given, **links}, gradients or results), count)
                cases["total"] = Case(self._whole(given, links, gradients, results), count)
            found = rounds_of(cases, rounds=rounds, seconds=seconds)
        finally:
            if there is not None:
                there.close()
        us = {name: median(ns) * count / 1e3 for name, ns in found.items()}
        known = self.kernel is not None
        return {
            "host_before_us": us.get("host_before", 0.0),
            "kernel_us": us.get("kernel"),
            "copies_us": us["call"] - us["kernel"] if known else None,
            "host_after_us": us.get("host_after", 0.0),
            "total_us": us.get("total"),
        }

    def _arrays(self, count: int) -> tuple[Arrays, Arrays, Arrays, Arrays]:
        """Requests, what links do, the gradient of inverse dynamics and the result, (n, ...).

        The gradient is left empty where the device gives the result.
        """
        kernel = self.kernel
        assert kernel is not None
        given = {
            name: np.resize(rows.astype(kernel.dtype), (count, *rows.shape[1:]))
            for name, rows in self.states.items()
        }

        def empty(of: cpu.Kernel | CudaKernel | None) -> Arrays:
            arrays = () if of is None else of.results
            return {a.name: np.zeros((count, *a.shape), kernel.dtype) for a in arrays}

        links = empty(self.before)
        if self.before is not None:
            self.before(out=links, **_taken(self.before, given))
        if self.after is None:
            return given, links, {}, empty(kernel)
        return given, links, empty(kernel), empty(self.after)

    def _call(self, given: Arrays, out: Arrays) -> Callable[[], Any]:
        """The device's part with arrays of the host."""
        kernel = self.kernel
        assert kernel is not None
        taken = _taken(kernel, given)
        return lambda: kernel(out=out, **taken)

    def _whole(
        self, given: Arrays, links: Arrays, gradients: Arrays, results: Arrays
    ) -> Callable[[], None]:
        """All parts, one after the other."""
        steps = [self._call({**given, **links}, gradients or results)]
        if self.before is not None:
            before, first = self.before, _taken(self.before, given)
            steps.insert(0, lambda: before.run(out=links, **first))
        if self.after is not None:
            after, last = self.after, _taken(self.after, {**given, **gradients})
            steps.append(lambda: after.run(out=results, **last))

        def run() -> None:
            for step in steps:
                step()

        return run


def _taken(kernel: cpu.Kernel | CudaKernel, arrays: Arrays) -> Arrays:
    return {a.name: arrays[a.name] for a in kernel.inputs}


def _launches(kernel: CudaKernel, there: OnDevice, count: int) -> Case:
    """Launches that are queued behind each other, as one case."""
    launches = there.by_blocks if _Run._by_blocks(kernel, count) else there.by_threads
    return launches(LAUNCHES)
