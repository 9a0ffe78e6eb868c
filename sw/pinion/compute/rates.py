"""Measurement of kernels' speed on this machine, and of the limits on it.

Every time is compared with two limits. *Arithmetic*: the kernel's vector instructions, each at the
time of one fused multiply-add of this machine. *Bytes*: a copy of as many bytes as a request and
its result. Both are measured in the same round as the kernel. Times are medians of rounds in which
everything is measured in turn, so that a busy neighbour slows all alike.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.functions import Function, sample
from pinion.native import Cache, Compiler, InstructionSet
from pinion.robot import Model

from .cpu import Kernel
from .layouts import BLOCK, batch_shape, to_blocks
from .native import HEADERS, aligned, cached_library

SINCOS_INSTRUCTIONS: Mapping[str, int] = {"float32": 23, "float64": 32}
"""Vector instructions for one pair of sine and cosine (``runtime/sincos.hpp``)."""

_LINE = 64  # bytes of a cache line
_PAGE = 4096


@dataclass(frozen=True)
class Probe:
    """Probe of the machine's limits on a kernel's speed.

    Members
    -------
    library : has ``pinion_fma_ns``.
    """

    library: ctypes.CDLL

    @classmethod
    def compiled(cls, isa: InstructionSet, compiler: Compiler, cache: Cache) -> Probe:
        """Load the probe for an instruction set, compiling it if it is not in the cache."""
        sources = {"probe.cpp": (HEADERS / "probe.cpp").read_text()}
        path = cached_library(cache, {"kind": "probe"}, sources, compiler=compiler, isa=isa)
        library = ctypes.CDLL(str(path))
        library.pinion_fma_ns.restype = ctypes.c_double
        return cls(library)

    def fma_ns(self, dtype: str) -> float:
        """Return the time of one fused multiply-add of vectors [ns]."""
        return float(self.library.pinion_fma_ns(ctypes.c_int(np.dtype(dtype).itemsize)))


@dataclass(frozen=True)
class KernelCall:
    """A repeatable call of a kernel with a batch.

    Members
    -------
    call : computes the batch once.
    count : samples of the batch.
    calls : calls per measurement; reading the clock takes a tenth of the time of a short call.
    """

    call: Callable[[], Any]
    count: int
    calls: int = 1

    def time(self) -> float:
        """Measure once and return the time per sample [ns]."""
        start = time.perf_counter_ns()
        for _ in range(self.calls):
            self.call()
        return (time.perf_counter_ns() - start) / (self.calls * self.count)


def kernel_case(
    kernel: Kernel,
    states: Mapping[str, NDArray[Any]],
    count: int,
    *,
    outputs: bool = True,
    once: Collection[str] = (),
) -> KernelCall:
    """Return a repeatable call of a kernel.

    Parameters
    ----------
    states : requests (m, ...), repeated up to ``count``.
    count : samples; 1 means one request without a batch axis.
    outputs : whether results are written to existing arrays.
    once : inputs whose first value serves the whole batch.
    """
    dtype = kernel.dtype
    if count == 1:
        single = {
            a.name: np.ascontiguousarray(states[a.name][0], dtype=dtype) for a in kernel.inputs
        }
        return KernelCall(partial(kernel, **single), 1, calls=100)
    arrays = {}
    for a in kernel.inputs:
        if a.name in once:
            arrays[a.name] = _aligned_copy(states[a.name][0].astype(dtype))
            continue
        rows = np.resize(states[a.name].astype(dtype), (count, *a.shape))
        if kernel.layout == "blocks":
            arrays[a.name] = _aligned_copy(to_blocks(rows))
        elif kernel.layout == "soa":
            arrays[a.name] = _padded(np.moveaxis(rows, 0, -1))
        else:
            arrays[a.name] = _aligned_copy(rows)
    if not outputs:
        return KernelCall(lambda: kernel.run(**arrays), count)
    out = {}
    for a in kernel.results:
        empty = np.zeros(batch_shape(kernel.layout, a.shape, count), dtype=dtype)
        out[a.name] = _padded(empty) if kernel.layout == "soa" else _aligned_copy(empty)
    return KernelCall(lambda: kernel.run(out=out, **arrays), count)


def copy_cases(probe: Probe, kernel: Kernel, count: int) -> dict[str, KernelCall]:
    """Return timed copies that read and write as many bytes as a batch's requests and results.

    One stores through the caches and one around them; which is faster depends on the machine.
    """
    # Sixteen records fill whole cache lines.
    lines = [size * BLOCK // _LINE for size in record_bytes(kernel)]
    records = -(-count // BLOCK)
    # Written, so that the pages exist.
    source, target = (_aligned_copy(np.ones(n * _LINE * records, dtype=np.uint8)) for n in lines)

    def case(stream: bool) -> KernelCall:
        return KernelCall(
            lambda: probe.library.pinion_copy(
                ctypes.c_void_p(source.ctypes.data),
                ctypes.c_size_t(lines[0]),
                ctypes.c_void_p(target.ctypes.data),
                ctypes.c_size_t(lines[1]),
                ctypes.c_size_t(records),
                ctypes.c_int(stream),
            ),
            count,
        )

    return {"cached": case(False), "streamed": case(True)}


def rounds_of(
    cases: Mapping[str, KernelCall],
    *,
    rounds: int,
    seconds: float,
    probe: Callable[[], float] | None = None,
) -> dict[str, list[float]]:
    """Return the time per sample of every case in every round [ns].

    Parameters
    ----------
    rounds : number of rounds; each measures every case.
    seconds : time for one case in one round; it is repeated and its fastest repetition counts.
    probe : measured in each round as well, under the name ``probe``.
    """
    times: dict[str, list[float]] = {name: [] for name in cases}
    for case in cases.values():
        case.call()
    for _ in range(rounds):
        for name, case in cases.items():
            best = case.time()
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                best = min(best, case.time())
            times[name].append(best)
        if probe is not None:
            times.setdefault("probe", []).append(min(probe() for _ in range(5)))
    return times


def floor_ns(kernel_counts: Mapping[str, int], dtype: str, lanes: int, fma_ns: float) -> float:
    """Return the minimum time per sample of a kernel's arithmetic on one vector unit [ns].

    Parameters
    ----------
    kernel_counts : ``arithmetic`` and ``angles`` of :class:`.program.source.Source`.
    """
    instructions = (
        kernel_counts["arithmetic"] + kernel_counts["angles"] * SINCOS_INSTRUCTIONS[dtype]
    )
    return instructions * fma_ns / lanes


def record_bytes(kernel: Kernel) -> tuple[int, int]:
    """Return the sizes of a request and of a result in bytes."""
    size = kernel.dtype.itemsize
    return (
        size * sum(prod(a.shape) for a in kernel.inputs),
        size * sum(prod(a.shape) for a in kernel.results),
    )


def states_of(model: Model, function: Function, *, seed: int) -> dict[str, NDArray[Any]]:
    """Return 1,000 random states from the reference distribution, as arrays by input."""
    return dict(sample(model, function, 1000, distribution="reference", seed=seed))


def _aligned_copy(values: NDArray[Any]) -> NDArray[Any]:
    """Return a copy that begins at a page boundary.

    Loads wait for stores to the same offset in another page: with arrays wherever memory is free, a
    kernel takes up to a third longer in one process than in the next.
    """
    memory: NDArray[Any] = aligned((values.nbytes + _PAGE,), np.dtype(np.uint8))
    start = -memory.ctypes.data % _PAGE
    copy = memory[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


def _padded(values: NDArray[Any]) -> NDArray[Any]:
    """Return a copy with padded rows, which avoids strides of powers of two."""
    count = values.shape[-1]
    stride = -(-count // 16) * 16 + 16
    memory = _aligned_copy(np.zeros((*values.shape[:-1], stride), dtype=values.dtype))
    view: NDArray[Any] = memory[..., :count]
    view[...] = values
    return view


def median(values: Sequence[float]) -> float:
    """Return the median of a sequence of numbers."""
    return float(np.median(np.asarray(values)))
