"""Native code on this machine: its compilers, instruction sets, and the cache of libraries.

For kernels (:mod:`pinion.compute`) and simulations (:mod:`pinion.cosim`) alike.
"""

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
