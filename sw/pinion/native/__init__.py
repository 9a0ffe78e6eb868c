"""Native code for kernels and simulations: compilers, instruction sets and a cache of libraries."""

from __future__ import annotations

from .cache import Cache, default_folder
from .errors import ComputeError, StorageError
from .isa import InstructionSet
from .toolchain import Compiler, find_compiler

__all__ = [
    "Cache",
    "Compiler",
    "ComputeError",
    "InstructionSet",
    "StorageError",
    "default_folder",
    "find_compiler",
]
