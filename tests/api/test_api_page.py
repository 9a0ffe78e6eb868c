"""The API page: every block of Python runs, in order, and prints what its comments state."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def blocks() -> list[str]:
    """Return the page's blocks of Python."""
    return re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/api.md").read_text(), re.M | re.S)


def run(code: list[str]) -> tuple[str, dict[str, object]]:
    """Run blocks, and return their output and names."""
    names: dict[str, object] = {"__name__": "page"}
    printed = io.StringIO()
    with redirect_stdout(printed):
        for number, block in enumerate(code):
            exec(compile(block, f"block {number}", "exec"), names)
    return printed.getvalue(), names


def stated(code: list[str]) -> list[str]:
    """Return the output that comments after calls of print state."""
    return re.findall(r"^\s*print\(.*\)  # (.*)$", "\n".join(code), re.M)


def test_the_page_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = blocks()
    assert len(code) > 7
    printed, names = run(code)
    expected = stated(code)
    assert len(expected) > 2
    for line in expected:
        assert line in printed.splitlines(), line
    assert (tmp_path / "two_link_rnea" / "manifest.json").is_file()
    assert names["checked"].ok  # type: ignore[attr-defined]  # the page made it


def test_a_page_that_does_not_run_is_noticed() -> None:
    with pytest.raises(AttributeError):
        run(["import pinion.api as pinion", "pinion.no_such_name"])
    assert stated(["print(1)  # 2"]) == ["2"] and "2" not in run(["print(1)  # 2"])[0]
