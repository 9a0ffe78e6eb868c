"""The picture of solver convergence."""

from __future__ import annotations

from pathlib import Path

import pytest

COSTS = {"float64": [100.0, 20.0, 10.0, 10.0], "q12.5": [100.0, 30.0, 12.0, 10.5, 10.4]}


def drawn(path: Path, costs: dict[str, list[float]]) -> bytes:
    pytest.importorskip("matplotlib", reason="pictures need the extra 'cli'")
    from pinion.report.convergence_picture import draw_convergence

    draw_convergence(path, costs, title="a motion", tolerance=1e-4)
    return path.read_bytes()


def test_every_cost_shows(tmp_path: Path) -> None:
    first = drawn(tmp_path / "first.png", COSTS)
    assert first[:4] == b"\x89PNG" and first == drawn(tmp_path / "again.png", COSTS)
    for name, at in (("float64", 1), ("q12.5", 4)):
        moved = {key: list(values) for key, values in COSTS.items()}
        moved[name][at] *= 1.2
        assert drawn(tmp_path / "moved.png", moved) != first, (name, at)
