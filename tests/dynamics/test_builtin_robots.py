"""Built-in robots and random trees: Pinion and Pinocchio read the same URDF text independently."""

from __future__ import annotations

import numpy as np
import pytest

from pinion import dynamics
from pinion.robot import builtin_names, load, load_text, random_tree, urdf_text
from pinion.robot.model import Model
from tests.dynamics import pinocchio_adaptor
from tests.dynamics.models import random_states, relative_error
from tests.dynamics.symbols import Symbol, count

TOLERANCE = 1e-12


def disagreement(model: Model, urdf: str, rng: np.random.Generator) -> float:
    states = random_states(rng, model, 20)
    expected = pinocchio_adaptor.from_urdf(urdf, model.joint_names).rnea(*states)
    return relative_error(dynamics.rnea(model, *states), expected)


def test_there_are_built_in_robots() -> None:
    assert {"iiwa14", "hyq", "atlas", "baxter"} <= set(builtin_names())


@pytest.mark.parametrize("name", [*builtin_names(), "pendulum", "two_link", "chain_20"])
def test_named_robot_agrees_with_pinocchio(name: str) -> None:
    rng = np.random.default_rng(11)
    print("seed 11")
    assert disagreement(load(name), urdf_text(name), rng) < TOLERANCE


@pytest.mark.parametrize("seed", range(50))
def test_random_tree_agrees_with_pinocchio(seed: int) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    urdf = random_tree(rng, int(rng.integers(1, 25)), prismatic=True, continuous=seed % 2 == 1)
    assert disagreement(load_text(urdf), urdf, rng) < TOLERANCE


def test_iiwa14_needs_no_more_operations_than_stated() -> None:
    model = load("iiwa14")
    q, qd, qdd = ([Symbol("in", f"{x}{i}") for i in range(7)] for x in ("q", "qd", "qdd"))
    counts = count(dynamics.rnea_scalars(model, q, qd, qdd))
    # Every product is a multiplier's slot in hardware: a change that adds some needs a reason.
    assert counts["mul"] <= 132
    assert counts["mul_const"] <= 153
    assert counts["add"] + counts["double"] <= 254
