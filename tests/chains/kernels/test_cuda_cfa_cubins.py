"""Registers and spills of the constraint force algorithm's kernels, compiled without a GPU."""

from __future__ import annotations

import pytest

from pinion.chains.kernels.device_cfa import PARTS, CfaKernel, cfa_kernel, closed_kernel
from pinion.compute.cuda.cubin import compile_cubin

pytest.importorskip("cuda.core", reason="cuda-core, which loads NVRTC, is not installed")

# Largest number of 32-bit registers and of spilled bytes per thread, on sm_75 and sm_90. Those in
# double need 236 to 255 registers.
KERNELS = {
    "a warp a robot": (cfa_kernel(32, 2), 255, 0),
    "a block a robot": (cfa_kernel(128, 1), 255, 0),
    "a thread a robot": (cfa_kernel(50, 9, solver="ldl"), 255, 0),
    "a thread a robot, float32": (cfa_kernel(10, 9, "float32", solver="ldl"), 176, 0),
}
LARGE = {
    "a grid": (cfa_kernel(1000, 1), 255, 16),
    "a grid, reduction": (cfa_kernel(1000, 1, solver="oer"), 255, 16),
    "a block of four links a thread": (cfa_kernel(1000, 9, solver="oer"), 255, 16),
    "closed, a warp": (closed_kernel(32, 9), 255, 16),
    "closed, a grid": (closed_kernel(1000, 1), 255, 256),
    **{
        f"closed, {part}, a grid": (closed_kernel(1000, 1, part=part), 255, 256)
        for part in PARTS[1:]
    },
}
QUICK = ("a thread a robot, float32",)
# Half the kernels for each architecture.
CASES = [
    pytest.param(
        *limits,
        ("sm_75", "sm_90")[number % 2],
        id=name,
        marks=() if name in QUICK else pytest.mark.slow,
    )
    for number, (name, limits) in enumerate({**KERNELS, **LARGE}.items())
]


@pytest.mark.parametrize(("kernel", "registers", "spilled", "architecture"), CASES)
def test_registers_and_spills(
    kernel: CfaKernel, registers: int, spilled: int, architecture: str
) -> None:
    cubin = compile_cubin(kernel.text, architecture=architecture, names=[kernel.name])
    usage = cubin.usage[kernel.name]
    print(f"{kernel.name} for {architecture}: {usage}")
    assert cubin.code[:4] == b"\x7fELF"
    assert usage.registers <= registers
    assert max(usage.spill_stores, usage.spill_loads) <= spilled
