"""Sets and loads of links with kernels for a GPU, on a simulated device."""

from __future__ import annotations

import numpy as np
import pytest

from pinion import dynamics
from pinion.api.parameters import ParametricBackend
from pinion.batch import InputError
from pinion.compute.cuda.backend import CudaBackend
from pinion.robot import payload

from .conftest import MODEL, ROW, Opened, There, states

HAND = "iiwa_link_7"

SET = np.array([1.0, 0.0, 0.0, 0.1, 0.02, 0.0, 0.02, 0.0, 0.0, 0.01])
"""A ball of 1 kg on the axis, 0.1 m from the joint."""


def test_a_gpu_has_the_file_s_set_and_takes_sets_and_loads(opened: Opened) -> None:
    row = ROW.with_parameters((HAND,))
    kernel, _ = opened(target=(MODEL, row))
    backend = ParametricBackend(
        backend=CudaBackend(kernel), model=MODEL, function=row, accept_inertia=False
    )
    x = states(40)
    loads = [0.0, 2.0]
    for mass in loads:
        backend.attach(HAND, mass=mass, com=(0.0, 0.05, 0.1))
        robot = payload(MODEL, HAND, mass=mass, com=(0.0, 0.05, 0.1)) if mass else MODEL
        expected = dynamics.rnea(robot, **x)
        tau = np.zeros_like(expected)
        assert np.abs(backend(**x, out={"tau": tau}).tau - expected).max() <= 1e-10
        assert np.abs(tau - expected).max() <= 1e-10 < np.abs(expected).max()
    sets = row.evaluate(MODEL, {**x, "parameters": np.linspace(0.5, 2.0, 40)[:, None] * SET})
    masses = {"mass": np.linspace(0.5, 2.0, 40), "com": (0.0, 0.0, 0.1)}
    tensor = np.linspace(0.5, 2.0, 40)[:, None] * np.array([0.01, 0.0, 0.0, 0.01, 0.0, 0.01])
    each = backend(**x, inertia={HAND: {**masses, "inertia": tensor}}).tau
    assert np.abs(each - sets["tau"]).max() <= 1e-10
    with pytest.raises(InputError, match="'parameters' is in host memory"):
        backend(**{name: There(values) for name, values in x.items()})
