"""Every function on real robots through RTL: minutes per case, for ``make test-slow``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pinion.base.progress import Progress
from pinion.cosim.verify import verify
from pinion.robot import load, load_text, random_tree
from pinion.robot.model import JointKind, Model
from tests.support.builds import build

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("plain_sharing")]

FUNCTIONS = (
    "rnea_derivatives",
    "crba",
    "fd_derivatives",
)


# Permitted relative errors above 1e-2.
ACCEPTED = {("fd_derivatives", "q16.16"): 5e-2}


@pytest.mark.parametrize(
    ("function", "formats"), [*((name, "q16.16") for name in FUNCTIONS), ("aba", "q12.20")]
)
def test_iiwa14(function: str, formats: str, tmp_path: Path) -> None:
    manifest = build(
        "iiwa14",
        function,
        tmp_path / "core",
        ii=8,
        formats=formats,
        max_error=ACCEPTED.get((function, formats)),
    )
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


@pytest.mark.parametrize("function", ["rnea", "aba"])
def test_formats_for_the_stress_states(function: str, tmp_path: Path) -> None:
    build("iiwa14", function, tmp_path / "core", ii=8, formats="auto", ranges="stress")
    figures = verify(tmp_path / "core", samples=10_000, seed=5, distribution="stress")
    assert figures["ok"] and figures["mismatches"] == 0 and figures["wrong_unflagged"] == 0


@pytest.mark.parametrize(("function", "latency"), [("fd_derivatives_from_minv", 60), ("aba", 180)])
def test_latency_first(function: str, latency: int, tmp_path: Path) -> None:
    manifest = build(
        "iiwa14", function, tmp_path / "core", ii=8, formats="auto", objective="latency"
    )
    assert manifest.schedule_cycles <= latency
    figures = verify(tmp_path / "core", samples=2000, seed=6)
    assert figures["ok"] and figures["mismatches"] == 0


def test_the_paper_s_own_formulation(tmp_path: Path) -> None:
    build("iiwa14", "rnea_derivatives", tmp_path / "core", ii=16, derivatives="column")
    figures = verify(tmp_path / "core", samples=500)
    assert figures["mismatches"] == 0 and figures["ok"]


def robot(name: str) -> Model:
    if name == "baxter":
        model = load("baxter")
        fingers = [
            body.joint.name for body in model.bodies if body.joint.kind is JointKind.PRISMATIC
        ]
        return load("baxter", lock=dict.fromkeys(fingers))
    if name == "random":
        return load_text(random_tree(np.random.default_rng(10), 10))
    return load(name)


@pytest.mark.parametrize(
    ("name", "function", "formats"),
    [
        ("hyq", "aba", "auto"),
        ("baxter", "aba", "q16.16"),
        ("random", "fd_derivatives_from_minv", "auto"),
    ],
)
def test_other_robots_at_the_chosen_interval(
    name: str, function: str, formats: str, tmp_path: Path
) -> None:
    steps: list[str] = []
    manifest = build(
        robot(name),
        function,
        tmp_path / "core",
        ii=None,
        formats=formats,
        progress=Progress(steps.append),
    )
    assert any(line.startswith(f"Interval {manifest.ii}: ") for line in steps)
    figures = verify(tmp_path / "core", samples=500)
    assert figures["mismatches"] == 0 and figures["cycles_per_result"] == manifest.ii
