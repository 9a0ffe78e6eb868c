"""Every function on real robots through RTL: minutes per case, for ``make test-slow``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pinion.base.progress import Progress
from pinion.cosim.verify import verify
from pinion.functions import named_function
from pinion.robot import load, load_text, random_tree
from pinion.robot.model import Model
from tests.support.builds import build, make_design

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("plain_sharing")]


def test_iiwa14_in_uniform_formats(tmp_path: Path) -> None:
    manifest = build("iiwa14", "crba", tmp_path / "core", ii=8, formats="q16.16")
    products = manifest.ops["mul"] + manifest.ops["mul_const"]
    assert manifest.multipliers <= 1.15 * -(-products // 8)
    figures = verify(tmp_path / "core", samples=2000, seed=1)
    assert figures["ok"] and figures["mismatches"] == 0 and figures["cycles_per_result"] == 8
    assert figures["flagged"] <= 2
    for word, bound in figures["budget"].items():
        error = figures["error_max"][word]
        assert error <= bound, word
        # A word that is zero by symmetry, though not by structure, is exact.
        assert bound <= 50 * error or error < 1e-12, word
    beyond = verify(tmp_path / "core", samples=10_000, seed=2, distribution="beyond")
    assert beyond["mismatches"] == 0 and beyond["wrong_unflagged"] == 0


# Limits for cores with formats by signal: multipliers, latency in cycles, largest and median
# relative error of every block of results.
LIMITS = {
    "fd_derivatives_from_minv": (205, 84, 1e-3, 1e-4),
    "fd_derivatives": (250, 175, 3e-3, 3e-4),
    "rnea_derivatives": (130, 84, 1e-3, 1e-4),
    "aba": (66, 240, 3e-3, 3e-4),
    "minv": (38, 112, 3e-3, 3e-4),
    "rnea": (32, 72, 1e-3, 1e-4),
}


@pytest.mark.parametrize("function", LIMITS)
def test_formats_by_signal(function: str, tmp_path: Path) -> None:
    multipliers, latency, largest, median = LIMITS[function]
    manifest = build("iiwa14", function, tmp_path / "core", ii=8, formats="auto")
    assert manifest.multipliers <= multipliers and manifest.schedule_cycles <= latency
    figures = verify(tmp_path / "core", samples=10_000, seed=3)
    assert figures["ok"] and figures["mismatches"] == 0 and figures["flagged"] <= 10
    assert figures["cycles_per_result"] == 8
    assert max(figures["rel_err_max"].values()) <= largest
    assert max(figures["rel_err_median"].values()) <= median
    for distribution in ("stress", "beyond"):
        harder = verify(tmp_path / "core", samples=10_000, seed=4, distribution=distribution)
        assert harder["mismatches"] == 0 and harder["wrong_unflagged"] == 0, distribution


def test_formats_for_the_stress_states(tmp_path: Path) -> None:
    build("iiwa14", "rnea", tmp_path / "core", ii=8, formats="auto", ranges="stress")
    figures = verify(tmp_path / "core", samples=10_000, seed=5, distribution="stress")
    assert figures["ok"] and figures["mismatches"] == 0 and figures["wrong_unflagged"] == 0


def test_latency_first() -> None:
    """Its bits are compared in tests/cosim/test_objectives.py."""
    options = {"ii": 8, "formats": "auto", "objective": "latency"}
    design = make_design(load("iiwa14"), named_function("aba"), **options)
    assert design.binding.schedule.schedule_cycles <= 180


def test_the_paper_s_own_formulation(tmp_path: Path) -> None:
    """On the first three joints of the arm, where it has a fifth of the whole arm's operations."""
    arm = load("iiwa14", tip="iiwa_link_3")
    build(arm, "rnea_derivatives", tmp_path / "core", ii=16, derivatives="column")
    figures = verify(tmp_path / "core", samples=500)
    assert figures["mismatches"] == 0 and figures["ok"]


def robot(name: str) -> Model:
    if name == "random":
        return load_text(random_tree(np.random.default_rng(10), 5))
    return load(name)


@pytest.mark.parametrize(
    ("name", "function"), [("hyq", "rnea"), ("random", "fd_derivatives_from_minv")]
)
def test_other_robots_at_the_chosen_interval(name: str, function: str, tmp_path: Path) -> None:
    steps: list[str] = []
    manifest = build(
        robot(name),
        function,
        tmp_path / "core",
        ii=None,
        formats="auto",
        progress=Progress(steps.append),
    )
    assert any(line.startswith(f"Interval {manifest.ii}: ") for line in steps)
    figures = verify(tmp_path / "core", samples=500)
    assert figures["mismatches"] == 0 and figures["cycles_per_result"] == manifest.ii
