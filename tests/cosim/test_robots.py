"""Real robots through RTL: bit for bit at every initiation interval.

One simulation compiles for each case, which takes 5 to 40 seconds; the requests themselves take
less than a second. Cores that take long to compile are left to ``make test-slow``, but for the
iiwa14; the tree of the ordinary tests is a small one.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pinion.cosim import stream
from pinion.cosim.verify import verify
from pinion.robot import Model, load, load_text, random_tree
from tests.support.breadth import some_rows
from tests.support.builds import build


def small_tree() -> Model:
    """Four joints, two of them on the first one's link, one of them prismatic."""
    return load_text(random_tree(np.random.default_rng(4), 4))


@pytest.fixture(scope="module")
def iiwa14(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("iiwa14") / "ii8"
    manifest = build("iiwa14", "rnea", folder, ii=8)
    assert manifest.multipliers <= 60 and manifest.schedule_cycles <= 110
    return folder


@pytest.mark.slow
def test_ten_thousand_requests(iiwa14: Path) -> None:
    figures = verify(iiwa14, samples=10_000, seed=11)
    assert figures["ok"] and figures["mismatches"] == 0
    assert figures["cycles_per_result"] == 8.0 and figures["flagged"] == 0
    for word, bound in figures["budget"].items():
        assert bound <= 50 * figures["error_max"][word]


@pytest.mark.slow
def test_ten_thousand_requests_with_pauses(iiwa14: Path) -> None:
    figures = verify(
        iiwa14, samples=10_000, seed=12, idle=stream.bursts(seed=1), stall=stream.random(seed=2)
    )
    assert figures["ok"] and figures["mismatches"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("distribution", ["stress", "beyond"])
def test_harder_states(iiwa14: Path, distribution: str) -> None:
    figures = verify(iiwa14, samples=5000, seed=13, distribution=distribution)
    assert figures["mismatches"] == 0 and figures["wrong_unflagged"] == 0


@pytest.mark.slow
def test_another_simulator_agrees(iiwa14: Path) -> None:
    figures = verify(iiwa14, samples=16, seed=14, simulator="icarus")
    assert figures["ok"] and figures["mismatches"] == 0


@pytest.mark.parametrize(
    ("robot", "ii", "formats"),
    some_rows(
        [
            pytest.param("iiwa14", 1, "q16.16", marks=pytest.mark.slow),
            pytest.param("iiwa14", 4, "q12.20", marks=pytest.mark.slow),
            pytest.param("tree", 4, "q16.16", marks=pytest.mark.slow),
            ("two_link", 1, "q12.20"),
            ("two_link", 32, "q16.16"),
        ],
        lambda robot, ii, formats: (robot, ii) == ("two_link", 32),
    ),
)
def test_intervals_and_robots(robot: str, ii: int, formats: str, tmp_path: Path) -> None:
    folder = tmp_path / robot
    model = small_tree() if robot == "tree" else load(robot)
    manifest = build(model, "rnea", folder, ii=ii, formats=formats)
    products = manifest.ops["mul"] + manifest.ops["mul_const"]
    assert manifest.multipliers <= 1.15 * -(-products // ii)
    figures = verify(folder, samples=2000, seed=ii)
    assert figures["mismatches"] == 0 and figures["wrong_unflagged"] == 0
    assert figures["cycles_per_result"] == ii and figures["ok"]
