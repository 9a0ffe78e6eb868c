"""``pinion verify --bound``: bounds for every unflagged request beside the sampled errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pinion.cosim import bound as cosim_bound
from pinion.cosim.bound import bound_figures
from pinion.formats.bound import Bounds


@pytest.mark.slow
def test_bounds_stand_beside_errors_and_budgets(pinion: Callable[..., Any], built: Any) -> None:
    figures = pinion("verify", built.folder, "--bound", "--samples", 500, "--json").json
    assert figures["ok"] and figures["bound_held"]
    assert list(figures["bound"]) == list(figures["error_max"]) == ["tau[0]", "tau[1]"]
    for word, limit in figures["bound"].items():
        # To first order the budget's own states are inside the box; 1.25 is its margin.
        assert figures["error_max"][word] < figures["budget"][word] / 1.25 < limit
        assert figures["bound_looseness"][word] == pytest.approx(limit / figures["error_max"][word])
        assert figures["bound_looseness"][word] < 8
    (block,) = figures["bound_blocks"].values()
    assert block["bound"] == max(figures["bound"].values())
    assert block["looseness"] == pytest.approx(block["bound"] / block["sampled"])


def test_the_text_says_what_is_bounded(pinion: Callable[..., Any], built: Any) -> None:
    completed = pinion("verify", built.folder, "--bound", "--samples", 100)
    assert completed.code == 0
    text = " ".join(completed.out.split())
    assert "bound / error" in text and "bound held yes" in text
    assert (
        "No unflagged request with inputs in the ranges of this distribution exceeds the bound"
        in text
    )
    assert "bound" not in pinion("verify", built.folder, "--samples", 100).out


def test_other_distributions_have_boxes_of_their_own(
    pinion: Callable[..., Any], built: Any
) -> None:
    run = ("verify", built.folder, "--bound", "--samples", 100, "--json")
    near, far = pinion(*run).json, pinion(*run, "--distribution", "beyond").json
    assert far["budget"] is None and far["bound_blocks"]["tau"]["budget"] is None
    assert far["ok"] and all(far["bound"][word] > near["bound"][word] for word in near["bound"])


def test_an_error_above_its_bound_fails(
    pinion: Callable[..., Any], built: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def low(*values: object) -> Bounds:
        limits = whole(*values)
        return Bounds(error={w: e / 100 for w, e in limits.error.items()}, largest=limits.largest)

    whole = cosim_bound.build_bounds
    monkeypatch.setattr(cosim_bound, "build_bounds", low)
    completed = pinion("verify", built.folder, "--bound", "--samples", 200)
    assert completed.code == 1
    assert "an error is above its bound" in " ".join(completed.out.split())


def test_what_has_no_bound_is_said_before_anything_is_simulated(
    pinion: Callable[..., Any], built: Any
) -> None:
    pinion("verify", built.folder, "--bound", "--function", "rnea").refused("--bound", "rnea")
    pinion("verify", built.folder, "--bound", "--netlist").refused("--bound")
    pinion("verify", built.folder / "no", "--bound").refused("no")


def test_errors_that_are_not_there_have_no_looseness() -> None:
    """All flagged, or exact except for float64's own error."""
    bounds = Bounds(error={"a": 0.0, "b": 1e-3}, largest={"a": 1.0, "b": 0.0})
    verified = {"error_max": {"a": 1e-15, "b": None}, "budget": None, "ok": True, "valid": 1}
    figures = bound_figures(bounds, verified)
    assert figures["ok"] and figures["bound_looseness"] == {"a": 0.0, "b": None}
    assert figures["bound_blocks"]["b"] == {
        "sampled": None, "budget": None, "bound": 1e-3, "looseness": None
    }  # fmt: skip
    off = bound_figures(bounds, verified | {"error_max": {"a": 1e-9, "b": None}})
    assert not off["ok"] and not off["bound_held"]
