"""Every property of the fixed-point models on fresh examples."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_properties_hold_for_new_examples() -> None:
    """A failure is printed with the line that repeats it."""
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("--hypothesis-profile=random", str(Path(__file__).parent)),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr[-2000:]
    assert " passed" in ran.stdout
