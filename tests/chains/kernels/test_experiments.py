"""The papers' experiments on a device: rows, and reports of failing kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pinion.chains.kernels import cuda
from pinion.chains.kernels.experiments import ExperimentPoint, GpuExperiments
from pinion.native.errors import ComputeError
from pinion.native.toolchain import Compiler
from tests.support.cuda_chains import ChainDevice

N = 10
INVERSE = {"id_serial", "id_warp", "id_scan"}
FORWARD = {
    *("jsiia", "aba", "aba_warp", "hybrid", "abia"),
    *("cfa_oee", "cfa_oer", "cfa_ldl"),
}


class FailingDevice(ChainDevice):
    """A device that does not load one kernel."""

    failing = "none"

    def load(self, name: str, text: str) -> Any:
        if name.startswith(self.failing):
            raise ComputeError(f"The kernel '{name}' does not compile.")
        return super().load(name, text)


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory, compiler: Compiler) -> FailingDevice:
    folder: Path = tmp_path_factory.mktemp("experiments")
    sources = [
        cuda.source(N, function, method=method)
        for function in ("rnea", "aba")
        for method in cuda.METHODS[function]
    ]
    return FailingDevice(folder, sources, compiler=compiler)


@pytest.mark.parametrize(
    ("shape", "names"),
    [
        (ExperimentPoint("links_id", N, 1), INVERSE),
        (ExperimentPoint("links_fd", N, 1), FORWARD),
        (ExperimentPoint("groups_fd_10", N, 3), FORWARD),
    ],
)
def test_every_method_has_rows(
    shape: ExperimentPoint, names: set[str], device: FailingDevice
) -> None:
    gpu = GpuExperiments(device)
    rows = list(gpu.measured(shape, seconds=0.001))
    assert gpu.left_out == {}
    # The processor's part of the hybrid needs host arrays.
    assert {(row["algorithm"], row["platform"]) for row in rows} == {
        *((name, "gpu_copies") for name in names),
        *((name, "gpu") for name in names - {"hybrid"}),
    }
    assert len(rows) == 2 * len(names) - ("hybrid" in names)
    for row in rows:
        assert (row["experiment"], row["links"], row["robots"]) == (
            *(shape.experiment, shape.links, shape.robots),
        )
        assert row["ms"] > 0 and row["calls"] >= 1


def test_a_kernel_that_fails_is_named(
    device: FailingDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "failing", "cfa_oer")
    gpu = GpuExperiments(device)
    rows = list(gpu.measured(ExperimentPoint("links_fd", N, 1), seconds=0.001))
    assert {row["algorithm"] for row in rows} == FORWARD - {"cfa_oer"}
    assert gpu.left_out == {
        "cfa_oer on the GPU, 1 x 10": ("The kernel 'cfa_oer_warp_1_1_float64' does not compile.")
    }


def test_a_call_that_fails_is_named(device: FailingDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "broken", True)
    gpu = GpuExperiments(device)
    assert list(gpu.measured(ExperimentPoint("links_id", N, 1), seconds=0.001)) == []
    assert gpu.left_out == {
        f"{name} on the GPU, 1 x 10": "this processor failed." for name in INVERSE
    }
