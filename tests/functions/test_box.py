"""The box of a distribution contains all of its requests, and hardly more."""

from __future__ import annotations

import pytest

from pinion.functions import FunctionError, named_function, request_box, sample
from tests.graph.helpers import model


def test_inputs_that_follow_from_the_state_have_no_box() -> None:
    with pytest.raises(FunctionError, match=r"input 'tau' of 'aba'.*without a bound\.$"):
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
