"""Rules of sums and of sums of products: floats, formats, exact integers, sensitivities, C."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pinion.fixedpoint import Flags, Format, Ints, Overflow, Rounding, Wide, limit

from . import names
from .graph import Node

# Integers wider than this are carried in two limbs.
NARROW = 62

# Most bits by which integers in two limbs shift at once.
_MOST_SHIFT = 31

Exact = Ints | Wide


# Widths and fraction bits past this are no number format: floats end at 2**1023.
MOST_BITS = 1000


def shown(value: object) -> str:
    """A value for a message, cut off where it is long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # thousands of digits, or of brackets
        text = f"a very long {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:80]}..."


def format_complaint(width: object, frac: object) -> str:
    """What is wrong with two parameters that are to be a format, or an empty string."""
    if type(width) is int and type(frac) is int and 1 <= width <= MOST_BITS >= abs(frac):
        return ""
    return (
        f"A format is a width of 1 to {MOST_BITS} bits and -{MOST_BITS} to {MOST_BITS} of them "
        f"behind the point, as whole numbers: not {shown(width)} and {shown(frac)}."
    )


def number_complaint(value: object) -> str:
    """What is wrong with a parameter that is to be a number, or an empty string."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return ""
    except OverflowError:  # a whole number past the floats
        pass
    return f"A finite number is needed, not {shown(value)}."


def widen(x: Exact) -> Wide:
    """Integers in two limbs."""
    return x if isinstance(x, Wide) else Wide.of(x)


def sum_format(fmts: Sequence[Format]) -> Format:
    """Exact sum: a bit more for every doubling of the terms, one binary point."""
    if len({f.frac for f in fmts}) > 1:
        raise ValueError("The terms of an exact sum must share the weight of their last bit.")
    return Format(max(f.width for f in fmts) + (len(fmts) - 1).bit_length(), fmts[0].frac)


def product_format(a: Format, b: Format) -> Format:
    """Exact product."""
    return Format(a.width + b.width, a.frac + b.frac)


def pairs(items: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Factors of each product of a dot; an addend behind them is left out."""
    return list(zip(items[: len(items) - 1 : 2], items[1::2], strict=True))


def addend(items: Sequence[Any]) -> Any:
    """What a dot adds to its products: the last of an odd number of operands, None without one."""
    return items[-1] if len(items) % 2 else None


def term_signs(node: Node) -> tuple[int, ...]:
    """Sign of each summand."""
    if node.op in (names.ADD, names.SUB):
        return 1, 1 if node.op == names.ADD else -1
    return tuple(int(sign) for sign in node.params)


def sum_floats(node: Node, x: Sequence[Any]) -> Any:
    """Sum with signs."""
    total = x[0]
    for sign, term in zip(term_signs(node)[1:], x[1:], strict=True):
        total = total + term if sign > 0 else total - term
    return total


def sum_integers(
    node: Node, x: Sequence[Exact], fmts: Sequence[Format]
) -> tuple[Exact, Flags | None]:
    """Exact sum, in two limbs where it is wider than 62 bits."""
    wide = sum_format(fmts).width > NARROW or any(isinstance(term, Wide) for term in x)
    terms: list[Any] = [widen(term) if wide else term for term in x]
    total = terms[0]
    for sign, term in zip(term_signs(node)[1:], terms[1:], strict=True):
        total = total + (term if sign > 0 else -term)
    return total, None


def quantized(
    value: Exact, source: Format, target: Format, rounding: Rounding, overflow: Overflow
) -> tuple[Exact, Flags | None]:
    """Exact integers rounded and limited to another format, and which of them that changed."""
    shift = source.frac - target.frac
    if shift < 0:
        if isinstance(value, Wide):
            return limit((value << -shift).round_shift(0, rounding), target, overflow)
        if source.width - shift > NARROW:
            return limit((Wide.of(value) << -shift).round_shift(0, rounding), target, overflow)
        return limit(value << -shift, target, overflow)
    if isinstance(value, Wide):
        return limit(value.round_shift(shift, rounding), target, overflow)
    return limit(Wide.of(value).round_shift(shift, rounding), target, overflow)


def signs_complaint(node: Node, terms: int) -> str:
    """What is wrong with the signs of a sum or a dot, or an empty string."""
    if len(node.params) != terms or not node.params:
        return f"{node.op} has {terms} terms and {len(node.params)} signs, not one a term."
    if any(type(sign) is not int or sign not in (1, -1) for sign in node.params) or (
        node.params[0] != 1
    ):
        return f"{node.op}'s signs are 1 or -1 and the first one is 1, not {shown(node.params)}."
    return ""


def neg_integers(
    node: Node, x: Sequence[Exact], fmts: Sequence[Format]
) -> tuple[Exact, Flags | None]:
    """Exact negation."""
    return -x[0], None


def dot_format(node: Node, fmts: Sequence[Format]) -> Format:
    """Exact sum of products, and of an addend whose last bit weighs no less than theirs."""
    terms = [product_format(a, b) for a, b in pairs(fmts)]
    if (other := addend(fmts)) is not None:
        if other.frac > terms[0].frac:
            raise ValueError(
                f"A dot's addend has {other.frac} fraction bits and its products have "
                f"{terms[0].frac}: quantize the addend to as many or fewer."
            )
        terms.append(Format(other.width + terms[0].frac - other.frac, terms[0].frac))
    return sum_format(terms)


def product_signs(node: Node) -> tuple[int, ...]:
    """Sign of each product; a mul is a dot of one product."""
    return tuple(int(sign) for sign in node.params[: len(node.args) // 2]) or (1,)


def dot_floats(node: Node, x: Sequence[Any]) -> Any:
    """Sum of products with signs."""
    total: Any = None
    for sign, (a, b) in zip(product_signs(node), pairs(x), strict=True):
        term = a * b if sign > 0 else -(a * b)
        total = term if total is None else total + term
    return total if (other := addend(x)) is None else total + other


def dot_integers(
    node: Node, x: Sequence[Exact], fmts: Sequence[Format]
) -> tuple[Exact, Flags | None]:
    """Exact sum of products, in two limbs where it is wider than 62 bits."""
    narrow = dot_format(node, fmts).width <= NARROW
    total: Any = None
    for sign, (a, b) in zip(product_signs(node), pairs(x), strict=True):
        term: Any = a * b if narrow else Wide.product(a, b)
        term = term if sign > 0 else -term
        total = term if total is None else total + term
    if (other := addend(x)) is not None:
        left = fmts[0].frac + fmts[1].frac - addend(fmts).frac
        term = other if narrow else widen(other)
        while left:  # two limbs shift by less than one of them at a time
            step = min(left, _MOST_SHIFT)
            term, left = term << step, left - step
        total = total + term
    return total, None


def dot_derivative(node: Node, x: Sequence[Any]) -> list[Any]:
    """Partial derivatives by each factor."""
    partials: list[Any] = []
    for sign, (a, b) in zip(product_signs(node), pairs(x), strict=True):
        partials += [b * sign, a * sign]
    return partials if addend(x) is None else [*partials, 1.0]


def dot_check(node: Node) -> str:
    """What is wrong with a dot, or an empty string."""
    products = len(node.args) // 2
    if len(node.args) % 2 == 0 or len(node.params) != products + 1 or not products:
        if len(node.args) != 2 * len(node.params) or not node.params:
            return (
                f"dot has {len(node.args)} operands and {len(node.params)} signs, not two a sign "
                "and one of an addend."
            )
        return signs_complaint(node, products)
    if any(type(sign) is not int or sign not in (1, -1) for sign in node.params) or (
        node.params[-1] != 1
    ):
        return f"dot's signs are 1 or -1 and an addend's is 1, not {shown(node.params)}."
    return ""
