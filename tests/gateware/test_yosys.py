"""Yosys uses the set-up's compiled form unless the environment names another cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pinion.gateware.yosys import tool_command

NAME = "YOWASP_CACHE_DIR"


def cache_of(monkeypatch: pytest.MonkeyPatch, prefix: Path, **environment: str) -> str:
    """Return the cache that a tool would use, "" for YoWASP's default."""
    monkeypatch.setattr(sys, "prefix", str(prefix))
    # A tool in Yosys' place, which prints its environment.
    command = [*tool_command("subprocess", "call"), "printenv", NAME]
    others = {name: value for name, value in os.environ.items() if name != NAME}
    process = subprocess.run(command, env=others | environment, capture_output=True, text=True)
    assert not process.stderr
    return process.stdout.strip()


def test_what_the_set_up_compiled_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cache = tmp_path / "it's" / "cache" / "yowasp"
    assert cache_of(monkeypatch, tmp_path / "it's") == ""
    cache.mkdir(parents=True)
    assert cache_of(monkeypatch, tmp_path / "it's") == str(cache)


def test_the_environments_cache_takes_precedence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cache" / "yowasp").mkdir(parents=True)
    assert cache_of(monkeypatch, tmp_path, **{NAME: "/elsewhere"}) == "/elsewhere"
