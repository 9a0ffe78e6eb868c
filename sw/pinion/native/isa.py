"""Instruction sets: what a kernel can be compiled for, and what this machine runs."""

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
    """An instruction set that ``runtime/vec.hpp`` knows.

    Members
    -------
    name : as a kernel names itself: "avx512", "avx2", "neon" or "portable".
    machine : the architecture that has it, "x86_64" or "aarch64", or "any".
    flags : the compiler's flags that switch it on; g++, clang++ and zig take the same.
    vector_bytes : of one vector register.
    registers : values that stay in vector registers; the rest of them is for what is on its way.
    """

    name: str
    machine: str
    flags: tuple[str, ...]
    vector_bytes: int
    registers: int

    @property
    def features(self) -> frozenset[str]:
        """What a processor must have; compilers and Linux spell the features alike."""
        return frozenset(flag.removeprefix("-m") for flag in self.flags)


_AVX2 = ("-mavx2", "-mfma")
_AVX512 = ("-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mfma")

INSTRUCTION_SETS = (
    InstructionSet(name="avx512", machine="x86_64", flags=_AVX512, vector_bytes=64, registers=30),
    InstructionSet(name="avx2", machine="x86_64", flags=_AVX2, vector_bytes=32, registers=14),
    InstructionSet(name="neon", machine="aarch64", flags=(), vector_bytes=16, registers=30),
    InstructionSet(name="portable", machine="any", flags=(), vector_bytes=16, registers=14),
)
"""All of them, best first."""

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}  # by their other names

# The names of macOS for the features that the table asks for.
_SYSCTL = {
    "avx2": "hw.optional.avx2_0",
    "fma": "hw.optional.fma",
    **{name: f"hw.optional.{name}" for name in ("avx512f", "avx512dq", "avx512vl", "avx512bw")},
}


def available() -> tuple[InstructionSet, ...]:
    """The instruction sets that this machine runs, best first; the last is always "portable"."""
    machine, features = processor()
    return tuple(
        isa
        for isa in INSTRUCTION_SETS
        if isa.machine in (machine, "any") and isa.features <= features
    )


def best() -> InstructionSet:
    """The best one of this machine."""
    return available()[0]


def named(name: str) -> InstructionSet:
    """The instruction set of that name, which this machine runs.

    Raises
    ------
    ComputeError : there is none of that name, or this machine does not run it.
    """
    by_name = {isa.name: isa for isa in INSTRUCTION_SETS}
    if name not in by_name:
        raise ComputeError(
            f"There is no instruction set '{name}': choose one of {', '.join(by_name)}."
        )
    isa, runs = by_name[name], available()
    if isa not in runs:
        machine, features = processor()
        alien = isa.machine != machine
        why = f"is {machine}" if alien else f"lacks {', '.join(sorted(isa.features - features))}"
        raise ComputeError(
            f"This machine {why}, so it does not run '{name}': choose "
            f"{' or '.join(isa.name for isa in runs)}."
        )
    return isa


def processor() -> tuple[str, frozenset[str]]:
    """Architecture and features of this machine, the features as Linux spells them.

    Only features that the table asks for are certain to be listed. A feature is listed when the
    operating system also saves its registers.
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
        return machine, frozenset()  # no such file, so nothing is known: the portable code runs


def linux_features(lines: Iterable[str]) -> frozenset[str]:
    """The features in ``/proc/cpuinfo``; Linux leaves out those that it does not support itself.

    The first processor stands for all, since reading 200 of them takes milliseconds.
    """
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "flags":
            return frozenset(value.split())
    return frozenset()


def _sysctl(key: str) -> bool:
    """Whether macOS says 1; it says nothing for what the processor never heard of."""
    value = ctypes.c_uint64(0)
    size = ctypes.c_size_t(ctypes.sizeof(value))
    ask = ctypes.CDLL(None).sysctlbyname
    failed = ask(key.encode(), ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0))
    return not failed and value.value != 0
