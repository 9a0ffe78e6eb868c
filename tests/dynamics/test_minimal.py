"""The steps to the minimal model: each keeps the equations of motion and has its effect."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pinion import dynamics
from pinion.dynamics.minimal import (
    UNITS,
    minimal_model,
    regrouped_model,
    rescaled_model,
    slid_model,
    unit_of_length,
)
from pinion.robot import load
from pinion.robot.model import JointKind, Model
from tests.dynamics.models import random_model, random_states

STEPS: tuple[Callable[[Model], Model], ...] = (slid_model, regrouped_model, rescaled_model)


@pytest.mark.parametrize("robot", ["iiwa14", "hyq", "baxter", *range(8)])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_each_step_alone_keeps_the_dynamics(
    step: Callable[[Model], Model], robot: str | int
) -> None:
    seed = robot if isinstance(robot, int) else 3
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    model = random_model(rng, 6) if isinstance(robot, int) else load(robot)
    small = step(model)
    q, qd, qdd = random_states(rng, model, 4)
    pairs = [(dynamics.rnea(m, q, qd, qdd), dynamics.crba(m, q)) for m in (small, model)]
    for actual, expected in zip(*pairs, strict=True):
        assert np.max(np.abs(actual - expected)) < 1e-11 * np.max(np.abs(expected))
    gradients = [dynamics.rnea_derivatives(m, q, qd, qdd) for m in (small, model)]
    for actual, expected in zip(*gradients, strict=True):
        assert np.max(np.abs(actual - expected)) < 1e-11 * np.max(np.abs(expected))


def test_the_minimal_model_is_the_three_steps() -> None:
    model = load("iiwa14")
    small = minimal_model(model)
    assert small == rescaled_model(regrouped_model(slid_model(model)))
    assert len(small.notes) == len(model.notes) + 3


def test_sliding_leaves_a_lever_only_where_axes_do_not_meet() -> None:
    levers = [any(body.joint.tree.r) for body in slid_model(load("iiwa14")).bodies]
    assert levers == [False, False, False, True, False, True, False]


def test_regrouping_leaves_seven_parameters_of_a_revolute_body() -> None:
    for body in regrouped_model(load("iiwa14")).bodies:
        assert body.inertia.mass == 0.0 and body.inertia.h[2] == 0.0 and body.inertia.I[3] == 0.0


def test_the_unit_is_the_lever_that_carries_the_most_joints() -> None:
    model = slid_model(load("iiwa14"))
    assert unit_of_length(model) == pytest.approx(0.42, abs=1e-12)  # four joints; 0.4 carries two
    r = rescaled_model(model).bodies[3].joint.tree.r
    assert sorted(map(abs, r)) == [0.0, 0.0, 1.0]
    assert rescaled_model(model).gravity == pytest.approx([0.0, 0.0, -9.81 / 0.42])


def test_robots_that_show_their_unit_of_length_keep_it() -> None:
    sliding = load("baxter")
    assert any(body.joint.kind is JointKind.PRISMATIC for body in sliding.bodies)
    assert rescaled_model(sliding) is sliding
    short = slid_model(load("pendulum"))
    levers = [x for body in short.bodies for x in body.joint.tree.r]
    assert not any(UNITS[0] <= abs(x) <= UNITS[1] for x in levers)
    assert rescaled_model(short) is short
