"""The box of a distribution contains all of its requests, and hardly more."""

from __future__ import annotations

import numpy as np
import pytest

from pinion.functions import (
    FunctionError,
    named_function,
    parameter_box,
    request_box,
    sample,
)
from tests.graph.helpers import model


def test_inputs_that_follow_from_the_state_have_no_box() -> None:
    with pytest.raises(
        FunctionError, match=r"input 'tau' of 'aba'.*without bound=True \(--bound\)\.$"
    ):
        request_box(model("two_link"), named_function("aba"), "reference")
    with pytest.raises(FunctionError, match="no distribution 'other'"):
        request_box(model("two_link"), named_function("rnea"), "other")


@pytest.mark.parametrize("distribution", ["reference", "stress", "beyond"])
@pytest.mark.parametrize(("robot", "name"), [("iiwa14", "rnea"), ("baxter", "rnea_fext")])
def test_no_request_leaves_the_box_of_its_distribution(
    robot: str, name: str, distribution: str
) -> None:
    row = named_function(name)
    box = request_box(model(robot), row, distribution)
    arrays = sample(model(robot), row, 3000, distribution=distribution, seed=1, corners=True)
    for block in row.inputs:
        flat = arrays[block.name].reshape(3000, -1)
        for word, k in block.positions(model(robot)).items():
            low, high = box[word]
            assert low < flat[:, k].min() and flat[:, k].max() < high
            # It is no larger than necessary.
            assert flat[:, k].max() > 0.99 * high and flat[:, k].min() < low + 0.01 * (high - low)


@pytest.mark.parametrize(
    ("parameters", "options"),
    [
        (("iiwa_link_7", "gravity"), {}),
        (("iiwa_link_4", "iiwa_link_7:on-axis"), {}),
        (("iiwa_joint_2:armature", "iiwa_joint_3:damping"), {"joint_terms": "damping"}),
    ],
)
def test_sets_of_parameters_stay_in_their_box_and_nearly_fill_it(parameters, options):
    robot = model("iiwa14")
    row = named_function("rnea", parameters=parameters, parameter_range="3kg@0.2m", **options)
    box = parameter_box(robot, row)
    sets = sample(robot, row, 20_000, distribution="reference", seed=4)["parameters"]
    low, high = np.array(list(box.values())).T
    assert list(box) == [f"parameters[{k}]" for k in range(sets.shape[1])]
    assert (sets >= low).all() and (sets <= high).all()
    # Inertia on the axis: that of the ball alone, which is a tenth of the box's.
    assert np.median((sets.max(axis=0) - sets.min(axis=0)) / (high - low)) > 0.7
