"""Kernels with one thread per sample, run on a CPU by ``cuda_host``."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.compute.cuda.threads import WARP, ThreadSource
from pinion.compute.layouts import batch_shape
from pinion.functions import Block

from .cuda_host import HostKernels


def on_host(source: ThreadSource, folder: Path) -> list[HostKernels]:
    """Compile the kernels of a source for this machine's CPU."""
    return [HostKernels(kernel.text, folder=folder) for kernel in source.kernels]


def run_threads(
    source: ThreadSource,
    kernels: Sequence[HostKernels],
    *,
    inputs: Sequence[Block],
    results: Sequence[Block],
    arrays: Mapping[str, NDArray[Any]],
    count: int,
    seed: int = 0,
) -> dict[str, NDArray[Any]]:
    """Compute a batch by running all kernels in order, and return the results by name.

    Parameters
    ----------
    kernels : those of the source, compiled.
    arrays : inputs in the source's layout; in ``aos`` and ``soa`` one sample alone serves all.

    Returns
    -------
    Results in the layout, which were NaN before.
    """
    dtype = np.dtype(source.dtype)
    args: list[Any] = [ctypes.c_longlong(count)]
    outputs = {}
    for block in inputs:
        array = np.ascontiguousarray(arrays[block.name], dtype=dtype)
        shared = array.ndim == len(block.shape)
        args += _array(array, block, source.layout, 0 if shared else count)
    for block in results:
        shape = batch_shape(source.layout, tuple(map(int, block.shape)), count)
        outputs[block.name] = np.full(shape, np.nan, dtype=dtype)
        args += _array(outputs[block.name], block, source.layout, count)
    if source.workspace:
        whole = -(-count // WARP)
        args.append(np.full((whole, source.workspace, WARP), np.nan, dtype=dtype))
    for kernel, compiled in zip(source.kernels, kernels, strict=True):
        blocks = -(-count // kernel.threads)
        compiled.launch(kernel.name, blocks, kernel.threads, kernel.shared_bytes, args, seed)
    return outputs


def _array(array: NDArray[Any], block: Block, layout: str, count: int) -> list[Any]:
    """Return a kernel's parameters for an array; with a count of 0, all samples share its row."""
    if layout == "blocks":
        return [array]
    size = prod(map(int, block.shape))
    step, apart = (size, 1) if layout == "aos" else (1, count)
    if count == 0:
        step, apart = 0, 1
    return [array, ctypes.c_longlong(step), ctypes.c_longlong(apart)]
