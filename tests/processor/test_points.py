"""Binary points and slots of small sums, by hand for words of 35 bits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pinion.graph import Word
from pinion.processor import Machine, ProgramError
from pinion.processor.machine import Finish, Half
from pinion.processor.points import Points, Reach, Slot, choose_points
from pinion.processor.sums import Summand, Sums, Value

MACHINE = Machine()
X, Y = Value(word=Word.of("x"), line="row.py:1"), Value(word=Word.of("y"))


def chosen_points(
    *values: Value,
    largest: tuple[float, ...],
    smallest: float = 1.0,
    effects: tuple[float, float] = (0.0, 0.0),
    threshold: float = 1.0,
) -> Points:
    """Return the points of values of these magnitudes; the effects are those of every product."""
    return choose_points(
        Sums((), values, ()),
        Reach(largest=largest, smallest=(smallest,) * len(values)),
        MACHINE,
        effects=tuple((effects,) * len(value.terms) for value in values),
        threshold=threshold,
    )


def total(*terms: Summand, finish: Finish = Finish.CLIP) -> Value:
    return Value(terms=terms, finish=finish, line="rnea.py:57")


def slot(a: int, b: int, half: Half, shift: int, *, negate: bool = False) -> Slot:
    return Slot(a=a, b=b, half=half, shift=shift, negate=negate)


@pytest.mark.parametrize(
    ("largest", "frac"),
    [(1.0, 32), (0.999, 33), (2.0, 31), (0.5, 33), (0.499, 34), (2.0**40, -8), (2.0**-40, 72)],
)
def test_words_have_room_for_twice_their_range(largest: float, frac: int) -> None:
    points = chosen_points(X, largest=(largest,))
    assert points.fracs == points.ends == (frac,) and points.slots == ((),)


def test_a_constant_needs_no_room() -> None:
    constants = (0.5, 0.75, 0.999)
    points = chosen_points(*(Value(constant=c) for c in constants), largest=constants)
    assert points.fracs == (34, 34, 34)


def test_a_product_takes_two_slots_if_one_has_more_than_the_effect_allowed() -> None:
    """Half a unit of the high bits of y is 2^-17, of x 2^-16: y is B."""
    values = X, Y, total(Summand(-1, 0, 1, 3))
    sizes = (1.0, 0.75, 6.0)
    rounded = chosen_points(*values, largest=sizes, effects=(1.0, 1.0), threshold=2.0**-17)
    # 33 + 32 bits of the factors, without the 17 low ones; 3 are the power, 30 and 12 the sum's.
    assert rounded.fracs == rounded.ends == (32, 33, 30)
    assert rounded.slots == ((), (), (slot(0, 1, Half.ROUNDED, 3, negate=True),))
    whole = chosen_points(*values, largest=sizes, effects=(1.0, 1.0), threshold=2.0**-17.01)
    assert whole.slots[2] == (
        slot(0, 1, Half.HIGH, 3, negate=True),
        slot(0, 1, Half.LOW, 20, negate=True),
    )


@pytest.mark.parametrize(("effects", "a", "b"), [((1.0, 4.0), 1, 0), ((4.0, 1.0), 0, 1)])
def test_the_factor_whose_error_counts_less_is_rounded(
    effects: tuple[float, float], a: int, b: int
) -> None:
    """The effects are of an error in the first and of one in the second factor."""
    product = total(Summand(1, 0, 1))
    points = chosen_points(X, Y, product, largest=(1.0, 1.0, 1.0), effects=effects)
    assert points.slots[2] == (slot(a, b, Half.ROUNDED, 3),)


def test_no_product_is_shifted_further_than_a_lane_can() -> None:
    # Large factors of a small product: its shift to the left is 6 bits, and it has fewer bits.
    points = chosen_points(X, total(Summand(1, 0, 0)), largest=(2.0**40, 1.0))
    assert points.fracs == (-8, -39) and points.slots[1] == (slot(0, 0, Half.ROUNDED, -6),)


@pytest.mark.parametrize(
    ("power", "shifts"),
    [(-37, [40, 57]), (-38, [41]), (-54, [57]), (-55, [])],
)
def test_products_below_the_guard_bits_are_left_out(power: int, shifts: list[int]) -> None:
    both = total(Summand(1, 0, 0), Summand(1, 0, 0, power))
    points = chosen_points(X, both, largest=(1.0, 1.0), effects=(1.0, 1.0), threshold=0.0)
    assert [s.shift for s in points.slots[1]] == [3, 20, *shifts]
    alone = total(Summand(1, 0, 0, power))
    if shifts:
        points = chosen_points(X, alone, largest=(1.0, 1.0))
        assert [s.shift for s in points.slots[1]] == shifts[:1]
        return
    with pytest.raises(
        ProgramError, match=r"^A sum of rnea\.py:57 is zero in every state: build a core\.$"
    ):
        chosen_points(X, alone, largest=(1.0, 1.0))


@pytest.mark.parametrize(
    ("constant", "count"), [(0.5, 1), (0.5 + 2.0**-17, 1), (0.5 + 2.0**-18, 2), (2.0 / 3.0, 2)]
)
def test_a_constant_without_low_bits_takes_one_slot(constant: float, count: int) -> None:
    values = X, Value(constant=constant), total(Summand(1, 0, 1))
    points = chosen_points(*values, largest=(1.0, constant, 1.0), effects=(1.0, 1.0), threshold=0.0)
    assert len(points.slots[2]) == count and {s.b for s in points.slots[2]} == {1}


def test_a_comparison_is_exact_and_takes_one_slot_as_a_factor() -> None:
    difference = total(Summand(1, 0, 2, 1), Summand(-1, 1, 2, 1), finish=Finish.SIGN)
    values = X, Y, Value(constant=0.5), difference, total(Summand(1, 3, 0))
    points = chosen_points(
        *values, largest=(1.0, 0.75, 0.5, 1.0, 1.0), effects=(9.0, 9.0), threshold=0.0
    )
    # The difference is below 2 * 1.75; as a factor it is a 0 or 1 with 33 fraction bits.
    assert points.fracs[3] == 33 and points.ends[3] == 32
    assert points.slots[3] == (
        slot(0, 2, Half.ROUNDED, 4),
        slot(1, 2, Half.ROUNDED, 5, negate=True),
    )
    assert points.slots[4] == (slot(0, 3, Half.ROUNDED, 4),)


def test_products_that_are_compared_have_both_slots() -> None:
    compared = total(Summand(1, 0, 1, -2), finish=Finish.SIGN)
    points = chosen_points(X, Y, compared, largest=(4.0, 8.0, 1.0), effects=(1e-9, 1e-9))
    # 2 * 4 * 8 / 4 = 16 is the size; x and y have 30 and 29 bits.
    assert points.fracs == (30, 29, 33) and points.ends[2] == 29
    assert points.slots[2] == (slot(1, 0, Half.HIGH, 3), slot(1, 0, Half.LOW, 20))


@pytest.mark.parametrize(("size", "end"), [(0.0, 33), (2.0**40, 3)])
def test_a_comparison_that_is_zero_in_every_state(size: float, end: int) -> None:
    compared = total(Summand(1, 0, 1), finish=Finish.SIGN)
    points = chosen_points(X, Y, compared, largest=(size, 0.0, 1.0))
    assert points.ends[2] == end and points.fracs[2] == 33


def test_an_angle_is_wrapped_or_refused() -> None:
    values = X, Value(constant=0.625), total(Summand(1, 0, 1, -2), finish=Finish.WRAP)
    points = chosen_points(*values, largest=(2047.0, 0.625, 0.5))
    assert points.fracs == points.ends == (22, 34, 35)
    assert points.slots[2] == (slot(0, 1, Half.ROUNDED, -6),)
    with pytest.raises(
        ProgramError,
        match=r"^The angle of a sine or cosine \(rnea\.py:57\) reaches 320 turns over the states, "
        r"more than the processor can wrap: build a core\.$",
    ):
        chosen_points(*values, largest=(2048.0, 0.625, 0.5))


@pytest.mark.parametrize(("smallest", "frac"), [(0.25, 30), (0.26, 31), (1e6, 52)])
def test_a_reciprocal_has_room_for_that_of_half_the_smallest_operand(
    smallest: float, frac: int
) -> None:
    inverse = Value(inverse=0)
    points = chosen_points(X, inverse, largest=(1.0, 1.0 / smallest), smallest=smallest)
    assert points.fracs == points.ends == (32, frac) and points.slots == ((), ())


@pytest.mark.parametrize("size", [math.nan, math.inf])
def test_what_is_not_finite_is_refused(size: float) -> None:
    for number, name in enumerate((r"row\.py:1", "the graph")):
        largest = tuple(size if k == number else 1.0 for k in range(2))
        with pytest.raises(
            ProgramError,
            match=rf"^A value of {name} is not finite in some states: no format can hold it\.$",
        ):
            chosen_points(X, Y, largest=largest)


def test_the_reach_is_that_of_all_distributions() -> None:
    subject = Sums((), (X, Y, total(Summand(1, 0, 1, 1))), ())
    columns = [
        {"x": np.array([1.0, -3.0, 0.5]), "y": np.array([2.0, 1.0, -1.0])},
        {"x": np.array([2.0, 2.0]), "y": np.array([-0.25, 0.5])},
    ]
    reach = Reach.of(subject, columns)
    assert reach.largest == (3.0, 2.0, 6.0) and reach.smallest == (0.5, 0.25, 1.0)
    columns[0]["y"][1] = np.nan
    assert math.isnan(Reach.of(subject, columns).largest[2])
