"""Registers and spills of chains' kernels, compiled without a GPU."""

from __future__ import annotations

from typing import Any

import pytest

from pinion.chains.kernels import cuda
from pinion.chains.kernels.cuda import METHODS, KernelSource
from pinion.compute.cuda.cubin import compile_cubin

pytest.importorskip("cuda.core", reason="cuda-core, which loads NVRTC, is not installed")

SPILLED = {"abia_by_block_float64": 256, "abia_by_grid_float64": 2048}
"""Largest spills in bytes of kernels with elements of 42 doubles, over half the registers."""

QUICK = {
    *("inverse_by_warp_float64", "inverse_by_block_float64", "inverse_by_block_float32"),
    *("abia_by_block_float64", "solve_by_block_float64", "factors_by_warps_float64"),
}


def kernels() -> dict[str, KernelSource]:
    by_name = {}
    for n in (32, 100, 1500):
        for function, methods in METHODS.items():
            for method in methods:
                if (n > 100 and method == "jsiia") or method.startswith(("cfa", "two_streams")):
                    continue  # the latter are in test_cuda_cfa_cubins.py
                for dtype in ("float32", "float64"):
                    source = cuda.source(n, function, method=method, dtype=dtype)
                    by_name.update({kernel.name: kernel for kernel in source.kernels})
    return by_name


def cases() -> list[Any]:
    """Return kernels and architectures: the quick ones for sm_90, half the others for each."""
    parameters = []
    for number, (name, kernel) in enumerate(kernels().items()):
        quick = name in QUICK
        architecture = "sm_90" if quick or number % 2 else "sm_75"
        marks = () if quick else (pytest.mark.slow,)
        parameters.append(pytest.param(kernel, architecture, marks=marks, id=name))
    return parameters


@pytest.mark.parametrize(("kernel", "architecture"), cases())
def test_registers_hold_what_a_thread_has(kernel: KernelSource, architecture: str) -> None:
    cubin = compile_cubin(kernel.text, architecture=architecture, names=[kernel.name])
    usage = cubin.usage[kernel.name]
    print(kernel.name, architecture, usage)
    assert cubin.code[:4] == b"\x7fELF"
    # 256 threads have 255 registers each; most float kernels leave room for a second block.
    large = "float64" in kernel.name or kernel.name.startswith("abia")
    assert usage.registers <= (255 if large else 128)
    assert usage.spill_stores <= SPILLED.get(kernel.name, 32)
    assert usage.stack <= 256 + SPILLED.get(kernel.name, 32)


def test_every_kernel_has_a_name_of_its_own() -> None:
    names = [*kernels()]
    assert len(names) == 2 * (3 + 3 + 3 + 2 + 2 + 5) and set(names) >= QUICK
