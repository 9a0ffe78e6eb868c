"""Gradients in a core's integers: as exact as their format, flagged beyond it, good enough."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from pinion.control import Plant, solve
from pinion.control.plant import Float64, forward_of, gradient_row
from pinion.control.solve.fixed import Arithmetic, FixedGradients
from pinion.robot import load

from .problems import small


@pytest.fixture(scope="module")
def arithmetic() -> Arithmetic:
    return Arithmetic(load("two_link"))


def states(count: int, reach: float = 2.0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    return {name: rng.uniform(-reach, reach, (count, 2)) for name in ("q", "qd", "tau")}


def largest_error(arithmetic: Arithmetic, formats: str) -> float:
    inputs = states(200)
    expected = Float64(arithmetic.model, gradient_row())(**inputs)
    with FixedGradients(arithmetic, arithmetic.uniform(formats)) as fixed:
        result = fixed(**inputs)
    assert not result.saturated.any()
    np.testing.assert_allclose(result.qdd, expected.qdd, atol=1e-10)
    np.testing.assert_allclose(result.minv, expected.minv, atol=1e-10)
    return max(
        float(np.abs(getattr(result, name) - getattr(expected, name)).max())
        for name in ("dqdd_dq", "dqdd_dqd")
    )


def test_each_bit_halves_the_error(arithmetic: Arithmetic) -> None:
    errors = [largest_error(arithmetic, f"q12.{bits}") for bits in (8, 12, 16, 20)]
    for coarse, fine in pairwise(errors):
        assert 4 < coarse / fine < 64
    assert errors[-1] < 1e-3


def test_formats_by_signal_hold_the_states_they_are_for(arithmetic: Arithmetic) -> None:
    inputs = states(400)
    exact = Float64(arithmetic.model, gradient_row())(**inputs)
    columns = arithmetic.columns(inputs["q"], inputs["qd"], exact.qdd, exact.minv)
    for bits, least in ((14, 5e-2), (18, 5e-3), (22, 5e-4), (27, 5e-3)):
        fixed = FixedGradients(arithmetic, arithmetic.by_signal(bits, columns, margin=1.5))
        gradient, flags = fixed.gradient(columns)
        assert not flags.any()
        for name in ("dqdd_dq", "dqdd_dqd"):
            off = np.abs(gradient[name] - getattr(exact, name)).max()
            assert off < least * np.abs(getattr(exact, name)).max(), (bits, name)
        far = states(50, reach=40.0)
        far_exact = Float64(arithmetic.model, gradient_row())(**far)
        _, flagged = fixed.gradient(
            arithmetic.columns(far["q"], far["qd"], far_exact.qdd, far_exact.minv)
        )
        assert flagged.any()


def test_motions_are_found_with_them(arithmetic: Arithmetic) -> None:
    problem = small()
    forward = forward_of(arithmetic.model)
    with Plant.open(arithmetic.model, dt=problem.dt, device="cpu") as exact:
        expected = solve(problem, exact)
    with FixedGradients(arithmetic, arithmetic.uniform("q12.12")) as gradients:
        plant = Plant(arithmetic.model, dt=problem.dt, gradients=gradients, forward=forward)
        solution = solve(problem, plant)
    assert solution.saturated == 0
    assert (np.abs(solution.iterations - expected.iterations) <= 1).all()
    np.testing.assert_allclose(solution.cost, expected.cost, rtol=1e-4)
    assert not np.array_equal(solution.cost, expected.cost)


@pytest.mark.slow
def test_the_papers_motion_from_the_simulated_card() -> None:
    """Gradients of RTL through the driver: 63 requests per iteration."""
    from .problems import reach

    problem = reach()
    with Plant.open("iiwa14", dt=problem.dt, device="sim", formats="q16.16", ii=8) as card:
        solution = solve(problem, card)
    with Plant.open("iiwa14", dt=problem.dt, device="cpu") as exact:
        expected = solve(problem, exact)
    assert solution.converged.all()
    assert solution.saturated == 0
    assert abs(int(solution.iterations[0]) - int(expected.iterations[0])) <= 2
    assert solution.cost[0] < 1.01 * expected.cost[0]
