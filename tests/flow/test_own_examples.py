"""The examples of user-defined functions: from file to driver, with and without code."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pinion import driver, dynamics
from pinion.api import backend
from pinion.cosim import verify
from pinion.flow import Build, BuildError
from pinion.functions import FunctionError, UserError, named_function, sample
from pinion.robot import Model, load
from tests.flow import laws
from tests.support.breadth import some
from tests.support.builds import build

EXAMPLES = Path(__file__).parents[2] / "examples" / "functions"

ROBOTS = {
    "kalman": "none",
    "tip_jacobian": "two_link",
    "energy_gradient": "two_link",
    "computed_torque": "two_link",
}


def named(name: str) -> str:
    return f"{EXAMPLES / f'{name}.py'}:{name}"


@pytest.mark.parametrize("name", some(ROBOTS, ("tip_jacobian",)))
def test_an_example_builds_verifies_and_runs(name: str, tmp_path: Path) -> None:
    """The card's answers are within 1e-3 of NumPy, and equal the integers bit for bit."""
    example, model = named_function(named(name)), load(ROBOTS[name])
    build(ROBOTS[name], named(name), tmp_path / "core", ii=4)
    for own_or_folder in (None, example):
        figures = verify(tmp_path / "core", samples=300, seed=2, function=own_or_folder)
        assert figures["mismatches"] == 0 and figures["ok"], figures
    requests = sample(model, example, 30, distribution="reference", seed=3)
    with driver.open(tmp_path / "core") as card:
        results = card.run(**requests)
    wide = {key: values.astype(np.float64) for key, values in requests.items()}
    for key, want in example.evaluate(model, wide).items():
        assert np.abs(results[key] - want).max() < 1e-3 * max(1.0, np.abs(want).max()), key


@pytest.fixture(scope="module")
def robot() -> Model:
    return load("iiwa14")


def floats(model: Model, name: str, count: int = 20) -> tuple[dict[str, np.ndarray], ...]:
    example = named_function(named(name))
    example.check(model)
    requests = sample(model, example, count, distribution="reference", seed=4)
    wide = {key: values.astype(np.float64) for key, values in requests.items()}
    return wide, example.evaluate(model, wide)


def test_the_energys_gradient_is_that_of_its_differences(robot: Model) -> None:
    x, y = floats(robot, "energy_gradient")
    still = replace(robot, gravity=(0.0, 0.0, 0.0))
    assert np.allclose(y["energy"], dynamics.kinetic_energy(still, x["q"], x["qd"]), rtol=1e-12)
    for which, gradient in (("q", y["by_q"]), ("qd", y["by_qd"])):
        for k in range(robot.nv):
            ends = []
            for side in (1e-6, -1e-6):
                moved = {name: values.copy() for name, values in x.items()}
                moved[which][:, k] += side
                ends.append(dynamics.kinetic_energy(still, moved["q"], moved["qd"]))
            assert np.allclose(gradient[:, k], (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-6)


def test_the_torque_is_that_of_the_sum(robot: Model) -> None:
    x, y = floats(robot, "computed_torque")
    want = laws.computed_torque(robot, "", x)["tau"]
    assert np.allclose(y["tau"], want, rtol=1e-10, atol=1e-10)


def test_the_filter_is_joseph_formed_by_numpy() -> None:
    """Compare with the textbook's gain by a solver and Joseph's form."""
    x, y = floats(load("none"), "kalman")
    F = np.eye(4)
    F[0, 2] = F[1, 3] = 0.1
    H, R, Q = np.eye(2, 4), 0.04 * np.eye(2), np.diag([1e-3, 1e-3, 1e-2, 1e-2])
    S = H @ x["P"] @ H.T + R
    gain = np.swapaxes(np.linalg.solve(S, H @ x["P"]), 1, 2)
    left = np.eye(4) - gain @ H
    P = left @ x["P"] @ np.swapaxes(left, 1, 2) + gain @ R @ np.swapaxes(gain, 1, 2)
    state = x["x"] + np.einsum("nij,nj->ni", gain, x["measured"] - x["x"][:, :2])
    assert np.allclose(y["x_next"], state @ F.T, rtol=1e-12, atol=1e-12)
    assert np.allclose(y["P_next"], F @ P @ F.T + Q, rtol=1e-12, atol=1e-12)


OWN = """
from pinion.api import array, function, uniform

def reference(x, y):
    return {{"z": x * y + {shift}}}

@function(
    inputs={{"x": array(sampling=uniform(-1, 1)), "y": array(sampling={drawn})}},
    outputs={{"z": array()}},
    reference=reference,
)
def product(x, y):
    return x * y
"""
DRAWN = "lambda rng, count: rng.normal(size=count)"


def test_a_folder_needs_no_code_and_runs_none(tmp_path: Path) -> None:
    path, folder = tmp_path / "own.py", tmp_path / "core"
    path.write_text(OWN.format(shift="0.0", drawn=DRAWN))
    build(None, f"{path}:product", folder)
    before = verify(folder, samples=200, function=named_function(f"{path}:product"))
    assert before["ok"] and before["float_model"] == "the reference of product"
    # A file that fails when it is run, and then no file.
    path.write_text("raise SystemExit('it was run')\n")
    without = verify(folder, samples=200)
    path.unlink()
    shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
    assert without == verify(folder, samples=200)
    assert without["ok"] and without["float_model"] == "the float graph in the folder"
    assert without["error_max"] == before["error_max"]
    assert Build.read(folder).function.inputs[1].dims(load("none")) == ()


def test_a_reference_that_differs_is_noticed(tmp_path: Path) -> None:
    """Before the build, and by ``verify`` if the code has changed since."""
    path, folder = tmp_path / "own.py", tmp_path / "core"
    path.write_text(OWN.format(shift="0.001", drawn=DRAWN))
    with pytest.raises(
        UserError, match=r"own\.py:5: .*'z' of 'product' differs between its trace and its ref"
    ):
        build(None, f"{path}:product", folder)
    assert not folder.exists()
    path.write_text(OWN.format(shift="0.0", drawn=DRAWN))
    build(None, f"{path}:product", folder)
    path.write_text(OWN.format(shift="0.001", drawn=DRAWN))
    changed = verify(folder, samples=200, function=named_function(f"{path}:product"))
    assert changed["mismatches"] == 0 and not changed["budget_held"] and not changed["ok"]
    with pytest.raises(BuildError, match=r"built from 'product', not from 'kalman'"):
        verify(folder, samples=200, function=named_function(named("kalman")))


def test_backends_agree_on_a_function_without_a_robot(tmp_path: Path) -> None:
    example = named_function(named("kalman"))
    requests = sample(load("none"), example, 20, distribution="reference", seed=5)
    with (
        backend(None, example, device="float") as exact,
        backend(None, example, device="cpu") as fast,
    ):
        want, results = exact.run(**requests), fast.run(**requests)
    assert np.allclose(results.x_next, want.x_next, rtol=1e-6, atol=1e-6)
    with pytest.raises(FunctionError, match="takes no robot, but 'two_link' is given"):
        backend("two_link", example, device="float")
