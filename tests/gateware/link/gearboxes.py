"""Shapes of records, and the bench that packer and unpacker share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.gateware.link.streams import Data, batches, differs, often, stream

# word, words_per_beat, record, lanes, beats
REAL = [
    (32, 16, 49, 7, 7),
    (32, 16, 105, 14, 8),
    (32, 16, 98, 13, 8),
    (32, 16, 98, 14, 7),
    (32, 16, 21, 3, 7),
    (32, 16, 7, 1, 7),
]
SHAPES = [
    *REAL,
    (8, 16, 1, 1, 1),
    (8, 16, 3, 3, 1),
    (8, 16, 5, 2, 3),
    (8, 16, 16, 16, 1),
    (8, 16, 15, 15, 1),
    (8, 16, 17, 16, 2),
    (8, 16, 33, 11, 3),
    (8, 16, 32, 8, 4),
    (8, 16, 1000, 15, 67),
    (8, 8, 13, 5, 3),
    (4, 4, 6, 4, 2),
    (4, 2, 3, 1, 3),
    (1, 2, 1, 1, 1),
]

Shape = tuple[int, int, int, int, int]


def parameters(shape: Shape) -> dict[str, int]:
    names = ("word", "words_per_beat", "record", "lanes", "beats")
    return dict(zip(names, shape, strict=True))


def counts(shape: Shape) -> list[int]:
    """Records of each batch: single ones next to each other, and many."""
    return [1, 1, 2, 1, 5, 1, 3, 16] if shape[2] < 200 else [1, 2]


Payloads = Callable[[Shape, Data], tuple[list[int], list[int]]]
"""Input and expected output of a gearbox for batches."""


def run(
    component: Any, payloads: Payloads, shape: Shape, seed: int, idle: float, stall: float
) -> str:
    """Compare a gearbox with its model under random pauses."""
    data = batches(seed, word=shape[0], record=shape[2], counts=counts(shape))
    into, out = payloads(shape, data)
    pauses = {"idle": often(seed, idle), "stall": often(seed + 1, stall)}
    trace = stream(component(**parameters(shape)), into, expect=len(out), **pauses)
    return differs(trace.payloads, out)


def reset_within(component: Any, payloads: Payloads, at: int) -> str:
    """Compare a gearbox with its model after two resets within batches."""
    shape = (8, 16, 21, 3, 7)
    into, out = payloads(shape, batches(at, word=8, record=21, counts=[3, 2]))
    dut = component(**parameters(shape))
    trace = stream(dut, into, expect=len(out), stall=often(at, 0.1), resets=(at, at + 13))
    return differs(trace.payloads, out)
