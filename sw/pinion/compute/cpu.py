"""Batched dynamics on this machine's CPU.

>>> from pinion.compute import cpu
>>> from pinion.robot import load
>>> gradient = cpu.compile(load("iiwa14"), "fd_derivatives", dtype="float32")   # doctest: +SKIP
>>> result = gradient(q=q, qd=qd, tau=tau)                                      # doctest: +SKIP
>>> result.dqdd_dq                                                              # doctest: +SKIP

A function is traced once for a robot, reduced, printed as C++ and compiled for the best instruction
set of the machine. With AVX-512, 16 float32 samples are computed at once; batches are spread over
the CPU cores. Compiled kernels are kept in the user's cache.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from pinion.base import package_digest
from pinion.base.progress import SILENT, Progress
from pinion.base.sources import up_to
from pinion.batch import InputError, Result, by_name, check_mask, validate_arrays
from pinion.batch.result import written
from pinion.functions import Function, RowOptions, arrays_of, reduced_graph, row_of
from pinion.functions.portable import PortableFunction, in_table, portable
from pinion.functions.requests import Rotations, check_rotations, unit_vectors_of
from pinion.graph import Graph
from pinion.graph.passes import fold
from pinion.link import MASK_UNIT, Array
from pinion.native import Cache, InstructionSet, default_folder, find_compiler
from pinion.native import isa as isas
from pinion.robot import Model, load, model_to_dict

from .arguments import check_inputs, check_out, check_threads, dtype_name, flags_for
from .layouts import LAYOUTS, batch_shape, check_layout, row_stride, sample_count
from .native import LAYOUTS as LAYOUT_NUMBERS
from .native import ONE, Runtime, View, cached_library, called_by, load_kernel, load_runtime
from .program.costs import ProcessorCosts
from .program.source import SCALARS, Source, kernel_source

__all__ = ["DTYPES", "LAYOUTS", "Kernel", "compile", "source"]

DTYPES = tuple(SCALARS)

# The time to search for relations between values grows with the square of their number.
_REDUCED_NODES = 8000


def source(
    model: Model | str,
    function: str | Function,
    *,
    dtype: DTypeLike = "float64",
    isa: str | None = None,
    comments: bool = False,
    **options: Unpack[RowOptions],
) -> Source:
    """Return the C++ source and operation counts of the kernel that `compile` compiles."""
    model = load(model) if isinstance(model, str) else model
    row = row_of(function, **options)
    return kernel_of(
        model,
        row,
        graph_of(model, row),
        dtype=dtype_name(dtype),
        machine=isas.named(isa) if isa else isas.best(),
        comments=comments,
    )


# Many parameters: a user's options, by keyword, as docs/cpu.md lists them.
def compile(
    model: Model | str,
    function: str | Function,
    *,
    dtype: DTypeLike = "float64",
    layout: str = "aos",
    finite: bool = False,
    check_rotations: bool = True,
    reuse: bool = True,
    threads: int = 0,
    isa: str | None = None,
    compiler: str | None = None,
    cache: Path | None = None,
    vector: bool = True,
    progress: Progress = SILENT,
    **options: Unpack[RowOptions],
) -> Kernel:
    """Compile a function of a robot, or load it from the cache.

    Parameters
    ----------
    model : a robot, or the name or path of one.
    function : the name of a row of the table of functions, or your own row, which is traced on
        every call.
    dtype : ``float32`` or ``float64``, in any form that NumPy accepts.
    layout : of inputs and results, one of `LAYOUTS` (:mod:`pinion.compute.layouts`).
    options : of the row, derivatives, outputs, joint_terms and friction_width
        (:class:`pinion.functions.RowOptions`).
    finite : whether to refuse NaN and infinities in the request; otherwise they propagate to
        the values that depend on them.
    check_rotations : whether to refuse quaternions, and planar joints' cosine and sine, that are
        not of unit length within 1e-6, as the float model does.
    reuse : whether to write large results to the memory of earlier ones that are no longer
        referenced (``runtime/reuse.hpp``), of which a process keeps at most 128 MiB; otherwise
        to new memory.
    threads : largest number of threads; 0 for one per CPU core.
    isa : name of an instruction set; by default the best one of the machine.
    compiler : a command; by default ``c++``, ``g++``, ``clang++`` or the package ``ziglang``.
    cache : folder of compiled kernels; by default the user's cache.
    vector : whether to compute many samples at once; False shows the benefit.
    progress : notified when something must be compiled, which takes seconds, or minutes for large
        robots; later calls find it in the cache.

    Raises
    ------
    InputError
        If an argument is invalid, the function does not support a joint of the robot, or no
        compiler is found.
    """
    check_layout(layout)
    dtype, threads = dtype_name(dtype), check_threads(threads)
    model = load(model) if isinstance(model, str) else model
    row = row_of(function, **options)
    settings = {
        **{"dtype": dtype, "layout": layout, "finite": finite, "threads": threads, "isa": isa},
        **{"check_rotations": check_rotations, "reuse": reuse, "vector": vector},
        **{"compiler": compiler, "cache": cache},
    }
    machine = isas.named(isa) if isa else isas.best()
    command = find_compiler(compiler)
    store = Cache(default_folder(os.environ) if cache is None else cache)

    key: dict[str, Any] = {"kind": "kernel", "dtype": dtype, "vector": vector}

    def print_kernel() -> str:
        graph = graph_of(model, row)
        return kernel_of(model, row, graph, dtype=dtype, machine=machine, vector=vector).text

    if in_table(row):
        # The row changes only with the package, so it need not be traced.
        key["package"] = package_digest(up_to("compute"))
        key["function"] = [row.name, row.options]
        key["model"] = model_to_dict(model)
        text = None
    else:
        text = print_kernel()
        key["source"] = text

    def sources() -> dict[str, str]:
        progress.step(f"Compiling {row.name} of {model.name} for {machine.name}; {store.lifetime}")
        return {"kernel.cpp": print_kernel() if text is None else text}

    runtime = load_runtime(machine, command, store)
    library, address = load_kernel(
        cached_library(store, key, sources, compiler=command, isa=machine)
    )
    return Kernel(
        model=model,
        function=row,
        dtype=dtype,
        layout=layout,
        isa=machine,
        finite=finite,
        check_rotations=check_rotations,
        reuse=reuse,
        threads=threads,
        native=Native(runtime, library, address),
        options=settings,
    )


@dataclass(frozen=True)
class Native:
    """Runtime, library and data of a loaded kernel.

    Members
    -------
    runtime : runs the kernel.
    library : contains the kernel.
    address : address of its ``pinion_kernel``.
    data : address of the data passed as its last input, an array without elements that callers do
        not give; 0 if it has none.
    """

    runtime: Runtime
    library: Any
    address: int
    data: int = 0


class Compiled:
    """A compiled computation of batches; may be called from several threads at once.

    Members
    -------
    title : its function and robot, for messages.
    dtype, layout : of inputs and results.
    isa : the instruction set it was compiled for.
    inputs, results : the arrays, with shapes of one sample.
    finite : whether NaN and infinities are refused.
    reuse : whether results are written to the memory of earlier ones.
    threads : largest number of threads; 0 for one per CPU core.
    run : computes a batch; inputs by name and ``out`` as for `Kernel.__call__`.
    """

    # Many parameters: only `compile` calls it, with its options and its results.
    def __init__(
        self,
        *,
        title: str,
        inputs: Sequence[Array],
        results: Sequence[Array],
        dtype: str,
        layout: str,
        isa: InstructionSet,
        finite: bool,
        threads: int,
        native: Native,
        rotations: Rotations | None = None,
        reuse: bool = True,
    ) -> None:
        self.title = title
        self.dtype = np.dtype(dtype)
        self.layout = layout
        self.isa = isa
        self.finite = finite
        self.threads = threads
        self.reuse = reuse
        self.inputs = tuple(inputs)
        self.results = tuple(results)
        self._native = native
        self._rotations = rotations or {}
        self.run: Callable[..., Result] = self._compute
        module = native.runtime.module
        if module is not None:
            self.run = module.caller(
                native.address,
                tuple((a.name, a.shape) for a in self.inputs),
                tuple((a.name, a.shape) for a in self.results),
                dtype == "float64",
                LAYOUT_NUMBERS[layout],
                finite,
                self._restrictions(),
                reuse,
                threads,
                Result,
                self._compute,
                native.data,
            )

    def _restrictions(self) -> tuple[tuple[int, int, int], ...]:
        """Return the position (input, first element, size) of each unit vector and mask element."""
        restrictions = []
        for k, array in enumerate(self.inputs):
            for vector, _ in self._rotations.get(array.name, ()):
                restrictions.append((k, vector.start, vector.stop - vector.start))
            if array.unit == MASK_UNIT:
                restrictions += [(k, element, 1) for element in range(math.prod(array.shape))]
        return tuple(restrictions)

    @property
    def address(self) -> int:
        """Address of the kernel's ``pinion_kernel`` (``runtime/abi.h``)."""
        return self._native.address

    @property
    def library(self) -> ctypes.CDLL:
        """The runtime that runs the kernel, with the functions of ``runtime/abi.h``."""
        return self._native.runtime.library

    def __repr__(self) -> str:
        return f"<Kernel {self.title}: {self.dtype.name}, {self.layout}, {self.isa.name}>"

    def _compute(
        self, /, *values: ArrayLike, out: Mapping[str, Any] | None = None, **named: ArrayLike
    ) -> Result:
        """Compute a batch, with all checks and conversions."""
        count, single, views, converted = self._inputs(by_name(self.inputs, values, named))
        arrays = self._outputs(out, count, converted, single=single)
        native = self._native
        if native.data:
            views.append(View(native.data, LAYOUT_NUMBERS["blocks"], 0))
        filled = [self._view(a, arrays[a.name]) for a in self.results]
        shape = () if single else (count,)
        flags = flags_for(out, shape)
        if flags is None:
            flags = native.runtime.empty(shape, np.dtype(np.bool_), reuse=self.reuse)
        elif any(np.may_share_memory(flags, x) for x in (*converted, *arrays.values())):
            raise InputError(
                "The array for 'saturated' overlaps an input or a result: give a separate array."
            )
        native.runtime.run(native.address, count, (views, filled), flags, self.threads)
        return written(out, arrays, flags)

    def _inputs(
        self, requests: Mapping[str, ArrayLike]
    ) -> tuple[int, bool, list[View], list[NDArray[Any]]]:
        """Check inputs; return sample count, whether it is a single request, views and arrays."""
        dtype = np.float32 if self.dtype == np.float32 else np.float64
        if self.layout == "aos":
            checked = validate_arrays(self.inputs, requests, dtype=dtype, finite=self.finite)
            check_rotations(self._rotations, checked.arrays, finite=self.finite)
            converted = [
                np.require(checked.arrays[a.name], dtype=dtype, requirements=("C", "A"))
                for a in self.inputs
            ]
            views = [
                View(x.ctypes.data, LAYOUT_NUMBERS["aos"], x.size // len(x) if len(x) else 0)
                if x.ndim > len(a.shape)
                else View(x.ctypes.data, ONE, 0)
                for a, x in zip(self.inputs, converted, strict=True)
            ]
            return checked.count, checked.single, views, converted
        named = self._named(requests)
        count = sample_count(self.layout, named)
        converted = []
        for array, values in named:
            flat = values.reshape(-1) if values.flags.c_contiguous else values
            if self.finite and not np.isfinite(flat).all():
                where = np.unravel_index(int((~np.isfinite(values)).argmax()), values.shape)
                index = ", ".join(map(str, where))
                raise InputError(
                    f"'{array.name}' at index [{index}] is {values[where]}: every input must be "
                    "finite."
                )
            if array.unit == MASK_UNIT:
                check_mask(array, values)
            converted.append(self._placed(array, values.astype(dtype, copy=False)))
        samples_first = {
            a.name: np.moveaxis(x, -1, 0 if self.layout == "soa" else 1)
            for a, x in zip(self.inputs, converted, strict=True)
            if a.name in self._rotations
        }
        check_rotations(self._rotations, samples_first, finite=self.finite)
        views = [self._view(a, x) for a, x in zip(self.inputs, converted, strict=True)]
        return count, False, views, converted

    def _named(self, requests: Mapping[str, ArrayLike]) -> list[tuple[Array, NDArray[Any]]]:
        """Return each input with its values, in order, for the layouts ``soa`` and ``blocks``."""
        check_inputs(requests, self.inputs)
        pairs = []
        for array in self.inputs:
            values = np.asarray(requests[array.name])
            if array.unit == MASK_UNIT and values.dtype == np.bool_:
                values = values.astype(self.dtype)
            if values.dtype.kind not in "fiu":
                raise InputError(
                    f"'{array.name}' has the dtype {values.dtype}: give floats or integers, which "
                    f"are converted to {self.dtype.name}."
                )
            pairs.append((array, values))
        return pairs

    def _placed(self, array: Array, values: NDArray[Any]) -> NDArray[Any]:
        """Return the values in memory that the kernel can read; copy them only if necessary."""
        if self.layout == "soa" and values.flags.aligned and row_stride(array, values) is not None:
            return values
        return np.require(values, requirements=("C", "A"))

    def _view(self, array: Array, values: NDArray[Any]) -> View:
        stride = 0
        if self.layout == "aos":
            stride = int(np.prod(array.shape))
        elif self.layout == "soa":
            stride = row_stride(array, values) or 0
        return View(values.ctypes.data, LAYOUT_NUMBERS[self.layout], stride)

    def _outputs(
        self,
        out: Mapping[str, Any] | None,
        count: int,
        inputs: Sequence[NDArray[Any]],
        *,
        single: bool,
    ) -> dict[str, NDArray[Any]]:
        """Return the arrays for the results; those of a single request have no batch axis."""
        shapes = {
            a.name: a.shape if single else batch_shape(self.layout, a.shape, count)
            for a in self.results
        }
        if out is None:
            empty = self._native.runtime.empty
            return {n: empty(shape, self.dtype, reuse=self.reuse) for n, shape in shapes.items()}
        check_out(out, self.results)
        results: dict[str, NDArray[Any]] = {}
        for array in self.results:
            name = array.name
            values = out[name]
            self._check_output(array, values, shapes[name])
            for other, owner in [(x, "an input") for x in inputs] + [
                (x, f"the result '{n}'") for n, x in results.items()
            ]:
                if np.may_share_memory(values, other):
                    raise InputError(
                        f"The array given for the result '{name}' overlaps {owner}: give a "
                        "separate array."
                    )
            results[name] = values
        return results

    def _check_output(self, array: Array, values: Any, shape: tuple[int, ...]) -> None:
        name = array.name
        if not isinstance(values, np.ndarray):
            raise InputError(
                f"The array for the result '{name}' must be a NumPy array, not an object of type "
                f"{type(values).__name__}."
            )
        if values.dtype != self.dtype:
            raise InputError(
                f"The array for the result '{name}' has the dtype {values.dtype}: it must be "
                f"{self.dtype.name}."
            )
        if values.shape != shape:
            raise InputError(
                f"The array for the result '{name}' has the shape {values.shape}: it must be "
                f"{shape}."
            )
        if not values.flags.writeable:
            raise InputError(
                f"The array for the result '{name}' is read-only: give a writeable array."
            )
        placed = (
            row_stride(array, values) is not None
            if self.layout == "soa"
            else values.flags.c_contiguous
        )
        if not (placed and values.flags.aligned):
            raise InputError(
                f"The array for the result '{name}' is not contiguous and aligned (its strides are "
                f"{values.strides}): give a contiguous and aligned array."
            )


class Kernel(Compiled):
    """A compiled function of a robot; may be called from several threads at once.

    Members
    -------
    model, function : its robot and function; the other members are those of `Compiled`.
    options : of `compile`, by keyword.
    run : same as a call, but faster.

    It is pickled and copied as robot, function and options; the copy is compiled again, or loaded
    from the cache.
    """

    # Many parameters: only `compile` calls it, with its options and its results.
    def __init__(
        self,
        *,
        model: Model,
        function: Function,
        dtype: str,
        layout: str,
        isa: InstructionSet,
        finite: bool,
        check_rotations: bool,
        reuse: bool,
        threads: int,
        native: Native,
        options: Mapping[str, Any],
    ) -> None:
        super().__init__(
            title=f"{function.name} of {model.name}",
            inputs=arrays_of(function.inputs, model),
            results=arrays_of(function.results, model),
            dtype=dtype,
            layout=layout,
            isa=isa,
            finite=finite,
            threads=threads,
            native=native,
            rotations=unit_vectors_of(function.inputs, model) if check_rotations else None,
            reuse=reuse,
        )
        self.options = dict(options)
        self.model = model
        self.function = function
        if self.run != self._compute:
            self.__class__ = called_by(Kernel, self.run)

    def __call__(self, /, *values: Any, **arrays: Any) -> Result:
        """Compute a batch from input arrays and return named result arrays.

        Parameters
        ----------
        values : inputs by position, in the order of `inputs`; the others by name.
        arrays : the inputs by name, in the kernel's layout. In ``aos`` an array without a batch
            axis serves all samples; if all are such, the results have no batch axis either.
            ``out`` is a mapping from result names to arrays of the results' shapes, which are
            written, or the `Result` of an earlier call, which is written and returned.

        Returns
        -------
        The results; ``saturated`` says for each sample whether one of its results is not finite.

        Raises
        ------
        InputError
            If a name, a shape, a dtype or an output does not fit, or a number is not finite and
            the kernel refuses that; the message says which and where.
        """
        result: Result = self.run(*values, **arrays)
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        return _compiled, (self.model, portable(self.function), self.options)


def _compiled(model: Model, function: PortableFunction, options: Mapping[str, Any]) -> Kernel:
    return compile(model, function.function(), **options)


def graph_of(model: Model, row: Function) -> Graph:
    """Return the simplified graph of a function that CPUs and GPUs compute.

    Raises
    ------
    InputError
        If the function keeps states: CPUs and GPUs compute the requests of a batch in parallel.
    """
    if row.states:
        names = " and ".join(f"'{state.name}'" for state in row.states)
        raise InputError(
            f"The function '{row.name}' keeps {names} from request to request, but CPUs and GPUs "
            "compute the requests of a batch in parallel: use device='float' or a card."
        )
    folded = fold(row.trace(model))
    if row.published or len(folded.nodes) > _REDUCED_NODES:
        return folded
    return reduced_graph(model, row, costs=ProcessorCosts())


def kernel_of(
    model: Model,
    row: Function,
    graph: Graph,
    *,
    dtype: str,
    machine: InstructionSet,
    comments: bool = False,
    vector: bool = True,
) -> Source:
    """Return a kernel's source for an instruction set, which this machine need not support."""
    return kernel_source(
        graph,
        inputs=[b.resolved(model) for b in row.inputs],
        results=[b.resolved(model) for b in row.results],
        dtype=dtype,
        registers=machine.registers,
        title=f"{row.name} of {model.name}, {dtype}, {machine.name}",
        comments=comments,
        vector=vector,
    )
