"""Costs of the constraint force algorithm by its equations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pinion import dynamics
from pinion.chains.costs import (
    Operations,
    aba_operations,
    cfa_operations,
    depth,
    factorisation,
    prices,
    product,
    schedule,
    solution,
)
from pinion.chains.small import factorise, solve_factored


class Counted:
    """A number that counts its operations; exact zeros, ones and integers are structure."""

    def __init__(self, value: float, tally: list[int]) -> None:
        self.value, self.tally = value, tally

    def _with(self, other: Any, value: float, kind: int) -> Counted:
        if isinstance(other, Counted):
            self.tally[kind] += 1
        return Counted(value, self.tally)

    def __mul__(self, other: Any) -> Counted:
        return self._with(other, self.value * float(other), 0)

    def __truediv__(self, other: Any) -> Counted:
        return self._with(other, self.value / float(other), 0)

    def __add__(self, other: Any) -> Counted:
        return self._with(other, self.value + float(other), 1)

    def __sub__(self, other: Any) -> Counted:
        return self._with(other, self.value - float(other), 1)

    __rmul__, __radd__ = __mul__, __add__

    def __gt__(self, other: float) -> bool:
        return self.value > other

    def __float__(self) -> float:
        return self.value


@pytest.mark.parametrize("k", [1, 2, 5, 6])
def test_counts_are_those_of_the_float_model(k: int) -> None:
    rng = np.random.default_rng(k)
    tally = [0, 0]

    def counted(x: Any) -> Any:
        flat = [Counted(float(value), tally) for value in x.ravel()]
        return np.array(flat, object).reshape(x.shape)

    A = rng.normal(size=(1, k, k))
    A = A @ np.swapaxes(A, 1, 2) + np.eye(k)
    L, d = factorise(counted(A))
    assert Operations(*tally) == factorisation(k)
    tally[:] = [0, 0]
    b = rng.normal(size=(1, k, 3))
    x = solve_factored(L, d, counted(b))
    assert Operations(*tally) == solution(k, 3)
    np.testing.assert_allclose(A @ x.astype(float), b, atol=1e-12)
    tally[:] = [0, 0]
    counted(A) @ counted(b)
    assert Operations(*tally) == product(k, k, 3)


def test_serial_algorithm_costs_more_than_articulated_bodies() -> None:
    best = aba_operations()
    assert best == Operations(238, 236)
    assert cfa_operations() == Operations(606, 507)
    assert 2.3 < cfa_operations().total / best.total < 2.4
    assert 3.4 < cfa_operations(1).total / best.total < 3.6
    with pytest.raises(dynamics.DynamicsError, match="not -1"):
        cfa_operations(-1)


def test_schedule_of_two_arrays() -> None:
    price = prices()
    for n in [1, 2, 3, 8, 9, 100, 1000, 1024]:
        phases = schedule(n)
        levels = (n - 1).bit_length()
        matrix, inverse, _, last = phases
        assert matrix.first["diagonalise"] == levels
        assert inverse.first["updates"] == inverse.second["update"] == last.second["update"]
        assert last.second["update"] == levels
        # Levels grow with the logarithm, and two arrays need fewer than one.
        assert depth(phases) == 8 * levels + 11 < depth(phases, arrays=1) == 10 * levels + 14
        # In operations the first array takes longer, so that step II costs no time (VI.E); in
        # levels the inverse dynamics' scans do.
        for phase in (matrix, inverse):
            work = [
                sum(count * price[kind] for kind, count in array.items())
                for array in (phase.first, phase.second)
            ]
            assert work[0] > work[1] or n == 1
    assert depth(schedule(1000), price=price) < depth(schedule(1000), arrays=1, price=price)
    with pytest.raises(dynamics.DynamicsError, match="not 0"):
        schedule(0)
    with pytest.raises(dynamics.DynamicsError, match="arrays must be 1 or 2, not 3"):
        depth(schedule(2), arrays=3)
