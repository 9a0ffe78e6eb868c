"""Bit-exact integer evaluation of a function's sums, without modelling lanes or cycles."""

from __future__ import annotations

import numpy as np

from pinion.base.arrays import Flags, Floats, Ints, Words
from pinion.fixedpoint import Format
from pinion.fixedpoint.float32 import fixed_to_float32, float32_to_fixed

from .arithmetic import HALF_UNIT, finished, product, reciprocal
from .machine import Machine
from .points import Points
from .sums import Sums


def exact_results(
    sums: Sums, points: Points, machine: Machine, columns: dict[str, Floats]
) -> tuple[Words, Flags]:
    """Return results (n, words_out) as float32 bits, and flags (n,).

    Parameters
    ----------
    columns : (n,) by input word, rounded to float32 as requests are.
    """
    count = len(next(iter(columns.values())))
    flags = np.zeros(count, dtype=np.bool_)
    values: list[Ints] = []
    for number, value in enumerate(sums.values):
        fmt = Format(machine.word, points.fracs[number])
        lost: Flags | bool = False
        if value.word is not None:
            bits = columns[str(value.word)].astype(np.float32).view(np.uint32)
            integers, lost = float32_to_fixed(bits, fmt)
        elif value.constant is not None:
            integers = np.full(count, round(value.constant * 2.0**fmt.frac), dtype=np.int64)
        elif value.inverse is not None:
            together = points.fracs[value.inverse] + fmt.frac
            integers, lost = reciprocal(values[value.inverse], together, machine)
        else:
            total: Ints = np.full(count, HALF_UNIT)
            for slot in points.slots[number]:
                total = total + product(
                    values[slot.a],
                    values[slot.b],
                    slot.half,
                    slot.shift,
                    negate=slot.negate,
                    machine=machine,
                )
            integers, lost = finished(total, value.finish, machine)
        flags |= lost
        values.append(integers)
    words = np.empty((count, len(sums.results)), dtype=np.uint32)
    for place, (_, number) in enumerate(sums.results):
        words[:, place] = fixed_to_float32(
            values[number], Format(machine.word, points.fracs[number])
        )
    return words, flags
