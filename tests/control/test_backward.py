"""The parallel scan equals the serial backward pass in few levels, and both are optimal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pinion.control.solve import backward
from pinion.control.solve.backward import PASSES, Quadratic, direction, recursion, scanned
from pinion.control.solve.single import single

COUNT, M, P = 3, 6, 2


def problem(knots: int, seed: int = 0) -> Quadratic:
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(COUNT, knots + 1, M, M))
    return Quadratic(
        A=np.eye(M) + 0.1 * rng.normal(size=(COUNT, knots, M, M)),
        B=0.3 * rng.normal(size=(COUNT, knots, M, P)),
        Q=0.1 * roots @ np.swapaxes(roots, 2, 3),
        q=rng.normal(size=(COUNT, knots + 1, M)),
        R=rng.uniform(0.1, 1.0, (COUNT, knots, P)),
        r=rng.normal(size=(COUNT, knots, P)),
    )


def apart(knots: int) -> float:
    serial, parallel = (PASSES[name](problem(knots)) for name in ("serial", "parallel"))
    assert serial.convex.all()
    assert parallel.convex.all()
    return max(
        float(np.abs(a - b).max() / np.abs(a).max())
        for a, b in (
            (serial.feedforward, parallel.feedforward),
            (serial.gains, parallel.gains),
            (serial.slope, parallel.slope),
            (serial.curvature, parallel.curvature),
        )
    )


@pytest.mark.parametrize("knots", [1, 2, 3, 4, 7, 8, 63, 64, 100])
def test_both_passes_are_the_same(knots: int) -> None:
    assert apart(knots) < 1e-12


@pytest.mark.parametrize(("knots", "levels"), [(1, 3), (7, 7), (63, 13), (127, 15), (1023, 21)])
def test_the_scan_is_few_levels_deep(knots: int, levels: int) -> None:
    assert scanned(problem(knots)).levels == levels
    assert recursion(problem(knots)).levels == knots


@pytest.mark.parametrize("term", range(5))
def test_every_part_of_an_element_counts(term: int, monkeypatch: pytest.MonkeyPatch) -> None:
    combined = backward._combined

    def mutant(first: backward.Elements, then: backward.Elements) -> backward.Elements:
        elements = list(combined(first, then))
        elements[term] = elements[term] * 1.001
        return elements[0], elements[1], elements[2], elements[3], elements[4]

    monkeypatch.setattr(backward, "_combined", mutant)
    # A and C show only after three levels or more.
    assert apart(64) > 1e-9


def motion_cost(
    quadratic: Quadratic, k: np.ndarray, gains: np.ndarray, *, share: float = 1.0
) -> np.ndarray:
    """Return costs (n,) of the linear motion with a part of the gaps and of the feedforward k."""
    knots = k.shape[1]
    x = np.zeros((COUNT, M))
    total = np.zeros(COUNT)
    for at in range(knots):
        u = -share * k[:, at] - np.einsum("nij,nj->ni", gains[:, at], x)
        total += 0.5 * np.einsum("ni,nij,nj->n", x, quadratic.Q[:, at], x)
        total += np.einsum("ni,ni->n", quadratic.q[:, at], x)
        total += np.einsum("ni,ni->n", 0.5 * quadratic.R[:, at] * u + quadratic.r[:, at], u)
        if quadratic.mixed is not None:
            change = np.concatenate([0.5 * u, x], axis=1)
            total += np.einsum("ni,nij,nj->n", u, quadratic.mixed[:, at], change)
        x = np.einsum("nij,nj->ni", quadratic.A[:, at], x)
        x += np.einsum("nij,nj->ni", quadratic.B[:, at], u)
        if quadratic.gaps is not None:
            x += share * quadratic.gaps[:, at]
    total += 0.5 * np.einsum("ni,nij,nj->n", x, quadratic.Q[:, knots], x)
    return np.asarray(total + np.einsum("ni,ni->n", quadratic.q[:, knots], x))


def with_gaps(knots: int) -> Quadratic:
    gaps = np.random.default_rng(4).normal(size=(COUNT, knots, M))
    return replace(problem(knots), gaps=gaps)


def with_mixed(quadratic: Quadratic) -> Quadratic:
    """Return the problems with costs of residuals that depend on states and efforts."""
    knots = quadratic.B.shape[1]
    residual = np.random.default_rng(7).normal(size=(COUNT, knots, 3, P + M))
    mixed = np.swapaxes(residual[..., :P], 2, 3) @ residual
    Q = quadratic.Q.copy()
    Q[:, :-1] += np.swapaxes(residual[..., P:], 2, 3) @ residual[..., P:]
    return replace(quadratic, Q=Q, mixed=mixed)


MIXED = with_mixed(problem(5))


@pytest.mark.parametrize(
    "quadratic",
    [problem(5), with_gaps(5), MIXED, with_mixed(with_gaps(5))],
    ids=["closed", "gaps", "mixed", "mixed and gaps"],
)
def test_feedback_is_the_optimum(quadratic: Quadratic) -> None:
    """Finite differences: the feedback minimises the cost of the linear problem."""
    feedback = recursion(quadratic)
    best = motion_cost(quadratic, feedback.feedforward, feedback.gains)
    if quadratic.gaps is None:
        np.testing.assert_allclose(
            motion_cost(quadratic, 0 * feedback.feedforward, feedback.gains) - best,
            feedback.slope - 0.5 * feedback.curvature,
            rtol=1e-9,
        )
    step = 1e-4
    for at in range(5):
        for i in range(P):
            for sign in (-1.0, 1.0):
                moved = feedback.feedforward.copy()
                moved[:, at, i] += sign * step
                assert (motion_cost(quadratic, moved, feedback.gains) > best).all()


@pytest.mark.parametrize("knots", [1, 2, 7, 64])
def test_both_passes_are_the_same_with_gaps(knots: int) -> None:
    serial, parallel = (PASSES[name](with_gaps(knots)) for name in ("serial", "parallel"))
    for name in ("feedforward", "gains"):
        expected = getattr(serial, name)
        atol = 1e-12 * np.abs(expected).max()
        np.testing.assert_allclose(getattr(parallel, name), expected, atol=atol)


@pytest.mark.parametrize(
    "quadratic", [with_gaps(7), with_mixed(with_gaps(7))], ids=["gaps", "mixed and gaps"]
)
def test_a_direction_is_how_the_cost_changes_as_gaps_close(quadratic: Quadratic) -> None:
    feedback = recursion(quadratic)
    slope, curvature = direction(quadratic, feedback)
    for share in (0.25, 1.0):
        change = motion_cost(quadratic, feedback.feedforward, feedback.gains, share=share)
        np.testing.assert_allclose(change, -share * slope + 0.5 * share**2 * curvature, rtol=1e-9)
    closed = problem(7)
    without = recursion(closed)
    for computed, expected in zip(
        direction(closed, without), (without.slope, without.curvature), strict=True
    ):
        np.testing.assert_allclose(computed, expected, rtol=1e-9)


def test_one_problem_with_mixed_terms_is_solved_as_a_batch_is() -> None:
    first = Quadratic(
        **{name: None if x is None else x[:1] for name, x in vars(MIXED).items()}  # type: ignore[arg-type]
    )
    alone, batch = single(first), recursion(MIXED)
    for name in ("feedforward", "gains", "slope", "curvature", "Vx"):
        np.testing.assert_allclose(getattr(alone, name)[0], getattr(batch, name)[0], rtol=1e-9)


def test_what_is_not_convex_is_told() -> None:
    quadratic = problem(4)
    bad = quadratic.R.copy()
    bad[1] = -100.0
    for backward_pass in PASSES.values():
        with np.errstate(all="ignore"):
            assert backward_pass(replace(quadratic, R=bad)).convex.tolist() == [True, False, True]
    broken = quadratic.A.copy()
    broken[2, 1, 0, 0] = np.nan
    with np.errstate(all="ignore"):
        assert recursion(replace(quadratic, A=broken)).convex.tolist() == [True, True, False]
