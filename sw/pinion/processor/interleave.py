"""Interleaving of samples: one program that computes a function of several inputs.

The latency of one sample is hidden by slots of the others, as with interleaved iterations of a loop
whose results do not depend on each other.
"""

from __future__ import annotations

from dataclasses import replace

from pinion.graph import Word

from .errors import ProgramError
from .machine import MOST_INTERLEAVED
from .points import Points, Slot
from .sums import Sums, Value


def check_interleave(samples: object) -> None:
    """Raise an error for a number of samples that a program cannot interleave.

    Raises
    ------
    ProgramError
        If it is not a whole number from 1 to :data:`.machine.MOST_INTERLEAVED`.
    """
    if type(samples) is not int or not 1 <= samples <= MOST_INTERLEAVED:
        raise ProgramError(
            f"A program interleaves 1 to {MOST_INTERLEAVED} samples, not {samples!r}."
        )


def interleaved(sums: Sums, points: Points, samples: int) -> tuple[Sums, Points]:
    """Return sums and points of a function for several samples, whose records follow each other.

    Value n of sample s has the number ``s * len(sums.values) + n``. Other samples than the first
    read its constants, and their words have the sample's number before the other indices.
    """
    copies = [_Copy(sums, sample) for sample in range(samples)]
    return (
        Sums(
            record=tuple(copy.word(word) for copy in copies for word in sums.record),
            values=tuple(copy.value(value) for copy in copies for value in sums.values),
            results=tuple(
                (copy.word(word), copy.number(number))
                for copy in copies
                for word, number in sums.results
            ),
            interleave=samples,
        ),
        Points(
            fracs=points.fracs * samples,
            ends=points.ends * samples,
            slots=tuple(
                tuple(copy.slot(slot) for slot in slots)
                for copy in copies
                for slots in points.slots
            ),
        ),
    )


class _Copy:
    """The sums of one sample."""

    def __init__(self, sums: Sums, sample: int) -> None:
        self.sums = sums
        self.sample = sample

    def number(self, of_first: int) -> int:
        """Return the number of a value of the first sample in this one."""
        if self.sums.values[of_first].constant is not None:
            return of_first
        return self.sample * len(self.sums.values) + of_first

    def word(self, of_first: Word) -> Word:
        if not self.sample:
            return of_first
        return Word(of_first.block, (self.sample, *of_first.indices))

    def value(self, of_first: Value) -> Value:
        terms = (
            replace(term, a=self.number(term.a), b=self.number(term.b)) for term in of_first.terms
        )
        inverse, word = of_first.inverse, of_first.word
        return replace(
            of_first,
            terms=tuple(terms),
            inverse=None if inverse is None else self.number(inverse),
            word=None if word is None else self.word(word),
        )

    def slot(self, of_first: Slot) -> Slot:
        return replace(of_first, a=self.number(of_first.a), b=self.number(of_first.b))
