"""Code on pages that needs PyTorch or JAX, which tests/docs omits."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tests.support.snippets import Block, blocks, program, run

ROOT = Path(__file__).parents[2]

_NEEDS = re.compile(r"pinion\.compute\.frameworks\.(torch|jax) import")


def _found() -> dict[tuple[str, str], list[Block]]:
    """Return the blocks by page and framework, in order, except those for a GPU."""
    programs: dict[tuple[str, str], list[Block]] = {}
    for path in sorted((ROOT / "docs").rglob("*.md")):
        for block in blocks(path.read_text("utf-8")):
            needs = _NEEDS.search(block.text)
            if block.language == "python" and needs and "cuda" not in block.text:
                page = path.relative_to(ROOT).as_posix()
                programs.setdefault((page, needs[1]), []).append(block)
    return programs


FOUND = _found()


def test_the_pages_that_speak_of_frameworks_are_here() -> None:
    """An indented block instead of a fenced one would be omitted silently."""
    assert set(FOUND) >= {
        ("docs/cpu.md", "torch"),
        ("docs/guides/torch-and-jax.md", "torch"),
        ("docs/guides/torch-and-jax.md", "jax"),
    }
    for path in (ROOT / "docs").rglob("*.md"):
        assert not re.search(rf"^ {{4,}}from {_NEEDS.pattern}", path.read_text("utf-8"), re.M), path


@pytest.mark.parametrize(("page", "framework"), FOUND)
def test_the_code_of_a_page_runs(
    page: str, framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed; `make test-frameworks` has it")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    name = page.replace("/", "_").replace(".md", "_md.py")
    output = run(program(FOUND[page, framework]), name=name, folder=tmp_path)
    assert not output, output
