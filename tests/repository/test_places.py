"""The number of places of a board and of an experiment, as in CONTRIBUTING.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pinion.cli.bench import HERE

FOLDERS = ("sw", "hw", "sim", "fixedpoint", "constraints")


def places(root: Path, word: str) -> set[str]:
    """Return the product's files with a word in their text or name."""
    pattern = re.compile(rf"(?<![a-z0-9_]){word}(?![a-z0-9])")
    paths = {
        path.relative_to(root).as_posix()
        for folder in FOLDERS
        for path in (root / folder).rglob("*")
        if path.suffix in (".py", ".toml", ".csv", ".xdc", ".cpp", ".hpp")
        and (pattern.search(path.name) or pattern.search(path.read_text()))
    }
    assert paths, f"nothing has {word}: was anything read?"
    return paths


def test_a_board_with_pcie_stands_in_four_places(root: Path) -> None:
    assert places(root, "u250") == {
        "constraints/u250.toml",
        "constraints/u250_pins.csv",
        "hw/pinion/flow/targets.py",
        "sw/pinion/cli/build.py",
    }


@pytest.mark.parametrize("name", ["cuda", "functions", "link", "mpc", "scaling"])
def test_an_experiment_is_a_folder_and_a_call(root: Path, name: str) -> None:
    assert name in HERE
    folder = root / "sw/pinion/bench" / name
    assert (folder / "measure.py").is_file()
    others = {
        path.relative_to(root).as_posix()
        for path in (root / "sw").rglob("*.py")
        if f"from pinion.bench.{name}" in path.read_text() and folder not in path.parents
    }
    assert others <= {"sw/pinion/cli/bench.py", "sw/pinion/cli/demo_mpc.py"} | {
        path.relative_to(root).as_posix() for path in (root / "sw/pinion/bench").rglob("*.py")
    }
    assert "sw/pinion/cli/bench.py" in others
