"""Armature, damping, friction and springs in programs: of processors, and of a GPU's threads."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from pinion.compute import cpu, cuda
from pinion.compute.cuda import cooperative
from pinion.functions import named_function, sample
from pinion.native import isa
from pinion.native.errors import ComputeError
from pinion.robot import load
from tests.dynamics.models import relative_error
from tests.dynamics.test_joint_terms import robot, with_terms
from tests.support.breadth import some_rows
from tests.support.cuda_threads import on_host, run_threads

pytestmark = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("c++", "g++", "clang++")),
    reason="no C++ compiler on this machine",
)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache for this module."""
    return tmp_path_factory.mktemp("cache")


SETS = [found.name for found in isa.available()]


@pytest.mark.parametrize(
    ("chosen", "name"),
    some_rows(
        [
            ("hinge", "fd_derivatives"),
            ("higher pendulum", "fd_derivatives"),
            pytest.param("hinge", "rnea", marks=pytest.mark.slow),
            *[
                pytest.param(chosen, name, marks=pytest.mark.slow)
                for chosen in ("iiwa14", "floating hyq", "higher floating hyq")
                for name in ("rnea", "aba", "minv", "rnea_derivatives", "fd_derivatives")
            ],
        ],
        lambda chosen, name: (chosen, name) == ("higher pendulum", "fd_derivatives"),
    ),
)
def test_programs_have_all_terms(chosen: str, name: str, kept: Path) -> None:
    model = robot(chosen)
    row = named_function(name, joint_terms=True)
    given = sample(model, row, 100, distribution="reference", seed=6)
    wide = {key: value.astype(np.float64) for key, value in given.items()}
    if "floating" in chosen:
        wide["q"][:, 3:7] /= np.linalg.norm(wide["q"][:, 3:7], axis=1, keepdims=True)
    want = row.evaluate(model, wide)
    for dtype, tolerance in (("float64", 1e-10), ("float32", 1e-3)):
        kernel = cpu.compile(model, name, dtype=dtype, joint_terms=True, cache=kept)
        found = kernel(**{key: value.astype(dtype) for key, value in wide.items()})
        for key, value in want.items():
            assert relative_error(found[key], value) < tolerance, key


@pytest.mark.parametrize(
    ("using", "dtype"),
    [
        pytest.param(
            name, dtype, marks=[] if (name, dtype) == (SETS[0], "float32") else pytest.mark.slow
        )
        for name in SETS
        for dtype in ("float32", "float64")
    ],
)
def test_clamps_of_every_instruction_set_keep_nan(using: str, dtype: str, kept: Path) -> None:
    model = robot("hinge")
    kernel = cpu.compile(model, "rnea", dtype=dtype, joint_terms="friction", isa=using,
                         cache=kept)  # fmt: skip
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
    given = {
        key: value.astype(np.float64)
        for key, value in sample(model, row, 33, distribution="reference", seed=4).items()
    }
    found = run_threads(
        source,
        on_host(source, tmp_path),
        inputs=[block.resolved(model) for block in row.inputs],
        results=[block.resolved(model) for block in row.results],
        given=given,
        count=33,
        seed=1,
    )
    for key, value in row.evaluate(model, given).items():
        assert relative_error(found[key], value) < 1e-12


def test_threads_of_a_block_refuse_what_they_do_not_know() -> None:
    with pytest.raises(
        ComputeError, match=r"'iiwa_joint_1' has an armature of 0\.\d+, which the threads of a"
    ):
        cooperative.source(with_terms(load("iiwa14"), 3), "aba")
    model = load("iiwa14")
    assert cuda.small_batches(model, named_function("aba"), "float32") is not None
    assert (
        cuda.small_batches(model, named_function("aba", joint_terms="damping"), "float32") is None
    )
