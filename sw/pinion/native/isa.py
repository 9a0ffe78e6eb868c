"""Instruction sets for which kernels can be compiled, and those that this machine supports."""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from .errors import ComputeError

__all__ = ["INSTRUCTION_SETS", "InstructionSet", "available", "best", "named"]


@dataclass(frozen=True, kw_only=True)
class InstructionSet:
    """An instruction set supported by ``runtime/vec.hpp``.

    Members
    -------
    name : "avx512", "avx2", "neon" or "portable", as in a compiled kernel.
    machine : its architecture, "x86_64" or "aarch64", or "any".
    flags : compiler flags that enable it, the same for g++, clang++ and zig.
    vector_bytes : size of a vector register.
    registers : vector registers for values; the others are for temporaries.
    """

    name: str
    machine: str
    flags: tuple[str, ...]
    vector_bytes: int
    registers: int

    @property
    def features(self) -> frozenset[str]:
        """CPU features that the set needs, as compilers and Linux spell them."""
        return frozenset(flag.removeprefix("-m") for flag in self.flags)


_AVX2 = ("-mavx2", "-mfma")
_AVX512 = ("-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mfma")

INSTRUCTION_SETS = (
    InstructionSet(name="avx512", machine="x86_64", flags=_AVX512, vector_bytes=64, registers=30),
    InstructionSet(name="avx2", machine="x86_64", flags=_AVX2, vector_bytes=32, registers=14),
    InstructionSet(name="neon", machine="aarch64", flags=(), vector_bytes=16, registers=30),
    InstructionSet(name="portable", machine="any", flags=(), vector_bytes=16, registers=14),
)
"""All instruction sets, best first."""

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}  # from their other names

# Names of the table's features on macOS.
_SYSCTL = {
    "avx2": "hw.optional.avx2_0",
    "fma": "hw.optional.fma",
    **{name: f"hw.optional.{name}" for name in ("avx512f", "avx512dq", "avx512vl", "avx512bw")},
}


def available() -> tuple[InstructionSet, ...]:
    """Return the instruction sets of this machine, best first; the last is always "portable"."""
    machine, features = processor()
    return tuple(
        isa
        for isa in INSTRUCTION_SETS
        if isa.machine in (machine, "any") and isa.features <= features
    )


def best() -> InstructionSet:
    """Return the best instruction set of this machine."""
    return available()[0]


def named(name: str) -> InstructionSet:
    """Return the instruction set with this name, which this machine must support.

    Raises
    ------
    ComputeError
        If there is no such instruction set, or this machine does not run it.
    """
    by_name, runs = {isa.name: isa for isa in INSTRUCTION_SETS}, available()
    choices = " or ".join(isa.name for isa in runs)
    if name not in by_name:
        raise ComputeError(f"Unknown instruction set '{name}': choose {choices}.")
    isa = by_name[name]
    if isa not in runs:
        machine, features = processor()
        alien = isa.machine != machine
        why = f"is {machine}" if alien else f"lacks {', '.join(sorted(isa.features - features))}"
        raise ComputeError(f"This machine {why}, so it cannot run '{name}': choose {choices}.")
    return isa


def processor() -> tuple[str, frozenset[str]]:
    """Return the architecture and features of this machine, in Linux's spelling.

    Only the table's features are certain to be listed, and only if the operating system saves their
    registers.
    """
    machine = platform.machine().lower()
    machine = _MACHINES.get(machine, machine)
    if machine != "x86_64":
        return machine, frozenset()
    if sys.platform == "darwin":
        return machine, frozenset(name for name, key in _SYSCTL.items() if _sysctl(key))
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            return machine, linux_features(lines)
    except OSError:
        return machine, frozenset()  # unknown features: the portable code runs


def linux_features(lines: Iterable[str]) -> frozenset[str]:
    """Return the features in ``/proc/cpuinfo``, which omits those that Linux does not support.

    Only the first CPU's entry is read, since reading 200 of them takes milliseconds.
    """
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "flags":
            return frozenset(value.split())
    return frozenset()


def _sysctl(key: str) -> bool:
    """Return whether a macOS setting, read by ``sysctl``, exists and is 1."""
    value = ctypes.c_uint64(0)
    size = ctypes.c_size_t(ctypes.sizeof(value))
    ask = ctypes.CDLL(None).sysctlbyname
    failed = ask(key.encode(), ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0))
    return not failed and value.value != 0
