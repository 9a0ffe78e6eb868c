"""Every example of a user-defined function on five robots, against an independent law.

A core can be right to every bit and its law wrong for a robot: one of them has a fixed link behind
all others in its file, as public files of the UR5 have their `base`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pinion import driver
from pinion.cosim import verify
from pinion.functions import UserError, named_function, sample
from pinion.robot import Model, load
from tests.flow import laws
from tests.support.breadth import some
from tests.support.builds import build
from tests.support.ur5 import like_a_ur5

EXAMPLES = Path(__file__).parents[2] / "examples" / "functions"
ROBOTLESS = ("kalman", "pid")
OF_ROBOTS = sorted(path.stem for path in EXAMPLES.glob("[a-z]*.py") if path.stem not in ROBOTLESS)

ROBOTS = {
    "iiwa14": "iiwa_link_7",
    "two_link": "tip",
    "like_a_ur5": "tool0",
    "hyq": "lf_lowerleg",
    "baxter": "left_gripper",
}
SEVERAL_TIPS = ("hyq", "baxter")

# Relative error of differences.
CLOSE = {"energy_gradient": 1e-8, "tip_jacobian": 1e-8}


def robot(name: str, folder: Path) -> Model:
    tip = ROBOTS[name] if name in SEVERAL_TIPS else None
    return load(like_a_ur5(folder / "ur5.urdf") if name == "like_a_ur5" else name, tip=tip)


def named(example: str) -> str:
    return f"{EXAMPLES / f'{example}.py'}:{example}"


def test_every_example_is_here() -> None:
    assert all(callable(getattr(laws, example)) for example in OF_ROBOTS)
    assert len(OF_ROBOTS) == 5 and len(ROBOTS) == 5


@pytest.mark.parametrize("example", OF_ROBOTS)
@pytest.mark.parametrize("name", some(ROBOTS, ("two_link", "hyq")))
def test_an_example_is_its_law_on_every_robot(name: str, example: str, tmp_path: Path) -> None:
    law, model = named_function(named(example)), robot(name, tmp_path)
    law.check(model)
    assert law.idle_inputs(model) == ()
    requests = sample(model, law, 20, distribution="reference", seed=4)
    x = {key: values.astype(np.float64) for key, values in requests.items()}
    if example == "tracking_law":
        # Half of the references near the state, where no limit holds and friction changes sign.
        rng = np.random.default_rng(1)
        for key, about, within in (("q_des", "q", 0.04), ("qd_des", "qd", 0.4)):
            x[key][::2] = x[about][::2] + rng.uniform(-within, within, x[key][::2].shape)
        x["qd_des"][::3] *= 0.01
    result, expected = law.evaluate(model, x), getattr(laws, example)(model, ROBOTS[name], x)
    assert set(result) == set(expected)
    for key, values in expected.items():
        assert np.isfinite(values).all() and np.abs(values).max() > 0.0
        apart = np.abs(result[key] - values).max() / np.abs(values).max()
        assert apart < CLOSE.get(example, 1e-12), (key, apart)


@pytest.mark.parametrize("example", ["tip_law", "tip_jacobian", "tracking_law"])
def test_of_several_tips_none_is_taken(example: str) -> None:
    law = named_function(named(example))
    for name in SEVERAL_TIPS:
        with pytest.raises(UserError, match=rf"{example}\.py:\d+: .* several tips, .* \(--tip\)"):
            law.check(load(name))


def test_a_fixed_link_is_no_tip(tmp_path: Path) -> None:
    model = robot("like_a_ur5", tmp_path)
    assert model.frames[-1].name == "base" and model.frames[-1].body == -1
    assert model.tips == ("tool0",)


def test_a_law_that_ignores_its_reference_is_refused(tmp_path: Path) -> None:
    """The tip law for the last link of the file, which is fixed for one robot."""
    text = (EXAMPLES / "tip_law.py").read_text()
    wrong = tmp_path / "wrong_law.py"
    wrong.write_text(text.replace("tip_of(model)", "model.frames[-1].name"))
    law = named_function(f"{wrong}:tip_law")
    law.check(load("iiwa14"))
    with pytest.raises(
        UserError,
        match=r"wrong_law\.py:\d+: the inputs 'x_des', 'R_des', 'xd_des', 'load' change no result "
        r"of tip_law for like_a_ur5: let the function use a part .* array\(\.\.\., optional=True\)",
    ):
        build(robot("like_a_ur5", tmp_path), law, tmp_path / "core", ii=8)
    assert not (tmp_path / "core").exists()


@pytest.mark.slow
def test_the_ur5_s_jacobian_is_a_core(tmp_path: Path) -> None:
    """The core computes the tool's Jacobian, compared with an independent law."""
    model, law = robot("like_a_ur5", tmp_path), named_function(named("tip_jacobian"))
    build(model, law, tmp_path / "core", ii=8)
    figures = verify(tmp_path / "core", samples=300, seed=2)
    assert figures["mismatches"] == 0 and figures["ok"], figures
    with driver.open(tmp_path / "core") as card:
        requests = sample(model, law, 20, distribution="reference", seed=5)
        results = card.run(**requests)
    x = {key: values.astype(np.float64) for key, values in requests.items()}
    for key, values in laws.tip_jacobian(model, "tool0", x).items():
        assert np.abs(results[key] - values).max() < 1e-3, key
