"""The ready-made rows compiled for processors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pinion.api import backend
from pinion.compute import cpu
from pinion.functions import FUNCTIONS, sample
from tests.support.breadth import some_rows
from tests.support.rows import NEW, has, robot

# The first has a scalar input and results of every shape.
QUICK = (("leg", "euler_step"), ("leg", "rnea_second_derivatives"))
SLOW = [(name, row) for name in ("iiwa14", "hyq") for row in NEW if has(name, row)]


@pytest.mark.parametrize(
    ("name", "row"),
    some_rows([*QUICK, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)], 1),
)
def test_a_row_agrees_with_the_float_model(name: str, row: str, tmp_path: Path) -> None:
    model, function = robot(name), FUNCTIONS[row]
    kernel = cpu.compile(model, function, dtype="float64", cache=tmp_path)
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
