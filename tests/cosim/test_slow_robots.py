"""Every function on real robots through RTL: minutes a case, so ``make test-slow`` runs them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pinion.boards.build import build
from pinion.cosim.verify import verify
from pinion.robot import load, load_text, random_tree
from pinion.robot.model import JointKind, Model

pytestmark = pytest.mark.slow

FUNCTIONS = (
    "rnea_derivatives",
    "crba",
    "minv",
    "aba",
    "fd_derivatives",
    "fd_derivatives_from_minv",
)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_iiwa14(function: str, tmp_path: Path) -> None:
    manifest = build("iiwa14", function, tmp_path / "core", ii=8)
    products = manifest.ops["mul"] + manifest.ops["mul_const"]
    assert manifest.multipliers <= 1.15 * -(-products // 8)
    figures = verify(tmp_path / "core", samples=2000, seed=1)
    assert figures["ok"] and figures["mismatches"] == 0 and figures["cycles_per_result"] == 8
    assert figures["flagged"] <= 2
    for word, bound in figures["budget"].items():
        error = figures["error_max"][word]
        assert error <= bound, word
        # A word that is zero by symmetry, though not by structure, comes out exactly.
        assert bound <= 50 * error or error < 1e-12, word
    beyond = verify(tmp_path / "core", samples=10_000, seed=2, distribution="beyond")
    assert beyond["mismatches"] == 0 and beyond["wrong_unflagged"] == 0


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


@pytest.mark.parametrize("name", ["hyq", "baxter", "random"])
@pytest.mark.parametrize("function", ["aba", "fd_derivatives_from_minv"])
def test_other_robots_at_the_chosen_interval(name: str, function: str, tmp_path: Path) -> None:
    said: list[str] = []
    manifest = build(robot(name), function, tmp_path / "core", ii=None, report=said.append)
    assert any(line.startswith(f"Interval {manifest.ii}: ") for line in said)
    figures = verify(tmp_path / "core", samples=500)
    assert figures["mismatches"] == 0 and figures["cycles_per_result"] == manifest.ii
