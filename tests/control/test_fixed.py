"""Gradients in a core's integers: as exact as their format, flagged where it ends, good enough."""

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
    given = states(200)
    wanted = Float64(arithmetic.model, gradient_row())(**given)
    with FixedGradients(arithmetic, arithmetic.uniform(formats)) as fixed:
        found = fixed(**given)
    assert not found.saturated.any()
    np.testing.assert_allclose(found.qdd, wanted.qdd, atol=1e-10)
    np.testing.assert_allclose(found.minv, wanted.minv, atol=1e-10)
    return max(
        float(np.abs(getattr(found, name) - getattr(wanted, name)).max())
        for name in ("dqdd_dq", "dqdd_dqd")
    )


def test_each_bit_halves_the_error(arithmetic: Arithmetic) -> None:
    errors = [largest_error(arithmetic, f"q12.{bits}") for bits in (8, 12, 16, 20)]
    for coarse, fine in pairwise(errors):
        assert 4 < coarse / fine < 64
    assert errors[-1] < 1e-3


def test_formats_by_signal_hold_the_states_they_are_for(arithmetic: Arithmetic) -> None:
    given = states(400)
    exact = Float64(arithmetic.model, gradient_row())(**given)
    columns = arithmetic.columns(given["q"], given["qd"], exact.qdd, exact.minv)
    for bits, least in ((14, 5e-2), (18, 5e-3), (22, 5e-4), (27, 5e-3)):
        fixed = FixedGradients(arithmetic, arithmetic.by_signal(bits, columns, margin=1.5))
        found, flags = fixed.gradient(columns)
        assert not flags.any()
        for name in ("dqdd_dq", "dqdd_dqd"):
            off = np.abs(found[name] - getattr(exact, name)).max()
            assert off < least * np.abs(getattr(exact, name)).max(), (bits, name)
        far = states(50, reach=40.0)
        there = Float64(arithmetic.model, gradient_row())(**far)
        _, flagged = fixed.gradient(arithmetic.columns(far["q"], far["qd"], there.qdd, there.minv))
        assert flagged.any()


def test_motions_are_found_with_them(arithmetic: Arithmetic) -> None:
    problem = small()
    forward = forward_of(arithmetic.model)
    with Plant.open(arithmetic.model, dt=problem.dt, device="cpu") as exact:
        wanted = solve(problem, exact)
    with FixedGradients(arithmetic, arithmetic.uniform("q12.12")) as gradients:
        plant = Plant(arithmetic.model, dt=problem.dt, gradients=gradients, forward=forward)
        found = solve(problem, plant)
    assert found.saturated == 0
    assert (np.abs(found.iterations - wanted.iterations) <= 1).all()
    np.testing.assert_allclose(found.cost, wanted.cost, rtol=1e-4)
    assert not np.array_equal(found.cost, wanted.cost)


@pytest.mark.slow
def test_the_papers_motion_from_the_simulated_card() -> None:
    """Gradients of RTL, asked for by the driver: 63 requests an iteration."""
    from .problems import reach

    problem = reach()
    with Plant.open("iiwa14", dt=problem.dt, device="sim", formats="q16.16", ii=8) as card:
        found = solve(problem, card)
    with Plant.open("iiwa14", dt=problem.dt, device="cpu") as exact:
        wanted = solve(problem, exact)
    assert found.converged.all()
    assert found.saturated == 0
    assert abs(int(found.iterations[0]) - int(wanted.iterations[0])) <= 2
    assert found.cost[0] < 1.01 * wanted.cost[0]
