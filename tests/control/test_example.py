"""The page's example runs and reaches its goal."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_example_reaches_its_goal() -> None:
    ran = subprocess.run(
        [sys.executable, str(ROOT / "examples/reach.py"), "--count", "40"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=dict(os.environ),
    )
    assert ran.returncode == 0, ran.stderr
    away = re.search(r"([\d.e+-]+) rad from the goal", ran.stdout)
    assert away, ran.stdout
    assert float(away[1]) < 0.01
    assert re.search(r"40 motions, compiled: (39|40) converged", ran.stdout), ran.stdout
