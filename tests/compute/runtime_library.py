"""The batch runtime with toy kernels, called through ctypes, and arrays in any layout."""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import pinion.compute
from pinion.compute.native import KernelStruct, View
from pinion.native.isa import available

AOS, SOA, BLOCKS, ONE = range(4)
LAYOUTS = {"aos": AOS, "soa": SOA, "blocks": BLOCKS}
BLOCK = 16

FLAGS = ["-std=c++17", "-O2", "-ffp-contract=off", "-fno-math-errno"]
SHARED = ["-fPIC", "-shared", "-pthread"]
STRICT = ["-fno-exceptions", "-fno-rtti", "-Wall", "-Wextra", "-Werror"]
INSTRUCTION_SETS = {
    "avx512": ["-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mfma"],
    "avx2": ["-mavx2", "-mfma"],
    "neon": [],
    "portable": [],
}


def instruction_sets() -> list[str]:
    """Return the instruction sets of this machine."""
    if platform.machine() in ("aarch64", "arm64"):
        return ["neon"]
    try:
        flags = Path("/proc/cpuinfo").read_text().split()
    except OSError:
        return ["portable"]
    names = ["portable"]
    if {"avx2", "fma"} <= set(flags):
        names.append("avx2")
    if {"avx512f", "avx512dq", "avx512vl", "avx512bw", "fma"} <= set(flags):
        names.append("avx512")
    return names


def instruction_sets_and_dtypes() -> list[Any]:
    """Return this machine's instruction sets with both dtypes; all but one pair are slow."""
    cases = [(isa.name, dtype) for isa in available() for dtype in ("float32", "float64")]
    return [
        pytest.param(*case, marks=[pytest.mark.slow] if k else []) for k, case in enumerate(cases)
    ]


def compiler() -> str | None:
    """Return the system's C++ compiler, or None."""
    return next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)


class Library:
    """The compiled library of one instruction set."""

    def __init__(self, *, path: Path) -> None:
        self.path = path
        library = ctypes.CDLL(str(path))
        for name in ("sums_kernel", "copies_kernel"):
            getattr(library, name).restype = ctypes.POINTER(KernelStruct)
        library.pinion_run.argtypes = (
            ctypes.POINTER(KernelStruct),
            ctypes.c_size_t,
            ctypes.POINTER(View),
            ctypes.POINTER(View),
            ctypes.c_uint,
        )
        library.lanes_of_last_call.restype = ctypes.POINTER(ctypes.c_double)
        library.pinion_first_nonfinite.restype = ctypes.c_int64
        library.pinion_first_nonfinite.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
        self.c = library

    def kernel(self, name: str, dtype: np.dtype) -> ctypes._Pointer[KernelStruct]:
        """Return the kernel "sums" or "copies"."""
        kernel: ctypes._Pointer[KernelStruct] = getattr(self.c, f"{name}_kernel")(dtype.itemsize)
        return kernel

    def run(
        self,
        kernel: ctypes._Pointer[KernelStruct],
        n: int,
        inputs: list[Placed],
        outputs: list[Placed],
        threads: int = 1,
    ) -> int:
        """Return the result of pinion_run."""
        return int(
            self.c.pinion_run(
                kernel,
                n,
                (View * len(inputs))(*(a.view for a in inputs)),
                (View * len(outputs))(*(a.view for a in outputs)),
                threads,
            )
        )


def build(isa: str, folder: Path) -> Library:
    """Compile the runtime with the toy kernels; warnings are errors."""
    command = compiler()
    assert command is not None
    path = folder / f"toys_{isa}.so"
    runtime = Path(pinion.compute.__file__).parent / "runtime"
    source = Path(__file__).parent / "toys.cpp"
    flags = [*FLAGS, *SHARED, *STRICT, *INSTRUCTION_SETS[isa]]
    subprocess.run([command, *flags, "-I", runtime, source, "-o", path], check=True)
    return Library(path=path)


def whole(n: int) -> int:
    """Return the number of samples in the blocks of n."""
    return -(-n // BLOCK) * BLOCK


def extent(layout: int, size: int, stride: int, n: int) -> int:
    """Return the number of elements that an array spans."""
    if n == 0 or size == 0:
        return 0
    if layout == AOS:
        return (n - 1) * stride + size
    if layout == SOA:
        return (size - 1) * stride + n
    return whole(n) * size if layout == BLOCKS else size


@dataclass(frozen=True)
class Placed:
    """An array at a place in memory.

    memory : (bytes,) uint8, the surrounding memory
    start : its first byte
    """

    memory: NDArray[np.uint8]
    start: int
    layout: int
    size: int
    stride: int
    n: int
    dtype: np.dtype

    @property
    def view(self) -> View:
        """Its `pinion_view`."""
        return View(self.memory.ctypes.data + self.start, self.layout, self.stride)

    def elements(self, memory: NDArray[np.uint8]) -> np.ndarray:
        """Return the elements in a memory of this layout: (n, size), or (blocks, size, 16)."""
        width = self.dtype.itemsize
        shape: tuple[int, ...] = (self.n, self.size)
        strides: tuple[int, ...] = {
            AOS: (self.stride * width, width),
            SOA: (width, self.stride * width),
            BLOCKS: (self.size * BLOCK * width, BLOCK * width, width),
            ONE: (0, width),
        }[self.layout]
        if self.layout == BLOCKS:
            shape = (whole(self.n) // BLOCK, self.size, BLOCK)
        return np.ndarray(shape, self.dtype, memory, self.start, strides)

    def write(self, values: np.ndarray) -> None:
        """Write values, (n, size)."""
        if self.layout == BLOCKS:
            padded = np.zeros((whole(self.n), self.size), self.dtype)
            padded[: self.n] = values
            values = padded.reshape(-1, BLOCK, self.size).transpose(0, 2, 1)
        self.elements(self.memory)[:] = values

    def read(self) -> np.ndarray:
        """Return the values, (n, size)."""
        values = self.elements(self.memory)
        if self.layout == BLOCKS:
            values = values.transpose(0, 2, 1).reshape(-1, self.size)[: self.n]
        return values

    def untouched(self, before: NDArray[np.uint8]) -> bool:
        """Return whether everything around the array is unchanged, including gaps between rows."""
        after = self.memory.copy()
        self.elements(after)[:] = self.elements(before)
        return bool(np.array_equal(after, before))
