"""A trot's laws with gradients of CUDA's code, compiled for this processor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pinion.compute import cuda
from pinion.compute.cuda.backend import CudaBackend
from pinion.compute.cuda.kernel import CudaKernel
from pinion.control.locomotion.scenario import TrotScenario
from pinion.control.plant import Plant, gradient_row
from tests.native.conftest import needs_compiler
from tests.support.cuda_device import HostDevice

SCENARIO = TrotScenario()
PERIODS = range(50, 80)
"""From the first swing to the second: 0.3 s."""


def laws(plant: Plant) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the efforts and gains of periods on arrays, from states near a trot."""
    motion = SCENARIO.motion(plant.model, [(0.1, 0.3, 0.15, 0.4)], 1.0)
    controller = SCENARIO.controller(plant, motion, compiled=False)
    rng, space = np.random.default_rng(1), plant.space
    states = space.integrate(motion.states(), 0.01 * rng.normal(size=(motion.rows, space.ndx)))
    computed = [controller.update(number, states[number]) for number in PERIODS]
    assert controller.log.flagged == controller.log.restarts == 0
    return [(law.u, law.K) for law in computed]


@pytest.mark.slow
@needs_compiler
def test_laws_with_gradients_of_cuda_are_those_of_the_processor(tmp_path: Path) -> None:
    model = SCENARIO.model()
    row = gradient_row(contacts=4)
    source = cuda.source(model, row, dtype="float32")
    kernel = CudaKernel(
        model=model, function=row, source=source, device=HostDevice(tmp_path), finite=True
    )
    with (
        SCENARIO.plant(model) as plant,
        SCENARIO.plant(model, dtype="float32") as single,
        Plant(
            model,
            dt=SCENARIO.step,
            gradients=CudaBackend(kernel),
            forward=plant.forward,
            velocity_gain=SCENARIO.velocity_gain,
        ) as on_device,
    ):
        exact, rounded, ours = laws(plant), laws(single), laws(on_device)
    assert kernel.device.launches
    for period in zip(exact, rounded, ours, strict=True):
        for expected, of_processor, of_device in zip(*period, strict=True):
            np.testing.assert_array_equal(of_device, of_processor)
            assert np.abs(of_device - expected).max() < 1e-4 * np.abs(expected).max()
            assert (of_device != expected).any()
