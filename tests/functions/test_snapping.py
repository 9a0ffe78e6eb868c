"""Savings by exact right angles instead of rounded ones, and the motion of poses and results."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.api import POSITION, array
from pinion.api import function as own
from pinion.dynamics import frame_placement_scalars
from pinion.functions import (
    named_function,
    opportunity_sentences,
    pose_change,
    snapped_errors_sentence,
    snapping,
    snapping_sentence,
)
from pinion.graph import op_counts
from pinion.graph.passes import fold
from pinion.robot import Model, coupled, load, load_text, urdf_text
from tests.robot.snippets import A, B, C, joint, rewritten, robot

Z = '<axis xyz="0 0 1"/>'


def iiwa14(form: str, *, snap: bool) -> Model:
    """The built-in robot with its angles rounded to four decimals."""
    text = rewritten(urdf_text("iiwa14"), lambda angle: form.format(round(angle, 4)))
    return load_text(text, snap=snap)


def test_the_products_of_rounded_angles_are_counted() -> None:
    row = named_function("rnea")
    read, snapped = iiwa14("{}", snap=False), iiwa14("{}", snap=True)
    change = snapping(read, snapped, row)
    assert change is not None
    assert change.products == products(load("iiwa14")) < 0.5 * change.products_as_read
    assert change.products_as_read == products(read)
    # Each joint's angles are up to 7.4e-6 rad off.
    assert 7e-6 < change.pose_angle < 7 * 7.4e-6
    assert 1e-6 < change.pose_distance < 2e-5
    assert set(change.results) == {"tau"} and 1e-7 < change.results["tau"] < 1e-5
    figures = change.figures()
    assert figures["result_tau"] == pytest.approx(change.results["tau"], rel=1e-3)
    sentence = snapping_sentence("rnea", figures)
    assert f"leaves rnea {change.products} of {change.products_as_read} products" in sentence
    assert "--no-snap" in sentence and "(tau)" in sentence
    assert "(tau)" in snapped_errors_sentence(figures)
    assert snapping(load("iiwa14"), load("iiwa14", snap=True), row) is None


def test_robots_with_mimicking_joints_are_compared_too() -> None:
    path = Path(__file__).parents[2] / "examples/gripper.urdf"
    text = path.read_text().replace("<origin xyz=", '<origin rpy="1.5708 0 0" xyz=')
    read, snapped = load_text(text), load_text(text, snap=True)
    change = snapping(read, snapped, named_function("gravity"))
    assert change == snapping(coupled(read), coupled(snapped), named_function("gravity"))
    assert change is not None and 3e-6 < change.pose_angle < 1e-4


def test_a_reference_that_knows_its_own_robot_hides_no_change() -> None:
    def held(q: Any) -> Any:
        return np.zeros(len(q))

    q = array("nq", unit="rad", sampling=POSITION)

    @own(inputs={"q": q}, outputs={"z": array(unit="m")}, reference=held)
    def height(model: Any, q: Any) -> Any:
        return frame_placement_scalars(model, q, model.tips[0])[1][2]

    read, snapped = iiwa14("{}", snap=False), iiwa14("{}", snap=True)
    change = snapping(read, snapped, height)
    assert change is not None and 1e-8 < change.results["z"] < 1e-4


def products(model: Model) -> int:
    """Multiplications of the folded `rnea`."""
    counts = op_counts(fold(named_function("rnea").trace(model)))
    return counts["mul"] + counts["mul_const"]


def test_poses_move_by_the_tilt_and_its_lever() -> None:
    def arm(angle: str) -> Model:
        turned, far = f'<origin rpy="{angle} 0 0"/>', '<origin xyz="0 0 2"/>'
        parts = (joint(extra=Z + turned), joint("k", "b", "c", "fixed", far))
        return load_text(robot(A, B, C, *parts))

    tilt = 1.5708 - 0.5 * math.pi
    angle, distance = pose_change(arm("1.5708"), arm("1.5707963267948966"), np.array([[0.3]]))
    assert angle == pytest.approx(tilt, rel=1e-6)
    assert distance == pytest.approx(2.0 * tilt, rel=1e-6)
    assert pose_change(arm("1.5708"), arm("1.5708"), np.zeros((2, 1))) == (0.0, 0.0)


def test_a_floating_base_has_figures_too() -> None:
    text = re.sub(r"1\.5707963267948966", "1.5708", urdf_text("hyq"))
    read, snapped = (load_text(text, floating_base=True, snap=snap) for snap in (False, True))
    change = snapping(read, snapped, named_function("rnea"))
    assert change is not None and change.products < change.products_as_read
    # Two joints of a leg are 3.7e-6 rad off.
    assert 3.6e-6 < change.pose_angle < 7.4e-6


def test_what_tilts_cost_is_told() -> None:
    row = named_function("rnea")
    note, cost = opportunity_sentences(iiwa14("{:.6f}", snap=True), row)
    assert note.startswith("Nearly right-angled")
    saved, before = (int(number) for number in re.findall(r"\d+", cost)[:2])
    assert before - saved == products(load("iiwa14"))
    assert opportunity_sentences(load("iiwa14"), row) == []
