"""Minimax polynomials by Remez' exchange, in decimal arithmetic of 40 digits.

The coefficients in `sincos.hpp` come from `fit`: run this file to print them. The approximations
are sin r = r + r^3 P(r^2) and cos r = 1 - r^2/2 + r^4 P(r^2), and with z = r^2 the errors of P are

    sine      z P(z) - (sin r / r - 1)       relative to sin r / r,
    cosine    z^2 P(z) - (cos r - 1 + z/2)   absolute: cos r is between 0.7 and 1.

Source: Remez (1934); Cheney, Introduction to Approximation Theory (1966), chapter 3. Rounding:
coefficients are rounded one by one from the lowest on, each followed by a new exchange for those
that are still free.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np

DIGITS = 40
POINTS = 200  # of the grid for extrema


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Approximate `target` by the polynomial P: |weight(z) P(z) - target(z)| small on (0, end^2].

    weight, target : functions of r = sqrt(z), both divided by the error's reference.
    end : the largest r.
    """

    weight: Callable[[Decimal], Decimal]
    target: Callable[[Decimal], Decimal]
    end: Decimal


def _series(r: Decimal, first: int) -> Decimal:
    """Return sin r / r (first = 1) or cos r (first = 0) without the terms below r^4 or r^2.

    That is: the sum over k >= 1 (sine), k >= 2 (cosine) of (-1)^k r^(2k) / (2k + first)!.
    """
    z = r * r
    start = 1 if first else 2
    term = (-z) ** start / math.factorial(2 * start + first)
    total, k = Decimal(0), start
    while abs(term) > Decimal(10) ** -(DIGITS + 2):
        total += term
        k += 1
        term *= -z / ((2 * k + first) * (2 * k + first - 1))
    return total


def sine(end: Decimal, slack: int = 0) -> Problem:
    """Return the problem of sin r = r + r^3 P(r^2) with relative error.

    The error may be 1 + slack (r/end)^6 times as large. Slack accounts for rounding of r in the
    reduction, which costs most where sin r is below a power of two and
    r above, next to 1/8, 1/4 and 1/2, so the polynomial should be good there.
    """

    def scale(r: Decimal) -> Decimal:
        return (1 + _series(r, 1)) * (1 + slack * (r / end) ** 6)

    return Problem(
        weight=lambda r: r * r / scale(r), target=lambda r: _series(r, 1) / scale(r), end=end
    )


def cosine(end: Decimal) -> Problem:
    """Return the problem of cos r = 1 - r^2/2 + r^4 P(r^2) with absolute error."""
    return Problem(weight=lambda r: r**4, target=lambda r: _series(r, 0), end=end)


def evaluate(coefficients: Sequence[Decimal], z: Decimal) -> Decimal:
    """Evaluate a polynomial by Horner's rule, lowest coefficient first."""
    total = Decimal(0)
    for coefficient in reversed(coefficients):
        total = total * z + coefficient
    return total


def _grid(end: Decimal) -> list[Decimal]:
    """Return points in (0, end], dense at both ends."""
    steps = (Decimal(math.cos(math.pi * k / (2 * POINTS))) for k in range(POINTS))
    return sorted(end * step for step in steps)


def error(problem: Problem, coefficients: Sequence[Decimal]) -> Decimal:
    """Return the largest error of a polynomial over the grid."""
    with localcontext() as context:
        context.prec = DIGITS
        return max(
            abs(problem.weight(r) * evaluate(coefficients, r * r) - problem.target(r))
            for r in _grid(problem.end)
        )


def _solve(matrix: list[list[Decimal]], right: list[Decimal]) -> list[Decimal]:
    """Solve by Gaussian elimination with pivoting."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for k in range(size):
        pivot = max(range(k, size), key=lambda i: abs(rows[i][k]))
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for i in range(size):
            if i != k:
                factor = rows[i][k] / rows[k][k]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
    return [rows[k][size] / rows[k][k] for k in range(size)]


def remez(problem: Problem, count: int, fixed: Sequence[Decimal] = ()) -> list[Decimal]:
    """Return the `count` coefficients of the best polynomial with `fixed` lowest ones."""
    with localcontext() as context:
        context.prec = DIGITS
        free = count - len(fixed)
        if not free:
            return list(fixed)
        grid = _grid(problem.end)
        weights = [problem.weight(r) for r in grid]
        residuals = [
            problem.target(r) - w * evaluate(fixed, r * r)
            for r, w in zip(grid, weights, strict=True)
        ]
        # Chebyshev's extrema are a good start.
        nodes = [round((POINTS - 1) * (k + 1) / (free + 1)) for k in range(free + 1)]
        for _ in range(50):
            solution = _solve(
                [
                    [weights[i] * grid[i] ** (2 * (len(fixed) + j)) for j in range(free)]
                    + [Decimal((-1) ** row)]
                    for row, i in enumerate(nodes)
                ],
                [residuals[i] for i in nodes],
            )
            coefficients = [*fixed, *solution[:-1]]
            errors = [
                w * evaluate([Decimal(0)] * len(fixed) + solution[:-1], r * r) - residual
                for r, w, residual in zip(grid, weights, residuals, strict=True)
            ]
            # One extremum for each run of errors with one sign; of these the `free + 1`
            # neighbours with the largest errors.
            extrema: list[int] = []
            for i, value in enumerate(errors):
                if extrema and (errors[extrema[-1]] > 0) == (value > 0):
                    if abs(value) > abs(errors[extrema[-1]]):
                        extrema[-1] = i
                else:
                    extrema.append(i)
            while len(extrema) > free + 1:
                extrema.pop(0 if abs(errors[extrema[0]]) < abs(errors[extrema[-1]]) else -1)
            if len(extrema) < free + 1:
                raise ArithmeticError(
                    f"The exchange found {len(extrema)} extrema where it needs {free + 1}; "
                    "start from other points."
                )
            if extrema == nodes:
                break
            nodes = extrema
        return coefficients


def fit(problem: Problem, count: int, scalar: type[np.floating]) -> list[Decimal]:
    """Return `count` coefficients that are exact in `scalar`, lowest first."""
    fixed: list[Decimal] = []
    for k in range(count):
        best = remez(problem, count, fixed)
        fixed.append(Decimal(float(scalar(best[k]))))
    return fixed


# The cases of sincos.hpp. A float's r exceeds pi/4, because 2/pi and the quotient are rounded: at
# the end of the range by 0.013.
CASES: dict[str, tuple[Problem, int, type[np.floating]]] = {
    "sine float": (sine(Decimal("0.8"), slack=30), 3, np.float32),
    "cosine float": (cosine(Decimal("0.8")), 3, np.float32),
    "sine double": (sine(Decimal("0.7854")), 6, np.float64),
    "cosine double": (cosine(Decimal("0.7854")), 6, np.float64),
}


def main() -> None:
    """Print the rounded coefficients, and their errors and those of the best polynomial."""
    for name, (problem, count, scalar) in CASES.items():
        best, rounded = remez(problem, count), fit(problem, count, scalar)
        print(f"{name}: error {error(problem, best):.3e}, rounded {error(problem, rounded):.3e}")
        for coefficient in rounded:
            print(f"  {float(coefficient).hex()}")


if __name__ == "__main__":
    main()
