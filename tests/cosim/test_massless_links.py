"""Cores of a robot whose joints stand in series, with links without mass between them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pinion.cosim.verify import verify
from pinion.flow.build import build
from pinion.robot import load_text
from tests.robot.test_robot_faults import WRIST


@pytest.mark.slow
@pytest.mark.parametrize("function", ["rnea", "aba"])
def test_joints_in_series_through_massless_links(tmp_path: Path, function: str) -> None:
    build(load_text(WRIST), function, tmp_path / "core", ii=16, formats="auto")
    found = verify(tmp_path / "core", samples=300)
    assert found["mismatches"] == 0
    assert found["ok"], found
