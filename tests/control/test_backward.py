"""The backward pass by a scan over knots is the serial one, in few levels, and both are optimal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pinion.control.solve import backward
from pinion.control.solve.backward import PASSES, Quadratic, recursion, scanned

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
    one, other = (PASSES[name](problem(knots)) for name in ("serial", "parallel"))
    assert one.good.all()
    assert other.good.all()
    return max(
        float(np.abs(a - b).max() / np.abs(a).max())
        for a, b in (
            (one.k, other.k),
            (one.K, other.K),
            (one.slope, other.slope),
            (one.curve, other.curve),
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
    whole = backward._combined

    def mutant(first: backward.Elements, then: backward.Elements) -> backward.Elements:
        made = list(whole(first, then))
        made[term] = made[term] * 1.001
        return made[0], made[1], made[2], made[3], made[4]

    monkeypatch.setattr(backward, "_combined", mutant)
    # The first pass of all is no combination: three levels and more are needed to see A and C.
    assert apart(64) > 1e-9


def test_feedback_is_the_optimum() -> None:
    """The cost of the linear problem is least where the feedback leads, by differences."""
    given = problem(5)
    found = recursion(given)

    def cost(k: np.ndarray) -> np.ndarray:
        x = np.zeros((COUNT, M))
        total = np.zeros(COUNT)
        for at in range(5):
            u = -k[:, at] - np.einsum("nij,nj->ni", found.K[:, at], x)
            total += 0.5 * np.einsum("ni,nij,nj->n", x, given.Q[:, at], x)
            total += np.einsum("ni,ni->n", given.q[:, at], x)
            total += np.einsum("ni,ni->n", 0.5 * given.R[:, at] * u + given.r[:, at], u)
            x = np.einsum("nij,nj->ni", given.A[:, at], x)
            x += np.einsum("nij,nj->ni", given.B[:, at], u)
        total += 0.5 * np.einsum("ni,nij,nj->n", x, given.Q[:, 5], x)
        return total + np.einsum("ni,ni->n", given.q[:, 5], x)

    best = cost(found.k)
    np.testing.assert_allclose(cost(0 * found.k) - best, found.slope - 0.5 * found.curve, rtol=1e-9)
    step = 1e-4
    for at in range(5):
        for i in range(P):
            for sign in (-1.0, 1.0):
                moved = found.k.copy()
                moved[:, at, i] += sign * step
                assert (cost(moved) > best).all()


def test_what_is_not_convex_is_told() -> None:
    given = problem(4)
    bad = given.R.copy()
    bad[1] = -100.0
    for one in PASSES.values():
        with np.errstate(all="ignore"):
            assert one(replace(given, R=bad)).good.tolist() == [True, False, True]
    broken = given.A.copy()
    broken[2, 1, 0, 0] = np.nan
    with np.errstate(all="ignore"):
        assert recursion(replace(given, A=broken)).good.tolist() == [True, True, False]
