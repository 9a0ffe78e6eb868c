"""Tests that use BLAS pass with every kind of kernel: no result depends on the last bit.

OpenBLAS selects kernels by the processor, or by ``OPENBLAS_CORETYPE``, and each sums in a different
order. The suites that use it run once for each kind that this processor can run and that NumPy's
library has: 10 to 25 minutes per kind, in one process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SUITES = ("tests/control", "tests/dynamics")
KINDS = ("Haswell", "Zen", "SkylakeX", "Prescott")

LIMIT_S = 3600
"""Timeout against hangs, far above slow runs."""

# The library's own answer: an unknown kind silently becomes another one.
CORE_NAME = """
import ctypes, pathlib, numpy
folder = pathlib.Path(numpy.__file__).parents[1] / "numpy.libs"
for path in folder.glob("*openblas*"):
    name = ctypes.CDLL(str(path)).scipy_openblas_get_corename64_
    name.restype = ctypes.c_char_p
    print(name().decode())
"""


def under(kind: str) -> dict[str, str]:
    return {**os.environ, "OPENBLAS_CORETYPE": kind}


def core_name(kind: str) -> str:
    """Return the kernels that NumPy's BLAS selects for a kind; "" if it bundles no OpenBLAS."""
    process = subprocess.run(
        [sys.executable, "-c", CORE_NAME], env=under(kind), capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    return process.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_suites_that_use_blas_pass_under_every_kind_of_kernel(kind: str) -> None:
    name = core_name(kind)
    if not name:
        pytest.skip("NumPy has no OpenBLAS of its own")
    twin = next(other for other in KINDS if core_name(other) == name)
    if twin != kind:
        pytest.skip(f"this library has {name}'s kernels for {kind}: {twin} runs them")
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    if kind == "SkylakeX" and "avx512f" not in flags:
        pytest.skip("this processor has no AVX-512")
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SUITES],
        cwd=Path(__file__).parents[2], env=under(kind), capture_output=True, text=True,
        timeout=LIMIT_S,
    )  # fmt: skip
    assert process.returncode == 0, process.stdout[-4000:] + process.stderr[-2000:]
    assert " passed" in process.stdout
