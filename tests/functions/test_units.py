"""Units of arrays for a robot, and the sentence about robots whose joints turn and slide."""

from __future__ import annotations

import numpy as np
import pytest

from pinion.batch import mixed_units_sentence
from pinion.batch.units import BETWEEN
from pinion.functions import FUNCTIONS, arrays_of, named_function, sample, unit_for
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
    row = named_function("rnea_derivatives")
    return tuple(a.unit for a in arrays_of((*row.inputs, *row.results), model))


def test_a_robot_has_the_units_of_its_joints(mixed: Model) -> None:
    turns = ("rad", "rad/s", "rad/s^2", "N m/rad", "N m s/rad")
    slides = ("m", "m/s", "m/s^2", "N/m", "N s/m")
    assert gradient(load("iiwa14")) == turns
    assert gradient(load_text(SLIDER)) == slides
    assert gradient(mixed) == tuple(" | ".join(pair) for pair in zip(turns, slides, strict=True))
    # A floating base does both, and so do its coordinates.
    assert gradient(load("hyq", floating_base=True))[0] == "rad | m"


def test_units_without_a_robot_or_an_alternative_stay() -> None:
    assert unit_for("rad | m", load("none")) == "rad | m"
    assert unit_for("1/s^2", load("iiwa14")) == "1/s^2"


def test_no_unit_of_a_row_has_more_than_two_kinds() -> None:
    units = {b.unit for row in FUNCTIONS.values() for b in (*row.inputs, *row.outputs)}
    assert len(units) > 20 and all(unit.count(" | ") <= 1 for unit in units)


def sentence(name: str, model: Model) -> str:
    row = named_function(name)
    return mixed_units_sentence(arrays_of((*row.inputs, *row.results), model))


def test_two_units_are_explained_where_there_are_two(mixed: Model) -> None:
    assert sentence("rnea_derivatives", load("iiwa14")) == ""
    assert sentence("rnea", mixed).endswith("the second for joints that translate.")
    assert sentence("rnea_derivatives", mixed).endswith(
        "An element of dtau_dq between the two kinds is in N/rad if its row's joint translates and "
        "in N m/m if its column's does. An element of dtau_dqd between the two kinds is in N s/rad "
        "if its row's joint translates and in N m s/m if its column's does."
    )
    assert sentence("crba", mixed).endswith("An element of M between the two kinds is in kg m.")
    # Its matrices have one unit within each kind, and another one between them.
    assert "dqdd_dq between the two kinds is in m/(rad s^2)" in sentence("fd_derivatives", mixed)
    assert "element of J" not in sentence("frame_jacobian", mixed)


def test_every_unit_between_kinds_is_one_of_a_row() -> None:
    units = {b.unit for row in FUNCTIONS.values() for b in row.outputs if len(b.shape) == 2}
    assert units >= BETWEEN.keys()


@pytest.mark.parametrize("name", ["rnea_derivatives", "crba", "minv", "fd_derivatives"])
def test_elements_between_kinds_have_the_units_that_are_said(name: str, mixed: Model) -> None:
    """In another unit of length, with the same kilograms, seconds and radians.

    The number of a unit with metres to the power p changes by the length to the power p.
    """
    length = 100.0
    data = model_to_dict(mixed)
    data["gravity"] = [length * value for value in data["gravity"]]
    for body in data["bodies"]:
        inertia, tree = body["inertia"], body["joint"]["tree"]
        tree["r"] = [length * value for value in tree["r"]]
        inertia["h"] = [length * value for value in inertia["h"]]
        inertia["I"] = [length**2 * value for value in inertia["I"]]
    other, row = model_from_dict(data), named_function(name)
    requests = sample(mixed, row, 5, distribution="reference", seed=1)
    inputs = {name: values.astype(float) for name, values in requests.items()}
    scaled = {
        b.name: inputs[b.name] * np.array([length ** metres(u) for u in b.unit.split(" | ")])
        for b in row.inputs
    }
    before, after = row.evaluate(mixed, inputs), row.evaluate(other, scaled)
    checked = 0
    for block in row.results:
        if len(block.shape) != 2:
            continue
        inside = [*block.unit.split(" | ")] * 2
        sliding_row, turning_row = BETWEEN[block.unit]
        units = [[inside[0], turning_row], [sliding_row, inside[1]]]
        scale = np.array([[length ** metres(u) for u in line] for line in units])
        assert (np.abs(before[block.name][:, :, 0]) > 1e-9).all()
        np.testing.assert_allclose(
            after[block.name], scale * before[block.name], rtol=1e-9, atol=1e-12
        )
        checked += 1
    assert checked


def metres(unit: str) -> int:
    """The power of metres in a unit, N being kg m/s^2."""
    above, _, below = unit.partition("/")
    total = 0
    for sign, text in ((1, above), (-1, below.strip("()"))):
        for factor in text.split():
            base, _, power = factor.partition("^")
            total += sign * int(power or 1) * (base in ("m", "N"))
    return total
