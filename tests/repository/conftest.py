"""Fixtures with the files of the repository, without those that git ignores."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE_ROOTS = ("fixedpoint", "sw", "hw", "sim")

# Without git (an unpacked archive), these replace .gitignore.
_NOT_OURS = {".git", ".venv", "build", "dist", "sim_build", "__pycache__"}
_CACHES = {".pytest_cache", ".mypy_cache", ".ruff_cache", ".import_linter_cache", ".hypothesis"}


def _listed_by_git() -> list[Path] | None:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return [ROOT / name for name in process.stdout.split("\0") if name]


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def files() -> list[Path]:
    """Return every file of the repository, committed or not yet."""
    listed = _listed_by_git()
    if listed is None:
        skipped = _NOT_OURS | _CACHES
        listed = [p for p in ROOT.rglob("*") if not skipped & set(p.relative_to(ROOT).parts)]
    paths = sorted(path for path in listed if path.is_file())
    assert len(paths) > 20, f"{ROOT} does not look like the repository"
    return paths


@pytest.fixture(scope="session")
def packages() -> dict[str, Path]:
    """Return the folder of each package with code, by its name."""
    folders = {
        f"pinion.{folder.name}": folder
        for source_root in SOURCE_ROOTS
        for folder in sorted((ROOT / source_root / "pinion").iterdir())
        if folder.is_dir() and any(folder.glob("*.py"))
    }
    assert "pinion.fixedpoint" in folders
    return folders
