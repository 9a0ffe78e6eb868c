"""Graphs as sums of products: the terms of each operation, and which values are shared."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pinion.graph import Region, Word, parse_graph
from pinion.processor import ProgramError
from pinion.processor.machine import Finish
from pinion.processor.sums import Summand, Sums, Value, polynomial, sums_of
from tests.processor.small import INPUTS, RECORD, floats, states, sums

Term = tuple[int, object, object, int]


def terms(subject: Sums, number: int) -> list[Term]:
    """Return a value's terms, sorted: sign, factors and power; constants as their numbers."""

    def factor(k: int) -> object:
        return k if (c := subject.values[k].constant) is None else c

    return sorted(
        ((t.sign, factor(t.a), factor(t.b), t.power) for t in subject.values[number].terms),
        key=repr,
    )


def result(subject: Sums, place: int = 0) -> list[Term]:
    return terms(subject, subject.results[place][1])


def lone(number: int, sign: int = 1, power: int = 0) -> Term:
    """Return a term of one value: times 1, which is 1/2 with a power of 1."""
    return sign, number, 0.5, power + 1


def computed(subject: Sums) -> int:
    """Return how many values are computed."""
    return sum(bool(value.operands) for value in subject.values)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("mul %0 %1", [(1, 0, 1, 0)]),
        ("add %0 %1", [lone(0), lone(1)]),
        ("add %0 %0", [lone(0), lone(0)]),
        ("sub %0 %1", [lone(0), lone(1, -1)]),
        ("neg %2", [lone(2, -1)]),
        ("sum %0 %1 %2 [1, -1, -1]", [lone(0), lone(1, -1), lone(2, -1)]),
        ("dot %0 %1 %2 %1 [1, -1]", [(1, 0, 1, 0), (-1, 2, 1, 0)]),
        ("dot %0 %1 %2 %2 %1 [-1, 1, 1]", [(-1, 0, 1, 0), (1, 2, 2, 0), lone(1)]),
        ("dot %0 %1 %1 %2 %2 %0 [1, -1, 1]", [(1, 0, 1, 0), (-1, 1, 2, 0), (1, 2, 0, 0)]),
    ],
)
def test_terms_of_linear_operations(line: str, expected: list[Term]) -> None:
    subject = sums(f"%3 = {line}\nout y[0] = %3")
    assert result(subject) == sorted(expected, key=repr) and computed(subject) == 1


NESTED = """
%3 = dot %0 %1 %2 %2 %1 [-1, 1, 1]
%4 = add %0 %3
%5 = sum %2 %4 [1, -1]
%6 = sub %5 %1
out y[0] = %6
"""


def test_sums_of_one_reader_are_part_of_it() -> None:
    expected = [lone(0, -1), (1, 0, 1, 0), (-1, 2, 2, 0), lone(1, -1), lone(2), lone(1, -1)]
    subject = sums(NESTED)
    assert result(subject) == sorted(expected, key=repr) and computed(subject) == 1
    again = sums(NESTED + "out y[1] = %4\n")
    # Now the sum %4 has two readers: it is a value, and %3 belongs to it.
    number = again.results[1][1]
    assert terms(again, number) == sorted([lone(0), (-1, 0, 1, 0), (1, 2, 2, 0), lone(1)], key=repr)
    assert result(again) == sorted([lone(2), lone(number, -1), lone(1, -1)], key=repr)
    assert computed(again) == 2


def test_an_addend_with_two_readers_is_a_value() -> None:
    subject = sums("%3 = add %0 %1\n%4 = dot %0 %2 %3 [1, 1]\nout y[0] = %4\nout y[1] = %3\n")
    number = subject.results[1][1]
    assert result(subject) == sorted([(1, 0, 2, 0), lone(number)], key=repr)


def test_negations_are_signs_and_products_go_into_each_reader() -> None:
    subject = sums(
        "%3 = mul %0 %1\n%4 = neg %3\n%5 = add %4 %2\n%6 = sub %2 %4\n"
        "out y[0] = %5\nout y[1] = %6\n"
    )
    assert result(subject, 0) == sorted([(-1, 0, 1, 0), lone(2)], key=repr)
    assert result(subject, 1) == sorted([(1, 0, 1, 0), lone(2)], key=repr)
    assert computed(subject) == 2


def test_sums_are_shared_up_to_sign_and_a_power_of_two() -> None:
    subject = sums(
        "%3 = const [2.0]\n%4 = const [-8.0]\n%5 = const [3.0]\n"
        "%6 = mul %0 %3\n%7 = mul %4 %0\n%8 = mul %0 %5\n"
        "%9 = mul %6 %1\n%10 = mul %1 %7\n"
        "out y[0] = %6\nout y[1] = %7\nout y[2] = %8\nout y[3] = %9\nout y[4] = %10\n"
    )
    doubled = subject.results[0][1]
    assert terms(subject, doubled) == [(1, 0, 0.5, 2)]
    assert result(subject, 1) == [lone(doubled, -1, 2)]
    assert result(subject, 2) == [(1, 0, 0.75, 2)]
    product = subject.results[3][1]
    assert terms(subject, product) == [(1, doubled, 1, 0)]
    assert result(subject, 4) == [lone(product, -1, 2)]
    # 3/4 is a constant; 2, -8 and 1 are the other.
    assert sum(value.constant is not None for value in subject.values) == 2


def test_comparisons_and_their_opposites_are_not_shared() -> None:
    lines = "%3 = less %0 %1\n%4 = less %1 %0\n%5 = less %0 %1\n"
    subject = sums(lines + "out y[0] = %3\nout y[1] = %4\nout y[2] = %5\n")
    first, second, third = (number for _, number in subject.results)
    assert first == third != second
    assert terms(subject, first) == sorted([lone(0), lone(1, -1)], key=repr)
    assert terms(subject, second) == sorted([lone(0, -1), lone(1)], key=repr)
    assert subject.values[first].finish is subject.values[second].finish is Finish.SIGN
    # A difference with the same terms is another value.
    difference = sums("%3 = less %0 %1\n%4 = sub %0 %1\nout y[0] = %3\nout y[1] = %4\n")
    assert computed(difference) == 2


def test_results_that_nothing_computes_are_copies() -> None:
    subject = sums(
        "%3 = const [-6.0]\n%4 = const [0.0]\n%5 = reciprocal %0\n"
        "out y[0] = %3\nout y[1] = %0\nout y[2] = %4\nout y[3] = %5\n"
    )
    assert result(subject, 0) == [(-1, 0.75, 0.5, 4)]
    assert result(subject, 1) == [lone(0)]
    assert result(subject, 2) == [(1, 0.0, 0.5, 1)]
    # The unit takes its operand from a register, where no input is.
    inverse = subject.values[subject.results[3][1]]
    assert inverse.inverse is not None and not inverse.terms
    assert terms(subject, inverse.inverse) == [lone(0)]


def test_a_reciprocal_takes_a_sum_as_it_is_and_copies_a_negative_or_a_reciprocal() -> None:
    subject = sums(
        "%3 = add %0 %1\n%4 = neg %3\n%5 = reciprocal %3\n%6 = reciprocal %4\n"
        "%7 = reciprocal %5\nout y[0] = %5\nout y[1] = %6\nout y[2] = %7\nout y[3] = %4\n"
    )
    plain, negative, twice = (subject.values[number].inverse for _, number in subject.results[:3])
    assert plain is not None and negative is not None and twice is not None
    assert terms(subject, plain) == sorted([lone(0), lone(1)], key=repr)
    assert terms(subject, negative) == [lone(plain, -1)]
    assert terms(subject, twice) == [lone(subject.results[0][1])]
    assert result(subject, 3) == [lone(plain, -1)]


SELECTED = [lone(2), (1, 0, 1, 0), (-1, 0, 2, 0)]


@pytest.mark.parametrize(
    ("line", "compared", "expected"),
    [
        ("minimum %0 %1", [[(0, 1), (1, -1)]], [(1, 0, 0), (-1, 0, 1), (1, 1)]),
        ("maximum %0 %1", [[(1, 1), (0, -1)]], [(1, 0, 0), (-1, 0, 1), (1, 1)]),
        ("abs %2", [[(2, 1)]], [(-1, 0, 2), (-1, 0, 2), (1, 2)]),
        ("select %0 %1 %2", [[("1/2", 1), (0, -1)]], [(1, 0, 1), (-1, 0, 2), (1, 2)]),
    ],
)
def test_choices_are_products_with_comparisons(
    line: str, compared: list[list[tuple[object, int]]], expected: list[tuple[int, ...]]
) -> None:
    """In what is expected a product's first factor is the number of the comparison."""
    subject = sums(f"%3 = {line}\nout y[0] = %3")
    signs = [k for k, value in enumerate(subject.values) if value.finish is Finish.SIGN]
    assert [terms(subject, k) for k in signs] == [
        sorted(
            ((sign, 0.5, 0.5, 1) if k == "1/2" else lone(int(str(k)), sign) for k, sign in of),
            key=repr,
        )
        for of in compared
    ]
    products = [
        lone(term[1], term[0]) if len(term) == 2 else (term[0], signs[term[1]], term[2], 0)
        for term in expected
    ]
    assert result(subject) == sorted(products, key=repr)


def test_a_comparison_is_a_condition_as_it_is() -> None:
    subject = sums("%3 = less %0 %1\n%4 = select %3 %1 %2\nout y[0] = %4")
    assert computed(subject) == 2
    condition = next(k for k, v in enumerate(subject.values) if v.finish is Finish.SIGN)
    assert result(subject) == sorted(
        [lone(2), (1, condition, 1, 0), (-1, condition, 2, 0)], key=repr
    )


def test_a_clamp_compares_with_both_bounds() -> None:
    subject = sums("%3 = clamp %0 [-3.0, 0.75]\nout y[0] = %3")
    low, high = (k for k, value in enumerate(subject.values) if value.finish is Finish.SIGN)
    assert terms(subject, low) == sorted([lone(0), (1, 0.75, 0.5, 3)], key=repr)
    assert terms(subject, high) == sorted([lone(0, -1), (1, 0.75, 0.5, 1)], key=repr)
    assert result(subject) == sorted(
        [lone(0), (-1, low, 0.75, 2), (-1, low, 0, 0), (1, high, 0.75, 0), (-1, high, 0, 0)],
        key=repr,
    )


EVERYTHING = """
%3 = sin %0
%4 = cos %0
%5 = neg %0
%6 = sin %5
%7 = cos %1
%8 = abs %6
%9 = less %3 %4
%10 = select %9 %7 %8
%11 = const [3.0]
%12 = add %11 %4
%13 = reciprocal %12
%14 = clamp %13 [0.3, 0.4]
%15 = minimum %3 %7
%16 = maximum %15 %6
%17 = dot %3 %7 %4 %16 %13 [1, -1, 1]
%18 = const [100.0]
%19 = mul %18 %1
%20 = sin %19
out y[0] = %3
out y[1] = %4
out y[2] = %10
out y[3] = %14
out y[4] = %16
out y[5] = %17
out y[6] = %20
"""


def test_sums_compute_what_the_graph_does() -> None:
    subject, columns = sums(EVERYTHING), states(400)
    values = subject.evaluate(columns)
    for (word, number), expected in zip(subject.results, floats(EVERYTHING, columns), strict=True):
        # Of half the sine 1e-8 at most; a cosine is 1 minus twice its square.
        assert np.abs(values[number] - expected).max() < 4e-8, word


def test_sine_and_cosine_of_an_angle_share_its_turn_and_its_powers() -> None:
    alone = sums("%3 = sin %0\nout y[0] = %3")
    both = sums("%3 = sin %0\n%4 = cos %0\nout y[0] = %3\nout y[1] = %4")
    turns = [value for value in both.values if value.finish is Finish.WRAP]
    assert len(turns) == 1
    ((sign, angle, factor, power),) = terms(both, both.values.index(turns[0]))
    assert (sign, angle) == (1, 0)
    assert math.isclose(float(str(factor)) * 2.0**power, 1.0 / (2.0 * math.pi))
    assert len(polynomial("sin")) == 5 and len(polynomial("cos")) == 6
    # Turn, square, powers 2 to 5, half sine in two steps, half cosine, and the sine.
    assert computed(alone) == 10 and computed(both) == 11
    sine = result(both, 0)
    assert [term[0::3] for term in sine] == [(1, 1)]
    cosine = result(both, 1)
    half = sine[0][1]
    assert cosine == sorted([(-1, half, half, 1), (1, 0.5, 0.5, 2)], key=repr)


def test_values_are_evaluated_with_their_finish() -> None:
    values = (
        Value(word=Word.of("x")),
        Value(constant=0.5),
        Value(terms=(Summand(1, 0, 1, 1),), finish=Finish.WRAP),
        Value(terms=(Summand(1, 0, 1, 1),), finish=Finish.SIGN),
        Value(terms=(Summand(-1, 0, 0, -2), Summand(1, 0, 1, 3))),
        Value(inverse=4),
    )
    subject = Sums((Word.of("x"),), values, ())
    x = np.array([-0.75, -1e-300, 0.0, 0.25, 2.5, 5.0])
    with np.errstate(divide="ignore"):
        out = subject.evaluate({"x": x})
    assert [column.shape for column in out[:5]] == [x.shape] * 5
    assert out[1].tolist() == [0.5] * 6
    assert out[2].tolist() == [0.25, -1e-300, 0.0, 0.25, 0.5, 0.0]
    assert out[3].tolist() == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    assert out[4].tolist() == [-3.140625, -4e-300, 0.0, 0.984375, 8.4375, 13.75]
    assert out[5][-1] == 1.0 / 13.75


def test_places_of_words_in_the_record_and_the_readers_of_values() -> None:
    record = (Word.of("unread"), *RECORD[::-1])
    graph = parse_graph(INPUTS + "%3 = mul %0 %0\n%4 = reciprocal %3\nout y[0] = %4")
    subject = sums_of(graph, record)
    assert subject.record == record
    assert subject.arrivals == {0: 3, 1: 2, 2: 1}
    product = subject.values[subject.results[0][1]].inverse
    assert subject.users()[0] == [product] and subject.users()[1] == []
    assert product is not None and subject.users()[product] == [subject.results[0][1]]


def test_values_name_the_pass_and_line_of_their_nodes() -> None:
    origin = "@forward[3] #rnea.py:57"
    subject = sums(
        f"%3 = add %0 %1 {origin}\n%4 = reciprocal %3 {origin}\n%5 = neg %3 {origin}\n"
        f"%6 = sin %0 {origin}\n%7 = minimum %0 %1 {origin}\n"
        "out y[0] = %4\nout y[1] = %5\nout y[2] = %6\nout y[3] = %7\n"
    )
    named = [(v.region, v.line) for v in subject.values if v.operands]
    assert set(named) == {(Region.of("forward[3]"), "rnea.py:57")}


def test_what_a_program_cannot_compute_is_a_sentence() -> None:
    graph = parse_graph(
        '%0 = input ["x[0]"]\n%1 = input ["filter[0]"]\n%2 = add %0 %1\n'
        "out y[0] = %2\nstate filter[0] = %2 from 0.0\n"
    )
    with pytest.raises(
        ProgramError,
        match=r"^The function keeps the state 'filter\[0\]' from request to request, which "
        r"programs cannot do: build a core for it\.$",
    ):
        sums_of(graph, RECORD)
    for origin, name in (("#roots.py:7", "roots.py:7"), ("", "in the graph")):
        with pytest.raises(
            ProgramError,
            match=rf"^The processor cannot compute 'sqrt' \({name}\): build a core for this "
            r"function\.$",
        ):
            sums(f"%3 = sqrt %0 {origin}\nout y[0] = %3")
