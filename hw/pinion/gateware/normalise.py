"""Normalisation of a word by shifts, with a few bits of the shift distance per cycle."""

from __future__ import annotations

from amaranth.hdl import C, Cat, Module, Signal, Value

DIGITS = 4
"""Binary digits of the distance that are determined and applied in one cycle."""


def parts(bits: int, most: int) -> tuple[int, ...]:
    """Split `bits` into the fewest parts of at most `most`, nearly equal, larger ones first."""
    count = -(-bits // most)
    return tuple((bits + count - 1 - i) // count for i in range(count))


def leading_signs(
    m: Module, value: Value, sign: Value, cases: int, weight: int, name: str
) -> Signal:
    """Count leading groups of `weight` bits that all equal `sign`, up to ``cases - 1``."""
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
    """Shift `value` by ``digit * weight``, with a digit below `cases`, and keep its width."""
    shifted = Signal(len(value), name=f"{name}_shifted")
    with m.Switch(digit):
        for i in range(cases):
            distance = i * weight
            moved = Cat(C(0, distance), value) if left else value >> distance
            # Larger digits never occur and must not cost logic.
            with m.Case(i) if i < cases - 1 else m.Default():
                m.d.comb += shifted.eq(moved)
    return shifted
