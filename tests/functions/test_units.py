"""Units of arrays as a robot has them, and what is said of robots whose joints turn and slide."""

from __future__ import annotations

import numpy as np
import pytest

from pinion import dynamics
from pinion.functions import FUNCTIONS, arrays_of, function, mixed_units_sentence, sample, unit_for
from pinion.robot import Model, load, load_text, model_from_dict, model_to_dict

_LINK = """<link name="{0}"><inertial><origin xyz="0.1 0.2 0.3"/><mass value="2"/><inertia ixx="1"
iyy="1.2" izz="1.4" ixy="0.1" ixz="0" iyz="0"/></inertial></link>"""
_JOINT = """<joint name="{0}" type="{1}"><parent link="{2}"/><child link="{3}"/><origin
xyz="0.2 0.1 0"/><axis xyz="{4}"/><limit lower="-1" upper="1" velocity="1" effort="5"/></joint>"""
SLIDER = f"""<robot name="slider"><link name="base"/>{_LINK.format("cart")}
{_JOINT.format("x", "prismatic", "base", "cart", "1 0 0")}</robot>"""
CRANE = f"""<robot name="crane"><link name="base"/>{_LINK.format("boom")}{_LINK.format("trolley")}
{_JOINT.format("turn", "revolute", "base", "boom", "0 1 0")}
{_JOINT.format("slide", "prismatic", "boom", "trolley", "0 0 1")}</robot>"""


@pytest.fixture
def mixed() -> Model:
    """A boom that turns and a trolley that slides along it."""
    return load_text(CRANE)


def gradient(model: Model) -> tuple[str, ...]:
    row = function("rnea_derivatives")
    return tuple(a.unit for a in arrays_of((*row.inputs, *row.results), model))


def test_a_robot_has_the_units_of_its_joints(mixed: Model) -> None:
    turns = ("rad", "rad/s", "rad/s^2", "N m/rad", "N m s/rad")
    slides = ("m", "m/s", "m/s^2", "N/m", "N s/m")
    assert gradient(load("iiwa14")) == turns
    assert gradient(load_text(SLIDER)) == slides
    assert gradient(mixed) == tuple(" | ".join(pair) for pair in zip(turns, slides, strict=True))
    # A base that floats does both, and so do its coordinates.
    assert gradient(load("hyq", floating_base=True))[0] == "rad | m"


def test_units_without_a_robot_or_an_alternative_stay() -> None:
    assert unit_for("rad | m", load("none")) == "rad | m"
    assert unit_for("1/s^2", load("iiwa14")) == "1/s^2"


def test_no_unit_of_a_row_has_more_than_two_kinds() -> None:
    units = {b.unit for row in FUNCTIONS.values() for b in (*row.inputs, *row.outputs)}
    assert len(units) > 20 and all(unit.count(" | ") <= 1 for unit in units)


def test_two_units_are_explained_where_there_are_two(mixed: Model) -> None:
    row = function("rnea_derivatives")
    assert "N/rad" in mixed_units_sentence(arrays_of(row.results, mixed))
    # Vectors have no elements between two joints.
    vectors = mixed_units_sentence(arrays_of(row.inputs, mixed))
    assert vectors.startswith("Of two units") and "matrix" not in vectors
    assert mixed_units_sentence(arrays_of(row.results, load("iiwa14"))) == ""


def test_an_element_between_two_kinds_scales_as_is_said(mixed: Model) -> None:
    """In another unit of length, the same kilograms and seconds.

    N m/rad goes with its square, N/rad and N m/m with it, and N/m not at all.
    """
    length = 100.0
    data = model_to_dict(mixed)
    data["gravity"] = [length * value for value in data["gravity"]]
    for body in data["bodies"]:
        inertia, tree = body["inertia"], body["joint"]["tree"]
        tree["r"] = [length * value for value in tree["r"]]
        inertia["h"] = [length * value for value in inertia["h"]]
        inertia["I"] = [length**2 * value for value in inertia["I"]]
    other = model_from_dict(data)
    slides = np.array([False, True])
    states = sample(mixed, function("rnea"), 5, distribution="reference", seed=1)
    q, qd, qdd = (states[name].astype(float) for name in ("q", "qd", "qdd"))
    scale = np.where(slides, length, 1.0)
    before = dynamics.rnea_derivatives(mixed, q, qd, qdd)[0]
    after = dynamics.rnea_derivatives(other, scale * q, scale * qd, scale * qdd)[0]
    effort = np.where(slides, length, length**2)
    assert (np.abs(before[:, :, 0]) > 1e-6).all()  # of a slide along itself there is no effort
    np.testing.assert_allclose(after, effort[:, None] / scale * before, rtol=1e-9, atol=1e-9)
