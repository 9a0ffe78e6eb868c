"""Batched dynamics on a GPU.

>>> from pinion.compute import cuda
>>> gradient = cuda.compile("iiwa14", "fd_derivatives")                          # doctest: +SKIP
>>> result = gradient(q=q, qd=qd, tau=tau)                                       # doctest: +SKIP

A function is traced, reduced and printed as for the CPU (:mod:`pinion.compute.cpu`); every
thread of the GPU computes one sample. Small batches have a separate kernel, in which the threads of
a block compute one sample together; the number of samples from which one thread per sample is
faster is measured when a function is first used on a device. Kernels are printed and compiled
without a GPU. In the tests they run on a CPU, where threads give the same bits as the CPU path.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Unpack

from numpy.typing import DTypeLike

from pinion.base import package_digest
from pinion.base.progress import SILENT, Progress
from pinion.compute import LAYOUTS, cpu
from pinion.compute.arguments import dtype_name
from pinion.functions import Function, RowOptions, row_of
from pinion.native import Cache, ComputeError, default_folder
from pinion.robot import Model, load

from . import cooperative
from .cooperative import CooperativeSource
from .cubin import compile_cubin, compiler_version
from .device import CudaDevice, Gpu
from .kernel import Crossover, CudaKernel, DeviceArray
from .threads import SHARED_BYTES, ThreadSource, thread_source

__all__ = [
    "LAYOUTS",
    "CudaKernel",
    "DeviceArray",
    "ThreadSource",
    "compile",
    "open_gpu",
    "small_batches",
    "source",
]


def source(
    model: Model | str,
    function: str | Function,
    *,
    dtype: DTypeLike = "float32",
    layout: str = "aos",
    comments: bool = False,
    **options: Unpack[RowOptions],
) -> ThreadSource:
    """Return the CUDA source of a function; the arguments are those of `compile`.

    Parameters
    ----------
    comments : whether to annotate every line with the line of the mechanics that it comes from.
    """
    model = load(model) if isinstance(model, str) else model
    row, dtype = row_of(function, **options), dtype_name(dtype)
    return thread_source(
        cpu.graph_of(model, row),
        inputs=[b.resolved(model) for b in row.inputs],
        results=[b.resolved(model) for b in row.results],
        dtype=dtype,
        layout=layout,
        name=row.name if row.name.isidentifier() and row.name.isascii() else "kernel",
        title=f"{row.name} of {model.name}, {dtype}, {layout}",
        comments=comments,
    )


# Many parameters: a user's options, by keyword, as docs/cuda.md lists them.
def compile(
    model: Model | str,
    function: str | Function,
    *,
    dtype: DTypeLike = "float32",
    layout: str = "aos",
    finite: bool = False,
    check_rotations: bool = True,
    device: int | CudaDevice = 0,
    cache: Path | None = None,
    progress: Progress = SILENT,
    **options: Unpack[RowOptions],
) -> CudaKernel:
    """Compile a function of a robot for a GPU, or load it from the cache.

    Parameters
    ----------
    model : a robot, or the name or path of one.
    function : the name of a row of the table of functions, or your own row.
    dtype : ``float32`` or ``float64``, in any form that NumPy accepts.
    layout : ``aos``: the elements of a sample are contiguous; ``soa``: arrays on the device may
        have any strides (:class:`CudaKernel`).
    options : of the row, derivatives, outputs, joint_terms and friction_width
        (:class:`pinion.functions.RowOptions`).
    finite : whether to refuse NaN and infinities in host arrays.
    check_rotations : whether to refuse quaternions, and planar joints' cosine and sine, in host
        arrays that are not of unit length within 1e-6, as the float model does.
    device : the number of a GPU, or an open device, which keeps the cache that it was opened with.
    cache : folder of compiled kernels; by default the user's cache.
    progress : notified when a kernel must be compiled, which takes seconds, or minutes for large
        robots; later calls find it in the cache.

    Raises
    ------
    InputError
        If an argument is invalid, or there is no such GPU.
    ComputeError
        If a kernel does not compile or load.
    """
    model = load(model) if isinstance(model, str) else model
    row, dtype = row_of(function, **options), dtype_name(dtype)
    store = Cache(default_folder(os.environ) if cache is None else cache)
    if layout not in ("aos", "soa"):
        raise ComputeError(
            f"Kernels for GPUs do not support the layout '{layout}': choose aos or soa."
        )
    gpu = open_gpu(device, cache, progress) if isinstance(device, int) else device
    program = source(model, row, dtype=dtype, layout=layout)
    small = small_batches(model, row, dtype)

    def crossover(measure: Callable[[], Crossover]) -> Crossover:
        key = {
            "kind": "crossovers",
            "package": package_digest(("native", "compute")),
            "device": gpu.name,
            "kernels": [kernel.text for kernel in program.kernels],
            "small": small.text if small else "",
        }
        text = store.text(key, lambda: " ".join(map(str, measure())))
        on_device, direct = map(int, text.split())
        return on_device, direct

    return CudaKernel(
        model=model,
        function=row,
        source=program,
        device=gpu,
        finite=finite,
        check_rotations=check_rotations,
        small=small,
        crossover=crossover,
    )


def open_gpu(index: int, cache: Path | None = None, progress: Progress = SILENT) -> CudaDevice:
    """Open a GPU of this machine.

    Parameters
    ----------
    index : number of the GPU, as the driver counts them.
    cache : folder of compiled kernels; by default the user's cache.
    progress : notified when a kernel must be compiled.

    Raises
    ------
    InputError
        If cuda-core, a driver or the device is missing, or the device is too old.
    """
    store = Cache(default_folder(os.environ) if cache is None else cache)
    return Gpu(index, Kept(store, progress))


def small_batches(model: Model, row: Function, dtype: str) -> CooperativeSource | None:
    """Return the kernel with one block per sample, or None if it is unsupported or too large."""
    try:
        program = cooperative.source(model, row, dtype=dtype)
    except ComputeError:
        return None
    return program if program.shared_bytes <= SHARED_BYTES else None


class Kept:
    """Compiler from CUDA source to cubins, with a cache."""

    def __init__(self, store: Cache, progress: Progress) -> None:
        self._store = store
        self._progress = progress

    def __call__(self, name: str, text: str, architecture: str) -> bytes:
        key = {
            "kind": "cubin",
            "text": text,
            "package": package_digest(("native", "compute")),
            "compiler": compiler_version(),
            "architecture": architecture,
        }

        def make() -> bytes:
            self._progress.step(f"Compiling {name} for {architecture}; {self._store.lifetime}")
            return compile_cubin(text, architecture=architecture, names=[name]).code

        return self._store.data(key, make)
