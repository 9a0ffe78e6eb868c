"""CUDA kernels on a CPU: compiled by a C++ compiler, with a fiber for each thread of a block.

What ``cuda_host.hpp`` says of the method and of what it finds. A kernel is

    extern "C" __global__ void name(...)

in a text that NVRTC takes; macros that are not in ``cuda_host.hpp`` are not known here.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pinion.compute.native import HEADERS
from pinion.native import isa as isas
from pinion.native.isa import InstructionSet
from pinion.native.toolchain import Compiler, compile_library, find_compiler

Argument = NDArray[np.generic] | ctypes._SimpleCData  # type: ignore[type-arg]  # of any kind
Shape = int | Sequence[int]

_KERNEL = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\s*\([^()]*\)\s*)?(\w+)\s*\(")
_DYNAMIC = re.compile(
    r"extern\s+__shared__\s+(?:__align__\s*\(\d+\)\s*)?([\w:<>]+(?:\s+[\w:<>]+)*)\s+(\w+)\s*\[\s*\]\s*;"
)
_MESSAGE_BYTES = 1000


class HostError(RuntimeError):
    """Error for a kernel that breaks a rule of thread blocks; the message names the thread."""


class HostKernels:
    """Kernels of one source text, compiled for this CPU.

    Members
    -------
    names : of the kernels.
    """

    def __init__(
        self,
        text: str,
        *,
        folder: Path,
        compiler: Compiler | None = None,
        isa: InstructionSet | None = None,
        include: Sequence[Path] = (),
    ) -> None:
        """Compile the source text into a library.

        Parameters
        ----------
        text : CUDA C++.
        folder : where the library goes; it exists.
        compiler, isa : by default the machine's, and its best.
        include : folders of headers, after those of ``pinion.compute``.

        Raises
        ------
        pinion.compute.ComputeError : it does not compile.
        ValueError : no kernel is in it.
        """
        self.names = tuple(dict.fromkeys(_KERNEL.findall(text)))
        if not self.names:
            raise ValueError(
                'The text has no kernel: write `extern "C" __global__ void name(...)`.'
            )
        entries = "".join(f"CUDA_HOST_ENTRY({name})\n" for name in self.names)
        path = folder / f"kernels_{len(list(folder.iterdir()))}.so"
        compile_library(
            {
                "kernel.cpp": f'#include "cuda_host.hpp"\n#line 1 "kernel.cu"\n'
                f"{_DYNAMIC.sub(_pointer, text)}\n{entries}"
            },
            out=path,
            compiler=find_compiler() if compiler is None else compiler,
            isa=isas.best() if isa is None else isa,
            include=(Path(__file__).parent, HEADERS, *include),
            extra_flags=("-O1",),  # the same numbers; most of a test's time is the compiler's
        )
        self._library = ctypes.CDLL(str(path))
        self._turn = threading.Lock()  # the library has one set of fibers

    def launch(
        self,
        name: str,
        grid: Shape,
        block: Shape,
        shared_bytes: int,
        args: Sequence[Argument],
        seed: int,
        *,
        cooperative: bool = False,
    ) -> None:
        """Launch a kernel and wait until all its threads have ended.

        Parameters
        ----------
        grid, block : up to three numbers each, x first.
        shared_bytes : of dynamic shared memory a block.
        args : the kernel's; arrays are passed by address, numbers as ctypes' objects of the type
            that the kernel has there.
        seed : of the order of blocks, and of threads between barriers.
        cooperative : all blocks are under way together and may wait for each other.

        Raises
        ------
        HostError : threads wait for each other for ever, or write outside the shared memory.
        ValueError : an array is not contiguous.
        """
        for k, arg in enumerate(args):
            if isinstance(arg, np.ndarray) and not arg.flags.c_contiguous:
                raise ValueError(f"Argument {k} is not contiguous: give a copy of it.")
        values = [
            ctypes.c_void_p(arg.ctypes.data) if isinstance(arg, np.ndarray) else arg for arg in args
        ]
        addresses = (ctypes.c_void_p * max(len(values), 1))(*map(ctypes.addressof, values))
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        with self._turn:
            self._library[f"{name}_launch"](
                (ctypes.c_uint * 3)(*_three(grid)),
                (ctypes.c_uint * 3)(*_three(block)),
                ctypes.c_size_t(shared_bytes),
                ctypes.c_int(cooperative),
                addresses,
                ctypes.c_uint64(seed),
                message,
                ctypes.c_size_t(_MESSAGE_BYTES),
            )
        if message.value:
            raise HostError(f"{name}: {message.value.decode()}")


def _pointer(match: re.Match[str]) -> str:
    """Replace the declaration of a dynamic shared array with a pointer to the shared memory."""
    kind, name = match[1], match[2]
    return f"{kind} *const {name} = ({kind} *)cuda_host::shared();"


def _three(shape: Shape) -> list[int]:
    sizes = [shape] if isinstance(shape, int) else list(shape)
    return sizes + [1] * (3 - len(sizes))
