"""Dynamics, gradient and cost of one call equal those on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pinion import dynamics
from pinion.control import METHODS, ControlError, CostModel, Expanded, Problem, Stage
from pinion.control.solve import kernels
from pinion.dynamics import StepMethod

from .problems import small

KINDS = ({"tip": True, "limits": True}, {"barrier": True})


def states(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Return states, some near and beyond the limits, and efforts."""
    print("seed 5")
    rng = np.random.default_rng(5)
    x = rng.uniform(-1.5, 1.5, (problem.count, 4))
    x[:, :2] *= 2.2
    return x, rng.uniform(-3.0, 3.0, (problem.count, 2))


def computed(problem: Problem, device: str, **options: Any) -> Expanded:
    x, u = states(problem)
    goal = np.concatenate([problem.target.q[:, 0], problem.target.qd[:, 0]], axis=-1)
    tip = None if problem.target.tip is None else problem.target.tip[:, 0]
    with Stage.open(
        problem.model, cost=problem.cost, dt=problem.dt, device=device, **options
    ) as stage:
        return stage(x, u, goal=goal, tip=tip)


def largest_error(
    problem: Problem, expanded: Expanded, method: StepMethod = "semi_implicit"
) -> float:
    """Compare with dynamics and the cost model on arrays."""
    x, u = states(problem)
    arguments = (problem.model, x[:, :2], x[:, 2:], u)
    A, B = dynamics.discrete_derivatives(*arguments, problem.dt, method=method)
    after = np.concatenate(
        dynamics.discrete_dynamics(*arguments, problem.dt, method=method), axis=1
    )
    # Without the last knot, which has other weights and no effort.
    doubled = np.repeat(x[:, None], 2, axis=1)
    cost = CostModel(problem.model, problem.cost).expand(doubled, u[:, None], problem.target)
    want = {
        "qdd": dynamics.aba(*arguments),
        "x_next": after,
        "A": A,
        "B": B,
        "value": cost.value[:, 0],
        "by_x": cost.x[:, 0],
        "by_u": cost.u[:, 0],
        "by_xx": cost.xx[:, 0],
        "by_uu": cost.uu[0],
    }
    errors = []
    for name, values in want.items():
        have = getattr(expanded, name)
        assert have.shape == values.shape, name
        errors.append(float(np.abs(have - values).max() / np.abs(values).max()))
    assert np.isfinite(errors).all()
    return max(errors)


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("device", ["float", "cpu"])
@pytest.mark.parametrize("method", METHODS)
def test_one_call_is_all_of_them(kinds: dict[str, bool], device: str, method: StepMethod) -> None:
    problem = small(40, **kinds)
    expanded = computed(problem, device, method=method)
    assert largest_error(problem, expanded, method) < 1e-9


def test_float32() -> None:
    problem = small(40, barrier=True)
    error = largest_error(problem, computed(problem, "cpu", dtype="float32"))
    assert 1e-9 < error < 1e-3


def test_a_wrong_barrier_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    right = kernels._barrier
    monkeypatch.setattr(kernels, "_barrier", lambda w, margin: right(w, 1.01 * margin))
    problem = small(40, barrier=True)
    assert largest_error(problem, computed(problem, "float")) > 1e-4


def test_what_does_not_fit_is_a_sentence() -> None:
    problem = small(2, tip=True)
    with pytest.raises(ControlError, match="no integration method 'leapfrog'"):
        Stage.open(
            problem.model,
            cost=problem.cost,
            dt=0.01,
            method="leapfrog",  # type: ignore[arg-type]  # not a method
        )
    with pytest.raises(ControlError, match="no device 'sim'"):
        Stage.open(problem.model, cost=problem.cost, dt=0.01, device="sim")
    with pytest.raises(ControlError, match=r"at most 1 s, not 0\.0"):
        Stage.open(problem.model, cost=problem.cost, dt=0.0)
    with Stage.open(problem.model, cost=problem.cost, dt=0.01, device="float") as stage:
        x, u = states(problem)
        with pytest.raises(ControlError, match="'tip' is missing"):
            stage(x, u, goal=np.zeros(4))
        with pytest.raises(ControlError, match=r"give \(2,\) or \(2, 2\)"):
            stage(x, u[:1], goal=np.zeros(4))
        with pytest.raises(ControlError, match=r"'x' has the value (nan|-?inf): give finite"):
            stage(x * np.inf, u, goal=np.zeros(4))
