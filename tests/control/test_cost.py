"""Costs: gradients equal differences, limits begin at their bounds, invalid ones are refused."""

from __future__ import annotations

import numpy as np
import pytest

from pinion.control import ControlError, Cost, CostModel, Problem, Weights
from pinion.control.solve.cost import barrier
from pinion.control.solve.kernels import _logarithm
from pinion.control.solve.weights import LEAST_MARGIN
from pinion.robot import load

from .problems import small


@pytest.mark.parametrize(
    "kinds", [{}, {"tip": True}, {"limits": True, "tip": True}, {"barrier": True}]
)
def test_gradients_are_differences(kinds: dict[str, bool]) -> None:
    problem = small(3, **kinds, knots=2)
    model = CostModel(problem.model, problem.cost)
    rng = np.random.default_rng(0)
    x, u = rng.uniform(-1.5, 1.5, (3, 3, 4)), rng.uniform(-3.0, 3.0, (3, 2, 2))
    if "barrier" in kinds:  # also in its quadratic part, and outside
        x *= 2.2
        share = np.abs(x[..., :2]) / 3.1
        assert (share > 1.0).any() and (share < 0.9).any()
    expansion = model.expand(x, u, problem.target)
    np.testing.assert_array_equal(expansion.value, model.values(x, u, problem.target))
    tiny = 1e-6
    for knot in range(3):
        for i in range(4):
            move = np.zeros_like(x)
            move[:, knot, i] = tiny
            up, down = (model.values(x + s * move, u, problem.target).sum(1) for s in (1, -1))
            np.testing.assert_allclose(expansion.x[:, knot, i], (up - down) / (2 * tiny), atol=2e-7)
    for knot in range(2):
        for i in range(2):
            move = np.zeros_like(u)
            move[:, knot, i] = tiny
            up, down = (model.values(x, u + s * move, problem.target).sum(1) for s in (1, -1))
            np.testing.assert_allclose(expansion.u[:, knot, i], (up - down) / (2 * tiny), atol=1e-7)
    # Gauss-Newton is exact here: the tip is at its target, so no second derivative is left out.
    assert (np.linalg.eigvalsh(expansion.xx) > -1e-12).all()


def test_limits_cost_nothing_inside() -> None:
    cost = Cost(running=Weights(tau=1.0, limits=2.0), final=Weights(limits=2.0), soft=0.5)
    model = load("two_link")
    costs = CostModel(model, cost)
    np.testing.assert_allclose(costs.high, [1.55, 1.55])
    target = Problem.of(model, knots=1, dt=0.01, cost=cost, start=[0.0, 0.0]).target
    x = np.zeros((1, 2, 4))
    x[0, 0, 0], x[0, 1, 0] = 1.54, -1.75
    values = costs.values(x, np.zeros((1, 1, 2)), target)
    np.testing.assert_allclose(values, [[0.0, 0.5 * 2.0 * 0.2**2]])


def test_the_barrier_is_smooth_and_its_hessian_that_of_differences() -> None:
    margin, tiny = 0.05, 1e-5
    w = np.array([-3.0, 0.0, margin - 1e-3, margin, margin + 1e-3, 0.4, 1.0])
    value, slope, curve = barrier(w, margin)
    (up, more, _), (down, less, _) = barrier(w + tiny, margin), barrier(w - tiny, margin)
    np.testing.assert_allclose((up - down) / (2 * tiny), slope, rtol=1e-6)
    away = np.abs(w - margin) > tiny  # the third derivative jumps
    np.testing.assert_allclose(((more - less) / (2 * tiny))[away], curve[away], rtol=1e-6)
    for inside, beyond in zip(
        barrier(np.array([margin * (1 + 1e-12)]), margin),
        barrier(np.array([margin]), margin),
        strict=True,
    ):
        np.testing.assert_allclose(inside, beyond, rtol=1e-9)
    assert value[-1] == 0.0 and (np.diff(value) < 0.0).all()


def test_the_logarithm_of_kernels() -> None:
    x = np.concatenate([np.geomspace(LEAST_MARGIN, 1.0, 2001), 1.0 - np.geomspace(1e-9, 0.1, 50)])
    np.testing.assert_allclose(_logarithm(x), np.log(x), rtol=1e-6, atol=3e-14)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Weights(q=-1.0), "The weight 'q' is -1.0"),
        (lambda: Weights(q=True), "The weight 'q' is True: give one number"),
        (lambda: Weights(qd=[1.0, True]), r"The weight 'qd' is \[1.0, True\]: give one number"),
        (lambda: Weights(tau=np.ones(2, bool)), r"The weight 'tau' is array.*: give one number"),
        (lambda: Weights(tau="1"), "The weight 'tau' is '1': give one number"),
        (lambda: Weights(q=[[1.0]]), r"The weight 'q' is \[\[1.0\]\]: give one number"),
        (lambda: Weights(tip=True), "The weight 'tip' is True: give one number"),
        (lambda: Weights(limits=True), "The weight 'limits' is True: give one number"),
        (lambda: Weights(tip=float("nan")), "The weight 'tip' is nan"),
        (lambda: Cost(running=Weights(q=1.0), final=Weights()), "above 0 to guarantee an optimum"),
        (lambda: Cost(running=Weights(tau=1.0), final=Weights(tau=1.0)), "no effort"),
        (lambda: Cost(running=Weights(tau=1.0, tip=1.0), final=Weights()), "no 'frame'"),
        (lambda: Cost(running=Weights(tau=1.0), final=Weights(), soft=0.0), "'soft' is 0.0"),
        (lambda: Cost(running=Weights(tau=1.0), final=Weights(), margin=0.0), "'margin' is 0.0"),
        (lambda: Cost(running=Weights(tau=1.0), final=Weights(), margin=1.0), "'margin' is 1.0"),
    ],
)
def test_what_is_no_cost(make: object, sentence: str) -> None:
    with pytest.raises(ControlError, match=sentence):
        make()  # type: ignore[operator]


def test_weights_of_every_kind_of_numbers_compare() -> None:
    joints = np.array([1.0, 2.0], np.float32)
    for numbers in (joints, tuple(joints), [1, 2], (np.int64(1), 2.0), range(1, 3)):
        assert Weights(q=numbers) == Weights(q=(1.0, 2.0))
    for number in (2, np.float32(2.0), np.array(2.0), np.int64(2)):
        assert Weights(q=number) == Weights(q=2.0)


def test_a_tip_that_is_no_link() -> None:
    cost = Cost(running=Weights(tau=1.0, tip=1.0), final=Weights(), frame="nowhere")
    with pytest.raises(ValueError, match="nowhere"):
        CostModel(load("two_link"), cost)


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"start": [0.0, 0.0, 0.0]}, "The last axis of 'start' has length 3"),
        ({"start": [[[0.0, 0.0]]]}, "'start' has the shape"),
        ({"start": [0.0, np.inf]}, "'start' at .1,. is inf"),
        ({"start": 1.0}, "'start' is a single number"),
        ({"start": [0.0, 0.0], "goal": np.zeros((2, 2))}, "'goal' has values for 2 problems"),
        ({"start": [0.0, 0.0], "goal": np.zeros((1, 5, 2))}, "and 5 knots"),
        ({"start": [0.0, 0.0], "tip": np.zeros((1, 2))}, "The target 'tip' has no weight"),
        ({"start": [0.0, 0.0], "tau": np.zeros(3)}, "The last axis of 'tau' has length 3"),
        ({"start": [0.0, 0.0], "knots": 0}, "give a whole number of at least 1"),
    ],
)
def test_what_is_no_problem(arrays: dict[str, object], sentence: str) -> None:
    cost = Cost(running=Weights(tau=1.0), final=Weights())
    arguments = {"knots": 3, "dt": 0.01, "cost": cost, **arrays}
    with pytest.raises(ControlError, match=sentence):
        Problem.of(load("two_link"), **arguments)  # type: ignore[arg-type]
