"""Scans by every method: combined elements, their order, and the number of levels."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from pinion.chains.chain import Array
from pinion.chains.counting import Count
from pinion.chains.scan import METHODS, Elements, Operator, scan
from pinion.dynamics import DynamicsError

LENGTHS = [1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 33, 100]


def joined(newer: Elements, older: Elements) -> Elements:
    """Combine intervals first..last; intervals that are not adjacent, or swapped, give -99."""
    first, last = older[0], newer[1]
    follows = np.where(newer[2] > 0, newer[0] == older[1] + 1, newer[0] == older[1] - 1)
    empty_new, empty_old = newer[2] == 0, older[2] == 0
    first = np.where(empty_old, newer[0], np.where(empty_new | follows, first, -99))
    last = np.where(empty_new, older[1], np.where(empty_old | follows, last, -99))
    spoilt = (newer[0] == -99) | (older[0] == -99)
    return (
        np.where(spoilt, -99, first),
        np.where(spoilt, -99, last),
        np.where(empty_new, older[2], newer[2]),
    )


STRETCH = Operator(joined, lambda like: tuple(np.zeros_like(a) for a in like))
SUM = Operator(lambda a, b: (a[0] + b[0],), lambda like: (np.zeros_like(like[0]),))


def stretches(n: int, step: int) -> Elements:
    place = np.broadcast_to(np.arange(1, n + 1), (2, n)).copy()
    return place, place.copy(), np.full((2, n), step)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", LENGTHS)
def test_each_prefix_has_every_element_once_and_in_order(method: str, n: int) -> None:
    place = np.arange(1, n + 1)
    first, last, _ = scan(STRETCH, stretches(n, 1), method)
    np.testing.assert_array_equal(first, np.ones((2, n)))
    np.testing.assert_array_equal(last, np.broadcast_to(place, (2, n)))
    first, last, _ = scan(STRETCH, stretches(n, -1), method, from_tip=True)
    np.testing.assert_array_equal(first, np.full((2, n), n))
    np.testing.assert_array_equal(last, np.broadcast_to(place, (2, n)))
    first, last, step = scan(STRETCH, stretches(n, 1), method, exclusive=True)
    np.testing.assert_array_equal(step[:, 0], 0)
    np.testing.assert_array_equal(first[:, 1:], 1)
    np.testing.assert_array_equal(last[:, 1:], np.broadcast_to(place[:-1], (2, n - 1)))
    first, last, step = scan(STRETCH, stretches(n, -1), method, exclusive=True, from_tip=True)
    np.testing.assert_array_equal(step[:, -1], 0)
    np.testing.assert_array_equal(last[:, :-1], np.broadcast_to(place[1:], (2, n - 1)))


@pytest.mark.parametrize("method", METHODS)
def test_operands_in_the_wrong_order_are_noticed(method: str) -> None:
    swapped = Operator(lambda newer, older: joined(older, newer), STRETCH.identity)
    first, _, _ = scan(swapped, stretches(5, 1), method)
    assert np.any(first == -99)


@pytest.mark.parametrize("method", METHODS)
def test_arguments_stay_and_results_have_their_type(method: str) -> None:
    x = np.arange(6, dtype=np.float32).reshape(1, 6)
    before = x.copy()
    sums = scan(SUM, x, method)
    np.testing.assert_array_equal(x, before)
    assert sums.dtype == np.float32
    np.testing.assert_array_equal(sums, [[0, 1, 3, 6, 10, 15]])
    np.testing.assert_array_equal(scan(SUM, x.T, method, axis=0).T, sums)


def counted(method: str, n: int, *, exclusive: bool = False) -> Count:
    count = Count()
    sums = scan(SUM, np.ones((1, n)), method, count, exclusive=exclusive)
    expected = np.arange(n) if exclusive else np.arange(1, n + 1)
    np.testing.assert_array_equal(sums[0], expected)
    return count


def test_levels_of_2_to_1024_operands() -> None:
    for n in range(2, 1025):
        L = (n - 1).bit_length()
        steele = counted("hillis_steele", n)
        assert (steele.levels, steele.combines) == (L, L * n - (2**L - 1))
        kung = counted("brent_kung", n)
        assert kung.levels <= 2 * L - 1
        assert kung.combines < 2 * n
        blelloch = counted("blelloch", n, exclusive=True)
        assert (blelloch.levels, blelloch.combines) == (2 * L, 2 * (2**L - 1))
    assert counted("brent_kung", 1024).levels == 19
    inclusive = counted("blelloch", 1000)
    assert (inclusive.levels, inclusive.combines) == (21, 3046)
    assert (counted("brent_kung", 1000).levels, counted("brent_kung", 1000).combines) == (18, 1984)
    assert counted("hillis_steele", 1000).combines == 8977
    assert counted("sequential", 100) == Count(levels=99, combines=99)


def test_matrices_are_multiplied_from_the_left() -> None:
    rng = np.random.default_rng(1)
    A = rng.normal(size=(3, 11, 4, 4))
    product = Operator(lambda a, b: (a[0] @ b[0],), _eyes)
    last = reduce(lambda matrix, i: A[:, i] @ matrix, range(1, 11), A[:, 0])
    back = reduce(lambda matrix, i: A[:, i] @ matrix, range(9, -1, -1), A[:, 10])
    for method in METHODS:
        np.testing.assert_allclose(scan(product, A, method)[:, -1], last, rtol=1e-12)
        products = scan(product, A, method, from_tip=True)
        np.testing.assert_allclose(products[:, 0], back, rtol=1e-12)


def _eyes(like: Elements) -> tuple[Array]:
    return (np.broadcast_to(np.eye(like[0].shape[-1]), like[0].shape).copy(),)


def test_scans_of_what_is_no_line_of_elements_are_refused() -> None:
    ones = np.ones((1, 3))
    for message, arguments in {
        "choose 'sequential' or": (ones, "fast"),
        "at least one element": (np.ones((1, 0)), "blelloch"),
        "same batch and length": ((ones, np.ones((1, 4))), "blelloch"),
        "pass at least one array": ((), "blelloch"),
    }.items():
        with pytest.raises(DynamicsError, match=message):
            scan(SUM, *arguments)  # type: ignore[arg-type]
