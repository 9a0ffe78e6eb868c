"""Simulation of a build, compiled or under cocotb."""

from __future__ import annotations

from .compiled import CompiledCore, CompileError
from .reference import Reference, request_words
from .runner import BenchError, MismatchError, run_bench
from .scoreboard import Divergence, first_divergence
from .stream import StreamDeadlockError, StreamError, StreamResult
from .verify import SIMULATORS, verify

__all__ = [
    "SIMULATORS",
    "BenchError",
    "CompileError",
    "CompiledCore",
    "Divergence",
    "MismatchError",
    "Reference",
    "StreamDeadlockError",
    "StreamError",
    "StreamResult",
    "first_divergence",
    "request_words",
    "run_bench",
    "verify",
]
