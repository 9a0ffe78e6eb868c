"""Objectives and ranges of per-signal formats, from the build to the bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from pinion.cosim.reference import Reference, request_words
from pinion.cosim.verify import verify
from pinion.flow.build import Build
from pinion.formats.planfile import PLAN, read_plan
from pinion.functions import sample
from pinion.robot import load
from tests.support.builds import build

FUNCTION = "rnea"
OBJECTIVES = ("latency", "area", "throughput")  # by latency, the lowest first

Made = Callable[[str], Path]


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Build folders of the two-link arm's gradient at ii 3, by objective."""
    root = tmp_path_factory.mktemp("objectives")

    @cache
    def folder(objective: str) -> Path:
        build("two_link", FUNCTION, root / objective, ii=3, formats="auto", objective=objective)
        return root / objective

    return folder


# The tests' other builds are for area.
@pytest.mark.slow
@pytest.mark.parametrize("objective", ["latency", "throughput", "area"])
def test_every_objective_is_right_to_the_bit(folder_of: Made, objective: str) -> None:
    manifest = Build.read(folder_of(objective)).manifest
    assert (manifest.objective, manifest.formats, manifest.ii) == (objective, "auto", 3)
    figures = verify(folder_of(objective), samples=500, seed=11)
    assert figures["ok"] and figures["mismatches"] == 0
    assert figures["budget_held"] and figures["wrong_unflagged"] == 0 and figures["flagged"] == 0
    assert all(worst <= manifest.max_error for worst in figures["rel_err_max"].values())
    assert figures["schedule_cycles"] == manifest.schedule_cycles and figures["rate_held"]
    # At twice the ranges of the formats, ports and results wrap around and are flagged.
    beyond = verify(folder_of(objective), samples=500, seed=12, distribution="beyond")
    assert beyond["ok"] and beyond["mismatches"] == 0 and beyond["wrong_unflagged"] == 0
    assert 0 < beyond["flagged"] < 500


def test_each_objective_has_its_latency(folder_of: Made) -> None:
    builds = {name: Build.read(folder_of(name)) for name in OBJECTIVES}
    cycles = [builds[name].manifest.schedule_cycles for name in OBJECTIVES]
    # Latency and area differ only in chains of additions, which two links do not have.
    assert cycles[0] <= cycles[1] < cycles[2], dict(zip(OBJECTIVES, cycles, strict=True))
    per_unit = {
        name: {
            row["kind"].partition("_")[0]: row["latency"] for row in made_.schedule["operations"]
        }
        for name, made_ in builds.items()
    }
    # One block multiplies and adds in a cycle; for throughput each port and each adder has a
    # register.
    products = [kind for kind in per_unit["area"] if kind.startswith("dot")]
    assert products
    for kind in products:
        if kind in per_unit["latency"]:
            assert per_unit["latency"][kind] == per_unit["area"][kind], kind
        if kind in per_unit["throughput"]:
            assert per_unit["throughput"][kind] == per_unit["area"][kind] + 1, kind
    assert [per_unit[name]["add"] for name in OBJECTIVES] == [1, 1, 2]
    multipliers = {name: made_.manifest.multipliers for name, made_ in builds.items()}
    assert max(multipliers.values()) - min(multipliers.values()) <= 1
    assert len({made_.manifest.hash for made_ in builds.values()}) == 3


@pytest.mark.slow
def test_formats_for_stress_hold_under_stress(tmp_path: Path) -> None:
    """The stress distribution uses joint speeds up to their limits, far above the rated ones."""
    arm = load("iiwa14", tip="iiwa_link_2")
    assert arm.nv == 2
    plain, wide = tmp_path / "plain", tmp_path / "wide"
    build(arm, "rnea", plain, ii=4, formats="auto")
    manifest = build(arm, "rnea", wide, ii=4, formats="auto", ranges="stress")
    assert manifest.budget_distribution == "stress"
    assert read_plan(wide / PLAN).distribution == "stress"
    figures = verify(wide, samples=1000, seed=13, distribution="stress")
    assert figures["ok"] and figures["mismatches"] == 0 and figures["flagged"] == 0
    assert figures["budget_held"] is True and figures["wrong_unflagged"] == 0
    assert all(worst <= manifest.max_error for worst in figures["rel_err_max"].values())
    # Formats for the reference states are finer, but too small for these.
    built = Build.read(plain)
    reference = Reference(built)
    states = sample(built.model, built.function, 1000, distribution="stress", seed=13)
    _, flags = reference.expected(request_words(built.manifest, states))
    assert flags.mean() > 0.1
    assert sum(built.manifest.budget.values()) < sum(manifest.budget.values())
