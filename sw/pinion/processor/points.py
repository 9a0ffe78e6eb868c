"""Binary points of values, and the slots of each product.

A word has as many fraction bits as its range over the states allows. A product is exact to the LSBs
of its operands in two slots, one for the high and one for the low bits of B; one slot, with B
rounded, is enough where that hardly changes the results.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pinion.base.arrays import Floats
from pinion.formats.signals import tight
from pinion.graph.ranges import chunks

from .errors import ProgramError
from .machine import GUARD, SHIFTS, Finish, Half, Machine
from .sensitivity import Effects
from .sums import Summand, Sums, Value

MARGIN = 2.0
"""Factor by which ranges exceed those of the states: a bit of a word, for states beyond them."""


@dataclass(frozen=True, kw_only=True)
class Slot:
    """One product of a sum.

    Members
    -------
    a, b : values.
    half : which bits of b.
    shift : bits by which the product is shifted to the right.
    negate : whether it is subtracted.
    """

    a: int
    b: int
    half: Half
    shift: int
    negate: bool


@dataclass(frozen=True, kw_only=True)
class Points:
    """Formats of a function's values, and the slots of its sums.

    Members
    -------
    fracs : fraction bits of each value.
    ends : fraction bits of each sum when it ends, which differ from `fracs` for a comparison.
    slots : slots of each value that is a sum, empty for others.
    """

    fracs: tuple[int, ...]
    ends: tuple[int, ...]
    slots: tuple[tuple[Slot, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Reach:
    """Largest and smallest magnitude of each value over states."""

    largest: tuple[float, ...]
    smallest: tuple[float, ...]

    @classmethod
    def of(cls, sums: Sums, distributions: Iterable[Mapping[str, Floats]]) -> Reach:
        """Measure the magnitudes over all distributions' states, columns (n,) by input word."""
        count = len(sums.values)
        largest, smallest = np.zeros(count), np.full(count, np.inf)
        for columns in distributions:
            for part in chunks(columns):
                for number, value in enumerate(sums.evaluate(part)):
                    sizes = np.abs(value)
                    # Of NaN both are NaN.
                    largest[number] = np.maximum(largest[number], np.max(sizes))
                    smallest[number] = np.minimum(smallest[number], np.min(sizes))
        return cls(largest=tuple(largest.tolist()), smallest=tuple(smallest.tolist()))


def choose_points(
    sums: Sums,
    reach: Reach,
    machine: Machine,
    *,
    effects: Effects,
    threshold: float,
) -> Points:
    """Choose the binary points of a function's values and the slots of its products.

    Parameters
    ----------
    effects : of errors in the factors of products.
    threshold : effect that rounding a factor may have.

    Raises
    ------
    ProgramError
        If a value is not finite over the states, or reciprocals reach infinity.
    """
    fracs: list[int] = []
    ends: list[int] = []
    slots: list[tuple[Slot, ...]] = []
    for number, value in enumerate(sums.values):
        largest = reach.largest[number] * MARGIN
        if not math.isfinite(largest):
            raise ProgramError(
                f"A value of {value.line or 'the graph'} is not finite in some states: no format "
                "can hold it."
            )
        if value.constant is not None:
            fracs.append(tight(abs(value.constant), machine.word))
        elif value.finish == Finish.WRAP:
            if min(_finest(t, fracs, machine) for t in value.terms) < machine.word:
                # The value itself is within half a turn.
                turns = _bound(value, reach)
                raise ProgramError(
                    f"The angle of a sine or cosine ({value.line or 'in the graph'}) reaches "
                    f"{turns:.3g} turns over the states, more than the processor can wrap: build "
                    "a core."
                )
            fracs.append(machine.word)
        elif value.inverse is not None:
            fracs.append(tight(MARGIN / reach.smallest[value.inverse], machine.word))
        else:
            finest = min((_finest(t, fracs, machine) for t in value.terms), default=10**6)
            fracs.append(min(tight(largest, machine.word), finest))
        ends.append(fracs[-1])
        limit = threshold
        if value.finish == Finish.SIGN:
            # Of a comparison the sum itself counts, in full.
            size = MARGIN * _bound(value, reach)
            ends[-1] = min(tight(size or 1.0, machine.word), finest)
            fracs[-1], limit = machine.word - 2, 0.0
        slots.append(
            tuple(
                slot
                for term, pair in zip(value.terms, effects[number], strict=True)
                for slot in _slots(sums, term, fracs, ends[-1], pair, machine, limit)
            )
        )
        if value.terms and not slots[-1]:
            raise ProgramError(
                f"A sum of {value.line or 'the graph'} is zero in every state: build a core."
            )
    return Points(fracs=tuple(fracs), ends=tuple(ends), slots=tuple(slots))


def _bound(value: Value, reach: Reach) -> float:
    """Return the sum of the largest magnitudes of a value's terms."""
    return sum(reach.largest[t.a] * reach.largest[t.b] * 2.0**t.power for t in value.terms)


def _product_frac(term: Summand, fracs: Sequence[int], machine: Machine) -> int:
    """Return the fraction bits of a product with the high bits of B."""
    return fracs[term.a] + fracs[term.b] - machine.low - term.power


def _finest(term: Summand, fracs: Sequence[int], machine: Machine) -> int:
    """Return the largest number of fraction bits that a sum with this term can have."""
    return _product_frac(term, fracs, machine) - GUARD - SHIFTS[0]


def _slots(
    sums: Sums,
    term: Summand,
    fracs: Sequence[int],
    end: int,
    effects: tuple[float, float],
    machine: Machine,
    allowed: float,
) -> list[Slot]:
    """Return the slots of a product: one with B rounded, or one for each half of B."""
    losses = {
        (a, b): 0.0
        if _is_short(sums.values[b], fracs[b], machine)
        # The error is half a unit of the high bits of B.
        else effect * 2.0 ** (machine.low - fracs[b] - 1)
        for (a, b), effect in (
            ((term.a, term.b), effects[1]),
            ((term.b, term.a), effects[0]),
        )
    }
    (a, b), loss = min(losses.items(), key=lambda item: item[1])
    shift = _product_frac(term, fracs, machine) - end - GUARD
    slots = [(Half.ROUNDED, shift)]
    if loss > allowed:
        slots = [(Half.HIGH, shift), (Half.LOW, shift + machine.low)]
    return [
        Slot(a=a, b=b, half=h, shift=s, negate=term.sign < 0)
        for h, s in slots
        # What is shifted further is below the guard bits.
        if s <= SHIFTS[1]
    ]


def _is_short(value: Value, frac: int, machine: Machine) -> bool:
    """Return whether a value is a constant or a comparison whose word has no low bits."""
    if value.constant is None:
        return value.finish == Finish.SIGN
    return round(value.constant * 2.0**frac) % (1 << machine.low) == 0
