"""Reset sequence over two clock domains."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In, Out

from pinion.gateware.component import Component

SETTLE = 8
"""Link cycles for which both resets are held once the core is known to be in reset."""


class ResetSequencer(Component):
    """State machine that resets the stream path and the core, and loses no request on release.

    Both resets begin at once. They are held until the core's domain has responded, the counters of
    the crossings have settled, and no response packet is open. Then the core is released first, and
    the stream path after the core's domain has responded again, so that the core accepts every
    request that crosses. A configuration reset uses the same sequence.

    Members
    -------
    held : In(1)
        The host holds the soft reset. A pulse of one cycle starts the whole sequence.
    open : In(1)
        A response packet is open, or offered to the host.
    core_down : In(1)
        The core's domain has been in reset for some cycles; synchronised.
    stream_clear, core_clear : Out(1)
        Resets of the stream path and of the core, from registers; asserted at configuration.
    drain : Out(1)
        Accept and drop request beats. Not after a configuration reset: earlier beats are lost, and
        later beats wait.
    in_reset : Out(1)
        The soft reset is held and has taken effect.

    Latency: 1 cycle from ``held`` to the resets.
    Throughput: one reset at a time.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "held": In(1),
                "open": In(1),
                "core_down": In(1),
                "stream_clear": Out(1, init=1),
                "core_clear": Out(1, init=1),
                "drain": Out(1),
                "in_reset": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the state machine, and a latch for one-cycle pulses of ``held``."""
        m = Module()
        requested = Signal(name="asked")
        settled = Signal(range(SETTLE + 1))
        with m.If(self.held):
            m.d.sync += requested.eq(1)
        with m.FSM():
            with m.State("CLEAR"):
                with m.If(~self.core_down):
                    m.d.sync += settled.eq(0)
                with m.Elif(settled != SETTLE):
                    m.d.sync += settled.eq(settled + 1)
                with m.If((settled == SETTLE) & ~self.open):
                    m.next = "HELD"
            with m.State("HELD"):
                m.d.comb += self.in_reset.eq(self.drain)
                with m.If(~self.held):
                    m.d.sync += [requested.eq(0), self.core_clear.eq(0), self.drain.eq(0)]
                    m.next = "LEAVE"
            with m.State("LEAVE"):
                m.d.sync += settled.eq(0)
                with m.If(~self.core_down):
                    m.d.sync += self.stream_clear.eq(0)
                    m.next = "RUN"
            with m.State("RUN"), m.If(requested):
                m.d.sync += [
                    self.stream_clear.eq(1),
                    self.core_clear.eq(1),
                    self.drain.eq(1),
                ]
                m.next = "CLEAR"
        return m
