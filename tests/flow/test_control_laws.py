"""Examples of control laws: against mechanics, as cores, and in closed loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import law_on_chip, law_plant

from pinion.cosim import verify
from pinion.cosim.netlist import check_netlist
from pinion.flow import Build
from pinion.functions import named_function, sample
from pinion.robot import Model, load
from tests.flow import laws
from tests.support.builds import build

EXAMPLES = Path(__file__).parents[2] / "examples"


LAWS = {name: f"{EXAMPLES / 'functions' / name}.py:{name}" for name in ("tracking_law", "tip_law")}


@pytest.fixture(scope="module")
def robot() -> Model:
    return load("iiwa14", snap=True)


def floats(model: Model, name: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
    law = named_function(LAWS[name])
    law.check(model)
    states = sample(model, law, 40, distribution="reference", seed=4)
    wide = {key: values.astype(np.float64) for key, values in states.items()}
    return wide, np.asarray(law.evaluate(model, wide)["tau"])


def same(result: np.ndarray, expected: np.ndarray) -> None:
    assert np.abs(result - expected).max() < 1e-12 * np.abs(expected).max()


def test_the_tracking_law_is_that_of_its_terms(robot: Model) -> None:
    """Half of the references are near the state, where no limit is active."""
    law = named_function(LAWS["tracking_law"])
    x, _ = floats(robot, "tracking_law")
    rng = np.random.default_rng(1)
    near = {"q_des": ("q", 0.04), "qd_des": ("qd", 0.4)}
    for name, (about, within) in near.items():
        x[name][::2] = x[about][::2] + rng.uniform(-within, within, x[name][::2].shape)
    x["qd_des"][::3] *= 0.01  # where dry friction changes sign
    expected = laws.tracking_law(robot, "iiwa_link_7", x)["tau"]
    same(np.asarray(law.evaluate(robot, x)["tau"]), expected)


def test_the_tip_law_is_that_of_its_terms(robot: Model) -> None:
    x, result = floats(robot, "tip_law")
    same(result, laws.tip_law(robot, "iiwa_link_7", x)["tau"])


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Build:
    where = tmp_path_factory.mktemp("laws") / "tracking"
    build("two_link", LAWS["tracking_law"], where, ii=8, formats="auto18")
    return Build.read(where)


def test_the_laws_core_is_bit_exact(small: Build) -> None:
    figures = verify(small.folder, samples=300, seed=2)
    assert figures["mismatches"] == 0 and figures["ok"], figures


def close(law_build: Build, robot: str, through: str, samples: int) -> Any:
    arm = law_plant.arm_of(robot, law_build.model)
    law = law_on_chip.law_of(law_build, through)
    motion = law_plant.MOTIONS[law_build.manifest.function](law_build.model)
    return law_on_chip.close_loop(law, arm, law_build.model, motion, samples=samples, delay=171e-6)


@pytest.mark.slow
def test_the_tip_law_follows_in_floats(robot: Model) -> None:
    """Forces that do not act at the tip leave a larger error and spin the wrist."""
    pytest.importorskip("mujoco", reason="MuJoCo is not installed")
    law, arm = (
        law_on_chip.InFloats(named_function(LAWS["tip_law"]), robot),
        law_plant.arm_of("iiwa14", robot),
    )
    loop = law_on_chip.close_loop(
        law, arm, robot, law_plant.TipMotion(robot), samples=200, delay=171e-6
    )
    assert max(loop.tip) < 0.02 and np.abs(np.array(loop.error)).max() < 0.05
    assert np.abs(arm.state[1]).max() < 1.0


def test_a_tenth_of_a_second_is_tracked_through_the_core(small: Build) -> None:
    """Every answer is compared with the integers; a wrong law does not track."""
    pytest.importorskip("mujoco", reason="MuJoCo is not installed")
    loop, exact = close(small, "two_link", "core", 100), close(small, "two_link", "float", 100)
    assert set(loop.cycles) == {min(loop.cycles)} and len(loop.tau) == 100
    assert min(loop.cycles) <= small.manifest.latency_cycles
    error, exact_error = np.array(loop.error), np.array(exact.error)
    assert np.abs(error).max() < 0.02
    assert np.abs(error - exact_error).max() < 1e-3


def test_an_answer_that_is_another_is_noticed(small: Build) -> None:
    def wrong(words: np.ndarray) -> tuple[np.ndarray, bool, int]:
        expected, flags = law.reference.expected(words)
        return expected[0] ^ np.uint32(1), bool(flags[0]), 1

    law = law_on_chip.OnChip(small, wrong)
    requests = sample(small.model, small.function, 1, distribution="reference", seed=1)
    with pytest.raises(AssertionError, match="the answer differs"):
        law({name: values[0] for name, values in requests.items()})


# Verilator takes a minute, the netlist another.
@pytest.mark.slow
@pytest.mark.parametrize("through", ["card", "netlist"])
def test_the_board_closes_the_loop(through: str, tmp_path: Path) -> None:
    pytest.importorskip("mujoco", reason="MuJoCo is not installed")
    build("two_link", LAWS["tracking_law"], tmp_path / "law", ii=8, target="ulx3s-spi")
    law_build = Build.read(tmp_path / "law")
    loop = close(law_build, "two_link", through, 200)
    assert set(loop.cycles) == {min(loop.cycles)}
    assert np.abs(np.array(loop.error)).max() < 0.02
    if through == "netlist":
        checked = check_netlist(law_build.folder, arrays=loop.arrays())
        assert checked["ok"] and checked["requests"] == 200 and checked["seed"] is None


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS)
def test_the_laws_of_an_iiwa_are_bit_exact(name: str, tmp_path: Path) -> None:
    build("iiwa14", LAWS[name], tmp_path / "law", ii=8, formats="auto18")
    figures = verify(tmp_path / "law", samples=2000, seed=2)
    assert figures["mismatches"] == 0 and figures["ok"], figures
