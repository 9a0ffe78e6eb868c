"""Compilation of CUDA source to cubins with NVRTC, without a GPU, and their resource usage."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from io import StringIO

from pinion.base.installation import install_hint
from pinion.compute.native import HEADERS
from pinion.native import ComputeError

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100")
"""Architectures that the tests compile for: Turing, Ampere, Hopper, Blackwell."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources that one thread of a kernel uses, as reported by the assembler.

    Members
    -------
    registers : number of 32-bit registers.
    spill_stores, spill_loads : size in bytes of values that the compiler moved to local memory and
        back.
    stack : size in bytes of all local memory, including arrays and calls.
    """

    registers: int
    spill_stores: int
    spill_loads: int
    stack: int


@dataclass(frozen=True, slots=True)
class Cubin:
    """Machine code for one architecture.

    Members
    -------
    code : the ELF file.
    usage : resources of each kernel by its name.
    """

    code: bytes
    usage: Mapping[str, Usage]


def compile_cubin(text: str, *, architecture: str, names: Sequence[str] = ()) -> Cubin:
    """Compile CUDA source to a cubin.

    Products and sums are fused only where the source says so, so that results do not depend on the
    compiler.

    Parameters
    ----------
    text : CUDA C++; it may include the headers of ``runtime/``.
    architecture : such as ``sm_90``.
    names : kernels that it must contain.

    Raises
    ------
    ComputeError
        If NVRTC is not installed, refuses the source, or does not know the architecture.
    """
    try:
        from cuda.core import Program, ProgramOptions
    except ImportError:
        raise ComputeError(
            f"Compiling for a GPU needs the package cuda-core: {install_hint('cuda')}."
        ) from None
    if not re.fullmatch(r"sm_\d+[a-z]?", architecture):
        raise ComputeError(f"'{architecture}' is not a GPU architecture: use 'sm_90', for example.")
    log = StringIO()
    try:
        options = ProgramOptions(
            arch=architecture,
            std="c++17",
            fma=False,
            include_path=[str(HEADERS)],
            ptxas_options=["-v"],
            # NVRTC's own cache returns code without the assembler's report.
            no_cache=True,
        )
        code = Program(text, "c++", options).compile("cubin", logs=log)
    except Exception as error:  # cuda-core has no specific class for errors of NVRTC
        message = _first_error(f"{log.getvalue()}\n{error}") or str(error).strip().splitlines()[0]
        raise ComputeError(f"NVRTC failed to compile for {architecture}: {message}") from None
    usage = _usage(log.getvalue())
    for name in names:
        if name not in usage:
            raise ComputeError(f"NVRTC's report does not mention the kernel '{name}'.")
    return Cubin(bytes(code.code), usage)


def compiler_version() -> str:
    """Return the versions of the compiler's packages, for cache keys."""
    versions = []
    for package in ("cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc"):
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            versions.append(f"{package} of the system")
    return ", ".join(versions)


def _usage(log: str) -> dict[str, Usage]:
    """Parse the output of ``ptxas -v``; return the resource usage of each kernel by name."""
    usages = {}
    for name, text in re.findall(
        r"Compiling entry function '(\w+)'(.*?)(?=Compiling entry function|\Z)", log, re.S
    ):
        memory = re.search(
            r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", text
        )
        registers = re.search(r"Used (\d+) registers", text)
        if memory is None or registers is None:
            raise ComputeError(f"The assembler's report on '{name}' has an unknown format.")
        stack, stores, loads = map(int, memory.groups())
        usages[name] = Usage(int(registers[1]), stores, loads, stack)
    return usages


def _first_error(log: str) -> str:
    return next((line.strip() for line in log.splitlines() if "error" in line), "")
