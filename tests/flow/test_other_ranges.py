"""Estimates of formats for other speeds, against designs that are made for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pinion.dynamics import rnea
from pinion.flow.candidate import Candidate
from pinion.flow.other_ranges import SEED, STATES, other_ranges
from pinion.flow.unit_cost import unit_cost
from pinion.formats.auto import AutoFormats, PrecisionError
from pinion.functions import Function, named_function, sample
from pinion.hls import Design
from pinion.robot import Model, load_text, urdf_text
from tests.support.builds import make_design


@pytest.fixture(scope="module")
def model() -> Model:
    """A two_link whose limits are eight times its rated speeds."""
    text = urdf_text("two_link").replace("</joint>", '<pinion rated_velocity="1.5"/></joint>')
    faster = load_text(text.replace('velocity="6"', 'velocity="12"'), snap=True)
    assert np.ravel(faster.rated_velocity).tolist() == [1.5, 1.5]
    return faster


ROW = named_function("rnea")


def _designed(model: Model, ranges: str | None) -> Design:
    return make_design(model, ROW, ii=4, formats="auto", ranges=ranges)


@pytest.fixture(scope="module")
def designs(model: Model) -> dict[str, Design]:
    return {name: _designed(model, name) for name in ("reference", "stress")}


def _run(model: Model, row: Function, design: Design, distribution: str) -> tuple[int, float]:
    """Return flags and the largest error over the largest effort, computed independently."""
    arrays = sample(model, row, STATES, distribution=distribution, seed=SEED)
    results, flags = Candidate(model, row, design.fixed, design.constants).run(arrays)
    doubles = {name: array.astype(np.float64) for name, array in arrays.items()}
    tau = rnea(model, doubles["q"], doubles["qd"], doubles["qdd"])
    error, size = np.abs(results["tau"] - tau).max(axis=1), np.abs(tau).max(axis=1)
    assert np.isfinite(error).all() and size.all()
    judged = ~flags & (size > 0.1 * np.median(size))  # far from zero no scale matters
    return int(flags.sum()), float((error / size)[judged].max(initial=0.0))


@pytest.mark.parametrize(("home", "other"), [("reference", "stress"), ("stress", "reference")])
def test_the_estimate_is_about_what_a_design_for_the_other_states_has(
    home: str, other: str, model: Model, designs: dict[str, Design]
) -> None:
    ranges = other_ranges(model, ROW, designs[home])
    assert ranges is not None and ranges.ranges == other and ranges.other is not None
    expected_blocks = unit_cost(designs[other].binding.schedule.units)[0]
    assert ranges.blocks_now == unit_cost(designs[home].binding.schedule.units)[0]
    assert ranges.blocks is not None and abs(ranges.blocks - expected_blocks) <= 1
    # Figures of the present core are exact; those of the other formats are estimates.
    flagged, _ = _run(model, ROW, designs[home], "stress")
    assert ranges.present.flagged == flagged
    other_flagged, _ = _run(model, ROW, designs[other], "stress")
    assert abs(ranges.other.flagged - other_flagged) <= 0.02 * STATES
    made_for_all = {"reference": other_flagged, "stress": flagged}[home]
    assert made_for_all == 0 and flagged + other_flagged > STATES // 2
    for name in ("reference", "rest"):
        _, largest = _run(model, ROW, designs[home], name)
        assert ranges.present.errors[name] >= 0.999 * largest > 0.0
        _, largest = _run(model, ROW, designs[other], name)
        assert 0.25 * largest < ranges.other.errors[name] < 20 * largest
    sentence = ranges.sentence()
    assert (
        f"flags {flagged:,} of 2,000 stress states. Made for {other} states (--ranges" in sentence
    )
    assert f"flag {ranges.other.flagged:,} and take about {ranges.blocks:,} DSP48E2" in sentence
    assert f"({ranges.present.errors['rest']:.2g} now)" in sentence
    figures = ranges.figures()
    assert figures["blocks_estimated"] == ranges.blocks and figures["flagged_now"] == flagged


def test_nothing_is_said_where_both_are_the_same_states(model: Model) -> None:
    minv = named_function("minv")  # takes no rates
    assert other_ranges(model, minv, make_design(model, minv, ii=4, formats="auto")) is None
    text = urdf_text("two_link").replace("</joint>", '<pinion rated_velocity="6"/></joint>')
    limited = load_text(text, snap=True)
    assert other_ranges(limited, ROW, _designed(limited, None)) is None


def test_formats_that_cannot_be_had_are_told_with_the_reason(
    model: Model, designs: dict[str, Design], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AutoFormats, "error", lambda *_: 0.2)
    ranges = other_ranges(model, ROW, designs["reference"])
    assert ranges is not None and ranges.blocks is ranges.other is None
    flagged = ranges.present.flagged
    assert ranges.sentence() == (
        f"This core flags {flagged:,} of 2,000 stress states. Formats for stress states are out of "
        "reach with its sums: A maximum relative error of 0.001 is out of reach: with 27 x 27 bits "
        "in every product it is 0.2. A build with ranges 'stress' (--ranges) reports what is "
        "within reach."
    )
    assert ranges.figures()["flagged"] is None and ranges.figures()["refused"] == ranges.refused

    def refuse(*_: Any) -> None:
        raise PrecisionError("An error of 0.001 is out of reach: it is 0.2. Ask for 0.3.")

    # Advice on these sums is left out.
    monkeypatch.undo()
    monkeypatch.setattr(AutoFormats, "refine", refuse)
    ranges = other_ranges(model, ROW, designs["reference"])
    assert ranges is not None and ranges.refused.endswith("reach: it is 0.2.")
