"""Dynamics of a chain for batches of states, on this machine's CPU.

>>> from pinion.chains import kernels
>>> from pinion.chains import random_chain
>>> kernel = kernels.compile(random_chain(100, 1), "rnea", dtype="float32")   # doctest: +SKIP
>>> tau = kernel(q=q, qd=qd, qdd=qdd)                                          # doctest: +SKIP

Nothing is traced: the chain is data for hand-written C++ loops over its bodies (``kernels/``),
which are compiled once for a function, a dtype and an instruction set. As many robots as fit into a
vector are computed at once, and batches are spread over the CPU cores, with the runtime, cache and
checks of :mod:`pinion.compute.cpu`.

========  ===================================================================================
rnea      inverse dynamics, the recursive Newton-Euler algorithm (Luh, Walker and Paul 1980)
aba       forward dynamics by articulated bodies (Featherstone 2008, table 7.1)
jsiia     forward dynamics by the inertia matrix and its factors L D L^T
cfa       forward dynamics by constraint forces, solved by L D L^T of blocks (without side
          branches and armature)
========  ===================================================================================
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pinion.base import package_digest
from pinion.chains.chain import Chain
from pinion.compute.arguments import check_threads, dtype_name
from pinion.compute.cpu import Compiled, Native
from pinion.compute.layouts import check_layout
from pinion.compute.native import (
    HEADERS,
    ArrayStruct,
    KernelStruct,
    cached_library,
    load_kernel,
    load_runtime,
)
from pinion.compute.program.source import SCALARS
from pinion.link import Array
from pinion.native import Cache, ComputeError, default_folder, find_compiler
from pinion.native import isa as isas

from .frames import Frames

__all__ = ["FUNCTIONS", "SOURCES", "ChainKernel", "compile"]

FUNCTIONS = ("rnea", "aba", "jsiia", "cfa")

SOURCES = Path(__file__).parent / "sources"

_UNITS = {"q": "rad | m", "qd": "rad/s | m/s", "qdd": "rad/s^2 | m/s^2", "tau": "N m | N"}


# Many parameters: the options of a compiled chain, by keyword, as its page lists them.
def compile(
    chain: Chain,
    function: str,
    *,
    dtype: str = "float64",
    layout: str = "aos",
    refine: int = 1,
    finite: bool = False,
    threads: int = 0,
    isa: str | None = None,
    compiler: str | None = None,
    cache: Path | None = None,
    sources: Path = SOURCES,
) -> ChainKernel:
    """Compile a function for a chain, or load it from the cache.

    Parameters
    ----------
    chain : a chain of fixed joints and joints with one degree of freedom (a rotation, a translation
        or a screw about any axis), with side branches except for ``cfa``.
    function : one of `FUNCTIONS`.
    dtype : ``float32`` or ``float64``. Forward dynamics of long chains needs float64.
    refine : only for ``cfa``, number of corrections by the residual of inverse dynamics.
    layout, finite, threads, isa, compiler, cache : as for :func:`pinion.compute.cpu.compile`.
    sources : the folder of the kernels' C++.

    Raises
    ------
    ComputeError
        If an argument is invalid, the function does not support the chain, or no compiler is
        found.
    """
    check_layout(layout)
    if function not in FUNCTIONS:
        raise ComputeError(
            f"There is no kernel '{function}' for chains: choose one of {', '.join(FUNCTIONS)}."
        )
    dtype, threads = dtype_name(dtype), check_threads(threads)
    if refine < 0:
        raise ComputeError(f"'refine' must be 0 or more, not {refine}.")
    data = _Data.of(chain, function, dtype, refine)
    machine = isas.named(isa) if isa else isas.best()
    command = find_compiler(compiler)
    store = Cache(default_folder(os.environ) if cache is None else cache)
    key = {
        "kind": "chain",
        "package": package_digest(("native", "compute", "chains")),
        "sources": {path.name: path.read_text() for path in sorted(sources.glob("*.?pp"))},
        "dtype": dtype,
        "function": function,
    }
    runtime = load_runtime(machine, command, store)
    path = cached_library(
        store,
        key,
        {"kernel.cpp": (sources / "kernel.cpp").read_text()},
        compiler=command,
        isa=machine,
        include=(sources, HEADERS),
        defines={"PINION_FUNCTION": function, "PINION_SCALAR": SCALARS[dtype]},
    )
    library, pattern = load_kernel(path)
    inputs, result = (
        (("q", "qd", "qdd"), "tau") if function == "rnea" else (("q", "qd", "tau"), "qdd")
    )
    kernel = data.kernel(pattern, (*inputs, result))
    keepalive = (library, data, kernel)
    return ChainKernel(
        chain=chain,
        function=function,
        title=f"{function} of {chain.name}",
        inputs=[Array(name=name, shape=(chain.nv,), unit=_UNITS[name]) for name in inputs],
        results=[Array(name=result, shape=(chain.nv,), unit=_UNITS[result])],
        dtype=dtype,
        layout=layout,
        isa=machine,
        finite=finite,
        threads=threads,
        native=Native(runtime, keepalive, ctypes.addressof(kernel), ctypes.addressof(data.record)),
    )


class ChainKernel(Compiled):
    """A compiled function of a chain; may be called from several threads at once.

    Members
    -------
    chain, function : its chain and function; the other members are those of
        :class:`pinion.compute.cpu.Compiled`.
    """

    def __init__(self, *, chain: Chain, function: str, **options: Any) -> None:
        super().__init__(**options)
        self.chain = chain
        self.function = function
        self._name = self.results[0].name

    def __call__(self, *, out: NDArray[Any] | None = None, **arrays: ArrayLike) -> NDArray[Any]:
        """Compute a batch from input arrays by name and return the result array.

        Parameters
        ----------
        arrays : ``q`` and ``qd``, and ``qdd`` for ``rnea`` or ``tau`` for the others, (nv,) or
            (B, nv) in the layout ``aos``. An array without a batch axis serves all states.
        out : written and returned, if given.

        Returns
        -------
        ``tau`` or ``qdd``, (nv,) or (B, nv). Results are not finite if a joint moves no inertia,
        and NaN if there was no memory for intermediate values.

        Raises
        ------
        InputError
            If a name, a shape, a dtype or the output does not fit, or a number is not finite and
            the kernel refuses that; the message says which and where.
        """
        if out is None:
            return self.run(**arrays)[self._name]
        return self.run(out={self._name: out}, **arrays)[self._name]


class _ChainStruct(ctypes.Structure):
    """The struct ``Chain`` of ``kernels/chain.hpp``."""

    _fields_ = (
        ("bodies", ctypes.c_int32),
        ("refine", ctypes.c_int32),
        ("body", ctypes.c_void_p),
        ("compliance", ctypes.c_void_p),
        ("gravity", ctypes.c_void_p),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Data:
    """A chain's records, and the struct that points to them."""

    record: _ChainStruct
    arrays: tuple[NDArray[Any], ...]

    @classmethod
    def of(cls, chain: Chain, function: str, dtype: str, refine: int) -> _Data:
        frames = Frames.of(chain)
        bodies = frames.bodies(chain.name, dtype)
        empty = np.zeros(0, dtype)
        compliances = frames.compliances(chain.name, dtype) if function == "cfa" else empty
        gravity = frames.gravity.astype(dtype)
        record = _ChainStruct(
            len(bodies), refine, bodies.ctypes.data, compliances.ctypes.data, gravity.ctypes.data
        )
        return cls(record=record, arrays=(bodies, compliances, gravity))

    def kernel(self, pattern: int, names: tuple[str, ...]) -> KernelStruct:
        """Return a copy of a library's kernel struct with these arrays, the result last."""
        count = self.record.bodies
        # The chain itself follows the inputs, as an array without elements.
        arrays = [ArrayStruct(name.encode(), count) for name in names]
        inputs = (ArrayStruct * len(names))(*arrays[:-1], ArrayStruct(b"", 0))
        outputs = (ArrayStruct * 1)(arrays[-1])
        record = KernelStruct.from_buffer_copy(KernelStruct.from_address(pattern))
        record.inputs, record.input = len(names), inputs
        record.outputs, record.output = 1, outputs
        return record
