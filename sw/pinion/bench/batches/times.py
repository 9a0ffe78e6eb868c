"""Times of whole batches on this machine's CPU and GPU.

A call is given the arrays for its results, so that it allocates nothing large. Batches are arrays
of structures, (n, ...), as users of NumPy have them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from pinion.bench.cuda.rates import device_case, host_case
from pinion.compute import cpu
from pinion.compute.cuda.kernel import CudaKernel
from pinion.compute.rates import KernelCall, kernel_case, record_bytes, rounds_of, states_of
from pinion.functions import Function
from pinion.native import ComputeError
from pinion.robot import Model

SEED = 11

MOST_BYTES = 3 << 29
"""Memory limit for the arrays of one batch; larger batches are left out."""

Row = dict[str, Any]


def cpu_times(
    model: Model, function: Function, *, sizes: Sequence[int], rounds: int, seconds: float
) -> tuple[list[Row], dict[str, str]]:
    """Measure batches on the CPU: both dtypes, with one thread and on all cores.

    Parameters
    ----------
    sizes : batch sizes; 1 is one request without a batch axis.
    rounds, seconds : as for :func:`pinion.compute.rates.rounds_of`; all kernels take turns.

    Returns
    -------
    Rows with ``by``, ``dtype``, ``processors`` (one, all), ``samples``, ``ns_per_sample``,
    ``spread`` (interquartile range of the rounds over their median) and ``note``; and what was left
    out, with the reason.

    Raises
    ------
    ComputeError : if there is no compiler, or a kernel does not compile.
    InputError : if the function does not support a joint of the robot.
    """
    states = states_of(model, function, seed=SEED)
    paths = []
    for dtype in cpu.DTYPES:
        for processors, threads in (("one", 1), ("all", 0)):
            kernel = cpu.compile(model, function, dtype=dtype, layout="aos", threads=threads)
            words = "one processor" if processors == "one" else "all processors"
            about = {
                "by": f"Pinion CPU, {dtype}, {words}",
                "dtype": dtype,
                "processors": processors,
                "note": "called from Python; results go to existing arrays",
            }
            paths.append(
                _Path(
                    about=about,
                    size=sum(record_bytes(kernel)),
                    case=partial(kernel_case, kernel, states),
                    # A single request never leaves the caller's thread.
                    least=1 if processors == "one" else 2,
                )
            )
    return _times(paths, sizes=sizes, rounds=rounds, seconds=seconds)


def cuda_times(
    kernel: CudaKernel, *, sizes: Sequence[int], rounds: int, seconds: float
) -> tuple[list[Row], dict[str, str]]:
    """Measure batches on a GPU: of host arrays, including both transfers, and of device arrays.

    Returns
    -------
    As :func:`cpu_times`, with ``processors`` always ``gpu``. If the device fails, the batch is left
    out, and those measured before are kept.
    """
    states = states_of(kernel.model, kernel.function, seed=SEED)
    size = kernel.dtype.itemsize * sum(prod(a.shape) for a in (*kernel.inputs, *kernel.results))
    ways = (
        ("with copies", "from the host's arrays and back", host_case),
        ("on the GPU", "arrays stay on the GPU, and each call waits", device_case),
    )
    dtype = kernel.dtype.name
    paths = [
        _Path(
            about={
                "by": f"Pinion CUDA, {dtype}, {how}",
                "dtype": dtype,
                "processors": "gpu",
                "note": note,
            },
            size=size,
            case=partial(case, kernel, states),
        )
        for how, note, case in ways
    ]
    return _times(paths, sizes=sizes, rounds=rounds, seconds=seconds)


@dataclass(frozen=True, kw_only=True)
class _Path:
    """An implementation whose batches are timed.

    Members
    -------
    about : keys that its rows share.
    size : size of a sample's arrays in bytes.
    case : returns a case for a number of samples.
    least : size of its smallest batch.
    """

    about: Row
    size: int
    case: Callable[[int], KernelCall]
    least: int = 1


def _times(
    paths: Sequence[_Path], *, sizes: Sequence[int], rounds: int, seconds: float
) -> tuple[list[Row], dict[str, str]]:
    rows: list[Row] = []
    left_out: dict[str, str] = {}
    for count in sizes:
        cases: dict[str, KernelCall] = {}
        about: dict[str, Row] = {}
        for path in paths:
            label = f"{path.about['by']}, N = {count:,}"
            if count < path.least:
                continue
            if path.size * count > MOST_BYTES:
                left_out[label] = (
                    f"its arrays take {path.size * count / 1e9:.1f} GB, more than the "
                    f"{MOST_BYTES / 1e9:.1f} GB that a batch may have here."
                )
                continue
            try:
                cases[label] = path.case(count)
            except (MemoryError, ComputeError) as error:
                left_out[label] = str(error)
                continue
            about[label] = {**path.about, "samples": count}
        try:
            times = rounds_of(cases, rounds=rounds, seconds=seconds)
        except ComputeError as error:
            left_out |= dict.fromkeys(cases, str(error))
            continue
        rows += [{**about[key], **summary(ns)} for key, ns in times.items()]
    return rows, left_out


def summary(rounds: Sequence[float]) -> dict[str, float]:
    """Return the median of the rounds' times [ns] and the relative interquartile range."""
    low, middle, high = np.percentile(np.asarray(rounds), [25, 50, 75])
    return {"ns_per_sample": float(middle), "spread": float((high - low) / middle)}
