"""Shifting a word until its highest bit says something, a few binary digits of the way a cycle."""

from __future__ import annotations

from amaranth.hdl import C, Cat, Module, Signal, Value

DIGITS = 4
"""Distances of so many binary digits are found and shifted by in one cycle."""


def parts(bits: int, most: int) -> tuple[int, ...]:
    """`bits` in the fewest parts of at most `most`, as equal as can be, the larger ones first."""
    count = -(-bits // most)
    return tuple((bits + count - 1 - i) // count for i in range(count))


def leading_signs(
    m: Module, value: Value, sign: Value, cases: int, weight: int, name: str
) -> Signal:
    """Leading groups of `weight` bits that all are `sign`, fewer than `cases` of them."""
    digit = Signal(range(cases), name=f"{name}_digit")
    width = len(value)
    m.d.comb += digit.eq(cases - 1)
    for i in reversed(range(cases - 1)):
        group = value[max(width - (i + 1) * weight, 0) : max(width - i * weight, 0)]
        with m.If((group ^ sign.replicate(len(group))).any()):
            m.d.comb += digit.eq(i)
    return digit


def shift(
    m: Module, value: Value, digit: Value, cases: int, weight: int, name: str, *, left: bool
) -> Signal:
    """`value` shifted by ``digit * weight``, a digit below `cases`, in as many bits as it has."""
    shifted = Signal(len(value), name=f"{name}_shifted")
    with m.Switch(digit):
        for i in range(cases):
            distance = i * weight
            moved = Cat(C(0, distance), value) if left else value >> distance
            # Digits past the last never matter: let them cost nothing.
            with m.Case(i) if i < cases - 1 else m.Default():
                m.d.comb += shifted.eq(moved)
    return shifted
