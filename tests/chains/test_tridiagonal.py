"""Block tridiagonal solvers: results, levels, and errors of the text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.chains import Count, diagonalise, solve_tridiagonal
from pinion.chains.small import solve_general
from pinion.chains.tridiagonal import METHODS

Array = NDArray[Any]


class Levels(Count):
    """A count that keeps the combines of each level."""

    def __init__(self) -> None:
        super().__init__()
        self.each: list[int] = []

    def level(self, combines: int) -> None:
        super().level(combines)
        self.each.append(combines)


def system(n: int, k: int, seed: int, batch: int = 2) -> tuple[Array, Array, Array]:
    """Return D, U and R of a positive definite matrix with significant off-diagonal blocks."""
    rng = np.random.default_rng(seed)
    D = rng.normal(size=(batch, n, k, k))
    D = D @ np.swapaxes(D, -1, -2) / k + 3 * np.eye(k)
    U = rng.uniform(-1.4, 1.4, size=(batch, n - 1, k, k)) / k
    return D, U, rng.normal(size=(batch, n, k, 3))


def dense(D: Array, U: Array, lower: Array) -> Array:
    batch, n, k, _ = D.shape
    A = np.zeros((batch, n, k, n, k))
    for i in range(n):
        A[:, i, :, i] = D[:, i]
    for i in range(n - 1):
        A[:, i, :, i + 1] = U[:, i]
        A[:, i + 1, :, i] = lower[:, i]
    return A.reshape(batch, n * k, n * k)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("symmetric", [True, False])
def test_solutions_of_every_length(method: str, symmetric: bool) -> None:
    for n in [*range(1, 10), 15, 16, 17, 33]:
        for k in (1, 5):
            D, U, R = system(n, k, n)
            lower = np.swapaxes(U, -1, -2)
            if not symmetric:
                lower = np.random.default_rng(n).uniform(-1, 1, U.shape) / k
            exact = np.linalg.solve(dense(D, U, lower), R.reshape(2, n * k, 3)).reshape(R.shape)
            solution = solve_tridiagonal(D, U, R, method, lower=None if symmetric else lower)
            assert solution.shape == R.shape
            assert np.max(np.abs(solution - exact)) < 1e-13 * max(1.0, np.max(np.abs(exact)))


@pytest.mark.parametrize("method", METHODS)
def test_later_right_hand_sides(method: str) -> None:
    D, U, R = system(13, 4, 1)
    factors = diagonalise(D, U, method=method)
    np.testing.assert_array_equal(factors.solve(R), solve_tridiagonal(D, U, R, method))
    more = np.random.default_rng(2).normal(size=(2, 13, 4, 7))
    np.testing.assert_allclose(
        factors.solve(more)[..., 3:4], solve_tridiagonal(D, U, more[..., 3:4], method), atol=1e-14
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [np.float32, np.longdouble])
def test_types_are_kept(method: str, dtype: type) -> None:
    D, U, R = (x.astype(dtype) for x in system(9, 3, 4))
    solution = solve_tridiagonal(D, U, R, method)
    assert solution.dtype == dtype
    exact = solve_tridiagonal(*(x.astype(np.longdouble) for x in (D, U, R)), "ldl")
    assert np.max(np.abs(solution - exact)) < 20 * np.finfo(dtype).eps


@pytest.mark.parametrize("n", [2, 3, 4, 5, 7, 8, 9, 127, 128, 129, 1000, 1024])
def test_levels(n: int) -> None:
    D, U, R = system(n, 1, n, batch=1)
    up, down = (n - 1).bit_length(), n.bit_length() - 1
    levels = {"oee": up, "oer": 2 * down, "ldl": 2 * n - 2}
    for method, expected in levels.items():
        count, matrix, later = Levels(), Levels(), Levels()
        solve_tridiagonal(D, U, R, method, count=count)
        assert (count.levels, count.solves) == (expected, 1), method
        assert count.levels == len(count.each) and min(count.each) > 0
        diagonalise(D, U, method=method, count=matrix).solve(R, later)
        assert matrix.each == count.each[: matrix.levels] and matrix.solves == 0
        assert later == count
    # Each row eliminates its neighbours, up to two.
    count = Levels()
    solve_tridiagonal(D, U, R, "oee", count=count)
    assert count.each == [2 * (n - 2**j) for j in range(up)]


def printed(D: Array, U: Array, R: Array, distances: list[int]) -> Array:
    """Solve by Fijany 1993, eq. 90-93, row by row, with the neighbours' distance at each level."""
    n, k = D.shape[1], D.shape[2]
    zero = np.zeros_like(D[:, 0])
    reach = n + max(distances, default=0)
    A = {i: D[:, i] if 0 <= i < n else zero + np.eye(k) for i in range(-reach, n + reach)}
    B = {i: U[:, i] if 0 <= i < n - 1 else zero for i in A}
    r = {i: R[:, i] if 0 <= i < n else 0 * R[:, 0] for i in A}
    T = {i: np.swapaxes(B[i], -1, -2) for i in A}
    for h in distances:
        inverse = {i: np.linalg.inv(A[i]) for i in A}
        inside = range(n)
        new_A, new_B, new_r = dict(A), dict(B), dict(r)
        for i in inside:
            after, before = i + h, i - h
            new_A[i] = A[i] - B[i] @ inverse[after] @ T[i] - T[before] @ inverse[before] @ B[before]
            new_B[i] = -B[i] @ inverse[after] @ B[after]
            new_r[i] = (
                r[i] - B[i] @ inverse[after] @ r[after] - T[before] @ inverse[before] @ r[before]
            )
        A, B, r = new_A, new_B, new_r
        T = {i: np.swapaxes(B[i], -1, -2) for i in A}
    return np.stack([np.linalg.solve(A[i], r[i]) for i in range(n)], axis=1)


@pytest.mark.parametrize("n", [3, 8, 13])
def test_neighbours_are_at_a_distance_that_doubles(n: int) -> None:
    D, U, R = system(n, 3, n)
    exact = solve_tridiagonal(D, U, R, "ldl")
    levels = (n - 1).bit_length()
    right = printed(D, U, R, [2**j for j in range(levels)])
    np.testing.assert_allclose(right, exact, atol=1e-13)
    # Eq. 90-92 as printed: i +- 2 at every level.
    assert np.max(np.abs(printed(D, U, R, [2] * levels) - exact)) > 1e-2


def test_general_systems() -> None:
    rng = np.random.default_rng(1)
    A = rng.normal(size=(50, 6, 6))
    A[0] = np.eye(6)[::-1]  # needs row exchanges from the first pivot on
    x = rng.normal(size=(50, 6, 2))
    np.testing.assert_allclose(solve_general(A, A @ x), x, atol=1e-11)
    wide = A.astype(np.longdouble)
    solution = solve_general(wide, wide @ x)
    assert solution.dtype == np.longdouble and np.max(np.abs(solution - x)) < 1e-15
    for bad in (np.zeros((2, 2)), np.full((2, 2), np.nan)):
        with pytest.raises(np.linalg.LinAlgError, match="pivot is zero"):
            solve_general(bad, np.ones((2, 1)))


def test_what_is_no_system_is_refused() -> None:
    D, U, R = system(4, 2, 1)
    bad: list[tuple[str, tuple[Array, Array, Array], dict[str, Any]]] = [
        ("choose 'oee' or", (D, U, R), {"method": "lu"}),
        (r"D has shape", (D[:, :, 0], U, R), {}),
        (r"U has shape \(2, 2, 2, 2\)", (D, U[:, 1:], R), {}),
        ("lower has shape", (D, U, R), {"lower": U[..., :1]}),
        (r"R has shape .* expected \(B, 4, 2, m\)", (D, U, R[:, 1:]), {}),
    ]
    for message, arguments, options in bad:
        with pytest.raises(dynamics.DynamicsError, match=message):
            solve_tridiagonal(*arguments, **options)
    for method in METHODS:
        with pytest.raises(np.linalg.LinAlgError):
            solve_tridiagonal(-D, U, R, method)
        with pytest.raises(np.linalg.LinAlgError):
            solve_tridiagonal(D * np.nan, U, R, method)


@pytest.mark.slow
def test_levels_of_every_length_to_1024() -> None:
    for n in range(2, 1025):
        D, U, R = np.full((1, n, 1, 1), 4.0), np.ones((1, n - 1, 1, 1)), np.ones((1, n, 1, 1))
        up, down = (n - 1).bit_length(), n.bit_length() - 1
        levels = {"oee": up, "oer": 2 * down, "ldl": 2 * n - 2}
        for method, expected in levels.items():
            if method == "ldl" and n > 64:
                continue  # row by row at every length
            count = Levels()
            solve_tridiagonal(D, U, R, method, count=count)
            assert (count.levels, count.solves) == (expected, 1), (method, n)
