"""Examples run, and do what they say."""

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


@pytest.mark.slow
def test_a_payload_is_identified(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(ROOT / "examples/identify.py")],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        cwd=tmp_path,
    )
    assert ran.returncode == 0, ran.stderr
    mass = re.search(r"payload ([\d.]+) kg of 2.0", ran.stdout)
    errors = re.search(r"tracking error (\S+) rad before, (\S+) rad after", ran.stdout)
    assert mass and errors, ran.stdout
    assert abs(float(mass[1]) - 2.0) < 0.02, "1 % of the mass, from data with 1 % noise"
    assert float(errors[2]) < 0.2 * float(errors[1])
    assert "base parameters of the whole arm: 43 of 70" in ran.stdout
    assert (tmp_path / "identify.png").stat().st_size > 10_000
