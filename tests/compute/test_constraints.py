"""Dynamics of a robot in contact, compiled for this processor in single precision."""

from __future__ import annotations

import numpy as np
import pytest

from pinion import dynamics
from pinion.api import backend
from pinion.functions import FUNCTIONS, Function, named_function, sample
from pinion.graph import op_counts
from pinion.graph.passes import common_subexpressions, fold
from pinion.robot import load
from tests.dynamics.models import relative_error
from tests.dynamics.test_constraints import LEGS, states
from tests.dynamics.test_loops import four_bar
from tests.dynamics.test_loops import robot as mechanism

FORWARD = named_function("constraint_dynamics")
GRADIENT = named_function("constraint_dynamics_derivatives")


def feet() -> list[str]:
    """Return the ends of HyQ's legs."""
    return [f"{leg}@0.33,0,0" for leg in LEGS]


@pytest.mark.parametrize(
    ("row", "products"),
    [
        (FORWARD, (2903, 609)),
        pytest.param(GRADIENT, (14193, 1466), marks=pytest.mark.slow),
        (GRADIENT.asked(GRADIENT.optional), (16455, 1478)),
        (named_function("impulse_dynamics"), (2431, 216)),
        (named_function("impulse_dynamics_derivatives"), (10312, 634)),
    ],
    ids=["forward", "by state", "all", "impact", "impact by state"],
)
def test_products_of_a_quadruped(row: Function, products: tuple[int, int]) -> None:
    """Of two variables, and by a constant: each is an instruction or part of a multiplier."""
    model = load("hyq", floating_base=True, contacts=feet(), snap=True)
    counts = op_counts(common_subexpressions(fold(row.trace(model))))
    assert (counts["mul"], counts["mul_const"]) == products


ROWS = [
    *(row for row in FUNCTIONS.values() if row.of_contacts),
    *(
        named_function(row.name, reference=row.references[1])
        for row in FUNCTIONS.values()
        if row.of_contacts and row.references
    ),
]


def label(row: Function) -> str:
    return "-".join((row.name, *row.options.values()))


@pytest.mark.parametrize("name", ["four-bar", pytest.param("tree 3 6d", marks=pytest.mark.slow)])
@pytest.mark.parametrize("row", ROWS, ids=label)
def test_compiled_loops_are_the_float_model(row: Function, name: str) -> None:
    """At positions where they are not closed too."""
    model = four_bar() if name == "four-bar" else mechanism(name)
    row = row.asked(row.optional)
    requests = sample(model, row, 40, distribution="reference", seed=3)
    arrays = {block: array.astype(np.float64) for block, array in requests.items()}
    with backend(model, row, device="cpu", dtype="float64") as compiled:
        result = compiled(**arrays)
    for block, want in row.evaluate(model, arrays).items():
        assert relative_error(result[block], want) < 1e-9, block


@pytest.mark.slow
@pytest.mark.parametrize("row", [FORWARD, GRADIENT], ids=["forward", "gradients"])
def test_single_precision_holds_at_stretched_knees(row: Function) -> None:
    """Elimination of a contact inside its leg would divide by what vanishes there."""
    model, count = load("hyq", floating_base=True, contacts=feet()), 400
    q, qd, tau = (array.astype(np.float32) for array in states(model, count, 7))
    q[::4, [9, 12, 15, 18]] = 1e-5
    q[1::4, 9] = 1e-5
    active = np.array([[k >> foot & 1 for foot in range(4)] for k in range(count)], np.float32)
    damping = np.full(count, 1e-4, np.float32)
    with backend(model, row, device="cpu", dtype="float32") as compiled:
        result = compiled(q=q, qd=qd, tau=tau, active=active, damping=damping)
    wide = (array.astype(np.float64) for array in (qd, tau, active, damping))
    q_wide = dynamics.normalise(model, q.astype(np.float64))
    want = dynamics.constraint_dynamics_derivatives(model, q_wide, *wide)
    for name in (block.name for block in row.results):
        errors = [
            relative_error(a, b)
            for a, b in zip(result[name].astype(np.float64), getattr(want, name), strict=True)
            if np.any(b)
        ]
        assert len(errors) > count / 2 and max(errors) < 2e-5, name
