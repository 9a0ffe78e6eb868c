"""Rules of sums and of sums of products: floats, formats, exact integers, derivatives, checks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pinion.base.amounts import amount
from pinion.base.arrays import Flags, Ints
from pinion.fixedpoint import Format, Overflow, Rounding, Wide, limit

from . import names
from .graph import Node

# Wider integers are carried in two limbs.
NARROW = 62

# Largest shift of integers in two limbs.
_MOST_SHIFT = 31

Exact = Ints | Wide


# Widths and fraction bits beyond this are no number format: floats end at 2**1023.
MOST_BITS = 1000


def value_text(value: object) -> str:
    """Return a value as text for a message, truncated if long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # thousands of digits, or of brackets
        text = f"a very long {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:80]}..."


def format_complaint(width: object, frac: object) -> str:
    """Return what is wrong with a format's width and fraction bits, or an empty string."""
    if type(width) is int and type(frac) is int and 1 <= width <= MOST_BITS >= abs(frac):
        return ""
    return (
        f"A format cannot have a width of {value_text(width)} and {value_text(frac)} fraction "
        f"bits: give whole numbers, the width from 1 to {MOST_BITS} and the fraction bits from "
        f"-{MOST_BITS} to {MOST_BITS}."
    )


def format_check(node: Node) -> str:
    """Return what is wrong with the format among the parameters of a node, or an empty string."""
    return format_complaint(*node.params) if node.params else ""


def number_complaint(value: object) -> str:
    """Return why a value is not a finite number, or an empty string if it is one."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return ""
    except OverflowError:  # a whole number beyond the floats
        pass
    return f"A finite number is needed, not {value_text(value)}."


def widen(x: Exact) -> Wide:
    """Split integers into two limbs."""
    return x if isinstance(x, Wide) else Wide.of(x)


def sum_format(fmts: Sequence[Format]) -> Format:
    """Return the format of an exact sum: one more bit for every doubling of the term count."""
    if len({f.frac for f in fmts}) > 1:
        raise ValueError(
            "The terms of an exact sum must have the same LSB, but their formats are "
            f"{', '.join(f.name for f in fmts)}: quantize them."
        )
    return Format(max(f.width for f in fmts) + (len(fmts) - 1).bit_length(), fmts[0].frac)


def product_format(a: Format, b: Format) -> Format:
    """Return the format of an exact product."""
    return Format(a.width + b.width, a.frac + b.frac)


def pairs(items: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return the factors of each product of a dot, leaving out an addend."""
    return list(zip(items[: len(items) - 1 : 2], items[1::2], strict=True))


def addend(items: Sequence[Any]) -> Any:
    """Return the addend of a dot: the last of an odd number of operands, otherwise None."""
    return items[-1] if len(items) % 2 else None


def term_signs(node: Node) -> tuple[int, ...]:
    """Return the sign of each summand."""
    if node.op in (names.ADD, names.SUB):
        return 1, 1 if node.op == names.ADD else -1
    return tuple(int(sign) for sign in node.params)


def sum_floats(node: Node, x: Sequence[Any]) -> Any:
    """Return the sum of the signed operands."""
    total = x[0]
    for sign, term in zip(term_signs(node)[1:], x[1:], strict=True):
        total = total + term if sign > 0 else total - term
    return total


def sum_integers(
    node: Node, x: Sequence[Exact], fmts: Sequence[Format]
) -> tuple[Exact, Flags | None]:
    """Return the exact sum of the signed operands, in two limbs if wider than 62 bits."""
    wide = sum_format(fmts).width > NARROW or any(isinstance(term, Wide) for term in x)
    terms: list[Any] = [widen(term) if wide else term for term in x]
    total = terms[0]
    for sign, term in zip(term_signs(node)[1:], terms[1:], strict=True):
        total = total + (term if sign > 0 else -term)
    return total, None


def quantized(
    value: Exact, source: Format, target: Format, rounding: Rounding, overflow: Overflow
) -> tuple[Exact, Flags | None]:
    """Round and limit exact integers to another format; the flags mark integers out of range."""
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
    """Return what is wrong with the signs of a sum or a dot, or an empty string."""
    if len(node.params) != terms or not node.params:
        signs = amount(len(node.params), "sign")
        return f"{node.op} has {amount(terms, 'term')} but {signs}; it needs one per term."
    if any(type(sign) is not int or sign not in (1, -1) for sign in node.params) or (
        node.params[0] != 1
    ):
        return f"{node.op}'s signs must be 1 or -1, the first one 1, not {value_text(node.params)}."
    return ""


def neg_integers(
    node: Node, x: Sequence[Exact], fmts: Sequence[Format]
) -> tuple[Exact, Flags | None]:
    """Return the negated operand, which is exact."""
    return -x[0], None


def dot_format(node: Node, fmts: Sequence[Format]) -> Format:
    """Return the format of an exact sum of products and an addend no finer than the products."""
    terms = [product_format(a, b) for a, b in pairs(fmts)]
    if (other := addend(fmts)) is not None:
        if other.frac > terms[0].frac:
            raise ValueError(
                f"A dot's addend has {amount(other.frac, 'fraction bit')} but its products have "
                f"{terms[0].frac}: quantize the addend to as many or fewer."
            )
        terms.append(Format(other.width + terms[0].frac - other.frac, terms[0].frac))
    return sum_format(terms)


def product_signs(node: Node) -> tuple[int, ...]:
    """Return the sign of each product; a mul is a dot of one product."""
    return tuple(int(sign) for sign in node.params[: len(node.args) // 2]) or (1,)


def dot_floats(node: Node, x: Sequence[Any]) -> Any:
    """Return the sum of the signed products, and of the addend if there is one."""
    total: Any = None
    for sign, (a, b) in zip(product_signs(node), pairs(x), strict=True):
        term = a * b if sign > 0 else -(a * b)
        total = term if total is None else total + term
    return total if (other := addend(x)) is None else total + other


def dot_integers(
    node: Node, x: Sequence[Exact], fmts: Sequence[Format]
) -> tuple[Exact, Flags | None]:
    """Return the exact sum of signed products and addend, in two limbs if wider than 62 bits."""
    narrow = dot_format(node, fmts).width <= NARROW
    total: Any = None
    for sign, (a, b) in zip(product_signs(node), pairs(x), strict=True):
        term: Any = a * b if narrow else Wide.product(a, b)
        term = term if sign > 0 else -term
        total = term if total is None else total + term
    if (other := addend(x)) is not None:
        left = fmts[0].frac + fmts[1].frac - addend(fmts).frac
        term = other if narrow else widen(other)
        while left:  # two limbs shift by less than one limb at a time
            step = min(left, _MOST_SHIFT)
            term, left = term << step, left - step
        total = total + term
    return total, None


def dot_derivative(node: Node, x: Sequence[Any]) -> list[Any]:
    """Return the partial derivative of a dot with respect to each operand."""
    partials: list[Any] = []
    for sign, (a, b) in zip(product_signs(node), pairs(x), strict=True):
        partials += [b * sign, a * sign]
    return partials if addend(x) is None else [*partials, 1.0]


def dot_check(node: Node) -> str:
    """Return what is wrong with a dot's operands and signs, or an empty string."""
    products = len(node.args) // 2
    if len(node.args) % 2 == 0 or len(node.params) != products + 1 or not products:
        if len(node.args) != 2 * len(node.params) or not node.params:
            return (
                f"dot has {amount(len(node.args), 'operand')} and "
                f"{amount(len(node.params), 'sign')}; it needs two operands and a sign per "
                "product, and an operand and a sign for an addend."
            )
        return signs_complaint(node, products)
    if any(type(sign) is not int or sign not in (1, -1) for sign in node.params) or (
        node.params[-1] != 1
    ):
        return f"dot's signs must be 1 or -1, an addend's 1, not {value_text(node.params)}."
    return ""
