"""Bench for components with several streams and pulses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from amaranth.hdl import ResetInserter, Signal, Value
from amaranth.sim import Simulator

from tests.gateware.link.streams import Pause, StreamError, never

Setter = Callable[[Any, int], None]


@dataclass
class Events:
    """Recorded events, by name of the stream or signal."""

    payloads: dict[str, list[int]] = field(default_factory=dict)
    """Payloads from a component's output."""
    accepted: dict[str, list[int]] = field(default_factory=dict)
    """Cycles in which a component's input accepted a payload."""
    delivered: dict[str, list[int]] = field(default_factory=dict)
    """Cycles in which an output's payloads were accepted."""
    watched: dict[str, list[int]] = field(default_factory=dict)
    """Value of a watched signal in every cycle."""
    cycles: int = 0


def run(
    dut: Any,
    *,
    sources: Mapping[str, Sequence[int]],
    sinks: Sequence[str],
    watch: Sequence[str] = (),
    idle: Mapping[str, Pause] | None = None,
    stall: Mapping[str, Pause] | None = None,
    every: Setter | None = None,
    tail: int = 20,
    limit: int = 400,
    cycles: int | None = None,
    withdrawn: bool = False,
    resets: Sequence[int] = (),
) -> Events:
    """Run until all payloads are sent and nothing is output any more, or for ``cycles``.

    Parameters
    ----------
    dut : component in domain "sync".
    sources : payloads for its input streams, as integers; an offered one stays.
    sinks : its output streams; their contract is checked, except with ``withdrawn``.
    watch : signals to record in every cycle.
    idle, stall : pauses of sources and sinks by name.
    every : called in each cycle before the outputs are sampled.
    tail : cycles without progress at the end.
    limit : cycles without progress that are an error if payloads remain.
    resets : cycles with an inserted reset of the component; sources and sinks continue.
    """
    events = Events(
        {name: [] for name in sinks},
        {name: [] for name in sources},
        {name: [] for name in sinks},
        {name: [] for name in watch},
    )
    idle, stall = idle or {}, stall or {}
    reset = Signal()

    async def bench(ctx: Any) -> None:
        sent = dict.fromkeys(sources, 0)
        pending = dict.fromkeys(sources, False)
        waiting: dict[str, int | None] = dict.fromkeys(sinks)
        progress = 0
        for cycle in range(cycles if cycles is not None else 1 << 30):
            ctx.set(reset, cycle in resets)
            if every is not None:
                every(ctx, cycle)
            for name, items in sources.items():
                port = getattr(dut, name)
                offers = sent[name] < len(items)
                pending[name] = offers and (pending[name] or not idle.get(name, never)(cycle))
                ctx.set(port.valid, pending[name])
                ctx.set(Value.cast(port.payload), items[sent[name]] if pending[name] else 0)
            ready = {name: not stall.get(name, never)(cycle) for name in sinks}
            for name in sinks:
                ctx.set(getattr(dut, name).ready, ready[name])
            for name in sinks:
                port = getattr(dut, name)
                payload = ctx.get(Value.cast(port.payload)) if ctx.get(port.valid) else None
                if waiting[name] is not None and payload != waiting[name] and not withdrawn:
                    raise StreamError(f"Cycle {cycle}: {name} changed while it waited.")
                waiting[name] = None if ready[name] else payload
                if payload is not None and ready[name]:
                    events.payloads[name].append(payload)
                    events.delivered[name].append(cycle)
                    progress = cycle
            for name in watch:
                events.watched[name].append(ctx.get(Value.cast(getattr(dut, name))))
            for name in sources:
                if pending[name] and ctx.get(getattr(dut, name).ready):
                    events.accepted[name].append(cycle)
                    sent[name], pending[name], progress = sent[name] + 1, False, cycle
            events.cycles = cycle + 1
            left = {name: len(items) - sent[name] for name, items in sources.items()}
            if cycles is None:
                if not any(left.values()) and cycle - progress > tail:
                    return
                if cycle - progress > limit:
                    raise StreamError(f"Nothing moved for {limit} cycles; left are {left}.")
            await ctx.tick()

    simulator = Simulator(ResetInserter(reset)(dut))
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return events
