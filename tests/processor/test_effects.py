"""Effects of errors in factors: what decides which products take two slots."""

from __future__ import annotations

import numpy as np
import pytest

from pinion.graph import Word
from pinion.processor.sensitivity import effects
from pinion.processor.sums import Summand, Sums, Value

X, Y = Word.of("x[0]"), Word.of("x[1]")


def sums(*results: int) -> Sums:
    """x0 x1 as value 3, its negative as value 4, and 0.75 x0 as value 5."""
    values = (
        Value(word=X),
        Value(word=Y),
        Value(constant=0.5),
        Value(terms=(Summand(1, 0, 1),)),
        Value(terms=(Summand(-1, 3, 2, 1),)),
        Value(terms=(Summand(1, 0, 2, 1),)),
    )
    words = [Word.of(f"y[{k}]") for k in range(len(results))]
    return Sums((X, Y), values, tuple(zip(words, results, strict=True)))


STATES = {"x[0]": np.array([1.0, 2.0, 3.0]), "x[1]": np.array([4.0, -8.0, 0.25])}


def of(subject: Sums, scale: float = 1.0) -> tuple[tuple[tuple[float, float], ...], ...]:
    blocks = {"y": list(range(len(subject.results)))}
    return effects(subject, [STATES], blocks, {"y": scale})


def test_an_effect_is_the_other_factor_over_the_block() -> None:
    (pair,) = of(sums(3))[3]
    # Of x0 x1 in relation to itself: 1 / x0 and 1 / x1, largest over the states; random weights.
    assert pair[0] == pytest.approx(1.0, rel=0.7) and pair[1] == pytest.approx(4.0, rel=0.7)
    assert pair[1] == pytest.approx(4.0 * pair[0])


def test_equal_and_opposite_words_do_not_cancel() -> None:
    for results in ((3, 3), (3, 4), (4, 3, 4)):
        assert min(of(sums(*results))[3][0]) > 0.05, results


def test_near_rest_the_scale_counts_and_no_effect_is_not_a_number() -> None:
    at_rest = {"x[0]": np.zeros(2), "x[1]": np.ones(2)}
    for scale in (0.0, 10.0):
        pairs = effects(sums(3), [at_rest], {"y": [0]}, {"y": scale})
        assert np.isfinite(pairs[3]).all()
    assert pairs[3][0][0] == pytest.approx(10.0, rel=0.7)


def test_what_no_result_needs_has_no_effect() -> None:
    assert of(sums(3))[5] == ((0.0, 0.0),)
