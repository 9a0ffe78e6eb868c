"""Batches of dynamics on a GPU.

>>> from pinion.compute import cuda
>>> gradient = cuda.compile("iiwa14", "fd_derivatives")                          # doctest: +SKIP
>>> result = gradient(q=q, qd=qd, tau=tau)                                       # doctest: +SKIP

A function is traced, reduced and printed as for the processor (:mod:`pinion.compute.cpu`); every
thread of the GPU computes one sample. Small batches have a kernel of their own, in which the
threads of a block compute one together; from how many samples on threads are faster is measured
when a function is first used on a device. Kernels are printed and compiled without a GPU, and run
on a processor in the tests, where threads give the CPU path's bits.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Unpack

from numpy.typing import DTypeLike

from pinion.base.progress import SILENT, Progress
from pinion.base.sources import package_digest
from pinion.functions import Function, RowOptions, row_of
from pinion.native.cache import Cache, default_folder
from pinion.native.errors import ComputeError
from pinion.robot import Model, load

from .. import cpu
from ..arguments import dtype_name
from . import cooperative
from .cooperative import CooperativeSource
from .cubin import compile_cubin, compiler_version
from .device import Device, Gpu
from .kernel import CudaKernel, DeviceArray
from .threads import LAYOUTS, SHARED_BYTES, ThreadSource, thread_source

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
    """The CUDA source of a function; the arguments are those of `compile`.

    Parameters
    ----------
    comments : every line tells which line of the mechanics made it.
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
    graphs: bool = True,
    device: int | Device = 0,
    cache: Path | None = None,
    progress: Progress = SILENT,
    **options: Unpack[RowOptions],
) -> CudaKernel:
    """Compile a function of a robot for a GPU, or find it compiled.

    Parameters
    ----------
    model : a robot, or the name or path of one.
    function : a row of the table of functions by its name, or a row of your own.
    dtype : of the numbers it computes with, ``float32`` or ``float64``, or as NumPy takes them.
    layout : ``aos``: elements of a sample follow each other; ``soa``: arrays of the device may have
        any strides (:class:`CudaKernel`).
    options : of the row, derivatives, outputs, joint_terms and friction_width
        (:class:`pinion.functions.RowOptions`).
    finite : whether NaN and infinities in arrays of the host are refused.
    check_rotations : whether quaternions, and planar joints' cosine and sine, in arrays of the host
        are refused that are not of unit length within 1e-6, as by the float model.
    graphs : whether small batches of the host are queued as CUDA graphs (:class:`CudaKernel`).
    device : the number of a GPU, or a device.
    cache : where compiled kernels are kept; by default the user's cache.
    progress : told where a kernel must be compiled, which takes seconds, for
        large robots minutes; the next time it is there already. A device of one's own compiles as
        it was opened.

    Raises
    ------
    InputError
        When an argument does not do, or there is no such GPU; one sentence.
    ComputeError
        When a kernel does not compile or load.
    """
    model = load(model) if isinstance(model, str) else model
    row, dtype = row_of(function, **options), dtype_name(dtype)
    store = Cache(default_folder(os.environ) if cache is None else cache)
    if layout not in ("aos", "soa"):
        raise ComputeError(f"A GPU's kernel has no layout '{layout}' here; choose aos or soa.")
    gpu = open_gpu(device, cache, progress) if isinstance(device, int) else device
    program = source(model, row, dtype=dtype, layout=layout)
    small = small_batches(model, row, dtype)

    def crossover(measure: Callable[[], int]) -> int:
        key = {
            "kind": "crossover",
            "package": package_digest(("native", "compute")),
            "device": gpu.name,
            "kernels": [kernel.text for kernel in program.kernels],
            "small": small.text if small else "",
        }
        return int(store.text(key, lambda: str(measure())))

    return CudaKernel(
        model=model,
        function=row,
        source=program,
        device=gpu,
        finite=finite,
        check_rotations=check_rotations,
        graphs=graphs,
        small=small,
        crossover=crossover,
    )


def open_gpu(index: int, cache: Path | None = None, progress: Progress = SILENT) -> Device:
    """Open a GPU of this machine.

    Parameters
    ----------
    index : among its GPUs, as the driver counts.
    cache : where compiled kernels are kept; by default the user's cache.
    progress : told where a kernel must be compiled.

    Raises
    ------
    InputError
        When cuda-core, a driver or the device is missing, or the device is too old.
    """
    store = Cache(default_folder(os.environ) if cache is None else cache)
    return Gpu(index, Kept(store, progress))


def small_batches(model: Model, row: Function, dtype: str) -> CooperativeSource | None:
    """The kernel of a block a sample, where the function and the robot have one that fits."""
    try:
        program = cooperative.source(model, row, dtype=dtype)
    except ComputeError:
        return None
    return program if program.shared_bytes <= SHARED_BYTES else None


class Kept:
    """Compiles kernels, each once: what is compiled is in the user's cache."""

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
