"""The bench of the stream components: payloads in, payloads out, and every cycle in between."""

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
    """No pause at all."""
    return False


def often(seed: int, share: float) -> Pause:
    """Pauses at random, a share of the cycles; half of them means long pauses and long runs."""
    rng = random.Random(seed)
    pauses = [rng.random() < share for _ in range(509)]
    if share == 0.5:
        pauses = [pauses[k // 11] for k in range(509)]
    return lambda cycle: pauses[cycle % 509]


PAUSES = [(0.5, 0.1), (0.1, 0.9), (0.9, 0.5)]
"""Shares of idle and of stalled cycles."""

TAIL = 12


class StreamError(AssertionError):
    """A component broke the contract of a stream."""


@dataclass
class Trace:
    """What happened: payloads as integers, and the cycle of each acceptance and each offer."""

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
    """Send payloads through a component and note what comes out.

    Parameters
    ----------
    dut : component with streams ``i`` and ``o`` in domain "sync".
    items : payloads in, as integers.
    expect : payloads out to wait for; some cycles more are watched for surplus ones.
    idle, stall : whether the sender or the receiver pauses, by cycle; a payload on offer stays.
    limit : cycles without a payload in or out until the component counts as stopped.
    resets : cycles with a reset, inserted around the component. The sender starts anew behind it.
    ignored : the component must not notice the resets, and the sender goes on.

    Raises
    ------
    StreamError
        When a payload on offer changes or goes away, or when the component stops.
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
                    f"For {limit} cycles {sent} of {len(items)} payloads are in and "
                    f"{len(trace.payloads)} of {expect} are out."
                )
            await ctx.tick()

    simulator = Simulator(ResetInserter(reset)(dut))
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return trace


def differs(payloads: Sequence[int], expected: Sequence[int]) -> str:
    """Compare payloads; the first difference as a sentence, or nothing."""
    for n, (payload, want) in enumerate(zip(payloads, expected, strict=False)):
        if payload != want:
            return f"Payload {n} is {payload:#x} instead of {want:#x}."
    if len(payloads) != len(expected):
        return f"{len(payloads)} payloads came instead of {len(expected)}."
    return ""


Data = list[list[list[int]]]

# The models: words are integers, a batch is a list of records, a record a list of words.


def batches(seed: int, *, word: int, record: int, counts: Sequence[int]) -> Data:
    """Random words; batch by batch, record by record."""
    rng = random.Random(seed)
    return [[[rng.getrandbits(word) for _ in range(record)] for _ in range(n)] for n in counts]


def concat(words: Sequence[int], word: int) -> int:
    """Words of a beat as one integer, word 0 at the bottom."""
    return sum(value << (word * k) for k, value in enumerate(words))


def wide_beats(batches: Data, *, word: int, words_per_beat: int) -> list[tuple[int, bool, int]]:
    """Dense beats as (data, last, words); padding is zero."""
    beats = []
    for batch in batches:
        words = [value for record in batch for value in record]
        starts = range(0, len(words), words_per_beat)
        for start in starts:
            part = words[start : start + words_per_beat]
            beats.append((concat(part, word), start == starts[-1], len(part)))
    return beats


def core_beats(batches: Data, *, word: int, lanes: int) -> list[tuple[int, bool, bool]]:
    """Record-aligned beats as (data, last of its record, of the last record of its batch)."""
    beats = []
    for batch in batches:
        for n, record in enumerate(batch):
            starts = range(0, len(record), lanes)
            for start in starts:
                data = concat(record[start : start + lanes], word)
                beats.append((data, start == starts[-1], n == len(batch) - 1))
    return beats
