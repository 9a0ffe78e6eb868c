"""A kernel on a processor that simulates a device, and its arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pinion.compute import cpu
from pinion.compute.cuda import small_batches
from pinion.compute.cuda.kernel import CudaKernel, DeviceArray
from pinion.compute.cuda.parts import Room
from pinion.compute.cuda.threads import thread_source
from pinion.functions import Function, named_function, sample
from pinion.robot import Model, load
from tests.support.cuda_device import HostDevice, HostMemory
from tests.support.cuda_host import HostKernels

MODEL, ROW = load("iiwa14"), named_function("rnea")
SEVERAL = load("chain_3"), named_function("rnea_derivatives")
Opened = Callable[..., tuple[CudaKernel, HostDevice]]


@pytest.fixture(scope="session")
def compiled() -> dict[str, HostKernels]:
    """Kernels that the tests share, by their texts."""
    return {}


@pytest.fixture
def opened(tmp_path_factory: pytest.TempPathFactory, compiled: dict[str, HostKernels]) -> Opened:
    """Return a function that opens a kernel of `MODEL` and `ROW` in float64 on a simulated device.

    With ``several``, that of `SEVERAL`, in several kernels with a workspace.
    """

    def open_kernel(
        *,
        layout: str = "aos",
        memory: int = 1 << 30,
        several: bool = False,
        crossover: Any = 0,
        target: tuple[Model, Function] = (MODEL, ROW),
        check_rotations: bool = True,
    ) -> tuple[CudaKernel, HostDevice]:
        model, row = SEVERAL if several else target
        source = thread_source(
            cpu.graph_of(model, row),
            inputs=[b.resolved(model) for b in row.inputs],
            results=[b.resolved(model) for b in row.results],
            dtype="float64",
            layout=layout,
            name=row.name,
            title="",
            room=Room(plain=1, registers=8, slots=10) if several else None,
        )
        assert (len(source.kernels) > 1 and source.workspace > 0) == several
        device = HostDevice(tmp_path_factory.mktemp("device"), memory=memory, compiled=compiled)
        kernel = CudaKernel(
            model=model,
            function=row,
            source=source,
            device=device,
            finite=True,
            small=None if crossover == 0 else small_batches(model, row, "float64"),
            crossover=(crossover, crossover) if isinstance(crossover, int) else crossover,
            check_rotations=check_rotations,
        )
        return kernel, device

    return open_kernel


def states(count: int, seed: int = 4) -> dict[str, np.ndarray]:
    return sampled(MODEL, ROW, count, seed)


def sampled(model: Model, row: Function, count: int, seed: int) -> dict[str, np.ndarray]:
    arrays = sample(model, row, count, distribution="reference", seed=seed)
    return {name: values.astype(np.float64) for name, values in arrays.items()}


def expected_tau(inputs: dict[str, np.ndarray]) -> np.ndarray:
    return ROW.evaluate(MODEL, inputs)["tau"]


def close(values: np.ndarray, right: np.ndarray) -> bool:
    return bool(np.max(np.abs(values - right)) <= 1e-12 * np.max(np.abs(right)))


class There:
    """An array in the device's memory with the protocols of other libraries."""

    def __init__(self, array: np.ndarray, *, device: int = 0) -> None:
        self.array = array
        self._device = device

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return dict(self.array.__array_interface__)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self._device


def fetched(array: DeviceArray) -> np.ndarray:
    memory = array._memory
    assert isinstance(memory, HostMemory)
    flat = memory.bytes[: memory.size].view(array.dtype)
    return np.lib.stride_tricks.as_strided(
        flat, array.shape, [array.dtype.itemsize * s for s in array.strides]
    )
