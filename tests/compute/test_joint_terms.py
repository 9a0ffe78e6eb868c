"""Armature, damping, friction and springs in programs for processors and a GPU's threads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pinion.compute import cpu, cuda
from pinion.compute.cuda import cooperative
from pinion.functions import named_function, sample
from pinion.native.errors import ComputeError
from pinion.robot import load
from tests.compute.runtime_library import instruction_sets_and_dtypes
from tests.dynamics.models import relative_error
from tests.dynamics.test_joint_terms import robot, with_terms
from tests.native.conftest import needs_compiler
from tests.support.breadth import some_rows
from tests.support.cuda_threads import on_host, run_threads

pytestmark = needs_compiler


@pytest.mark.parametrize(
    ("robot_name", "name"),
    some_rows(
        [
            ("hinge", "fd_derivatives"),
            ("higher pendulum", "fd_derivatives"),
            pytest.param("hinge", "rnea", marks=pytest.mark.slow),
            *[
                pytest.param(robot_name, name, marks=pytest.mark.slow)
                for robot_name, names in (
                    ("iiwa14", ("rnea", "aba", "minv", "rnea_derivatives", "fd_derivatives")),
                    ("floating hyq", ("rnea", "aba")),
                    ("higher floating hyq", ("minv", "rnea_derivatives")),
                )
                for name in names
            ],
        ],
        lambda robot_name, name: (robot_name, name) == ("higher pendulum", "fd_derivatives"),
    ),
)
def test_programs_have_all_terms(robot_name: str, name: str, cache_folder: Path) -> None:
    model = robot(robot_name)
    row = named_function(name, joint_terms=True)
    samples = sample(model, row, 100, distribution="reference", seed=6)
    wide = {key: value.astype(np.float64) for key, value in samples.items()}
    if "floating" in robot_name:
        wide["q"][:, 3:7] /= np.linalg.norm(wide["q"][:, 3:7], axis=1, keepdims=True)
    want = row.evaluate(model, wide)
    for dtype, tolerance in (("float64", 1e-10), ("float32", 1e-3)):
        kernel = cpu.compile(model, name, dtype=dtype, joint_terms=True, cache=cache_folder)
        results = kernel(**{key: value.astype(dtype) for key, value in wide.items()})
        for key, value in want.items():
            assert relative_error(results[key], value) < tolerance, key


@pytest.mark.parametrize(("using", "dtype"), instruction_sets_and_dtypes())
def test_clamps_of_every_instruction_set_keep_nan(
    using: str, dtype: str, cache_folder: Path
) -> None:
    model = robot("hinge")
    kernel = cpu.compile(model, "rnea", dtype=dtype, joint_terms="friction", isa=using,
                         cache=cache_folder)  # fmt: skip
    qd = np.linspace(-0.1, 0.1, 41).astype(dtype)[:, None]
    qd[7], qd[8] = np.nan, np.inf
    zero = np.zeros_like(qd)
    tau = kernel(q=zero, qd=qd, qdd=zero)["tau"][:, 0]
    x = np.clip(qd[:, 0].astype(np.float64) / 0.05, -1.0, 1.0)
    want = 0.2 * x * (15.0 - 10.0 * x**2 + 3.0 * x**4) / 8.0
    assert np.isnan(tau[7]) and np.isnan(want[7]) and tau[8] == pytest.approx(0.2)
    np.testing.assert_allclose(tau, want, atol=1e-7 if dtype == "float32" else 1e-15)


def test_threads_of_a_gpu_compute_the_same(tmp_path: Path) -> None:
    model, row = robot("hinge"), named_function("fd_derivatives", joint_terms=True)
    source = cuda.source(model, row, dtype="float64")
    inputs = {
        key: value.astype(np.float64)
        for key, value in sample(model, row, 33, distribution="reference", seed=4).items()
    }
    results = run_threads(
        source,
        on_host(source, tmp_path),
        inputs=[block.resolved(model) for block in row.inputs],
        results=[block.resolved(model) for block in row.results],
        arrays=inputs,
        count=33,
        seed=1,
    )
    for key, value in row.evaluate(model, inputs).items():
        assert relative_error(results[key], value) < 1e-12


def test_threads_of_a_block_refuse_what_they_do_not_know() -> None:
    with pytest.raises(
        ComputeError, match=r"'iiwa_joint_1' has an armature of 0\.\d+, which kernels with"
    ):
        cooperative.source(with_terms(load("iiwa14"), 3), "aba")
    model = load("iiwa14")
    assert cuda.small_batches(model, named_function("aba"), "float32") is not None
    assert (
        cuda.small_batches(model, named_function("aba", joint_terms="damping"), "float32") is None
    )
