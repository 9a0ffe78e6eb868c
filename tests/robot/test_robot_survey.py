"""The table of real files, from a folder with a good, an unphysical and a broken one."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.robots.__main__ import main

from tests.robot.snippets import A, B, joint, link, robot, tensor


def test_the_page_says_what_opened_and_how_near_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "robots"
    for name, text in {
        "good": robot(A, B, joint()),
        "odd": robot(A, link("b", "1", tensor(izz="0.3")), joint()),
        "still": robot(A, B, joint(kind="fixed")),
    }.items():
        (folder / name).mkdir(parents=True)
        (folder / name / f"{name}.urdf").write_text(text, encoding="utf-8")
    page = tmp_path / "page.md"
    assert main([str(folder), "-o", str(page), "--package", "three files", "--states", "2"]) == 0
    assert "odd/odd.urdf floating" in capsys.readouterr().err
    fixed, floating = page.read_text(encoding="utf-8").split("## Floating base")
    assert "Every URDF of three files" in fixed
    assert "2 of 3 files open, 1 of them as they are; 2 agree within 1e-10" in fixed
    (good,) = [line for line in fixed.splitlines() if line.startswith("| good/good.urdf")]
    cells = [cell.strip() for cell in good.split("|")[1:-1]]
    assert cells[1] == "1" and all(float(cell) < 1e-14 for cell in cells[2:8])
    assert "--accept-inertia" in next(x for x in fixed.splitlines() if "| odd/odd.urdf" in x)
    assert "- `still/still.urdf`: The robot 'r' has no moving joint" in fixed
    # The good one's root has no inertia: floating, it has no forward dynamics.
    (good,) = [line for line in floating.splitlines() if line.startswith("| good/good.urdf")]
    cells = [cell.strip() for cell in good.split("|")[1:-1]]
    assert [cell == "-" for cell in cells[2:8]] == [False, False, True, True, False, True]
