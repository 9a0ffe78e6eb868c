"""The ready-made rows compiled for processors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pinion.api import backend
from pinion.compute import cpu
from pinion.functions import FUNCTIONS, Function, named_function, sample
from pinion.robot import Model, load_text
from tests.support.breadth import some, some_rows
from tests.support.rows import FRAME_ROWS, NEW, SECOND_ORDER, has, legged, robot

# The first has a scalar input and results of every shape.
QUICK = (("leg", "euler_step"), ("leg", "rnea_second_derivatives"))
SLOW = [
    *(("iiwa14", row) for row in NEW if has("iiwa14", row)),
    # Of a tree, those that do not compile for long.
    *(("hyq", row) for row in NEW if has("hyq", row) and row not in (*SECOND_ORDER, "rk4_step")),
]


@pytest.mark.parametrize(
    ("name", "row"),
    some_rows([*QUICK, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)], 1),
)
def test_a_row_agrees_with_the_float_model(name: str, row: str, cache_folder: Path) -> None:
    check(robot(name), FUNCTIONS[row], cache_folder)


@pytest.mark.parametrize("row", some(FRAME_ROWS, ("frame_jacobian_rate",)))
def test_frames_agree_with_the_float_model(row: str, cache_folder: Path) -> None:
    frames = ("lf_foot_joint", "rh_lowerleg", "tool=lf_foot@0.03,-0.2,0.1")
    model = load_text(legged(), floating_base=True)
    check(model, named_function(row, frames=frames, reference="local"), cache_folder)


def check(model: Model, function: Function, cache_folder: Path) -> None:
    """Compare a kernel with the float model on a batch."""
    kernel = cpu.compile(model, function, dtype="float64", cache=cache_folder)
    sent = sample(model, function, 50, distribution="reference", seed=8)
    arrays = {key: values.astype(np.float64) for key, values in sent.items()}
    result, want = kernel(**arrays), function.evaluate(model, arrays)
    for key, values in want.items():
        assert result[key].shape == values.shape
        assert np.abs(result[key] - values).max() <= 1e-11 * np.abs(values).max(), key


def test_a_row_by_its_name_through_the_api() -> None:
    q = np.array([0.1, -0.4, 0.3, 1.0, 0.2, -0.6, 0.5])
    with backend("iiwa14", "forward_kinematics", device="float", outputs=()) as compiled:
        result = compiled(q=q)
    assert result.R.shape == (3, 3) and result.p.shape == (3,)
    assert np.allclose(result.R @ result.R.T, np.eye(3), atol=1e-12)
