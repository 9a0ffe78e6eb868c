"""Description of the measuring machine and its software versions."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from typing import Any

import numpy as np

from pinion.native import ComputeError, find_compiler
from pinion.native.isa import best


def machine(gpus: Sequence[str]) -> dict[str, Any]:
    """Return a description of this machine, and the versions of the measured software."""
    try:
        compiler = find_compiler().version
    except ComputeError:
        compiler = "none"
    return {
        "processor": processor_name(),
        "processors": len(os.sched_getaffinity(0)),
        "isa": best().name,
        "gpu": ", ".join(dict.fromkeys(gpus)) or "none",
        "compiler": compiler,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "pinocchio": installed_version("pin") or "none",
        "cuda-core": installed_version("cuda-core") or "none",
    }


def processor_name() -> str:
    """Return the name of this machine's CPU."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def installed_version(package: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return package_version(package)
    except PackageNotFoundError:
        return None
