"""Bench of the stream components: payloads in and out, with their cycles."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from amaranth.hdl import ResetInserter, Signal, Value
from amaranth.sim import Simulator

Pause = Callable[[int], bool]


def never(cycle: int) -> bool:
    """Never pause."""
    return False


def often(seed: int, share: float) -> Pause:
    """Return random pauses in a share of the cycles; a share of 0.5 has long pauses and runs."""
    rng = random.Random(seed)
    pauses = [rng.random() < share for _ in range(509)]
    if share == 0.5:
        pauses = [pauses[k // 11] for k in range(509)]
    return lambda cycle: pauses[cycle % 509]


PAUSES = [(0.5, 0.1), (0.1, 0.9), (0.9, 0.5)]
"""Shares of idle and of stalled cycles."""

TAIL = 12


class StreamError(AssertionError):
    """A component violated the contract of a stream."""


@dataclass
class Trace:
    """Output payloads as integers, and the cycles of acceptances, offers and deliveries."""

    accepted: list[int] = field(default_factory=list)
    delivered: list[int] = field(default_factory=list)
    offered: list[int] = field(default_factory=list)
    payloads: list[int] = field(default_factory=list)


def stream(
    dut: Any,
    items: Sequence[int],
    *,
    expect: int,
    idle: Pause = never,
    stall: Pause = never,
    limit: int = 600,
    resets: Collection[int] = (),
    ignored: bool = False,
) -> Trace:
    """Send payloads through a component and record its output.

    Parameters
    ----------
    dut : component with streams ``i`` and ``o`` in domain "sync".
    items : input payloads, as integers.
    expect : number of output payloads; a few more cycles are checked for surplus ones.
    idle, stall : whether the sender or the receiver pauses, by cycle; an offered payload stays.
    limit : cycles without progress after which the component counts as stopped.
    resets : cycles with an inserted reset of the component, after which the sender restarts.
    ignored : the resets must not affect the component, and the sender continues.

    Raises
    ------
    StreamError
        If an offered payload is changed or withdrawn, or the component stops.
    """
    trace = Trace()
    reset = Signal()
    i_payload, o_payload = Value.cast(dut.i.payload), Value.cast(dut.o.payload)

    async def bench(ctx: Any) -> None:
        sent, pending, waiting, quiet, progress = 0, False, None, 0, 0
        for cycle in count():
            resetting = cycle in resets
            restart = resetting and not ignored
            pending = sent < len(items) and (pending or not idle(cycle)) and not restart
            ready = not stall(cycle) and not restart
            ctx.set(reset, resetting)
            ctx.set(dut.i.valid, pending)
            ctx.set(i_payload, items[sent] if pending else 0)
            ctx.set(dut.o.ready, ready)
            payload = ctx.get(o_payload) if ctx.get(dut.o.valid) else None
            if waiting is not None and not restart:
                if payload != waiting:
                    raise StreamError(
                        f"Cycle {cycle}: {waiting:#x} was on offer and is {payload} now."
                    )
            elif payload is not None:
                trace.offered.append(cycle)
            waiting = None if ready else payload
            if payload is not None and ready:
                trace.payloads.append(payload)
                trace.delivered.append(cycle)
                progress = cycle
            if pending and ctx.get(dut.i.ready):
                trace.accepted.append(cycle)
                sent, pending, progress = sent + 1, False, cycle
            if restart:
                sent, pending, waiting = 0, False, None
                for values in vars(trace).values():
                    values.clear()
            finished = sent == len(items) and len(trace.payloads) >= expect
            quiet = quiet + 1 if finished else 0
            if quiet > TAIL:
                return
            if cycle - progress > limit:
                raise StreamError(
                    f"No progress for {limit} cycles: {sent} of {len(items)} payloads are in, "
                    f"{len(trace.payloads)} of {expect} are out."
                )
            await ctx.tick()

    simulator = Simulator(ResetInserter(reset)(dut))
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return trace


def differs(payloads: Sequence[int], expected: Sequence[int]) -> str:
    """Return the first difference between payloads as a sentence, or ""."""
    for n, (payload, want) in enumerate(zip(payloads, expected, strict=False)):
        if payload != want:
            return f"Payload {n} is {payload:#x} instead of {want:#x}."
    if len(payloads) != len(expected):
        return f"{len(payloads)} payloads instead of {len(expected)}."
    return ""


Data = list[list[list[int]]]

# The models: words are integers, a batch is a list of records, a record a list of words.


def batches(seed: int, *, word: int, record: int, counts: Sequence[int]) -> Data:
    """Return random words by batch and record."""
    rng = random.Random(seed)
    return [[[rng.getrandbits(word) for _ in range(record)] for _ in range(n)] for n in counts]


def concat(words: Sequence[int], word: int) -> int:
    """Return the words of a beat as one integer, word 0 lowest."""
    return sum(value << (word * k) for k, value in enumerate(words))


def wide_beats(batches: Data, *, word: int, words_per_beat: int) -> list[tuple[int, bool, int]]:
    """Return dense beats as (data, last, words); padding is zero."""
    beats = []
    for batch in batches:
        words = [value for record in batch for value in record]
        starts = range(0, len(words), words_per_beat)
        for start in starts:
            part = words[start : start + words_per_beat]
            beats.append((concat(part, word), start == starts[-1], len(part)))
    return beats


def core_beats(batches: Data, *, word: int, lanes: int) -> list[tuple[int, bool, bool]]:
    """Return record-aligned beats as (data, last of record, in the last record of its batch)."""
    beats = []
    for batch in batches:
        for n, record in enumerate(batch):
            starts = range(0, len(record), lanes)
            for start in starts:
                data = concat(record[start : start + lanes], word)
                beats.append((data, start == starts[-1], n == len(batch) - 1))
    return beats
