"""The runtime library, which runs batches through kernels of one instruction set."""

from __future__ import annotations

import ctypes
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import numpy as np

from pinion.base import package_digest
from pinion.native import Cache, Compiler, ComputeError, InstructionSet
from pinion.native.toolchain import compile_library

HEADERS = Path(__file__).parent / "runtime"

ABI = 1
"""Version of ``runtime/abi.h``."""

LAYOUTS: Mapping[str, int] = {"aos": 0, "soa": 1, "blocks": 2}
"""Numbers of the layouts in ``runtime/abi.h``."""

ONE = 3
"""Layout of one sample that serves all."""

_ANSWERS = {
    1: "the kernel was compiled by another version of Pinion",
    2: "an array has an invalid layout or stride",
    3: "the machine is out of memory",
}


class ArrayStruct(ctypes.Structure):
    """The struct ``pinion_array`` of ``runtime/abi.h``."""

    _fields_ = (("name", ctypes.c_char_p), ("size", ctypes.c_uint32))


class KernelStruct(ctypes.Structure):
    """The struct ``pinion_kernel`` of ``runtime/abi.h``."""

    _fields_ = (
        ("abi", ctypes.c_uint32),
        ("bytes", ctypes.c_uint32),
        ("lanes", ctypes.c_uint32),
        ("inputs", ctypes.c_uint32),
        ("outputs", ctypes.c_uint32),
        ("input", ctypes.POINTER(ArrayStruct)),
        ("output", ctypes.POINTER(ArrayStruct)),
        ("compute", ctypes.c_void_p),
        ("isa", ctypes.c_char_p),
    )


class View(ctypes.Structure):
    """The struct ``pinion_view`` of ``runtime/abi.h``."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("layout", ctypes.c_int32),
        ("stride", ctypes.c_int64),
    )


@dataclass(frozen=True)
class Runtime:
    """The loaded runtime library of one instruction set.

    Members
    -------
    library : has ``pinion_run_flagged`` and ``pinion_first_nonfinite``.
    module : the same library as a Python module with ``caller``, or None if Python's headers are
        not installed: then calls go through ctypes, which takes a few microseconds each, and
        results are always in new memory.
    """

    library: ctypes.CDLL
    module: Any

    def run(
        self,
        kernel: int,
        count: int,
        views: Sequence[Sequence[View]],
        flags: np.ndarray[Any, Any],
        threads: int,
    ) -> None:
        """Compute ``count`` samples with a kernel.

        Parameters
        ----------
        kernel : address of a ``pinion_kernel``.
        views : of the inputs and of the outputs.
        flags : written; contiguous bools, true for samples with results that are not finite.
        threads : largest number of threads; 0 for one per CPU core.

        Raises
        ------
        ComputeError
            If the runtime refuses.
        """
        inputs, outputs = ((View * len(part))(*part) for part in views)
        answer = self.library.pinion_run_flagged(
            ctypes.c_void_p(kernel),
            ctypes.c_size_t(count),
            inputs,
            outputs,
            ctypes.c_void_p(flags.ctypes.data),
            ctypes.c_uint(threads),
        )
        if answer == 3:
            raise MemoryError
        if answer:
            raise ComputeError(f"The kernel cannot be run: {_ANSWERS.get(answer, answer)}.")

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], *, reuse: bool) -> Any:
        """Return an uninitialised array that begins at a cache line, unless it is small.

        Parameters
        ----------
        reuse : use the memory of earlier arrays that are no longer referenced, if there is some.
        """
        if self.module is not None:
            return self.module.empty(shape, dtype.num, reuse)
        return aligned(shape, dtype)

    def first_nonfinite(self, array: np.ndarray[Any, Any]) -> int:
        """Return the flat index of the first NaN or infinity in a contiguous array, or -1."""
        return int(
            self.library.pinion_first_nonfinite(
                ctypes.c_void_p(array.ctypes.data),
                ctypes.c_int(array.itemsize),
                ctypes.c_size_t(array.size),
            )
        )


def cached_library(
    cache: Cache,
    key: Mapping[str, Any],
    sources: Mapping[str, str] | Callable[[], Mapping[str, str]],
    *,
    compiler: Compiler,
    isa: InstructionSet,
    include: Sequence[Path] = (HEADERS,),
    defines: Mapping[str, str] | None = None,
) -> Path:
    """Return the path of a shared library, compiling its sources if it is not in the cache.

    Parameters
    ----------
    key : what the library depends on besides compiler, instruction set and this package.
    sources : texts by file name, or a function that returns them.
    include, defines : as for :func:`pinion.native.toolchain.compile_library`.
    """

    def make(path: Path) -> None:
        compile_library(
            sources() if callable(sources) else sources,
            out=path,
            compiler=compiler,
            isa=isa,
            include=include,
            defines=defines,
        )

    package = package_digest(("native", "compute"))
    common = {"package": package, "compiler": compiler.identity, "isa": isa.name}
    return cache.library({**common, **key}, make)


def load_runtime(isa: InstructionSet, compiler: Compiler, cache: Cache) -> Runtime:
    """Load the runtime, compiling it if it is not in the cache.

    Raises
    ------
    ComputeError
        If it does not compile.
    """
    python = _python_headers()
    key = {
        "kind": "runtime",
        "python": sysconfig.get_config_var("SOABI") if python else None,
        "numpy": np.__version__ if python else None,
    }
    sources = {"runtime.cpp": (HEADERS / "runtime.cpp").read_text()}
    if python:
        sources["pycall.cpp"] = (HEADERS / "pycall.cpp").read_text()
    path = cached_library(
        cache, key, sources, compiler=compiler, isa=isa, include=(HEADERS, *python)
    )
    library = ctypes.CDLL(str(path))
    library.pinion_first_nonfinite.restype = ctypes.c_int64
    return Runtime(library, _module(path) if python else None)


def aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return an uninitialised array that begins at a cache line."""
    size = int(np.prod(shape)) * dtype.itemsize
    memory = np.empty(size + 64, dtype=np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype).reshape(shape)


def load_kernel(path: Path) -> tuple[ctypes.CDLL, int]:
    """Load a kernel's library and return it with the address of its ``pinion_kernel``.

    Raises
    ------
    ComputeError
        If it is not a kernel, or one of another version.
    """
    try:
        library = ctypes.CDLL(str(path))
        library.pinion_get_kernel.restype = ctypes.c_void_p
        address = int(library.pinion_get_kernel())
    except (OSError, AttributeError) as error:
        raise ComputeError(
            f"The compiled kernel '{path}' cannot be loaded ({error}): delete the file to have it "
            "compiled again."
        ) from None
    kernel = KernelStruct.from_address(address)
    if kernel.abi != ABI:
        raise ComputeError(
            f"The compiled kernel '{path}' has interface version {kernel.abi}, but this version of "
            f"Pinion needs {ABI}: delete the file to have it compiled again."
        )
    return library, address


def called_by(kind: type[Any], call: Any) -> type[Any]:
    """Return a subclass whose ``__call__`` is the given callable of the runtime.

    Python looks up ``__call__`` in the class of an object; a Python method there that passes its
    arguments on would take as long as a short request.
    """
    return type(
        kind.__name__,
        (kind,),
        {
            "__call__": staticmethod(call),
            "__doc__": kind.__doc__,
            "__module__": kind.__module__,
            "__qualname__": kind.__qualname__,
        },
    )


def _python_headers() -> tuple[Path, ...]:
    """Return the folders of Python's and NumPy's headers, or () if one is missing."""
    python, numpy = Path(sysconfig.get_path("include")), Path(np.get_include())
    both = (python / "Python.h").exists() and (numpy / "numpy" / "arrayobject.h").exists()
    return (python, numpy) if both else ()


def _module(path: Path) -> Any:
    loader = ExtensionFileLoader("pinion_call", str(path))
    spec = spec_from_loader("pinion_call", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module
