"""An interrupted site build ends at once and leaves the previous site."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci/docs"

# Replaces Python: builds a site until it is interrupted.
SLOW = """#!/bin/sh
case "$*" in
  *"mkdocs build"*)
    mkdir -p build/site.part; echo half > build/site.part/index.html; exec sleep 60 ;;
esac
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_site_of_before_stays(number: signal.Signals, code: int, tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(SCRIPT, tmp_path / ".ci/docs")
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(SLOW)
    python.chmod(0o755)
    site = tmp_path / "build/site"
    site.mkdir(parents=True)
    (site / "index.html").write_text("whole")
    with subprocess.Popen(
        ["bash", tmp_path / ".ci/docs"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        part = tmp_path / "build/site.part/index.html"
        end = time.monotonic() + 30.0
        while not part.exists() and time.monotonic() < end:
            time.sleep(0.02)
        os.kill(running.pid, number)
        _, errors = running.communicate(timeout=600)
    assert running.returncode == code and "interrupted: the previous site is unchanged" in errors
    assert (site / "index.html").read_text() == "whole"
    assert sorted(path.name for path in site.parent.iterdir()) == ["site"]
